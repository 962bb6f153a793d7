package laplace

import (
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
)

// once is what a search has of a point before it asks for it. Of many rows with few columns a
// step of Newton's method costs what it takes to read them, and most steps are taken whole. So
// the predictors one whole step further, the likelihood there, Xᵀl' and XᵀWX are made of a block
// of rows while it is in the cache, and are there where the step is taken.
type once struct {
	lazy    bool                                           // the step's part of the predictors waits until it is tried
	due     bool                                           // it does
	tried   bool                                           // the whole step of this direction was tried
	at      bool                                           // grad is that of the present point
	next    bool                                           // ahead is that of the point tried
	grad    []float64                                      // Xᵀl'
	ahead   []float64                                      // the same
	slopes  *dense.Matrix                                  // by part of the rows
	logLiks []float64                                      // by part
	many    func(y, weight, s, d1, curv []float64) float64 // lik.Many
	chord   chord
}

// newOnce is nil where it would not pay: the Hessian of a Gaussian likelihood is one for all.
func newOnce(d *kernels.Problem, l lik.Likelihood) *once {
	parts := d.GramParts()
	if parts == 0 || l.Traits().Gaussian {
		return nil
	}
	return &once{grad: make([]float64, d.P), ahead: make([]float64, d.P),
		slopes: d.Matrix(parts, d.P), logLiks: make([]float64, parts)}
}

// waits says that a direction's part of the predictors is not made with it.
func (n *once) waits() bool {
	if n == nil {
		return false
	}
	n.tried = false
	return n.lazy
}

// forget says that rows, likelihood or point are others.
func (n *once) forget() {
	if n != nil {
		n.at, n.next, n.due = false, false, false
	}
}

// begin is before a climb under l.
func (n *once) begin(l lik.Likelihood) {
	if n != nil {
		n.forget()
		n.lazy = l.Traits().Growth == 0 // how long a step is depends on its predictors else
		n.many = lik.Many(l)
		n.chord = chord{share: maxLeft}
	}
}

// move says that the step that was tried last is taken.
func (n *once) move() {
	if n != nil {
		n.grad, n.ahead = n.ahead, n.grad
		n.at, n.next = n.next, false
	}
}

// add adds to the slopes of a part those of rows x.
func (n *once) add(x *dense.Matrix, part int, d1 []float64) {
	sum := n.slopes.Row(part)
	for i, d := range d1 {
		dense.Axpy(d, x.Row(i), sum)
	}
}

// sum sets dst to the slopes of all parts.
func (n *once) sum(dst []float64) {
	clear(dst)
	for part := range n.slopes.Rows {
		dense.Axpy(1, n.slopes.Row(part), dst)
	}
}

// slopes is Xᵀl' at the present point; where it is not there, XᵀWX is made with it.
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

// ahead looks at the whole step, and makes what comes next should it be taken.
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

// by makes h for W = diag(w), which before may make: see design.Columns.GramBy.
func (x *hessian) by(w []float64, before func(m *dense.Matrix, part, lo, hi int)) {
	x.w = x.w[:0] // until it is whole
	x.GramBy(x.h, w, before)
	x.w = append(x.w, w...)
	x.made++
}
