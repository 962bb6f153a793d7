package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// earlierRows are n rows of two columns and responses of a family.
func earlierRows(family string, n int) (x, z, y []float64) {
	r := rand.New(rand.NewPCG(11, 5))
	for range n {
		a, b, e := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		eta := 1 + 0.5*a - 0.3*b
		v := eta + 3*e
		switch family {
		case "studentt":
			u := 0.0
			for range 5 {
				c := r.NormFloat64()
				u += c * c / 5
			}
			v = eta + e/math.Sqrt(u)
		case "gamma": // of shape 3
			v = math.Exp(eta) * (r.ExpFloat64() + r.ExpFloat64() + r.ExpFloat64()) / 3
		case "negbinomial": // of size 2
			mean := math.Exp(eta) * (r.ExpFloat64() + r.ExpFloat64()) / 2
			v = 0
			for t := r.ExpFloat64(); t < mean; t += r.ExpFloat64() {
				v++
			}
		}
		x, z, y = append(x, a), append(z, b), append(y, v)
	}
	return x, z, y
}

// earlierFit is the fit of rows lo to hi after those of start, nil for none. prior, if not zero, is
// that of numbers as they are, of a fit that continues no other.
func earlierFit(t *testing.T, method, family string, prior kernels.Prior, start *kernels.Fit, x, z, y []float64, lo, hi int) *kernels.Fit {
	t.Helper()
	s := option.Defaults()
	s.Family = family
	if start == nil && prior != (kernels.Prior{}) {
		s.Prior, s.Standardize, s.Options.Standardize = prior, kernels.Given(false), false
	}
	if start != nil {
		if err := s.Continue(start); err != nil {
			t.Fatal(err)
		}
	}
	f, err := engine.Fit(context.Background(), method, s, &rows.Table{
		X: rows.Fields(rows.Numbers("x", x[lo:hi]), rows.Numbers("z", z[lo:hi])), Y: rows.Numbers("y", y[lo:hi])})
	if err != nil {
		t.Fatal(err)
	}
	return f.Fit
}

// Methods that keep the rows learn dispersion and shape on from those of the fit that they continue:
// a first part of few rows does not fix them. Parts differ from the whole only because weights and
// dispersion are taken to be independent between them.
func TestContinuedLearns(t *testing.T) {
	kerneltest.Slow(t)
	const n = 600
	for _, family := range []string{"gaussian", "studentt", "gamma", "negbinomial"} {
		x, z, y := earlierRows(family, n)
		most := 0.6
		if family == "studentt" { // its scale and its degrees of freedom depend on each other
			most = 1.2
		}
		for _, method := range []string{"auto", "laplace", "ep", "lowrank"} {
			prior := kernels.Prior{Variance: 10, InterceptVariance: 100}
			if method == "auto" {
				prior = kernels.Prior{}
			}
			fit := func(start *kernels.Fit, lo, hi int) *kernels.Fit {
				return earlierFit(t, method, family, prior, start, x, z, y, lo, hi)
			}
			whole := fit(nil, 0, n)
			for _, first := range []int{25, 300} {
				what := fmt.Sprintf("%s %s after %d rows", method, family, first)
				part := fit(fit(nil, 0, first), first, n)
				names := []string{kernels.LearntDeviation, kernels.LearntShape}
				for _, name := range names {
					mean, sd, learnt := whole.LearntOf(name)
					m, s, ok := part.LearntOf(name)
					if ok != learnt {
						t.Errorf("%s: %s learnt: %v, of all rows %v", what, name, ok, learnt)
					}
					if learnt && (math.Abs(m-mean) > most*sd || !(s*mean > 0.8*sd*m && s*mean < 1.25*sd*m)) {
						t.Errorf("%s: %s %.4g ± %.3g, of all rows %.4g ± %.3g", what, name, m, s, mean, sd)
					}
				}
				if d := math.Abs(part.LogEvidence - whole.LogEvidence); d > 4 {
					t.Errorf("%s: log evidence %v, of all rows %v", what, part.LogEvidence, whole.LogEvidence)
				}
				for i, b := range whole.Beliefs {
					sd, p := math.Sqrt(b.Variance), part.Beliefs[i]
					if r := math.Sqrt(p.Variance) / sd; math.Abs(p.Mean-b.Mean) > 0.5*sd || math.Abs(r-1) > 0.06 {
						t.Errorf("%s: %s %.4g ± %.3g, of all rows %.4g ± %.3g", what, b.Feature, p.Mean, math.Sqrt(p.Variance), b.Mean, sd)
					}
				}
			}
		}
	}
}

