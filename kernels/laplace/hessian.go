package laplace

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
	mean   []float64
	vars   func() []float64 // variances of the weights
	logDet float64          // log |I + Σ0 H| for the Hessian H chosen
	// rows sets dst_i to the derivative of logDet in the curvature of row i: except for low
	// rank, that is the posterior variance of the predictor.
	rows func(dst []float64)
	// mulCov sets dst = Σ x; nil if H leaves curvature out.
	mulCov func(dst, x []float64)
	// between returns the covariance of two weights of one level; nil if there are none.
	between func(i, j int) float64
	// build returns the Gaussian in the form that a fit keeps.
	build   func() (*gauss.Normal, error)
	floored bool // negative curvatures were set to 0
	rank    int  // eigenpairs kept
	note    string
}

// is sets bl to the Gaussian post.
func (bl *belief) is(post *gauss.Normal) *belief {
	bl.mean = post.Mean
	bl.vars = func() []float64 { return post.Var }
	bl.build = func() (*gauss.Normal, error) { return post, nil }
	return bl
}

// gaussian returns the Gaussian with the chosen Hessian at weights w, where curv = -l” are the
// curvatures of the rows.
func (e *engine) gaussian(w, curv []float64) (*belief, error) {
	switch e.hessian {
	case "full":
		return e.fullAt(w, curv)
	case "rows":
		return e.rowsAt(w, curv)
	case "arrow":
		return e.arrowAt(w, curv)
	case "block":
		return e.blockAt(w, curv)
	case "diagonal":
		return e.diagonalAt(w, curv)
	}
	return e.lowRankAt(w, curv)
}

const flooredNote = "rows of negative curvature count as 0 in the Hessian, for the posterior is not a maximum in every direction without that"

func (e *engine) fullAt(w, curv []float64) (*belief, error) {
	p := e.x.P
	s := e.search
	bl := &belief{}
	var b *dense.Matrix
	if s.space == weightSpace && e.assembled {
		b = s.b
		if s.floored {
			bl.floored = true
		}
	} else {
		b = e.x.Matrix(p, p)
		floored, err := newHessian(e.x).factor(b, e.root, curv)
		if err != nil {
			return nil, err
		}
		if floored {
			bl.floored = true
		}
	}
	bl.logDet = dense.LogDet(b)
	post := gauss.NewFull(w, mode.PosteriorRoot(e.root, b))
	bl.rows = func(dst []float64) { e.x.Spread(dst, post) }
	bl.mulCov = post.MulCov
	bl.is(post)
	if e.tied != nil {
		bl.between = func(i, j int) float64 {
			m := min(i, j) + 1
			return dense.Dot(post.L.Row(i)[:m], post.L.Row(j)[:m])
		}
		bl.build = func() (*gauss.Normal, error) { return e.tied.weights(post), nil }
	}
	return bl, nil
}

func (e *engine) diagonalAt(w, curv []float64) (bl *belief, err error) {
	bl = &belief{}
	h := memory.Floats(e.x.P)
	e.x.Squares(h, curv)
	post, logDet, floored, err := mode.Diagonal(e.root, w, h)
	if err != nil {
		return nil, err
	}
	bl.logDet, bl.floored = logDet, floored
	bl.rows = func(dst []float64) { e.x.Spread(dst, post) }
	return bl.is(post), nil
}

// maxBlockWeights bounds the packed covariance of hessian 'block': 8 bytes times p²/2, 800 MB.
const maxBlockWeights = 14000

// blocks lists the columns of each block: one block per group, and one for the intercept.
func (e *engine) blocks() [][]int {
	group, names := e.x.Groups()
	out := make([][]int, len(names)+1)
	for j, g := range group {
		out[g+1] = append(out[g+1], j)
	}
	return out
}

