// Package components has variance components of published data and their exact marginal
// likelihood, for tests and the tables of docs/comparison.md.
package components

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/bglm/bglm/kernels/dense"
)

// Metropolis is draws under a log density by his algorithm, from at. A first tenth, which is left
// out, has steps of 2.2 times step in each number, one after the other; the others go along the
// columns of the root of the covariance that it has, by 2.2 times each: of numbers that are
// correlated, as coefficients of an interaction are, some five draws are worth an independent one.
func Metropolis(at, step []float64, draws int, log func(x []float64) float64) [][]float64 {
	rng := rand.New(rand.NewPCG(11, 12))
	x, tried := append([]float64(nil), at...), make([]float64, len(at))
	now := log(x)
	var along mat.TriDense // the steps are its columns
	sweeps := func(draws int) (out [][]float64) {
		for range draws {
			for k := range x {
				z := 2.2 * rng.NormFloat64()
				for i := range x {
					tried[i] = x[i]
					if i >= k {
						tried[i] += z * along.At(i, k)
					}
				}
				if next := log(tried); math.Log(rng.Float64()) < next-now {
					now = next
					copy(x, tried)
				}
			}
			out = append(out, append([]float64(nil), x...))
		}
		return out
	}
	d := len(at)
	along = *mat.NewTriDense(d, mat.Lower, nil)
	for k, s := range step {
		along.SetTri(k, k, s)
	}
	first := sweeps(draws / 10)
	flat := make([]float64, 0, d*len(first))
	for _, x := range first {
		flat = append(flat, x...)
	}
	cov := mat.NewSymDense(d, nil)
	stat.CovarianceMatrix(cov, mat.NewDense(len(first), d, flat), nil)
	var root mat.Cholesky
	if root.Factorize(cov) {
		root.LTo(&along)
	}
	return sweeps(draws - len(first))
}

// Moments is mean and deviation of value over draws.
func Moments(draws [][]float64, value func(x []float64) float64) (mean, sd float64) {
	for _, x := range draws {
		v := value(x)
		mean += v
		sd += v * v
	}
	n := float64(len(draws))
	mean /= n
	return mean, math.Sqrt(sd/n - mean*mean)
}

// Binomial is log p(y | β, σ) of counts r of n with predictors xᵀβ + u, u ~ N(0, σ²)
// of each row, and the prior: β_j ~ N(0, variance_j), σ half-Cauchy(scale), x's last number
// being log σ.
func Binomial(r, n []float64, x [][]float64, variance []float64, scale float64) func(q []float64) float64 {
	return func(q []float64) float64 {
		p := len(q) - 1
		sigma := math.Exp(q[p])
		log := q[p] - math.Log1p(sigma*sigma/scale/scale)
		for j, b := range q[:p] {
			log -= 0.5 * b * b / variance[j]
		}
		for i := range r {
			eta := q[0]
			for j := 1; j < p; j++ {
				eta += q[j] * x[j-1][i]
			}
			sum, top := 0.0, math.Inf(-1)
			const half = 15
			var logs [2*half + 1]float64
			for k := range logs {
				z := 5.5 * float64(k-half) / half
				s := eta + sigma*z
				logs[k] = r[i]*s - n[i]*math.Log1p(math.Exp(s)) - 0.5*z*z
				top = max(top, logs[k])
			}
			for _, l := range logs {
				sum += math.Exp(l - top)
			}
			log += top + math.Log(sum)
		}
		return log
	}
}

