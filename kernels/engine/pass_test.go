package engine

import (
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// passes fits rows [0, n) of a table in parts by Newton's steps from around, nil for none, and
// returns how many passes it took. Every state goes through bytes.
func passes(t *testing.T, set func(*option.Settings), tab *rows.Table, parts int, around *kernels.Fit) (*kernels.Fit, int) {
	t.Helper()
	return passesBy(t, func() *option.Settings {
		s := plain(t)
		set(s)
		return s
	}, tab, parts, around)
}

// passesBy is passes with settings made anew for each.
func passesBy(t *testing.T, settings func() *option.Settings, tab *rows.Table, parts int, around *kernels.Fit) (*kernels.Fit, int) {
	t.Helper()
	m, err := Find("newton_state")
	if err != nil {
		t.Fatal(err)
	}
	for k := range 30 {
		s := settings()
		s.Around = around
		model, err := m.Model(s, false, tab.Trials != nil)
		if err != nil {
			t.Fatal(err)
		}
		var whole *laplace.Pass
		for i := range parts {
			f, err := m.New(context.Background(), model)
			if err != nil {
				t.Fatal(err)
			}
			src, err := tab.Source()
			if err != nil {
				t.Fatal(err)
			}
			n := tab.Len()
			if _, err := src.Feed(context.Background(), f, model, option.Skip, i*n/parts, (i+1)*n/parts, &kernels.Batch{}); err != nil {
				t.Fatal(err)
			}
			r, err := f.Fit(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			p, err := laplace.DecodePass(r.Pass.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if whole == nil {
				whole = p
			} else if err := whole.Merge(context.Background(), p); err != nil {
				t.Fatal(err)
			}
		}
		step, err := whole.Solve(context.Background(), model)
		if err != nil {
			t.Fatal(err)
		}
		if around = step.Fit; around.Converged {
			return around, k + 1
		}
	}
	t.Fatal("no convergence in 30 passes")
	return nil, 0
}

// plain are settings of laplace that take the highest evidence, without integrating.
func plain(t *testing.T) *option.Settings {
	t.Helper()
	s, err := option.For("laplace").Decode(maps.All(map[string]option.Source{"integrate": option.JSON([]byte("false"), "BOOLEAN")}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// near compares two fits of the same rows.
func near(t *testing.T, what string, got, want *kernels.Fit, tol float64) {
	t.Helper()
	if got.N != want.N || got.Skipped != want.Skipped || len(got.Beliefs) != len(want.Beliefs) || len(got.Columns) != len(want.Columns) {
		t.Fatalf("%s: %d rows, %d beliefs; want %d, %d", what, got.N, len(got.Beliefs), want.N, len(want.Beliefs))
	}
	kerneltest.Close(t, what+": log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: tol})
	kerneltest.Close(t, what+": dispersion", got.Dispersion, want.Dispersion, kerneltest.Tol{Rel: 100 * tol})
	for k, c := range want.Columns {
		g := got.Columns[k]
		if g.Name != c.Name || g.N != c.N || g.Missing != c.Missing || g.Kind != c.Kind {
			t.Errorf("%s: column %+v, want %+v", what, g, c)
		}
		kerneltest.Close(t, what+": center of "+c.Name, g.Center, c.Center, kerneltest.Tol{Rel: 1e-12})
		kerneltest.Close(t, what+": scale of "+c.Name, g.Scale, c.Scale, kerneltest.Tol{Rel: 1e-10})
	}
	for i, b := range want.Beliefs {
		if got.Beliefs[i].Feature != b.Feature {
			t.Fatalf("%s: feature %s, want %s", what, got.Beliefs[i].Feature, b.Feature)
		}
		kerneltest.Close(t, what+": mean of "+b.Feature, got.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Rel: tol, Abs: tol * math.Sqrt(b.Variance)})
		kerneltest.Close(t, what+": variance of "+b.Feature, got.Beliefs[i].Variance, b.Variance, kerneltest.Tol{Rel: 3 * tol})
	}
	for i, v := range want.Covariance.Values {
		if math.Abs(got.Covariance.Values[i]-v) > 1e-6*math.Abs(want.Covariance.Values[0]) {
			t.Errorf("%s: covariance value %d is %v, want %v", what, i, got.Covariance.Values[i], v)
			break
		}
	}
}

// Passes end at the fit of the rows kept, for every family they go for, with weights and
// offsets, numbers standardised or not, from nothing and from a sample's fit.
func TestPasses(t *testing.T) {
	for _, c := range []struct{ family, link string }{
		{"bernoulli", "logit"}, {"bernoulli", "probit"}, {"bernoulli", "cloglog"}, {"binomial", "logit"}, {"poisson", "log"}, {"gamma", "log"}, {"gaussian", "identity"},
	} {
		for k := range 6 {
			weighted, standardised := k&1 > 0, k < 4
			set := func(s *option.Settings) {
				s.Family, s.Link, s.Params.Shape = c.family, c.link, 3
				s.Options.Tol = 1e-9
				if s.Standardize = kernels.Given(standardised); !standardised {
					s.Prior = kernels.Prior{Mean: 0.1, Variance: 2, InterceptVariance: 30}
				}
				s.NoIntercept = k == 3
				if k == 5 {
					s.Params.Dispersion = 1.3
				}
			}
			tab := few(600, c.family, weighted, k&2 > 0)
			s := plain(t)
			set(s)
			want, err := Fit(context.Background(), "laplace", s, tab)
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%s %s, %d", c.family, c.link, k)
			tol := 1e-8
			if c.family == "gaussian" && k < 5 {
				tol = 1e-6 // of the search for the dispersion
			}
			got, n := passes(t, set, tab, 3, nil)
			near(t, what, got, want.Fit, tol)
			s = option.Defaults()
			set(s)
			sample, err := Fit(context.Background(), "laplace", s, few(150, c.family, weighted, k&2 > 0))
			if err != nil {
				t.Fatal(err)
			}
			again, fewer := passes(t, set, tab, 1, sample.Fit)
			near(t, what+" from a sample", again, want.Fit, tol)
			if fewer > max(n, 2) {
				t.Errorf("%s: %d passes from a sample, %d from nothing", what, fewer, n)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// Prior variances and dispersions that are learnt are those of the rows kept, from nothing and
// from a sample's fit, to what the search for the highest evidence leaves open; where they are
// integrated over, to second order in the width of the posterior.
func TestPassesLearn(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct {
		family, link string
		n            int
		integrated   float64 // in deviations
	}{
		{"bernoulli", "logit", 2000, 0.02}, {"binomial", "probit", 1000, 0.02}, {"poisson", "log", 1000, 0.02}, {"gaussian", "identity", 500, 1e-4},
	} {
		for k := range 6 {
			integrate, standardised := k&1 > 0, k < 4
			if c.family == "poisson" && k == 4 {
				continue // the evidence has two maxima, apart by 2 nats, of which passes find one
			}
			tab := few(c.n, c.family, k == 2, k&2 > 0)
			set := func(s *option.Settings) {
				s.Family, s.Link = c.family, c.link
				s.Standardize = kernels.Given(standardised)
				s.Options.AutoPrior, s.Options.Integrate = k != 3, integrate
				if k == 3 { // of one column
					s.PriorBy = kernels.ColumnPriors{{Column: "g", Auto: true}}
				}
				s.NoIntercept = k == 2
				if c.family == "gaussian" { // else by quartiles, which passes do not have
					s.Options.SDScale, s.Options.DispersionScale = 2, 3
				}
			}
			decoded := func() *option.Settings {
				s, err := option.For("laplace").Decode(maps.All(map[string]option.Source{"integrate": option.JSON(fmt.Append(nil, integrate), "BOOLEAN")}))
				if err != nil {
					t.Fatal(err)
				}
				set(s)
				return s
			}
			want, err := Fit(context.Background(), "laplace", decoded(), tab)
			if err != nil {
				t.Fatal(err)
			}
			sample, err := Fit(context.Background(), "laplace", decoded(), few(200, c.family, k == 2, k&2 > 0))
			if err != nil {
				t.Fatal(err)
			}
			tol := 1e-5
			if integrate {
				tol = c.integrated
			}
			for what, around := range map[string]*kernels.Fit{"nothing": nil, "a sample": sample.Fit} {
				what = fmt.Sprintf("%s %s, %d, from %s", c.family, c.link, k, what)
				got, n := passesBy(t, decoded, tab, 3, around)
				if n > 8 {
					t.Errorf("%s: %d passes", what, n)
				}
				likes(t, what, got, want.Fit, tol)
			}
		}
	}
}

// likes compares two fits of the same rows that learn variances: means in deviations, others
// in shares.
func likes(t *testing.T, what string, got, want *kernels.Fit, tol float64) {
	t.Helper()
	share := kerneltest.Tol{Rel: 3 * tol}
	kerneltest.Close(t, what+": log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Abs: 3 * tol})
	kerneltest.Close(t, what+": dispersion", got.Dispersion, want.Dispersion, share)
	kerneltest.Close(t, what+": prior variance", got.Prior.Variance, want.Prior.Variance, kerneltest.Tol{Rel: 10 * tol})
	for i, b := range want.Beliefs {
		kerneltest.Close(t, what+": mean of "+b.Feature, got.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Abs: tol * math.Sqrt(b.Variance)})
		kerneltest.Close(t, what+": variance of "+b.Feature, got.Beliefs[i].Variance, b.Variance, share)
	}
	for k, c := range want.Columns {
		kerneltest.Close(t, what+": prior variance of "+c.Name, got.Columns[k].Variance, c.Variance, kerneltest.Tol{Rel: 10 * tol})
		if _, sd, ok := c.Deviation(); ok {
			kerneltest.Close(t, what+": deviation of "+c.Name, got.Columns[k].Center, c.Center, share)
			kerneltest.Close(t, what+": its deviation", got.Columns[k].Scale, sd, kerneltest.Tol{Rel: 10 * tol})
		}
	}
}

// Parts merge to the whole in any order and grouping; one of skipped rows alone changes
// nothing but their count, and a merge not its source.
func TestPassMerge(t *testing.T) {
	part := func(lo, hi int) *laplace.Pass {
		f := door(t, "newton_state", nil)
		feed(t, f, lo, hi, 64)
		r, err := f.Fit(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return r.Pass
	}
	cuts := []int{0, 49, 50, 210, 600, 900} // the second part is a bad row
	join := func(order ...int) *laplace.Pass {
		all := part(0, 0)
		for _, k := range order {
			p := part(cuts[k], cuts[k+1])
			before := string(p.Bytes())
			if err := all.Merge(context.Background(), p); err != nil {
				t.Fatal(err)
			}
			if string(p.Bytes()) != before {
				t.Error("a merge changed its source")
			}
		}
		return all
	}
	left, right := join(3, 1), join(4, 0, 2)
	if err := right.Merge(context.Background(), left); err != nil {
		t.Fatal(err)
	}
	m, err := Find("newton_state")
	if err != nil {
		t.Fatal(err)
	}
	model, err := m.Model(option.Defaults(), false, false)
	if err != nil {
		t.Fatal(err)
	}
	want, err := part(0, 900).Solve(context.Background(), model)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*laplace.Pass{right, join(4, 3, 2, 1, 0), join(0, 1, 2, 3, 4)} {
		got, err := p.Solve(context.Background(), model)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "merged", got.Fit, want.Fit, 1e-12)
	}
}

// What passes cannot say is an error that names the argument; so are states that do not
// belong together, and bytes that are none.
func TestPassErrors(t *testing.T) {
	for want, set := range map[string]func(*option.Settings){
		"correlated: found":        func(s *option.Settings) { s.Correlated = [][]string{{"g", "x"}} },
		"shape: found 'auto'":      func(s *option.Settings) { s.Family = "gamma" },
		"dispersion: found 'auto'": func(s *option.Settings) { s.Family, s.Params.Shape = "studentt", 4 },
		"gaussian with link log":   func(s *option.Settings) { s.Family, s.Link, s.Params.Dispersion = "gaussian", "log", 2 },
		"process_noise: found 0.1": func(s *option.Settings) { s.Noise = 0.1 },
	} {
		s := option.Defaults()
		set(s)
		if _, err := Fit(context.Background(), "newton_state", s, few(40, "bernoulli", false, false)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	pass := func(set func(*option.Settings)) *laplace.Pass {
		f := door(t, "newton_state", set)
		feed(t, f, 0, 100, 100)
		r, err := f.Fit(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return r.Pass
	}
	start := fitted(t, func() Fitter { f := door(t, "laplace", nil); feed(t, f, 0, 100, 100); return f }())
	plain := pass(nil)
	for want, other := range map[string]*laplace.Pass{
		"passes of different models": pass(func(s *option.Settings) { s.Link = "probit" }),
		"method laplace, and":        pass(func(s *option.Settings) { s.Options.Sites = "ep" }),
		"around different fits":      pass(func(s *option.Settings) { s.Around = start }),
	} {
		if err := plain.Clone().Merge(context.Background(), other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	b := plain.Bytes()
	later := slices.Clone(b)
	later[9]++
	changed := slices.Clone(b)
	changed[len(b)/2] ^= 1
	for what, bad := range map[string][]byte{"no bytes": nil, "cut": b[:len(b)-9], "another layout": later, "changed": changed, "longer": append(slices.Clone(b), 0)} {
		if _, err := laplace.DecodePass(bad); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// Passes with the sites of expectation propagation end at the fit of the rows kept, for every
// family they go for, from nothing and from a sample's fit, with the prior variances of the
// highest evidence.
func TestPassesEP(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct{ family, link string }{
		{"bernoulli", "logit"}, {"bernoulli", "probit"}, {"bernoulli", "cloglog"}, {"binomial", "logit"}, {"poisson", "log"}, {"gamma", "log"}, {"gaussian", "identity"},
	} {
		for k := range 5 {
			weighted, standardised := k&1 > 0, k < 3
			decoded := func(method string) *option.Settings {
				s := option.Defaults()
				if method == "ep" { // passes take the variances of the highest evidence
					var err error
					if s, err = option.For("ep").Decode(with("integrate", false)); err != nil {
						t.Fatal(err)
					}
				}
				s.Family, s.Link, s.Params.Shape = c.family, c.link, 3
				if method == "ep" {
					s.Options.Covariance, s.Options.Tol = "full", 1e-11
				} else {
					s.Options.Sites = "ep"
				}
				if s.Standardize = kernels.Given(standardised); !standardised {
					s.Prior = kernels.Prior{Mean: 0.1, Variance: 2, InterceptVariance: 30}
				}
				s.NoIntercept = k == 2
				s.Params.Dispersion = 1.3
				s.Options.AutoPrior = k == 4
				return s
			}
			tab := few(600, c.family, weighted, k&2 > 0)
			want, err := Fit(context.Background(), "ep", decoded("ep"), tab)
			if err != nil {
				t.Fatal(err)
			}
			sample, err := Fit(context.Background(), "laplace", func() *option.Settings { s := decoded(""); s.Options.Sites = ""; return s }(), few(150, c.family, weighted, k&2 > 0))
			if err != nil {
				t.Fatal(err)
			}
			for what, around := range map[string]*kernels.Fit{"nothing": nil, "a sample": sample.Fit} {
				what = fmt.Sprintf("%s %s, %d, from %s", c.family, c.link, k, what)
				got, n := passesBy(t, func() *option.Settings { return decoded("") }, tab, 3, around)
				t.Logf("%s: %d passes, %d sweeps %v", what, n, want.Iterations, want.Status)
				if k == 4 {
					likes(t, what, got, want.Fit, 1e-3) // of the search by the rows kept, which ends at 1e-4 of the logarithms
					if got.LogEvidence < want.LogEvidence-1e-9 {
						t.Errorf("%s: log evidence %v, less than %v", what, got.LogEvidence, want.LogEvidence)
					}
				} else {
					near(t, what, got, want.Fit, 1e-8)
				}
				if got.Method != "ep" {
					t.Errorf("%s: method %s", what, got.Method)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// A row that says nearly all there is of a weight has no cavity with digits: Laplace's factor
// stands for it, which is next to its site, and status counts it.
func TestPassesBare(t *testing.T) {
	const n = 400
	g, y := make([]string, n), make([]float64, n)
	for i := range n {
		g[i], y[i] = fmt.Sprint("g", i%4), float64(i%7)
	}
	g[5], y[5] = "alone", 3e8
	tab := &rows.Table{X: rows.Fields(rows.Texts("g", g)), Y: rows.Numbers("y", y)}
	settings := func() *option.Settings {
		s := option.Defaults()
		s.Family, s.Prior = "poisson", kernels.Prior{Variance: 100, InterceptVariance: 100}
		s.Standardize = kernels.Given(false)
		return s
	}
	s := settings()
	s.Options.Covariance = "full"
	want, err := Fit(context.Background(), "ep", s, tab)
	if err != nil {
		t.Fatal(err)
	}
	s = settings()
	around, err := Fit(context.Background(), "laplace", s, tab)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := passesBy(t, func() *option.Settings { s := settings(); s.Options.Sites = "ep"; return s }, tab, 2, around.Fit)
	if !strings.Contains(got.Status, "1 of 400 rows have no proper cavity") {
		t.Error(got.Status)
	}
	for i, b := range want.Beliefs {
		kerneltest.Close(t, "mean of "+b.Feature, got.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Abs: 1e-4 * math.Sqrt(b.Variance)})
		kerneltest.Close(t, "variance of "+b.Feature, got.Beliefs[i].Variance, b.Variance, kerneltest.Tol{Rel: 1e-4}) // the curvature is 3e10 times the prior's precision: 6e-6 and more is rounding
	}
}

// A given offset that keeps a fit of 0/1 responses from their mean is said by passes as by the fit of
// the rows kept, with the same losses; of other responses the sums do not say enough.
func TestPassesBeside(t *testing.T) {
	tab := few(600, "bernoulli", true, true)
	far := make([]float64, tab.Len())
	for i := range far {
		far[i] = 3 * math.Sin(float64(i))
	}
	tab.Offset = rows.Numbers("o", far)
	beside := regexp.MustCompile("the fit's own rows have a log loss of .*")
	s := plain(t)
	want, err := Fit(context.Background(), "laplace", s, tab)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := passes(t, func(*option.Settings) {}, tab, 3, nil)
	if note := beside.FindString(want.Fit.Status); note == "" || beside.FindString(got.Status) != note {
		t.Errorf("status %q, of the rows kept %q", got.Status, want.Fit.Status)
	}
	low, _ := lowRankPasses(t, []any{"rank", 3}, tab, 3)
	if !beside.MatchString(low.Status) {
		t.Errorf("status of a low rank %q", low.Status)
	}
	tab.Offset = nil
	got, _ = passes(t, func(*option.Settings) {}, tab, 3, nil)
	if beside.MatchString(got.Status) {
		t.Errorf("without an offset: %q", got.Status)
	}
}
