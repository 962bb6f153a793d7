package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// TestMiddle: the part of the rows in the middle and the part that normal residuals of their mean
// square would have there are those of the density, by quadrature; the note appears at known ones.
func TestMiddle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	logistic := distuv.Logistic{Mu: 0, S: math.Sqrt(3) / math.Pi}
	for _, c := range []struct {
		name    string
		draw    func() float64        // of variance 1
		density func(float64) float64 // nil for discrete ones
		want    bool                  // a note
		more    float64               // in the middle, to two digits
	}{
		{"normal", rnd.NormFloat64, distuv.UnitNormal.Prob, false, 0},
		{"uniform", func() float64 { return math.Sqrt(12) * (rnd.Float64() - 0.5) }, distuv.Uniform{Min: -math.Sqrt(3), Max: math.Sqrt(3)}.Prob, false, -0.11},
		{"logistic", func() float64 { return logistic.Quantile(rnd.Float64()) }, logistic.Prob, false, 0.04},
		{"t3", func() float64 {
			return distuv.StudentsT{Sigma: 1 / math.Sqrt(3), Nu: 3, Src: rnd}.Rand()
		}, distuv.StudentsT{Sigma: 1 / math.Sqrt(3), Nu: 3}.Prob, true, 0.10},
		{"one of a hundred a hundred times as far", func() float64 {
			r := rnd.NormFloat64()
			if rnd.IntN(100) == 0 {
				r *= 100
			}
			return r / math.Sqrt(0.99+100)
		}, func(x float64) float64 {
			sd := 1 / math.Sqrt(0.99+100)
			return 0.99*distuv.Normal{Sigma: sd}.Prob(x) + 0.01*distuv.Normal{Sigma: 100 * sd}.Prob(x)
		}, true, 0.01},
		{"two values", func() float64 { return float64(2*rnd.IntN(2) - 1) }, nil, false, -0.5},
		{"lognormal", func() float64 {
			return (math.Exp(rnd.NormFloat64()) - math.Exp(0.5)) / math.Sqrt(math.E*(math.E-1))
		}, nil, true, 0.20},
	} {
		const n = 100_000
		var m, a, b Middle
		for i := range n {
			r, sd := c.draw(), 0.01
			m.Add(Obs{Weight: 1}, r/sd, 1/(sd*sd))
			m.Add(Obs{}, 2, 1)
			if i < n/3 {
				a.Add(Obs{Weight: 1}, r, 1)
			} else {
				b.Add(Obs{Weight: 1}, r, 1)
			}
		}
		if a.Merge(b); a.n != m.n || a.within != m.within || math.Abs(a.squares-m.squares) > 1e-9*m.squares {
			t.Errorf("%s: parts %+v, all %+v", c.name, a, m)
		}
		if c.density != nil {
			within := quad.Fixed(c.density, -quartile, quartile, 1000, nil, 0)
			squares := 9 - quad.Fixed(func(x float64) float64 { return (9 - x*x) * c.density(x) }, -3, 3, 1000, nil, 0)
			if se := 5 / math.Sqrt(n); math.Abs(m.within/n-within) > 0.5*se || math.Abs(m.squares/n-squares) > 3*se {
				t.Errorf("%s: %v within, mean square %v; want %v and %v", c.name, m.within/n, m.squares/n, within, squares)
			}
		}
		if more := m.within/n - math.Erf(quartile/math.Sqrt(2*m.squares/n)); math.Abs(more-c.more) > 0.01 {
			t.Errorf("%s: %v more in the middle, want %v", c.name, more, c.more)
		}
		if s := m.Note(false); (s != "") != c.want {
			t.Errorf("%s: %q", c.name, s)
		}
		m = Middle{}
		for range 40 {
			m.Add(Obs{Weight: 1}, c.draw(), 1)
		}
		if s := m.Note(false); s != "" && c.density != nil {
			t.Errorf("40 rows, %s: %s", c.name, s)
		}
	}
}
