package softmax

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/kerneltest/covariance"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
)

func kindOf(k int) predict.Kind { return predict.Kind(k) }

// brute is E softmax for independent predictors plus a common shift, by a fine
// trapezoid rule over each of three predictors.
func brute3(mean, sd [3]float64) (p [3]float64) {
	const h, reach = 0.17, 6.2
	q, f := make([]float64, 3), make([]float64, 3)
	mass := 0.0
	for a := -reach; a <= reach; a += h {
		for b := -reach; b <= reach; b += h {
			for c := -reach; c <= reach; c += h {
				w := math.Exp(-0.5 * (a*a + b*b + c*c))
				f[0], f[1], f[2] = mean[0]+sd[0]*a, mean[1]+sd[1]*b, mean[2]+sd[2]*c
				softmaxTo(q, f)
				for k := range p {
					p[k] += w * q[k]
				}
				mass += w
			}
		}
	}
	for k := range p {
		p[k] /= mass
	}
	return p
}

func TestThreeClassesExact(t *testing.T) {
	for _, c := range [][2][3]float64{
		{{0, 0, 0}, {1, 1, 1}},
		{{1, -1, 0.5}, {0.5, 2, 1}},
		{{3, 0, -2}, {3, 0.1, 3}},
		{{0, 0, 0}, {0, 0, 0}},
		{{0.3, 0.2, 0.1}, {0, 0, 3}},
		{{0.3, -0.2, 40}, {0.2, 0.01, 0.4}},
	} {
		want := brute3(c[0], c[1])
		cov := make([]float64, 9)
		for k := range 3 {
			for l := range 3 {
				cov[3*k+l] = 2 // a shift of all changes nothing
			}
			cov[4*k] += c[1][k] * c[1][k]
		}
		got := [3]float64{7, 7, 7} // what was there is gone
		Probabilities(got[:], c[0][:], cov, predict.Exact)
		for k := range 3 {
			kerneltest.Close(t, "probability", got[k], want[k], kerneltest.Tol{Abs: 1e-7})
		}
	}
}

// The lattice against random draws: four of their standard errors and what Probabilities
// says of its own.
func TestManyClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	worst := 0.0
	for _, c := range []int{4, 6, 10} {
		for _, scale := range []float64{0.3, 1, 3, 10} {
			mean, root := make([]float64, c), make([]float64, c*c)
			cov := make([]float64, c*c)
			for k := range root {
				root[k] = rng.NormFloat64() * scale / math.Sqrt(float64(c))
			}
			for k := range c {
				mean[k] = rng.NormFloat64()
				for l := range c {
					for m := range c {
						cov[k*c+l] += root[k*c+m] * root[l*c+m]
					}
				}
			}
			n := 1_000_000
			if testing.Short() {
				n = 100_000
			}
			want, got, f, q, z := make([]float64, c), make([]float64, c), make([]float64, c), make([]float64, c), make([]float64, c)
			for range n / c {
				for k := range z {
					z[k] = rng.NormFloat64()
				}
				for k := range f {
					f[k] = mean[k]
					for m := range c {
						f[k] += root[k*c+m] * z[m]
					}
				}
				softmaxTo(q, f)
				for k := range want {
					want[k] += q[k] / float64(n/c)
				}
			}
			Probabilities(got, mean, cov, predict.Exact)
			sum := 0.0
			for k := range c {
				worst = max(worst, math.Abs(got[k]-want[k]))
				sum += got[k]
				tol := map[float64]float64{0.3: 1e-5, 1: 1e-4, 3: 2e-3, 10: 5e-3}[scale] + 4*math.Sqrt(want[k]*(1-want[k])/float64(n/c))
				kerneltest.Close(t, "probability", got[k], want[k], kerneltest.Tol{Abs: tol})
			}
			kerneltest.Close(t, "sum", sum, 1, kerneltest.Tol{Abs: 1e-12})
		}
	}
	t.Logf("largest difference from random draws %.2g", worst)
}

