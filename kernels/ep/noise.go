package ep

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
)

// drift is a search for the process noise, and for the dispersion if that is learnt too: noise of
// the rows and drift of the weights explain the same variation, so neither is found at a guess of
// the other.
type drift struct {
	*search
	p     *kernels.Problem
	unit  float64 // the rate of 10^0
	free  bool    // whether the dispersion is learnt
	tried []float64
}

func (d *drift) rate(x float64) float64 { return d.unit * math.Pow(10, x) }

// at returns the problem with process noise q and the logarithm of a dispersion.
func (d *drift) at(q, dispersion float64) (*kernels.Problem, error) {
	p := with(d.p, func(m *kernels.Model) { m.Noise, m.NoiseBy = q, nil })
	if !d.free {
		return p, nil
	}
	return dispersed(p, math.Exp(dispersion))
}

func (d *drift) evidence(q, dispersion float64) (float64, error) {
	if !slices.Contains(d.tried, q) {
		d.tried = append(d.tried, q)
	}
	p, err := d.at(q, dispersion)
	if err != nil {
		return 0, err
	}
	return d.innovations(p)
}

// chooseNoise returns p with the process noise of highest innovation evidence, that of the first
// sweep: 0, or a rate from a grid of ten decades below the mean prior variance per mean interval
// between rows, extended if its edge is the best, and refined from there.
func (s *search) chooseNoise(p *kernels.Problem) (*kernels.Problem, error) {
	d := &drift{search: s, p: p}
	if _, ok := p.Lik.(lik.Dispersed); ok && p.Options.AutoDispersion {
		d.free = true
	}
	alone := d.guess // the logarithm of the dispersion without drift
	still, err := d.evidence(0, alone)
	if err != nil {
		return nil, err
	}
	if p.P == 0 || p.N < 2 {
		return d.at(0, alone)
	}
	scale, span := 0.0, 1.0
	for _, v := range p.PriorVar {
		scale += v / float64(p.P)
	}
	if p.Time[p.N-1] > p.Time[0] {
		span = (p.Time[p.N-1] - p.Time[0]) / float64(p.N-1)
	}
	d.unit = scale / span
	low, high, best, top, err := d.grid(still)
	if err != nil {
		return nil, err
	}
	lo, hi, starts := []float64{best - 1}, []float64{best + 1}, [][]float64{{best}}
	if d.free {
		only := func(x []float64) (float64, error) { return d.evidence(0, x[0]) }
		x, z, err := d.climb(only, []float64{alone - farthest}, []float64{alone + farthest}, [][]float64{{alone}})
		if err != nil {
			return nil, err
		}
		alone, still = x[0], max(still, z)
		lo, hi = []float64{low - 1, d.guess - farthest}, []float64{high + 1, d.guess + farthest}
		starts = [][]float64{{best, d.guess}}
		for k := low; k <= high; k++ {
			for _, v := range []float64{alone, d.guess - 3, d.guess - 6} {
				starts = append(starts, []float64{k, v})
			}
		}
	}
	x, z, err := d.climb(func(x []float64) (float64, error) { return d.evidence(d.rate(x[0]), x[len(x)-1]) }, lo, hi, starts)
	if err != nil {
		return nil, err
	}
	q := 0.0
	if max(top, z) > still {
		q, alone = d.rate(x[0]), x[len(x)-1]
	}
	s.notes = append(s.notes, kernels.NoiseStatus(q, d.tried))
	return d.at(q, alone)
}

// grid returns the best of the decades at the present dispersion, and their range.
func (d *drift) grid(still float64) (low, high, best, top float64, err error) {
	const decades = 10
	top = math.Inf(-1)
	try := func(k float64) error {
		z, err := d.evidence(d.rate(k), d.guess)
		if err == nil && z > top {
			best, top = k, z
		}
		return err
	}
	low, high = 1-decades, 0
	for k := high; k >= low && err == nil && !d.late(); k-- {
		err = try(k)
	}
	for k := 0; k < decades && err == nil && !d.late(); k++ { // beyond the edges while they are best
		next := best - 1
		if next >= low {
			next = high + 1
		}
		if inside := best != low && best != high; inside || !(top > still) {
			break
		}
		low, high = min(low, next), max(high, next)
		err = try(next)
	}
	return low, high, best, top, err
}

// climb maximises value from the best of starts.
func (d *drift) climb(value func(x []float64) (float64, error), lo, hi []float64, starts [][]float64) (x []float64, top float64, err error) {
	top = math.Inf(-1)
	f := &mode.Function{Lo: lo, Hi: hi, Step: 0.02, Flat: 1e-3, Value: func(x []float64) (float64, bool, error) {
		z, err := value(x)
		if err == nil {
			top = max(top, z)
		}
		return z, err == nil, err
	}}
	x, _, err = mode.Search{Lo: lo, Hi: hi, Late: d.late, Stretch: true, Grid: true}.From(f, starts)
	return x, top, err
}