// The posterior of dispersion and intercept of gaussian rows after those of another fit, by
// quadrature over both: the prior is the product of the other fit's Gaussian and of the scaled
// inverse chi-square distribution with the recorded mean and standard deviation of the root.
func TestEarlierNoise(t *testing.T) {
	y := []float64{3.1, 0.4, 2.2, 5.9, 1.0, 2.7, 4.4, -1.3, 3.3, 2.0}
	none := make([]float64, len(y)) // columns without effect
	fit := func(start *kernels.Fit, lo, hi int) *kernels.Fit {
		return earlierFit(t, "laplace", "gaussian", kernels.Prior{Variance: 1, InterceptVariance: 25}, start, none, none, y, lo, hi)
	}
	first := fit(nil, 0, 6)
	got := fit(first, 6, len(y))
	scale, nu, ok := first.LearntNoise()
	if !ok {
		t.Fatal("the first fit does not know its dispersion")
	}
	prior := first.Beliefs[0]
	var total, root, square, mean, second, high, evidence float64
	high = math.Inf(-1)
	const steps = 2000
	for pass := range 2 {
		for i := range steps { // log dispersion
			theta := math.Log(scale) + 6*(2*float64(i)+1-steps)/steps
			d := math.Exp(theta)
			// the intercept, in closed form
			precision, shift := 1/prior.Variance, prior.Mean/prior.Variance
			log := -0.5*nu*(theta+scale/d) + 0.5*nu*(math.Log(scale)+1)
			log -= 0.5*math.Log(prior.Variance) + 0.5*prior.Mean*prior.Mean/prior.Variance
			for _, v := range y[6:] {
				precision, shift = precision+1/d, shift+v/d
				log -= 0.5*math.Log(2*math.Pi*d) + 0.5*v*v/d
			}
			m := shift / precision
			if log += 0.5*m*shift - 0.5*math.Log(precision); pass == 0 {
				high = max(high, log)
				continue
			}
			p := math.Exp(log - high)
			total, root, square = total+p, root+p*math.Sqrt(d), square+p*d
			mean, second = mean+p*m, second+p*(m*m+1/precision)
		}
	}
	evidence = first.LogEvidence + high
	root, square, mean, second = root/total, square/total, mean/total, second/total
	m, sd, _ := got.LearntOf(kernels.LearntDeviation)
	// the sum over a lattice of 250 points or fewer is good to a few thousandths
	tol := kerneltest.Tol{Rel: 5e-3}
	kerneltest.Close(t, "deviation", m, root, tol)
	kerneltest.Close(t, "its standard deviation", sd, math.Sqrt(square-root*root), kerneltest.Tol{Rel: 3e-2})
	kerneltest.Close(t, "dispersion", got.Dispersion, square, tol)
	kerneltest.Close(t, "intercept", got.Beliefs[0].Mean, mean, tol)
	kerneltest.Close(t, "its variance", got.Beliefs[0].Variance, second-mean*mean, tol)
	kerneltest.Close(t, "log evidence at the best dispersion", got.LogEvidence, evidence, kerneltest.Tol{Rel: 1e-5})
}

// No rows change nothing, and a given number stays.
func TestContinuedWithout(t *testing.T) {
	x, z, y := earlierRows("gaussian", 60)
	table := func(lo, hi int) *rows.Table {
		return &rows.Table{X: rows.Fields(rows.Numbers("x", x[lo:hi]), rows.Numbers("z", z[lo:hi])), Y: rows.Numbers("y", y[lo:hi])}
	}
	for _, method := range []string{"laplace", "ep", "lowrank"} {
		s := option.Defaults()
		s.Family = "gaussian"
		first, err := engine.Fit(context.Background(), method, s, table(0, 40))
		if err != nil {
			t.Fatal(err)
		}
		again := func(dispersion float64, lo, hi int) *kernels.Fit {
			s := option.Defaults()
			s.Start, s.Params.Dispersion = first.Fit, dispersion
			f, err := engine.Fit(context.Background(), method, s, table(lo, hi))
			if err != nil {
				t.Fatal(err)
			}
			return f.Fit
		}
		f := again(0, 40, 40)
		if want := kernels.Parameters(first.Learnt); f.Dispersion != first.Dispersion || !slices.Equal(f.Learnt, want) {
			t.Errorf("%s without rows: dispersion %v, learnt %v; want %v, %v", method, f.Dispersion, f.Learnt, first.Dispersion, want)
		}
		for i, b := range first.Beliefs {
			kerneltest.Close(t, method+": mean of "+b.Feature, f.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Rel: 1e-9})
			kerneltest.Close(t, method+": variance of "+b.Feature, f.Beliefs[i].Variance, b.Variance, kerneltest.Tol{Rel: 1e-9})
		}
		if f := again(2.5, 40, 60); f.Dispersion != 2.5 || len(kernels.Parameters(f.Learnt)) > 0 {
			t.Errorf("%s: dispersion %v, learnt %v; 2.5 was given", method, f.Dispersion, f.Learnt)
		}
	}
}

