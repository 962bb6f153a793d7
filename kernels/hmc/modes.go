package hmc

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// peak is a mode at which chains may start: its location, its Laplace approximation, and its share
// of the evidence of all modes.
type peak struct {
	z      []float64
	metric *metric
	share  float64
	begun  int // number of chains that started here
	near   int // number of draws to which no other mode is nearer
}

// findPeaks searches for further modes, which a likelihood that is not log-concave may cause, and
// sets the centre to the best. Chains that all start uphill of the prior mean would agree on that
// mode alone.
func (s *sampling) findPeaks(full bool) {
	l, bumpy := s.lik.(lik.Bumpy)
	if !bumpy || s.stop.Nearly() {
		return
	}
	c := newClimber(s, full)
	r, err := mode.Highest(c, l)
	if err != nil || r.Found < 2 {
		return
	}
	sum := 0.0
	for _, p := range r.Modes {
		if p.LogEvidence < r.Best-mode.Notable {
			continue
		}
		c.Go(p.At)
		share := math.Exp(p.LogEvidence - r.Best)
		sum += share
		s.peaks = append(s.peaks, &peak{z: slices.Clone(p.At), metric: c.laplace(full), share: share})
	}
	slices.SortStableFunc(s.peaks, func(a, b *peak) int {
		switch {
		case a.share > b.share:
			return -1
		case a.share < b.share:
			return 1
		}
		return 0
	})
	for _, p := range s.peaks {
		p.share /= sum
	}
	copy(s.centre, s.peaks[0].z)
	s.laplace = s.peaks[0].metric
	if len(s.peaks) < 2 {
		s.peaks = nil
	}
}

// startOf returns the mode at which chain k starts: for each as many chains as its share implies.
func (s *sampling) startOf(k int) *peak {
	if len(s.peaks) == 0 {
		return nil
	}
	at := (float64(k) + 0.5) / float64(s.chains)
	for _, p := range s.peaks {
		if at -= p.share; at < 0 {
			return p
		}
	}
	return s.peaks[0]
}

// countByMode counts the draws by their nearest mode.
func (s *sampling) countByMode() {
	if len(s.peaks) == 0 {
		return
	}
	for k := range s.made {
		s.startOf(k).begun++
	}
	for _, d := range s.draws {
		for i := range d.Rows {
			z, best, least := d.Row(i), s.peaks[0], math.Inf(1)
			for _, p := range s.peaks {
				apart := 0.0
				for j, v := range z {
					apart += (v - p.z[j]) * (v - p.z[j])
				}
				if apart < least {
					best, least = p, apart
				}
			}
			best.near++
		}
	}
}

// modesNote returns the status note about several modes; missed is the total share of those without
// draws.
func (s *sampling) modesNote() (note string, missed float64) {
	if len(s.peaks) == 0 {
		return "", 0
	}
	for _, p := range s.peaks {
		if p.near == 0 {
			missed += p.share
		}
	}
	note = fmt.Sprintf("; %d modes found: %d of %d chains began at the best one, which has %.3g %% of their evidence; R-hat tells whether chains go from one to another",
		len(s.peaks), s.peaks[0].begun, s.chains, 100*s.peaks[0].share)
	if missed > 0 {
		note += fmt.Sprintf("; no draw is near modes that have %.2g %% of it", 100*missed)
	}
	return note, missed
}

// climber makes a view a mode.Climber.
type climber struct {
	*view
	all  []lik.Obs
	here []float64
	grad []float64
	full bool
}

func newClimber(s *sampling, full bool) *climber {
	own := *s.model
	c := &climber{all: own.obs, here: slices.Clone(s.centre), grad: memory.Floats(s.dim()), full: full}
	one := &metric{scale: memory.Floats(s.dim())}
	c.view = own.view(one, c.here)
	c.density(c.here, c.grad)
	return c
}

var errUphill = errors.New("hmc: no way uphill")

func (c *climber) Climb(l lik.Likelihood, only []bool) error {
	was := c.lik
	c.lik = l
	if only != nil {
		c.obs = slices.Clone(c.all)
		for i := range c.obs {
			if !only[i] {
				c.obs[i].Weight = 0
			}
		}
	}
	_, ok := c.mode(c.here, c.full, c.stop)
	c.lik, c.obs = was, c.all
	if log := c.density(c.here, c.grad); !ok || !special.Finite(log) {
		return errUphill
	}
	return nil
}

func (c *climber) At() []float64 { return c.here }

func (c *climber) Go(z []float64) {
	if z == nil {
		clear(c.here)
	} else {
		copy(c.here, z)
	}
	c.density(c.here, c.grad)
}

func (c *climber) Predictor() []float64 { return c.s }
func (c *climber) Obs(i int) lik.Obs    { return c.all[i] }
func (c *climber) Late() bool           { return c.stop.Nearly() }

// LogEvidence uses the curvature, with a diagonal metric its diagonal; rows of negative curvature
// count as flat.
func (c *climber) LogEvidence() (float64, error) {
	p := c.dim()
	log := c.density(c.here, c.grad) + 0.5*float64(p)*math.Log(2*math.Pi)
	curved := c.curvature()
	if c.full {
		h := dense.NewUnder(c.view.stop, p, p)
		c.hessian(h, curved)
		if err := dense.Cholesky(h); err != nil {
			return 0, err
		}
		log -= 0.5 * dense.LogDet(h)
	} else {
		squares, prior := memory.Floats(p), c.root.Variances()
		c.Squares(squares, curved)
		for j, x := range squares {
			log -= 0.5 * math.Log1p(x*prior[j])
		}
	}
	c.density(c.here, c.grad)
	return log, nil
}
