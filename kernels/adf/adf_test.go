package adf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stream"
)

func like(t testing.TB, family, link string, disp float64) lik.Likelihood {
	t.Helper()
	l, err := lik.New(family, link, lik.Params{Dispersion: disp})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func state(t testing.TB, cfg *kernels.Model) *stream.State {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// row is a test row in terms of names, as producers see it.
type row struct {
	x       map[string]float64
	y, w, t float64
}

func feed(t testing.TB, s *stream.State, rows []row) {
	t.Helper()
	var b kernels.Batch
	b.Reset()
	for _, r := range rows {
		if !s.Model().NoIntercept {
			b.Add(0, 1)
		}
		for _, name := range sorted(r.x) {
			add(t, s.Features(), &b, name, r.x[name])
		}
		b.EndRow()
		b.Y = append(b.Y, r.y)
		b.Weight = append(b.Weight, r.w)
		b.Time = append(b.Time, r.t)
	}
	if err := s.Update(context.Background(), &b, false); err != nil {
		t.Fatal(err)
	}
}

func fit(t testing.TB, s *stream.State) *kernels.Fit {
	t.Helper()
	f, err := s.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// add gives the row of b a feature by name.
func add(t testing.TB, d *kernels.Dict, b *kernels.Batch, name string, x float64) {
	t.Helper()
	id, err := d.Add(name)
	if err != nil {
		t.Fatal(err)
	}
	b.Add(id, x)
}

func sorted(m map[string]float64) []string {
	var d kernels.Dict
	for k := range m {
		d.Add(k)
	}
	var out []string
	for _, id := range d.Order() {
		out = append(out, string(d.Name(id)))
	}
	return out
}

func near(t testing.TB, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*(1+math.Abs(want))) {
		t.Errorf("%s = %.17g, want %.17g (difference %g, allowed %g)", what, got, want, got-want, tol)
	}
}

// Z5: ten trials, one success; the filter's next-success probability depends on
// when the success came. The table has six digits.
func TestZoeterFigure5(t *testing.T) {
	want := []float64{.160352, .162494, .161358, .160177, .159431, .159157, .159308, .159833, .160687, .161835}
	l := like(t, "", "probit", 1)
	for pos := range want {
		s := state(t, &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.Prior{Variance: 1}})
		var rows []row
		for i := range want {
			r := row{x: map[string]float64{"1": 1}, w: 1}
			if i == pos {
				r.y = 1
			}
			rows = append(rows, r)
		}
		feed(t, s, rows)
		b := fit(t, s).Beliefs[0]
		p, _ := l.Predict(b.Mean, b.Variance)
		if math.Abs(p-want[pos]) > 6e-7 { // half a unit of the sixth digit, and one ulp of print
			t.Errorf("success at %d: %.7f, want %.6f", pos+1, p, want[pos])
		}
	}
}

// randomRows draws rows over a few names; single gives one feature a row.
func randomRows(r *rand.Rand, n int, single bool, y func(eta float64) float64) []row {
	rows := make([]row, n)
	tm := 0.0
	for i := range rows {
		x := map[string]float64{}
		k := 1
		if !single {
			k = 1 + r.IntN(4)
		}
		for range k {
			x[fmt.Sprintf("f%d", r.IntN(6))] = r.NormFloat64()
		}
		tm += r.ExpFloat64()
		rows[i] = row{x: x, y: y(r.NormFloat64()), w: 1, t: tm}
	}
	return rows
}

func coin(eta float64) float64 {
	if eta > 0 {
		return 1
	}
	return 0
}

// Z9: with equal values the larger prior variance moves more, with equal
// variances the larger input; Σ x_j a_j = 1 for the shares a_j of the mean.
func TestShares(t *testing.T) {
	l := like(t, "", "logit", 1)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(rt, "n")
		x := map[string]float64{}
		var start []kernels.Belief
		v := 0.0
		for i := range n {
			name := fmt.Sprint("w", i)
			x[name] = rapid.Float64Range(0.1, 3).Draw(rt, "x")
			b := kernels.Belief{Feature: name, Weight: kernels.Weight{Mean: rapid.Float64Range(-2, 2).Draw(rt, "m"), Variance: rapid.Float64Range(0.01, 4).Draw(rt, "v")}}
			start = append(start, b)
			v += x[name] * x[name] * b.Variance
		}
		s := state(t, &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.DefaultPrior, Start: &kernels.Fit{Beliefs: start, Time: math.NaN()}})
		m0 := 0.0
		for _, b := range start {
			m0 += x[b.Feature] * b.Mean
		}
		feed(t, s, []row{{x: x, y: 1, w: 1}})
		tilt := l.Moments(lik.Obs{Y: 1, Weight: 1}, m0, v)
		dm := v * tilt.Alpha
		// The difference of two means of size up to 2 keeps their roundings.
		tol := 1e-12 + 4*2.2e-16*2/math.Abs(dm)
		sum := 0.0
		after := fit(t, s).Beliefs
		for i, b := range after {
			moved := b.Mean - start[i].Mean
			a := moved / dm
			sum += x[b.Feature] * a
			if want := x[b.Feature] * start[i].Variance / v; math.Abs(a-want) > tol {
				rt.Fatalf("share %g, want %g", a, want)
			}
			if !(b.Variance <= start[i].Variance) || !(b.Variance > 0) {
				rt.Fatalf("variance %g from %g", b.Variance, start[i].Variance)
			}
		}
		if math.Abs(sum-1) > 18*tol { // six terms, x up to 3
			rt.Fatalf("Σ x a = %g", sum)
		}
	})
}

