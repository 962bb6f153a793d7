package kernels

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Covariance is what a Fit keeps of its posterior covariance in addition to the variances of its
// beliefs, in belief order. The zero value is diagonal.
//
//   - full: Values is the lower Cholesky factor L of Σ = L Lᵀ, packed row by row:
//     L(i, j) at i(i+1)/2 + j, p(p+1)/2 numbers.
//   - lowrank: Σ = diag(d) - F Fᵀ with F p x Rank. Values has Rank+1 numbers per
//     belief, d first, then its row of F.
//   - arrowhead: a block of Rank weights and leaves tied to it, as laid out by
//     arrowhead.Layout.
type Covariance struct {
	Form   gauss.Form
	Rank   int
	Values []float64
}

// NumValues is the number of values of the form for p beliefs; the rank is one that Check accepts.
func (c *Covariance) NumValues(p int) int {
	switch c.Form {
	case gauss.Full:
		return p * (p + 1) / 2
	case gauss.LowRank:
		return p * (c.Rank + 1)
	case gauss.Arrowhead:
		return arrowhead.Want(c.Rank, p)
	}
	return 0
}

// Arrow is the layout of an arrowhead form.
func (c *Covariance) Arrow() arrowhead.Layout { return arrowhead.Layout{D: c.Rank, Values: c.Values} }

// Check returns an error if the size or values of the covariance do not fit p beliefs.
func (c *Covariance) Check(p int) error {
	if err := c.checkSize(p); err != nil {
		return err
	}
	for _, v := range c.Values {
		if err := checkValue(v); err != nil {
			return err
		}
	}
	return nil
}

// MaxRank is the largest rank of a low-rank form.
const MaxRank = 10_000

// checkSize is Check for the rank and the number of values, whose product does not overflow within
// these bounds.
func (c *Covariance) checkSize(p int) error {
	most := 0
	switch c.Form {
	case gauss.LowRank:
		most = min(max(p, 1000), MaxRank) // matrices computed from it have rank² numbers
	case gauss.Arrowhead:
		most = arrowhead.MaxBlock
	}
	if c.Rank < 0 || c.Rank > most {
		return fmt.Errorf("covariance: rank = %d for kind '%s'; allowed: 0 to %d", c.Rank, c.Form, most)
	}
	if p > math.MaxInt32 {
		return fmt.Errorf("covariance: %d beliefs; allowed: up to %d", p, math.MaxInt32)
	}
	if want := c.NumValues(p); len(c.Values) != want {
		return fmt.Errorf("covariance: %d values for kind '%s', rank %d and %d beliefs; allowed: %d", len(c.Values), c.Form, c.Rank, p, want)
	}
	return nil
}

func checkValue(v float64) error {
	if v-v != 0 { // NaN or infinite
		return fmt.Errorf("covariance: found a value %v; allowed: finite numbers", v)
	}
	return nil
}

// SetCovariance sets the covariance of f to the matrix cov over the features of bs, in their order;
// other beliefs of f stay independent of them. The variances of the beliefs become those of the
// matrix.
//
// Errors: a feature that f does not have, a matrix that is not symmetric (to 1e-9 of its diagonal)
// or not positive definite.
func (f *Fit) SetCovariance(bs []Belief, cov [][]float64) error {
	at := make(map[string]int, len(f.Beliefs))
	for k, b := range f.Beliefs {
		at[b.Feature] = k
	}
	p := len(f.Beliefs)
	l := dense.New(p, p)
	for k, b := range f.Beliefs {
		l.Set(k, k, b.Variance)
	}
	for i, a := range bs {
		ka, ok := at[a.Feature]
		if !ok {
			return fmt.Errorf("feature %q, which the fit does not have", a.Feature)
		}
		for j, b := range bs {
			u, v := cov[i][j], cov[j][i]
			if !special.Finite(u) {
				return fmt.Errorf("%v at (%d, %d)", u, i+1, j+1)
			}
			if math.Abs(u-v) > 1e-9*math.Sqrt(math.Abs(cov[i][i]*cov[j][j])) {
				return fmt.Errorf("%v at (%d, %d) and %v at (%d, %d)", u, i+1, j+1, v, j+1, i+1)
			}
			l.Set(ka, at[b.Feature], 0.5*(u+v))
		}
	}
	for k := range f.Beliefs {
		if v := l.At(k, k); !(v > 0) {
			return fmt.Errorf("variance %v of feature %q", v, f.Beliefs[k].Feature)
		}
		f.Beliefs[k].Variance = l.At(k, k)
	}
	if err := dense.Cholesky(l); err != nil {
		return fmt.Errorf("a matrix that is not positive definite (%w)", err)
	}
	f.Covariance = Covariance{Form: gauss.Full, Values: make([]float64, 0, p*(p+1)/2)}
	for k := range p {
		f.Covariance.Values = append(f.Covariance.Values, l.Row(k)[:k+1]...)
	}
	return nil
}

