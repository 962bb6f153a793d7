package laplace

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// Variance components of published data, under vague fixed effects, against what was published
// and against Metropolis sampling of the exact marginal likelihood, random effects integrated
// one by one on a fine lattice: means within 0.05 deviations, deviations within 5 %.

// mixed is a problem with an intercept, numbers x and the column of levels g, for which
// 'slope:g' has a slope of numbers besides where slope is not nil.
func mixed(t testing.TB, m *kernels.Model, y, trials []float64, g []string, x [][]float64, slope []float64) *kernels.Problem {
	t.Helper()
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []string
	for k := range x {
		numbers = append(numbers, fmt.Sprint("x", k+1))
	}
	r.Dict.Use(kernels.NewColumns([]string{"g", "slope:g"}, numbers))
	var b kernels.Batch
	b.Reset()
	add := func(name string, x float64) {
		id, err := r.Dict.AddRaw(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(id, x)
	}
	for i := range y {
		add(kernels.Intercept, 1)
		for k, name := range numbers {
			add(name, x[k][i])
		}
		add("g="+g[i], 1)
		if slope != nil {
			add("slope:g="+g[i], slope[i])
		}
		b.EndRow()
	}
	b.Y, b.Trials = y, trials
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// column is what a fit of p says of column k of levels: mean and deviation of its deviation.
func integrated(t *testing.T, p *kernels.Problem) (f *kernels.Fit, h *learner, s *spread) {
	t.Helper()
	h = learnt(t, p)
	s, err := h.integrate()
	if err != nil || s == nil || s.weights == nil {
		t.Fatal(s, err)
	}
	f, err = Fit(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return f, h, s
}

// metropolis is mean and deviation of the parameters under a log density, from at, steps as
// deviations of each, one after the other.
func metropolis(at, step []float64, draws int, log func(x []float64) float64, value func(k int, x float64) float64) (mean, sd []float64) {
	rng := rand.New(rand.NewPCG(11, 12))
	x := append([]float64(nil), at...)
	now := log(x)
	mean, sd = make([]float64, len(x)), make([]float64, len(x))
	for n := range draws {
		for k := range x {
			was := x[k]
			x[k] += 2.2 * step[k] * rng.NormFloat64()
			if next := log(x); math.Log(rng.Float64()) < next-now {
				now = next
			} else {
				x[k] = was
			}
		}
		if n < draws/20 {
			continue
		}
		for k, v := range x {
			v = value(k, v)
			mean[k] += v
			sd[k] += v * v
		}
	}
	n := float64(draws - draws/20)
	for k := range mean {
		mean[k] /= n
		sd[k] = math.Sqrt(sd[k]/n - mean[k]*mean[k])
	}
	return mean, sd
}

// binomialComponents is log p(y | β, σ) of counts r of n with predictors xᵀβ + u, u ~ N(0, σ²)
// of each row, and the prior: β_j ~ N(0, variance_j), σ half-Cauchy(scale), x's last number
// being log σ.
func binomialComponents(r, n []float64, x [][]float64, variance []float64, scale float64) func(q []float64) float64 {
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

// behind is by how much the mode of the weights, which Laplace's Gaussian has for its mean, is
// off the mean of a skew posterior: ½ Σ Xᵀ (q ∘ dW/dη), q being the variances of the predictors.
//
// Source: [rue2009], section 3.2.3.
func behind(h *learner) []float64 {
	q, third := make([]float64, h.x.N), make([]float64, h.x.N)
	h.third(third, false)
	h.at.rows(q)
	for i := range third {
		third[i] *= 0.5 * q[i]
	}
	rhs, out := make([]float64, h.x.P), make([]float64, h.x.P)
	h.x.MulT(rhs, third)
	h.at.mulCov(out, rhs)
	return out
}

// Surgical: deaths of babies after heart surgery in 12 hospitals (Spiegelhalter et al., BUGS
// examples, volume 1). Seeds: germinated seeds on 21 plates, two kinds of seed and two root
// extracts (Crowder 1978, table 3; the same volume). The means of coefficients are those of
// conditional modes, up to a sixth of a deviation off; what they are off is behind.
func TestBinomialComponents(t *testing.T) {
	if testing.Short() {
		t.Skip("some 10^8 likelihoods")
	}
	bit := func(s string) (x []float64) {
		for _, c := range s {
			x = append(x, float64(c-'0'))
		}
		return x
	}
	seed, extract := bit("000000000001111111111"), bit("000001111110000011111")
	both := make([]float64, len(seed))
	for i := range both {
		both[i] = seed[i] * extract[i]
	}
	for _, c := range []struct {
		name  string
		r, n  string
		x     [][]float64
		draws int
	}{
		{"surgical", "0,18,8,46,8,13,9,31,14,8,29,24", "47,148,119,810,211,196,148,215,207,97,256,360", nil, 60_000},
		{"seeds", "10,23,23,26,17,5,53,55,32,46,10,8,10,8,23,0,3,22,15,32,3", "39,62,81,51,39,6,74,72,51,79,13,16,30,28,45,4,12,41,30,51,7", [][]float64{seed, extract, both}, 30_000},
	} {
		r, n := numbers(t, c.r), numbers(t, c.n)
		var g []string
		for i := range r {
			g = append(g, fmt.Sprint(i))
		}
		m := model(t, "binomial", "", lik.Params{})
		m.NoIntercept = false
		m.Prior = kernels.Prior{Variance: 100, InterceptVariance: 100}
		m.PriorBy = kernels.ColumnPriors{{Column: "g", Auto: true}}
		m.Options = kernels.Options{Integrate: true, SDScale: 1, SDFreedom: 1}
		_, h, s := integrated(t, mixed(t, m, r, n, g, c.x, nil))
		p := 1 + len(c.x)
		place := []int{0} // of the coefficients
		for j := range h.x.P {
			if strings.HasPrefix(h.x.Name(j), "x") {
				place = append(place, j)
			}
		}
		lag := behind(h)
		at, step, variance := make([]float64, p+1), make([]float64, p+1), make([]float64, p)
		for k, j := range place {
			at[k], step[k], variance[k] = s.weights.mean[j], 0.6*math.Sqrt(s.weights.vars()[j]), 100
		}
		at[p], step[p] = math.Log(s.mean[0]), 0.5
		mean, sd := metropolis(at, step, c.draws, binomialComponents(r, n, c.x, variance, 1), func(k int, x float64) float64 {
			if k == p {
				return math.Exp(x)
			}
			return x
		})
		for k, j := range place {
			got := s.weights.mean[j]
			if math.Abs(got-mean[k]) > 0.2*sd[k] {
				t.Errorf("%s: mean of %s %v, exact %v ± %v", c.name, h.x.Name(j), got, mean[k], sd[k])
			}
			kerneltest.Close(t, c.name+" "+h.x.Name(j), got-lag[j], mean[k], kerneltest.Tol{Abs: 0.06 * sd[k]}) // 0.01 is the sampler's
			kerneltest.Close(t, c.name+" sd of "+h.x.Name(j), math.Sqrt(s.weights.vars()[j]), sd[k], kerneltest.Tol{Rel: 0.05})
		}
		kerneltest.Close(t, c.name+" sigma", s.mean[0], mean[p], kerneltest.Tol{Abs: 0.05 * sd[p]})
		kerneltest.Close(t, c.name+" sd of sigma", s.sd[0], sd[p], kerneltest.Tol{Rel: 0.05})
		t.Logf("%s: sigma %.4f ± %.4f, exact %.4f ± %.4f", c.name, s.mean[0], s.sd[0], mean[p], sd[p])
	}
}

// gaussianComponents is log p(y | σ...) with fixed effects x, N(0, 1e6) each, and for the rows
// of each group intercepts and slopes of z of deviations σ1, σ2 (z nil: none), noise σ0, all
// half-Cauchy(scale); q are log σ0, log σ1, log σ2. fixed has the fixed effects' means and
// variances.
func gaussianComponents(y []float64, x [][]float64, g []int, z []float64, scale float64) func(q []float64) (log float64, mean, variance []float64) {
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

// Weights in g of 30 young rats, weekly from day 8 to 36 (Gelfand et al. 1990, table 3; BUGS
// examples, volume 1).
const rats = "151,199,246,283,320,145,199,249,293,354,147,214,263,312,328,155,200,237,272,297,135,188,230,280,323,159,210,252,298,331,141,189,231,275,305,159,201,248,297,338,177,236,285,350,376,134,182,220,260,296,160,208,261,313,352,143,188,220,273,314,154,200,244,289,325,171,221,270,326,358,163,216,242,281,312,160,207,248,288,324,142,187,234,280,316,156,203,243,283,317,157,212,259,307,336,152,203,246,286,321,154,205,253,298,334,139,190,225,267,302,146,191,229,272,302,157,211,250,285,323,132,185,237,286,331,160,207,257,303,345,169,216,261,295,333,157,205,248,289,316,137,180,219,258,291,153,200,244,286,324"

// Rats: independent intercepts and slopes at day 22. Published (BUGS): mean weight 242.7 ± 2.7,
// growth 6.186 ± 0.109 a day, noise 6.09 ± 0.47. Radon: levels in 919 houses of 85 counties
// (Gelman and Hill 2007, chapter 12), the floor as number.
func TestGaussianComponents(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 likelihoods")
	}
	y := numbers(t, rats)
	var day []float64
	var rat []int
	for i := range y {
		day, rat = append(day, float64(7*(i%5)-14)), append(rat, i/5)
	}
	houses, floor, county := radon(t)
	one := func(n int) []float64 { return slices.Repeat([]float64{1}, n) }
	for _, c := range []struct {
		name      string
		y, x, z   []float64
		g         []int
		scale     float64
		published map[string][2]float64
	}{
		{"rats", y, day, day, rat, 100, map[string][2]float64{kernels.Intercept: {242.7, 2.7}, "x1": {6.186, 0.1088}, "noise": {6.09, 0.4655}}},
		{"radon", houses, floor, nil, county, 5, nil},
	} {
		m := model(t, "gaussian", "", lik.Params{})
		m.NoIntercept = false
		m.Prior = kernels.Prior{Variance: 1e6, InterceptVariance: 1e6}
		m.PriorBy = kernels.ColumnPriors{{Column: "g", Auto: true}}
		if c.z != nil {
			m.PriorBy = append(m.PriorBy, kernels.ColumnPrior{Column: "slope:g", Auto: true})
		}
		m.Options = kernels.Options{AutoDispersion: true, Integrate: true, SDScale: c.scale, SDFreedom: 1, DispersionScale: c.scale, DispersionFreedom: 1}
		var g []string
		for _, k := range c.g {
			g = append(g, fmt.Sprint(k))
		}
		_, h, s := integrated(t, mixed(t, m, c.y, nil, g, [][]float64{c.x}, c.z))
		log := gaussianComponents(c.y, [][]float64{one(len(c.y)), c.x}, c.g, c.z, c.scale)
		at, step := []float64{math.Log(s.mean[h.dispersion])}, []float64{0.5 * s.sd[h.dispersion] / s.mean[h.dispersion]}
		order := []int{h.dispersion}
		for _, name := range []string{"g", "slope:g"} {
			if k := slices.Index(h.Names, name); k >= 0 {
				at, step, order = append(at, math.Log(s.mean[k])), append(step, s.sd[k]/s.mean[k]), append(order, k)
			}
		}
		mean, sd := metropolis(at, step, 16000, func(q []float64) float64 {
			l, _, _ := log(q)
			return l
		}, func(k int, x float64) float64 {
			return math.Exp(x)
		})
		for k, j := range order {
			name := append([]string{"noise"}, h.Names...)[k]
			kerneltest.Close(t, c.name+" "+name, s.mean[j], mean[k], kerneltest.Tol{Abs: 0.07 * sd[k]})
			kerneltest.Close(t, c.name+" sd of "+name, s.sd[j], sd[k], kerneltest.Tol{Rel: 0.05})
		}
		t.Log(c.name, s.mean, s.sd, mean, sd)
		for name, want := range c.published {
			got := [2]float64{s.mean[h.dispersion], s.sd[h.dispersion]}
			for j := range h.x.P {
				if h.x.Name(j) == name {
					got = [2]float64{s.weights.mean[j], math.Sqrt(s.weights.vars()[j])}
				}
			}
			kerneltest.Close(t, c.name+" published "+name, got[0], want[0], kerneltest.Tol{Abs: 0.05 * want[1]})
			kerneltest.Close(t, c.name+" published sd of "+name, got[1], want[1], kerneltest.Tol{Rel: 0.05})
		}
	}
}

// radon is the logarithms of testdata/radon.csv, the floor (0 the basement) and the county.
func radon(t *testing.T) (y, floor []float64, county []int) {
	f, err := os.Open(filepath.Join("..", "..", "testdata", "radon.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for _, r := range all[1:] {
		if _, ok := at[r[0]]; !ok {
			at[r[0]] = len(at)
		}
		x := numbers(t, r[1]+","+r[2])
		y, floor, county = append(y, math.Log(x[1])), append(floor, x[0]), append(county, at[r[0]])
	}
	return y, floor, county
}

// Mesquite bushes: the production of leaves in g by two diameters, height of canopy, height in
// all, density, and one of two groups (Gelman and Hill 2007, section 4.6). Published:
// posteriordb's reference draws of mesquite-mesquite, flat priors of coefficients and σ. Under
// half-t and half-normal priors of σ: one-dimensional sums, the posterior given σ being Gaussian.
func TestMesquite(t *testing.T) {
	columns := []string{
		"1.8,1.7,2.8,1.3,3.3,1.4,1.5,3.9,1.8,2.1,0.8,1.3,1.2,1.5,2.8,1.4,1.5,2.4,1.9,2.3,2.1,2.4,1,1.3,1.1,1.3,2.5,5.2,2,1.6,1.4,3.2,1.9,2.4,2.5,2.1,2.4,2.4,1.9,2.7,1.3,2.9,2.1,4.1,2.8,1.27",
		"1.15,1.35,2.55,0.85,1.9,1.4,0.5,2.3,1.35,1.6,0.63,0.95,0.9,0.7,1.7,0.85,0.6,2.4,1.55,1.6,1.7,1.3,0.4,0.6,0.7,1.2,2.3,4,1.6,1.6,1,1.9,1.8,2.4,1.8,1.5,2.2,1.7,1.2,2.5,1.1,2.7,1,3.8,2.5,1",
		"1,1.33,0.6,1.2,1.05,1,0.9,1.3,0.6,0.8,0.6,0.95,1.2,0.7,1.2,1.1,0.64,1.2,1.2,1.3,1,0.9,1,0.5,0.9,0.6,1.4,2.5,1.4,1.3,1.1,1.5,0.8,1.1,1.3,0.85,1.5,1.2,1.15,1.5,0.7,1.9,1.5,1.5,1.5,0.62",
		"1.3,1.35,2.16,1.8,1.55,1.2,1,1.7,0.8,1.2,0.9,1.35,1.4,1,1.7,1.5,0.65,1.5,1.7,1.7,1.5,1.5,1.2,0.7,1.2,0.8,1.7,3,1.7,1.6,1.5,1.9,1.1,1.6,2,1.25,2,1.3,1.45,2.2,0.7,1.9,1.8,2,2.2,0.92",
		"1,1,1,1,1,1,1,2,1,1,1,1,1,1,1,1,1,1,1,1,1,2,1,1,1,1,5,9,1,1,1,3,1,3,7,1,2,2,2,3,1,1,2,2,1,1",
		"0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
	}
	d := data{y: numbers(t, "401.3,513.7,1179.2,308,855.2,268.7,155.5,1253.2,328,614.6,60.2,269.6,448.4,120.4,378.7,266.4,138.9,1020.8,635.7,621.8,579.8,326.8,66.7,68,153.1,256.4,723,4052,345,330.9,163.5,1160,386.6,693.5,674.4,217.5,771.3,341.7,125.7,462.5,64.5,850.6,226,1745.1,908,213.5")}
	d.x = make([][]float64, len(d.y))
	for _, c := range columns {
		for i, x := range numbers(t, c) {
			d.x[i] = append(d.x[i], x)
		}
	}
	mean := []float64{-727.0382, 187.0370, 373.6959, 355.6123, -101.6875, 132.0591, -365.3304}
	square := []float64{551682.17, 48834.02, 156751.89, 175439.41, 47500.44, 18733.37, 144531.35}
	n, p := float64(len(d.y)), float64(len(mean))
	for _, c := range []struct {
		name      string
		df, scale float64
	}{{"flat", 3, 1e9}, {"half-t", 3, 150}, {"half-Cauchy", 1, 100}, {"half-normal", 1e4, 200}} {
		m := model(t, "gaussian", "", lik.Params{})
		m.NoIntercept = false
		m.Prior = kernels.Prior{Variance: 1e9, InterceptVariance: 1e9}
		m.Options = kernels.Options{AutoDispersion: true, Integrate: true, DispersionScale: c.scale, DispersionFreedom: c.df}
		h := learnt(t, problem(t, m, d))
		s, err := h.integrate()
		if err != nil || s == nil || s.weights == nil {
			t.Fatal(s, err)
		}
		rss := 0.0
		for i, y := range d.y {
			e := y - h.at.mean[0]
			for j, x := range d.x[i] {
				e -= x * h.at.mean[j+1]
			}
			rss += e * e
		}
		var sums [3]float64
		for x := 4.5; x < 8; x += 1e-3 { // log σ
			sigma := math.Exp(x)
			w := math.Exp((p-n+1)*(x-5.6) - 0.5*rss/sigma/sigma - 0.5*(c.df+1)*math.Log1p(sigma*sigma/c.df/c.scale/c.scale) + 20)
			sums[0], sums[1], sums[2] = sums[0]+w, sums[1]+w*sigma, sums[2]+w*sigma*sigma
		}
		sigma, noise := sums[1]/sums[0], sums[2]/sums[0]
		kerneltest.Close(t, c.name+" sigma", s.mean[0], sigma, kerneltest.Tol{Rel: 2e-3})
		kerneltest.Close(t, c.name+" sd of sigma", s.sd[0], math.Sqrt(noise-sigma*sigma), kerneltest.Tol{Rel: 0.02})
		if c.name != "flat" {
			continue
		}
		kerneltest.Close(t, "published sigma", s.mean[0], 277.7615, kerneltest.Tol{Abs: 0.05 * 32.5})
		kerneltest.Close(t, "published sd of sigma", s.sd[0], math.Sqrt(78206.38-277.7615*277.7615), kerneltest.Tol{Rel: 0.05})
		for j, want := range mean {
			sd := math.Sqrt(square[j] - want*want)
			kerneltest.Close(t, "published mean of "+h.x.Name(j), s.weights.mean[j], want, kerneltest.Tol{Abs: 0.05 * sd})
			kerneltest.Close(t, "published sd of "+h.x.Name(j), math.Sqrt(s.weights.vars()[j]), sd, kerneltest.Tol{Rel: 0.05})
		}
	}
}