// Z12, first half: one non-zero a row makes the factorised filter the exact
// full-covariance one; for Gaussian noise with drift that is one scalar Kalman
// filter per weight, evidence included.
func TestKalman(t *testing.T) {
	const q, r2, v0 = 0.03, 0.7, 2.0
	l := like(t, "gaussian", "identity", r2)
	for _, timed := range []bool{false, true} {
		rnd := rand.New(rand.NewPCG(1, 2))
		rows := randomRows(rnd, 300, true, func(e float64) float64 { return 3 * e })
		s := state(t, &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.Prior{Mean: 0.2, Variance: v0}, Noise: q, HasTime: timed})
		feed(t, s, rows)
		type kf struct{ m, p, t float64 }
		ks := map[string]*kf{}
		logZ, last := 0.0, 0.0
		for i, r := range rows {
			tm := float64(i)
			if timed {
				tm = r.t
			}
			last = tm
			for name, x := range r.x {
				k := ks[name]
				if k == nil {
					k = &kf{0.2, v0, tm}
					ks[name] = k
				}
				k.p += q * (tm - k.t)
				k.t = tm
				e, sv := r.y-x*k.m, x*x*k.p+r2
				logZ += -0.5 * (math.Log(2*math.Pi*sv) + e*e/sv)
				g := k.p * x / sv
				k.m += g * e
				k.p = (1-g*x)*(1-g*x)*k.p + g*g*r2 // Joseph form
			}
		}
		f := fit(t, s)
		for _, b := range f.Beliefs {
			k := ks[b.Feature]
			near(t, "mean of "+b.Feature, b.Mean, k.m, 1e-12)
			near(t, "variance of "+b.Feature, b.Variance, k.p+q*(last-k.t), 1e-12)
		}
		near(t, "log evidence", f.LogEvidence, logZ, 1e-12)
	}
}

