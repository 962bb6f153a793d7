package hmc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
)

// Where the covariances of weights that meet in rows are not kept, the status says it: the
// predictor of two collinear columns had nine times its variance.
func TestNoCovariances(t *testing.T) {
	for _, c := range []struct {
		weights, width, samples int
		says                    bool
	}{
		{FullCovariance + 1, 2, 10, true},
		{FullCovariance + 1, 1, 10, false}, // no two in one row
		{20, 2, 10, true},                  // 10 draws
		{20, 2, 40, false},
	} {
		r, err := kernels.NewRows(&kernels.Model{NoIntercept: true, Options: kernels.Options{Samples: c.samples, Warmup: 5, Chains: 1}})
		if err != nil {
			t.Fatal(err)
		}
		var b kernels.Batch
		for i := range c.weights {
			for k := range c.width {
				if err := b.AddNamed(&r.Dict, fmt.Sprint("w", (i+k)%c.weights), 1); err != nil {
					t.Fatal(err)
				}
			}
			b.EndRow()
			b.Y = append(b.Y, float64(i%2))
		}
		if err := r.Update(&b, false); err != nil {
			t.Fatal(err)
		}
		p, err := r.Problem()
		if err != nil {
			t.Fatal(err)
		}
		f, err := Fit(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(f.Status, "covariances are not kept of more than 500 weights") != c.says {
			t.Errorf("%d weights, %d in a row, %d draws, covariance %v: %s", c.weights, c.width, c.samples, f.Covariance.Form, f.Status)
		}
	}
}
