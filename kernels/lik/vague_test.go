package lik

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// Beliefs as vague as 1e300, where the search for the mode starts at v l'(m): every law answers at
// once, also for responses of 1e308, up to 1e60 with a proper result (beyond, products overflow and
// the row is refused).
func TestVague(t *testing.T) {
	for _, f := range Families() {
		for _, link := range f.Links {
			l, err := New(f.Family, link, Params{Dispersion: 1, Shape: math.NaN()})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range []float64{1e-3, 1, 1e8, 1e20, 1e60, 1e100, 1e200, 1e300} {
				for _, m := range []float64{0, -1e3, 1e3, 1e100, -1e100, 1e308, -1e308} {
					for _, o := range []Obs{{Y: 0, Weight: 1, Trials: 2}, {Y: 1, Weight: 1, Trials: 2}, {Y: 2, Weight: 1, Trials: 2}, {Y: 1, Weight: 0.5, Trials: 1},
						{Y: 0, Weight: 3, Trials: 1}, {Y: 1e6, Weight: 1, Trials: 1e7}, {Y: 1e308, Weight: 1, Trials: 1}, {Y: -1e308, Weight: 1, Trials: 1}} {
						if l.Check(o) != nil {
							continue
						}
						start := time.Now()
						g := l.Moments(o, m, v)
						if took := time.Since(start); took > time.Second {
							t.Errorf("%s %s %+v m=%v v=%v takes %v", f.Family, link, o, m, v, took)
						}
						if math.Abs(m) <= 1e3 && math.Abs(o.Y) < 1e300 && v <= 1e60 && (math.IsNaN(g.LogZ) || !(g.Ratio > 0) || math.IsNaN(g.Alpha)) {
							t.Errorf("%s %s %+v m=%v v=%v: %s", f.Family, link, o, m, v, fmt.Sprintf("%+v", g))
						}
					}
				}
			}
		}
	}
}

// Two failures in two trials under N(0, v), v vast: half of the mass has p = 0, so that
// log Z is -log 2 and the law the lower half of the normal, mean -√(2v/π), variance v (1 - 2/π).
func TestVagueBinomial(t *testing.T) {
	l, err := New("binomial", "logit", Params{Dispersion: 1, Shape: math.NaN()})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []float64{1e30, 1e100} {
		g := l.Moments(Obs{Y: 0, Weight: 1, Trials: 2}, 0, v)
		for what, x := range map[string][2]float64{"log Z": {g.LogZ, -math.Ln2}, "ratio": {g.Ratio, 1 - 2/math.Pi}, "alpha": {g.Alpha * math.Sqrt(v), -math.Sqrt(2 / math.Pi)}} {
			if math.Abs(x[0]/x[1]-1) > 1e-6 {
				t.Errorf("v = %v: %s = %v, want %v", v, what, x[0], x[1])
			}
		}
	}
}
