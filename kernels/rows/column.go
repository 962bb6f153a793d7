// Package rows turns columns of a table into the batches that engines learn from: features become
// numbers, once for every producer. DuckDB vectors and Arrow arrays are views, which it reads one
// block of rows at a time.
package rows

import "github.com/bglm/bglm/kernels"

// Kind is the kind of values in a column.
type Kind uint8

// The kinds of columns. Other is anything that cannot be a feature.
const (
	Other  Kind = iota
	Null        // nothing but NULL
	Number      // Floats; Ints too if Integer is true
	Bool        // Floats are 0 and 1
	Date        // Floats are days since 1970
	Text        // Texts
	Coded       // text by code: Code, Codes, Label
	List        // Span, Child(0)
	Map         // Span, Child(0) is a Struct of key and value
	Struct      // Child by field
)

// Viewed is a Column that may have its numbers in memory as float64: View returns entries lo to hi,
// nil if it has not. Those of NULL entries are arbitrary.
type Viewed interface{ View(lo, hi int) []float64 }

// Column is a view of a column of a chunk of rows. Entries of a list's child are counted over all
// lists. A view may become invalid when the call that it was made for returns: nothing of it is
// kept.
type Column interface {
	Kind() Kind
	Name() string
	// Type is the type in the user's terms, for errors.
	Type() string
	// MayNull reports whether any entry can be NULL; Null reports whether entry i is.
	MayNull() bool
	Null(i int) bool
	// Floats sets dst to entries lo, lo+1, ...; those of NULL entries are arbitrary.
	Floats(dst []float64, lo int)
	// Integer reports whether the column holds whole numbers; Ints returns false if its type is
	// wider than an int64, and AppendInt prints the numbers.
	Integer() bool
	Ints(dst []int64, lo int) bool
	AppendInt(dst []byte, i int) []byte
	// Texts sets dst to entries lo, lo+1, ...; those of NULL entries are arbitrary.
	Texts(dst []kernels.Text, lo int)
	// Code is the index of entry i in a dictionary of labels.
	Code(i int) int
	Label(code int) (string, error)
	// Span is the range of entry i of a list in its child; undefined for NULL.
	Span(i int) (lo, hi int)
	Children() int
	Child(k int) Column
}
