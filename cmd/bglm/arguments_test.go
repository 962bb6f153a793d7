package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
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

// A fit that is begun takes no log( ) of R for that of SQL, wherever it stands: under 'ok' log(u, 2) was the logarithm
// of 2 to base u. One that goes on from an older fit has its formula.
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
