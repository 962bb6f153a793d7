package main

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels/lik"
)

// scoreFlags select the fit that scores the rows.
type scoreFlags struct {
	Beliefs string   `short:"b" placeholder:"FILE" required:"" help:"File with the belief table, or with a column fit: .parquet, .arrow, .csv, .json or .duckdb."`
	Formula string   `short:"f" placeholder:"'Y ~ TERMS'" help:"Formula of the model, if the belief file does not have it."`
	Y       string   `name:"y" placeholder:"SQL" help:"Response, as in bglm fit."`
	X       string   `name:"x" placeholder:"SQL" help:"Features, as in bglm fit."`
	Option  []string `short:"o" sep:"none" placeholder:"KEY=VALUE" help:"family, link and so on, if the belief table does not have them; offset, trials and weight of the rows."`
}

type predictCommand struct {
	dataFlags
	scoreFlags
	outputFlags
	csvFlags
	Prediction string  `placeholder:"KIND" enum:"${predictions}" default:"exact" help:"How the expected response is computed: with the weights integrated out (exact, the default), by MacKay's moderation (mackay), or at the mean weights (plugin)."`
	Dist       bool    `help:"Also write eta_mean, eta_variance, mean, variance, lower and upper of the predictive distribution."`
	Level      float64 `placeholder:"P" default:"0.95" help:"Probability of the interval lower to upper (default: 0.95)."`
	Columns    string  `placeholder:"SQL" default:"*" help:"Columns of the data to keep: names or expressions, or the word none (default: all)."`
	Out        string  `placeholder:"FILE" required:"" help:"File for the rows with their predictions: .parquet, .arrow, .csv, .json or .duckdb (table predictions). - writes CSV to the standard output, --out=-.json and so on other formats."`
}

// Help is the text below the usage line.
func (*predictCommand) Help() string {
	return `Writes the rows with a column prediction. The formula is the one that bglm fit stored in the belief
file. Rows of a group without beliefs have the prediction NULL.

Examples:

  bglm predict --beliefs beliefs.parquet --data testdata/flights.parquet --out scores.parquet
  bglm predict --beliefs beliefs.csv --option link=probit --data today.csv --x '{origin, destination}' --columns 'id' --dist --out scores.csv`
}

// scoring is a relation of rows with their fit.
type scoring struct {
	fits *fitstore.Fits
	src  *job.Source
	job  *job.Job
	x, y string
	rows string   // SQL: the rows, those of src
	keep []string // columns of the rows that go with their predictions

	offset, eta string // SQL: of the rows, and of the fit for them; see etaFit
	weight      string // SQL: how many rows a row counts as, "" for 1

	spared  bool  // invalid rows are left out, if the fit has skipped them
	skipped int64 // how many

	sampled bool          // the table seen exists
	fields  []duck.Column // of the features, after sampleColumns
	seen    int64         // the largest number of rows in the table seen

	pairAUC *float64 // after leftOut: the area under the ROC curve with pairs left out, nil if unknown
}

// purpose is the purpose of scoring rows.
type purpose int

const (
	toPredict purpose = iota
	toAverage         // over the rows, by their weights
	toJudge           // by their responses, and by their weights
)

