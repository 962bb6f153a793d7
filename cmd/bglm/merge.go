package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/stop"
)

type mergeCommand struct {
	outputFlags
	csvFlags
	Prior  string   `placeholder:"FILE" help:"The fit that all parts started from (default: their default prior)."`
	Out    string   `placeholder:"FILE" help:"File for the belief table: .parquet, .arrow, .csv, .json or .duckdb (default: CSV on the standard output)."`
	Option []string `short:"o" sep:"none" placeholder:"KEY=VALUE" help:"family, link and so on, if the belief tables do not have them."`
	Files  []string `arg:"" name:"file" help:"Belief tables of parts of the rows, or files of bglm fit --partial; at least two."`

	twice   bool   // it has been reported that a file is given twice
	assumed string // the prior of tables that do not say it, "" if they do
}

// Help is the text below the usage line.
func (*mergeCommand) Help() string {
	return `Multiplies the posteriors of fits of the same model to different rows, and counts their common prior
once: precisions add up, less the prior's for all parts but one. The result is exact for Gaussian
responses with full covariances; for others it is as accurate as the parts' Gaussians.

Files of bglm fit --partial are added up exactly instead, into one file for bglm finish.

Example:

  bglm merge monday.parquet tuesday.parquet --out week.parquet`
}

// Run reads, merges and writes.
func (c *mergeCommand) Run(e *cli.Env) error {
	began := time.Now()
	if len(c.Files) < 2 {
		return cli.Usage(errors.New("give at least two belief tables"))
	}
	if err := c.checkOut(c.Out, &c.csvFlags); err != nil {
		return err
	}
	if twice := files.Twice(c.Files); twice != "" {
		fmt.Fprintf(e.Stderr, "bglm merge: %s is there twice: its rows count twice\n", twice)
		c.twice = true
	}
	s, err := duck.Open(e, c.Quiet)
	if err != nil {
		return err
	}
	defer s.Close()
	s.CSVSafe = c.CSVSafe
	if fitstore.IsPart(s, c.Files[0]) {
		return c.mergeParts(s)
	}
	f, err := c.merge(s)
	if err != nil {
		return err
	}
	return c.finish(s, f, &summary{Command: "merge", Files: len(c.Files), Out: c.Out, assumed: c.assumed}, began)
}

// mergeParts merges passes over parts of the rows.
func (c *mergeCommand) mergeParts(s *duck.Session) error {
	if c.Prior != "" || files.KindOf(c.Out) != "parquet" {
		return cli.Usage(errors.New("passes of bglm fit --partial merge into a Parquet file: give --out FILE.parquet, and no --prior"))
	}
	p, err := fitstore.MergeParts(s, c.Files)
	if err != nil {
		return err
	}
	if err := p.SavePass(s, c.Out); err != nil {
		return err
	}
	if !c.Quiet {
		fmt.Fprintf(s.Env.Stderr, "merged %s; wrote %s\n", some(int64(len(c.Files)), "file"), c.Out)
	}
	return nil
}

func (c *mergeCommand) merge(s *duck.Session) (*fitstore.Fits, error) {
	opts, err := job.ReadOptions(s, c.Option)
	if err != nil {
		return nil, err
	}
	var parts []*fitstore.Fits
	for i, name := range c.Files {
		f, err := fitstore.Load(s, fmt.Sprintf("part%d", i), name, opts)
		if err != nil {
			return nil, err
		}
		if err := f.ConflictError(opts); err != nil {
			return nil, files.Named(name, err)
		}
		if !f.IsFit {
			return nil, fmt.Errorf("%s: its fit is not one that can be merged", name)
		}
		if own := f.Job("option.priors"); own != "" && c.Prior == "" { // they are no part of a FIT, and would count in every part
			return nil, cli.Usage(fmt.Errorf("%s was fitted with priors of single features, %s, which count once: give --prior, a fit or table of beliefs that has them", name, own))
		}
		if i > 0 {
			if a, b := strings.Join(duck.Names(parts[0].Group), ", "), strings.Join(duck.Names(f.Group), ", "); !strings.EqualFold(a, b) {
				return nil, fmt.Errorf("%s has the groups (%s), %s has (%s)", name, b, c.Files[0], a)
			}
			for _, key := range []string{"formula", "y", "x"} {
				if a, b := parts[0].Job(key), f.Job(key); a != b {
					return nil, fmt.Errorf("%s was fitted with the %s %q, %s with %q; only parts of one job can be merged", name, key, b, c.Files[0], a)
				}
			}
		}
		parts = append(parts, f)
	}
	var prior *fitstore.Fits
	if c.Prior != "" {
		if prior, err = fitstore.Load(s, "prior_fits", c.Prior, opts); err != nil {
			return nil, fmt.Errorf("--prior: %w", err)
		}
	}
	if c.assumed, err = c.assumedPrior(parts, opts); err != nil {
		return nil, err
	}
	meta := c.learntBy(s, parts)
	if len(parts[0].Group) == 0 {
		return c.mergePlain(s, parts, prior, meta)
	}
	keys := duck.Names(parts[0].Group)
	var union []string
	for _, f := range parts {
		union = append(union, "SELECT "+quote.Names(keys)+", fit FROM "+f.Table)
	}
	q := "CREATE TEMP TABLE fits AS SELECT " + quote.Names(keys) + ", bglm_merge(fit) AS fit FROM (" + strings.Join(union, " UNION ALL ") + ") GROUP BY ALL"
	if prior != nil {
		if err := prior.Continues(keys); err != nil {
			return nil, fmt.Errorf("--prior %s: %w", c.Prior, err)
		}
		q = "CREATE TEMP TABLE fits AS SELECT " + quote.NamesOf("q", keys) + ", CASE WHEN any_value(p.fit.n) IS NULL THEN bglm_merge(q.fit) ELSE bglm_merge(q.fit, p.fit) END AS fit FROM (" +
			strings.Join(union, " UNION ALL ") + ") q LEFT JOIN prior_fits p ON " + job.Matching(keys, "q", "p") + " GROUP BY ALL"
	}
	if err := s.Exec(q); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(c.Files, ", "), err)
	}
	return fitstore.Open(s, "fits", meta)
}

