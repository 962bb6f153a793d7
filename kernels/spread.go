package kernels

import (
	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// Spread computes variances of predictors under a covariance, for which the factor of an
// arrowhead's block is laid out only once. After Prepare it serves concurrent goroutines, each with
// a SpreadScratch.
type Spread struct {
	c     *Covariance
	arrow arrowhead.Spread
	ready bool
}

// SpreadScratch is scratch memory for variances of predictors.
type SpreadScratch struct {
	arrow arrowhead.SpreadScratch
	part  []float64
}

// Under makes s the Spread of c, which must not change while s is in use.
func (s *Spread) Under(c *Covariance) { s.c, s.ready = c, false }

// Prepare precomputes what pays for many predictors; it has to be repeated after Under.
//
// Cost: that of arrowhead.Layout.NewSpread for an arrowhead, nothing for others.
func (s *Spread) Prepare() {
	if s.c.Form == gauss.Arrowhead {
		l := s.c.Arrow()
		s.arrow = *l.NewSpread((len(l.Values)-arrowhead.Want(l.D, 0))/(l.D+3), len(l.Values), dense.New)
	}
	s.ready = true
}

// Variance is Covariance.Variance, after Prepare up to rounding.
func (s *Spread) Variance(at []int, x []float64, r *SpreadScratch) float64 {
	if s.c.Form != gauss.Arrowhead {
		return s.c.Variance(at, x, &r.part)
	}
	if !s.ready {
		s.arrow.Pack(s.c.Arrow())
		s.ready = true
	}
	return s.arrow.Variance(at, x, &r.arrow)
}
