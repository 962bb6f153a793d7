package main

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// byArrow fits without SQL: columns of Parquet or Arrow files go to the engine as
// they come, in the order of the files.
func (c *fitCommand) byArrow(s *session) (*fits, int, error) {
	job, set, meta, err := c.arrowJob(s)
	if err != nil {
		return nil, 0, err
	}
	for flag, given := range map[string]bool{"--where": c.Where != "", "--order": c.Order != "", "--table": c.Table != ""} {
		if given {
			return nil, 0, usageError{fmt.Errorf("%s needs SQL; --engine arrow takes the rows as they come", flag)}
		}
	}
	files, err := c.all()
	if err != nil {
		return nil, 0, err
	}
	kind, err := c.kindOfAll(files)
	if err != nil {
		return nil, 0, err
	}
	if kind == "" && slices.Contains(files, "-") {
		kind = "arrow"
	}
	if kind != "arrow" && kind != "parquet" {
		return nil, 0, usageError{fmt.Errorf("--engine arrow reads Parquet and Arrow IPC; the data are %s", kind)}
	}
	if c.Prior != "" && len(job.Group) > 0 {
		return nil, 0, usageError{errors.New("--engine arrow takes no --prior with --group")}
	}
	if c.Prior != "" {
		none := &emptyJob
		prior, err := s.load("prior_fits", c.Prior, nil)
		if err == nil {
			err = samePrior(prior, none)
		}
		var from *kernels.Fit
		if err == nil {
			from, err = s.fetch(prior)
		}
		if err == nil {
			err = set.Continue(from)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("--prior %s: %w", c.Prior, err)
		}
	}
	method, err := engine.Find(job.Method, engine.Weights)
	if err != nil {
		return nil, 0, err
	}
	model, err := method.Model(set, job.Time != "", job.Trials != "")
	if err != nil {
		return nil, 0, usageError{err}
	}
	job.Model, job.SkipBad = *model, set.OnError == option.Skip
	bar := s.Counter("fitting")
	defer bar.Finish()
	var done int64
	job.Progress = func(rows int64) { bar.Set(done + rows) }
	var fitter *arrowio.Fitter
	for _, name := range files {
		r, err := s.arrowRows(name, kind, columnsOf(&job))
		if err != nil {
			return nil, 0, err
		}
		if fitter == nil {
			if fitter, err = arrowio.NewFitter(r.Schema(), job); err != nil {
				r.Close()
				return nil, 0, named(name, err)
			}
		}
		before := fitter.Rows()
		for r.Next() && s.ctx.Err() == nil && err == nil {
			err = fitter.Add(s.ctx, r.RecordBatch())
		}
		if err != nil {
			err = inFile(name, before, err)
		}
		err = errors.Join(err, r.Err(), r.Close())
		if s.ctx.Err() != nil {
			return nil, 0, s.failed(s.ctx.Err())
		}
		if err != nil {
			return nil, 0, named(name, err)
		}
	}
	g, err := fitter.Groups(s.ctx)
	if err != nil {
		return nil, 0, err
	}
	if len(g.Fits) == 0 {
		return nil, 0, fmt.Errorf("%s: no rows to fit", strings.Join(files, ", "))
	}
	if err := s.insertGroups(g); err != nil {
		return nil, 0, err
	}
	f, err := s.look("fits", meta)
	return f, len(files), err
}

// inFile says which row of which file an error is about.
func inFile(name string, before int64, err error) error {
	msg := strings.TrimPrefix(err.Error(), "arrowio: ")
	var row int64
	if n, _ := fmt.Sscanf(msg, "row %d:", &row); n == 1 {
		_, rest, _ := strings.Cut(msg, ":")
		return fmt.Errorf("%s, row %d:%s", name, row-before, rest)
	}
	return fmt.Errorf("%s: %s", name, msg)
}

// rowReader is what both formats give.
type rowReader interface {
	array.RecordReader
	Close() error
}

func (s *session) arrowRows(name, kind string, columns []string) (rowReader, error) {
	if kind == "parquet" {
		if name == "-" {
			return nil, usageError{errors.New("--data -: Parquet cannot be read from a stream by --engine arrow")}
		}
		return pqrows.Open(s.ctx, name, columns)
	}
	if name == "-" {
		return arrowio.StreamIPC("standard input", s.e.Stdin)
	}
	return arrowio.OpenIPC(name)
}

