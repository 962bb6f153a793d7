package answer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/bglm/bglm/kernels/memory"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Statistics names the statistics of Check: the mean and standard deviation of the responses, the
// proportion of zeros, the minimum and the maximum.
var Statistics = []string{"mean", "sd", "zeros", "min", "max"}

// DefaultDraws is the default number of draws of Check.
const DefaultDraws = 500

// Checked compares a statistic of the responses with that of replicated responses.
type Checked struct {
	N        int64
	Observed float64 // NaN without rows, as sd is with one row; the other numbers are then NaN too
	predict.Estimate
	P float64 // proportion of the replicates whose statistic is larger, equal ones counted half
}

// Check is a posterior predictive check: for each joint draw of the weights, and of a dispersion and
// a shape that were learnt, it draws new responses of all rows, and computes a statistic of these.
// If the observed one lies in the tails (P near 0 or 1) the model does not generate data like these.
//
// The rows are kept, with their features; the answer is a function of the rows and the seed,
// regardless of their order and division into batches. Cost: per draw, that of a prediction and a
// random number for each row.
//
// Source: [gelman2013], section 6.3.
type Check struct {
	*predict.Scorer
	of        lik.Distribution
	statistic string
	level     float64
	draws     int
	seed      uint64
	rows      kernels.Batch
}

// NewCheck returns a check without rows. A level of 0 means 0.95, 0 draws mean DefaultDraws.
// Errors: those of predict.New and lik.DistributionOf; an unknown statistic.
func NewCheck(f *kernels.Fit, statistic string, level float64, draws int, seed uint64) (*Check, error) {
	k := slices.Index(Statistics, statistic)
	if k < 0 {
		return nil, argument.Word("statistic", statistic, Statistics)
	}
	s, err := predict.New(f.ForPrediction())
	if err != nil {
		return nil, err
	}
	of, err := lik.DistributionOf(s.Lik)
	if err != nil {
		return nil, err
	}
	return &Check{Scorer: s, of: of, statistic: Statistics[k], level: cmp.Or(level, 0.95), draws: cmp.Or(draws, DefaultDraws), seed: seed}, nil
}

// Add adds the rows of b, whose feature numbers are those of Features.
// Errors: a response outside the support.
func (c *Check) Add(b *kernels.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	for i := range b.Len() {
		if err := c.Lik.Check(b.Obs(i)); err != nil {
			return err
		}
		fs, xs := c.Entries(c.Fit, b, i)
		c.addRow(b, i, fs, xs)
	}
	return nil
}

func (c *Check) addRow(b *kernels.Batch, i int, fs []uint32, xs []float64) {
	for k, f := range fs {
		c.rows.Add(f, xs[k])
	}
	c.rows.EndRow()
	c.rows.Y = append(c.rows.Y, b.Y[i])
	c.rows.Offset = append(c.rows.Offset, b.Shift(i))
	c.rows.Trials = append(c.rows.Trials, b.Obs(i).Trials)
}

// Merge adds the rows of o, which must have the same fit and statistic.
func (c *Check) Merge(o *Check) {
	id := make([]uint32, o.Features().Len())
	for k := range id {
		var err error
		if id[k], err = c.Features().AddRaw(string(o.Features().Name(uint32(k)))); err != nil {
			return // only a dictionary as large as that of o
		}
	}
	for i := range o.rows.Len() {
		fs, xs := o.rows.Entries(i)
		own := make([]uint32, len(fs))
		for k, f := range fs {
			own[k] = id[f]
		}
		c.addRow(&o.rows, i, own, xs)
	}
}

// Clone returns an independent copy.
func (c *Check) Clone() *Check {
	d := *c
	d.Scorer = c.Scorer.Clone()
	d.rows = kernels.Batch{Row: slices.Clone(c.rows.Row), Feature: slices.Clone(c.rows.Feature), Value: slices.Clone(c.rows.Value),
		Y: slices.Clone(c.rows.Y), Offset: slices.Clone(c.rows.Offset), Trials: slices.Clone(c.rows.Trials)}
	return &d
}

// Size is the approximate memory held, in bytes.
func (c *Check) Size() int64 { return 512 + FitSize(c.Fit) + c.rows.Memory() }

