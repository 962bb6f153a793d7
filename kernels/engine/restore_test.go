package engine_test

import (
	"context"
	"maps"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// A low-rank stream of standardised columns comes back to their own units with its means, which
// by precision times mean were off by 10⁴ deviations. Expected is the full covariance.
func TestLowRankIsRestored(t *testing.T) {
	var u, c, y, w []float64
	for i := range 5000 {
		if i%24 < 20 {
			u, c, y, w = append(u, float64(i-20)), append(c, 3), append(y, float64(i-20)), append(w, float64(i))
		}
	}
	var fits [2]*kernels.Fit
	for k, form := range []string{"full", "lowrank"} {
		given := map[string]option.Source{}
		for key, value := range map[string]string{"family": `"gaussian"`, "covariance": `"` + form + `"`, "rank": "3", "standardize": "true", "dispersion": "1"} {
			given[key] = option.JSON([]byte(value), "")
		}
		if form == "full" {
			delete(given, "rank")
		}
		s, err := option.For("ekf").Decode(maps.All(given))
		if err != nil {
			t.Fatal(err)
		}
		f, err := engine.Fit(context.Background(), "ekf", s, &rows.Table{X: rows.Fields(rows.Numbers("n", u), rows.Numbers("c", c)), Y: rows.Numbers("y", y), Weight: rows.Numbers("weight", w)})
		if err != nil {
			t.Fatal(err)
		}
		fits[k] = f.Fit
	}
	for j, b := range fits[0].Beliefs {
		if d := math.Abs(fits[1].Beliefs[j].Mean-b.Mean) / math.Sqrt(b.Variance); !(d < 1e-6) {
			t.Errorf("mean of %s is %v, by the full covariance %v: %.2g deviations", b.Feature, fits[1].Beliefs[j].Mean, b.Mean, d)
		}
	}
}
