package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Rows drawn from the law give its parameter whatever the filter takes it for, however wide the
// predictors were: within five standard errors, and of 400 sets with the right parameter none is
// said not to fit.
func TestFixed(t *testing.T) {
	src := rand.NewPCG(7, 1)
	rng := rand.New(src)
	for _, c := range []struct {
		family            string
		truth, taken, dof float64
	}{
		{"gamma", 1, 1, 0}, {"gamma", 20, 1, 0}, {"gamma", 0.3, 1, 0}, {"gamma", 1, 30, 0}, {"gamma", 200, 40, 0},
		{"studentt", 1, 1, 4}, {"studentt", 0.2, 1, 4}, {"studentt", 40, 1, 2.5}, {"studentt", 3, 2, 50},
	} {
		p := Params{Dispersion: 1, Shape: c.taken}
		if c.family == "studentt" {
			p = Params{Dispersion: c.taken, Shape: c.dof}
		}
		l := mustNew(t, c.family, "", p)
		sets := 40
		if c.truth == c.taken {
			sets = 400
		}
		said := 0
		for range sets {
			const n = 600
			parts := []*Fixed{NewFixed(l), NewFixed(l)}
			for i := range n {
				m, v := 3*rng.NormFloat64(), math.Exp(3*rng.NormFloat64()-6)
				s := m + math.Sqrt(v)*rng.NormFloat64()
				o := Obs{Weight: 1}
				if c.family == "gamma" {
					o.Y = distuv.Gamma{Alpha: c.truth, Beta: c.truth, Src: src}.Rand() * math.Exp(s)
				} else {
					// of s and noise together: the law that a wide predictor is taken to leave
					o.Y = m + math.Sqrt(v+c.truth)*distuv.StudentsT{Sigma: 1, Nu: c.dof, Src: src}.Rand()
				}
				if o.Y > 0 || c.family != "gamma" {
					parts[i%2].Observe(l, o, m, v)
				}
			}
			f := parts[0].Clone()
			f.Merge(parts[1])
			factor, errors, ok := f.Estimate(l)
			if !ok {
				t.Fatalf("%+v: no estimate", c)
			}
			// deviations of log k and log D: of n rows as informative as the narrow ones, half or
			// more
			if d := math.Abs(math.Log(factor * c.taken / c.truth)); d > 5*math.Sqrt(8./n) {
				t.Errorf("%+v: %v, want %v (%v standard errors from what was taken)", c, factor*c.taken, c.truth, errors)
			}
			if f.Note(l) != "" {
				said++
			}
		}
		if c.truth == c.taken && said > 0 || c.truth != c.taken && said < sets {
			t.Errorf("%+v: said of %d sets of %d", c, said, sets)
		}
	}
}

// Two dozen rows tell of a parameter that is far off, and of a thousand sets of them with the right
// one hardly any is said not to fit.
func TestFixedFewRows(t *testing.T) {
	src := rand.NewPCG(7, 4)
	rng := rand.New(src)
	const n, sets = 24, 1000
	for _, c := range []struct {
		family, link string
		draw         func(factor float64) float64 // of a response about the predictor 0, whose variance is as many times that taken
	}{
		{"gamma", "", func(factor float64) float64 {
			return max(1e-300, distuv.Gamma{Alpha: 1 / factor, Beta: 1 / factor, Src: src}.Rand()) // 0 is none of its responses
		}},
		{"studentt", "", func(factor float64) float64 {
			return math.Sqrt(factor) * distuv.StudentsT{Sigma: 1, Nu: 4, Src: src}.Rand()
		}},
		{"gaussian", "log", func(factor float64) float64 { return 1 + math.Sqrt(factor)*rng.NormFloat64() }},
	} {
		p := Params{Dispersion: 1, Shape: 1}
		if c.family == "studentt" {
			p.Shape = 4
		}
		l := mustNew(t, c.family, c.link, p)
		for factor, want := range map[float64][2]int{1: {0, 2}, 25: {sets / 2, sets}} {
			said := 0
			for range sets {
				f := NewFixed(l)
				for range n {
					f.Observe(l, Obs{Y: c.draw(factor), Weight: 1}, 0, 1e-6)
				}
				if f.Note(l) != "" {
					said++
				}
			}
			if said < want[0] || said > want[1] {
				t.Errorf("%s, a factor of %v: said of %d sets of %d", c.family, factor, said, sets)
			}
		}
	}
}

