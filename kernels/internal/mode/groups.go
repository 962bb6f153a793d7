package mode

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/special"
)

// Reach is how far, in logarithms, a prior variance may go from the one that gives
// its group a predictor of variance 1: e^46 = 1e20 times.
const Reach = 46

// ErrSquares reports features without a scale to start from.
var ErrSquares = errors.New("prior_variance = 'auto': the squares of the features overflow; scale them")

// Groups are the groups of columns whose prior variance is learnt.
type Groups struct {
	Names   []string
	Of      []int     // group of a column, -1 = not learnt
	Squares []float64 // of each group: Σ over its columns of their mean square
	Given   []float64 // the prior variance that it has where none is learnt
}

// NewGroups finds the columns of p that neither are the intercept nor have a prior of
// their own nor come from the fit that is continued, in the groups of Problem.VarianceGroups,
// with PriorGroups of Problem.Groups; those that Model.PriorBy names where it says so. A
// group of zeros alone says nothing: its columns are in none.
func NewGroups(p *kernels.Problem) Groups {
	g := Groups{Of: make([]int, p.P)}
	by, names := p.VarianceGroups()
	if p.Options.PriorGroups {
		by, names = p.Groups()
	}
	learnt := make([]bool, len(names))
	for k, name := range names {
		learnt[k] = p.Options.AutoPrior
		if own := p.PriorBy.Of(name); own != nil && name != "" {
			learnt[k] = own.Auto
		}
		learnt[k] = learnt[k] || p.Correlates(name)
	}
	square := p.MeanSquares()
	at := make([]int, len(names))
	for k := range at {
		at[k] = -1
	}
	for j, k := range by {
		if k < 0 || !learnt[k] || p.Born[j] || !(square[j] > 0) {
			continue
		}
		if at[k] < 0 {
			at[k] = len(g.Names)
			g.Names, g.Squares, g.Given = append(g.Names, names[k]), append(g.Squares, 0), append(g.Given, p.PriorVar[j])
		}
		g.Squares[at[k]] += square[j]
	}
	for j, k := range by {
		g.Of[j] = -1
		if k >= 0 && !p.Born[j] {
			g.Of[j] = at[k]
		}
	}
	return g
}

// Variance is a robust variance of the responses less their offsets: (IQR/1.349)², or
// their mean square where half of them are equal, 1 where all are 0. Of rows that stand for
// several, or are not kept, it is their mean square about the mean: the responses of those
// are not known. A row of weight w is w rows.
func Variance(p *kernels.Problem) float64 {
	if square, ok := p.ResponseSpread(); ok {
		return kernels.Or(square, 1)
	}
	sum, mean, n, some := 0.0, 0.0, total(p), 0
	for y, rows := range responses(p) {
		sum += y * y * rows / n
		mean += y * rows / n
		some++
	}
	if p.Count != nil && sum-mean*mean > 1e-12*sum {
		sum -= mean * mean
	}
	if (some > 3 || n > 3) && p.Count == nil {
		low, high := quartiles(p, some, n)
		if q := (high - low) / 1.349; q > 0 && special.Finite(q*q) && q*q > 1e-20*sum {
			return q * q
		}
	}
	if sum > 0 && special.Finite(sum) {
		return sum
	}
	return 1
}

// responses are those of the rows that count at all, less their offsets where the likelihood is of that, and
// how many rows each counts as.
func responses(p *kernels.Problem) iter.Seq2[float64, float64] {
	b, located := p.Batch(), p.Lik.Traits().Located
	return func(yield func(y, rows float64) bool) {
		for i, y := range p.Y {
			rows := p.Weighs(i)
			if !(rows > 0) {
				continue
			}
			if located {
				y -= b.Shift(i)
			}
			if !yield(y, rows) {
				return
			}
		}
	}
}

// total is how many rows the responses count as.
func total(p *kernels.Problem) (n float64) {
	for _, rows := range responses(p) {
		n += rows
	}
	return n
}

