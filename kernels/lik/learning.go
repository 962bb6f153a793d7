package lik

import "fmt"

// Learning is the gaussian likelihood with a noise variance that is learnt from the
// rows as a filter meets them. The variance starts as one row's worth of opinion and
// follows the standardised innovations,
//
//	D_t = (D_0 + Σ D_{i-1} e_i² / (v_i + D_{i-1}/w_i)) / (1 + t),   e_i = y_i - m_i
//
// the update of the conjugate normal-inverse-gamma model, in which it is exact, at the
// variance so far. Unlike the other likelihoods it changes with Learn: each filter has
// its own, and Clone makes another.
type Learning struct {
	gaussian
	sum, rows   float64 // D = sum / rows
	sum0, rows0 float64 // at the start
}

// NewLearning returns the likelihood that starts at l's noise variance, which n rows
// have taught already.
// Errors: a family other than gaussian with link identity.
func NewLearning(l Likelihood, n int64) (*Learning, error) {
	g, ok := l.(gaussian)
	if !ok {
		return nil, fmt.Errorf("dispersion = 'auto' is learnt row by row for gaussian with link identity; for %s with link %s take a method that keeps its rows", l.Family(), l.Link())
	}
	rows := 1 + float64(n)
	return &Learning{gaussian: g, sum: g.dispersion * rows, rows: rows, sum0: g.dispersion * rows, rows0: rows}, nil
}

// Learn takes a row whose linear predictor was N(m, v) before it came. A row that would
// leave the variance not positive or not finite teaches nothing.
func (g *Learning) Learn(o Obs, m, v float64) {
	if !(o.Weight > 0) {
		return
	}
	e := o.Y - m
	sum := g.sum + g.dispersion*(e/(v+g.dispersion/o.Weight))*e
	if d := sum / (g.rows + 1); d > 0 && d <= maxDispersion {
		g.sum, g.rows, g.dispersion = sum, g.rows+1, d
	}
}

// maxDispersion keeps squares of it finite.
const maxDispersion = 1e150

// Clone returns an independent copy.
func (g *Learning) Clone() *Learning { c := *g; return &c }

// Merge adds what o learnt since the start that both share.
func (g *Learning) Merge(o *Learning) {
	g.sum += o.sum - o.sum0
	g.rows += o.rows - o.rows0
	g.dispersion = g.sum / g.rows
}
