package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// resumeRows are rows of three columns far from unit scale, one of them constant at first, a
// column of levels, and responses of a family, far from unit scale where it has one; some rows
// have less weight than one, or none.
type resumeRows struct{ u, v, late, y, weight []float64 }

func (r *resumeRows) levels(n int) []string {
	out := make([]string, len(r.u))
	for i := range out {
		out[i] = fmt.Sprintf("g%02d", i*i%n)
	}
	return out
}

func newResumeRows(family string, n int, seed uint64) *resumeRows {
	rng := rand.New(rand.NewPCG(seed, 9))
	r := &resumeRows{}
	for i := range n {
		u, v, late := rng.NormFloat64(), rng.NormFloat64(), 0.0
		if i > 20 && rng.Float64() < 0.4 {
			late = 1
		}
		eta := 0.4*u - 0.6*v + 0.5*late + 0.3*float64(i*i%5-2)
		y := eta
		switch family {
		case "bernoulli":
			y = float64(rng.IntN(2))
			if rng.Float64() < math.Abs(math.Tanh(eta)) {
				y = 0
				if eta > 0 {
					y = 1
				}
			}
		case "gaussian", "studentt":
			y = 5000 + 300*(eta+0.7*rng.NormFloat64())
		case "gamma":
			y = math.Exp(eta) * rng.ExpFloat64()
		default: // counts
			y = math.Floor(2 * math.Exp(0.7*eta) * rng.ExpFloat64())
		}
		w := 1.0
		switch {
		case rng.Float64() < 0.05:
			w = 0
		case rng.Float64() < 0.2:
			w = 0.5
		}
		r.u, r.v, r.late, r.y, r.weight = append(r.u, 50+8*u), append(r.v, 0.01*v), append(r.late, late), append(r.y, y), append(r.weight, w)
	}
	return r
}

// resumeCase is a stream as it is asked for.
type resumeCase struct {
	method, covariance, family string
	auto                       bool // standardize: 'auto', else true
	bare                       bool // without an intercept
	weights                    bool
	levels                     int // of a column, 0 for none
	forgetting, noise          float64
}

func (c resumeCase) String() string {
	s := fmt.Sprintf("%s %s %s", c.method, c.covariance, c.family)
	for what, is := range map[string]bool{" auto": c.auto, " no intercept": c.bare, " levels": c.levels > 0, " many": c.levels > 9, " weights": c.weights, " forgetting": c.forgetting > 0, " drift": c.noise > 0} {
		if is {
			s += what
		}
	}
	return s
}

// fit is rows lo to hi, after those of start. again says that the options are given once more.
func (c resumeCase) fit(t *testing.T, r *resumeRows, start *kernels.Fit, again bool, lo, hi int) *kernels.Fit {
	t.Helper()
	s := option.Defaults()
	s.Family = c.family
	o := &s.Options
	if start == nil || again {
		if o.Covariance = c.covariance; c.covariance == "lowrank" {
			o.Rank = 40
		}
		if s.NoIntercept = c.bare; !c.auto {
			s.Standardize = kernels.Given(true)
		}
		o.AutoShape = c.family == "negbinomial"
	}
	s.Forgetting, s.Noise = c.forgetting, c.noise
	o.Rank = 40 * min(1, o.Rank)
	if start != nil {
		if err := s.Continue(start); err != nil {
			t.Fatal(err)
		}
	}
	fields := []*rows.Slice{rows.Numbers("u", r.u[lo:hi]), rows.Numbers("v", r.v[lo:hi]), rows.Numbers("late", r.late[lo:hi])}
	if c.levels > 0 {
		fields = append(fields, rows.Texts("g", r.levels(c.levels)[lo:hi]))
	}
	in := &rows.Table{X: rows.Fields(fields...), Y: rows.Numbers("y", r.y[lo:hi])}
	if c.weights {
		in.Weight = rows.Numbers("weight", r.weight[lo:hi])
	}
	f, err := engine.Fit(context.Background(), c.method, s, in)
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	if err := f.Validate(); err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	return f.Fit
}

