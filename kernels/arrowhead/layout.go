package arrowhead

import (
	"fmt"
	"math"
	"sync"

	"github.com/bglm/bglm/kernels/dense"
)

// Layout is an arrowhead Gaussian over named beliefs as a fit stores it, in one slice, for d
// weights of the block:
//
//   - their means, d numbers;
//   - their kinds, d numbers: 0 for a weight that is a belief of its own; for a level mean the
//     number of levels assumed for its column; -1-k for belief k, whose row has its unit; for the
//     intercept, belief 0, a fraction: its responses have a unit, the prior variances are learnt,
//     or both;
//   - L of P = L Lᵀ, row by row: L(i, j) at i(i+1)/2 + j;
//   - d+3 numbers for each belief: its kind, then α, q and h of package arrowhead. The kind is
//     j >= 0 for a leaf of level mean j, which is added to it; -1 for a leaf of none; -2-j for
//     weight j of the block, whose other numbers are 0 unless it has a unit: the weight of a
//     numeric column, of (u - center)/scale for a number u, has center and scale, 0 if the numbers
//     did not vary; the intercept of a location family, belief 0, has those by which the responses
//     were standardised, and then those of all responses so far. All other numbers refer to the
//     rows in these units.
type Layout struct {
	D      int
	Values []float64
}

// MaxBlock is the largest block size.
const MaxBlock = 5000

// Want is the number of values for p beliefs.
func Want(d, p int) int { return 2*d + d*(d+1)/2 + p*(d+3) }

// MeanShare is the fraction of the prior variance of its weights that a column of L levels has in
// its level mean; adf.NewTied explains the number.
func MeanShare(levels float64) float64 { return 0.7 / levels }

// LevelShare is the remaining fraction, in the weight of each level.
func LevelShare(levels float64) float64 { return 1 - 0.7/levels }

// Mean is the mean of weight j of the block.
func (l Layout) Mean(j int) float64 { return l.Values[j] }

// Levels is 0 for a weight that is a belief, else the number of levels assumed for level mean j.
func (l Layout) Levels(j int) float64 { return math.Max(l.Values[l.D+j], 0) }

// Unit is the unit (u - center)/scale of the numbers of weight j of the block, 0 and 1 if it has
// none; scale is 0 if all numbers were equal to center.
func (l Layout) Unit(j int) (center, scale float64) {
	if k := -1 - l.Values[l.D+j]; k >= 0 {
		r := l.Row(int(k))
		return r[1], r[2]
	}
	return 0, 1
}

// SetUnit makes center and scale the unit of belief k, a weight of the block.
func (l Layout) SetUnit(k int, center, scale float64) {
	r := l.Row(k)
	l.Values[l.D-2-int(r[0])] = float64(-1 - k)
	r[1], r[2] = center, scale
}

// Kinds of an intercept: ofResponses if it has the unit of the responses, ofLearning in a fit whose
// prior variances are learnt; the sum for both.
const (
	ofResponses = -0.5
	ofLearning  = -0.25
)

// marked reports whether the intercept is of a kind, alone or with the other.
func (l Layout) marked(kind float64) bool {
	j := l.intercept()
	return j >= 0 && (l.Values[l.D+j] == kind || l.Values[l.D+j] == ofResponses+ofLearning)
}

// mark makes marked true.
func (l Layout) mark(kind float64) {
	if j := l.intercept(); j >= 0 && !l.marked(kind) {
		l.Values[l.D+j] += kind
	}
}

// Response returns the unit of the responses, 0 and 1 if they have none, and the mean and standard
// deviation of all of them. scale is 0 if all were equal to center.
func (l Layout) Response() (center, scale, mean, deviation float64) {
	if !l.HasResponse() {
		return 0, 1, 0, 0
	}
	r := l.Row(0)
	if deviation = r[2]; l.D > 1 { // otherwise there is no room for more
		deviation = r[4]
	}
	return r[1], r[2], r[3], deviation
}

// HasResponse reports whether the responses have a unit.
func (l Layout) HasResponse() bool { return l.marked(ofResponses) }

// ResponseUnit is Response's scale, 1 if that is 0: the factor that converts predictors to the
// original responses.
func (l Layout) ResponseUnit() float64 {
	if _, s, _, _ := l.Response(); s > 0 {
		return s
	}
	return 1
}