// over returns the fit's posterior over columns: belief k is column place[k], -1 for a known
// weight; columns without a belief are independent with the given mean and variance. mean is kept.
// s ends operations on the covariance.
func (f *Fit) over(place []int, mean, variance []float64, s *stop.Stop) (*gauss.Normal, error) {
	c := &f.Covariance
	if err := c.Check(len(f.Beliefs)); err != nil {
		return nil, err
	}
	v := slices.Clone(variance)
	last := -1
	for k, j := range place {
		if j < 0 {
			continue
		}
		// Both orders sort names the same way, so a factor stays triangular.
		if j <= last {
			return nil, fmt.Errorf("the beliefs are %w at %.100q", ErrOrder, f.Beliefs[k].Feature)
		}
		last = j
		mean[j], v[j] = f.Beliefs[k].Mean, f.Beliefs[k].Variance
	}
	switch c.Form {
	case gauss.Full:
		l := dense.NewUnder(s, len(v), len(v))
		for j := range v {
			s.Row(j)
			l.Set(j, j, math.Sqrt(v[j]))
		}
		for k, j := range place {
			if j < 0 {
				continue
			}
			s.Check()
			for i, x := range c.Row(k) {
				if place[i] >= 0 {
					l.Set(j, place[i], x)
				}
			}
			if d := l.At(j, j); !(d > 0) {
				return nil, fmt.Errorf("the covariance factor of %q has %v on its diagonal; allowed: numbers > 0", f.Beliefs[k].Feature, d)
			}
		}
		return gauss.NewFull(mean, l), nil
	case gauss.Arrowhead:
		return f.overArrow(place, mean, v, s)
	case gauss.LowRank:
		low := dense.NewUnder(s, len(v), c.Rank)
		for k, j := range place {
			s.Row(k)
			if j >= 0 {
				row := c.Row(k)
				v[j] = row[0]
				copy(low.Row(j), row[1:])
			}
		}
		return gauss.NewLowRank(mean, v, low)
	}
	return gauss.NewDiagonal(mean, v), nil
}

// Joint returns the posterior over the beliefs of nonzero variance: its weight k is belief at[k]. s
// ends operations on the covariance.
// Errors: a covariance that does not fit the beliefs, or an arrowhead with too many.
func (f *Fit) Joint(s *stop.Stop) (post *gauss.Normal, at []int, err error) {
	place := make([]int, len(f.Beliefs))
	var mean, variance []float64
	for k, b := range f.Beliefs {
		if place[k] = -1; b.Variance > 0 {
			place[k] = len(at)
			at, mean, variance = append(at, k), append(mean, b.Mean), append(variance, b.Variance)
		}
	}
	post, err = f.over(place, mean, variance, s)
	return post, at, err
}

// overArrow is over for an arrowhead form, expanded to a full one.
func (f *Fit) overArrow(place []int, mean, v []float64, s *stop.Stop) (*gauss.Normal, error) {
	const most = 20_000 // a factor of 1.6 GB
	if len(v) > most {
		return nil, fmt.Errorf("an arrowhead posterior of %d weights, which is written out in full here; allowed: up to %d", len(v), most)
	}
	a := f.Covariance.Arrow()
	rows := dense.NewUnder(s, len(v), a.D) // each weight's row of H L
	own := memory.Floats(len(v))
	g := make([]float64, a.D)
	unit, one := a.ResponseUnit(), []float64{1}
	copy(own, v)
	for k, j := range place {
		if j < 0 {
			continue
		}
		s.Check()
		clear(g)
		own[j] = unit * unit * a.Inputs([]int{k}, one, g)
		for i, x := range g {
			dense.Axpy(unit*x, a.Root(i), rows.Row(j)[:i+1])
		}
	}
	l := dense.NewUnder(s, len(v), len(v))
	dense.MulTB(l, rows, rows)
	for j, q := range own {
		l.Row(j)[j] += q
	}
	if err := dense.Cholesky(l); err != nil {
		return nil, fmt.Errorf("covariance: %w", err)
	}
	return gauss.NewFull(mean, l), nil
}

// LevelMean is what an unseen level of the column of belief k has instead of its prior, in an
// arrowhead form: the block's weight j, its mean, and the fraction of the prior variance of a
// weight that remains. ok is false if there is none.
func (c *Covariance) LevelMean(k int) (j int, mean, rest float64, ok bool) {
	a := c.Arrow()
	if j = a.LevelMean(k); j < 0 {
		return 0, 0, 0, false
	}
	return j, a.ResponseUnit() * a.Mean(j), arrowhead.LevelShare(a.Levels(j)), true
}

