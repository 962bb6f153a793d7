package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/job"
)

// maxPasses limits the passes over the rows: starting from a sample's fit two to four suffice, and
// some forty if responses are separated, each of which leaves two thirds of the distance.
const maxPasses = 60

// passFile is the file beside the output for an unfinished fit by passes.
func passFile(out string) string { return out + ".pass.parquet" }

func (c *fitCommand) checkPasses() error {
	switch {
	case c.OutOfCore && c.Partial:
		return cli.Usage(errors.New("--out-of-core takes all passes, --partial one of a part of the rows; give one of them"))
	case !c.OutOfCore && !c.Partial:
		if c.Around != "" {
			return cli.Usage(errors.New("--around belongs to --out-of-core and --partial"))
		}
		return nil
	case c.Engine == "arrow" || c.Incremental || c.Compress || c.Prior != "":
		return cli.Usage(errors.New("--out-of-core and --partial go without --engine arrow, --incremental, --compress and --prior"))
	case c.Partial && files.KindOf(c.Out) != "parquet":
		return cli.Usage(errors.New("--partial writes what its pass says to a Parquet file: give --out FILE.parquet"))
	}
	return nil
}

// plan returns the job for the passes, its rows, and whether there is a fit to expand around, in
// the table around.
func (c *fitCommand) plan(s *duck.Session, unfinished string) (j *job.Job, src *job.Source, around bool, err error) {
	if src, err = job.Open(s, c.data()); err != nil {
		return nil, nil, false, err
	}
	if j, err = job.New(src, c.model(), true); err != nil {
		return nil, nil, false, err
	}
	if err := j.CheckPasses(); err != nil {
		return nil, nil, false, err
	}
	if c.Partial && len(j.Group) > 0 {
		return nil, nil, false, cli.Usage(errors.New("--group: --partial takes a pass for one fit; --out-of-core makes one for each group"))
	}
	if j.Chained() && len(j.Group) > 0 {
		return nil, nil, false, cli.Usage(errors.New("--group: passes of --method lowrank make one fit; allowed: --method laplace, ep"))
	}
	from, what, keys, anew := c.Around, "--around", []string{"formula", "y", "x"}, ""
	if _, err := os.Stat(unfinished); unfinished != "" && err == nil {
		from, what, keys, anew = unfinished, "unfinished fit", nil, "; remove it to begin anew"
	}
	if from == "" {
		return j, src, false, nil
	}
	if j.Chained() {
		p, err := fitstore.MergeParts(s, []string{from})
		if err == nil {
			err = agree(&fitstore.Fits{Meta: p.Meta}, &fitstore.Fits{Meta: j.Meta}, from, keys)
		}
		if err != nil {
			return nil, nil, false, fmt.Errorf("%s: %w%s", what, err, anew)
		}
		return j, src, true, s.Exec(chain)
	}
	f, err := fitstore.Load(s, "around", from, c.priorOptions())
	if err == nil {
		err = agree(f, &fitstore.Fits{Meta: j.Meta}, from, keys)
	}
	if err == nil {
		err = f.Continues(j.GroupNames())
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("%s: %w%s", what, err, anew)
	}
	return j, src, true, nil
}

// chain passes the merged state of a pass on to the next pass.
const chain = "CREATE OR REPLACE TEMP TABLE around AS FROM pass"

// agree checks that fits of a file were made by the same job as others: with the same keys, nil for
// all of them.
func agree(f, with *fitstore.Fits, file string, keys []string) error {
	if keys == nil {
		for i, key := range slices.Concat(f.Meta, with.Meta) {
			if i%2 == 0 && key != rowsKey {
				keys = append(keys, key)
			}
		}
	}
	for _, key := range keys {
		if was, is := f.Job(key), with.Job(key); was != is {
			return fmt.Errorf("%s was fitted with the %s %q, not with %q", file, strings.Replace(key, "option.", "option ", 1), was, is)
		}
	}
	return nil
}

