package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// The null model is where a search over mean and parameter, which knows the log likelihood alone,
// ends.
func TestNullLogLik(t *testing.T) {
	for _, c := range []struct {
		family, link string
		shape        float64
	}{
		{"bernoulli", "logit", 0}, {"bernoulli", "cloglog", 0}, {"binomial", "logit", 0}, {"gaussian", "identity", 0}, {"poisson", "log", 0},
		{"negbinomial", "log", 2}, {"gamma", "log", 0.7}, {"studentt", "identity", 3},
	} {
		made := func(dispersion, shape float64) Likelihood {
			l, err := New(c.family, c.link, Params{Dispersion: dispersion, Shape: shape})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := made(1.7, c.shape)
		d, err := DistributionOf(l)
		if err != nil {
			t.Fatal(err)
		}
		src := rand.NewPCG(1, 2)
		var rows []Obs
		for i := range 300 {
			o := Obs{Weight: 1 + float64(i%3)}
			if l.Traits().Trials {
				o.Trials = 1 + float64(i%4)
			}
			o.Y = d.Draw(0.3, o.Trials, src)
			rows = append(rows, o)
		}
		got, ok := NullLogLik(l, rows)
		best := climb(func(x [2]float64) float64 {
			p := made(1, c.shape)
			switch _, dispersed := l.(Dispersed); {
			case dispersed:
				p = made(math.Exp(x[1]), c.shape)
			case c.shape > 0:
				p = made(1, math.Exp(x[1]))
			}
			sum := 0.0
			for _, o := range rows {
				logp, _, _ := p.LogLik(o, x[0])
				sum += logp
			}
			return sum
		})
		if !ok {
			t.Fatal(c.family)
		}
		kerneltest.Close(t, c.family+" "+c.link, got, best, kerneltest.Tol{Rel: 1e-8})
	}
	// Counts without overdispersion are a Poisson law's.
	rows := []Obs{{Y: 2, Weight: 5}, {Y: 3, Weight: 4}}
	negbinomial, _ := New("negbinomial", "log", Params{})
	poisson, _ := New("poisson", "log", Params{})
	got, _ := NullLogLik(negbinomial, rows)
	want, _ := NullLogLik(poisson, rows)
	kerneltest.Close(t, "size without end", got, want, kerneltest.Tol{Rel: 1e-6})
}

// climb is the largest value of f near 0, by steps along its axes that become shorter.
func climb(f func(x [2]float64) float64) float64 {
	var x [2]float64
	best := f(x)
	for step := 1.0; step > 1e-7; {
		moved := false
		for k := range x {
			for _, d := range []float64{-step, step} {
				y := x
				y[k] += d
				if v := f(y); v > best {
					x, best, moved = y, v, true
				}
			}
		}
		if !moved {
			step /= 2
		}
	}
	return best
}

// Numbers that are all equal, or nearly all under heavy tails, have no largest density; no counts
// but 0, and no rows, none that says something.
func TestNoNullLogLik(t *testing.T) {
	same := []Obs{{Y: 2, Weight: 3}, {Y: 2, Weight: 1}}
	for family, rows := range map[string][]Obs{
		"gaussian": same, "gamma": same, "studentt": {{Y: 2, Weight: 99}, {Y: 3, Weight: 1}}, "negbinomial": {{Weight: 4}}, "poisson": nil,
	} {
		l, err := New(family, "", Params{Dispersion: 1})
		if err != nil {
			t.Fatal(err)
		}
		if logp, ok := NullLogLik(l, rows); ok {
			t.Errorf("%s: %v", family, logp)
		}
	}
}
