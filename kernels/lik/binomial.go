package lik

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/special"
)

var binomialFamily = family{Info{
	Family:      "binomial",
	Links:       []string{"logit", "probit", "cloglog"},
	Description: "a number of successes among trials, each with probability logistic(s), Phi(s) or 1 - exp(-exp(s))",
	Response:    "whole numbers from 0 to trials, trials a whole number >= 1",
}, links{"logit": newBinomialLogit, "probit": newBinomialProbit, "cloglog": newBinomialCloglog}}

// binomial is p(y|s) = C(n,y) p^y (1-p)^(n-y), y successes in n = Obs.Trials trials of
// probability p: logistic(s), Phi(s) or 1 - exp(-e^s) by the link. Response, Predict,
// Moderated and Interval are those of one trial, hence of the bernoulli family.
//
// Moments use the shared quadrature about the mode; one trial of weight 1 is the
// bernoulli datum. Accuracy: logZ 1e-9, mean and variance 1e-8.
type binomial struct {
	Likelihood // the bernoulli law of one trial, always in quadrature 'auto'
	link       binomialLink
	rule       *rule
}

type binomialLink int

const (
	linkLogit binomialLink = iota
	linkProbit
	linkCloglog
)

func newBinomialLogit(p Params) (Likelihood, error) {
	r, err := newRule(p.Quadrature)
	return binomial{logit{}, linkLogit, r}, err
}

func newBinomialProbit(p Params) (Likelihood, error) {
	r, err := newRule(p.Quadrature)
	return binomial{probit{}, linkProbit, r}, err
}

func newBinomialCloglog(p Params) (Likelihood, error) {
	r, err := newRule(p.Quadrature)
	return binomial{cloglog{}, linkCloglog, r}, err
}

func (binomial) Family() string { return "binomial" }

// Traits are those of one trial, except for the response.
func (l binomial) Traits() Traits {
	t := l.Likelihood.Traits()
	t.Binary, t.Trials = false, true
	return t
}

// Draw returns the number of successes.
func (l binomial) Draw(s, trials float64, src rand.Source) float64 {
	return distuv.Binomial{N: trials, P: l.Response(s), Src: src}.Rand()
}

// CDF uses the incomplete beta function: P(Y <= k) = P(B > p), B ~ Beta(k+1, n-k).
func (l binomial) CDF(o Obs, s float64) (below, upTo float64) {
	g := l.Response(s)
	return steps(o.Y, func(k float64) float64 {
		if k >= o.Trials {
			return 1
		}
		return mathext.RegIncBeta(o.Trials-k, k+1, 1-g)
	})
}

// Known is the logarithm of the number of orders.
func (binomial) Known(o Obs) float64 {
	return special.LogFactorial(o.Trials) - special.LogFactorial(o.Y) - special.LogFactorial(o.Trials-o.Y)
}

// Best is the log likelihood at the share of successes.
func (binomial) Best(s Sums, _ float64) (logp float64, ok bool) {
	return part(s.Y, s.Trials) + part(s.Trials-s.Y, s.Trials) + s.Known, true
}

func (l binomial) pooling() Pooling {
	return Pooling{ByOffset: true, Within: func(p *Pool) float64 { return p.Spread }, Add: func(p *Pool, o Obs, _ float64) {
		p.sum(o, 0)
		p.rate(o, o.Trials)
		p.at0(l, o, 0)
	}, Make: func(p *Pool) ([]Obs, float64, float64) {
		if p.Weight == 0 {
			return []Obs{{Trials: 1}}, 0, 0
		}
		row := Obs{Y: p.Sum / p.Weight, Weight: p.Weight, Trials: p.Extra / p.Weight}
		return []Obs{row}, 0, p.constant(l, row, 0)
	}}
}

// Check requires whole numbers: at least one trial, and successes among them.
func (binomial) Check(o Obs) error {
	if !(o.Trials >= 1) || math.IsInf(o.Trials, 1) || o.Trials != math.Floor(o.Trials) {
		return fmt.Errorf("trials = %v: binomial takes whole numbers >= 1", o.Trials)
	}
	if !(o.Y >= 0 && o.Y <= o.Trials) || o.Y != math.Floor(o.Y) {
		share := ""
		if o.Y > 0 && o.Y < 1 {
			share = "; a share of the trials is given as their number of successes"
		}
		return fmt.Errorf("y = %v: binomial takes a whole number of successes from 0 to trials (%v)%s", o.Y, o.Trials, share)
	}
	return checkWeight(o)
}

func (l binomial) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Weight == 0 {
		return 0, 0, 0
	}
	odds := newLogOdds(o.Y, o.Trials-o.Y)
	d1, d2 = l.slopes(o.Weight*odds.a, o.Weight*odds.b, s)
	return o.Weight * l.logp(odds, s), d1, d2
}

