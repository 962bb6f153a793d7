package arrowio

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// grouped are rows with groups of a text, a number and a date, some of them NULL.
func grouped(t testing.TB) arrow.RecordBatch {
	return recordOf(t,
		col{"y", f64, "[1, 0, 1, 1, 0, 1, 0, 0]"},
		col{"x", f64, "[0.5, -1, 2, 0.1, 1.5, -0.3, 0.7, -2]"},
		col{"g", arrow.BinaryTypes.String, `["a", "a", null, "b", "a", null, "b\"", "a"]`},
		col{"k", arrow.PrimitiveTypes.Int16, "[1, 2, 1, 1, 1, 1, null, 2]"},
		col{"d", arrow.FixedWidthTypes.Date32, `["2001-02-03", "2001-02-03", "2001-02-03", null, "2001-02-03", "2001-02-03", "1969-01-01", "2001-02-03"]`})
}

func groupsOf(t testing.TB, job Job, recs ...arrow.RecordBatch) *Groups {
	t.Helper()
	r, err := array.NewRecordReader(recs[0].Schema(), recs)
	if err != nil {
		t.Fatal(err)
	}
	g, err := FitGroups(t.Context(), r, job)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Groups go through texts and through files and come back.
func TestGroupKeys(t *testing.T) {
	rec := grouped(t)
	by := []string{"g", "k", "D"}
	g := groupsOf(t, Job{Y: "y", Terms: []Term{{"x"}}, Group: by, Model: model(t, "logit")}, rec)
	want := []string{`["a","1","2001-02-03"]`, `["a","2","2001-02-03"]`, `[null,"1","2001-02-03"]`, `["b","1",null]`, `["b\"",null,"1969-01-01"]`}
	keys := keysOf(t, g)
	if fmt.Sprint(keys) != fmt.Sprint(want) {
		t.Fatalf("%q, want %q", keys, want)
	}
	again, err := GroupKeys(rec.Schema(), by, keys)
	if err != nil || !array.RecordEqual(again, g.Keys) {
		t.Errorf("%v: %v, want %v", err, again, g.Keys)
	}
	if key, err := (&Groups{}).Key(0); key != "[]" || err != nil {
		t.Errorf("without groups: %q, %v", key, err)
	}
	for _, bad := range []string{"", "[]", `{"g": 1}`, `["a","1"]`, `["a","one",null]`} {
		if _, err := GroupKeys(rec.Schema(), by, []string{bad}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if _, err := GroupKeys(rec.Schema(), []string{"nosuch"}, nil); err == nil {
		t.Error("no error of a column that is not there")
	}

	// The table, in records that cut through fits.
	r := recordsOf(t, g)
	back, err := ReadGroups(r, by, nil)
	if err != nil || !array.RecordEqual(back.Keys, g.Keys) {
		t.Fatalf("%v: %v", err, back)
	}
	for k, f := range back.Fits {
		var a, b bytes.Buffer
		if err := WriteParquet(&a, f); err != nil {
			t.Fatal(err)
		}
		if err := WriteParquet(&b, g.Fits[k]); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%v: fit %d differs", err, k)
		}
	}
}

// A text that the library prints for NULL is a group of its own, in files and texts too; -0 is the
// group of 0, as in SQL, and NULL is NULL under dictionaries and runs.
func TestGroupsOfOddValues(t *testing.T) {
	str := arrow.BinaryTypes.String
	texts := `["(null)", null, "a", "(null)", null, "a"]`
	dict := array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: str},
		recordOf(t, col{"i", arrow.PrimitiveTypes.Int8, `[0, 1, 2, 0, 1, 2]`}).Column(0), recordOf(t, col{"g", str, `["(null)", null, "a"]`}).Column(0))
	for _, c := range []struct {
		g    arrow.Array
		want string
	}{
		{recordOf(t, col{"g", str, texts}).Column(0), `[["(null)"] [null] ["a"]]`},
		{recordOf(t, col{"g", arrow.BinaryTypes.StringView, texts}).Column(0), `[["(null)"] [null] ["a"]]`},
		{recordOf(t, col{"g", arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, str), texts}).Column(0), `[["(null)"] [null] ["a"]]`},
		{dict, `[["(null)"] [null] ["a"]]`},
		{recordOf(t, col{"g", extensions.NewUUIDType(), `["00000000-0000-0000-0000-000000000001", null, "f8c3de3d-1fea-4d7c-a8b0-29f63c4c3454", "00000000-0000-0000-0000-000000000001", null, "f8c3de3d-1fea-4d7c-a8b0-29f63c4c3454"]`}).Column(0),
			`[["00000000-0000-0000-0000-000000000001"] [null] ["f8c3de3d-1fea-4d7c-a8b0-29f63c4c3454"]]`},
		{recordOf(t, col{"g", f64, "[-0.0, 0.0, null, 1, 2.5, 1]"}).Column(0), `[["0"] [null] ["1"] ["2.5"]]`},
	} {
		s := arrow.NewSchema([]arrow.Field{{Name: "y", Type: f64}, {Name: "x", Type: f64}, {Name: "g", Type: c.g.DataType(), Nullable: true}}, nil)
		data := recordOf(t, col{"y", f64, "[1, 0, 1, 1, 0, 1]"}, col{"x", f64, "[0.5, -1, 2, 0.1, 1.5, -0.3]"})
		rec := array.NewRecordBatch(s, []arrow.Array{data.Column(0), data.Column(1), c.g}, 6)
		g := groupsOf(t, Job{Y: "y", Terms: []Term{{"x"}}, Group: []string{"g"}, Model: model(t, "logit")}, rec)
		keys := keysOf(t, g)
		if fmt.Sprint(keys) != c.want {
			t.Errorf("%s: groups %v, want %s", c.g.DataType(), keys, c.want)
		}
		if again, err := GroupKeys(s, []string{"g"}, keys); err != nil || !array.RecordEqual(again, g.Keys) {
			t.Errorf("%s: %v: %v, want %v", c.g.DataType(), err, again, g.Keys)
		}
		r := recordsOf(t, g)
		if back, err := ReadGroups(r, []string{"g"}, nil); err != nil || !array.RecordEqual(back.Keys, g.Keys) {
			t.Errorf("%s: %v: %v, want %v", c.g.DataType(), err, back, g.Keys)
		}
	}
	for _, name := range []string{"class", "Mean", "FIT"} {
		rec := recordOf(t, col{"y", f64, "[1, 0]"}, col{"x", f64, "[1, 2]"}, col{name, str, `["a", "b"]`})
		g := groupsOf(t, Job{Y: "y", Terms: []Term{{"x"}}, Group: []string{name}, Model: model(t, "logit")}, rec)
		if err := g.WriteParquet(new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("groups by %s: error %v", name, err)
		}
	}
}

