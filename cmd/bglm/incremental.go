package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/shell"
)

// incremental processes the files that the output database's ledger lacks, in the order of their
// names.
func (c *fitCommand) incremental(s *duck.Session) error {
	switch {
	case files.KindOf(c.Out) != "duckdb":
		return cli.Usage(errors.New("--incremental keeps its ledger in a database: give --out FILE.duckdb"))
	case c.Engine != "duckdb":
		return cli.Usage(errors.New("--incremental needs --engine duckdb"))
	case slices.Contains(slices.Concat(c.Data, c.Files), "-"):
		return cli.Usage(errors.New("--incremental reads files, not the standard input"))
	case files.Among(c.Out, slices.Concat(c.Data, c.Files)) != "":
		return cli.Usage(fmt.Errorf("--out %s: it is read; the ledger needs a database of its own", c.Out))
	case c.Watch < 0:
		return cli.Usage(fmt.Errorf("--watch is %v, allowed is a duration above 0", c.Watch))
	}
	l, err := fitstore.OpenLedger(s, c.Out, c.identity())
	if err != nil {
		return err
	}
	defer l.Close()
	for {
		began := time.Now()
		done, copies, err := c.catchUp(s, l)
		if err != nil {
			return errors.Join(append(c.kept, err)...)
		}
		if done+copies > 0 || c.Watch == 0 {
			if err := c.printOutcome(s, l, done, copies, began); err != nil {
				return err
			}
		}
		if c.Watch == 0 {
			return errors.Join(c.kept...)
		}
		select {
		case <-time.After(c.Watch):
		case <-s.Ctx.Done():
			return errors.Join(c.kept...) // ends --watch; everything done so far is kept
		}
	}
}

// identity identifies a job.
func (c *fitCommand) identity() string {
	opts := slices.Clone(c.Option)
	slices.Sort(opts)
	return strings.Join([]string{"formula=" + c.Formula, "y=" + c.Y, "x=" + c.X, "group=" + strings.Join(c.Group, ","), "order=" + c.Order,
		"method=" + strings.ToLower(c.Method), "options=" + strings.Join(opts, ";"), "where=" + c.Where}, "\n")
}

// catchUp processes the new files and returns how many it learnt from, and how many were copies of
// others.
func (c *fitCommand) catchUp(s *duck.Session, l *fitstore.Ledger) (done, copies int, err error) {
	data := c.data()
	all, err := data.All()
	if err != nil {
		return 0, 0, err
	}
	fresh, err := l.Fresh(all)
	if err != nil {
		return 0, 0, err
	}
	for _, f := range fresh {
		e, of, err := l.Enter(f)
		if err == nil && of == "" {
			err = c.learn(s, l, e)
		}
		switch {
		case err != nil && done > 0 && s.Interrupted() != nil:
			return done, copies, fmt.Errorf("interrupted after %s; what was learnt until then is written", some(int64(done), "new file"))
		case err != nil:
			return done, copies, err
		case of == "":
			done++
			continue
		}
		copies++
		if !c.Quiet {
			fmt.Fprintf(s.Env.Stderr, "bglm: %s holds what %s held, which is learnt already: left out\n", shell.Visible(f), shell.Visible(of))
		}
	}
	return done, copies, nil
}

// learn continues the fits of the ledger with the rows of one file.
func (c *fitCommand) learn(s *duck.Session, l *fitstore.Ledger, e *fitstore.Entry) error {
	one := c.data()
	one.Data, one.Files = []string{e.Name}, nil
	src, err := job.Open(s, one)
	if err != nil {
		return err
	}
	if src.Kind == "duckdb" {
		defer func() { _ = s.Exec("DETACH bglm_data") }()
	}
	if src.Empty() {
		why := "has no rows"
		if c.Where != "" {
			why += " that --where keeps"
		}
		return c.learntNothing(s, l, e, why, l.Skip(e))
	}
	j, err := job.New(src, c.model(), true)
	if err != nil {
		return err
	}
	src.Fits = c.Out
	prior, err := l.Prior()
	j.Resumes = prior != nil
	if err == nil && prior == nil {
		src.Fits = c.Prior
		if c.Prior != "" {
			prior, err = c.loadPrior(s)
		}
	}
	table := ""
	if err == nil && prior != nil {
		table = prior.Table
		err = prior.Continues(j.GroupNames())
	}
	if err != nil {
		return fmt.Errorf("%s: the fits to go on from: %w", c.Out, err)
	}
	if err := j.Fit(src, table, false); err != nil {
		return err
	}
	meta := c.started(j.Meta)
	if c.Prior == "" && prior != nil && prior.Job(startKey) != "" { // as the first file's run did
		meta = append(meta, startKey, "true")
	}
	var none bool // of its rows could be fitted
	if err := s.Row("SELECT count(*) FILTER (fit IS NULL) > 0 AND count(fit) = 0 FROM fits", &none); err != nil {
		return err
	}
	n, err := l.Commit(e, prior, meta)
	switch {
	case err != nil:
		return err
	case len(j.Kept) > 0 || none && prior != nil:
		c.keep(s, keptError(e.Name, j.Kept))
	case none:
		c.keep(s, fmt.Errorf("%s: nothing was learnt from it: a row is bad, or they cannot be fitted, for which --option on_error=null is; on_error=skip leaves out bad rows alone", e.Name))
	case n == 0:
		return c.learntNothing(s, l, e, "has no row that can be learnt", nil)
	}
	return nil
}

// keep notes the error of a file whose rows have not been learnt, after which the job goes on.
func (c *fitCommand) keep(s *duck.Session, err error) {
	if c.Watch != 0 { // which may go on for days
		fmt.Fprintln(s.Env.Stderr, "bglm: "+shell.Visible(err.Error()))
		err = errors.New("some files were not learnt, as said above")
		c.kept = nil
	}
	c.kept = append(c.kept, err)
}

// learntNothing reports that a file, for which err is nil, has left the fits as they were, and why.
func (c *fitCommand) learntNothing(s *duck.Session, l *fitstore.Ledger, e *fitstore.Entry, why string, err error) error {
	if err != nil || c.Quiet {
		return err
	}
	f, err := l.Fits()
	if err != nil {
		return err
	}
	left := "the fits stay as they were"
	if f == nil {
		left = "nothing was learnt from it"
	}
	fmt.Fprintf(s.Env.Stderr, "bglm: %s %s: %s\n", shell.Visible(e.Name), why, left)
	return nil
}

func (c *fitCommand) printOutcome(s *duck.Session, l *fitstore.Ledger, done, copies int, began time.Time) error {
	sum := &summary{Command: "fit", Files: done, Copies: copies, Out: c.Out}
	f, err := l.Fits()
	if err == nil && f != nil {
		err = files.Named(c.Out, summarise(s, f, sum))
	}
	if err != nil {
		return err
	}
	sum.setTiming(began)
	sum.Rate = 0 // the rows are those of all files so far
	if !c.JSON && !c.Quiet {
		fmt.Fprintf(s.Env.Stdout, "%s. ", some(int64(done), "new file"))
		if f == nil {
			_, err = fmt.Fprintf(s.Env.Stdout, "There is no fit yet: %s has none until a file has rows\n", shell.Visible(c.Out))
			return err
		}
	}
	return c.print(s.Env.Stdout, sum)
}
