package ep

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

const (
	// At first the rows that annealed uses count as coolest rows in all, at each step warmer times
	// as much. Each step takes up to warming sweeps, which make only the share gently of a site's
	// change: otherwise the order of the rows would choose the fixed point here, too.
	coolest, warmer, warming = 1, 2, 6
	gently                   = 0.3
	// witnesses is about how many rows it uses: enough to locate the posterior.
	witnesses = 2048
	// apart is the least difference in nats between two distinct fixed points.
	apart = 1e-3
)

// annealed runs EP on p from other sites than those to which the order of the rows leads: fixed
// points at which rows count little, as powers of their likelihoods, and then more and more. If the
// likelihood is not log-concave the sites have several fixed points, and the first rows choose one;
// rows that count little choose together.
func (s *search) annealed(p *kernels.Problem) (engine, outcome, error) {
	stride := max(1, p.N/witnesses)
	exponent := 1.0
	for exponent*float64(p.N/stride) > coolest {
		exponent /= warmer
	}
	under := func(exponent float64) *kernels.Problem {
		q := with(p, func(*kernels.Model) {})
		q.Weight = memory.Floats(p.N)
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
		if _, err := s.iterate(e, &few, 0, false); err != nil {
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
	out, err := s.iterate(e, &p.Options, s.earlier.Log(p.Lik), false)
	return e, out, err
}

// bestFixedPoint returns the better one of the run that ended with out and an annealed run, if the
// likelihood may have several fixed points; moved reports whether it is the annealed one. Errors of
// the annealed run, and lack of memory for it, leave the first run as it is.
func (s *search) bestFixedPoint(p *kernels.Problem, e engine, out outcome) (_ engine, _ outcome, moved bool) {
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
	case err != nil || !to.usable():
	case !out.usable():
		return other, to, true
	case to.logZ > out.logZ+apart:
		s.rivals(to.logZ, out.logZ)
		return other, to, true
	case to.logZ < out.logZ-apart:
		s.rivals(out.logZ, to.logZ)
	}
	return e, out, false
}

// rivals notes that there is another fixed point.
func (s *search) rivals(log, other float64) {
	if far := log - other; far < 30 && !math.IsNaN(far) {
		s.note("the sites have another fixed point, with a log evidence lower by %.2g: the posterior may have a mode there", far)
	}
}
