package engine

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
)

// The list of options speaks of functions that there are, and every method has the common
// ones.
func TestUses(t *testing.T) {
	known := map[string]bool{Auto: true, "fit": true, "from_beliefs": true, "influence": true, "loo": true, "loo_compare": true, "robust": true, "effects": true, "drivers": true, "ppc": true, "sql": true, "summary": true, "pit": true, "features": true}
	for _, m := range Methods() {
		known[m.Name] = true
		if m.Kind == Process {
			continue
		}
		for _, key := range []string{"prior_variance", "intercept", "prior", "hash_bits", "on_error", "weight"} {
			if _, err := option.For(m.Name).Find(key); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
	for _, p := range option.All() {
		for _, f := range strings.Fields(p.Uses) {
			if !known[f] {
				t.Errorf("option %s is used by %s, which is no function", p.Key, f)
			}
		}
	}
}

// The covariance functions that the option names are those that there are.
func TestCovarianceFunctions(t *testing.T) {
	if words := option.Of("kernel").Words(); !slices.Equal(words, gp.Kernels) {
		t.Errorf("option kernel takes %q, package gp has %q", words, gp.Kernels)
	}
}

func with(options ...any) iter.Seq2[string, option.Source] {
	return func(yield func(string, option.Source) bool) {
		for i := 0; i < len(options); i += 2 {
			if !yield(options[i].(string), option.Go(options[i+1])) {
				return
			}
		}
	}
}

func modelOf(t *testing.T, method string, options ...any) (*kernels.Model, error) {
	t.Helper()
	m, err := Find(method)
	if err != nil {
		t.Fatal(err)
	}
	s, err := option.For(method).Decode(with(options...))
	if err != nil {
		t.Fatal(err)
	}
	return m.Model(s, false, false)
}

// Fits of equal options may be merged, whatever is automatic in them; a wanted 0 is not the
// default.
func TestAgrees(t *testing.T) {
	for _, c := range []struct {
		method string
		a, b   []any
		agree  bool
	}{
		{"ekf", []any{"measurement_noise", "auto"}, []any{"measurement_noise", "auto"}, true},
		{"ekf", []any{"measurement_noise", "auto"}, []any{}, false},
		{"ekf", []any{"measurement_noise", "bernoulli"}, []any{}, true},
		{"lowrank", []any{"oversample", 0}, []any{}, false},
		{"lowrank", []any{"oversample", 0}, []any{"oversample", 0}, true},
		{"laplace", []any{"at", map[string]float64{"a": 1}}, []any{"at", map[string]float64{"a": 1}}, true},
		{"laplace", []any{"at", map[string]float64{"a": 1}}, []any{"at", map[string]float64{"a": 2}}, false},
		{"laplace", []any{"family", "gamma", "shape", 1}, []any{"family", "gamma", "shape", 1}, true},
		{"laplace", []any{}, []any{}, true},
	} {
		a, errA := modelOf(t, c.method, c.a...)
		b, errB := modelOf(t, c.method, c.b...)
		if errA != nil || errB != nil || a.Agrees(b) != c.agree {
			t.Errorf("%s: %v and %v: %v %v, want %v", c.method, c.a, c.b, errA, errB, c.agree)
		}
	}
}

func families() string {
	var names []string
	for _, f := range lik.Families() {
		names = append(names, f.Family)
	}
	return strings.Join(names, ", ")
}

func TestModelErrors(t *testing.T) {
	for _, c := range []struct {
		method string
		o      []any
		want   string
	}{
		{"ekf", []any{"prior_variance", "auto"}, "ekf sees each row once and takes a number here; 'auto' belongs to: ep, laplace, lowrank, hmc"},
		{"adf", []any{"prior_variance", "auto", "process_noise", 1}, "found 'auto'; adf learns it with covariance 'arrowhead' and an intercept where no other prior is given"},
		{"adf", []any{"prior_variance", "auto", "covariance", "full"}, "adf learns it with covariance 'arrowhead'"},
		{"adf", []any{"prior_variance", "auto", "intercept", false}, "adf learns it with covariance 'arrowhead'"},
		{"adf", []any{"dispersion", "auto", "family", "studentt", "prior_variance", 1}, "adf learns it in the unit of the responses, which they have if numbers are standardised"},
		{"ekf", []any{"shape", "auto", "family", "negbinomial"}, "'auto' belongs to: adf, ep, laplace, lowrank, hmc"},
		{"ekf", []any{"shape", "auto", "family", "studentt"}, "'auto' belongs to: ep, laplace, lowrank, hmc"},
		{"adf", []any{"shape", "auto", "family", "studentt"}, "adf sees each row once"},
		{"adf", []any{"family", "binomial"}, "trials: found none"},
		{"adf", []any{"dispersion", 2}, "dispersion is not used by bernoulli; it belongs to: gaussian, studentt"},
		{"adf", []any{"family", "normal"}, "family: found 'normal'; allowed: " + families() + "; the nearest is gaussian"},
		{"adf", []any{"process_noise", 1, "prior", &kernels.Fit{Family: "bernoulli", Link: "logit", Time: 3, N: 1, Intercept: true}}, "time: found none; the prior fit is valid at time 3"},
	} {
		if _, err := modelOf(t, c.method, c.o...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %s", c.method, c.o, err, c.want)
		}
	}
	m, err := modelOf(t, "adf", "hash_bits", 4, "priors", []kernels.Belief{{Feature: "a"}}, "process_noise", map[string]float64{"a": 1, "(Intercept)": 2})
	if err != nil || !strings.HasPrefix(m.Priors[0].Feature, "#") || len(m.NoiseBy) != 2 || m.NoiseBy["(Intercept)"] != 2 {
		t.Error(fmt.Sprint(m), err)
	}
	for found, want := range map[string]string{"bglm_laplace": "laplace", "ADF": "adf", "nuts": "hmc", "laplase": "laplace"} {
		if _, err := Find(found); err == nil || !strings.HasSuffix(err.Error(), "the nearest is "+want) {
			t.Errorf("%s: %v", found, err)
		}
	}
}
