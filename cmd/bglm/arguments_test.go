package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// SQL that is wrong is said with the argument that has it.
func TestWrongArguments(t *testing.T) {
	dir := t.TempDir()
	data, out := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	ok(t, "sql", "-c", "COPY (SELECT i % 3 = 0 AS y, i * 37 % 100 / 100 AS z, 'g' || i % 4 AS g FROM range(60) t(i)) TO '"+data+"'")
	for want, args := range map[string][]string{
		"--y yy+: " + data:                                      {"--y", "yy+", "--x", "{z}"},
		"--x {z:z: " + data:                                     {"--y", "y", "--x", "{z:z"},
		"--where z>: " + data:                                   {"--y", "y", "--x", "{z}", "--where", "z>"},
		"--order zz: " + data:                                   {"--y", "y", "--x", "{z}", "--order", "zz"},
		"--option weight=ww: " + data:                           {"--y", "y", "--x", "{z}", "-o", "weight=ww"},
		"formula: the response yy: " + data:                     {"-f", "yy ~ z"},
		"formula: offset(oo): " + data:                          {"-f", "y ~ z + offset(oo)"},
		"formula: ln(Z + 1) and ln(z + 1) differ in case alone": {"-f", "y ~ ln(Z + 1) + ln(z + 1)"},
	} {
		r := bglm(t, "", append([]string{"fit", data, "--out", out}, args...)...)
		if r.code != 1 || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %d, %s", args, r.code, r.stderr)
		}
	}
	if r := ok(t, "fit", data, "-f", "y ~ Z + z + z:g + G:Z", "--out", out); !strings.Contains(r.stdout, "│ Z ") || strings.Contains(r.stdout, "│ z ") || !strings.Contains(r.stdout, "z:g=") || strings.Contains(r.stdout, "G:Z") {
		t.Errorf("columns named in two cases: %s", r.stdout)
	}
}

// What a term of the formula asks for is not said of an option that nobody gave.
func TestTermsOfOtherMethods(t *testing.T) {
	dir := t.TempDir()
	data, out := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet")
	ok(t, "sql", "-c", "COPY (SELECT i % 3 = 0 AS y, i * 37 % 100 / 100 AS z, 'g' || i % 4 AS g, i % 5 = 0 AS h FROM range(60) t(i)) TO '"+data+"'")
	for _, c := range []struct {
		formula, want string
		more          []string
	}{
		{"y ~ (z | g)", "formula: (z | g) is not used here: its intercepts and slopes are correlated; allowed: (x || g)", []string{"-m", "adf"}},
		{"y ~ (z | g)", "formula: (z | g) is not used here: its intercepts and slopes are correlated; allowed: (x || g)", []string{"--out-of-core"}},
		{"y ~ z + (1 | g)", "formula: (1 | g) learns its prior variance: found 'auto'; ekf sees each row once", []string{"-m", "ekf"}},
		{"y ~ (g | h)", `formula: (g | h): found columns "h" and "g:h"; the levels of one are of 1 and those of the other of 2 columns`, nil},
		{"y ~ (z | g)", "a bar between intercepts and slopes and --option correlated say the same", []string{"-o", "correlated=[['g', 'z:g']]"}},
		{"y ~ z", "--option correlated is not used here", []string{"-m", "adf", "-o", "correlated=[['g', 'z:g']]"}},
	} {
		r := bglm(t, "", append([]string{"fit", data, "--out", out, "-f", c.formula}, c.more...)...)
		if r.code != 2 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s %q: %d, %s", c.formula, c.more, r.code, r.stderr)
		}
		if slices.Contains(c.more, "--out-of-core") {
			continue
		}
		if r := bglm(t, "", append([]string{"fit", data, "--engine", "arrow", "--out", out, "-f", c.formula}, c.more...)...); r.code != 2 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s %q by Arrow: %d, %s", c.formula, c.more, r.code, r.stderr)
		}
	}
}