// openScoring opens the data and the beliefs.
func openScoring(s *duck.Session, d *dataFlags, m *scoreFlags, what purpose) (*scoring, error) {
	withY := what == toJudge
	opts, err := job.ReadOptions(s, m.Option)
	if err != nil {
		return nil, err
	}
	f, err := fitstore.Load(s, "fits", m.Beliefs, slices.DeleteFunc(slices.Clone(opts), func(o [2]string) bool { return slices.Contains(job.RowKeys, o[0]) }))
	if err != nil {
		return nil, fmt.Errorf("--beliefs: %w", err)
	}
	if err := f.ConflictError(opts); err != nil {
		return nil, fmt.Errorf("--beliefs %s: %w", m.Beliefs, err)
	}
	src, err := job.Open(s, d.data())
	if err != nil {
		return nil, err
	}
	src.Fits = m.Beliefs
	flags := modelFlags{Formula: m.Formula, Y: m.Y, X: m.X}
	if flags.Formula == "" && flags.X == "" {
		flags.Formula, flags.X = f.Job("formula"), f.Job("x")
		if flags.Formula == "" && flags.Y == "" {
			flags.Y = f.Job("y")
		}
		if flags.Formula == "" && flags.X == "" {
			return nil, cli.Usage(fmt.Errorf("--beliefs %s does not know its formula: give --formula, or --x", m.Beliefs))
		}
	}
	y := flags.Y
	if flags.Formula != "" {
		flags.Y = ""
	} else if flags.Y == "" {
		if withY {
			return nil, cli.Usage(errors.New("give --y, the response"))
		}
		flags.Y = "NULL"
	}
	flags.Option = what.rowFlags(f, opts)
	for _, g := range f.Group {
		sql := f.Job("group." + g.Name)
		if sql == "" {
			sql = quote.Name(g.Name)
		}
		flags.Group = append(flags.Group, sql)
	}
	model := flags.model()
	if m.Formula == "" {
		own, _, err := modelOf(f)
		if err != nil {
			return nil, fmt.Errorf("--beliefs %s: %w", m.Beliefs, err)
		}
		model.Dot = own.Dot
	}
	j, err := job.New(src, model, withY)
	if err != nil {
		for _, g := range f.Group {
			if f.Job("group."+g.Name) == "" && strings.Contains(err.Error(), "--group "+quote.Name(g.Name)+":") {
				return nil, fmt.Errorf("%s: it does not know what its groups %s are, and %s has no such column; allowed: data that have it, or beliefs in .parquet, .arrow or .duckdb, which keep the expression", m.Beliefs, quote.Name(g.Name), strings.Join(src.Names(), ", "))
			}
		}
		// The model, or at least its groups, may come from the belief file.
		if text := err.Error(); strings.Contains(text, "--group ") || m.Formula == "" && m.X == "" && (strings.Contains(text, "formula") || strings.Contains(text, "Binder Error")) {
			err = fmt.Errorf("%s with %w", m.Beliefs, err)
		}
		return nil, err
	}
	sc, err := newScoring(s, f, src, j)
	if err != nil {
		return nil, err
	}
	if y != "" {
		sc.y = y
	}
	return sc, sc.checkColumns(s, m.Beliefs, withY, !slices.ContainsFunc(opts, func(o [2]string) bool { return o[0] == "weight" }))
}

// rowFlags are the options by row: those of the user, else those of the fit.
func (p purpose) rowFlags(f *fitstore.Fits, opts [][2]string) (out []string) {
	keys := []string{"offset", "trials", "weight"}
	if p == toPredict {
		keys = keys[:2]
	}
	for _, k := range keys {
		v := f.Job("option." + k)
		if e, ok := formula.DecimalLog(v); ok { // as older versions used it
			v = "log10(" + e + ")"
		}
		if i := slices.IndexFunc(opts, func(o [2]string) bool { return o[0] == k }); i >= 0 {
			v = opts[i][1]
		}
		if v != "" {
			out = append(out, k+"="+v)
		}
	}
	return out
}

// checkColumns reports rows without their response, or without the columns of their weight; own
// says that the fit names these.
func (sc *scoring) checkColumns(s *duck.Session, beliefs string, withY, own bool) error {
	if withY {
		if _, err := s.Describe("SELECT (" + sc.y + ") FROM " + sc.rows); err != nil {
			return fmt.Errorf("the response %s: %w", sc.y, sc.src.Blame(err))
		}
	}
	if sc.weight == "" {
		return nil
	}
	_, err := s.Describe("SELECT (" + sc.weight + ")::DOUBLE FROM " + sc.rows)
	switch {
	case err == nil:
		return nil
	case own:
		return cli.Usage(fmt.Errorf("--beliefs %s: its rows had the weight %s, which these do not have (%w); give theirs, or --option weight=1", beliefs, sc.weight, sc.src.Blame(err)))
	}
	return cli.Usage(fmt.Errorf("--option weight=%s: %w", sc.weight, sc.src.Blame(err)))
}

// newScoring scores the rows of j, those of src, by fits.
func newScoring(s *duck.Session, f *fitstore.Fits, src *job.Source, j *job.Job) (*scoring, error) {
	sc := &scoring{fits: f, src: src, job: j, x: j.X, y: j.Y, rows: src.Rows()}
	sc.weight, _ = j.Option("weight")
	if v, ok := j.Option("offset"); ok && v != "" {
		sc.offset = v
		if f.HasClass {
			return sc, evenOffset(s)
		}
		return sc, etaFit(s, sc)
	}
	return sc, nil
}

// evenOffset checks that an offset affects all classes of a fit equally, and so none.
func evenOffset(s *duck.Session) error {
	var reference sql.NullString
	err := s.Row("SELECT min(class) FROM (SELECT class FROM (SELECT row_number() OVER () AS k, unnest(fit.beliefs, recursive := true) FROM fits) GROUP BY k, class HAVING bool_and(mean = 0 AND variance = 0))", &reference)
	if err == nil && reference.Valid {
		err = fmt.Errorf("the offset counts against the reference class %s, which predictions of classes are not made with; allowed: a fit without reference, where an offset cancels", quote.Text(reference.String))
	}
	return err
}

