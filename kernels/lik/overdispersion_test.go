package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// The score is the slope of the log predictive probability in log r.
func TestOverdispersionSlope(t *testing.T) {
	for _, r := range []float64{0.05, 0.7, 3, 200} {
		for _, y := range []float64{0, 1, 7, 150} {
			for _, c := range [][2]float64{{0.3, 0}, {1, 0.01}, {2, 0.09}, {4, 0.25}} {
				o := Obs{Y: y, Weight: 1}
				at := func(h float64) float64 {
					l, err := New("negbinomial", "", Params{Shape: r * math.Exp(h)})
					if err != nil {
						t.Fatal(err)
					}
					return l.Moments(o, c[0], c[1]).LogZ
				}
				const h = 1e-4
				want := (at(h) - at(-h)) / (2 * h)
				l, err := New("negbinomial", "", Params{Shape: r})
				if err != nil {
					t.Fatal(err)
				}
				got := NewOverdispersion(r, 0).slope(y, c[0], c[1], l.Moments(o, c[0], c[1]))
				kerneltest.Close(t, "slope", got, want, kerneltest.Tol{Rel: 4e-3, Abs: 2e-5})
			}
		}
	}
}

// On counts at known rates the size learnt in one pass is the one of maximum likelihood,
// and Pearson's ratio of Poisson counts is 1.
func TestOverdispersion(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	const n = 3000
	for _, r := range []float64{0.5, 5} {
		d := NewOverdispersion(1, 0)
		var ys, ms []float64
		for range n {
			m := 1 + 0.5*rnd.NormFloat64()
			rate := math.Exp(m) / r
			g := 0.0 // gamma of shape r in halves: r = k/2 is k squared normals
			for range int(2 * r) {
				z := rnd.NormFloat64()
				g += 0.5 * z * z
			}
			y := 0.0
			for u := rnd.ExpFloat64(); u < rate*g; u += rnd.ExpFloat64() {
				y++
			}
			d.Learn(Obs{Y: y, Weight: 1}, m, 0)
			ys, ms = append(ys, y), append(ms, m)
		}
		best, top := 0.0, math.Inf(-1)
		for x := math.Log(r) - 1; x < math.Log(r)+1; x += 0.005 {
			l, err := New("negbinomial", "", Params{Shape: math.Exp(x)})
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i := range ys {
				logp, _, _ := l.LogLik(Obs{Y: ys[i], Weight: 1}, ms[i])
				sum += logp
			}
			if sum > top {
				best, top = x, sum
			}
		}
		kerneltest.Close(t, "log size", math.Log(d.Size()), best, kerneltest.Tol{Abs: 0.04})
	}
	d := NewOverdispersion(0, 0)
	for range n {
		m := rnd.NormFloat64()
		y := 0.0
		for u := rnd.ExpFloat64(); u < math.Exp(m); u += rnd.ExpFloat64() {
			y++
		}
		d.Learn(Obs{Y: y, Weight: 1}, m, 0)
	}
	if ratio, se := d.Pearson(); !(math.Abs(ratio-1) < 4*se) || !(se < 0.1) {
		t.Errorf("Pearson %v ± %v", ratio, se)
	}
	if d.Size() < 10 {
		t.Errorf("size %v of Poisson counts", d.Size())
	}
}