// byPasses fits by passes over the rows, none of which is kept. After each pass the fit so far (for
// lowrank the state) is stored beside the output, from which a run continues that was killed.
func (c *fitCommand) byPasses(s *duck.Session) (*fitstore.Fits, int, error) {
	unfinished := ""
	if c.Out != "" {
		unfinished = passFile(c.Out)
	}
	j, src, around, err := c.plan(s, unfinished)
	if err != nil {
		return nil, 0, err
	}
	if len(j.Group) > 0 {
		f, err := c.groupsByPasses(s, j, src, around, unfinished)
		return f, len(src.Files), err
	}
	if !around && !j.Chained() {
		if err := j.Sample(src); err != nil {
			return nil, 0, err
		}
	}
	p := &fitstore.Parts{Options: j.Constants(), Meta: j.Meta}
	for k := 1; k <= maxPasses; k++ {
		if err := j.Pass(src, fmt.Sprintf("pass %d", k), around || k > 1 || !j.Chained()); err != nil {
			return nil, 0, err
		}
		f, err := p.Solve(s)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", strings.Join(src.Files, ", "), err)
		}
		var converged bool
		var status string
		if err := s.Row("SELECT fit.converged, fit.status FROM fits", &converged, &status); err != nil {
			return nil, 0, err
		}
		nearer := func(steps int) error {
			if around || j.Chained() {
				return nil // from an earlier run, or given by hand: there is no sample
			}
			return j.RefineOnSample(steps, func() error { _, err := p.Solve(s); return err })
		}
		if converged { // the curvature is that where the pass expanded: a step moves the fit to the mode
			return f, len(src.Files), nearer(1)
		}
		if !c.Quiet {
			why, _, _ := strings.Cut(status, ";")
			fmt.Fprintf(s.Env.Stderr, "pass %d: %s\n", k, why)
		}
		if k < 4 { // later passes begin near enough
			if err := nearer(max(3-k, 1)); err != nil {
				return nil, 0, err
			}
		}
		next, keep := "CREATE OR REPLACE TEMP TABLE around AS FROM fits", f.Save
		if j.Chained() {
			next, keep = chain, func(path string) error { return p.SavePass(s, path) }
		}
		if unfinished != "" {
			if err := keep(unfinished); err != nil {
				return nil, 0, err
			}
		}
		if err := s.Exec(next); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, fmt.Errorf("no convergence in %d passes; begin nearer, with --around and the fit of a larger sample", maxPasses)
}

// partial makes one pass and writes its state.
func (c *fitCommand) partial(s *duck.Session) error {
	began := time.Now()
	j, src, around, err := c.plan(s, "")
	if err != nil {
		return err
	}
	if err := j.Pass(src, "pass", around); err != nil {
		return err
	}
	if err := s.Unchanged(); err != nil {
		return err
	}
	p := &fitstore.Parts{Options: j.Constants(), Meta: j.Meta}
	if err := p.SavePass(s, c.Out); err != nil {
		return err
	}
	if !c.Quiet {
		fmt.Fprintf(s.Env.Stderr, "pass over %s; %.2f s; wrote %s\n", some(int64(len(src.Files)), "file"), time.Since(began).Seconds(), c.Out)
	}
	return nil
}

// finishCommand makes a fit from passes over parts of the rows.
type finishCommand struct {
	outputFlags
	csvFlags
	Out   string   `placeholder:"FILE" help:"File for the belief table: .parquet, .arrow, .csv, .json or .duckdb (default: CSV on the standard output)."`
	Files []string `arg:"" name:"file" help:"Files that bglm fit --partial or bglm merge wrote, for all parts of the rows."`
}

// Help is the text below the usage line.
func (*finishCommand) Help() string {
	return `Takes one Newton step from where a pass over all parts of the rows evaluated the likelihood. If the
pass was near enough to the solution, the fit has converged and is that of bglm fit with the same
options. Otherwise give the fit to another pass with --around. "converged" in --json and the status
say which.

Example:

  bglm fit --partial --data day-1.parquet --formula 'late ~ origin' --around sample.parquet --out part-1.parquet
  bglm finish part-*.parquet --out fit.parquet`
}

// Run merges, solves and writes.
func (c *finishCommand) Run(e *cli.Env) error {
	began := time.Now()
	if err := errors.Join(c.checkOut(c.Out, &c.csvFlags), spared(c.Out, c.Files...)); err != nil {
		return err
	}
	if twice := files.Twice(c.Files); twice != "" {
		fmt.Fprintf(e.Stderr, "bglm finish: %s is there twice: its rows count twice\n", twice)
	}
	s, err := duck.Open(e, c.Quiet)
	if err != nil {
		return err
	}
	defer s.Close()
	s.CSVSafe = c.CSVSafe
	p, err := fitstore.MergeParts(s, c.Files)
	if err != nil {
		return err
	}
	f, err := p.Solve(s)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(c.Files, ", "), err)
	}
	return c.finish(s, f, &summary{Command: "finish", Files: len(c.Files), Out: c.Out}, began)
}
