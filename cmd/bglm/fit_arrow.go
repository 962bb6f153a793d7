package main

import (
	"errors"
	"fmt"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/job"
)

// byArrow fits without SQL.
func (c *fitCommand) byArrow(s *duck.Session) (*fitstore.Fits, int, error) {
	a, err := job.NewArrow(s, c.data(), c.model())
	if err != nil {
		return nil, 0, err
	}
	if c.Prior != "" {
		if a.Grouped() {
			return nil, 0, cli.Usage(errors.New("--engine arrow takes no --prior with --group"))
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
	f, err := fitstore.Insert(s, "fits", g, c.started(a.Meta))
	return f, len(a.Files), err
}

func (c *fitCommand) continueArrow(s *duck.Session, a *job.Arrow) error {
	prior, err := c.loadPrior(s)
	if err != nil {
		return err
	}
	if err := prior.Continues(nil); err != nil {
		return err
	}
	from, err := prior.Fetch()
	if err != nil {
		return err
	}
	return a.Continue(from)
}