// Gaussian is log p(y | σ...) with fixed effects x, N(0, 1e6) each, and for the rows
// of each group intercepts and slopes of z of deviations σ1, σ2 (z nil: none), noise σ0, all
// half-Cauchy(scale); q are log σ0, log σ1, log σ2. fixed has the fixed effects' means and
// variances.
func Gaussian(y []float64, x [][]float64, g []int, z []float64, scale float64) func(q []float64) (log float64, mean, variance []float64) {
	p, groups := len(x), 0
	for _, k := range g {
		groups = max(groups, k+1)
	}
	return func(q []float64) (log float64, mean, variance []float64) {
		noise := math.Exp(2 * q[0])
		prec := dense.New(p, p)
		r := make([]float64, p)
		for j := range p {
			prec.Row(j)[j] = 1e-6
		}
		for _, s := range q {
			log += s - math.Log1p(math.Exp(2*s)/scale/scale)
		}
		// with e the columns x and y, and the sums of their products with 1 and z by group
		cols := append(append([][]float64{}, x...), y)
		sums := make([][2]float64, groups*(p+1))
		counts := make([][3]float64, groups)
		total := dense.New(p+1, p+1)
		for i, k := range g {
			w := 0.0
			if z != nil {
				w = z[i]
			}
			counts[k][0]++
			counts[k][1] += w
			counts[k][2] += w * w
			for a := range cols {
				sums[k*(p+1)+a][0] += cols[a][i]
				sums[k*(p+1)+a][1] += w * cols[a][i]
				for b := range a + 1 {
					total.Row(a)[b] += cols[a][i] * cols[b][i] / noise
				}
			}
		}
		log -= q[0] * float64(len(y))
		p1, p2 := math.Exp(-2*q[1]), 1e30
		if z != nil {
			p2 = math.Exp(-2 * q[2])
		}
		for k, c := range counts {
			a11, a12, a22 := p1+c[0]/noise, c[1]/noise, p2+c[2]/noise
			det := a11*a22 - a12*a12
			log -= 0.5 * math.Log(det/p1/p2)
			for a := range cols {
				s := sums[k*(p+1)+a]
				for b := range a + 1 {
					t := sums[k*(p+1)+b]
					total.Row(a)[b] -= (a22*s[0]*t[0] - a12*(s[0]*t[1]+s[1]*t[0]) + a11*s[1]*t[1]) / det / noise / noise
				}
			}
		}
		for a := range p {
			for b := range a + 1 {
				prec.Row(a)[b] += total.Row(a)[b]
				prec.Row(b)[a] = prec.Row(a)[b]
			}
			r[a] = total.Row(p)[a]
		}
		if dense.Cholesky(prec) != nil {
			return math.Inf(-1), r, r
		}
		mean = append([]float64{}, r...)
		dense.SolveLowerVec(prec, mean)
		log += 0.5*dense.Dot(mean, mean) - 0.5*dense.LogDet(prec) - 0.5*total.Row(p)[p]
		dense.SolveLowerTVec(prec, mean)
		inv := dense.New(p, p)
		dense.InverseFromCholesky(inv, prec)
		for j := range p {
			variance = append(variance, inv.Row(j)[j])
		}
		return log, mean, variance
	}
}

// Rats are weights in g of 30 young rats, weekly from day 8 to 36 (Gelfand et al. 1990, table 3;
// BUGS examples, volume 1).
const Rats = "151,199,246,283,320,145,199,249,293,354,147,214,263,312,328,155,200,237,272,297,135,188,230,280,323,159,210,252,298,331,141,189,231,275,305,159,201,248,297,338,177,236,285,350,376,134,182,220,260,296,160,208,261,313,352,143,188,220,273,314,154,200,244,289,325,171,221,270,326,358,163,216,242,281,312,160,207,248,288,324,142,187,234,280,316,156,203,243,283,317,157,212,259,307,336,152,203,246,286,321,154,205,253,298,334,139,190,225,267,302,146,191,229,272,302,157,211,250,285,323,132,185,237,286,331,160,207,257,303,345,169,216,261,295,333,157,205,248,289,316,137,180,219,258,291,153,200,244,286,324"

// Surgical is deaths of babies after heart surgery, and operations, in 12 hospitals (Spiegelhalter
// et al., BUGS examples, volume 1).
var Surgical = [2]string{"0,18,8,46,8,13,9,31,14,8,29,24", "47,148,119,810,211,196,148,215,207,97,256,360"}

// Seeds is germinated ones and all on 21 plates, whether the seed is of the second kind, and
// whether the root extract is (Crowder 1978, table 3; the same volume).
var Seeds = [4]string{
	"10,23,23,26,17,5,53,55,32,46,10,8,10,8,23,0,3,22,15,32,3", "39,62,81,51,39,6,74,72,51,79,13,16,30,28,45,4,12,41,30,51,7",
	"0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,1,1,1", "0,0,0,0,0,1,1,1,1,1,1,0,0,0,0,0,1,1,1,1,1",
}

// Numbers are those of a text with commas.
func Numbers(text string) (out []float64, err error) {
	for _, s := range strings.Split(text, ",") {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// Radon reads testdata/radon.csv: the logarithms of levels in 919 houses of 85 counties, the
// floor (0 the basement) and the county, numbered (Gelman and Hill 2007, chapter 12).
func Radon(path string) (y, floor []float64, county []int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, nil, err
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, nil, nil, err
	}
	at := map[string]int{}
	for _, r := range all[1:] {
		if _, ok := at[r[0]]; !ok {
			at[r[0]] = len(at)
		}
		x, err := Numbers(r[1] + "," + r[2])
		if err != nil {
			return nil, nil, nil, err
		}
		y, floor, county = append(y, math.Log(x[1])), append(floor, x[0]), append(county, at[r[0]])
	}
	return y, floor, county, nil
}
