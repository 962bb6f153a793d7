package sqltest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// answer is what a statement gave: its rows, or an error.
type answer struct {
	Rows  []string `json:"rows"`
	Error string   `json:"error"`
}

// tryHere runs statements in this process.
func tryHere(ctx context.Context, t *testing.T, statements []string) []answer {
	t.Helper()
	con := connect(t, open(t))
	out := make([]answer, len(statements))
	for i, q := range statements {
		rows, err := rowsOf(ctx, con, q)
		if out[i].Rows = rows; err != nil {
			out[i].Error = err.Error()
		}
	}
	return out
}

// tryClient runs statements through the extension in a client.
func tryClient(ctx context.Context, t *testing.T, ext, version string, statements []string) []answer {
	t.Helper()
	b, err := json.Marshal(statements)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "statements.json")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "node", "clients/try.mjs", ext, version, file)
	var errs strings.Builder
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		at, _ := os.ReadFile(file + ".at")
		t.Fatalf("DuckDB %s: %v at the statement\n%s\n%s", version, err, at, errs.String())
	}
	var out []answer
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	return out
}

// numbers are values of every numeric type: extremes, both signs, each scale.
var numbers = map[string][]string{
	"BOOLEAN":  {},
	"TINYINT":  {"-128", "-1", "0", "1", "127"},
	"SMALLINT": {"-32768", "-1", "0", "32767"},
	"INTEGER":  {"-2147483648", "-1", "0", "2147483647"},
	"BIGINT":   {"-9223372036854775808", "-9007199254740993", "-1", "0", "9007199254740993", "9223372036854775807"},
	"HUGEINT": {"-170141183460469231731687303715884105727", "-18446744073709551617", "-18446744073709551616", "-18446744073709551615", "-9007199254740993", "-1025", "-1024", "-10", "-1",
		"0", "1", "10", "9007199254740993", "18446744073709551615", "18446744073709551616", "18446744073709553665", "170141183460469231731687303715884105727"},
	"UTINYINT":       {"0", "1", "255"},
	"USMALLINT":      {"0", "65535"},
	"UINTEGER":       {"0", "4294967295"},
	"UBIGINT":        {"0", "1", "9007199254740993", "18446744073709551615"},
	"UHUGEINT":       {"0", "1", "18446744073709551615", "18446744073709551616", "340282366920938463463374607431768211455"},
	"FLOAT":          {"-3.4028234663852886e38", "-1.5", "0", "1.401298464324817e-45", "0.25", "3.4028234663852886e38"},
	"DOUBLE":         {"-1.7976931348623157e308", "-0.1", "0", "5e-324", "0.1", "1.7976931348623157e308"},
	"DECIMAL(4,0)":   {"-9999", "-1", "0", "9999"},
	"DECIMAL(4,4)":   {"-0.9999", "0.0001", "0.1"},
	"DECIMAL(9,4)":   {"-99999.9999", "-0.1", "0", "99999.9999"},
	"DECIMAL(18,0)":  {"-999999999999999999", "0", "999999999999999999"},
	"DECIMAL(18,17)": {"-9.99999999999999999", "-0.1", "0.00000000000000001", "0.3"},
	"DECIMAL(38,0)":  {"-99999999999999999999999999999999999999", "-18446744073709551617", "-4", "0", "4", "99999999999999999999999999999999999999"},
	"DECIMAL(38,10)": {"-9999999999999999999999999999.9999999999", "-0.1", "0.1", "18446744073709551616.5"},
	"DECIMAL(38,38)": {"-0.99999999999999999999999999999999999999", "-0.1", "0.00000000000000000000000000000000000001", "0.1"},
}

// places are where a number may stand; %s is the number.
var places = []string{
	"bglm_features({a: %s})", "bglm_features({a: %s, b: 'x'})", "bglm_features([%s])", "bglm_features([%[1]s, NULL, %[1]s])", "bglm_features(MAP {'a': %s})", "bglm_features([{feature: 'a', value: %s}])",
	"bglm_adf(%s, [1.0], {family: 'gaussian', intercept: false})",
	"bglm_adf(1, [%s], {family: 'gaussian', intercept: false})",
	"bglm_adf(1, [1.0], {family: 'gaussian', intercept: false, 'offset': %s})",
	"bglm_adf(1, [1.0], {family: 'gaussian', intercept: false, weight: %s})",
	"bglm_adf(1, [1.0], {family: 'gaussian', intercept: false, time: %s})",
	"bglm_adf(0, [1.0], {trials: %s})",
	"bglm_adf(1, [1.0], {family: 'gaussian', intercept: false, prior_mean: %s})",
	"bglm_adf(1, [1.0], {family: 'gaussian', intercept: false, prior_variance: %s})",
	"bglm_adf(1, [1.0], {family: 'gaussian', priors: MAP {'1': {mean: %[1]s, variance: %[1]s}}})",
	"bglm_adf(1, [1.0], {family: 'gaussian', process_noise: MAP {'1': %s}})",
	"bglm_laplace(1, [1.0], {seed: %s})", "bglm_gp(1, [%s])", "bglm_gp(%s, [1.0], {family: 'gaussian'})",
	"bglm_rmse(%s, 0.5)", "bglm_rmse(0.5, %s)", "bglm_coverage(1, %[1]s, %[1]s)",
	"bglm_predict(bglm_from_beliefs([{feature: '1', mean: %s, variance: 1.0}], {family: 'gaussian', intercept: false}), [1.0])",
	"bglm_predict(bglm_from_beliefs([{feature: '1', mean: 1.0, variance: 1.0}], {family: 'gaussian', intercept: false}), [%s])",
	"bglm_predict_dist(bglm_from_beliefs([{feature: '1', mean: 1.0, variance: 1.0}], {family: 'gaussian', intercept: false}), [1.0], %s)",
}

