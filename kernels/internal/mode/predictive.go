package mode

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
)

// The posterior of the weights, averaged over prior variances, is a mixture, and one Gaussian is kept: see
// kernels.PredictiveScale for what it predicts of separated responses, and for the factors that mend it.

// NotAveraged is what a status says where learnt variances are not averaged over and that matters.
const NotAveraged = "the weights' posterior is that under one value of the learnt prior variances, which the rows hardly determine: standard deviations leave that uncertainty out"

// Drawn is what it says where they are, and predictions suffer.
const Drawn = "predictions are pulled towards the base rate: one Gaussian stands for weights whose size is very uncertain"

// Predictor has the probabilities of all outcomes of some rows, times how many rows each counts as, as many each time, in
// a slice that is used again: Under when the weights have that Gaussian, By under the one that Under had last by these
// factors.
type Predictor interface {
	Under(g *gauss.Normal) []float64
	By(k kernels.PredictiveScale) []float64
}

// events are the responses 1 of some rows, or a success of their trials, and behind each what it is not.
type events struct {
	p            *kernels.Problem
	rows         []int
	times        []float64 // how many rows of one trial each counts as
	m, v, offset []float64 // of the predictors under the Gaussian that was asked for last
	out          []float64
	room         []float64
}

const (
	// predicted is of how many rows, far and wide, Events has probabilities.
	predicted = 256
	// least is by how many nats a step must be better.
	least = 1e-7
	// farthest bounds the logarithms of the factors.
	farthest = 7
	// dear is how many nats a row the square of a logarithm above 0 must be worth. Where predictors are far from 0, only the
	// ratio of their means and deviations matters, and both could grow without end.
	dear = 1e-4
	// unlike is by how many nats a row what a Gaussian predicts may differ from what the mixture does.
	unlike = 0.002
)

// Events are the responses 1 of rows of p, or a success of their trials; nil where it has others, or some
// weights are known.
func Events(p *kernels.Problem) Predictor {
	t := p.Lik.Traits()
	if !t.Binary && !t.Trials || p.N == 0 || p.Knows() {
		return nil
	}
	var rows []int
	times := make([]float64, p.N)
	for i := range times {
		if times[i] = p.Weighs(i); t.Trials && p.Trials != nil {
			times[i] *= p.Trials[i]
		}
		if times[i] > 0 {
			rows = append(rows, i)
		}
	}
	rows = spread(rows, predicted)
	n := len(rows)
	e := &events{p: p, rows: rows, m: make([]float64, n), v: make([]float64, n), offset: make([]float64, n), out: make([]float64, 2*n)}
	for _, i := range rows {
		e.times = append(e.times, times[i])
	}
	return e
}

// spread is at most n of rows, one of each of as many parts, at different places so that rows that go in turns are met.
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

// factors are those under which g predicts events nearest to what the mixture does, averaged over it in mixed,
// and how far off that still is. They are sought where g does it badly.
//
// Cost: some hundred times By. The divergence is searched by steps in the logarithms of both, ever shorter ones.
func factors(e Predictor, mixed []float64, g *gauss.Normal) (at kernels.PredictiveScale, off float64) {
	at = kernels.Unscaled
	if off = divergence(mixed, e.Under(g)); off <= unlike {
		return at, off
	}
	best := off
	for step := 0.7; step > 0.01; {
		moved := false
		for _, by := range [...][2]float64{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 2}, {-1, -2}} { // the last are all weights by a factor
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

// divergence is the Kullback-Leibler divergence of outcomes of the probabilities q from those of p, on average over
// the rows, as many as p sums to. Each counts as often as both have it.
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