// etaFit creates the fit that predicts from the row [m, sd] of a linear predictor N(m, sd²): a
// weight known to be 1 and one N(0, 1). With it an offset is added where it belongs, to m. Groups
// have their own dispersion and shape.
func etaFit(s *duck.Session, sc *scoring) error {
	dispersion, shape := "fit.dispersion", "fit.shape"
	if len(sc.fits.Group) > 0 {
		dispersion, shape = "'bglm_fit.dispersion'", "'bglm_fit.shape'"
	}
	return s.Row(`SELECT format('bglm_from_beliefs([{{feature: ''1'', mean: 1.0, variance: 0.0}}, {{feature: ''2'', mean: 0.0, variance: 1.0}}], {{intercept: false, family: ''{}'', link: ''{}''{}{}}})',
		fit.family, fit.link, CASE WHEN list_contains(`+quote.List(lik.With("dispersion"))+`, fit.family) THEN ', dispersion: ' || `+dispersion+` ELSE '' END,
		CASE WHEN fit.shape IS NOT NULL THEN ', shape: ' || `+shape+` ELSE '' END) FROM fits LIMIT 1`, &sc.eta)
}

// subquery is joined, with the offset in the linear predictor.
func (sc *scoring) subquery(columns string, extra ...string) string {
	return sc.shifted(sc.joined(columns, extra...))
}

// joined evaluates the features over the data alone, so that columns of the fits cannot be mistaken
// for theirs.
func (sc *scoring) joined(columns string, extra ...string) string {
	cols := []string{}
	if columns != "" {
		cols = append(cols, columns)
	}
	cols = append(cols, "("+sc.x+") AS bglm_x")
	cols = append(cols, extra...)
	for i := range sc.fits.Group {
		cols = append(cols, fmt.Sprintf("(%s) AS bglm_g%d", formula.Bare(sc.job.GroupBy[i]), i))
	}
	if sc.offset != "" {
		cols = append(cols, "("+sc.offset+") AS bglm_offset")
	}
	q := "(SELECT " + strings.Join(cols, ", ") + " FROM " + sc.rows + ") d"
	if len(sc.fits.Group) == 0 {
		return q + ", (SELECT fit AS bglm_fit FROM fits) f"
	}
	var on, keys []string
	for i, g := range sc.fits.Group {
		on = append(on, fmt.Sprintf("d.bglm_g%d IS NOT DISTINCT FROM f.bglm_k%d", i, i))
		keys = append(keys, fmt.Sprintf("%s AS bglm_k%d", quote.Name(g.Name), i))
	}
	return q + " LEFT JOIN (SELECT fit AS bglm_fit, " + strings.Join(keys, ", ") + " FROM fits) f ON " + strings.Join(on, " AND ")
}

// shifted replaces the features by the linear predictor with its offset; rows whose offset is NULL
// have none, as in the fit.
func (sc *scoring) shifted(from string) string {
	if sc.offset == "" {
		return from
	}
	if sc.fits.HasClass { // it cancels
		return "(SELECT * EXCLUDE (bglm_x, bglm_offset), CASE WHEN bglm_offset IS NOT NULL THEN bglm_x END AS bglm_x FROM " + from + ")"
	}
	return "(SELECT * EXCLUDE (bglm_fit, bglm_x, bglm_eta, bglm_offset), CASE WHEN bglm_eta IS NOT NULL THEN " + sc.eta + " END AS bglm_fit, " +
		"CASE WHEN bglm_offset IS NOT NULL THEN [bglm_eta.eta_mean + bglm_offset, sqrt(bglm_eta.eta_variance)] END AS bglm_x FROM (SELECT *, bglm_predict_dist(bglm_fit, bglm_x) AS bglm_eta FROM " + from + "))"
}

