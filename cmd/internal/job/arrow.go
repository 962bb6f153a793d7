package job

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// Arrow is a model and files that are fitted without SQL: columns of Parquet or Arrow files are
// streamed to the engine, in the order of the files.
type Arrow struct {
	Files []string
	Meta  []string // pairs, stored with the beliefs

	job  arrowio.Job
	f    *formula.Formula // nil without one
	set  *option.Settings
	by   []Setting // options implied by terms of the formula
	kind string
	s    *duck.Session
}

// NewArrow reads the flags as columns and settings. Flags that need SQL are usage errors.
func NewArrow(s *duck.Session, d Data, m Model) (*Arrow, error) {
	a := &Arrow{s: s}
	if err := a.model(m); err != nil {
		return nil, err
	}
	for flag, given := range map[string]bool{"--where": d.Where != "", "--order": m.Order != "", "--table": d.Table != ""} {
		if given {
			return nil, cli.Usage(fmt.Errorf("%s needs SQL; --engine arrow takes the rows as they come", flag))
		}
	}
	var err error
	if a.Files, err = d.All(); err != nil {
		return nil, err
	}
	if a.kind, err = d.Kind(a.Files); err != nil {
		return nil, err
	}
	if slices.Contains(a.Files, "-") {
		in, err := files.Unpacked(bufio.NewReader(s.Env.Stdin))
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		if a.kind == "" {
			a.kind = files.Sniff(in)
		}
		s.Env.Stdin = in
	}
	if a.kind != "arrow" && a.kind != "parquet" {
		return nil, cli.Usage(fmt.Errorf("--engine arrow reads Parquet and Arrow IPC; the data are %s", a.kind))
	}
	return a, a.checkGroups()
}

// checkGroups rejects groups whose values Arrow reads from Parquet as other values than DuckDB, which
// would not find their fits.
func (a *Arrow) checkGroups() error {
	if a.kind != "parquet" || !a.Grouped() || slices.Contains(a.Files, "-") {
		return nil
	}
	cols, err := a.s.Describe("FROM read_parquet(" + FileList(a.Files[:1]) + ")")
	if err != nil {
		return nil // of a damaged file, which its reader reports
	}
	for _, c := range cols {
		if c.Type == "INTERVAL" && slices.ContainsFunc(a.job.Group, func(g string) bool { return strings.EqualFold(g, c.Name) }) {
			return cli.Usage(fmt.Errorf("--group %s: an INTERVAL, which Parquet keeps as bytes; it goes with --engine duckdb", c.Name))
		}
	}
	return nil
}

// Grouped reports whether there is a fit for each of several groups.
func (a *Arrow) Grouped() bool { return len(a.job.Group) > 0 }

// Continue starts from the posterior of a fit.
func (a *Arrow) Continue(from *kernels.Fit) error { return a.set.Continue(from) }

// notByArrow says why --engine arrow does not fit kinds of methods that bglm fit has.
var notByArrow = map[engine.Kind]string{
	engine.Classes: "y is a label, and --engine arrow reads numbers",
	engine.Process: "x is a point and the fit a function of it, and --engine arrow stores beliefs by feature",
}

// model reads the model's flags.
func (a *Arrow) model(m Model) error {
	a.job.Method = cmp.Or(strings.ToLower(m.Method), engine.Auto)
	if _, err := engine.Find(a.job.Method, engine.Weights); err != nil {
		if m, _ := engine.Find(a.job.Method); m != nil && notByArrow[m.Kind] != "" {
			return cli.Usage(fmt.Errorf("--method %s: %s; it goes with --engine duckdb", m.Name, notByArrow[m.Kind]))
		}
		return cli.Usage(fmt.Errorf("%w; others go with --engine duckdb", err))
	}
	if err := m.Check(); err != nil {
		return err
	}
	opts, err := ReadOptions(a.s, m.Option)
	if err != nil {
		return err
	}
	if m.Formula != "" {
		opts, err = a.formula(m.Formula, opts)
	} else if err = plainColumn(&a.job.Y, "--y", m.Y); err == nil {
		err = plainColumn(&a.job.Features, "--x", m.X)
	}
	if err != nil {
		return err
	}
	for _, g := range m.Group {
		for _, name := range strings.Split(g, ",") {
			if err := plainColumn(&name, "--group", name); err != nil {
				return err
			}
			a.job.Group = append(a.job.Group, name)
			a.keep("group."+name, quote.Name(name))
		}
	}
	a.keep("formula", m.Formula)
	a.keep("y", m.Y)
	a.keep("x", m.X)
	columns := map[string]*string{"weight": &a.job.Weight, "offset": &a.job.Offset, "trials": &a.job.Trials, "time": &a.job.Time}
	for _, o := range opts {
		a.keep("option."+o[0], o[1])
		if to := columns[o[0]]; to != nil {
			if err := plainColumn(to, "--option "+o[0], o[1]); err != nil {
				return err
			}
		}
	}
	if err := arrowAccepts(opts); err != nil {
		return err
	}
	a.set, err = Settings(a.s, option.For(a.job.Method), opts)
	return a.termError(err)
}