func columnsOf(j *arrowio.Job) []string {
	out := append([]string{j.Y, j.Features, j.Weight, j.Offset, j.Trials, j.Time}, j.Group...)
	for _, t := range j.Terms {
		out = append(out, t...)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(c string) bool { return c == "" })
}

// arrowJob reads the flags as columns and settings.
func (c *fitCommand) arrowJob(s *session) (job arrowio.Job, set *option.Settings, meta []string, err error) {
	job.Method = cmp.Or(strings.ToLower(c.Method), "adf")
	if _, err := engine.Find(job.Method, engine.Weights); err != nil {
		return job, nil, nil, usageError{fmt.Errorf("--%w; others go with --engine duckdb", err)}
	}
	keep := func(k, v string) {
		if v != "" {
			meta = append(meta, k, v)
		}
	}
	if err := c.modelFlags.check(); err != nil {
		return job, nil, nil, err
	}
	opts, err := parseOptionFlags(c.Option)
	if err != nil {
		return job, nil, nil, err
	}
	plain := func(what, sql string) (string, error) {
		if name, ok := formula.Column(sql); ok {
			return name, nil
		}
		return "", usageError{fmt.Errorf("%s: %s is an SQL expression; --engine arrow takes columns by name", what, sql)}
	}
	if c.Formula != "" {
		f, err := formula.Parse(c.Formula)
		if err != nil {
			return job, nil, nil, usageError{err}
		}
		if f.Dot || f.Trials != "" || len(f.Offset) > 1 {
			return job, nil, nil, usageError{fmt.Errorf("formula %q: --engine arrow takes no dot, no cbind and one offset at most", c.Formula)}
		}
		if !f.Intercept {
			if i := slices.IndexFunc(opts, func(o [2]string) bool { return o[0] == "intercept" }); i < 0 {
				opts = append(opts, [2]string{"intercept", "false"})
			} else if opts[i][1] != "false" {
				return job, nil, nil, usageError{errors.New("the formula has no intercept, but --option intercept is " + opts[i][1])}
			}
		}
		if job.Y, err = plain("formula", f.Y); err != nil {
			return job, nil, nil, err
		}
		if len(f.Offset) == 1 {
			if job.Offset, err = plain("offset", f.Offset[0]); err != nil {
				return job, nil, nil, err
			}
		}
		for _, t := range f.Terms {
			var names arrowio.Term
			for _, p := range t {
				if !p.Column {
					return job, nil, nil, usageError{fmt.Errorf("formula: %s is an SQL expression; --engine arrow takes columns by name", p.Name)}
				}
				names = append(names, p.Name)
			}
			job.Terms = append(job.Terms, names)
		}
		if len(job.Terms) == 0 {
			return job, nil, nil, usageError{errors.New("formula: --engine arrow needs a term")}
		}
	} else {
		if job.Y, err = plain("--y", c.Y); err != nil {
			return job, nil, nil, err
		}
		if job.Features, err = plain("--x", c.X); err != nil {
			return job, nil, nil, err
		}
	}
	for _, g := range c.Group {
		for _, name := range strings.Split(g, ",") {
			if name, err = plain("--group", name); err != nil {
				return job, nil, nil, err
			}
			job.Group = append(job.Group, name)
			meta = append(meta, "group."+name, quoteName(name))
		}
	}
	keep("formula", c.Formula)
	keep("y", c.Y)
	keep("x", c.X)
	for _, o := range opts {
		keep("option."+o[0], o[1])
		to := map[string]*string{"weight": &job.Weight, "offset": &job.Offset, "trials": &job.Trials, "time": &job.Time}[o[0]]
		if to != nil {
			if *to, err = plain("--option "+o[0], o[1]); err != nil {
				return job, nil, nil, err
			}
		}
	}
	if err := arrowTakes(opts); err != nil {
		return job, nil, nil, err
	}
	set, err = s.settings(option.For(job.Method), opts)
	return job, set, meta, err
}

