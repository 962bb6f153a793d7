package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// What a row is expected to say of log r is Fisher's information, here r² Σ_j P(y > j)/(r+j)² -
// rμ/(r+μ), the sum of r² (ψ'(r) - ψ'(y+r)) by parts.
func TestExpectedInformation(t *testing.T) {
	for _, r := range []float64{0.011, 0.1, 0.3, 1, 3, 20, 500} {
		for _, mu := range []float64{0.01, 0.5, 10, 300, 1e12, 1e17} { // of which 1 - p rounds to 0
			p := mu / (mu + r)
			mass := math.Exp(r * math.Log(r/(mu+r)))
			if mass == 0 { // the sum below begins with it
				continue
			}
			above, sum := 1-mass, 0.0
			for j := 0.0; above > 1e-13 && j < 1e6; j++ {
				sum += above / ((r + j) * (r + j))
				mass *= (j + r) / (j + 1) * p
				above -= mass
			}
			d := NewOverdispersion(r, 0)
			kerneltest.Close(t, "information", d.expected(math.Log(mu), 0), r*r*sum-r*p, kerneltest.Tol{Rel: 0.02, Abs: 1e-8})
		}
	}
}

// From the size 1, or far beyond, the size of large counts comes to that of maximum likelihood
// within a quarter of its deviation, which is that of the curvature there. By the squares of the
// scores a few rows made a wrong size known for good.
func TestOverdispersionFarFromStart(t *testing.T) {
	for _, r := range []float64{0.05, 0.1, 0.5, 3} {
		for _, start := range []float64{1, 10} {
			src := rand.New(rand.NewPCG(7, uint64(1000*r)))
			d, ys, ms := NewOverdispersion(start, 0), []float64(nil), []float64(nil)
			for range 4000 {
				m := math.Log(1000) + 2*src.Float64() - 1
				y := drawPoisson(drawGamma(r, math.Exp(m), src), src)
				d.Learn(Obs{Y: y, Weight: 1}, m, 0)
				ys, ms = append(ys, y), append(ms, m)
			}
			at := func(log float64) (sum float64) {
				l := negbinomial{size: math.Exp(log), logSize: log}
				for i, y := range ys {
					v, _, _ := l.LogLik(Obs{Y: y, Weight: 1}, ms[i])
					sum += v
				}
				return sum
			}
			lo, sd := mostLikely(at, math.Log(r))
			if off := (d.logSize - lo) / sd; math.Abs(off) > 0.25 {
				t.Errorf("size %v from %v: %.4g, by maximum likelihood %.4g: off by %.2g deviations", r, start, d.Size(), math.Exp(lo), off)
			}
			kerneltest.Close(t, "deviation", 1/math.Sqrt(d.Information()), sd, kerneltest.Tol{Rel: 0.05})
		}
	}
}

// The score is the slope of the log predictive probability in log r.
func TestOverdispersionSlope(t *testing.T) {
	for _, r := range []float64{0.05, 0.7, 3, 200} {
		for _, y := range []float64{0, 1, 7, 150} {
			for _, c := range [][2]float64{{0.3, 0}, {1, 0.01}, {2, 0.09}, {4, 0.25}} {
				o := Obs{Y: y, Weight: 1}
				at := func(h float64) float64 {
					l, err := New("negbinomial", "", Params{Shape: r * math.Exp(h)})
					if err != nil {
						t.Fatal(err)
					}
					return l.Moments(o, c[0], c[1]).LogZ
				}
				const h = 1e-4
				want := (at(h) - at(-h)) / (2 * h)
				l, err := New("negbinomial", "", Params{Shape: r})
				if err != nil {
					t.Fatal(err)
				}
				got := NewOverdispersion(r, 0).slope(y, c[0], c[1], l.Moments(o, c[0], c[1]))
				kerneltest.Close(t, "slope", got, want, kerneltest.Tol{Rel: 4e-3, Abs: 2e-5})
			}
		}
	}
}

