package main

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/schollz/progressbar/v3"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/lik"
)

// byArrow fits without SQL: columns of Parquet or Arrow files go to the engine as
// they come, in the order of the files.
func (c *fitCommand) byArrow(s *session) (*fits, int, error) {
	job, meta, err := c.arrowJob()
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
		if err == nil {
			job.Model.Start, err = s.fetch(prior)
		}
		if err == nil {
			err = adopt(&job.Model, job.Model.Start, c.Option)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("--prior %s: %w", c.Prior, err)
		}
	}
	bar := s.counter("fitting")
	defer bar.finish()
	var done int64
	job.Progress = func(rows int64) { bar.set(done + rows) }
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
		return arrowio.StreamIPC("standard input", s.e.stdin)
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

// arrowJob reads the flags as columns and plain options.
func (c *fitCommand) arrowJob() (arrowio.Job, []string, error) {
	job := arrowio.Job{Method: strings.ToLower(c.Method)}
	if job.Method == "" {
		job.Method = "adf"
	}
	var meta []string
	keep := func(k, v string) {
		if v != "" {
			meta = append(meta, k, v)
		}
	}
	if err := c.modelFlags.check(); err != nil {
		return job, nil, err
	}
	opts, err := parseOptionFlags(c.Option)
	if err != nil {
		return job, nil, err
	}
	plain := func(what, sql string) (string, error) {
		name := strings.TrimSpace(sql)
		if n := len(name); n > 1 && name[0] == '"' && name[n-1] == '"' {
			return name[1 : n-1], nil
		}
		for i := range len(name) {
			if !isWord(name[i]) {
				return "", usageError{fmt.Errorf("%s: %s is an SQL expression; --engine arrow takes columns by name", what, sql)}
			}
		}
		return name, nil
	}
	intercept := true
	if c.Formula != "" {
		f, err := parseFormula(c.Formula)
		if err != nil {
			return job, nil, usageError{err}
		}
		if f.dot || f.trials != "" || len(f.offset) > 1 {
			return job, nil, usageError{fmt.Errorf("formula %q: --engine arrow takes no dot, no cbind and one offset at most", c.Formula)}
		}
		intercept = f.intercept
		if job.Y, err = plain("formula", f.y); err != nil {
			return job, nil, err
		}
		if len(f.offset) == 1 {
			if job.Offset, err = plain("offset", f.offset[0]); err != nil {
				return job, nil, err
			}
		}
		for _, t := range f.terms {
			var names arrowio.Term
			for _, p := range t {
				if !p.column {
					return job, nil, usageError{fmt.Errorf("formula: %s is an SQL expression; --engine arrow takes columns by name", p.name)}
				}
				names = append(names, p.name)
			}
			job.Terms = append(job.Terms, names)
		}
		if len(job.Terms) == 0 {
			return job, nil, usageError{errors.New("formula: --engine arrow needs a term")}
		}
	} else {
		if job.Y, err = plain("--y", c.Y); err != nil {
			return job, nil, err
		}
		if job.Features, err = plain("--x", c.X); err != nil {
			return job, nil, err
		}
	}
	for _, g := range c.Group {
		for _, name := range strings.Split(g, ",") {
			if name, err = plain("--group", name); err != nil {
				return job, nil, err
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
				return job, nil, err
			}
		}
	}
	if err := modelOptions(&job, opts); err != nil {
		return job, nil, err
	}
	if !intercept {
		job.Model.Intercept = false
	}
	return job, meta, nil
}

