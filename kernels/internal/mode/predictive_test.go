package mode

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
)

// Of weights whose direction is known and whose size is not, the Gaussian of the mixture's moments
// predicts badly; by the factors it does as well as by the best of a grid of them, and far better
// than by none.
func TestFactors(t *testing.T) {
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 5))
	m := &kernels.Model{Lik: l, Prior: kernels.DefaultPrior}
	rows, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	names := []string{kernels.Intercept, "a", "b", "c"}
	for range 60 {
		for _, n := range names {
			id, err := rows.Dict.AddRaw(n)
			if err != nil {
				t.Fatal(err)
			}
			x := 1.0
			if n != kernels.Intercept {
				x = rng.NormFloat64()
			}
			b.Add(id, x)
		}
		b.EndRow()
		b.Y = append(b.Y, float64(rng.IntN(2)))
	}
	if err := rows.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := rows.Problem()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spread  float64 // of the logarithm of the size
		factors bool
	}{{0, false}, {0.1, false}, {1, true}, {1.5, true}} {
		e := Events(p)
		mixed, total := make([]float64, 2*p.N), 0.0
		mean, second := make([]float64, 4), dense.New(4, 4)
		center := []float64{0.2, 2, -1, 0.5}
		for z := -2.0; z <= 2; z += 0.5 {
			s, w := math.Exp(c.spread*z), math.Exp(-0.5*z*z)
			at, root := make([]float64, 4), dense.New(4, 4)
			for j := range at {
				at[j] = s * center[j]
				root.Row(j)[j] = 0.3 * s
				mean[j] += w * at[j]
			}
			for j := range at {
				second.Row(j)[j] += w * 0.09 * s * s
				for k := range at {
					second.Row(j)[k] += w * at[j] * at[k]
				}
			}
			for i, q := range e.Under(gauss.NewFull(at, root)) {
				mixed[i] += w * q
			}
			total += w
		}
		for i := range mixed {
			mixed[i] /= total
		}
		for j := range mean {
			mean[j] /= total
		}
		for j := range mean {
			for k := range mean {
				second.Row(j)[k] = second.Row(j)[k]/total - mean[j]*mean[k]
			}
		}
		if err := dense.Cholesky(second); err != nil {
			t.Fatal(err)
		}
		g := gauss.NewFull(mean, second)
		k, off := factors(e, mixed, g)
		plain := divergence(mixed, e.Under(g))
		if k.Plain() == c.factors {
			t.Errorf("spread %v: factors %v, %.5f nats a row without", c.spread, k, plain)
		}
		best := plain
		for a := -2.0; a <= 1; a += 0.05 {
			for v := -5.0; v <= 1; v += 0.05 {
				best = min(best, divergence(mixed, e.By(kernels.PredictiveScale{Mean: math.Exp(a), Variance: math.Exp(v)})))
			}
		}
		if c.factors && (off > best+1e-4 || off > plain/5) || !c.factors && off != plain {
			t.Errorf("spread %v: %.5f nats a row by %v, %.5f by the best of a grid, %.5f without", c.spread, off, k, best, plain)
		}
		t.Logf("spread %v: %.5f nats a row by %v, %.5f by the best of a grid, %.5f without", c.spread, off, k, best, plain)
	}
}

// classes are rows of ten classes: the odds of each against the others are off by the factor of the
// mean.
type classes struct{ log []float64 }

func (c classes) Under(*gauss.Normal) []float64 { return c.By(kernels.Unscaled) }

func (c classes) By(k kernels.PredictiveScale) []float64 {
	p, total := make([]float64, len(c.log)), 0.0
	for j, l := range c.log {
		p[j] = math.Exp(k.Mean * l)
		total += p[j]
	}
	for j := range p {
		p[j] /= total
	}
	return p
}

// However many classes there are, factors are sought where a row is predicted badly: what it says
// of all classes together counts, not of one of them on average.
func TestFactorsOfClasses(t *testing.T) {
	e := classes{[]float64{2, 0.3, 0.1, -0.4, 0, 0.2, -0.3, 0.1, 0, -0.2}}
	want := kernels.PredictiveScale{Mean: 0.9, Variance: 1}
	mixed := e.By(want)
	row := 0.0
	for j, p := range mixed {
		row += p * math.Log(p/e.Under(nil)[j])
	}
	if row < 1.5*unlike || row > 4*unlike {
		t.Fatalf("%v nats a row", row)
	}
	k, off := factors(e, mixed, nil)
	if math.Abs(k.Mean-want.Mean) > 0.02 || off > unlike/10 {
		t.Errorf("%v, %v nats off; %v nats a row without", k, off, row)
	}
}

// wideRows are rows whose predictors are wide.
type wideRows struct {
	l   lik.Likelihood
	out []float64
}

func (f *wideRows) Under(*gauss.Normal) []float64 { return f.By(kernels.Unscaled) }

func (f *wideRows) By(k kernels.PredictiveScale) []float64 {
	f.out = f.out[:0]
	for i := range 12 {
		p, _ := f.l.Predict(k.Of(float64(i)-5, 45+float64(i), 0))
		f.out = append(f.out, p, 1-p)
	}
	return f.out
}

// Of wide predictors the ratio of mean and deviation is all that matters: the factors are then not
// sought where both are as large as you like.
func TestFactorsStayNear(t *testing.T) {
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	e := &wideRows{l: l}
	mixed := append([]float64(nil), e.By(kernels.PredictiveScale{Mean: 45, Variance: 1000})...)
	at, off := factors(e, mixed, nil)
	if !(at.Mean < 2.5 && at.Variance < 2.5 && off < unlike) {
		t.Errorf("factors %v, %v nats a row off", at, off)
	}
}
