package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/lik"
)

type fitCommand struct {
	dataFlags
	modelFlags
	outputFlags
	csvFlags
	Prior       string        `placeholder:"FILE" help:"Belief file to start from: its fit is continued, or serves as the prior. Without --formula, --y and --x, its model is taken."`
	Out         string        `placeholder:"FILE" help:"File for the belief table: .parquet, .arrow, .csv, .json or .duckdb (default: CSV on the standard output)."`
	Parallel    bool          `help:"Let all threads absorb rows, in no fixed order, and merge what they learnt. This is faster, but repeatable only to the accuracy of the merge. Methods that keep their rows always read with all threads."`
	Compress    bool          `help:"Keep rows with equal features once, with the sums of their responses. The fit is that of all rows; memory and time are those of the distinct rows. The same as --option compress=true."`
	OutOfCore   bool          `name:"out-of-core" help:"Fit rows that do not fit in memory, by several passes over them: Laplace's approximation, or --method ep or lowrank. Starting from the fit of a sample, this takes two to four passes, for ep about ten. With --group, only groups whose rows do not fit are fitted by passes. A run that was killed continues where it was."`
	Partial     bool          `help:"Make one pass over these rows, a part of all rows, and write its state to --out FILE.parquet, for bglm merge and bglm finish."`
	Around      string        `placeholder:"FILE" help:"With --partial or --out-of-core: the fit at whose weights the pass evaluates the likelihood, such as the fit of a sample or of the pass before. With --method lowrank: the merged pass before itself."`
	Engine      string        `placeholder:"NAME" enum:"duckdb,arrow" default:"duckdb" help:"How rows are read: duckdb (default), or arrow, which streams the columns of Parquet and Arrow files without SQL."`
	Incremental bool          `help:"Process only files that are not yet in the ledger of --out (a .duckdb file), one after the other, each in a transaction."`
	Watch       time.Duration `placeholder:"DURATION" help:"With --incremental: keep checking for new files at this interval, until Ctrl-C."`

	job  *job.Job // with SQL, once it is fitted
	src  *job.Source
	kept []error // of incremental files

	prior *fitstore.Fits // of --prior, once it is loaded
	dot   []string       // what . stands for in the formula of --prior
}

// Help is the text below the usage line.
func (*fitCommand) Help() string {
	return `Fits a model to the rows of files and writes its belief table: feature, mean, variance.

It prints the terms with their intervals, and how well the fit predicts rows that it has not seen,
next to the score of the base rate alone. For that, each row is left out in turn; a stream predicts
each row before learning it.

Formulas are written as in R, with names of columns and SQL functions of them (ln is the natural
logarithm). a:b and a*b are interactions, - 1 removes the intercept, factor(e) treats numbers as
levels, I(e) is arithmetic, offset(e) an offset, and a dot stands for all other columns. A column of
numbers is one feature under its name; text, booleans and dates give features name=value.

Examples:

  bglm fit --data testdata/flights.parquet --formula 'delay > 15 ~ origin + destination + factor(hour(date))' --order date --out beliefs.parquet
  bglm fit --data 'days/*.parquet' --formula 'click ~ ad + site + ad:site' --group country --method laplace --option prior_variance=auto --out beliefs.parquet
  bglm fit --data 'days/*.parquet' --formula 'click ~ ad' --incremental --out model.duckdb
  cat rows.arrows | bglm fit --data - --engine arrow --formula 'y ~ a + b' --out beliefs.arrow

Options of the methods (--option KEY=VALUE):

` + optionHelp()
}

// summary is the report of a command.
type summary struct {
	Command   string   `json:"command"`
	Method    string   `json:"method,omitempty"`
	Family    string   `json:"family,omitempty"`
	Link      string   `json:"link,omitempty"`
	Files     int      `json:"files,omitempty"`
	Copies    int      `json:"copies,omitempty"` // files left out, since others had the same bytes
	Groups    *int64   `json:"groups,omitempty"`
	Unfitted  int64    `json:"groups_without_fit,omitempty"` // groups that on_error left without one
	Unnamed   []string `json:"without_fit,omitempty"`        // the first of them
	N         int64    `json:"n"`
	Skipped   int64    `json:"n_skipped"`
	Weights   int64    `json:"weights"`
	Evidence  *float64 `json:"log_evidence,omitempty"`
	Converged bool     `json:"converged"`
	Status    string   `json:"status,omitempty"`
	Untold    string   `json:"needs,omitempty"`              // options that a file of beliefs alone needs to predict
	Lost      []string `json:"lost,omitempty"`               // parameters of groups that none of its options gives
	Priors    bool     `json:"priors_lost,omitempty"`        // priors of features, prior variances of columns or groups, too
	Apart     bool     `json:"predictions_differ,omitempty"` // by a file of beliefs alone: joint, since it has no covariance; gaps, if a value is NULL
	*learnt            // of bglm fit
	Terms     []term   `json:"terms,omitempty"` // of bglm fit, at most 1,000
	Seconds   float64  `json:"seconds"`
	Rate      float64  `json:"rows_per_second,omitempty"`
	Out       string   `json:"out,omitempty"`

	joint, gaps bool
	byColumn    bool   // Priors has variances of columns or groups
	given       string // priors of features, as written
	assumed     string // what was assumed for want of options, "" for nothing
}

