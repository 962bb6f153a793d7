package arrowio

import (
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// vector reads one Arrow array of any layout: the functions read its buffers without copying.
// Exactly one of num, text and bool is set; none is for lists and NULL columns.
type vector struct {
	name string
	arr  arrow.Array // the array below dictionary indices, runs and extensions
	rows arrow.Array // the column as given
	null func(i int) bool
	// mayNull says that some entry can be NULL.
	mayNull bool

	num  func(i int) float64 // numbers; DATE in days if date is set
	text func(i int) string
	bool func(i int) bool
	date bool
	// int prints a value of num; it is set if these are whole numbers.
	int func(dst []byte, i int) []byte

	floats []float64 // the values themselves of a float64 array without NULLs
	// code is the index into a dictionary, and label the text of an index; nil without one.
	code  func(i int) int
	label func(code int) string
	i64   func(i int) int64 // whole numbers of at most 64 bits, signed
	inner bool              // arr is read through indices: its lists are not those of the rows
}

func never(int) bool  { return false }
func always(int) bool { return true }

// isNull is the NULL test of a, never if no entry is NULL.
func isNull(a arrow.Array) func(int) bool {
	if a.NullN() == 0 {
		return never
	}
	return a.IsNull
}

type signed interface {
	~int8 | ~int16 | ~int32 | ~int64
}
type unsigned interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

func ints[T signed](c *vector, v func(int) T) {
	c.num = func(i int) float64 { return float64(v(i)) }
	c.i64 = func(i int) int64 { return int64(v(i)) }
	c.int = func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(v(i)), 10) }
}

func uints[T unsigned](c *vector, v func(int) T) {
	c.num = func(i int) float64 { return float64(v(i)) }
	c.int = func(dst []byte, i int) []byte { return strconv.AppendUint(dst, uint64(v(i)), 10) }
}

// newVector makes the accessors for the type of a. Types other than numbers, text, BOOLEAN and DATE
// have none: the caller decides what to allow.
func newVector(name string, a arrow.Array) vector {
	c := vector{name: name, arr: a, rows: a, null: isNull(a), mayNull: a.NullN() > 0}
	switch a := a.(type) {
	case *array.Null:
		c.null, c.mayNull = always, true
	case *array.Float64:
		c.num = a.Value
		if a.NullN() == 0 {
			c.floats = a.Values()
		}
	case *array.Float32:
		c.num = func(i int) float64 { return float64(a.Value(i)) }
	case *array.Float16:
		c.num = func(i int) float64 { return float64(a.Value(i).Float32()) }
	case *array.Int64:
		ints(&c, a.Value)
	case *array.Int32:
		ints(&c, a.Value)
	case *array.Int16:
		ints(&c, a.Value)
	case *array.Int8:
		ints(&c, a.Value)
	case *array.Uint64:
		uints(&c, a.Value)
	case *array.Uint32:
		uints(&c, a.Value)
	case *array.Uint16:
		uints(&c, a.Value)
	case *array.Uint8:
		uints(&c, a.Value)
	case *array.Decimal32, *array.Decimal64, *array.Decimal128, *array.Decimal256:
		c.num = decimals(a)
	case array.StringLike: // utf8, large_utf8, string_view
		c.text = a.Value
	case *array.Boolean:
		c.bool = a.Value
	case *array.Date32:
		c.num, c.date = func(i int) float64 { return float64(a.Value(i)) }, true
	case *array.Date64:
		c.num, c.date = func(i int) float64 { return math.Floor(float64(a.Value(i)) / 86400e3) }, true
	case *array.Dictionary:
		in := newVector(name, a.Dictionary())
		c.through(in, a.GetValueIndex)
		if in.text != nil {
			c.code, c.label = a.GetValueIndex, in.text
		}
	case *array.RunEndEncoded:
		in := newVector(name, a.Values())
		c.null, c.mayNull = never, false
		c.through(in, a.GetPhysicalIndex)
	case array.ExtensionArray:
		c = newVector(name, a.Storage())
		c.rows = a
	}
	return c
}

// print is the value of row i, which is not NULL, as text.
func (c *vector) print(i int) string {
	if c.text != nil {
		return c.text(i) // the library's function prints text for NULL too
	}
	if arrow.IsFloating(c.arr.DataType().ID()) && c.num(i) == 0 {
		return "0" // -0 is the same value
	}
	return c.rows.ValueStr(i)
}

// parseInto appends the printed form of a value to a builder of its plainType.
func parseInto(b array.Builder, text string) error {
	if t, ok := b.(array.StringLikeBuilder); ok {
		t.Append(text) // the library's function reads "(null)" as NULL
		return nil
	}
	return b.AppendValueFromString(text)
}

// texts yields the texts of a text column, without NULLs.
func (c *vector) texts() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range c.arr.Len() {
			if c.text == nil || c.inner {
				return
			}
			if !c.null(i) && !yield(c.text(i)) {
				return
			}
		}
	}
}

// through makes c read in at the index that at returns for row i.
func (c *vector) through(in vector, at func(int) int) {
	outer, inner := c.null, in.null
	c.null = func(i int) bool { return outer(i) || inner(at(i)) }
	c.mayNull = c.mayNull || in.mayNull
	c.arr, c.date, c.inner = in.arr, in.date, true
	if in.num != nil {
		c.num = func(i int) float64 { return in.num(at(i)) }
	}
	if in.i64 != nil {
		c.i64 = func(i int) int64 { return in.i64(at(i)) }
	}
	if in.int != nil {
		c.int = func(dst []byte, i int) []byte { return in.int(dst, at(i)) }
	}
	if in.text != nil {
		c.text = func(i int) string { return in.text(at(i)) }
	}
	if in.bool != nil {
		c.bool = func(i int) bool { return in.bool(at(i)) }
	}
}

func (c *vector) isNumber() bool { return c.num != nil && !c.date }
func (c *vector) isNullType() bool {
	return c.arr.DataType().ID() == arrow.NULL
}

// days makes num of a time column: numbers unchanged, dates and timestamps in days since 1970.
func (c *vector) days() error {
	if c.num != nil || c.isNullType() {
		return nil
	}
	if t, ok := c.arr.(*array.Timestamp); ok && !c.inner {
		var unit float64
		switch t.DataType().(*arrow.TimestampType).Unit {
		case arrow.Second:
			unit = 86400
		case arrow.Millisecond:
			unit = 86400e3
		case arrow.Microsecond:
			unit = 86400e6
		case arrow.Nanosecond:
			unit = 86400e9
		}
		c.num = func(i int) float64 { return float64(t.Value(i)) / unit }
		return nil
	}
	return fmt.Errorf("column %s is %s; allowed: a number, a date or a timestamp", c.name, c.arr.DataType())
}

// findColumnIn finds a top-level column of rec by name, if need be regardless of case.
func findColumnIn(rec arrow.RecordBatch, name string) (vector, error) {
	at, err := findField(rec.Schema(), name)
	if err != nil {
		return vector{}, err
	}
	return newVector(name, rec.Column(at)), nil
}

// findField is the index of the only column called name, if need be regardless of case.
func findField(s *arrow.Schema, name string) (int, error) {
	at := s.FieldIndices(name)
	if len(at) == 0 {
		for i, f := range s.Fields() {
			if equalFold(f.Name, name) {
				at = append(at, i)
			}
		}
	}
	switch len(at) {
	case 1:
		return at[0], nil
	case 0:
		return 0, fmt.Errorf("no column %s; found: %s", name, listNames(columnNames(s)))
	}
	return 0, fmt.Errorf("column %s is there %d times; allowed: once", name, len(at))
}
