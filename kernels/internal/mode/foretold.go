package mode

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
)

// The posterior of the weights, averaged over prior variances, is a mixture, and one Gaussian is kept. Where
// the rows tell only that weights are large, as those of separated responses do, the mixture's upper tail
// is long: the Gaussian of its mean and covariance reaches to weights of no effect and of the wrong sign, which
// the rows exclude, and draws predictions to the base rate. What the one at the mode of the variances foretells is
// nearer to what the mixture does then, and its deviations are too small.

// NotAveraged is what a status says where learnt variances are not averaged over and that matters.
const NotAveraged = "the weights' posterior is that under one value of the learnt prior variances, which the rows hardly know: deviations leave that out"

// Drawn is what it says where they are, and predictions suffer.
const Drawn = "predictions are drawn to the base rate: one Gaussian stands for weights that may be of very different size"

// Foretell has probabilities of events of some rows when the weights have that Gaussian: as many each time, in a
// slice that may be used again.
type Foretell func(g *gauss.Normal) []float64

const (
	// foretold is of how many rows, far and wide, Events has probabilities.
	foretold = 256
	// unlike is by how many nats a row what a Gaussian foretells may differ from what the mixture does.
	unlike = 0.002
)

// Events are the responses 1 of rows of p, or a success of their trials; nil where it has other responses.
func Events(p *kernels.Problem) Foretell {
	if t := p.Lik.Traits(); !t.Binary && !t.Trials || p.N == 0 {
		return nil
	}
	n := min(p.N, foretold)
	out, room := make([]float64, n), []float64(nil)
	return func(g *gauss.Normal) []float64 {
		for k := range out {
			i := int(float64(k) / float64(n) * float64(p.N))
			p.Stop.Row(i)
			col, val := p.Entries(i)
			m, v := g.Linear(col, val, &room)
			if p.Offset != nil {
				m += p.Offset[i]
			}
			out[k], _ = p.Lik.Predict(m, v)
		}
		return out
	}
}

// divergence is the Kullback-Leibler divergence of events of the probabilities q from those of p, on average.
func divergence(p, q []float64) (d float64) {
	part := func(p, q float64) float64 {
		if p > 0 {
			return p * math.Log(p/max(q, 1e-300))
		}
		return 0
	}
	for i, x := range p {
		d += part(x, q[i]) + part(1-x, 1-q[i])
	}
	return d / float64(len(p))
}

// nearer says whether the Gaussian at the mode foretells events nearer to what the mixture does, averaged over
// it in mixed, than its moments in g do, where these do it badly. It leaves the evidence at the mode.
func (q *Peak) nearer(mixed []float64, g *gauss.Normal, gaussian func() (*gauss.Normal, error), foretell Foretell) (bool, error) {
	off := divergence(mixed, foretell(g))
	if off <= unlike {
		return false, nil
	}
	if _, ok, err := q.p.Try(q.x); err != nil || !ok {
		return false, err
	}
	q.p.Keep()
	at, err := gaussian()
	if err != nil {
		return false, err
	}
	return divergence(mixed, foretell(at)) < off, nil
}
