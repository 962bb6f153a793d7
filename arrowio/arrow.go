package arrowio

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
)

// FitRecord is f as one record batch with BeliefSchema(f); the caller releases
// it. mem nil is Go's memory.
//
// Errors: beliefs that are not Gaussians, a feature twice, names that are not
// UTF-8, a head that no reader would accept (family, link, prior, hash_bits),
// names of more than 2 GiB together. Cost: one copy; beliefs out of order are
// sorted in a copy.
func FitRecord(f *kernels.Fit, mem memory.Allocator) (arrow.RecordBatch, error) {
	rec, err := fitRecord(f, mem, nil)
	if err != nil {
		return nil, fmt.Errorf("arrowio: %w", err)
	}
	return rec, nil
}

func fitRecord(f *kernels.Fit, mem memory.Allocator, meta []string) (arrow.RecordBatch, error) {
	beliefs, err := beliefsToWrite(f)
	if err != nil {
		return nil, err
	}
	return record(f, BeliefSchema(f, meta...), beliefs, mem)
}

const maxNameBytes = 1<<31 - 1 // offsets of utf8 have 32 bits

func record(f *kernels.Fit, s *arrow.Schema, beliefs []kernels.Belief, mem memory.Allocator) (arrow.RecordBatch, error) {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	size := 0
	for i := range beliefs {
		size += len(beliefs[i].Feature)
	}
	if size > maxNameBytes {
		return nil, fmt.Errorf("the feature names take %d bytes; allowed in one record: %d", size, maxNameBytes)
	}
	b := array.NewRecordBuilder(mem, s)
	defer b.Release()
	at := 0
	b.Reserve(len(beliefs))
	if n := len(f.Classes); n > 0 {
		classes := b.Field(0).(*array.StringBuilder)
		for i := range beliefs {
			classes.Append(f.Classes[i/(len(beliefs)/n)])
		}
		at = 1
	}
	names, means, variances := b.Field(at).(*array.StringBuilder), b.Field(at+1).(*array.Float64Builder), b.Field(at+2).(*array.Float64Builder)
	if f.Covariance.Form != gauss.Diagonal {
		rows := b.Field(at + 3).(*array.ListBuilder)
		values := rows.ValueBuilder().(*array.Float64Builder)
		for i := range beliefs {
			rows.Append(true)
			values.AppendValues(f.Covariance.Row(i), nil)
		}
	}
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
// floating-point, integer or decimal  type. Nothing of the batches is
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

func readFit(r array.RecordReader, o *Options) (f *kernels.Fit, err error) {
	// Arrays of a damaged file can point outside their buffers.
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, fmt.Errorf("the table: %w", Damage(p))
		}
	}()
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
	// Classes and covariances are ours only under our metadata: another program's
	// columns of these names mean something else.
	with := map[string]int{}
	if head != nil {
		for _, name := range []string{Class, CovarianceRow} {
			if found := s.FieldIndices(name); len(found) == 1 {
				with[name] = found[0]
			}
		}
	}
	for r.Next() {
		if err := t.addRecord(r.RecordBatch(), at); err != nil {
			return nil, err
		}
		if err := t.addMore(r.RecordBatch(), with); err != nil {
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
	return fmt.Errorf("no column %s; found: %s; a belief table has feature, mean and variance", name, listNames(have))
}

func listNames(have []string) string {
	const most = 20
	more := ""
	if len(have) > most {
		have, more = have[:most], ", ..."
	}
	return fmt.Sprintf("%.200s%s", strings.Join(have, ", "), more)
}

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }

func (t *table) addRecord(rec arrow.RecordBatch, at [3]int) error {
	n := int(rec.NumRows())
	if err := t.room(n); err != nil {
		return err
	}
	name := newVector(Feature, rec.Column(at[0]))
	if name.text == nil && !name.isNullType() {
		return fmt.Errorf("column %s: its type is %s; allowed: utf8, large_utf8, string_view or a dictionary of these", Feature, rec.Column(at[0]).DataType())
	}
	var num [2]vector
	for k, col := range []string{Mean, Variance} {
		num[k] = newVector(col, rec.Column(at[k+1]))
		if !num[k].isNumber() && !num[k].isNullType() {
			return fmt.Errorf("column %s: its type is %s; allowed: a floating-point, integer or decimal type", col, rec.Column(at[k+1]).DataType())
		}
	}
	for i := range n {
		for _, v := range []*vector{&name, &num[0], &num[1]} {
			if v.null(i) {
				return t.null(v.name, len(t.beliefs))
			}
		}
		if err := t.add(strings.Clone(name.text(i)), kernels.Weight{Mean: num[0].num(i), Variance: num[1].num(i)}); err != nil {
			return err
		}
	}
	return nil
}

// addMore takes the classes and covariance rows of a record.
func (t *table) addMore(rec arrow.RecordBatch, with map[string]int) error {
	first := len(t.beliefs) - int(rec.NumRows())
	if k, ok := with[Class]; ok {
		c := newVector(Class, rec.Column(k))
		if c.text == nil {
			return fmt.Errorf("column %s: its type is %s; allowed: text", Class, rec.Column(k).DataType())
		}
		for i := range int(rec.NumRows()) {
			if c.null(i) {
				return t.null(Class, first+i)
			}
			t.class = append(t.class, strings.Clone(c.text(i)))
		}
	}
	if k, ok := with[CovarianceRow]; ok {
		l, ok := rec.Column(k).(array.ListLike)
		if !ok {
			return fmt.Errorf("column %s: its type is %s; allowed: a list of numbers", CovarianceRow, rec.Column(k).DataType())
		}
		v := newVector(CovarianceRow, l.ListValues())
		if !v.isNumber() {
			return fmt.Errorf("column %s: its type is %s; allowed: a list of numbers", CovarianceRow, rec.Column(k).DataType())
		}
		for i := range int(rec.NumRows()) {
			if l.IsNull(i) {
				return t.null(CovarianceRow, first+i)
			}
			for j, hi := l.ValueOffsets(i); j < hi; j++ {
				if v.null(int(j)) {
					return t.null(CovarianceRow, first+i)
				}
				t.cov = append(t.cov, v.num(int(j)))
			}
			t.rows = append(t.rows, len(t.cov))
		}
	}
	return nil
}
