package ep

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// The learnt prior variance is the one with the largest evidence on a grid around it.
func TestAutoPrior(t *testing.T) {
	for _, c := range []struct {
		cov   string
		noise float64
		n, p  int
	}{{"diagonal", 0, 60, 6}, {"diagonal", 0.01, 60, 6}, {"full", 0, 60, 6}, {"full", 0.01, 40, 4}, {"full", 0, 20, 30}, {"lowrank", 0, 60, 8}} {
		f := families(t)["logit"]
		rows := wide(rand.New(rand.NewPCG(43, 2)), f, c.n, c.p)
		m := &kernels.Model{Lik: f.l, Prior: kernels.Prior{Variance: 1, InterceptVariance: 4}, Noise: c.noise,
			Options: kernels.Options{Covariance: c.cov, AutoPrior: true, Rank: 5}}
		got := fit(t, problem(t, m, rows))
		what := fmt.Sprintf("%+v", c)
		if got.Fit.Status != "ok" || got.Fit.Prior.Variance == 1 {
			t.Errorf("%s: %s, variance %v", what, got.Fit.Status, got.Fit.Prior.Variance)
		}
		for _, by := range []float64{0.9, 1, 1.1} {
			fixed := *m
			fixed.Options.AutoPrior = false
			fixed.Prior.Variance = got.Fit.Prior.Variance * by
			e := fit(t, problem(t, &fixed, rows)).Fit.LogEvidence
			if by == 1 {
				close(t, what+" evidence", got.Fit.LogEvidence, e, 1e-7)
			} else if e > got.Fit.LogEvidence {
				t.Errorf("%s: evidence %v at %v times the variance, %v at it", what, e, by, got.Fit.LogEvidence)
			}
		}
	}
	// Groups: one that matters and one that does not.
	f := families(t)["gaussian"]
	r := rand.New(rand.NewPCG(47, 1))
	var rows []row
	for range 300 {
		x := map[string]float64{fmt.Sprintf("a=%d", r.IntN(8)): 1, fmt.Sprintf("b=%d", r.IntN(8)): 1}
		s := 0.0
		for k := range x {
			if k[0] == 'a' {
				s = 2 * float64(int(k[2]-'0')-4)
			}
		}
		rows = append(rows, row{x: x, y: s + r.NormFloat64()})
	}
	m := &kernels.Model{Lik: f.l, Prior: kernels.DefaultPrior,
		Options: kernels.Options{Covariance: "full", AutoPrior: true, PriorGroups: true}}
	got := fit(t, problem(t, m, rows))
	var a, b float64
	if _, err := fmt.Sscanf(got.Fit.Status, "prior variances: a %g b %g", &a, &b); err != nil || a < 5 || b > 0.5 {
		t.Errorf("%s (%v)", got.Fit.Status, err)
	}
}

// Dispersion and shape by maximum evidence: the conjugate model's marginal likelihood
// on a grid for one, EP's own for the others.
func TestAutoLikelihood(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct{ family, option string }{
		{"gaussian", "dispersion"}, {"studentt", "dispersion"}, {"studentt", "shape"}, {"negbinomial", "shape"}, {"gamma", "shape"}} {
		f := families(t)[c.family]
		rows := wide(rand.New(rand.NewPCG(53, 1)), f, 150, 3)
		m := &kernels.Model{Lik: f.l, Params: lik.Params{Dispersion: 0.5, Shape: 2}, Prior: kernels.DefaultPrior,
			Options: kernels.Options{Covariance: "full", AutoDispersion: c.option == "dispersion", AutoShape: c.option == "shape"}}
		got := fit(t, problem(t, m, rows))
		found := got.Fit.Dispersion
		if c.option == "shape" {
			found = got.Fit.Shape
		}
		t.Logf("%s %s %v: %s", c.family, c.option, found, got.Fit.Status)
		for _, by := range []float64{0.8, 1, 1.25} {
			params := lik.Params{Dispersion: dispersionOf(f.l), Shape: shapeOf(f.l)}
			if c.option == "shape" {
				params.Shape = found * by
			} else {
				params.Dispersion = found * by
			}
			fixed := *m
			fixed.Lik = like(t, c.family, "", params)
			fixed.Options = kernels.Options{Covariance: "full"}
			e := fit(t, problem(t, &fixed, rows)).Fit.LogEvidence
			if by == 1 {
				close(t, c.family+" evidence", got.Fit.LogEvidence, e, 1e-7)
			} else if e > got.Fit.LogEvidence {
				t.Errorf("%s %s: evidence %v at %v times, %v at it", c.family, c.option, e, by, got.Fit.LogEvidence)
			}
		}
	}
}

