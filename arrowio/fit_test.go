package arrowio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/lik"
	budget "github.com/bglm/bglm/kernels/memory"
)

func model(t testing.TB, link string) kernels.Model {
	t.Helper()
	l, err := lik.New("", link, lik.Params{Dispersion: 1, Shape: math.NaN()})
	if err != nil {
		t.Fatal(err)
	}
	return kernels.Model{Lik: l, Prior: kernels.DefaultPrior, MaxFeatures: 1000}
}

// col is one column as JSON.
type col struct {
	name string
	t    arrow.DataType
	json string
}

func recordOf(t testing.TB, cols ...col) arrow.RecordBatch {
	t.Helper()
	var fields []arrow.Field
	var arrs []arrow.Array
	for _, c := range cols {
		a, _, err := array.FromJSON(memory.DefaultAllocator, c.t, strings.NewReader(c.json))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fields, arrs = append(fields, arrow.Field{Name: c.name, Type: c.t, Nullable: true}), append(arrs, a)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrs, int64(arrs[0].Len()))
}

func fitOf(t testing.TB, job Job, recs ...arrow.RecordBatch) (*kernels.Fit, error) {
	t.Helper()
	r, err := array.NewRecordReader(recs[0].Schema(), recs)
	if err != nil {
		t.Fatal(err)
	}
	return Fit(context.Background(), r, job)
}

// byHand is the same fit from features written out.
func byHand(t testing.TB, link string, y []float64, rows []map[string]float64, order [][]string) *kernels.Fit {
	t.Helper()
	m := model(t, link)
	s, err := adf.New(&m)
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	for i, names := range order {
		b.Add(0, 1)
		for _, n := range names {
			id, err := s.Features().Add(n)
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, rows[i][n])
		}
		b.EndRow()
		b.Y = append(b.Y, y[i])
	}
	if err := s.Update(t.Context(), &b, false); err != nil {
		t.Fatal(err)
	}
	f, err := s.Fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// numbers and levels are columns of four rows as a fit remembers them, here of the values
// that there are, or with so many missing.
func numbers(name string, values ...float64) kernels.FitColumn {
	c := kernels.FitColumn{Name: name, Kind: kernels.NumberColumn, N: 4, Missing: int64(4 - len(values)), Scale: math.NaN(), Variance: math.NaN()}
	for k, x := range values {
		c.Center += (x - c.Center) / float64(k+1)
	}
	return c
}

func levels(name string, missing int64) kernels.FitColumn {
	return kernels.FitColumn{Name: name, Kind: kernels.LevelsColumn, N: 4, Missing: missing, Center: math.NaN(), Scale: math.NaN(), Variance: math.NaN()}
}

const yJSON = `[1, 0, 1, 1]`

var f64 = arrow.PrimitiveTypes.Float64

