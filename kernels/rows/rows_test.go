package rows_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// mem is a column in plain slices, the view that the tests write by hand.
type mem struct {
	kind  rows.Kind
	name  string
	null  []bool
	num   []float64
	text  []string
	code  []int
	label []string
	span  [][2]int
	kids  []*mem
	whole bool // an integer
	wide  bool // Ints cannot read it
}

func (c *mem) Kind() rows.Kind             { return c.kind }
func (c *mem) Name() string                { return c.name }
func (c *mem) Type() string                { return fmt.Sprint("kind ", c.kind) }
func (c *mem) MayNull() bool               { return c.null != nil }
func (c *mem) Null(i int) bool             { return c.null != nil && c.null[i] }
func (c *mem) Integer() bool               { return c.whole }
func (c *mem) Code(i int) int              { return c.code[i] }
func (c *mem) Label(k int) (string, error) { return c.label[k], nil }
func (c *mem) Span(i int) (int, int)       { return c.span[i][0], c.span[i][1] }
func (c *mem) Children() int               { return len(c.kids) }
func (c *mem) Child(k int) rows.Column     { return c.kids[k] }

func (c *mem) Floats(dst []float64, lo int) { copy(dst, c.num[lo:]) }
func (c *mem) Ints(dst []int64, lo int) bool {
	for k := range dst {
		dst[k] = int64(c.num[lo+k])
	}
	return !c.wide
}
func (c *mem) AppendInt(dst []byte, i int) []byte {
	return strconv.AppendInt(dst, int64(c.num[i]), 10)
}
func (c *mem) Texts(dst []kernels.Text, lo int) {
	for k := range dst {
		if !c.Null(lo + k) {
			dst[k] = kernels.NewText(c.text[lo+k])
		}
	}
}

type entry struct {
	name  string
	value float64
}

// drawn is a column of n rows and what each row must turn into.
type drawn struct {
	col  *mem
	want func(i int) []entry
	long func(i int) int // of a list of numbers: all its places are features, NULL or not
}

func nulls(rt *rapid.T, n int) []bool {
	if rapid.Bool().Draw(rt, "no NULL") {
		return nil
	}
	return rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "NULL")
}

var words = rapid.SampledFrom([]string{"", "a", "bc", "x=1", "twelve bytes", "more than twelve bytes", "(Intercept)", "7", "42"})
var numbers = rapid.SampledFrom([]float64{0, 1, -2.5, 1e300, 7, 42})

// field draws a column of a struct.
func field(rt *rapid.T, n int, name string) drawn {
	c := &mem{name: name, null: nulls(rt, n)}
	absent := func(i int, e ...entry) []entry {
		if c.Null(i) {
			return nil
		}
		return e
	}
	switch rapid.IntRange(0, 5).Draw(rt, "kind") {
	case 0:
		c.kind, c.num = rows.Number, rapid.SliceOfN(numbers, n, n).Draw(rt, "numbers")
		return drawn{col: c, want: func(i int) []entry { return absent(i, entry{name, c.num[i]}) }}
	case 1:
		c.kind, c.text = rows.Text, rapid.SliceOfN(words, n, n).Draw(rt, "texts")
		return drawn{col: c, want: func(i int) []entry { return absent(i, entry{name + "=" + c.text[i], 1}) }}
	case 2:
		c.kind = rows.Bool
		for range n {
			c.num = append(c.num, float64(rapid.IntRange(0, 1).Draw(rt, "bool")))
		}
		return drawn{col: c, want: func(i int) []entry { return absent(i, entry{fmt.Sprintf("%s=%v", name, c.num[i] == 1), 1}) }}
	case 3:
		c.kind, c.label = rows.Coded, []string{"red", "a label of many bytes", ""}
		c.code = rapid.SliceOfN(rapid.IntRange(0, 2), n, n).Draw(rt, "codes")
		return drawn{col: c, want: func(i int) []entry { return absent(i, entry{name + "=" + c.label[c.code[i]], 1}) }}
	case 4:
		c.kind = rows.Date
		for range n {
			c.num = append(c.num, float64(rapid.IntRange(0, 2).Draw(rt, "day")))
		}
		return drawn{col: c, want: func(i int) []entry { return absent(i, entry{fmt.Sprintf("%s=1970-01-%02.0f", name, c.num[i]+1), 1}) }}
	}
	in := &mem{kind: rows.Text, name: "element"}
	c.kind, c.kids = rows.List, []*mem{in}
	spans(rt, c, n, func() { in.text = append(in.text, words.Draw(rt, "element")) })
	in.null = nulls(rt, len(in.text))
	return drawn{col: c, want: func(i int) (out []entry) {
		if c.Null(i) {
			return nil
		}
		for j := c.span[i][0]; j < c.span[i][1]; j++ {
			if !in.Null(j) {
				out = append(out, entry{name + "=" + in.text[j], 1})
			}
		}
		return out
	}}
}

