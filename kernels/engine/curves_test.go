package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// shaped draws n responses of a family whose predictor is a function of two numbers.
func shaped(seed uint64, n int, family string, predictor func(u, v float64) float64) (u, v, y []float64) {
	rnd := rand.New(rand.NewPCG(seed, 80))
	for range n {
		a, b := 2*rnd.NormFloat64(), 3*rnd.NormFloat64()
		s, response := predictor(a, b), 0.0
		switch family {
		case "gaussian", "studentt":
			response = 100 + 20*(s+rnd.NormFloat64())
		case "gamma":
			response = math.Exp(s) * rnd.ExpFloat64()
		case "poisson", "negbinomial":
			for until := rnd.ExpFloat64(); until < math.Exp(s) && response < 1e4; until += rnd.ExpFloat64() {
				response++
			}
		default:
			if rnd.Float64() < 1/(1+math.Exp(-s)) {
				response = 1
			}
		}
		u, v, y = append(u, a), append(v, b), append(y, response)
	}
	return u, v, y
}

const (
	bends    = "residuals follow column u otherwise than by a line, for 0."
	together = "residuals follow columns u and v together, for "
)

// statusOf fits responses y to columns.
func statusOf(t *testing.T, method, family string, y []float64, columns ...*rows.Slice) string {
	t.Helper()
	s := option.Defaults()
	s.Family = family
	r, err := Fit(context.Background(), method, s, &rows.Table{X: rows.Fields(columns...), Y: rows.Numbers("y", y)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Fit.Status
}

// products are those of two columns.
func products(u, v []float64) []float64 {
	out := make([]float64, len(u))
	for i := range out {
		out[i] = u[i] * v[i]
	}
	return out
}

// TestCurves: methods say which column responses follow otherwise than by a line, and nothing if they
// follow a line, or if the fit has the size as well.
func TestCurves(t *testing.T) {
	kerneltest.Slow(t)
	for _, method := range []string{"auto", "laplace", "ep", "lowrank", "adf", "ekf", "sequential_laplace"} {
		for _, family := range []string{"gaussian", "studentt", "bernoulli", "poisson", "gamma"} {
			if method == "ekf" && family != "gaussian" || method == "sequential_laplace" && family != "gaussian" && family != "bernoulli" {
				continue
			}
			for seed := range uint64(3) {
				what := fmt.Sprintf("%s, %s, seed %d", method, family, seed)
				check := func(what, status string, want bool) {
					t.Helper()
					if strings.Contains(status, bends) != want || strings.Contains(status, together) {
						t.Errorf("%s: %s", what, status)
					}
				}
				steep := map[bool]float64{false: 1.5, true: 4}[family == "bernoulli"] // of which one row says little
				u, v, y := shaped(seed, 600, family, func(u, _ float64) float64 { return steep * (math.Abs(u) - 1.3) })
				own := []*rows.Slice{rows.Numbers("u", u), rows.Numbers("v", v)}
				check(what, statusOf(t, method, family, y, own...), true)
				if method == "laplace" { // rows in the order of their responses depend on each other by that alone
					a, b, z := slices.Clone(u), slices.Clone(v), slices.Clone(y)
					order := make([]int, len(y))
					for i := range order {
						order[i] = i
					}
					slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(y[i], y[j]) })
					for to, i := range order {
						a[to], b[to], z[to] = u[i], v[i], y[i]
					}
					check(what+", sorted", statusOf(t, method, family, z, rows.Numbers("u", a), rows.Numbers("v", b)), true)
				}
				for i := range v {
					v[i] = math.Abs(u[i])
				}
				check(what+", with its size", statusOf(t, method, family, y, own...), false)
				u, v, y = shaped(seed, 600, family, func(u, v float64) float64 { return (u + v) / 3 })
				check(what+", a line", statusOf(t, method, family, y, rows.Numbers("u", u), rows.Numbers("v", v)), false)
			}
		}
	}
}

// TestCurvesTogether: methods that keep the rows say which two columns, numbers or levels, have an
// effect only together, and nothing once the fit has their interaction.
func TestCurvesTogether(t *testing.T) {
	kerneltest.Slow(t)
	side := func(x []float64) []string {
		out := make([]string, len(x))
		for i, v := range x {
			out[i] = map[bool]string{false: "low", true: "high"}[v > 0]
		}
		return out
	}
	product := func(u, v float64) float64 { return u * v }
	signs := func(u, v float64) float64 { return math.Copysign(3, u*v) }
	for _, method := range []string{"auto", "laplace", "ep"} {
		for _, family := range []string{"gaussian", "bernoulli"} {
			for seed := range uint64(3) {
				check := func(what, status string, want bool) {
					t.Helper()
					if strings.Contains(status, together) != want || strings.Contains(status, bends) {
						t.Errorf("%s, %s, seed %d, %s: %s", method, family, seed, what, status)
					}
				}
				u, v, y := shaped(seed, 400, family, product)
				own := []*rows.Slice{rows.Numbers("u", u), rows.Numbers("v", v)}
				check("numbers", statusOf(t, method, family, y, own...), true)
				check("their product", statusOf(t, method, family, y, append(own, rows.Numbers("w", products(u, v)))...), false)
				u, v, y = shaped(seed, 400, family, signs)
				levels := []*rows.Slice{rows.Texts("u", side(u)), rows.Texts("v", side(v))}
				check("levels", statusOf(t, method, family, y, levels...), true)
				check("a number and a level", statusOf(t, method, family, y, rows.Numbers("u", u), levels[1]), true)
				check("crossed levels", statusOf(t, method, family, y, append(levels, rows.Texts("w", side(products(u, v))))...), false)
			}
		}
	}
}