// The standard deviations of a fit in two parts are about those of one fit of all rows, however few
// rows the first part has.
func TestContinuedWidths(t *testing.T) {
	kerneltest.Slow(t)
	const sets, n = 100, 150
	r := rand.New(rand.NewPCG(3, 17))
	for _, family := range []string{"gaussian", "gamma"} {
		for _, first := range []int{8, 40} {
			off, all := 0.0, 0.0
			for range sets {
				var x, z, y []float64
				for range n {
					a, b := r.NormFloat64(), r.NormFloat64()
					v := 1 + 0.3*a - 0.2*b
					if family == "gamma" {
						v = math.Exp(v) * (r.ExpFloat64() + r.ExpFloat64()) / 2
					} else {
						v += 2 * r.NormFloat64()
					}
					x, z, y = append(x, a), append(z, b), append(y, v)
				}
				prior := kernels.Prior{Variance: 10, InterceptVariance: 10} // a learnt one would be that of the first part
				fit := func(cuts ...int) (f *kernels.Fit) {
					for k := range cuts[1:] {
						f = earlierFit(t, "auto", family, prior, f, x, z, y, cuts[k], cuts[k+1])
					}
					return f
				}
				parts, whole := fit(0, first, n), fit(0, n)
				for i, b := range parts.Beliefs {
					d := 0.5 * math.Log(b.Variance/whole.Beliefs[i].Variance)
					off, all = off+d*d, all+1
				}
			}
			if off = math.Sqrt(off / all); off > 0.06 {
				t.Errorf("%s after %d rows: standard deviations are %.3f off, in logarithms", family, first, off)
			} else {
				t.Logf("%s after %d rows: standard deviations are %.3f off, in logarithms", family, first, off)
			}
		}
	}
}

// Parts that continue one fit, and learn its dispersion on, merge to about one fit of all rows: the
// fit that they continue counts once, and the dispersion is the mean of its distribution.
func TestContinuedMerge(t *testing.T) {
	x, z, y := earlierRows("gaussian", 600)
	fit := func(start *kernels.Fit, lo, hi int) *kernels.Fit {
		return earlierFit(t, "laplace", "gaussian", kernels.Prior{}, start, x, z, y, lo, hi)
	}
	first := fit(nil, 0, 20)
	once := fit(first, 20, 600)
	merged, err := kernels.MergeFits(context.Background(), []*kernels.Fit{fit(first, 20, 310), fit(first, 310, 600)}, first, nil)
	if err != nil {
		t.Fatal(err)
	}
	mean, sd, _ := merged.LearntOf(kernels.LearntDeviation)
	kerneltest.Close(t, "dispersion", merged.Dispersion, mean*mean+sd*sd, kerneltest.Tol{Rel: 1e-9})
	want, width, _ := once.LearntOf(kernels.LearntDeviation)
	kerneltest.Close(t, "deviation", mean, want, kerneltest.Tol{Abs: 0.3 * width})
	kerneltest.Close(t, "its standard deviation", sd, width, kerneltest.Tol{Rel: 0.05})
	kerneltest.Close(t, "log evidence", merged.LogEvidence, once.LogEvidence, kerneltest.Tol{Abs: 1})
	for i, b := range once.Beliefs {
		kerneltest.Close(t, "mean of "+b.Feature, merged.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Abs: 0.1 * math.Sqrt(b.Variance)})
		kerneltest.Close(t, "variance of "+b.Feature, merged.Beliefs[i].Variance, b.Variance, kerneltest.Tol{Rel: 0.05})
	}
}