// A run continued from its fit equals the uninterrupted one: bit for bit
// without drift, to rounding with it.
func TestWarmStart(t *testing.T) {
	for _, family := range []string{"probit", "logit", "log", "identity"} {
		for _, noise := range []float64{0, 0.01, -1} { // -1: forgetting
			for _, timed := range []bool{false, true} {
				rnd := rand.New(rand.NewPCG(7, 8))
				rows := randomRows(rnd, 200, false, coin)
				cfg := kernels.Model{Lik: like(t, "", family, 1), Prior: kernels.DefaultPrior, Noise: max(noise, 0), HasTime: timed,
					Priors: []kernels.Belief{{Feature: "f1", Weight: kernels.Weight{Mean: 0.4, Variance: 0.3}}, {Feature: "new", Weight: kernels.Weight{Mean: 1, Variance: 2}}}}
				if noise < 0 {
					cfg.Forgetting = 0.98
				}
				whole := state(t, &cfg)
				feed(t, whole, rows)
				first := state(t, &cfg)
				feed(t, first, rows[:90])
				f := fit(t, first)
				next := cfg
				next.Start = f
				second := state(t, &next)
				feed(t, second, rows[90:])
				a, b := fit(t, whole), fit(t, second)
				if len(a.Beliefs) != len(b.Beliefs) || a.N != b.N {
					t.Fatalf("%d beliefs of %d rows, want %d of %d", len(b.Beliefs), b.N, len(a.Beliefs), a.N)
				}
				for i := range a.Beliefs {
					if noise == 0 {
						if a.Beliefs[i] != b.Beliefs[i] {
							t.Errorf("%s timed=%v: %v, want %v bit for bit", family, timed, b.Beliefs[i], a.Beliefs[i])
						}
						continue
					}
					near(t, "mean", b.Beliefs[i].Mean, a.Beliefs[i].Mean, 1e-12)
					near(t, "variance", b.Beliefs[i].Variance, a.Beliefs[i].Variance, 1e-12)
				}
				near(t, "log evidence", b.LogEvidence, a.LogEvidence, 1e-12)
			}
		}
	}
}

// Merging partial states counts the prior once: with a Gaussian likelihood and
// one feature a row the product is the single pass, evidence included.
func TestMergeExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		rnd := rand.New(rand.NewPCG(seed, 1))
		rows := randomRows(rnd, 60, true, func(e float64) float64 { return 2 * e })
		cfg := &kernels.Model{NoIntercept: true, Lik: like(t, "gaussian", "", 0.5), Prior: kernels.Prior{Mean: -0.3, Variance: 1.7}}
		whole := state(t, cfg)
		feed(t, whole, rows)
		parts := make([]*stream.State, 3)
		for i := range parts {
			parts[i] = state(t, cfg)
		}
		for _, r := range rows {
			feed(t, parts[rnd.IntN(3)], []row{r})
		}
		before := fit(t, parts[1])
		for _, p := range parts[1:] {
			if err := parts[0].Merge(context.Background(), p); err != nil {
				t.Fatal(err)
			}
		}
		a, b := fit(t, whole), fit(t, parts[0])
		if len(a.Beliefs) != len(b.Beliefs) || a.N != b.N {
			rt.Fatalf("%d beliefs of %d rows, want %d of %d", len(b.Beliefs), b.N, len(a.Beliefs), a.N)
		}
		// 60 roundings of a few ulps
		for i := range a.Beliefs {
			near(t, "mean", b.Beliefs[i].Mean, a.Beliefs[i].Mean, 1e-12)
			near(t, "variance", b.Beliefs[i].Variance, a.Beliefs[i].Variance, 1e-12)
		}
		near(t, "log evidence", b.LogEvidence, a.LogEvidence, 1e-12)
		for i, x := range fit(t, parts[1]).Beliefs {
			if x != before.Beliefs[i] {
				rt.Fatal("merge changed its source")
			}
		}
	})
}

