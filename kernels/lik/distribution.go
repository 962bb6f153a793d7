package lik

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/bglm/bglm/kernels/argument"
)

// Distribution is a likelihood that can draw responses and evaluate their distribution function,
// both at a known predictor.
type Distribution interface {
	Likelihood
	// Draw returns a new response at s, of the given trials if the family has them. A response
	// that overflows is infinite; none is NaN.
	Draw(s, trials float64, src rand.Source) float64
	// CDF returns P(Y < y) and P(Y <= y) at s, for y in the support.
	CDF(o Obs, s float64) (below, upTo float64)
}

// DistributionOf returns l as a Distribution. A Binary likelihood is one for any link.
// Errors: a likelihood that is not one, an argument.Error.
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

// oneTrial is the distribution of a response 0 or 1, which Response determines.
type oneTrial struct{ Likelihood }

// Draw returns 1 with probability Response.
func (l oneTrial) Draw(s, _ float64, src rand.Source) float64 {
	if rand.New(src).Float64() < l.Response(s) {
		return 1
	}
	return 0
}

// CDF has steps at 0 and 1.
func (l oneTrial) CDF(o Obs, s float64) (below, upTo float64) {
	g := l.Response(s)
	if o.Y == 0 {
		return 0, 1 - g
	}
	return 1 - g, 1
}

// steps returns the CDF of a count y, from P(Y <= k).
func steps(y float64, cdf func(k float64) float64) (below, upTo float64) {
	if y == 0 {
		return 0, cdf(0)
	}
	below, upTo = cdf(y-1), cdf(y)
	return below, max(below, upTo)
}

// normalMean is the mean of f(u), u ~ N(m, sd²), by the trapezoid rule.
func normalMean(m, sd float64, f func(u float64) float64) float64 {
	var mass, sum float64
	for i := -17; i <= 17; i++ {
		x := 0.5 * float64(i)
		w := math.Exp(-0.5 * x * x)
		mass += w
		sum += w * f(m+sd*x)
	}
	return sum / mass
}

// meanAboutMode is the mean of f(d) by the trapezoid rule with step h. logp is the log density of d
// relative to that at its mode, which is 0.
func meanAboutMode(h float64, logp, f func(d float64) float64) float64 {
	var mass, sum float64
	for _, step := range [2]float64{h, -h} {
		for i := 0; ; i++ {
			d := step * float64(i)
			l := logp(d)
			if l < -dropTrapezoid {
				break
			}
			w := math.Exp(l)
			if i == 0 { // on both sides
				w = 0.5
			}
			mass += w
			sum += w * f(d)
		}
	}
	return sum / mass
}

// Sums are the sums over rows that Constant needs: of their weights, and of weights times what
// the likelihood needs of each row.
type Sums struct {
	Weight, Y       float64
	Trials, Known   float64
	Centred, Square float64 // of y - c and its square, c any number
}

// add adds a row, relative to origin; k is the likelihood if it is a Keeper, else nil.
func (s *Sums) add(o Obs, origin float64, k Keeper) {
	d := o.Y - origin
	s.Weight += o.Weight
	s.Y += o.Weight * o.Y
	s.Trials += o.Weight * o.Trials
	s.Centred += o.Weight * d
	s.Square += o.Weight * d * d
	if k != nil {
		s.Known += o.Weight * k.Known(o)
	}
}

// Summing adds up the Sums of rows that come one by one, in parts.
type Summing struct {
	Sums
	by     Constant
	origin float64 // the number that Centred and Square are relative to: the first response
}

// NewSumming returns the sums of no rows; nil for a likelihood that is no Constant.
func NewSumming(l Likelihood) *Summing {
	if c := ConstantOf(l); c != nil {
		return &Summing{by: c}
	}
	return nil
}

// Add adds a row.
func (s *Summing) Add(o Obs) {
	if !(o.Weight > 0) {
		return
	}
	if s.Weight == 0 {
		s.origin = o.Y
	}
	k, _ := s.by.(Keeper)
	s.add(o, s.origin, k)
}

// Merge adds the rows of o, which may be nil.
func (s *Summing) Merge(o *Summing) {
	if o == nil || o.Weight == 0 {
		return
	}
	if s.Weight == 0 {
		*s = *o
		return
	}
	d := o.origin - s.origin
	s.Square += o.Square + d*(2*o.Centred+d*o.Weight)
	s.Centred += o.Centred + d*o.Weight
	s.Weight, s.Y, s.Trials, s.Known = s.Weight+o.Weight, s.Y+o.Y, s.Trials+o.Trials, s.Known+o.Known
}

// Best is Constant.Best of the rows.
func (s *Summing) Best(dispersion float64) (logp float64, ok bool) {
	if s == nil || s.Weight == 0 {
		return 0, false
	}
	return s.by.Best(s.Sums, dispersion)
}

// Constant is a likelihood that evaluates rows with a common mean from sums over them.
type Constant interface {
	Likelihood
	// Best is the log likelihood at the best mean and, if dispersion is 0, at the best dispersion,
	// too; ok is false if the sums have none.
	Best(s Sums, dispersion float64) (logp float64, ok bool)
}

// Keeper is a Constant whose Best needs the sum of a term of log p that does not depend on the mean.
type Keeper interface {
	Constant
	Known(o Obs) float64
}

// ConstantOf returns l as a Constant, nil if it is none. A Binary likelihood is one for any link.
func ConstantOf(l Likelihood) Constant {
	if c, ok := l.(Constant); ok {
		return c
	}
	if l.Traits().Binary {
		return oneTrial{l}
	}
	return nil
}

// Best is the log likelihood at the share of ones.
func (oneTrial) Best(s Sums, _ float64) (logp float64, ok bool) {
	return part(s.Y, s.Weight) + part(s.Weight-s.Y, s.Weight), true
}

// part returns k log(k/n), 0 at k = 0.
func part(k, n float64) float64 {
	if k <= 0 {
		return 0
	}
	return k * math.Log(k/n)
}
