package softmax

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest/covariance"
)

// separated draws rows of classes that lie apart along the first feature, but for a share
// that is anywhere.
func separated(rng *rand.Rand, n, d, c int, mixed float64) (o data) {
	for range n {
		row := make([]float64, d)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		y := 0
		for y < c-1 && row[0]+0.2*row[1] > 1.2*(float64(y)-float64(c-2)/2) {
			y++
		}
		if rng.Float64() < mixed {
			y = rng.IntN(c)
		}
		o.x, o.y = append(o.x, row), append(o.y, float64(y))
	}
	return o
}

// sampled is the exact posterior by importance sampling from a Gaussian wider than the one
// given: log evidence, means and deviations of the weights, and the mean of -log E p of
// the rows.
func sampled(t *testing.T, p *kernels.Problem, f *kernels.Fit, draws int) (log float64, mean, sd []float64, loss float64) {
	t.Helper()
	const wide = 1.25
	c, d := len(f.Classes), len(f.Beliefs)
	rng := rand.New(rand.NewPCG(11, 7))
	l := dense.New(d, d)
	halfDet := 0.0
	for j := range d {
		copy(l.Row(j), f.Covariance.Row(j))
		halfDet += math.Log(wide * l.At(j, j) * math.Sqrt(2*math.Pi))
	}
	joint := problem(t, model(kernels.Options{}), data{})
	*joint = *p
	joint.PriorVar = slices.Clone(p.PriorVar)
	for j := range joint.PriorVar {
		if j > 0 {
			joint.PriorVar[j] = f.Prior.Variance
		}
	}
	ws, logs := make([][]float64, draws), make([]float64, draws)
	for k := range ws {
		z, w := make([]float64, d), make([]float64, d)
		q := -halfDet
		for j := range z {
			z[j] = rng.NormFloat64()
			q -= 0.5 * z[j] * z[j]
		}
		dense.Gemv(w, l, z)
		for j, b := range f.Beliefs {
			w[j] = b.Mean + wide*w[j]
		}
		ws[k], logs[k] = w, logJoint(joint, -1, c, w)-q
	}
	top := slices.Max(logs)
	total, squares := 0.0, 0.0
	mean, sd = make([]float64, d), make([]float64, d)
	prob := make([]float64, p.N)
	for k, w := range ws {
		share := math.Exp(logs[k] - top)
		total += share
		squares += share * share
		for j, v := range w {
			mean[j] += share * v
			sd[j] += share * v * v
		}
		eta, q := make([]float64, c), make([]float64, c)
		for i := range p.N {
			col, val := p.Entries(i)
			for a := range eta {
				eta[a] = 0
				for e, j := range col {
					eta[a] += val[e] * w[a*p.P+int(j)]
				}
			}
			softmaxTo(q, eta)
			prob[i] += share * q[int(p.Y[i])]
		}
	}
	if n := total * total / squares; n < 500 {
		t.Fatalf("%.0f draws count", n)
	}
	for j := range mean {
		mean[j] /= total
		sd[j] = math.Sqrt(sd[j]/total - mean[j]*mean[j])
	}
	for _, v := range prob {
		loss -= math.Log(v/total) / float64(p.N)
	}
	return top + math.Log(total/float64(draws)), mean, sd, loss
}

