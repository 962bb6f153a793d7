package main

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/udf"
)

type evaluateCommand struct {
	dataFlags
	Beliefs string   `short:"b" placeholder:"FILE" help:"Belief table that predicts the rows, unless you give --p."`
	Formula string   `short:"f" placeholder:"'Y ~ TERMS'" help:"Formula of the model, if the belief file does not have it."`
	Y       string   `name:"y" placeholder:"SQL" help:"The observed response."`
	X       string   `name:"x" placeholder:"SQL" help:"Features, as in bglm fit."`
	P       string   `name:"p" placeholder:"SQL" help:"Predictions, if the rows have them already."`
	Option  []string `short:"o" sep:"none" placeholder:"KEY=VALUE" help:"Options, as in bglm predict."`
	Fitted  bool     `help:"Predict rows that the fit has learnt with the fit as it is; the figures are then too optimistic."`
	Bins    int      `placeholder:"N" default:"10" help:"Number of bins of the calibration table (default: 10)."`
	Quiet   bool     `short:"q" help:"No progress bar and no remarks, the measures alone."`
	JSON    bool     `name:"json" help:"Print the measures as JSON."`
}

// Help is the text below the usage line.
func (*evaluateCommand) Help() string {
	return `For a 0/1 response it prints log loss, AUC, Brier score and a calibration table; of successes among
trials, those of a trial, but no AUC. For other responses it prints the root mean squared and mean
absolute error, and how often the 95 % interval of the prediction contains what was observed.

Rows that the fit has learnt are predicted as if it had not: each is left out in turn. A stream
predicts each row before learning it, and the output shows the course of these predictions. The
output says which of the two was done.

Examples:

  bglm evaluate --beliefs beliefs.parquet --data testdata/flights.parquet
  bglm evaluate --data scores.parquet --y 'delay > 15' --p prediction --json`
}

// quality is what evaluate reports.
type quality struct {
	How          string   `json:"validation,omitempty"` // how the rows are predicted
	Unsure       int64    `json:"unsure,omitempty"`     // rows about which it says little: see scoring.leftOut
	N            int64    `json:"n"`
	Weight       *float64 `json:"weight,omitempty"`    // sum of the weights of the rows, if they are not all 1
	Trials       *float64 `json:"trials,omitempty"`    // of all rows as often as they count; all but RMSE and MAE, of shares, are of one trial
	Missing      int64    `json:"missing"`             // rows without response or prediction
	Skipped      int64    `json:"n_skipped,omitempty"` // invalid rows, which the fit has skipped too
	Mean         *float64 `json:"mean,omitempty"`
	Predicted    *float64 `json:"mean_prediction,omitempty"`
	LogLoss      *float64 `json:"log_loss,omitempty"`
	RuledOut     int64    `json:"ruled_out,omitempty"`     // rows whose response had probability 0: the log loss is infinite
	BaseLoss     *float64 `json:"base_log_loss,omitempty"` // for classes: that of their frequencies
	AUC          *float64 `json:"auc,omitempty"`
	Brier        *float64 `json:"brier,omitempty"`
	RMSE         *float64 `json:"rmse,omitempty"`
	MAE          *float64 `json:"mae,omitempty"`
	Coverage     *float64 `json:"coverage_95,omitempty"`
	Accuracy     *float64 `json:"accuracy,omitempty"`
	BaseAccuracy *float64 `json:"base_accuracy,omitempty"` // that of the most frequent class
	Calibration  []bin    `json:"calibration,omitempty"`
	Classes      []class  `json:"classes,omitempty"`
	Course       []period `json:"course,omitempty"` // of a stream
	Note         string   `json:"note,omitempty"`
	Seconds      float64  `json:"seconds"`
}

type bin struct {
	Lower     float64 `json:"lower"`
	Upper     float64 `json:"upper"`
	N         int64   `json:"n"` // sum of the weights of its rows
	Predicted float64 `json:"predicted"`
	Observed  float64 `json:"observed"`
}

