package main

import (
	"errors"
	"fmt"

	"github.com/bglm/bglm/cmd/internal/job"
)

// byArrow fits without SQL.
func (c *fitCommand) byArrow(s *session) (*fits, int, error) {
	a, err := job.NewArrow(s.Session, c.data(), c.model())
	if err != nil {
		return nil, 0, err
	}
	if c.Prior != "" {
		if a.Grouped() {
			return nil, 0, usageError{errors.New("--engine arrow takes no --prior with --group")}
		}
		if err := c.continueArrow(s, a); err != nil {
			return nil, 0, fmt.Errorf("--prior %s: %w", c.Prior, err)
		}
	}
	g, err := a.Fit()
	if err != nil {
		return nil, 0, err
	}
	if g.Keys != nil {
		defer g.Keys.Release()
	}
	f, err := s.insert("fits", g, a.Meta)
	return f, len(a.Files), err
}

func (c *fitCommand) continueArrow(s *session, a *job.Arrow) error {
	prior, err := s.load("prior_fits", c.Prior, nil)
	if err != nil {
		return err
	}
	if err := samePrior(prior, nil); err != nil {
		return err
	}
	from, err := s.fetch(prior)
	if err != nil {
		return err
	}
	return a.Continue(from)
}
