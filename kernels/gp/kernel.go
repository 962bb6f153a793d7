package gp

import (
	"fmt"
	"math"
	"strings"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
)

// A kernel is k(x, x') = signal_variance times a function of r = |x - x'|/lengthscale,
// or of the inner product.
type kernel struct {
	name string
	// at returns the function of r and its derivative in log lengthscale; nil for linear.
	at func(r float64) (k, dk float64)
}

// Kernels are the names that Options.Kernel accepts, the default first. With r = |x - x'|/ℓ, ℓ
// the lengthscale and s the signal variance they are
//
//	rbf       s exp(-r²/2)
//	matern32  s (1 + √3 r) exp(-√3 r)
//	matern52  s (1 + √5 r + 5r²/3) exp(-√5 r)
//	linear    s xᵀx'/ℓ²
//
// The linear kernel is Bayesian linear regression on x without an intercept, with weights
// N(0, s/ℓ²): for an intercept add a column of ones to x. Only s/ℓ² counts there.
//
// Source: Rasmussen and Williams (2006), section 4.2.
var Kernels = []string{"rbf", "matern32", "matern52", "linear"}

const (
	maxSquared = 40   // exp(-r²/2) is 0 beyond
	maxLinear  = 1000 // and exp(-r) here
)

func newKernel(name string) (kernel, error) {
	k := kernel{name: strings.ToLower(strings.TrimSpace(name))}
	switch k.name {
	case "", "rbf":
		k.name, k.at = "rbf", func(r float64) (float64, float64) {
			if r > maxSquared {
				return 0, 0
			}
			e := math.Exp(-0.5 * r * r)
			return e, e * r * r
		}
	case "matern32":
		k.at = func(r float64) (float64, float64) {
			if r > maxLinear {
				return 0, 0
			}
			a := math.Sqrt(3) * r
			e := math.Exp(-a)
			return (1 + a) * e, a * a * e
		}
	case "matern52":
		k.at = func(r float64) (float64, float64) {
			if r > maxLinear {
				return 0, 0
			}
			a := math.Sqrt(5) * r
			e := math.Exp(-a)
			return (1 + a + a*a/3) * e, a * a * (1 + a) / 3 * e
		}
	case "linear":
	default:
		return k, fmt.Errorf("kernel = %q; allowed: %s", name, strings.Join(Kernels, ", "))
	}
	return k, nil
}

// geometry is what the kernel depends on in the rows, for any parameters: their distances, or
// their inner products for the linear kernel.
type geometry struct {
	kernel
	between *dense.Matrix
}

// closeBy is where |a|² + |b|² - 2aᵀb has lost four digits of |a - b|²: for closer rows the
// entries are subtracted.
const closeBy = 1e-4

func newGeometry(k kernel, x *dense.Matrix) *geometry {
	n := x.Rows
	g := &geometry{k, dense.NewUnder(x.Stop, n, n)}
	if k.at == nil {
		dense.GramT(g.between, x, nil)
		return g
	}
	centred := x.Clone()
	mean := make([]float64, x.Cols)
	for i := range n {
		dense.Axpy(1/float64(n), x.Row(i), mean)
	}
	for i := range n {
		dense.Axpy(-1, mean, centred.Row(i))
	}
	dense.GramT(g.between, centred, nil)
	square := memory.Floats(n)
	for i := range n {
		square[i] = g.between.At(i, i)
	}
	g.each(func(i int) {
		row := g.between.Row(i)
		for j := range i {
			both := square[i] + square[j]
			d := both - 2*row[j]
			if d <= closeBy*both {
				d = squaredDistance(x.Row(i), x.Row(j))
			}
			row[j] = math.Sqrt(d)
		}
		row[i] = 0
	})
	mirror(g.between)
	return g
}

func squaredDistance(a, b []float64) float64 {
	b = b[:len(a)]
	s := 0.0
	for j, v := range a {
		d := v - b[j]
		s += d * d
	}
	return s
}

// each calls f for every row index, with rows i and n-1-i together, so that a triangle is divided
// evenly.
func (g *geometry) each(f func(i int)) {
	n := g.between.Rows
	dense.Parallel((n+1)/2, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			g.between.Stop.Check()
			f(i)
			if j := n - 1 - i; j != i {
				f(j)
			}
		}
	})
}

// mirror copies the lower triangle to the upper one.
func mirror(a *dense.Matrix) {
	for i := range a.Rows {
		a.Stop.Check()
		for j, v := range a.Row(i)[:i] {
			a.Set(j, i, v)
		}
	}
}

// value returns k for a distance (or inner product), and its derivative in log lengthscale.
func (k *kernel) value(between, lengthscale, signal float64) (v, dv float64) {
	if k.at == nil {
		v = signal * (between / lengthscale / lengthscale)
		return v, -2 * v
	}
	v, dv = k.at(between / lengthscale)
	return signal * v, signal * dv
}

// fill sets dst = K, both triangles.
func (g *geometry) fill(dst *dense.Matrix, lengthscale, signal float64) {
	g.each(func(i int) {
		row, from := dst.Row(i), g.between.Row(i)
		for j, b := range from[:i+1] {
			row[j], _ = g.value(b, lengthscale, signal)
		}
	})
	mirror(dst)
}
