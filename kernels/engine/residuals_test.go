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
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

const (
	dependent = "residuals of rows that follow each other correlate by "
	longRuns  = "equal responses come in long runs"
)

// walk returns n numbers of variance 1, neighbours of which correlate by c.
func walk(rnd *rand.Rand, n int, c float64) []float64 {
	e := make([]float64, n)
	for i := range e {
		e[i] = rnd.NormFloat64()
		if i > 0 {
			e[i] = c*e[i-1] + math.Sqrt(1-c*c)*e[i]
		}
	}
	return e
}

// drawSeries draws n responses of a family with a column that changes slowly from row to row, whose
// neighbours' errors, of deviation sd, correlate by c.
func drawSeries(seed uint64, n int, family string, sd, c float64) *rows.Table {
	rnd := rand.New(rand.NewPCG(seed, 78))
	x, e := walk(rnd, n, 0.95), walk(rnd, n, c)
	y := make([]float64, n)
	for i := range y {
		switch s := x[i] + sd*e[i]; family {
		case "gaussian", "studentt":
			y[i] = 100 + 20*s
		case "gamma":
			y[i] = math.Exp(s)
		case "poisson", "negbinomial":
			y[i] = math.Floor(3 * math.Exp(s))
		default:
			if x[i] > sd*e[i] {
				y[i] = 1
			}
		}
	}
	return &rows.Table{X: rows.Fields(rows.Numbers("x", x)), Y: rows.Numbers("y", y)}
}

// TestDependence: every method says that neighbouring rows are those of a series, or repeated, which
// makes intervals too narrow, and does not say so of independent ones. Merged passes, too.
func TestDependence(t *testing.T) {
	kerneltest.Slow(t)
	fit := func(method, family string, tab *rows.Table) string {
		t.Helper()
		s := option.Defaults()
		s.Family = family
		r, err := Fit(context.Background(), method, s, tab)
		if err != nil {
			t.Fatal(err)
		}
		return r.Fit.Status
	}
	check := func(what, status string, want bool) {
		t.Helper()
		if strings.Contains(status, dependent) != want {
			t.Errorf("%s: %s", what, status)
		}
	}
	for _, method := range []string{"auto", "laplace", "ep", "lowrank", "adf", "ekf", "sequential_laplace"} {
		for _, family := range []string{"gaussian", "studentt", "gamma", "negbinomial"} {
			if (method == "ekf" || method == "sequential_laplace") && family != "gaussian" {
				continue
			}
			for seed := range uint64(5) {
				what := fmt.Sprintf("%s, %s, seed %d", method, family, seed)
				if s := fit(method, family, drawSeries(seed, 300, family, 1, 0.9)); !strings.Contains(s, longRuns) {
					check(what, s, true)
				}
				check(what+", independent", fit(method, family, drawSeries(seed, 300, family, 1, 0)), false)
			}
		}
	}
	for seed := range uint64(5) {
		once := drawSeries(seed, 200, "gaussian", 1, 0)
		var x, y []float64
		for i := range once.Len() {
			v, w := numberAt(once.X.Child(0), i), numberAt(once.Y, i)
			x, y = append(x, v, v), append(y, w, w)
		}
		twice := &rows.Table{X: rows.Fields(rows.Numbers("x", x)), Y: rows.Numbers("y", y)}
		check("laplace, once", fit("laplace", "gaussian", once), false)
		check("laplace, twice", fit("laplace", "gaussian", twice), true)

		for _, c := range []float64{0, 0.8} {
			tab := drawSeries(seed, 400, "negbinomial", 1, c)
			f, _ := passes(t, func(s *option.Settings) {
				s.Family, s.Prior.Variance, s.Params.Shape, s.Standardize = "negbinomial", 1, 1, kernels.Given(false)
			}, tab, 3, nil)
			check(fmt.Sprint("passes, ", c), f.Status, c > 0)
			low, _ := lowRankPasses(t, []any{"family", "negbinomial", "prior_variance", 1.0, "shape", 1.0}, tab, 3)
			check(fmt.Sprint("passes of low rank, ", c), low.Status, c > 0)
			// The first pass has the mode, but none of the residuals at it.
			tab = drawSeries(seed, 400, "gaussian", 1, c)
			low, _ = lowRankPasses(t, []any{"family", "gaussian", "prior_variance", 1e4, "dispersion", 400.0}, tab, 3)
			check(fmt.Sprint("one pass of low rank, ", c), low.Status, false)
		}
	}
}

