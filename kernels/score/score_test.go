package score_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/score"
)

// fitOf is a made-up fit of p features and a covariance of the form.
func fitOf(t testing.TB, rng *rand.Rand, family, link string, p int, form gauss.Form, intercept bool, hashBits int) *kernels.Fit {
	t.Helper()
	l, err := lik.New(family, link, lik.Params{Dispersion: 1.5, Shape: 3})
	if err != nil {
		t.Fatal(err)
	}
	bs := make([]kernels.Belief, 0, p)
	names := map[string]bool{}
	for j := range p {
		name := nameOf(rng, j)
		if hashBits > 0 {
			name = fmt.Sprintf("#%d", rng.IntN(1<<hashBits))
		}
		if names[name] {
			continue
		}
		names[name] = true
		bs = append(bs, kernels.Belief{Feature: name, Weight: kernels.Weight{Mean: rng.NormFloat64() / 4, Variance: rng.ExpFloat64() / 8}})
	}
	f, err := kernels.FromBeliefs(bs, &kernels.Model{Lik: l, NoIntercept: !intercept, Prior: kernels.Prior{Mean: 0.01, Variance: 0.2, InterceptVariance: 0.3}, HashBits: hashBits})
	if err != nil {
		t.Fatal(err)
	}
	p = len(f.Beliefs)
	switch c := &f.Covariance; form {
	case gauss.Full:
		*c = kernels.Covariance{Form: gauss.Full}
		for j := range p {
			total := 0.0
			for range j + 1 {
				x := rng.NormFloat64() * 0.1
				total += x * x
				c.Values = append(c.Values, x)
			}
			f.Beliefs[j].Variance = total
		}
	case gauss.LowRank:
		*c = kernels.Covariance{Form: gauss.LowRank, Rank: 3}
		for j := range p {
			d := f.Beliefs[j].Variance
			c.Values = append(c.Values, d)
			for range 3 {
				x := rng.NormFloat64() * math.Sqrt(d/(50*float64(p)))
				c.Values = append(c.Values, x)
				f.Beliefs[j].Variance -= x * x
			}
		}
	}
	return f
}

func nameOf(rng *rand.Rand, j int) string {
	switch j % 4 {
	case 0:
		return strings.Repeat("x", rng.IntN(18)) + fmt.Sprint(j)
	case 1:
		return fmt.Sprint(j)
	case 2:
		return fmt.Sprintf("origin=%d", j)
	}
	return fmt.Sprintf("a column of a long name=%d", j)
}

// Every family, form of covariance, width of a row and kind of prediction: the bits
// are those of package predict.
func TestSameAsPredict(t *testing.T) {
	for _, in := range lik.Families() {
		for _, link := range in.Links {
			rapid.Check(t, func(rt *rapid.T) {
				form := rapid.SampledFrom([]gauss.Form{gauss.Diagonal, gauss.Full, gauss.LowRank}).Draw(rt, "form")
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
				bits := rapid.SampledFrom([]int{0, 0, 4}).Draw(rt, "hash_bits")
				f := fitOf(t, rng, in.Family, link, rapid.IntRange(0, 30).Draw(rt, "p"), form, rapid.Bool().Draw(rt, "intercept"), bits)
				if form != gauss.LowRank && rapid.Bool().Draw(rt, "foretold") {
					f.Keep(kernels.KeptPredictive, 0.2+rng.Float64(), rng.Float64())
				}
				s, err := score.New(f)
				if err != nil {
					rt.Fatal(err)
				}
				want, err := predict.New(f)
				if err != nil {
					rt.Fatal(err)
				}
				for range 3 {
					r := score.Row{Offset: rng.NormFloat64()}
					for range rapid.SampledFrom([]int{0, 1, 5, 10, 32, 33, 60}).Draw(rt, "width") {
						name := nameOf(rng, rng.IntN(40))
						if len(f.Beliefs) > 0 && rng.IntN(2) == 0 {
							name = f.Beliefs[rng.IntN(len(f.Beliefs))].Feature
						} else if rng.IntN(20) == 0 {
							name = kernels.Intercept
						}
						r.Names = append(r.Names, name)
						r.Values = append(r.Values, rng.NormFloat64())
					}
					b, err := want.Row(r.Names, r.Values, r.Offset)
					if err != nil {
						rt.Fatal(err)
					}
					wm, wv, werr := want.Linear(b, 0)
					m, v, err := s.Linear(r)
					if m != wm || v != wv || (err == nil) != (werr == nil) {
						rt.Fatalf("%s %s %v: N(%v, %v) %v, want N(%v, %v) %v", in.Family, link, form, m, v, err, wm, wv, werr)
					}
					for _, kind := range []predict.Kind{predict.Exact, predict.MacKay, predict.Plugin} {
						y, _ := s.Predict(r, kind)
						wy, _ := want.Predict(b, 0, kind)
						if math.Float64bits(y) != math.Float64bits(wy) {
							rt.Fatalf("%s %s %v %v: %v, want %v", in.Family, link, form, kind, y, wy)
						}
					}
					d, err := s.Dist(r, 0.9)
					wd, werr := want.Dist(b, 0, 0.9)
					if d != wd || (err == nil) != (werr == nil) {
						rt.Fatalf("%+v %v, want %+v %v", d, err, wd, werr)
					}
				}
			})
		}
	}
}

