package export

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
)

// What the sum over nodes is right to, as SQL and the documentation say.
func TestNodes(t *testing.T) {
	z, w := Nodes()
	type promise struct{ sd, tol float64 }
	for link, promises := range map[string][]promise{"logit": {{0, 1e-14}, {1, 1e-10}, {2, 1e-10}, {4, 1e-8}, {7, 1e-5}}, "cloglog": {{0, 1e-14}, {1, 1e-9}, {2, 1e-9}, {4, 2e-5}, {7, 1e-3}}} {
		l, err := lik.New("", link, lik.Params{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range promises {
			worst := 0.0
			for m := -12.0; m <= 12; m += 0.37 {
				sum := 0.0
				for k := range z {
					sum += w[k] * l.Response(m+c.sd*z[k])
				}
				want, _ := l.Predict(m, c.sd*c.sd)
				worst = math.Max(worst, math.Abs(sum-want))
			}
			t.Logf("%s, deviation %v: %.1e", link, c.sd, worst)
			if worst > c.tol {
				t.Errorf("%s, deviation %v: %.2e, more than %v", link, c.sd, worst, c.tol)
			}
		}
	}
}

// Text and names come back as they are, whatever is in them.
func TestQuoting(t *testing.T) {
	for _, c := range []struct{ dialect, text, literal, ident string }{
		{"duckdb", "it's", "'it''s'", `"it's"`},
		{"duckdb", `a"b\`, `'a"b\'`, `"a""b\"`},
		{"postgres", "x'); DROP TABLE t; --", "'x''); DROP TABLE t; --'", `"x'); DROP TABLE t; --"`},
		{"snowflake", `it's \ it`, `'it\'s \\ it'`, `"it's \ it"`},
		{"bigquery", "it's `a` \\ \n", "'it\\'s `a` \\\\ \\n'", "`it's \\`a\\` \\\\ \\n`"},
		{"bigquery", `\'`, `'\\\''`, "`\\\\'`"},
		{"PostgreSQL", "größe ✓", "'größe ✓'", `"größe ✓"`},
	} {
		d, err := dialectOf(c.dialect)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.string(c.text); got != c.literal {
			t.Errorf("%s: %q is %s, want %s", c.dialect, c.text, got, c.literal)
		}
		if got := d.ident(c.text); got != c.ident {
			t.Errorf("%s: %q is %s, want %s", c.dialect, c.text, got, c.ident)
		}
	}
}

func beliefs(names ...string) (out []kernels.Belief) {
	for k, n := range names {
		out = append(out, kernels.Belief{Feature: n, Weight: kernels.Weight{Mean: float64(k), Variance: 1}})
	}
	return out
}

// What cannot be written is said; each dialect writes its own tables of values.
func TestErrorsAndDialects(t *testing.T) {
	f := &kernels.Fit{Family: "bernoulli", Link: "logit", Dispersion: 1, Shape: math.NaN(), Intercept: true, Prior: kernels.DefaultPrior, Beliefs: beliefs("(Intercept)", "g=a", "g=b", "x"),
		Columns: []kernels.FitColumn{{Name: "x", Kind: kernels.NumberColumn, Center: math.NaN(), Scale: math.NaN(), Variance: math.NaN()}, {Name: "g", Kind: kernels.LevelsColumn, Center: math.NaN(), Scale: math.NaN(), Variance: math.NaN()}}}
	for dialect, want := range map[string][]string{
		"duckdb": {"AS (VALUES", "CAST(bglm_t.\"x\" AS DOUBLE)"}, "sqlite": {"AS (VALUES", "AS REAL)"}, "postgres": {"'1e+00'::float8", "DOUBLE PRECISION"},
		"bigquery": {"UNNEST([", "STRUCT(0 AS id", "`g`"}, "snowflake": {"FROM VALUES", "column1 AS c", "1e+00::DOUBLE"}} {
		text, err := SQL(f, dialect, Options{Form: "join", Table: "my schema.it's"})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s has no %s:\n%s", dialect, w, text)
			}
		}
	}
	bad := func(want string, change func(f *kernels.Fit), dialect string, o Options) {
		t.Helper()
		g := *f
		change(&g)
		if _, err := SQL(&g, dialect, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	none := func(*kernels.Fit) {}
	bad("dialect: found 'oracle'; allowed: duckdb", none, "oracle", Options{})
	bad("form: found 'long'", none, "duckdb", Options{Form: "long"})
	bad("level = 2", none, "duckdb", Options{Level: 2})
	bad("zero byte", none, "duckdb", Options{Table: "a\x00b"})
	bad("prediction = 'exact' of a FIT of classes", func(f *kernels.Fit) { f.Classes = []string{"a"} }, "duckdb", Options{})
	bad("hashed features", func(f *kernels.Fit) { f.HashBits = 4 }, "duckdb", Options{})
	bad("belongs to none of its columns", func(f *kernels.Fit) { f.Columns = f.Columns[:1] }, "duckdb", Options{})
	bad("covariance", func(f *kernels.Fit) { f.Covariance = kernels.Covariance{Form: gauss.Full} }, "duckdb", Options{})
}

// A link that is not in the table is refused, by name and with those that are; those of the
// registry are there, or refused alike.
func TestLinks(t *testing.T) {
	_, err := linkOf("cauchit")
	e := (*argument.Error)(nil)
	if !errors.As(err, &e) || err.Error() != "link: found 'cauchit'; is not written for other systems; allowed: cloglog, identity, log, logit, probit" {
		t.Error(err)
	}
	written := 0
	for _, info := range lik.Families() {
		for _, link := range info.Links {
			f := &kernels.Fit{Family: info.Family, Link: link, Dispersion: 1, Shape: 2, Intercept: true, Prior: kernels.DefaultPrior, Time: math.NaN(),
				Beliefs: []kernels.Belief{{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: 0.4, Variance: 0.2}}}}
			for what, write := range map[string]func() (string, error){
				"SQL":  func() (string, error) { return SQL(f, "duckdb", Options{}) },
				"PMML": func() (string, error) { return PMML(f, "y") },
			} {
				_, known := links[link]
				if _, err := write(); (err == nil) != known || err != nil && !errors.As(err, &e) {
					t.Errorf("%s of %s %s: %v", what, info.Family, link, err)
				} else if known {
					written++
				}
			}
		}
	}
	if written == 0 {
		t.Error("nothing is written")
	}
}
