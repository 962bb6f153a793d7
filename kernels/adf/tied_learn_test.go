package adf

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stream"
)

// learning is a model whose prior variances are learnt.
func learning(t *testing.T) *kernels.Model {
	return tiedModel(t, "bernoulli", kernels.Options{AutoPrior: true})
}

// A change of priors is undone by the reverse.
func TestReprior(t *testing.T) {
	for _, p := range []int{40, 300} { // with leaves and without
		l := newLists(1, p, p, 3)
		one := tiedModel(t, "bernoulli", kernels.Options{})
		s := newTiedState(t, one)
		l.feed(t, s, 0, 1, 1)
		f := s.Beliefs().(*tied)
		before := fitOf(t, s)
		to, err := f.replacePriors(&variances{rest: 0.3})
		if err != nil {
			t.Fatal(err)
		}
		narrow := fitOf(t, s)
		for k, b := range narrow.Beliefs[1:] {
			w := before.Beliefs[k+1]
			if !(b.Variance < w.Variance) || !(b.Variance <= 0.3) || !(math.Abs(b.Mean) < math.Abs(w.Mean)) {
				t.Fatalf("%d weights, %s: %v under the variance 0.3, %v under 1", p, b.Feature, b.Weight, w.Weight)
			}
		}
		back, err := f.replacePriors(nil)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, "log evidence, there and back", to+back, 0, kerneltest.Tol{Abs: 1e-10})
		for k, b := range fitOf(t, s).Beliefs {
			kerneltest.Close(t, b.Feature, b.Mean, before.Beliefs[k].Mean, kerneltest.Tol{Rel: 1e-10, Abs: 1e-12})
			kerneltest.Close(t, b.Feature, b.Variance, before.Beliefs[k].Variance, kerneltest.Tol{Rel: 1e-10})
		}
	}
}

// The log evidence that a change of the prior brings is the one of a gaussian regression under
// the other prior, where the update is exact.
func TestRepriorEvidence(t *testing.T) {
	tb := newTable(200, 40, 9, 5, true)
	m := tiedModel(t, "gaussian", kernels.Options{})
	s := newTiedState(t, m)
	tb.feed(t, s, 0, 200)
	gain, err := s.Beliefs().(*tied).replacePriors(&variances{rest: 0.2})
	if err != nil {
		t.Fatal(err)
	}
	other := *m
	other.Prior = kernels.Prior{Mean: 0, Variance: 0.2, InterceptVariance: 10}.Literal()
	want := newTiedState(t, &other)
	tb.feed(t, want, 0, 200)
	got, exact := fitOf(t, s), fitOf(t, want)
	kerneltest.Close(t, "log evidence", got.LogEvidence+gain, exact.LogEvidence, kerneltest.Tol{Rel: 1e-9})
	for k, b := range exact.Beliefs {
		kerneltest.Close(t, b.Feature, got.Beliefs[k].Mean, b.Mean, kerneltest.Tol{Rel: 1e-8, Abs: 1e-9})
		kerneltest.Close(t, b.Feature+", variance", got.Beliefs[k].Variance, b.Variance, kerneltest.Tol{Rel: 1e-8})
	}
}

// spreadOf are rows of p names whose weights have that deviation.
func spreadOf(n, p, nnz int, sd float64, seed uint64) *lists {
	r := rand.New(rand.NewPCG(seed, 6))
	return answersOf(newLists(n, p, nnz, seed), sd, r, func(s float64) bool { return r.Float64() < 1/(1+math.Exp(-s)) })
}

// answersOf is l with the responses that answer gives predictors, under weights of that deviation.
func answersOf(l *lists, sd float64, r *rand.Rand, answer func(s float64) bool) *lists {
	w := map[string]float64{}
	for i := range l.names {
		s := 0.0
		for _, name := range l.names[i] {
			if _, ok := w[name]; !ok {
				w[name] = sd * r.NormFloat64()
			}
			s += w[name]
		}
		l.y[i] = 0
		if answer(s) {
			l.y[i] = 1
		}
	}
	return l
}

// The variance of weights is found where it is far from 1, above and below; where it is 1 it
// is left or hardly moves. It comes out nearer to 1 than it is: rows told of the weights under
// narrower or wider priors than the last, and one weight more has 1.
func TestLearnPriors(t *testing.T) {
	for _, sd := range []float64{0.1, 1, 4} {
		l := spreadOf(6000, 60, 6, sd, 9) // all of them in the block
		s := newTiedState(t, learning(t))
		l.feed(t, s, 0, 6000, 500)
		f := fitOf(t, s)
		if v := f.Prior.Variance / (sd * sd); !(v > 0.25 && v < 4) || sd == 1 && !(v > 0.7 && v < 1.4) {
			t.Errorf("prior variance %v, weights were made with %v", f.Prior.Variance, sd*sd)
		}
	}
}

