package predict

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// fitOf has beliefs a, b, c, d (d known) with random means and the covariance form,
// and its dense covariance.
func fitOf(rng *rand.Rand, form gauss.Form) (*kernels.Fit, *dense.Matrix) {
	f := &kernels.Fit{Family: "bernoulli", Link: "logit", Shape: math.NaN(), Dispersion: 1, Prior: kernels.Prior{Mean: 0.1, Variance: 2, InterceptVariance: 7}}
	const p = 4
	cov := dense.New(p, p)
	c := &f.Covariance
	c.Form = form
	for i := range p {
		known := i == p-1
		switch form {
		case gauss.Diagonal:
			if !known {
				cov.Row(i)[i] = 0.2 + rng.Float64()
			}
		case gauss.Full:
			for j := range i + 1 {
				v := 0.4 * rng.NormFloat64()
				if i == j {
					v = 0.5 + rng.Float64()
				}
				if known {
					v = 0
				}
				c.Values = append(c.Values, v)
			}
		case gauss.LowRank:
			c.Rank = 2
			if known {
				c.Values = append(c.Values, 0, 0, 0)
				continue
			}
			c.Values = append(c.Values, 1+rng.Float64(), 0.5*rng.NormFloat64(), 0.5)
		}
	}
	for i := range p {
		for j := range i + 1 {
			a, b := c.Row, 0.0
			switch form {
			case gauss.Full:
				b = dense.Dot(a(i)[:j+1], a(j)[:j+1])
			case gauss.LowRank:
				b = -dense.Dot(a(i)[1:], a(j)[1:])
				if i == j {
					b += a(i)[0]
				}
			default:
				continue
			}
			cov.Row(i)[j], cov.Row(j)[i] = b, b
		}
	}
	for i := range p {
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: string(rune('a' + i)), Weight: kernels.Weight{Mean: rng.NormFloat64(), Variance: cov.At(i, i)}})
	}
	return f, cov
}