// Run measures the predictions and prints their quality.
func (c *evaluateCommand) Run(e *cli.Env) error {
	began := time.Now()
	if (c.Beliefs == "") == (c.P == "") {
		return cli.Usage(errors.New("give --beliefs FILE, which scores the rows, or --p, their predictions"))
	}
	if c.Bins < 1 || c.Bins > 1000 {
		return cli.Usage(fmt.Errorf("--bins is %d, allowed is 1 to 1000", c.Bins))
	}
	s, err := duck.Open(e, c.Quiet)
	if err != nil {
		return err
	}
	defer s.Close()
	sc, how, err := c.scored(s)
	if err != nil {
		return err
	}
	var r *quality
	if sc.fits != nil && sc.fits.HasClass {
		r, err = measureClasses(s)
	} else {
		r, err = measure(s, c.Bins)
	}
	if err != nil {
		return sc.src.Blame(err)
	}
	r.Skipped = sc.skipped
	if err := r.predictedBy(s, how, sc.pairAUC); err != nil {
		return err
	}
	if how == progressive {
		if err := s.Row("SELECT (SELECT count(*) FROM "+sc.rows+") - (SELECT count(*) FROM scored)", &r.Missing); err != nil {
			return sc.src.Blame(err)
		}
		if r.Course, err = periods(s, c.Bins, r.AUC != nil, r.Trials != nil); err != nil {
			return err
		}
	}
	r.Seconds = math.Round(time.Since(began).Seconds()*1000) / 1000
	return c.show(s, r)
}

// show prints r, unless the user has stopped the job.
func (c *evaluateCommand) show(s *duck.Session, r *quality) error {
	if err := errors.Join(s.Interrupted(), s.Unchanged()); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Env.Stdout, r)
	}
	return r.print(s.Env, !c.Quiet)
}

// scored creates the table scored of scoring.judge or judgeFolds, and says how its rows are
// predicted, "" for the user's own predictions.
func (c *evaluateCommand) scored(s *duck.Session) (sc *scoring, how string, err error) {
	if c.P != "" {
		sc, err = c.given(s)
		return sc, "", err
	}
	if sc, err = openScoring(s, &c.dataFlags, &scoreFlags{Beliefs: c.Beliefs, Formula: c.Formula, Y: c.Y, X: c.X, Option: c.Option}, toJudge); err != nil {
		return nil, "", err
	}
	switch {
	case sc.fits.HasClass || !sc.fits.IsFit:
		how, err = sc.judgeFolds(s, c.Fitted)
	case c.Fitted:
		how, err = fitted, sc.withoutBadRows(s, func() error { return sc.predicted(s) })
	default:
		how, err = sc.judge(s)
	}
	return sc, how, sc.src.Blame(textResponse(s, sc.rows, sc.y, err))
}

// given creates the table scored from predictions in the data.
func (c *evaluateCommand) given(s *duck.Session) (*scoring, error) {
	if c.Y == "" {
		return nil, cli.Usage(errors.New("--p needs --y, what was observed"))
	}
	if c.X != "" || c.Formula != "" || c.Fitted {
		return nil, cli.Usage(errors.New("--formula, --x and --fitted belong to --beliefs; --p has the predictions"))
	}
	weight, err := c.weight()
	if err != nil {
		return nil, err
	}
	src, err := job.Open(s, c.data())
	if err != nil {
		return nil, err
	}
	cols, err := s.Describe("FROM " + src.Rows())
	if err == nil {
		err = src.Misread(duck.Names(cols))
	}
	if err == nil {
		err = s.Long("scoring", "CREATE OR REPLACE TEMP TABLE scored AS SELECT ("+c.Y+")::DOUBLE AS y, ("+c.P+")::DOUBLE AS p, NULL::DOUBLE AS lower, NULL::DOUBLE AS upper, 1::DOUBLE AS trials, "+weightOf(weight)+" AS w FROM "+src.Rows())
	}
	if err == nil {
		err = c.checkPredictions(s, src)
	}
	return &scoring{src: src, weight: weight}, src.Blame(textResponse(s, src.Rows(), c.Y, err))
}

// checkPredictions reports the first row whose prediction or response is not finite.
func (c *evaluateCommand) checkPredictions(s *duck.Session, src *job.Source) error {
	var bad bool
	if err := s.Row("SELECT coalesce(bool_or(NOT isfinite(p) OR NOT isfinite(y)), false) FROM scored", &bad); err != nil || !bad {
		return err
	}
	var file, what string
	var row int64
	p, y := "("+c.P+")::DOUBLE", "("+c.Y+")::DOUBLE"
	err := s.Row("SELECT bglm_file, bglm_row, CASE WHEN isfinite("+p+") THEN 'y is ' || "+y+" ELSE 'p is ' || "+p+" END FROM "+src.Numbered()+" WHERE NOT isfinite("+p+") OR NOT isfinite("+y+") ORDER BY ALL LIMIT 1", &file, &row, &what)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s, row %d: %s; allowed: finite numbers, and NULL for rows without", src.FileName(file), row, what)
}

// weight is the SQL of the weight of rows with the user's own predictions, "" without one.
func (c *evaluateCommand) weight() (string, error) {
	opts, err := job.ParseOptions(c.Option)
	if err != nil {
		return "", err
	}
	weight := ""
	for _, o := range opts {
		if o[0] != "weight" {
			return "", cli.Usage(fmt.Errorf("--option %s belongs to --beliefs; allowed with --p: weight", o[0]))
		}
		weight = o[1]
	}
	return weight, nil
}

