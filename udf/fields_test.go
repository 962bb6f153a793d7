package udf

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/bglm/bglm/udf/internal/capi"
)

// variant is SQL for the value v of a type and field changed by m, v itself for m = 0.
func variant(t *capi.Type, name, v string) string {
	switch t.ID {
	case capi.Double:
		return fmt.Sprintf("CASE WHEN m = 0 THEN %[1]s ELSE coalesce(%[1]s, 1) + m * 0.25 END", v)
	case capi.BigInt, capi.Integer:
		return fmt.Sprintf("CASE WHEN m = 0 THEN %[1]s ELSE (coalesce(%[1]s, 1) + m)::%[2]s END", v, t)
	case capi.Boolean:
		return fmt.Sprintf("(%s) <> (m = 1)", v)
	case capi.Varchar:
		other := map[string]string{"link": "['probit', 'cloglog']", "family": "['binomial', 'poisson']", "kernel": "['matern32', 'matern52']", "kind": "['diagonal', 'lowrank']"}[name]
		if other == "" {
			return fmt.Sprintf("CASE WHEN m = 0 THEN %[1]s ELSE %[1]s || repeat('z', m) END", v)
		}
		return fmt.Sprintf("CASE WHEN m = 0 THEN %s ELSE %s[m] END", v, other)
	case capi.List:
		return fmt.Sprintf("[%s FOR e%[3]d IN %[2]s]", variant(t.Elem, name, fmt.Sprintf("e%d", len(v))), v, len(v))
	}
	return v
}

// fieldsOf calls visit with each field of a type, below STRUCTs and lists of them, and
// the SQL of a value v with that field changed by m.
func fieldsOf(t *capi.Type, path, v string, visit func(path, sql string)) {
	switch {
	case t.ID == capi.Struct:
		for _, f := range t.Fields {
			quoted := `"` + f.Name + `"`
			fieldsOf(f.Type, join(path, f.Name), v+"."+quoted, func(path, sql string) {
				visit(path, fmt.Sprintf("struct_update(%s, %s := %s)", v, quoted, sql))
			})
		}
	case t.ID == capi.List && t.Elem.ID == capi.Struct:
		fieldsOf(t.Elem, path+"[]", "b", func(path, sql string) { visit(path, fmt.Sprintf("[%s FOR b IN %s]", sql, v)) })
	default:
		visit(path, variant(t, path[strings.LastIndexByte(path, '.')+1:], v))
	}
}

// For each scalar that takes a FIT and each field of each type of FIT: a table of rows
// that differ in that field alone has the answers of the rows asked one by one. The
// fields are those of the types, so that a new one is covered.
func TestRowsDifferInAField(t *testing.T) {
	c := craftedDB(t)
	ctx := context.Background()
	for _, k := range []struct {
		name, fit string
		t         *capi.Type
		calls     []string
	}{
		{"fit", "SELECT bglm_adf(y, {a: u, s: s}, {covariance: 'full'} ORDER BY i) AS f FROM d", fitType, []string{
			"bglm_predict(f, {a: 0.5, s: 'k1', q: 1})", "bglm_predict_dist(f, {a: 0.5, s: 'k9'})", "bglm_sample(f, {a: 0.5, s: 'k9'}, 1, 1)",
			"bglm_influence(f, 1, {a: 0.5, s: 'k1'})", "bglm_update(f, [{y: 1, x: {a: 0.5, s: 'k1'}}])", "bglm_beliefs(f)"}},
		{"diagonal", "SELECT bglm_adf(y, {a: u, s: s}, {covariance: 'diagonal'} ORDER BY i) AS f FROM d", fitType, []string{
			"bglm_predict(f, {a: 0.5, s: 'k1', q: 1})", "bglm_sample(f, {a: 0.5, s: 'k9'}, 1, 1)", "bglm_update(f, [{y: 1, x: {a: 0.5, s: 'k1'}}])"}},
		{"softmax", "SELECT bglm_softmax(s, {a: u}) AS f FROM d", classesType, []string{"bglm_predict(f, {a: 0.5, q: 1})", "bglm_beliefs(f)"}},
		{"gp", "SELECT bglm_gp(y, [u], {lengthscale: 0.5} ORDER BY i) AS f FROM d WHERE i < 6", gpType, []string{"bglm_predict(f, [0.3])", "bglm_predict_dist(f, [0.3])"}},
	} {
		if _, err := c.ExecContext(ctx, "CREATE OR REPLACE TABLE one AS "+k.fit); err != nil {
			t.Fatal(err)
		}
		ask := func(call, changed, ms string) (string, error) {
			var s sql.NullString
			err := c.QueryRowContext(ctx, fmt.Sprintf("SELECT list((%s)::VARCHAR ORDER BY m)::VARCHAR FROM (SELECT m, %s AS f FROM one, (SELECT unnest(%s) AS m))", call, changed, ms)).Scan(&s)
			return strings.Trim(s.String, "[]"), err
		}
		differ := 0
		fieldsOf(k.t, "", "f", func(path, changed string) {
			for _, call := range k.calls {
				var want []string
				var ms []string
				for _, m := range []string{"0", "1", "2"} {
					if v, err := ask(call, changed, "["+m+"]"); err == nil {
						want, ms = append(want, v), append(ms, m)
					} else if strings.Contains(err.Error(), "internal error") {
						t.Errorf("%s, field %s by %s: %v", k.name, path, m, err)
					}
				}
				if len(ms) == 0 {
					t.Fatalf("%s: the FIT itself is not taken", k.name)
				}
				if want[0] != want[len(want)-1] {
					differ++
				}
				got, err := ask(call, changed, "["+strings.Join(ms, ", ")+"]")
				if err != nil || got != strings.Join(want, ", ") {
					t.Errorf("%s, rows that differ in %s: %s gives %s, %v; one by one %s", k.name, path, call, got, err, strings.Join(want, ", "))
				}
			}
		})
		if differ < 3 {
			t.Errorf("%s: hardly a field changes an answer", k.name)
		}
	}
}