// The shape is the root of its equation over the whole range.
func TestGammaShapeLog(t *testing.T) {
	for x := -9.0; x < 27; x += 0.37 {
		gap, _ := gammaGap(math.Exp(x))
		if got := gammaShapeLog(gap); math.Abs(got-x) > 1e-9*(1+math.Abs(x)) {
			t.Errorf("log k = %v: %v", x, got)
		}
	}
	for _, c := range []struct{ f, log float64 }{{0, math.Log(1e12)}, {-1, math.Log(1e12)}, {math.Inf(1), math.Log(1e-4)}, {math.NaN(), math.Log(1e-4)}} {
		if got := gammaShapeLog(c.f); got != c.log {
			t.Errorf("f = %v: %v, want %v", c.f, got, c.log)
		}
	}
}

// A row of weight 3 says what three rows say.
func TestFixedWeights(t *testing.T) {
	for _, family := range []string{"gamma", "studentt", "negbinomial", "gaussian"} {
		link := ""
		if family == "gaussian" {
			link = "log"
		}
		l := mustNew(t, family, link, Params{Dispersion: 1, Shape: 4})
		once, thrice := NewFixed(l), NewFixed(l)
		for i := range 60 {
			o := Obs{Y: 0.2 + 0.1*float64(i%17), Weight: 3}
			if family == "negbinomial" {
				o.Y = float64(i % 17)
			}
			once.Observe(l, o, 0.1, 0.02)
			o.Weight = 1
			for range 3 {
				thrice.Observe(l, o, 0.1, 0.02)
			}
		}
		a, ea, aok := once.Estimate(l)
		b, eb, bok := thrice.Estimate(l)
		if !aok || !bok || math.Abs(a/b-1) > 1e-12 || math.Abs(ea/eb-1) > 1e-9 {
			t.Errorf("%s: %v, %v errors, %v; want %v, %v, %v", family, a, ea, aok, b, eb, bok)
		}
	}
}

// Counts whose rates are gamma say what size they have, whatever the filter takes it for.
func TestFixedSize(t *testing.T) {
	src := rand.NewPCG(7, 2)
	rng := rand.New(src)
	for _, c := range []struct{ truth, taken, mean, off float64 }{
		{1, 1, 5, 0.7}, {8, 8, 5, 0.7}, {0.2, 0.2, 5, 1}, {20, 1, 5, 0.7}, {0.2, 1, 5, 0.7}, {1, 30, 5, 0.7},
		{300, 1, 8, 2.2},                                     // predictors vary more than rates do
		{8, 8, -1, math.Inf(1)}, {0.2, 0.2, -1, math.Inf(1)}, // counts are too small to tell
	} {
		l := mustNew(t, "negbinomial", "", Params{Shape: c.taken})
		sets := 20
		if c.truth == c.taken {
			sets = 200
		}
		said := 0
		for range sets {
			const n = 600
			parts := []*Fixed{NewFixed(l), NewFixed(l)}
			for i := range n {
				m, v := c.mean+rng.NormFloat64(), math.Exp(2*rng.NormFloat64()-6)
				rate := distuv.Gamma{Alpha: c.truth, Beta: c.truth, Src: src}.Rand() * math.Exp(m+math.Sqrt(v)*rng.NormFloat64())
				parts[i%2].Observe(l, Obs{Y: distuv.Poisson{Lambda: rate, Src: src}.Rand(), Weight: 1}, m, v)
			}
			f := parts[0].Clone()
			f.Merge(parts[1])
			factor, errors, ok := f.Estimate(l)
			if d := math.Abs(math.Log(factor * c.taken / c.truth)); !ok || d > c.off {
				t.Errorf("%+v: %v, want %v (%v standard errors from what was taken)", c, factor*c.taken, c.truth, errors)
			}
			if f.Note(l) != "" {
				said++
			}
		}
		if c.truth == c.taken && said > 0 || c.truth != c.taken && said < sets {
			t.Errorf("%+v: said of %d sets of %d", c, said, sets)
		}
	}
}

