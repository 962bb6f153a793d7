package udf_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	sqlfiles "github.com/bglm/bglm/sql"
	"github.com/bglm/bglm/udf"
)

// bglm_macros gives a client without .read what it has to run.
//
// covers: macros
func TestMacrosFunction(t *testing.T) {
	db := open(t)
	db.SetMaxOpenConns(1)
	text := func(q string) (s string) {
		t.Helper()
		if err := db.QueryRow(q).Scan(&s); err != nil {
			t.Fatal(err, q)
		}
		return s
	}
	if _, err := db.Exec(text("SELECT bglm_macros()")); err != nil {
		t.Fatal(err)
	}
	if got := text("SELECT count(*)::VARCHAR FROM bglm_compare($$SELECT 'a' AS feature, 1.0 AS mean, 2.0 AS variance$$, $$SELECT 'a' AS feature, 1.0 AS mean, 2.0 AS variance$$)"); got != "1" {
		t.Error(got)
	}
	one := text("SELECT bglm_macros('Belief_Rank')")
	if !strings.HasPrefix(one, "CREATE OR REPLACE MACRO bglm_belief_rank(") || strings.Contains(one, "bglm_score") {
		t.Error(one)
	}
	var s string
	if err := db.QueryRow("SELECT bglm_macros('bglm_scor')").Scan(&s); err == nil || !strings.Contains(err.Error(), "bglm_macros: name: found 'bglm_scor'; allowed: bglm_source, bglm_needs") {
		t.Error(err)
	}
	if err := db.QueryRow("SELECT bglm_macros(3)").Scan(&s); err == nil || !strings.Contains(err.Error(), "name is INTEGER; allowed: VARCHAR") {
		t.Error(err)
	}
}

// A key that functions share has the default and the meaning of the function that is asked for, and
// says of each who uses it.
func TestHelpOfSharedKeys(t *testing.T) {
	db := open(t)
	for _, c := range []struct{ name, line string }{
		{"adf", "covariance           form of the posterior covariance; arrowhead"},
		{"ep", "default 'full' up to 1,000 weights, else 'diagonal'"},
		{"sequential_laplace", "covariance           form of the posterior covariance; default 'full', or that of prior"},
		{"from_beliefs", "covariance           the covariance matrix of the beliefs"},
		{"effects", "reference            level of the column that others are compared with"},
		{"softmax", "reference            class whose weights are pinned at 0"},
		{"newton_state", "default 'laplace'"},
		{"newton_solve", "default 'laplace'"},
		{"fit", "method               the engine; auto ="},
		{"sql", "the mean weights; default 'exact'"},
		{"reference", "used by: bglm_softmax\n\n"},
		{"reference", "used by: bglm_effects\n"},
	} {
		var got string
		if err := db.QueryRow("SELECT bglm_help(?)", c.name).Scan(&got); err != nil || !strings.Contains(got, c.line) {
			t.Errorf("help of %s lacks %q: %v\n%s", c.name, c.line, err, got)
		}
	}
}

// Everything there is has its help: every function, macro and option; what a signature says
// has options lists them, and no others do.
//
// covers: help options
func TestHelpOfAll(t *testing.T) {
	kerneltest.Slow(t)
	db := open(t)
	help := func(name string) (s string) {
		t.Helper()
		if err := db.QueryRow("SELECT bglm_help(?)", name).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	used := map[string]bool{}
	for _, f := range udf.Functions() {
		for _, name := range []string{f.Name, strings.TrimPrefix(f.Name, "bglm_")} {
			got := help(name)
			if !strings.Contains(got, f.Signature) || !strings.Contains(got, f.Description) || !strings.Contains(got, f.Example) {
				t.Errorf("help of %s: %s", name, got)
			}
			for _, o := range f.Options {
				if !strings.Contains(got, "  "+o+" ") {
					t.Errorf("help of %s lacks the option %s", name, o)
				}
			}
		}
		for _, o := range f.Options {
			used[o] = true
			if got := help(o); !slices.Contains(strings.Fields(got), f.Name) {
				t.Errorf("help of the option %s lacks %s", o, f.Name)
			}
		}
		if says := strings.ContainsAny(f.Signature, "{") || strings.Contains(f.Signature, "options]"); says != (len(f.Options) > 0) {
			t.Errorf("%s has the options %v", f.Signature, f.Options)
		}
	}
	for _, o := range option.All() {
		if !used[o.Key] {
			t.Errorf("no function has the option %s", o.Key)
		}
	}
	for _, m := range sqlfiles.List() {
		if got := help(m.Name); !strings.Contains(got, m.Signature) || !strings.Contains(got, m.Doc) {
			t.Errorf("help of %s: %s", m.Name, got)
		}
	}
	// The list in SQL says the same.
	var missing int
	if err := db.QueryRow(`SELECT count(*) FROM (SELECT f.name AS f, unnest(f.options) AS o FROM (SELECT unnest(bglm_functions()) AS f)) a
		FULL JOIN (SELECT unnest(o.functions) AS f, o.name AS o FROM (SELECT unnest(bglm_options()) AS o)) b USING (f, o) WHERE a.f IS NULL OR b.f IS NULL`).Scan(&missing); err != nil || missing != 0 {
		t.Error(missing, err)
	}
}
