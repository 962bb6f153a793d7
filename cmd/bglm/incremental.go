package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/cmd/internal/shell"
)

const ledgerDB = "bglm_out"

// incremental processes the files that the ledger of the output database does not
// have, in the order of their names. Each is one transaction, of the fits and the
// ledger's entry: a job that is killed at any moment and started again goes on where
// the last file was done, and gives the beliefs of a job that was never killed.
func (c *fitCommand) incremental(s *duck.Session) error {
	switch {
	case files.KindOf(c.Out) != "duckdb":
		return cli.Usage(errors.New("--incremental keeps its ledger in a database: give --out FILE.duckdb"))
	case c.Engine != "duckdb":
		return cli.Usage(errors.New("--incremental needs --engine duckdb"))
	case slices.Contains(slices.Concat(c.Data, c.Files), "-"):
		return cli.Usage(errors.New("--incremental reads files, not the standard input"))
	case c.Watch < 0:
		return cli.Usage(fmt.Errorf("--watch is %v, allowed is a duration above 0", c.Watch))
	}
	if err := s.Exec("ATTACH " + quote.Text(c.Out) + " AS " + ledgerDB); err != nil {
		return files.Named(c.Out, err)
	}
	defer func() { _, _ = s.Conn.ExecContext(s.Env.Ctx, "DETACH "+ledgerDB) }()
	if err := c.openLedger(s); err != nil {
		return fmt.Errorf("--out %s: %w", c.Out, err)
	}
	for {
		began := time.Now()
		done, copies, err := c.catchUp(s)
		if err != nil {
			return err
		}
		if done+copies > 0 || c.Watch == 0 {
			if err := c.tell(s, done, copies, began); err != nil {
				return err
			}
		}
		if c.Watch == 0 {
			return nil
		}
		select {
		case <-time.After(c.Watch):
		case <-s.Ctx.Done():
			return nil // the way out of --watch; all that was done is kept
		}
	}
}

// identity is what makes a job this job and no other.
func (c *fitCommand) identity() string {
	opts := slices.Clone(c.Option)
	slices.Sort(opts)
	return strings.Join([]string{"formula=" + c.Formula, "y=" + c.Y, "x=" + c.X, "group=" + strings.Join(c.Group, ","), "order=" + c.Order,
		"method=" + strings.ToLower(c.Method), "options=" + strings.Join(opts, ";"), "where=" + c.Where}, "\n")
}

func (c *fitCommand) openLedger(s *duck.Session) error {
	err := s.Exec("CREATE TABLE IF NOT EXISTS " + ledgerDB + ".main.bglm_ledger (file VARCHAR PRIMARY KEY, bytes BIGINT, sha256 VARCHAR, n BIGINT, processed TIMESTAMP)")
	if err != nil {
		return err
	}
	var jobs int
	if err := s.Row("SELECT count(*) FROM duckdb_tables() WHERE database_name = '"+ledgerDB+"' AND table_name = 'bglm_job'", &jobs); err != nil {
		return err
	}
	if jobs == 0 {
		return nil
	}
	var was string
	if err := s.Row("SELECT coalesce(max(value), '') FROM "+ledgerDB+".main.bglm_job WHERE key = 'incremental'", &was); err != nil {
		return err
	}
	if was == "" {
		return errors.New("its fits are not those of an incremental job; give another file")
	}
	if now := c.identity(); was != now {
		return fmt.Errorf("it belongs to another job; it was\n%s\nand is now\n%s", was, now)
	}
	return nil
}

// fresh are the files that the ledger does not have. A file that has changed since
// it was processed is an error: its rows are in the beliefs already.
func (c *fitCommand) fresh(s *duck.Session) ([]string, error) {
	data := c.data()
	found, err := data.All()
	if err != nil {
		return nil, err
	}
	slices.Sort(found)
	bytes := map[string]int64{}
	err = s.Each("SELECT file, bytes FROM "+ledgerDB+".main.bglm_ledger", func(scan func(...any) error) error {
		var f string
		var n int64
		err := scan(&f, &n)
		bytes[f] = n
		return err
	})
	if err != nil {
		return nil, files.Named(c.Out, err)
	}
	var out []string
	for _, f := range slices.Compact(found) {
		st, err := os.Stat(f)
		if err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		was, seen := bytes[ledgerName(f)]
		switch {
		case !seen:
			out = append(out, f)
		case was != st.Size():
			return nil, fmt.Errorf("%s has %d bytes, but had %d when it was processed: its rows are in the beliefs already. Put new rows into a new file, or start again with another --out", f, st.Size(), was)
		}
	}
	return out, nil
}

func ledgerName(f string) string {
	if abs, err := filepath.Abs(f); err == nil {
		return abs
	}
	return f
}

