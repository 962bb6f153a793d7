// Package kerneltest holds helpers for the tests of the numeric packages: comparisons
// that know about tails, readers of golden tables, derivative checks. Only tests
// import it.
package kerneltest

import (
	"compress/gzip"
	"encoding/csv"
	"io"
	"math"
	"os"
	"strconv"
	"testing"
)

// Tol is a tolerance: values agree when |got-want| <= Rel*|want| + Abs. Abs is the
// floor below which a relative error means nothing; leave it 0 in tails.
type Tol struct{ Rel, Abs float64 }

// Error returns the error of got in units of the tolerance: at most 1 when it passes,
// +Inf when the two differ in NaN, in sign of infinity, or in finiteness.
func (t Tol) Error(got, want float64) float64 {
	switch {
	case got == want || math.IsNaN(got) && math.IsNaN(want):
		return 0
	case math.IsNaN(got) || math.IsNaN(want) || math.IsInf(got, 0) || math.IsInf(want, 0):
		return math.Inf(1)
	}
	return math.Abs(got-want) / (t.Rel*math.Abs(want) + t.Abs)
}

// Slow skips, where tests are to be short, one whose seconds, minutes under the race detector, tell
// it nothing that faster ones do not: it does one thing after the other, or starts the same
// goroutines.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow, and of nothing that faster tests do not run")
	}
}

// Close fails the test when got is not within tol of want. The message gives both
// numbers, the absolute and relative error, and the distance in units in the last place.
func Close(t testing.TB, what string, got, want float64, tol Tol) bool {
	t.Helper()
	if tol.Error(got, want) <= 1 {
		return true
	}
	d := math.Abs(got - want)
	t.Errorf("%s: got %.17g, want %.17g (error %.3g, relative %.3g, %.3g ulp; allowed rel %.3g + abs %.3g)",
		what, got, want, d, d/math.Abs(want), Ulps(got, want), tol.Rel, tol.Abs)
	return false
}

// Ulps is the distance of two numbers in units in the last place of b: +Inf when
// either is not finite.
func Ulps(a, b float64) float64 {
	if a == b {
		return 0
	}
	if math.IsNaN(a-b) || math.IsInf(a-b, 0) {
		return math.Inf(1)
	}
	b = math.Abs(b)
	return math.Abs(a-math.Copysign(b, a)) / (math.Nextafter(b, math.Inf(1)) - b)
}

// Golden reads a CSV table with a header. Each row becomes a map from column to text.
func Golden(t testing.TB, path string) []map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(all) < 2 {
		t.Fatalf("%s: no rows", path)
	}
	rows := make([]map[string]string, 0, len(all)-1)
	for _, rec := range all[1:] {
		row := make(map[string]string, len(rec))
		for i, name := range all[0] {
			row[name] = rec[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// Number reads a decimal, also one beyond the range of a double (0 or an infinity).
func Number(t testing.TB, s string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(x, 0) {
		t.Fatalf("golden number %q: %v", s, err)
	}
	return x
}

// Derivative is the derivative of f at x from central differences of step h and h/2,
// extrapolated: error about h⁴ times the fifth derivative plus eps|f|/h.
func Derivative(f func(float64) float64, x, h float64) float64 {
	d := func(h float64) float64 { return (f(x+h) - f(x-h)) / ((x + h) - (x - h)) }
	return (4*d(h/2) - d(h)) / 3
}

// HighestMode is the highest mode within [lo, hi] of a log likelihood times the prior
// N(0, variance), and Laplace's evidence there, by a grid.
func HighestMode(logLik func(float64) float64, variance, lo, hi float64) (at, log float64) {
	posterior := func(s float64) float64 { return logLik(s) - 0.5*s*s/variance }
	log = math.Inf(-1)
	const n = 8000
	for range 2 { // the second about the best of the first
		for i := range n + 1 {
			s := lo + (hi-lo)*float64(i)/n
			if v := posterior(s); v > log {
				at, log = s, v
			}
		}
		lo, hi = at-0.01, at+0.01
	}
	const h = 1e-4
	curv := -(posterior(at+h) - 2*log + posterior(at-h)) / (h * h)
	return at, log - 0.5*math.Log(variance*curv)
}

// Gradient checks an analytic derivative against Derivative.
func Gradient(t testing.TB, what string, f func(float64) float64, x, h, want float64, tol Tol) bool {
	t.Helper()
	return Close(t, what, Derivative(f, x, h), want, tol)
}

// Gunzip is what a gzip file holds.
func Gunzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
