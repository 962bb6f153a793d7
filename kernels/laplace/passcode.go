package laplace

import (
	"errors"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/internal/wire"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// passMark begins an encoded pass; its last byte is the version of the layout.
const passMark = "bglm pass\x07"

var errPass = errors.New("the bytes are no pass of bglm, or were cut or changed on their way")

// Bytes encodes the pass, equally on all machines, for DecodePass (package wire).
func (s *Pass) Bytes() []byte {
	w := wire.New(passMark, s.Size())
	w.Head(s.Head)
	w.Bool(s.learns)
	w.Bool(s.sites)
	w.Whole(s.entries, s.bare)
	w.Floats(s.known, s.rounds)
	w.Floats(s.around.rows, s.around.variance, s.around.sum)
	w.Whole(int64(len(s.around.by)))
	for _, c := range s.around.by {
		w.Text(c.Column)
		w.Floats(c.Variance)
	}
	t := &s.totals
	w.Counts(&s.counted, t)
	w.Floats(s.logLik)
	w.Floats(s.misfit.Sums()...)
	w.Values(t, &s.dict)
	w.Floats(s.at...)
	w.Floats(s.shift...)
	w.Floats(s.slope...)
	w.Floats(s.curv...)
	if s.learns {
		w.Floats(s.bend...)
		w.Floats(t.Squares...)
	}
	return w.Sum()
}

// DecodePass reads Bytes. The pass may be merged and solved, but accepts no more rows.
// Errors: bytes that are not a pass, or of another version.
func DecodePass(b []byte) (*Pass, error) {
	r, err := wire.Open(b, passMark, errPass)
	if err != nil {
		return nil, err
	}
	s := &Pass{head: head{Head: r.Head(), learns: r.Bool(), sites: r.Bool()}}
	s.entries, s.bare, s.known, s.rounds = r.Whole(), r.Whole(), r.Float(), r.Float()
	s.around.rows, s.around.variance, s.around.sum = r.Float(), r.Float(), r.Float()
	s.around.by = make(kernels.ColumnPriors, r.Count(16))
	for k := range s.around.by {
		s.around.by[k] = kernels.ColumnPrior{Column: r.Text(), Variance: r.Float()}
	}
	t := &s.totals
	cols := r.Counts(&s.counted, t)
	s.logLik = r.Float()
	s.misfit = lik.MisfitOfSums(r.Floats(lik.MisfitSums))
	r.Values(t, &s.dict, s.Head, cols, maxPassWeights)
	p := len(t.Numbers)
	s.at, s.shift, s.slope, s.curv = r.Floats(p), r.Floats(p), r.Floats(p), r.Floats(p*(p+1)/2)
	s.bend, t.Squares = memory.Floats(p), memory.Floats(p)
	if s.learns {
		s.bend, t.Squares = r.Floats(p), r.Floats(p)
	}
	if !r.Done() {
		return nil, errPass
	}
	for _, c := range s.shift {
		if c != 0 {
			s.shifted++
		}
	}
	return s, nil
}