// Every layout of sparse features gives the fit of the features written out.
func TestSparseLayouts(t *testing.T) {
	y := []float64{1, 0, 1, 1}
	rows := []map[string]float64{{"a": 1, "b": 2}, {"b": -1}, {}, {"a": 3.5}}
	open := byHand(t, "probit", y, rows, [][]string{{"a", "b"}, {"b"}, {}, {"a"}})
	named := *open // a struct has columns, maps and lists of pairs have none
	named.Columns = []kernels.FitColumn{numbers("a", 1, 3.5), numbers("b", 2, -1)}
	str, large, view := arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView
	pair := func(k, v arrow.DataType) arrow.DataType {
		return arrow.StructOf(arrow.Field{Name: "feature", Type: k, Nullable: true}, arrow.Field{Name: "value", Type: v, Nullable: true})
	}
	listJSON := `[[{"feature": "a", "value": 1}, {"feature": "b", "value": 2}], [{"feature": "b", "value": -1}], [], [{"feature": "a", "value": 1.5}, {"feature": null, "value": 9}, {"feature": "a", "value": 2}, {"feature": "b", "value": null}, null]]`
	mapJSON := `[[{"key": "a", "value": 1}, {"key": "b", "value": 2}], [{"key": "b", "value": -1}], [], [{"key": "a", "value": 3.5}]]`
	for _, c := range []struct {
		t    arrow.DataType
		json string
	}{
		{arrow.ListOf(pair(str, f64)), listJSON},
		{arrow.ListOf(pair(view, arrow.PrimitiveTypes.Float32)), listJSON},
		{arrow.LargeListOf(pair(large, f64)), listJSON},
		{arrow.ListOf(pair(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: str}, f64)), listJSON},
		{arrow.MapOf(str, f64), mapJSON},
		{arrow.MapOf(large, arrow.PrimitiveTypes.Float32), mapJSON},
		{arrow.StructOf(arrow.Field{Name: "a", Type: f64, Nullable: true}, arrow.Field{Name: "b", Type: arrow.PrimitiveTypes.Int16, Nullable: true}),
			`[{"a": 1, "b": 2}, {"b": -1}, {}, {"a": 3.5}]`},
	} {
		want := open
		if c.t.ID() == arrow.STRUCT {
			want = &named
		}
		rec := recordOf(t, col{"y", f64, yJSON}, col{"x", c.t, c.json})
		got, err := fitOf(t, Job{Y: "y", Features: "x", Model: model(t, "probit")}, rec)
		if err != nil {
			t.Errorf("%s: %v", c.t, err)
			continue
		}
		if err := equal(want, got); err != nil {
			t.Errorf("%s: %v", c.t, err)
		}
		// A slice of a longer record: offsets do not begin at 0.
		long := recordOf(t, col{"y", f64, `[0, ` + yJSON[1:len(yJSON)-1] + `, 0]`}, col{"x", c.t, `[null, ` + c.json[1:len(c.json)-1] + `, null]`})
		parts := []arrow.RecordBatch{long.NewSlice(1, 2), long.NewSlice(2, 2), long.NewSlice(2, 5)}
		if got, err = fitOf(t, Job{Y: "y", Features: "x", Model: model(t, "probit")}, parts...); err != nil {
			t.Errorf("%s sliced: %v", c.t, err)
		} else if err := equal(want, got); err != nil {
			t.Errorf("%s sliced: %v", c.t, err)
		}
	}
}

func TestDenseLayouts(t *testing.T) {
	y := []float64{1, 0, 1, 1}
	rows := []map[string]float64{{"1": 1, "2": 2}, {"1": -1, "2": 0}, {"1": 4, "2": 3}, {"1": 3, "2": 1}}
	order := [][]string{{"1", "2"}, {"1", "2"}, {"1", "2"}, {"1", "2"}}
	want := byHand(t, "logit", y, rows, order)
	want.Columns = []kernels.FitColumn{numbers("1", 1, -1, 4, 3), numbers("2", 2, 0, 3, 1)}
	for _, e := range []arrow.DataType{f64, arrow.PrimitiveTypes.Float32, arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Int64, &arrow.Decimal128Type{Precision: 10, Scale: 2}, &arrow.Decimal256Type{Precision: 50, Scale: 2}} {
		for _, l := range []arrow.DataType{arrow.ListOf(e), arrow.LargeListOf(e), arrow.FixedSizeListOf(2, e), arrow.ListViewOf(e)} {
			json := `[[1, 2], [-1, 0], [4, 3], [3, 1]]`
			if strings.HasPrefix(e.Name(), "decimal") {
				json = strings.NewReplacer("1", `"1"`, "2", `"2"`, "-1", `"-1"`, "0", `"0"`, "4", `"4"`, "3", `"3"`).Replace(json)
				json = strings.ReplaceAll(json, `-"1"`, `"-1"`)
			}
			rec := recordOf(t, col{"y", arrow.FixedWidthTypes.Boolean, `[true, false, true, true]`}, col{"x", l, json})
			got, err := fitOf(t, Job{Y: "Y", Features: "x", Model: model(t, "logit")}, rec.NewSlice(0, 1), rec.NewSlice(1, 4))
			if err != nil {
				t.Errorf("%s: %v", l, err)
			} else if err := equal(want, got); err != nil {
				t.Errorf("%s: %v", l, err)
			}
		}
	}
}

