package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// The trapezoid rule and Gauss-Hermite for laws of one mode against the panels, in standard
// deviations of the tilted law.
func TestEven(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tried, taken, narrow := 0, 0, 0
	check := func(a anchor, sh bumpy, v float64) {
		drop := dropModes(v, a.tau)
		f := func(d float64) float64 {
			gap, _, _ := sh.at(d)
			return gap + d*(a.resid-0.5*d/v)
		}
		var rule, panels sums
		tried++
		bumps(sh, a, v, -reach(f, 0, -a.tau, math.Inf(-1), drop), reach(f, 0, a.tau, math.Inf(1), drop), &panels)
		want := panels.tiltedFree(a, v)
		if even(sh, a, v, drop, &rule) {
			taken++
			closeTilted(t, "trapezoid", rule.tiltedFree(a, v), want, v)
		}
		if rule, ok := hermite(sh, a, v, hermiteScale(sh, a)); ok {
			narrow++
			closeTilted(t, "Gauss-Hermite", rule.tiltedFree(a, v), want, v)
		}
	}
	for range 20000 {
		d, w, v := math.Exp(3*r.NormFloat64()), math.Exp(r.NormFloat64()), math.Exp(4*r.NormFloat64()-3)

		l := mustNew(t, "studentt", "", Params{Dispersion: d, Shape: math.Exp(20*r.Float64() - 2)}).(studentT)
		k, y := 0.5*w*(l.dof+1), math.Sqrt(d)*math.Exp(r.NormFloat64())
		v *= d
		if k*v <= 4*l.scale2 { // one mode, whatever y is
			slope := func(t float64) (d1, d2 float64) {
				_, d1, d2 = l.LogLik(Obs{Y: y, Weight: w}, t)
				return d1, d2
			}
			found := findModes(v, math.NaN(), math.NaN(), slope)
			sh := newStudentShape(l.scale2, k, y-found.t[0])
			check(anchor{t: found.t[0], d1: sh.d1, resid: sh.d1 - found.t[0]/v, tau: found.tau[0]}, sh, v)
		}

		g := mustNew(t, "gaussian", "log", Params{Dispersion: d}).(gaussianLog)
		m := 2 * r.NormFloat64()
		o := Obs{Y: math.Exp(m+0.3*r.NormFloat64()) + r.NormFloat64()*math.Sqrt(d), Weight: w}
		if v /= d; o.Y <= 0 || o.Y*o.Y <= 8*d/(w*v) {
			slope := func(t float64) (d1, d2 float64) {
				_, d1, d2 = g.LogLik(o, m+t)
				return d1, d2
			}
			found := findModes(v, math.NaN(), math.NaN(), slope)
			a, sh := g.anchorAt(o, w/d, m, v, found.t[0], found.tau[0])
			check(a, sh, v)
		}
	}
	if taken < tried/2 || narrow < tried/10 {
		t.Errorf("of %d laws the trapezoid rule did for %d, Gauss-Hermite for %d", tried, taken, narrow)
	}
}

// closeTilted compares what two rules say of one law, in its own standard deviations.
func closeTilted(t *testing.T, name string, got, want Tilted, v float64) {
	t.Helper()
	kerneltest.Close(t, name+": log Z", got.LogZ, want.LogZ, kerneltest.Tol{Abs: 1e-13, Rel: 1e-13})
	kerneltest.Close(t, name+": mean", v*got.Alpha, v*want.Alpha, kerneltest.Tol{Abs: 1e-12 * math.Sqrt(v*want.Ratio)})
	kerneltest.Close(t, name+": variance", got.Ratio, want.Ratio, kerneltest.Tol{Rel: 1e-12})
}

// Gauss-Hermite for narrow concave laws against the trapezoid rule.
func TestHermite(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	tried, taken := 0, 0
	for range 50000 {
		w, m, v := math.Exp(2*r.NormFloat64()), 2*r.NormFloat64(), math.Exp(2*r.NormFloat64()-3)
		logit := func(s float64) (logp, d1, d2 float64) { return logitLog(w, s) }
		a := findMode(m, v, logit)
		try := func(sh shape, a anchor, h, scale float64) {
			want, ok := trapezoid(sh, a.resid, v, h)
			if !ok {
				return
			}
			tried++
			if got, ok := hermite(sh, a, v, scale); ok {
				taken++
				closeTilted(t, "Gauss-Hermite", got.tilted(a, v), want.tilted(a, v), v)
			}
		}
		try(newLogitShape(m+a.t, w), a, math.Min(0.65*a.tau, 0.4), 1)
		p := poissonFind(w, math.Floor(math.Exp(2*r.NormFloat64())), m, v)
		p.logp = w * p.s
		try(poissonShape{p.lambda, math.Log(p.lambda)}, p.anchor, math.Min(0.4, 0.7*p.tau/(1+0.55*p.tau)), 1)
	}
	if taken < tried/10 {
		t.Errorf("done for %d of %d laws", taken, tried)
	}
}

// TestReach: the end of an integral lies no more than 20 below its drop, or within rounding of it, also
// at a wall far beyond a wide prior's mode, on whose other side panels would be without number.
func TestReach(t *testing.T) {
	for _, step := range []float64{0.1, 1, 30, 2000, -2000} {
		for _, wall := range []float64{0.01, 3, 900, 5700} {
			for _, steep := range []float64{1, 2, 1000} {
				f := func(d float64) float64 {
					return -0.5*(d/step)*(d/step) - math.Exp(steep*(math.Abs(d)-wall))
				}
				const drop = 45
				d := math.Copysign(reach(f, 0, step, math.Inf(int(step)), drop), step)
				if at := f(d); at > -drop || at < -drop-20 && f(d*(1-1e-8)) < -drop {
					t.Errorf("step %v, wall at %v, steepness %v: %v at %v", step, wall, steep, at, d)
				}
			}
		}
	}
}
