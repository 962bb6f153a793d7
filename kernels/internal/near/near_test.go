package near

import "testing"

// Names that other software has for an option or a family.
func TestSynonyms(t *testing.T) {
	allowed := []string{"dispersion", "family", "level", "max_iter", "method", "negbinomial", "offset", "poisson", "prior_variance", "reference", "seed", "shape", "weight"}
	for found, want := range map[string]string{
		"quasipoisson": "negbinomial", "sample_weight": "weight", "theta": "shape", "df": "shape", "nu": "shape", "sigma": "dispersion", "lambda": "prior_variance", "l2": "prior_variance",
		"c": "prior_variance", "alpha": "prior_variance", "penalty": "prior_variance", "regularization": "prior_variance", "regularisation": "prior_variance", "ridge": "prior_variance",
		"exposure": "offset", "noise": "dispersion", "distribution": "family", "solver": "method", "iterations": "max_iter", "n_iter": "max_iter", "random_state": "seed",
		"baseline": "reference", "confidence": "level",
	} {
		if got := Word(found, allowed); got != want {
			t.Errorf("%s: %q, want %q", found, got, want)
		}
	}
}