// catchUp processes the new files and says how many it learnt from, and how many
// were copies of others.
func (c *fitCommand) catchUp(s *duck.Session) (done, copies int, err error) {
	files, err := c.fresh(s)
	if err != nil {
		return 0, 0, err
	}
	for _, f := range files {
		of, err := c.oneFile(s, f)
		switch {
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

// oneFile learns from a file that the ledger does not have. One with the bytes of a
// file in it, a copy or a link, goes into the ledger alone; copyOf is that file.
func (c *fitCommand) oneFile(s *duck.Session, file string) (copyOf string, err error) {
	if err := files.Check(file, ""); err != nil {
		return "", err
	}
	st, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	sum, err := checksum(file)
	if err != nil {
		return "", err
	}
	err = s.Conn.QueryRowContext(s.Ctx, "SELECT coalesce(min(file), '') FROM "+ledgerDB+".main.bglm_ledger WHERE sha256 = ? AND bytes = ?", sum, st.Size()).Scan(&copyOf)
	if err != nil {
		return "", files.Named(c.Out, s.Failed(err))
	}
	if copyOf == "" {
		return "", c.learn(s, file, st, sum)
	}
	return copyOf, files.Named(c.Out, s.Exec(addToLedger, ledgerName(file), st.Size(), sum, 0))
}

const addToLedger = "INSERT INTO " + ledgerDB + ".main.bglm_ledger VALUES (?, ?, ?, ?, current_timestamp::TIMESTAMP)"

// learn makes the fits and the ledger's entry of one file in one transaction.
func (c *fitCommand) learn(s *duck.Session, file string, st os.FileInfo, sum string) error {
	one := c.data()
	one.Data, one.Files = []string{file}, nil
	src, err := job.Open(s, one)
	if err != nil {
		return err
	}
	if src.Kind == "duckdb" {
		defer func() { _ = s.Exec("DETACH bglm_data") }()
	}
	j, err := job.New(src, c.model(), true)
	if err != nil {
		return err
	}
	var prior *fitstore.Fits
	var have int
	if err := s.Row("SELECT count(*) FROM duckdb_tables() WHERE database_name = '"+ledgerDB+"' AND table_name = 'fits'", &have); err != nil {
		return files.Named(c.Out, err)
	}
	switch {
	case have > 0:
		if err := s.Exec("CREATE OR REPLACE TEMP TABLE prior_fits AS FROM " + ledgerDB + ".main.fits"); err != nil {
			return files.Named(c.Out, err)
		}
		prior, err = fitstore.LookNewest(s, "prior_fits", nil)
	case c.Prior != "":
		prior, err = fitstore.Load(s, "prior_fits", c.Prior, nil)
	}
	if err == nil && prior != nil {
		err = prior.Continues(j.GroupNames())
	}
	if err != nil {
		return fmt.Errorf("%s: the fits to go on from: %w", c.Out, err)
	}
	src.Fits = c.Prior
	if have > 0 {
		src.Fits = c.Out
	}
	table := ""
	if prior != nil {
		table = prior.Table
	}
	if err := j.Fit(src, table, false); err != nil {
		return err
	}
	var n, before int64
	if err := s.Row("SELECT coalesce(sum(fit.n + fit.n_skipped), 0)::BIGINT FROM fits", &n); err != nil {
		return err
	}
	if prior != nil {
		if err := s.Row("SELECT coalesce(sum(fit.n + fit.n_skipped), 0)::BIGINT FROM prior_fits", &before); err != nil {
			return err
		}
	}
	if after, err := os.Stat(file); err != nil || after.Size() != st.Size() || after.ModTime() != st.ModTime() {
		return fmt.Errorf("%s changed while it was read; nothing of it was kept", file)
	}
	if n == before && prior != nil { // no rows: the fits stay
		if err := s.Exec("CREATE OR REPLACE TEMP TABLE fits AS FROM prior_fits"); err != nil {
			return err
		}
	}
	f, err := fitstore.Look(s, "fits", append(j.Meta, "incremental", c.identity()))
	if err != nil {
		return err
	}
	if err := s.Exec("BEGIN"); err != nil {
		return err
	}
	err = f.SaveTables(ledgerDB)
	if n == 0 {
		err = errors.Join(err, s.Exec("DROP TABLE IF EXISTS "+ledgerDB+".main.fits CASCADE"), s.Exec("DROP VIEW IF EXISTS "+ledgerDB+".main.beliefs"))
	}
	if err == nil {
		err = s.Exec(addToLedger, ledgerName(file), st.Size(), sum, n-before)
	}
	if err == nil {
		err = s.Exec("COMMIT")
	}
	if err != nil {
		_, _ = s.Conn.ExecContext(s.Env.Ctx, "ROLLBACK")
		return files.Named(c.Out, files.Named(file, err))
	}
	return nil
}

func checksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (c *fitCommand) tell(s *duck.Session, done, copies int, began time.Time) error {
	sum := &summary{Command: "fit", Files: done, Copies: copies, Out: c.Out}
	var have int
	if err := s.Row("SELECT count(*) FROM duckdb_tables() WHERE database_name = '"+ledgerDB+"' AND table_name = 'fits'", &have); err != nil {
		return files.Named(c.Out, err)
	}
	if have > 0 {
		f, err := fitstore.Look(s, ledgerDB+".main.fits", nil)
		if err == nil {
			err = summarise(s, f, sum)
		}
		if err != nil {
			return files.Named(c.Out, err)
		}
	}
	sum.took(began)
	sum.Rate = 0 // the rows are those of all files so far
	if !c.JSON && !c.Quiet {
		fmt.Fprintf(s.Env.Stdout, "%d new files. ", done)
	}
	return c.print(s.Env, s.Env.Stdout, sum)
}