// termError turns an error about an option into one about the term of the formula that implies it.
func (a *Arrow) termError(err error) error {
	var wrong *argument.Error
	if errors.As(err, &wrong) {
		if by := termError(a.by, wrong.Name, wrong.Named("")); by != nil {
			return by
		}
	}
	return err
}

func (a *Arrow) keep(key, value string) {
	if value != "" {
		a.Meta = append(a.Meta, key, value)
	}
}

// plainColumn sets to to the name of the column that sql is; what says where it was given.
func plainColumn(to *string, what, sql string) error {
	if _, err := strconv.ParseFloat(strings.TrimSpace(sql), 64); err == nil {
		return cli.Usage(fmt.Errorf("%s: %s is a number; --engine arrow takes the name of a column, --engine duckdb numbers too", what, sql))
	}
	name, ok := formula.Column(sql)
	if !ok {
		return cli.Usage(fmt.Errorf("%s: %s is an SQL expression; --engine arrow takes columns by name", what, sql))
	}
	*to = name
	return nil
}

// formula reads a formula of columns, and returns opts with the option for its intercept.
func (a *Arrow) formula(text string, opts [][2]string) ([][2]string, error) {
	f, err := formula.Parse(text)
	if err != nil {
		return nil, cli.Usage(err)
	}
	if f.Random && !slices.ContainsFunc(opts, func(o [2]string) bool { return o[0] == "prior_variance" }) {
		opts = append(opts, [2]string{"prior_variance", "auto"})
		a.by = append(a.by, Setting{Key: "prior_variance", Term: strings.Join(f.Bars, ", ")})
	}
	opts = slices.Clone(opts)
	for k, o := range opts {
		if o[0] == "prior_variance" {
			if opts[k][1] = learnBars(a.s, f, o[1]); opts[k][1] != strings.TrimSpace(o[1]) {
				a.by = append(a.by, Setting{Key: o[0], Term: strings.Join(f.Bars, ", ")})
			}
		}
	}
	if sets := f.CorrelatedSQL(); sets != "" {
		if slices.ContainsFunc(opts, func(o [2]string) bool { return o[0] == "correlated" }) {
			return nil, errCorrelated
		}
		opts = append(opts, [2]string{"correlated", sets})
		a.by = append(a.by, Setting{Key: "correlated", Term: strings.Join(f.Paired, ", ")})
	}
	if f.Dot || f.Trials != "" || len(f.Offset) > 1 {
		return nil, cli.Usage(fmt.Errorf("formula %q: --engine arrow takes no dot, no cbind and one offset at most", text))
	}
	if !f.Intercept {
		if i := slices.IndexFunc(opts, func(o [2]string) bool { return o[0] == "intercept" }); i < 0 {
			opts = append(opts, [2]string{"intercept", "false"})
		} else if opts[i][1] != "false" {
			return nil, cli.Usage(errors.New("the formula has no intercept, but --option intercept is " + opts[i][1]))
		}
	}
	if err := plainColumn(&a.job.Y, "formula", f.Y); err != nil {
		return nil, err
	}
	if len(f.Offset) == 1 {
		if err := plainColumn(&a.job.Offset, "offset", f.Offset[0]); err != nil {
			return nil, err
		}
	}
	for _, t := range f.Terms {
		for _, p := range t {
			if _, ok := columnOf(p); !ok {
				return nil, cli.Usage(fmt.Errorf("formula: %s is an SQL expression; --engine arrow takes columns by name", p.Name))
			}
		}
	}
	if len(f.Terms) == 0 {
		return nil, cli.Usage(errors.New("formula: --engine arrow needs a term"))
	}
	a.f = f
	return opts, nil
}

// columnOf is the name of the column that a part is, or whose levels it is.
func columnOf(p formula.Part) (string, bool) {
	name, ok := formula.Column(p.SQL)
	return strings.ReplaceAll(name, `""`, `"`), ok
}

