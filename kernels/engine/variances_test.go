package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// crossed is a problem of two crossed columns of levels whose weights have the standard deviations
// sd, and what is learnt of it: a prior variance for each, with the dispersion of a gaussian.
func crossed(t *testing.T, family string, n, levels int, sd [2]float64) *kernels.Problem {
	t.Helper()
	s, err := option.For("laplace").Decode(func(yield func(string, option.Source) bool) {
		_ = yield("family", option.Go(family)) && yield("prior_variance", option.Go("auto")) &&
			(family != "gaussian" || yield("dispersion", option.Go("auto")))
	})
	if err != nil {
		t.Fatal(err)
	}
	method, err := Find("laplace")
	if err != nil {
		t.Fatal(err)
	}
	m, err := method.Model(s, false, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(11, uint64(n)))
	effect := [2][]float64{}
	for k := range effect {
		for range levels {
			effect[k] = append(effect[k], sd[k]*rng.NormFloat64())
		}
	}
	var b kernels.Batch
	b.Reset()
	for range n {
		b.Add(0, 1)
		eta := 0.3
		for k, name := range []string{"a", "b"} {
			j := rng.IntN(levels)
			id, err := r.Dict.Add(fmt.Sprintf("%s=%d", name, j))
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, 1)
			eta += effect[k][j]
		}
		b.EndRow()
		y := 0.0
		switch {
		case family == "gaussian":
			y = 40 * (eta + 1.5*rng.NormFloat64())
		case family == "poisson":
			for at := rng.ExpFloat64(); at < math.Exp(eta); at += rng.ExpFloat64() {
				y++
			}
		case rng.Float64() < 1/(1+math.Exp(-eta)):
			y = 1
		}
		b.Y = append(b.Y, y)
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

// What factorised beliefs learn of crossed columns is what the exact evidence learns, where that is
// affordable: to a tenth, of which half a nat that the search leaves open is most where there is no
// effect.
func TestLearnByEP(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct {
		family string
		sd     [2]float64
	}{{"bernoulli", [2]float64{0.8, 0.4}}, {"bernoulli", [2]float64{0.8, 0}}, {"poisson", [2]float64{0.5, 0.2}}, {"gaussian", [2]float64{0.7, 0.3}}, {"gaussian", [2]float64{0.7, 0}}} {
		p := crossed(t, c.family, 6000, 150, c.sd)
		_, exact, err := laplace.Learn(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		known, e, err := learnByEP(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if !e.Converged || known.LearnsPrior() {
			t.Errorf("%v: %s", c, e.Status)
		}
		done := map[string]bool{}
		for j := 1; j < p.P; j++ {
			name, _, _ := strings.Cut(p.Name(j), "=")
			if done[name] {
				continue
			}
			done[name] = true
			want, got := math.Sqrt(exact.PriorVar[j]), math.Sqrt(known.PriorVar[j])
			if math.Abs(got-want) > 0.1*want {
				t.Errorf("%v, %s: sd %.4f by ep, %.4f by the exact evidence", c, name, got, want)
			}
		}
		if len(done) != 2 {
			t.Error(done)
		}
		if c.family == "gaussian" {
			kerneltest.Close(t, "dispersion", known.Params.Dispersion, exact.Params.Dispersion, kerneltest.Tol{Rel: 0.02})
		}
	}
}

// Correlated weights are not learnt by expectation propagation, which would take them as
// independent.
func TestCorrelatedIsLaplace(t *testing.T) {
	p := crossed(t, "bernoulli", 60000, 3600, [2]float64{0.8, 0.4})
	if !laplace.LacksEvidence(p) {
		t.Fatalf("%d weights have an exact Hessian", p.P)
	}
	q, m := *p, *p.Model
	q.Model, m.Correlated = &m, [][]string{{"a", "b"}}
	if laplace.LacksEvidence(&q) {
		t.Error("learnt with correlated weights")
	}
}

// What each class learns against the rest is, over classes, what softmax's exact evidence learns,
// to a twentieth; without the factor for three classes it would be a fifth more. A variance that is
// given stays.
func TestLearnByClass(t *testing.T) {
	kerneltest.Slow(t)
	const n, levels = 6000, 120
	sd := map[string]float64{"a": 0.9, "b": 0.5}
	rng := rand.New(rand.NewPCG(3, 3))
	level, effect := map[string][]string{}, map[string][3]float64{}
	var y []float64
	for range n {
		var eta [3]float64 // the class is that of the largest predictor plus Gumbel noise
		for k := range eta {
			eta[k] = -math.Log(rng.ExpFloat64())
		}
		for _, column := range []string{"a", "b"} {
			name := fmt.Sprint(column, rng.IntN(levels))
			level[column] = append(level[column], name)
			of, ok := effect[name]
			for k := range eta {
				if !ok {
					of[k] = sd[column] * rng.NormFloat64()
				}
				eta[k] += of[k]
			}
			effect[name] = of
		}
		class := 0
		for k, e := range eta {
			if e > eta[class] {
				class = k
			}
		}
		y = append(y, float64(class))
	}
	tab := &rows.Table{X: rows.Fields(rows.Texts("a", level["a"]), rows.Texts("b", level["b"])), Y: rows.Numbers("y", y)}
	method, err := Find("softmax")
	if err != nil {
		t.Fatal(err)
	}
	m, err := method.Model(option.Defaults(), false, false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := method.New(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	src, err := tab.Source()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Feed(context.Background(), c, m, option.Fail, 0, n, &kernels.Batch{}); err != nil {
		t.Fatal(err)
	}
	r, err := c.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p, g, err := layOut(context.Background(), c.(*Classifier).Rows)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	known, err := learnByClass(context.Background(), p, 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Fit.Columns) != 2 {
		t.Fatal(r.Fit.Columns)
	}
	for _, column := range r.Fit.Columns {
		j := 0
		for !strings.HasPrefix(p.Name(j), column.Name+"=") {
			j++
		}
		kerneltest.Close(t, column.Name, math.Sqrt(known.PriorVar[j]), math.Sqrt(column.Variance), kerneltest.Tol{Rel: 0.05})
	}
	own := *p.Model
	m, p.Model = &own, &own
	m.Options.AutoPrior, m.Prior.Variance = false, 2.5
	for j := range p.P {
		p.PriorVar[j] = 2.5
	}
	for _, learnt := range []string{"a", "ab"} {
		m.PriorBy = nil
		for _, c := range learnt {
			m.PriorBy = append(m.PriorBy, kernels.ColumnPrior{Column: string(c), Auto: true})
		}
		if known, err = learnByClass(context.Background(), p, 3); err != nil {
			t.Fatal(err)
		}
		for j := range p.P {
			column, _, is := strings.Cut(p.Name(j), "=")
			if moved := known.PriorVar[j] != 2.5; moved != (is && strings.Contains(learnt, column)) {
				t.Errorf("%s learnt, %s: prior variance %v", learnt, p.Name(j), known.PriorVar[j])
			}
		}
		if moved := known.Prior.Variance != 2.5; moved != (len(learnt) == 1) { // the only one learnt is that of new weights
			t.Errorf("%s learnt: the variance of a new weight is %v", learnt, known.Prior.Variance)
		}
	}
}

// A minute of expectation propagation is what prior variances may take: more than a million binary
// rows, and some fifty thousand of a likelihood whose moments and parameters take quadrature.
func TestLearningWork(t *testing.T) {
	for _, c := range []struct {
		family string
		n      int
		auto   bool
		within bool
	}{{"bernoulli", 1_000_000, false, true}, {"gaussian", 1_000_000, true, true}, {"negbinomial", 40_000, true, true}, {"studentt", 40_000, true, false}} {
		l, err := lik.New(c.family, "", lik.Params{Dispersion: 1, Shape: 4})
		if err != nil {
			t.Fatal(err)
		}
		p := &kernels.Problem{Columns: design.Columns{N: c.n}, Model: &kernels.Model{Lik: l}}
		p.Options.AutoDispersion, p.Options.AutoShape = c.auto, c.auto
		if work := learningOf(p); work <= mostLearning != c.within {
			t.Errorf("%v: %g operations, of %g allowed", c, work, float64(mostLearning))
		}
	}
}
