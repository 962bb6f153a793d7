package ep

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

const (
	// At first all rows that annealed looks at count as coolest rows, at each step warmer times as
	// much, for up to warming sweeps, which make the share gently of a site's change: else they
	// would choose by the order of the rows, too.
	coolest, warmer, warming = 1, 2, 6
	gently                   = 0.3
	// witnesses is how many rows it looks at, about: where the posterior is they know.
	witnesses = 2048
	// apart is how many nats two fixed points lie apart that are not the same one.
	apart = 1e-3
)

// annealed runs EP on p from other sites than those that the order of the rows leads to: those of
// fixed points at which rows count little, as exponents of their likelihoods, and then more and
// more. Where the likelihood is not log-concave sites have several fixed points, and the first rows
// choose one; rows that count little choose together.
func (s *search) annealed(p *kernels.Problem) (engine, outcome, error) {
	stride := max(1, p.N/witnesses)
	exponent := 1.0
	for exponent*float64(p.N/stride) > coolest {
		exponent /= warmer
	}
	under := func(exponent float64) *kernels.Problem {
		q := with(p, func(*kernels.Model) {})
		q.Weight = make([]float64, p.N)
		for i := 0; i < p.N; i += stride {
			if q.Weight[i] = exponent; p.Weight != nil {
				q.Weight[i] *= p.Weight[i]
			}
		}
		return q
	}
	few := p.Options
	few.MaxIter, few.Tol, few.Damping = warming, looseTol, gently
	e, err := newEngine(under(exponent), s.kernel)
	if err != nil {
		return nil, outcome{}, err
	}
	for !s.late() {
		if _, err := s.iterate(e, &few, false); err != nil {
			return nil, outcome{}, err
		}
		if exponent == 1 {
			break
		}
		exponent *= warmer
		for i := range e.sites() {
			e.sites()[i].Tau *= warmer
			e.sites()[i].Nu *= warmer
		}
		if err := e.reset(under(exponent)); err != nil {
			return nil, outcome{}, err
		}
	}
	if err := e.reset(p); err != nil {
		return nil, outcome{}, err
	}
	out, err := s.iterate(e, &p.Options, false)
	return e, out, err
}

// highest is the better one of a run that ended with out and an annealed one, where the likelihood
// may have more than one fixed point; moved says that it is the annealed one. What fails there, or
// has no memory left, is no concern of the first run.
func (s *search) highest(p *kernels.Problem, e engine, out outcome) (_ engine, _ outcome, moved bool) {
	if _, ok := p.Lik.(lik.Bumpy); !ok || p.N < 2 || p.Options.MaxIter == 1 || s.late() {
		return e, out, false
	}
	g, err := reserve(p, false)
	if err != nil {
		return e, out, false
	}
	defer g.Release()
	other, to, err := s.annealed(p)
	switch {
	case err != nil || !to.sound():
	case !out.sound():
		return other, to, true
	case to.logZ > out.logZ+apart:
		s.rivals(to.logZ, out.logZ)
		return other, to, true
	case to.logZ < out.logZ-apart:
		s.rivals(out.logZ, to.logZ)
	}
	return e, out, false
}

// rivals says that there is another fixed point.
func (s *search) rivals(log, other float64) {
	if far := log - other; far < 30 && !math.IsNaN(far) {
		s.note("the sites have another fixed point, with a log evidence lower by %.2g: the posterior may have a mode there", far)
	}
}