func (e *engine) blockAt(w, curv []float64) (*belief, error) {
	d := e.x
	p := d.P
	bl := &belief{}
	f := blockFactor{engine: e, place: make([]int, p), curv: append([]float64(nil), curv...)}
	prior := e.root.Of
	if prior.Form != gauss.Diagonal {
		f.lambda = d.Matrix(p, p)
		if err := prior.Prec(f.lambda); err != nil {
			return nil, err
		}
		ld, err := prior.LogDet()
		if err != nil {
			return nil, err
		}
		bl.logDet = ld
	}
	l := d.Matrix(p, p)
	for j := range f.place {
		f.place[j] = -1
	}
	for _, cols := range e.blocks() {
		if len(cols) == 0 {
			continue
		}
		scale, b, err := f.of(cols)
		if err != nil {
			return nil, fmt.Errorf("block of %q: %w", d.Name(cols[0]), err)
		}
		bl.logDet += dense.LogDet(b)
		if f.lambda != nil {
			for k := range scale {
				bl.logDet -= 2 * math.Log(scale[k])
			}
		}
		part := mode.PosteriorRoot(gauss.Scaled(scale), b)
		for a, i := range cols {
			for k, v := range part.Row(a)[:a+1] {
				l.Row(i)[cols[k]] = v
			}
		}
	}
	bl.floored = f.floored
	post := gauss.NewFull(w, l)
	bl.rows = func(dst []float64) { e.x.Spread(dst, post) }
	return bl.is(post), nil
}

// blockFactor factors the blocks of the posterior precision one after the other.
type blockFactor struct {
	*engine
	lambda  *dense.Matrix // prior precision, nil if it is diagonal
	place   []int         // by column: its place in the block, -1 outside
	curv    []float64     // of the rows
	floored bool          // negative curvatures have been 0 since some block
}

// of factors the precision of the block of cols, in units of the prior standard deviations scale.
// If the curvatures make it indefinite, negative ones count as 0 from then on.
func (f *blockFactor) of(cols []int) (scale []float64, b *dense.Matrix, err error) {
	d, n := f.x, len(cols)
	scale = memory.Floats(n)
	for k, j := range cols {
		f.place[j] = k
		scale[k] = math.Sqrt(f.root.Of.Var[j])
	}
	h := d.Matrix(n, n)
	b = d.Matrix(n, n)
	f.build(h, cols, scale)
	mode.Reverse(b, h)
	if err = dense.Cholesky(b); err != nil {
		for i := range f.curv {
			if f.curv[i] < 0 {
				f.curv[i], f.floored = 0, true
			}
		}
		f.build(h, cols, scale)
		mode.Reverse(b, h)
		if err = dense.Cholesky(b); err != nil && f.lambda == nil {
			mode.Reverse(b, h)
			err = mode.Factor(b)
		}
	}
	for _, j := range cols {
		f.place[j] = -1
	}
	return scale, b, err
}

// build sets h to the precision of the block of cols, in units of scale.
func (f *blockFactor) build(h *dense.Matrix, cols []int, scale []float64) {
	f.x.BlockGram(h, f.place, f.curv)
	for a := range cols {
		f.x.Stop.Check()
		for k := range a + 1 {
			v := h.Row(a)[k]
			if f.lambda != nil {
				v += f.lambda.Row(cols[a])[cols[k]]
			}
			v *= scale[a] * scale[k]
			if f.lambda == nil && a == k {
				v++
			}
			h.Row(a)[k], h.Row(k)[a] = v, v
		}
	}
}

// lowRankAt keeps the leading eigenpairs of the whitened data Hessian TᵀXᵀWXT, and the diagonal of
// the rest of XᵀWX.
func (e *engine) lowRankAt(w, curv []float64) (*belief, error) {
	d, t := e.x, e.root
	bl := &belief{mean: w}
	c := append([]float64(nil), curv...)
	for i := range c {
		if c[i] < 0 {
			c[i], bl.floored = 0, true
		}
	}
	low, err := mode.NewLowRank(t, w, min(d.N, d.P), &d.Options, d.Stop, func(dst, m *dense.Matrix) {
		tm := d.Matrix(m.Rows, m.Cols)
		t.MulMat(tm, m)
		d.GramMat(dst, tm, c)
		t.MulTMat(dst, dst)
	})
	if err != nil {
		return nil, err
	}
	h := memory.Floats(d.P)
	d.Squares(h, c)
	post, logDet, err := low.WithRest(t, h, kernels.Or(d.Options.Rank, mode.DefaultRank))
	if err != nil {
		return nil, err
	}
	bl.logDet, bl.rank, bl.note = logDet, len(low.Share), kernels.Join(low.Note, low.RestNote(e.hessian == "lowrank"))
	bl.rows = func(dst []float64) { d.Spread(dst, post) }
	return bl.is(post), nil
}
