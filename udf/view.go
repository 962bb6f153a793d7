package udf

import (
	"fmt"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/udf/internal/capi"
)

// column is a DuckDB vector as a column for the encoder of rows.
type column struct {
	*capi.Vec
	kids []column
	time bool // dates and timestamps are numbers: days since 1970
}

func columnOf(v *capi.Vec) *column {
	c := &column{Vec: v}
	if len(v.Kids) > 0 {
		c.kids = make([]column, len(v.Kids))
		for k := range v.Kids {
			c.kids[k] = *columnOf(&v.Kids[k])
		}
	}
	return c
}

// columnOr is the view of v, nil if v is nil.
func columnOr(v *capi.Vec) rows.Column {
	if v == nil {
		return nil
	}
	return columnOf(v)
}

func (c *column) Kind() rows.Kind {
	if c.time {
		return rows.Number
	}
	switch t := c.Vec.Type; {
	case t.IsNumber():
		return rows.Number
	case t == capi.Varchar:
		return rows.Text
	case t == capi.Boolean:
		return rows.Bool
	case t == capi.Enum:
		return rows.Coded
	case t == capi.Date:
		return rows.Date
	case t == capi.List || t == capi.Array:
		return rows.List
	case t == capi.Map:
		return rows.Map
	case t == capi.Struct:
		return rows.Struct
	case t == capi.SQLNull:
		return rows.Null
	}
	return rows.Other
}

func (c *column) Name() string                   { return c.Vec.Name }
func (c *column) Entries() int                   { return c.Vec.Len }
func (c *column) Advice(m *kernels.Mixed) string { return HowToRead(m) }
func (c *column) Type() string                   { return c.TypeName() }
func (c *column) MayNull() bool                  { return !c.AllValid() }
func (c *column) Integer() bool                  { return c.IsInteger() }
func (c *column) Code(i int) int                 { return c.EnumCode(i) }
func (c *column) Label(code int) (string, error) { return c.EnumText(code), nil }
func (c *column) Children() int                  { return len(c.kids) }
func (c *column) Child(k int) rows.Column        { return &c.kids[k] }

func (c *column) Floats(dst []float64, lo int) {
	if !c.time {
		c.FloatsTo(dst, lo)
		return
	}
	for k := range dst {
		dst[k] = days(c.Vec, lo+k)
	}
}

// View implements rows.Viewed.
func (c *column) View(lo, hi int) []float64 {
	if x := c.Vec.Floats(); x != nil && !c.time {
		return x[lo:hi:hi]
	}
	return nil
}

func (c *column) Ints(dst []int64, lo int) bool { return c.IntsTo(dst, lo) }

func (c *column) Texts(dst []kernels.Text, lo int) {
	for k := range dst {
		i := lo + k
		if c.Null(i) {
			continue
		}
		if a, b, ok := c.Inline(i); ok {
			dst[k] = kernels.InlineText(a, b)
		} else {
			dst[k] = kernels.NewText(c.Str(i))
		}
	}
}

// features are the rows of the SQL argument x.
type features struct {
	*rows.Encoder
	x *capi.Vec
}

var words = rows.Words{
	Containers: "STRUCT such as {a: a, b: b}, MAP(VARCHAR or integer, number), LIST(STRUCT(feature, value)), LIST(VARCHAR) or a list of numbers",
	Struct:     "a STRUCT",
	Contents:   "numbers, VARCHAR, ENUM, BOOLEAN, DATE, lists of VARCHAR, maps and lists of features, and as an interaction a STRUCT of some of these",
	Key:        "VARCHAR or an integer",
	Missing:    "NULL",
	Advice:     instead,
}

// instead is what to write for a column of type typ, which is no feature as it is.
func instead(name, typ string) string {
	switch {
	case strings.HasPrefix(typ, "TIMESTAMP"):
		return fmt.Sprintf("epoch(%[1]s) for a number, hour(%[1]s)::VARCHAR or dayname(%[1]s) for levels", name)
	case strings.HasPrefix(typ, "TIME"):
		return fmt.Sprintf("epoch(%[1]s) for a number, hour(%[1]s)::VARCHAR for levels", name)
	case typ == "INTERVAL":
		return fmt.Sprintf("epoch(%s)", name)
	case typ == "UUID" || typ == "BIT" || typ == "BLOB":
		return fmt.Sprintf("%s::VARCHAR for levels, of which each should have several rows", name)
	}
	return ""
}

// planFeatures inspects the type of x. Errors: a type that features cannot have.
func planFeatures(x *capi.Vec, what string) (*features, error) {
	if err := checkEnums(x, what); err != nil {
		return nil, err
	}
	e, err := rows.NewEncoder(columnOf(x), what, words)
	if err != nil {
		return nil, err
	}
	return &features{e, x}, nil
}

// planScoring is planFeatures for rows that fits score; the fits determine what is read of them.
func planScoring(x *capi.Vec, what string) (*features, error) {
	if err := checkEnums(x, what); err != nil {
		return nil, err
	}
	return &features{rows.NewScoring(columnOf(x), what, words), x}, nil
}

func checkEnums(x *capi.Vec, what string) error {
	for k := range x.Kids {
		v := &x.Kids[k]
		if v.Type == capi.Struct && x.Type == capi.Struct {
			if err := checkEnums(v, what); err != nil {
				return err
			}
		}
		if v.Type == capi.Enum {
			if err := v.CheckEnum(); err != nil {
				return fmt.Errorf("%s field %q is %w", what, v.Name, err)
			}
		}
	}
	return nil
}

// row appends the entries of row i to a batch; x must not be NULL there. After an error the row is
// left out.
func (f *features) row(i int, d *kernels.Dict, b *kernels.Batch) error {
	f.Load(i, f.x.Len)
	return f.Append(i, i+1, d, false, nil, b)
}

// source is the columns of a fit's rows. Errors: a column whose type is not allowed; what names the
// STRUCT with weight and the others.
func source(y *capi.Vec, x *features, scalars *capi.Vec, what string) (*rows.Source, error) {
	s := &rows.Source{X: x.Encoder, Y: columnOf(y)}
	c, err := findRowColumns(scalars, what)
	if err != nil {
		return nil, err
	}
	s.Weight, s.Offset, s.Trials = columnOr(c.weight), columnOr(c.offset), columnOr(c.trials)
	if c.time != nil {
		t := columnOf(c.time)
		t.time = true
		s.Time = t
	}
	return s, nil
}
