package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/kernels/lik"
)

// What a report asks about single columns it asks of a table that was made once: the file, whose
// columns' types each look finds again, may be gone.
func TestReportReadsOnce(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	ok(t, "sql", "-c", `COPY (SELECT i % 3 = 0 AS y, i AS id, hash(i) % 100 / 7 AS u, 'g' || hash(i) % 4 AS g, i // 40 AS k FROM range(400) t(i)) TO '`+path("d.csv")+"'")
	ok(t, "fit", path("d.csv"), "-f", "y ~ id + u + g + k", "--out", path("f.parquet"), "-q")
	s, err := duck.Open(&cli.Env{Ctx: t.Context(), Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sc, err := openScoring(s, &dataFlags{Data: []string{path("d.csv")}}, &scoreFlags{Beliefs: path("f.parquet")}, toJudge)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sc.sampleColumns(s); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path("d.csv")); err != nil {
		t.Fatal(err)
	}
	all, err := sc.columns(s)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d columns (%v)", len(all), err)
	}
	for _, x := range all {
		if x.Counting != (x.name == "id") || x.counted != (x.name == "g") || x.counted && (x.Levels != 4 || x.Counted != 400) {
			t.Errorf("%+v", x)
		}
	}
	fields, whole, err := typical(s, sc)
	if err != nil || !whole || len(fields) != 4 {
		t.Fatalf("%v (%v)", fields, err)
	}
	for _, column := range []string{"u", "g"} {
		if ch, err := effect(s, sc, column, lik.Traits{}, 0); err != nil || ch == nil {
			t.Errorf("%s: %v (%v)", column, ch, err)
		}
	}
}

// More columns than DuckDB lets an expression be deep.
func TestTypicalOfManyColumns(t *testing.T) {
	s, err := duck.Open(&cli.Env{Ctx: t.Context(), Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const n = 1100
	var values, about []string
	for i := range n {
		values = append(values, fmt.Sprintf("c%d: %d.5", i, i))
		about = append(about, fmt.Sprintf("{name: 'c%d', kind: 'number', n: 1, missing: 0, center: %d.5::DOUBLE, scale: NULL::DOUBLE}", i, i))
	}
	if err := s.Exec("CREATE TABLE fits AS SELECT {columns: [" + strings.Join(about, ", ") + "]} AS fit"); err != nil {
		t.Fatal(err)
	}
	sc := &scoring{fits: &fitstore.Fits{}, x: "{" + strings.Join(values, ", ") + "}", rows: "range(3)"}
	fields, whole, err := typical(s, sc)
	if err != nil || !whole || len(fields) != n {
		t.Fatalf("%d fields (%v)", len(fields), err)
	}
	var last float64
	if err := s.Row("SELECT x.c1099 FROM typical", &last); err != nil || last != 1099.5 {
		t.Errorf("%v (%v)", last, err)
	}
	if all, err := sc.columns(s); err != nil || len(all) != n || all[1099].mean.Float64 != 1099.5 {
		t.Errorf("%d columns (%v)", len(all), err)
	}
}

// The first rows' columns are those that a plain unnest gives, and an operator of their own stands
// between them and the expression of x.
func TestSampleOfColumns(t *testing.T) {
	s, err := duck.Open(&cli.Env{Ctx: t.Context(), Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sc := &scoring{fits: &fitstore.Fits{}, x: "CASE WHEN i % 7 > 0 THEN {k: [i], t: CASE WHEN i % 3 = 0 THEN 'a b' END, d: DATE '2020-01-01' + i::INTEGER, v: i / 4} END", rows: "range(100) r(i)", weight: "i / 2", seen: 90}
	sample := sc.sample([]string{`"t"`, `"d"`, `"v"`})
	plain := "SELECT t, d, v, bglm_w FROM (SELECT unnest(bglm_x), bglm_w FROM " + sc.features() + " LIMIT 90)"
	for _, q := range [][2]string{{sample, plain}, {plain, sample}} {
		var other int64
		if err := s.Row("SELECT count(*) FROM (("+q[0]+") EXCEPT ALL ("+q[1]+"))", &other); err != nil || other > 0 {
			t.Errorf("%d rows differ (%v)", other, err)
		}
	}
	var kind, plan string
	if err := s.Row("EXPLAIN (FORMAT json) "+sample, &kind, &plan); err != nil || !strings.Contains(plan, `"UNNEST"`) {
		t.Errorf("%s (%v)", plan, err)
	}
}