// trainingLoss is the mean of -log E p of the rows under a fit.
func trainingLoss(t *testing.T, f *kernels.Fit, d data) float64 {
	t.Helper()
	s, err := NewScorer(f)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for j := range d.x[0] {
		names = append(names, f.Beliefs[j+1].Feature)
	}
	p, sum := make([]float64, len(f.Classes)), 0.0
	for i, x := range d.x {
		b, err := s.Row(names, x, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Predict(p, b, 0, 0); err != nil {
			t.Fatal(err)
		}
		sum -= math.Log(p[int(d.y[i])]) / float64(len(d.x))
	}
	return sum
}

// Where the variance is learnt the fit is near the exact posterior also of classes that are
// separated, where the Gaussian at the mode is dull; and its bound is one.
func TestNearest(t *testing.T) {
	draws := 20000
	if testing.Short() {
		draws = 6000
	}
	for _, c := range []struct {
		what       string
		n, d, c    int
		mixed      float64
		dull, mean float64 // the least ratio of the losses at the mode, and how far means may be off, in deviations
		seed       uint64
	}{
		{"separated", 60, 2, 3, 0, 1.2, 0.4, 1},
		{"nearly separated", 60, 4, 3, 0.03, 1.2, 0.4, 5},
		{"mixed", 80, 2, 3, 0.3, 1, 0.1, 3},
	} {
		d := separated(rand.New(rand.NewPCG(c.seed, 4)), c.n, c.d, c.c, c.mixed)
		m := model(kernels.Options{AutoPrior: true})
		f := fit(t, m, d, names(c.c))
		if f.Status != "ok" {
			t.Errorf("%s: %s", c.what, f.Status)
		}
		log, mean, sd, loss := sampled(t, problem(t, m, d), f, draws)
		got := trainingLoss(t, f, d)
		t.Logf("%s: variance %.3g, bound %.3f of %.3f, loss %.4f of %.4f", c.what, f.Prior.Variance, f.LogEvidence, log, got, loss)
		if f.LogEvidence > log+0.05 || f.LogEvidence < log-1 {
			t.Errorf("%s: log evidence %v, of the posterior %v", c.what, f.LogEvidence, log)
		}
		for j, b := range f.Beliefs {
			if off := math.Abs(b.Mean-mean[j]) / sd[j]; off > c.mean {
				t.Errorf("%s: mean of %s off by %.2f deviations", c.what, b.Feature, off)
			}
			if r := math.Sqrt(b.Variance) / sd[j]; r < 0.8 || r > 1.1 {
				t.Errorf("%s: deviation of %s %.2f times the posterior's", c.what, b.Feature, r)
			}
		}
		if math.Abs(got-loss) > 0.1*loss {
			t.Errorf("%s: mean log loss %v, of the posterior %v", c.what, got, loss)
		}
		m.Options.Hessian = "full"
		if mode := trainingLoss(t, fit(t, m, d, names(c.c)), d); mode < c.dull*loss {
			t.Errorf("%s: mean log loss at the mode %v, of the posterior %v", c.what, mode, loss)
		}
	}
}

// The equations of the nearest Gaussian hold, with averages over many more points than it
// was found by; a class pinned at 0 changes the model, not how well they hold.
func TestNearestEquations(t *testing.T) {
	for _, pinned := range []string{"", "class1"} {
		d := separated(rand.New(rand.NewPCG(9, 4)), 70, 3, 4, 0.1)
		for i := range d.x {
			d.weight, d.offset = append(d.weight, float64(1+i%3)/2), append(d.offset, 0.3*float64(i%2))
		}
		m := model(kernels.Options{AutoPrior: true, Reference: pinned})
		f := fit(t, m, d, names(4))
		p := problem(t, m, d)
		s, err := NewScorer(f)
		if err != nil {
			t.Fatal(err)
		}
		// Σ x (y - E π) and Σ x x' E W of the learnt classes, from the mixture's own averages
		at := []int{}
		for k := range 4 {
			if pinned != names(4)[k] {
				at = append(at, k)
			}
		}
		w := len(at) * p.P
		grad, curve := make([]float64, w), dense.New(w, w)
		feature := []string{"x000", "x001", "x002"}
		z := normals(4)
		for i := range d.x {
			b, err := s.Row(feature, d.x[i], d.offset[i])
			if err != nil {
				t.Fatal(err)
			}
			mean, cov, err := s.Linear(b, 0)
			if err != nil {
				t.Fatal(err)
			}
			prob, pair := manyAverages(mean, cov, z)
			x := append([]float64{1}, d.x[i]...)
			for a, k := range at {
				r := -prob[k]
				if int(d.y[i]) == k {
					r++
				}
				for e, v := range x {
					grad[a*p.P+e] += d.weight[i] * v * r
				}
				for b, l := range at {
					v := -pair[k*4+l]
					if k == l {
						v += prob[k]
					}
					for e, xe := range x {
						for g, xg := range x {
							curve.Row(a*p.P + e)[b*p.P+g] += d.weight[i] * v * xe * xg
						}
					}
				}
			}
		}
		cov := covariance.Of(t, f)
		for a, k := range at {
			for e := range p.P {
				own := f.Beliefs[k*p.P+e]
				v := f.Prior.Variance
				if e == 0 {
					v = kernels.DefaultPrior.InterceptVariance
				}
				// in deviations: grad - w/v is 0, S (curve + 1/v) the unit matrix
				if off := math.Abs(grad[a*p.P+e]-own.Mean/v) * math.Sqrt(own.Variance); off > 0.05 {
					t.Errorf("pinned %q: slope of %s %s off by %.3f", pinned, own.Feature, f.Classes[k], off)
				}
				sum := own.Variance/v - 1
				for b, l := range at {
					for g := range p.P {
						sum += cov.At(k*p.P+e, l*p.P+g) * curve.At(b*p.P+g, a*p.P+e)
					}
				}
				if math.Abs(sum) > 0.05 {
					t.Errorf("pinned %q: curvature of %s %s off by %.3f", pinned, own.Feature, f.Classes[k], sum)
				}
			}
		}
	}
}

// manyAverages is E π and E π πᵀ over N(mean, cov) by points and their negatives.
func manyAverages(mean, cov []float64, z [][]float64) (prob, pair []float64) {
	c := len(mean)
	points := dense.New(len(z), c)
	for i, p := range z {
		copy(points.Row(i), p)
	}
	r := newRowAverage(points)
	root := make([]float64, c*c)
	for a := range c {
		for b := range a + 1 {
			v := cov[a*c+b]
			for k := range b {
				v -= root[a*c+k] * root[b*c+k]
			}
			switch {
			case a == b:
				root[a*c+a] = math.Sqrt(max(v, 0))
			case root[b*c+b] > 1e-9:
				root[a*c+b] = v / root[b*c+b]
			}
		}
	}
	copy(r.l, root)
	r.average(mean, 0, false)
	pair = make([]float64, c*c)
	at := 0
	for a := range c {
		for b := range a + 1 {
			pair[a*c+b], pair[b*c+a] = r.pair[at], r.pair[at]
			at++
		}
	}
	return r.prob, pair
}

// Over the rows, where they are fewer than the features, the search for the nearest Gaussian
// takes the steps that it takes over the weights: rows that repeat, weights of 0, offsets, a
// pinned class, prior means and one class alone included.
func TestNearestInRows(t *testing.T) {
	for _, c := range []struct {
		n, d, c int
		pinned  string
		mean    float64
	}{{1, 12, 1, "", 0}, {1, 9, 2, "", 0}, {9, 20, 3, "", 0}, {14, 16, 3, "class1", 0}, {12, 30, 2, "class0", 0.4}} {
		rng := rand.New(rand.NewPCG(uint64(c.n), uint64(c.d)))
		d := separated(rng, c.n, c.d, c.c, 0.2)
		for i := range d.x {
			d.weight, d.offset = append(d.weight, float64(i%4)/2+0.5*float64(i%2)), append(d.offset, 0.3*float64(i%2))
			if i%5 == 4 {
				d.x[i] = d.x[i-2]
			}
		}
		d.weight[0] = 1
		m := model(kernels.Options{AutoPrior: true, Reference: c.pinned})
		m.Prior.Mean = c.mean
		var at [2]*evidence
		for k, sp := range []space{weightSpace, rowSpace} {
			p := problem(t, m, d)
			e, ev := forced(t, p, names(c.c), sp, "full", false)
			was := ev.log
			var err error
			if at[k], err = e.refine(ev); err != nil {
				t.Fatal(err)
			}
			if at[k].log == was && c.c > 1 {
				t.Errorf("%+v: no step", c)
			}
		}
		a, b := at[0], at[1]
		// the two begin at modes that differ by the search's own tolerance
		if math.Abs(a.log-b.log) > 1e-6 || math.Abs(a.logDet-b.logDet) > 1e-6 {
			t.Errorf("%+v: bound %v and %v, log det %v and %v", c, a.log, b.log, a.logDet, b.logDet)
		}
		for j, w := range a.post.Mean {
			sd := math.Sqrt(a.post.Var[j])
			if math.Abs(w-b.post.Mean[j]) > 1e-6*sd || math.Abs(b.post.Var[j]/a.post.Var[j]-1) > 1e-6 {
				t.Errorf("%+v: weight %d: %v, variance %v; over the rows %v, %v", c, j, w, a.post.Var[j], b.post.Mean[j], b.post.Var[j])
			}
		}
		if x := a.post.L; x != nil {
			for i := range x.Rows {
				for j := range i + 1 {
					if math.Abs(x.Row(i)[j]-b.post.L.Row(i)[j]) > 1e-6*math.Sqrt(a.post.Var[i]) {
						t.Fatalf("%+v: root at %d, %d: %v and %v", c, i, j, x.Row(i)[j], b.post.L.Row(i)[j])
					}
				}
			}
		}
	}
}

// Under a prior so wide that the mode's Gaussian reaches thousands of deviations to where the rows
// allow no weights the bound is about that of narrower priors.
func TestNearestFromFar(t *testing.T) {
	d := separated(rand.New(rand.NewPCG(0, 4)), 12, 5, 3, 0)
	for v := 1e2; v <= 1e7; v *= 10 {
		m := model(kernels.Options{AutoPrior: true})
		m.Prior.Variance = v
		e, ev := forced(t, problem(t, m, d), names(3), weightSpace, "full", false)
		at, err := e.refine(ev)
		if err != nil {
			t.Fatal(err)
		}
		if !(at.log > -30 && at.log < 0) {
			t.Errorf("prior variance %g: bound %v", v, at.log)
		}
	}
}
