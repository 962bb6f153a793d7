package mode

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
)

// The posterior of the weights, averaged over prior variances, is a mixture, of which one Gaussian
// is kept: see kernels.PredictiveScale for what it predicts for separated responses, and for the
// factors that correct it.

// NotAveraged is the status note if learnt variances are not averaged over and that matters.
const NotAveraged = "the weights' posterior is that under one value of the learnt prior variances, which the rows hardly determine: standard deviations leave that uncertainty out"

// Drawn is the status note if they are, but predictions suffer.
const Drawn = "predictions are pulled towards the base rate: one Gaussian stands for weights whose size is very uncertain"

// Predictor returns the probabilities of all outcomes of some rows, times the number of rows each
// counts as, always equally many, in a slice that is reused: Under for weights with Gaussian g, By
// for the last Gaussian of Under, scaled by these factors.
type Predictor interface {
	Under(g *gauss.Normal) []float64
	By(k kernels.PredictiveScale) []float64
}

// events are the outcomes of some rows: a response of 1, or a success in their trials, each
// followed by its complement.
type events struct {
	p            *kernels.Problem
	rows         []int
	times        []float64 // how many rows of one trial each counts as
	m, v, offset []float64 // of the predictors under the last Gaussian
	out          []float64
	room         []float64
}

const (
	// predicted is the number of rows, spread over all, whose probabilities Events has.
	predicted = 256
	// least is the least improvement of a step, in nats.
	least = 1e-7
	// farthest bounds the logarithms of the factors.
	farthest = 7
	// dear is the cost in nats per row of the square of a logarithm above 0. If predictors are far
	// from 0, only the ratio of their means and standard deviations matters, and both could grow
	// without bound.
	dear = 1e-4
	// unlike is the largest difference between the predictions of a Gaussian and of the mixture, in
	// nats per row.
	unlike = 0.002
)

// Events returns the outcomes of rows of p, a response of 1 or a success in their trials; nil if p
// has other responses, or some weights are known.
func Events(p *kernels.Problem) Predictor {
	t := p.Lik.Traits()
	if !t.Binary && !t.Trials || p.N == 0 || p.HasKnown() {
		return nil
	}
	var rows []int
	times := memory.Floats(p.N)
	for i := range times {
		if times[i] = p.RowWeight(i); t.Trials && p.Trials != nil {
			times[i] *= p.Trials[i]
		}
		if times[i] > 0 {
			rows = append(rows, i)
		}
	}
	rows = spread(rows, predicted)
	n := len(rows)
	e := &events{p: p, rows: rows, m: memory.Floats(n), v: memory.Floats(n), offset: memory.Floats(n), out: memory.Floats(2 * n)}
	for _, i := range rows {
		e.times = append(e.times, times[i])
	}
	return e
}

// spread returns at most n of rows, one from each of n parts, at varying places so that it does not
// lock on to a cycle.
func spread(rows []int, n int) []int {
	if len(rows) <= n {
		return rows
	}
	out := make([]int, n)
	for k := range out {
		lo, hi := k*len(rows)/n, (k+1)*len(rows)/n
		_, at := math.Modf(float64(k) * (math.Phi - 1))
		out[k] = rows[lo+int(at*float64(hi-lo))]
	}
	return out
}

func (e *events) Under(g *gauss.Normal) []float64 {
	for k, i := range e.rows {
		e.p.Stop.Row(i)
		col, val := e.p.Entries(i)
		e.m[k], e.v[k] = g.Linear(col, val, &e.room)
		if e.p.Offset != nil {
			e.offset[k] = e.p.Offset[i]
			e.m[k] += e.offset[k]
		}
	}
	return e.By(kernels.Unscaled)
}

func (e *events) By(k kernels.PredictiveScale) []float64 {
	for i := range e.m {
		p, _ := e.p.Lik.Predict(k.Of(e.m[i], e.v[i], e.offset[i]))
		e.out[2*i], e.out[2*i+1] = e.times[i]*p, e.times[i]*(1-p)
	}
	return e.out
}

// factors returns those under which the predictions of events by g are closest to those of the
// mixture, averaged in mixed, and the difference that remains. They are only searched for if g
// predicts badly.
//
// Cost: some hundred times By. The search takes ever shorter steps in the logarithms of both.
func factors(e Predictor, mixed []float64, g *gauss.Normal) (at kernels.PredictiveScale, off float64) {
	at = kernels.Unscaled
	if off = divergence(mixed, e.Under(g)); off <= unlike {
		return at, off
	}
	best := off
	for step := 0.7; step > 0.01; {
		moved := false
		for _, by := range [...][2]float64{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 2}, {-1, -2}} { // the last ones scale all weights
			to := kernels.PredictiveScale{Mean: at.Mean * math.Exp(step*by[0]), Variance: at.Variance * math.Exp(step*by[1])}
			a, b := math.Log(to.Mean), math.Log(to.Variance)
			if math.Abs(a) > farthest || math.Abs(b) > farthest {
				continue
			}
			a, b = max(a, 0), max(b, 0)
			d := divergence(mixed, e.By(to))
			if cost := d + dear*(a*a+b*b); cost < best-least {
				at, off, best, moved = to, d, cost, true
				break
			}
		}
		if !moved {
			step /= 2
		}
	}
	return at, off
}

// divergence returns the Kullback-Leibler divergence of outcomes with probabilities q from those
// with p, averaged over the rows, of which there are as many as p sums to.
func divergence(p, q []float64) (d float64) {
	rows := 0.0
	for i, x := range p {
		rows += x
		if x > 0 {
			d += x * math.Log(x/max(q[i], 1e-300))
		}
	}
	return d / rows
}
