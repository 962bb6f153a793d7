package laplace

import (
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// singleRead is what a search computes of a point ahead of time. With many rows and few columns a
// Newton step costs as much as reading the rows, and most steps are taken whole. So the predictors
// one whole step further, the likelihood there, Xᵀl' and XᵀWX are computed from a block of rows
// while it is in the cache, and are ready when the step is taken.
type singleRead struct {
	lazy    bool                                           // the step's change of the predictors is computed when it is tried
	due     bool                                           // and is still to be computed
	tried   bool                                           // the whole step of this direction was tried
	at      bool                                           // grad belongs to the present point
	next    bool                                           // ahead belongs to the point tried
	grad    []float64                                      // Xᵀl'
	ahead   []float64                                      // Xᵀl' at the point tried
	slopes  *dense.Matrix                                  // by part of the rows
	logLiks []float64                                      // by part
	many    func(y, weight, s, d1, curv []float64) float64 // lik.Many
	chord   staleHessian
}

// newOnce returns nil if it would not pay: the Hessian of a Gaussian likelihood is the same
// everywhere.
func newOnce(d *kernels.Problem, l lik.Likelihood) *singleRead {
	parts := d.GramParts()
	if parts == 0 || l.Traits().Gaussian {
		return nil
	}
	return &singleRead{grad: memory.Floats(d.P), ahead: memory.Floats(d.P),
		slopes: d.Matrix(parts, d.P), logLiks: make([]float64, parts)}
}

// isDeferred reports whether computing a direction's change of the predictors waits until it is
// tried.
func (n *singleRead) isDeferred() bool {
	if n == nil {
		return false
	}
	n.tried = false
	return n.lazy
}

// forget must be called after rows, likelihood or point have changed.
func (n *singleRead) forget() {
	if n != nil {
		n.at, n.next, n.due = false, false, false
	}
}

// begin must be called before a climb under l.
func (n *singleRead) begin(l lik.Likelihood) {
	if n != nil {
		n.forget()
		n.lazy = l.Traits().Growth == 0 // else the length of a step depends on its predictors
		n.many = lik.Many(l)
		n.chord = staleHessian{share: maxLeft}
	}
}

// move must be called when the step tried last is taken.
func (n *singleRead) move() {
	if n != nil {
		n.grad, n.ahead = n.ahead, n.grad
		n.at, n.next = n.next, false
	}
}

// add adds the slopes of rows x to those of a part.
func (n *singleRead) add(x *dense.Matrix, part int, d1 []float64) {
	sum := n.slopes.Row(part)
	for i, d := range d1 {
		dense.Axpy(d, x.Row(i), sum)
	}
}

// sum sets dst to the sum of the slopes of all parts.
func (n *singleRead) sum(dst []float64) {
	clear(dst)
	for part := range n.slopes.Rows {
		dense.Axpy(1, n.slopes.Row(part), dst)
	}
}

// slopes returns Xᵀl' at the present point; if it has to be computed, XᵀWX may be computed with it.
func (s *search) slopes() []float64 {
	n := s.once
	if !n.at {
		if _, there := multiple(s.now.Curv, s.hess.w); there {
			s.MulT(n.grad, s.now.D1)
		} else if far, _ := s.changed(); far <= maxChange {
			s.MulT(n.grad, s.now.D1)
		} else {
			clear(n.slopes.Data)
			s.hess.by(s.now.Curv, func(x *dense.Matrix, part, lo, hi int) { n.add(x, part, s.now.D1[lo:hi]) })
			n.sum(n.grad)
		}
		n.at = true
	}
	return n.grad
}

// ahead evaluates the whole step, and computes what is needed next if it is taken.
func (s *search) ahead() {
	n := s.once
	fresh := n.due
	n.due, n.tried = false, true
	if fresh {
		s.root.Mul(s.w1, s.du)
	}
	makes := s.makesNext()
	clear(n.slopes.Data)
	clear(n.logLiks)
	rows := func(x *dense.Matrix, part, lo, hi int) {
		for i := lo; i < hi; i++ {
			if fresh {
				s.dEta[i] = dense.Dot(x.Row(i-lo), s.w1)
			}
			s.next.Eta[i] = s.now.Eta[i] + s.dEta[i]
		}
		n.logLiks[part] += s.data.EvaluateRows(&s.next, n.many, lo, hi)
		n.add(x, part, s.next.D1[lo:hi])
	}
	if makes {
		s.hess.by(s.next.Curv, rows)
	} else {
		s.Visit(rows)
	}
	n.sum(n.ahead)
	sum := 0.0
	for _, v := range n.logLiks {
		sum += v
	}
	s.next.Sums(sum)
	n.next = true
}

// by computes h for W = diag(w), which before may compute: see design.Columns.GramBy.
func (x *hessian) by(w []float64, before func(m *dense.Matrix, part, lo, hi int)) {
	x.w = x.w[:0] // until it is whole
	x.GramBy(x.h, w, before)
	x.w = append(x.w, w...)
	x.made++
}
