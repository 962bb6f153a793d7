package nb

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/cmd/chart"
)

// notebook is the folder and the database of one that runs.
func notebook(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir) // open changes it, and t.Chdir changes it back
	t.Setenv("GONB_DIR", dir)
	t.Setenv("GONB_TMP_DIR", dir)
}

// panics is what f panics with, "" where it does not.
func panics(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

func TestQuery(t *testing.T) {
	notebook(t)
	SQL(`CREATE TABLE kept AS SELECT i, normal(7, i) AS z, uniform(7, i) AS u FROM range(4000) t(i)`)
	// Each call opens the file again: what has to last is there, with the functions of bglm.
	got := query(`SELECT count(*), abs(avg(z)) < 0.05 AND abs(stddev(z) - 1) < 0.05, min(u) > 0 AND max(u) < 1, bglm_version() <> '' FROM kept`)
	if want := []any{int64(4000), true, true, true}; len(got.rows) != 1 || !slices.Equal(got.rows[0], want) {
		t.Errorf("%v, want %v", got.rows, want)
	}
	if got := query(`SELECT 1 AS a; SELECT 'x' AS b, NULL AS c`); !slices.Equal(got.names, []string{"b", "c"}) || got.rows[0][0] != "x" || got.rows[0][1] != nil {
		t.Errorf("the last statement gave %v", got)
	}
	if text := panics(func() { SQL(`SELECT * FROM missing`) }); !strings.Contains(text, "missing") {
		t.Errorf("a failed statement panics with %q", text)
	}
}

func TestClaim(t *testing.T) {
	notebook(t)
	if text := panics(func() { Claim("one is one", `SELECT 1 = 1`) }); text != "" {
		t.Errorf("a claim that holds panics with %q", text)
	}
	for _, question := range []string{`SELECT false`, `SELECT NULL::BOOLEAN`, `SELECT 1`, `SELECT true, true`, `SELECT unnest([true, true])`, `SELECT true WHERE false`} {
		if text := panics(func() { Claim("it is so", question) }); !strings.Contains(text, "does not hold: it is so") {
			t.Errorf("%s: %q", question, text)
		}
	}
}

func TestTimed(t *testing.T) {
	notebook(t)
	Timed("first", `CREATE TABLE a AS SELECT 1`)
	Timed("second", `SELECT sum(i) FROM range(1000000) t(i)`)
	got := query(`SELECT what, seconds >= 0 AND seconds < 60 FROM times ORDER BY what`)
	if len(got.rows) != 2 || got.rows[0][0] != "first" || got.rows[1][1] != true {
		t.Errorf("%v", got.rows)
	}
}

// column is a table of one column.
func column(values ...any) *table {
	out := &table{names: []string{"v"}}
	for _, v := range values {
		out.rows = append(out.rows, []any{v})
	}
	return out
}

func TestTexts(t *testing.T) {
	day := time.Date(2001, 6, 30, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		values []any
		want   []string
	}{
		{[]any{0.123456, 0.5, nil}, []string{"0.1235", "0.5000", ""}},
		{[]any{1.5, -9.0}, []string{"1.5", "-9.0"}},
		{[]any{1234567.891, 0.25}, []string{"1,234,567.9", "0.2"}},
		{[]any{0.5, 0.00001}, []string{"0.5000", "1e-05"}}, // not 0.0000
		{[]any{2.0, 0.0}, []string{"2", "0"}},
		{[]any{math.Inf(1), math.NaN()}, []string{"+Inf", "NaN"}},
		{[]any{int64(2001), int64(7)}, []string{"2001", "7"}}, // years have no comma
		{[]any{int64(12345), int64(7)}, []string{"12,345", "7"}},
		{[]any{uint64(12345)}, []string{"12,345"}},
		{[]any{big.NewInt(1234567)}, []string{"1,234,567"}},
		{[]any{day, day.Add(90 * time.Minute)}, []string{"2001-06-30", "2001-06-30 01:30"}},
		{[]any{"a", nil}, []string{"a", ""}},
		{[]any{true, false}, []string{"true", "false"}},
	} {
		if got := column(c.values...).texts(0); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, v := range []any{7.0, float32(7), int64(7), int32(7), int16(7), int8(7), uint64(7), uint32(7), uint16(7), uint8(7), big.NewInt(7), time.Unix(7*86400, 0)} {
		if x, ok := number(v); !ok || x != 7 {
			t.Errorf("%T: %v, %v", v, x, ok)
		}
	}
	for _, v := range []any{nil, "7", true} {
		if x, ok := number(v); ok {
			t.Errorf("%T is the number %v", v, x)
		}
	}
}

// Every number type of DuckDB can be drawn.
func TestNumbersOfDuckDB(t *testing.T) {
	notebook(t)
	types := []string{"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL(9, 2)"}
	for _, typ := range types {
		if x, ok := number(query(`SELECT 7::` + typ).rows[0][0]); !ok || x != 7 {
			t.Errorf("%s: %v, %v", typ, x, ok)
		}
	}
}

func TestHTML(t *testing.T) {
	got := (&table{names: []string{"a < b", "n"}, rows: [][]any{{nil, 1.5}, {"x & y", 2.0}}}).html()
	for _, want := range []string{`<th style="text-align:left">a &lt; b</th>`, `<th style="text-align:right">n</th>`, `<td style="text-align:left">x &amp; y</td>`, `<td style="text-align:right">2.0</td>`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestPictureOfLines(t *testing.T) {
	rows := &table{names: []string{"hour", "share", "lower", "upper", "of"}, rows: [][]any{
		{int64(1), 0.1, 0.05, 0.15, "fit"}, {int64(1), 0.2, nil, nil, "seen"}, {int64(2), 0.3, 0.2, 0.4, "fit"}, {int64(2), 0.4, nil, nil, "seen"}}}
	c := rows.picture("Late", "line", []Mark{Dots("seen"), Across(0.25), Upright(1.5), FromZero})
	if c.Title != "Late" || c.XLabel != "hour" || c.YLabel != "share" {
		t.Errorf("%q, %q, %q", c.Title, c.XLabel, c.YLabel)
	}
	fit, seen := c.Series[0], c.Series[1]
	if fit.Label != "fit" || fit.Kind != "line" || !slices.Equal(fit.X, []float64{1, 2}) || !slices.Equal(fit.Y, []float64{0.1, 0.3}) || !slices.Equal(fit.Lo, []float64{0.05, 0.2}) || !slices.Equal(fit.Hi, []float64{0.15, 0.4}) {
		t.Errorf("%+v", fit)
	}
	if seen.Kind != "points" || len(seen.Lo) != 0 || !slices.Equal(seen.Y, []float64{0.2, 0.4}) {
		t.Errorf("%+v", seen)
	}
	across, upright := c.Series[2], c.Series[3]
	if !slices.Equal(across.X, []float64{1, 2}) || !slices.Equal(across.Y, []float64{0.25, 0.25}) {
		t.Errorf("across: %+v", across)
	}
	if !slices.Equal(upright.X, []float64{1.5, 1.5}) || !slices.Equal(upright.Y, []float64{0.05, 0.4}) { // as high as all there is
		t.Errorf("upright: %+v", upright)
	}
	if c.Y == nil || c.Y[0] != 0 || math.Abs(c.Y[1]-0.44) > 1e-12 {
		t.Errorf("heights: %v", c.Y)
	}
}

func TestPictureOfIntervals(t *testing.T) {
	rows := &table{names: []string{"origin", "mean", "lower", "upper", "by"}, rows: [][]any{
		{"ORD", 0.5, 0.4, 0.6, "one"}, {"JFK", 0.7, 0.5, 0.9, "one"}, {"ORD", 0.4, 0.2, 0.6, "two"}}}
	c := rows.picture("Odds", "interval", []Mark{Ratios, Upright(1)})
	if !slices.Equal(c.Names, []string{"ORD", "JFK"}) || c.XLabel != "mean" || c.YLabel != "" || !c.Ratio {
		t.Errorf("%q, %q, %q, %v", c.Names, c.XLabel, c.YLabel, c.Ratio)
	}
	// Those of one name stand side by side, within its row.
	for k, want := range [][]float64{{-0.15, 0.85}, {0.15}} {
		for i, y := range c.Series[k].Y {
			if math.Abs(y-want[i]) > 1e-12 {
				t.Errorf("series %d: %v, want %v", k, c.Series[k].Y, want)
			}
		}
	}
	if ref := c.Series[2]; !slices.Equal(ref.Y, []float64{-0.5, 1.5}) {
		t.Errorf("the broken line: %+v", ref)
	}
}

func TestMarks(t *testing.T) {
	c := &chart.Chart{Series: []chart.Series{{X: []float64{2, 5}, Y: []float64{1, 3}}}}
	Diagonal(c)
	Heights(-1, 9)(c)
	if d := c.Series[1]; !slices.Equal(d.X, []float64{2, 5}) || !slices.Equal(d.Y, d.X) || *c.Y != [2]float64{-1, 9} {
		t.Errorf("%+v, %v", d, c.Y)
	}
}

// What cannot be drawn ends the cell and says why.
func TestNoPicture(t *testing.T) {
	for want, c := range map[string]struct {
		rows  *table
		drawn string
	}{
		"0 rows of 2 columns":         {&table{names: []string{"a", "b"}}, "line"},
		"1 rows of 1 columns":         {&table{names: []string{"a"}, rows: [][]any{{1.0}}}, "line"},
		"have no number to draw":      {&table{names: []string{"a", "b"}, rows: [][]any{{1.0, "x"}}}, "line"},
		"<nil> in column b":           {&table{names: []string{"a", "b"}, rows: [][]any{{1.0, nil}}}, "line"},
		"1 of 2 rows have lower":      {&table{names: []string{"a", "b", "lower", "upper"}, rows: [][]any{{1.0, 2.0, 1.0, 3.0}, {2.0, 2.0, nil, nil}}}, "points"},
		"0 of 1 rows have lower":      {&table{names: []string{"a", "b"}, rows: [][]any{{"x", 2.0}}}, "interval"},
		"1 of 2 rows of k have lower": {&table{names: []string{"a", "b", "of", "lower", "upper"}, rows: [][]any{{1.0, 2.0, "k", 1.0, 3.0}, {2.0, 2.0, "k", nil, nil}}}, "line"},
	} {
		if text := panics(func() { c.rows.picture("T", c.drawn, nil) }); !strings.HasPrefix(text, "T: ") || !strings.Contains(text, want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// The calls of a cell, from statements to a picture; outside a notebook nothing is shown.
func TestDraw(t *testing.T) {
	notebook(t)
	for _, draw := range []func(string, string, ...Mark){Line, Points} {
		if text := panics(func() { draw("Squares", `SELECT i AS x, i * i AS "x²" FROM range(9) t(i)`, Diagonal) }); text != "" {
			t.Error(text)
		}
	}
	if text := panics(func() {
		Intervals("Bars", `SELECT 'n' || i AS name, i::DOUBLE AS v, i - 1 AS lower, i + 1 AS upper FROM range(3) t(i)`)
	}); text != "" {
		t.Error(text)
	}
}