// Two classes: the logistic-normal integral of the difference; with one pinned also
// MacKay's moderation is that of the logit model.
func TestTwoClassPredictions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	d := simulate(rng, 60, 3, 2, 1)
	d.offset = nil
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []kernels.Options{{}, {Hessian: "diagonal"}, {Hessian: "lowrank", Rank: 3}} {
		o.Reference = "no"
		f := fit(t, model(o), d, []string{"no", "yes"})
		s, err := NewScorer(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Row([]string{"x000", "x002", "x000"}, []float64{1, -2, 0.5}, 0.3)
		if err != nil {
			t.Fatal(err)
		}
		mean, cov, err := s.Linear(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		if mean[0] != 0 || cov[0] != 0 || cov[1] != 0 {
			t.Errorf("reference %v %v", mean, cov)
		}
		full := covariance.Of(t, f)
		m, v := 0.3, 0.0
		p := len(f.Beliefs) / 2
		x := []float64{1, 1.5, 0, -2}
		for j := range x {
			m += x[j] * f.Beliefs[p+j].Mean
			for k := range x {
				v += x[j] * x[k] * full.At(p+j, p+k)
			}
		}
		kerneltest.Close(t, "mean", mean[1], m, close8)
		kerneltest.Close(t, "variance", cov[3], v, close8)
		dst := make([]float64, 2)
		for kind, want := range map[predict.Kind]float64{predict.Exact: predict.Expected(l, predict.Exact, m, v), predict.MacKay: l.Moderated(m, v), predict.Plugin: l.Response(m)} {
			if err := s.Clone().Predict(dst, b, 0, kind); err != nil {
				t.Fatal(err)
			}
			kerneltest.Close(t, kind.String(), dst[1], want, kerneltest.Tol{Rel: 1e-9})
			kerneltest.Close(t, kind.String(), dst[0]+dst[1], 1, kerneltest.Tol{Rel: 1e-9})
		}
		// a feature that was not seen has its prior in the class that learns
		b, _ = s.Row([]string{"new"}, []float64{2}, 0)
		_, cov, err = s.Linear(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, "unseen", cov[3], f.Beliefs[p].Variance+4, close8)
	}
}

func TestScorerErrors(t *testing.T) {
	if _, err := NewScorer(&kernels.Fit{Method: "adf"}); err == nil || !strings.Contains(err.Error(), "'adf' has none") {
		t.Error(err)
	}
	w := kernels.Weight{Variance: 1}
	f := &kernels.Fit{Classes: []string{"a", "b"}, Beliefs: []kernels.Belief{{Feature: "u", Weight: w}, {Feature: "v", Weight: w}}}
	if _, err := NewScorer(f); err == nil || !strings.Contains(err.Error(), `"v"`) {
		t.Error(err)
	}
	f.Beliefs = append(f.Beliefs, f.Beliefs[0])
	if _, err := NewScorer(f); err == nil || !strings.Contains(err.Error(), "3 beliefs for 2 classes") {
		t.Error(err)
	}
}

// A full covariance of 10 classes and 100 features: no allocation per row but for the
// eigenvectors of the exact integral.
func BenchmarkPredict(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 9))
	for _, kind := range []predict.Kind{predict.Exact, predict.MacKay, predict.Plugin} {
		for _, c := range []int{2, 3, 10} {
			b.Run(kind.String()+"/classes="+string(rune('0'+c%10)), func(b *testing.B) {
				d := simulate(rng, 500, 30, c, 1)
				f, err := Fit(context.Background(), problem(b, model(kernels.Options{}), d), names(c))
				if err != nil {
					b.Fatal(err)
				}
				s, err := NewScorer(f)
				if err != nil {
					b.Fatal(err)
				}
				features := make([]string, 30)
				for j := range features {
					features[j] = f.Beliefs[1+j].Feature
				}
				row, err := s.Row(features, d.x[0], 0)
				if err != nil {
					b.Fatal(err)
				}
				dst := make([]float64, c)
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Predict(dst, row, 0, kind); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// The lattice's vector is the one that its criterion finds: the first components again.
func TestLattice(t *testing.T) {
	const n = latticePoints
	table, product := make([]float64, n), make([]float64, n)
	for i := range table {
		x := float64(i) / n
		table[i] = 2 * math.Pi * math.Pi * (x*x - x + 1.0/6)
		product[i] = 1
	}
	for k, want := range lattice[:4] {
		weight := 1 / float64(k+1)
		least, at := math.Inf(1), 0
		for c := 1; c <= n/2; c++ {
			s, j := 0.0, 0
			for i := range product {
				s += product[i] * (1 + weight*table[j])
				if j += c; j >= n {
					j -= n
				}
			}
			if s < least*(1-1e-12) {
				least, at = s, c
			}
		}
		if at != want {
			t.Errorf("component %d is %d, the criterion finds %d", k, want, at)
		}
		for i := range product {
			product[i] *= 1 + weight*table[i*want%n]
		}
	}
	if p := normals(60); len(p) != n || len(p[7]) != 60 || math.IsNaN(p[7][59]) {
		t.Error("60 dimensions")
	}
}

// independent is E softmax for independent predictors. With a Gumbel variable added to each, a
// class's probability is that of being the largest: an integral over one dimension of products
// of Gumbel distribution functions averaged over the Gaussians, by trapezoid rules.
func independent(mean, sd []float64) []float64 {
	out, whole, part := make([]float64, len(mean)), make([]float64, len(mean)), make([]float64, len(mean))
	const h, d = 0.1, 0.15
	for t := -12.0; t < 45; t += h {
		all := 1.0
		for k := range mean {
			whole[k], part[k] = 0, 0
			for z := -8.0; z <= 8; z += d {
				e := math.Exp(mean[k] + sd[k]*z - t)
				w := d / math.Sqrt(2*math.Pi) * math.Exp(-0.5*z*z-e)
				whole[k] += w
				part[k] += w * e
			}
			all *= whole[k]
		}
		for k := range out {
			if whole[k] > 0 {
				out[k] += h * all * part[k] / whole[k]
			}
		}
	}
	return out
}

// The rules of degree 5 and 7 and the lattice against integrals that are exact to 1e-13 for
// independent predictors, and for four correlated ones against a trapezoid rule on three axes.
func TestProbabilitiesExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	for _, c := range []int{4, 7, 10, 16} {
		for _, widest := range []float64{0.1, 0.34, 0.5, 0.69, 1.2} {
			mean, sd, cov, got := make([]float64, c), make([]float64, c), make([]float64, c*c), make([]float64, c)
			for k := range c {
				mean[k] = 1.5 * rng.NormFloat64()
				sd[k] = widest / math.Sqrt2 * (0.6 + 0.4*rng.Float64())
				for l := range c {
					cov[k*c+l] = 2 // a common shift
				}
				cov[k*c+k] += sd[k] * sd[k]
			}
			want, tol := independent(mean, sd), map[float64]float64{0.1: 1e-8, 0.34: 2e-6, 0.5: 2e-6, 0.69: 1e-5, 1.2: 2e-4}[widest]
			Probabilities(got, mean, cov, predict.Exact)
			worst, sum := 0.0, 0.0
			for k := range got {
				worst = max(worst, math.Abs(got[k]-want[k]))
				sum += want[k]
			}
			t.Logf("%d classes, differences up to %v: error %.1e, reference's sum %.1e", c, widest, worst, sum-1)
			if !(worst < tol) || math.Abs(sum-1) > 1e-12 {
				t.Errorf("%d classes, differences up to %v: error %.2g, allowed %g; the reference sums to 1%+.2g", c, widest, worst, tol, sum-1)
			}
		}
	}
	const c = 4
	for range 5 {
		mean, root, cov := make([]float64, c), make([]float64, c*c), make([]float64, c*c)
		for k := range root {
			root[k] = rng.NormFloat64()
		}
		widest := 0.0
		for k := range c {
			mean[k] = rng.NormFloat64()
			for l := range c {
				cov[k*c+l] = 0
				for m := range c - 1 {
					cov[k*c+l] += root[k*c+m] * root[l*c+m]
				}
			}
		}
		for k := range c {
			for l := range k {
				widest = max(widest, cov[k*c+k]+cov[l*c+l]-2*cov[k*c+l])
			}
		}
		scale := 0.69 / math.Sqrt(widest)
		want, got, f, q, mass := make([]float64, c), make([]float64, c), make([]float64, c), make([]float64, c), 0.0
		const h, n = 0.4, 16
		for at := range (2*n + 1) * (2*n + 1) * (2*n + 1) {
			z := [3]float64{h * float64(at%(2*n+1)-n), h * float64(at/(2*n+1)%(2*n+1)-n), h * float64(at/(2*n+1)/(2*n+1)-n)}
			w := math.Exp(-0.5 * (z[0]*z[0] + z[1]*z[1] + z[2]*z[2]))
			for k := range c {
				f[k] = mean[k] + scale*(root[k*c]*z[0]+root[k*c+1]*z[1]+root[k*c+2]*z[2])
			}
			softmaxTo(q, f)
			for k := range q {
				want[k] += w * q[k]
			}
			mass += w
		}
		for k := range cov {
			cov[k] *= scale * scale
		}
		Probabilities(got, mean, cov, predict.Exact)
		for k := range got {
			kerneltest.Close(t, "probability", got[k], want[k]/mass, kerneltest.Tol{Abs: 1e-5})
		}
	}
}

// The lattice's sum by vectors is that of its points one by one, where exponentials are numbers
// and where they would not be.
func TestLatticeByVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 2))
	for _, c := range []int{4, 10, 17} {
		for _, scale := range []float64{0.4, 2, 40, 900} {
			mean, root, cov := make([]float64, c), make([]float64, c*c), make([]float64, c*c)
			for k := range root {
				root[k] = rng.NormFloat64() * scale / math.Sqrt(float64(c))
			}
			for k := range c {
				mean[k] = scale * rng.NormFloat64()
				for l := range c {
					for m := range c {
						cov[k*c+l] += root[k*c+m] * root[l*c+m]
					}
				}
			}
			var x mixer
			got, want := make([]float64, c), make([]float64, c)
			x.probabilities(got, mean, cov, predict.Plugin)
			x.lattice(got, mean, cov)
			z := normals(c - 1)
			for _, p := range z {
				clear(x.f)
				for k, v := range p {
					for l := range c {
						x.f[l] += v * x.root[k*c+l]
					}
				}
				x.addOneByOne(want, mean, 1/float64(2*len(z)))
			}
			for k := range got {
				kerneltest.Close(t, "probability", got[k], want[k], kerneltest.Tol{Abs: 1e-14, Rel: 1e-12})
			}
		}
	}
}

