package lowrank

import (
	"errors"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/wire"
	"github.com/bglm/bglm/kernels/lik"
)

// PassMark begins an encoded pass; its last byte is the version of the layout.
const PassMark = "bglm directions\x04"

var errPass = errors.New("the bytes are no pass of lowrank of bglm, or were cut or changed on their way")

// Bytes encodes the pass, equally on all machines, for DecodePass (package wire).
func (s *Pass) Bytes() []byte {
	w := wire.New(PassMark, s.Size())
	w.Head(s.Head)
	w.Bool(s.standardize)
	w.Whole(int64(s.rank), int64(s.oversample), int64(s.pow), int64(s.seed), int64(s.stage))
	w.Text(s.prior)
	w.Counts(&s.counted, &s.totals)
	w.Values(&s.totals, &s.dict)
	w.Whole(s.before, int64(s.clamped))
	w.Bool(s.exact)
	w.Floats(s.next, s.height, s.logLik)
	w.Floats(s.misfit.Sums()...)
	for _, v := range [][]float64{s.singular, s.at, s.u, s.from, s.slope} {
		w.Whole(int64(len(v)))
		w.Floats(v...)
	}
	for _, m := range []*dense.Matrix{s.dirs, s.sketch, s.gram} {
		if m == nil {
			m = &dense.Matrix{}
		}
		w.Whole(int64(m.Rows), int64(m.Cols))
		for i := range m.Rows {
			w.Floats(m.Row(i)...)
		}
	}
	return w.Sum()
}

// DecodePass reads Bytes. The pass may be merged, solved and continued, but accepts no more rows.
// Errors: bytes that are not a pass, or of another version.
func DecodePass(b []byte) (*Pass, error) {
	r, err := wire.Open(b, PassMark, errPass)
	if err != nil {
		return nil, err
	}
	s := &Pass{head: head{Head: r.Head(), standardize: r.Bool(),
		rank: int(r.Whole()), oversample: int(r.Whole()), pow: int(r.Whole()), seed: uint64(r.Whole())}, stage: int(r.Whole())}
	s.prior = r.Text()
	cols := r.Counts(&s.counted, &s.totals)
	r.Values(&s.totals, &s.dict, s.Head, cols, maxPassNumbers)
	s.before, s.clamped, s.exact = r.Whole(), int(r.Whole()), r.Bool()
	s.next, s.height, s.logLik = r.Float(), r.Float(), r.Float()
	s.misfit = lik.MisfitOfSums(r.Floats(lik.MisfitSums))
	for _, to := range []*[]float64{&s.singular, &s.at, &s.u, &s.from, &s.slope} {
		if n := r.Count(8); n > 0 {
			*to = r.Floats(n)
		}
	}
	for _, to := range []**dense.Matrix{&s.dirs, &s.sketch, &s.gram} {
		rows, cols := r.Whole(), r.Whole()
		if rows < 0 || cols < 0 || rows > maxPassNumbers || cols > maxPassNumbers || rows*cols > maxPassNumbers {
			r.Fail()
			break
		}
		if data := r.Floats(int(rows * cols)); rows > 0 {
			*to = &dense.Matrix{Rows: int(rows), Cols: int(cols), Stride: int(cols), Data: data}
		}
	}
	if !r.Done() || !s.sound() {
		return nil, errPass
	}
	return s, nil
}

// sound reports whether the parts of a pass have the sizes that its stage requires.
func (s *Pass) sound() bool {
	p := s.dict.Len()
	const most = 1 << 20 // beyond what options allow
	for _, v := range []int{s.rank - 1, s.oversample, s.pow, s.stage, s.clamped} {
		if v < 0 || v > most {
			return false
		}
	}
	if s.totals.Rows < 0 || s.before < 0 {
		return false
	}
	if s.stage == 0 {
		return s.dirs == nil && s.sketch == nil && s.gram == nil
	}
	if s.dirs == nil || s.dirs.Rows > p {
		return false
	}
	if s.seeks() {
		return s.sketch != nil && s.sketch.Rows == s.dirs.Rows && s.sketch.Cols == s.dirs.Cols && s.gram == nil
	}
	k := s.forced() + s.dirs.Cols
	return s.sketch == nil && len(s.singular) == s.dirs.Cols && len(s.at) == k && len(s.u) == k && len(s.slope) == k && (s.from == nil || len(s.from) == k) &&
		(k == 0 || s.gram != nil && s.gram.Rows == k && s.gram.Cols == k)
}
