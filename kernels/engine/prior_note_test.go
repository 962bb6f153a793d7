package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// A column of very many levels for its rows that has nothing to do with the responses, and
// weights far beyond their prior: the filters, ep and laplace say so, and only then.
func TestPriorThatDoesNotFit(t *testing.T) {
	kerneltest.Slow(t)
	const n = 2000
	for _, c := range []struct {
		name   string
		levels int
		spread float64 // of the levels' weights
		want   string
	}{{"fits", 20, 1, ""}, {"noise", 1000, 0, "too wide for the weights of column g"}, {"narrow", 60, 8, "too narrow for the weights of column g"}} {
		r := rand.New(rand.NewPCG(5, 6))
		w := make([]float64, c.levels)
		for k := range w {
			w[k] = c.spread * r.NormFloat64()
		}
		for _, method := range []string{"adf", "ep", "ekf", "sequential_laplace", "laplace"} {
			e, err := Find(method)
			if err != nil {
				t.Fatal(err)
			}
			m := &kernels.Model{Params: lik.Params{Dispersion: 1}, Prior: kernels.DefaultPrior}
			if m.Lik, err = lik.New("", "", m.Params); err != nil {
				t.Fatal(err)
			}
			if method == "adf" {
				m.Options.Covariance = "arrowhead"
			}
			f, err := e.New(context.Background(), m)
			if err != nil {
				t.Fatal(err)
			}
			d := f.Features()
			d.Use(kernels.NewColumns([]string{"g"}, nil))
			var b kernels.Batch
			b.Reset()
			b.Schema = &kernels.Schema{Names: []string{"g"}, Levels: []bool{true}}
			for range n {
				k := r.IntN(c.levels)
				id, err := d.Add(fmt.Sprintf("g=%d", k))
				if err != nil {
					t.Fatal(err)
				}
				b.Add(0, 1)
				b.Add(id, 1)
				b.EndRow()
				y := 0.0
				if r.Float64() < 1/(1+math.Exp(-0.4-w[k])) {
					y = 1
				}
				b.Y = append(b.Y, y)
			}
			if err := f.Update(context.Background(), &b, false); err != nil {
				t.Fatal(err)
			}
			fit, err := f.Fit(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(fit.Status, "prior_variance"); !strings.Contains(fit.Status, c.want) || has != (c.want != "") {
				t.Errorf("%s, %s: %s", c.name, method, fit.Status)
			}
		}
	}
}