// A merge of so many weights that goroutines share them is, bit for bit, that of one after the
// other, its evidence too; and what is read of it is what it holds.
func TestMergeOfMany(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	part := func(from, to int) *stream.State {
		s := state(t, &kernels.Model{Lik: like(t, "", "logit", 1), Prior: kernels.DefaultPrior})
		var b kernels.Batch
		b.Reset()
		for i := from; i < to; {
			b.Add(0, 1)
			for range 50 {
				add(t, s.Features(), &b, fmt.Sprint("f", i), 1+rnd.Float64())
				i++
			}
			b.EndRow()
			b.Y = append(b.Y, float64(rnd.IntN(2)))
		}
		if err := s.Update(context.Background(), &b, false); err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := part(0, 90_000), part(30_000, 200_000)
	if b.Len() < 8*mergeBlock {
		t.Fatal("few weights")
	}
	want, logZ := map[string]kernels.Weight{}, a.Summary().LogEvidence
	visit := func(s *stream.State, f func(name string, w kernels.Weight)) {
		if err := s.Each(t.Context(), func(name []byte, w kernels.Weight) { f(string(name), w) }); err != nil {
			t.Fatal(err)
		}
	}
	visit(a, func(name string, w kernels.Weight) { want[name] = w })
	other := map[string]kernels.Weight{}
	visit(b, func(name string, w kernels.Weight) { other[name] = w })
	for id := range b.Len() {
		name := string(b.Features().Name(uint32(id)))
		q := other[name]
		w, ok := want[name]
		if !ok {
			want[name] = q
			continue
		}
		m, c, ok := kernels.Merge(w, q, kernels.DefaultPrior.Of([]byte(name)))
		if !ok {
			t.Fatal("improper")
		}
		want[name], logZ = m, logZ+c
	}
	logZ += b.Summary().LogEvidence
	if err := a.Merge(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if got := a.Summary().LogEvidence; got != logZ {
		t.Errorf("log evidence %v, want %v", got, logZ)
	}
	n := 0
	visit(a, func(name string, w kernels.Weight) {
		if n++; w != want[name] {
			t.Fatalf("%s is %v, want %v", name, w, want[name])
		}
	})
	if f := fit(t, a); n != len(want) || len(f.Beliefs) != n {
		t.Errorf("%d and %d beliefs, want %d", n, len(f.Beliefs), len(want))
	}
	seen := 0
	a.Read(t.Context(), func(each func(visit func([]byte, kernels.Weight) bool)) {
		each(func([]byte, kernels.Weight) bool { seen++; return seen < 50_000 })
	})
	if seen != 50_000 {
		t.Errorf("%d beliefs were read after the last one wanted", seen)
	}
}

// Merging is associative and commutative to rounding, drift or not, and never
// gives an improper belief.
func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		cfg := &kernels.Model{Lik: like(t, "", "logit", 1), Prior: kernels.DefaultPrior, HasTime: true}
		if rapid.Bool().Draw(rt, "drift") {
			cfg.Noise = 0.02
		} else if rapid.Bool().Draw(rt, "forget") {
			cfg.Forgetting = 0.97
		}
		rows := randomRows(rnd, 90, false, coin)
		part := func(k int) *stream.State {
			s := state(t, cfg)
			feed(t, s, rows[k*30:k*30+30])
			return s
		}
		merge := func(a, b *stream.State) *stream.State {
			c := a.Clone()
			if err := c.Merge(context.Background(), b); err != nil {
				rt.Fatal(err)
			}
			return c
		}
		a, b, c := part(0), part(1), part(2)
		left, right := fit(t, merge(merge(a, b), c)), fit(t, merge(a, merge(b, c)))
		swapped := fit(t, merge(b, a))
		ab := fit(t, merge(a, b))
		for i := range left.Beliefs {
			x := left.Beliefs[i]
			if kernels.CheckWeight(x.Weight) != nil || x.Variance == 0 {
				rt.Fatalf("belief %v", x)
			}
			if cfg.Noise == 0 { // random-walk drift counts the prior with the larger of two drifts, which does not associate
				near(t, "mean", x.Mean, right.Beliefs[i].Mean, 1e-10)
				near(t, "variance", x.Variance, right.Beliefs[i].Variance, 1e-10)
			}
		}
		for i := range ab.Beliefs {
			near(t, "swapped mean", swapped.Beliefs[i].Mean, ab.Beliefs[i].Mean, 1e-10)
			near(t, "swapped variance", swapped.Beliefs[i].Variance, ab.Beliefs[i].Variance, 1e-10)
		}
	})
}

// Forgetting composes: two steps of dt equal one of 2 dt, and without data a
// belief goes back to its prior.
func TestForgetting(t *testing.T) {
	l := like(t, "", "probit", 1)
	cfg := &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.Prior{Mean: 0.5, Variance: 2}, Forgetting: 0.9, HasTime: true}
	one := map[string]float64{"a": 1}
	other := map[string]float64{"b": 1}
	s := state(t, cfg)
	feed(t, s, []row{{one, 1, 1, 0}, {one, 0, 1, 1}, {other, 1, 1, 3}, {one, 1, 1, 5}})
	u := state(t, cfg)
	feed(t, u, []row{{one, 1, 1, 0}, {one, 0, 1, 1}, {one, 1, 0, 3}, {one, 1, 1, 5}}) // touched in between with weight 0
	near(t, "mean", fit(t, s).Beliefs[0].Mean, fit(t, u).Beliefs[0].Mean, 1e-14)
	near(t, "variance", fit(t, s).Beliefs[0].Variance, fit(t, u).Beliefs[0].Variance, 1e-14)
	feed(t, s, []row{{other, 1, 1, 1000}})
	near(t, "mean back at the prior", fit(t, s).Beliefs[0].Mean, 0.5, 1e-12)
	near(t, "variance back at the prior", fit(t, s).Beliefs[0].Variance, 2, 1e-12)
}

