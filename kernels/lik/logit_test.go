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
		// five ulps of special.ExpDown on both sides; an ulp of logZ is |logZ| of them in exp(logZ)
		tol := 0x1p-52 * (12 + 2*math.Abs(logZ)) * want
		if v < seriesV { // whose term left out differs where one is at m and the other at -(m+v)
			tol += 5.4e-14 * math.Pow(v/seriesV, 7) * want
		}
		if got != want && !(math.Abs(got-want) <= tol+5e-324) && !(math.IsNaN(got) && math.IsNaN(want)) {
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

// Small variances are within a few 1e-13 of the trapezoid rule with 161 nodes, whose own error
// is that of adding them, and 1/2 to 1 within what a step of 0.64 leaves of the poles.
func TestLogitSmallVariance(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50_000 {
		v := math.Exp(-9.2 * rng.Float64())
		m := -0.5*v + (3*v+12)*rng.Float64()
		if rng.IntN(2) == 0 {
			m = -v - m // the other side of the identity
		}
		var z, a, b float64
		shift := 0.0
		if m < -0.5*v { // scaled by e^(m+v/2), which no density of so far a tail needs
			shift = -m
		}
		total := 0.0
		for k := -80; k <= 80; k++ {
			x := 0.1 * float64(k)
			w := math.Exp(-0.5 * x * x)
			s := m + math.Sqrt(v)*x
			p := 1 / (1 + math.Exp(s))
			sigma := math.Exp(shift) / (1 + math.Exp(-s))
			total += w
			z += w * sigma
			a += w * sigma * p
			b += w * sigma * p * (2*p - 1)
		}
		logZ, alpha := math.Log(z/total)-shift, a/z
		beta := alpha*alpha - b/z
		tol := 2e-12
		if v > 0.5 {
			tol = 4e-9
		}
		got := (logit{}).Moments(Obs{Y: 1, Weight: 1}, m, v)
		if d := math.Abs(got.LogZ - logZ); d > tol*(1+math.Abs(logZ)) {
			t.Fatalf("N(%v, %v): log Z %v, want %v", m, v, got.LogZ, logZ)
		}
		if d := math.Sqrt(v) * math.Abs(got.Alpha-alpha); d > tol {
			t.Fatalf("N(%v, %v): alpha %v, want %v", m, v, got.Alpha, alpha)
		}
		if d := v * math.Abs(got.Beta-beta); d > tol {
			t.Fatalf("N(%v, %v): beta %v, want %v", m, v, got.Beta, beta)
		}
	}
}

// Moments of rows with weight 1 by what a filter meets: v is large at first and small later.
func BenchmarkLogitMoments(b *testing.B) {
	for _, v := range []float64{0.01, 0.1, 0.5, 2} {
		b.Run(fmt.Sprint(v), func(b *testing.B) {
			i, sum := 0, 0.0
			for b.Loop() {
				i = (i + 7) & 63
				sum += logitMoments(float64(i&15)*0.3-2.3, v*(1+float64(i>>4)*0.05)).Alpha
			}
			sink = sum
		})
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