// keysOf are the texts of all groups.
func keysOf(t *testing.T, g *Groups) []string {
	t.Helper()
	keys := make([]string, len(g.Fits))
	for k := range keys {
		var err error
		if keys[k], err = g.Key(k); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// recordsOf is the table of g in records that cut through fits.
func recordsOf(t *testing.T, g *Groups) array.RecordReader {
	t.Helper()
	var recs []arrow.RecordBatch
	if err := g.records(nil, nil, 3, func(rec arrow.RecordBatch) error {
		rec.Retain()
		recs = append(recs, rec)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r, err := array.NewRecordReader(recs[0].Schema(), recs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Groups have passes around fits of their own, which Newton's steps bring to the fit of all
// their rows; a group without a model is left out.
func TestPassesByGroup(t *testing.T) {
	rec := grouped(t)
	m := model(t, "logit")
	whole := groupsOf(t, Job{Y: "y", Terms: []Term{{"x"}}, Group: []string{"g"}, Method: "laplace", Model: m}, rec)
	around := map[string]*kernels.Fit{}
	job := Job{Y: "y", Terms: []Term{{"x"}}, Group: []string{"g"}, Method: "newton_state", Model: m}
	job.ModelOf = func(key string) (*kernels.Model, error) {
		if key == `["b"]` {
			return nil, nil
		}
		own := m
		own.Around = around[key]
		return &own, nil
	}
	for range 8 {
		passes := map[string]engine.Part{}
		for _, cut := range [][2]int64{{0, 3}, {3, 8}} {
			part := rec.NewSlice(cut[0], cut[1])
			g := groupsOf(t, job, part)
			for k, p := range g.Parts {
				key, err := g.Key(k)
				if err != nil {
					t.Fatal(err)
				}
				if passes[key] == nil {
					passes[key] = p
				} else if err := passes[key].Join(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
		}
		for key, p := range passes {
			step, err := p.Step(t.Context(), &m)
			if err != nil {
				t.Fatal(err)
			}
			around[key] = step.Fit
		}
	}
	if len(around) != len(whole.Fits)-1 || around[`["b"]`] != nil {
		t.Fatalf("%d groups of %d, one of which was left out", len(around), len(whole.Fits))
	}
	for k, want := range whole.Fits {
		key, err := whole.Key(k)
		if err != nil || key == `["b"]` {
			continue
		}
		for i, b := range want.Beliefs {
			g := around[key].Beliefs[i]
			kerneltest.Close(t, key+" "+b.Feature, g.Mean, b.Mean, kerneltest.Tol{Rel: 1e-8, Abs: 1e-9})
			kerneltest.Close(t, key+" variance of "+b.Feature, g.Variance, b.Variance, kerneltest.Tol{Rel: 1e-8})
		}
		if around[key].N != want.N {
			t.Errorf("%s: %d rows, want %d", key, around[key].N, want.N)
		}
	}
}
