package adf

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stream"
)

// sidesOf are n rows of nnz of p words, whose weights are N(0, 1), with the response by the side
// on which they lie.
func sidesOf(n, p, nnz int, seed uint64) *lists {
	return answersOf(newLists(n, p, nnz, seed), 1, rand.New(rand.NewPCG(seed, 7)), func(s float64) bool { return s > 0 })
}

// Rows that a prior is right for hardly ever enlarge the weights: the slope has the mean 0 and the
// variance of its information, but that the intercept's prior is wider than need be. Rows that the
// weights separate enlarge them.
func TestSize(t *testing.T) {
	kerneltest.Slow(t)
	const runs = 60
	larger, mean, square := 0, 0.0, 0.0
	for k := range uint64(runs) {
		l := spreadOf(800, 50, 5, 1, 100+k)
		s := newTiedState(t, learning(t))
		l.feed(t, s, 0, 800, 1000)
		f := s.Beliefs().(*tied)
		if f.base != 1 {
			larger++
			continue
		}
		z := f.size.slope / math.Sqrt(f.size.curvature)
		mean += z / runs
		square += z * z / runs
	}
	if larger > 3 || !(math.Abs(mean) < 0.8) || !(square > 0.5 && square < 1.6) {
		t.Errorf("%d of %d runs enlarged; slopes in their deviations: mean %v, square %v", larger, runs, mean, square)
	}

	for _, p := range []int{50, 150} { // all in the block, and with leaves
		l := sidesOf(4000, p, 5, 7)
		losses := map[bool]float64{}
		for _, learns := range []bool{false, true} {
			s := newTiedState(t, tiedModel(t, "bernoulli", kernels.Options{AutoPrior: learns}))
			l.feed(t, s, 0, 4000, 1000)
			f := fitOf(t, s)
			losses[learns] = -f.LogEvidence
			if v := f.Prior.Variance; learns && !(v > 10) {
				t.Errorf("%d weights: prior variance %v where they separate the rows", p, v)
			}
		}
		if !(losses[true] < 0.8*losses[false]) {
			t.Errorf("%d weights: log loss of the rows %v, of one prior %v", p, losses[true], losses[false])
		}
	}
}

// Weights far larger than the prior before any row get the variance that they have: 2.6 and 3.9
// where they were not enlarged.
func TestSizeOfLargeWeights(t *testing.T) {
	kerneltest.Slow(t)
	for sd, within := range map[float64][2]float64{2: {3, 5}, 4: {11, 21}} {
		const runs = 8
		mean := 0.0
		for k := range uint64(runs) {
			l := spreadOf(3000, 60, 6, sd, 50+k)
			s := newTiedState(t, learning(t))
			l.feed(t, s, 0, 3000, 1000)
			mean += fitOf(t, s).Prior.Variance / runs
		}
		if !(mean > within[0] && mean < within[1]) {
			t.Errorf("weights of deviation %v: variance %v", sd, mean)
		}
	}
}

// The slope is that of log Z where the predictor is e^r times as large, by differences.
func TestSizeSlope(t *testing.T) {
	l := sidesOf(60, 50, 5, 3)
	m := learning(t)
	s := newTiedState(t, m)
	l.feed(t, s, 0, 50, 1000)
	f := s.Beliefs().(*tied)
	for i := 50; i < 60; i++ {
		var b kernels.Batch
		b.Add(0, 1)
		for _, name := range l.names[i] {
			add(t, s.Features(), &b, name, 1)
		}
		b.EndRow()
		b.Y = append(b.Y, l.y[i])
		fs, xs := b.Entries(0)
		mean, v := f.predict(0, fs, xs, 0)
		logZ := func(r float64) float64 {
			c := math.Exp(r)
			return m.Lik.Moments(b.Obs(0), c*mean, c*c*v).LogZ
		}
		const h = 1e-4
		before := f.size.slope
		update(t, s, &b)
		kerneltest.Close(t, fmt.Sprintf("row %d", i), f.size.slope-before, (logZ(h)-logZ(-h))/(2*h), kerneltest.Tol{Rel: 1e-4, Abs: 1e-6})
	}
}

// What rows told of the size is kept in a fit to the last bit, before and after weights became
// larger, and that of parts adds up.
func TestSizeKept(t *testing.T) {
	const n = 2500
	l := sidesOf(n, 150, 5, 5)
	m := learning(t)
	whole := newTiedState(t, m)
	l.feed(t, whole, 0, n, 1000)
	want := fitOf(t, whole)
	s := newTiedState(t, m)
	var parts []*stream.State
	for _, cut := range [][2]int{{0, 40}, {40, 500}, {500, 1300}, {1300, n}} {
		part := newTiedState(t, m)
		l.feed(t, part, cut[0], cut[1], 1000)
		parts = append(parts, part)
		l.feed(t, s, cut[0], cut[1], 300)
		if cut[1] < n {
			next := *m
			next.Start = fitOf(t, s)
			next.Prior = next.Start.Prior
			s = newTiedState(t, &next)
		}
	}
	got := fitOf(t, s)
	base, _, ok := want.Kept(kernels.KeptBase)
	if !ok || !(base > 1) {
		t.Errorf("base %v", base)
	}
	got.Covariance, want.Covariance = kernels.Covariance{}, kernels.Covariance{} // leaves may lie in another order
	closeFits(t, "continued", got, want, kerneltest.Tol{})

	none := newTiedState(t, m)
	for _, merge := range []struct {
		what    string
		s, with *stream.State
	}{{"with nothing", whole, newTiedState(t, m)}, {"nothing with it", none, whole}} {
		if err := merge.s.Merge(context.Background(), merge.with); err != nil {
			t.Fatal(err)
		}
		got := fitOf(t, merge.s)
		if b, _, _ := got.Kept(kernels.KeptBase); b != base || got.Prior != want.Prior {
			t.Errorf("%s: base %v, %v, want %v, %v", merge.what, b, got.Prior, base, want.Prior)
		}
	}
	a, b := parts[2].Beliefs().(*tied).size, parts[3].Beliefs().(*tied).size
	if err := parts[2].Merge(context.Background(), parts[3]); err != nil {
		t.Fatal(err)
	}
	f := parts[2].Beliefs().(*tied)
	if sum := a.plus(b, hint{}); !(sum.curvature > 0) || f.size.curvature != sum.curvature {
		t.Errorf("parts told %v, %v, together %v", a, b, f.size)
	}
}