// logp uses the log odds u(s) if both outcomes occurred: the sum of its terms would cancel down from
// n log n.
func (l binomial) logp(odds logOdds, s float64) float64 {
	switch l.link {
	case linkProbit:
		switch {
		case odds.a == 0:
			return odds.b * special.LogPhi(-s)
		case odds.b == 0:
			return odds.a * special.LogPhi(s)
		}
		return odds.at(special.LogPhi(s) - special.LogPhi(-s))
	case linkCloglog:
		x := math.Exp(s)
		switch {
		case odds.a == 0:
			return -odds.b * x
		case x < 1e-20:
			return odds.at(s)
		case odds.b == 0:
			return odds.a * special.Log1mExpNeg(x)
		}
		return odds.at(special.Log1mExpNeg(x) + x)
	}
	return odds.at(s)
}

// slopes returns the derivatives of a log p(s) + b log(1 - p(s)).
func (l binomial) slopes(a, b, s float64) (d1, d2 float64) {
	var up, dn [2]float64
	switch l.link {
	case linkProbit:
		_, up[0], up[1] = probitLog(a, s)
		_, dn[0], dn[1] = probitLog(b, -s)
		dn[0] = -dn[0]
	case linkCloglog:
		_, up[0], up[1] = cloglogLog(a, s)
		_, dn[0], dn[1] = poissonLog(b, 0, s)
	default:
		return logOdds{a: a, b: b, n: a + b}.slopes(s)
	}
	return up[0] + dn[0], up[1] + dn[1]
}

func (l binomial) Moments(o Obs, m, v float64) Tilted {
	if !proper(o, m, v) {
		logp, d1, d2 := l.LogLik(o, m)
		return degenerate(o.Weight, m, v, logp, d1, d2)
	}
	if l.rule != nil {
		return l.rule.moments(l, o, m, v)
	}
	w := o.Weight
	odds := newLogOdds(o.Y, o.Trials-o.Y)
	if l.link == linkLogit {
		return logOddsMoments(odds, w, m, v)
	}
	if odds.n == 1 {
		return l.Likelihood.Moments(o, m, v)
	}
	a, b := w*odds.a, w*odds.b
	peak := math.Inf(1)
	switch {
	case a == 0:
		peak = math.Inf(-1)
	case b > 0 && l.link == linkProbit:
		peak = special.PhiInv(odds.a/odds.n) - m
		if odds.a > odds.b {
			peak = -special.PhiInv(odds.b/odds.n) - m
		}
	case b > 0:
		peak = math.Log(-math.Log(odds.b/odds.n)) - m
		if odds.a < odds.b {
			peak = math.Log(-math.Log1p(-odds.a/odds.n)) - m
		}
	}
	if l.link == linkCloglog && a == 0 {
		// the mode of e^-be^s is a Wright omega function, and l' may overflow at m
		return poissonMoments(b, 0, m, v)
	}
	at := findRoot(m, v, peak, func(s float64) (logp, d1, d2 float64) {
		d1, d2 = l.slopes(a, b, s)
		return 0, d1, d2
	})
	at.logp = w * l.logp(odds, m+at.t)
	return l.integrate(at, a, b, m, v)
}

// integrate chooses a step for the log-concave factors: p^a rises about Phi(s) = 1 - 1/a for probit,
// at s near sqrt(2 log a) and over the inverse of that.
func (l binomial) integrate(at anchor, a, b, m, v float64) Tilted {
	s0 := m + at.t
	if l.link == linkProbit {
		up, dn := math.Sqrt(2*math.Log1p(a)), math.Sqrt(2*math.Log1p(b))
		scale := math.Min(1, 1/math.Max(up, dn))
		h := math.Min(0.65*at.tau, 0.38*scale)
		sh := probitCounts{newProbitShape(s0, a), newProbitShape(-s0, b)}
		return tilt(sh, at, v, h, bend{-dn - 1 - s0, up + 1 - s0, scale, 0}).tilted(at, v)
	}
	k := 1 + math.Log(math.Max(1, a))
	h := math.Min(0.33/k, 0.7*at.tau/(1+0.55*at.tau))
	sh := cloglogCounts{newCloglogShape(s0, a), poissonShape{b * math.Exp(s0), math.Log(b) + s0}}
	lo, hi := -1.0, math.Log(k)
	if b > 0 {
		lo, hi = math.Min(lo, -math.Log(b)), math.Max(hi, -math.Log(b))
	}
	return tilt(sh, at, v, h, bend{lo - s0, hi - s0, 1 / k, 0}).tilted(at, v)
}

// probitCounts is a log Phi(s) + b log Phi(-s).
type probitCounts struct{ up, dn probitShape }

func (p probitCounts) at(d float64) (gap, slope, curv float64) {
	if p.up.w > 0 {
		gap, slope, curv = p.up.at(d)
	}
	if p.dn.w > 0 {
		g, sl, c := p.dn.at(-d)
		return gap + g, slope - sl, curv + c
	}
	return gap, slope, curv
}

// cloglogCounts is a log(1 - e^-x) - b x, x = e^s.
type cloglogCounts struct {
	up cloglogShape
	dn poissonShape
}

func (c cloglogCounts) at(d float64) (gap, slope, curv float64) {
	gap, slope, curv = c.up.at(d)
	if !math.IsInf(c.dn.logLambda, -1) {
		g, sl, cv := c.dn.at(d)
		return gap + g, slope + sl, curv + cv
	}
	return gap, slope, curv
}
