package kernels_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
)

// scaledProblem has numbers of several scales f0, f2 (constant), f3 to f6, and an indicator f1
// that is none.
func scaledProblem(t *testing.T, rng *rand.Rand, intercept bool) *kernels.Problem {
	t.Helper()
	l, _ := lik.New("gaussian", "", lik.Params{Dispersion: 1})
	m := &kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1}, Prior: kernels.DefaultPrior, NoIntercept: !intercept}
	r := mustRows(t, m)
	r.Dict.Use(kernels.NewColumns(nil, []string{"f0", "f2", "f3", "f4", "f5"}))
	var b kernels.Batch
	b.Reset()
	for i := range 40 {
		if intercept {
			b.Add(0, 1)
		}
		for j := range 6 {
			id, err := r.Dict.Add("f" + strconv.Itoa(j))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case j == 0:
				b.Add(id, 1e6+10*rng.NormFloat64())
			case j == 1:
				b.Add(id, 5*float64(i%2)) // no number: stays
			case j == 2:
				b.Add(id, 7)
			case rng.IntN(2) == 0:
				b.Add(id, 3+rng.NormFloat64()) // half of them absent
			}
		}
		b.EndRow()
		b.Y, b.Weight, b.Offset = append(b.Y, 50+rng.NormFloat64()), append(b.Weight, float64(i%3)), append(b.Offset, float64(i%4))
	}
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Standardised numbers and responses have weighted mean 0 and variance 1, without an intercept
// a mean square of 1; predictors are those of the original columns when weights are moved
// there and back.
func TestStandardize(t *testing.T) {
	for _, intercept := range []bool{true, false} {
		rng := rand.New(rand.NewPCG(1, 2))
		p := scaledProblem(t, rng, intercept)
		q, s, err := p.Standardize(0)
		if err != nil || s.Note != "" {
			t.Fatal(err, s.Note)
		}
		x := q.Dense()
		moments := func(what string, at func(i int) float64) {
			mean, sq, total := 0.0, 0.0, 0.0
			for i := range p.N {
				mean += p.Weight[i] * at(i)
				total += p.Weight[i]
				sq += p.Weight[i] * at(i) * at(i)
			}
			if math.Abs(sq/total-1) > 1e-9 || intercept && math.Abs(mean/total) > 1e-9 {
				t.Errorf("%s: mean %v, mean square %v", what, mean/total, sq/total)
			}
		}
		moments("y", func(i int) float64 { return q.Y[i] - q.Offset[i] })
		for j := range p.P {
			switch name := p.Name(j); {
			case name == kernels.Intercept || name == "f1":
				if s.Scale[j] != 1 || s.Shift[j] != 0 {
					t.Errorf("%s changed: %v %v", name, s.Scale[j], s.Shift[j])
				}
			case name == "f2" && intercept: // nothing is left of a constant
				for i := range p.N {
					if x.At(i, j) != 0 || s.Scale[j] != 7 {
						t.Fatalf("a constant became %v, scale %v", x.At(i, j), s.Scale[j])
					}
				}
			default:
				moments(name, func(i int) float64 { return x.At(i, j) })
			}
		}
		w, ws, back := make([]float64, p.P), make([]float64, p.P), make([]float64, p.P)
		for j := range w {
			w[j] = rng.NormFloat64()
		}
		s.To(ws, w)
		s.From(back, ws)
		a, b := make([]float64, p.N), make([]float64, p.N)
		p.Predictor(a, w)
		q.Predictor(b, ws)
		for i := range a {
			if got := b[i]*s.Unit + s.Origin; math.Abs(a[i]-got) > 1e-8*math.Abs(a[i])+1e-8 {
				t.Errorf("predictor %v, standardised %v", a[i], got)
			}
		}
		for j := range w {
			if math.Abs(back[j]-w[j]) > 1e-7 {
				t.Errorf("weight %v came back as %v", w[j], back[j])
			}
		}
	}
}

// Restore is the change of variables: covariance A Σ Aᵀ by brute force.
func TestRestore(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for _, center := range []bool{true, false} {
		p := scaledProblem(t, rng, center)
		_, std, err := p.Standardize(1)
		if err != nil {
			t.Fatal(err)
		}
		s := std.Scaling
		n := p.P
		l, f := dense.New(n, n), dense.New(n, 2)
		mean, d := make([]float64, n), make([]float64, n)
		for i := range n {
			mean[i], d[i] = rng.NormFloat64(), 2+rng.Float64()
			for k := range 2 {
				f.Row(i)[k] = 0.3 * rng.NormFloat64()
			}
			for j := range i {
				l.Row(i)[j] = rng.NormFloat64()
			}
			l.Row(i)[i] = 1 + rng.Float64()
		}
		low, err := gauss.NewLowRank(mean, d, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range []*gauss.Normal{gauss.NewFull(mean, l), gauss.NewDiagonal(mean, d), low} {
			got, err := s.Restore(g)
			if err != nil {
				t.Fatal(err)
			}
			if !center && got.Form != g.Form {
				t.Errorf("%v became %v", g.Form, got.Form)
			}
			a, cov, tmp, want, have := dense.New(n, n), dense.New(n, n), dense.New(n, n), dense.New(n, n), dense.New(n, n)
			e, col, none := make([]float64, n), make([]float64, n), make([]float64, n)
			for j := range n {
				clear(e)
				s.From(none, e)
				e[j] = 1
				s.From(col, e)
				for i := range n {
					a.Row(i)[j] = col[i] - none[i]
				}
			}
			g.Cov(cov)
			dense.Mul(tmp, a, cov)
			dense.MulTB(want, tmp, a)
			got.Cov(have)
			for i := range n {
				for j := range n {
					scale := math.Sqrt(want.At(i, i) * want.At(j, j))
					if math.Abs(have.At(i, j)-want.At(i, j)) > 1e-12*scale {
						t.Errorf("%v: covariance (%d,%d) %v, want %v", g.Form, i, j, have.At(i, j), want.At(i, j))
					}
				}
				if got.Form == gauss.Full {
					for k, v := range got.L.Row(i)[i:] {
						if k == 0 && !(v > 0) || k > 0 && v != 0 {
							t.Fatalf("not a lower factor: row %d has %v", i, got.L.Row(i))
						}
					}
				}
			}
		}
	}
}
