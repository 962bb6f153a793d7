package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// given are options as they are read.
type given map[string]any

func (g given) and(key string, value any) given {
	out := given{key: value}
	for k, v := range g {
		if k != key {
			out[k] = v
		}
	}
	return out
}

func (g given) settings(method string) (*option.Settings, error) {
	return option.For(method).Decode(func(yield func(string, option.Source) bool) {
		for k, v := range g {
			if !yield(k, option.Go(v)) {
				return
			}
		}
	})
}

// idleRows are few rows with a response that fits the family.
func idleRows(family string) *rows.Table {
	rnd := rand.New(rand.NewPCG(4, 2))
	var x, z, y []float64
	var g []string
	for i := range 120 {
		a, b := rnd.NormFloat64(), 3+rnd.NormFloat64()
		s := 0.7*a - 0.4*(b-3) + 0.5*rnd.NormFloat64()
		switch family {
		case "bernoulli":
			y = append(y, math.Round(1/(1+math.Exp(-2*s))))
		case "gaussian", "studentt":
			y = append(y, 5+s)
		default:
			y = append(y, 1+math.Round(math.Exp(s)))
		}
		x, z, g = append(x, a), append(z, b), append(g, fmt.Sprint("g", i%6))
	}
	return &rows.Table{X: rows.Fields(rows.Numbers("x", x), rows.Numbers("z", z), rows.Texts("g", g)), Y: rows.Numbers("y", y)}
}

func fitGiven(method string, g given, family string) (*kernels.Fit, error) {
	s, err := g.settings(method)
	if err != nil {
		return nil, err
	}
	r, err := engine.Fit(context.Background(), method, s, idleRows(family))
	if err != nil {
		return nil, err
	}
	return r.Fit, nil
}

// idleValues are values that are not the defaults.
var idleValues = map[string][]any{
	"prior_mean": {0.3}, "prior_variance": {0.4, "auto"}, "intercept_variance": {0.1}, "intercept": {false},
	"priors":   {[]kernels.Belief{{Feature: "x", Weight: kernels.Weight{Mean: 1, Variance: .1}}}},
	"sd_scale": {0.2}, "sd_freedom": {1}, "dispersion_scale": {0.05}, "dispersion_freedom": {1}, "third_order": {true},
	"dispersion": {0.3}, "shape": {2.5}, "process_noise": {0.01, "auto"}, "forgetting": {0.9}, "quadrature": {3},
	"covariance": {"diagonal", "lowrank"}, "hessian": {"diagonal", "lowrank"}, "rank": {2}, "oversample": {1}, "power_iterations": {0},
	"max_iter": {1}, "tol": {0.9}, "damping": {0.3}, "measurement_noise": {0.7, "auto"}, "noise_floor": {0.5},
	"samples": {30}, "warmup": {20}, "chains": {2}, "seed": {5}, "at": {map[string]float64{"x": 1}}, "reference": {"0"}, "hash_bits": {3},
}

// idleBases are what the other options may be.
var idleBases = []given{
	{}, {"family": "gaussian"}, {"family": "studentt"}, {"family": "poisson"}, {"prior_variance": 1.0}, {"prior_variance": "auto"}, {"prior_variance": "auto", "integrate": false}, {"family": "gaussian", "integrate": false},
	{"hessian": "full"}, {"hessian": "lowrank", "rank": 2}, {"covariance": "full"}, {"covariance": "lowrank", "rank": 2},
	{"intercept": false}, {"at": map[string]float64{"x": 1}}, {"measurement_noise": 0.3}, {"max_iter": 2}, {"rank": 2},
}

// excused says why an option changes nothing that would with other rows or in a longer search.
func excused(method string, base given, key string) string {
	switch {
	case key == "rank" || key == "oversample" || key == "power_iterations":
		return "of low-rank forms"
	case base["integrate"] == false && (strings.HasPrefix(key, "sd_") || strings.HasPrefix(key, "dispersion_")):
		return "learning with and without a prior is compared"
	case strings.HasPrefix(key, "sd_") && base["max_iter"] != nil:
		return "of a mode that is found"
	case key == "intercept_variance" && base["intercept"] == false:
		return "the fit keeps it"
	case (key == "max_iter" || key == "tol") && (base["at"] != nil || method == "ekf"):
		return "nothing is iterated, but by other methods of the same query"
	case key == "third_order":
		return map[bool]string{true: "the posterior is Gaussian, or its mode is not found"}[base["family"] == "gaussian" || base["max_iter"] != nil]
	case key == "max_iter":
		return map[bool]string{true: "one step is all it takes"}[base["family"] == "gaussian"]
	case key == "damping" || key == "tol" || key == "max_iter":
		return map[bool]string{true: "nothing is left to iterate"}[base["max_iter"] != nil]
	case key == "prior_variance":
		return map[bool]string{true: "classes learn it anyway, and so does adf"}[method == "softmax" || method == "adf"]
	case key == "seed":
		return "only random steps hear it"
	}
	return ""
}