func resumeCases() (cs []resumeCase) {
	add := func(method, covariance string, families ...string) {
		for _, family := range families {
			for k := range 4 {
				c := resumeCase{method: method, covariance: covariance, family: family, auto: k&1 > 0, bare: k&2 > 0, weights: k == 1 || k == 2}
				if k == 0 || k == 3 {
					c.levels = 5
				}
				if k == 0 && covariance == "arrowhead" {
					c.levels = 83 // most of them leaves
				}
				cs = append(cs, c)
				if k == 0 || k == 2 {
					c.forgetting = 0.98
					cs = append(cs, c)
					c.forgetting, c.noise = 0, 1e-3
					cs = append(cs, c)
				}
			}
		}
	}
	all := []string{"bernoulli", "gaussian", "studentt", "poisson", "negbinomial", "gamma"}
	for _, covariance := range []string{"diagonal", "arrowhead", "full", "lowrank"} {
		add("adf", covariance, all...)
	}
	add("sequential_laplace", "full", "gaussian", "bernoulli", "studentt")
	add("sequential_laplace", "lowrank", "gaussian")
	add("ekf", "full", "gaussian", "bernoulli")
	add("variational", "full", "bernoulli")
	return cs
}

// apart is the largest distance of two fits of one model: of means in deviations, of the logs of
// deviations, of those of dispersion and shape, and of the evidence in nats a row.
func apart(t *testing.T, what string, got, want *kernels.Fit) (far float64, same bool) {
	t.Helper()
	if got.N != want.N || len(got.Beliefs) != len(want.Beliefs) {
		t.Fatalf("%s: %d rows and %d beliefs, want %d and %d", what, got.N, len(got.Beliefs), want.N, len(want.Beliefs))
	}
	same = got.LogEvidence == want.LogEvidence && got.Dispersion == want.Dispersion && got.Prior == want.Prior
	for j, w := range want.Beliefs {
		g := got.Beliefs[j]
		if same = same && g == w; w.Variance > 0 {
			far = max(far, math.Abs(g.Mean-w.Mean)/math.Sqrt(w.Variance), math.Abs(math.Log(g.Variance/w.Variance))/2)
		}
	}
	log := func(a, b float64) {
		if !math.IsNaN(b) {
			same = same && a == b
			far = max(far, math.Abs(math.Log(a/b)))
		}
	}
	log(got.Dispersion, want.Dispersion)
	log(got.Shape, want.Shape)
	log(got.Prior.Variance, want.Prior.Variance)
	log(got.Prior.InterceptVariance, want.Prior.InterceptVariance)
	far = max(far, math.Abs(got.LogEvidence-want.LogEvidence)/float64(want.N))
	if math.IsNaN(far) {
		far = math.Inf(1)
	}
	return far, same
}

// within is how far a run that is continued after cut rows may be from the uninterrupted one, 0
// for bit for bit. What the fit says in other numbers than the stream has comes back to rounding:
//
//   - an arrowhead is in the stream's own numbers, and so is a diagonal but for the unit of the
//     responses; an arrowhead without an intercept is per response as it is;
//   - a full covariance is that of the numbers as they are, with the intercept at 0, where a
//     deviation is the difference of numbers center/scale times as large, here 6: 1e-15 grows
//     to 1e-14, more where rows of a few come after a long drift or a step of a linearised rule, and
//     where noise is learnt of what drifts, by the difference of a square and its variance;
//   - a low-rank one is a difference from variances of the intercept's 1e8 times what it knows
//     (lowRank.rest), and those of gaussian rows before their noise is known are without digits;
//   - weights that drift one by one do so when a row touches them, and the fit has them at its own
//     time: another unit of the responses, noise, or number of levels meets them otherwise in
//     between.
func (c resumeCase) within(cut int) float64 {
	located := c.family == "gaussian" || c.family == "studentt"
	moves := c.forgetting > 0 || c.noise > 0
	switch c.covariance {
	case "diagonal":
		switch {
		case located && moves && !c.bare:
			return 1e-3
		case located || moves:
			return 1e-12
		}
		return 0
	case "arrowhead":
		switch {
		case moves && c.levels > 9 && located:
			return 0.2
		case moves && c.levels > 9:
			return 1e-3
		case located && c.bare:
			return 1e-12
		}
		return 0
	case "full":
		if c.family == "gaussian" && c.noise > 0 && cut < 5 {
			return 1e-10
		}
		return 1e-11
	}
	switch {
	case c.family == "gaussian" && cut < 8:
		return 100
	case moves && !c.bare:
		return 0.02
	case !c.bare:
		return 1e-3
	}
	return 1e-5
}

