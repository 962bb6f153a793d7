package adf

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stream"
)

// lists are rows of names, each with some of p, as a list of features gives them.
type lists struct {
	names [][]string
	y     []float64
}

func newLists(n, p, nnz int, seed uint64) *lists {
	r := rand.New(rand.NewPCG(seed, 5))
	w := make([]float64, p)
	for i := range w {
		w[i] = r.NormFloat64()
	}
	l := &lists{}
	for range n {
		s, y := -0.5, 0.0
		var names []string
		for _, k := range r.Perm(p)[:nnz] {
			names = append(names, fmt.Sprintf("w%03d", k))
			s += w[k]
		}
		if s+r.NormFloat64() > 0 {
			y = 1
		}
		l.names, l.y = append(l.names, names), append(l.y, y)
	}
	return l
}

// feed gives rows [lo, hi) to s, so many at a time.
func (l *lists) feed(t *testing.T, s *stream.State, lo, hi, together int) {
	t.Helper()
	d := s.Features()
	for lo < hi {
		var b kernels.Batch
		b.Reset()
		for ; b.Len() < together && lo < hi; lo++ {
			b.Add(0, 1)
			for _, name := range l.names[lo] {
				id, err := d.Add(name)
				if err != nil {
					t.Fatal(err)
				}
				b.Add(id, 1)
			}
			b.EndRow()
			b.Y = append(b.Y, l.y[lo])
			if s.Model().HasTime {
				b.Time = append(b.Time, float64(lo)/3)
			}
		}
		update(t, s, &b)
	}
}