// hasLevelMeans reports whether weights of an arrowhead form share level means.
func (c *Covariance) hasLevelMeans() bool {
	a := c.Arrow()
	for j := range a.D {
		if a.Levels(j) > 0 {
			return true
		}
	}
	return false
}

// UnseenLevel returns a belief of the column of which a feature without a belief is a level, -1 if
// there is none with a level mean. Belief k of p has the name at(k).
func (c *Covariance) UnseenLevel(name string, p int, at func(k int) string) int {
	if c.Form != gauss.Arrowhead {
		return -1
	}
	if column, missing := strings.CutSuffix(name, IsNull); missing {
		return c.levelOf(column+"=", p, at)
	}
	for i := strings.LastIndexByte(name, '='); i >= 0; i = strings.LastIndexByte(name[:i], '=') {
		if k := c.levelOf(name[:i+1], p, at); k >= 0 { // names of columns and levels may contain '='
			return k
		}
	}
	return -1
}

// levelOf is UnseenLevel for the features that begin with prefix.
func (c *Covariance) levelOf(prefix string, p int, at func(k int) string) int {
	k := sort.Search(p, func(k int) bool { return CompareNames(at(k), prefix) >= 0 })
	for ; k < p && strings.HasPrefix(at(k), prefix); k++ {
		if c.Arrow().LevelMean(k) >= 0 { // otherwise it has a prior of its own
			return k
		}
	}
	return -1
}

// RowLen is the length of Row.
func (c *Covariance) RowLen(j int) int {
	switch c.Form {
	case gauss.Full:
		return j + 1
	case gauss.Arrowhead:
		if j == 0 {
			return arrowhead.Want(c.Rank, 1)
		}
		return c.Rank + 3
	}
	return c.Rank + 1
}

// Row returns belief j's part of Values: row j of the packed factor, d_j and row j of F, or the
// numbers of an arrowhead's leaf, the first with the block before it.
func (c *Covariance) Row(j int) []float64 {
	switch c.Form {
	case gauss.Full:
		at := j * (j + 1) / 2
		return c.Values[at : at+j+1]
	case gauss.Arrowhead:
		if j == 0 {
			return c.Values[:arrowhead.Want(c.Rank, 1)]
		}
		return c.Arrow().Row(j)
	}
	return c.Values[j*(c.Rank+1) : (j+1)*(c.Rank+1)]
}

// Variance is xᵀΣx of the sparse row with value x[k] at belief at[k], for a covariance that is not
// diagonal. scratch is grown as needed and may be nil. The result is NaN if a low-rank form is not
// positive semi-definite (see CheckPredictor). In an arrowhead form at[k] < 0 stands for the
// block's weight ^at[k].
//
// Cost: O(Σ at) full, O(k Rank) low rank, O(Rank² + k Rank) arrowhead.
func (c *Covariance) Variance(at []int, x []float64, scratch *[]float64) float64 {
	n := c.Rank
	if c.Form == gauss.Full {
		for _, j := range at {
			n = max(n, j+1)
		}
	}
	var u []float64
	if scratch != nil && cap(*scratch) >= n {
		u = (*scratch)[:n]
		clear(u)
	} else {
		u = memory.Floats(n)
		if scratch != nil {
			*scratch = u
		}
	}
	v := 0.0
	if c.Form == gauss.Arrowhead {
		return c.Arrow().Variance(at, x, u)
	}
	for k, j := range at {
		row := c.Row(j)
		if c.Form == gauss.LowRank {
			v += x[k] * x[k] * row[0]
			row = row[1:]
		}
		dense.Axpy(x[k], row, u[:len(row)])
	}
	if s := dense.Dot(u, u); c.Form == gauss.LowRank {
		return Rest(v, s, CovarianceTol)
	} else {
		return s
	}
}

// Rest is a difference of variances: all - taken, or 0 if rounding, up to tol of all, makes that of
// a known direction negative. It is NaN if it is more negative, which no positive semi-definite
// covariance causes.
func Rest(all, taken, tol float64) float64 {
	if v := all - taken; v >= 0 {
		return v
	} else if v >= -tol*all {
		return 0
	}
	return math.NaN()
}

// CheckPredictor returns an error if mean and variance of a linear predictor are not those of a
// Gaussian.
func CheckPredictor(mean, variance float64) error {
	switch {
	case mean-mean == 0 && variance >= 0 && variance-variance == 0:
		return nil
	case mean-mean == 0 && math.IsNaN(variance):
		return fmt.Errorf("the linear predictor has mean %v and a variance below 0: the fit's covariance is not positive semi-definite, or the features are too large", mean)
	}
	return fmt.Errorf("the linear predictor has mean %v and variance %v; scale the features down", mean, variance)
}