// summarise fills in a summary from the table of fits.
func summarise(s *duck.Session, f *fitstore.Fits, sum *summary) error {
	if !f.IsFit {
		sum.Method = engine.Names(engine.Process)[0]
		return s.Row("SELECT any_value(fit.family), any_value(fit.link), coalesce(sum(fit.n), 0)::BIGINT, bool_and(fit.converged), string_agg(DISTINCT fit.status, '; ') FROM "+f.Table, &sum.Family, &sum.Link, &sum.N, &sum.Converged, &sum.Status)
	}
	var groups int64
	var evidence sql.NullFloat64
	status := "(FROM (SELECT DISTINCT fit.status AS s FROM " + f.Table + ") WHERE s <> 'ok' ORDER BY 1 LIMIT 3)"
	if len(f.Group) > 0 {
		status = statusOfGroups(f)
	}
	err := s.Row(`SELECT any_value(fit.method), any_value(fit.family), any_value(fit.link), count(fit), coalesce(sum(fit.n), 0)::BIGINT, coalesce(sum(fit.n_skipped), 0)::BIGINT,
		coalesce(sum(len(fit.beliefs)), 0)::BIGINT, sum(fit.log_evidence), coalesce(bool_and(fit.converged), true),
		coalesce((SELECT string_agg(s, '; ') FROM `+status+`), 'ok') FROM `+f.Table,
		&sum.Method, &sum.Family, &sum.Link, &groups, &sum.N, &sum.Skipped, &sum.Weights, &evidence, &sum.Converged, &sum.Status)
	if len(f.Group) > 0 {
		sum.Groups, sum.Status = &groups, kernels.Join(sum.Status, kernels.SkippedNote(sum.Skipped))
		if err == nil {
			err = sum.unfitted(s, f)
		}
	}
	if err == nil && (sum.Command == "fit" || sum.Command == "merge" || sum.Command == "finish") {
		var needs fitstore.Needs
		if needs, err = f.MissingOptions(sum.Out); err == nil {
			sum.Untold, sum.Lost, sum.Priors = needs.Options, needs.Lost, needs.Priors || needs.Given != ""
			sum.byColumn, sum.given = needs.Priors, needs.Given
			sum.joint, sum.gaps, err = f.LosesCovariance(sum.Out)
			sum.Apart = sum.joint || sum.gaps
		}
	}
	sum.Status = kernels.Join(sum.Status, sum.assumed)
	if sum.N > 0 && evidence.Valid && !math.IsInf(evidence.Float64, 0) && !math.IsNaN(evidence.Float64) {
		sum.Evidence = &evidence.Float64
	}
	return err
}

// statusOfGroups is a query for what most groups say in status, with their number and one of them
// by name; statuses that differ in numbers alone are one. Each reports its own skipped rows.
func statusOfGroups(f *fitstore.Fits) string {
	return `(SELECT n || ' of ' || total || ' groups' || CASE n WHEN 1 THEN ' (' || left("group", 100) || '): ' ELSE ', such as ' || left("group", 100) || ': ' END || said AS s
		FROM (SELECT count(*) AS n, arg_min(said, "group") AS said, min("group") AS "group"
			FROM (SELECT coalesce(nullif(ltrim(regexp_replace(fit.status, '(^|; )\d+ rows? (was|were) skipped', ''), '; '), ''), 'ok') AS said, ` + nameOfGroup(f) + ` AS "group" FROM ` + f.Table + `)
			WHERE said <> 'ok' GROUP BY regexp_replace(said, '[-+.e\d]*\d', '0', 'g')), (SELECT count(fit) AS total FROM ` + f.Table + `)
		ORDER BY n DESC, "group" LIMIT 3)`
}

