package udf_test

import (
	"fmt"
	"strings"
	"testing"
)

// Groups whose rows all have the same features share a dictionary, are read together and
// written a column at a time: each has the FIT that it has alone, and that of the same
// features given as lists, which are read row by row.
func TestManyGroups(t *testing.T) {
	db := open(t)
	exec(t, db, `CREATE TABLE t AS SELECT i % 700 AS g, i, i % 3 = 0 AS y, i % 5 AS count, (i % 11 - 5)::DOUBLE AS a, (i % 7) / 4 AS b, 1.5 AS c,
		CASE WHEN i % 97 = 3 THEN NULL ELSE i % 4 END AS hole FROM range(4200) t(i)`)
	const list = "list_filter([%s], e -> e.value IS NOT NULL)"
	for _, c := range []struct{ y, x, list, options string }{
		{"y", "{a: a, b: b}", "{feature: 'a', value: a}, {feature: 'b', value: b}", "{link: 'probit'}"},
		// the options of the first, so that its plan is taken again, with other columns
		{"y", "{b: b, c: c}", "{feature: 'b', value: b}, {feature: 'c', value: c}", "{link: 'probit'}"},
		{"y", "{b: b}", "{feature: 'b', value: b}", "{link: 'probit'}"},
		{"y", "{b: b, a: a}", "{feature: 'b', value: b}, {feature: 'a', value: a}", "{link: 'probit'}"},
		{"y", "{a: a, b: b, c: c, d: a + b, e: a - b, f: a * b}", "{feature: 'a', value: a}, {feature: 'b', value: b}, {feature: 'c', value: c::DOUBLE}, {feature: 'd', value: a + b}, {feature: 'e', value: a - b}, {feature: 'f', value: a * b}", "{link: 'logit'}"},
		{"y", "{a: a, hole: hole}", "{feature: 'a', value: a}, {feature: 'hole', value: hole}", "{link: 'probit'}"},
		{"CASE WHEN i % 50 > 0 THEN y END", "{a: a}", "{feature: 'a', value: a}", "{link: 'probit'}"},
		{"CASE WHEN i % 500 > 0 THEN count ELSE -1 END", "{a: a}", "{feature: 'a', value: a}", "{family: 'poisson', on_error: 'skip'}"},
		{"CASE WHEN i % 500 > 0 THEN count ELSE -1 END", "{a: a}", "{feature: 'a', value: a}", "{family: 'poisson', on_error: 'null'}"},
		{"y", "{a: a, b: b}", "{feature: 'a', value: a}, {feature: 'b', value: b}", "{process_noise: 0.1, time: i, 'offset': b, 'weight': 1 + i % 2}"},
		{"a", "{b: b}", "{feature: 'b', value: b}", "{family: 'gaussian', dispersion: 'auto'}"},
		{"y", "{a: a}", "{feature: 'a', value: a}", "{intercept: false, priors: MAP {'z': {mean: 1, variance: 2}}}"},
		{"y", "[a, b]", "{feature: '1', value: a}, {feature: '2', value: b}", "{process_noise: 'auto'}"},
	} {
		c.options = strings.TrimSuffix(c.options, "}") + ", columns: 'any', missing: 'absent', covariance: 'diagonal', standardize: false}" // lists have no numbers to remember
		for _, threads := range []int{1, 2} {
			exec(t, db, fmt.Sprintf("SET threads = %d", threads))
			order := ""
			if threads > 1 { // else parts of a group may be merged
				order = " ORDER BY i"
			}
			fit := func(x string) string { return fmt.Sprintf("bglm_adf(%s, %s, %s%s)", c.y, x, c.options, order) }
			one := fit(c.x)
			q := fmt.Sprintf("SELECT count(*) FROM (SELECT g, %s::VARCHAR AS a, %s::VARCHAR AS b FROM t GROUP BY g) WHERE a IS DISTINCT FROM b", one, fit(fmt.Sprintf(list, c.list)))
			if n := value[int](t, db, q); n > 0 {
				t.Errorf("%s, threads %d: %d groups differ from their lists", one, threads, n)
			}
			for _, g := range []int{1, 699} {
				q := fmt.Sprintf("SELECT (SELECT f FROM (SELECT g, %s::VARCHAR AS f FROM t GROUP BY g) WHERE g = %d) IS NOT DISTINCT FROM (SELECT %s::VARCHAR FROM t WHERE g = %d)", one, g, one, g)
				if !value[bool](t, db, q) {
					t.Errorf("%s, threads %d: group %d differs from itself alone", one, threads, g)
				}
			}
		}
	}
	if left := value[int](t, db, "SELECT bglm_state().live_states"); left != 0 {
		t.Errorf("%d states are left", left)
	}
}
