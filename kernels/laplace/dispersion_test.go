package laplace

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// inverseChi is mean and deviation of σ, ν s²/σ² ~ χ²(ν), by sums over log σ.
func inverseChi(square, nu float64) [2]float64 {
	var sums [3]float64
	for x := -3.0; x < 3; x += 1e-3 {
		s := math.Exp(x)
		w := math.Exp(-nu*x - 0.5*nu/s/s)
		sums[0], sums[1], sums[2] = sums[0]+w, sums[1]+w*s, sums[2]+w*s*s
	}
	m := sums[1] / sums[0]
	return [2]float64{math.Sqrt(square) * m, math.Sqrt(square * (sums[2]/sums[0] - m*m))}
}

// A gaussian regression under flat priors of the weights and of the deviation σ of the noise,
// as in posteriordb's mesquite-mesquite and earnings-earn_height: the weights' marginal is
// Student's t, with mean of least squares and covariance RSS/(n-p-3) (XᵀX)⁻¹, and
// E σ² = RSS/(n-p-3). The plug-in of highest evidence has RSS/(n-p): deviations 4 % too
// small at n = 46, p = 7.
//
// Source: [gelman2013], section 14.2, with p(σ) flat: one degree of freedom less.
func TestNoiseIsIntegrated(t *testing.T) {
	rng := rand.New(rand.NewPCG(46, 7))
	const n, p = 46, 7
	d := data{}
	x := dense.New(n, p)
	for i := range n {
		row := make([]float64, p-1)
		x.Row(i)[0] = 1
		for j := range row {
			row[j] = rng.NormFloat64() + 0.5
			x.Row(i)[j+1] = row[j]
		}
		d.x, d.y = append(d.x, row), append(d.y, 3+row[0]-row[1]+2*rng.NormFloat64())
	}
	for _, standardize := range []bool{false, true} {
		m := model(t, "gaussian", "", lik.Params{})
		m.NoIntercept = false
		m.Prior = kernels.Prior{Variance: 1e8, InterceptVariance: 1e10}
		m.Options = kernels.Options{AutoDispersion: true, Integrate: true, DispersionScale: 1e6, Standardize: standardize}
		f, err := Fit(context.Background(), problem(t, m, d))
		if err != nil {
			t.Fatal(err)
		}
		g, w := dense.New(p, p), make([]float64, p)
		dense.Gram(g, x, nil)
		dense.GemvT(w, x, d.y)
		if err := dense.Cholesky(g); err != nil {
			t.Fatal(err)
		}
		dense.SolveLowerVec(g, w)
		dense.SolveLowerTVec(g, w)
		inv, e, rss := dense.New(p, p), make([]float64, n), 0.0
		dense.InverseFromCholesky(inv, g)
		dense.Gemv(e, x, w)
		for i, y := range d.y {
			rss += (y - e[i]) * (y - e[i])
		}
		noise := rss / (n - p - 3)
		kerneltest.Close(t, "dispersion", f.Dispersion, noise, kerneltest.Tol{Rel: 3e-3})
		for j, b := range f.Beliefs {
			kerneltest.Close(t, "mean", b.Mean, w[j], kerneltest.Tol{Abs: 1e-5})
			kerneltest.Close(t, "deviation", math.Sqrt(b.Variance), math.Sqrt(noise*inv.At(j, j)), kerneltest.Tol{Rel: 2e-3})
		}
		mean, sd, _ := f.LearntOf(kernels.LearntDeviation)
		sigma := inverseChi(rss/(n-p-1), n-p-1) // σ flat: one degree of freedom less
		kerneltest.Close(t, "residual deviation", mean, sigma[0], kerneltest.Tol{Rel: 2e-3})
		kerneltest.Close(t, "what is not known of it", sd, sigma[1], kerneltest.Tol{Rel: 0.02})
		if f.Status != "ok" {
			t.Error(f.Status)
		}

		// Not integrated, log σ is flat.
		m.Options.Integrate = false
		if f, err = Fit(context.Background(), problem(t, m, d)); err != nil {
			t.Fatal(err)
		}
		mean, sd, _ = f.LearntOf(kernels.LearntDeviation)
		sigma = inverseChi(rss/(n-p), n-p)
		kerneltest.Close(t, "residual deviation by evidence", mean, sigma[0], kerneltest.Tol{Rel: 1e-4})
		kerneltest.Close(t, "what is not known of it", sd, sigma[1], kerneltest.Tol{Rel: 2e-3}) // curvature over steps of 0.1
	}
}

