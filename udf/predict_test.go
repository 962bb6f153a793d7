package udf_test

import (
	"database/sql"
	"fmt"
	"testing"
)

// What many rows of a call have in common is read once: each has the prediction, bit by bit,
// that it has in a call of its own, beside other fits, NULLs, levels never seen and numbers
// that are missing.
func TestPredictAmongRows(t *testing.T) {
	db := open(t)
	db.SetMaxOpenConns(1)
	exec(t, db, `CREATE TABLE t AS SELECT hash(i) % 3 = 0 AS y, {a: 'a' || hash(i) % 7, u: CASE WHEN i % 9 > 0 THEN sin(i) END, g: 'g' || i % 3} AS x FROM range(400) t(i)`)
	exec(t, db, `CREATE TABLE fits AS SELECT bglm_adf(y, x, {covariance: 'diagonal'}) AS f FROM t UNION ALL SELECT bglm_laplace(y, x) FROM t UNION ALL
		SELECT bglm_adf(y, x, {covariance: 'diagonal', hash_bits: 4}) FROM t UNION ALL SELECT bglm_adf(y, x, {covariance: 'diagonal', intercept: false, link: 'probit'}) FROM t UNION ALL
		SELECT bglm_adf(y, x) FROM t UNION ALL SELECT NULL`)
	exec(t, db, `CREATE TABLE r AS SELECT i, CASE WHEN i % 11 > 0 THEN {a: 'a' || hash(i) % CASE WHEN i % 13 = 0 THEN 99 ELSE 7 END, u: CASE WHEN i % 7 > 0 THEN cos(i) END, g: 'g' || i % 3} END AS x,
		(i // 17 + i // 50) % 6 AS k FROM range(600) t(i)`)
	exec(t, db, `CREATE TABLE b AS SELECT i, x, f FROM r JOIN (SELECT f, row_number() OVER () - 1 AS k FROM fits) USING (k) ORDER BY i`)
	scores := func(where string) (out []sql.NullFloat64) {
		rows, err := db.Query("SELECT bglm_predict(f, x) FROM b " + where + " ORDER BY i")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var p sql.NullFloat64
			if err := rows.Scan(&p); err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
		return out
	}
	all, known := scores(""), 0
	if len(all) != 600 {
		t.Fatalf("%d rows", len(all))
	}
	for i := 0; i < len(all); i += 1 + i%5 {
		one := scores(fmt.Sprintf("WHERE i = %d", i))
		if len(one) != 1 || one[0] != all[i] {
			t.Fatalf("row %d: %v among others, %v alone", i, all[i], one)
		}
		if all[i].Valid {
			known++
		}
	}
	if known < 100 {
		t.Errorf("%d predictions", known)
	}
}

// What was found under the beliefs of one chunk holds in the next only where these are the
// same bit by bit: fits that differ in one number, or one letter of a long name, take turns.
func TestPredictAcrossChunks(t *testing.T) {
	db := open(t)
	db.SetMaxOpenConns(1)
	exec(t, db, `CREATE TABLE t AS SELECT i, hash(i) % 3 = 0 AS y, {a: 'a level of many letters ' || hash(i) % 7, g: 'g' || i % 3} AS x FROM range(400) t(i)`)
	exec(t, db, `CREATE TABLE one AS SELECT bglm_adf(y, x, {covariance: 'diagonal'}) AS f FROM t`)
	exec(t, db, `CREATE TABLE fits AS SELECT 0 AS k, f FROM one UNION ALL
		SELECT 1, struct_update(f, beliefs := [CASE WHEN b.feature = 'g=g1' THEN struct_update(b, mean := b.mean + 1) ELSE b END FOR b IN f.beliefs]) FROM one UNION ALL
		SELECT 2, struct_update(f, beliefs := [CASE WHEN b.feature = 'g=g1' THEN struct_update(b, variance := b.variance * 2) ELSE b END FOR b IN f.beliefs]) FROM one UNION ALL
		SELECT 3, struct_update(f, beliefs := [CASE WHEN b.feature LIKE '%letters 3' THEN struct_update(b, feature := 'a=a level of many letters 3x') ELSE b END FOR b IN f.beliefs]) FROM one`)
	exec(t, db, `CREATE TABLE r AS SELECT i, (i // 2048) * 7 // 3 % 4 AS k, {a: 'a level of many letters ' || hash(i) % 7, g: 'g' || i % 3} AS x FROM range(20 * 2048) t(i)`)
	exec(t, db, "SET threads = 1")
	var differ, kinds int
	if err := db.QueryRow(`WITH p AS (SELECT i, k, x, bglm_predict(f, x) AS p FROM r JOIN fits USING (k)),
		alone AS (SELECT k, x, bglm_predict(f, x) AS p FROM (SELECT DISTINCT x FROM r), fits)
		SELECT count(*) FILTER (p.p IS DISTINCT FROM alone.p), count(DISTINCT p.p) FROM p JOIN alone USING (k, x)`).Scan(&differ, &kinds); err != nil {
		t.Fatal(err)
	}
	if differ != 0 || kinds < 30 {
		t.Errorf("%d rows differ, %d predictions", differ, kinds)
	}
}
