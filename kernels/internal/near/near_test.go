package near

import "testing"

// Names that other software has for an option or a family.
func TestSynonyms(t *testing.T) {
	allowed := []string{"dispersion", "negbinomial", "poisson", "prior_variance", "shape", "weight"}
	for found, want := range map[string]string{
		"quasipoisson": "negbinomial", "sample_weight": "weight", "theta": "shape", "df": "shape", "nu": "shape", "sigma": "dispersion", "lambda": "prior_variance", "l2": "prior_variance",
	} {
		if got := Word(found, allowed); got != want {
			t.Errorf("%s: %q, want %q", found, got, want)
		}
	}
}
