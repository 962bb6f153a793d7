package lik

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// The interval against the evidence, which is the predictive density.
func TestStudentTInterval(t *testing.T) {
	for _, c := range []struct{ dof, d, m, v float64 }{
		{4, 1, 0, 1e-6}, {4, 1, 3, 0.5}, {1, 0.01, 2, 0.3}, {2, 25, -1, 0.2}, {30, 1e-4, -1, 10}, {0.7, 3, 3, 5},
	} {
		l := mustNew(t, "studentt", "", Params{Dispersion: c.d, Shape: c.dof})
		lo, hi := l.Interval(c.m, c.v, 0.8)
		kerneltest.Close(t, "centre", 0.5*(lo+hi), c.m, kerneltest.Tol{Abs: 1e-9 * (hi - lo)})
		density := func(y float64) float64 { return math.Exp(l.Moments(Obs{Y: y, Weight: 1}, c.m, c.v).LogZ) }
		kerneltest.Close(t, "inner", integral(lo, hi, 100, density), 0.8, kerneltest.Tol{Rel: 1e-8})
	}
	// Student's own table: 2.776445 is the two-sided 95 % point at 4 degrees of freedom
	_, hi := mustNew(t, "studentt", "", Params{Dispersion: 1}).Interval(0, 0, 0.95)
	kerneltest.Close(t, "upper", hi, 2.7764451051977987, kerneltest.Tol{Rel: 1e-9})
	_, hi = mustNew(t, "studentt", "", Params{Dispersion: 4, Shape: 1}).Interval(0, 0, 0.9) // a Cauchy law
	kerneltest.Close(t, "Cauchy", hi, 2*math.Tan(0.45*math.Pi), kerneltest.Tol{Rel: 1e-9})
}

func TestStudentTPredict(t *testing.T) {
	mean, variance := mustNew(t, "studentt", "", Params{Dispersion: 0.7, Shape: 5}).Predict(0.2, 0.5)
	kerneltest.Close(t, "mean", mean, 0.2, kerneltest.Tol{})
	kerneltest.Close(t, "variance", variance, 0.5+0.7*5/3, kerneltest.Tol{Rel: 1e-14})
	if _, variance := mustNew(t, "studentt", "", Params{Dispersion: 1, Shape: 2}).Predict(0, 1); !math.IsInf(variance, 1) {
		t.Errorf("two degrees of freedom: variance %v", variance)
	}
}

// An outlier is first believed, then shared between two modes, then ignored.
func TestStudentTOutlier(t *testing.T) {
	l := mustNew(t, "studentt", "", Params{Dispersion: 0.01, Shape: 4})
	wider := false
	for y := 0.0; y < 12; y += 0.1 {
		o := Obs{Y: y, Weight: 1}
		got, want := l.Moments(o, 0, 1), denseModes(l, o, 0, 1)
		kerneltest.Close(t, "ratio", got.Ratio, want.Ratio, kerneltest.Tol{Rel: 1e-9})
		kerneltest.Close(t, "alpha", got.Alpha, want.Alpha, kerneltest.Tol{Rel: 1e-9, Abs: 1e-12})
		wider = wider || got.Ratio > 1.5
	}
	if !wider {
		t.Error("no law wider than its prior among them")
	}
	far := l.Moments(Obs{Y: 1e6, Weight: 1}, 0, 1)
	if math.Abs(far.Alpha) > 1e-5 || math.Abs(far.Ratio-1) > 1e-10 {
		t.Errorf("an outlier of 1e6 deviations moves the prior: %+v", far)
	}
}

// Many degrees of freedom are the Gaussian law.
func TestStudentTLimit(t *testing.T) {
	st, ga := mustNew(t, "studentt", "", Params{Dispersion: 2, Shape: 1e9}), mustNew(t, "gaussian", "", Params{Dispersion: 2})
	for _, v := range []float64{1e-6, 0.3, 40} {
		for _, w := range []float64{0.1, 1, 2.5} {
			a, b := st.Moments(Obs{Y: 1.3, Weight: w}, 0.2, v), ga.Moments(Obs{Y: 1.3, Weight: w}, 0.2, v)
			kerneltest.Close(t, "logZ", a.LogZ, b.LogZ, kerneltest.Tol{Rel: 1e-7})
			kerneltest.Close(t, "alpha", a.Alpha, b.Alpha, kerneltest.Tol{Rel: 1e-7})
			kerneltest.Close(t, "ratio", a.Ratio, b.Ratio, kerneltest.Tol{Rel: 1e-7})
		}
	}
}

func TestStudentTShape(t *testing.T) {
	testShape(t, "studentt", 4, "shape = -1: studentt takes degrees of freedom > 0, finite (default 4)")
	l, err := New("studentt", "", Params{})
	if err != nil || l.(Dispersed).Dispersion() != 1 {
		t.Error(l, err)
	}
	_, err = Remake(l, Params{})
	if err == nil || err.Error() != "dispersion = 0: studentt takes a finite squared scale > 0" {
		t.Error(err)
	}
}

func BenchmarkStudentT(b *testing.B) {
	benchmark(b, mustNew(b, "studentt", "", Params{Dispersion: 1}), Obs{Y: 1.5, Weight: 1})
}

// A predictor that other rows know well, as in EP.
func BenchmarkStudentTKnown(b *testing.B) {
	l, o := mustNew(b, "studentt", "", Params{Dispersion: 1}), Obs{Y: 1.5, Weight: 1}
	for b.Loop() {
		sink += l.Moments(o, 0.3, 0.01).Alpha
	}
}

// Predictors of the largest variances: found by fuzzing, where the slope at the mode and
// the one in the shape differed in the last place the panels never ended.
func TestStudentTWidest(t *testing.T) {
	l := mustNew(t, "studentt", "", Params{Dispersion: 1, Shape: 4})
	for _, y := range []float64{2.4e-16, 1, 1e8} {
		for _, v := range []float64{1e20, 1e30, 1e50, 7.4e283, 1e300} {
			m := l.Moments(Obs{Y: y, Weight: 1}, 0, v)
			if v > 1e100 {
				continue // it ends
			}
			// The prior is flat where the datum is: Z = 1/sqrt(2 pi v).
			kerneltest.Close(t, "logZ", m.LogZ, -0.5*math.Log(2*math.Pi*v), kerneltest.Tol{Rel: 1e-4})
			if !(m.Ratio > 0 && m.Ratio < 1e-18) {
				t.Errorf("y = %v, v = %v: %+v", y, v, m)
			}
		}
	}
}