// Columns as terms: names and levels, dictionaries, runs, NULLs, interactions.
func TestTerms(t *testing.T) {
	y := []float64{1, 0, 1, 1}
	rows := []map[string]float64{
		{"n": 2, "s=u": 1, "b=true": 1, "d=1970-01-02": 1, "l=p": 2, "n:s=u": 2, "s:b=u:true": 1, "n:n": 4},
		{"s=v:w": 1, "b=false": 1, "s:b=v\\:w:false": 1},
		{"n": 3, "b=true": 1, "d=2024-02-29": 1, "l=p": 1, "l=q": 1, "n:n": 9},
		{"n": 0, "s=u": 1, "n:s=u": 0, "n:n": 0},
	}
	order := [][]string{
		{"n", "s=u", "b=true", "d=1970-01-02", "l=p", "n:s=u", "s:b=u:true", "n:n"},
		{"s=v:w", "b=false", "s:b=v\\:w:false"},
		{"n", "b=true", "d=2024-02-29", "l=p", "l=q", "n:n"},
		{"n", "s=u", "n:s=u", "n:n"},
	}
	want := byHand(t, "probit", y, rows, order)
	want.Columns = []kernels.FitColumn{numbers("n", 2, 3, 0), levels("s", 1), levels("b", 1), levels("d", 2), levels("l", 1),
		levels("n:s", 2), levels("s:b", 2), numbers("n:n", 4, 9, 0)}
	for k, parts := range []string{"number n, levels s", "levels s, levels b", "number n, number n"} {
		want.Columns[5+k].Parts = parts
	}
	str := arrow.BinaryTypes.String
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: str}
	for _, s := range []arrow.DataType{str, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView, dict, arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, str)} {
		l := arrow.DataType(arrow.ListOf(str))
		if s == dict {
			l = arrow.ListOf(dict)
		}
		rec := recordOf(t, col{"y", arrow.PrimitiveTypes.Uint8, yJSON},
			col{"n", arrow.PrimitiveTypes.Int64, `[2, null, 3, 0]`}, col{"s", s, `["u", "v:w", null, "u"]`},
			col{"b", arrow.FixedWidthTypes.Boolean, `[true, false, true, null]`},
			col{"d", arrow.FixedWidthTypes.Date32, `["1970-01-02", null, "2024-02-29", null]`},
			col{"l", l, `[["p", "p"], [], ["p", null, "q"], null]`})
		got, err := fitOf(t, Job{Y: "y", Terms: []Term{{"n"}, {"s"}, {"b"}, {"d"}, {"l"}, {"n", "s"}, {"s", "b"}, {"n", "n"}}, Model: model(t, "probit")}, rec)
		if err != nil {
			t.Errorf("%s: %v", s, err)
		} else if err := equal(want, got); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// Dictionaries of whatever values, some of them NULL, are what they stand for, also those that the
// library has no builder for.
func TestDictionaries(t *testing.T) {
	indices := recordOf(t, col{"i", arrow.PrimitiveTypes.Uint8, `[0, 1, null, 2, 0]`}).Column(0)
	y := col{"y", f64, `[1, 0, 1, 1, 0]`}
	job := Job{Y: "y", Terms: []Term{{"x"}}, Model: model(t, "probit")}
	for _, c := range []struct {
		t            arrow.DataType
		values, want string
	}{
		{arrow.BinaryTypes.String, `["u", null, "v"]`, `["u", null, null, "v", "u"]`},
		{arrow.BinaryTypes.LargeString, `["u", null, "v"]`, `["u", null, null, "v", "u"]`},
		{arrow.BinaryTypes.StringView, `["u", null, "v"]`, `["u", null, null, "v", "u"]`},
		{arrow.FixedWidthTypes.Boolean, `[true, null, false]`, `[true, null, null, false, true]`},
		{arrow.PrimitiveTypes.Int16, `[4, null, -1]`, `[4, null, null, -1, 4]`},
		{arrow.FixedWidthTypes.Date32, `["2024-02-29", null, "1969-12-31"]`, `["2024-02-29", null, null, "1969-12-31", "2024-02-29"]`},
		{arrow.Null, `[null, null, null]`, `[null, null, null, null, null]`},
	} {
		plain := recordOf(t, y, col{"x", c.t, c.want})
		want, err := fitOf(t, job, plain)
		if err != nil {
			t.Fatal(err)
		}
		of := &arrow.DictionaryType{IndexType: indices.DataType(), ValueType: c.t}
		x := array.NewDictionaryArray(of, indices, recordOf(t, col{"x", c.t, c.values}).Column(0))
		s := arrow.NewSchema([]arrow.Field{plain.Schema().Field(0), {Name: "x", Type: of, Nullable: true}}, nil)
		got, err := fitOf(t, job, array.NewRecordBatch(s, []arrow.Array{plain.Column(0), x}, 5))
		if err != nil {
			t.Errorf("%s: %v", of, err)
		} else if err := equal(want, got); err != nil {
			t.Errorf("%s: %v", of, err)
		}
	}
}

// Maps and lists beside columns: a row where one is NULL is left out, a number of a list that is
// NULL is one that is missing.
func TestContainersBesideColumns(t *testing.T) {
	number := arrow.PrimitiveTypes.Float64
	rec := recordOf(t, col{"y", arrow.PrimitiveTypes.Uint8, `[1, 0, 1, 1, 0]`}, col{"u", number, `[1, null, 3, 4, 2]`},
		col{"m", arrow.MapOf(arrow.BinaryTypes.String, number), `[[{"key": "a", "value": 2}], [], null, [{"key": "a", "value": 1}], []]`},
		col{"v", arrow.ListOf(number), `[[1, null], [2, 3], [4, 5], null, [0, 1]]`})
	for _, c := range []struct {
		terms   []Term
		n       int64
		columns []kernels.FitColumn
	}{
		{[]Term{{"m"}}, 4, nil},
		{[]Term{{"m"}, {"u"}}, 4, []kernels.FitColumn{{Name: "m", Kind: kernels.FeaturesColumn, N: 4}, {Name: "u", Kind: kernels.NumberColumn, N: 4, Missing: 1}}},
		{[]Term{{"v"}, {"u"}}, 4, []kernels.FitColumn{{Name: "v", Kind: kernels.FeaturesColumn, N: 4}, {Name: "u", Kind: kernels.NumberColumn, N: 4, Missing: 1},
			{Name: "1", Kind: kernels.NumberColumn, N: 4}, {Name: "2", Kind: kernels.NumberColumn, N: 4, Missing: 1}}},
	} {
		for _, method := range []string{"adf", "laplace"} {
			m := model(t, "logit")
			m.Options.Missing = "indicator"
			f, err := fitOf(t, Job{Y: "y", Terms: c.terms, Model: m, Method: method}, rec)
			if err != nil {
				t.Errorf("%s of %v: %v", method, c.terms, err)
				continue
			}
			same := slices.EqualFunc(f.Columns, c.columns, func(a, b kernels.FitColumn) bool {
				return a.Name == b.Name && a.Kind == b.Kind && a.N == b.N && a.Missing == b.Missing
			})
			if f.N != c.n || f.Skipped != 5-c.n || !same {
				t.Errorf("%s of %v: n = %d, skipped %d, columns %v; want n = %d, columns %v", method, c.terms, f.N, f.Skipped, f.Columns, c.n, c.columns)
			}
		}
	}
}

// Columns that are numbers in one record and levels in another are an error, interactions too; of
// other types of one kind, or NULL, they are not.
func TestKindsOfRecords(t *testing.T) {
	y, str := col{"y", f64, `[1, 0]`}, arrow.BinaryTypes.String
	first := recordOf(t, y, col{"x", f64, `[1, 2]`}, col{"g", str, `["u", "v"]`})
	for _, c := range []struct {
		term Term
		next col
		want string
	}{
		{Term{"x"}, col{"x", str, `["1", "2"]`}, "column x is utf8, and float64 in the rows before; allowed: one kind"},
		{Term{"x", "g"}, col{"x", str, `["1", "2"]`}, "column x:g is of levels x, levels g, and of number x, levels g in the rows before"},
		{Term{"x"}, col{"x", arrow.PrimitiveTypes.Int32, `[1, 2]`}, ""},
		{Term{"x", "g"}, col{"x", arrow.Null, `[null, null]`}, ""},
		{Term{"x"}, col{"x", arrow.Null, `[null, null]`}, ""},
	} {
		f, err := NewFitter(first.Schema(), Job{Y: "y", Terms: []Term{c.term, {"g"}}, Model: model(t, "logit")})
		if err != nil {
			t.Fatal(err)
		}
		err = f.Add(t.Context(), first)
		if err == nil {
			err = f.Add(t.Context(), recordOf(t, y, c.next, col{"g", str, `["u", "v"]`}))
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, then %s: %v, want %s", c.term, c.next.t, err, c.want)
		}
	}
}

func TestRowColumnsAndBadRows(t *testing.T) {
	rec := recordOf(t, col{"y", f64, `[1, 0, null, 1, 2, 1, 0]`}, col{"x", f64, `[1, 2, 3, 4, 5, 6, 7]`},
		col{"w", f64, `[1, 2, 1, null, 1, -1, 1]`}, col{"o", f64, `[0, 0.5, 0, 0, 0, 0, 0]`},
		col{"at", &arrow.TimestampType{Unit: arrow.Microsecond}, `["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-06", "2024-01-07"]`})
	job := Job{Y: "y", Terms: []Term{{"x"}}, Weight: "w", Offset: "o", Time: "at", Model: model(t, "logit")}
	job.Model.Noise = 0.1
	if _, err := fitOf(t, job, rec); err == nil || !strings.Contains(err.Error(), "row 5: ") {
		t.Errorf("error %v, want one about row 5", err)
	}
	job.SkipBad = true
	f, err := fitOf(t, job, rec)
	if err != nil {
		t.Fatal(err)
	}
	if f.N != 3 || f.Skipped != 4 || f.Time != 19729 {
		t.Errorf("n = %d, skipped = %d, time = %v", f.N, f.Skipped, f.Time)
	}
	if none, err := fitOf(t, job, rec.NewSlice(0, 0)); none != nil || err != nil {
		t.Errorf("no rows give %v, %v", none, err)
	}
	if f, err = fitOf(t, job, rec.NewSlice(2, 3)); err != nil || f == nil || f.N != 0 {
		t.Errorf("only a skipped row gives %v, %v", f, err)
	}
}

func TestJobErrors(t *testing.T) {
	rec := recordOf(t, col{"y", f64, `[1]`}, col{"s", arrow.BinaryTypes.String, `["u"]`}, col{"x", f64, `[1]`}, col{"ts", &arrow.TimestampType{Unit: arrow.Second}, `["2024-01-01"]`},
		col{"m", arrow.MapOf(f64, f64), `[[]]`}, col{"bin", arrow.BinaryTypes.Binary, `["YWE="]`}, col{"ls", arrow.ListOf(arrow.StructOf(arrow.Field{Name: "a", Type: f64})), `[[]]`}, col{"(Intercept)", f64, `[1]`})
	ok := Job{Y: "y", Terms: []Term{{"x"}}, Model: model(t, "logit")}
	for _, c := range []struct {
		want   string
		change func(*Job)
	}{
		{"no column z; found: y, s, x", func(j *Job) { j.Terms = []Term{{"z"}} }},
		{"y: column s is utf8; allowed: a number or BOOLEAN", func(j *Job) { j.Y = "s" }},
		{"weight: column s is utf8", func(j *Job) { j.Weight = "s" }},
		{"time: column s is utf8; allowed: a number, a date or a timestamp", func(j *Job) { j.Time = "s" }},
		{"column ts is timestamp[s", func(j *Job) { j.Terms = []Term{{"ts"}} }},
		{"column m is map<float64, float64", func(j *Job) { j.Terms = []Term{{"m"}} }},
		{"column bin is binary", func(j *Job) { j.Terms = []Term{{"bin"}} }},
		{"need the fields feature and value", func(j *Job) { j.Terms = []Term{{"ls"}} }},
		{"term m:x: column m is map", func(j *Job) { j.Terms = []Term{{"m", "x"}} }},
		{"column x is float64; allowed: a struct", func(j *Job) { j.Features = "x" }},
		{"no features", func(j *Job) { j.Terms = nil }},
		{"no response", func(j *Job) { j.Y = "" }},
		{"column of trials", func(j *Job) { j.Trials = "x" }},
		{`method: found 'nope'; allowed: auto, adf`, func(j *Job) { j.Method = "nope" }},
		{"group: no column g", func(j *Job) { j.Group = []string{"g"} }},
	} {
		job := ok
		c.change(&job)
		if _, err := NewFitter(rec.Schema(), job); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	r, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	ok.Terms = []Term{{"x"}, {"(Intercept)"}}
	if _, err := Fit(t.Context(), r, ok); err == nil || !strings.Contains(err.Error(), `column "(Intercept)" has the name of the intercept`) {
		t.Error(err)
	}
	twice := recordOf(t, col{"y", f64, `[1]`}, col{"x", arrow.StructOf(arrow.Field{Name: "a", Type: f64}, arrow.Field{Name: "a", Type: f64}), `[{"a": 1}]`})
	if r, err = array.NewRecordReader(twice.Schema(), []arrow.RecordBatch{twice}); err != nil {
		t.Fatal(err)
	}
	ok.Features, ok.Terms = "x", nil
	if _, err := Fit(t.Context(), r, ok); err == nil || !strings.Contains(err.Error(), `two columns are called "a"`) {
		t.Error(err)
	}
}

func TestGroups(t *testing.T) {
	rec := recordOf(t, col{"y", f64, `[1, 0, 1, 1, 0, 1]`}, col{"x", f64, `[1, 2, 3, 4, 5, 6]`},
		col{"g", arrow.BinaryTypes.String, `["b", "a", "b", null, "a", null]`}, col{"h", arrow.PrimitiveTypes.Int32, `[1, 1, 1, 1, 1, 2]`})
	r, _ := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec.NewSlice(0, 2), rec.NewSlice(2, 6)})
	job := Job{Y: "y", Terms: []Term{{"x"}}, Group: []string{"g", "h"}, Model: model(t, "logit")}
	g, err := FitGroups(context.Background(), r, job)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(g.Keys.Column(0), g.Keys.Column(1)); len(g.Fits) != 4 || got != `["b" "a" (null) (null)] [1 1 1 2]` {
		t.Fatalf("%d groups %s", len(g.Fits), got)
	}
	job.Group = nil
	for i, idx := range [][]int64{{0, 2}, {1, 4}, {3}, {5}} {
		var parts []arrow.RecordBatch
		for _, k := range idx {
			parts = append(parts, rec.NewSlice(k, k+1))
		}
		want, err := fitOf(t, job, parts...)
		if err != nil {
			t.Fatal(err)
		}
		if err := equal(want, g.Fits[i]); err != nil {
			t.Errorf("group %d: %v", i, err)
		}
	}
}

