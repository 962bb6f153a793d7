package ep

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/bglm/bglm/kernels"
)

// search is one call of Fit: the time it began and what it found out.
type search struct {
	start  time.Time
	kernel Kernel
	notes  []string
}

func (s *search) late(o *kernels.Options) bool {
	return o.TimeLimit > 0 && time.Since(s.start) > o.TimeLimit
}

func (s *search) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *search) fit(p *kernels.Problem) (*Result, error) {
	e, err := newEngine(p, s.kernel)
	if err != nil {
		return nil, err
	}
	out, err := s.iterate(e, &p.Options, true)
	if err != nil {
		return nil, err
	}
	return s.result(p, e, out)
}

func (s *search) result(p *kernels.Problem, e engine, out outcome) (*Result, error) {
	post, err := e.posterior()
	if err != nil {
		return nil, err
	}
	for j := range p.P {
		if !finite(post.Mean[j]) || !(post.Var[j] > 0) || !finite(post.Var[j]) {
			return nil, fmt.Errorf("ep: feature %q has posterior mean %v and variance %v; scale the features", p.Name(j), post.Mean[j], post.Var[j])
		}
	}
	f := p.Fit("ep", post, out.logZ)
	f.Iterations, f.Converged = out.sweeps, out.converged
	if t := out.status(&p.Options, p.N); t != "" {
		s.notes = append([]string{t}, s.notes...)
	}
	if len(s.notes) > 0 {
		f.Status = strings.Join(s.notes, "; ")
	}
	return &Result{
		Fit: f, LOO: e.loo(), Sites: e.sites(), Sweeps: out.sweeps, Skipped: out.skipped, Clamped: out.clamped,
		Damping: out.damping, Noise: p.Noise, p: p, e: e, mean: post.Mean, variance: post.Var,
	}, nil
}

var _ = math.Inf
