package softmax

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/kerneltest/covariance"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
)

var close8 = kerneltest.Tol{Rel: 1e-8, Abs: 1e-8}

var abc = []string{"a", "b", "c"}

type data struct {
	x              [][]float64
	y              []float64
	weight, offset []float64
	names          []string
}

func problem(t testing.TB, m *kernels.Model, d data) *kernels.Problem {
	t.Helper()
	rows := kernels.NewLabelledRows
	if m.Lik != nil { // of two classes as one response
		rows = kernels.NewRows
	}
	r, err := rows(m)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []string
	for j := 0; len(d.x) > 0 && j < len(d.x[0]); j++ {
		numbers = append(numbers, fmt.Sprintf("x%03d", j))
	}
	r.Dict.Use(kernels.NewColumns(nil, numbers))
	var b kernels.Batch
	b.Reset()
	for i, row := range d.x {
		if !m.NoIntercept {
			b.Add(0, 1)
		}
		for j, v := range row {
			if v == 0 {
				continue
			}
			name := fmt.Sprintf("x%03d", j)
			if d.names != nil {
				name = d.names[j]
			}
			id, err := r.Dict.Add(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, v)
		}
		b.EndRow()
		b.Y = append(b.Y, d.y[i])
	}
	b.Weight, b.Offset = d.weight, d.offset
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// simulate draws n rows of d features and one of c classes.
func simulate(rng *rand.Rand, n, d, c int, share float64) data {
	var o data
	w := make([][]float64, c)
	for k := range w {
		for range d + 1 {
			w[k] = append(w[k], rng.NormFloat64())
		}
	}
	f, p := make([]float64, c), make([]float64, c)
	for i := range n {
		row := make([]float64, d)
		for j := range row {
			if rng.Float64() < share {
				row[j] = rng.NormFloat64()
			}
		}
		for k := range f {
			f[k] = w[k][d] + dense.Dot(w[k][:d], row)/math.Sqrt(1+share*float64(d)/4)
		}
		softmaxTo(p, f)
		u, y := rng.Float64(), 0
		for y < c-1 && u > p[y] {
			u -= p[y]
			y++
		}
		o.x, o.y = append(o.x, row), append(o.y, float64(y))
		o.weight, o.offset = append(o.weight, float64(1+i%3)/2), append(o.offset, 0.2*float64(i%4))
	}
	return o
}

func names(c int) []string {
	out := make([]string, c)
	for k := range out {
		out[k] = fmt.Sprintf("class%d", k)
	}
	return out
}

func model(o kernels.Options) *kernels.Model {
	return &kernels.Model{Prior: kernels.DefaultPrior, Options: o}
}

func fit(t *testing.T, m *kernels.Model, d data, classes []string) *kernels.Fit {
	t.Helper()
	f, err := Fit(context.Background(), problem(t, m, d), classes)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Converged {
		t.Error(f.Status)
	}
	return f
}

// Two classes with one pinned are the logit model, whichever is pinned (with signs
// turned), in every Hessian and with learnt variances.
func TestTwoClassesAreLogit(t *testing.T) {
	for _, shape := range [][2]int{{70, 5}, {9, 20}} {
		for _, o := range []kernels.Options{{}, {Hessian: "diagonal"}, {Hessian: "lowrank", Rank: 4}, {AutoPrior: true, Hessian: "full", Tol: 1e-11}, {Standardize: true}} {
			rng := rand.New(rand.NewPCG(1, 2))
			d := simulate(rng, shape[0], shape[1], 2, 0.8)
			l, err := lik.New("bernoulli", "logit", lik.Params{})
			if err != nil {
				t.Fatal(err)
			}
			o.Tol = 1e-11
			logit := model(o)
			logit.Lik = l
			want, err := laplace.Fit(context.Background(), problem(t, logit, d))
			if err != nil {
				t.Fatal(err)
			}
			soft := model(o)
			soft.Options.Reference = "no"
			got := fit(t, soft, d, []string{"no", "yes"})
			tol := kerneltest.Tol{Rel: 1e-10, Abs: 1e-10}
			if o.AutoPrior {
				tol = kerneltest.Tol{Rel: 1e-5, Abs: 1e-5} // two searches for the variance
			}
			p := len(want.Beliefs)
			kerneltest.Close(t, "evidence", got.LogEvidence, want.LogEvidence, tol)
			kerneltest.Close(t, "prior variance", got.Prior.Variance, want.Prior.Variance, tol)
			cg, cw := covariance.Of(t, got), covariance.Of(t, want)
			for j, b := range want.Beliefs {
				if got.Beliefs[j].Weight != (kernels.Weight{}) || got.Beliefs[j].Feature != b.Feature {
					t.Errorf("reference: %+v", got.Beliefs[j])
				}
				kerneltest.Close(t, "mean", got.Beliefs[p+j].Mean, b.Mean, tol)
				for k := range p {
					kerneltest.Close(t, "covariance", cg.At(p+j, p+k), cw.At(j, k), tol)
				}
			}
			// the other class pinned: f turns its sign, and so must the offset
			for i := range d.offset {
				d.offset[i] = -d.offset[i]
			}
			soft.Options.Reference = "yes"
			other := fit(t, soft, d, []string{"no", "yes"})
			kerneltest.Close(t, "evidence", other.LogEvidence, want.LogEvidence, tol)
			for j, b := range want.Beliefs {
				kerneltest.Close(t, "mean", other.Beliefs[j].Mean, -b.Mean, tol)
			}
		}
	}
}

// logJoint is log p(y | w) + log N(w; 0, Σ0) of weights of the learnt classes.
func logJoint(p *kernels.Problem, pinned int, c int, w []float64) float64 {
	s := 0.0
	f, q := make([]float64, c), make([]float64, c)
	b := p.Batch()
	for i := range p.N {
		col, val := p.Entries(i)
		a := 0
		for k := range c {
			f[k] = 0
			if k == pinned {
				continue
			}
			f[k] = b.Shift(i)
			for e, j := range col {
				f[k] += val[e] * w[a*p.P+int(j)]
			}
			a++
		}
		softmaxTo(q, f)
		s += b.Obs(i).Weight * math.Log(q[int(p.Y[i])])
	}
	for j, x := range w {
		m, v := p.PriorMean[j%p.P], p.PriorVar[j%p.P]
		s -= 0.5 * ((x-m)*(x-m)/v + math.Log(2*math.Pi*v))
	}
	return s
}

// The mode has no gradient, the covariance is the inverse of the Hessian by finite
// differences, and the evidence its formula.
func TestAgainstFiniteDifferences(t *testing.T) {
	for _, reference := range []string{"", "b"} {
		rng := rand.New(rand.NewPCG(1, 3))
		m := model(kernels.Options{Reference: reference})
		m.Prior.Mean = 0.2
		p := problem(t, m, simulate(rng, 60, 3, 3, 1))
		f, err := Fit(context.Background(), p, abc)
		if err != nil {
			t.Fatal(err)
		}
		pinned, w := -1, []float64(nil)
		var at []int
		for k, b := range f.Beliefs {
			if abc[k/p.P] == reference {
				pinned = k / p.P
				continue
			}
			w, at = append(w, b.Mean), append(at, k)
		}
		cov := covariance.Of(t, f)
		n := len(w)
		sub, inv := dense.New(n, n), dense.New(n, n)
		for i, a := range at {
			for j, b := range at {
				sub.Row(i)[j] = cov.At(a, b)
			}
		}
		if err := dense.Cholesky(sub); err != nil {
			t.Fatal(err)
		}
		dense.InverseFromCholesky(inv, sub)
		value := func(w []float64) float64 { return logJoint(p, pinned, 3, w) }
		x := append([]float64(nil), w...)
		const h = 1e-3
		for i := range n {
			kerneltest.Gradient(t, "gradient", func(v float64) float64 { x[i] = v; r := value(x); x[i] = w[i]; return r }, w[i], h, 0, kerneltest.Tol{Abs: 1e-7})
			for j := range i + 1 {
				four := 0.0
				for _, s := range [][3]float64{{1, 1, 1}, {1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}} {
					x[i] += s[0] * h
					x[j] += s[1] * h
					four += s[2] * value(x)
					x[i], x[j] = w[i], w[j]
				}
				kerneltest.Close(t, "Hessian", -four/(4*h*h), inv.At(i, j), kerneltest.Tol{Rel: 1e-4, Abs: 1e-4})
			}
		}
		want := value(w) + 0.5*float64(n)*math.Log(2*math.Pi) + 0.5*dense.LogDet(sub)
		kerneltest.Close(t, "evidence", f.LogEvidence, want, close8)
	}
}

func forced(t *testing.T, p *kernels.Problem, classes []string, sp space, hessian string, sparse bool) (*engine, *evidence) {
	t.Helper()
	c, err := kernels.NewClasses(p, classes, p.Options.Reference)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{classes: c, hessian: hessian, x: p}
	p.Fill()
	if sparse {
		q := *p
		q.Columns = design.Columns{N: p.N, P: p.P, Row: p.Row, Col: p.Col, Val: p.Val}
		e.x = &q
	}
	if e.prior, err = c.Prior(); err != nil {
		t.Fatal(err)
	}
	if e.root, err = e.prior.Root(); err != nil {
		t.Fatal(err)
	}
	for _, y := range p.Y {
		k := int(y)
		switch {
		case k == c.Pinned:
			k = -1
		case c.Pinned >= 0 && k > c.Pinned:
			k--
		}
		e.label = append(e.label, k)
	}
	e.newSearch(sp)
	ev, err := e.climbTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.search.Status != "" {
		t.Error(e.search.Status)
	}
	return e, ev
}

// Weights, rows and conjugate gradients give the same posterior; in the rows the
// determinant needs no weights at all.
func TestSpacesAgree(t *testing.T) {
	for _, shape := range [][2]int{{40, 4}, {12, 20}} {
		for _, reference := range []string{"", "class2"} {
			for _, zero := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(2, 3))
				d := simulate(rng, shape[0], shape[1], 4, 0.6)
				if zero {
					d.weight[3] = 0
				}
				p := problem(t, model(kernels.Options{Reference: reference}), d)
				_, want := forced(t, p, names(4), weightSpace, "full", true)
				for _, sp := range []space{weightSpace, rowSpace, krylov} {
					for _, sparse := range []bool{false, true} {
						e, got := forced(t, p, names(4), sp, "full", sparse)
						what := fmt.Sprintf("%v %q space %d sparse %v", shape, reference, sp, sparse)
						kerneltest.Close(t, what+" evidence", got.log, want.log, close8)
						if sp == rowSpace {
							kerneltest.Close(t, what+" determinant", e.search.logDet, want.logDet, close8)
						}
						for j := range want.post.Mean {
							kerneltest.Close(t, what+" mean", got.post.Mean[j], want.post.Mean[j], close8)
							kerneltest.Close(t, what+" variance", got.post.Var[j], want.post.Var[j], close8)
						}
					}
				}
			}
		}
	}
}

