package special

import (
	"path/filepath"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// Each function against 60-digit values. Most allow 16 ulp; the others say why not.
func TestGolden(t *testing.T) {
	const ulp = 1.0 / (1 << 52)
	slope := func(x float64) float64 { _, _, res := PhiMoments(x); return 1 - res }
	residual := func(x float64) float64 { _, _, res := PhiMoments(x); return res }
	cases := []struct {
		name string
		f    func(float64) float64
		tol  kerneltest.Tol
	}{
		// far tails: e^(-x²/2) turns the rounding of x²/2 into x²/2 ulp of the result
		{"phi", Phi, kerneltest.Tol{Rel: 800 * ulp}},
		{"log_phi", LogPhi, kerneltest.Tol{Rel: 800 * ulp, Abs: 1e-323}},
		{"inverse_mills", InverseMills, kerneltest.Tol{Rel: 800 * ulp, Abs: 1e-323}},
		{"inverse_mills_excess", InverseMillsExcess, kerneltest.Tol{Rel: 16 * ulp}},
		// kept as 1 - residual: its own upper tail is only absolute
		{"inverse_mills_slope", slope, kerneltest.Tol{Rel: 16 * ulp, Abs: ulp}},
		{"inverse_mills_residual", residual, kerneltest.Tol{Rel: 16 * ulp}},
		// crosses zero near 0.3
		{"log_mills", LogMills, kerneltest.Tol{Rel: 16 * ulp, Abs: ulp}},
		{"log1p_exp", Log1pExp, kerneltest.Tol{Rel: 16 * ulp, Abs: 1e-323}},
		{"logistic", Logistic, kerneltest.Tol{Rel: 16 * ulp, Abs: 1e-323}},
		{"expm1_gap", Expm1Gap, kerneltest.Tol{Rel: 16 * ulp}},
		{"quantile", PhiInv, kerneltest.Tol{Rel: 16 * ulp}},
		{"log_factorial", LogFactorial, kerneltest.Tol{Rel: 16 * ulp}},
		// below 16 it is a difference of numbers near 30
		{"stirling_error", StirlingError, kerneltest.Tol{Rel: 16 * ulp, Abs: 1e-14}},
		// a large negative z is rounded before it is exponentiated
		{"wright_omega", WrightOmega, kerneltest.Tol{Rel: 800 * ulp}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, row := range kerneltest.Golden(t, filepath.Join("..", "..", "testdata", "special", c.name+".csv")) {
				x := kerneltest.Number(t, row["arg0"])
				kerneltest.Close(t, c.name+"("+row["arg0"]+")", c.f(x), kerneltest.Number(t, row["want"]), c.tol)
			}
		})
	}
}

func BenchmarkPhiMoments(b *testing.B) {
	var s float64
	i := 0
	for b.Loop() {
		l, r, v := PhiMoments(float64(i&15) - 8)
		s += l + r + v
		i++
	}
	sink = s
}

func BenchmarkWrightOmega(b *testing.B) {
	var s float64
	i := 0
	for b.Loop() {
		s += WrightOmega(float64(i&15) - 8)
		i++
	}
	sink = s
}

var sink float64
