package laplace

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// Eight counts do not bound the size of a negative binomial: the most likely one is noted, and that
// nothing else is known; of four hundred with much spread its deviation is.
func TestHardlyKnownShape(t *testing.T) {
	few := data{x: [][]float64{{-2.44}, {-2.02}, {-0.44}, {-0.2}, {0.99}, {0.92}, {1.2}, {-0.54}}, y: []float64{0, 1, 0, 0, 2, 0, 2, 0}}
	many := data{}
	for i := range 400 {
		many.x = append(many.x, []float64{math.Sin(float64(i))})
		many.y = append(many.y, float64(i*i%7*(i%3)))
	}
	for _, c := range []struct {
		d     data
		known bool
	}{{few, false}, {many, true}} {
		m := model(t, "negbinomial", "", lik.Params{Shape: 1})
		m.NoIntercept, m.Prior = false, kernels.DefaultPrior
		m.Options = kernels.Options{AutoShape: true}
		f, err := Fit(context.Background(), problem(t, m, c.d))
		if err != nil {
			t.Fatal(err)
		}
		_, sd, ok := f.LearntOf(kernels.LearntShape)
		if ok != c.known || strings.Contains(f.Status, "hardly bound the shape") == c.known {
			t.Errorf("%d rows: shape %v ± %v, status %q", len(c.d.y), f.Shape, sd, f.Status)
		}
	}
}
