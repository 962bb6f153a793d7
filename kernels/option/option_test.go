package option

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
)

func given(options map[string]any) iter.Seq2[string, Source] {
	return func(yield func(string, Source) bool) {
		for k, v := range options {
			var s Source
			if v != nil {
				s = Go(v)
			}
			if !yield(k, s) {
				return
			}
		}
	}
}

// Every entry is whole: a text for the user, forms that read, defaults within range.
func TestList(t *testing.T) {
	for _, p := range All() {
		if p.Key == "" || p.Default == "" || p.Allowed(nil) == "" || p.Doc == "" || strings.TrimSpace(p.Uses) == "" || len(p.forms) == 0 {
			t.Errorf("%+v", p)
		}
	}
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

// What a key says is set is what is set, a wanted 0 and 'auto' among them.
func TestDecode(t *testing.T) {
	s, err := For("laplace", "ekf", "gp", "adf").Decode(given(map[string]any{
		"Link": "PROBIT", "prior_variance": "auto", "prior_mean": 0, "oversample": 0, "rank": nil, "measurement_noise": "Auto", "seed": 7, "time_limit": 1.5,
		"quadrature": "auto", "at_": map[string]float64{"b": 2, "a": 1}, "standardize": true, "lengthscale": "auto", "process_noise": map[string]any{"a": 0.5, "b": nil},
		"priors": []any{map[string]any{"feature": "a", "mean": 1.0, "variance": 2.0}}, "offset_": 3,
	}))
	if err != nil {
		t.Fatal(err)
	}
	o := s.Options
	if s.Link != "probit" || !o.AutoPrior || s.Prior != kernels.DefaultPrior || o.Oversample != kernels.Given(0) || o.PowerIterations.Or(2) != 2 || o.Rank != 0 ||
		!o.AutoMeasurementNoise || o.MeasurementNoise != 0 || o.Seed != 7 || o.TimeLimit != 1500*time.Millisecond || s.Params.Quadrature != 0 || !s.Standardize.Or(false) ||
		!s.Options.Process.AutoLengthscale || fmt.Sprint(s.At) != "[{a {1 0}} {b {2 0}}]" || !maps.Equal(s.NoiseBy, map[string]float64{"a": 0.5}) || fmt.Sprint(s.Priors) != "[{a {1 2}}]" {
		t.Errorf("%+v", s)
	}
	if !s.Given("prior_mean") || s.Given("rank") || s.Given("intercept") {
		t.Error("given:", s.given)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		key  string
		v    any
		want string
	}{
		{"prior_varience", 1, `prior_varience is unknown; the nearest is prior_variance`},
		{"foo", 1, `foo is unknown; allowed: family, link`},
		{"samples", 1, "samples is not used here; it belongs to: hmc; allowed: family"},
		{"prior_variance", -1, "prior_variance: found -1; allowed: a finite number >= 0, 'auto' or these by column"},
		{"prior_variance", "1", "prior_variance: found '1' (string); allowed"},
		{"hessian", "fll", "hessian: found 'fll'; allowed: 'auto', 'full', 'diagonal', 'block' or 'lowrank'"},
		{"hessian", 1, "hessian: found 1 (int)"},
		{"rank", 0, "rank: found 0; allowed: a whole number from 1 to 10000"},
		{"rank", 1.5, "found 1.5"},
		{"tol", 1, "allowed: a number in (0, 1)"},
		{"intercept", "no", "intercept: found 'no' (string); allowed: true or false"},
		{"priors", 1, "priors: found 1 (int); allowed: beliefs by feature"},
		{"priors", []kernels.Belief{{Feature: "a"}, {Feature: "a"}}, `priors: feature "a" has more than one belief`},
		{"priors", []any{map[string]any{"feature": "a", "mean": 1, "variance": 2, "class": "b"}}, "priors: found beliefs with a class; allowed: feature, mean and variance"},
		{"priors", []kernels.Belief{{Feature: "a", Weight: kernels.Weight{Variance: -1}}}, `priors: feature "a": variance = -1`},
		{"prior", 1, "prior: found 1 (int); allowed: a fit"},
		{"at", map[string]any{"a": nil}, `at: feature "a" has no number`},
	} {
		_, err := For("laplace").Decode(given(map[string]any{c.key: c.v}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: %v; want %s", c.key, c.v, err, c.want)
		}
	}
	if _, err := For("adf").Decode(given(map[string]any{"offset": 1, "offset_": 2})); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Error(err)
	}
	if _, err := For("adf").Decode(given(map[string]any{"forgetting": 0.9, "process_noise": "auto"})); err == nil || !strings.Contains(err.Error(), "two models of drift") {
		t.Error(err)
	}
}

// Validate finds in a struct what Decode would not have set.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		set  func(*Settings)
		want string
	}{
		{func(s *Settings) { s.Options.Rank = -1 }, "rank: found -1; allowed: a whole number from 1 to 10000"},
		{func(s *Settings) { s.Options.Oversample = kernels.Given(-1) }, "oversample: found -1"},
		{func(s *Settings) { s.Options.Hessian = "best" }, "hessian: found 'best'"},
		{func(s *Settings) { s.Options.TimeLimit = -time.Second }, "time_limit: found -1"},
		{func(s *Settings) { s.Options.Process.Kernel = "rbff" }, "kernel: found 'rbff'"},
		{func(s *Settings) { s.Prior.Variance = -2 }, "prior_variance: found -2"},
		{func(s *Settings) { s.NoiseBy = map[string]float64{"a": 1, "u": -1} }, `process_noise: feature "u" has -1; allowed: a finite number >= 0`},
		{func(s *Settings) { s.Noise, s.Forgetting = 0.1, 0.9 }, "process_noise and forgetting are two models of drift"},
		{func(s *Settings) { s.Priors = []kernels.Belief{{Feature: "a"}, {Feature: "a"}} }, `priors: feature "a" has more than one belief`},
		{func(s *Settings) {
			s.Priors = []kernels.Belief{{Feature: "a", Weight: kernels.Weight{Variance: math.NaN()}}}
		}, `priors: feature "a": variance = NaN`},
		{func(s *Settings) { s.At = []kernels.Belief{{Feature: "a"}, {Feature: "a"}} }, `at: feature "a" has more than one belief`},
		{func(s *Settings) { s.PriorBy = kernels.ColumnPriors{{Column: "a", Variance: -1}} }, `prior_variance: column "a" has -1; allowed: a finite number >= 0 or 'auto'`},
		{func(s *Settings) {
			s.PriorBy = kernels.ColumnPriors{{Column: "a", Auto: true}, {Column: "A", Auto: true}}
		}, `prior_variance: column "A" is there twice`},
		{func(s *Settings) { s.Correlated = [][]string{{"a"}} }, "correlated: a set of 1; allowed: two columns or more"},
	} {
		s := Defaults()
		c.set(s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// What Continue does not find among the options given is the fit's, the rest must agree.
func TestContinue(t *testing.T) {
	f := &kernels.Fit{Family: "gaussian", Link: "identity", Dispersion: 3, HashBits: 4, Prior: kernels.Prior{Mean: 1, Variance: 2, InterceptVariance: 3}}
	s, err := For("adf").Decode(given(map[string]any{"prior": f, "prior_mean": 0}))
	if err != nil || s.Family != "gaussian" || s.Params.Dispersion != 3 || s.HashBits != 4 || !s.NoIntercept || s.Prior != (kernels.Prior{Mean: 0, Variance: 2, InterceptVariance: 3}) {
		t.Errorf("%+v %v", s, err)
	}
	for key, v := range map[string]any{"link": "probit", "family": "poisson", "hash_bits": 5, "intercept": true} {
		if _, err := For("adf").Decode(given(map[string]any{"prior": f, key: v})); err == nil || !strings.Contains(err.Error(), "the prior fit has") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// What an option that a method does not have was set to is an error, of every form but lists; what
// it has, and defaults, are none.
func TestUnused(t *testing.T) {
	none, all := Specs{}, All()
	if err := none.Unused(Defaults()); err != nil {
		t.Error(err)
	}
	if err := none.Unused(&Settings{}); err != nil {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, p := range all {
		if p.Key == "method" || p.Row {
			continue
		}
		values := []any{0.25, 3, 5, 7.5, true, false}
		for _, w := range p.Words() {
			values = append(values, w)
		}
		for _, v := range values {
			s, err := Specs{p}.Decode(maps.All(map[string]Source{p.Key: Go(v)}))
			if err != nil || none.Unused(s) == nil { // not of this form, or the default
				continue
			}
			seen[p.Key] = true
			var e *argument.Error
			if !errors.As(none.Unused(s), &e) || e.Name != p.Key || e.Found == "" {
				t.Errorf("%s = %v: %v", p.Key, v, none.Unused(s))
			}
			if err := all.Unused(s); err != nil {
				t.Errorf("%s = %v: %v", p.Key, v, err)
			}
			if err := (Specs{p}).Unused(s); err != nil {
				t.Errorf("%s = %v: %v", p.Key, v, err)
			}
		}
	}
	lists := []string{"correlated", "priors", "prior", "at", "around"}
	texts := []string{"family", "link", "reference", "table", "keep"}
	for _, key := range all.Keys() {
		if p := Of(key); !seen[key] && key != "method" && !p.Row && !slices.Contains(lists, key) && !slices.Contains(texts, key) {
			t.Errorf("%s was never seen", key)
		}
	}
}
