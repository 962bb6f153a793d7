package softmax

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/memory"
)

// A belief is the Gaussian approximation at a point of the log posterior.
type belief struct {
	post   *gauss.Normal
	logDet float64 // log |I + Σ0 H| for the Hessian H chosen
	note   string
	// root determines how logDet depends on the W of a row: its derivative in W_bc is
	// Σ_k y_bk y_ck, where y_b = Σ_j x_j times row (b, j) of root. With split only b = c counts.
	root  *dense.Matrix
	split bool
}

// gaussian returns the Gaussian with the chosen Hessian at weights w, the search's present point.
func (e *engine) gaussian(w []float64) (*belief, error) {
	switch e.hessian {
	case "full":
		return e.fullAt(w)
	case "block":
		return e.blockAt(w)
	case "diagonal":
		return e.diagonalAt(w)
	}
	return e.lowRankAt(w)
}

func (e *engine) fullAt(w []float64) (*belief, error) {
	s := e.search
	d := len(w)
	b := s.b
	if s.space != weightSpace || s.Status != "" {
		h := s.Matrix(d, d)
		b = s.Matrix(d, d)
		s.hessian(h)
		mode.Whiten(b, h, e.root)
		if err := mode.Factor(b); err != nil {
			return nil, err
		}
	}
	return fullBelief(w, e.root, b), nil
}

// fullBelief is the Gaussian about w whose precision was whitened by the prior's root (mode.Whiten)
// and factorised to b.
func fullBelief(w []float64, root *gauss.Root, b *dense.Matrix) *belief {
	post := gauss.NewFull(w, mode.PosteriorRoot(root, b))
	return &belief{post: post, logDet: dense.LogDet(b), root: post.L}
}

func (e *engine) diagonalAt(w []float64) (bl *belief, err error) {
	bl = &belief{split: true}
	if bl.post, bl.logDet, _, err = mode.Diagonal(e.root, w, e.hessianDiagonal(w)); err != nil {
		return nil, err
	}
	return bl, nil
}

// blockAt keeps the covariance within each class.
func (e *engine) blockAt(w []float64) (*belief, error) {
	s := e.search
	p := s.p
	prior := e.root.Of
	bl := &belief{split: true}
	var lambda *dense.Matrix
	if prior.Form != gauss.Diagonal {
		lambda = s.Matrix(len(w), len(w))
		if err := prior.Prec(lambda); err != nil {
			return nil, err
		}
		var err error
		if bl.logDet, err = prior.LogDet(); err != nil {
			return nil, err
		}
	}
	l := s.Matrix(len(w), len(w))
	h, b, c := s.Matrix(p, p), s.Matrix(p, p), memory.Floats(s.n)
	for k := range s.a {
		s.classCurvature(c, k)
		s.Gram(h, c)
		scale := memory.Floats(p)
		for j := range scale {
			scale[j] = math.Sqrt(prior.Var[k*p+j])
		}
		t := gauss.Scaled(scale)
		if lambda == nil {
			mode.Whiten(b, h, t)
		} else {
			for i := range p {
				s.Stop.Row(i)
				for j := range p {
					h.Row(i)[j] = scale[i] * scale[j] * (h.Row(i)[j] + lambda.Row(k*p + i)[k*p+j])
				}
				bl.logDet -= 2 * math.Log(scale[i])
			}
			mode.Reverse(b, h)
		}
		if err := mode.Factor(b); err != nil {
			return nil, fmt.Errorf("class %q: %w", e.classes.Names[e.classes.Learnt[k]], err)
		}
		bl.logDet += dense.LogDet(b)
		part := mode.PosteriorRoot(t, b)
		for i := range p {
			copy(l.Row(k*p + i)[k*p:], part.Row(i)[:i+1])
		}
	}
	bl.post = gauss.NewFull(w, l)
	bl.root = l
	return bl, nil
}

// lowRankAt keeps the leading eigenpairs of the whitened data Hessian TᵀXᵀWXT, and the diagonal of
// the rest of XᵀWX.
func (e *engine) lowRankAt(w []float64) (*belief, error) {
	s := e.search
	most := min(s.n*min(s.a, max(len(e.classes.Names)-1, 1)), len(w))
	low, err := mode.NewLowRank(e.root, w, most, &e.x.Options, e.x.Stop, func(dst, m *dense.Matrix) {
		tm := s.Matrix(m.Rows, m.Cols)
		e.root.MulMat(tm, m)
		s.curved(dst, tm)
		e.root.MulTMat(dst, dst)
	})
	if err != nil {
		return nil, err
	}
	post, logDet, err := low.WithRest(e.root, e.hessianDiagonal(w), kernels.Or(e.x.Options.Rank, mode.DefaultRank))
	if err != nil {
		return nil, err
	}
	return &belief{post: post, logDet: logDet, note: kernels.Join(low.Note, low.RestNote(e.hessian == "lowrank"))}, nil
}

// curved sets dst = H m for the Hessian H at the search's present point.
func (s *search) curved(dst, m *dense.Matrix) {
	x := make([]float64, m.Rows)
	for k := range m.Cols {
		s.Stop.Check()
		column(x, m, k)
		s.product(s.xa, x)
		s.curve(s.xa, s.xa)
		s.productT(x, s.xa)
		setColumn(dst, k, x)
	}
}

// hessianDiagonal returns the diagonal of the Hessian at weights w, the search's present point.
func (e *engine) hessianDiagonal(w []float64) []float64 {
	s := e.search
	h, c := memory.Floats(len(w)), memory.Floats(s.n)
	for k := range s.a {
		s.classCurvature(c, k)
		s.Squares(h[k*s.p:(k+1)*s.p], c)
	}
	return h
}
