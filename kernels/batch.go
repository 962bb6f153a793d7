package kernels

import (
	"errors"
	"fmt"
	"slices"
)

// Batch is a block of rows in columnar, row-compressed form. Producers may reuse its memory between
// calls; engines retain none of it. The zero Batch has no rows and can be filled: Add their
// entries, EndRow each, and append the scalars.
type Batch struct {
	// Row has n+1 offsets: row i has entries Row[i] to Row[i+1].
	Row []int
	// Feature and Value are the entries: the feature's number in the Dict and its value. A feature
	// occurs at most once in a row; zeros are allowed and count as seen.
	Feature []uint32
	Value   []float64
	// Shared, if not nil, are the features of every row; Row and Feature are not used then, and
	// Value holds len(Shared) numbers per row.
	Shared []uint32
	// Columns, if there are any, hold the values of Shared instead of Value: for each feature those
	// of all rows. ByColumn asks a producer for them; Transpose converts them to Value.
	Columns  [][]float64
	ByColumn bool
	// Keep is memory for the next Shared.
	Keep []uint32

	Y      []float64 // responses, length n; nil when only predicting
	Weight []float64 // likelihood exponents, nil = 1
	Offset []float64 // added to the linear predictor, nil = 0
	Trials []float64 // binomial trials, nil = family default
	Time   []float64 // times of the rows, nil = rows count

	// Schema describes the columns of the rows, nil if they are open: from a map or from names.
	// Missing is the number of rows without a value there, by column; it may be shorter. A missing
	// number is NaN, which the mean of its column replaces.
	Schema  *Schema
	Missing []int64
}

// Len is the number of rows.
func (b *Batch) Len() int {
	if len(b.Columns) > 0 {
		return len(b.Columns[0])
	}
	if w := len(b.Shared); w > 0 {
		return len(b.Value) / w
	}
	if len(b.Row) == 0 {
		return 0
	}
	return len(b.Row) - 1
}

// Entries returns the features and values of row i.
func (b *Batch) Entries(i int) ([]uint32, []float64) {
	if w := len(b.Shared); b.Shared != nil {
		return b.Shared, b.Value[i*w : (i+1)*w : (i+1)*w]
	}
	lo, hi := b.Row[i], b.Row[i+1]
	return b.Feature[lo:hi], b.Value[lo:hi:hi]
}

// ErrNoBatch is the error for a nil batch.
var ErrNoBatch = errors.New("the batch is nil")

// Check returns an error for a batch that is nil, or whose rows lack entries, responses or other
// numbers: Y has one number per row, the others one per row or none. Cost: O(Columns). The contents
// of Row and Feature are the producer's responsibility.
func (b *Batch) Check() error {
	if b == nil {
		return ErrNoBatch
	}
	n := b.Len()
	if len(b.Y) != n {
		return fmt.Errorf("the batch has %d responses for %d rows; allowed: one each", len(b.Y), n)
	}
	for _, x := range [...]struct {
		name string
		n    int
	}{{"weights", len(b.Weight)}, {"offsets", len(b.Offset)}, {"trials", len(b.Trials)}, {"times", len(b.Time)}} {
		if x.n != 0 && x.n != n {
			return fmt.Errorf("the batch has %d %s for %d rows; allowed: one each, or none", x.n, x.name, n)
		}
	}
	if len(b.Columns) > 0 {
		if len(b.Columns) != len(b.Shared) || slices.ContainsFunc(b.Columns, func(c []float64) bool { return len(c) != n }) {
			return fmt.Errorf("the batch has %d columns of %d features; allowed: one each, of the same length", len(b.Columns), len(b.Shared))
		}
		return nil
	}
	if b.Shared != nil {
		if n*len(b.Shared) != len(b.Value) {
			return fmt.Errorf("the batch has %d values of %d features a row; allowed: as many for each row", len(b.Value), len(b.Shared))
		}
		return nil
	}
	if n > 0 && (b.Row[n] > len(b.Feature) || b.Row[n] > len(b.Value)) {
		return fmt.Errorf("the rows of the batch have %d entries, but there are %d features and %d values", b.Row[n], len(b.Feature), len(b.Value))
	}
	return nil
}

// Part makes dst a view of rows [lo, hi) of b, whose features are Shared and have no missing values.
func (b *Batch) Part(lo, hi int, dst *Batch) {
	w := len(b.Shared)
	dst.Shared, dst.Value, dst.Schema = b.Shared, b.Value[lo*w:hi*w:hi*w], b.Schema
	cut := func(s []float64) []float64 {
		if len(s) == 0 {
			return nil
		}
		return s[lo:hi:hi]
	}
	dst.Y, dst.Weight, dst.Offset, dst.Trials, dst.Time = cut(b.Y), cut(b.Weight), cut(b.Offset), cut(b.Trials), cut(b.Time)
}

