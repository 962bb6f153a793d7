package gp

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// The highest mode wins, wherever the mean is, and the status names the others. With a
// lengthscale far beyond the inputs f is a constant.
func TestSeveralModes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	near := func(at, sd float64, n int) (y []float64) {
		for range n {
			y = append(y, at+sd*rnd.NormFloat64())
		}
		return y
	}
	cases := []struct {
		family, link string
		dispersion   float64
		y            []float64
		note         bool
	}{
		{"studentt", "", 0.01, append(near(10, 0.1, 20), 0), true},
		{"studentt", "", 0.01, append(near(10, 0.1, 20), near(0, 0.1, 8)...), true},
		{"studentt", "", 0.01, append(near(-7, 0.1, 20), near(0, 0.1, 8)...), true},
		{"studentt", "", 0.01, append(append(near(4, 0.1, 9), near(0, 0.1, 3)...), near(-9, 0.1, 5)...), true},
		{"studentt", "", 1, near(3, 1, 40), false},
		{"gaussian", "log", 0.01, near(9, 0.1, 10), false},
	}
	for _, c := range cases {
		l := likelihood(t, c.family, c.link, c.dispersion, 4)
		p := problem{x: dense.New(len(c.y), 1), y: c.y}
		for i := range c.y {
			p.x.Set(i, 0, rnd.Float64())
		}
		f := p.fit(t, l, Options{Lengthscale: 1e5, SignalVariance: 100})
		at, log := kerneltest.HighestMode(func(s float64) (sum float64) {
			for _, v := range c.y {
				logp, _, _ := l.LogLik(lik.Obs{Y: v, Weight: 1}, s)
				sum += logp
			}
			return sum
		}, 100, -20, 20)
		m, _ := f.Predict([]float64{0.5}, new(Scratch))
		kerneltest.Close(t, c.family+" f", m, at, kerneltest.Tol{Abs: 2e-4})
		kerneltest.Close(t, c.family+" log evidence", f.LogEvidence, log, kerneltest.Tol{Abs: 2e-3, Rel: 1e-4})
		if strings.Contains(f.Status, "modes found") != c.note || !f.Converged {
			t.Errorf("%s: status %q", c.family, f.Status)
		}
	}
}

// A curve with a sixth of the rows off by far: the mode is as good as the one that a
// start at the truth finds.
func TestSeveralModesCurve(t *testing.T) {
	l := likelihood(t, "studentt", "", 0.01, 3)
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		const n = 60
		p := problem{x: dense.New(n, 1), y: make([]float64, n)}
		truth := make([]float64, n)
		for i := range n {
			u := 6 * rnd.Float64()
			p.x.Set(i, 0, u)
			truth[i] = 8 + 3*math.Sin(u)
			p.y[i] = truth[i] + 0.1*rnd.NormFloat64()
			if i%6 == 0 {
				p.y[i] = 0.1 * rnd.NormFloat64() // beside the mean
			}
		}
		o := Options{SignalVariance: 50}
		got := p.fit(t, l, o)
		k, err := o.check(l)
		if err != nil {
			t.Fatal(err)
		}
		s := newSearch(&data{mode.Data{Lik: l, Y: p.y}, p.x, nil}, newGeometry(k, p.x), o)
		g := likelihood(t, "gaussian", "", 0.01, 0)
		clean, err := Fit(context.Background(), g, p.x, truth, nil, nil, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		copy(s.alpha, clean.Alpha)
		if err := s.fit(o.parameters(l)); err != nil {
			t.Fatal(err)
		}
		if !(got.LogEvidence > s.logEvidence-1e-4) {
			t.Errorf("seed %d: log evidence %v, from the truth %v; %s", seed, got.LogEvidence, s.logEvidence, got.Status)
		}
	}
}