// With no more weights than the block has room for, names and levels have the full filter's
// answer.
func TestTiedIsFull(t *testing.T) {
	l := newLists(600, 50, 6, 3)
	tb := newTable(600, 40, 9, 5, true)
	for _, family := range []string{"bernoulli", "poisson"} {
		m := tiedModel(t, family, kernels.Options{})
		full := *m
		full.Options.Covariance = "full"
		for name, feed := range map[string]func(*stream.State){
			"lists": func(s *stream.State) { l.feed(t, s, 0, 600, 100) }, "levels": func(s *stream.State) { tb.feed(t, s, 0, 600) },
		} {
			s := newTiedState(t, m)
			feed(s)
			g, err := filter.New(&full, filter.ADF{})
			if err != nil {
				t.Fatal(err)
			}
			feed(g)
			got, want := fitOf(t, s), fitOf(t, g)
			for k, w := range want.Beliefs {
				b := got.Beliefs[k]
				what := family + ", " + name + ": " + w.Feature
				kerneltest.Close(t, what, b.Mean, w.Mean, kerneltest.Tol{Rel: 1e-8, Abs: 1e-9})
				kerneltest.Close(t, what+", variance", b.Variance, w.Variance, kerneltest.Tol{Rel: 1e-8})
			}
			kerneltest.Close(t, family+", "+name+": log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-9})
		}
	}
}

// closeFits compares all numbers of two fits.
func closeFits(t *testing.T, what string, got, want *kernels.Fit, tol kerneltest.Tol) {
	t.Helper()
	if len(got.Beliefs) != len(want.Beliefs) || len(got.Covariance.Values) != len(want.Covariance.Values) {
		t.Fatalf("%s: %d beliefs and %d numbers of the covariance, want %d and %d", what, len(got.Beliefs), len(got.Covariance.Values), len(want.Beliefs), len(want.Covariance.Values))
	}
	for k, w := range want.Beliefs {
		kerneltest.Close(t, what+": mean of "+w.Feature, got.Beliefs[k].Mean, w.Mean, tol)
		kerneltest.Close(t, what+": variance of "+w.Feature, got.Beliefs[k].Variance, w.Variance, tol)
	}
	for i, v := range want.Covariance.Values {
		kerneltest.Close(t, what+": covariance", got.Covariance.Values[i], v, tol)
	}
	kerneltest.Close(t, what+": log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-12})
}

// Whether the block has room for all, for some, or had it until there were too many: what a
// run comes to does not depend on how many rows come at a time, nor on whether it was
// stopped and continued.
func TestTiedShapes(t *testing.T) {
	for _, c := range []struct {
		p, la int // names in lists, levels of a table
		drift bool
	}{{50, 40, false}, {100, 90, false}, {260, 300, false}, {14, 9, true}, {40, 60, true}} {
		m := tiedModel(t, "bernoulli", kernels.Options{})
		tol := kerneltest.Tol{}
		if c.drift {
			m.Noise, m.HasTime = 1e-3, true
			tol = kerneltest.Tol{Rel: 1e-10, Abs: 1e-11}
		}
		l, tb := newLists(800, c.p, 5, uint64(c.p)), newTable(800, c.la, 3, uint64(c.la), true)
		for name, feed := range map[string]func(s *stream.State, lo, hi, together int){
			"lists":  func(s *stream.State, lo, hi, together int) { l.feed(t, s, lo, hi, together) },
			"levels": func(s *stream.State, lo, hi, _ int) { tb.feed(t, s, lo, hi) },
		} {
			what := fmt.Sprintf("%s of %d and %d", name, c.p, c.la)
			whole := newTiedState(t, m)
			feed(whole, 0, 800, 1000)
			want := fitOf(t, whole)
			byOne := newTiedState(t, m)
			feed(byOne, 0, 800, 1)
			closeFits(t, what+", one by one", fitOf(t, byOne), want, kerneltest.Tol{})
			s := newTiedState(t, m)
			for _, cut := range [][2]int{{0, 7}, {7, 60}, {60, 400}, {400, 800}} {
				feed(s, cut[0], cut[1], 50)
				if cut[1] < 800 {
					next := *m
					next.Start = fitOf(t, s)
					s = newTiedState(t, &next)
				}
			}
			got := fitOf(t, s)
			got.Covariance, want.Covariance = kernels.Covariance{}, kernels.Covariance{} // leaves may lie in another order
			closeFits(t, what+", continued", got, want, tol)
			if t.Failed() {
				return
			}
		}
	}
}

// Parts that have different weights in their blocks are merged: the answer is near the run
// over all rows, and the same from the states and from their fits.
func TestTiedMergeShapes(t *testing.T) {
	for _, p := range []int{30, 100, 300} {
		for _, from := range []bool{false, true} {
			l := newLists(3000, p, 5, uint64(p))
			m := tiedModel(t, "bernoulli", kernels.Options{})
			lo := 0
			if from {
				s := newTiedState(t, m)
				l.feed(t, s, 0, 300, 50)
				next := *m
				next.Start, m, lo = fitOf(t, s), &next, 300
			}
			whole := newTiedState(t, m)
			l.feed(t, whole, lo, 3000, 100)
			want := fitOf(t, whole)
			var parts []*kernels.Fit
			var all *stream.State
			for _, cut := range [][2]int{{lo, 1000}, {1000, 1010}, {1010, 2000}, {2000, 3000}} {
				s := newTiedState(t, m)
				l.feed(t, s, cut[0], cut[1], 100)
				parts = append(parts, fitOf(t, s))
				if all == nil {
					all = s
				} else if err := all.Merge(context.Background(), s); err != nil {
					t.Fatal(err)
				}
			}
			got := fitOf(t, all)
			if d := got.Covariance.Rank; d > maxJoined {
				t.Errorf("%d names: %d weights in the block", p, d)
			}
			merged, err := kernels.MergeFits(context.Background(), parts, m.Start, MergeArrowheads)
			if err != nil {
				t.Fatal(err)
			}
			far := 0
			for k, w := range want.Beliefs {
				b := got.Beliefs[k]
				kerneltest.Close(t, "merged mean of "+w.Feature, merged.Beliefs[k].Mean, b.Mean, kerneltest.Tol{Rel: 1e-6, Abs: 1e-7})
				kerneltest.Close(t, "merged variance of "+w.Feature, merged.Beliefs[k].Variance, b.Variance, kerneltest.Tol{Rel: 1e-6})
				if sd := math.Sqrt(w.Variance); math.Abs(b.Mean-w.Mean) > sd || math.Abs(math.Sqrt(b.Variance)-sd) > 0.15*sd {
					far++
				}
			}
			if far > len(want.Beliefs)/10 {
				t.Errorf("%d names, from %v: %d of %d weights are far from those of the run over all rows", p, from, far, len(want.Beliefs))
			}
			if t.Failed() {
				return
			}
		}
	}
}
