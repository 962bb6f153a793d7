// Package wire writes states as bytes, equal on all machines, and reads them: a mark whose last
// byte is the version of the layout, numbers as little-endian 8 bytes, texts with their length,
// and a CRC-32 of all that at the end.
package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/bglm/bglm/kernels"
)

// Writer is what was written, from the mark on.
type Writer []byte

// New is a Writer behind the mark, of about as many bytes as room: one that grows is copied a
// dozen times, which of a gigabyte takes seconds.
func New(mark string, room int64) Writer {
	return append(make(Writer, 0, max(int64(len(mark)), room)), mark...)
}

// Whole writes whole numbers.
func (w *Writer) Whole(vs ...int64) {
	for _, v := range vs {
		*w = binary.LittleEndian.AppendUint64(*w, uint64(v))
	}
}

// Bool writes a truth value.
func (w *Writer) Bool(v bool) {
	if v {
		w.Whole(1)
	} else {
		w.Whole(0)
	}
}

// Floats writes numbers.
func (w *Writer) Floats(vs ...float64) {
	for _, v := range vs {
		*w = binary.LittleEndian.AppendUint64(*w, math.Float64bits(v))
	}
}

// Text writes a text.
func (w *Writer) Text(s string) {
	w.Whole(int64(len(s)))
	*w = append(*w, s...)
}

// Numbers writes totals.
func (w *Writer) Numbers(t kernels.NumberTotals) {
	w.Floats(t.Rows, t.Mean, t.Weight, t.Center, t.Squares, t.Missing, t.MissingByWeight)
}

// Columns writes what is counted of columns.
func (w *Writer) Columns(cols []kernels.FitColumn) {
	w.Whole(int64(len(cols)))
	for _, c := range cols {
		w.Text(c.Name)
		w.Text((*kernels.ColumnKind)(&c).String())
		w.Whole(c.N, c.Missing)
	}
}

// Features writes the names of the features of d, and of those that are numbers their totals.
func (w *Writer) Features(d *kernels.Dict, totals []kernels.NumberTotals) {
	w.Whole(int64(d.Len()))
	for id := range uint32(d.Len()) {
		w.Text(string(d.Name(id)))
		number := d.NumberPlace(id) < math.MaxInt
		w.Bool(number)
		if number {
			w.Numbers(totals[id])
		}
	}
}

// Sum is all of it, with its sum at the end.
func (w Writer) Sum() []byte {
	return binary.LittleEndian.AppendUint32(w, crc32.ChecksumIEEE(w))
}

// Open is a Reader of b behind the mark.
// Errors: err for bytes that do not begin with it or were cut or changed, another version.
func Open(b []byte, mark string, err error) (*Reader, error) {
	at := len(mark) - 1
	if len(b) < at+5 || string(b[:at]) != mark[:at] {
		return nil, err
	}
	if b[at] != mark[at] {
		return nil, fmt.Errorf("a state of layout %d; this bglm reads %d", b[at], mark[at])
	}
	end := len(b) - 4
	if crc32.ChecksumIEEE(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, err
	}
	return &Reader{b: b[at+1 : end]}, nil
}

// Reader reads what Writer wrote; it is at fault once and for all where the bytes end.
type Reader struct {
	b   []byte
	bad bool
}

// Done says whether all bytes were read, and were there.
func (r *Reader) Done() bool { return !r.bad && len(r.b) == 0 }

// Fail puts the reader at fault.
func (r *Reader) Fail() { r.bad, r.b = true, nil }

func (r *Reader) next(n int64) []byte {
	if n < 0 || n > int64(len(r.b)) {
		r.Fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// Whole reads a whole number.
func (r *Reader) Whole() int64 {
	if b := r.next(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// Bool reads a truth value.
func (r *Reader) Bool() bool { return r.Whole() == 1 }

// Count reads a number of things of at least that many bytes each.
func (r *Reader) Count(bytes int) int {
	n := r.Whole()
	if n < 0 || n > int64(len(r.b)/bytes) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Float reads a number.
func (r *Reader) Float() float64 { return math.Float64frombits(uint64(r.Whole())) }

// Floats reads n numbers.
func (r *Reader) Floats(n int) []float64 {
	b := r.next(8 * int64(n))
	if b == nil {
		return nil
	}
	out := make([]float64, n)
	for k := range out {
		out[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*k:]))
	}
	return out
}

// Text reads a text.
func (r *Reader) Text() string { return string(r.next(r.Whole())) }

// Numbers reads totals.
func (r *Reader) Numbers() (t kernels.NumberTotals) {
	for _, to := range []*float64{&t.Rows, &t.Mean, &t.Weight, &t.Center, &t.Squares, &t.Missing, &t.MissingByWeight} {
		*to = r.Float()
	}
	return t
}

// Columns reads what Writer.Columns wrote.
func (r *Reader) Columns() []kernels.FitColumn {
	cols := make([]kernels.FitColumn, r.Count(32))
	for k := range cols {
		nan := math.NaN()
		c := &cols[k]
		*c = kernels.FitColumn{Name: r.Text(), Center: nan, Scale: nan, Variance: nan}
		(*kernels.ColumnKind)(c).Set(r.Text())
		c.N, c.Missing = r.Whole(), r.Whole()
	}
	return cols
}

// Features reads what Writer.Features wrote into an empty dictionary of rows with columns cols;
// the reader is at fault for more than most, or names that are none.
func (r *Reader) Features(d *kernels.Dict, cols []kernels.FitColumn, most int) []kernels.NumberTotals {
	p := r.Count(16)
	if p > most {
		r.Fail()
		return nil
	}
	names, totals := make([]string, p), make([]kernels.NumberTotals, p)
	var levels, numbers []string
	for _, c := range cols {
		if c.Kind == kernels.LevelsColumn {
			levels = append(levels, c.Name)
		}
	}
	for id := range p {
		if names[id] = r.Text(); r.Bool() {
			numbers = append(numbers, names[id])
			totals[id] = r.Numbers()
		}
	}
	if r.bad {
		return nil
	}
	d.Use(kernels.NewColumns(levels, numbers))
	for id, name := range names {
		if at, err := d.AddRaw(name); err != nil || int(at) != id {
			r.Fail()
			return nil
		}
	}
	return totals
}
