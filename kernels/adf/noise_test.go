package adf

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stream"
)

// walking makes rows whose weights walk at random with variance q a unit of time.
func walking(rnd *rand.Rand, n int, q float64, family string) []row {
	const p = 5
	var w [p]float64
	for j := range w {
		w[j] = rnd.NormFloat64()
	}
	rows := make([]row, n)
	for i := range rows {
		eta := 0.0
		x := map[string]float64{}
		for j := range w {
			w[j] += math.Sqrt(q) * rnd.NormFloat64()
			v := rnd.NormFloat64()
			x[string(rune('a'+j))] = v
			eta += v * w[j]
		}
		y := eta + rnd.NormFloat64()
		if family == "bernoulli" {
			y = 0
			if rnd.Float64() < 1/(1+math.Exp(-eta)) {
				y = 1
			}
		}
		rows[i] = row{x: x, y: y, w: 1, t: float64(i)}
	}
	return rows
}

// On weights that walk, automatic noise finds the rate to within the grid's decade,
// and predicts better than no noise and than a hundred times too much; on weights
// that stay it finds none, or next to none.
func TestAutoNoise(t *testing.T) {
	for _, c := range []struct {
		family string
		n      int
		q      float64
		timed  bool
	}{{"gaussian", 4000, 1e-3, false}, {"gaussian", 4000, 2e-4, true}, {"bernoulli", 6000, 1e-2, false}, {"gaussian", 4000, 0, false}, {"bernoulli", 4000, 0, true}} {
		m := kernels.Model{Lik: like(t, c.family, "", 1), Prior: kernels.DefaultPrior, HasTime: c.timed}
		rows := walking(rand.New(rand.NewPCG(1, 9)), c.n, c.q, c.family)
		score := func(noise float64, auto bool) (float64, *stream.State) {
			k := m
			k.Noise, k.Options.AutoNoise = noise, auto
			s := state(t, &k)
			feed(t, s, rows)
			return s.Summary().LogEvidence, s
		}
		best, s := score(0, true)
		rates, _ := s.Rates()
		q := rates[s.Best()]
		status := fit(t, s).Status
		if !strings.Contains(status, "process_noise") {
			t.Errorf("status %q", status)
		}
		none, _ := score(0, false)
		if c.q == 0 {
			// a total drift below a hundredth of the prior variance
			if q*float64(c.n) > 0.01 || best < none {
				t.Errorf("%s, static: q = %g, score %.1f, without %.1f", c.family, q, best, none)
			}
			continue
		}
		much, _ := score(100*c.q, false)
		if q < c.q/10 || q > c.q*10 || best <= none || best <= much {
			t.Errorf("%s: q = %g for %g, score %.1f, without %.1f, with 100 times too much %.1f", c.family, q, c.q, best, none, much)
		}
		// The bank's filter is the filter of that rate, bit for bit.
		alone, a := score(q, false)
		if alone != best {
			t.Errorf("score %v, alone %v", best, alone)
		}
		fa, fs := fit(t, a), fit(t, s)
		for i, b := range fa.Beliefs {
			if b != fs.Beliefs[i] {
				t.Errorf("%v, alone %v", fs.Beliefs[i], b)
			}
		}
	}
}

