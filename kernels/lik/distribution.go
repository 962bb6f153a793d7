package lik

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/bglm/bglm/kernels/argument"
)

// Distribution is a likelihood that draws responses and knows their distribution function,
// both at a known predictor.
type Distribution interface {
	Likelihood
	// Draw is a new response at s, of so many trials where the family has them. A response
	// beyond all numbers is infinite; none is NaN.
	Draw(s, trials float64, src rand.Source) float64
	// CDF is P(Y < y) and P(Y <= y) at s, y inside the support.
	CDF(o Obs, s float64) (below, upTo float64)
}

// DistributionOf is l as a Distribution. A Binary likelihood is one whatever its link.
// Errors: a likelihood that is none, an argument.Error.
func DistributionOf(l Likelihood) (Distribution, error) {
	if d, ok := l.(Distribution); ok {
		return d, nil
	}
	if l.Traits().Binary {
		return oneTrial{l}, nil
	}
	var allowed []string
	for _, f := range families {
		l, err := f.make[f.Links[0]](Params{Dispersion: 1})
		if err != nil {
			continue
		}
		if _, ok := l.(Distribution); ok || l.Traits().Binary {
			allowed = append(allowed, f.Family)
		}
	}
	return nil, &argument.Error{Name: "family", Found: "'" + l.Family() + "'", Why: "it has no distribution function to draw responses from", Allowed: strings.Join(allowed, ", ")}
}

// oneTrial is the law of a response 0 or 1, which Response says all of.
type oneTrial struct{ Likelihood }

// Draw is 1 with the probability Response.
func (l oneTrial) Draw(s, _ float64, src rand.Source) float64 {
	if rand.New(src).Float64() < l.Response(s) {
		return 1
	}
	return 0
}

// CDF steps at 0 and at 1.
func (l oneTrial) CDF(o Obs, s float64) (below, upTo float64) {
	g := l.Response(s)
	if o.Y == 0 {
		return 0, 1 - g
	}
	return 1 - g, 1
}

// steps is the CDF of a count y, by P(Y <= k).
func steps(y float64, cdf func(k float64) float64) (below, upTo float64) {
	if y == 0 {
		return 0, cdf(0)
	}
	below, upTo = cdf(y-1), cdf(y)
	return below, max(below, upTo)
}

// Sums are what Constant asks of rows: of their weights, and of these times what the
// likelihood knows of each.
type Sums struct {
	Weight, Y       float64
	Trials, Known   float64
	Centred, Square float64 // of y - c and its square, c any number
}

// Constant is a likelihood that scores rows of one mean by sums over them.
type Constant interface {
	Likelihood
	// Best is the log likelihood at the mean where it is largest, and of a dispersion that
	// is 0 at the best one, too; ok is false where the sums have none.
	Best(s Sums, dispersion float64) (logp float64, ok bool)
}

// Keeper is a Constant whose Best needs the sum of a term of log p that no mean changes.
type Keeper interface {
	Constant
	Known(o Obs) float64
}

// ConstantOf is l as a Constant, nil where it is none. A Binary likelihood is one whatever
// its link.
func ConstantOf(l Likelihood) Constant {
	if c, ok := l.(Constant); ok {
		return c
	}
	if l.Traits().Binary {
		return oneTrial{l}
	}
	return nil
}

// Best is at the share of ones.
func (oneTrial) Best(s Sums, _ float64) (logp float64, ok bool) {
	return part(s.Y, s.Weight) + part(s.Weight-s.Y, s.Weight), true
}

// part is k log(k/n), 0 at k = 0.
func part(k, n float64) float64 {
	if k <= 0 {
		return 0
	}
	return k * math.Log(k/n)
}
