package predict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// What a likelihood makes of a Gaussian is led back to it, over rows of little weight and
// rows that say nearly all.
func TestCavityIsFoundAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		family, link string
		y            func() float64
		trials       float64
	}{
		{"bernoulli", "logit", func() float64 { return float64(r.IntN(2)) }, 0},
		{"bernoulli", "probit", func() float64 { return float64(r.IntN(2)) }, 0},
		{"bernoulli", "cloglog", func() float64 { return float64(r.IntN(2)) }, 0},
		{"binomial", "logit", func() float64 { return float64(r.IntN(6)) }, 5},
		{"poisson", "log", func() float64 { return float64(r.IntN(9)) }, 0},
		{"negbinomial", "log", func() float64 { return float64(r.IntN(9)) }, 0},
		{"gamma", "log", func() float64 { return math.Exp(r.NormFloat64()) }, 0},
	} {
		l := like(t, c.family, c.link)
		var failed int
		const n = 300
		for range n {
			o := lik.Obs{Y: c.y(), Weight: 1, Trials: c.trials}
			mc, vc := 2*r.NormFloat64(), math.Exp(-4+7*r.Float64())
			s := l.Moments(o, mc, vc)
			f, err := LeaveOut(l, o, mc+vc*s.Alpha, vc*s.Ratio, OfMoments, LearntParameters{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			// The moments of a row that leaves 1e-3 of the variance say little of what it was
			// taken from: the tolerance is that of the moments over what is left.
			tol := 1e-7 / s.Ratio
			if math.Abs(f.Mean-mc) > tol*math.Sqrt(vc) || math.Abs(f.Variance/vc-1) > tol || math.Abs(f.LogDensity-s.LogZ) > tol {
				failed++
				t.Logf("%s %+v: N(%v, %v), found %+v", c.link, o, mc, vc, f)
			}
		}
		if failed > 0 {
			t.Errorf("%s %s: %d of %d are not found again", c.family, c.link, failed, n)
		}
	}
}

// A posterior wider than any Gaussian's that has seen the row has no cavity.
func TestNoCavity(t *testing.T) {
	f, err := LeaveOut(like(t, "bernoulli", "logit"), lik.Obs{Y: 1, Weight: 1}, 0.2, 20, OfMoments, LearntParameters{}, nil)
	if err != nil || !math.IsNaN(f.Mean+f.Variance+f.LogDensity) || f.Reach <= MaxReach {
		t.Errorf("%+v, %v", f, err)
	}
}

// Laplace's factor is that of InfluenceOf, and so is any of a Gaussian likelihood.
func TestLeaveOutAtMode(t *testing.T) {
	for _, by := range []Factor{AtMode, OfMoments} {
		l := like(t, "gaussian", "")
		o := lik.Obs{Y: 1.5, Weight: 2}
		f, err := LeaveOut(l, o, 0.25, 0.125, by, LearntParameters{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := InfluenceOf(l, o, 0.25, 0.125)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, "density", f.LogDensity, want.LOO, kerneltest.Tol{Rel: 1e-14})
		if f.Reach != 0 {
			t.Errorf("reach %v of what is exact", f.Reach)
		}
	}
	f, err := LeaveOut(like(t, "bernoulli", "logit"), lik.Obs{Y: 1, Weight: 1}, 0.5, 0.2, AtMode, LearntParameters{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// 1/v' = 1/v - p(1 - p), m' = m - v'(1 - p).
	p := 1 / (1 + math.Exp(-0.5))
	v := 1 / (5 - p*(1-p))
	kerneltest.Close(t, "variance", f.Variance, v, kerneltest.Tol{Rel: 1e-14})
	kerneltest.Close(t, "mean", f.Mean, 0.5-v*(1-p), kerneltest.Tol{Rel: 1e-14})
}

// A row of weight w is w rows, of which one is left out: of gaussian responses the others are the
// posterior without it, exactly, and its share is that of one.
func TestOneOfWeightIsLeftOut(t *testing.T) {
	l := like(t, "gaussian", "identity")
	noise := l.(lik.Dispersed).Dispersion()
	const w, y, other, n = 4, 1.5, -0.5, 3 // w rows of y beside n of another response, one mean N(0, 1)
	posterior := func(k float64) (m, v float64) {
		v = 1 / (1 + (k+n)/noise)
		return v * (k*y + n*other) / noise, v
	}
	m, v := posterior(w)
	wantM, wantV := posterior(w - 1)
	tol := kerneltest.Tol{Rel: 1e-13}
	f, err := LeaveOut(l, lik.Obs{Y: y, Weight: w}, m, v, AtMode, LearntParameters{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Close(t, "mean", f.Mean, wantM, tol)
	kerneltest.Close(t, "variance", f.Variance, wantV, tol)
	kerneltest.Close(t, "share", f.Share, v/noise, tol)
	kerneltest.Close(t, "density", f.LogDensity, l.Moments(lik.Obs{Y: y, Weight: 1}, wantM, wantV).LogZ, tol)
	i, err := InfluenceOf(l, lik.Obs{Y: y, Weight: w}, m, v)
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Close(t, "density of the influence", i.LOO, f.LogDensity, tol)
	kerneltest.Close(t, "leverage of all", i.Leverage, w*v/noise, tol)
}

func like(t *testing.T, family, link string) lik.Likelihood {
	t.Helper()
	l, err := lik.New(family, link, lik.Params{Dispersion: 0.7, Shape: 1.5})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Under a Gaussian likelihood two rows taken out of a posterior leave that of the others, exactly.
func TestPairIsLeftOut(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	l := like(t, "gaussian", "identity")
	noise := l.(lik.Dispersed).Dispersion()
	type row struct{ x, y float64 }
	rows := make([]row, 12)
	for i := range rows {
		rows[i] = row{r.NormFloat64(), r.NormFloat64()}
	}
	// posterior of intercept and slope, both N(0, 1) before, without two rows: mean and covariance
	posterior := func(a, b int) (m [2]float64, s [3]float64) {
		p, h := [3]float64{1, 0, 1}, [2]float64{}
		for i, w := range rows {
			if i == a || i == b {
				continue
			}
			p[0], p[1], p[2] = p[0]+1/noise, p[1]+w.x/noise, p[2]+w.x*w.x/noise
			h[0], h[1] = h[0]+w.y/noise, h[1]+w.x*w.y/noise
		}
		det := p[0]*p[2] - p[1]*p[1]
		s = [3]float64{p[2] / det, -p[1] / det, p[0] / det}
		return [2]float64{s[0]*h[0] + s[1]*h[1], s[1]*h[0] + s[2]*h[1]}, s
	}
	at := func(m [2]float64, s [3]float64, x, z float64) (mean, cov float64) {
		return m[0] + m[1]*x, s[0] + s[1]*(x+z) + s[2]*x*z
	}
	all, cov := posterior(-1, -1)
	for i := range rows {
		for j := range i {
			var m, v [2]float64
			var sites [2]Site
			for k, w := range []row{rows[i], rows[j]} {
				m[k], v[k] = at(all, cov, w.x, w.x)
				f, err := LeaveOut(l, lik.Obs{Y: w.y, Weight: 1}, m[k], v[k], AtMode, LearntParameters{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				sites[k] = f.Site(m[k], v[k])
			}
			_, between := at(all, cov, rows[i].x, rows[j].x)
			mean, variance, ok := LeavePairOut(m, v, between, sites)
			rest, left := posterior(i, j)
			for k, w := range []row{rows[i], rows[j]} {
				wantMean, wantVar := at(rest, left, w.x, w.x)
				if !ok || math.Abs(mean[k]-wantMean) > 1e-12 || math.Abs(variance[k]-wantVar) > 1e-12 {
					t.Errorf("rows %d and %d: N(%v, %v), want N(%v, %v)", i, j, mean[k], variance[k], wantMean, wantVar)
				}
			}
		}
	}
	if _, _, ok := LeavePairOut([2]float64{}, [2]float64{1, 1}, 0.9, [2]Site{{0, 0.6}, {0, 0.6}}); ok {
		t.Error("two rows that say more than there is were taken out")
	}
}

// How far a row's density can be trusted does not depend on the unit of its response, where the
// link is the logarithm either.
func TestReachUnits(t *testing.T) {
	reach := func(unit float64) float64 {
		l, err := lik.New("gaussian", "log", lik.Params{Dispersion: 0.04 * unit * unit})
		if err != nil {
			t.Fatal(err)
		}
		f, err := LeaveOut(l, lik.Obs{Y: 2.1 * unit, Weight: 1}, math.Log(2*unit), 0.001, AtMode, LearntParameters{Varied: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return f.Reach
	}
	want := reach(1) // the share v (dμ/ds)²/σ², or what curvature makes of it
	kerneltest.Close(t, "share", want, 0.001*4/0.04, kerneltest.Tol{Rel: 0.1})
	for _, unit := range []float64{1e-6, 1e-3, 1e6} {
		kerneltest.Close(t, fmt.Sprint(unit), reach(unit), want, kerneltest.Tol{Rel: 1e-9})
	}
}