// Narrow predictors of up to 16 classes: the rule of degree 5 against the lattice.
func TestDegree5(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, c := range []int{4, 7, 10, 16} {
		for _, scale := range []float64{0.01, 0.1, 0.2} {
			mean, root, cov := make([]float64, c), make([]float64, c*c), make([]float64, c*c)
			for k := range root {
				root[k] = rng.NormFloat64() * scale / math.Sqrt(float64(c))
			}
			for k := range c {
				mean[k] = 2 * rng.NormFloat64()
				for l := range c {
					cov[k*c+l] = 3 // a common shift
					for m := range c {
						cov[k*c+l] += root[k*c+m] * root[l*c+m]
					}
				}
			}
			wide := false
			for k := range c - 1 {
				wide = wide || cov[k*c+k]+cov[c*c-1]-2*cov[k*c+c-1] > narrow*narrow
			}
			if wide { // degree 7, nearer than the lattice: see TestProbabilitiesExact
				continue
			}
			got, want, sum := make([]float64, c), make([]float64, c), 0.0
			Probabilities(got, mean, cov, predict.Exact)
			var x mixer
			x.probabilities(make([]float64, c), mean, cov, predict.Plugin)
			x.lattice(want, mean, cov)
			for k := range got {
				kerneltest.Close(t, "probability", got[k], want[k], kerneltest.Tol{Abs: 2e-5})
				sum += got[k]
			}
			kerneltest.Close(t, "sum", sum, 1, kerneltest.Tol{Abs: 1e-12})
		}
	}
}