func scorer(t testing.TB, f *kernels.Fit) *Scorer {
	t.Helper()
	s, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func row(t testing.TB, s *Scorer, names []string, x []float64) *kernels.Batch {
	t.Helper()
	b, err := s.Row(names, x, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var forms = []gauss.Form{gauss.Diagonal, gauss.Full, gauss.LowRank}

// Mean and variance against xᵀμ and xᵀΣx in dense algebra, an unseen feature and a
// repeated one included. Sums of ten terms of order 1: 1e-13.
func TestLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, form := range forms {
		f, cov := fitOf(rng, form)
		s := scorer(t, f)
		x := []float64{0.5, -1, 2, 3}
		wantM, wantV := 0.7*f.Prior.Mean, 0.7*0.7*f.Prior.Variance
		for i := range x {
			wantM += x[i] * f.Beliefs[i].Mean
			for j := range x {
				wantV += x[i] * x[j] * cov.At(i, j)
			}
		}
		m, v, err := s.Linear(row(t, s, []string{"d", "b", "new", "a", "c", "b"}, []float64{3, 1, 0.7, 0.5, 2, -2}), 0)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, form.String()+" mean", m, wantM, kerneltest.Tol{Abs: 1e-13})
		kerneltest.Close(t, form.String()+" variance", v, wantV, kerneltest.Tol{Abs: 1e-13})
	}
}

// The intercept has its prior when the fit has one without a belief, and hashed
// fits find their slots.
func TestNames(t *testing.T) {
	f, _ := fitOf(rand.New(rand.NewPCG(1, 1)), gauss.Diagonal)
	f.Intercept = true
	s := scorer(t, f)
	if _, v, _ := s.Linear(row(t, s, nil, nil), 0); v != 7 {
		t.Errorf("variance of the intercept alone %v, want its prior's 7", v)
	}
	if _, err := s.Row([]string{"a", kernels.Intercept}, []float64{2, 1}, 0); !errors.Is(err, kernels.ErrIntercept) {
		t.Errorf("the intercept twice: %v", err)
	}
	f.HashBits = 3
	var d kernels.Dict
	d.HashBits = 3
	id, _ := d.Add("x")
	f.Beliefs[0].Feature = string(d.Name(id))
	s = scorer(t, f)
	if m, _, _ := s.Linear(row(t, s, []string{"x"}, []float64{1}), 0); m != f.Beliefs[0].Mean+f.Prior.Mean {
		t.Errorf("mean of a hashed feature %v", m)
	}
	f.Columns = []kernels.FitColumn{{Name: "n", Kind: kernels.NumberColumn, N: 1}}
	s = scorer(t, f)
	if m, _, _ := s.Linear(row(t, s, []string{"x", "x"}, []float64{1, math.NaN()}), 0); m != f.Beliefs[0].Mean+f.Prior.Mean {
		t.Errorf("mean of a hashed feature beside a number that is missing %v", m)
	}
	f.Beliefs[1].Feature = f.Beliefs[0].Feature
	if _, err := New(f); err == nil || !strings.Contains(err.Error(), "two beliefs") {
		t.Errorf("two beliefs of a feature: %v", err)
	}
	f.Classes = []string{"u", "v"}
	if _, err := New(f); err == nil {
		t.Error("a softmax fit was taken")
	}
}

// Draws of a row's predictor have its mean and variance, and two rows the covariance
// of their predictors: 40,000 draws, 5 standard errors.
func TestDrawMoments(t *testing.T) {
	const n = 40000
	rng := rand.New(rand.NewPCG(2, 1))
	for _, form := range forms {
		f, cov := fitOf(rng, form)
		s := scorer(t, f)
		d, err := s.NewDraw()
		if err != nil {
			t.Fatal(err)
		}
		var b kernels.Batch
		b.Reset()
		xs := [][]float64{{1, 0, 0, 2}, {0.5, -1, 2, 0}, {0, 0, 1, 0}}
		for _, x := range xs {
			for j, v := range x {
				id, _ := s.Features().Find(f.Beliefs[j].Feature)
				b.Add(id, v)
			}
			b.EndRow()
		}
		sum := make([]float64, 3)
		ss := dense.New(3, 3)
		for k := range n {
			d.Set(99, uint64(k))
			var e [3]float64
			for i := range e {
				e[i], err = d.Linear(&b, i)
				if err != nil {
					t.Fatal(err)
				}
				m, _, _ := s.Linear(&b, i)
				e[i] -= m
				sum[i] += e[i]
			}
			for i := range e {
				for j := range e {
					ss.Row(i)[j] += e[i] * e[j]
				}
			}
		}
		want := func(a, b []float64) (v float64) {
			for i := range a {
				for j := range b {
					v += a[i] * b[j] * cov.At(i, j)
				}
			}
			return v
		}
		for i := range xs {
			vi := want(xs[i], xs[i])
			if z := sum[i] / n / math.Sqrt(vi/n); math.Abs(z) > 5 {
				t.Errorf("%v: mean of row %d off by %.1f standard errors", form, i, z)
			}
			for j := range xs {
				vj, c := want(xs[j], xs[j]), want(xs[i], xs[j])
				if z := (ss.At(i, j)/n - c) / math.Sqrt((vi*vj+c*c)/n); math.Abs(z) > 5 {
					t.Errorf("%v: covariance of rows %d and %d = %v, want %v (%.1f standard errors)", form, i, j, ss.At(i, j)/n, c, z)
				}
			}
		}
	}
}

// A draw is the same for any order, subset and grouping of the features, on any
// Scorer, and linear in the row; unseen features draw from their prior, and the same
// again next time.
func TestDrawIsKeyed(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, form := range forms {
		f, _ := fitOf(rng, form)
		rapid.Check(t, func(t *rapid.T) {
			seed, no := rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "draw")
			names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "new", "other"}), 1, 6, rapid.ID).Draw(t, "names")
			one, _ := New(f)
			two, _ := New(f)
			a, _ := one.NewDraw()
			b, _ := two.NewDraw()
			a.Set(seed, no)
			total := 0.0
			for _, n := range names { // one feature at a time, from the first Scorer
				r, _ := one.Row([]string{n}, []float64{2}, 0)
				w, err := a.Linear(r, 0)
				if err != nil {
					t.Fatal(err)
				}
				total += w
			}
			x := make([]float64, len(names))
			for i := range x {
				x[i] = 2
			}
			b.Set(seed+1, no) // leaves no trace
			r, _ := two.Row(names, x, 0)
			if _, err := b.Linear(r, 0); err != nil {
				t.Fatal(err)
			}
			b.Set(seed, no)
			got, _ := b.Linear(r, 0)
			if math.Abs(got-total) > 1e-13*10 {
				t.Fatalf("%v: %v together, %v one by one", form, got, total)
			}
		})
	}
}

