package lik

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// What a likelihood says of itself is what its functions do.
func TestTraits(t *testing.T) {
	trials := 0
	for _, f := range families {
		for _, link := range f.Links {
			l, err := New(f.Family, link, Params{Dispersion: 0.7, Shape: 3})
			if err != nil {
				t.Fatal(err)
			}
			what, r := f.Family+" "+link, l.Traits()
			// responses on the scale of the family
			rows := []Obs{{Y: 0, Weight: 1}, {Y: 1, Weight: 1}, {Y: 3, Weight: 1}, {Y: 0.4, Weight: 1}, {Y: -2, Weight: 1}, {Y: 2, Trials: 3, Weight: 1}, {Y: 0, Trials: 3, Weight: 1}}
			rows = slices.DeleteFunc(rows, func(o Obs) bool { return l.Check(o) != nil })
			concave, canonical := true, true
			for s := -4.0; s <= 4; s += 0.25 {
				var first float64
				for i, o := range rows {
					_, _, d2 := l.LogLik(o, s)
					if i == 0 {
						first = d2 * max(rows[0].Trials, 1) / max(o.Trials, 1)
					}
					concave = concave && d2 <= 0
					canonical = canonical && math.Abs(d2-first) <= 1e-12*math.Abs(first)
				}
				const h = 1e-4
				g := l.Response(s)
				slope := (l.Response(s+h) - l.Response(s-h)) / (2 * h)
				bend := (l.Response(s+h) - 2*g + l.Response(s-h)) / (h * h) / slope
				tol := kerneltest.Tol{Rel: 1e-5, Abs: 1e-4}
				switch {
				case r.Slope != nil:
					kerneltest.Close(t, what+": slope", r.Slope(g), slope, tol)
				case !r.Binary && !r.Trials:
					t.Errorf("%s: no slope", what)
				default:
					_, score, _ := l.LogLik(Obs{Y: 1, Trials: 1, Weight: 1}, s)
					kerneltest.Close(t, what+": slope by the score", g*score, slope, tol)
				}
				if math.Abs(s) < 3 {
					kerneltest.Close(t, what+": bend", r.Bend(s), bend, tol)
				}
			}
			if r.Concave != concave || r.Canonical != canonical {
				t.Errorf("%s: concave %v, canonical %v; found %v, %v", what, r.Concave, r.Canonical, concave, canonical)
			}
			if _, bumpy := l.(Bumpy); bumpy == r.Concave {
				t.Errorf("%s: concave %v, Bumpy %v", what, r.Concave, bumpy)
			}
			if _, err := NewLearning(l, 0); (err == nil) != r.Gaussian {
				t.Errorf("%s: Gaussian %v, %v", what, r.Gaussian, err)
			}
			_, dispersed := l.(Dispersed)
			if r.Located && (!dispersed || l.Response(1.5) != 1.5) || dispersed != slices.Contains(With("dispersion"), f.Family) {
				t.Errorf("%s: located %v, dispersed %v", what, r.Located, dispersed)
			}
			if _, shaped := l.(Shaped); shaped != slices.Contains(With("shape"), f.Family) {
				t.Errorf("%s: shaped %v", what, shaped)
			}
			if two := l.Check(Obs{Y: 2, Weight: 1, Trials: 1}) != nil && l.Check(Obs{Y: 0.5, Weight: 1, Trials: 1}) != nil; r.Binary && !two || r.Trials != (l.Check(Obs{Y: 1, Weight: 1}) != nil) {
				t.Errorf("%s: binary %v, trials %v", what, r.Binary, r.Trials)
			}
			// on the side of growth the derivatives or the response grow by e in a step of 1, far
			// out
			for _, side := range []float64{1, -1} {
				most := 0.0
				for _, o := range rows {
					_, _, a := l.LogLik(o, 20*side)
					_, _, b := l.LogLik(o, 21*side)
					if math.Abs(a) > 1 {
						most = max(most, b/a)
					}
				}
				steep := l.Response(21)/l.Response(20) > 2
				if grows := most > 2; grows && r.Growth != side || !grows && r.Growth == side && !steep {
					t.Errorf("%s: growth %v, but derivatives grow by %v towards %v", what, r.Growth, most, side)
				}
			}
			if _, v1 := l.Predict(1, 0); r.Relative {
				_, v2 := l.Predict(3, 0)
				kerneltest.Close(t, what+": relative variance", v2/v1, math.Exp(4), kerneltest.Tol{Rel: 1e-12})
			}
			if r.LogOdds {
				kerneltest.Close(t, what+": log odds", l.Response(1.3), 1/(1+math.Exp(-1.3)), kerneltest.Tol{Rel: 1e-14})
			}
			if !(r.Scale > 0) {
				t.Errorf("%s: scale %v", what, r.Scale)
			}
			if r.Trials {
				trials++
				if f.Family != OfTrials() {
					t.Errorf("%s has trials, OfTrials is %s", what, OfTrials())
				}
			}
		}
	}
	if trials == 0 {
		t.Error("no family of trials")
	}
	if got := Those(func(r Traits) bool { return r.LogOdds }); got != "bernoulli or binomial with link logit" {
		t.Error(got)
	}
}