// terms makes the terms of the formula, for columns of these types.
func (a *Arrow) terms(s *arrow.Schema) error {
	if a.f == nil {
		return nil
	}
	kind := func(p formula.Part) (formula.Kind, error) {
		name, _ := columnOf(p)
		return kindIn(s, name), nil
	}
	if err := a.f.Resolve(kind); err != nil {
		return err
	}
	a.job.Terms, a.job.Levels = nil, map[string]string{}
	for _, t := range a.f.Terms {
		var names arrowio.Term
		for _, p := range t {
			names = append(names, p.Name)
			if name, _ := columnOf(p); p.Factor {
				a.job.Levels[p.Name] = name
			}
		}
		a.job.Terms = append(a.job.Terms, names)
	}
	if len(a.f.Correlated) > 0 {
		a.job.Model.Correlated = a.f.Correlated
	}
	return nil
}

// kindIn is the kind of a column; Level if it is missing.
func kindIn(s *arrow.Schema, name string) formula.Kind {
	for _, f := range s.Fields() {
		if !strings.EqualFold(f.Name, name) {
			continue
		}
		t := f.Type
		switch d := t.(type) {
		case *arrow.DictionaryType:
			t = d.ValueType
		case *arrow.RunEndEncodedType:
			t = d.Encoded()
		}
		if arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID()) {
			return formula.Number
		}
		if arrow.IsNested(t.ID()) {
			return formula.Container
		}
	}
	return formula.Level
}

// Fit absorbs the rows of all files. Errors name the file and the row.
func (a *Arrow) Fit() (*arrowio.Groups, error) {
	s := a.s
	method, err := engine.Find(a.job.Method, engine.Weights)
	if err != nil {
		return nil, err
	}
	model, err := method.Model(a.set, a.job.Time != "", a.job.Trials != "")
	if err != nil {
		return nil, cli.Usage(a.termError(err))
	}
	a.job.Model, a.job.SkipBad = *model, a.set.OnError == option.Skip
	bar := s.Counter("fitting")
	defer bar.Finish()
	a.job.Progress = bar.Set
	var fitter *arrowio.Fitter
	for _, name := range a.Files {
		r, err := a.open(name)
		if err != nil {
			return nil, err
		}
		if fitter == nil {
			if err := a.terms(r.Schema()); err != nil {
				r.Close()
				return nil, err
			}
			if fitter, err = arrowio.NewFitter(r.Schema(), a.job); err != nil {
				r.Close()
				return nil, files.Named(name, err)
			}
		}
		before := fitter.Rows()
		for r.Next() && s.Ctx.Err() == nil && err == nil {
			err = fitter.Add(s.Ctx, r.RecordBatch())
		}
		if err != nil {
			err = inFile(name, before, err)
		}
		err = errors.Join(err, r.Err(), r.Close())
		if s.Ctx.Err() != nil {
			return nil, s.Failed(s.Ctx.Err())
		}
		if err != nil {
			return nil, files.Named(name, err)
		}
		if name == "-" {
			name = "standard input"
		}
		unended(s, name, r)
	}
	g, err := fitter.Groups(s.Ctx)
	if err == nil && len(g.Fits) == 0 {
		err = fmt.Errorf("%s: no rows to fit", strings.Join(a.Files, ", "))
	}
	return g, a.termError(err)
}

// inFile adds the file, and the row in it, to an error.
func inFile(name string, before int64, err error) error {
	msg := strings.TrimPrefix(err.Error(), "arrowio: ")
	var row int64
	if n, _ := fmt.Sscanf(msg, "row %d:", &row); n == 1 {
		_, rest, _ := strings.Cut(msg, ":")
		return fmt.Errorf("%s, row %d:%s", name, row-before, rest)
	}
	return fmt.Errorf("%s: %s", name, msg)
}

// rowReader is implemented by the readers of both formats.
type rowReader interface {
	array.RecordReader
	Close() error
}

// open reads the columns that the job uses.
func (a *Arrow) open(name string) (rowReader, error) {
	if name != "-" {
		a.s.Reads(name)
		if err := files.Check(name, a.kind); err != nil {
			return nil, err
		}
	}
	switch {
	case a.kind == "parquet" && name == "-":
		return nil, cli.Usage(errors.New("--data -: Parquet cannot be read from a stream by --engine arrow"))
	case a.kind == "parquet":
		return pqrows.Open(a.s.Ctx, name, a.columns())
	case name == "-":
		return arrowio.StreamIPC("standard input", a.s.Env.Stdin)
	}
	return arrowio.OpenIPC(name)
}

func (a *Arrow) columns() []string {
	j := &a.job
	out := append([]string{j.Y, j.Features, j.Weight, j.Offset, j.Trials, j.Time}, j.Group...)
	if a.f != nil {
		for _, t := range a.f.Terms {
			for _, p := range t {
				name, _ := columnOf(p)
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(c string) bool { return c == "" })
}
