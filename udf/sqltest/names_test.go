package sqltest

import (
	"regexp"
	"testing"
)

// Names come from the data: errors show their control characters escaped, whatever
// part of a statement they came in by.
//
// covers: errors.escaped
func TestControlCharacters(t *testing.T) {
	const name = "a\x1b]0;t\a\u009b2J\u202e\nb"
	statements := []string{
		`SELECT bglm_features([{"` + name + `": 1.0}])`,
		`SELECT bglm_features({"` + name + `": 1 = 1, b: INTERVAL 1 DAY, c: {"` + name + `": 1}})`,
		`SELECT bglm_features({"` + name + `": 'nan'::DOUBLE})`,
		`SELECT bglm_features(MAP {'` + name + `': 'inf'::DOUBLE})`,
		`SELECT bglm_adf(1, [1.0], {"` + name + `": 1})`,
		`SELECT bglm_adf(1, [1.0], {link: '` + name + `'})`,
		`SELECT bglm_adf(1, [1.0], {prior_variance: '` + name + `'})`,
		`SELECT bglm_adf(1, [1.0], {process_noise: MAP {'` + name + `': -1}})`,
		`SELECT bglm_adf(1, [1.0], {priors: MAP {'` + name + `': {mean: 0, variance: -1}}})`,
		`SELECT bglm_adf({"` + name + `": 1}, [1.0])`,
		`SELECT bglm_from_beliefs([{feature: '` + name + `', mean: 0, variance: -1}])`,
		`SELECT bglm_softmax('` + name + `', [1.0], {reference: 'other` + name + `'})`,
	}
	raw := regexp.MustCompile("[\x00-\x1f\x7f\u0080-\u009f\u202a-\u202e]")
	for i, a := range tryHere(t.Context(), t, statements) {
		if a.Error == "" {
			t.Errorf("%q succeeds: %v", statements[i], a.Rows)
		} else if raw.MatchString(a.Error) {
			t.Errorf("%q\n gives %q", statements[i], a.Error)
		}
	}
}
