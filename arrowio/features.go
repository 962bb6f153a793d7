package arrowio

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/rows"
)

// Term is a feature column by name, or the interaction of several; rows.Term is made from it.
type Term []string

func (t Term) String() string { return strings.Join(t, ":") }

// field is an Arrow array as a column for the encoder of rows.
type field struct {
	vector
	kids []*field
	// part says that the column is inside a list: its texts are read directly, not by the codes of
	// a dictionary.
	part bool
}

func (c *field) Kind() rows.Kind {
	switch {
	case c.isNullType():
		return rows.Null
	case c.date:
		return rows.Date
	case c.num != nil:
		return rows.Number
	case c.bool != nil:
		return rows.Bool
	case c.text != nil && c.code != nil && !c.part:
		return rows.Coded
	case c.text != nil:
		return rows.Text
	case c.inner: // its lists are not those of the rows
		return rows.Other
	}
	switch c.arr.(type) {
	case *array.Struct:
		return rows.Struct
	case *array.Map:
		return rows.Map
	case array.ListLike:
		return rows.List
	}
	return rows.Other
}

func (c *field) Name() string                       { return c.name }
func (c *field) Entries() int                       { return c.arr.Len() }
func (c *field) Type() string                       { return c.arr.DataType().String() }
func (c *field) MayNull() bool                      { return c.mayNull }
func (c *field) Null(i int) bool                    { return c.null(i) }
func (c *field) Integer() bool                      { return c.int != nil }
func (c *field) AppendInt(dst []byte, i int) []byte { return c.int(dst, i) }
func (c *field) Code(i int) int                     { return c.code(i) }
func (c *field) Label(code int) (string, error)     { return c.label(code), nil }

func (c *field) Floats(dst []float64, lo int) {
	if c.floats != nil {
		copy(dst, c.floats[lo:])
		return
	}
	for k := range dst {
		switch i := lo + k; {
		case c.mayNull && c.null(i):
		case c.num != nil:
			dst[k] = c.num(i)
		case c.bool(i):
			dst[k] = 1
		default:
			dst[k] = 0
		}
	}
}

func (c *field) Ints(dst []int64, lo int) bool {
	if c.i64 == nil {
		return false
	}
	for k := range dst {
		if !c.mayNull || !c.null(lo+k) {
			dst[k] = c.i64(lo + k)
		}
	}
	return true
}

func (c *field) Texts(dst []kernels.Text, lo int) {
	for k := range dst {
		if !c.mayNull || !c.null(lo+k) {
			dst[k] = kernels.NewText(c.text(lo + k))
		}
	}
}

func (c *field) Span(i int) (lo, hi int) {
	a, z := c.arr.(array.ListLike).ValueOffsets(i)
	return int(a), int(z)
}

func (c *field) Children() int { c.open(); return len(c.kids) }

func (c *field) Child(k int) rows.Column { c.open(); return c.kids[k] }

// open creates the children.
func (c *field) open() {
	if c.kids != nil {
		return
	}
	switch a := c.arr.(type) {
	case *array.Struct:
		st := a.DataType().(*arrow.StructType)
		outer := c.null
		for i := range a.NumField() {
			k := newVector(st.Field(i).Name, a.Field(i))
			if a.NullN() > 0 {
				inner := k.null
				k.null, k.mayNull = func(i int) bool { return outer(i) || inner(i) }, true
			}
			c.kids = append(c.kids, &field{vector: k, part: c.part})
		}
	case array.ListLike:
		c.kids = []*field{{vector: newVector(c.name, a.ListValues()), part: true}}
	}
}

var words = rows.Words{
	Containers: "a struct, a map of text or integers to numbers, a list of struct(feature, value), of text or of numbers",
	Struct:     "a struct",
	Contents:   "numbers, text, booleans, dates, lists of text, maps and lists of features, and as an interaction a struct of some of these",
	Key:        "text or an integer",
	Missing:    "null",
}

// planFeatures inspects the columns in rec. Errors: missing columns, types that hold no features.
func planFeatures(rec arrow.RecordBatch, x string, terms []Term, levels map[string]string) (*rows.Encoder, error) {
	find := func(name string) (rows.Column, error) {
		v, err := findColumnIn(rec, name)
		return &field{vector: v}, err
	}
	var whole rows.Column
	if x != "" {
		c, err := find(x)
		if err != nil {
			return nil, err
		}
		whole = c
	}
	parts := make([]rows.Term, len(terms))
	for k, t := range terms {
		for _, name := range t {
			from, are := levels[name]
			if !are {
				from = name
			}
			c, err := find(from)
			if err == nil && are {
				c, err = levelsOf(c, name)
			}
			if err != nil {
				return nil, err
			}
			parts[k] = append(parts[k], c)
		}
	}
	return rows.NewTerms(whole, parts, words)
}
