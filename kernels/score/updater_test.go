package score_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/score"
)

func observation(i int) score.Observation {
	return score.Observation{Row: score.Row{Names: []string{fmt.Sprint("site=", i%7), "ad", "ad"}}, Y: float64(i * i % 5 % 2)}
}

// An Updater learns what adf learns and publishes by rows.
func TestUpdaterIsADF(t *testing.T) {
	u, err := score.NewUpdater(nil, score.Publishing{Rows: 10})
	if err != nil {
		t.Fatal(err)
	}
	if u.Snapshot().Features() != 1 || u.Snapshot().Fit().N != 0 {
		t.Errorf("before the first row: %+v", u.Snapshot().Fit())
	}
	s, err := adf.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 25 {
		o := observation(i)
		if err := u.Learn(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if n := u.Snapshot().Fit().N; n != int64((i+1)/10*10) {
			t.Fatalf("%d rows are published after %d", n, i+1)
		}
		var b kernels.Batch
		b.Add(0, 1)
		for _, name := range o.Names {
			id, _ := s.Features().Add(name)
			b.Add(id, 1)
		}
		b.SumDuplicates(new(kernels.Scratch))
		b.EndRow()
		b.Y = []float64{o.Y}
		if err := s.Update(t.Context(), &b, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, err := s.Fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := u.Snapshot().Fit()
	if fmt.Sprint(got.Beliefs) != fmt.Sprint(want.Beliefs) || got.N != want.N || got.LogEvidence != want.LogEvidence {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Readers and writers run at once; every Snapshot is whole.
func TestUpdaterConcurrent(t *testing.T) {
	u, err := score.NewUpdater(nil, score.Publishing{Rows: 20, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			last := int64(0)
			for ctx.Err() == nil {
				s := u.Snapshot()
				if s.Fit().N < last {
					t.Errorf("a Snapshot of %d rows after one of %d", s.Fit().N, last)
					return
				}
				last = s.Fit().N
				p, err := s.Predict(score.Row{Names: []string{"site=1", "ad"}}, predict.Exact)
				if err != nil || !(p > 0 && p < 1) {
					t.Errorf("%v %v", p, err)
					return
				}
			}
		})
	}
	const each = 200
	for w := range 3 {
		writers.Go(func() {
			for i := range each {
				if err := u.Learn(ctx, observation(w+i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	cancel()
	readers.Wait()
	if err := u.Publish(context.Background()); err != nil || u.Snapshot().Fit().N != 3*each {
		t.Errorf("%v, %d rows of %d", err, u.Snapshot().Fit().N, 3*each)
	}
}

// A few rows are published when the interval is over.
func TestUpdaterInterval(t *testing.T) {
	u, err := score.NewUpdater(nil, score.Publishing{Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for round := range int64(2) {
		if err := u.Learn(t.Context(), observation(1)); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); u.Snapshot().Fit().N != round+1; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nothing is published")
			}
		}
	}
}

func TestUpdaterErrors(t *testing.T) {
	var zero score.Updater
	if err := zero.Learn(t.Context()); err == nil || zero.Publish(t.Context()) == nil || zero.Snapshot() != nil {
		t.Errorf("the zero Updater: %v", err)
	}
	if _, err := score.NewUpdater(nil, score.Publishing{Rows: -1}); err == nil {
		t.Error("-1 rows")
	}
	u, err := score.NewUpdater(&kernels.Model{MaxFeatures: 3}, score.Publishing{})
	if err != nil {
		t.Fatal(err)
	}
	good := observation(0)
	for want, bad := range map[string]score.Observation{
		"row 2: y = 2":                    {Y: 2},
		"row 2: 1 names and 0 values":     {Row: score.Row{Names: []string{"a"}, Values: []float64{}}},
		"row 2: its values":               {Row: score.Row{Names: []string{"a"}, Values: []float64{math.Inf(1)}}},
		"row 2: weight = -1":              {Weight: -1},
		`row 2: feature "(Intercept)" is`: {Row: score.Row{Names: []string{"a", "(Intercept)"}, Values: []float64{1, 2}}},
		"more than max_features = 3 fea":  {Row: score.Row{Names: []string{"a", "b", "c"}}},
	} {
		if err := u.Learn(t.Context(), good, bad); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := u.Publish(t.Context()); err != nil || u.Snapshot().Fit().N != 0 || u.Snapshot().Features() != 1 {
		t.Errorf("%v, %d rows and %d features of bad calls were learnt", err, u.Snapshot().Fit().N, u.Snapshot().Features())
	}
}

// A row that only what is believed by then makes impossible is named, and what is learnt of the
// call is said and published.
func TestUpdaterErrorInTheMidst(t *testing.T) {
	u, err := score.NewUpdater(nil, score.Publishing{Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	far := score.Observation{Row: score.Row{Names: []string{"b"}, Values: []float64{1e200}}}
	if err := u.Learn(t.Context(), far, observation(1)); err == nil || !strings.HasPrefix(err.Error(), "row 1: the linear predictor overflows") || strings.Contains(err.Error(), "learnt") {
		t.Errorf("error %v", err)
	}
	if err := u.Learn(t.Context(), observation(1), observation(2), far, observation(3)); err == nil || !strings.HasPrefix(err.Error(), "row 3: the linear predictor overflows") || !strings.HasSuffix(err.Error(), "; the rows before it are learnt") {
		t.Errorf("error %v", err)
	}
	for end := time.Now().Add(10 * time.Second); u.Snapshot().Fit().N != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d rows of 2 are published", u.Snapshot().Fit().N)
		}
	}
}

// endsAtOnce has ended from the second time on that it is asked.
type endsAtOnce struct {
	context.Context
	n *int
}

func (c endsAtOnce) Err() error {
	if *c.n++; *c.n > 1 {
		return context.Canceled
	}
	return nil
}

// Where a context ends while a Snapshot is made, the rows are in the next one.
func TestUpdaterCancelledSnapshot(t *testing.T) {
	u, err := score.NewUpdater(nil, score.Publishing{Rows: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Learn(endsAtOnce{t.Context(), new(int)}, observation(1), observation(2)); err != nil {
		t.Errorf("rows that are learnt are an error: %v", err)
	}
	if n := u.Snapshot().Fit().N; n != 0 {
		t.Fatalf("the Snapshot of %d rows was made; the test needs one that is cut off", n)
	}
	if err := u.Learn(t.Context()); err != nil || u.Snapshot().Fit().N != 2 {
		t.Errorf("%v, %d rows of 2", err, u.Snapshot().Fit().N)
	}
	if u, err = score.NewUpdater(nil, score.Publishing{Interval: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for round := range int64(50) {
		if err := u.Learn(t.Context(), observation(1)); err != nil {
			t.Fatal(err)
		}
		if err := u.Publish(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		for end := time.Now().Add(10 * time.Second); u.Snapshot().Fit().N != round+1; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nothing is published")
			}
		}
	}
}

// A context that has ended is an error, and nothing is learnt; one that ends later harms nothing.
func TestUpdaterCancelled(t *testing.T) {
	u, err := score.NewUpdater(nil, score.Publishing{Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := u.Learn(ctx, observation(1)); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
	if n := u.Snapshot().Fit().N; n != 0 {
		t.Errorf("%d rows are learnt", n)
	}
	if err := u.Learn(t.Context(), observation(1)); err != nil || u.Snapshot().Fit().N != 1 || u.Snapshot().Features() != 3 {
		t.Errorf("%v: %+v", err, u.Snapshot().Fit())
	}
}

// Rows that come while another call makes a Snapshot are in one once all calls have returned.
func TestUpdaterLeavesNoRow(t *testing.T) {
	u, err := score.NewUpdater(nil, score.Publishing{Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 3000 { // so that a Snapshot takes longer than a row
		names = append(names, fmt.Sprint("f", i))
	}
	if err := u.Learn(t.Context(), score.Observation{Row: score.Row{Names: names}}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if err := u.Learn(t.Context(), observation(1)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := u.Snapshot().Fit().N; n != 41 {
		t.Errorf("%d rows are published", n)
	}
}

// An Updater that continues a fit treats missing numbers as the fit does: as their mean, with a weight of
// being missing.
func TestUpdaterMissing(t *testing.T) {
	var year, y []float64
	for i := range 300 {
		year, y = append(year, 1990+float64(i*7%20)), append(y, float64(i*i%5%2))
	}
	r, err := engine.Fit(t.Context(), "adf", nil, &rows.Table{X: rows.Fields(rows.Numbers("year", year)), Y: rows.Numbers("y", y)})
	if err != nil {
		t.Fatal(err)
	}
	u, err := score.NewUpdater(&kernels.Model{Start: r.Fit}, score.Publishing{Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	scored := func(year float64) float64 {
		p, err := u.Snapshot().Predict(score.Row{Names: []string{"year"}, Values: []float64{year}}, predict.Exact)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	old, recent := scored(1990), scored(2009)
	for range 20 {
		if err := u.Learn(t.Context(), score.Observation{Row: score.Row{Names: []string{"year"}, Values: []float64{math.NaN()}}, Y: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := scored(1990), scored(2009); math.Abs(a-old) > 0.05 || math.Abs(b-recent) > 0.05 {
		t.Errorf("predictions of years %.3f, %.3f; after rows without one %.3f, %.3f", old, recent, a, b)
	}
	if p := scored(math.NaN()); !(p > 0.8) {
		t.Errorf("a missing year: %.3f", p)
	}
}

// A fit of rows without beliefs has nothing to predict with.
func TestNoBeliefs(t *testing.T) {
	lists := rows.Lists([][]float64{{1}, {2}, {3}})
	gp, err := engine.Fit(t.Context(), "gp", nil, &rows.Table{X: lists, Y: rows.Numbers("y", []float64{0, 1, 1})})
	if err != nil {
		t.Fatal(err)
	}
	const want = "a fit of 3 rows by gp has no beliefs"
	if _, err := score.New(gp.Fit); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	if _, err := score.NewUpdater(&kernels.Model{Start: gp.Fit}, score.Publishing{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	if _, err := kernels.MergeFits(t.Context(), []*kernels.Fit{gp.Fit, gp.Fit}, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}
