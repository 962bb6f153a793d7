package adf

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/stream"
)

// part removes the weights that had joined the block, once there is one leaf too many.
func (t *tied) part() {
	if len(t.owner)-t.fixed == t.mostLeaves()+1 {
		js, _ := t.removable()
		t.moveToLeaves(js)
	}
}

// moveToLeaves turns weights of the block into leaves; levels become leaves of their column's mean,
// under the prior that they have there.
func (t *tied) moveToLeaves(js []int) {
	if len(js) == 0 {
		return
	}
	cols := make([]int32, len(js))
	for i, j := range js {
		if cols[i] = t.columnOf(uint32(t.is[j])); cols[i] >= 0 {
			t.meanOf(cols[i])
			t.cols[cols[i]].seen++
		}
	}
	for _, c := range cols {
		if c >= 0 {
			t.widen(c, t.cols[c].seen)
		}
	}
	t.regroup(js, cols, 1)
	for _, b := range t.bank {
		for i, j := range js {
			if cols[i] >= 0 {
				b.Tie(j, int(t.cols[cols[i]].mean), -1)
			}
		}
		b.MoveToLeaves(js)
	}
	gone := make([]bool, len(t.is))
	for i, j := range js {
		id := uint32(t.is[j])
		gone[j] = true
		t.place[id] = int32(^len(t.owner))
		t.owner, t.of = append(t.owner, id), append(t.of, cols[i])
		if t.plan.Drifts {
			at := math.NaN()
			if t.moves[j] {
				at = t.now
			}
			t.touched = append(t.touched, at)
		}
	}
	t.is = keep(t.is, gone)
	t.moves, t.unit = keep(t.moves, gone), keep(t.unit, gone)
	t.number()
	t.recount()
}

// keep returns s without the elements that are gone.
func keep[T any](s []T, gone []bool) []T {
	out := s[:0]
	for k, x := range s {
		if !gone[k] {
			out = append(out, x)
		}
	}
	return out
}

// number updates the places of features and columns to those of the block's weights.
func (t *tied) number() {
	for j, id := range t.is {
		if id >= 0 {
			t.place[id] = int32(j)
		} else {
			t.cols[^id].mean = int32(j)
		}
	}
}

// moveToBlock turns leaves into weights of the block, the reverse of moveToLeaves.
func (t *tied) moveToBlock(ks []int) {
	if len(ks) == 0 {
		return
	}
	slices.Sort(ks)
	gone := make([]bool, len(t.owner))
	js, cols := make([]int, len(ks)), make([]int32, len(ks))
	for i, k := range ks {
		gone[k] = true
		js[i], cols[i] = len(t.is), t.of[k]
		if cols[i] >= 0 {
			t.cols[cols[i]].seen--
		}
		t.is = append(t.is, int32(t.owner[k]))
		if t.plan.Drifts {
			t.moves = append(t.moves, !math.IsNaN(t.touched[k]))
		}
		if len(t.unit) > 0 {
			t.unit = append(t.unit, stream.Unit{Scale: 1})
		}
	}
	for _, b := range t.bank {
		b.MoveToBlock(ks)
		for i, j := range js {
			if cols[i] >= 0 {
				b.Tie(j, int(t.cols[cols[i]].mean), 1)
			}
		}
	}
	t.owner, t.of, t.touched = keep(t.owner, gone), keep(t.of, gone), keep(t.touched, gone)
	for k, id := range t.owner {
		t.place[id] = int32(^k)
	}
	t.number()
	t.regroup(js, cols, -1)
	t.recount()
}

// regroup gives levels that are weights js of the block the prior of their column's leaves,
// N(ℓ, s), instead of their own, N(m, v); with sign -1 the reverse. It multiplies by
// exp(-(w - ℓ)²/2s) and divides by exp(-(w - m)²/2v), which is exact.
func (t *tied) regroup(js []int, cols []int32, sign float64) {
	d := len(t.is)
	delta, nu := dense.New(d, d), make([]float64, d)
	any := false
	for i, j := range js {
		if cols[i] < 0 {
			continue
		}
		any = true
		own, l := sign/t.levelPrior(cols[i]).Variance, int(t.cols[cols[i]].mean)
		w := t.blockPrior(j)
		delta.Row(j)[j] += own - sign/w.Variance
		delta.Row(l)[l] += own
		delta.Row(j)[l] -= own
		delta.Row(l)[j] -= own
		nu[j] -= sign * w.Mean / w.Variance
	}
	if !any {
		return
	}
	for _, b := range t.bank {
		// Weights that drifted far past their priors stay as they are.
		_ = b.Precise(delta, nu)
	}
}

// aligned returns belief k of f with the weights of t in the places of t; ids maps t's features to
// those of f.
func (t *tied) aligned(f *tied, k int, ids []int32) (*arrowhead.Belief, error) {
	b := f.bank[k].Clone()
	order := make([]int, len(t.is))
	for j, id := range t.is {
		at := -1
		if id < 0 {
			if c := slices.IndexFunc(f.cols, func(l levelColumn) bool { return l.text == t.cols[^id].text }); c >= 0 {
				at = int(f.cols[c].mean)
			}
		} else if own := ids[id]; own >= 0 && f.place[own] >= 0 {
			at = int(f.place[own])
		}
		if at < 0 {
			w := t.blockPrior(j)
			at = b.Extend([]float64{w.Mean}, []float64{w.Variance})
		}
		order[j] = at
	}
	if len(order) != b.Dim() {
		return nil, fmt.Errorf("%d weights in the block of one part, %d in that of another", b.Dim(), len(order))
	}
	if err := b.Permute(order); err != nil {
		return nil, err
	}
	rows := make([]int, len(t.owner))
	for l, id := range t.owner {
		rows[l] = -1
		if own := ids[id]; own >= 0 && f.place[own] < 0 && f.place[own] != absent {
			rows[l] = int(^f.place[own])
		}
	}
	b.SelectLeaves(rows, func(l int) (float64, float64) {
		w := t.leafPrior(l)
		if alpha, q, _ := t.bank[k].Leaf(l); q == 0 {
			w.Mean, w.Variance = alpha, 0
		}
		return w.Mean, w.Variance
	})
	return b, nil
}