// insertGroups makes the table fits of what the engine gave.
func (s *session) insertGroups(g *arrowio.Groups) error {
	if g.Keys == nil {
		return s.insert("fits", g.Fits[0])
	}
	defer g.Keys.Release()
	// The keys go through Parquet, which keeps their types.
	path := filepath.Join(s.dir, "keys.parquet")
	r, err := array.NewRecordReader(g.Keys.Schema(), []arrow.RecordBatch{g.Keys})
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(pqrows.FromArrow(out, r), out.Close()); err != nil {
		return err
	}
	if err := s.exec("CREATE TEMP TABLE bglm_keys AS FROM read_parquet(" + quoteText(path) + ", file_row_number = true); " +
		"CREATE TEMP TABLE bglm_weights (bglm_row BIGINT, k BIGINT, feature VARCHAR, mean DOUBLE, variance DOUBLE, covariance DOUBLE[]); " +
		"CREATE TEMP TABLE bglm_heads (bglm_row BIGINT, method VARCHAR, family VARCHAR, link VARCHAR, shape DOUBLE, dispersion DOUBLE, intercept BOOLEAN, hash_bits INTEGER, pm DOUBLE, pv DOUBLE, pi DOUBLE, " +
		"\"time\" DOUBLE, kind VARCHAR, rank INTEGER, n BIGINT, n_skipped BIGINT, log_evidence DOUBLE, iterations INTEGER, converged BOOLEAN, status VARCHAR)"); err != nil {
		return err
	}
	orNull := func(v float64) driver.Value {
		if math.IsNaN(v) {
			return nil
		}
		return v
	}
	err = s.append("bglm_heads", len(g.Fits), func(i int) []driver.Value {
		f := g.Fits[i]
		var hash driver.Value
		if f.HashBits > 0 {
			hash = int32(f.HashBits)
		}
		return []driver.Value{int64(i), f.Method, f.Family, f.Link, orNull(f.Shape), f.Dispersion, f.Intercept, hash, f.Prior.Mean, f.Prior.Variance, f.Prior.InterceptVariance,
			orNull(f.Time), f.Covariance.Form.String(), int32(f.Covariance.Rank), f.N, f.Skipped, orNull(f.LogEvidence), int32(f.Iterations), f.Converged, f.Status}
	})
	if err != nil {
		return err
	}
	type place struct{ g, k int }
	var at []place
	for i, f := range g.Fits {
		for k := range f.Beliefs {
			at = append(at, place{i, k})
		}
	}
	err = s.append("bglm_weights", len(at), func(i int) []driver.Value {
		f := g.Fits[at[i].g]
		b := &f.Beliefs[at[i].k]
		row := []float64{}
		if len(f.Covariance.Values) > 0 {
			row = f.Covariance.Row(at[i].k)
		}
		return []driver.Value{int64(at[i].g), int64(at[i].k), b.Feature, b.Mean, b.Variance, row}
	})
	if err != nil {
		return err
	}
	return s.exec(`CREATE OR REPLACE TEMP TABLE fits AS SELECT k.* EXCLUDE (file_row_number), {'method': h.method, 'family': h.family, 'link': h.link, 'shape': h.shape, 'dispersion': h.dispersion, 'intercept': h.intercept,
		'hash_bits': h.hash_bits, 'prior': {'mean': pm, 'variance': pv, 'intercept_variance': pi}, 'time': h."time", 'beliefs': coalesce(w.beliefs, []), 'covariance': {'kind': h.kind, 'rank': h.rank, 'values': coalesce(w.v, [])},
		'n': h.n, 'n_skipped': h.n_skipped, 'log_evidence': h.log_evidence, 'iterations': h.iterations, 'converged': h.converged, 'status': h.status} AS fit
		FROM bglm_keys k JOIN bglm_heads h ON k.file_row_number = h.bglm_row LEFT JOIN (SELECT bglm_row, list({'feature': feature, 'mean': mean, 'variance': variance} ORDER BY k) AS beliefs, flatten(list(covariance ORDER BY k)) AS v FROM bglm_weights GROUP BY bglm_row) w ON h.bglm_row = w.bglm_row
		ORDER BY k.file_row_number`)
}

// emptyJob has no groups.
var emptyJob job