// Renaming the classes renames the answer.
func TestPermutation(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 4))
	d := simulate(rng, 80, 4, 3, 1)
	for _, h := range []string{"full", "diagonal", "block"} {
		for _, o := range []kernels.Options{{}, {Reference: "c"}, {AutoPrior: true}} {
			o.Hessian = h
			a := fit(t, model(o), d, abc)
			turned := d
			turned.y = make([]float64, len(d.y))
			to := []int{2, 0, 1} // a becomes the third, b the first, c the second
			for i, y := range d.y {
				turned.y[i] = float64(to[int(y)])
			}
			b := fit(t, model(o), turned, []string{"b", "c", "a"})
			p := len(a.Beliefs) / 3
			ca, cb := covariance.Of(t, a), covariance.Of(t, b)
			kerneltest.Close(t, "evidence", a.LogEvidence, b.LogEvidence, close8)
			for k := range 3 * p {
				j := to[k/p]*p + k%p
				kerneltest.Close(t, "mean", b.Beliefs[j].Mean, a.Beliefs[k].Mean, kerneltest.Tol{Rel: 1e-6, Abs: 1e-6})
				for l := range 3 * p {
					kerneltest.Close(t, "covariance", cb.At(j, to[l/p]*p+l%p), ca.At(k, l), kerneltest.Tol{Rel: 1e-6, Abs: 1e-6})
				}
			}
		}
	}
}

