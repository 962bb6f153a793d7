package adf

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
)

// count adds to the count of belief k, or subtracts, what the data determine of leaf l.
func (t *tied) count(k, l int, sign int64) {
	if len(t.known) == 0 {
		return
	}
	if _, q, _ := t.bank[k].Leaf(l); q > 0 {
		t.known[k] += sign * lik.Determined(q, t.leafPrior(l).Variance)
	}
}

// recount counts the leaves that the data determine anew.
func (t *tied) recount() {
	for k := range t.known {
		t.known[k] = 0
		for l := range t.owner {
			t.count(k, l, 1)
		}
	}
}

// Count implements stream.Counter.
func (t *tied) Count(k int) int64 {
	own := t.known
	defer func() { t.known = own }()
	t.known = slices.Clone(own)
	t.recount()
	return t.Known(k)
}

// SetKnown implements stream.Counter.
func (t *tied) SetKnown(k int, n int64) { t.known[k] += n - t.Known(k) }

// Approximates implements stream.Approximate: a row correlates its leaves, which stay independent
// given the block here.
func (t *tied) Approximates() float64 {
	if len(t.ks) > 1 {
		return lik.LeastNoise
	}
	return 0
}

// Known implements stream.Form: a leaf counts by its variance given the block.
func (t *tied) Known(k int) int64 {
	n := t.known[k]
	v := make([]float64, len(t.is))
	t.bank[k].Variances(v)
	for j, v := range v {
		n += lik.Determined(v, t.blockPrior(j).Variance)
	}
	return n
}

// Gain implements stream.Whole.
func (t *tied) Gain(k int) float64 {
	b := t.bank[k]
	b.UpdateLeaves()
	sum := -b.LogDet()
	for j := range b.Mean {
		sum += math.Log(t.blockPrior(j).Variance)
	}
	for l := range t.owner {
		if _, q, _ := b.Leaf(l); q > 0 { // otherwise it is known
			sum += math.Log(t.leafPrior(l).Variance / q)
		}
	}
	return sum
}

// Nearly implements stream.Whole.
func (t *tied) Nearly() bool { return false }

// Apart implements stream.Whole.
func (t *tied) Apart(k int, dst []float64) []float64 {
	b := t.bank[k]
	b.UpdateLeaves()
	add := func(mean float64, prior kernels.Weight) {
		dst = append(dst, (mean-prior.Mean)/math.Sqrt(prior.Variance))
	}
	for j, m := range b.Mean {
		add(m, t.blockPrior(j))
	}
	for l := range t.owner {
		mean, q, h := b.Leaf(l)
		if q == 0 {
			continue
		}
		mean += dense.Dot(h, b.Mean)
		if c := t.of[l]; c >= 0 {
			mean -= b.Mean[t.cols[c].mean]
		}
		add(mean, t.leafPrior(l))
	}
	return dst
}

// Determined implements stream.Form: the count is updated with every change.
func (t *tied) Determined(k int) int64 { return t.Known(k) }

// Rescale implements stream.Form.
func (t *tied) Rescale(k int, lambda float64) {
	if lambda == 1 {
		return
	}
	b := t.bank[k]
	b.UpdateLeaves()
	before := b.Clone()
	delta, nu := t.priorShare(b.Dim(), 1-lambda)
	var known []int
	for l := range t.owner {
		if _, q, _ := b.Leaf(l); q == 0 {
			known = append(known, l)
		}
	}
	b.Scale(lambda)
	for _, l := range known {
		a, q, h := before.Leaf(l)
		b.SetLeaf(l, a, q, h)
	}
	err := error(nil)
	for l := range t.owner {
		if _, q, _ := b.Leaf(l); q > 0 && err == nil {
			p := t.leafPrior(l)
			err = b.LeafPrecise(l, (1-lambda)/p.Variance, p.Mean, delta, nu)
		}
	}
	if err == nil {
		err = b.Precise(delta, nu)
	}
	if err != nil { // weights that drifted past their priors have nothing to multiply
		t.bank[k] = before
	}
	t.recount()
}