// spans draws the lists of c, whose places in the child are in no order.
func spans(rt *rapid.T, c *mem, n int, more func()) {
	at := 0
	for range n {
		k := rapid.IntRange(0, 4).Draw(rt, "length")
		if len(c.span) > 0 && rapid.IntRange(0, 4).Draw(rt, "again") == 0 { // lists may share their place
			c.span = append(c.span, c.span[0])
			continue
		}
		for range k {
			more()
		}
		c.span = append(c.span, [2]int{at, at + k})
		at += k
	}
}

// container draws x.
func container(rt *rapid.T, n int) drawn {
	x := &mem{name: "x", null: nulls(rt, n)}
	kind := rapid.IntRange(0, 4).Draw(rt, "x")
	if kind == 0 {
		x.kind = rows.Struct
		var ds []drawn
		for k := range rapid.IntRange(1, 4).Draw(rt, "fields") {
			d := field(rt, n, rapid.SampledFrom([]string{"u", "v", "c=d", "(intercept)", "7"}).Draw(rt, "name")+strings.Repeat("'", k))
			x.kids, ds = append(x.kids, d.col), append(ds, d)
		}
		return drawn{col: x, want: func(i int) (out []entry) {
			for _, d := range ds {
				out = append(out, d.want(i)...)
			}
			return out
		}}
	}
	x.kind = rows.List
	key := &mem{kind: rows.Text, name: "feature"}
	val := &mem{kind: rows.Number, name: "value"}
	st := &mem{kind: rows.Struct, name: "entry", kids: []*mem{key, val}}
	if kind == 1 || kind == 2 {
		x.kids = []*mem{st}
		x.kind = map[int]rows.Kind{1: rows.List, 2: rows.Map}[kind]
		ints := rapid.Bool().Draw(rt, "integer keys")
		if ints {
			key.kind, key.whole, key.wide = rows.Number, true, rapid.Bool().Draw(rt, "wide")
		}
		spans(rt, x, n, func() {
			key.text = append(key.text, words.Draw(rt, "key"))
			key.num = append(key.num, float64(rapid.IntRange(-3, 300).Draw(rt, "int")))
			val.num = append(val.num, float64(rapid.IntRange(-2, 2).Draw(rt, "value")))
		})
		st.null, key.null, val.null = nulls(rt, len(val.num)), nulls(rt, len(val.num)), nulls(rt, len(val.num))
		return drawn{col: x, want: func(i int) (out []entry) {
			for j := x.span[i][0]; j < x.span[i][1]; j++ {
				if st.Null(j) || key.Null(j) || val.Null(j) {
					continue
				}
				name := key.text[j]
				if ints {
					name = fmt.Sprint(key.num[j])
				}
				out = append(out, entry{name, val.num[j]})
			}
			return out
		}}
	}
	if kind == 3 { // names
		x.kids = []*mem{key}
		spans(rt, x, n, func() { key.text = append(key.text, words.Draw(rt, "name")) })
		key.null = nulls(rt, len(key.text))
		return drawn{col: x, want: func(i int) (out []entry) {
			for j := x.span[i][0]; j < x.span[i][1]; j++ {
				if !key.Null(j) {
					out = append(out, entry{key.text[j], 1})
				}
			}
			return out
		}}
	}
	x.kids = []*mem{val}
	if rapid.Bool().Draw(rt, "equal lengths") {
		for i := range n {
			x.span = append(x.span, [2]int{3 * i, 3*i + 3})
			for range 3 {
				val.num = append(val.num, numbers.Draw(rt, "value"))
			}
		}
	} else {
		spans(rt, x, n, func() { val.num = append(val.num, numbers.Draw(rt, "value")) })
	}
	val.null = nulls(rt, len(val.num))
	return drawn{col: x, want: func(i int) (out []entry) {
		for k, j := 0, x.span[i][0]; j < x.span[i][1]; k, j = k+1, j+1 {
			if !val.Null(j) {
				out = append(out, entry{fmt.Sprint(k + 1), val.num[j]})
			}
		}
		return out
	}, long: func(i int) int { return x.span[i][1] - x.span[i][0] }}
}

// merged sums entries of one name, at the place of the first.
func merged(in []entry) (out []entry) {
	for _, e := range in {
		k := slices.IndexFunc(out, func(o entry) bool { return o.name == e.name })
		if k < 0 {
			out = append(out, e)
		} else {
			out[k].value += e.value
		}
	}
	return out
}

