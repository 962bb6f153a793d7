package rows_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// packs says whether rows of c can be packed: integers beyond 64 bits cannot, nor a label of
// no bytes.
func packs(c *mem) bool {
	return !c.wide && !slices.Contains(c.label, "") && !slices.ContainsFunc(c.kids, func(k *mem) bool { return !packs(k) })
}

// Rows that were packed say what they said before, whatever their columns, and are many
// times packed and unpacked by one layout.
func TestPacked(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "rows")
		source := func(x, y, w *mem) *rows.Source {
			e, err := rows.NewEncoder(x, "x", rows.Words{})
			if err != nil {
				rt.Fatal(err)
			}
			s := &rows.Source{X: e, Y: y}
			if w != nil {
				s.Weight = w
			}
			return s
		}
		x := container(rt, n).col
		y := &mem{kind: rows.Number, null: nulls(rt, n), num: rapid.SliceOfN(numbers, n, n).Draw(rt, "y")}
		var w *mem
		if rapid.Bool().Draw(rt, "weight") {
			w = &mem{kind: rows.Number, whole: true, null: nulls(rt, n), num: rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, 3}), n, n).Draw(rt, "weights")}
		}
		src := source(x, y, w)
		l := src.Layout()
		if l == nil || source(x, y, w).Layout() != l {
			rt.Fatalf("layout %p, again %p", l, source(x, y, w).Layout())
		}
		feed := func(src *rows.Source, s *sink, lo, hi int) {
			if _, err := src.Feed(t.Context(), s, s.rows.Model, option.Skip, lo, hi, &kernels.Batch{}); err != nil {
				rt.Fatal(err)
			}
		}
		newSink := func() *sink {
			r, err := kernels.NewLabelledRows(nil)
			if err != nil {
				rt.Fatal(err)
			}
			return &sink{rows: r}
		}
		want, got := newSink(), newSink()
		var p rows.Packer
		for lo := 0; lo < n; {
			hi := lo + rapid.IntRange(1, n-lo).Draw(rt, "to")
			data, ok := p.Pack(l, []byte("before"), src, lo, hi, 1<<20)
			if !ok {
				if packs(x) {
					rt.Fatalf("rows %d to %d were not packed", lo, hi)
				}
				return
			}
			if again, ok := p.Pack(l, []byte("before"), src, lo, hi, len(data)/2); ok && len(data) > 40 || string(again[:6]) != "before" {
				rt.Fatalf("%d bytes packed into %q in spite of a limit of %d", len(data), again, len(data)/2)
			}
			u, rows, err := l.Unpack(bytes.Clone(data[6:]))
			if err != nil || rows != hi-lo {
				rt.Fatalf("%d rows unpacked of %d: %v", rows, hi-lo, err)
			}
			feed(src, want, lo, hi)
			feed(u.Source, got, 0, rows)
			u.Close()
			lo = hi
		}
		for _, s := range []*sink{want, got} {
			s.rows.Dict.Order()
		}
		names := func(s *sink) (out []string) {
			for id := range s.rows.Dict.Len() {
				out = append(out, string(s.rows.Dict.Name(uint32(id))))
			}
			return out
		}
		if !slices.Equal(names(got), names(want)) || got.skipped != want.skipped || got.rows.Len() != want.rows.Len() {
			rt.Fatalf("features %q, %d skipped; want %q, %d", names(got), got.skipped, names(want), want.skipped)
		}
		if a, b := fmt.Sprint(content(got)...), fmt.Sprint(content(want)...); a != b || !reflect.DeepEqual(got.rows.All().Y, want.rows.All().Y) {
			rt.Fatalf("rows\n%s\nwant\n%s", a, b)
		}
	})
}

// content is all that rows say.
func content(s *sink) []any {
	b := s.rows.All()
	return []any{b.Row, b.Feature, b.Value, b.Y, b.Weight, b.Offset, b.Trials, b.Time}
}

// Labels of a code that changed are not packed as what they were.
func TestPackedLabels(t *testing.T) {
	of := func(label string) *rows.Source {
		c := &mem{kind: rows.Coded, name: "c", label: []string{label}, code: []int{0}}
		e, err := rows.NewEncoder(&mem{kind: rows.Struct, kids: []*mem{c}}, "x", rows.Words{})
		if err != nil {
			t.Fatal(err)
		}
		return &rows.Source{X: e, Y: &mem{kind: rows.Number, num: []float64{1}}}
	}
	var p rows.Packer
	red := of("red")
	l := red.Layout()
	if _, ok := p.Pack(l, nil, red, 0, 1, 99); !ok {
		t.Fatal("a label was not packed")
	}
	if _, ok := p.Pack(l, nil, of("green"), 0, 1, 99); ok {
		t.Error("code 0 was packed as 'red', which it no longer is")
	}
}
