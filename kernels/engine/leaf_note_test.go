package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// Of 66 columns the last two are leaves of an arrowhead, which are not centred: with means 20
// deviations from 0 their deviations came out 0.44 times those of a full covariance, means up to
// 3.3 of these off. It is said, and only there.
func TestNumbersFarFromZeroBeyondTheBlock(t *testing.T) {
	for _, c := range []struct {
		columns    int
		mean       float64
		covariance string
		said       bool
	}{{66, 20, "", true}, {66, 0.5, "", false}, {65, 20, "", false}, {66, 20, "full", false}} {
		rng := rand.New(rand.NewPCG(7, 1))
		var fields []*rows.Slice
		for j := range c.columns {
			u := make([]float64, 300)
			for i := range u {
				u[i] = c.mean + rng.NormFloat64()
			}
			fields = append(fields, rows.Numbers(fmt.Sprintf("u%d", j), u))
		}
		y := make([]float64, 300)
		for i := range y {
			y[i] = float64(rng.IntN(2))
		}
		s := option.Defaults()
		s.Options.Covariance = c.covariance
		f, err := engine.Fit(context.Background(), "adf", s, &rows.Table{X: rows.Fields(fields...), Y: rows.Numbers("y", y)})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(f.Status, "does not centre numbers beyond the first columns, and 2 of these"); got != c.said {
			t.Errorf("%+v: %s", c, f.Status)
		}
	}
}
