package udf

import (
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/fitlayout"
	"github.com/bglm/bglm/udf/internal/capi"
)

// A field of the FIT is one entry of the list: it is in the type, written and read, and
// FITs of the layout before go without.
func TestOneEntryIsAField(t *testing.T) {
	type record struct {
		Old  int64
		Note string
		Size float64
	}
	fields := []fitlayout.Field[record]{{Name: "old", At: func(r *record) any { return &r.Old }}}
	before := structOf(fields, 2, nil)
	fields = append(fields, fitlayout.Field[record]{Name: "note", At: func(r *record) any { return &r.Note }, Optional: true, Since: 3},
		fitlayout.Field[record]{Name: "extra", Since: 3, Fields: []fitlayout.Field[record]{{Name: "size", At: func(r *record) any { return &r.Size }, Nullable: true}}})
	if got := structOf(fields, 2, nil).String(); got != before.String() {
		t.Errorf("layout 2 has become %s", got)
	}
	whole := structOf(fields, 3, nil)
	if want := "STRUCT(old BIGINT, note VARCHAR, extra STRUCT(size DOUBLE))"; whole.String() != want {
		t.Errorf("type %s, want %s", whole, want)
	}
	col := capi.NewCol(whole)
	in := []record{{1, "some text that is long", 0.5}, {2, "", math.NaN()}}
	for k := range in {
		appendStruct(col, fields, &in[k], nil)
	}
	v := col.View()
	for k, want := range in {
		var got record
		for _, l := range leavesOf(fields, &v, "") {
			if err := l.read(k, &got); err != nil {
				t.Fatal(err)
			}
		}
		if got.Old != want.Old || got.Note != want.Note || math.Float64bits(got.Size) != math.Float64bits(want.Size) && !math.IsNaN(want.Size) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	old := capi.NewCol(before)
	appendStruct(old, fields[:1], &in[0], nil)
	ov := old.View()
	got := record{Note: "default"}
	for _, l := range leavesOf(fields, &ov, "") {
		if err := l.read(0, &got); err != nil {
			t.Fatal(err)
		}
	}
	if got.Old != 1 || got.Note != "default" {
		t.Errorf("from the layout before: %+v", got)
	}
}

// The list itself: names of STRUCTs are there once, layouts only grow at the end, every
// field but those of the first layout may be missing.
func TestFieldsOfTheLayout(t *testing.T) {
	seen := map[string]bool{}
	last := 0
	fitlayout.Walk(fitlayout.Fields, kernels.FitFormat, func(path string, f *fitlayout.Field[kernels.Fit]) bool {
		if seen[path] || path != strings.ToLower(path) {
			t.Errorf("field %s is there twice, or not in small letters", path)
		}
		seen[path] = true
		if !strings.Contains(path, ".") {
			if f.Since < last || f.Since > kernels.FitFormat {
				t.Errorf("field %s of layout %d stands behind one of layout %d", path, f.Since, last)
			}
			last = f.Since
		}
		if f.Since > 1 && !f.Optional {
			t.Errorf("field %s of layout %d is not optional: earlier FITs lack it", path, f.Since)
		}
		f.Kind() // panics over types that it does not know
		return true
	})
	if last != kernels.FitFormat {
		t.Errorf("no field came with layout %d", kernels.FitFormat)
	}
}