// quartiles are the first of some responses up to which, those included, are more than a quarter and more than
// three quarters of n rows.
func quartiles(p *kernels.Problem, some int, n float64) (low, high float64) {
	type response struct{ y, rows float64 }
	if p.Weight == nil {
		r := make([]float64, 0, some)
		for y := range responses(p) {
			r = append(r, y)
		}
		return smallest(r, some/4), smallest(r, 3*some/4)
	}
	r := make([]response, 0, some)
	for y, rows := range responses(p) {
		r = append(r, response{y, rows})
	}
	slices.SortFunc(r, func(a, b response) int { return cmp.Compare(a.y, b.y) })
	sum, lower := 0.0, true
	for _, x := range r {
		high = x.y // the last one where rounding leaves the sum short
		if sum += x.rows; lower && sum > n/4 {
			low, lower = x.y, false
		}
		if sum > 3*n/4 {
			break
		}
	}
	return low, high
}

// Deviation is that of the responses, less their offsets, in which priors of deviations are
// measured: about their mean where their own variance is what a dispersion says, robust, the root
// of Variance, where tails may be heavy. A row of weight w is w rows.
func Deviation(p *kernels.Problem) float64 {
	t := p.Lik.Traits()
	if _, unseen := p.ResponseSpread(); unseen || !t.Homoscedastic {
		return math.Sqrt(Variance(p))
	}
	mean, square, n := 0.0, 0.0, total(p)
	for y, rows := range responses(p) {
		mean += y * (rows / n)
	}
	for y, rows := range responses(p) {
		d := y - mean
		square += d * d * (rows / n)
	}
	if square > 1e-20*mean*mean && special.Finite(square) {
		return math.Sqrt(square)
	}
	return math.Sqrt(Variance(p))
}

// RelativeDeviation is that of the logarithms of the responses, all above 0, less their offsets: about by what
// share of itself a response differs from another; 1 where all are equal.
func RelativeDeviation(p *kernels.Problem) float64 {
	b := p.Batch()
	mean, square, n := 0.0, 0.0, 0.0
	for i, y := range p.Y { // Welford
		x := math.Log(y) - b.Shift(i)
		rows := p.Weighs(i)
		if !(rows > 0) {
			continue
		}
		n += rows
		d := x - mean
		mean += d * (rows / n)
		square += d * (x - mean) * rows
	}
	if square /= n; square > 1e-20 && special.Finite(square) {
		return math.Sqrt(square)
	}
	return 1
}

const (
	// slack is how far MostDispersion is above the mean square.
	slack = 3
	// farSpread is how far it is above half of Variance where a search has to begin up there: the grid of Starts
	// reaches 13, and a step 3.
	farSpread = 14
)

// FarDispersion is the logarithm of the mean square of the responses about their mean where outliers put
// that so far above Variance that a search from there does not get to it.
func FarDispersion(p *kernels.Problem) (float64, bool) {
	most := MostDispersion(p)
	return most - slack, most > math.Log(Variance(p)/2)+farSpread
}

// MostDispersion is the logarithm of a dispersion that none exceeds, 20 times the mean square of the responses
// about their mean: outliers may put that far above Variance.
func MostDispersion(p *kernels.Problem) float64 {
	if square, ok := p.ResponseSpread(); ok {
		return math.Log(kernels.Or(square, 1)) + slack
	}
	mean, square, n := 0.0, 0.0, 0.0
	for y, rows := range responses(p) { // Welford
		n += rows
		d := y - mean
		mean += d * rows / n
		square += d * (y - mean) * rows
	}
	if square = square / n; !(square > 0) || !special.Finite(square) {
		return math.Inf(-1)
	}
	return math.Log(square) + slack
}

// smallest is the number that sorting x would put in place k; it changes the order of x.
func smallest(x []float64, k int) float64 {
	lo, hi := 0, len(x)-1
	for lo < hi {
		a, b, c := x[lo], x[lo+(hi-lo)/2], x[hi]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := lo, hi
		for i <= j {
			for x[i] < pivot {
				i++
			}
			for x[j] > pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return x[k]
		}
	}
	return x[k]
}

// Start is the logarithms of the prior variances under which each group makes a
// predictor that varies as the responses do, of variance 1 without an identity link.
func (g *Groups) Start(p *kernels.Problem) ([]float64, error) {
	unit := 1.0
	if p.Lik != nil && p.Lik.Traits().Located {
		unit = Variance(p)
	}
	var theta []float64
	for _, s := range g.Squares {
		x := math.Log(unit / s)
		if !special.Finite(x) {
			return nil, ErrSquares
		}
		theta = append(theta, x)
	}
	return theta, nil
}