// Known weights never move; an all-zero row changes nothing but counts; weight
// 2 is the row twice for a Gaussian.
func TestEdges(t *testing.T) {
	g := like(t, "gaussian", "", 1)
	cfg := &kernels.Model{NoIntercept: true, Lik: g, Prior: kernels.DefaultPrior, Noise: 0.1, HasTime: true,
		Start: &kernels.Fit{Time: math.NaN(), Beliefs: []kernels.Belief{{Feature: "k", Weight: kernels.Weight{Mean: 2}}}}}
	s := state(t, cfg)
	feed(t, s, []row{{map[string]float64{"k": 1}, 5, 1, 0}, {map[string]float64{"k": 1, "a": 1}, 5, 1, 4}, {map[string]float64{"a": 0}, 1, 1, 4}})
	f := fit(t, s)
	if w := f.Beliefs[1]; w.Feature != "k" || w.Mean != 2 || w.Variance != 0 {
		t.Errorf("known weight became %v", w)
	}
	near(t, "a", f.Beliefs[0].Mean, 1.5, 1e-15) // (5-2)/2
	if f.N != 3 {
		t.Errorf("n = %d", f.N)
	}
	plain := &kernels.Model{NoIntercept: true, Lik: g, Prior: kernels.DefaultPrior}
	once, twice := state(t, plain), state(t, plain)
	one := map[string]float64{"a": 0.7}
	feed(t, once, []row{{one, 1.3, 2, 0}})
	feed(t, twice, []row{{one, 1.3, 1, 0}, {one, 1.3, 1, 0}})
	near(t, "mean", fit(t, once).Beliefs[0].Mean, fit(t, twice).Beliefs[0].Mean, 1e-15)
	near(t, "variance", fit(t, once).Beliefs[0].Variance, fit(t, twice).Beliefs[0].Variance, 1e-15)
	near(t, "evidence", fit(t, once).LogEvidence, fit(t, twice).LogEvidence, 1e-14)
}

// Any batch leaves proper beliefs or an error, never a NaN.
func FuzzUpdate(f *testing.F) {
	f.Add(1.0, 1.0, 1.0, 1.0, 0.5, uint8(0))
	f.Add(1e300, -1e300, 3.0, 1e200, 1e-12, uint8(1))
	f.Add(0.0, 1e-300, 1e6, 0.0, 1e6, uint8(3))
	links := []string{"logit", "probit", "log", "identity"}
	f.Fuzz(func(t *testing.T, x1, x2, y, w, v float64, link uint8) {
		if !(v >= 0 && v <= 1e12) {
			return
		}
		s := state(t, &kernels.Model{Lik: like(t, "", links[int(link)%4], 1), Prior: kernels.Prior{Variance: v, InterceptVariance: 1}})
		var b kernels.Batch
		b.Reset()
		for _, x := range []float64{x1, x2} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return
			}
			b.Add(0, 1)
			id, _ := s.Features().Add("a")
			b.Add(id, x)
			b.EndRow()
			b.Y, b.Weight = append(b.Y, y), append(b.Weight, w)
		}
		if err := s.Update(context.Background(), &b, false); err != nil {
			if !errors.Is(err, kernels.ErrRow) {
				t.Fatal(err)
			}
		}
		for _, q := range fit(t, s).Beliefs {
			if err := kernels.CheckWeight(q.Weight); err != nil {
				t.Fatalf("x=%g,%g y=%g w=%g v=%g: %v", x1, x2, y, w, v, err)
			}
		}
	})
}

