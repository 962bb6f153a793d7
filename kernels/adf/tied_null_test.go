package adf

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stream"
)

// gaps are rows with a column of many levels, numbers and columns of two levels, of which
// several are missing in the same rows.
type gaps struct {
	names [][]string
	xs    [][]float64
	y     []float64
	cols  *kernels.Columns
}

func newGaps(n int, seed uint64) *gaps {
	r := rand.New(rand.NewPCG(seed, 7))
	const each, levels = 8, 260
	g := &gaps{}
	text, numbers := []string{"a"}, []string(nil)
	for k := range each {
		text, numbers = append(text, fmt.Sprintf("t%d", k)), append(numbers, fmt.Sprintf("u%d", k))
	}
	g.cols = kernels.NewColumns(text, numbers)
	w := make([]float64, levels)
	for i := range w {
		w[i] = 0.7 * r.NormFloat64()
	}
	for range n {
		a := r.IntN(levels)
		names, xs, s := []string{"", fmt.Sprintf("a=%d", a)}, []float64{1, 1}, w[a]-0.3
		numbersGone, textGone := r.IntN(12) == 0, r.IntN(12) == 0
		for k := range each {
			switch u := r.NormFloat64(); {
			case numbersGone || r.IntN(300) == 0:
				names, xs = append(names, fmt.Sprintf("u%d IS NULL", k)), append(xs, 1)
			default:
				names, xs, s = append(names, fmt.Sprintf("u%d", k)), append(xs, u), s+0.2*u
			}
			switch {
			case textGone || r.IntN(300) == 0:
				names = append(names, fmt.Sprintf("t%d IS NULL", k))
			default:
				names = append(names, fmt.Sprintf("t%d=%d", k, r.IntN(2)))
			}
			xs = append(xs, 1)
		}
		if numbersGone {
			s++
		}
		y := 0.0
		if s+r.NormFloat64() > 0 {
			y = 1
		}
		g.names, g.xs, g.y = append(g.names, names), append(g.xs, xs), append(g.y, y)
	}
	return g
}

func (g *gaps) feed(t *testing.T, s *stream.State, lo, hi int) {
	t.Helper()
	d := s.Features()
	d.Use(g.cols)
	for lo < hi {
		var b kernels.Batch
		b.Reset()
		for ; b.Len() < 64 && lo < hi; lo++ {
			b.Add(0, 1)
			for k, name := range g.names[lo][1:] {
				add(t, d, &b, name, g.xs[lo][k+1])
			}
			b.EndRow()
			b.Y = append(b.Y, g.y[lo])
		}
		update(t, s, &b)
	}
}

// What says that columns are missing, in the same rows, keeps the deviations of the full
// filter beside a column of levels that the block has no room for; in one run, in one that
// was continued, and merged.
func TestTiedIndicators(t *testing.T) {
	kerneltest.Slow(t)
	const n = 4000
	for seed := range uint64(3) {
		g := newGaps(n, seed+3)
		m := tiedModel(t, "bernoulli", kernels.Options{})
		full := *m
		full.Options.Covariance = "full"
		q, err := filter.New(&full, filter.ADF{})
		if err != nil {
			t.Fatal(err)
		}
		g.feed(t, q, 0, n)
		want := fitOf(t, q)

		whole := newTiedState(t, m)
		g.feed(t, whole, 0, n)
		f := fitOf(t, whole)
		asWide(t, "whole", f, want)
		for _, cut := range []int{5, 40, 900} { // before and after levels leave the block
			s := newTiedState(t, m)
			g.feed(t, s, 0, cut)
			next := *m
			next.Start = fitOf(t, s)
			s = newTiedState(t, &next)
			g.feed(t, s, cut, n)
			closeFits(t, fmt.Sprint("continued after ", cut), fitOf(t, s), f, kerneltest.Tol{Rel: 1e-9, Abs: 1e-10})
		}
		for _, cut := range []int{20, n / 2} {
			s, o := newTiedState(t, m), newTiedState(t, m)
			g.feed(t, s, 0, cut)
			g.feed(t, o, cut, n)
			if err := s.Merge(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			asWide(t, fmt.Sprint("merged at ", cut), fitOf(t, s), want)
		}
	}
}

// asWide holds the deviations of indicators and of 95 % of the weights to 0.8 to 1.2 of want's,
// and the means of want to the 95 % intervals of f, but for 7 %: the aims of a stream.
func asWide(t *testing.T, what string, f, want *kernels.Fit) {
	t.Helper()
	if len(f.Beliefs) != len(want.Beliefs) {
		t.Fatalf("%s: %d beliefs, want %d", what, len(f.Beliefs), len(want.Beliefs))
	}
	found, out, far := 0, 0, 0
	for _, w := range want.Beliefs {
		k := slices.IndexFunc(f.Beliefs, func(b kernels.Belief) bool { return b.Feature == w.Feature })
		b := f.Beliefs[k]
		ratio := math.Sqrt(b.Variance / w.Variance)
		isNull := strings.HasSuffix(w.Feature, kernels.IsNull)
		if isNull {
			found++
		}
		if ratio < 0.8 || ratio > 1.2 {
			if out++; isNull {
				t.Errorf("%s: deviation of %s is %.3f of the full filter's", what, w.Feature, ratio)
			}
		}
		if math.Abs(b.Mean-w.Mean) > 1.96*math.Sqrt(b.Variance) {
			far++
		}
	}
	if p := len(want.Beliefs); found != 16 || out > p/20 || far > 7*p/100 {
		t.Errorf("%s: %d indicators; of %d weights %d deviations and %d means outside", what, found, p, out, far)
	}
}

// A level whose text ends as an indicator does is a level.
func TestIndicatorPlace(t *testing.T) {
	d := &kernels.Dict{}
	d.Use(kernels.NewColumns([]string{"a", "b"}, []string{"u", "v"}))
	for name, want := range map[string]int{"a IS NULL": 0, "b IS NULL": 1, "u IS NULL": 0, "v IS NULL": 1,
		"a=x IS NULL": math.MaxInt, "c IS NULL": math.MaxInt, "u": math.MaxInt, "b=": math.MaxInt} {
		for _, number := range []string{"u", "v"} {
			if _, err := d.Add(number); err != nil {
				t.Fatal(err)
			}
		}
		id, err := d.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.IndicatorPlace(id); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}
