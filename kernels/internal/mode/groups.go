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
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// Reach is how far a log prior variance may move from the one that gives the predictor of its
// group variance 1: a factor of e^46 = 1e20.
const Reach = 46

// ErrSquares reports features that have no scale to start from.
var ErrSquares = errors.New("prior_variance = 'auto': the squares of the features overflow; scale them")

// Groups holds the groups of columns whose prior variance is learnt.
type Groups struct {
	Names   []string
	Of      []int     // by column: its group, -1 if not learnt
	Squares []float64 // by group: Σ over its columns of their mean square
	Given   []float64 // by group: the prior variance if it were not learnt
}

// NewGroups finds the columns of p that are not the intercept, have no prior of their own and do
// not come from a continued fit, in the groups of Problem.VarianceGroups, with PriorGroups of
// Problem.Groups; for groups that Model.PriorBy names, that decides whether they are learnt. A group
// whose columns are all 0 is left out.
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

// FirstDispersion is where a search for the dispersion begins: that of the fit that is continued, or
// half of the Variance.
func FirstDispersion(p *kernels.Problem) float64 {
	if e := p.Earlier(); e.Freedom > 0 {
		return e.Noise
	}
	return Variance(p) / 2
}

// Variance returns a robust variance of the responses less their offsets: (IQR/1.349)², or their
// mean square if half of them are equal, 1 if all are 0. For rows that stand for several of
// different responses, or are not kept, it is the mean square about the mean, because their single
// responses are not known. A row of weight w counts as w rows.
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
	single := p.Count == nil || lik.Pooled(p.Lik).ByResponse
	if !single && sum-mean*mean > 1e-12*sum {
		sum -= mean * mean
	}
	if (some > 3 || n > 3) && single {
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

// responses iterates over the responses of the rows with positive weight, less their offsets if the
// likelihood has a location, and the number of rows that each counts as.
func responses(p *kernels.Problem) iter.Seq2[float64, float64] {
	b, located := p.Batch(), p.Lik.Traits().Located
	return func(yield func(y, rows float64) bool) {
		for i, y := range p.Y {
			rows := p.RowWeight(i)
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

// total returns the number of rows that the responses count as.
func total(p *kernels.Problem) (n float64) {
	for _, rows := range responses(p) {
		n += rows
	}
	return n
}

// quartiles returns the smallest responses such that more than a quarter and more than three
// quarters of n rows are no larger.
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
		high = x.y // the last one if rounding leaves the sum short
		if sum += x.rows; lower && sum > n/4 {
			low, lower = x.y, false
		}
		if sum > 3*n/4 {
			break
		}
	}
	return low, high
}

// Deviation returns the standard deviation of the responses, less their offsets, the unit of priors
// of standard deviations: about their mean if the dispersion is their variance, robust (the root of
// Variance) if tails may be heavy. A row of weight w counts as w rows.
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

// RelativeDeviation returns the standard deviation of the logarithms of the responses, all above 0,
// less their offsets: about the coefficient of variation; 1 if all are equal.
func RelativeDeviation(p *kernels.Problem) float64 {
	b := p.Batch()
	mean, square, n := 0.0, 0.0, 0.0
	for i, y := range p.Y { // Welford
		x := math.Log(y) - b.Shift(i)
		rows := p.RowWeight(i)
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
	// slack is how far MostDispersion is above the logarithm of the mean square.
	slack = 3
	// farSpread is how far it must be above the logarithm of half of Variance for a search to start
	// up there: the grid of Starts reaches 13, and a step 3.
	farSpread = 14
)

// FarDispersion returns the logarithm of the mean square of the responses about their mean, and
// whether outliers put that so far above Variance that a search from Variance does not reach it.
func FarDispersion(p *kernels.Problem) (float64, bool) {
	most := MostDispersion(p)
	return most - slack, most > math.Log(Variance(p)/2)+farSpread
}

// MostDispersion returns the logarithm of an upper bound of dispersions, 20 times the mean square
// of the responses about their mean: outliers may put that far above Variance.
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

// smallest returns the k-th smallest number of x, from 0; it changes the order of x.
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

// Start returns the logarithms of the prior variances under which the predictor of each group varies
// as much as the responses do; without an identity link its variance is 1.
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

// Prior returns prior with the variances of θ for the learnt columns, which are independent of all
// others. prior may be that of several classes, the columns of one after the other.
func (g *Groups) Prior(prior *gauss.Normal, theta []float64) (*gauss.Normal, error) {
	return prior.WithVariances(func(j int) (float64, bool) {
		k := g.Of[j%len(g.Of)]
		if k < 0 {
			return 0, false
		}
		return math.Exp(theta[k]), true
	})
}

// shifts is the coarse grid of log prior variances, relative to those for which the predictor
// varies as much as the responses do.
var shifts = []float64{0, 4, -4, 8, -8, 13}

// Starts returns a coarse grid about theta: all prior variances are moved together, and each point
// is repeated with the parameter last, unless negative, also at e^-6 of its value; the final point
// has the variances for the case that none is learnt.
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

// Logs returns the logarithms of variances.
func Logs(v []float64) []float64 {
	out := memory.Floats(len(v))
	for k, x := range v {
		out[k] = math.Log(x)
	}
	return out
}

// Default returns the learnt variance of weights of no column of levels, which is that of a feature
// never seen. ok is false if it is not learnt.
func (g *Groups) Default(theta []float64) (variance float64, ok bool) {
	for k, name := range g.Names {
		if name == "" || len(g.Names) == 1 {
			return math.Exp(theta[k]), true
		}
	}
	return 0, false
}

// AtZero begins the status note about a prior variance that is effectively 0.
const AtZero = "the evidence is highest at a prior variance of 0"

// Zero returns that note for a column, or for all weights without a column of their own if it is "".
func Zero(column string) string {
	if column == "" {
		return AtZero + ": the weights stay at the prior mean"
	}
	return AtZero + " of column " + short(column) + ": its weights stay at the prior mean"
}

// vanishing is the number of weights determined by the rows below which the evidence is within a
// thousandth of a nat of that at a variance of 0.
const vanishing = 1e-3

// Vanished reports which variances are effectively 0. If the rows determine next to nothing of the
// weights, which have posterior variances variance (Σ 1 - s/v, as MacKay counts them), the evidence
// is flat, and a search for its maximum may end anywhere.
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

// Learnt returns the status note about the variances, whose logarithms are theta: with PriorGroups
// about all of them, at most eight, otherwise about those at the end of their range and those for
// which vanished, nil if not known, is true.
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

// short returns a name cut to 40 bytes, at a character boundary.
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
