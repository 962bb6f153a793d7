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

	"github.com/bglm/bglm/kernels"
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

// TestCurvesTogether: methods say which two columns, numbers or levels, have an effect only together,
// and nothing once the fit has their interaction.
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
	for _, method := range []string{"auto", "laplace", "ep", "adf", "sequential_laplace"} {
		for _, family := range []string{"gaussian", "bernoulli"} {
			n := 400
			if method == "adf" || method == "sequential_laplace" { // predict without having met the row
				n = 700
			}
			for seed := range uint64(3) {
				check := func(what, status string, want bool) {
					t.Helper()
					if strings.Contains(status, together) != want || strings.Contains(status, bends) {
						t.Errorf("%s, %s, seed %d, %s: %s", method, family, seed, what, status)
					}
				}
				u, v, y := shaped(seed, n, family, product)
				own := []*rows.Slice{rows.Numbers("u", u), rows.Numbers("v", v)}
				check("numbers", statusOf(t, method, family, y, own...), true)
				bent, at, z := shaped(seed, n, family, func(u, v float64) float64 { return 3*u*v + 1.2*u*u }) // the product is more than the square
				check("and the square of one", statusOf(t, method, family, z, rows.Numbers("u", bent), rows.Numbers("v", at)), true)
				check("their product", statusOf(t, method, family, y, append(own, rows.Numbers("w", products(u, v)))...), false)
				u, v, y = shaped(seed, n, family, signs)
				levels := []*rows.Slice{rows.Texts("u", side(u)), rows.Texts("v", side(v))}
				check("levels", statusOf(t, method, family, y, levels...), true)
				check("a number and a level", statusOf(t, method, family, y, rows.Numbers("u", u), levels[1]), true)
				check("crossed levels", statusOf(t, method, family, y, append(levels, rows.Texts("w", side(products(u, v))))...), false)
			}
		}
	}
}

// TestCurvesTogetherMerged: parts of a stream whose columns have other numbers, and whose levels came in
// another order, say together what none has the rows to say.
func TestCurvesTogetherMerged(t *testing.T) {
	for seed := range uint64(5) {
		rnd := rand.New(rand.NewPCG(seed, 84))
		m, err := Find("adf")
		if err != nil {
			t.Fatal(err)
		}
		model, err := m.Model(option.Defaults(), false, false)
		if err != nil {
			t.Fatal(err)
		}
		part := func(n int, crossed bool, levels ...string) Fitter {
			var u, y []float64
			var g, other []string
			for i := range n {
				k, a := rnd.IntN(len(levels)), rnd.NormFloat64()
				if i < len(levels) {
					k = i // which comes first
				}
				s := a
				if crossed && k < 2 {
					s = []float64{4, -4}[map[bool]int{false: 0, true: 1}[levels[k] == "a"]] * a
				}
				u, g, other = append(u, a), append(g, levels[k]), append(other, string(rune('p'+rnd.IntN(3))))
				y = append(y, map[bool]float64{true: 1}[rnd.Float64() < 1/(1+math.Exp(-s))])
			}
			columns := []*rows.Slice{rows.Numbers("u", u), rows.Texts("g", g)}
			if levels[0] == "b" {
				columns = []*rows.Slice{rows.Texts("other", other), rows.Texts("g", g), rows.Numbers("u", u)}
			}
			src, err := (&rows.Table{X: rows.Fields(columns...), Y: rows.Numbers("y", y)}).Source()
			if err != nil {
				t.Fatal(err)
			}
			f, err := m.New(context.Background(), model)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := src.Feed(context.Background(), f, model, option.Fail, 0, n, &kernels.Batch{}); err != nil {
				t.Fatal(err)
			}
			return f
		}
		status := func(f Fitter) string {
			t.Helper()
			r, err := f.Fit(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return r.Fit.Status
		}
		merged := func(crossed bool) (each []string, all string) {
			parts := []Fitter{part(85, crossed, "a", "b"), part(85, crossed, "b", "a"), part(85, crossed, "b", "a"), part(85, crossed, "a", "b"), part(85, crossed, "b", "a"), part(85, crossed, "a", "b")}
			for _, p := range parts {
				each = append(each, status(p.Clone()))
			}
			for _, p := range parts[1:] {
				if err := parts[0].Merge(context.Background(), p); err != nil {
					t.Fatal(err)
				}
			}
			return each, status(parts[0].Clone())
		}
		const pair = "residuals follow columns u and g together, for "
		each, all := merged(true)
		if !strings.Contains(all, pair) || strings.Contains(strings.Join(each, ""), "together") {
			t.Errorf("seed %d: %s, of %q", seed, all, each)
		}
		if _, all := merged(false); all != "ok" {
			t.Errorf("seed %d, lines: %s", seed, all)
		}
	}
}

// TestCurvesOfClasses: a softmax says of which class residuals follow a column otherwise than by a
// line, two columns together, or the row before, and nothing of rows that are as it expects.
func TestCurvesOfClasses(t *testing.T) {
	kerneltest.Slow(t)
	for seed := range uint64(5) {
		rnd := rand.New(rand.NewPCG(seed, 82))
		draw := func(n int, predictors func(u, v float64, before int) [3]float64) (u, v []float64, y []string) {
			k := 0
			for range n {
				a, b := rnd.NormFloat64(), rnd.NormFloat64()
				p, most := predictors(a, b, k), math.Inf(-1)
				for c, s := range p {
					if s -= math.Log(rnd.ExpFloat64()); s > most {
						k, most = c, s
					}
				}
				u, v, y = append(u, a), append(v, b), append(y, []string{"low", "mid", "high"}[k])
			}
			return u, v, y
		}
		line := func(u, v float64, _ int) [3]float64 { return [3]float64{u, 0.5 * v, -u} }
		fit := func(u, v []float64, y []string, reference string) string {
			t.Helper()
			s := option.Defaults()
			s.Options.Reference = reference
			r, err := Fit(context.Background(), "softmax", s, &rows.Table{X: rows.Fields(rows.Numbers("u", u), rows.Numbers("v", v)), Y: rows.Texts("y", y)})
			if err != nil {
				t.Fatal(err)
			}
			return r.Fit.Status
		}
		check := func(what, status, want string) {
			t.Helper()
			if status != "ok" && want == "" || !strings.Contains(status, want) {
				t.Errorf("seed %d, %s: %s; want: %q", seed, what, status, want)
			}
		}
		for _, reference := range []string{"", "mid"} {
			u, v, y := draw(400, func(u, _ float64, _ int) [3]float64 { return [3]float64{0, 6 * (math.Abs(u) - 1), 0} })
			check("a curve", fit(u, v, y, reference), `residuals of class "mid" follow column u otherwise than by a line`)
			u, v, y = draw(400, func(u, v float64, _ int) [3]float64 { return [3]float64{4 * u * v, 0, -4 * u * v} })
			check("together", fit(u, v, y, reference), ` follow columns u and v together`)
			u, v, y = draw(400, func(u, v float64, before int) [3]float64 {
				p := line(u/2, v/2, 0)
				p[before] += 2.3
				return p
			})
			check("a series", fit(u, v, y, reference), "residuals of rows that follow each other correlate")
			u, v, y = draw(400, line)
			check("lines", fit(u, v, y, reference), "")
			slices.Sort(y) // by class, as many files are; nothing to do with the columns
			check("sorted", fit(u, v, y, reference), "")
		}
	}
}