// A fit that is begun takes no log( ) of R for that of SQL, wherever it stands: under 'ok' log(u,
// 2) was the logarithm of 2 to base u. One that goes on from an older fit has its formula.
func TestFitChecksLogs(t *testing.T) {
	dir := t.TempDir()
	data, fit, next := filepath.Join(dir, "d.csv"), filepath.Join(dir, "f.parquet"), filepath.Join(dir, "n.parquet")
	query(t, "COPY (SELECT i % 3 = 0 AS y, i AS u FROM range(2, 60) t(i)) TO '"+data+"'")
	for text, want := range map[string]string{"y ~ log(u, 2)": "I(ln(u) / ln(2))", "y ~ u + offset(2*log(u))": "write ln(u)", "y ~ I(u * log(u))": "write ln(u)"} {
		if r := bglm(t, "", "fit", data, "-f", text, "--out", fit); r.code != 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %d, %s", text, r.code, r.stderr)
		}
	}
	ok(t, "fit", data, "-f", "y ~ u", "-q", "--out", fit)
	ok(t, "fit", data, "-f", "y ~ u + I(u * log(u))", "--prior", fit, "-q", "-o", "columns=any", "--out", next)
	ok(t, "predict", data, "-b", next, "-q", "--out", filepath.Join(dir, "p.csv"))
}

// Beliefs alone under hash_bits are those of slots, by every door, and what options hardly mean is
// said.
func TestSlotsAlone(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT i, i % 3 = 0 AS y, sin(i) AS x, 'g' || i % 7 AS s FROM range(200) t(i)) TO '"+in("d.parquet")+"'")
	fit := []string{"fit", in("d.parquet"), "-f", "y ~ x + s", "-m", "adf", "-o", "covariance=diagonal", "-q"}
	ok(t, append(fit, "-o", "hash_bits=3", "--out", in("h.parquet"))...)
	ok(t, append(fit, "-o", "hash_bits=3", "--out", in("h.csv"))...)
	ok(t, append(fit, "--out", in("n.csv"))...)
	query(t, "COPY (SELECT feature, mean, variance FROM '"+in("h.parquet")+"') TO '"+in("plain.parquet")+"'")
	score := func(beliefs string, more ...string) (p, said string) {
		r := ok(t, append([]string{"predict", in("d.parquet"), "-b", in(beliefs), "--x", "{x, s}", "--columns", "none", "-q", "--out", in("p.csv")}, more...)...)
		return query(t, "SELECT round(sum(prediction), 9) FROM '"+in("p.csv")+"'"), r.stderr
	}
	want, _ := score("h.parquet")
	for _, name := range []string{"h.csv", "plain.parquet"} {
		if got, said := score(name, "-o", "family=bernoulli", "-o", "hash_bits=3"); got != want || said != "" {
			t.Errorf("%s with hash_bits: %s, want %s; %s", name, got, want, said)
		}
		if _, said := score(name, "-o", "family=bernoulli"); !strings.Contains(said, name+": its features are called as slots of hash_bits are") {
			t.Errorf("%s without hash_bits: %q", name, said)
		}
		for _, engine := range []string{"duckdb", "arrow"} {
			ok(t, append(fit, "--engine", engine, "--prior", in(name), "-o", "hash_bits=3", "--out", in("on.parquet"))...)
			if got, want := query(t, "SELECT count(*) FROM '"+in("on.parquet")+"'"), query(t, "SELECT count(*) FROM '"+in("h.parquet")+"'"); got != want {
				t.Errorf("%s continued by %s: %s beliefs for %s", name, engine, got, want)
			}
		}
	}
	if _, said := score("n.csv", "-o", "family=bernoulli", "-o", "intercept=false"); !strings.Contains(said, "n.csv: (Intercept) is a feature like others in a model without intercept") {
		t.Errorf("an intercept beside intercept=false: %q", said)
	}
	if _, said := score("n.csv", "-o", "family=bernoulli"); said != "" {
		t.Errorf("beliefs with an intercept: %q", said)
	}
}
