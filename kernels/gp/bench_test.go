package gp

import (
	"math/rand/v2"
	"testing"
)

// 1,000 rows of 8 inputs, logit: parameters as given, and all three by evidence.
func BenchmarkFit(b *testing.B) {
	l := likelihood(b, "bernoulli", "logit", 1, 0)
	p := random(rand.New(rand.NewPCG(1, 1)), l, 1000, 8)
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"fixed", Options{Lengthscale: 3}},
		{"auto", Options{AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true}},
	} {
		b.Run("n=1000/"+c.name, func(b *testing.B) {
			steps := 0
			for b.Loop() {
				steps = p.fit(b, l, c.o).Iterations
			}
			b.ReportMetric(float64(steps), "newton-steps")
		})
	}
}

func BenchmarkPredict(b *testing.B) {
	l := likelihood(b, "bernoulli", "logit", 1, 0)
	p := random(rand.New(rand.NewPCG(1, 1)), l, 1000, 8)
	f := p.fit(b, l, Options{Lengthscale: 3})
	var s Scratch
	x := p.x.Row(7)
	b.ReportAllocs()
	sum := 0.0
	for b.Loop() {
		m, v := f.Predict(x, &s)
		sum += m + v
	}
	if sum == 0 {
		b.Fatal("no prediction")
	}
}
