package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
)

// affine is a change of units: what was x is By x + Plus.
type affine struct{ Plus, By float64 }

func (a affine) of(x float64) float64 { return a.Plus + a.By*x }

// sample is rows of two numbers and a text with a response of the family.
type sample struct {
	u, v, y []float64
	g       []string
	weight  []float64
}

func draw(n int, family string) *sample {
	rng := rand.New(rand.NewPCG(5, uint64(n)))
	s := &sample{}
	for i := range n {
		u, v, g := rng.Float64(), rng.NormFloat64(), i*31%7
		eta := 2*u - 0.5*v + 0.2*float64(g) - 1.2
		y := 0.0
		switch family {
		case "bernoulli":
			if rng.Float64() < 1/(1+math.Exp(-eta)) {
				y = 1
			}
		case "poisson", "negbinomial":
			for at, mu := rng.ExpFloat64(), math.Exp(0.5*eta); at < mu; at += rng.ExpFloat64() {
				y++
			}
		case "gamma":
			y = (rng.ExpFloat64() + rng.ExpFloat64()) * math.Exp(0.5*eta)
		default:
			y = eta + 0.5*rng.NormFloat64()
		}
		s.u, s.v, s.y, s.g = append(s.u, u), append(s.v, v), append(s.y, y), append(s.g, fmt.Sprint("g", g))
		s.weight = append(s.weight, float64(i%3)) // a third count for nothing
	}
	return s
}

// fit fits the sample in other units.
func (s *sample) fit(t *testing.T, method string, set func(*option.Settings), u, v, y affine) *kernels.Fit {
	t.Helper()
	in := func(a affine, x []float64) []float64 {
		out := make([]float64, len(x))
		for i := range x {
			out[i] = a.of(x[i])
		}
		return out
	}
	o := option.Defaults()
	set(o)
	tab := &rows.Table{X: rows.Fields(rows.Numbers("u", in(u, s.u)), rows.Numbers("v", in(v, s.v)), rows.Texts("g", s.g)), Y: rows.Numbers("y", in(y, s.y)), Weight: rows.Numbers("weight", s.weight)}
	r, err := engine.Fit(context.Background(), method, o, tab)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return r.Fit
}