// A stream that is stopped, kept as a fit and continued is the stream that was not, wherever it
// is cut, whether the options are given again or not.
func TestResume(t *testing.T) {
	kerneltest.Slow(t)
	const n = 140
	seeds := uint64(1)
	cuts := []int{1, 2, 3, 5, 6, 8, 13, 24, 50, 67, 129}
	if testing.Verbose() {
		seeds = 4
	}
	if testing.Short() {
		seeds, cuts = 1, []int{5, 67}
	}
	for _, c := range resumeCases() {
		worst, at, equal, runs := 0.0, "", 0, 0
		for seed := range seeds {
			r := newResumeRows(c.family, n, seed)
			whole := c.fit(t, r, nil, true, 0, n)
			for _, cut := range cuts {
				for _, again := range []bool{true, false} {
					if !again && c.family == "negbinomial" { // its shape is as given then
						continue
					}
					what := fmt.Sprintf("seed %d, cut at %d, options again %v", seed, cut, again)
					far, same := apart(t, what, c.fit(t, r, c.fit(t, r, nil, true, 0, cut), again, cut, n), whole)
					most := c.within(cut)
					if seed > 0 { // the bounds are of the first set of rows
						most *= 1.25
					}
					if !(far <= most) || most == 0 && !same {
						t.Errorf("%s, %s: %.3g from the uninterrupted run, bit for bit %v; at most %.3g", c, what, far, same, most)
					}
					if runs++; same {
						equal++
					}
					if far > worst && (cut >= 8 || c.covariance != "lowrank") {
						worst, at = far, what
					}
				}
			}
		}
		t.Logf("%-60s %.2g (%s), %d of %d bit for bit", c, worst, at, equal, runs)
	}
}

// The first rows of factorised beliefs, if their weights are small, may determine more than they
// bring and so teach the noise nothing. A run that stops there goes on as if it had not.
func TestResumeUninformed(t *testing.T) {
	c := resumeCase{method: "adf", covariance: "diagonal", family: "gaussian", auto: true, weights: true}
	uninformed := 0
	for seed := range uint64(24) {
		const n = 30
		r := newResumeRows(c.family, n, seed)
		whole := c.fit(t, r, nil, true, 0, n)
		for cut := 1; cut < 8; cut++ {
			part := c.fit(t, r, nil, true, 0, cut)
			if _, what, ok := part.Kept(kernels.KeptBelieved); ok && what == 2 {
				uninformed++
			}
			if far, _ := apart(t, "", c.fit(t, r, part, true, cut, n), whole); !(far < 1e-11) {
				t.Errorf("seed %d, cut at %d: %.3g from the uninterrupted run", seed, cut, far)
			}
		}
	}
	if uninformed < 5 {
		t.Errorf("%d cuts were after rows that had not taught the noise anything, too few to see", uninformed)
	}
}

// A row of weight 0 lets the weights drift without counting what the rows determine: a run may stop
// there, too.
func TestResumeAfterWeightless(t *testing.T) {
	const n, cut = 60, 20
	for _, c := range resumeCases() {
		if !c.weights || c.forgetting == 0 && c.noise == 0 {
			continue
		}
		r := newResumeRows(c.family, n, 8)
		r.weight[cut-2], r.weight[cut-1] = 0, 0
		if far, _ := apart(t, c.String(), c.fit(t, r, c.fit(t, r, nil, true, 0, cut), true, cut, n), c.fit(t, r, nil, true, 0, n)); !(far <= c.within(cut)) {
			t.Errorf("%s: %.3g from the uninterrupted run, at most %.3g", c, far, c.within(cut))
		}
	}
}