// The noise by innovation likelihood is near the one that made the data, and none is
// found where nothing moves.
func TestAutoNoise(t *testing.T) {
	f := families(t)["gaussian"]
	for _, cov := range []string{"diagonal", "full"} {
		for _, q := range []float64{0, 0.05} {
			r := rand.New(rand.NewPCG(59, 1))
			var rows []row
			w := []float64{0.5, -0.5}
			at := 0.0
			for range 400 {
				dt := r.ExpFloat64()
				at += dt
				x := map[string]float64{}
				j := r.IntN(2)
				for k := range w {
					w[k] += math.Sqrt(q*dt) * r.NormFloat64()
				}
				x[fmt.Sprint("f", j)] = 1
				rows = append(rows, row{x: x, y: w[j] + 0.7*r.NormFloat64(), time: at})
			}
			m := &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.DefaultPrior, HasTime: true, Options: kernels.Options{Covariance: cov, AutoNoise: true}}
			got := fit(t, problem(t, m, rows))
			if !strings.Contains(got.Fit.Status, "process_noise") {
				t.Error(got.Fit.Status)
			}
			if q > 0 && math.Abs(math.Log(got.Noise/q)) > 0.7 || q == 0 && got.Noise > 1e-3 {
				t.Errorf("%s: noise %v, made with %v (%s)", cov, got.Noise, q, got.Fit.Status)
			}
			// A local maximum of the filter's evidence.
			z := func(q float64) float64 {
				fixed := *m
				fixed.Noise, fixed.Options = q, kernels.Options{Covariance: cov, MaxIter: 1}
				return fit(t, problem(t, &fixed, rows)).Fit.LogEvidence
			}
			if got.Noise > 0 && (z(got.Noise*1.1) > z(got.Noise) || z(got.Noise/1.1) > z(got.Noise)) {
				t.Errorf("%s: noise %v is no maximum", cov, got.Noise)
			}
		}
	}
}

// Process noise and dispersion are learnt together: no less likely than those that made the data,
// by the scalar Kalman filter.
func TestAutoNoiseAndDispersion(t *testing.T) {
	for _, c := range []struct{ noise, dispersion float64 }{{1, 0.01}, {0.01, 0.01}, {0.001, 1}, {1e4, 100}} {
		for seed := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, 2))
			prior := 100 * math.Max(1, c.noise)
			w, mean, variance, log := 0.0, 0.0, prior, 0.0
			var rows []row
			for i := range 150 {
				if i > 0 {
					w += math.Sqrt(c.noise) * r.NormFloat64()
					variance += c.noise
				}
				y := w + math.Sqrt(c.dispersion)*r.NormFloat64()
				rows = append(rows, row{x: map[string]float64{"a": 1}, y: y, time: float64(i)})
				d, s := y-mean, variance+c.dispersion
				log -= 0.5 * (math.Log(2*math.Pi*s) + d*d/s)
				mean, variance = mean+d*variance/s, variance*c.dispersion/s
			}
			for _, cov := range []string{"diagonal", "full"} {
				m := &kernels.Model{NoIntercept: true, Lik: families(t)["gaussian"].l, HasTime: true, Options: kernels.Options{Covariance: cov, AutoNoise: true, AutoDispersion: true}}
				m.Prior.Variance = prior
				got := fit(t, problem(t, m, rows))
				if got.Fit.LogEvidence < log || got.Fit.LogEvidence > log+10 {
					t.Errorf("%+v, seed %d, %s: log evidence %v of noise %v and dispersion %v, but %v of those that made the data", c, seed, cov, got.Fit.LogEvidence, got.Noise, got.Fit.Dispersion, log)
				}
			}
		}
	}
}

