package formula

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestFormula(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"y ~ a + b", "y | a b | true"},
		{"delay > 15 ~ origin + hour(date) + origin:destination", "delay > 15 | origin hour(date) origin:destination | true"},
		{"y ~ a - 1", "y | a | false"},
		{"y ~ 0 + a", "y | a | false"},
		{"y ~ a + 1", "y | a | true"},
		{"y ~ -1 + a", "y | a | false"},
		{"y ~ 1", "y |  | true"},
		{"y ~ a * b", "y | a b a:b | true"},
		{"y ~ a * b * c", "y | a b a:b c a:c b:c a:b:c | true"},
		{"y ~ (a + b + c)^2", "y | a b c a:b a:c b:c | true"},
		{"y ~ (a + b):c", "y | a:c b:c | true"},
		{"y ~ (a + b - 1) * c", "y | a b c a:c b:c | false"},
		{"y ~ a + a + b:a + a:b", "y | a b:a | true"},
		{"y ~ a * b - a:b", "y | a b | true"},
		{"y ~ hour(date)::VARCHAR : x", "y | hour(date)::VARCHAR:x | true"},
		{"y ~ I(a / 1000) + f('~)', b[1])", "y | I(a / 1000) f('~)', b[1]) | true"},
		{`y ~ "my col" + ` + "`other one`", "y | my col other one | true"},
		{`y ~ "a ""q"" name" + b`, `y | a "q" name b | true`},
		{"ln(`y,1`) ~ ln(`x, 1`) + f('`', `a\"b`)", `ln("y,1") | ln("x, 1") f('` + "`" + `', "a""b") | true`},
		{"I(y / 1000) ~ x", "(y / 1000) | x | true"},
		{"cbind(s, n - s) ~ x", "s / (s) + (n - s) | x | true"},
		{"y ~ x + offset(ln(t)) + offset(z)", "y | x | true offset ln(t) z"},
		{"y ~ . - a", "y |  | true dot"},
		{"y ~ x + (1 | g)", "y | x g | true"},
		{"y ~ (1 | a) + (1|b)", "y | a b | true"},
		{"y ~ x + (1 | a/b)", "y | x a a:b | true"},
		{"y ~ (1 | a/b/c)", "y | a a:b a:b:c | true"},
		{"y ~ x + (x || g)", "y | x g x:g | true"},
		{"y ~ x + (0 + x | g)", "y | x x:g | true"},
		{"y ~ x + (x | g)", "y | x g x:g | true [['g', 'x:g']]"},
		{"y ~ x + (1 + x + z | a/b)", "y | x a x:a z:a a:b x:a:b z:a:b | true [['a', 'x:a', 'z:a'], ['a:b', 'x:a:b', 'z:a:b']]"},
		{"y ~ (a + b)^2 + (1 | f(g, '|'))", "y | a b a:b f(g, '|') | true"},
		{"y ~ C(a) + s", "y | C(a) s | true"},
	} {
		f, err := Parse(c.text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		var names []string
		for _, s := range f.Terms {
			names = append(names, s.Name())
		}
		got := f.Y
		if f.Trials != "" {
			got += " / " + f.Trials
		}
		got += fmt.Sprintf(" | %s | %v", strings.Join(names, " "), f.Intercept)
		if len(f.Offset) > 0 {
			got += " offset " + strings.Join(f.Offset, " ")
		}
		if f.Dot {
			got += " dot"
		}
		if len(f.Correlated) > 0 {
			got += " " + f.CorrelatedSQL()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"y": "no ~", "~ a": "before the ~", "y ~": "it ends", "y ~ a +": "it ends", "y ~ a / b": "I(distance / 1000)", "y ~ g/x - 1": "are a + a:b", "y ~ x %in% g": "is a:b", "y ~ f(a": "does not close",
		"y ~ a::": "needs a type", "y ~ (a + b": "it ends", "y ~ 'a": "does not end", "y ~ `a": "does not end", `y ~ "a`: "does not end", "y ~ a^x": "the power", "y ~ 0": "no terms", "cbind(a) ~ b": "cbind takes",
		"y ~ poly(a, 3)": "write its powers, as in a + I(a^2)", "y ~ bs(f(a, b))": "I(greatest(f(a, b) - 10, 0))", "y ~ C(a, Treatment)": "as in C(a)",
		"y ~ b + a^2": "write I(a^2) for the power", "y ~ scale(a)": "write a: numbers", "y ~ a + offset(log(t))": "write offset(ln(t))", "log(y) ~ a": "write ln(y), or log10(y)", "y ~ b + LOG(a + 1)": "write ln(a + 1), or log10(a + 1)",
		"y ~ a - .": "everything", "y ~ a) + b": "unexpected", "y ~ (x | g) + (z | g)": "correlates g, which another", "y ~ (1 | g + h)": "allowed: a column, a:b or a/b",
		"y ~ a - (1 | a)": "cannot be taken away", "y ~ (. | g)": "before its bar", "y ~ offset(z):g": "offset(z) has no interactions", "y ~ g * offset(z)": "offset(z) has no interactions", "y ~ x:1": "1 has no interactions", "y ~ (offset(z)):g": "offset(z) has no interactions", "y ~ (1 | )": "behind its bar", "y ~ 17": "unexpected",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// R's log( ) is another one than SQL's also where it is a part of an expression.
func TestCheckLogs(t *testing.T) {
	for text, want := range map[string]string{
		"y ~ x + I(log(x))":         "write ln(x), or log10(x)",
		"y ~ I(u * LOG (x + f(1)))": "write ln(x + f(1)), or log10(x + f(1))",
		"I(log(y)) ~ x":             "write ln(y)",
		"2 * log(y) ~ x":            "write ln(y)",
		"y ~ x + offset(2*log(t))":  "write ln(t)",
		"y ~ log(x, 2)":             "log(x, 2) in SQL is the logarithm of 2 to base x; write I(ln(x) / ln(2))",
		"y ~ (I(log(x)) | g)":       "write ln(x)",
		"y ~ factor(floor(log(x)))": "write ln(x)",
		"y ~ . - I(log(x))":         "write ln(x)",
		"y ~ ln(x) + log10(x) + I(log2(x)) + catalog(x) + log + s_log(x)":  "",
		`y ~ f('log(x)') + I("log(x)" + 1) + offset(ln(t)) + (ln(x) || g)`: "",
	} {
		f, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.CheckLogs(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func TestFormulaSQL(t *testing.T) {
	kinds := map[string]Kind{`"n"`: Number, `"k"`: Number, `"s"`: Level, `"b"`: Level, `"tags"`: Levels, `"m"`: Container, `"v"`: Container, `"st"`: Fields}
	kind := func(p Part) (Kind, error) {
		if k, ok := kinds[p.SQL]; ok {
			return k, nil
		}
		return Number, nil
	}
	fields := func(Part) ([]string, error) { return []string{"p q", "r"}, nil }
	for _, c := range []struct{ text, want string }{
		{"y ~ n + S + tags", `{'n': "n", 'S': "s", 'tags': "tags"}`},
		{"y ~ factor(n) + hour(d)", `{'factor(n)': ((n) + 0)::VARCHAR, 'hour(d)': hour(d)}`},
		{"y ~ n:k", `{'n:k': {'n': "n", 'k': "k"}}`},
		{"y ~ m", `"m"`},
		{"y ~ 1", `[]::VARCHAR[]`},
		{"y ~ m + v", `{'m': "m", 'v': "v"}`},
		{"y ~ st", `"st"`},
		{"y ~ n + st", `CASE WHEN ("st") IS NOT NULL THEN {'n': "n", 'p q': struct_extract("st", 'p q'), 'r': struct_extract("st", 'r')} END`},
		{"y ~ n + (1 | n)", `{'n': "n", 'factor(n)': (("n") + 0)::VARCHAR}`},
		{"y ~ (1 | n) + N", `{'factor(n)': (("n") + 0)::VARCHAR, 'N': "n"}`},
		{"y ~ n + (k | n)", `{'n': "n", 'factor(n)': (("n") + 0)::VARCHAR, 'k:factor(n)': {'k': "k", 'factor(n)': (("n") + 0)::VARCHAR}}`},
		{"y ~ n:k + (0 + k | n)", `{'n:k': {'n': "n", 'k': "k"}, 'k:factor(n)': {'k': "k", 'factor(n)': (("n") + 0)::VARCHAR}}`},
		{"y ~ k:n + (1 | n)", `{'k:n': {'k': "k", 'n': "n"}, 'n': (("n") + 0)::VARCHAR}`},
		{"y ~ (n | n)", `{'factor(n)': (("n") + 0)::VARCHAR, 'n:factor(n)': {'n': "n", 'factor(n)': (("n") + 0)::VARCHAR}}`},
		{"y ~ n + (1 | n) + factor(n)", `{'n': "n", 'factor(n)': (("n") + 0)::VARCHAR}`},
		{"y ~ s + (1 | s)", `{'s': "s"}`},
		{"y ~ f(n) + (1 | f(n))", `{'f(n)': f(n), 'factor(f(n))': ((f(n)) + 0)::VARCHAR}`},
		{"y ~ s + n:s", `{'s': "s", 'n:s': {'n': "n", 's': "s"}}`},
		{"y + n > 2 ~ . - K", `{'s': "s", 'b': "b", 'tags': "tags", 'm': "m"}`},
	} {
		f, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Bind([]string{"y", "n", "k", "s", "b", "tags", "m"}, ""); err != nil {
			if err = f.Bind([]string{"y", "n", "k", "s", "b", "tags", "m", "v", "st", "r", "hour"}, ""); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := f.Features(kind, fields); err != nil || got != c.want {
			t.Errorf("%s: %s (%v), want %s", c.text, got, err, c.want)
		}
	}
	f, _ := Parse("y ~ st + R")
	if err := f.Bind([]string{"st", "r"}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Features(kind, fields); err == nil || !strings.Contains(err.Error(), "term st has a field r, the name of another term") {
		t.Errorf("error %v", err)
	}
	for text, want := range map[string]string{
		"y ~ n + (0 + s | b)": "(0 + s | b): s has levels", "y ~ (0 + factor(n) | s)": "factor(n) has levels", "y ~ (0 + n:s | b)": "s has levels",
		"y ~ (0 + s || b)": "", "y ~ (0 + n | b)": "", "y ~ (0 + n + k | s)": "",
	} {
		f, err := Parse(text)
		if err == nil {
			err = f.Bind([]string{"y", "n", "k", "s", "b"}, "")
		}
		if err == nil {
			_, err = f.Features(kind, fields)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	f, _ = Parse("y ~ nope")
	if err := f.Bind([]string{"y", "a"}, ""); err == nil || !strings.Contains(err.Error(), "no column nope; found: y, a") {
		t.Errorf("error %v", err)
	}
}

func FuzzFormula(f *testing.F) {
	for _, s := range []string{"y ~ a*b", "cbind(a, b) ~ (x + f('~', z))^2 - 1", "a ~ `b` + \"c\"[1]::INT:d", "y ~ ."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 200 {
			return
		}
		if g, err := Parse(s); err == nil {
			if err := g.Bind([]string{"a", "b"}, ""); err == nil {
				_, _ = g.Features(func(Part) (Kind, error) { return Level, nil }, nil)
			}
		}
	})
}

func TestFullStruct(t *testing.T) {
	for in, want := range map[string]string{
		"{a, b: f(x, y), \"c d\"}": "{a: a, b: f(x, y), \"c d\": \"c d\"}", "m": "m", "{a: 1}.a": "{a: 1}.a", "{": "{", "": "",
	} {
		if got := FullStruct(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestColumn(t *testing.T) {
	for in, want := range map[string]string{" a ": "a", `"b c"`: "b c", "a.b": "a.b", "a + b": "-", "f(x)": "-", "": ""} {
		got, ok := Column(in)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"a + 1 AS b": "a + 1", "a": "a", "cast(a as INT)": "cast(a as INT)"} {
		if got := Bare(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// A dot in an operation is the terms of all other columns, as in R: terms and columns.
func TestDot(t *testing.T) {
	columns := []string{"y", "a", "b", "g", "w"}
	for _, c := range []struct{ text, used, want, others string }{
		{"y ~ .", "", "a b g w", "a b g w"},
		{"y ~ .", "ln(w)", "a b g", "a b g"},
		{"y ~ .", "'w'", "a b g w", "a b g w"},
		{"y ~ .^2 - w", "", "a b g a:b a:g b:g", "a b g"},
		{"y ~ (. - w)^2 - a:b", "", "a b g a:g b:g", "a b g"},
		{"y ~ . * G - w", "", "a b G a:G b:G", "a b"},
		{"y ~ .:g - w", "w", "a:g b:g g", "a b g"},
		{"y ~ a:. + offset(w)", "", "a a:b a:g", "a b g"},
		{"y = 'g' ~ . - w", "", "a b g", "a b g"},
		{`"y" = 'it''s g' ~ . - w + I(a^2)`, "", "a b g I(a^2)", "a b g"},
		{"y ~ . - w + (1 | g)", "", "a b g", "a b"},
	} {
		f, err := Parse(c.text)
		if err == nil {
			err = f.Bind(columns, c.used)
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var names []string
		for _, s := range f.Terms {
			names = append(names, s.Name())
		}
		if got := strings.Join(names, " "); got != c.want || strings.Join(f.Others, " ") != c.others {
			t.Errorf("%s: %s of %v, want %s of %s", c.text, got, f.Others, c.want, c.others)
		}
		// As it was when the model was fitted, whatever else is there now.
		again, err := Parse(c.text)
		if err == nil {
			err = again.Bind(append([]string{"more"}, columns...), "", f.Others...)
		}
		names = names[:0]
		for _, s := range again.Terms {
			names = append(names, s.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%s, again: %s, want %s (%v)", c.text, got, c.want, err)
		}
	}
	f, err := Parse("y ~ . - nope")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Bind(columns, ""); err == nil || !strings.Contains(err.Error(), "no column nope to take away") {
		t.Errorf("a column that is not there: %v", err)
	}
	if err := f.Bind([]string{"y", "a"}, "", "a"); err != nil {
		t.Errorf("of a fitted model: %v", err)
	}
}

// The error about a type that is no feature gives a cast that works.
func TestKindOfOthers(t *testing.T) {
	for sqlType, want := range map[string]string{"UUID": "id::VARCHAR", "BLOB": "id::VARCHAR", "TIME": "hour(t)::VARCHAR or epoch(t)", "INTERVAL": "epoch(d)", "TIMESTAMP": "hour(ts)::VARCHAR, ts::DATE or epoch(ts)", "TIMESTAMP WITH TIME ZONE": "epoch(ts)"} {
		if _, err := KindOf(sqlType); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", sqlType, err)
		}
	}
}

// A column that the dot brings in but that cannot be a feature: the error says how to leave it out.
func TestDotOfType(t *testing.T) {
	for text, want := range map[string]string{
		"y ~ .":         `term at time: its type is TIMESTAMP; .*; \. - "at time" leaves it out$`,
		"y ~ `at time`": `term at time: its type is TIMESTAMP; .*epoch\(ts\)$`,
	} {
		f, err := Parse(text)
		if err == nil {
			err = f.Bind([]string{"y", "a", "at time"}, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Features(func(p Part) (Kind, error) {
			if p.Name == "at time" {
				return KindOf("TIMESTAMP")
			}
			return Number, nil
		}, nil)
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A dot may stand for thousands of columns; beyond the limit the error names the way out.
func TestManyTerms(t *testing.T) {
	for n, fails := range map[int]bool{2000: false, maxTerms + 1: true} {
		columns := []string{"y"}
		for i := range n {
			columns = append(columns, fmt.Sprintf("c%d", i))
		}
		f, err := Parse("y ~ .")
		if err == nil {
			err = f.Bind(columns, "")
		}
		if fails != (err != nil) || fails && !strings.Contains(err.Error(), "struct_pack(*COLUMNS(* EXCLUDE (y)))") || !fails && len(f.Terms) != n {
			t.Errorf("%d columns: %v", n, err)
		}
	}
}
