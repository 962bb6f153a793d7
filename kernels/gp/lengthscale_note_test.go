package gp

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// Rows drawn from the process itself are said to be of another lengthscale no more than once in e^10
// times for each that they are compared with; those of another lengthscale are.
func TestLengthscaleNote(t *testing.T) {
	kerneltest.Slow(t)
	r := rand.New(rand.NewPCG(8, 2))
	for _, kernel := range Kernels {
		if kernel == "linear" {
			continue
		}
		for _, family := range []string{"bernoulli", "poisson", "gaussian"} {
			link := map[string]string{"bernoulli": "logit", "poisson": "log", "gaussian": "identity"}[family]
			l := likelihood(t, family, link, 0.1, 1)
			said := map[float64]int{}
			const sets, n = 20, 150
			for range sets {
				x := dense.New(n, 1)
				for i := range n {
					x.Row(i)[0] = 12 * r.Float64()
				}
				k, err := newKernel(kernel)
				if err != nil {
					t.Fatal(err)
				}
				c := dense.New(n, n)
				newGeometry(k, x).fill(c, 1, 1)
				for i := range n {
					c.Row(i)[i] += 1e-8
				}
				if err := dense.Cholesky(c); err != nil {
					t.Fatal(err)
				}
				z, y := make([]float64, n), make([]float64, n)
				for i := range z {
					z[i] = r.NormFloat64()
				}
				for i := range y {
					f := dense.Dot(c.Row(i)[:i+1], z[:i+1])
					switch family {
					case "bernoulli":
						if r.Float64() < 1/(1+math.Exp(-f)) {
							y[i] = 1
						}
					case "poisson":
						for at := r.ExpFloat64(); at < math.Exp(f); at += r.ExpFloat64() {
							y[i]++
						}
					default:
						y[i] = f + math.Sqrt(0.1)*r.NormFloat64()
					}
				}
				for _, lengthscale := range []float64{1, 0.02, 30} {
					p, err := Fit(context.Background(), l, x, y, nil, nil, nil, Options{Kernel: kernel, Lengthscale: lengthscale})
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(p.Beside, "lengthscale = ") { // or that rows left out are predicted worse than by their mean
						said[lengthscale]++
					}
				}
			}
			if said[1] > 0 {
				t.Errorf("%s, %s: said of %d of %d sets of this lengthscale", kernel, family, said[1], sets)
			}
			// 0/1 responses of a process of standard deviation 1 say little
			if family != "bernoulli" && said[30] < sets/2 {
				t.Errorf("%s, %s: said of %d of %d sets under thirty times the lengthscale", kernel, family, said[30], sets)
			}
			t.Logf("%s, %s: said of %v of %d sets", kernel, family, said, sets)
		}
	}
}