// Full low rank is full; less rank never takes variance away; block and diagonal are
// the inverses of the blocks and of the diagonal.
func TestHessians(t *testing.T) {
	for _, shape := range [][2]int{{50, 5}, {10, 14}} {
		rng := rand.New(rand.NewPCG(2, 5))
		d := simulate(rng, shape[0], shape[1], 3, 1)
		full := fit(t, model(kernels.Options{}), d, abc)
		n := len(full.Beliefs)
		p := n / 3
		cov := covariance.Of(t, full)
		l, prec := cov.Clone(), dense.New(n, n)
		if err := dense.Cholesky(l); err != nil {
			t.Fatal(err)
		}
		dense.InverseFromCholesky(prec, l)
		most := min(2*shape[0], n)
		low := fit(t, model(kernels.Options{Hessian: "lowrank", Rank: most}), d, abc)
		kerneltest.Close(t, "low rank evidence", low.LogEvidence, full.LogEvidence, close8)
		cl := covariance.Of(t, low)
		for i := range n {
			for j := range n {
				kerneltest.Close(t, "low rank", cl.At(i, j), cov.At(i, j), close8)
			}
		}
		small := fit(t, model(kernels.Options{Hessian: "lowrank", Rank: 4}), d, abc)
		ls, ps := covariance.Of(t, small), dense.New(n, n)
		if err := dense.Cholesky(ls); err != nil {
			t.Fatal(err)
		}
		dense.InverseFromCholesky(ps, ls)
		for i := range n { // the diagonal of what is left out is kept
			kerneltest.Close(t, "low rank precision", ps.At(i, i), prec.At(i, i), close8)
		}
		kerneltest.Close(t, "low rank determinant", small.LogEvidence-full.LogEvidence, 0.5*(dense.LogDet(ls)-dense.LogDet(l)), kerneltest.Tol{Abs: 1e-7})
		if low.Status != "ok" || !strings.HasPrefix(small.Status, "curvature is left out by a low rank: the Hessian has rank 4 ") {
			t.Errorf("low rank: %s; %s", low.Status, small.Status)
		}
		// it does not learn by its evidence
		learnt := fit(t, model(kernels.Options{AutoPrior: true, Hessian: "lowrank", Rank: 4}), d, abc)
		exact := fit(t, model(kernels.Options{AutoPrior: true, Hessian: "full"}), d, abc)
		kerneltest.Close(t, "low rank prior variance", learnt.Prior.Variance, exact.Prior.Variance, close8)
		for j, b := range learnt.Beliefs {
			kerneltest.Close(t, "low rank mean", b.Mean, exact.Beliefs[j].Mean, kerneltest.Tol{Rel: 1e-6, Abs: 1e-7})
		}
		diag := fit(t, model(kernels.Options{Hessian: "diagonal"}), d, abc)
		block := fit(t, model(kernels.Options{Hessian: "block"}), d, abc)
		if diag.Status != kernels.FactorisedNote || block.Status != kernels.FactorisedNote {
			t.Errorf("diagonal %s; block %s", diag.Status, block.Status)
		}
		cb := covariance.Of(t, block)
		masked, inv := prec.Clone(), dense.New(n, n)
		for i := range n {
			kerneltest.Close(t, "diagonal", diag.Beliefs[i].Variance, 1/prec.At(i, i), close8)
			for j := range n {
				if i/p != j/p {
					masked.Row(i)[j] = 0
				}
			}
		}
		if err := dense.Cholesky(masked); err != nil {
			t.Fatal(err)
		}
		dense.InverseFromCholesky(inv, masked)
		for i := range n {
			for j := range n {
				kerneltest.Close(t, "block", cb.At(i, j), inv.At(i, j), close8)
			}
		}
		kerneltest.Close(t, "block evidence", block.LogEvidence, full.LogEvidence+0.5*dense.LogDet(prec2(prec))-0.5*dense.LogDet(masked), close8)
	}
}

