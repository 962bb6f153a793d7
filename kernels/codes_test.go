package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

var longTails = map[string]func(r *rand.Rand) float64{
	"lognormal":   func(r *rand.Rand) float64 { return math.Exp(1.5 * r.NormFloat64()) },
	"cauchy":      func(r *rand.Rand) float64 { return r.NormFloat64() / r.NormFloat64() },
	"pareto":      func(r *rand.Rand) float64 { return 1 / r.Float64() },
	"many zeros":  func(r *rand.Rand) float64 { return max(0, r.NormFloat64()-1) * 1000 },
	"counts":      func(r *rand.Rand) float64 { return math.Floor(math.Exp(2 * r.NormFloat64())) },
	"exponential": func(r *rand.Rand) float64 { return r.ExpFloat64() },
	"cents":       func(r *rand.Rand) float64 { return math.Round(100*math.Exp(r.NormFloat64())) / 100 },
}

// TestNoCodes: columns with long tails, of any number of rows, are not taken for columns of codes.
// The largest of numbers with the tail 1/x is 101 times the next in 1 of 101 sets.
func TestNoCodes(t *testing.T) {
	for name, draw := range longTails {
		said, sets := 0, 0
		for _, n := range []int{12, 20, 60, 400, 4000} {
			for seed := range uint64(200) {
				if n == 4000 && seed >= 20 {
					break
				}
				rnd := rand.New(rand.NewPCG(seed, uint64(n)))
				x := make([]float64, n)
				for i := range x {
					x[i] = draw(rnd)
				}
				if _, ok := findCode(func(visit func(x, rows float64)) {
					for _, x := range x {
						visit(x, 1)
					}
				}); ok {
					said++
				}
				sets++
			}
		}
		t.Logf("%s: %d of %d", name, said, sets)
		most := 0
		if name == "cauchy" || name == "pareto" {
			most = sets/101 + 10 // 3 standard deviations
		}
		if said > most {
			t.Errorf("%s: codes in %d of %d sets", name, said, sets)
		}
	}
}

// TestNines: codes that are codes by their digits.
func TestNines(t *testing.T) {
	for x, want := range map[float64]bool{99: true, -99: true, 999: true, -9999: true, 999999: true, 9: false, 0: false, 100: false, 998: false, 99.5: false, 989: false, -1: false, 1e300: false} {
		if got := nines(x); got != want {
			t.Errorf("%v: %v", x, got)
		}
	}
}

// TestExtremes: those of a column find a code wherever it came, alike in parts that are merged, and
// none in columns with long tails.
func TestExtremes(t *testing.T) {
	for name, draw := range longTails {
		for seed := range uint64(100) {
			rnd := rand.New(rand.NewPCG(seed, 5))
			x := make([]float64, 30+rnd.IntN(400))
			for i := range x {
				x[i] = draw(rnd)
			}
			coded := seed%2 == 1
			if coded {
				for range 1 + len(x)/50 {
					x[rnd.IntN(len(x))] = -1e7
				}
			}
			var all Extremes
			parts := make([]*Extremes, 1+rnd.IntN(4))
			for _, v := range x {
				all.Add(v)
				k := rnd.IntN(len(parts))
				if parts[k] == nil {
					parts[k] = &Extremes{}
				}
				parts[k].Add(v)
			}
			var both *Extremes
			for _, p := range parts {
				both = MergedExtremes(both, p)
			}
			got, want := both.Note("u"), all.Note("u")
			code, ok := findCode(func(visit func(x, rows float64)) {
				for _, v := range x {
					visit(v, 1)
				}
			})
			by := ""
			if ok {
				by = "u: " + code.String()
			}
			if got != want || want != by {
				t.Errorf("%s, coded %v: in parts %q, in one %q, by all rows %q", name, coded, got, want, by)
			}
		}
	}
}
