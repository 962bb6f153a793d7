package arrowio

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/kernels"
)

// FitRecord returns f as one record batch with BeliefSchema(f); the caller releases it. If mem is
// nil, Go's allocator is used.
//
// A fit without beliefs is one row, NULL except in the column fit.
//
// Errors: beliefs that are not Gaussians, a feature that occurs twice, names that are not UTF-8, a
// head that no reader would accept (family, link, prior, hash_bits), names of more than 2 GiB in
// total. Cost: one copy; beliefs out of order are sorted in a copy.
func FitRecord(f *kernels.Fit, mem memory.Allocator) (arrow.RecordBatch, error) {
	rec, err := fitRecord(f, mem, nil)
	if err != nil {
		return nil, fmt.Errorf("arrowio: %w", err)
	}
	return rec, nil
}

func fitRecord(f *kernels.Fit, mem memory.Allocator, meta []string) (arrow.RecordBatch, error) {
	var out arrow.RecordBatch
	g := &Groups{Fits: []*kernels.Fit{f}}
	err := g.records(mem, meta, math.MaxInt, func(rec arrow.RecordBatch) error {
		rec.Retain()
		out = rec
		return nil
	})
	return out, err
}

const maxNameBytes = 1<<31 - 1 // utf8 has offsets of 32 bits

// records emits the table of g in records of at most so many rows, and releases them afterwards.
// There is at least one.
func (g *Groups) records(mem memory.Allocator, meta []string, most int, emit func(arrow.RecordBatch) error) error {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	if slices.Contains(g.Fits, nil) {
		return kernels.ErrNoFit
	}
	s := g.schema(meta)
	if g.Keys != nil {
		for _, key := range columnNames(g.Keys.Schema()) {
			// Regardless of case: SQL would not distinguish them.
			if slices.ContainsFunc([]string{Class, Feature, Mean, Variance, CovarianceRow, Rest}, func(name string) bool { return equalFold(name, key) }) {
				return fmt.Errorf("the column %s of the groups has a name of the belief table; allowed: other names", key)
			}
		}
	}
	w := newTableWriter(array.NewRecordBuilder(mem, s))
	defer w.b.Release()
	n, size := 0, 0
	flush := func() error {
		rec := w.b.NewRecordBatch()
		defer rec.Release()
		n, size = 0, 0
		return emit(rec)
	}
	for k, f := range g.Fits {
		beliefs, err := beliefsToWrite(f)
		if err != nil {
			return err
		}
		for i := range max(1, len(beliefs)) {
			long := 0
			if len(beliefs) > 0 {
				long = len(beliefs[i].Feature)
			}
			if n == most || most < math.MaxInt && size+long > maxNameBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			if n, size = n+1, size+long; size > maxNameBytes {
				return fmt.Errorf("the feature names take more than the %d bytes allowed in one record", maxNameBytes)
			}
			if err := g.appendKey(w.b, k); err != nil {
				return err
			}
			w.row(f, beliefs, i)
		}
	}
	return flush()
}

// tableWriter builds the columns of a belief table except those of groups; classes and rows are nil
// if no fit has them.
type tableWriter struct {
	b                    *array.RecordBuilder
	classes, names, rest *array.StringBuilder
	means, variances     *array.Float64Builder
	rows                 *array.ListBuilder // of the covariance
}

func newTableWriter(b *array.RecordBuilder) *tableWriter {
	s := b.Schema()
	column := func(name string) array.Builder {
		if k := s.FieldIndices(name); len(k) > 0 {
			return b.Field(k[0])
		}
		return nil
	}
	w := &tableWriter{b: b, names: column(Feature).(*array.StringBuilder), rest: column(Rest).(*array.StringBuilder),
		means: column(Mean).(*array.Float64Builder), variances: column(Variance).(*array.Float64Builder)}
	w.classes, _ = column(Class).(*array.StringBuilder)
	w.rows, _ = column(CovarianceRow).(*array.ListBuilder)
	return w
}

