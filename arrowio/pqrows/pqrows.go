// Package pqrows reads Parquet files as Arrow records, for the fits of package arrowio, and
// converts whole tables between Parquet and Arrow IPC. It is separate from arrowio because the
// nested types of Parquet need a much larger part of the Arrow library than belief tables do.
package pqrows

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/bglm/bglm/arrowio"
)

// Reader reads the rows of a Parquet file in order, decoding several row groups at once. It
// implements array.RecordReader. Errors name the file.
type Reader struct {
	name   string
	f      *os.File
	pr     *file.Reader
	schema *arrow.Schema
	leaves []int
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{}

	first  int // row group
	groups []chan result
	at     int
	rec    arrow.RecordBatch
	err    error
}

type result struct {
	rec arrow.RecordBatch
	err error
}

const (
	batchRows = 8192
	ahead     = 2 // records a row group may be ahead of the reader
)

// Open opens the Parquet file path and reads the named top-level columns, matched without regard to
// case; nil means all. Text columns are read as dictionaries, so that a repeated value is numbered
// once.
//
// At most GOMAXPROCS row groups are decoded at a time, each a few thousand rows ahead: memory does
// not grow with the file. Errors: a file that is not Parquet or is damaged, missing columns.
func Open(ctx context.Context, path string, columns []string) (*Reader, error) {
	return OpenGroups(ctx, path, columns, 0, math.MaxInt)
}

// OpenGroups is Open for the row groups [lo, hi) of the file, from 0, as far as they exist.
func OpenGroups(ctx context.Context, path string, columns []string, lo, hi int) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := open(ctx, path, f, columns, lo, hi)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// RowGroups returns the number of rows in each row group of a Parquet file. Errors name the file.
func RowGroups(path string) (rows []int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	defer guard(&err)
	pr, err := footer(f)
	if err != nil {
		return nil, err
	}
	for g := range pr.NumRowGroups() {
		rows = append(rows, pr.MetaData().RowGroup(g).NumRows())
	}
	return rows, nil
}

