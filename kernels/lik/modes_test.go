package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// The trapezoid rule of laws of one mode against the panels, in deviations of the tilted law.
func TestEven(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tried, taken := 0, 0
	check := func(a anchor, sh bumpy, v float64) {
		drop := dropModes(v, a.tau)
		f := func(d float64) float64 {
			gap, _, _ := sh.at(d)
			return gap + d*(a.resid-0.5*d/v)
		}
		var rule, panels sums
		tried++
		if !even(sh, a, v, drop, &rule) {
			return
		}
		taken++
		bumps(sh, a, v, -reach(f, 0, -a.tau, math.Inf(-1), drop), reach(f, 0, a.tau, math.Inf(1), drop), &panels)
		got, want := rule.tiltedFree(a, v), panels.tiltedFree(a, v)
		kerneltest.Close(t, "log Z", got.LogZ, want.LogZ, kerneltest.Tol{Abs: 1e-13, Rel: 1e-13})
		kerneltest.Close(t, "mean", v*got.Alpha, v*want.Alpha, kerneltest.Tol{Abs: 1e-12 * math.Sqrt(v*want.Ratio)})
		kerneltest.Close(t, "variance", got.Ratio, want.Ratio, kerneltest.Tol{Rel: 1e-12})
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
	if taken < tried/2 {
		t.Errorf("taken for %d of %d laws", taken, tried)
	}
}