// Rows about e^s say what dispersion they have, however far it is from the one taken.
func TestFixedGaussianLog(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	for _, c := range []struct{ truth, taken float64 }{{1, 1}, {50, 50}, {361, 1}, {1e6, 1}, {2, 100}} {
		l := mustNew(t, "gaussian", "log", Params{Dispersion: c.taken})
		said := 0
		const sets = 200
		for range sets {
			const n = 300
			parts := []*Fixed{NewFixed(l), NewFixed(l)}
			for i := range n {
				m, v := 3+0.5*rng.NormFloat64(), math.Exp(3*rng.NormFloat64()-9)
				s := m + math.Sqrt(v)*rng.NormFloat64()
				parts[i%2].Observe(l, Obs{Y: math.Exp(s) + math.Sqrt(c.truth)*rng.NormFloat64(), Weight: 1}, m, v)
			}
			f := parts[0].Clone()
			f.Merge(parts[1])
			if factor, _, ok := f.Estimate(l); !ok || math.Abs(math.Log(factor*c.taken/c.truth)) > 1 {
				t.Errorf("%+v: %v", c, factor*c.taken)
			}
			if f.Note(l) != "" {
				said++
			}
		}
		if c.truth == c.taken && said > 0 || c.truth != c.taken && said < sets {
			t.Errorf("%+v: said of %d sets of %d", c, said, sets)
		}
	}
}

// Rows about s itself do, too.
func TestFixedGaussian(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 4))
	for _, c := range []struct{ truth, taken float64 }{{1, 1}, {50, 50}, {361, 1}, {1e6, 1}, {0.01, 1}, {2, 1}} {
		l := mustNew(t, "gaussian", "identity", Params{Dispersion: c.taken})
		said := 0
		const sets = 200
		for range sets {
			const n = 300
			parts := []*Fixed{NewFixed(l), NewFixed(l)}
			for i := range n {
				m, v := 3*rng.NormFloat64(), c.taken*math.Exp(3*rng.NormFloat64()-9)
				parts[i%2].Observe(l, Obs{Y: m + math.Sqrt(v+c.truth)*rng.NormFloat64(), Weight: 1}, m, v)
			}
			f := parts[0].Clone()
			f.Merge(parts[1])
			if factor, _, ok := f.Estimate(l); !ok || math.Abs(math.Log(factor*c.taken/c.truth)) > 1 {
				t.Errorf("%+v: %v", c, factor*c.taken)
			}
			if f.Note(l) != "" {
				said++
			}
		}
		if c.truth == c.taken && said > 0 || c.truth != c.taken && said < sets {
			t.Errorf("%+v: said of %d sets of %d", c, said, sets)
		}
	}
}

// Weights that are the inverses of known variances leave a dispersion of 1 right, though the rows
// would say another if they had occurred so many times each.
func TestFixedInverse(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 5))
	for _, c := range []struct {
		rows int
		off  float64 // factor of the true variance
		said int     // of ten sets
	}{{8, 1, 0}, {60, 1, 0}, {1000, 1, 0}, {60, 9, 10}, {60, 0.05, 10}} {
		l := mustNew(t, "gaussian", "", Params{Dispersion: 1})
		said := 0
		for range 10 {
			f := NewFixed(l)
			for range c.rows {
				w := 5 + 400*rng.Float64()
				f.Observe(l, Obs{Y: rng.NormFloat64() * math.Sqrt(c.off/w), Weight: w}, 0, 1e-6)
			}
			if f.Note(l) != "" {
				said++
			}
		}
		if said != c.said {
			t.Errorf("%d rows of %v times the variance: said of %d of 10 sets, want %d", c.rows, c.off, said, c.said)
		}
	}
}