func prec2(m *dense.Matrix) *dense.Matrix {
	l := m.Clone()
	if err := dense.Cholesky(l); err != nil {
		panic(err)
	}
	return l
}

// The slope of the evidence is 0 at the variances found, by finite differences.
func TestEvidenceMaximum(t *testing.T) {
	for _, hessian := range []string{"full", "diagonal", "block"} {
		for _, shape := range [][2]int{{120, 6}, {20, 30}} {
			for _, reference := range []string{"", "a"} {
				rng := rand.New(rand.NewPCG(3, 5))
				d := simulate(rng, shape[0], shape[1], 3, 1)
				for j := range d.x[0] {
					d.names = append(d.names, fmt.Sprintf("%c=%d", 'u'+j%2, j))
				}
				for i := range d.x {
					for j := range d.x[i] {
						d.x[i][j] *= 1 - 0.8*float64(j%2)
					}
				}
				p := problem(t, model(kernels.Options{AutoPrior: true, PriorGroups: true, Hessian: hessian, Rank: 30, Tol: 1e-10, Reference: reference}), d)
				what := fmt.Sprintf("%s %v %q", hessian, shape, reference)
				e, _ := forced(t, p, abc, chooseSpace(p.N, p.P, 3, gauss.Diagonal), hessian, false)
				h, err := newLearner(e)
				if err != nil {
					t.Fatal(err)
				}
				theta, status, err := mode.Search{Lo: h.lo, Hi: h.hi, Late: e.search.late}.From(h, [][]float64{h.theta})
				if err != nil || status != "" {
					t.Fatal(what, err, status)
				}
				best := h.at.log
				at := append([]float64(nil), theta...)
				for k, x := range theta {
					if x <= h.lo[k] || x >= h.hi[k] {
						continue
					}
					value := func(v float64) float64 {
						at[k] = v
						defer func() { at[k] = theta[k] }()
						log, _, err := h.Try(at)
						if err != nil {
							t.Fatal(err)
						}
						return log
					}
					kerneltest.Gradient(t, what, value, x, 1e-2, 0, kerneltest.Tol{Abs: 2e-5})
					for _, s := range []float64{-1, 1} {
						if up := value(x + s); up > best+1e-6 {
							t.Errorf("%s: evidence %v at %v, %v at %v", what, best, x, up, x+s)
						}
					}
				}
			}
		}
	}
}