// Normals of names and draws: uniform quantiles (Kolmogorov-Smirnov, 1.95/√n is
// exceeded once in a thousand) along names and along draws and along seeds, and no
// correlation between neighbours.
func TestKeyNormals(t *testing.T) {
	const n = 20000
	series := map[string]func(i int) float64{
		"names": func(i int) float64 { return NewKey(1, 2).Normal(fmt.Appendf(nil, "x%d", i)) },
		"draws": func(i int) float64 { return NewKey(1, uint64(i)).Normal([]byte("x")) },
		"seeds": func(i int) float64 { return NewKey(uint64(i), 0).Normal([]byte("x")) },
		"both":  func(i int) float64 { return NewKey(uint64(i), uint64(i)).Normal([]byte("x")) },
	}
	for name, f := range series {
		z := make([]float64, n)
		const bins = 200
		var count [bins]int
		lag := 0.0
		for i := range z {
			z[i] = f(i)
			count[min(int(special.Phi(z[i])*bins), bins-1)]++
			if i > 0 {
				lag += z[i] * z[i-1]
			}
		}
		cum, worst := 0, 0.0
		for k, c := range count {
			cum += c
			worst = math.Max(worst, math.Abs(float64(cum)/n-float64(k+1)/bins))
		}
		if worst > 1.95/math.Sqrt(n) {
			t.Errorf("%s: Kolmogorov-Smirnov distance %v", name, worst)
		}
		if r := lag / n; math.Abs(r) > 5/math.Sqrt(n) {
			t.Errorf("%s: neighbours correlate by %v", name, r)
		}
		cross := 0.0
		for i := range z {
			cross += z[i] * NewKey(7, 7).Normal(fmt.Appendf(nil, "x%d", i))
		}
		if r := cross / n; math.Abs(r) > 5/math.Sqrt(n) {
			t.Errorf("%s: correlates by %v with another draw", name, r)
		}
	}
}

// The predictive probabilities of counts are a distribution with the mean and
// variance that Predict says. Sums of up to 400 terms, quadrature to 1e-8.
func TestPMF(t *testing.T) {
	for _, c := range []struct {
		family string
		trials float64
		q      lik.Params
	}{{"poisson", 0, lik.Params{}}, {"negbinomial", 0, lik.Params{Shape: 3}}, {"binomial", 9, lik.Params{}}, {"bernoulli", 0, lik.Params{}}} {
		l, err := lik.New(c.family, "", c.q)
		if err != nil {
			t.Fatal(err)
		}
		sum, mean, sq := 0.0, 0.0, 0.0
		for k := range 400 {
			p := PMF(l, float64(k), c.trials, 0.4, 0.09)
			sum += p
			mean += p * float64(k)
			sq += p * float64(k*k)
		}
		wm, wv := l.Predict(0.4, 0.09)
		kerneltest.Close(t, c.family+" sum", sum, 1, kerneltest.Tol{Abs: 1e-7})
		if c.family == "binomial" { // Predict is for one trial
			mean /= 9
		} else {
			kerneltest.Close(t, c.family+" variance", sq-mean*mean, wv, kerneltest.Tol{Rel: 1e-6})
		}
		kerneltest.Close(t, c.family+" mean", mean, wm, kerneltest.Tol{Rel: 1e-7})
		if p := PMF(l, 1.5, c.trials, 0, 1); p != 0 {
			t.Errorf("%s: probability %v of 1.5", c.family, p)
		}
	}
}