// What is known of the inverse link is of the function Response.
func TestInverse(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		r := l.Traits()
		if r.Predictor == nil || r.Slopes == nil {
			t.Fatal("no link, or no derivatives")
		}
		const h = 1e-3
		tol := kerneltest.Tol{Rel: 1e-7, Abs: 1e-10} // central differences of fourth order
		slope := func(k int) func(float64) float64 {
			return func(s float64) float64 {
				d1, d2, d3 := r.Slopes(s)
				return [...]float64{l.Response(s), d1, d2, d3}[k]
			}
		}
		for s := -4.0; s <= 4; s += 0.5 {
			for k := range 3 {
				kerneltest.Gradient(t, fmt.Sprintf("derivative %d at %v", k+1, s), slope(k), s, h, slope(k+1)(s), tol)
			}
			g := l.Response(s)
			d1, _, _ := r.Slopes(s)
			// rounding of g, as much as the link makes of it; of a chance of nearly 1 that is all
			if rounding := 4e-16 * max(1, math.Abs(g)/d1); rounding < 1e-3 {
				kerneltest.Close(t, fmt.Sprintf("link at %v", s), r.Predictor(g), s, kerneltest.Tol{Rel: 1e-13, Abs: rounding})
			}
			if r.Averaged == nil {
				continue
			}
			for _, v := range []float64{0, 0.3, 4} {
				var want [3]float64
				total, sd := 0.0, math.Sqrt(v)
				for z := -12.0; z <= 12; z += 1.0 / 32 {
					w := math.Exp(-0.5 * z * z)
					d1, d2, d3 := r.Slopes(s + sd*z)
					total += w
					want[0], want[1], want[2] = want[0]+w*d1, want[1]+w*d2, want[2]+w*d3
				}
				d1, d2, d3 := r.Averaged(s, v)
				for k, got := range [...]float64{d1, d2, d3} {
					kerneltest.Close(t, fmt.Sprintf("mean of derivative %d, N(%v, %v)", k+1, s, v), got, want[k]/total, kerneltest.Tol{Rel: 1e-12, Abs: 1e-14})
				}
			}
		}
		if r.Binary || r.Trials {
			for g, want := range map[float64]int{0: -1, -0.1: -1, 1: 1, 1.1: 1} {
				if !math.IsInf(r.Predictor(g), want) {
					t.Errorf("link at %v: %v", g, r.Predictor(g))
				}
			}
		}
	})
}

// What y is, and what e^s is.
func TestResponses(t *testing.T) {
	every(t, func(t *testing.T, l Likelihood) {
		r := l.Traits()
		ok := func(y float64) bool { return l.Check(Obs{Y: y, Weight: 1}) == nil }
		if counts := ok(0) && ok(5) && ok(1e6) && !ok(0.5) && !ok(-1); counts != r.Counts {
			t.Errorf("counts %v", r.Counts)
		}
		equal, constant, logMean, logRate := true, true, true, true
		for _, s := range []float64{-3, -0.5, 0, 1.2, 4} {
			mean, variance := l.Predict(s, 0)
			near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }
			equal = equal && near(variance, mean)
			d, dispersed := l.(Dispersed)
			constant = constant && dispersed && near(variance, d.Dispersion())
			logMean = logMean && near(l.Response(s), math.Exp(s))
			logRate = logRate && (r.Counts && near(l.Response(s), math.Exp(s)) || (r.Binary || r.Trials) && near(l.Response(s), -math.Expm1(-math.Exp(s))))
		}
		if (r.Counts && equal) != r.Equidispersed || constant != r.Homoscedastic || logMean != r.LogMean || logRate != r.LogRate {
			t.Errorf("%+v: found equidispersed %v, homoscedastic %v, log of the mean %v, of the rate %v", r, equal, constant, logMean, logRate)
		}
	})
}
