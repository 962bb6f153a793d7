package sqltest

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"

	"github.com/bglm/bglm/kernels/engine"
)

// equalityTable is made by arithmetic that every host does alike.
const equalityTable = `CREATE TABLE e AS SELECT i, g, (i * 7919) % 1009 < 300 + 40 * g + 30 * (i % 5) AS y, {u: (i * 31 % 64) / 64.0 - 0.5, s: (i % 5)::VARCHAR} AS x
 FROM (SELECT i, i % 3 AS g FROM range(600) t(i))`

// equalityQueries are one query for each engine and more that depend on order.
func equalityQueries() []string {
	out := []string{
		"SELECT list(f ORDER BY g)::VARCHAR FROM (SELECT g, bglm_adf(y, x, {link: 'probit', process_noise: 0.001} ORDER BY i) AS f FROM e GROUP BY g)",
		"SELECT bglm_update((SELECT bglm_adf(y, x ORDER BY i) FROM e WHERE i < 300), (SELECT list({y: y, x: x} ORDER BY i) FROM e WHERE i >= 300))::VARCHAR",
		"SELECT sum(hash(bglm_predict(f, x)::VARCHAR) % 1000003)::VARCHAR FROM e, (SELECT bglm_adf(y, x ORDER BY i) AS f FROM e)",
	}
	for _, m := range engine.Names(engine.Weights) {
		opt := ""
		if m == "hmc" {
			opt = ", {samples: 50, warmup: 50, chains: 2}"
		}
		out = append(out, fmt.Sprintf("SELECT bglm_%s(y, x%s ORDER BY i)::VARCHAR FROM e", m, opt))
	}
	return out
}

// embeddedAnswers runs the queries here with some number of threads.
func embeddedAnswers(t *testing.T, threads int, queries []string) []string {
	t.Helper()
	con := connect(t, open(t))
	for _, q := range []string{fmt.Sprintf("SET threads = %d", threads), equalityTable} {
		if _, err := con.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]string, len(queries))
	for i, q := range queries {
		rows, err := rowsOf(t.Context(), con, q)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		out[i] = rows[0]
	}
	return out
}

// With ORDER BY the answer is the same to the last bit with any number of threads.
//
// covers: order.by fit.equal
func TestEqualThreads(t *testing.T) {
	queries := equalityQueries()
	want := embeddedAnswers(t, 1, queries)
	for _, threads := range []int{2, 8} {
		for i, got := range embeddedAnswers(t, threads, queries) {
			if got != want[i] {
				t.Errorf("%s\n1 thread:  %.400s\n%d threads: %.400s", queries[i], want[i], threads, got)
			}
		}
	}
}

// And in the extension under each release of DuckDB.
//
// covers: order.by hosts.equal
func TestEqualClients(t *testing.T) {
	ext := extension(t)
	queries := equalityQueries()
	want := embeddedAnswers(t, 1, queries)
	arg, err := json.Marshal(queries)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range clientVersions {
		for _, threads := range []int{1, 8} {
			out, err := exec.CommandContext(t.Context(), "node", "clients/answers.mjs", ext, v, fmt.Sprintf("SET threads = %d; %s", threads, equalityTable), string(arg)).Output()
			if err != nil {
				t.Fatalf("%s: %v\n%s", v, err, out)
			}
			var got []string
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%s, %d threads: %s\nembedded: %.400s\nclient:   %.400s", v, threads, queries[i], want[i], got[i])
				}
			}
		}
	}
}

// Without ORDER BY several threads see the rows in parts. What keeps its rows
// gives the same to rounding; a filter merges posteriors, which is exact to
// rounding for one Gaussian weight a row and close elsewhere.
//
// covers: order.threads
func TestThreadsMerge(t *testing.T) {
	answers := func(threads int) []string {
		con := connect(t, open(t))
		// More rows than one thread's share of a scan.
		for _, q := range []string{fmt.Sprintf("SET threads = %d", threads), "CREATE TABLE m AS SELECT i, (i * 7919) % 1009 < 300 + 30 * (i % 5) AS y, 'v' || (i % 5) AS s, (i * 31 % 64) / 64.0 AS u FROM range(400000) t(i)"} {
			if _, err := con.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		var out []string
		for _, q := range []string{
			"SELECT bglm_adf(u, {s: s}, {family: 'gaussian', intercept: false, covariance: 'diagonal', standardize: false, dispersion: 1}) AS f FROM m",
			"SELECT bglm_adf(y, {s: s}, {link: 'probit', intercept: false, covariance: 'diagonal'}) AS f FROM m",
		} {
			rows, err := rowsOf(t.Context(), con, "SELECT list_transform(f.beliefs, lambda b: [b.mean, sqrt(b.variance)])::VARCHAR, f.n FROM ("+q+")")
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, rows...)
		}
		return out
	}
	want := answers(1)
	for _, threads := range []int{2, 8} {
		got := answers(threads)
		// One weight a row: Gaussian products are exact; a probit weight's partial
		// posteriors of 1e4 and more rows are Gaussian to well under 1e-3 of the mean.
		if !Same(got[0], want[0], 1e-10, 1e-12) {
			t.Errorf("gaussian, %d threads:\n got  %s\n want %s", threads, got[0], want[0])
		}
		if !Same(got[1], want[1], 2e-3, 1e-4) {
			t.Errorf("probit, %d threads:\n got  %s\n want %s", threads, got[1], want[1])
		}
	}
}