// A row of weight 2 is the row twice; no row at all leaves the fit that is continued
// as it was, covariance between classes included.
func TestWeightsAndContinuation(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 6))
	d := simulate(rng, 50, 3, 3, 1)
	d.weight, d.offset = nil, nil
	twice := data{x: append(d.x[:50:50], d.x[:9]...), y: append(d.y[:50:50], d.y[:9]...)}
	for i := range d.x {
		d.weight = append(d.weight, map[bool]float64{true: 2, false: 1}[i < 9])
	}
	a, b := fit(t, model(kernels.Options{}), d, abc), fit(t, model(kernels.Options{}), twice, abc)
	kerneltest.Close(t, "evidence", a.LogEvidence, b.LogEvidence, close8)
	for j := range a.Beliefs {
		kerneltest.Close(t, "mean", a.Beliefs[j].Mean, b.Beliefs[j].Mean, close8)
	}
	for _, o := range []kernels.Options{{}, {Reference: "b"}, {Hessian: "diagonal"}, {Hessian: "lowrank", Rank: 5}} {
		m := model(o)
		first := fit(t, m, d, abc)
		next := *m
		next.Start = first
		same := fit(t, &next, data{}, abc)
		more := fit(t, &next, data{x: [][]float64{{1, 2, 3, 4}}, y: []float64{1}}, abc) // a feature that is new
		cf, cs := covariance.Of(t, first), covariance.Of(t, same)
		if len(more.Beliefs) != len(first.Beliefs)+3 || more.N != 51 {
			t.Errorf("%d beliefs, %d rows", len(more.Beliefs), more.N)
		}
		kerneltest.Close(t, "evidence", same.LogEvidence, first.LogEvidence, close8)
		for i, b := range first.Beliefs {
			kerneltest.Close(t, "mean", same.Beliefs[i].Mean, b.Mean, close8)
			for j := range first.Beliefs {
				kerneltest.Close(t, "covariance", cs.At(i, j), cf.At(i, j), close8)
			}
		}
		next.Options.Reference = "c"
		if _, err := Fit(context.Background(), problem(t, &next, data{}), abc); err == nil || !strings.Contains(err.Error(), "reference") {
			t.Errorf("another reference: %v", err)
		}
		if _, err := Fit(context.Background(), problem(t, &next, data{}), []string{"a", "b", "c", "d"}); err == nil || !strings.Contains(err.Error(), "classes") {
			t.Errorf("other classes: %v", err)
		}
	}
}