func footer(f *os.File) (*file.Reader, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() < 12 {
		return nil, fmt.Errorf("%d bytes are no Parquet file", st.Size())
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	props.MaxCompressedPageSize = min(st.Size(), math.MaxInt32)
	return file.NewParquetReader(f, file.WithReadProps(props))
}

func open(ctx context.Context, path string, f *os.File, columns []string, lo, hi int) (r *Reader, err error) {
	defer guard(&err)
	pr, err := footer(f)
	if err != nil {
		return nil, err
	}
	// The Arrow schema that writers store in the metadata is an Arrow IPC message.
	if v := pr.MetaData().KeyValueMetadata().FindValue("ARROW:schema"); v != nil {
		b, err := base64.StdEncoding.DecodeString(*v)
		if err == nil {
			_, err = io.Copy(io.Discard, arrowio.Checked(bytes.NewReader(b)))
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("metadata ARROW:schema: %w", err)
		}
	}
	fr, err := pqarrow.NewFileReader(pr, pqarrow.ArrowReadProperties{BatchSize: batchRows}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	schema, err := fr.Schema()
	if err != nil {
		return nil, err
	}
	leaves, err := project(fr, schema, columns)
	if err != nil {
		return nil, err
	}
	r = &Reader{name: path, f: f, pr: pr, leaves: leaves, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	r.ctx, r.stop = context.WithCancel(ctx)
	r.first = min(max(lo, 0), pr.NumRowGroups())
	r.groups = make([]chan result, max(min(hi, pr.NumRowGroups())-r.first, 0))
	for g := range r.groups {
		r.groups[g] = make(chan result, ahead)
	}
	rr, err := r.reader(nil)
	if err != nil {
		r.stop()
		return nil, err
	}
	kv := pr.MetaData().KeyValueMetadata()
	meta := arrow.NewMetadata(kv.Keys(), kv.Values())
	r.schema = arrow.NewSchema(rr.Schema().Fields(), &meta)
	rr.Release()
	r.wg.Go(r.decode)
	return r, nil
}

func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the file: %w", arrowio.Damage(p))
	}
}

// project finds the leaves of the named columns.
func project(fr *pqarrow.FileReader, schema *arrow.Schema, columns []string) ([]int, error) {
	var leaves []int
	var names []string
	wanted := map[string]bool{}
	for _, c := range columns {
		wanted[strings.ToLower(c)] = true
	}
	for i, f := range schema.Fields() {
		names = append(names, f.Name)
		if columns != nil && !wanted[strings.ToLower(f.Name)] {
			continue
		}
		delete(wanted, strings.ToLower(f.Name))
		leaves = append(leaves, leavesOf(&fr.Manifest.Fields[i])...)
	}
	for _, c := range columns {
		if wanted[strings.ToLower(c)] {
			return nil, fmt.Errorf("no column %s; found: %.300s", c, strings.Join(names, ", "))
		}
	}
	return leaves, nil
}

func leavesOf(f *pqarrow.SchemaField) []int {
	if f.ColIndex >= 0 && len(f.Children) == 0 {
		return []int{f.ColIndex}
	}
	var out []int
	for i := range f.Children {
		out = append(out, leavesOf(&f.Children[i])...)
	}
	return out
}

// reader is a new reader of some row groups, with its own state.
func (r *Reader) reader(groups []int) (pqarrow.RecordReader, error) {
	props := pqarrow.ArrowReadProperties{BatchSize: batchRows}
	s := r.pr.MetaData().Schema
	for _, k := range r.leaves {
		if s.Column(k).PhysicalType() == parquet.Types.ByteArray && s.Column(k).MaxRepetitionLevel() == 0 {
			props.SetReadDict(k, true)
		}
	}
	fr, err := pqarrow.NewFileReader(r.pr, props, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	if groups == nil {
		groups = []int{}
	}
	return fr.GetRecordReader(r.ctx, r.leaves, groups)
}

// decode starts the row groups in order, as many at a time as there are slots.
func (r *Reader) decode() {
	for g := range r.groups {
		select {
		case r.slots <- struct{}{}:
		case <-r.ctx.Done():
			return
		}
		r.wg.Go(func() { r.decodeGroup(g) })
	}
}

func (r *Reader) decodeGroup(g int) {
	out := r.groups[g]
	g += r.first
	defer func() { <-r.slots }()
	defer close(out)
	send := func(v result) bool {
		select {
		case out <- v:
			return true
		case <-r.ctx.Done():
			if v.rec != nil {
				v.rec.Release()
			}
			return false
		}
	}
	err := func() (err error) {
		defer guard(&err)
		rr, err := r.reader([]int{g})
		if err != nil {
			return err
		}
		defer rr.Release()
		var rows int64
		for rr.Next() {
			rec := rr.RecordBatch()
			rec.Retain()
			rows += rec.NumRows()
			if !send(result{rec: rec}) {
				return nil
			}
		}
		if err := rr.Err(); err != nil && !errors.Is(err, io.EOF) {
			return arrowio.Damage(err)
		}
		if want := r.pr.MetaData().RowGroup(g).NumRows(); rows != want {
			return fmt.Errorf("the file is damaged: %d rows, its footer says %d", rows, want)
		}
		return nil
	}()
	if err != nil {
		send(result{err: fmt.Errorf("row group %d: %w", g+1, err)})
	}
}

// NumRows is how many rows the file's footer announces.
func (r *Reader) NumRows() (n int64) {
	for g := range r.groups {
		n += r.pr.MetaData().RowGroup(r.first + g).NumRows()
	}
	return n
}

// Schema is the schema of the columns read, with the metadata of the file.
func (r *Reader) Schema() *arrow.Schema { return r.schema }

// Next moves to the next record.
func (r *Reader) Next() bool {
	r.drop()
	for r.err == nil && r.at < len(r.groups) {
		select {
		case v, ok := <-r.groups[r.at]:
			switch {
			case !ok:
				r.at++
			case v.err != nil:
				r.err = fmt.Errorf("%s: %w", r.name, v.err)
			default:
				r.rec = v.rec
				return true
			}
		case <-r.ctx.Done():
			r.err = r.ctx.Err()
		}
	}
	return false
}

func (r *Reader) drop() {
	if r.rec != nil {
		r.rec.Release()
		r.rec = nil
	}
}

// RecordBatch is the current record, valid until Next.
func (r *Reader) RecordBatch() arrow.RecordBatch { return r.rec }

// Record is RecordBatch under its former name.
func (r *Reader) Record() arrow.RecordBatch { return r.rec }

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// Retain does nothing: Close releases the reader.
func (r *Reader) Retain() {}

// Release does nothing: Close releases the reader.
func (r *Reader) Release() {}

// Close stops reading and closes the file.
func (r *Reader) Close() error {
	r.stop()
	r.drop()
	r.wg.Wait()
	for _, c := range r.groups {
		for drained := false; !drained; {
			select {
			case v, ok := <-c:
				if v.rec != nil {
					v.rec.Release()
				}
				drained = !ok
			default:
				drained = true
			}
		}
	}
	return r.f.Close()
}

const (
	// A record is written in slices of at most so many rows, and so many bytes where entries of
	// dictionaries, views and runs stand for many rows.
	sliceRows  = 8192
	sliceBytes = 16 << 20
	groupBytes = 64 << 20 // a row group is closed once it holds this much
)

// FromArrow writes the records of r to w as Parquet (snappy, row groups of at most DuckDB's size).
// Memory: a record and a row group, 64 MB. Errors: those of r and w, and Arrow types that Parquet
// lacks.
func FromArrow(w io.Writer, r array.RecordReader) (err error) {
	defer guard(&err)
	s := plain(r.Schema())
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy), parquet.WithMaxRowGroupLength(122880))
	out, err := pqarrow.NewFileWriter(s, struct{ io.Writer }{w}, props, pqarrow.NewArrowWriterProperties())
	if err != nil {
		return err
	}
	for r.Next() {
		if err := writeSlices(out, r.RecordBatch(), s); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	return out.Close()
}

func writeSlices(out *pqarrow.FileWriter, rec arrow.RecordBatch, s *arrow.Schema) error {
	n := rec.NumRows()
	step := int64(sliceRows)
	if n > 0 {
		step = min(step, max(1, sliceBytes/max(1, arrowio.Expansion(rec)/n)))
	}
	for lo := int64(0); lo < n; lo += step {
		part := rec.NewSlice(lo, min(lo+step, n))
		fit, err := conform(part, s)
		part.Release()
		if err != nil {
			return err
		}
		err = out.WriteBuffered(fit)
		fit.Release()
		if err == nil && out.RowGroupTotalBytesWritten() > groupBytes {
			err = out.NewBufferedRowGroupChecked()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plain replaces types that the Parquet writer does not accept.
func plain(s *arrow.Schema) *arrow.Schema {
	fields := s.Fields()
	for i := range fields {
		fields[i].Type = plainType(fields[i].Type)
	}
	return arrow.NewSchema(fields, nil)
}

func plainType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.StringViewType:
		return arrow.BinaryTypes.String
	case *arrow.RunEndEncodedType:
		return plainType(t.Encoded())
	case *arrow.DictionaryType:
		v := plainType(t.ValueType)
		if v.ID() == arrow.NULL || v.ID() == arrow.BOOL {
			return v
		}
		return &arrow.DictionaryType{IndexType: t.IndexType, ValueType: v, Ordered: t.Ordered}
	}
	return wholeWords(t)
}

// wholeWords widens decimals of more than 38 digits to 32 bytes, at any depth of t: DuckDB misreads
// decimals of 17 to 31 bytes, which are not whole words of 8 bytes.
func wholeWords(t arrow.DataType) arrow.DataType {
	field := func(f arrow.Field) arrow.Field { f.Type = wholeWords(f.Type); return f }
	switch t := t.(type) {
	case *arrow.Decimal256Type:
		return &arrow.Decimal256Type{Precision: 76, Scale: t.Scale}
	case *arrow.ListType:
		return arrow.ListOfField(field(t.ElemField()))
	case *arrow.LargeListType:
		return arrow.LargeListOfField(field(t.ElemField()))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(t.Len(), field(t.ElemField()))
	case *arrow.MapType:
		m := arrow.MapOfFields(field(t.KeyField()), field(t.ItemField()))
		m.KeysSorted = t.KeysSorted
		return m
	case *arrow.StructType:
		fields := t.Fields()
		for i := range fields {
			fields[i] = field(fields[i])
		}
		return arrow.StructOf(fields...)
	}
	return t
}

// as is the data of an array with a type of the same layout.
func as(d arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	var children []arrow.ArrayData
	if nested, ok := t.(arrow.NestedType); ok {
		for i, f := range nested.Fields() {
			child := as(d.Children()[i], f.Type)
			defer child.Release()
			children = append(children, child)
		}
	}
	return array.NewData(t, d.Len(), d.Buffers(), children, d.NullN(), d.Offset())
}

func conform(rec arrow.RecordBatch, s *arrow.Schema) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, rec.NumCols())
	for i := range cols {
		var err error
		if cols[i], err = conformArray(rec.Column(i)); err != nil {
			return nil, fmt.Errorf("column %.100q: %w", rec.ColumnName(i), err)
		}
		defer cols[i].Release()
	}
	return array.NewRecordBatch(s, cols, rec.NumRows()), nil
}