// Options that EP does not have, and stops, say what they are.
func TestErrorsAndStatus(t *testing.T) {
	f := families(t)["logit"]
	rows := draw(rand.New(rand.NewPCG(61, 1)), f, 50, 4)
	for _, c := range []struct {
		edit func(m *kernels.Model)
		want string
	}{
		{func(m *kernels.Model) { m.Forgetting = 0.9 }, "forgetting = 0.9 is not used by ep"},
		{func(m *kernels.Model) { m.Options.Covariance = "arrowhead" }, `covariance = "arrowhead" is not used by ep; allowed: diagonal, full, lowrank`},
		{func(m *kernels.Model) { m.Options.Covariance, m.Noise = "lowrank", 1 }, "covariance = 'lowrank' with process_noise"},
		{func(m *kernels.Model) { m.Options.Damping = 1.5 }, "damping: found 1.5; allowed: a number in (0, 1]"},
		{func(m *kernels.Model) { m.Options.AutoDispersion = true }, "dispersion: found 'auto'; bernoulli has none; allowed: gaussian, studentt"},
		{func(m *kernels.Model) { m.Options.MaxIter = -1 }, "max_iter: found -1"},
		{func(m *kernels.Model) { m.Options.Tol = -1 }, "tol: found -1"},
	} {
		m := &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.DefaultPrior}
		c.edit(m)
		if _, err := Fit(context.Background(), problem(t, m, rows)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	m := &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.DefaultPrior, Options: kernels.Options{MaxIter: 3}}
	r := fit(t, problem(t, m, rows))
	if r.Fit.Converged || !strings.HasPrefix(r.Fit.Status, "not converged after 3 sweeps") || r.Fit.Iterations != 3 {
		t.Errorf("%+v", r.Fit.Status)
	}
	m.Options = kernels.Options{TimeLimit: time.Nanosecond}
	if r = fit(t, problem(t, m, rows)); r.Sweeps != 1 || !strings.Contains(r.Fit.Status, "time_limit") {
		t.Errorf("%d sweeps: %s", r.Sweeps, r.Fit.Status)
	}
	// No rows, no columns.
	for _, cov := range []string{"diagonal", "full", "lowrank"} {
		m := &kernels.Model{Lik: f.l, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: cov}}
		if r := fit(t, problem(t, m, nil)); math.Abs(r.Fit.Beliefs[0].Variance-10) > 1e-13 || r.Fit.LogEvidence != 0 || !r.Fit.Converged {
			t.Errorf("%s: %+v", cov, r.Fit)
		}
		m.NoIntercept = true
		r := fit(t, problem(t, m, []row{{x: map[string]float64{}, y: 1}, {y: 0, off: 1}}))
		close(t, cov+" evidence without weights", r.Fit.LogEvidence, math.Log(0.5)-math.Log1p(math.Exp(1)), 1e-9)
	}
}

// Negative sites: outliers under a Student-t with little noise, in both forms.
func TestOutliers(t *testing.T) {
	l := like(t, "studentt", "", lik.Params{Shape: 3, Dispersion: 0.01})
	for _, cov := range []string{"diagonal", "full"} {
		for _, shape := range [][2]int{{60, 3}, {15, 30}} {
			r := rand.New(rand.NewPCG(67, 1))
			f := family{l, 0, func(r *rand.Rand, s float64) float64 {
				if r.IntN(4) == 0 {
					return s + 5*r.NormFloat64()
				}
				return s + 0.1*r.NormFloat64()
			}}
			rows := wide(r, f, shape[0], shape[1])
			m := &kernels.Model{NoIntercept: true, Lik: l, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: cov, MaxIter: 500}}
			got := fit(t, problem(t, m, rows))
			negative := 0
			for _, s := range got.Sites {
				if s.Tau < 0 {
					negative++
				}
			}
			t.Logf("%s %v: %d sweeps, damping %.2f, %d negative sites, %s (%v)", cov, shape, got.Sweeps, got.Damping, negative, got.Fit.Status, got.Fit.Covariance.Form)
			if negative == 0 || !got.Fit.Converged {
				t.Errorf("%s %v: %d negative sites, %s", cov, shape, negative, got.Fit.Status)
			}
			if got.Fit.Covariance.Form == gauss.LowRank {
				t.Errorf("%s %v: negative sites do not fit into diag - FFᵀ", cov, shape)
			}
		}
	}
}

