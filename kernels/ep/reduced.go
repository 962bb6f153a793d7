package ep

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lowrank"
)

// reduced is full EP in the coordinates of a low-rank likelihood.
type reduced struct {
	*full
	red  *lowrank.Reduced
	of   *kernels.Problem
	held int // directions that kept the prior's variance
}

func newReduced(p *kernels.Problem) (*reduced, error) {
	if p.Noise > 0 || p.NoiseBy != nil {
		return nil, fmt.Errorf("covariance = 'lowrank' with process_noise is not used by ep; allowed: diagonal, full")
	}
	red, err := lowrank.Reduce(p)
	if err != nil {
		return nil, err
	}
	f, err := newFull(red.Problem())
	if err != nil {
		return nil, err
	}
	return &reduced{full: f, red: red, of: p}, nil
}

func (r *reduced) reset(p *kernels.Problem) error {
	if p.Normal != r.of.Normal {
		red, err := lowrank.Reduce(p)
		if err != nil {
			return err
		}
		r.red = red
	}
	r.of = p
	q := r.red.Problem()
	q.Model, q.Weight = p.Model, p.Weight // rows may count less than in the reduced problem
	return r.full.reset(q)
}

func (r *reduced) posterior() (*gauss.Normal, error) {
	u, err := r.full.posterior()
	if err != nil {
		return nil, err
	}
	w, held, err := r.red.Lift(u)
	r.held = held
	return w, err
}

func (r *reduced) initial(dev, variance []float64) error {
	g, err := r.posterior()
	if err != nil {
		return err
	}
	for j, m := range g.Mean {
		dev[j], variance[j] = m-r.of.PriorMean[j], g.Var[j]
	}
	return nil
}