// Prior is prior with the variances of θ for the columns learnt, which are independent of
// all others. It may be that of several classes, the columns of one after the other.
func (g *Groups) Prior(prior *gauss.Normal, theta []float64) (*gauss.Normal, error) {
	return prior.WithVariances(func(j int) (float64, bool) {
		k := g.Of[j%len(g.Of)]
		if k < 0 {
			return 0, false
		}
		return math.Exp(theta[k]), true
	})
}

// shifts are the coarse grid of the logarithm of the prior variances, from where they
// make the predictor vary as much as the responses do.
var shifts = []float64{0, 4, -4, 8, -8, 13}

// Starts is a coarse grid about theta: all prior variances moved together, and for each
// of them the parameter last, if that is not negative, also e^-6 of what it was; at the end
// the variances that are there where none is learnt.
func (g *Groups) Starts(theta []float64, last int) [][]float64 {
	var out [][]float64
	lower := []float64{0}
	if last >= 0 {
		lower = []float64{0, -6}
	}
	for _, d := range lower {
		for _, shift := range shifts {
			start := slices.Clone(theta)
			for k := range g.Names {
				start[k] += shift
			}
			if last >= 0 {
				start[last] += d
			}
			if out = append(out, start); len(g.Names) == 0 {
				break
			}
		}
	}
	if len(g.Given) > 0 {
		start := slices.Clone(theta)
		for k, v := range g.Given {
			start[k] = math.Log(v)
		}
		out = append(out, start)
	}
	return out
}

// Default is the learnt variance of weights of no column of levels: what a feature has that
// was never seen. ok is false where it is not learnt.
func (g *Groups) Default(theta []float64) (variance float64, ok bool) {
	for k, name := range g.Names {
		if name == "" || len(g.Names) == 1 {
			return math.Exp(theta[k]), true
		}
	}
	return 0, false
}

// AtZero begins what a status says of a prior variance that stands for 0.
const AtZero = "the evidence is highest at a prior variance of 0"

// Zero is that sentence about a column, "" for all weights that have no column of their own.
func Zero(column string) string {
	if column == "" {
		return AtZero + ": the weights stay at the prior mean"
	}
	return AtZero + " of column " + short(column) + ": its weights stay at the prior mean"
}

// vanishing is of how many weights the rows determine so little that the evidence is that at a variance of
// 0 to a thousandth of a nat.
const vanishing = 1e-3

// Vanished says which variances stand for 0: where the rows determine next to nothing of the weights, of these
// variances and those of their prior (Σ 1 - s/v, as MacKay counts them), the evidence is flat, and a search for its
// maximum ends anywhere.
func (g *Groups) Vanished(variance, prior []float64) []bool {
	known := make([]float64, len(g.Names))
	for j, k := range g.Of {
		if k >= 0 && k < len(known) {
			known[k] += max(1-variance[j]/prior[j], 0)
		}
	}
	out := make([]bool, len(known))
	for k, x := range known {
		out[k] = x < vanishing
	}
	return out
}

// Learnt is what a status says about the variances, logarithms in theta: with PriorGroups
// all of them, at most eight, else those at the end of their range and those that vanished, nil
// where that is not known.
func (g *Groups) Learnt(o *kernels.Options, theta, lo []float64, vanished []bool) string {
	var out []string
	for k, name := range g.Names {
		end := AtEnd(theta[k], lo[k], lo[k]+2*Reach)
		column := ""
		if name != "" {
			column = " of column " + short(name)
		}
		switch {
		case o.PriorGroups:
			out = append(out, fmt.Sprintf("%s %.4g", short(name), math.Exp(theta[k])))
			if end != 0 {
				out[k] += " (the end of its range)"
			}
		case end > 0:
			out = append(out, fmt.Sprintf("the evidence still rises at the end of the range of the prior variance%s, %.2g", column, math.Exp(theta[k])))
		case end < 0, vanished != nil && vanished[k]:
			out = append(out, Zero(name))
		}
	}
	if !o.PriorGroups || len(out) == 0 {
		return strings.Join(out, "; ")
	}
	more := ""
	if len(out) > 8 {
		out, more = out[:8], fmt.Sprintf(" and %d more", len(out)-8)
	}
	return "prior variance by group: " + strings.Join(out, ", ") + more
}

// short is a name cut to 40 bytes, on a whole character.
func short(name string) string {
	if len(name) <= 40 {
		return name
	}
	cut := 37
	for cut > 0 && name[cut]&0xc0 == 0x80 {
		cut--
	}
	return name[:cut] + "..."
}