// A row of weight 0 changes nothing, an offset is a known weight, and rows of a
// factor that no weight touches count.
func TestWeightsAndOffsets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := families(t)[rapid.SampledFrom([]string{"logit", "probit", "poisson", "gamma"}).Draw(rt, "family")]
		cov := rapid.SampledFrom([]string{"diagonal", "full"}).Draw(rt, "covariance")
		q := rapid.SampledFrom([]float64{0, 0.02}).Draw(rt, "noise")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		rows := draw(r, f, 15, 3)
		m := &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.Prior{Variance: 0.5}, Noise: q, HasTime: true, Options: kernels.Options{Covariance: cov}}
		var plain, known []row
		for _, w := range rows {
			v := r.NormFloat64()
			a := w
			a.off = 0.7 * v
			plain = append(plain, a)
			b := w
			b.x = map[string]float64{"known": v}
			for k, x := range w.x {
				b.x[k] = x
			}
			known = append(known, b, row{x: map[string]float64{sorted(w.x)[0]: 1}, y: w.y, w: 1e-300, time: w.time})
		}
		m2 := *m
		m2.Priors = []kernels.Belief{{Feature: "known", Weight: kernels.Weight{Mean: 0.7}}}
		a, b := fit(t, problem(t, m, plain)).Fit, fit(t, problem(t, &m2, known)).Fit
		close(t, "evidence", b.LogEvidence, a.LogEvidence, 1e-7)
		at := map[string]kernels.Weight{}
		for _, w := range b.Beliefs {
			at[w.Feature] = w.Weight
		}
		for _, w := range a.Beliefs {
			close(t, "mean of "+w.Feature, at[w.Feature].Mean, w.Mean, 1e-6)
			close(t, "variance of "+w.Feature, at[w.Feature].Variance, w.Variance, 1e-6)
		}
	})
}

// Z7 in the small: prior and cavity kernel agree where rows are few, not where many.
func TestPriorKernel(t *testing.T) {
	f := families(t)["probit"]
	rows := wide(rand.New(rand.NewPCG(71, 1)), f, 30, 3)
	m := &kernels.Model{NoIntercept: true, Lik: f.l, Prior: kernels.DefaultPrior}
	p := problem(t, m, rows)
	a := fit(t, p)
	b, err := FitWith(context.Background(), p, Kernel{Prior: 60})
	if err != nil {
		t.Fatal(err)
	}
	for j, w := range a.Fit.Beliefs {
		close(t, "mean of "+w.Feature, b.Fit.Beliefs[j].Mean, w.Mean, 1e-5)
		close(t, "variance of "+w.Feature, b.Fit.Beliefs[j].Variance, w.Variance, 1e-5)
	}
	if _, err := FitWith(context.Background(), p, Kernel{Prior: 1000}); err == nil {
		t.Error("1000 nodes")
	}
}