func ipcOf(t testing.TB, stream bool, recs ...arrow.RecordBatch) []byte {
	t.Helper()
	var b bytes.Buffer
	var w interface {
		Write(arrow.RecordBatch) error
		Close() error
	}
	var err error
	if stream {
		w = ipc.NewWriter(&b, ipc.WithSchema(recs[0].Schema()), ipc.WithZstd())
	} else if w, err = ipc.NewFileWriter(&b, ipc.WithSchema(recs[0].Schema())); err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		err = errors.Join(err, w.Write(r))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func ipcSample(t testing.TB) arrow.RecordBatch {
	return recordOf(t, col{"y", f64, yJSON}, col{"s", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `["u", "v", "u", null]`},
		col{"x", arrow.ListOf(f64), `[[1, 2], [], null, [3, 4]]`})
}

func TestIPC(t *testing.T) {
	rec := ipcSample(t)
	rec = recordOf(t, col{"y", f64, yJSON}, col{"s", rec.Schema().Field(1).Type, `["u", "v", "u", null]`}, col{"x", arrow.ListOf(f64), `[[1, 2], [], null, [3, 4]]`},
		col{"v", arrow.BinaryTypes.StringView, `["a string that is not inline", "b", null, "c"]`},
		col{"w", arrow.StructOf(arrow.Field{Name: "q", Type: arrow.BinaryTypes.StringView, Nullable: true}), `[{"q": "1"}, {}, {}, {"q": "another string that is not inline"}]`})
	job := Job{Y: "y", Terms: []Term{{"s"}, {"x"}, {"v"}, {"w"}}, Model: model(t, "logit")}
	want, err := fitOf(t, job, rec)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "rows.arrow")
		if err := os.WriteFile(path, ipcOf(t, stream, rec.NewSlice(0, 3), rec.NewSlice(3, 4)), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := OpenIPC(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Fit(context.Background(), r, job)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		if err := equal(want, got); err != nil {
			t.Errorf("stream %v: %v", stream, err)
		}
		whole, _ := os.ReadFile(path)
		for _, n := range []int{0, 3, 20, len(whole) / 2} { // cut off
			if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tryIPC(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("stream %v cut to %d bytes: error %v, want one that names the file", stream, n, err)
			}
		}
	}
}

// tryIPC fits what is there.
func tryIPC(path string) error {
	r, err := OpenIPC(path)
	if err != nil {
		return err
	}
	defer r.Close()
	l, _ := lik.New("", "logit", lik.Params{Dispersion: 1, Shape: math.NaN()})
	var terms []Term
	y := ""
	for i, f := range r.Schema().Fields() {
		if i == 0 {
			y = f.Name
		} else {
			terms = append(terms, Term{f.Name})
		}
	}
	_, err = Fit(context.Background(), r, Job{Y: y, Terms: terms, Model: kernels.Model{Lik: l, Prior: kernels.DefaultPrior, MaxFeatures: 1000}})
	return err
}

// Damaged streams and schemas give errors, not panics.
func FuzzIPC(f *testing.F) {
	rec := ipcSample(f)
	f.Add(ipcOf(f, true, rec))
	f.Add(ipcOf(f, false, rec))
	f.Add(ipcOf(f, true, recordOf(f, col{"y", f64, `[1]`}, col{"m", arrow.MapOf(arrow.BinaryTypes.String, f64), `[[{"key": "a", "value": 1}]]`},
		col{"v", arrow.BinaryTypes.StringView, `["a string that is not inline"]`},
		col{"d", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `["u"]`})))
	fit, _ := FitRecord(sample(), nil)
	f.Add(ipcOf(f, true, fit))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(dir, "fuzz.arrow")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = tryIPC(path)
		if g, _, err := ReadFitFile(path, nil); err == nil {
			if _, err := FitRecord(g, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestFitFiles(t *testing.T) {
	dir := t.TempDir()
	want := sample()
	for name, write := range map[string]func(string, *kernels.Fit, ...string) error{"a.parquet": WriteParquetFile, "b.arrow": WriteIPCFile} {
		path := filepath.Join(dir, name)
		if err := write(path, want, "formula", "y ~ x", "option.link", "probit"); err != nil {
			t.Fatal(err)
		}
		got, meta, err := ReadFitFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := equal(want, got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(meta) != 2 || meta["formula"] != "y ~ x" || meta["option.link"] != "probit" {
			t.Errorf("%s: metadata %v", name, meta)
		}
	}
}

func BenchmarkFit(b *testing.B) {
	const n = 8192
	rng := func(i int) int { return int(uint32(i)*2654435761>>8) % 300 }
	var js, ys strings.Builder
	for i := range n {
		fmt.Fprintf(&js, `,"a%d"`, rng(i))
		fmt.Fprintf(&ys, `,%d`, i%3&1)
	}
	for _, t := range []arrow.DataType{arrow.BinaryTypes.String, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}} {
		b.Run(t.Name(), func(b *testing.B) {
			rec := recordOf(b, col{"y", f64, "[" + ys.String()[1:] + "]"}, col{"s", t, "[" + js.String()[1:] + "]"}, col{"u", t, "[" + js.String()[1:] + "]"})
			f, err := NewFitter(rec.Schema(), Job{Y: "y", Terms: []Term{{"s"}, {"u"}, {"y"}}, Model: model(b, "probit")})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Add(context.Background(), rec); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}

// Rows kept for a fit count against the memory budget, and come back with the fitter.
func TestFitBudget(t *testing.T) {
	before := budget.Used()
	defer budget.SetLimit(budget.SetLimit(before + 1<<20))
	var ys strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&ys, ",%d", i%2)
	}
	f64 := arrow.PrimitiveTypes.Float64
	rec := recordOf(t, col{"y", f64, "[" + ys.String()[1:] + "]"})
	func() {
		f, err := NewFitter(rec.Schema(), Job{Y: "y", Terms: []Term{{"y"}}, Method: "laplace", Model: model(t, "probit")})
		for err == nil {
			err = f.Add(context.Background(), rec)
		}
		if !errors.Is(err, budget.ErrLimit) || budget.Used() == before {
			t.Errorf("%v with %d bytes taken", err, budget.Used()-before)
		}
	}()
	for range 100 {
		if budget.Used() <= before { // what earlier tests left may go too
			return
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d bytes are missing", budget.Used()-before)
}