// Rows encoded by columns, in blocks, are what their entries say one by one:
// names, values, and numbers in the order of first appearance, however the rows
// are cut and whichever are left out.
func TestEncoder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 5, 40}).Draw(rt, "rows")
		x := container(rt, n)
		e, err := rows.NewEncoder(x.col, "x", rows.Words{})
		if err != nil {
			rt.Fatal(err)
		}
		intercept := rapid.Bool().Draw(rt, "intercept")
		bits := rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(rt, "hash_bits")
		d := &kernels.Dict{HashBits: bits}
		var order []string
		number := func(name string) {
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		slot := func(name string) string {
			if bits == 0 {
				return name
			}
			h := kernels.Dict{HashBits: bits}
			id, _ := h.Add(name)
			return string(h.Name(id))
		}
		if intercept {
			d.AddRaw(kernels.Intercept)
			number(kernels.Intercept)
		}
		if rapid.Bool().Draw(rt, "named before") { // by a prior: split later
			for _, name := range []string{"u=a", "v'=more than twelve bytes", "42"} {
				d.AddRaw(name)
				number(name)
			}
		}
		for lo := 0; lo < n; {
			hi := rapid.IntRange(lo+1, n).Draw(rt, "cut")
			var keep []bool
			for i := lo; i < hi; i++ {
				keep = append(keep, !x.col.Null(i) && rapid.IntRange(0, 3).Draw(rt, "keep") > 0)
			}
			if !slices.Contains(keep, false) {
				keep = nil
			}
			var b kernels.Batch
			b.Reset()
			if err := e.Append(lo, hi, d, intercept, keep, &b); err != nil {
				rt.Fatal(err)
			}
			r := 0
			for i := lo; i < hi; i++ {
				if keep != nil && !keep[i-lo] {
					continue
				}
				var in []entry
				if intercept {
					in = append(in, entry{kernels.Intercept, 1})
				}
				if !x.col.Null(i) {
					for j := 1; bits == 0 && x.long != nil && j <= x.long(i); j++ {
						number(fmt.Sprint(j))
					}
					for _, w := range x.want(i) {
						in = append(in, entry{slot(w.name), w.value})
						number(slot(w.name))
					}
				}
				want := merged(in)
				fs, xs := b.Entries(r)
				r++
				if len(fs) != len(want) {
					rt.Fatalf("row %d has %d entries, want %v", i, len(fs), want)
				}
				for k, f := range fs {
					if got := (entry{string(d.Name(f)), xs[k]}); got != want[k] {
						rt.Fatalf("row %d entry %d is %v, want %v", i, k, got, want[k])
					}
				}
			}
			if r != b.Len() {
				rt.Fatalf("%d rows, want %d", b.Len(), r)
			}
			lo = hi
		}
		for id, name := range order {
			if got := string(d.Name(uint32(id))); got != name {
				rt.Fatalf("feature %d is %q, want %q of %q", id, got, name, order)
			}
		}
		if d.Len() != len(order) {
			rt.Fatalf("%d features, want %q", d.Len(), order)
		}
	})
}

// sink is a fit that keeps what it is given.
type sink struct {
	rows    *kernels.Rows
	skipped int64
}

func (s *sink) Features() *kernels.Dict { return &s.rows.Dict }
func (s *sink) Skip(n int64)            { s.skipped += n }
func (s *sink) Update(_ context.Context, b *kernels.Batch, skip bool) error {
	return s.rows.Update(b, skip)
}

// Rows that are NULL are skipped, bad ones fail, are skipped or make the fit void,
// and one left out leaves no feature behind.
func TestFeed(t *testing.T) {
	const n = 1300 // over several blocks
	y := &mem{kind: rows.Number, null: make([]bool, n), num: make([]float64, n)}
	k := &mem{kind: rows.Text, name: "k", text: make([]string, n)}
	w := &mem{kind: rows.Number, num: make([]float64, n)}
	for i := range n {
		y.num[i], k.text[i], w.num[i] = float64(i), fmt.Sprint(i%7), 1
	}
	y.null[5], y.null[700] = true, true
	y.num[9], k.text[9] = math.NaN(), "of a bad row"
	w.num[1000], k.text[1000] = -1, "of another"
	feed := func(on option.OnError) (*sink, bool, error) {
		e, err := rows.NewEncoder(&mem{kind: rows.Struct, kids: []*mem{k}}, "x", rows.Words{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := kernels.NewLabelledRows(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &sink{rows: r}
		src := rows.Source{X: e, Y: y, Weight: w}
		void, err := src.Feed(t.Context(), s, r.Model, on, 0, n, &kernels.Batch{})
		return s, void, err
	}
	_, _, err := feed(option.Fail)
	var v rows.ErrValue
	if !errors.As(err, &v) || v.Row != 9 || !strings.Contains(err.Error(), "y = NaN") {
		t.Errorf("fail: %v at row %d, want y = NaN at 9", err, v.Row)
	}
	s, void, err := feed(option.Skip)
	if err != nil || void || s.skipped != 4 || s.rows.Len() != n-4 || s.rows.Dict.Len() != 8 {
		t.Errorf("skip: %v, %d skipped, %d rows, %d features, void %v", err, s.skipped, s.rows.Len(), s.rows.Dict.Len(), void)
	}
	all := s.rows.All()
	if all.Y[0] != 0 || all.Y[5] != 6 || all.Y[8] != 10 || len(all.Weight) != n-4 {
		t.Errorf("skip: responses %v ..., %d weights", all.Y[:9], len(all.Weight))
	}
	if _, void, err := feed(option.Null); err != nil || !void {
		t.Errorf("null: void %v, %v", void, err)
	}
}
