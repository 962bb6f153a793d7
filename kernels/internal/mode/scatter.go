package mode

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/special"
)

const (
	// Scattered is how many points Scatter draws if so many are affordable; their effective number
	// must be at least one in leastScattered, and at least 40.
	Scattered, leastScattered = 3000, 10
	// latticed is the largest number of parameters for which a lattice is tried.
	latticed = 4
	// scatterFreedom is the degrees of freedom of the Student's t of a draw, scatterFall by how many
	// nats its density falls in two scales along an axis.
	scatterFreedom = 5
)

var (
	scatterLaw  = distuv.StudentsT{Sigma: 1, Nu: scatterFreedom}
	scatterFall = 0.5 * (scatterFreedom + 1) * math.Log1p(4./scatterFreedom) // in two scales
)

// Scatter is Grid for parameters whose lattice would have too many points. Its points are those of
// a low-discrepancy sequence, mapped to the product along the axes of heavier-tailed distributions
// with two scales, one on each side of the mode. use is called with the log density less that of
// the draw. It returns false if the effective number of points is too low, time is up, or many have
// no evidence.
//
// Sources: [halton1960] for the points; importance sampling, [gelman2013], section 10.4.
func (q *Peak) Scatter(points int, use func(theta []float64, log float64) error) (bool, error) {
	k, primes := len(q.x), []int{2, 3, 5, 7, 11, 13, 17, 19}
	if k > len(primes) {
		return false, nil
	}
	scales, err := q.scales()
	if err != nil || scales == nil {
		return false, err
	}
	sum, squares, lost := 0.0, 0.0, 0
	for n := range points {
		if q.late() {
			return false, nil
		}
		y, drawn := slices.Clone(q.x), 0.0
		for a := range k {
			low, high := scales[a][0], scales[a][1]
			u := halton(n+1, primes[a])
			share, side, scale := low/(low+high), -1.0, low
			if u < share {
				u = (share - u) / share
			} else {
				u, side, scale = (u-share)/(1-share), 1, high
			}
			z := scatterLaw.Quantile(0.5 + 0.5*u)
			drawn += scatterLaw.LogProb(z) + math.Log(2/(low+high))
			dense.Axpy(side*scale*z, q.axes.Row(a), y)
		}
		out := false
		for i := range y {
			out = out || !(y[i] >= q.lo[i] && y[i] <= q.hi[i])
		}
		if out {
			continue
		}
		log, ok, err := q.p.Try(y)
		if err != nil || !ok || !special.Finite(log) || log > q.log+overPeak {
			if lost++; 50*lost > points {
				return false, nil
			}
			continue
		}
		if log-q.log < -40 { // negligible, however rarely it is drawn
			continue
		}
		w := math.Exp(log - q.log - drawn)
		sum, squares = sum+w, squares+w*w
		if err := use(q.p.theta, log-drawn); err != nil {
			return false, err
		}
	}
	return sum*sum >= max(40, float64(points)/leastScattered)*squares, nil
}

// scales returns, for each axis, the scales below and above the mode at which the density falls as
// that of the distribution does in one scale; nil if time is up.
func (q *Peak) scales() ([][2]float64, error) {
	out := make([][2]float64, len(q.x))
	for a := range out {
		for k, sign := range []float64{-1, 1} {
			fall := func(z float64) (float64, error) {
				y := slices.Clone(q.x)
				dense.Axpy(sign*z, q.axes.Row(a), y)
				for i, v := range y {
					if v < q.lo[i] || v > q.hi[i] {
						return math.Inf(1), nil
					}
				}
				log, ok, err := q.p.Try(y)
				if err != nil || !ok || !special.Finite(log) {
					return math.Inf(1), nil
				}
				return q.log - log, nil
			}
			lo, hi := 0.0, 1.0
			for {
				if q.late() {
					return nil, nil
				}
				f, err := fall(hi)
				if err != nil {
					return nil, err
				}
				if f >= scatterFall || hi > 64 {
					break
				}
				lo, hi = hi, 2*hi
			}
			for range 5 {
				z := 0.5 * (lo + hi)
				if f, err := fall(z); err != nil {
					return nil, err
				} else if f < scatterFall {
					lo = z
				} else {
					hi = z
				}
			}
			out[a][k] = max(0.5*(0.5*(lo+hi)), 0.1) // two scales
		}
	}
	return out, nil
}

// halton returns the n-th point of van der Corput's sequence to the given base.
func halton(n, base int) (x float64) {
	for f := 1 / float64(base); n > 0; f /= float64(base) {
		x += f * float64(n%base)
		n /= base
	}
	return x
}