func TestKindsAndDist(t *testing.T) {
	f, _ := fitOf(rand.New(rand.NewPCG(1, 1)), gauss.Full)
	s := scorer(t, f)
	b := row(t, s, []string{"a", "b"}, []float64{1, 1})
	m, v, _ := s.Linear(b, 0)
	exact, _ := s.Lik.Predict(m, v)
	for name, want := range map[string]float64{"exact": exact, "mackay": s.Lik.Moderated(m, v), "plugin": s.Lik.Response(m)} {
		k, err := ParseKind(name)
		if err != nil || k.String() != name {
			t.Fatal(k, err)
		}
		if got, _ := s.Predict(b, 0, k); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, err := ParseKind("exakt"); err == nil || !strings.Contains(err.Error(), "exakt") {
		t.Errorf("unknown kind: %v", err)
	}
	d, err := s.Dist(b, 0, 0.9)
	lo, hi := s.Lik.Interval(m, v, 0.9)
	if err != nil || d.EtaMean != m || d.EtaVariance != v || d.Mean != exact || d.Lower != lo || d.Upper != hi {
		t.Errorf("dist %+v, %v", d, err)
	}
	if _, err := s.Dist(b, 0, 1); err == nil {
		t.Error("level 1 was taken")
	}
	b.Y = []float64{1}
	want := math.Log(exact)
	if got, _ := s.LogDensity(b, 0); math.Abs(got-want) > 1e-8 {
		t.Errorf("log density %v, want %v", got, want)
	}
	b.Y[0] = 3
	if _, err := s.LogDensity(b, 0); err == nil {
		t.Error("y = 3 was taken")
	}
}

// Nothing panics and nothing is NaN without an error, whatever the fit and the row.
func FuzzScorer(f *testing.F) {
	f.Add(uint64(1), 1.0, 1.0, 1.0, uint8(1))
	f.Add(uint64(1), 1e300, -1e200, 1e-300, uint8(2))
	f.Add(uint64(161), 1e300, -9e200, 0.0, uint8(0x83)) // belief and covariance disagree
	f.Add(uint64(1), math.Inf(1), 0.0, 2.0, uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, a, b, v float64, kind uint8) {
		fit, _ := fitOf(rand.New(rand.NewPCG(seed, 1)), forms[kind%3])
		fit.Beliefs[0].Mean = b
		if kind%3 == 0 {
			fit.Beliefs[0].Variance = v
		} else {
			fit.Covariance.Values[0] = v
		}
		s, err := New(fit)
		if err != nil {
			return
		}
		r, err := s.Row([]string{"a", "b", "z", "a"}, []float64{a, b, v, 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		r.Y = append(r.Y, float64(seed%2))
		if p, err := s.Predict(r, 0, Kind(kind%3)); err == nil && math.IsNaN(p) {
			t.Error("prediction NaN")
		}
		if p, err := s.LogDensity(r, 0); err == nil && math.IsNaN(p) {
			t.Error("log density NaN")
		}
		if i, err := s.Influence(r, 0); err == nil && (math.IsNaN(i.Residual) || math.IsNaN(i.Leverage)) {
			t.Errorf("influence %+v", i)
		}
		d, err := s.NewDraw()
		if err != nil {
			return
		}
		d.Set(seed, uint64(kind))
		if p, err := d.Response(r, 0); err == nil && math.IsNaN(p) {
			t.Error("draw NaN")
		}
	})
}

func benchFit(p int, form gauss.Form) *kernels.Fit {
	f := &kernels.Fit{Family: "bernoulli", Link: "logit", Shape: math.NaN(), Dispersion: 1, Prior: kernels.DefaultPrior, Intercept: true}
	f.Covariance.Form = form
	for j := range p {
		name := kernels.Intercept
		if j > 0 {
			name = fmt.Sprintf("feature=%d", j)
		}
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: name, Weight: kernels.Weight{Variance: 1}})
		switch form {
		case gauss.Full:
			f.Covariance.Values = append(append(f.Covariance.Values, make([]float64, j)...), 1)
		case gauss.LowRank:
			f.Covariance.Rank = 10
			f.Covariance.Values = append(append(f.Covariance.Values, 1), make([]float64, 10)...)
		}
	}
	return f
}