// Standardised columns give the predictions of columns that were standardised before.
func TestStandardize(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 7))
	d := simulate(rng, 90, 3, 3, 1)
	d.weight = nil
	raw := d
	raw.x = nil
	n := float64(len(d.x))
	for j := range 3 {
		mean, sq := 0.0, 0.0
		for i := range d.x {
			mean += d.x[i][j] / n
		}
		for i := range d.x {
			sq += (d.x[i][j] - mean) * (d.x[i][j] - mean) / n
		}
		for i := range d.x {
			d.x[i][j] = (d.x[i][j] - mean) / math.Sqrt(sq)
		}
	}
	for _, r := range d.x {
		raw.x = append(raw.x, []float64{100 + 7*r[0], 0.01 * r[1], r[2] - 3})
	}
	a := fit(t, model(kernels.Options{}), d, abc)
	b := fit(t, model(kernels.Options{Standardize: true}), raw, abc)
	kerneltest.Close(t, "evidence", b.LogEvidence, a.LogEvidence, close8)
	sa, err := NewScorer(a)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := NewScorer(b)
	if err != nil {
		t.Fatal(err)
	}
	features := []string{"x000", "x001", "x002"}
	for i := range 10 {
		ra, _ := sa.Row(features, d.x[i], 0)
		rb, _ := sb.Row(features, raw.x[i], 0)
		ma, va, err := sa.Linear(ra, 0)
		if err != nil {
			t.Fatal(err)
		}
		mb, vb, err := sb.Linear(rb, 0)
		if err != nil {
			t.Fatal(err)
		}
		for k := range ma {
			kerneltest.Close(t, "mean", mb[k], ma[k], close8)
		}
		for k := range va {
			kerneltest.Close(t, "covariance", vb[k], va[k], kerneltest.Tol{Rel: 1e-6, Abs: 1e-8})
		}
	}
	// A diagonal Hessian is one of the standardised columns: independent there, not here.
	if f := fit(t, model(kernels.Options{Standardize: true, Hessian: "diagonal"}), raw, abc); f.Status != kernels.FactorisedNote || f.Covariance.Form != gauss.Full {
		t.Error(f.Status, f.Covariance.Form)
	}
}

func TestDeterministic(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	d := simulate(rng, 9000, 4, 3, 0.1)
	for _, o := range []kernels.Options{{}, {Hessian: "lowrank", Rank: 3}, {AutoPrior: true}} {
		p := problem(t, model(o), d)
		old := runtime.GOMAXPROCS(1)
		a, err := Fit(context.Background(), p, abc)
		runtime.GOMAXPROCS(4)
		b, err2 := Fit(context.Background(), p, abc)
		runtime.GOMAXPROCS(old)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if !reflect.DeepEqual(a.Beliefs, b.Beliefs) || a.LogEvidence != b.LogEvidence {
			t.Errorf("%+v: differs between 1 and 4 processors", o)
		}
	}
}