// Literal priors and few weights stay as they are.
func TestLearnsOnlyWhereAsked(t *testing.T) {
	for p, m := range map[int]*kernels.Model{80: tiedModel(t, "bernoulli", kernels.Options{}), 20: learning(t)} {
		l := spreadOf(600, p, 6, 0.1, 9)
		s := newTiedState(t, m)
		l.feed(t, s, 0, 600, 500)
		if f := fitOf(t, s); f.Prior.Variance != 1 {
			t.Errorf("%d weights: prior variance %v", p, f.Prior.Variance)
		}
	}
}

// Nor are variances learnt of many more weights than two a row; with the rows for it they are.
func TestLearnsWithRowsEnough(t *testing.T) {
	for n, learns := range map[int]bool{1500: false, 2100: true} {
		l := spreadOf(n, 4000, 40, 0.02, 9)
		s := newTiedState(t, learning(t))
		l.feed(t, s, 0, n, 500)
		if v := fitOf(t, s).Prior.Variance; (v != 1) != learns {
			t.Errorf("%d rows: prior variance %v", n, v)
		}
	}
}

// A run that is stopped and continued is the run that was not, to the last bit.
func TestLearnPriorsResumes(t *testing.T) {
	m := learning(t)
	for _, p := range []int{60, 300} {
		l := spreadOf(900, p, 6, 0.1, 9)
		whole := newTiedState(t, m)
		l.feed(t, whole, 0, 900, 1000)
		want := fitOf(t, whole)
		s := newTiedState(t, m)
		for _, cut := range [][2]int{{0, 7}, {7, 60}, {60, 400}, {400, 900}} {
			l.feed(t, s, cut[0], cut[1], 50)
			if cut[1] < 900 {
				next := *m
				next.Start = fitOf(t, s)
				if !next.Start.Covariance.Arrow().LearnsPrior() {
					t.Fatal("the fit does not say that it learns")
				}
				next.Prior = next.Start.Prior
				s = newTiedState(t, &next)
			}
		}
		got := fitOf(t, s)
		if got.Prior.Variance != want.Prior.Variance || p == 60 && !(got.Prior.Variance < 0.5) {
			t.Errorf("%d names: prior variance %v, want %v", p, got.Prior.Variance, want.Prior.Variance)
		}
		got.Covariance, want.Covariance = kernels.Covariance{}, kernels.Covariance{} // leaves may lie in another order
		closeFits(t, "continued", got, want, kerneltest.Tol{})
	}
}

// Parts that learnt variances of their own come to those of all rows, as states and as fits.
func TestLearnPriorsMerges(t *testing.T) {
	m := learning(t)
	l := spreadOf(6000, 60, 6, 0.2, 9)
	whole := newTiedState(t, m)
	l.feed(t, whole, 0, 6000, 1000)
	want := fitOf(t, whole)
	var parts []*kernels.Fit
	all := newTiedState(t, m)
	for _, cut := range [][2]int{{0, 1500}, {1500, 1700}, {1700, 6000}} {
		s := newTiedState(t, m)
		l.feed(t, s, cut[0], cut[1], 1000)
		parts = append(parts, fitOf(t, s))
		if err := all.Merge(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := kernels.MergeFits(context.Background(), parts, nil, MergeArrowheads)
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]*kernels.Fit{"states": fitOf(t, all), "fits": merged} {
		kerneltest.Close(t, what+": prior variance", f.Prior.Variance, want.Prior.Variance, kerneltest.Tol{Rel: 0.25})
		kerneltest.Close(t, what+": log evidence", f.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 0.01})
		for k, b := range f.Beliefs {
			w := want.Beliefs[k]
			if sd := math.Sqrt(w.Variance); math.Abs(b.Mean-w.Mean) > 0.5*sd || math.Abs(math.Sqrt(b.Variance)-sd) > 0.1*sd {
				t.Errorf("%s: %s %v, want %v", what, b.Feature, b.Weight, w.Weight)
			}
		}
	}
	turned, err := kernels.MergeFits(context.Background(), []*kernels.Fit{parts[2], parts[0], parts[1]}, nil, MergeArrowheads)
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Close(t, "in another order", turned.Prior.Variance, merged.Prior.Variance, kerneltest.Tol{Rel: 1e-3})
}