// SetResponse is the reverse of Response.
func (l Layout) SetResponse(center, scale, mean, deviation float64) {
	if l.intercept() >= 0 {
		l.mark(ofResponses)
		r := l.Row(0)
		r[1], r[2], r[3] = center, scale, mean
		if l.D > 1 {
			r[4] = deviation
		}
	}
}

// Stretch multiplies all weights by q.
func (l Layout) Stretch(q float64) {
	for j := range l.D {
		l.Values[j] *= q
	}
	for k := 2 * l.D; k < Want(l.D, 0); k++ {
		l.Values[k] *= q
	}
	for at := Want(l.D, 0); at < len(l.Values); at += l.D + 3 {
		if r := l.Values[at:]; r[0] > -2 { // the others hold units, or nothing
			r[1] *= q
			r[2] *= q * q
		}
	}
}

// LearnsPrior reports whether the prior variances of the weights are learnt from the rows, so that
// further rows may change them.
func (l Layout) LearnsPrior() bool { return l.marked(ofLearning) }

// SetLearnsPrior makes LearnsPrior true. It needs an intercept in the block.
func (l Layout) SetLearnsPrior() { l.mark(ofLearning) }

// InUnits reports whether any weight has a unit.
func (l Layout) InUnits() bool {
	for j := range l.D {
		if n := l.Values[l.D+j]; n < 0 && n != ofLearning {
			return true
		}
	}
	return false
}

// intercept is the block's weight that is belief 0, -1 for none.
func (l Layout) intercept() int {
	if l.D == 0 || len(l.Values) < Want(l.D, 1) {
		return -1
	}
	return max(-1, -2-int(l.Row(0)[0]))
}

// inUnits converts block inputs g for the original numbers into those of the weights in their
// units.
func (l Layout) inUnits(g []float64) {
	one := 0.0
	if j := l.intercept(); j >= 0 {
		one = g[j]
	}
	for j := range g {
		if l.Values[l.D+j] <= -1 {
			c, s := l.Unit(j)
			if g[j] -= one * c; s > 0 {
				g[j] /= s
			}
		}
	}
}

// Root returns row i of L.
func (l Layout) Root(i int) []float64 {
	at := 2*l.D + i*(i+1)/2
	return l.Values[at : at+i+1]
}

// Row returns the numbers of belief k.
func (l Layout) Row(k int) []float64 {
	n := l.D + 3
	at := Want(l.D, 0) + k*n
	return l.Values[at : at+n]
}

// OriginalUnits sets dst to the weights w of the block for the original numbers and responses, and
// returns the unit of the responses, by which leaves are to be multiplied.
func (l Layout) OriginalUnits(dst, w []float64) (unit float64) {
	to := l.intercept()
	center, _, _, _ := l.Response()
	unit = l.ResponseUnit()
	for j, x := range w {
		c, s := l.Unit(j)
		if s > 0 {
			x /= s
		}
		dst[j] = unit * x
		if to >= 0 && c != 0 {
			center -= unit * x * c
		}
	}
	if to >= 0 {
		dst[to] += center
	}
	return unit
}

// Inputs adds to g, d numbers, the block inputs of the predictor Σ x_i w of beliefs at_i, or of the
// block's weight ^at_i if at_i is negative, and returns what their leaves contribute to its
// variance: Σ x² q. The values refer to the original numbers, g to the units.
func (l Layout) Inputs(at []int, x []float64, g []float64) (v float64) {
	for i, k := range at {
		if k < 0 {
			g[^k] += x[i]
		} else if c := int(l.Row(k)[0]); c <= -2 {
			g[-2-c] += x[i]
		}
	}
	l.inUnits(g)
	for i, k := range at {
		if k < 0 {
			continue
		}
		r := l.Row(k)
		if r[0] <= -2 {
			continue
		} else if r[0] >= 0 {
			g[int(r[0])] += x[i]
		}
		dense.Axpy(x[i], r[3:], g)
		v += x[i] * x[i] * r[2]
	}
	return v
}

// MeanOf returns the mean of belief k for the original responses, and the sum of the absolute
// values of its terms. g has d zeros, before and after. Cost: O(d).
func (l Layout) MeanOf(k int, g []float64) (mean, size float64) {
	at, one := [1]int{k}, [1]float64{1}
	l.Inputs(at[:], one[:], g)
	for j, x := range g {
		mean += x * l.Mean(j)
		size += math.Abs(x * l.Mean(j))
	}
	clear(g)
	if r := l.Row(k); r[0] > -2 {
		mean, size = mean+r[1], size+math.Abs(r[1])
	}
	unit := l.ResponseUnit()
	mean, size = mean*unit, size*unit
	if center, _, _, _ := l.Response(); k == 0 {
		mean, size = mean+center, size+math.Abs(center)
	}
	return mean, size
}