// textResponse is err or, if y is a response whose texts are numbers with few exceptions, an error
// with these and how to read them.
func textResponse(s *duck.Session, rows, y string, err error) error {
	if err == nil || !strings.Contains(err.Error(), "Could not convert string") {
		return err
	}
	texts, e := s.Texts("SELECT DISTINCT y FROM (SELECT (" + y + ") AS y FROM " + rows + ") WHERE typeof(y) = 'VARCHAR' AND y IS NOT NULL LIMIT 10000")
	if e != nil {
		return err
	}
	name := y
	if column, ok := formula.Column(y); ok {
		name = column
	}
	if m, _ := kernels.TextNumbers(name, slices.Values(texts)); m != nil {
		return fmt.Errorf("y is VARCHAR; allowed: a number; %s; %s", m.Reading(), udf.HowToRead(m))
	}
	return err
}

// measure is the quality of the predictions in the table scored.
func measure(s *duck.Session, bins int) (*quality, error) {
	r := &quality{}
	trials, err := outcomes(s)
	if err != nil {
		return nil, err
	}
	binary, err := isBinary(s)
	if err != nil {
		return nil, err
	}
	var weight, mean, predicted, a, b, c sql.NullFloat64
	var plain bool
	set := func(to **float64, v sql.NullFloat64) {
		if v.Valid && !math.IsNaN(v.Float64) && !math.IsInf(v.Float64, 0) {
			*to = &v.Float64
		}
	}
	if err := s.Row("SELECT count(*) FROM scored WHERE y IS NULL OR p IS NULL OR w IS NULL", &r.Missing); err != nil {
		return nil, err
	}
	err = s.Row("SELECT count(*), coalesce(bool_and(w = 1), true), sum(w) FROM "+usable, &r.N, &plain, &weight)
	if err == nil {
		err = s.Row("SELECT "+weighted("y")+", "+weighted("p")+" FROM "+single, &mean, &predicted)
	}
	if err != nil {
		return nil, err
	}
	if r.N == 0 {
		return nil, errors.New("no row has both a response and a prediction, and a weight above 0")
	}
	if !plain {
		set(&r.Weight, weight)
	}
	set(&r.Mean, mean)
	set(&r.Predicted, predicted)
	if trials {
		r.Trials = new(float64)
		if err := s.Row("SELECT sum(w) FROM "+single, r.Trials); err != nil {
			return nil, err
		}
	}
	if !binary || trials {
		if err := r.asNumbers(s); err != nil {
			return nil, err
		}
		err := s.Row("SELECT bglm_rmse(y, p, w), "+weighted("abs(y - p)")+", bglm_coverage(y, lower, upper, w) FROM "+usable, &a, &b, &c)
		set(&r.RMSE, a)
		set(&r.MAE, b)
		set(&r.Coverage, c)
		if err != nil || !trials {
			return r, err
		}
	}
	if err := s.Row("SELECT count(*) FROM "+single+" AND p = 1 - y", &r.RuledOut); err != nil {
		return nil, err
	}
	err = s.Row("SELECT bglm_log_loss(y = 1, p, w), bglm_auc(y = 1, p, w), bglm_brier(y = 1, p, w) FROM "+single, &a, &b, &c)
	if err != nil {
		return nil, err
	}
	set(&r.LogLoss, a)
	if !trials { // the trials of a row are not to be told apart
		set(&r.AUC, b)
	}
	set(&r.Brier, c)
	err = s.Each(fmt.Sprintf("SELECT b.lower, b.upper, b.n, b.predicted, b.observed FROM (SELECT unnest(bglm_calibration(y = 1, p, %d, w)) AS b FROM %s)", bins, single), func(scan func(...any) error) error {
		var x bin
		err := scan(&x.Lower, &x.Upper, &x.N, &x.Predicted, &x.Observed)
		r.Calibration = append(r.Calibration, x)
		return err
	})
	return r, err
}

// asNumbers adds a note on responses 0 and 1 that are measured as numbers.
func (r *quality) asNumbers(s *duck.Session) error {
	var outside int64
	var least, most float64
	err := s.Row("SELECT CASE WHEN bool_and(y IN (0, 1)) THEN count(*) FILTER (p NOT BETWEEN 0 AND 1) ELSE 0 END, min(p), max(p) FROM "+usable, &outside, &least, &most)
	if err == nil && outside > 0 {
		r.Note = fmt.Sprintf("The responses are 0 and 1, but %s are no probabilities (they go from %.4g to %.4g): measured as numbers.", some(outside, "prediction"), least, most)
		if outside == 1 {
			r.Note = strings.Replace(r.Note, "are no probabilities (they go", "is no probability (they go", 1)
		}
	}
	return err
}

