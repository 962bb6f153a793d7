package engine_test

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/rows"
)

// Rows of several weights that determine all of them leave the noise a guess near 0; a low rank
// that leaves nothing out takes them as the full covariance does (means were up to 40 deviations
// off, and the noise 100 times too large).
func TestLowRankOfGuessedNoise(t *testing.T) {
	for _, n := range []int{6, 8, 10, 30} {
		x, z, g, y, w := make([]float64, n), make([]float64, n), make([]string, n), make([]float64, n), make([]float64, n)
		for i := range x {
			x[i], z[i] = 1.5*math.Sin(float64(7*i*i+1)), 1.5*math.Cos(float64(5*i*i+2))
			g[i] = []string{"a", "b", "c"}[i%3]
			y[i] = 0.3 + 0.5*x[i] - 0.3*z[i] + 0.6*math.Sin(float64(11*i*i*i+3))
			w[i] = []float64{0.5, 2, 1, 1, 2, 2, 0.5}[i%7]
		}
		// Of low rank the noise is learnt by innovations, of all weights by squares: of four and a
		// half degrees of freedom each is known to two thirds.
		noise, mean := 0.2, 0.1
		if n == 8 {
			noise, mean = 0.5, 0.3
		}
		tab := &rows.Table{X: rows.Fields(rows.Numbers("x", x), rows.Numbers("z", z), rows.Texts("g", g)), Y: rows.Numbers("y", y), Weight: rows.Numbers("w", w)}
		for _, method := range []string{"adf", "sequential_laplace", "ekf"} {
			full, _ := fitBy(t, method, tab, map[string]any{"family": "gaussian", "covariance": "full"})
			low, _ := fitBy(t, method, tab, map[string]any{"family": "gaussian", "covariance": "lowrank"})
			if ratio := low.Fit.Dispersion / full.Fit.Dispersion; !(math.Abs(ratio-1) < noise) {
				t.Errorf("%s of %d rows: noise %.4g for %.4g", method, n, low.Fit.Dispersion, full.Fit.Dispersion)
			}
			for j, b := range full.Beliefs {
				if off := (low.Beliefs[j].Mean - b.Mean) / math.Sqrt(b.Variance); !(math.Abs(off) < mean) {
					t.Errorf("%s of %d rows: %s is %.3g deviations off", method, n, b.Feature, off)
				}
			}
		}
	}
}
