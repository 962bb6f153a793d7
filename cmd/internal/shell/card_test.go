package shell

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A FIT alone is a card, one among others a line; other modes have all of it.
func TestCard(t *testing.T) {
	s, out := open(t, Format{})
	run(t, s, `CREATE TABLE r AS SELECT i, hash(i) % 3 = 0 AS y, {g: 'g' || i % 12, u: i / 1200} AS x FROM range(1200) t(i);
		CREATE TABLE fit AS SELECT bglm_fit(y, x) AS fit FROM r; FROM fit;`)
	card := out.String()
	for _, want := range []string{"laplace, bernoulli (logit), full covariance\n", "1,200 rows, 14 weights\n", "log evidence -", "\nstatus: ", "\n  (Intercept)  ", "and 4 weights more"} {
		if !strings.Contains(card, want) {
			t.Errorf("no %q in\n%s", want, card)
		}
	}
	if n := strings.Count(card, "\n  g="); n != 9 && n != 8 {
		t.Errorf("%d levels in\n%s", n, card)
	}
	out.Reset()
	run(t, s, `SELECT g, bglm_adf(y, [0.5], {covariance: 'diagonal'}) AS f FROM (SELECT i % 2 AS g, y FROM r) GROUP BY g ORDER BY g;`)
	if got := out.String(); strings.Count(got, "adf, bernoulli (logit), diagonal covariance: 600 rows, 2 weights") != 2 || strings.Contains(got, "beliefs") {
		t.Error(got)
	}
	out.Reset()
	run(t, s, `SELECT bglm_gp(u > 0.3 AND u < 0.8, [u], {lengthscale: 0.2} ORDER BY u) AS g FROM (SELECT i / 10 AS u FROM range(11) t(i));`)
	if got := out.String(); !strings.HasPrefix(got, "gp, bernoulli (logit), kernel rbf\n11 rows\nlengthscale 0.2, signal variance 1\n") {
		t.Error(got)
	}
	out.Reset()
	run(t, s, `SELECT bglm_softmax(c, [u]) AS f FROM (SELECT i / 30 AS u, ['a', 'b', 'c'][1 + i // 10] AS c FROM range(30) t(i));`)
	if got := out.String(); !strings.Contains(got, "\n  a: (Intercept)") {
		t.Error(got)
	}
	out.Reset()
	run(t, s, ".mode json\nFROM fit;")
	if got := out.String(); !strings.Contains(got, `"beliefs":[`) {
		t.Error(got)
	}
	out.Reset()
	run(t, s, ".mode box\nSELECT {method: 'x', beliefs: [1]} AS s, NULL AS n;") // no FIT
	if got := out.String(); !strings.Contains(got, "'beliefs': [1]") {
		t.Error(got)
	}
}

func TestPlural64(t *testing.T) {
	for n, want := range map[int64]string{0: "0 rows", 1: "1 row", 999: "999 rows", 1000: "1,000 rows", 1234567: "1,234,567 rows"} {
		if got := plural64(n, "row"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestDotFiles(t *testing.T) {
	dir := t.TempDir()
	s, out := open(t, Format{Width: 40})
	csv, db, to := filepath.Join(dir, "it's.csv"), filepath.Join(dir, "a.db"), filepath.Join(dir, "o.txt")
	if err := os.WriteFile(csv, []byte("a,b\n1,x\n2,y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, s, ".open '"+db+"'\n.import "+csv+" rows\n.import \""+csv+"\" rows\n.mode csv\nSELECT count(*) AS n, max(b) AS b FROM rows;")
	if got := out.String(); got != "n,b\n4,y\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	// A file has all of a result; the mode chosen meanwhile stays.
	run(t, s, ".mode box\n.output "+to+"\nSELECT repeat('x', 100) AS x FROM range(60);\n.mode csv\n.output\nSELECT 7 AS seven;")
	text, err := os.ReadFile(to)
	if err != nil || strings.Count(string(text), strings.Repeat("x", 100)) != 60 {
		t.Errorf("%v, %s", err, text)
	}
	if got := out.String(); got != "seven\n7\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	run(t, s, ".maxrows 2\nFROM range(5);\n.maxrows\n.maxrows 0\nSELECT count(*) AS n FROM rows;\n.open\n.tables")
	if got := out.String(); got != "range\n0\n1\n2\nn\n4\n" {
		t.Errorf("%q", got)
	}
	// A table in a schema, names in quotes; what is shown on the screen cuts no file.
	out.Reset()
	run(t, s, "CREATE SCHEMA s;\n.import \""+csv+"\" s.rows\n.import \""+csv+"\" s.rows\n.import "+csv+` "my ""own"" t.b"`+"\n.tables\nSELECT count(*) AS n FROM s.rows;\n.maxrows 2\n.output "+to+"\nFROM range(5);\n.output\nFROM range(5);\n.maxrows 0")
	if got := out.String(); got != "my \"own\" t.b\ns.rows\nn\n4\nrange\n0\n1\n" {
		t.Errorf("%q", got)
	}
	if text, err := os.ReadFile(to); err != nil || string(text) != "range\n0\n1\n2\n3\n4\n" {
		t.Errorf("%v, %q", err, text)
	}
	for text, want := range map[string]string{
		".maxrows x":                 `.maxrows is "x", allowed are 0 (all rows) and more`,
		".import x.csv":              ".import needs a file and a table",
		".import no.csv t":           "no.csv",
		".open /no/such/folder/x.db": ".open /no/such/folder/x.db: ",
		".output /no/such/folder/x":  ".output: open /no/such/folder/x",
		".pager on":                  ".pager needs a terminal",
		".pager":                     `.pager is "", allowed are on, off`,
	} {
		if err := s.RunText(t.Context(), "test", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	run(t, s, "SELECT bglm_version() IS NOT NULL;") // still there
}
