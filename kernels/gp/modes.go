package gp

import (
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// highest moves to the best mode that can be found, and notes what to report about the others.
func (s *search) highest() error {
	s.note = ""
	l, bumpy := s.Lik.(lik.Bumpy)
	if !bumpy || s.Status != "" {
		return nil
	}
	h := &modeClimber{search: s, done: true}
	r, err := mode.Highest(h, l)
	if err == nil {
		s.note = r.Note()
		_, err = h.LogEvidence()
	}
	return err
}

// modeClimber makes a search a mode.Climber.
type modeClimber struct {
	*search
	done bool // finish was called at the present point
}

func (h *modeClimber) Climb(l lik.Likelihood, only []bool) error {
	s := h.search
	own := s.Lik
	h.done = false
	s.Status = ""
	s.Lik, s.Only = l, only
	s.move()
	err := errOverflow
	if special.Finite(s.now.LogLik) {
		err = s.mode()
	}
	if s.Lik, s.Only = own, nil; l != own || only != nil {
		s.move()
	}
	return err
}

func (h *modeClimber) At() []float64 { return h.alpha }

func (h *modeClimber) Go(alpha []float64) {
	h.done = false
	if alpha == nil {
		clear(h.alpha)
	} else {
		copy(h.alpha, alpha)
	}
	h.move()
}

func (h *modeClimber) Predictor() []float64 { return h.now.Eta }

func (h *modeClimber) Late() bool { return h.late() }

func (h *modeClimber) LogEvidence() (float64, error) {
	if !h.done {
		if err := h.finish(); err != nil {
			return 0, err
		}
		h.done = true
	}
	return h.logEvidence, nil
}