// Checked draws the replicated responses.
// Errors: statistics that are not finite; the cause of ctx if it is cancelled.
func (c *Check) Checked(ctx context.Context) (Checked, error) {
	n := c.rows.Len()
	out := Checked{N: int64(n), Observed: math.NaN()}
	out.Mean, out.SD, out.Lower, out.Upper, out.P = out.Observed, out.Observed, out.Observed, out.Observed, out.Observed
	if n == 0 {
		return out, nil
	}
	order := c.order()
	y, all := memory.Floats(n), make([]float64, c.draws)
	for k, i := range order { // sums in a fixed order
		y[k] = c.rows.Y[i]
	}
	out.Observed = statistic(c.statistic, y)
	if math.IsNaN(out.Observed) {
		return out, nil
	}
	draw, err := c.NewDraw()
	if err != nil {
		return out, err
	}
	for d := range all {
		draw.Set(c.seed, uint64(d))
		noise := newNoise(c.seed, uint64(d))
		of, err := c.drawDistribution(uint64(d))
		if err != nil {
			return out, err
		}
		for k, i := range order {
			if k&255 == 0 {
				if err := stop.Cause(ctx); err != nil {
					return out, err
				}
			}
			s, err := draw.Linear(&c.rows, i)
			if err != nil {
				return out, err
			}
			y[k] = of.Draw(s, c.rows.Trials[i], noise)
		}
		if all[d] = statistic(c.statistic, y); !special.Finite(all[d]) {
			return out, fmt.Errorf("statistic %s of repeated responses is %v: the beliefs are so wide that responses drawn from them are no numbers", c.statistic, all[d])
		}
	}
	out.P = 0
	for _, x := range all {
		switch {
		case x > out.Observed:
			out.P++
		case x == out.Observed:
			out.P += 0.5
		}
	}
	out.P /= float64(len(all))
	out.Estimate, _ = predict.OfDraws(all, 1, c.level)
	return out, nil
}

// order sorts the rows by their contents, so that it does not depend on how they came; rows that
// compare equal are equal.
func (c *Check) order() []int {
	key, order := make([]uint64, c.rows.Len()), make([]int, c.rows.Len())
	name := make([]uint64, c.Features().Len())
	for k := range name {
		name[k] = kernels.HashName(c.Features().Name(uint32(k)))
	}
	for i := range order {
		order[i] = i
		fs, xs := c.rows.Entries(i)
		h := math.Float64bits(c.rows.Y[i]) ^ math.Float64bits(c.rows.Offset[i])*3 ^ math.Float64bits(c.rows.Trials[i])*5
		for k, f := range fs { // in any order
			x := (name[f] ^ math.Float64bits(xs[k])) * 0x9E3779B97F4A7C15
			h += x ^ x>>31
		}
		key[i] = h
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(key[a], key[b]) })
	return order
}

// drawDistribution is the distribution of a draw's responses, with a draw of the dispersion and
// shape if the fit has learnt them.
func (c *Check) drawDistribution(draw uint64) (lik.Distribution, error) {
	p, ok := c.LearntParameters().Drawn(c.Fit, rand.NewPCG(c.seed^0x9E3779B97F4A7C15, draw))
	if !ok {
		return c.of, nil
	}
	l, err := lik.New(c.Fit.Family, c.Fit.Link, p)
	if err != nil {
		return nil, err
	}
	return lik.DistributionOf(l)
}

// newNoise is the random source of a draw's responses, distinct from that of its weights.
func newNoise(seed, draw uint64) rand.Source { return rand.NewPCG(seed^0x5851F42D4C957F2D, draw) }

// statistic is the named statistic of y. For whole numbers it is exact up to its last rounding, so
// that responses in another order, or others with the same sums, give an equal one, as P counts
// them.
func statistic(name string, y []float64) float64 {
	switch name {
	case "min":
		return slices.Min(y)
	case "max":
		return slices.Max(y)
	}
	var s moments
	n, zeros, sum, squares, whole := float64(len(y)), 0.0, 0.0, 0.0, true
	for _, x := range y {
		s.add(x, 1)
		if x == 0 {
			zeros++
		}
		sum += x
		squares += x * x
		whole = whole && x == math.Trunc(x)
	}
	whole = whole && n*squares < 1<<53
	switch {
	case name == "zeros":
		return zeros / n
	case name == "sd" && whole:
		return math.Sqrt((n*squares - sum*sum) / (n * (n - 1)))
	case name == "sd":
		return math.Sqrt(s.variance())
	case whole:
		return sum / n
	}
	return s.mean
}