// assumedPrior says which prior is counted once for a part without one, since neither it nor an
// option tells; "" if all have theirs.
func (c *mergeCommand) assumedPrior(parts []*fitstore.Fits, opts [][2]string) (string, error) {
	told := func(o [2]string) bool {
		return slices.Contains([]string{"prior_mean", "prior_variance", "intercept_variance"}, o[0])
	}
	if c.Prior != "" || slices.ContainsFunc(opts, told) {
		return "", nil
	}
	for i, f := range parts {
		if alone, err := f.Alone(); err != nil || alone {
			p := kernels.DefaultPrior
			return fmt.Sprintf("%s has beliefs alone: their prior is taken for N(%v, %v), the intercept's for N(%[2]v, %[4]v); if it was another, give --option prior_mean, prior_variance and intercept_variance, or --prior FILE with the priors of single features", c.Files[i], p.Mean, p.Variance, p.InterceptVariance), err
		}
	}
	return "", nil
}

// mergedKey is the metadata key for the marks of the parts from which a fit was merged.
const mergedKey = "merged"

// learntBy is the metadata of merged parts: the job of the first, the mark of all rows if each part
// has one, and the marks of the parts. It warns if rows of a part are also in another one, as when
// the output of a merge is merged again, since they count twice.
func (c *mergeCommand) learntBy(s *duck.Session, parts []*fitstore.Fits) (meta []string) {
	for i, key := range parts[0].Meta {
		if i%2 == 0 && key != rowsKey && key != mergedKey {
			meta = append(meta, key, parts[0].Meta[i+1])
		}
	}
	var of []string // marks
	in := map[string]string{}
	whole := ""
	for i, p := range parts {
		mark := p.Job(rowsKey)
		own := strings.Split(p.Job(mergedKey), markBetween)
		if own[0] == "" {
			own = []string{mark}
		}
		if i == 0 {
			whole = mark
		} else {
			whole = bothRows(whole, mark)
		}
		for _, m := range own {
			if m == "" || strings.HasPrefix(m, "0 ") {
				continue
			}
			of = append(of, m)
			if before, ok := in[m]; ok && before != c.Files[i] && !c.twice {
				n, _, _ := strings.Cut(m, " ")
				fmt.Fprintf(s.Env.Stderr, "bglm merge: %s rows of %s are in %s already: they count twice\n", n, c.Files[i], before)
			}
			in[m] = c.Files[i]
		}
	}
	if whole != "" {
		meta = append(meta, rowsKey, whole)
	}
	if len(of) > 0 {
		meta = append(meta, mergedKey, strings.Join(of, markBetween))
	}
	return meta
}

// mergePlain merges in the order of the files, for any form of covariance.
func (c *mergeCommand) mergePlain(s *duck.Session, parts []*fitstore.Fits, prior *fitstore.Fits, meta []string) (*fitstore.Fits, error) {
	var all []*kernels.Fit
	for i, p := range parts {
		f, err := p.Fetch()
		if err != nil {
			return nil, files.Named(c.Files[i], err)
		}
		all = append(all, f)
	}
	var from *kernels.Fit
	if prior != nil {
		var err error
		if from, err = prior.Fetch(); err != nil {
			return nil, files.Named(c.Prior, err)
		}
	}
	f, err := kernels.MergeFits(s.Ctx, all, from, adf.MergeArrowheads)
	if errors.Is(err, stop.ErrInterrupted) {
		return nil, s.Failed(err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(c.Files, ", "), err)
	}
	return fitstore.Insert(s, "fits", &arrowio.Groups{Fits: []*kernels.Fit{f}}, meta)
}
