package lik

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/special"
)

// No event under a prior far wider than the wall that it sets: nodes in a stretched variable
// against a plain sum of midpoints with the tail in closed form, and against the panels that it
// stands for.
func TestPoissonWide(t *testing.T) {
	taken := 0
	for _, v := range []float64{30, 100, 400, 1e3, 1e5, 1e8} {
		sd := math.Sqrt(v)
		for _, at := range []float64{-5, -3, -1, 0, 0.5, 1, 3} {
			for _, w := range []float64{1, 0.01, 300} {
				m := at*sd - math.Log(w)
				p := poissonFind(w, 0, m, v)
				p.logp = -p.lambda
				if p.omega > 1e-200 {
					p.logLambda = math.Log(p.lambda)
				}
				sm, ok := poissonWide(p.lambda, p.logLambda, v, p.tau)
				if !ok {
					continue
				}
				taken++
				got := sm.tilted(p.anchor, v)
				var z, mean, square float64
				top := -math.Log(w) + 4
				step := min(sd, 40) / 4000
				for s := max(m-12*sd, -math.Log(w)-40) + 0.5*step; s < top; s += step {
					f := math.Exp(-0.5*(s-m)*(s-m)/v - w*math.Exp(s))
					z, mean, square = z+f, mean+f*(s-m), square+f*(s-m)*(s-m)
				}
				z, mean, square = z*step, mean*step, square*step
				// Below, the likelihood is 1: the rest of the normal law in closed form.
				if from := -math.Log(w) - 40; from > m-12*sd {
					x := (from - m) / sd
					density := math.Exp(-0.5*x*x) / math.Sqrt(2*math.Pi)
					z += math.Sqrt(2*math.Pi*v) * special.Phi(x)
					mean -= math.Sqrt(2*math.Pi*v) * sd * density
					square += math.Sqrt(2*math.Pi*v) * v * (special.Phi(x) - x*density)
				}
				mean /= z
				variance := square/z - mean*mean
				logZ := math.Log(z / math.Sqrt(2*math.Pi*v))
				// The plain sum, of midpoints, has an error of its step squared at its end: below
				// 1e-6.
				if math.Abs(got.LogZ-logZ) > 1e-6 || math.Abs(got.Alpha*v-mean) > 1e-6*sd || math.Abs(got.Ratio-variance/v) > 1e-6*(1+variance/v) {
					t.Errorf("w %v, m %v, v %v: log Z %v, mean %v, variance %v; a plain sum %v, %v, %v", w, m, v, got.LogZ, got.Alpha*v, got.Ratio*v, logZ, mean, variance)
				}
				far := tilt(poissonShape{p.lambda, p.logLambda}, p.anchor, v, 0.3, bend{max(0, -p.logLambda), max(0, -p.logLambda), 1, 0}).tilted(p.anchor, v)
				if math.Abs(got.LogZ-far.LogZ) > 1e-9 || math.Abs(got.Alpha-far.Alpha)*v > 1e-8*sd || math.Abs(got.Ratio-far.Ratio) > 1e-8 {
					t.Errorf("w %v, m %v, v %v: log Z %v, mean %v, ratio %v; by panels %v, %v, %v", w, m, v, got.LogZ, got.Alpha*v, got.Ratio, far.LogZ, far.Alpha*v, far.Ratio)
				}
			}
		}
	}
	if taken < 80 {
		t.Errorf("only %d of the laws are wide", taken)
	}
}