// modelOptions fills in the model from plain options, as the SQL functions read
// them.
func modelOptions(job *arrowio.Job, opts [][2]string) error {
	method, err := engine.Find(job.Method)
	if err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	m := &job.Model
	*m = kernels.Model{Prior: kernels.DefaultPrior, Intercept: true, MaxFeatures: 50_000_000, Forgetting: 1,
		Params: lik.Params{Dispersion: 1, Shape: math.NaN()}}
	var family, link string
	o := &m.Options
	for _, kv := range opts {
		key, text := kv[0], strings.Trim(strings.TrimSpace(kv[1]), "'")
		if slices.Contains(rowKeys, key) {
			continue
		}
		known := slices.Concat(engine.Common, method.Keys)
		if !slices.Contains(known, key) {
			return usageError{fmt.Errorf("--option %s is not used by %s; allowed: %s", key, method.Name, strings.Join(known, ", "))}
		}
		bad := func(allowed string) error {
			return usageError{fmt.Errorf("--option %s: found %s; allowed with --engine arrow: %s", key, text, allowed)}
		}
		number := func(to *float64, lo float64, open bool) error {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsInf(v, 0) || !(v > lo || !open && v >= lo) {
				return bad(fmt.Sprintf("a number above %v", lo))
			}
			*to = v
			return nil
		}
		whole := func(to *int, lo, hi int) error {
			v, err := strconv.Atoi(text)
			if err != nil || v < lo || v > hi {
				return bad(fmt.Sprintf("a whole number from %d to %d", lo, hi))
			}
			if *to = v; v == 0 {
				*to = -1
			}
			return nil
		}
		truth := func(to *bool) error {
			v, err := strconv.ParseBool(text)
			if err != nil {
				return bad("true or false")
			}
			*to = v
			return nil
		}
		auto := func(to *bool, or func() error) error {
			if *to = strings.EqualFold(text, "auto"); *to {
				if method.Streams && key != "process_noise" {
					return bad("a number; 'auto' belongs to methods that keep the rows")
				}
				return nil
			}
			return or()
		}
		var err error
		switch key {
		case "family":
			family = text
		case "link":
			link = text
		case "prior_mean":
			err = number(&m.Prior.Mean, math.Inf(-1), true)
		case "prior_variance":
			err = auto(&o.AutoPrior, func() error { return number(&m.Prior.Variance, 0, false) })
		case "intercept_variance":
			err = number(&m.Prior.InterceptVariance, 0, false)
		case "intercept":
			err = truth(&m.Intercept)
		case "dispersion":
			err = auto(&o.AutoDispersion, func() error { return number(&m.Params.Dispersion, 0, true) })
		case "shape":
			err = auto(&o.AutoShape, func() error { return number(&m.Params.Shape, 0, true) })
		case "process_noise":
			err = auto(&o.AutoNoise, func() error { return number(&m.Noise, 0, false) })
		case "forgetting":
			if err = number(&m.Forgetting, 0, true); err == nil && m.Forgetting > 1 {
				err = bad("a number in (0, 1]")
			}
		case "quadrature":
			if !strings.EqualFold(text, "auto") {
				err = whole(&m.Params.Quadrature, 2, 512)
			}
		case "covariance":
			o.Covariance = text
		case "hessian":
			o.Hessian = text
		case "max_iter":
			err = whole(&o.MaxIter, 1, 1e6)
		case "tol":
			err = number(&o.Tol, 0, true)
		case "damping":
			err = number(&o.Damping, 0, true)
		case "rank":
			err = whole(&o.Rank, 1, 10_000)
		case "oversample":
			err = whole(&o.Oversample, 0, 10_000)
		case "power_iterations":
			err = whole(&o.PowerIterations, 0, 100)
		case "samples":
			err = whole(&o.Samples, 1, 1e6)
		case "warmup":
			err = whole(&o.Warmup, 1, 1e6)
		case "chains":
			err = whole(&o.Chains, 1, 64)
		case "measurement_noise":
			switch {
			case strings.EqualFold(text, "auto"):
				o.MeasurementNoise = math.NaN()
			case !strings.EqualFold(text, "bernoulli"):
				err = number(&o.MeasurementNoise, 0, true)
			}
		case "noise_floor":
			err = number(&o.NoiseFloor, 0, true)
		case "standardize":
			err = truth(&o.Standardize)
		case "seed":
			var seed int
			if err = whole(&seed, 0, 1<<53); err == nil {
				o.Seed = uint64(max(seed, 0))
			}
		case "time_limit":
			var v float64
			if err = number(&v, 0, true); err == nil {
				o.TimeLimit = time.Duration(min(v, 1e9) * float64(time.Second))
			}
		case "hash_bits":
			err = whole(&m.HashBits, 1, 30)
		case "max_features":
			err = whole(&m.MaxFeatures, 1, math.MaxUint32-1)
		case "on_error":
			switch text {
			case "fail", "skip":
				job.SkipBad = text == "skip"
			default:
				err = bad("'fail' or 'skip'")
			}
		default:
			err = usageError{fmt.Errorf("--option %s takes a value of SQL; use --engine duckdb", key)}
		}
		if err != nil {
			return err
		}
	}
	for key, allowed := range map[string][]string{"covariance": {"", "diagonal", "full", "lowrank"}, "hessian": {"", "auto", "full", "diagonal", "block", "lowrank"}} {
		if v := map[string]string{"covariance": o.Covariance, "hessian": o.Hessian}[key]; !slices.Contains(allowed, v) {
			return usageError{fmt.Errorf("--option %s: found %s; allowed: %s", key, v, strings.Join(allowed[1:], ", "))}
		}
	}
	if m.Forgets() && (m.Noise > 0 || o.AutoNoise) {
		return usageError{errors.New("options process_noise and forgetting are two models of drift; give one of them")}
	}
	if job.Trials != "" && family == "" {
		family = "binomial"
	}
	l, err := lik.New(family, link, m.Params)
	if err != nil {
		return usageError{fmt.Errorf("--option: %w", err)}
	}
	if s, ok := l.(lik.Shaped); ok && math.IsNaN(m.Params.Shape) {
		m.Params.Shape = s.Shape()
	}
	m.Lik = l
	return nil
}

