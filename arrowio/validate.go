package arrowio

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// bareRows is how many rows an array may have whatever its size, as NULL columns and runs may;
// beyond it a record needs one bit for each row.
const bareRows = 1 << 20

// validate checks that the arrays of a record stay within their buffers: offsets in order, indices
// within their dictionaries, runs in order, children of the required length. Otherwise a damaged
// offset could make one value of most of a column, and copies of a record could take thousands of
// times its size. Cost: a pass over offsets, indices and views.
func validate(rec arrow.RecordBatch) error {
	size := int64(0)
	for _, c := range rec.Columns() {
		size += int64(min(c.Data().SizeInBytes(), 1<<40))
	}
	for i, c := range rec.Columns() {
		err := validateArray(c, bareRows+8*size, 0)
		if err == nil && int64(c.Len()) != rec.NumRows() {
			err = fmt.Errorf("%d rows, the record has %d", c.Len(), rec.NumRows())
		}
		if err != nil {
			text := strings.TrimPrefix(err.Error(), arrow.ErrInvalid.Error()+": ")
			return fmt.Errorf("damaged: column %.100q: %s", rec.ColumnName(i), strings.TrimPrefix(text, "arrow/array: "))
		}
	}
	return nil
}

func validateArray(a arrow.Array, most int64, depth int) error {
	if depth > maxDepth {
		return errDamaged
	}
	if n := int64(a.Len()); n > most {
		return fmt.Errorf("%d values of type %s, but a record of its size holds at most %d", n, a.DataType(), most)
	}
	if v, ok := a.(interface{ ValidateFull() error }); ok {
		if err := v.ValidateFull(); err != nil {
			return err
		}
	}
	var inner []arrow.Array
	switch a := a.(type) {
	case *array.Dictionary:
		n := a.Dictionary().Len()
		for i := range a.Len() {
			if a.IsNull(i) {
				continue
			}
			if k := a.GetValueIndex(i); k < 0 || k >= n {
				return fmt.Errorf("row %d is entry %d of a dictionary of %d", i+1, k, n)
			}
		}
		inner = append(inner, a.Dictionary())
	case *array.RunEndEncoded:
		inner = append(inner, a.RunEndsArr(), a.Values())
	case *array.Struct:
		for i := range a.NumField() {
			inner = append(inner, a.Field(i))
		}
	case array.Union:
		for i := range a.NumFields() {
			inner = append(inner, a.Field(i))
		}
	case array.ListLike:
		inner = append(inner, a.ListValues())
	case array.ExtensionArray:
		inner = append(inner, a.Storage())
	}
	for _, c := range inner {
		if err := validateArray(c, most, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// Expansion is about how many more bytes than in memory the rows of a record take when they are
// written out one by one: entries of dictionaries, views and runs may stand for many rows.
func Expansion(rec arrow.RecordBatch) int64 {
	sum := int64(0)
	for _, c := range rec.Columns() {
		sum += spread(c, 0)
	}
	return sum
}

func spread(a arrow.Array, depth int) int64 {
	if depth > maxDepth {
		return 0
	}
	n, sum := int64(a.Len()), int64(0)
	switch a := a.(type) {
	case *array.Dictionary:
		return n * longest(a.Dictionary())
	case *array.RunEndEncoded:
		return n * longest(a.Values())
	case array.ViewLike:
		return n * longest(a)
	case *array.Null:
		return n
	case *array.Struct:
		for i := range a.NumField() {
			sum += spread(a.Field(i), depth+1)
		}
	case array.ListLike:
		return spread(a.ListValues(), depth+1)
	case array.ExtensionArray:
		return spread(a.Storage(), depth+1)
	}
	return sum
}

// longest is the size in bytes of an array's largest value, at least 8.
func longest(a arrow.Array) int64 {
	most := 8
	switch a := a.(type) {
	case array.ViewLike:
		for i := range a.Len() {
			if !a.IsNull(i) {
				most = max(most, a.ValueHeader(i).Len())
			}
		}
	case interface {
		arrow.Array
		ValueLen(int) int
	}:
		for i := range a.Len() {
			most = max(most, a.ValueLen(i))
		}
	case array.ListLike, *array.Struct, *array.Dictionary, *array.RunEndEncoded:
		most = 1 << 20 // nested: assume much
	}
	return int64(most)
}
