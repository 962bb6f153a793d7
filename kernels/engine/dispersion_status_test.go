package engine_test

import (
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/rows"
)

// One response that is far out among fifty makes the dispersion what its square over their number
// is, however far that is above the spread of the others.
func TestDispersionOfOutliers(t *testing.T) {
	for _, method := range []string{"laplace", "auto", "ep", "lowrank"} {
		for _, out := range []float64{1e5, 1e8, 1e11} {
			if method == "ep" && out > 1e10 {
				continue // beyond its digits, which is an error
			}
			var x, y []float64
			sum, square := 0.0, 0.0
			for i := range 50 {
				v := 2*float64(i) + math.Sin(float64(i*i))
				if i == 7 {
					v += out
				}
				x, y = append(x, float64(i)), append(y, v)
				sum, square = sum+v, square+v*v
			}
			variance := square/50 - sum*sum/2500
			tab := &rows.Table{X: rows.Fields(rows.Numbers("a", x)), Y: rows.Numbers("y", y)}
			r, _ := fitBy(t, method, tab, map[string]any{"family": "gaussian"})
			kerneltest.Close(t, method+": dispersion", r.Fit.Dispersion, variance, kerneltest.Tol{Rel: 0.1})
			if strings.Contains(r.Status, "range") || !r.Converged {
				t.Errorf("%s with %g: %s", method, out, r.Status)
			}
		}
	}
}

// Where rows leave nothing to learn a dispersion from, or none counts, the status says so.
func TestNothingToLearnFrom(t *testing.T) {
	for _, method := range []string{"laplace", "auto", "ep"} {
		for n := 1; n <= 6; n++ {
			x, y := []float64{1, 2, 3, 4, 5, 6}, []float64{3, 5, 4, 3.5, 6, 5}
			tab := &rows.Table{X: rows.Fields(rows.Numbers("a", x[:n])), Y: rows.Numbers("y", y[:n])}
			r, _ := fitBy(t, method, tab, map[string]any{"family": "gaussian"})
			if said := strings.Contains(r.Status, "the dispersion is a guess"); said != (n <= 2) && n != 3 {
				t.Errorf("%s of %d rows: %s", method, n, r.Status)
			}
		}
	}
	x, y := []float64{1, 2, 3, 4, 5, 6}, []float64{0, 1, 0, 0, 1, 1}
	for _, family := range []string{"gaussian", "bernoulli", "negbinomial"} {
		for _, method := range []string{"laplace", "auto", "ep", "lowrank"} {
			tab := &rows.Table{X: rows.Fields(rows.Numbers("a", x), rows.Texts("g", []string{"u", "v", "u", "v", "u", "v"})), Y: rows.Numbers("y", y), Weight: rows.Numbers("w", make([]float64, 6))}
			r, _ := fitBy(t, method, tab, map[string]any{"family": family, "prior_variance": "auto"})
			if !strings.Contains(r.Status, "no row counts, for all weights are 0") || r.Learnt != nil || r.Prior.Variance != 1 {
				t.Errorf("%s %s: %v, prior %v, %v", method, family, r.Status, r.Prior, r.Learnt)
			}
		}
		for _, method := range []string{"adf", "ekf", "sequential_laplace"} {
			if method != "adf" && family != "bernoulli" {
				continue
			}
			for _, w := range []float64{0, 1} {
				tab := &rows.Table{X: rows.Fields(rows.Numbers("a", x)), Y: rows.Numbers("y", y), Weight: rows.Numbers("w", []float64{0, 0, 0, w, 0, 0})}
				r, _ := fitBy(t, method, tab, map[string]any{"family": family})
				if strings.Contains(r.Status, kernels.WeightlessNote) != (w == 0) {
					t.Errorf("%s %s, one weight of %v: %v", method, family, w, r.Status)
				}
			}
		}
	}
}

// Normal intervals under one value of a dispersion are too narrow where few rows are left to learn
// it from (at two, the quantile is 1.96 for Student's 4.30); what is averaged over the dispersion
// is not, and a given one needs no learning.
func TestFewRowsOfOneDispersion(t *testing.T) {
	x, y := make([]float64, 30), make([]float64, 30)
	for i := range x {
		x[i], y[i] = math.Cos(float64(i*i)), 2+math.Sin(float64(3*i*i))
	}
	for _, family := range []string{"gaussian", "studentt"} {
		for _, n := range []int{4, 6, 8, 15, 30} {
			tab := &rows.Table{X: rows.Fields(rows.Numbers("a", x[:n])), Y: rows.Numbers("y", y[:n])}
			for _, c := range []struct {
				method string
				o      map[string]any
				narrow bool
			}{
				{"ep", map[string]any{}, true},
				{"ep", map[string]any{"link": "log"}, true},
				{"lowrank", map[string]any{}, true},
				{"lowrank", map[string]any{"link": "log"}, true},
				{"lowrank", map[string]any{"dispersion": 1.0}, false},
				{"laplace", map[string]any{"integrate": false}, true},
				{"laplace", map[string]any{"integrate": false, "link": "log"}, true},
				{"laplace", map[string]any{"link": "log"}, false},
				{"hmc", map[string]any{"samples": 100, "warmup": 100, "chains": 2, "link": "log"}, true},
				{"hmc", map[string]any{"samples": 100, "warmup": 100, "chains": 2}, true},
				{"laplace", map[string]any{}, false},
				{"auto", map[string]any{}, false},
				{"ep", map[string]any{"dispersion": 1.0}, false},
			} {
				if c.o["family"] = family; c.o["link"] != nil && family != "gaussian" {
					continue
				}
				r, _ := fitBy(t, c.method, tab, c.o)
				if said := strings.Contains(r.Status, "degrees of freedom, all that the rows leave"); said != (c.narrow && n <= 8) {
					t.Errorf("%s of %d %s rows, %v: %s", c.method, n, family, c.o, r.Status)
				}
			}
		}
	}
}
