package softmax

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/memory"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/special"
)

// Scorer computes the class probabilities of rows under a softmax fit. It is for one goroutine at a
// time; Clone returns one for another.
type Scorer struct {
	*predict.Names // its beliefs are indices within a class
	Fit            *kernels.Fit

	predictive kernels.PredictiveScale

	p     int // beliefs of a class
	known []bool

	at   []int
	val  []float64
	part []float64 // C x (columns of the covariance's root)
	mean []float64
	cov  []float64
	mix  mixer
}

// NewScorer prepares a softmax fit, which is kept and must not change. A fit without a row that has
// a class has no classes, and no probabilities. Errors: a fit of another family, beliefs or a
// covariance that are not valid, classes with different features.
func NewScorer(f *kernels.Fit) (*Scorer, error) {
	if f == nil {
		return nil, kernels.ErrNoFit
	}
	c := len(f.Classes)
	if c == 0 && f.Family != kernels.Multinomial {
		return nil, fmt.Errorf("a softmax fit has classes; this fit by '%s' has none", f.Method)
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	if err := f.Covariance.Check(len(f.Beliefs)); err != nil {
		return nil, err
	}
	s := &Scorer{Fit: f, predictive: f.PredictiveScale(), p: len(f.Beliefs) / max(c, 1), mean: make([]float64, c), cov: make([]float64, c*c), known: make([]bool, c)}
	if s.p*c != len(f.Beliefs) {
		return nil, fmt.Errorf("%d beliefs for %d classes; allowed: as many for each", len(f.Beliefs), c)
	}
	var err error
	if s.Names, err = predict.NewNames(f.Beliefs[:s.p], f.Intercept, f.HashBits); err != nil {
		return nil, err
	}
	s.LeaveOut(f.LacksIndicator)
	for k := range c {
		s.known[k] = s.p > 0
		for j, b := range f.Beliefs[k*s.p : (k+1)*s.p] {
			if b.Feature != f.Beliefs[j].Feature {
				return nil, fmt.Errorf("belief %d of class %q is about feature %q, of class %q about %q; allowed: the same", j+1, f.Classes[k], b.Feature, f.Classes[0], f.Beliefs[j].Feature)
			}
			s.known[k] = s.known[k] && b.Weight == kernels.Weight{}
		}
	}
	return s, nil
}

// Clone returns a Scorer for another goroutine.
func (s *Scorer) Clone() *Scorer {
	c := len(s.Fit.Classes)
	return &Scorer{Names: s.Names.Clone(), Fit: s.Fit, predictive: s.predictive, p: s.p, known: s.known, mean: make([]float64, c), cov: make([]float64, c*c)}
}

// Linear returns the joint Gaussian of the predictors of row i of b: means by class, and their
// covariance, C x C row by row. Both are valid until the next call. A feature without beliefs has
// its prior in every class, independently; a class whose weights are all known to be 0, the
// reference, has neither weights nor the offset.
//
// Cost: O(k C) for k entries under a diagonal covariance, O(k C · C p) full, O(k C
// rank) low rank; no allocation after the first row.
// Errors: a predictor that is not finite.
func (s *Scorer) Linear(b *kernels.Batch, i int) (mean, cov []float64, err error) {
	f, c := s.Fit, len(s.Fit.Classes)
	clear(s.cov)
	s.at, s.val = s.at[:0], s.val[:0]
	for k := range s.mean {
		s.mean[k] = 0
		if !s.known[k] {
			s.mean[k] = b.Shift(i)
		}
	}
	fs, xs := s.Entries(f, b, i)
	var unseen []kernels.Related
	for e, id := range fs {
		x := xs[e]
		if at := s.Belief(id); at >= 0 {
			s.at, s.val = append(s.at, at), append(s.val, x)
			continue
		}
		unseen = s.unseen(unseen, id, x)
	}
	s.together(unseen)
	width := 0
	switch f.Covariance.Form {
	case gauss.Full:
		width = len(f.Beliefs)
	case gauss.LowRank:
		width = f.Covariance.Rank
	}
	if cap(s.part) < c*width {
		s.part = make([]float64, c*width)
	}
	part := s.part[:c*width]
	clear(part)
	for k := range c {
		u := part[k*width : (k+1)*width]
		for e, j := range s.at {
			x, at := s.val[e], k*s.p+j
			w := f.Beliefs[at].Weight
			s.mean[k] += x * w.Mean
			switch f.Covariance.Form {
			case gauss.Full:
				r := f.Covariance.Row(at)
				dense.Axpy(x, r, u[:len(r)])
			case gauss.LowRank:
				r := f.Covariance.Row(at)
				s.cov[k*c+k] += x * x * r[0]
				dense.Axpy(x, r[1:], u)
			default:
				s.cov[k*c+k] += x * x * w.Variance
			}
		}
	}
	sign := 1.0
	if f.Covariance.Form == gauss.LowRank {
		sign = -1
	}
	for k := range c {
		for l := range k + 1 {
			d := dense.Dot(part[k*width:(k+1)*width], part[l*width:(l+1)*width])
			v := s.cov[k*c+l] + sign*d
			if k == l && sign < 0 {
				v = kernels.Rest(s.cov[k*c+l], d, kernels.CovarianceTol)
			}
			s.cov[k*c+l], s.cov[l*c+k] = v, v
		}
	}
	for k := range c {
		if err := kernels.CheckPredictor(s.mean[k], s.cov[k*c+k]); err != nil {
			return nil, nil, fmt.Errorf("class %q: %w", f.Classes[k], err)
		}
	}
	return s.mean, s.cov, nil
}

// Predict sets dst to the class probabilities of row i; see Probabilities.
func (s *Scorer) Predict(dst []float64, b *kernels.Batch, i int, kind predict.Kind) error {
	if err := kind.Check(); err != nil {
		return err
	}
	if len(dst) == 0 {
		return nil
	}
	mean, cov, err := s.Linear(b, i)
	if err != nil {
		return err
	}
	s.rescale(mean, cov, b.Shift(i))
	s.mix.probabilities(dst, mean, cov, kind)
	return nil
}

// rescale applies the predictive scale to the predictors of all classes of some rows, with the
// given offsets.
func (s *Scorer) rescale(mean, cov []float64, offsets ...float64) {
	if s.predictive.Plain() {
		return
	}
	s.predictive.Scale(mean, cov)
	c := len(s.known)
	for k := range mean {
		if !s.known[k%c] { // it has the offset, which is not part of the weights
			mean[k] += (1 - s.predictive.Mean) * offsets[k/c]
		}
	}
}

// Probabilities sets dst to the class probabilities for predictors N(mean, cov), cov C x C row by
// row:
//
//   - predict.Plugin: the softmax of the means;
//   - predict.MacKay: the softmax of m_c/sqrt(1 + π v_c/8), which ranks classes of equal
//     variance as the means do and ignores covariances;
//   - predict.Exact: E softmax(f). Two classes: the logistic-normal integral, 1e-10. The
//     softmax depends on f only up to a common shift, so C classes are an integral over C-1
//     dimensions: three classes by the trapezoid rule on a grid, error below 1e-7 for standard
//     deviations below 10, 1e-3 at 30; up to 16 classes whose differences have standard
//     deviations of at most 0.35 by a rule of degree 5, error about 1e-6, of at most 0.7 by
//     one of degree 7, error about 1e-5; others by 4,078 points of a lattice, the same for all
//     rows, error about 1e-5 for standard deviations of 0.3, 1e-4 of 1, 2e-3 of 3, 5e-3 from 10.
//
// Sources: [mackay1992] for the moderation; [niederreiter1992], chapter 5, for lattice
// rules.
func Probabilities(dst, mean, cov []float64, kind predict.Kind) {
	var m mixer
	m.probabilities(dst, mean, cov, kind)
}

// mixer is scratch memory for the integrals.
type mixer struct {
	m, f, root []float64
	table      []float64     // exponentials along the axes, and scratch
	points     *dense.Matrix // of the lattice, one per column
	block      *dense.Matrix // predictors at some of the points, and their exponentials
	inverse    *dense.Matrix // those at the points' negatives
	total      []float64     // by point of the block
}

func (x *mixer) probabilities(dst, mean, cov []float64, kind predict.Kind) {
	c := len(mean)
	if len(x.m) != c {
		*x = mixer{m: make([]float64, c), f: make([]float64, c), root: make([]float64, c*c)}
	}
	switch {
	case kind == predict.Plugin || c == 1:
		softmaxTo(dst, mean)
	case kind == predict.MacKay:
		for k, v := range mean {
			x.m[k] = v / math.Sqrt(1+math.Pi*cov[k*c+k]/8)
		}
		softmaxTo(dst, x.m)
	case c == 2:
		m, v := mean[0]-mean[1], max(cov[0]+cov[3]-2*cov[1], 0)
		l, err := lik.New("bernoulli", "logit", lik.Params{})
		if err != nil {
			panic(err) // the family is there
		}
		// each from its own side: neither is the rounded complement of the other
		dst[0] = math.Exp(l.Moments(lik.Obs{Y: 1, Weight: 1}, m, v).LogZ)
		dst[1] = math.Exp(l.Moments(lik.Obs{Y: 0, Weight: 1}, m, v).LogZ)
	default:
		x.integrate(dst, mean, cov)
	}
}

// softmaxTo sets dst = softmax(f).
func softmaxTo(dst, f []float64) {
	top, total := f[0], 0.0
	for _, v := range f {
		top = max(top, v)
	}
	for k, v := range f {
		dst[k] = math.Exp(v - top)
		total += dst[k]
	}
	for k := range dst[:len(f)] {
		dst[k] /= total
	}
}

const gridReach = 6.5 // standard deviations: the probability beyond is 1e-10

// lattice is a rank-one rule of 2,039 points: the vector found component by component for the
// worst-case error P2 with weights 1, 1/2, 1/3, ... of the dimensions.
const latticePoints = 2039

var lattice = [...]int{1, 462, 753, 595, 780, 237, 864, 49, 213, 684, 738, 624, 259, 859, 869, 153, 348, 743, 948, 669,
	385, 469, 343, 279, 659, 985, 380, 74, 200, 32, 970, 353, 928, 632, 42, 827, 116, 274, 501, 553}

// gridOf returns the step of the trapezoid rule along an axis of standard deviation sd, and the
// number of steps on each side. Its error is about exp(y²/2 - 2πy/step) for any height y up to
// which the integrand is analytic. Differences of predictors move by √2 sd at most, so the softmax
// is analytic up to d = π/(√2 sd); y = 2π/step is best if d is beyond that. The step makes the
// error exp(-18), but is at least 0.1.
func gridOf(sd float64) (step float64, half int) {
	if sd == 0 {
		return 1, 0
	}
	const digits = 18
	d := math.Pi / (math.Sqrt2 * sd)
	step = math.Pi * math.Sqrt(2.0/digits)
	if d < 2*math.Pi/step {
		step = max(2*math.Pi*d/(digits+0.5*d*d), 0.1)
	}
	return step, int(math.Ceil(gridReach / step))
}

// integrate sets dst to E softmax(f), f ~ N(mean, cov).
func (x *mixer) integrate(dst, mean, cov []float64) {
	switch {
	case len(mean) == 3:
		a, b := x.axes3(cov)
		x.plane(dst, mean, a, b)
	case !x.sparse(dst, mean, cov):
		x.lattice(dst, mean, cov)
	}
}

// axes3 sets root to the principal axes of three predictors without their common shift, as columns,
// and returns the standard deviations along them.
func (x *mixer) axes3(cov []float64) (a, b float64) {
	e := [2][3]float64{{math.Sqrt2 / 2, -math.Sqrt2 / 2, 0}, {1 / math.Sqrt(6), 1 / math.Sqrt(6), -2 / math.Sqrt(6)}}
	var q [2][2]float64
	for i := range 2 {
		for j := range 2 {
			for k := range 3 {
				for l := range 3 {
					q[i][j] += e[i][k] * cov[3*k+l] * e[j][l]
				}
			}
		}
	}
	s, c := math.Sincos(0.5 * math.Atan2(2*q[0][1], q[0][0]-q[1][1]))
	a = math.Sqrt(max(c*c*q[0][0]+2*c*s*q[0][1]+s*s*q[1][1], 0))
	b = math.Sqrt(max(s*s*q[0][0]-2*c*s*q[0][1]+c*c*q[1][1], 0))
	for k := range 3 {
		x.root[k], x.root[3+k] = a*(c*e[0][k]+s*e[1][k]), b*(c*e[1][k]-s*e[0][k])
	}
	return a, b
}

// lattice integrates over the lattice's points, along the principal axes of cov without the common
// shift.
func (x *mixer) lattice(dst, mean, cov []float64) {
	c := len(mean)
	if !x.principal(cov) {
		softmaxTo(dst, mean) // should not happen; the result is still a probability
		return
	}
	dim := c - 1
	clear(dst[:c])
	if x.points == nil {
		x.points = transposed(normals(dim))
	}
	root := &dense.Matrix{Rows: dim, Cols: c, Stride: c, Data: x.root[:dim*c]}
	x.addVectorised(dst[:c], mean, root.T())
}

// principal sets root to the principal axes of P cov P, P = I - 11ᵀ/C: C-1 rows of C, the widest
// first. It returns false if they are not found.
func (x *mixer) principal(cov []float64) bool {
	c := len(x.m)
	total := 0.0
	for k := range c {
		x.m[k] = 0
		for l := range c {
			x.m[k] += cov[k*c+l] / float64(c)
		}
		total += x.m[k] / float64(c)
	}
	sym := mat.NewSymDense(c, nil)
	for k := range c {
		for l := range k + 1 {
			sym.SetSym(k, l, cov[k*c+l]-x.m[k]-x.m[l]+total)
		}
	}
	var es mat.EigenSym
	if !es.Factorize(sym, true) {
		return false
	}
	var vec mat.Dense
	es.VectorsTo(&vec)
	val := es.Values(nil)
	// the common shift is the one left out
	for k := range c - 1 {
		sd := math.Sqrt(max(val[c-1-k], 0))
		sign := 1.0
		if first := vec.At(0, c-1-k); first < 0 {
			sign = -1
		}
		for l := range c {
			x.root[k*c+l] = sign * sd * vec.At(l, c-1-k)
		}
	}
	return true
}

// blockPoints is how many points are processed at a time: their predictors stay in the fastest
// cache.
const blockPoints = 512

// addVectorised adds to dst the contributions of the points and their negatives. With E the
// exponentials of the points' predictors about q, the softmax of the means, it is q ∘ E (1/Eᵀq):
// vectorised products and exponentials.
func (x *mixer) addVectorised(dst, mean []float64, root *dense.Matrix) {
	c := len(mean)
	q := x.m[:c]
	softmaxTo(q, mean)
	if x.block == nil {
		x.block, x.inverse, x.total = dense.New(c, blockPoints), dense.New(c, blockPoints), make([]float64, blockPoints)
	}
	far := false // exponentials would overflow
	for l := range c {
		reach := 0.0
		for _, r := range root.Row(l) {
			reach += math.Abs(r)
		}
		far = far || !(reach*farthest < 300)
	}
	n := x.points.Cols
	each := 1 / (2 * float64(n))
	for lo := 0; lo < n; lo += blockPoints {
		hi := min(lo+blockPoints, n)
		f, total := x.block.Slice(0, c, 0, hi-lo), x.total[:hi-lo]
		dense.Mul(f, root, x.points.Slice(0, x.points.Rows, lo, hi))
		if far {
			for i := range hi - lo {
				for l := range c {
					x.f[l] = f.Row(l)[i]
				}
				x.addOneByOne(dst, mean, each)
			}
			continue
		}
		for l := range c {
			r := f.Row(l)
			dense.Exp(r, x.inverse.Row(l)[:hi-lo], r)
		}
		for _, e := range [2]*dense.Matrix{f, x.inverse} {
			clear(total)
			for l, p := range q {
				dense.Axpy(p, e.Row(l)[:hi-lo], total)
			}
			for i, t := range total {
				total[i] = each / t
			}
			for l, p := range q {
				dst[l] += p * dense.Dot(e.Row(l)[:hi-lo], total)
			}
		}
	}
}

// addOneByOne adds the contributions of the point f and of its negative, one at a time.
func (x *mixer) addOneByOne(dst, mean []float64, share float64) {
	c := len(mean)
	p := make([]float64, 2*c)
	for _, sign := range [2]float64{1, -1} {
		for l, u := range x.f {
			p[c+l] = mean[l] + sign*u
		}
		softmaxTo(p[:c], p[c:])
		dense.Axpy(share, p[:c], dst[:c])
	}
}

// plane integrates over two axes with standard deviations a and b, the columns of the root. On a
// grid the exponentials are products of one for each axis.
func (x *mixer) plane(dst, mean []float64, a, b float64) {
	c := len(mean)
	clear(dst[:c])
	ha, na := gridOf(a)
	hb, nb := gridOf(b)
	rows, cols := 2*na+1, 2*nb+1
	if n := (rows + cols) * (c + 1); cap(x.table) < n {
		x.table = memory.Floats(n)
	}
	top := mean[0]
	for _, m := range mean {
		top = max(top, m)
	}
	fill := func(t []float64, h float64, n int, root []float64, base float64) {
		for i := range 2*n + 1 {
			z := h * float64(i-n)
			t[i*(c+1)] = math.Exp(-0.5 * z * z)
			for k := range c {
				m := 0.0
				if base != 0 {
					m = mean[k] - top
				}
				t[i*(c+1)+1+k] = math.Exp(m + z*root[k])
			}
		}
	}
	ta, tb := x.table[:rows*(c+1)], x.table[rows*(c+1):(rows+cols)*(c+1)]
	fill(ta, ha, na, x.root[:c], 1)
	fill(tb, hb, nb, x.root[c:2*c], 0)
	far := gridReach*(a+b) > 300 // the products would overflow
	mass := 0.0
	for i := range rows {
		u := ta[i*(c+1) : (i+1)*(c+1)]
		for j := range cols {
			v := tb[j*(c+1) : (j+1)*(c+1)]
			w := u[0] * v[0]
			mass += w
			if far {
				for k := range x.m {
					x.m[k] = mean[k] + ha*float64(i-na)*x.root[k] + hb*float64(j-nb)*x.root[c+k]
				}
				softmaxTo(x.f, x.m)
			} else {
				total := 0.0
				for k, e := range u[1:] {
					x.f[k] = e * v[1+k]
					total += x.f[k]
				}
				w /= total
			}
			for k, e := range x.f {
				dst[k] += w * e
			}
		}
	}
	for k := range dst[:c] {
		dst[k] /= mass
	}
}

// narrow is the largest standard deviation of a difference of two predictors, and narrowClasses the
// number of classes, up to which the rule of degree 5 is as good as the lattice; medium is for
// degree 7.
const (
	narrow        = 0.35
	medium        = 0.7
	narrowClasses = 16
)

// sparse integrates by a rule of degree 5 or 7 along the columns of a triangular root of the
// differences from the last class; it returns false if they are too wide. With dim axes this takes
// dim C exponentials, because those of points on two or three axes are products.
func (x *mixer) sparse(dst, mean, cov []float64) bool {
	c := len(mean)
	dim := c - 1
	if c > narrowClasses {
		return false
	}
	variance := func(i, j int) float64 { return cov[i*c+i] - cov[i*c+j] - cov[j*c+i] + cov[j*c+j] }
	wide := false
	for i := range dim {
		wide = wide || variance(i, dim) > narrow*narrow
	}
	for i := range c {
		for j := range i {
			if wide && variance(i, j) > medium*medium {
				return false
			}
		}
	}
	x.triangle(cov)
	l := x.root[:dim*dim]
	if n := 2*dim*c + 2*c; cap(x.table) < n {
		x.table = memory.Floats(n)
	}
	t := x.table[:2*dim*c] // by axis, e^(√3 L) and its inverse
	for a := range dim {
		up, down := t[2*a*c:(2*a+1)*c], t[(2*a+1)*c:(2*a+2)*c]
		for k := range c {
			up[k], down[k] = 1, 1
			if k < dim && k >= a && l[k*dim+a] != 0 {
				up[k] = math.Exp(math.Sqrt(3) * l[k*dim+a])
				down[k] = 1 / up[k]
			}
		}
	}
	softmaxTo(x.m, mean)
	if wide {
		x.degree7(dst[:c], t)
	} else {
		x.degree5(dst[:c], t)
	}
	for k := range dst[:c] {
		if !(dst[k] > 0) { // negative weights, for probabilities below the rule's error
			return false
		}
	}
	return true
}

// triangle sets root to L, where L Lᵀ is the covariance of the differences from the last class.
func (x *mixer) triangle(cov []float64) {
	c := len(x.m)
	dim := c - 1
	l := x.root[:dim*dim]
	last := cov[dim*c+dim]
	for i := range dim {
		for j := range i + 1 {
			s := cov[i*c+j] - cov[i*c+dim] - cov[dim*c+j] + last
			for k := range j {
				s -= l[i*dim+k] * l[j*dim+k]
			}
			switch {
			case i == j:
				l[i*dim+i] = math.Sqrt(max(s, 0))
			case l[j*dim+j] > 0:
				l[i*dim+j] = s / l[j*dim+j]
			default:
				l[i*dim+j] = 0
			}
		}
	}
}

// share adds w times the probabilities proportional to e.
func share(dst []float64, w float64, e []float64) {
	total := 0.0
	for _, v := range e {
		total += v
	}
	w /= total
	for k, v := range e {
		dst[k] += w * v
	}
}

// times sets dst to the elementwise products of u and v.
func times(dst, u, v []float64) {
	for k := range dst {
		dst[k] = u[k] * v[k]
	}
}

// degree5 is the fully symmetric rule at 0, ±√3 on each axis and (±√3, ±√3) on each pair; t holds
// their exponentials and m the probabilities at 0.
//
// Source: [genz1986].
func (x *mixer) degree5(dst, t []float64) {
	c := len(dst)
	n := float64(c - 1)
	for k := range dst {
		dst[k] = (1 + (n*n-7*n)/18) * x.m[k]
	}
	e := x.table[len(t) : len(t)+c]
	for a := 0; a < len(t); a += c {
		times(x.f, x.m, t[a:a+c])
		share(dst, (4-n)/18, x.f)
		for b := 0; b < a/(2*c)*2*c; b += c {
			times(e, x.f, t[b:b+c])
			share(dst, 1.0/36, e)
		}
	}
}

// nodes9 are the nodes of a rule of degree 15 besides 0 and ±√3, and weights9 the weights of 0, √3
// and these.
//
// Source: [genz1996].
var (
	nodes9   = [3]float64{0.74109534999454085, 2.8612795760570582, 4.1849560176727323}
	weights9 = [5]float64{0.25396825396825407, 0.094850948509485125, 0.27007432957793776, 0.0079963254708935293, 9.4269457556517470e-05}
)

// degree7 is the sparse grid of degree 7 of 0 and ±√3, on up to three axes, and of the rule of
// degree 15 that extends it, on one: 889 points for ten classes.
//
// Source: [genz1996].
func (x *mixer) degree7(dst, t []float64) {
	c := len(dst)
	dim := c - 1
	n := float64(dim)
	w := [4]float64{
		1 - n/3 + n*(n-1)/18 - n*(n-1)*(n-2)/162 + n*(weights9[0]-2.0/3),
		(1-(n-1)/3+(n-1)*(n-2)/18)/6 + weights9[1] - 1.0/6,
		(1 - (n-2)/3) / 36,
		1.0 / 216,
	}
	for k := range dst {
		dst[k] = w[0] * x.m[k]
	}
	two, three := x.table[len(t):len(t)+c], x.table[len(t)+c:len(t)+2*c]
	for a := 0; a < len(t); a += c {
		times(x.f, x.m, t[a:a+c])
		share(dst, w[1], x.f)
		for b := 0; b < a/(2*c)*2*c; b += c {
			times(two, x.f, t[b:b+c])
			share(dst, w[2], two)
			for d := 0; d < b/(2*c)*2*c; d += c {
				times(three, two, t[d:d+c])
				share(dst, w[3], three)
			}
		}
	}
	for a := range dim {
		for i, z := range nodes9 {
			for k := range c {
				two[k], three[k] = x.m[k], x.m[k]
				if k < dim && k >= a && x.root[k*dim+a] != 0 {
					e := math.Exp(z * x.root[k*dim+a])
					two[k], three[k] = x.m[k]*e, x.m[k]/e
				}
			}
			share(dst, weights9[2+i], two)
			share(dst, weights9[2+i], three)
		}
	}
}

// normals returns half of the lattice's points; the others are their negatives. They are shifted by
// the golden section, folded by the tent map, and mapped by the normal quantile function.
// Dimensions beyond the vector's, whose share of the variance is least, continue with powers of its
// last number.
//
// No number exceeds farthest.
func normals(dim int) [][]float64 { return shifted(dim, goldenShift) }

const goldenShift = 0.618033988749895

// shifted is normals with another shift of the lattice.
func shifted(dim int, shift float64) [][]float64 {
	z := make([]int, dim)
	for k := range z {
		if k < len(lattice) {
			z[k] = lattice[k]
		} else {
			z[k] = z[k-1] * lattice[len(lattice)-1] % latticePoints
		}
	}
	out := make([][]float64, latticePoints)
	for i := range out {
		out[i] = memory.Floats(dim)
		for k, a := range z {
			u := float64(i*a%latticePoints)/latticePoints + shift
			u = 1 - math.Abs(2*(u-math.Floor(u))-1)
			out[i][k] = special.PhiInv(min(max(u, 1e-12), 1-1e-12))
		}
	}
	return out
}

// farthest is slightly above the quantile of 1 - 1e-12.
const farthest = 7.04

func transposed(points [][]float64) *dense.Matrix {
	m := dense.New(len(points[0]), len(points))
	for i, p := range points {
		for k, v := range p {
			m.Row(k)[i] = v
		}
	}
	return m
}

// unseen adds the prior of feature id, which has no belief, to mean and covariance of the row, and
// the entry to those for together.
func (s *Scorer) unseen(of []kernels.Related, id uint32, x float64) []kernels.Related {
	c := len(s.Fit.Classes)
	name := s.Features().Name(id)
	w := s.Fit.PriorOf(name)
	for k := range s.mean {
		if !s.known[k] {
			s.mean[k] += x * w.Mean
			s.cov[k*c+k] += x * x * w.Variance
		}
	}
	if len(s.Fit.Correlations) > 0 {
		of = append(of, kernels.Related{Name: name, X: x})
	}
	return of
}

// together adds to the covariance of the row the prior covariances of the weights of unseen.
func (s *Scorer) together(unseen []kernels.Related) {
	c := len(s.Fit.Classes)
	for k := range s.mean {
		if v := &s.cov[k*c+k]; !s.known[k] && len(unseen) > 0 {
			*v += s.Fit.CorrelatedVariance(unseen, *v)
		}
	}
}