// An option that is given changes the fit, or is an error: none is taken and ignored.
func TestNoIdleOption(t *testing.T) {
	kerneltest.Slow(t)
	refused, changed := 0, 0
	for _, m := range engine.Methods() {
		if m.Kind != engine.Weights && m.Kind != engine.Classes {
			continue
		}
		for _, base := range idleBases {
			if m.Name == "hmc" {
				if len(base) > 0 && base["rank"] == nil {
					continue // slow, and of its own it has draws
				}
				base = base.and("samples", 50).and("warmup", 50)
			}
			family, _ := base["family"].(string)
			if m.Name == "ep" && family == "studentt" {
				continue // slow
			}
			want, err := fitGiven(m.Name, base, cmp.Or(family, "bernoulli"))
			if err != nil {
				continue // not for this method
			}
			for _, key := range option.For(m.Name).Keys() {
				for _, v := range idleValues[key] {
					if reflect.DeepEqual(base[key], v) || excused(m.Name, base, key) != "" {
						continue
					}
					got, err := fitGiven(m.Name, base.and(key, v), cmp.Or(family, "bernoulli"))
					if err != nil {
						refused++
						continue
					}
					changed++
					if reflect.DeepEqual(got.Beliefs, want.Beliefs) && slices.Equal(got.Covariance.Values, want.Covariance.Values) && got.Covariance.Form == want.Covariance.Form &&
						got.LogEvidence == want.LogEvidence && got.Iterations == want.Iterations && got.Status == want.Status && got.Dispersion == want.Dispersion {
						t.Errorf("%s %v: %s = %v is taken and changes nothing", m.Name, base, key, v)
					}
				}
			}
		}
	}
	if refused < 20 || changed < 500 {
		t.Errorf("%d were refused and %d changed something: too few to tell", refused, changed)
	}
}

// What is refused says what it needs.
func TestIdleOptions(t *testing.T) {
	for _, c := range []struct {
		method, family string
		g              given
		want           string
	}{
		{"adf", "bernoulli", given{"rank": 3}, "rank would change nothing here; it needs covariance 'lowrank'"},
		{"ekf", "bernoulli", given{"rank": 3}, "rank would change nothing here; it needs covariance 'lowrank'"},
		{"adf", "bernoulli", given{"rank": 3, "covariance": "lowrank"}, ""},
		{"adf", "bernoulli", given{"rank": 3, "covariance": "full"}, ""},
		{"laplace", "bernoulli", given{"sd_scale": 2.0}, "sd_scale would change nothing here; it needs prior variances that are learnt"},
		{"laplace", "bernoulli", given{"sd_scale": 2.0, "prior_variance": "auto"}, ""},
		{"laplace", "bernoulli", given{"sd_freedom": 1.0, "prior_variance": "auto", "integrate": false}, ""},
		{"laplace", "bernoulli", given{"sd_freedom": 1.0, "prior_variance": 2.0}, "sd_freedom would change nothing"},
		{"laplace", "bernoulli", given{"dispersion_scale": 2.0}, "dispersion_scale would change nothing here; it needs a dispersion that is learnt"},
		{"laplace", "gaussian", given{"family": "gaussian", "dispersion_scale": 2.0}, ""},
		{"laplace", "gaussian", given{"family": "gaussian", "dispersion_scale": 2.0, "dispersion": 1.0}, "dispersion_scale would change nothing"},
		{"ekf", "bernoulli", given{"noise_floor": 0.1}, "noise_floor would change nothing here; it needs measurement_noise 'auto'"},
	} {
		if _, err := fitGiven(c.method, c.g, c.family); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %v: %v, want %q", c.method, c.g, err, c.want)
		}
	}
}
