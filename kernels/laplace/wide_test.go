package laplace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/kerneltest/components"
	"github.com/bglm/bglm/kernels/lik"
)

// twos are columns of two levels, the first of which has an effect, and standard normal noise.
func twos(columns, n int) (y []float64, names []string, levels [][]string) {
	rng := rand.New(rand.NewPCG(5, 7))
	for c := range columns {
		names, levels = append(names, fmt.Sprint("c", c)), append(levels, nil)
	}
	for range n {
		e := rng.NormFloat64()
		for c := range columns {
			k := rng.IntN(2)
			levels[c] = append(levels[c], fmt.Sprint(k))
			if c == 0 {
				e += float64(k)
			}
		}
		y = append(y, e)
	}
	return y, names, levels
}

// marginal is the log density of the logarithms q of the deviations of the columns' weights:
// normal noise of variance 1, the intercept's prior variance 10, half-t(3, 2.5) deviations.
func marginal(y []float64, levels [][]string) func(q []float64) float64 {
	p := 1 + 2*len(levels)
	gram, to := dense.New(p, p), make([]float64, p)
	for i := range y {
		at := []int{0}
		for c := range levels {
			at = append(at, 1+2*c+int(levels[c][i][0]-'0'))
		}
		for _, j := range at {
			to[j] += y[i]
			for _, k := range at {
				gram.Row(j)[k]++
			}
		}
	}
	a, root, half := dense.New(p, p), make([]float64, p), make([]float64, p)
	return func(q []float64) (log float64) {
		root[0] = math.Sqrt(10)
		for c, x := range q {
			s := math.Exp(x)
			root[1+2*c], root[2+2*c] = s, s
			log += x - 2*math.Log1p(s*s/(3*2.5*2.5))
		}
		for j := range p {
			for k := range p {
				a.Row(j)[k] = root[j] * gram.Row(j)[k] * root[k]
			}
			a.Row(j)[j]++
			half[j] = root[j] * to[j]
		}
		if dense.Cholesky(a) != nil {
			return math.Inf(-1)
		}
		dense.SolveLowerVec(a, half)
		for j := range p {
			log += 0.5*half[j]*half[j] - math.Log(a.Row(j)[j])
		}
		return log
	}
}

// The deviation of two levels is hardly known, from no effect at all to several times the largest
// that the prior expects. Its mean and deviation are near those of the exact posterior, which are
// finite, where there is a grid and where there are too many columns for one. As a Gaussian of
// its logarithm it would be many times as large.
func TestDeviationsOfTwoLevels(t *testing.T) {
	if testing.Short() {
		t.Skip("some 10^6 evidences")
	}
	for _, c := range []struct{ columns, n int }{{2, 200}, {3, 3000}, {8, 200}} {
		y, names, levels := twos(c.columns, c.n)
		m := model(t, "gaussian", "", lik.Params{Dispersion: 1})
		m.NoIntercept = false
		m.Options = kernels.Options{AutoPrior: true, Integrate: true, SDScale: 2.5, SDFreedom: 3}
		h := learnt(t, byLevels(t, m, y, nil, names, levels...))
		s, err := h.integrate()
		if err != nil || s == nil || (s.weights == nil) != (c.columns > maxGrid) {
			t.Fatal(s, err)
		}
		at, step := make([]float64, len(names)), make([]float64, len(names))
		for k := range at {
			at[k], step[k] = math.Log(s.mean[k]), 1
		}
		draws := components.Metropolis(at, step, 100_000, marginal(y, levels))
		for k, name := range names {
			mean, sd := components.Moments(draws, func(q []float64) float64 { return math.Exp(q[k]) })
			what := fmt.Sprintf("%d columns, %d rows, sd(%s)", c.columns, c.n, name)
			t.Logf("%s %.3f ± %.3f, exactly %.3f ± %.3f", what, s.mean[k], s.sd[k], mean, sd)
			kerneltest.Close(t, "mean of "+what, s.mean[k], mean, kerneltest.Tol{Abs: 0.15 * sd})
			kerneltest.Close(t, "deviation of "+what, s.sd[k], sd, kerneltest.Tol{Rel: 0.15})
		}
	}
}