// PIT is the probability integral transform of a response: the values between which its predictive
// distribution function, with s ~ N(m, v), steps; equal for a continuous one. Over rows that were
// not learnt, a uniform draw between the two is uniform if the model is right.
//
// Errors: a response outside the support; those of lik.DistributionOf.
//
// Source: [czado2009].
func PIT(l lik.Likelihood, o lik.Obs, m, v float64) (below, upTo float64, err error) {
	if err := l.Check(o); err != nil {
		return 0, 0, err
	}
	of, err := lik.DistributionOf(l)
	if err != nil {
		return 0, 0, err
	}
	sd, n, total := math.Sqrt(v), 1, 0.0
	if v > 0 {
		n = nodes(sd)
	}
	steep, before := false, [2]float64{}
	for k := range n {
		z := 0.0
		if n > 1 {
			z = reach * (2*(float64(k)+0.5)/float64(n) - 1)
		}
		w := math.Exp(-0.5 * z * z)
		a, b := of.CDF(o, m+sd*z)
		total += w
		below += w * a
		upTo += w * b
		steep = steep || k > 0 && fall(before, [2]float64{a, b}) > steepFall
		before = [2]float64{a, b}
	}
	if steep {
		below, upTo, total = 0, 0, 1
		c := &cells{at: func(z float64) [2]float64 { a, b := of.CDF(o, m+sd*z); return [2]float64{a, b} }}
		lo, at := -reach, c.at(-reach)
		for k := range n {
			hi := reach * (2*float64(k+1)/float64(n) - 1)
			next := c.at(hi)
			c.add(lo, hi, at, next, deepest)
			lo, at = hi, next
		}
		below, upTo = c.sum[0], c.sum[1]
	}
	return min(below/total, 1), min(upTo/total, 1), nil
}

const (
	// steepFall is the change of a distribution function between neighbouring nodes above which it
	// is too steep for them, as with responses that vary little about their mean.
	steepFall = 0.25
	steepCell = 0.05 // the same within a cell, at one end of which a step may begin
	deepest   = 50   // halvings of a cell
)

// fall is the larger change of two functions from one node to the next.
func fall(a, b [2]float64) float64 {
	return max(math.Abs(a[0]-b[0]), math.Abs(a[1]-b[1]))
}

// cells integrates two decreasing functions of z under a standard Gaussian, halving cells where
// they are steep.
type cells struct {
	at  func(z float64) [2]float64
	sum [2]float64
}

// add adds the cell from lo to hi, where the functions are a and b.
func (c *cells) add(lo, hi float64, a, b [2]float64, halvings int) {
	const flat = 1e-13
	p := special.Phi(hi) - special.Phi(lo)
	switch f := fall(a, b); {
	case p*f < flat || halvings == 0:
		c.sum[0] += 0.5 * p * (a[0] + b[0])
		c.sum[1] += 0.5 * p * (a[1] + b[1])
	case f > steepCell:
		mid := 0.5 * (lo + hi)
		at := c.at(mid)
		c.add(lo, mid, a, at, halvings-1)
		c.add(mid, hi, at, b, halvings-1)
	default:
		for i, x := range panel.x {
			z := lo + (hi-lo)*x
			w := panel.w[i] * (hi - lo) * math.Exp(-0.5*z*z) / math.Sqrt(2*math.Pi)
			at := c.at(z)
			c.sum[0] += w * at[0]
			c.sum[1] += w * at[1]
		}
	}
}

// panel has the nodes and weights of Gauss-Legendre on (0, 1); read-only.
var panel = func() (t struct{ x, w [16]float64 }) {
	quad.Legendre{}.FixedLocations(t.x[:], t.w[:], 0, 1)
	return t
}()
