package lik

import "math"

// A Pool is the sufficient sums of rows with the same linear predictor, up to offsets: fewer rows
// with the same likelihood are made from it.
type Pool struct {
	Rows, Weight float64 // number of rows, and their weights
	Sum, Extra   float64 // of responses by weight, and of trials or exposures
	// Mean is the mean of real responses, and Spread the weighted squares about it or, for
	// positive ones, the weighted logarithms of mean over response. For responses with trials
	// or exposures they are those per trial or unit of exposure.
	Mean, Spread float64
	// Log is the part of the log likelihood of the pooled rows that does not depend on the
	// predictor; that of the rows made from them is still to be subtracted.
	Log float64

	_ float64 // a cache line
}

// Pooling is how a likelihood pools rows.
type Pooling struct {
	// ByOffset and ByResponse say that only rows with equal offsets, or with equal responses
	// and trials, are pooled.
	ByOffset, ByResponse bool
	// Add adds a row.
	Add func(p *Pool, o Obs, offset float64)
	// Make returns one or two equivalent rows, their offset (0 if pooled ByOffset), and the
	// constant by which the pooled rows' log likelihood is higher.
	Make func(p *Pool) (rows []Obs, offset, constant float64)
	// Within is what Pearson adds to the made row for the variation among the pooled ones;
	// nil if Pearson is.
	Within func(p *Pool) float64

	ratio bool // Spread is of logarithms instead of squares
}

// Pooled returns how l pools rows without loss, at every predictor and for every dispersion and
// shape:
//
//	bernoulli          rows of y = 1 and of y = 0, with their weights
//	binomial           successes and trials, Σ w k log p + Σ w (n-k) log(1-p)
//	poisson            responses and exposures, Σ w y s - Σ w exp(offset) e^s
//	gaussian           mean and square about it: rows at mean ± deviation; with the identity
//	                   link the offset is taken off the response
//	gamma              Σ w y exp(-offset) and Σ w log y: the two responses with the same
//	                   arithmetic and geometric mean
//	others             rows of equal responses, with their weights
//
// The made rows have the same total weight as those pooled, so that weighted moments of features
// do not change.
func Pooled(l Likelihood) Pooling {
	if by, ok := l.(interface{ pooling() Pooling }); ok {
		return by.pooling()
	}
	if l.Traits().Binary {
		return Pooling{ByOffset: true, Add: (*Pool).sum, Make: twoOutcomes}
	}
	return Pooling{ByOffset: true, ByResponse: true, Add: func(p *Pool, o Obs, _ float64) {
		p.Rows++
		p.Weight += o.Weight
		p.Mean, p.Extra = o.Y, o.Trials // equal for all of them
	}, Make: func(p *Pool) ([]Obs, float64, float64) {
		return []Obs{{Y: p.Mean, Weight: p.Weight, Trials: p.Extra}}, 0, 0
	}}
}

func (p *Pool) sum(o Obs, _ float64) {
	p.Rows++
	p.Weight += o.Weight
	p.Sum += o.Weight * o.Y
}

// rate adds a row of e trials, or of exposure e, to the mean per trial or unit of exposure.
func (p *Pool) rate(o Obs, e float64) {
	w := o.Weight * e
	p.Extra += w
	if w == 0 {
		return
	}
	y := o.Y / e
	d := y - p.Mean
	p.Mean += d * (w / p.Extra)
	p.Spread += w * d * (y - p.Mean)
}

// mean adds a row to the mean of the responses and the squares about it.
func (p *Pool) mean(o Obs) {
	p.Rows++
	if o.Weight == 0 {
		return
	}
	p.Weight += o.Weight
	d := o.Y - p.Mean
	p.Mean += d * (o.Weight / p.Weight)
	p.Spread += o.Weight * d * (o.Y - p.Mean)
}

// ratio is mean for responses that vary in proportion to their mean: log(mean/y) adds up as squares
// do.
func (p *Pool) ratio(o Obs, offset float64) {
	p.Rows++
	if o.Weight == 0 {
		return
	}
	y, was, w := o.Y*math.Exp(-offset), p.Mean, p.Weight
	p.Weight += o.Weight
	p.Mean += (y - was) * (o.Weight / p.Weight)
	p.Spread += o.Weight * math.Log(p.Mean/y)
	if w > 0 {
		p.Spread += w * math.Log(p.Mean/was)
	}
	p.Log -= o.Weight * offset
}

func (p *Pool) at0(l Likelihood, o Obs, offset float64) {
	logp, _, _ := l.LogLik(o, offset)
	p.Log += logp
}

func (p *Pool) constant(l Likelihood, row Obs, offset float64) float64 {
	logp, _, _ := l.LogLik(row, offset)
	return p.Log - logp
}

// Merge adds the rows of o, which belong to the same pool under l.
func (p *Pool) Merge(o *Pool, l Likelihood) {
	by, a, b := Pooled(l), p.Weight, o.Weight
	if by.Within != nil {
		a, b = p.Extra, o.Extra
	}
	was := *p
	p.Rows += o.Rows
	p.Weight += o.Weight
	p.Sum += o.Sum
	p.Log += o.Log
	if by.ByResponse {
		p.Mean, p.Extra = o.Mean, o.Extra
		return
	}
	p.Extra += o.Extra
	if b == 0 {
		return
	}
	d := o.Mean - was.Mean
	p.Mean += d * (b / (a + b))
	p.Spread += o.Spread
	switch {
	case a == 0:
	case by.ratio:
		p.Spread += a*math.Log(p.Mean/was.Mean) + b*math.Log(p.Mean/o.Mean)
	default:
		p.Spread += d * d * a * (b / (a + b))
	}
}

// twoOutcomes returns the rows of successes and of failures.
func twoOutcomes(p *Pool) ([]Obs, float64, float64) {
	switch zeros := p.Weight - p.Sum; {
	case !(p.Sum > 0):
		return []Obs{{Weight: p.Weight}}, 0, 0
	case !(zeros > 0):
		return []Obs{{Y: 1, Weight: p.Weight}}, 0, 0
	default:
		return []Obs{{Weight: zeros}, {Y: 1, Weight: p.Sum}}, 0, 0
	}
}

// twoNormals returns responses one standard deviation below and above the mean.
func twoNormals(p *Pool) ([]Obs, float64, float64) {
	if !(p.Spread > 0) {
		return []Obs{{Y: p.Mean, Weight: p.Weight}}, 0, 0
	}
	d := math.Sqrt(p.Spread / p.Weight)
	return []Obs{{Y: p.Mean - d, Weight: p.Weight / 2}, {Y: p.Mean + d, Weight: p.Weight / 2}}, 0, 0
}

// twoRatios returns two responses of half the weight each, y e^-x and y e^x: their arithmetic mean
// is y cosh(x), their geometric mean y.
func twoRatios(p *Pool) ([]Obs, float64, float64) {
	if !(p.Spread > 0) {
		return []Obs{{Y: max(p.Mean, math.SmallestNonzeroFloat64), Weight: p.Weight}}, 0, p.Log
	}
	r := p.Spread / p.Weight // log cosh x
	// cosh x - 1 = 2 sinh²(x/2)
	x := 2 * math.Asinh(math.Sqrt(0.5*math.Expm1(r)))
	y := p.Mean * math.Exp(-r)
	return []Obs{{Y: y * math.Exp(-x), Weight: p.Weight / 2}, {Y: y * math.Exp(x), Weight: p.Weight / 2}}, 0, p.Log
}
