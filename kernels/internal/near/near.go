// Package near finds the name that was meant.
package near

import (
	"slices"
	"strings"
)

// synonyms are other names of the field for ours.
var synonyms = map[string][]string{
	"binary":            {"bernoulli"},
	"logistic":          {"bernoulli", "logit", "laplace"},
	"sigmoid":           {"bernoulli", "logit"},
	"normal":            {"gaussian", "probit"},
	"linear":            {"gaussian", "identity", "laplace"},
	"ols":               {"gaussian", "laplace"},
	"glm":               {"laplace"},
	"count":             {"poisson"},
	"counts":            {"poisson"},
	"exp":               {"log"},
	"negative_binomial": {"negbinomial"},
	"nb":                {"negbinomial"},
	"nbinom":            {"negbinomial"},
	"student":           {"studentt"},
	"student_t":         {"studentt"},
	"t":                 {"studentt"},
	"map":               {"laplace"},
	"newton":            {"laplace"},
	"kalman":            {"ekf"},
	"nuts":              {"hmc"},
	"mcmc":              {"hmc"},
	"quasipoisson":      {"negbinomial"},
	"sample_weight":     {"weight"},
	"theta":             {"shape"},
	"df":                {"shape"},
	"nu":                {"shape"},
	"sigma":             {"dispersion"},
	"lambda":            {"prior_variance"},
	"l2":                {"prior_variance"},
	"c":                 {"prior_variance"},
	"alpha":             {"prior_variance"},
	"penalty":           {"prior_variance"},
	"regularization":    {"prior_variance"},
	"regularisation":    {"prior_variance"},
	"ridge":             {"prior_variance"},
	"exposure":          {"offset"},
	"noise":             {"dispersion"},
	"distribution":      {"family"},
	"solver":            {"method"},
	"iterations":        {"max_iter"},
	"n_iter":            {"max_iter"},
	"random_state":      {"seed"},
	"baseline":          {"reference"},
	"confidence":        {"level"},
}

// Word is the one of allowed that found stands for, "" where none is near: without the
// prefix bglm_, by another name of the field, as a beginning of three letters or more, or
// within two edits (one in three letters, half the letters of long words).
func Word(found string, allowed []string) string {
	found = strings.TrimPrefix(strings.ToLower(found), "bglm_")
	for _, name := range append([]string{found}, synonyms[found]...) {
		if slices.Contains(allowed, name) {
			return name
		}
	}
	most := max(2, len(found)/2)
	if len(found) <= 3 {
		most = 1
	}
	best, least := "", most+1
	for _, name := range allowed {
		d := Edits(found, name)
		if len(found) >= 3 && (strings.HasPrefix(name, found) || strings.HasPrefix(found, name)) {
			d = min(d, 2)
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// Edits is the Levenshtein distance.
func Edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diag
			if a[i] != b[j] {
				d++
			}
			diag = row[j+1]
			row[j+1] = min(d, row[j]+1, diag+1)
		}
	}
	return row[len(b)]
}
