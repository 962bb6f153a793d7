package export

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bglm/bglm/kernels/argument"
)

// inside are the names that a query gives to columns of its subqueries.
var inside = regexp.MustCompile(`(?i)^bglm_[a-z]?[0-9]*$`)

// same reports whether the database takes two names for one, in quotation marks.
func (d *dialect) same(a, b string) bool {
	if d.folds {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// checkNames returns an error if a name of the query would stand for two columns, of which a
// database takes the first without a word. classes are the classes of the fit, if it has any.
func (w *writer) checkNames(classes []string) error {
	for k, c := range w.m.columns {
		for _, q := range w.m.columns[:k] {
			if w.same(c.name, q.name) {
				return fmt.Errorf("the FIT has the columns %q and %q, which are one column in %s; allowed: names that differ in more than case", q.name, c.name, w.name)
			}
		}
	}
	results := []string{"eta_mean", "eta_variance", "prediction", "lower", "upper"}
	if len(classes) > 0 {
		results = nil
	}
	for k, c := range classes {
		for _, q := range classes[:k] {
			if w.same(c, q) {
				return fmt.Errorf("the FIT has the classes %q and %q, whose columns prediction_%s and prediction_%s are one in %s; allowed: names that differ in more than case", q, c, q, c, w.name)
			}
		}
		results = append(results, "prediction_"+c)
	}
	for _, c := range w.o.Keep {
		for _, r := range results {
			if w.same(c, r) || len(classes) == 0 && w.name == "snowflake" && strings.EqualFold(c, r) { // it folds names without quotation marks
				return &argument.Error{Name: "keep", Found: "'" + c + "'", Why: "is a column of the result itself", Allowed: "other columns, such as an id; by default those of the fit are kept"}
			}
		}
		if inside.MatchString(c) {
			return &argument.Error{Name: "keep", Found: "'" + c + "'", Why: "is a name inside the query", Allowed: "other columns, such as an id; by default those of the fit are kept"}
		}
	}
	return nil
}