func TestErrors(t *testing.T) {
	d := data{x: [][]float64{{1}, {2}}, y: []float64{0, 2}}
	for _, c := range []struct {
		o       kernels.Options
		classes []string
		want    string
	}{
		{kernels.Options{}, []string{"a", "b"}, "row 2: class number 2; allowed: 0 to 1"},
		{kernels.Options{Reference: "z"}, abc, "reference: found 'z'"},
		{kernels.Options{}, []string{"a", "b", "a"}, `class "a" is there twice`},
		{kernels.Options{}, nil, "needs classes"},
		{kernels.Options{Hessian: "x"}, abc, "hessian"},
		{kernels.Options{Rank: -1}, abc, "rank"},
		{kernels.Options{AutoShape: true}, abc, "shape = 'auto'"},
	} {
		if _, err := Fit(context.Background(), problem(t, model(c.o), d), c.classes); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	at := model(kernels.Options{})
	at.At = []kernels.Belief{{}}
	if _, err := Fit(context.Background(), problem(t, at, d), abc); err == nil || !strings.Contains(err.Error(), "at is not") {
		t.Errorf("weights given: %v", err)
	}
	f, err := Fit(context.Background(), problem(t, model(kernels.Options{TimeLimit: time.Nanosecond}), d), abc)
	if err != nil || f.Converged || !strings.Contains(f.Status, "time limit") {
		t.Error(err, f)
	}
}

// No rows, no features, one class: the prior, with evidence 1 or uniform.
func TestEmpty(t *testing.T) {
	for _, o := range []kernels.Options{{}, {Reference: "b"}, {Hessian: "diagonal"}, {Hessian: "block"}, {Hessian: "lowrank"}, {AutoPrior: true}, {Standardize: true}} {
		for _, intercept := range []bool{true, false} {
			m := model(o)
			m.NoIntercept = !intercept
			f := fit(t, m, data{}, abc)
			if f.LogEvidence != 0 || f.N != 0 {
				t.Errorf("%+v", f)
			}
			f = fit(t, m, data{x: [][]float64{{}, {}}, y: []float64{0, 2}}, abc)
			if !intercept && math.Abs(f.LogEvidence+2*math.Log(3)) > 1e-12 {
				t.Errorf("%+v", f)
			}
			if o.Reference == "" {
				f = fit(t, m, data{x: [][]float64{{1}, {}}, y: []float64{0, 0}}, []string{"one"})
				if math.Abs(f.LogEvidence) > 1e-12 {
					t.Errorf("%+v", f)
				}
			}
		}
	}
	for _, learn := range []bool{false, true} {
		o := kernels.Options{Reference: "one", AutoPrior: learn}
		if f := fit(t, model(o), data{x: [][]float64{{1}, {}}, y: []float64{0, 0}}, []string{"one"}); f.LogEvidence != 0 {
			t.Errorf("%+v", f)
		}
	}
}

func FuzzFit(f *testing.F) {
	f.Add(uint64(1), uint8(5), uint8(3), uint8(3), 1.0, 1.0, uint8(0))
	f.Add(uint64(2), uint8(3), uint8(9), uint8(4), 1e9, 1e8, uint8(3))
	f.Add(uint64(3), uint8(9), uint8(2), uint8(1), 1e-200, 1e-300, uint8(6))
	f.Add(uint64(4), uint8(0), uint8(4), uint8(2), 1e300, 1e300, uint8(25))
	f.Add(uint64(5), uint8(20), uint8(0), uint8(5), 30.0, 1e10, uint8(15))
	f.Fuzz(func(t *testing.T, seed uint64, n, d, c uint8, scale, variance float64, options uint8) {
		if !(variance > 0) || math.IsInf(variance, 0) {
			variance = 1
		}
		if math.IsNaN(scale) || math.IsInf(scale, 0) {
			scale = 1
		}
		classes := names(1 + int(c)%5)
		m := model(kernels.Options{
			Hessian:     []string{"full", "diagonal", "block", "lowrank"}[options%4],
			AutoPrior:   options&4 != 0,
			Standardize: options&8 != 0,
			MaxIter:     20,
		})
		if options&16 != 0 {
			m.Options.Reference = classes[len(classes)/2]
		}
		m.NoIntercept = !(seed%2 == 0)
		m.Prior.Variance = variance
		o := simulate(rand.New(rand.NewPCG(seed, 7)), int(n)%20, int(d)%10, len(classes), 0.6)
		for i := range o.x {
			for j := range o.x[i] {
				o.x[i][j] *= scale
				if math.IsInf(o.x[i][j], 0) {
					o.x[i][j] = math.MaxFloat64
				}
			}
		}
		fit, err := Fit(context.Background(), problem(t, m, o), classes)
		if err != nil {
			return
		}
		if err := fit.Covariance.Check(len(fit.Beliefs)); err != nil {
			t.Fatal(err)
		}
		s, err := NewScorer(fit)
		if err != nil {
			t.Fatal(err)
		}
		row, err := s.Row([]string{"x000", "new"}, []float64{scale, 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float64, len(classes))
		for kind := range 3 {
			if s.Predict(dst, row, 0, kindOf(kind)) != nil {
				continue
			}
			sum := 0.0
			for _, p := range dst {
				sum += p
			}
			if !(math.Abs(sum-1) < 1e-6) {
				t.Fatalf("probabilities %v", dst)
			}
		}
	})
}

// Mode, covariance and evidence: over all weights, in the rows, and by conjugate
// gradients with a low-rank Hessian.
func BenchmarkFit(b *testing.B) {
	for _, s := range []struct {
		n, p, c int
		share   float64
	}{{20_000, 50, 5, 1}, {300, 2000, 4, 0.1}, {5000, 3000, 4, 0.01}} {
		b.Run(fmt.Sprintf("n=%d/p=%d/classes=%d", s.n, s.p, s.c), func(b *testing.B) {
			d := simulate(rand.New(rand.NewPCG(1, 1)), s.n, s.p, s.c, s.share)
			p := problem(b, model(kernels.Options{}), d)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Fit(context.Background(), p, names(s.c)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A Hessian put together by pairs of weights is the one put together by pairs of classes:
// weighted rows, sparse features and a pinned class included.
func TestHessianByWeights(t *testing.T) {
	const n, a = 300, 40
	fit := func(pinned string) *kernels.Fit {
		rnd := rand.New(rand.NewPCG(5, 5))
		m := &kernels.Model{Options: kernels.Options{Reference: pinned, Hessian: "full"}}
		r, err := kernels.NewLabelledRows(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"u", "v", "g=1", "g=2", "g=3"} {
			if _, err := r.Dict.Add(name); err != nil {
				t.Fatal(err)
			}
		}
		var b kernels.Batch
		b.Reset()
		for i := range n {
			b.Add(0, 1)
			b.Add(1, rnd.NormFloat64())
			if i%3 > 0 {
				b.Add(2, rnd.NormFloat64())
			}
			b.Add(uint32(3+i%3), 1)
			b.EndRow()
			b.Y = append(b.Y, float64(i*7%a))
			b.Weight = append(b.Weight, float64(i%4))
		}
		if err := r.Update(&b, false); err != nil {
			t.Fatal(err)
		}
		p, err := r.Problem()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for k := range a {
			names = append(names, fmt.Sprintf("c%02d", k))
		}
		f, err := Fit(context.Background(), p, names)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	defer func(was int) { manyClasses = was }(manyClasses)
	for _, pinned := range []string{"", "c07"} {
		manyClasses = 32
		got := fit(pinned)
		manyClasses = 1 << 30
		want := fit(pinned)
		kerneltest.Close(t, "log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-11})
		for k, w := range want.Beliefs {
			// Newton ends within 1e-8 of a mode, by either route.
			kerneltest.Close(t, "mean", got.Beliefs[k].Mean, w.Mean, kerneltest.Tol{Abs: 1e-8})
			kerneltest.Close(t, "variance", got.Beliefs[k].Variance, w.Variance, kerneltest.Tol{Rel: 1e-8})
		}
	}
}