// Clones and merges carry the whole bank; a run continues from its fit.
func TestAutoNoiseStates(t *testing.T) {
	m := kernels.Model{NoIntercept: true, Lik: like(t, "gaussian", "", 1), Prior: kernels.DefaultPrior, HasTime: true, Options: kernels.Options{AutoNoise: true}}
	rows := walking(rand.New(rand.NewPCG(2, 9)), 600, 1e-2, "gaussian")
	whole := state(t, &m)
	feed(t, whole, rows)
	part := state(t, &m)
	feed(t, part, rows[:300])
	c := part.Clone()
	feed(t, c, rows[300:])
	if a, b := c.Summary(), whole.Summary(); a.LogEvidence != b.LogEvidence || a.Status != b.Status {
		t.Errorf("clone: %v, want %v", a, b)
	}
	rest := state(t, &m)
	feed(t, rest, rows[300:])
	merged := part.Clone()
	if err := merged.Merge(context.Background(), rest); err != nil {
		t.Fatal(err)
	}
	rates, together := merged.Rates()
	for k := range rates {
		single := m
		single.Options.AutoNoise, single.Noise = false, m.NoiseGrid()[k]
		a, b := state(t, &single), state(t, &single)
		feed(t, a, rows[:300])
		feed(t, b, rows[300:])
		if err := a.Merge(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		if got, want := together[k], a.Summary().LogEvidence; got != want {
			t.Errorf("rate %g: merged %v, alone %v", single.Noise, got, want)
		}
	}
	next := m
	next.Start = fit(t, part)
	s := state(t, &next)
	feed(t, s, rows[300:])
	if f := fit(t, s); f.N != 600 || kernels.CheckWeight(f.Beliefs[0].Weight) != nil || math.Abs(f.LogEvidence-whole.Summary().LogEvidence) > 5 {
		t.Errorf("continued: %d rows, log evidence %v, want about %v", f.N, f.LogEvidence, whole.Summary().LogEvidence)
	}
	bad := m
	bad.Forgetting = 0.9
	if _, err := New(&bad); err == nil || !strings.Contains(err.Error(), "two models of drift") {
		t.Error(err)
	}
}

// Plain exponential discounting winds up where directions are seldom excited: with
// arms drawn 90/5/5 and discount 0.98 its Cholesky factor dies within some 1,600 rows.
// Stabilised forgetting goes back to the prior and stays proper.
func TestNoWindUp(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	s := state(t, &kernels.Model{NoIntercept: true, Lik: like(t, "", "logit", 1), Prior: kernels.DefaultPrior, Forgetting: 0.98})
	rnd := rand.New(rand.NewPCG(5, 5))
	var b kernels.Batch
	for i := 0; i < n; i += 1000 {
		b.Reset()
		for range 1000 {
			arm := 0
			if u := rnd.Float64(); u > 0.95 {
				arm = 2
			} else if u > 0.9 {
				arm = 1
			}
			for j := range 2 {
				id, _ := s.Features().AddInt(2*arm + j + 1)
				b.Add(id, rnd.NormFloat64())
			}
			b.EndRow()
			b.Y = append(b.Y, float64(rnd.IntN(2)))
		}
		if err := s.Update(context.Background(), &b, false); err != nil {
			t.Fatal(err)
		}
		for _, q := range fit(t, s).Beliefs {
			if !(q.Variance > 0 && q.Variance <= 1+1e-12) || math.Abs(q.Mean) > 10 {
				t.Fatalf("row %d: %v", i, q)
			}
		}
	}
}

// Rows a second of every family: 8 non-zeros of 5,000 weights.
func BenchmarkFamily(b *testing.B) {
	for _, f := range lik.Families() {
		for _, link := range f.Links {
			b.Run(f.Family+"/"+link, func(b *testing.B) {
				l, err := lik.New(f.Family, link, lik.Params{Dispersion: 1, Shape: 4})
				if err != nil {
					b.Fatal(err)
				}
				benchUpdate(b, &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.Prior{Variance: 0.1}}, 8, 5000)
			})
		}
	}
	b.Run("auto noise/probit", func(b *testing.B) {
		benchUpdate(b, &kernels.Model{NoIntercept: true, Lik: like(b, "", "probit", 1), Prior: kernels.DefaultPrior, Options: kernels.Options{AutoNoise: true}}, 8, 5000)
	})
}

// countRows are counts of rate exp(1 + Σ x_j w_j), negative binomial of that size (0 =
// Poisson), whose intercept walks with variance q a row.
func countRows(rnd *rand.Rand, n int, size, q float64) []row {
	rows := make([]row, n)
	base := 1.0
	for i := range rows {
		base += math.Sqrt(q) * rnd.NormFloat64()
		a, b := rnd.NormFloat64(), rnd.NormFloat64()
		rate := math.Exp(base + 0.5*a - 0.3*b)
		if size > 0 {
			rate *= gammaDraw(rnd, size) / size
		}
		y := 0.0
		for u := rnd.ExpFloat64(); u < rate; u += rnd.ExpFloat64() {
			y++
		}
		rows[i] = row{x: map[string]float64{"a": a, "b": b}, y: y, w: 1, t: float64(i)}
	}
	return rows
}

// gammaDraw is a gamma variable of that shape and scale 1, by Marsaglia and Tsang.
func gammaDraw(rnd *rand.Rand, shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost, shape = math.Pow(rnd.Float64(), 1/shape), shape+1
	}
	d := shape - 1.0/3
	for {
		x := rnd.NormFloat64()
		v := 1 + x/math.Sqrt(9*d)
		if v *= v * v; v > 0 && math.Log(rnd.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return boost * d * v
		}
	}
}