func TestErrors(t *testing.T) {
	f := fitOf(t, rand.New(rand.NewPCG(1, 2)), "bernoulli", "logit", 5, gauss.Diagonal, true, 0)
	s, err := score.New(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		row  score.Row
		want string
	}{
		{score.Row{Names: []string{"a"}, Values: []float64{1, 2}}, "1 names and 2 values"},
		{score.Row{Names: []string{"a"}, Values: []float64{math.NaN()}}, "linear predictor"},
		{score.Row{Names: []string{"a"}, Values: []float64{1e200}}, "scale the features down"},
		{score.Row{Names: []string{"a", kernels.Intercept}, Values: []float64{2, 1}}, "is the intercept, which every row has by itself"},
		{score.Row{Names: append(make([]string, 40), kernels.Intercept)}, "is the intercept, which every row has by itself"},
	} {
		if _, err := s.Predict(c.row, predict.Exact); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	one, _, _ := s.Linear(score.Row{})
	if m, _, err := s.Linear(score.Row{Names: []string{kernels.Intercept}, Values: []float64{-1}}); err != nil || one == 0 || m != 0 {
		t.Errorf("a row without the intercept: %v, %v", m, err)
	}
	if _, err := s.Dist(score.Row{}, 1); err == nil {
		t.Error("a level of 1")
	}
	var zero score.Snapshot
	if _, err := zero.Predict(score.Row{}, predict.Exact); err == nil || zero.Features() != 0 || zero.Fit() != nil {
		t.Errorf("the zero Snapshot: %v", err)
	}
	f.Classes = []string{"a"}
	if _, err := score.New(f); err == nil || !strings.Contains(err.Error(), "softmax") {
		t.Errorf("classes: %v", err)
	}
}

// Rows are scored without allocation, by many goroutines at once.
func TestAllocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		form  gauss.Form
		width int
		bits  int
	}{{gauss.Diagonal, 10, 0}, {gauss.Diagonal, 10, 6}, {gauss.Diagonal, 100, 0}, {gauss.Full, 10, 0}, {gauss.LowRank, 10, 0}} {
		f := fitOf(t, rng, "bernoulli", "logit", 200, c.form, true, c.bits)
		s, err := score.New(f)
		if err != nil {
			t.Fatal(err)
		}
		var r score.Row
		for j := range c.width {
			r.Names = append(r.Names, nameOf(rng, j))
			r.Values = append(r.Values, 1)
		}
		for _, kind := range []predict.Kind{predict.Exact, predict.MacKay, predict.Plugin} {
			limit := 0.0
			if c.width > 32 || c.form != gauss.Diagonal {
				limit = 0.5 // a pool may be emptied by the collector
			}
			got := testing.AllocsPerRun(200, func() {
				if _, err := s.Predict(r, kind); err != nil {
					t.Fatal(err)
				}
			})
			if raceDetector {
				continue // which drops what pools hold
			}
			if got > limit {
				t.Errorf("%+v %v: %v allocations a row", c, kind, got)
			}
		}
		want, _ := s.Predict(r, predict.Exact)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 200 {
					if y, err := s.Predict(r, predict.Exact); y != want || err != nil {
						t.Errorf("%v %v, want %v", y, err, want)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

func BenchmarkPredict(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, p := range []int{100, 5000, 1_000_000} {
		bs := []kernels.Belief{{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: -1, Variance: 0.01}}}
		for j := range p {
			bs = append(bs, kernels.Belief{Feature: fmt.Sprintf("origin=%d", j), Weight: kernels.Weight{Mean: rng.NormFloat64() / 4, Variance: 0.02}})
		}
		rows := make([]score.Row, 1000)
		for i := range rows {
			for range 10 {
				rows[i].Names = append(rows[i].Names, bs[1+rng.IntN(p)].Feature)
				rows[i].Values = append(rows[i].Values, 1)
			}
		}
		for _, link := range []string{"logit", "probit"} {
			l, err := lik.New("", link, lik.Params{})
			if err != nil {
				b.Fatal(err)
			}
			s, err := score.FromBeliefs(bs, &kernels.Model{Lik: l})
			if err != nil {
				b.Fatal(err)
			}
			for _, kind := range []predict.Kind{predict.Exact, predict.MacKay, predict.Plugin} {
				b.Run(fmt.Sprintf("p=%d/link=%s/%v", p, link, kind), func(b *testing.B) {
					b.ReportAllocs()
					i, total := 0, 0.0
					start := cpuTime()
					for b.Loop() {
						y, err := s.Predict(rows[i], kind)
						if err != nil {
							b.Fatal(err)
						}
						total += y
						if i++; i == len(rows) {
							i = 0
						}
					}
					if total == 0 {
						b.Fatal("nothing was scored")
					}
					b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
				})
			}
		}
	}
}