// nameOfGroup is an expression for the values of the group columns, as text.
func nameOfGroup(f *fitstore.Fits) string { return job.NameOfGroup(f.Table, duck.Names(f.Group)) }

// keptError is the error about fits that stay as they were, since on_error=null left the rows of a file
// without one: those of groups, or the only one.
func keptError(file string, groups []string) error {
	stay := "the fit stays as it was"
	if n := len(groups); n > 0 {
		stay = "1 group keeps its earlier fit"
		if n > 1 {
			stay = some(int64(n), "group") + " keep their earlier fits"
		}
		if n > namedGroups {
			groups = append(slices.Clone(groups[:namedGroups]), "...")
		}
		stay += " (" + strings.Join(groups, "; ") + ")"
	}
	return fmt.Errorf("%s: %s, without these rows: one is bad, or they cannot be fitted, for which --option on_error=null is; on_error=skip leaves out bad rows alone", file, stay)
}

// namedGroups is how many groups without a fit are named.
const namedGroups = 10

// unfitted finds the groups that have no fit.
func (sum *summary) unfitted(s *duck.Session, f *fitstore.Fits) (err error) {
	from := " FROM " + f.Table + " WHERE fit IS NULL"
	if err = s.Row("SELECT count(*)"+from, &sum.Unfitted); err != nil || sum.Unfitted == 0 {
		return err
	}
	sum.Unnamed, err = s.Texts(fmt.Sprintf("SELECT %s%s ORDER BY 1 LIMIT %d", nameOfGroup(f), from, namedGroups))
	return err
}

// without is the part of a summary about groups without a fit.
func (sum *summary) without() string {
	more := ""
	if sum.Unfitted > int64(len(sum.Unnamed)) {
		more = ", ..."
	}
	return fmt.Sprintf(" and %s without a fit (%s%s)", some(sum.Unfitted, "group"), strings.Join(sum.Unnamed, "; "), more)
}

func (sum *summary) setTiming(began time.Time) {
	sum.Seconds = time.Since(began).Seconds()
	if sum.N > 0 && sum.Seconds > 0 {
		sum.Rate = math.Round(float64(sum.N) / sum.Seconds)
	}
	sum.Seconds = math.Round(sum.Seconds*1000) / 1000
}

// print writes the summary to w: as JSON or a line.
func (o *outputFlags) print(w io.Writer, sum *summary) error {
	switch {
	case o.JSON:
		return writeJSON(w, sum)
	case o.Quiet:
		return nil
	}
	var b strings.Builder
	if sum.Command == "predict" {
		unknown := ""
		if sum.Skipped > 0 {
			unknown = fmt.Sprintf("; %s of groups without beliefs, whose prediction is NULL", some(sum.Skipped, "row"))
		}
		_, err := fmt.Fprintf(w, "%s scored%s; %.2f s; wrote %s\n", some(sum.N, "row"), unknown, sum.Seconds, shell.Visible(sum.written()))
		return err
	}
	fmt.Fprintf(&b, "%s %s %s: %s", sum.Method, sum.Family, sum.Link, some(sum.N, "row"))
	if sum.Skipped > 0 {
		fmt.Fprintf(&b, " (%s skipped)", count(sum.Skipped))
	}
	if sum.Groups != nil {
		fmt.Fprintf(&b, ", %s", some(*sum.Groups, "group"))
		if sum.Unfitted > 0 {
			b.WriteString(sum.without())
		}
	}
	if sum.Weights > 0 {
		fmt.Fprintf(&b, ", %s", some(sum.Weights, "weight"))
	}
	if sum.Evidence != nil {
		fmt.Fprintf(&b, ", log evidence %.6g", *sum.Evidence)
	}
	fmt.Fprintf(&b, ", %s; %.2f s", sum.Status, sum.Seconds)
	fmt.Fprintf(&b, "; wrote %s", sum.written())
	if sum.Untold != "" {
		fmt.Fprintf(&b, ", which has the beliefs alone: to predict from it, give %s", sum.Untold)
	}
	if len(sum.Lost) > 0 {
		fmt.Fprintf(&b, "; each group has another %s, without which distributions of responses are wrong: .parquet, .arrow and .duckdb keep it", strings.Join(sum.Lost, " and "))
	}
	if sum.byColumn {
		b.WriteString("; it leaves out prior variances of single columns or groups, for which its readers take prior_variance: .parquet, .arrow and .duckdb keep them")
	}
	if sum.given != "" {
		fmt.Fprintf(&b, "; it leaves out priors=%s, which bglm merge counts once if --prior is a table of them, or a file that keeps them: .parquet, .arrow or .duckdb", sum.given)
	}
	switch {
	case sum.joint:
		b.WriteString("; predictions from it differ from those of the fit, whose covariance it leaves out: .parquet, .arrow and .duckdb keep it")
	case sum.gaps:
		b.WriteString("; predictions from it differ from those of the fit for rows without a value, for which it has no mean or level: .parquet, .arrow and .duckdb keep them")
	}
	_, err := fmt.Fprintln(w, shell.Visible(strings.TrimSpace(b.String())))
	return err
}

