package lik

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The predicted probability is exp(LogZ) of the moments but for rounding.
func TestLogitTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	one := Obs{Y: 1, Weight: 1}
	check := func(m, v float64) {
		logZ := (logit{}).Moments(one, m, v).LogZ
		got, want := logitTail(m, v), math.Exp(logZ)
		// an error of an ulp in logZ is |logZ| of them in exp(logZ)
		if tol := 0x1p-52 * (8 + 2*math.Abs(logZ)) * want; got != want && !(math.Abs(got-want) <= tol+5e-324) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("N(%v, %v): %v, want %v, off by %.3g of what is allowed", m, v, got, want, math.Abs(got-want)/tol)
		}
	}
	for range 100_000 {
		m, v := -20*math.Abs(rng.NormFloat64()), math.Exp(6*rng.NormFloat64()-2)
		if rng.IntN(2) == 0 {
			m /= 10
		}
		check(m, v)
	}
	for _, c := range [][2]float64{{0, 0}, {-3, 0}, {-1000, 1}, {-1e300, 1e300}, {-0.5, 1}, {-0.25, 0.5}, {-5, math.MaxFloat64}, {math.Inf(-1), 1}, {math.NaN(), 1}, {-700, 0.9}, {-750, 0.9}} {
		check(c[0], c[1])
	}
}

func BenchmarkLogitPredict(b *testing.B) {
	for _, v := range []float64{0.001, 0.01, 0.05, 0.5} {
		b.Run(fmt.Sprint(v), func(b *testing.B) {
			m := -2.0
			for b.Loop() {
				m += 1e-6
				y, _ := logit{}.Predict(m, v)
				m += 1e-300 * y
			}
		})
	}
}

// Means gives the bits of Predict.
func TestMeans(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 4000
	m, v, got := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range m {
		m[i], v[i] = 10*rng.NormFloat64(), math.Exp(5*rng.NormFloat64()-4)
	}
	m[0], v[0] = -601, 1e-3
	m[1], v[1] = 700, 1e-3
	m[2], v[2] = 0, 0
	m[3], v[3] = -3, 1e9
	Means(logit{})(m, v, got)
	for i := range m {
		if want, _ := (logit{}).Predict(m[i], v[i]); math.Float64bits(got[i]) != math.Float64bits(want) {
			t.Fatalf("N(%v, %v): %v, one by one %v", m[i], v[i], got[i], want)
		}
	}
	if Means(probit{}) != nil {
		t.Error("probit has a faster way that is not tested here")
	}
}