// notNumbers are values of types that are no number anywhere.
var notNumbers = map[string]string{"BIT": "101", "INTERVAL": "1 day", "TIME": "12:34:56", "BLOB": "\\x41", "UUID": "b98b4f2d-3c5f-4e6e-9f87-7b3c0a4f2a11", "TIMETZ": "12:34:56+01"}

// A number means the same in every type, everywhere that a number may stand: what
// each statement gives is what the nearest DOUBLE gives there. Errors: both.
func numberStatements(t *testing.T) (typed, double []string) {
	for _, typ := range slices.Sorted(maps.Keys(numbers)) {
		for _, v := range numbers[typ] {
			r, ok := new(big.Rat).SetString(v)
			if !ok {
				t.Fatalf("%q is no number", v)
			}
			near, _ := r.Float64()
			for _, p := range places {
				of := func(what string) string {
					return fmt.Sprintf("SELECT (%s)::VARCHAR FROM (SELECT %s AS v)", fmt.Sprintf(p, "v"), what)
				}
				typed = append(typed, of(fmt.Sprintf("'%s'::%s", v, typ)))
				double = append(double, of(fmt.Sprintf("%s::DOUBLE", fmt.Sprintf("'%v'", near))))
			}
		}
	}
	return typed, double
}

var typeIn = regexp.MustCompile(`\((DOUBLE|[A-Z]+INT|INTEGER|FLOAT|DECIMAL)\)`)

func checkNumbers(t *testing.T, stride int, try func([]string) []answer) {
	t.Helper()
	typed, double := numberStatements(t)
	if testing.Short() {
		stride *= 3
	}
	if stride > 1 { // prime to the number of places, so that each comes up
		some := func(all []string) (out []string) {
			for i := 0; i < len(all); i += stride {
				out = append(out, all[i])
			}
			return out
		}
		typed, double = some(typed), some(double)
	}
	got, want := try(typed), try(double)
	bad := 0
	for i := range typed {
		g, w := got[i], want[i]
		if (g.Error == "") != (w.Error == "") || strings.Join(g.Rows, "\n") != strings.Join(w.Rows, "\n") || typeIn.ReplaceAllString(g.Error, "") != typeIn.ReplaceAllString(w.Error, "") {
			if bad++; bad < 20 {
				t.Errorf("%s\n gives %+v\n%s\n gives %+v", typed[i], g, double[i], w)
			}
		}
	}
	t.Logf("%d statements, %d differ", len(typed), bad)

	// Integers as feature names print in full.
	var keys, names []string
	for typ, values := range numbers {
		if strings.HasSuffix(typ, "INT") || typ == "INTEGER" {
			for _, v := range values {
				keys = append(keys, fmt.Sprintf("SELECT bglm_features(MAP {v: 1})[1].feature || ' ' || bglm_features([{feature: v, value: 1}])[1].feature FROM (SELECT '%s'::%s AS v)", v, typ))
				names = append(names, v+" "+v)
			}
		}
	}
	for i, a := range try(keys) {
		if a.Error != "" || a.Rows[0] != names[i] {
			t.Errorf("%s: %+v, want %s", keys[i], a, names[i])
		}
	}

	// Other types: an error that says what was found and what is allowed.
	var wrong []string
	for typ, v := range notNumbers {
		for _, p := range places {
			wrong = append(wrong, fmt.Sprintf("SELECT (%s)::VARCHAR FROM (SELECT '%s'::%s AS v)", fmt.Sprintf(p, "v"), v, typ))
		}
	}
	for i, a := range try(wrong) {
		if !regexp.MustCompile(`bglm_\w+: .*\b(allowed|takes)\b|Binder Error|Conversion Error`).MatchString(a.Error) {
			t.Errorf("%s: %+v", wrong[i], a)
		}
	}
	for _, c := range [][2]string{
		{"SELECT bglm_features({a: sum(v)})[1].value FROM (VALUES (-4), (-6)) t(v)", "-10"},
		{"SELECT bglm_adf(v, [1.0], {family: 'gaussian', intercept: false, standardize: false, dispersion: 1}).beliefs[1].mean FROM (SELECT sum(v) AS v FROM (VALUES (-4), (-6)) t(v))", "-5"},
		{"SELECT bglm_features({a: v, b: NOT v})[1].feature FROM (SELECT true AS v)", "a=true"},
		{"SELECT bglm_adf(v, [1.0], {intercept: false}).beliefs[1].mean > 0 FROM (SELECT true AS v)", "true"},
		{"SELECT bglm_sample(f, [1.0], 3, (-9223372036854775808)::BIGINT) <> bglm_sample(f, [1.0], 9223372036854775807, 9223372036854775807) " +
			"FROM (SELECT bglm_from_beliefs([{feature: '1', mean: 1.0, variance: 1.0}], {family: 'gaussian', intercept: false}) AS f)", "true"},
	} {
		if a := try([]string{c[0]})[0]; a.Error != "" || a.Rows[0] != c[1] {
			t.Errorf("%s: %+v, want %s", c[0], a, c[1])
		}
	}
}

// covers: x.numbers
func TestNumbers(t *testing.T) {
	checkNumbers(t, 1, func(q []string) []answer { return tryHere(t.Context(), t, q) })
}

// covers: x.numbers hosts
func TestNumbersClients(t *testing.T) {
	ext := extension(t)
	eachClient(t, func(t *testing.T, v string) {
		checkNumbers(t, 3, func(q []string) []answer { return tryClient(t.Context(), t, ext, v, q) })
	})
}
