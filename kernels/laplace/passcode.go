package laplace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// passMark begins a pass in bytes; the last one is the version of the layout.
const passMark = "bglm pass\x04"

var errPass = errors.New("the bytes are no pass of bglm, or were cut or changed on their way")

// Bytes is the pass in bytes, equal on all machines, that DecodePass reads: the mark with
// the version, numbers as little-endian 8 bytes, texts with their length, and a CRC-32 of all
// that at the end.
func (s *Pass) Bytes() []byte {
	w := passWriter(passMark)
	w.text(s.family)
	w.text(s.link)
	w.floats(s.dispersion, s.shape)
	w.whole(int64(btoi(s.noIntercept)))
	w.whole(int64(s.hashBits))
	w.whole(int64(btoi(s.learns)))
	w.whole(int64(btoi(s.sites)))
	w.whole(s.entries)
	w.whole(s.bare)
	w.floats(s.known, s.rounds)
	w.floats(s.around.rows, s.around.variance, s.around.sum)
	w.whole(int64(len(s.around.by)))
	for _, c := range s.around.by {
		w.text(c.Column)
		w.floats(c.Variance)
	}
	cols := s.counted.Columns()
	w.whole(int64(len(cols)))
	for _, c := range cols {
		w.text(c.Name)
		w.text(c.Kind)
		w.whole(c.N)
		w.whole(c.Missing)
	}
	t := &s.totals
	w.whole(t.Rows)
	w.whole(t.Skipped)
	w.floats(t.Weight, s.logLik)
	w.floats(s.pearson.Squares, s.pearson.Variance, s.pearson.Weight, s.pearson.Several)
	w.numbers(t.Y)
	p := len(s.at)
	w.whole(int64(p))
	for id := range p {
		w.text(string(s.dict.Name(uint32(id))))
		number := s.dict.NumberPlace(uint32(id)) < math.MaxInt
		w.whole(int64(btoi(number)))
		if number {
			w.numbers(t.Numbers[id])
		}
	}
	w.floats(s.at...)
	w.floats(s.shift...)
	w.floats(s.slope...)
	w.floats(s.curv...)
	if s.learns {
		w.floats(s.bend...)
		w.floats(t.Squares...)
	}
	return binary.LittleEndian.AppendUint32(w, crc32.ChecksumIEEE(w))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

type passWriter []byte

func (w *passWriter) whole(v int64) { *w = binary.LittleEndian.AppendUint64(*w, uint64(v)) }

func (w *passWriter) floats(vs ...float64) {
	for _, v := range vs {
		*w = binary.LittleEndian.AppendUint64(*w, math.Float64bits(v))
	}
}

func (w *passWriter) text(s string) {
	w.whole(int64(len(s)))
	*w = append(*w, s...)
}

func (w *passWriter) numbers(t kernels.NumberTotals) {
	w.floats(t.Rows, t.Mean, t.Weight, t.Center, t.Squares, t.Missing, t.MissingByWeight)
}

// passReader reads what passWriter wrote; it is at fault once and for all where the bytes end.
type passReader struct {
	b   []byte
	bad bool
}

func (r *passReader) take(n int64) []byte {
	if n < 0 || n > int64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *passReader) whole() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// count is a number of things of at least that many bytes each.
func (r *passReader) count(bytes int) int {
	n := r.whole()
	if n < 0 || n > int64(len(r.b)/bytes) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *passReader) float() float64 { return math.Float64frombits(uint64(r.whole())) }

func (r *passReader) floats(n int) []float64 {
	b := r.take(8 * int64(n))
	if b == nil {
		return nil
	}
	out := make([]float64, n)
	for k := range out {
		out[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*k:]))
	}
	return out
}

func (r *passReader) text() string { return string(r.take(r.whole())) }

func (r *passReader) numbers() (t kernels.NumberTotals) {
	for _, to := range []*float64{&t.Rows, &t.Mean, &t.Weight, &t.Center, &t.Squares, &t.Missing, &t.MissingByWeight} {
		*to = r.float()
	}
	return t
}

// DecodePass reads Bytes. It may be merged and solved, but learns from no more rows.
// Errors: bytes that are none, or of a later version.
func DecodePass(b []byte) (*Pass, error) {
	mark := len(passMark) - 1
	if len(b) < mark+5 || string(b[:mark]) != passMark[:mark] {
		return nil, errPass
	}
	if b[mark] != passMark[mark] {
		return nil, fmt.Errorf("a pass of layout %d; this bglm reads %d", b[mark], passMark[mark])
	}
	end := len(b) - 4
	if crc32.ChecksumIEEE(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, errPass
	}
	r := &passReader{b: b[mark+1 : end]}
	s := &Pass{head: head{family: r.text(), link: r.text(), dispersion: r.float(), shape: r.float(), noIntercept: r.whole() == 1, hashBits: int(r.whole()), learns: r.whole() == 1, sites: r.whole() == 1}}
	s.entries, s.bare, s.known, s.rounds = r.whole(), r.whole(), r.float(), r.float()
	s.around.rows, s.around.variance, s.around.sum = r.float(), r.float(), r.float()
	s.around.by = make(kernels.ColumnPriors, r.count(16))
	for k := range s.around.by {
		s.around.by[k] = kernels.ColumnPrior{Column: r.text(), Variance: r.float()}
	}
	var levels, numbers []string
	cols := make([]kernels.FitColumn, r.count(32))
	for k := range cols {
		nan := math.NaN()
		cols[k] = kernels.FitColumn{Name: r.text(), Kind: r.text(), N: r.whole(), Missing: r.whole(), Center: nan, Scale: nan, Variance: nan}
		if cols[k].Kind == kernels.LevelsColumn {
			levels = append(levels, cols[k].Name)
		}
	}
	if len(cols) > 0 {
		s.counted = kernels.CountFrom(cols)
	}
	t := &s.totals
	t.Rows, t.Skipped, t.Weight, s.logLik = r.whole(), r.whole(), r.float(), r.float()
	s.pearson = lik.Pearson{Squares: r.float(), Variance: r.float(), Weight: r.float(), Several: r.float()}
	t.Y = r.numbers()
	p := r.count(16)
	if p > maxPassWeights {
		return nil, errPass
	}
	names := make([]string, p)
	t.Numbers = make([]kernels.NumberTotals, p)
	for id := range p {
		if names[id] = r.text(); r.whole() == 1 {
			numbers = append(numbers, names[id])
			t.Numbers[id] = r.numbers()
		}
	}
	s.at, s.shift, s.slope, s.curv = r.floats(p), r.floats(p), r.floats(p), r.floats(p*(p+1)/2)
	s.bend, t.Squares = make([]float64, p), make([]float64, p)
	if s.learns {
		s.bend, t.Squares = r.floats(p), r.floats(p)
	}
	if r.bad || len(r.b) > 0 {
		return nil, errPass
	}
	s.dict.HashBits = s.hashBits
	s.dict.Use(kernels.NewColumns(levels, numbers))
	for id, name := range names {
		if at, err := s.dict.AddRaw(name); err != nil || int(at) != id {
			return nil, errPass
		}
		if s.shift[id] != 0 {
			s.own++
		}
	}
	return s, nil
}