// TestOrderOfExactStream: the order of responses that columns explain is no reason for a note of a
// stream that has the posterior in any order.
func TestOrderOfExactStream(t *testing.T) {
	for seed := range uint64(10) {
		tab := drawSeries(seed, 1000, "gaussian", 0.3, 0)
		for _, method := range []string{"adf", "ekf"} {
			s := option.Defaults()
			s.Family = "gaussian"
			r, err := Fit(context.Background(), method, s, tab)
			if err != nil {
				t.Fatal(err)
			}
			if r.Fit.Status != "ok" {
				t.Errorf("%s, seed %d: %s", method, seed, r.Fit.Status)
			}
		}
	}
}

// TestMiddle: gaussian fits, batch and one pass, say that responses are skewed, have heavy tails or
// vary more in some rows than in others, and nothing of normal, logistic, uniform or rounded ones,
// nor where many weights take up much of what the rows vary.
func TestMiddle(t *testing.T) {
	kerneltest.Slow(t)
	const central = " of the rows lie in the central half of what gaussian expects of them: "
	noises := []struct {
		name string
		want bool
		draw func(rnd *rand.Rand, x float64) float64
	}{
		{"normal", false, func(rnd *rand.Rand, _ float64) float64 { return rnd.NormFloat64() }},
		{"logistic", false, func(rnd *rand.Rand, _ float64) float64 { u := rnd.Float64(); return math.Log(u / (1 - u)) }},
		{"uniform", false, func(rnd *rand.Rand, _ float64) float64 { return rnd.Float64() }},
		{"rounded", false, func(rnd *rand.Rand, _ float64) float64 { return math.Round(rnd.NormFloat64()) }},
		{"lognormal", true, func(rnd *rand.Rand, _ float64) float64 { return math.Exp(rnd.NormFloat64()) }},
		{"by x", true, func(rnd *rand.Rand, x float64) float64 { return math.Exp(x) * rnd.NormFloat64() }},
	}
	for _, noise := range noises {
		for _, columns := range []int{1, 120} {
			for seed := range uint64(4) {
				rnd := rand.New(rand.NewPCG(seed, 79))
				var fields []*rows.Slice
				y := make([]float64, 600)
				for j := range columns {
					x := walk(rnd, len(y), 0)
					for i := range y {
						y[i] += x[i] / math.Sqrt(float64(columns))
						if j == 0 {
							y[i] += noise.draw(rnd, x[i])
						}
					}
					fields = append(fields, rows.Numbers(fmt.Sprint("x", j), x))
				}
				tab := &rows.Table{X: rows.Fields(fields...), Y: rows.Numbers("y", y)}
				for _, method := range []string{"auto", "laplace", "adf", "lowrank"} {
					s := option.Defaults()
					s.Family = "gaussian"
					r, err := Fit(context.Background(), method, s, tab)
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(r.Fit.Status, central) != noise.want && !(noise.want && columns > 1) {
						t.Errorf("%s, %s, %d columns, seed %d: %s", method, noise.name, columns, seed, r.Fit.Status)
					}
				}
			}
		}
	}
}

// TestQuarters: fits that learn the shape of counts say that these have more zeros, beside large ones,
// than it allows, and nothing of counts that are so, of gamma or of heavy-tailed responses.
func TestQuarters(t *testing.T) {
	kerneltest.Slow(t)
	const quarter = " quarter of what negbinomial expects of them: "
	for _, method := range []string{"auto", "laplace", "ep", "lowrank"} {
		for seed := range uint64(4) {
			rnd := rand.New(rand.NewPCG(seed, 81))
			u := walk(rnd, 400, 0)
			counts := map[string][]float64{}
			for _, s := range u {
				large := math.Floor(8*math.Exp(0.3*s) + 3*rnd.Float64())
				counts["zeros"] = append(counts["zeros"], map[bool]float64{true: 0, false: large}[rnd.IntN(2) == 0])
				// Of size 1: geometric.
				counts["size 1"] = append(counts["size 1"], math.Floor(rnd.ExpFloat64()/math.Log1p(math.Exp(-0.5*s)/4)))
				counts["gamma"] = append(counts["gamma"], math.Exp(s)*rnd.ExpFloat64())
				counts["studentt"] = append(counts["studentt"], s+rnd.NormFloat64()/math.Sqrt((rnd.ExpFloat64()+rnd.ExpFloat64())/2))
			}
			for name, y := range counts {
				family := map[string]string{"gamma": "gamma", "studentt": "studentt"}[name]
				status := statusOf(t, method, kernels.Or(family, "negbinomial"), y, rows.Numbers("u", u))
				if strings.Contains(status, quarter) != (name == "zeros") || strings.Contains(status, "quarter of") && family != "" {
					t.Errorf("%s, %s, seed %d: %s", method, name, seed, status)
				}
			}
		}
	}
}