// written names what the command writes.
func (sum *summary) written() string {
	if sum.Out != "" && !fitstore.Stdout(sum.Out) {
		return sum.Out
	}
	format := map[string]string{"csv": "CSV", "json": "JSON", "arrow": "Arrow", "parquet": "Parquet"}
	return format[fitstore.OutKind(sum.Out)] + " to the standard output"
}

// checkOut checks the destination of a command's belief table.
func (o *outputFlags) checkOut(out string, csv *csvFlags) error {
	if out == "" && o.JSON {
		return cli.Usage(errors.New("--json prints the summary on the standard output, where the beliefs would go: give --out FILE"))
	}
	return errors.Join(fitstore.CheckOut(out), csv.check(out))
}

// finish writes the fits of a command to sum.Out and prints its summary.
func (o *outputFlags) finish(s *duck.Session, f *fitstore.Fits, sum *summary, began time.Time) error {
	if err := summarise(s, f, sum); err != nil {
		return err
	}
	// The last step: a job that is stopped before says that nothing was written.
	if err := deliver(s, f, sum.Out); err != nil {
		return err
	}
	sum.setTiming(began)
	return o.print(sum.besideOutput(s.Env), sum)
}

// besideOutput is where a summary goes, to which beliefs or predictions are not written.
func (sum *summary) besideOutput(e *cli.Env) io.Writer {
	if sum.Out == "" || fitstore.Stdout(sum.Out) {
		return e.Stderr
	}
	return e.Stdout
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Run fits and writes.
func (c *fitCommand) Run(e *cli.Env) error {
	began := time.Now()
	if c.Compress {
		c.Option = append(c.Option, "compress=true")
	}
	unsaid := c.Prior != "" && c.Formula == "" && c.Y == "" && c.X == ""
	model := c.model()
	if err := model.Check(); err != nil && !unsaid {
		return err
	}
	if err := errors.Join(c.checkOut(c.Out, &c.csvFlags), c.rejectOverwrite(c.Out), c.checkLogs()); err != nil {
		return err
	}
	if c.Partial {
		if err := spared(c.Out, c.Around); err != nil {
			return err
		}
	}
	if c.Watch != 0 && !c.Incremental {
		return cli.Usage(errors.New("--watch belongs to --incremental"))
	}
	if err := c.checkPasses(); err != nil {
		return err
	}
	s, err := duck.Open(e, c.Quiet)
	if err != nil {
		return err
	}
	defer s.Close()
	s.CSVSafe = c.CSVSafe
	if unsaid {
		if err := c.modelOfPrior(s); err != nil {
			return fmt.Errorf("--prior %w", err)
		}
	}
	if c.Partial {
		return c.partial(s)
	}
	if c.Incremental {
		return c.incremental(s)
	}
	if err := fitstore.CheckTables(s, c.Out, fitstore.FitTables); err != nil {
		return err
	}
	sum := &summary{Command: "fit", Out: c.Out}
	var f *fitstore.Fits
	switch {
	case c.OutOfCore:
		f, sum.Files, err = c.byPasses(s)
	case c.Engine == "arrow":
		f, sum.Files, err = c.byArrow(s)
	default:
		f, sum.Files, err = c.bySQL(s)
	}
	if err != nil {
		return err
	}
	if err := summarise(s, f, sum); err != nil {
		return err
	}
	if err := s.Unchanged(); err != nil {
		return err
	}
	if err := deliver(s, f, c.Out); err != nil {
		return err
	}
	if c.OutOfCore && c.Out != "" {
		if err := os.Remove(passFile(c.Out)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	sum.setTiming(began)
	if err := c.printResults(s, f, sum); err != nil {
		return err
	}
	if c.job != nil && len(c.job.Kept) > 0 {
		return keptError(strings.Join(c.src.Names(), ", "), c.job.Kept)
	}
	return nil
}

func (c *fitCommand) printResults(s *duck.Session, f *fitstore.Fits, sum *summary) error {
	w := sum.besideOutput(s.Env)
	if c.Quiet && !c.JSON {
		return nil
	}
	if err := c.addResults(s, f, sum, w); err != nil {
		if s.Interrupted() != nil {
			err = errors.New("interrupted; the fit is written, its summary is left out")
		}
		return err
	}
	return c.print(w, sum)
}

// addResults adds the results of the fit to a summary: its terms, printed to w unless the summary is
// JSON, and how well it predicts.
func (c *fitCommand) addResults(s *duck.Session, f *fitstore.Fits, sum *summary, w io.Writer) error {
	most := shownTerms
	if c.JSON {
		most = storedTerms
	}
	var all int64
	var err error
	if sum.Terms, all, err = terms(s, f, most); err != nil {
		return err
	}
	if c.job != nil && f.IsFit && !f.HasClass && c.Prior == "" && sum.N > 0 {
		if sum.learnt, err = measured(s, f, c.job, c.src); err == nil {
			err = s.Unchanged()
		}
		if err != nil {
			sum.learnt = nil
			if s.Interrupted() != nil {
				return err
			}
			// The fit has been computed and written.
			fmt.Fprintf(s.Env.Stderr, "bglm fit: how well it predicts is not known: %v\n", err)
		}
	}
	if c.JSON {
		return nil
	}
	factorised := kernels.Factorised(sum.Status)
	text := termTable(sum.Terms, all, factorised)
	if !factorised {
		more, err := centredNote(s, f, sum.Terms)
		if err != nil {
			return err
		}
		text += interceptNote(sum.Terms) + more
	}
	if sum.learnt != nil {
		text += sum.learnt.line() + "\n"
	}
	_, err = io.WriteString(w, text)
	return err
}

// deliver writes fits to path, or their beliefs as CSV to the standard output.
func deliver(s *duck.Session, f *fitstore.Fits, path string) error {
	if path != "" && path != "-" {
		return f.Save(path)
	}
	if !f.IsFit {
		return cli.Usage(errors.New("this method's fit has no belief table: give --out FILE.parquet, .json or .duckdb"))
	}
	tmp := filepath.Join(s.Dir, "out.csv")
	if err := fitstore.CopyTo(s, tmp, f.Flat(false), nil); err != nil {
		return err
	}
	b, err := os.ReadFile(tmp)
	if err != nil {
		return err
	}
	_, err = shell.ForTerminal(s.Env.Stdout, cli.IsTerminal(s.Env.Stdout)).Write(b)
	return err
}

// checkLogs is formula.CheckLogs for a new fit. A continued one has the formula of the fit it
// continues.
func (c *fitCommand) checkLogs() error {
	if c.Formula == "" || c.Prior != "" || c.Around != "" {
		return nil
	}
	if _, err := os.Stat(c.Out); c.Incremental && err == nil {
		return nil
	}
	f, err := formula.Parse(c.Formula)
	if err != nil {
		return cli.Usage(err)
	}
	if err := f.CheckLogs(); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// model is that of the flags or of --prior.
func (c *fitCommand) model() job.Model {
	m := c.modelFlags.model()
	m.Dot = c.dot
	return m
}

// modelOfPrior takes the model of --prior for want of another: its formula or y and x, options by
// row, groups and order. Errors name the file.
func (c *fitCommand) modelOfPrior(s *duck.Session) error {
	f, err := c.loadPrior(s)
	if err != nil {
		return err
	}
	m, ok, err := modelOf(f)
	if err != nil {
		return files.Named(c.Prior, err)
	}
	if !ok {
		return cli.Usage(fmt.Errorf("%s does not know its formula: give --formula, or --y and --x", c.Prior))
	}
	c.Formula, c.X, c.dot = m.Formula, m.X, m.Dot
	said := []string{m.Formula}
	if m.Formula == "" {
		c.Y, said[0] = m.Y, "--y "+m.Y+" --x "+m.X
	}
	own, err := job.ParseOptions(c.Option)
	if err != nil {
		return err
	}
	for _, o := range m.Option {
		key, _, _ := strings.Cut(o, "=")
		if slices.Contains(job.RowKeys, key) && !slices.ContainsFunc(own, func(k [2]string) bool { return k[0] == key }) {
			c.Option, said = append(c.Option, o), append(said, "--option "+o)
		}
	}
	if c.Group == nil {
		for k, g := range f.Group {
			if m.Group[k] == "" {
				m.Group[k] = quote.Name(g.Name)
			}
			c.Group, said = append(c.Group, m.Group[k]), append(said, "--group "+m.Group[k])
		}
	}
	if c.Order == "" && m.Order != "" {
		c.Order, said = m.Order, append(said, "--order "+m.Order)
	}
	if !c.Quiet {
		fmt.Fprintln(s.Env.Stderr, shell.Visible("bglm fit: the model of "+c.Prior+": "+strings.Join(said, ", ")))
	}
	return nil
}

// loadPrior loads the fits of --prior, once, and tells of an offset that they have and the job has
// not.
func (c *fitCommand) loadPrior(s *duck.Session) (*fitstore.Fits, error) {
	if c.prior != nil {
		return c.prior, nil
	}
	f, err := fitstore.Load(s, "prior_fits", c.Prior, c.priorOptions())
	if err != nil {
		return nil, err
	}
	c.prior = f
	if m, ok, err := modelOf(f); ok && err == nil && !c.Quiet && (c.Formula != "" || c.X != "") {
		had, err := offsetsOf(f, m)
		has, err2 := formula.Parse(c.Formula)
		given := slices.ContainsFunc(c.Option, func(o string) bool { return strings.HasPrefix(strings.TrimSpace(o), "offset") })
		if len(had) > 0 && err == nil && !given && (c.Formula == "" || err2 == nil && len(has.Offset) == 0) {
			fmt.Fprintln(s.Env.Stderr, shell.Visible("bglm fit: "+c.Prior+" has the offset "+strings.Join(had, " + ")+", this model none: give offset( ) in --formula or --option offset if its rows have one"))
		}
	}
	return f, nil
}

// priorOptions describe a --prior that is a table of beliefs without a model: the job's family and
// link, with its intercept or without.
func (c *fitCommand) priorOptions() (out [][2]string) {
	opts, err := job.ParseOptions(c.Option)
	if err != nil {
		return nil // parsing for the job gives the error again
	}
	given, family := false, lik.Families()[0].Family
	if f, err := formula.Parse(c.Formula); c.Formula != "" && err == nil && !f.Intercept {
		out = append(out, [2]string{"intercept", "false"})
	}
	for _, o := range opts {
		switch o[0] {
		case "family", "link":
			out, given = append(out, o), true
		case "hash_bits":
			out = append(out, o)
		case "trials":
			family = "binomial"
		case "intercept":
			if !slices.ContainsFunc(out, func(k [2]string) bool { return k[0] == "intercept" }) {
				out = append(out, o)
			}
		}
	}
	if !given {
		out = append(out, [2]string{"family", family})
	}
	return out
}

// started is the metadata of a job, with a mark if its fits start from beliefs.
func (c *fitCommand) started(meta []string) []string {
	if c.Prior == "" {
		return meta
	}
	return append(meta, startKey, "true")
}

func (c *fitCommand) bySQL(s *duck.Session) (*fitstore.Fits, int, error) {
	src, err := job.Open(s, c.data())
	if err != nil {
		return nil, 0, err
	}
	j, err := job.New(src, c.model(), true)
	if err != nil {
		return nil, 0, err
	}
	prior := ""
	if c.Prior != "" {
		f, err := c.loadPrior(s)
		if err != nil {
			return nil, 0, fmt.Errorf("--prior: %w", err)
		}
		if err := f.Continues(j.GroupNames()); err != nil {
			return nil, 0, fmt.Errorf("--prior %s: %w", c.Prior, err)
		}
		prior = f.Table
	}
	src.Fits = c.Prior
	if err := j.Fit(src, prior, c.Parallel); err != nil {
		return nil, 0, err
	}
	c.job, c.src = j, src
	mark, err := rowsMark(s, j.Y, j.X, src.Rows())
	if err != nil {
		return nil, 0, src.Blame(err)
	}
	j.Meta = append(c.started(j.Meta), rowsKey, mark)
	f, err := fitstore.Open(s, "fits", j.Meta)
	if err != nil {
		return nil, 0, err
	}
	var none bool
	if err := s.Row("SELECT count(*) FILTER (fit IS NOT NULL) = 0 FROM fits", &none); err != nil {
		return nil, 0, err
	}
	if none {
		why := "no rows to fit"
		if v, _ := j.Option("on_error"); v == "'null'" {
			why += ", or a bad one in each group, which on_error=null leaves without a fit"
		}
		return nil, 0, fmt.Errorf("%s: %s", strings.Join(src.Names(), ", "), why)
	}
	return f, len(src.Files), nil
}