// Transpose copies Columns into Value, row by row.
func (b *Batch) Transpose() {
	if len(b.Columns) == 0 {
		return
	}
	n, w := b.Len(), len(b.Columns)
	b.Value = slices.Grow(b.Value[:0], n*w)[:n*w]
	for j, column := range b.Columns {
		i := j
		for _, v := range column {
			b.Value[i] = v
			i += w
		}
	}
	b.Columns = b.Columns[:0]
}

// Unshare copies Shared features into entries of each row.
func (b *Batch) Unshare() {
	b.Transpose()
	if b.Shared == nil {
		return
	}
	n, w := b.Len(), len(b.Shared)
	b.Feature = b.Feature[:0]
	b.Row = append(b.Row[:0], 0)
	for i := range n {
		b.Feature = append(b.Feature, b.Shared...)
		b.Row = append(b.Row, (i+1)*w)
	}
	b.Shared = nil
}

// Memory is the size of the batch in bytes.
func (b *Batch) Memory() int64 {
	return 4*int64(cap(b.Feature)+cap(b.Shared)) + 8*int64(cap(b.Row)+cap(b.Value)+cap(b.Y)+cap(b.Weight)+cap(b.Offset)+cap(b.Trials)+cap(b.Time)) + 240
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.Row = append(b.Row[:0], 0)
	b.Shared, b.Schema, b.Missing = nil, nil, b.Missing[:0]
	b.Columns, b.ByColumn = b.Columns[:0], false
	b.Feature, b.Value = b.Feature[:0], b.Value[:0]
	b.Y, b.Weight, b.Offset, b.Trials, b.Time = b.Y[:0], b.Weight[:0], b.Offset[:0], b.Trials[:0], b.Time[:0]
}

// Add appends an entry to the open row.
func (b *Batch) Add(feature uint32, value float64) {
	b.Feature = append(b.Feature, feature)
	b.Value = append(b.Value, value)
}

// AddNamed is Add for a feature by its name, which d numbers.
// Errors: more features than d holds.
func (b *Batch) AddNamed(d *Dict, name string, value float64) error {
	id, err := d.Add(name)
	if err == nil {
		b.Add(id, value)
	}
	return err
}

// EndRow closes the open row.
func (b *Batch) EndRow() {
	b.open()
	b.Row = append(b.Row, len(b.Feature))
}

// open returns the beginning of the open row.
func (b *Batch) open() int {
	if len(b.Row) == 0 {
		b.Row = append(b.Row, 0)
	}
	return b.Row[len(b.Row)-1]
}

// SumDuplicates sums the values of equal features in the open row: in a factorised belief two
// entries of one weight would count its variance twice.
func (b *Batch) SumDuplicates(s *Scratch) {
	lo := b.open()
	f, v := b.Feature[lo:], b.Value[lo:]
	if len(f) < 2 {
		return
	}
	n := 1
	if len(f) <= 24 {
		for i := 1; i < len(f); i++ {
			j := 0
			for j < n && f[j] != f[i] {
				j++
			}
			if j < n {
				v[j] += v[i]
				continue
			}
			f[n], v[n] = f[i], v[i]
			n++
		}
	} else {
		s.next(len(f))
		s.at(f[0], 0)
		for i := 1; i < len(f); i++ {
			if j, seen := s.at(f[i], n); seen {
				v[j] += v[i]
				continue
			}
			f[n], v[n] = f[i], v[i]
			n++
		}
	}
	b.Feature, b.Value = b.Feature[:lo+n], b.Value[:lo+n]
}

// Scratch records which features a row has had, without clearing between rows.
type Scratch struct {
	epoch uint32
	slot  []struct{ feature, epoch, pos uint32 } // open addressing, half full at most
}

// next begins a row of n entries.
func (s *Scratch) next(n int) {
	if 2*n > len(s.slot) {
		size := 64
		for size < 2*n {
			size *= 2
		}
		s.slot = make([]struct{ feature, epoch, pos uint32 }, size)
		s.epoch = 0
	}
	if s.epoch++; s.epoch == 0 {
		clear(s.slot)
		s.epoch = 1
	}
}

// at returns the position of feature f in this row, or records pos.
func (s *Scratch) at(f uint32, pos int) (int, bool) {
	mask := uint32(len(s.slot) - 1)
	for i := f * 0x9E3779B1 >> 7 & mask; ; i = (i + 1) & mask {
		e := &s.slot[i]
		if e.epoch != s.epoch {
			e.feature, e.epoch, e.pos = f, s.epoch, uint32(pos)
			return pos, false
		}
		if e.feature == f {
			return int(e.pos), true
		}
	}
}