// adopt takes from the fit to start from what no option says.
func adopt(m *kernels.Model, f *kernels.Fit, flags []string) error {
	opts, err := parseOptionFlags(flags)
	if err != nil {
		return err
	}
	given := func(key string) bool {
		return slices.ContainsFunc(opts, func(o [2]string) bool { return o[0] == key })
	}
	if !given("family") && !given("link") {
		m.Params.Dispersion, m.Params.Shape = f.Dispersion, f.Shape
		if m.Lik, err = lik.New(f.Family, f.Link, m.Params); err != nil {
			return err
		}
	}
	if m.Lik.Family() != f.Family || m.Lik.Link() != f.Link {
		return fmt.Errorf("the job is %s %s, the fit %s %s", m.Lik.Family(), m.Lik.Link(), f.Family, f.Link)
	}
	if !given("prior_mean") {
		m.Prior.Mean = f.Prior.Mean
	}
	if !given("prior_variance") {
		m.Prior.Variance = f.Prior.Variance
	}
	if !given("intercept_variance") {
		m.Prior.InterceptVariance = f.Prior.InterceptVariance
	}
	if !given("hash_bits") {
		m.HashBits = f.HashBits
	}
	if m.HashBits != f.HashBits || m.Intercept != f.Intercept {
		return fmt.Errorf("intercept and hash_bits of the job are %v and %d, those of the fit %v and %d", m.Intercept, m.HashBits, f.Intercept, f.HashBits)
	}
	return nil
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

// counter is a progress bar over rows of an unknown number.
type counter struct{ bar *progressbar.ProgressBar }

func (s *session) counter(what string) *counter {
	if !s.bar {
		return &counter{}
	}
	return &counter{progressbar.NewOptions64(-1, progressbar.OptionSetWriter(s.e.stderr), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))}
}

func (c *counter) set(n int64) {
	if c.bar != nil {
		_ = c.bar.Set64(n)
	}
}

func (c *counter) finish() {
	if c.bar != nil {
		_ = c.bar.Finish()
	}
}

// emptyJob has no groups.
var emptyJob job