// conformArray is a as an array of its plainType, with no NULL in its dictionary, which the Parquet
// writer does not accept either.
func conformArray(a arrow.Array) (arrow.Array, error) {
	switch a := a.(type) {
	case *array.StringView:
		b := array.NewStringBuilder(memory.DefaultAllocator)
		defer b.Release()
		for k := range a.Len() {
			if a.IsNull(k) {
				b.AppendNull()
			} else {
				b.Append(a.Value(k))
			}
		}
		return b.NewArray(), nil
	case *array.RunEndEncoded:
		return flatten(a)
	case *array.Dictionary:
		return conformDictionary(a)
	}
	if t := wholeWords(a.DataType()); !arrow.TypeEqual(t, a.DataType()) {
		d := as(a.Data(), t)
		defer d.Release()
		return array.MakeFromData(d), nil
	}
	a.Retain()
	return a, nil
}

// flatten is the array of the values of all rows of a run-end encoded array.
func flatten(a *array.RunEndEncoded) (arrow.Array, error) {
	values, err := conformArray(a.Values())
	if err != nil {
		return nil, err
	}
	defer values.Release()
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	for k := range a.Len() {
		b.Append(int64(a.GetPhysicalIndex(k)))
	}
	places := b.NewArray()
	defer places.Release()
	return compute.TakeArray(context.Background(), values, places)
}