// predictedBy records how the rows of the table scored were predicted; pairAUC is the area with
// pairs left out, nil if unknown.
func (r *quality) predictedBy(s *duck.Session, how string, pairAUC *float64) (err error) {
	r.How = how
	if how == leaveOneOut {
		if r.AUC != nil && pairAUC != nil {
			r.AUC = pairAUC
		}
		r.Unsure, _, err = decisive(s)
	}
	return err
}

// isBinary reports whether the responses in the table scored are 0 and 1, and their predictions
// probabilities.
func isBinary(s *duck.Session) (binary bool, err error) {
	return binary, s.Row("SELECT coalesce(bool_and(y IN (0, 1) AND p BETWEEN 0 AND 1), false) FROM "+usable, &binary)
}

// ruledOut is the sentence about n rows whose response had probability 0.
func ruledOut(n int64) string {
	if n == 1 {
		return "The log loss is infinite: the response of 1 row was given the probability 0."
	}
	return fmt.Sprintf("The log loss is infinite: the responses of %s rows were given the probability 0.", count(n))
}

// units returns what losses are of, and numbers, after their names, and what calibration counts.
func (r *quality) units() (losses, numbers, counted string) {
	if r.Trials != nil {
		return " a trial", " of the rows' shares", "trials"
	}
	return "", "", "rows"
}

func newTable() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	return t
}

func (r *quality) print(e *cli.Env, remarks bool) error {
	t := newTable()
	t.AppendHeader(table.Row{"measure", "value"})
	if r.How != "" {
		t.AppendRow(table.Row{"predictions", r.How})
	}
	t.AppendRow(table.Row{"rows", r.N})
	if r.Weight != nil {
		t.AppendRow(table.Row{"rows that they count as", amount(*r.Weight)})
	}
	of, shares, rows := r.units()
	if r.Trials != nil {
		t.AppendRow(table.Row{rows, amount(*r.Trials)})
	}
	if r.Missing > 0 {
		t.AppendRow(table.Row{"rows without y or prediction", r.Missing})
	}
	if r.Skipped > 0 {
		t.AppendRow(table.Row{"bad rows skipped", r.Skipped})
	}
	for _, m := range []struct {
		name string
		v    *float64
	}{{"mean of y", r.Mean}, {"mean prediction", r.Predicted}, {"log loss" + of, r.LogLoss}, {"log loss of the classes' shares", r.BaseLoss}, {"accuracy", r.Accuracy}, {"accuracy of the most frequent class", r.BaseAccuracy}, {"AUC", r.AUC}, {"Brier score" + of, r.Brier}, {"RMSE" + shares, r.RMSE}, {"mean absolute error" + shares, r.MAE}, {"coverage of 95 % intervals", r.Coverage}} {
		if m.v != nil {
			t.AppendRow(table.Row{m.name, fmt.Sprintf("%.6g", *m.v)})
		}
	}
	out := t.Render() + "\n"
	if remarks && r.Note != "" {
		out += r.Note + "\n"
	}
	if remarks && r.RuledOut > 0 {
		out += ruledOut(r.RuledOut) + "\n"
	}
	if len(r.Calibration) > 0 {
		t := newTable()
		t.AppendHeader(table.Row{"from", "to", rows, "predicted", "observed"})
		for _, b := range r.Calibration {
			t.AppendRow(table.Row{fmt.Sprintf("%.3f", b.Lower), fmt.Sprintf("%.3f", b.Upper), b.N, fmt.Sprintf("%.4f", b.Predicted), fmt.Sprintf("%.4f", b.Observed)})
		}
		out += t.Render() + "\n"
	}
	if len(r.Classes) > 0 {
		out += r.classMeasures()
	}
	if len(r.Course) > 0 {
		t := newTable()
		t.AppendHeader(table.Row{"from row", "rows", "predicted", "observed", "log loss" + of, "AUC"})
		for _, p := range r.Course {
			t.AppendRow(table.Row{p.From, p.N, number(p.Predicted, "%.4f"), number(p.Observed, "%.4f"), number(p.LogLoss, "%.4f"), number(p.AUC, "%.4f")})
		}
		out += t.Render() + "\n"
	}
	if remarks && r.How != "" {
		out += explained[r.How] + r.weighing() + unsure(r.Unsure, r.N+r.Missing) + "\n"
	}
	_, err := fmt.Fprint(e.Stdout, strings.TrimLeft(out, "\n"))
	return err
}
