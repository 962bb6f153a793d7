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
