package special

import (
	"math"
	"testing"
)

// Moments and quantiles against sums over a grid of log σ², whose density is
// exp(-ν/2 (θ + e^-θ)), and against the next terms of the series.
func TestInverseChi(t *testing.T) {
	for _, nu := range []float64{2.5, 3, 7, 45, 1000, 9999, 10001, 2e5} {
		density := func(x float64) float64 { return math.Exp(-0.5 * nu * (x - 1 + math.Exp(-x))) }
		wide := 12 / math.Sqrt(nu)
		lo, hi := -math.Min(wide, 4), math.Max(wide, 40/(nu-2))
		const n = 400_000
		step := (hi - lo) / n
		var mass, first, second float64
		cumulated := make([]float64, n+1)
		for i := range cumulated {
			x := lo + step*float64(i)
			w, s := density(x), math.Exp(0.5*x)
			mass += w
			first += w * (s - 1)
			second += w * (s - 1) * (s - 1)
			cumulated[i] = mass - 0.5*w
		}
		d := first / mass
		wantMean, wantSD := 1+d, math.Sqrt(second/mass-d*d)
		mean, sd := InverseChi(nu)
		if math.Abs(mean-wantMean) > 1e-6*wantMean || math.Abs(sd-wantSD) > 1e-5*wantSD {
			t.Errorf("ν = %v: mean %v, deviation %v, want %v, %v", nu, mean, sd, wantMean, wantSD)
		}
		if got := InverseChiFreedom(sd / mean); math.Abs(got/nu-1) > 1e-5 {
			t.Errorf("ν = %v: %v from its moments", nu, got)
		}
		for _, p := range []float64{0.025, 0.5, 0.975} {
			i := 0
			for cumulated[i] < p*mass {
				i++
			}
			part := (p*mass - cumulated[i-1]) / (cumulated[i] - cumulated[i-1])
			want := math.Exp(0.5 * (lo + step*(float64(i-1)+part)))
			if got := InverseChiQuantile(nu, p); math.Abs(got-want) > 1e-6*want {
				t.Errorf("ν = %v: quantile %v is %v, want %v", nu, p, got, want)
			}
		}
	}
	for _, nu := range []float64{1e6 - 1, 1e6 + 1} {
		if a, b := InverseChiQuantile(nu, 0.9), 1+1.2815515655446004/math.Sqrt(2*nu); math.Abs(a-b) > 2e-6 {
			t.Errorf("ν = %v: quantile %v, want about %v", nu, a, b)
		}
	}
	if m, sd := InverseChi(1.5); !(m > 1) || !math.IsNaN(sd) {
		t.Errorf("ν = 1.5: %v, %v", m, sd)
	}
	if m, sd := InverseChi(1); !math.IsNaN(m) || !math.IsNaN(sd) {
		t.Errorf("ν = 1: %v, %v", m, sd)
	}
}