// Of few rows the prior of the noise's deviation counts, whose scale is 2.5 deviations of y: what
// the fit has is what sums over that deviation give, of which each term is a Gaussian regression.
func TestNoiseOfFewRows(t *testing.T) {
	for n := 3; n <= 9; n++ {
		rng := rand.New(rand.NewPCG(uint64(n), 3))
		d := data{}
		mean, square := 0.0, 0.0
		for range n {
			x := rng.NormFloat64()
			y := 40 + 10*x + 20*rng.NormFloat64()
			d.x, d.y = append(d.x, []float64{x}), append(d.y, y)
			mean, square = mean+y/float64(n), square+y*y/float64(n)
		}
		prior := []float64{1e4, 400} // variances
		scale := 2.5 * math.Sqrt(square-mean*mean)
		var sums [7]float64 // 1, σ, σ², intercept, slope, and their squares
		for theta := -6.0; theta < 20; theta += 0.01 {
			noise := math.Exp(theta)
			a, b := dense.New(2, 2), make([]float64, 2)
			a.Row(0)[0], a.Row(1)[1] = 1/prior[0], 1/prior[1]
			log := 0.5*theta - 2*math.Log1p(noise/(3*scale*scale)) - 0.5*(math.Log(prior[0]*prior[1])+float64(n)*theta)
			for i, y := range d.y {
				row := []float64{1, d.x[i][0]}
				log -= 0.5 * y * y / noise
				for j, v := range row {
					b[j] += v * y / noise
					for k, w := range row {
						a.Row(j)[k] += v * w / noise
					}
				}
			}
			if err := dense.Cholesky(a); err != nil {
				t.Fatal(err)
			}
			w, inv := append([]float64{}, b...), dense.New(2, 2)
			dense.SolveLowerVec(a, w)
			dense.SolveLowerTVec(a, w)
			dense.InverseFromCholesky(inv, a)
			log += 0.5 * (dense.Dot(b, w) - dense.LogDet(a))
			for k, v := range [...]float64{1, math.Sqrt(noise), noise, w[0], w[1], w[0]*w[0] + inv.At(0, 0), w[1]*w[1] + inv.At(1, 1)} {
				sums[k] += math.Exp(log+100) * v
			}
		}
		for k := 1; k < len(sums); k++ {
			sums[k] /= sums[0]
		}
		for _, compress := range []bool{false, true} {
			m := model(t, "gaussian", "", lik.Params{})
			m.NoIntercept = false
			m.Prior = kernels.Prior{Variance: prior[1], InterceptVariance: prior[0]}
			m.Options = kernels.Options{AutoDispersion: true, Integrate: true, Compress: compress}
			f, err := Fit(context.Background(), problem(t, m, d))
			if err != nil {
				t.Fatal(err)
			}
			// A grid with the distance of a deviation is within 1 % of the integral.
			sd, unsure, _ := f.LearntOf(kernels.LearntDeviation)
			kerneltest.Close(t, "noise", sd, sums[1], kerneltest.Tol{Rel: 0.01})
			kerneltest.Close(t, "noise unsure", unsure, math.Sqrt(sums[2]-sums[1]*sums[1]), kerneltest.Tol{Rel: 0.03})
			for j, b := range f.Beliefs {
				exact := math.Sqrt(sums[5+j] - sums[3+j]*sums[3+j])
				kerneltest.Close(t, "mean", b.Mean, sums[3+j], kerneltest.Tol{Abs: 0.01 * exact})
				kerneltest.Close(t, "deviation", math.Sqrt(b.Variance), exact, kerneltest.Tol{Rel: 0.01})
			}
		}
	}
}
