package adf

import (
	"math"

	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
)

// Begin implements stream.Form.
func (t *tied) Begin(now float64) {
	t.now = now
	for id := range min(t.plan.Named, len(t.place)) {
		t.begin(t.place[id], now)
	}
}

// begin starts the drift of a weight.
func (t *tied) begin(place int32, now float64) {
	switch {
	case place == absent:
	case place >= 0:
		t.moves[place] = true
	case math.IsNaN(t.touched[^place]):
		t.touched[^place] = now
	}
}

// rate is the random-walk variance per unit of time of feature id in belief k.
func (t *tied) rate(k int, id uint32) float64 {
	if by := t.plan.Model.NoiseBy; by != nil {
		return by[string(t.dict.Name(id))]
	}
	return t.plan.Rates[k]
}

// Drift implements stream.Form.
func (t *tied) Drift(from, to float64, fs []uint32) error {
	if err := t.driftBlock(to - from); err != nil {
		return err
	}
	t.now = to
	for _, id := range fs {
		if t.place[id] == absent {
			t.placeSeen(id)
		}
	}
	for _, id := range fs {
		if p := t.place[id]; p >= 0 {
			t.begin(p, to)
		} else {
			t.driftLeaf(int(^p), to)
		}
	}
	return nil
}

// driftBlock advances the block by dt.
func (t *tied) driftBlock(dt float64) error {
	if !(dt > 0) || len(t.is) == 0 {
		return nil
	}
	m := t.plan.Model
	rates := make([]float64, len(t.is))
	for k, b := range t.bank {
		if m.Forgets() {
			if err := t.forget(b, math.Pow(m.Forgetting, dt)); err != nil {
				return err
			}
			continue
		}
		for j, id := range t.is {
			if id >= 0 && t.moves[j] {
				rates[j] = t.rate(k, uint32(id)) * dt
			}
		}
		b.Drift(rates)
	}
	return nil
}

// forget discounts the block of b towards its prior: Λ = λΛ + (1-λ)Λ0.
func (t *tied) forget(b *arrowhead.Belief, lambda float64) error {
	if lambda == 1 {
		return nil
	}
	delta, nu := t.priorShare(b.Dim(), 1-lambda)
	b.ScaleBlock(lambda)
	return b.Precise(delta, nu)
}

// driftLeaf brings leaf k to time to.
func (t *tied) driftLeaf(k int, to float64) {
	dt := to - t.touched[k]
	if !(t.touched[k] >= to) { // also NaN
		t.touched[k] = to
	}
	m := t.plan.Model
	p := t.leafPrior(k)
	for i, b := range t.bank {
		b.UpdateLeaf(k)
		_, q, _ := b.Leaf(k)
		if !(dt > 0) || q <= 0 {
			continue
		}
		t.count(i, k, -1)
		if m.Forgets() {
			b.DiscountLeaf(k, math.Pow(m.Forgetting, dt), p.Mean, p.Variance)
		} else {
			b.Widen(k, t.rate(i, t.owner[k])*dt)
		}
		t.count(i, k, 1)
	}
}

// applyAllDrift brings all weights of all beliefs to time now.
func (t *tied) applyAllDrift(now float64) {
	for _, b := range t.bank {
		b.UpdateLeaves()
	}
	for k := range t.touched {
		if !math.IsNaN(t.touched[k]) {
			t.driftLeaf(k, now)
		}
	}
}

// priorShare is that share of the prior of a block of d weights: precision, and precision times mean.
func (t *tied) priorShare(d int, share float64) (precision *dense.Matrix, nu []float64) {
	precision, nu = dense.New(d, d), make([]float64, d)
	for j := range d {
		w := t.blockPrior(j)
		precision.Row(j)[j] = share / w.Variance
		nu[j] = precision.Row(j)[j] * w.Mean
	}
	return precision, nu
}