// Run scores the rows.
func (c *predictCommand) Run(e *cli.Env) error {
	began := time.Now()
	if err := errors.Join(fitstore.CheckOut(c.Out), c.csvFlags.check(c.Out), c.rejectOverwrite(c.Out, c.Beliefs)); err != nil {
		return err
	}
	if !(c.Level > 0 && c.Level < 1) || math.IsNaN(c.Level) {
		return cli.Usage(fmt.Errorf("--level is %v, allowed is a number between 0 and 1", c.Level))
	}
	if c.Level != 0.95 && !c.Dist {
		return cli.Usage(errors.New("--level belongs to --dist"))
	}
	s, err := duck.Open(e, c.Quiet)
	if err != nil {
		return err
	}
	defer s.Close()
	s.CSVSafe = c.CSVSafe
	if err := fitstore.CheckTables(s, c.Out, fitstore.PredictionTables); err != nil {
		return err
	}
	sc, err := openScoring(s, &c.dataFlags, &c.scoreFlags, toPredict)
	if err != nil {
		return err
	}
	columns := c.Columns
	if strings.EqualFold(columns, "none") {
		columns = ""
	}
	if err := sc.checkNames(s, c.Columns, columns, c.Dist); err != nil {
		return err
	}
	cols := "* EXCLUDE (" + strings.Join(sc.helpers(), ", ") + "), "
	if columns == "" {
		cols = ""
	}
	q := "SELECT " + cols + "bglm_predict(bglm_fit, bglm_x, " + quote.Text(c.Prediction) + ") AS prediction"
	if c.Dist {
		q += fmt.Sprintf(", unnest(bglm_predict_dist(bglm_fit, bglm_x, %v))", c.Level)
	}
	q += " FROM " + sc.subquery(columns)
	if len(sc.fits.Group) > 0 { // the rows stay on the probe side of the join, which keeps their order
		if err := s.Exec("SET disabled_optimizers = 'join_order,build_side_probe_side'"); err != nil {
			return err
		}
	}
	sum := &summary{Command: "predict", Out: c.Out, Files: len(sc.src.Files)}
	if err := summarise(s, sc.fits, sum); err != nil {
		return err
	}
	if sum.N, sum.Skipped, err = sc.counts(s); err != nil {
		return sc.src.Blame(err)
	}
	// The last step: a job that is stopped before says that nothing was written.
	if err := fitstore.CopyTo(s, c.Out, q, nil); err != nil {
		return sc.src.Blame(err)
	}
	sum.setTiming(began)
	return c.print(sum.besideOutput(e), sum)
}

// checkNames reports columns of the data, kept by --columns, with the name of a column of the
// predictions: under it the file would have the older one.
func (sc *scoring) checkNames(s *duck.Session, flag, columns string, dist bool) error {
	if columns == "" {
		return nil
	}
	kept, err := s.Describe("SELECT " + columns + " FROM " + sc.rows)
	if err != nil {
		return sc.src.Blame(err)
	}
	own := []string{"prediction"}
	if dist {
		own = append(own, "eta_mean", "eta_variance", "mean", "variance", "lower", "upper")
	}
	var twice []string
	for i, c := range kept {
		if slices.ContainsFunc(kept[:i], func(o duck.Column) bool { return strings.EqualFold(o.Name, c.Name) }) {
			return cli.Usage(fmt.Errorf("--columns %s: two of them are called %s; give one another name, as in ... AS other", flag, quote.Name(c.Name)))
		}
		if slices.Contains(own, strings.ToLower(c.Name)) {
			twice = append(twice, quote.Name(c.Name))
		}
	}
	if twice == nil {
		return nil
	}
	names := strings.Join(twice, ", ")
	return cli.Usage(sc.src.Blame(fmt.Errorf("--columns %s: the data have %s, which is what predictions are called; leave it out, as in --columns '* EXCLUDE (%s)', or rename it", flag, names, names)))
}

// counts returns how many rows have a prediction, and how many have none since their group has no
// beliefs.
func (sc *scoring) counts(s *duck.Session) (n, unknown int64, err error) {
	if len(sc.fits.Group) == 0 {
		return n, 0, s.Row("SELECT count(*) FROM "+sc.rows, &n)
	}
	var keys, on []string
	for i, g := range sc.fits.Group {
		keys = append(keys, fmt.Sprintf("(%s) AS bglm_g%d", formula.Bare(sc.job.GroupBy[i]), i))
		on = append(on, fmt.Sprintf("d.bglm_g%d IS NOT DISTINCT FROM f.%s", i, quote.Name(g.Name)))
	}
	err = s.Row("SELECT coalesce(sum(bglm_n) FILTER (f.fit IS NOT NULL), 0)::BIGINT, coalesce(sum(bglm_n) FILTER (f.fit IS NULL), 0)::BIGINT FROM (SELECT "+strings.Join(keys, ", ")+", count(*) AS bglm_n FROM "+sc.rows+" GROUP BY ALL) d LEFT JOIN fits f ON "+strings.Join(on, " AND "), &n, &unknown)
	return n, unknown, err
}

// helpers are the columns that subquery adds to those of the data.
func (sc *scoring) helpers() []string {
	out := []string{"bglm_x", "bglm_fit"}
	for i := range sc.fits.Group {
		out = append(out, fmt.Sprintf("bglm_g%d", i), fmt.Sprintf("bglm_k%d", i))
	}
	return out
}