// Quad returns gᵀPg, bit for bit as in Belief.Predict. Cost: O(d²).
func (l Layout) Quad(g []float64) float64 {
	room := triangles.Get().(*[]float64)
	defer triangles.Put(room)
	n := dense.PackedLen(l.D)
	if len(*room) < n+l.D {
		*room = make([]float64, n+l.D)
	}
	root, f := (*room)[:n], (*room)[n:n+l.D]
	l.pack(root)
	dense.PackedTMul(f, root, g)
	return dot(f, f)
}

// pack sets root to L as packed by package dense.
func (l Layout) pack(root []float64) {
	clear(root)
	for i := range l.D {
		dense.PackRow(root, l.D, i, l.Root(i))
	}
}

// triangles are memory for a root.
var triangles = sync.Pool{New: func() any { return new([]float64) }}

// Variance is the variance of the predictor of Inputs; g is memory for d numbers. Cost: O(d²).
func (l Layout) Variance(at []int, x []float64, g []float64) float64 {
	clear(g)
	v := l.Inputs(at, x, g)
	s := l.ResponseUnit()
	return s * s * (v + l.Quad(g))
}

// LevelMean is the level mean of belief k, -1 if it has none.
func (l Layout) LevelMean(k int) int { return max(int(l.Row(k)[0]), -1) }

// Check returns an error for values that cannot be such a Gaussian over p beliefs: a wrong count, a
// number that is not finite, a negative diagonal entry of the root or q, an unknown kind of belief,
// a weight of the block that is not exactly one belief.
func (l Layout) Check(p int) error {
	if want := Want(l.D, p); l.D < 0 || len(l.Values) != want {
		return fmt.Errorf("%d values for %d weights in the block and %d beliefs; allowed: %d", len(l.Values), l.D, p, want)
	}
	for _, v := range l.Values {
		if v-v != 0 {
			return fmt.Errorf("found a value %v; allowed: finite numbers", v)
		}
	}
	owner := make([]bool, l.D)
	for j := range l.D {
		n := l.Values[l.D+j]
		if k := -1 - n; k >= 0 {
			if k != math.Trunc(k) || k >= float64(p) || l.Row(int(k))[0] != float64(-2-j) || l.Row(int(k))[2] < 0 {
				return fmt.Errorf("weight %d of the block has no unit in belief %v; allowed: the belief that it is, and a scale >= 0", j+1, k+1)
			}
		} else if n == ofResponses || n == ofResponses+ofLearning {
			if l.intercept() != j || l.Row(0)[2] < 0 {
				return fmt.Errorf("weight %d of the block has a unit of responses; allowed: the intercept, belief 1, and a scale >= 0", j+1)
			}
		} else if n == ofLearning {
			if l.intercept() != j {
				return fmt.Errorf("weight %d of the block says that prior variances are learnt; allowed: the intercept, belief 1", j+1)
			}
		} else if n != 0 && (n < 2 || n > 1<<40 || n != math.Trunc(n)) {
			return fmt.Errorf("weight %d of the block stands for %v levels; allowed: 0 or a whole number from 2", j+1, n)
		}
		if d := l.Root(j)[j]; d < 0 {
			return fmt.Errorf("%v on the diagonal of the block's factor, in row %d; allowed: numbers >= 0", d, j+1)
		}
	}
	for k := range p {
		r := l.Row(k)
		c := r[0]
		switch {
		case c != math.Trunc(c) || c >= float64(l.D) || c < -1-float64(l.D) || c >= 0 && l.Levels(int(c)) == 0:
			return fmt.Errorf("belief %d belongs to %v; allowed: a level mean of the block, -1, or -2 less a weight of it", k+1, c)
		case r[2] < 0:
			return fmt.Errorf("q = %v of belief %d; allowed: numbers >= 0", r[2], k+1)
		case c <= -2:
			j := -2 - int(c)
			if owner[j] || l.Levels(j) != 0 {
				return fmt.Errorf("belief %d is weight %d of the block, which is another's", k+1, j+1)
			}
			owner[j] = true
		}
	}
	for j, is := range owner {
		if !is && l.Levels(j) == 0 {
			return fmt.Errorf("weight %d of the block is no belief and no level mean", j+1)
		}
	}
	return nil
}
