package udf_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/udf"
)

// TestRulesHere turns on the rules for DuckDB 2 in this DuckDB, whose GROUP BY always
// passes one state a row: the lessons tell its ways of calling apart, and no doubtful call
// is decided otherwise. Several aggregates of one SELECT give what each gives alone.
//
// covers: hosts
func TestRulesHere(t *testing.T) {
	kerneltest.Slow(t)
	udf.Rules(true)
	defer udf.Rules(false)
	db := open(t)
	if s := udf.Sites(); s.Grouped == 0 || s.Filtered == 0 || s.Distinct == 0 || s.Conflict != 0 {
		t.Errorf("the lessons show no way apart: %+v", s)
	}
	exec(t, db, "SET threads = 4")
	exec(t, db, "CREATE TABLE d AS SELECT i, ((i * 7919) % 1009) % 5 < 2 AS y, (i * 31 % 64) / 64.0 AS u, (i * 7 % 32) / 32.0 AS v, i % 3 = 0 AS f FROM range(20480) t(i)")
	rng := rand.New(rand.NewPCG(3, 4))
	calls := []string{"bglm_rmse(u, v)", "bglm_rmse(v, u)", "bglm_auc(y, u)", "bglm_auc(y, v)", "bglm_rmse(v, u) FILTER (f)", "bglm_auc(y, u) FILTER (f)",
		"bglm_rmse(DISTINCT u, v)", "bglm_brier(y, u)", "bglm_rmse(u, i)"}
	// The last two: chunks of one row of a group and 2,047 of another, which was made before it.
	groups := []string{"'g' || (i * 7919 % 9001)", "i // 3 * 1000003000019", "(i % 2048 = CASE WHEN i < 2048 THEN 2047 ELSE 0 END)::VARCHAR",
		"1000003000019 * (i % 2048 = CASE WHEN i < 2048 THEN 2047 ELSE 0 END)::BIGINT"}
	before := udf.Lanes()
	for round := range 24 {
		g := groups[round%len(groups)]
		var many, same []string
		var joins strings.Builder
		for k := range 2 + rng.IntN(3) {
			c := calls[rng.IntN(len(calls))]
			many = append(many, fmt.Sprintf("%s AS m%d", c, k))
			same = append(same, fmt.Sprintf("coalesce(abs(m%d - r%d) <= 1e-12, m%d IS NULL AND r%d IS NULL)", k, k, k, k))
			fmt.Fprintf(&joins, " JOIN (SELECT %s AS g, %s AS r%d FROM d GROUP BY 1) USING (g)", g, c, k)
		}
		q := fmt.Sprintf("SELECT count(*) > 0 AND bool_and(%s) FROM (SELECT %s AS g, count(*), %s FROM d GROUP BY 1)%s", strings.Join(same, " AND "), g, strings.Join(many, ", "), joins.String())
		var right bool
		if err := db.QueryRow(q).Scan(&right); err != nil {
			t.Errorf("%v\n%s", err, q)
		} else if !right {
			t.Errorf("differs from the aggregates one by one: %s", q)
		}
	}
	after := udf.Lanes()
	t.Logf("%d doubtful calls flat, %d constant, %d errors", after.Flat-before.Flat, after.Constant-before.Constant, after.Errors-before.Errors)
	if after.Constant != before.Constant || after.Errors != before.Errors || after.Flat == before.Flat {
		t.Errorf("before %+v, after %+v: DuckDB 1 has no constant chunks", before, after)
	}
}
