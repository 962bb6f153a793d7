package sqltest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Fits of every kind, made of the first rows of v: what is written by one release of
// DuckDB and read by another.
const versionRows = "CREATE TABLE v AS SELECT i, (i * 7919) % 11 < 4 AS y, (i * 31 % 64) / 64.0 AS u, 's' || (i % 5) AS s, (i * 7919) % 3 AS c FROM range(200) t(i)"

const versionFits = `CREATE TABLE fits AS
 SELECT m || ' ' || form AS name, bglm_fit(y, {u: u, s: s}, {method: m, covariance: form, rank: 3} ORDER BY i) AS f FROM v,
  (VALUES ('adf', 'diagonal'), ('adf', 'full'), ('adf', 'lowrank'), ('ep', 'diagonal'), ('ep', 'full'), ('ekf', 'full'), ('sequential_laplace', 'lowrank'), ('variational', 'full')) a(m, form)
 WHERE i < 120 GROUP BY m, form
 UNION ALL SELECT m, bglm_fit(y, {u: u, s: s}, {method: m} ORDER BY i) FROM v, (VALUES ('laplace'), ('lowrank')) a(m) WHERE i < 120 GROUP BY m
 UNION ALL SELECT 'drift', bglm_adf(y, {u: u, s: s}, {process_noise: 0.01, time: i} ORDER BY i) FROM v WHERE i < 120
 UNION ALL SELECT 'hashed', bglm_adf(y, {u: u, s: s}, {hash_bits: 4} ORDER BY i) FROM v WHERE i < 120
 UNION ALL SELECT 'negbinomial', bglm_laplace(c, {u: u, s: s}, {family: 'negbinomial', shape: 2} ORDER BY i) FROM v WHERE i < 120`

const versionOthers = "CREATE TABLE others AS SELECT bglm_softmax('c' || c, {u: u, s: s} ORDER BY i) AS k, bglm_gp(y, [u, c], {lengthscale: 0.5} ORDER BY i) AS g FROM v WHERE i < 60"

// versionQuery compares what the files hold with what the reader makes itself: the fit,
// predictions, draws, influences, the fit continued, merged, and started from.
const versionQuery = `SELECT count(*), bool_and(p.f = q.f), bool_and(x), bool_and(equal_update), bool_and(equal_merge), bool_and(equal_prior), any_value(o) FROM
 (SELECT name, bool_and(bglm_predict(p.f, {u: u, s: s}) = bglm_predict(q.f, {u: u, s: s}) AND bglm_predict_dist(p.f, {u: u, s: 'zz'}) = bglm_predict_dist(q.f, {u: u, s: 'zz'})
   AND bglm_sample(p.f, {u: u, s: s}, 1, i) = bglm_sample(q.f, {u: u, s: s}, 1, i) AND bglm_influence(p.f, y::INT, {u: u, s: s}) = bglm_influence(q.f, y::INT, {u: u, s: s})) AS x
  FROM '%[1]s/fits.parquet' p JOIN fits q USING (name), v GROUP BY name)
 JOIN (SELECT name, bglm_update(p.f, rows, {rank: 3}) = bglm_update(q.f, rows, {rank: 3}) AS equal_update FROM '%[1]s/fits.parquet' p JOIN fits q USING (name),
  (SELECT list({y: y::INT, x: {u: u, s: s}, time: i} ORDER BY i) AS rows FROM v WHERE i >= 120)) USING (name)
 JOIN (SELECT name, bglm_merge(p.f) = bglm_merge(q.f) AS equal_merge FROM '%[1]s/fits.parquet' p JOIN fits q USING (name) GROUP BY name) USING (name)
 JOIN (SELECT name, bglm_adf(y::INT, {u: u, s: s}, {prior: p.f} ORDER BY i) = bglm_adf(y::INT, {u: u, s: s}, {prior: q.f} ORDER BY i) AS equal_prior
  FROM '%[1]s/fits.parquet' p JOIN fits q USING (name), v WHERE i >= 120 GROUP BY name) USING (name)
 JOIN '%[1]s/fits.parquet' p USING (name) JOIN fits q USING (name),
 (SELECT bool_and(bglm_predict(p.k, {u: u, s: s}) = bglm_predict(q.k, {u: u, s: s}) AND bglm_predict(p.g, [u, c]) = bglm_predict(q.g, [u, c])
   AND bglm_predict_dist(p.g, [u, c]) = bglm_predict_dist(q.g, [u, c])) AS o FROM '%[1]s/others.parquet' p, others q, v)`

const versionWant = "13\ttrue\ttrue\ttrue\ttrue\ttrue\ttrue"

// A FIT in a Parquet file serves under another release of DuckDB than the one that
// wrote it, to the last bit: 1.3 and 1.5 in both directions, and between the
// extension and this process.
//
// covers: serve.versions
func TestFitAcrossVersions(t *testing.T) {
	ext := extension(t)
	const here = "embedded"
	oldest, newest := clientVersions[0], clientVersions[len(clientVersions)-1]
	for _, c := range [][2]string{{oldest, newest}, {newest, oldest}, {oldest, here}, {here, oldest}, {clientVersions[1], here}} {
		t.Run(c[0]+" to "+c[1], func(t *testing.T) {
			dir := strings.ReplaceAll(t.TempDir(), "'", "''")
			make := []string{versionRows, versionFits, versionOthers}
			write := append(make[:3:3], fmt.Sprintf("COPY fits TO '%s' (FORMAT parquet)", filepath.Join(dir, "fits.parquet")),
				fmt.Sprintf("COPY others TO '%s' (FORMAT parquet)", filepath.Join(dir, "others.parquet")), "SELECT 1")
			read := append(make[:3:3], fmt.Sprintf(versionQuery, dir))
			run := func(version, want string, statements []string) {
				if version != here {
					runNode(t, version, want, append([]string{ext, version}, statements...)...)
					return
				}
				con := connect(t, open(t))
				for i, q := range statements {
					got, err := rowsOf(t.Context(), con, q)
					if err != nil {
						t.Fatalf("%v\n%s", err, q)
					}
					if i == len(statements)-1 && strings.Join(got, "\n") != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
			}
			run(c[0], "1", write)
			run(c[1], versionWant, read)
		})
	}
}