// Counts that vary more than poisson allows are not taken for rates that move, and the
// status names what they are; rates that do move are found.
func TestNoiseOfCounts(t *testing.T) {
	kerneltest.Slow(t)
	for i := range 10 {
		c := []struct{ size, q float64 }{{0.7, 0}, {0.15, 0}, {0, 0}, {0, 1e-3}, {3, 2e-3}}[i%5]
		rows := countRows(rand.New(rand.NewPCG(3, 9)), 1500, c.size, c.q)
		m := kernels.Model{Lik: like(t, "poisson", "", 1), Prior: kernels.DefaultPrior, Options: kernels.Options{AutoNoise: true}}
		s := state(t, &m)
		if i >= 5 {
			var err error
			if s, err = NewTied(&m); err != nil {
				t.Fatal(err)
			}
		}
		feed(t, s, rows)
		rates, logZ := s.Rates()
		q := rates[s.Best()]
		status, most := fit(t, s).Status, 0
		for k := range logZ {
			if logZ[k] > logZ[most] {
				most = k
			}
		}
		t.Logf("size %v, q %v: chosen %g, by evidence %g, %s", c.size, c.q, q, rates[most], status)
		least := c.q / 11
		if c.size > 0 {
			least = 0 // poisson's own steps follow the noise
		}
		if c.q == 0 && q > 1e-4 || c.q > 0 && (q < least || q > c.q*10) {
			t.Errorf("size %v, q = %v: chosen %v", c.size, c.q, q)
		}
		if over := c.size > 0; over != strings.Contains(status, "negbinomial") {
			t.Errorf("size %v: status %q", c.size, status)
		} else if over && rates[most] < 1e-2 {
			t.Errorf("size %v: by Poisson evidence the rate is %v, which is no test", c.size, rates[most])
		}
	}
}

// The size of a negbinomial stream is learnt beside its weights and its drift.
func TestStreamShape(t *testing.T) {
	if testing.Short() {
		t.Skip("two seconds")
	}
	for _, c := range []struct {
		size, q float64
		auto    bool
	}{{0.7, 0, false}, {4, 0, false}, {2, 1e-3, true}} {
		rows := countRows(rand.New(rand.NewPCG(4, 9)), 4000, c.size, c.q)
		l, err := lik.New("negbinomial", "", lik.Params{Shape: 1})
		if err != nil {
			t.Fatal(err)
		}
		m := kernels.Model{Lik: l, Prior: kernels.DefaultPrior, Options: kernels.Options{AutoShape: true, AutoNoise: c.auto}}
		s := state(t, &m)
		feed(t, s, rows)
		f := fit(t, s)
		t.Logf("size %v, q %v: %v, %s", c.size, c.q, f.Shape, f.Status)
		if !(math.Abs(math.Log(f.Shape/c.size)) < 0.15) {
			t.Errorf("size %v, q %v: learnt %v", c.size, c.q, f.Shape)
		}
		// Continued, the shape goes on from where it was, by the number of rows it had.
		half := state(t, &m)
		feed(t, half, rows[:2000])
		going := m
		going.Start = fit(t, half)
		if going.Lik, err = lik.New("negbinomial", "", lik.Params{Shape: going.Start.Shape}); err != nil {
			t.Fatal(err)
		}
		rest := state(t, &going)
		feed(t, rest, rows[2000:])
		if g := fit(t, rest); !(math.Abs(math.Log(g.Shape/f.Shape)) < 0.05) {
			t.Errorf("size %v continued %v, at once %v", c.size, g.Shape, f.Shape)
		}
		// Clones learn apart; parts merge.
		part := half.Clone()
		feed(t, part, rows[2000:])
		if got := fit(t, part).Shape; got != f.Shape {
			t.Errorf("clone %v, want %v", got, f.Shape)
		}
		other := state(t, &m)
		feed(t, other, rows[2000:])
		if err := half.Merge(context.Background(), other); err != nil {
			t.Fatal(err)
		}
		if g := fit(t, half); !(math.Abs(math.Log(g.Shape/f.Shape)) < 0.1) {
			t.Errorf("size %v merged %v, at once %v", c.size, g.Shape, f.Shape)
		}
	}
	m := kernels.Model{Lik: like(t, "poisson", "", 1), Prior: kernels.DefaultPrior, Options: kernels.Options{AutoShape: true}}
	if _, err := New(&m); err == nil || !strings.Contains(err.Error(), "negbinomial") {
		t.Errorf("poisson: error %v", err)
	}
}