// eta is the predictor's Gaussian at a row in those units.
func eta(t *testing.T, f *kernels.Fit, u, v affine, g string) (mean, variance float64) {
	t.Helper()
	s, err := predict.New(f)
	if err != nil {
		t.Fatal(err)
	}
	row, err := s.Row([]string{"u", "v", "g=" + g}, []float64{u.of(0.3), v.of(0.5), 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	mean, variance, err = s.Linear(row, 0)
	if err != nil {
		t.Fatal(err)
	}
	return mean, variance
}

// No prior is given: a fit is the same in whatever units its numbers and real responses
// are, predictions, deviations and evidence, in all forms of the posterior.
func TestUnitsDoNotMatter(t *testing.T) {
	type form struct {
		method string
		family string
		o      kernels.Options
	}
	forms := []form{{"laplace", "poisson", kernels.Options{}}, {"laplace", "gamma", kernels.Options{}}, {"laplace", "negbinomial", kernels.Options{}},
		{"laplace", "studentt", kernels.Options{}}, {"lowrank", "studentt", kernels.Options{Rank: 3}}}
	for _, family := range []string{"bernoulli", "gaussian"} {
		for _, o := range []kernels.Options{{}, {Hessian: "diagonal"}, {Hessian: "block"}, {Hessian: "lowrank", Rank: 3}, {AutoPrior: true}} {
			forms = append(forms, form{"laplace", family, o})
		}
		for _, o := range []kernels.Options{{}, {Covariance: "full"}} {
			o.MaxIter = 30
			forms = append(forms, form{"ep", family, o})
		}
		forms = append(forms, form{"lowrank", family, kernels.Options{Rank: 20}}, form{"lowrank", family, kernels.Options{Rank: 2}},
			form{"hmc", family, kernels.Options{Samples: 60, Warmup: 100, Chains: 1}})
	}
	for _, c := range forms {
		what := fmt.Sprintf("%s %s %+v", c.method, c.family, c.o.Hessian+c.o.Covariance)
		s := draw(150, c.family)
		set := func(o *option.Settings) { o.Family, o.Options = c.family, c.o }
		one := affine{0, 1}
		located := c.family == "gaussian" || c.family == "studentt"
		y := one
		if located {
			y = affine{5e4, 300}
		}
		tol := kerneltest.Tol{Rel: 1e-9, Abs: 1e-9}
		switch {
		case c.method == "hmc":
			tol = kerneltest.Tol{Rel: 1e-4, Abs: 1e-4} // rounding that chains amplify
		case c.method == "ep" && located: // its search ends at changes of 1e-4
			tol = kerneltest.Tol{Rel: 1e-4, Abs: 1e-4}
		case c.method == "ep" || c.o.AutoPrior || c.family != "bernoulli": // where searches end
			tol = kerneltest.Tol{Rel: 1e-6, Abs: 1e-6}
		}
		want := s.fit(t, c.method, set, one, one, one)
		got := s.fit(t, c.method, set, affine{2013, 1e4}, affine{0, 1e-6}, y)
		for _, g := range []string{"g1", "g5", "never"} {
			m, v := eta(t, want, one, one, g)
			n, w := eta(t, got, affine{2013, 1e4}, affine{0, 1e-6}, g)
			kerneltest.Close(t, what+" mean at "+g, n, y.of(m), kerneltest.Tol{Rel: tol.Rel, Abs: tol.Abs * y.By})
			kerneltest.Close(t, what+" variance at "+g, w/y.By/y.By, v, kerneltest.Tol{Rel: 10 * tol.Rel, Abs: tol.Abs})
		}
		rows := 150.0 // of weight 0, 1 and 2
		kerneltest.Close(t, what+" evidence", got.LogEvidence, want.LogEvidence-rows*math.Log(y.By), kerneltest.Tol{Rel: tol.Rel, Abs: 1e-6})
		if located {
			kerneltest.Close(t, what+" dispersion", got.Dispersion/y.By/y.By, want.Dispersion, kerneltest.Tol{Rel: 10 * tol.Rel})
			kerneltest.Close(t, what+" prior", got.Prior.Variance/y.By/y.By, want.Prior.Variance, kerneltest.Tol{Rel: 1e3 * tol.Rel})
		}
		if t.Failed() {
			return
		}
	}
}

// columns notes the numbers of s in f, whose fit standardised them.
func columns(f *kernels.Fit, s *sample, u, v affine) {
	f.Columns = nil
	for _, c := range []struct {
		name string
		x    []float64
		in   affine
	}{{"u", s.u, u}, {"v", s.v, v}} {
		var stats kernels.ColumnStats
		for _, x := range c.x {
			stats.Add(c.in.of(x))
		}
		f.Columns = append(f.Columns, kernels.FitColumn{Name: c.name, Kind: kernels.NumberColumn, N: stats.N, Center: stats.Center, Scale: stats.Scale, Variance: math.NaN()})
	}
}

// Parts that were standardised each by its own rows are merged as one fit: that of all rows
// where the parts have equal moments, by gaussian responses exactly, and nearly where not,
// whatever the units. The prior counts once.
func TestMergeStandardised(t *testing.T) {
	one := affine{0, 1}
	for _, family := range []string{"gaussian", "bernoulli"} {
		set := func(o *option.Settings) {
			o.Family = family
			o.Options.Tol = 1e-12
			if family == "gaussian" {
				o.Params.Dispersion = 0.25
			}
		}
		for _, unit := range []affine{one, {1.7e9, 1e7}, {0, 1e-6}} {
			half := draw(60, family)
			half.weight = nil
			for range half.y {
				half.weight = append(half.weight, 1)
			}
			both := &sample{append(half.u, half.u...), append(half.v, half.v...), append(half.y, half.y...), append(half.g, half.g...), append(half.weight, half.weight...)}
			part := half.fit(t, "laplace", set, unit, one, one)
			columns(part, half, unit, one)
			whole := both.fit(t, "laplace", set, unit, one, one)
			merged, err := kernels.MergeFits(context.Background(), []*kernels.Fit{part, part}, nil, adf.MergeArrowheads)
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%s %v", family, unit)
			near := kerneltest.Tol{Rel: 1e-6, Abs: 1e-6}
			if family == "bernoulli" { // two modes are not that of all rows
				near = kerneltest.Tol{Abs: 0.1}
			} else {
				kerneltest.Close(t, what+" evidence", merged.LogEvidence, whole.LogEvidence, near)
			}
			m, v := eta(t, whole, unit, one, "g1")
			n, w := eta(t, merged, unit, one, "g1")
			kerneltest.Close(t, what+" variance", w, v, near)
			near.Abs = max(near.Abs, 1e-5) // the intercept's prior lies at the predictor's mean, not the responses'
			kerneltest.Close(t, what+" mean", n, m, near)
		}
	}
}

// A known weight speaks of its number and of the responses as they come, whatever is
// standardised inside: it is an offset, in every method, of numbers, levels and the intercept.
func TestKnownStandardised(t *testing.T) {
	const n = 100
	for _, family := range []string{"gaussian", "bernoulli"} {
		d := draw(n, family)
		for i := range d.y {
			if family == "gaussian" {
				d.y[i] = 50 + 8*d.y[i]
			}
		}
		for _, c := range []struct {
			method string
			set    func(*option.Settings)
		}{
			{"adf", func(s *option.Settings) { s.Options.Covariance = "diagonal" }},
			{"adf", func(s *option.Settings) { s.Options.Covariance = "arrowhead" }},
			{"adf", func(s *option.Settings) { s.Options.Covariance = "full" }},
			{"adf", func(s *option.Settings) { s.Options.Covariance, s.Options.Rank = "lowrank", 12 }},
			{"ekf", func(s *option.Settings) {}},
			{"laplace", func(s *option.Settings) {}},
			{"ep", func(s *option.Settings) {}},
		} {
			fit := func(priors []kernels.Belief, fixed func(i int) float64, drop bool) *kernels.Fit {
				s := option.Defaults()
				s.Family, s.Standardize = family, kernels.Given(true)
				s.Priors = priors
				c.set(s)
				offset := make([]float64, n)
				if fixed != nil {
					for i := range offset {
						offset[i] = fixed(i)
					}
				}
				columns := []*rows.Slice{rows.Numbers("v", d.v), rows.Texts("g", d.g)}
				if !drop {
					columns = append(columns, rows.Numbers("u", d.u))
				}
				r, err := engine.Fit(context.Background(), c.method, s, &rows.Table{X: rows.Fields(columns...), Y: rows.Numbers("y", d.y), Offset: rows.Numbers("o", offset)})
				if err != nil {
					t.Fatalf("%s: %v", c.method, err)
				}
				return r.Fit
			}
			known := fit([]kernels.Belief{{Feature: "u", Weight: kernels.Weight{Mean: 3}}, {Feature: "g=g2", Weight: kernels.Weight{Mean: -2}}}, nil, false)
			fixed := fit([]kernels.Belief{{Feature: "g=g2"}}, func(i int) float64 {
				if d.g[i] == "g2" {
					return 3*d.u[i] - 2
				}
				return 3 * d.u[i]
			}, true)
			what := fmt.Sprintf("%s %s %s", family, c.method, known.Covariance.Form)
			same := kerneltest.Tol{Rel: 1e-9, Abs: 1e-9}
			kerneltest.Close(t, what+": log evidence", known.LogEvidence, fixed.LogEvidence, same)
			at := map[string]kernels.Weight{}
			for _, b := range fixed.Beliefs {
				at[b.Feature] = b.Weight
			}
			at["u"], at["g=g2"] = kernels.Weight{Mean: 3}, kernels.Weight{Mean: -2}
			for _, b := range known.Beliefs {
				kerneltest.Close(t, what+": mean of "+b.Feature, b.Mean, at[b.Feature].Mean, same)
				kerneltest.Close(t, what+": variance of "+b.Feature, b.Variance, at[b.Feature].Variance, same)
			}
			// a known intercept, and a fit that others can read
			still := fit([]kernels.Belief{{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: 1.5}}}, nil, false)
			for _, f := range []*kernels.Fit{known, still} {
				if err := f.Validate(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			if b := still.Beliefs[0]; b.Feature != kernels.Intercept || b.Mean != 1.5 || b.Variance != 0 {
				t.Errorf("%s: the intercept is %v", what, b)
			}
			// the fit goes on with what it knows
			a, _ := eta(t, known, affine{By: 1}, affine{By: 1}, "g2")
			b, _ := eta(t, fixed, affine{By: 1}, affine{By: 1}, "g2")
			kerneltest.Close(t, what+": predictor", a, b+3*0.3-2, same)
		}
	}
}

// The unit of gamma responses is that of their predictions, under every method that keeps the rows
// and whatever the intercept is at: it does not meet its prior elsewhere. An exposure's unit is
// none of theirs.
func TestGammaUnits(t *testing.T) {
	x := []float64{0, 1, 2, 3, 4}
	y := []float64{1, 3, 0.5, 2, 6}
	fit := func(method string, unit, exposure float64) *kernels.Fit {
		s := option.Defaults()
		s.Family, s.Options.Samples, s.Options.Warmup, s.Options.Chains = "gamma", 100, 100, 1
		in, off := make([]float64, len(y)), make([]float64, len(y))
		for i, v := range y {
			in[i], off[i] = v*unit*exposure, math.Log(exposure)
		}
		if method == "hmc" {
			s.Params.Shape = 2
		} else {
			s.Options.Samples, s.Options.Warmup, s.Options.Chains = 0, 0, 0
		}
		r, err := engine.Fit(context.Background(), method, s, &rows.Table{X: rows.Fields(rows.Numbers("x", x)), Y: rows.Numbers("y", in), Offset: rows.Numbers("o", off)})
		if err != nil {
			t.Fatal(method, err)
		}
		return r.Fit
	}
	for _, method := range []string{engine.Auto, "laplace", "ep", "lowrank", "hmc"} {
		want := fit(method, 1, 1)
		for _, c := range [][2]float64{{1e-6, 1}, {1e-12, 1}, {1e9, 1}, {1, 1e7}} {
			what := fmt.Sprintf("%s in units of %v, exposures of %v: ", method, c[0], c[1])
			got := fit(method, c[0], c[1])
			kerneltest.Close(t, what+"shape", got.Shape, want.Shape, kerneltest.Tol{Rel: 1e-5})
			kerneltest.Close(t, what+"intercept", got.Beliefs[0].Mean-math.Log(c[0]), want.Beliefs[0].Mean, kerneltest.Tol{Rel: 1e-6, Abs: 1e-6})
			kerneltest.Close(t, what+"variance", got.Beliefs[0].Variance, want.Beliefs[0].Variance, kerneltest.Tol{Rel: 1e-5})
			kerneltest.Close(t, what+"slope", got.Beliefs[1].Mean, want.Beliefs[1].Mean, kerneltest.Tol{Rel: 1e-6, Abs: 1e-7})
			kerneltest.Close(t, what+"evidence", got.LogEvidence+5*math.Log(c[0]*c[1]), want.LogEvidence, kerneltest.Tol{Rel: 1e-6, Abs: 1e-6})
		}
	}
}

// The prior of the intercept of gamma is about the mean of the responses: log evidence by
// quadrature.
func TestGammaPriorAtTheMean(t *testing.T) {
	y := []float64{2e5, 9e5, 4e5, 5e5}
	s := option.Defaults()
	s.Family, s.Params.Shape = "gamma", 3
	r, err := engine.Fit(context.Background(), "laplace", s, &rows.Table{X: rows.Fields(rows.Numbers("zero", make([]float64, 4))), Y: rows.Numbers("y", y)})
	if err != nil {
		t.Fatal(err)
	}
	total, sum, step := 0.0, 0.0, 0.001
	lg, _ := math.Lgamma(3)
	for d := -4.0; d < 4; d += step { // from the logarithm of the mean, 5e5
		log := -d*d/20 - 0.5*math.Log(2*math.Pi*10)
		for _, v := range y {
			mean := 5e5 * math.Exp(d)
			log += 3*math.Log(3/mean) + 2*math.Log(v) - 3*v/mean - lg
		}
		total += step * math.Exp(log)
		sum += step * d * math.Exp(log)
	}
	kerneltest.Close(t, "log evidence", r.LogEvidence, math.Log(total), kerneltest.Tol{Abs: 0.02})
	kerneltest.Close(t, "intercept", r.Beliefs[0].Mean, math.Log(5e5)+sum/total, kerneltest.Tol{Abs: 0.06})
}

// TestEvidenceOfFirstRows holds the evidence of streams that learn their noise and units near that
// of laplace: after two responses that all but agree the noise is next to nothing, and what other
// units of the numbers would say of such rows are thousands of nats.
func TestEvidenceOfFirstRows(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(11, seed))
		s := &sample{}
		for range 20 {
			u, v := rng.NormFloat64(), rng.NormFloat64()
			s.u, s.v, s.y = append(s.u, u), append(s.v, v), append(s.y, 0.7*u-0.4*v+0.8*rng.NormFloat64())
		}
		for _, family := range []string{"gaussian", "studentt"} {
			var evidence [2]float64
			for i, method := range []string{"laplace", "adf"} {
				o := option.Defaults()
				o.Family = family
				r, err := engine.Fit(context.Background(), method, o, &rows.Table{X: rows.Fields(rows.Numbers("u", s.u), rows.Numbers("v", s.v)), Y: rows.Numbers("y", s.y)})
				if err != nil {
					t.Fatal(err)
				}
				evidence[i] = r.LogEvidence
			}
			within := 25.0
			if family == "gaussian" { // whose evidence is no sum; laplace has learnt its prior variance
				within = 5
			}
			if d := evidence[1] - evidence[0]; !(math.Abs(d) < within) {
				t.Errorf("%s, set %d: log evidence of adf %v, of laplace %v", family, seed, evidence[1], evidence[0])
			}
		}
	}
}