// conformDictionary moves NULL from dictionary entries to the rows that refer to them.
func conformDictionary(a *array.Dictionary) (arrow.Array, error) {
	to := plainType(a.DataType())
	if to.ID() == arrow.NULL {
		return array.NewNull(a.Len()), nil
	}
	values, err := conformArray(a.Dictionary())
	if err != nil {
		return nil, err
	}
	defer values.Release()
	if to.ID() != arrow.DICTIONARY {
		return compute.TakeArray(context.Background(), values, a.Indices())
	}
	if values.NullN() == 0 {
		return array.NewDictionaryArray(to, a.Indices(), values), nil
	}
	from := a.Indices().Data()
	there := make([]byte, bitutil.BytesForBits(int64(from.Offset()+a.Len())))
	nulls := 0
	for k := range a.Len() {
		if a.IsNull(k) || values.IsNull(a.GetValueIndex(k)) {
			nulls++
		} else {
			bitutil.SetBit(there, from.Offset()+k)
		}
	}
	rows := array.NewData(from.DataType(), a.Len(), []*memory.Buffer{memory.NewBufferBytes(there), from.Buffers()[1]}, nil, nulls, from.Offset())
	defer rows.Release()
	d := values.Data()
	entries := array.NewData(d.DataType(), d.Len(), append([]*memory.Buffer{nil}, d.Buffers()[1:]...), d.Children(), 0, d.Offset())
	defer entries.Release()
	indices, whole := array.MakeFromData(rows), array.MakeFromData(entries)
	defer indices.Release()
	defer whole.Release()
	return array.NewDictionaryArray(to, indices, whole), nil
}

// ToIPC writes the rows of the Parquet file path to w as an Arrow IPC file or stream, with pairs of
// metadata. Memory: a few thousand rows for each row group being decoded.
func ToIPC(ctx context.Context, w io.Writer, path string, stream bool, meta ...string) error {
	r, err := Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	// Dictionaries differ between row groups, which an IPC file does not allow.
	s := undictionary(r.Schema(), meta)
	var out interface {
		Write(arrow.RecordBatch) error
		Close() error
	}
	if stream {
		out = ipc.NewWriter(w, ipc.WithSchema(s))
	} else if out, err = ipc.NewFileWriter(w, ipc.WithSchema(s)); err != nil {
		return err
	}
	for r.Next() {
		rec := spread(r.RecordBatch(), s)
		err := out.Write(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
	return errors.Join(r.Err(), out.Close())
}

func undictionary(s *arrow.Schema, meta []string) *arrow.Schema {
	fields := s.Fields()
	for i := range fields {
		if d, ok := fields[i].Type.(*arrow.DictionaryType); ok {
			fields[i].Type = d.ValueType
		}
	}
	var keys, values []string
	for i := 0; i+1 < len(meta); i += 2 {
		keys, values = append(keys, meta[i]), append(values, meta[i+1])
	}
	m := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &m)
}

func spread(rec arrow.RecordBatch, s *arrow.Schema) arrow.RecordBatch {
	cols := make([]arrow.Array, rec.NumCols())
	for i := range cols {
		d, ok := rec.Column(i).(*array.Dictionary)
		if !ok {
			cols[i] = rec.Column(i)
			cols[i].Retain()
			continue
		}
		b := array.NewBuilder(memory.DefaultAllocator, s.Field(i).Type)
		b.Reserve(d.Len())
		for k := range d.Len() {
			if d.IsNull(k) {
				b.AppendNull()
				continue
			}
			switch v := d.Dictionary().(type) {
			case *array.String:
				b.(*array.StringBuilder).Append(v.Value(d.GetValueIndex(k)))
			case *array.Binary:
				b.(*array.BinaryBuilder).Append(v.Value(d.GetValueIndex(k)))
			}
		}
		cols[i] = b.NewArray()
		b.Release()
	}
	out := array.NewRecordBatch(s, cols, rec.NumRows())
	for _, c := range cols {
		c.Release()
	}
	return out
}