// Z10: updates a second. Rows of nnz non-zeros over p features, drawn with a
// skew; one op is a block of 1024 rows.
func BenchmarkUpdate(b *testing.B) {
	for _, link := range []string{"probit", "logit", "identity", "log"} {
		for _, shape := range []struct{ nnz, p int }{{8, 5000}, {10, 1 << 20}, {50, 1 << 20}, {200, 1 << 20}} {
			if link != "probit" && shape.p != 5000 {
				continue
			}
			b.Run(fmt.Sprintf("lik=%s/nnz=%d/p=%d", link, shape.nnz, shape.p), func(b *testing.B) {
				benchUpdate(b, &kernels.Model{NoIntercept: true, Lik: like(b, "", link, 1), Prior: kernels.DefaultPrior}, shape.nnz, shape.p)
			})
		}
	}
	b.Run("lik=probit/nnz=8/p=5000/drift", func(b *testing.B) {
		benchUpdate(b, &kernels.Model{NoIntercept: true, Lik: like(b, "", "probit", 1), Prior: kernels.DefaultPrior, Noise: 1e-6}, 8, 5000)
	})
}

func benchUpdate(b *testing.B, cfg *kernels.Model, nnz, p int) {
	const rows = 1024
	s := state(b, cfg)
	for i := range p {
		s.Features().AddInt(i + 1)
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	blocks := make([]kernels.Batch, 16)
	for k := range blocks {
		bt := &blocks[k]
		bt.Reset()
		for range rows {
			for j := range nnz { // distinct within a row: one per stripe
				bt.Add(uint32(j*(p/nnz)+int(float64(p/nnz)*rnd.Float64()*rnd.Float64())), 1)
			}
			bt.EndRow()
			y := 0.0
			if rnd.Float64() < 0.3 {
				y = 1
			}
			switch cfg.Lik.Family() {
			case "gamma":
				y += 0.5
			case "binomial":
				bt.Trials = append(bt.Trials, 3)
			}
			bt.Y = append(bt.Y, y)
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := s.Update(context.Background(), &blocks[i%len(blocks)], false); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

// The filter against the textbook: every weight drifts before every row, the
// tilted mean and variance of the predictor are shared back by a_j and a_j²
// (Zoeter 2007, eq. 17), whereas the engine drifts lazily and never forms a_j
// of the mean. All families, with drift and without.
func TestAgainstTextbook(t *testing.T) {
	for _, link := range []string{"probit", "logit", "cloglog", "identity", "log"} {
		for _, q := range []float64{0, 0.02} {
			l := like(t, "", link, 0.8)
			rnd := rand.New(rand.NewPCG(11, 12))
			rows := randomRows(rnd, 250, false, coin)
			for i := range rows {
				rows[i].w = 1 + float64(i%3) // weights too
			}
			s := state(t, &kernels.Model{Lik: l, Prior: kernels.DefaultPrior, Noise: q})
			feed(t, s, rows)
			w := map[string]kernels.Weight{}
			logZ := 0.0
			for i, r := range rows {
				if i > 0 {
					for name, b := range w {
						b.Variance += q
						w[name] = b
					}
				}
				x := map[string]float64{kernels.Intercept: 1}
				for name, v := range r.x {
					x[name] = v
				}
				m, v := 0.0, 0.0
				for _, name := range sorted(x) {
					if _, ok := w[name]; !ok {
						w[name] = kernels.DefaultPrior.Of([]byte(name))
					}
					m += x[name] * w[name].Mean
					v += x[name] * x[name] * w[name].Variance
				}
				tilt := l.Moments(lik.Obs{Y: r.y, Weight: r.w}, m, v)
				logZ += tilt.LogZ
				dMean, dVar := v*tilt.Alpha, -v*v*tilt.Beta
				for name, xj := range x {
					b := w[name]
					a := xj * b.Variance / v
					w[name] = kernels.Weight{Mean: b.Mean + a*dMean, Variance: b.Variance + a*a*dVar}
				}
			}
			f := fit(t, s)
			if len(f.Beliefs) != len(w) {
				t.Fatalf("%d beliefs, want %d", len(f.Beliefs), len(w))
			}
			for _, b := range f.Beliefs { // 250 rows of a few roundings each
				near(t, link+" mean of "+b.Feature, b.Mean, w[b.Feature].Mean, 1e-11)
				near(t, link+" variance of "+b.Feature, b.Variance, w[b.Feature].Variance, 1e-11)
			}
			near(t, link+" log evidence", f.LogEvidence, logZ, 1e-11)
		}
	}
}
