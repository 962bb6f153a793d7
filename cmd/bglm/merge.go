package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stop"
)

type mergeCommand struct {
	outputFlags
	csvFlags
	Prior string   `placeholder:"FILE" help:"The fit that all parts started from; without it their default prior."`
	Out   string   `placeholder:"FILE" help:"Where the belief table goes: .parquet, .arrow, .csv, .json or .duckdb. Without it: CSV on the standard output."`
	Files []string `arg:"" name:"file" help:"Belief tables of parts of the rows: at least two."`
}

// Help is the text below the usage line.
func (*mergeCommand) Help() string {
	return `Multiplies posteriors fitted to different rows by the same model, the common prior counted once:
precisions add up, less the prior's for all but one. Exact for Gaussian responses with full
covariances; to the accuracy of the parts' Gaussians for others.

Example:

  bglm merge monday.parquet tuesday.parquet --out week.parquet`
}

// Run reads, merges and writes.
func (c *mergeCommand) Run(e *env) error {
	began := time.Now()
	if len(c.Files) < 2 {
		return usageError{errors.New("give at least two belief tables")}
	}
	if c.Out == "" && c.JSON {
		return usageError{errors.New("--json prints the summary on the standard output, where the beliefs would go: give --out FILE")}
	}
	if err := errors.Join(checkOut(c.Out), c.csvFlags.check(c.Out)); err != nil {
		return err
	}
	s, err := openSession(e, c.Quiet)
	if err != nil {
		return err
	}
	defer s.close()
	s.csvSafe = c.CSVSafe
	f, err := c.merge(s)
	if err != nil {
		return err
	}
	if err := s.deliver(f, c.Out); err != nil {
		return err
	}
	sum := &summary{Command: "merge", Files: len(c.Files), Out: c.Out}
	if err := s.summarise(f, sum); err != nil {
		return err
	}
	sum.took(began)
	w := e.stdout
	if c.Out == "" {
		w = e.stderr
	}
	return c.print(e, w, sum)
}

func (c *mergeCommand) merge(s *session) (*fits, error) {
	var parts []*fits
	for i, name := range c.Files {
		f, err := s.load(fmt.Sprintf("part%d", i), name, nil)
		if err != nil {
			return nil, err
		}
		if !f.isFit {
			return nil, fmt.Errorf("%s: its fit is not one that can be merged", name)
		}
		if i > 0 {
			if a, b := strings.Join(names(parts[0].group), ", "), strings.Join(names(f.group), ", "); !strings.EqualFold(a, b) {
				return nil, fmt.Errorf("%s has the groups (%s), %s has (%s)", name, b, c.Files[0], a)
			}
			for _, key := range []string{"formula", "y", "x"} {
				if a, b := parts[0].job(key), f.job(key); a != b {
					return nil, fmt.Errorf("%s was fitted with the %s %q, %s with %q; only parts of one job can be merged", name, key, b, c.Files[0], a)
				}
			}
		}
		parts = append(parts, f)
	}
	var prior *fits
	if c.Prior != "" {
		var err error
		if prior, err = s.load("prior_fits", c.Prior, nil); err != nil {
			return nil, fmt.Errorf("--prior: %w", err)
		}
	}
	if len(parts[0].group) == 0 {
		return c.mergePlain(s, parts, prior)
	}
	keys := names(parts[0].group)
	var union []string
	for _, f := range parts {
		union = append(union, "SELECT "+quoteNames(keys)+", fit FROM "+f.table)
	}
	q := "CREATE TEMP TABLE fits AS SELECT " + quoteNames(keys) + ", bglm_merge(fit) AS fit FROM (" + strings.Join(union, " UNION ALL ") + ") GROUP BY ALL"
	if prior != nil {
		if err := samePrior(prior, keys); err != nil {
			return nil, fmt.Errorf("--prior %s: %w", c.Prior, err)
		}
		q = "CREATE TEMP TABLE fits AS SELECT " + quote.NamesOf("q", keys) + ", CASE WHEN any_value(p.fit.n) IS NULL THEN bglm_merge(q.fit) ELSE bglm_merge(q.fit, p.fit) END AS fit FROM (" +
			strings.Join(union, " UNION ALL ") + ") q LEFT JOIN prior_fits p ON " + job.Matching(keys, "q", "p") + " GROUP BY ALL"
	}
	if err := s.exec(q); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(c.Files, ", "), err)
	}
	return s.look("fits", parts[0].meta)
}

// mergePlain merges in the order of the files, whatever the form of the
// covariances.
func (c *mergeCommand) mergePlain(s *session, parts []*fits, prior *fits) (*fits, error) {
	var all []*kernels.Fit
	for i, p := range parts {
		f, err := s.fetch(p)
		if err != nil {
			return nil, named(c.Files[i], err)
		}
		all = append(all, f)
	}
	var from *kernels.Fit
	if prior != nil {
		var err error
		if from, err = s.fetch(prior); err != nil {
			return nil, named(c.Prior, err)
		}
	}
	f, err := kernels.MergeFits(s.ctx, all, from)
	if errors.Is(err, stop.ErrInterrupted) {
		return nil, s.failed(err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(c.Files, ", "), err)
	}
	return s.insert("fits", &arrowio.Groups{Fits: []*kernels.Fit{f}}, parts[0].meta)
}