// row appends belief i of f, or the one row of a fit without beliefs.
func (w *tableWriter) row(f *kernels.Fit, beliefs []kernels.Belief, i int) {
	if i == 0 {
		w.rest.Append(encodeHead(f))
	} else {
		w.rest.AppendNull()
	}
	if w.classes != nil {
		if len(f.Classes) > 0 {
			w.classes.Append(f.Classes[i/max(1, len(beliefs)/len(f.Classes))])
		} else {
			w.classes.Append("")
		}
	}
	if w.rows != nil {
		w.rows.Append(true)
		if correlated(f) && len(beliefs) > 0 {
			w.rows.ValueBuilder().(*array.Float64Builder).AppendValues(f.Covariance.Row(i), nil)
		}
	}
	if len(beliefs) == 0 {
		w.names.AppendNull()
		w.means.AppendNull()
		w.variances.AppendNull()
		return
	}
	w.names.Append(beliefs[i].Feature)
	w.means.Append(beliefs[i].Mean)
	w.variances.Append(beliefs[i].Variance)
}

// appendKey appends the key of group k to the first columns.
func (g *Groups) appendKey(b *array.RecordBuilder, k int) error {
	if g.Keys == nil {
		return nil
	}
	for c, key := range g.Keys.Columns() {
		v := newVector(g.Keys.ColumnName(c), key)
		if v.null(k) {
			b.Field(c).AppendNull()
		} else if err := parseInto(b.Field(c), v.print(k)); err != nil {
			return fmt.Errorf("group %s: %w", g.Keys.ColumnName(c), err)
		}
	}
	return nil
}

// ReadFit reads a belief table from record batches: an IPC stream, a query result,
// array.NewRecordReader over batches in memory. feature may be utf8, large_utf8, string_view or a
// dictionary of these; mean and variance any floating-point, integer or decimal type. The batches
// are not retained.
//
// Errors name the column and row, what was found and what is allowed: a missing column, another
// type, NULL, NaN, an infinite value, a negative variance, a feature that occurs twice, metadata
// that are damaged or of another version (ErrVersion), more rows than MaxFeatures, and what r.Err
// reports. Cost: O(p), and O(p log p) if the rows are not in belief order.
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
	head, rest, err := readMeta(m.Keys(), m.Values())
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
	t := table{max: o.maxFeatures(), withRest: rest}
	if rest && len(s.FieldIndices(Rest)) != 1 {
		return nil, fmt.Errorf("no column %s, which metadata %sschema = %q needs; found: %s", Rest, prefix, SchemaVersion, listNames(columnNames(s)))
	}
	// Columns for classes and covariances are recognised only with our metadata: in another
	// program's table these names mean something else.
	with := map[string]int{}
	if head != nil || rest {
		for _, name := range []string{Class, CovarianceRow, Rest} {
			if found := s.FieldIndices(name); len(found) == 1 {
				with[name] = found[0]
			}
		}
	}
	for r.Next() {
		if err := t.addRest(r.RecordBatch(), with); err != nil {
			return nil, err
		}
		if err := t.addRecord(r.RecordBatch(), at); err != nil {
			return nil, err
		}
		if t.empty {
			continue
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
	if t.withRest && n == 1 && name.null(0) && num[0].null(0) && num[1].null(0) {
		t.empty = true
		return nil
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

// addRest reads the column Rest of a record.
func (t *table) addRest(rec arrow.RecordBatch, with map[string]int) error {
	if !t.withRest {
		return nil
	}
	v := newVector(Rest, rec.Column(with[Rest]))
	if v.text == nil && !v.isNullType() {
		return fmt.Errorf("column %s: its type is %s; allowed: text", Rest, rec.Column(with[Rest]).DataType())
	}
	for i := range int(rec.NumRows()) {
		if !v.null(i) {
			if err := t.rest(v.text(i), len(t.beliefs)+i); err != nil {
				return err
			}
		}
	}
	return nil
}

// addMore reads the classes and covariance rows of a record.
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
	if k, ok := with[CovarianceRow]; ok && (t.head == nil || correlated(t.head)) {
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