// Four classes against the product of Gauss-Hermite rules over the differences of their
// predictors, of 48 points each: both rules have the error that Probabilities documents,
// whatever the covariance.
func TestFourClasses(t *testing.T) {
	const n, c = 48, 4
	x, w := make([]float64, n), make([]float64, n)
	quad.Hermite{}.FixedLocations(x, w, math.Inf(-1), math.Inf(1))
	r := rand.New(rand.NewPCG(1, 5))
	for _, q := range []struct{ sd, tol float64 }{{0.2, 2e-7}, {0.3, 1e-6}, {0.4, 5e-6}, {0.5, 5e-6}, {0.69, 2e-5}} {
		for range 8 {
			a := make([]float64, c*c)
			for i := range a {
				a[i] = r.NormFloat64()
			}
			mean, cov := make([]float64, c), make([]float64, c*c)
			widest := 0.0
			for i := range c {
				mean[i] = r.NormFloat64()
				for j := range c {
					cov[i*c+j] = dense.Dot(a[i*c:(i+1)*c], a[j*c:(j+1)*c])
				}
			}
			for i := range c {
				for j := range i {
					widest = max(widest, cov[i*c+i]+cov[j*c+j]-2*cov[i*c+j])
				}
			}
			for i := range cov {
				cov[i] *= q.sd * q.sd / widest
			}
			d := mat.NewSymDense(c-1, nil) // of the differences from the last
			for i := range c - 1 {
				for j := range i + 1 {
					d.SetSym(i, j, cov[i*c+j]-cov[i*c+3]-cov[j*c+3]+cov[15])
				}
			}
			var chol mat.Cholesky
			if !chol.Factorize(d) {
				t.Fatal("no covariance")
			}
			var l mat.TriDense
			chol.LTo(&l)
			want, f, p := make([]float64, c), make([]float64, c), make([]float64, c)
			total := 0.0
			for at := range n * n * n {
				i, j, k := at/n/n, at/n%n, at%n
				f[0] = mean[0] - mean[3] + math.Sqrt2*l.At(0, 0)*x[i]
				f[1] = mean[1] - mean[3] + math.Sqrt2*(l.At(1, 0)*x[i]+l.At(1, 1)*x[j])
				f[2] = mean[2] - mean[3] + math.Sqrt2*(l.At(2, 0)*x[i]+l.At(2, 1)*x[j]+l.At(2, 2)*x[k])
				softmaxTo(p, f)
				weight := w[i] * w[j] * w[k]
				total += weight
				dense.Axpy(weight, p, want)
			}
			got := make([]float64, c)
			Probabilities(got, mean, cov, predict.Exact)
			for k := range got {
				if math.Abs(got[k]-want[k]/total) > q.tol {
					t.Errorf("deviation %v, class %d: %v, want %v", q.sd, k, got[k], want[k]/total)
				}
			}
		}
	}
}