func BenchmarkScorer(b *testing.B) {
	for _, form := range forms {
		f := benchFit(500, form)
		s := scorer(b, f)
		d, err := s.NewDraw()
		if err != nil {
			b.Fatal(err)
		}
		var names []string
		for j := range 10 {
			names = append(names, fmt.Sprintf("feature=%d", 1+j*45))
		}
		x := row(b, s, names, make([]float64, 10))
		for i := range x.Value {
			x.Value[i] = 1
		}
		x.Y = []float64{1}
		b.Run("predict/"+form.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Predict(x, 0, Exact); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("influence/"+form.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Influence(x, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("draw/same/"+form.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d.Set(1, 1)
				if _, err := d.Response(x, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("draw/new/"+form.String(), func(b *testing.B) {
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				i++
				d.Set(1, i)
				if _, err := d.Response(x, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Expected counts are finite, and grow with the deviation of the predictor only as its
// quantiles do where that is large; below it they are exact.
func TestWidePredictor(t *testing.T) {
	for _, c := range []struct{ family, link string }{{"poisson", ""}, {"negbinomial", ""}, {"gamma", ""}, {"gaussian", "log"}} {
		l, err := lik.New(c.family, c.link, lik.Params{Dispersion: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []float64{0, 1, 15.9, 16, 17, 90, 1e4, 1e300} {
			want := math.Exp(1 + min(v/2, 2*math.Sqrt(v)))
			if math.IsInf(want, 1) {
				want = math.MaxFloat64
			}
			kerneltest.Close(t, c.family+" expected", Expected(l, Exact, 1, v), want, kerneltest.Tol{Rel: 1e-12})
			d, err := DistOf(l, 1, v, 0.9)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []float64{d.Mean, d.Variance, d.Lower, d.Upper, Expected(l, MacKay, 1, v)} {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("%s, v = %v: %+v", c.family, v, d)
				}
			}
			kerneltest.Close(t, c.family+" mean", d.Mean, want, kerneltest.Tol{Rel: 1e-12})
		}
	}
}

// The factors that a fit keeps are those of the Gaussian that responses are told from: the same as
// of a fit with the beliefs scaled, unseen features and offsets included, and drawn from that. The
// posterior stays.
func TestPredictiveScale(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 6))
	for _, form := range []gauss.Form{gauss.Diagonal, gauss.Full} {
		f, _ := fitOf(rng, form)
		plain, own := scorer(t, f), *f
		if f.ForPrediction() != f {
			t.Error("a fit without factors is copied")
		}
		own.Keep(kernels.KeptPredictive, 0.6, 0.2)
		if err := own.Validate(); err != nil {
			t.Fatal(err)
		}
		s, told := scorer(t, &own), scorer(t, own.ForPrediction())
		if !told.Fit.PredictiveScale().Plain() {
			t.Error("the factors would be taken twice")
		}
		close14 := kerneltest.Tol{Abs: 1e-14, Rel: 1e-14} // sums of four terms
		names, x := []string{"a", "b", "c", "unseen"}, []float64{0.5, -1, 2, 0.7}
		at := func(s *Scorer) *kernels.Batch {
			b, err := s.Row(names, x, 0.3)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		wm, wv, err := plain.Linear(at(plain), 0)
		if err != nil {
			t.Fatal(err)
		}
		if m, v, err := s.Linear(at(s), 0); err != nil || m != wm || v != wv {
			t.Errorf("%v: the posterior is N(%v, %v), %v; want N(%v, %v)", form, m, v, err, wm, wv)
		}
		m, v, err := s.Predictive(at(s), 0)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, "mean", m, 0.3+0.6*(wm-0.3), close14)
		kerneltest.Close(t, "variance", v, 0.2*wv, close14)
		tm, tv, err := told.Linear(at(told), 0)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, "mean", tm, m, close14)
		kerneltest.Close(t, "variance", tv, v, close14)
		got, err := s.Dist(at(s), 0, 0.9)
		if err != nil {
			t.Fatal(err)
		}
		want, err := DistOf(s.Lik, m, v, 0.9)
		if err != nil || got != want {
			t.Errorf("%v: %+v, %v; want %+v", form, got, err, want)
		}
		for _, kind := range []Kind{Exact, MacKay, Plugin} {
			if p, err := s.Predict(at(s), 0, kind); err != nil || p != Expected(s.Lik, kind, m, v) {
				t.Errorf("%v, %v: %v, %v", form, kind, p, err)
			}
		}
	}
}