// Parts of too few rows to learn anything have learnt together, as states and as fits; parts
// that were not to learn have not.
func TestLearnPriorsMergesUnlearnt(t *testing.T) {
	l := spreadOf(1500, 60, 6, 0.1, 9)
	for learns, m := range map[bool]*kernels.Model{true: learning(t), false: tiedModel(t, "bernoulli", kernels.Options{})} {
		all := newTiedState(t, m)
		var parts []*kernels.Fit
		for at := 0; at < 1500; at += 15 {
			s := newTiedState(t, m)
			l.feed(t, s, at, at+15, 1000)
			f := fitOf(t, s)
			if f.Prior.Variance != 1 {
				t.Fatalf("a part of 15 rows has learnt %v", f.Prior.Variance)
			}
			parts = append(parts, f)
			if err := all.Merge(context.Background(), s); err != nil {
				t.Fatal(err)
			}
		}
		merged, err := kernels.MergeFits(context.Background(), parts, nil, MergeArrowheads)
		if err != nil {
			t.Fatal(err)
		}
		for what, v := range map[string]float64{"states": fitOf(t, all).Prior.Variance, "fits": merged.Prior.Variance} {
			if learns != (v < 0.2) || !learns && v != 1 {
				t.Errorf("%s: prior variance %v, to be learnt: %v", what, v, learns)
			}
		}
	}
}

// Of many weights, most of them leaves, learning goes on where the variances before any row cannot
// be gone back to for comparison: it stopped after some thousand rows.
func TestLearnPriorsOfManyLeaves(t *testing.T) {
	kerneltest.Slow(t)
	const n = 24576
	l := spreadOf(n, 2500, 3, 0.2, 9)
	s := newTiedState(t, learning(t))
	for lo := 0; lo < n; lo += 1024 {
		l.feed(t, s, lo, lo+1024, 1024)
	}
	f := fitOf(t, s)
	if v := f.Prior.Variance; !(v > 0.02 && v < 0.08) {
		t.Errorf("prior variance %v, weights were made with 0.04", v)
	}
}

// A part, or the start of all, of too few rows to have learnt has the prior variance before any row
// still, whatever those of the others are.
func TestMergeNotYetLearnt(t *testing.T) {
	l := spreadOf(2020, 60, 6, 0.2, 9)
	run := func(start *kernels.Fit, lo, hi int) *kernels.Fit {
		m := *learning(t)
		if start != nil {
			m.Start, m.Prior = start, start.Prior
		}
		s := newTiedState(t, &m)
		l.feed(t, s, lo, hi, 1000)
		return fitOf(t, s)
	}
	few := run(nil, 0, 10)
	want := run(few, 10, 2020)
	for what, c := range map[string]struct {
		from  *kernels.Fit
		parts []*kernels.Fit
	}{
		"part":           {nil, []*kernels.Fit{few, run(nil, 10, 2020)}},
		"parts":          {nil, []*kernels.Fit{few, run(nil, 10, 2010), run(nil, 2010, 2020)}},
		"start":          {few, []*kernels.Fit{run(few, 10, 2010), run(few, 2010, 2020)}},
		"start and part": {few, []*kernels.Fit{run(few, 10, 13), run(few, 13, 2020)}},
	} {
		if few.Prior.Variance != 1 {
			t.Fatal("the first rows have taught the prior variance")
		}
		f, err := kernels.MergeFits(context.Background(), c.parts, c.from, MergeArrowheads)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, what+": prior variance", f.Prior.Variance, want.Prior.Variance, kerneltest.Tol{Rel: 0.2})
		kerneltest.Close(t, what+": log evidence", f.LogEvidence, want.LogEvidence, kerneltest.Tol{Abs: 2})
		for _, b := range f.Beliefs {
			for _, w := range want.Beliefs {
				if sd := math.Sqrt(w.Variance); b.Feature == w.Feature && (math.Abs(b.Mean-w.Mean) > 0.3*sd || math.Abs(math.Sqrt(b.Variance)-sd) > 0.1*sd) {
					t.Errorf("%s: %s %v, want %v", what, b.Feature, b.Weight, w.Weight)
				}
			}
		}
	}
	// Nothing is learnt where none has rows enough.
	f, err := kernels.MergeFits(context.Background(), []*kernels.Fit{few, run(nil, 10, 13)}, nil, MergeArrowheads)
	if err != nil {
		t.Fatal(err)
	}
	if f.Prior.Variance != 1 || !f.Covariance.Arrow().LearnsPrior() {
		t.Errorf("of 13 rows: prior variance %v, learns on: %v", f.Prior.Variance, f.Covariance.Arrow().LearnsPrior())
	}
}

var _ stream.PriorLearner = (*tied)(nil)
