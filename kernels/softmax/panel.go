package softmax

import "github.com/bglm/bglm/kernels/dense"

const (
	// panelRows is how many rows are multiplied by a root at once, so that it is read from memory
	// once for all.
	panelRows = 64
	// panelShare is the density of entries from which a dense panel is faster.
	panelShare = 0.1
)

// panel is some rows of X times the root of a covariance of all classes' weights: y[b] are the
// products with its rows of class b. One goroutine computes them.
type panel struct {
	x *dense.Matrix // nil: X is sparse
	y []*dense.Matrix
	l []*dense.Matrix // the root's rows by class, up to their last column
	p int
}

// newPanel returns a panel for products with root; triangular means that its rows of class b end
// with column (b + 1) p.
func (s *search) newPanel(root *dense.Matrix, triangular bool) *panel {
	q := &panel{p: s.p}
	rows := min(panelRows, s.n)
	if s.Density() >= panelShare {
		q.x = dense.New(rows, s.p)
	}
	for b := range s.a {
		width := root.Cols
		if triangular {
			width = min(width, (b+1)*s.p)
		}
		q.l = append(q.l, root.Slice(b*s.p, (b+1)*s.p, 0, width))
		q.y = append(q.y, dense.New(rows, width))
	}
	return q
}

// fill computes the products of rows [lo, hi), at most panelRows.
func (q *panel) fill(s *search, lo, hi int) {
	s.Stop.Check()
	if q.x == nil {
		for i := lo; i < hi; i++ {
			cols, vals := s.Entries(i)
			for b, y := range q.y {
				to := y.Row(i - lo)
				clear(to)
				dense.AddRows(to, q.l[b].Data, q.l[b].Stride, cols, vals)
			}
		}
		return
	}
	for i := lo; i < hi; i++ {
		cols, vals := s.Entries(i)
		row := q.x.Row(i - lo)
		clear(row)
		for k, j := range cols {
			row[j] += vals[k]
		}
	}
	for b, y := range q.y {
		dense.MulAlone(y.Slice(0, hi-lo, 0, y.Cols), q.x.Slice(0, hi-lo, 0, q.p), q.l[b])
	}
}
