package arrowio

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/kernels"
)

// FitRecord is f as one record batch with BeliefSchema(f); the caller releases
// it. mem nil is Go's memory.
//
// Errors: beliefs that are not Gaussians, a feature twice, names that are not
// UTF-8, a head that no reader would accept (family, link, prior, hash_bits),
// names of more than 2 GiB together. Cost: one copy; beliefs out of order are
// sorted in a copy.
func FitRecord(f *kernels.Fit, mem memory.Allocator) (arrow.RecordBatch, error) {
	beliefs, err := beliefsToWrite(f)
	if err != nil {
		return nil, fmt.Errorf("arrowio: %w", err)
	}
	return record(BeliefSchema(f), beliefs, mem)
}

const maxNameBytes = 1<<31 - 1 // offsets of utf8 have 32 bits

func record(s *arrow.Schema, beliefs []kernels.Belief, mem memory.Allocator) (arrow.RecordBatch, error) {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	size := 0
	for i := range beliefs {
		size += len(beliefs[i].Feature)
	}
	if size > maxNameBytes {
		return nil, fmt.Errorf("arrowio: the feature names take %d bytes; allowed in one record: %d", size, maxNameBytes)
	}
	b := array.NewRecordBuilder(mem, s)
	defer b.Release()
	names, means, variances := b.Field(0).(*array.StringBuilder), b.Field(1).(*array.Float64Builder), b.Field(2).(*array.Float64Builder)
	b.Reserve(len(beliefs))
	names.ReserveData(size)
	for i := range beliefs {
		names.Append(beliefs[i].Feature)
		means.UnsafeAppend(beliefs[i].Mean)
		variances.UnsafeAppend(beliefs[i].Variance)
	}
	return b.NewRecordBatch(), nil
}

// ReadFit reads a belief table from record batches: an IPC stream, a query
// result, array.NewRecordReader over batches in memory. feature may be utf8,
// large_utf8, string_view or a dictionary of these; mean and variance any
// floating-point, integer or decimal (128 bits) type. Nothing of the batches is
// kept.
//
// Errors name the column and row, what was found and what is allowed: a missing
// column, another type, NULL, NaN, an infinite value, a negative variance, a
// feature twice, metadata of another version (ErrVersion) or damaged, more rows
// than MaxFeatures, and what r.Err reports. Cost: O(p), and O(p log p) if the
// rows are not in belief order.
func ReadFit(r array.RecordReader, o *Options) (*kernels.Fit, error) {
	f, err := readFit(r, o)
	if err != nil {
		return nil, fmt.Errorf("arrowio: %w", err)
	}
	return f, nil
}

func readFit(r array.RecordReader, o *Options) (*kernels.Fit, error) {
	s := r.Schema()
	m := s.Metadata()
	head, err := readMeta(m.Keys(), m.Values())
	if err != nil {
		return nil, err
	}
	var at [3]int
	for i, name := range []string{Feature, Mean, Variance} {
		switch found := s.FieldIndices(name); len(found) {
		case 1:
			at[i] = found[0]
		case 0:
			return nil, missing(name, columnNames(s))
		default:
			return nil, fmt.Errorf("column %s is there %d times; allowed: once", name, len(found))
		}
	}
	t := table{max: o.maxFeatures()}
	for r.Next() {
		if err := t.addRecord(r.RecordBatch(), at); err != nil {
			return nil, err
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return t.fit(head, o)
}

func columnNames(s *arrow.Schema) []string {
	var names []string
	for _, f := range s.Fields() {
		names = append(names, f.Name)
	}
	return names
}

func missing(name string, have []string) error {
	const most = 20
	more := ""
	if len(have) > most {
		have, more = have[:most], ", ..."
	}
	return fmt.Errorf("no column %s; found: %.200s%s; a belief table has feature, mean and variance", name, strings.Join(have, ", "), more)
}

func (t *table) addRecord(rec arrow.RecordBatch, at [3]int) error {
	n := int(rec.NumRows())
	if err := t.room(n); err != nil {
		return err
	}
	name, err := textOf(rec.Column(at[0]))
	if err != nil {
		return fmt.Errorf("column %s: %w", Feature, err)
	}
	var num [2]func(int) float64
	for k, col := range []string{Mean, Variance} {
		if num[k], err = numberOf(rec.Column(at[k+1])); err != nil {
			return fmt.Errorf("column %s: %w", col, err)
		}
	}
	for i := range n {
		for k, col := range []string{Feature, Mean, Variance} {
			if rec.Column(at[k]).IsNull(i) {
				return t.null(col, len(t.beliefs))
			}
		}
		if err := t.add(strings.Clone(name(i)), kernels.Weight{Mean: num[0](i), Variance: num[1](i)}); err != nil {
			return err
		}
	}
	return nil
}

func textOf(a arrow.Array) (func(int) string, error) {
	switch a := a.(type) {
	case array.StringLike:
		return a.Value, nil
	case *array.Dictionary:
		if v, ok := a.Dictionary().(array.StringLike); ok {
			return func(i int) string { return v.Value(a.GetValueIndex(i)) }, nil
		}
	}
	return nil, fmt.Errorf("its type is %s; allowed: utf8, large_utf8, string_view or a dictionary of these", a.DataType())
}

type numeric interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

func toFloat[T numeric](v func(int) T) (func(int) float64, error) {
	return func(i int) float64 { return float64(v(i)) }, nil
}

func numberOf(a arrow.Array) (func(int) float64, error) {
	switch a := a.(type) {
	case *array.Float64:
		return a.Value, nil
	case *array.Float32:
		return toFloat(a.Value)
	case *array.Float16:
		return func(i int) float64 { return float64(a.Value(i).Float32()) }, nil
	case *array.Int64:
		return toFloat(a.Value)
	case *array.Int32:
		return toFloat(a.Value)
	case *array.Int16:
		return toFloat(a.Value)
	case *array.Int8:
		return toFloat(a.Value)
	case *array.Uint64:
		return toFloat(a.Value)
	case *array.Uint32:
		return toFloat(a.Value)
	case *array.Uint16:
		return toFloat(a.Value)
	case *array.Uint8:
		return toFloat(a.Value)
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return func(i int) float64 { return a.Value(i).ToFloat64(scale) }, nil
	}
	return nil, fmt.Errorf("its type is %s; allowed: a floating-point, integer or decimal128 type", a.DataType())
}
