package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

const farFromOthers = "range of all others away from them" // what the note says

// codeStatus is the status of a fit of y on numbers u and v.
func codeStatus(t *testing.T, method string, s *option.Settings, u, v []float64, y *rows.Slice) string {
	t.Helper()
	r, err := Fit(context.Background(), method, s, &rows.Table{X: rows.Fields(rows.Numbers("u", u), rows.Numbers("v", v)), Y: y})
	if err != nil {
		t.Fatal(err)
	}
	return r.Fit.Status
}

// TestCodes: a code for missing values in a numeric column, beside which the other values count for
// next to nothing, is named, also if the rows that tell most columns apart do not have it.
func TestCodes(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct {
		name  string
		n     int
		value func(i int, z float64) float64
		want  string
	}{
		{"none", 1000, func(i int, z float64) float64 { return math.Round(50 + 20*z) }, ""},
		{"-9999", 1000, func(i int, z float64) float64 {
			if i%100 == 7 {
				return -9999
			}
			return math.Round(50 + 20*z)
		}, "column u: the value -9999, in 10 of 1000 rows, lies "},
		{"two codes", 1000, func(i int, z float64) float64 {
			if i%100 == 7 {
				return float64(999998 + i/100%2)
			}
			return z
		}, "column u: 2 values such as 999998, in 10 of 1000 rows, lie "},
		{"codes on both sides", 1000, func(i int, z float64) float64 {
			switch i % 100 {
			case 7, 8:
				return -999
			case 70:
				return 9999
			}
			return math.Round(50 + 10*z)
		}, "column u: 2 values such as -999, in 30 of 1000 rows, lie "},
		{"three codes on a side, one on the other", 1000, func(i int, z float64) float64 {
			switch i % 40 {
			case 1, 2, 3:
				return 99_996 + float64(i%40)
			case 4:
				return -99_999
			}
			return math.Round(50 + 20*z)
		}, "column u: 4 values such as -99999, in 100 of 1000 rows, lie "},
		{"far on both sides, and between", 1000, func(i int, z float64) float64 {
			if i%100 == 7 {
				return []float64{-999, 9999, 600}[i/100%3]
			}
			return math.Round(50 + 20*z)
		}, ""},
		{"most rows", 1000, func(i int, z float64) float64 {
			if i%20 != 7 {
				return 0
			}
			return 2000 + math.Round(z*5)
		}, "column u: the value 0, in 950 of 1000 rows, lies "},
		{"a single value", 1000, func(i int, z float64) float64 {
			if i == 500 {
				return 1e6
			}
			return z
		}, "column u: the value 1000000, in 1 of 1000 rows, lies "},
		{"rare", 100_000, func(i int, z float64) float64 {
			if i%10_000 == 7 {
				return -9999
			}
			return z
		}, "column u: the value -9999, in 10 of 100000 rows, lies "},
		{"too near", 1000, func(i int, z float64) float64 {
			if i%100 == 7 {
				return -40
			}
			return z
		}, ""},
		{"a flag", 1000, func(i int, z float64) float64 {
			if i%100 == 7 {
				return -999
			}
			return map[bool]float64{z > 0: 1}[true]
		}, "column u: the value -999, in 10 of 1000 rows, lies "},
		{"levels", 1000, func(i int, z float64) float64 {
			if i%100 == 7 {
				return 1e6
			}
			return float64(i % 5)
		}, ""},
	} {
		rnd := rand.New(rand.NewPCG(1, 2))
		u, v, y := make([]float64, c.n), make([]float64, c.n), make([]bool, c.n)
		class := make([]string, c.n)
		for i := range u {
			z := rnd.NormFloat64()
			u[i], v[i] = c.value(i, z), rnd.NormFloat64()
			y[i] = rnd.Float64() < 1/(1+math.Exp(-z-v[i]))
			class[i] = map[bool]string{false: "no", true: "yes"}[y[i]]
		}
		for _, method := range []string{"auto", "laplace", "ep", "lowrank", "softmax"} {
			if c.n > 1000 && method != "auto" {
				continue
			}
			response := rows.Bools("y", y)
			if method == "softmax" {
				response = rows.Texts("y", class)
			}
			got := codeStatus(t, method, option.Defaults(), u, v, response)
			if c.want == "" && strings.Contains(got, farFromOthers) || !strings.Contains(got, c.want) {
				t.Errorf("%s, %s: status %q, want %q", c.name, method, got, c.want)
			}
		}
		// Streams do not count the first rows.
		want, _, _ := strings.Cut(c.want, ", in ")
		for _, method := range []string{"adf", "ekf", "variational"} {
			got := codeStatus(t, method, option.Defaults(), u, v, rows.Bools("y", y))
			if want == "" && strings.Contains(got, farFromOthers) || !strings.Contains(got, want) {
				t.Errorf("%s, %s: status %q, want %q", c.name, method, got, want)
			}
		}
	}
}

// TestCodesOfResponses: as TestCodes for responses.
func TestCodesOfResponses(t *testing.T) {
	for family, want := range map[string]string{
		"gaussian": "responses: the value -999, in 5 of 500 rows, lies ",
		"studentt": "responses: the value -999, in 5 of 500 rows, lies ",
		"poisson":  "responses: the value 99999, in 5 of 500 rows, lies ",
	} {
		for _, code := range []bool{true, false} {
			rnd := rand.New(rand.NewPCG(3, 4))
			var u, v, y []float64
			for i := range 500 {
				u, v = append(u, rnd.NormFloat64()), append(v, rnd.NormFloat64())
				x := 2 + u[i] + v[i] + rnd.NormFloat64()
				if family == "poisson" {
					x = math.Floor(math.Exp(x))
				}
				switch {
				case !code || i%100 != 7:
				case family == "poisson":
					x = 99999
				default:
					x = -999
				}
				y = append(y, x)
			}
			s := option.Defaults()
			s.Family = family
			got := codeStatus(t, "laplace", s, u, v, rows.Numbers("y", y))
			if code && !strings.Contains(got, want) || !code && strings.Contains(got, farFromOthers) {
				t.Errorf("%s, %v: status %q, want %q", family, code, got, want)
			}
		}
	}
}