// On counts at known rates the size learnt in one pass is the one of maximum likelihood,
// and Pearson's ratio of Poisson counts is 1.
func TestOverdispersion(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	const n = 3000
	for _, r := range []float64{0.5, 5} {
		d := NewOverdispersion(1, 0)
		var ys, ms []float64
		for range n {
			m := 1 + 0.5*rnd.NormFloat64()
			rate := math.Exp(m) / r
			g := 0.0 // gamma of shape r in halves: r = k/2 is k squared normals
			for range int(2 * r) {
				z := rnd.NormFloat64()
				g += 0.5 * z * z
			}
			y := 0.0
			for u := rnd.ExpFloat64(); u < rate*g; u += rnd.ExpFloat64() {
				y++
			}
			d.Learn(Obs{Y: y, Weight: 1}, m, 0)
			ys, ms = append(ys, y), append(ms, m)
		}
		best, top := 0.0, math.Inf(-1)
		for x := math.Log(r) - 1; x < math.Log(r)+1; x += 0.005 {
			l, err := New("negbinomial", "", Params{Shape: math.Exp(x)})
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i := range ys {
				logp, _, _ := l.LogLik(Obs{Y: ys[i], Weight: 1}, ms[i])
				sum += logp
			}
			if sum > top {
				best, top = x, sum
			}
		}
		kerneltest.Close(t, "log size", math.Log(d.Size()), best, kerneltest.Tol{Abs: 0.04})
	}
	d := NewOverdispersion(0, 0)
	for range n {
		m := rnd.NormFloat64()
		y := 0.0
		for u := rnd.ExpFloat64(); u < math.Exp(m); u += rnd.ExpFloat64() {
			y++
		}
		d.Learn(Obs{Y: y, Weight: 1}, m, 0)
	}
	if ratio, se := d.Pearson(); !(math.Abs(ratio-1) < 4*se) || !(se < 0.1) {
		t.Errorf("Pearson %v ± %v", ratio, se)
	}
	if d.Size() < 10 {
		t.Errorf("size %v of Poisson counts", d.Size())
	}
}

// The third central moment that a row adds is that of its squared Pearson residual, by
// summation over the law; also that of a mean of pooled rows and of trials.
func TestPearsonMoments(t *testing.T) {
	for _, c := range []struct {
		family string
		trials int
		eta    float64
	}{{"poisson", 1, math.Log(0.003)}, {"poisson", 1, math.Log(2.5)}, {"binomial", 7, 0.4}, {"binomial", 3, -4}, {"binomial", 1, 1}} {
		l, err := New(c.family, "", Params{})
		if err != nil {
			t.Fatal(err)
		}
		add := PearsonOf(l)
		var s Pearson
		mean := l.Response(c.eta)
		add(&s, Obs{Y: 0, Weight: 1, Trials: float64(c.trials)}, c.eta, 1, 0)
		var second, third float64
		for y := 0; y <= 200 && (c.family == "poisson" || y <= c.trials); y++ {
			n, k := float64(c.trials), float64(y)
			v, at := n*mean*(1-mean), n*mean
			var log float64
			if c.family == "poisson" {
				v, at = mean, mean
				g, _ := math.Lgamma(k + 1)
				log = k*math.Log(mean) - mean - g
			} else {
				a, _ := math.Lgamma(n + 1)
				b, _ := math.Lgamma(k + 1)
				d, _ := math.Lgamma(n - k + 1)
				log = a - b - d + k*math.Log(mean) + (n-k)*math.Log1p(-mean)
			}
			z := min(v, 1) * ((k-at)*(k-at)/v - 1)
			second += math.Exp(log) * z * z
			third += math.Exp(log) * z * z * z
		}
		if math.Abs(s.Variance-second) > 1e-9*second || math.Abs(s.Third-third) > 1e-9*math.Max(third, 1) {
			t.Errorf("%+v: second moment %v, third %v; by summation %v, %v", c, s.Variance, s.Third, second, third)
		}
	}
}

// Rates of which a few are hardly ever met are no overdispersion, and real overdispersion
// beside them is still said.
func TestPearsonOfRareRows(t *testing.T) {
	l, err := New("poisson", "", Params{})
	if err != nil {
		t.Fatal(err)
	}
	add := PearsonOf(l)
	r := rand.New(rand.NewPCG(8, 1))
	const sets, n = 4000, 400
	said, found := 0, 0
	for range sets {
		var calm, wild Pearson
		for range n {
			eta := -1 + 1.7*r.NormFloat64()
			draw := func(mean float64) float64 {
				return distuv.Poisson{Lambda: mean, Src: r}.Rand()
			}
			add(&calm, Obs{Y: draw(math.Exp(eta)), Weight: 1, Trials: 1}, eta, 1, 0)
			g := distuv.Gamma{Alpha: 1, Beta: 1, Src: r}.Rand()
			add(&wild, Obs{Y: draw(math.Exp(eta) * g), Weight: 1, Trials: 1}, eta, 1, 0)
		}
		if calm.Note(l, 0) != "" {
			said++
		}
		if wild.Note(l, 0) != "" {
			found++
		}
	}
	t.Logf("said of %d poisson sets, %d overdispersed ones", said, found)
	if said > 3 || found < sets/2 {
		t.Errorf("said of %d poisson sets of %d, and of %d overdispersed ones", said, sets, found)
	}
}