// FuzzFit takes any batch: no panic, and beliefs that are Gaussians or an error.
func FuzzFit(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, uint8(1))
	f.Add([]byte{0, 200, 11, 0, 201, 13, 5, 255, 255, 17, 90, 3}, uint8(7))
	f.Add([]byte{7, 19, 240, 18, 6, 239, 77, 7, 238, 43, 8, 237, 9, 9, 9}, uint8(12))
	f.Add([]byte{3, 250, 250, 3, 251, 251, 3, 252, 252, 3, 253, 253}, uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, mode uint8) {
		names := []string{"logit", "poisson", "gaussian", "studentt", "gausslog"}
		fam := families(t)[names[int(mode)%len(names)]]
		m := &kernels.Model{NoIntercept: true, Lik: fam.l, Prior: kernels.DefaultPrior, HasTime: mode&32 != 0,
			Options: kernels.Options{Covariance: []string{"diagonal", "full", "lowrank"}[int(mode>>2)%3], MaxIter: 6, Rank: 3}}
		if mode&16 != 0 && m.Options.Covariance != "lowrank" {
			m.Noise = 0.1
		}
		m.Options.AutoPrior = mode&64 != 0
		scale := []float64{0, 1, -1, 0.5, 3, -20, 1e-3, 1e3, 1e8, 1e-160, 1e80, 1e150, -1e150, 1e-310, 1e200}
		var rows []row
		for len(data) >= 3 && len(rows) < 40 {
			w := row{x: map[string]float64{}, y: float64(data[0] % 2), w: 1, time: float64(data[1] % 16)}
			if names[int(mode)%len(names)] != "logit" {
				w.y = scale[int(data[0])%len(scale)]
				if names[int(mode)%len(names)] == "poisson" {
					w.y = math.Floor(math.Min(math.Abs(w.y), 1e9))
				}
			}
			k := 1 + int(data[2]%4)
			data = data[3:]
			for ; k > 0 && len(data) > 0; k-- {
				w.x[fmt.Sprint("f", data[0]%8)] = scale[int(data[0]>>3)%len(scale)]
				data = data[1:]
			}
			rows = append(rows, w)
		}
		r, err := Fit(context.Background(), problem(t, m, rows))
		if err != nil {
			return
		}
		if err := r.Fit.Check(); err != nil {
			t.Fatal(err)
		}
		if whole := 1000*(r.Skipped+r.Clamped) <= len(r.LOO); math.IsNaN(r.Fit.LogEvidence) == whole || r.Fit.Converged && !whole {
			t.Fatalf("evidence %v, converged %v, with %d rows that kept their site", r.Fit.LogEvidence, r.Fit.Converged, r.Skipped+r.Clamped)
		}
		_ = r.Trajectories(context.Background(), func(_ string, _, mean, variance float64) {
			if math.IsNaN(mean) || !(variance > 0) {
				t.Fatalf("trajectory %v %v", mean, variance)
			}
		})
	})
}

// A learnt parameter at the end of its range is said: the size of counts that do not vary
// more than poisson has it.
func TestEndOfRange(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	var rows []row
	for range 200 {
		y := 0.0
		for range 40 { // binomial: less than poisson
			if r.Float64() < 0.25 {
				y++
			}
		}
		rows = append(rows, row{x: map[string]float64{"a": r.NormFloat64()}, y: y})
	}
	m := &kernels.Model{Lik: like(t, "negbinomial", "log", lik.Params{Shape: 1}), Prior: kernels.Prior{Variance: 1, InterceptVariance: 10},
		Options: kernels.Options{AutoShape: true, Covariance: "full"}}
	if f := fit(t, problem(t, m, rows)).Fit; !strings.Contains(f.Status, "the end of its range") || f.Shape < 1e3 {
		t.Errorf("shape %v, status %q", f.Shape, f.Status)
	}
}

// Responses that are all the same bound no dispersion: the search ends at the end of one
// range, not of one after the other.
func TestConstantResponses(t *testing.T) {
	for _, family := range []string{"gaussian", "studentt"} {
		params := lik.Params{Shape: 4, Dispersion: 1}
		l, err := lik.New(family, "", params)
		if err != nil {
			t.Fatal(err)
		}
		m := &kernels.Model{Lik: l, Params: params, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "full", AutoDispersion: true, AutoShape: family == "studentt"}}
		var rows []row
		for i := range 50 {
			rows = append(rows, row{x: map[string]float64{"a": math.Sin(float64(i))}, y: 3})
		}
		got := fit(t, problem(t, m, rows)).Fit
		if strings.Count(got.Status, "dispersion by evidence ran to") != 1 {
			t.Errorf("%s: status %q", family, got.Status)
		}
		if d := got.Dispersion; !(d > 1e-11 && d < 1e-7) {
			t.Errorf("%s: dispersion %v", family, d)
		}
	}
}
