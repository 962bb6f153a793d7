package udf_test

import "testing"

// Names of every length and script come back as they went in, short ones too, which are
// written without DuckDB's help.
func TestNamesComeBack(t *testing.T) {
	db := open(t)
	exec(t, db, `CREATE TABLE n AS SELECT repeat(c, k) || s AS name FROM (VALUES ('a'), ('é'), ('😀'), (chr(1))) c(c), range(16) k(k), (VALUES (''), ('z'), ('ü')) s(s)
		WHERE length(repeat(c, k) || s) > 0`)
	exec(t, db, `CREATE TABLE f AS SELECT unnest(bglm_adf(true, [{feature: name, value: 1.0}]).beliefs).feature AS name FROM n`)
	for _, q := range []string{
		"SELECT count(*) FROM (SELECT name FROM n EXCEPT SELECT name FROM f)",
		"SELECT count(*) FROM (SELECT name FROM f WHERE name <> '(Intercept)' EXCEPT SELECT name FROM n)",
	} {
		if n := value[int](t, db, q); n != 0 {
			t.Errorf("%d names differ: %s", n, q)
		}
	}
}

// A predictor goes on with the names of the chunks before: the answers are those of SQL
// itself, for fits whose lists hold a name at different places, or not at all.
func TestPredictManyChunks(t *testing.T) {
	db := open(t)
	exec(t, db, "SET threads = 1")
	exec(t, db, `CREATE TABLE b AS SELECT k, [{feature: 'a=v' || j, mean: j + k * 0.5, variance: 0.25} FOR j IN range(k, 60, k + 1)] AS beliefs FROM range(3) t(k)`)
	exec(t, db, `CREATE TABLE f AS SELECT k, bglm_from_beliefs(list_sort(beliefs), {family: 'gaussian', prior_mean: 7.0, intercept: false}) AS f FROM b`)
	exec(t, db, `CREATE TABLE t AS SELECT i, i // 3000 % 3 AS k, {a: 'v' || (i * 7 % 70)} AS x FROM range(20000) t(i)`)
	if n := value[int](t, db, `SELECT count(*) FROM t JOIN f USING (k) LEFT JOIN (SELECT k, unnest(beliefs) AS w FROM b) b
		ON b.k = t.k AND b.w.feature = 'a=' || t.x.a WHERE coalesce(abs(bglm_predict(f, x) - coalesce(b.w.mean, 7.0)), 1) > 1e-12`); n != 0 {
		t.Errorf("%d of 20000 predictions are not their belief", n)
	}
}
