package rows

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
)

// Table is rows in Go slices: the entry point for programs without a database. Columns that are nil
// are absent. Package engine fits it.
type Table struct {
	X *Slice // the features: Fields, or Lists
	Y *Slice // the response: Numbers or Bools; any column for classes
	// Likelihood exponents (default 1), known parts of the predictor (0), binomial trials, and
	// times, which must not decrease for methods that absorb rows in order.
	Weight, Offset, Trials, Time *Slice
}

// Slice is a column of a Table, a view of the slice from which it was made.
type Slice struct {
	kind Kind
	name string
	n    int
	x    []float64
	text []string
	ends []int // of lists, in their child
	kids []*Slice
}

// Numbers is a column of numbers: as a feature, its value under its name.
func Numbers(name string, x []float64) *Slice {
	return &Slice{kind: Number, name: name, n: len(x), x: x}
}

// Texts is a column of words: as features name=word.
func Texts(name string, x []string) *Slice {
	return &Slice{kind: Text, name: name, n: len(x), text: x}
}

// Bools is a column of truth values: as features name=true and name=false, as a response 1 and 0.
func Bools(name string, x []bool) *Slice {
	c := &Slice{kind: Bool, name: name, n: len(x), x: make([]float64, len(x))}
	for i, is := range x {
		if is {
			c.x[i] = 1
		}
	}
	return c
}

// Lists is a column of lists: numbers are the features 1, 2, ..., words are features under their
// own names. The lists are copied.
func Lists[T float64 | string](x [][]T) *Slice {
	c := &Slice{kind: List, n: len(x), ends: make([]int, len(x)+1)}
	var all []T
	for i, l := range x {
		all = append(all, l...)
		c.ends[i+1] = len(all)
	}
	switch all := any(all).(type) {
	case []float64:
		c.kids = []*Slice{Numbers("", all)}
	case []string:
		c.kids = []*Slice{Texts("", all)}
	}
	return c
}

// Named returns c under another name: lists and fields have no names, but need them among Fields. c
// is not changed.
func (c *Slice) Named(name string) *Slice {
	own := *c
	own.name = name
	return &own
}

// Fields combines columns, each with its name. Lists and Fields among them need Named.
func Fields(columns ...*Slice) *Slice {
	c := &Slice{kind: Struct, kids: columns}
	for _, k := range columns {
		if k != nil { // Source reports the others
			c.n = max(c.n, k.n)
		}
	}
	return c
}

// Len is the number of rows.
func (c *Slice) Len() int { return c.n }

// Source returns the table as a Source of Len rows.
// Errors: no X or Y, columns of wrong lengths or kinds, fields without a name.
func (t *Table) Source() (*Source, error) {
	if t == nil || t.X == nil || t.Y == nil {
		return nil, fmt.Errorf("the table has no X or no Y")
	}
	s := &Source{Y: t.Y, Check: true}
	for _, c := range []struct {
		what string
		from *Slice
		to   *Column
	}{{"y", t.Y, &s.Y}, {"weight", t.Weight, &s.Weight}, {"offset", t.Offset, &s.Offset}, {"trials", t.Trials, &s.Trials}, {"time", t.Time, &s.Time}} {
		if c.from == nil {
			continue
		}
		if c.from.n != t.Len() {
			return nil, fmt.Errorf("%s has %d rows; allowed: those of y, %d", c.what, c.from.n, t.Len())
		}
		if c.what != "y" && c.from.kind != Number {
			return nil, fmt.Errorf("%s is %s; allowed: Numbers", c.what, c.from.Type())
		}
		*c.to = c.from
	}
	for k, c := range append([]*Slice{t.X}, t.X.kids...) {
		if c == nil {
			return nil, fmt.Errorf("x: field %d of %d is nil; allowed: Numbers, Texts, Bools and Lists", k, len(t.X.kids))
		}
		if c != t.X && t.X.kind == Struct && c.name == "" {
			return nil, fmt.Errorf("x: field %d of %d is %s without a name; allowed: a name, by Named", k, len(t.X.kids), c.Type())
		}
		if c.n != t.Len() && (c == t.X || t.X.kind == Struct) {
			return nil, fmt.Errorf("x: %s %q has %d rows; allowed: those of y, %d", c.Type(), c.name, c.n, t.Len())
		}
	}
	var err error
	s.X, err = NewEncoder(t.X, "x", Words{Containers: "Fields, or Lists of numbers or words", Struct: "Fields", Contents: "Numbers, Texts, Bools and Lists of words"})
	return s, err
}

// Len is the number of rows.
func (t *Table) Len() int {
	if t.Y == nil {
		return 0
	}
	return t.Y.n
}

func (c *Slice) Kind() Kind   { return c.kind }
func (c *Slice) Name() string { return c.name }
func (c *Slice) Type() string {
	switch c.kind {
	case Number:
		return "Numbers"
	case Text:
		return "Texts"
	case Bool:
		return "Bools"
	case List:
		return "Lists"
	}
	return "Fields"
}
func (c *Slice) MayNull() bool  { return false }
func (c *Slice) Null(int) bool  { return false }
func (c *Slice) Integer() bool  { return false }
func (c *Slice) Children() int  { return len(c.kids) }
func (c *Slice) Code(i int) int { return 0 }

func (c *Slice) Label(int) (string, error)          { return "", fmt.Errorf("%s has no codes", c.Type()) }
func (c *Slice) Child(k int) Column                 { return c.kids[k] }
func (c *Slice) Span(i int) (lo, hi int)            { return c.ends[i], c.ends[i+1] }
func (c *Slice) Floats(dst []float64, lo int)       { copy(dst, c.x[lo:]) }
func (c *Slice) Ints([]int64, int) bool             { return false }
func (c *Slice) AppendInt(dst []byte, _ int) []byte { return dst }
func (c *Slice) Texts(dst []kernels.Text, lo int) {
	for k := range dst {
		dst[k] = kernels.NewText(c.text[lo+k])
	}
}
