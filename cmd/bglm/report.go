package main

import (
	"cmp"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bglm/bglm/cmd/chart"
	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/page"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/metric"
	"github.com/bglm/bglm/udf"
)

type reportCommand struct {
	dataFlags
	Beliefs    string   `short:"b" placeholder:"FILE" required:"" help:"Belief table of the model."`
	Formula    string   `short:"f" placeholder:"'Y ~ TERMS'" help:"Formula of the model, if the belief file does not have it."`
	Y          string   `name:"y" placeholder:"SQL" help:"Response, as in bglm fit."`
	X          string   `name:"x" placeholder:"SQL" help:"Features, as in bglm fit."`
	Option     []string `short:"o" sep:"none" placeholder:"KEY=VALUE" help:"Options, as in bglm predict."`
	Out        string   `placeholder:"FILE" default:"report.html" help:"File for the page (default: report.html)."`
	Plots      string   `placeholder:"DIR" help:"Also write the plots into this folder, as SVG and PNG. PNG text can be Latin, Greek or Cyrillic."`
	Title      string   `placeholder:"TEXT" help:"Headline (default: the formula)."`
	CostFalse  float64  `placeholder:"X" default:"1" help:"Cost of taking a 0 for a 1, in the table of thresholds (default: 1)."`
	CostMissed float64  `placeholder:"X" default:"1" help:"Cost of missing a 1 (default: 1)."`
	Weights    int      `placeholder:"N" default:"30" help:"Number of weights shown: those furthest from 0 in standard deviations (default: 30)."`
	Slices     int      `placeholder:"N" default:"24" help:"Number of points in the trajectories of drifting weights (default: 24)."`
	outputFlags
}

// Help is the text below the usage line.
func (*reportCommand) Help() string {
	return `Writes one HTML page that needs no network. It begins with whether the model is good, what drives it
and whether it can be trusted. Then follow the columns by their share with the effect of each;
calibration, ROC and lift on the given data (rows that the model learnt from are predicted as in
bglm evaluate); the table of thresholds; learnt variances; what the columns were like; the course of
a stream with its trajectories; the rows that fit worst, and why; the weights; and the model's card.
Without data, the page has the model and its weights.

Examples:

  bglm report --beliefs beliefs.parquet --data testdata/flights.parquet --out report.html
  bglm report --beliefs beliefs.parquet --out weights.html --plots plots`
}

// Run creates the page.
func (c *reportCommand) Run(e *cli.Env) error {
	began := time.Now()
	if c.Weights < 1 || c.Weights > 500 || c.Slices < 2 || c.Slices > 500 {
		return cli.Usage(errors.New("--weights takes 1 to 500, --slices 2 to 500"))
	}
	if ext := strings.ToLower(filepath.Ext(c.Out)); ext != ".html" && ext != ".htm" {
		return cli.Usage(fmt.Errorf("--out %s: allowed: .html", c.Out))
	}
	s, err := duck.Open(e, c.Quiet)
	if err != nil {
		return err
	}
	defer s.Close()
	p, sum, err := c.page(s)
	if err != nil {
		return err
	}
	b, err := p.HTML()
	if err != nil {
		return err
	}
	if err := errors.Join(s.Interrupted(), s.Unchanged()); err != nil {
		return err
	}
	put := func(b []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(b); return err }
	}
	if err := files.Create(c.Out, e.Stderr, put(b)); err != nil {
		return err
	}
	if c.Plots != "" {
		if err := os.MkdirAll(c.Plots, 0o755); err != nil {
			return fmt.Errorf("--plots: %w", err)
		}
		for _, ch := range p.Charts {
			base := filepath.Join(c.Plots, ch.ID)
			if err := errors.Join(files.Create(base+".svg", e.Stderr, put([]byte(ch.SVG(true)))), files.Create(base+".png", e.Stderr, ch.PNG)); err != nil {
				return fmt.Errorf("--plots: %w", err)
			}
		}
	}
	sum.setTiming(began)
	sum.Rate = 0
	return c.print(e.Stdout, sum)
}

func (c *reportCommand) page(s *duck.Session) (*page.Page, *summary, error) {
	hasData := len(c.Data)+len(c.Files) > 0
	var sc *scoring
	var f *fitstore.Fits
	var err error
	if hasData {
		if sc, err = openScoring(s, &c.dataFlags, &scoreFlags{Beliefs: c.Beliefs, Formula: c.Formula, Y: c.Y, X: c.X, Option: c.Option}, toJudge); err == nil {
			f = sc.fits
		}
	} else {
		var opts [][2]string
		if opts, err = job.ReadOptions(s, c.Option); err == nil {
			f, err = fitstore.Load(s, "fits", c.Beliefs, opts)
		}
		if err == nil {
			err = files.Named(c.Beliefs, f.ConflictError(opts))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if !f.IsFit {
		return nil, nil, fmt.Errorf("--beliefs %s: this method's fit has no weights to report", c.Beliefs)
	}
	p := page.New(c.Title)
	sum := &summary{Command: "report", Out: c.Out}
	if err := c.card(s, p, f, sum); err != nil {
		return nil, nil, err
	}
	if hasData {
		hash, err := files.Hash(sc.src.Files)
		if err != nil {
			return nil, nil, err
		}
		p.About("SHA-256 of the data", hash)
	}
	if hasData && f.HasClass {
		if err := c.judgedClasses(s, p, sc, sum); err != nil {
			return nil, nil, sc.src.Blame(err)
		}
	}
	if !hasData || f.HasClass {
		return p, sum, errors.Join(c.variances(s, p, f), c.weights(s, p, f, sum))
	}
	if err := c.judged(s, p, sc, sum); err != nil {
		return nil, nil, sc.src.Blame(err)
	}
	return p, sum, nil
}

// judged adds how the data judge the model.
func (c *reportCommand) judged(s *duck.Session, p *page.Page, sc *scoring, sum *summary) error {
	sc.rows, sc.keep = sc.src.Numbered(), []string{"bglm_file", "bglm_row"}
	how, err := sc.judge(s)
	if err != nil {
		return err
	}
	q, err := measure(s, 20)
	if err == nil {
		err = q.predictedBy(s, how, sc.pairAUC)
	}
	if err != nil {
		return err
	}
	binary := false
	if q.Trials == nil {
		if binary, err = isBinary(s); err != nil {
			return err
		}
	}
	j, err := judged(s, q, how, binary)
	if err != nil {
		return err
	}
	ds, err := drivers(s, sc)
	if err != nil {
		return err
	}
	if err := c.verdict(s, p, sc.fits, j, ds, sum); err != nil {
		return err
	}
	driverChart(p, ds)
	if err := c.effects(s, p, sc, ds, traitsOf(sum.Family, sum.Link)); err != nil {
		return err
	}
	if err := c.fitness(s, p, sc, j, sum); err != nil {
		return err
	}
	if binary {
		if err := c.thresholds(s, p); err != nil {
			return err
		}
	}
	return errors.Join(c.variances(s, p, sc.fits), c.health(s, p, sc, sum), c.trajectories(s, p, sc, sum.factorised()), c.worst(s, p, sc), c.weights(s, p, sc.fits, sum))
}

// card describes the model.
func (c *reportCommand) card(s *duck.Session, p *page.Page, f *fitstore.Fits, sum *summary) error {
	if err := summarise(s, f, sum); err != nil {
		return err
	}
	formula := cmp.Or(c.Formula, f.Job("formula"))
	if formula == "" && f.Job("y") != "" {
		formula = f.Job("y") + " ~ " + f.Job("x")
	}
	p.Title = cmp.Or(p.Title, formula, filepath.Base(c.Beliefs))
	p.Lead = fmt.Sprintf("%s learnt from %s.", some(sum.Weights, "weight"), some(sum.N, "row"))
	if sum.Groups != nil {
		p.Lead = fmt.Sprintf("%s in %s, learnt from %s.", some(sum.Weights, "weight"), some(*sum.Groups, "group"), some(sum.N, "row"))
	}
	p.About("formula", formula)
	about := ""
	if m, err := engine.Find(sum.Method); err == nil {
		about = ": " + udf.Told(m.Summary) + " " + m.Source + "."
	}
	p.About("method", sum.Method+about)
	p.About("family and link", sum.Family+", "+sum.Link)
	p.About("rows", count(sum.N))
	if sum.Skipped > 0 {
		p.About("rows skipped", count(sum.Skipped))
	}
	if sum.Evidence != nil {
		p.About("log evidence", fmt.Sprintf("%.8g", *sum.Evidence))
		if sum.N > 0 {
			p.About("log evidence per row", fmt.Sprintf("%.5f", *sum.Evidence/float64(sum.N)))
		}
	}
	iterations, err := parameters(s, p, f, sum)
	if err != nil {
		return err
	}
	var options []string
	for i := 0; i+1 < len(f.Meta); i += 2 {
		if k, ok := strings.CutPrefix(f.Meta[i], "option."); ok {
			options = append(options, k+"="+f.Meta[i+1])
		}
	}
	slices.Sort(options)
	p.About("options", strings.Join(options, ", "))
	p.About("order", f.Job("order"))
	converged := "yes"
	if !sum.Converged {
		converged = "no"
	}
	p.About("converged", converged+", after "+some(iterations, "iteration"))
	p.About("status", sum.Status)
	if sum.Status != "ok" {
		p.Warnings = append(p.Warnings, sum.Status)
	}
	p.About("beliefs", filepath.Base(c.Beliefs))
	p.About("made by", "bglm "+udf.Version)
	p.About("made on", today())
	return nil
}

// factorised reports whether the standard deviations of single weights are not the posterior's.
func (s *summary) factorised() bool { return kernels.Factorised(s.Status) }

// validAt is the card's name for the time of a fit.
const validAt = "valid at time"

// parameters adds what the fit was given or learnt in addition to its weights.
func parameters(s *duck.Session, p *page.Page, f *fitstore.Fits, sum *summary) (iterations int64, err error) {
	var shape, disp, t sql.NullFloat64
	var pm, pv, pi float64
	var kind string
	err = s.Row(`SELECT max(fit.shape), max(fit.dispersion), max(fit."time"), any_value(fit.prior.mean), any_value(fit.prior.variance), any_value(fit.prior.intercept_variance), max(fit.iterations), any_value(fit.covariance.kind) FROM `+f.Table,
		&shape, &disp, &t, &pm, &pv, &pi, &iterations, &kind)
	if err != nil {
		return 0, err
	}
	prior := fmt.Sprintf("mean %s, variance %s; intercept variance %s", chart.Short(pm), chart.Short(pv), chart.Short(pi))
	p.Card = append(p.Card, page.Fact{Key: "prior of weights", Value: prior}) // not on a line of its own, although it is long
	p.About("covariance", kind)
	if shape.Valid {
		p.About("shape", chart.Short(shape.Float64))
	}
	if disp.Valid && slices.Contains(lik.With("dispersion"), sum.Family) {
		p.About("dispersion", chart.Short(disp.Float64))
	}
	if t.Valid {
		p.About(validAt, chart.Short(t.Float64))
	}
	return iterations, nil
}

// fitness measures the predictions of the data.
func (c *reportCommand) fitness(s *duck.Session, p *page.Page, sc *scoring, j *judgement, sum *summary) error {
	r, how, binary := j.quality, j.how, j.binary
	sec := page.Section{ID: "fitness", Title: "Predictions of the data", Doc: "guide.md", Text: "The rows given are predicted with the weights integrated out. " + explained[how] + r.weighing() + unsure(r.Unsure, r.N+r.Missing)}
	put := func(k string, v *float64) {
		if v != nil {
			sec.Facts = append(sec.Facts, page.Fact{Key: k, Value: fmt.Sprintf("%.5g", *v)})
		}
	}
	sec.Facts = r.rowFacts(sc.skipped)
	put("mean of y", r.Mean)
	put("mean prediction", r.Predicted)
	of, shares, _ := r.units()
	put("log loss"+of, r.LogLoss)
	put("AUC", r.AUC)
	put("Brier score"+of, r.Brier)
	put("RMSE"+shares, r.RMSE)
	put("mean absolute error"+shares, r.MAE)
	put("coverage of 95 % intervals", r.Coverage)
	if r.RuledOut > 0 {
		sec.Text += " " + ruledOut(r.RuledOut)
	}
	charts, err := calibrationCharts(s, binary, r.Trials != nil, r.Weight != nil, sum.Family)
	if err != nil {
		return err
	}
	if binary {
		more, err := rocAndLift(s)
		if err != nil {
			return err
		}
		charts = append(charts, more...)
	}
	if how == progressive {
		parts, err := periods(s, c.Slices, binary, r.Trials != nil)
		if err != nil {
			return err
		}
		charts = append(charts, courseCharts(parts)...)
	}
	p.Add(sec, charts...)
	return nil
}

// rowFacts says how many rows were judged, and how many were not.
func (r *quality) rowFacts(skipped int64) []page.Fact {
	facts := []page.Fact{{Key: "rows", Value: count(r.N)}}
	if r.Weight != nil {
		facts = append(facts, page.Fact{Key: "rows that they count as", Value: amount(*r.Weight)})
	}
	if r.Trials != nil {
		facts = append(facts, page.Fact{Key: "trials", Value: amount(*r.Trials)})
	}
	if r.Missing > 0 {
		facts = append(facts, page.Fact{Key: "rows without y or prediction", Value: count(r.Missing)})
	}
	if skipped > 0 {
		facts = append(facts, page.Fact{Key: "bad rows skipped", Value: count(skipped)})
	}
	return facts
}

// courseCharts show how well a stream predicted its rows before it learnt them.
func courseCharts(periods []period) []*chart.Chart {
	observed, predicted := chart.Series{Kind: "line", Label: "observed"}, chart.Series{Kind: "line", Label: "predicted"}
	auc := chart.Series{Kind: "line"}
	for _, p := range periods {
		x := float64(p.From + p.N - 1)
		for to, v := range map[*chart.Series]*float64{&observed: p.Observed, &predicted: p.Predicted, &auc: p.AUC} {
			if v != nil {
				to.X, to.Y = append(to.X, x), append(to.Y, *v)
			}
		}
	}
	out := []*chart.Chart{{ID: "calibration-course", Title: "Calibration over the course: means of each slice before it was learnt", XLabel: "rows learnt", YLabel: "mean response", Series: []chart.Series{observed, predicted}}}
	if len(auc.X) > 0 {
		out = append(out, &chart.Chart{ID: "auc-course", Title: "Progressive AUC of each slice", XLabel: "rows learnt", YLabel: "AUC", Series: []chart.Series{auc}})
	}
	return out
}

// binned is the SQL of rows y, p and w in bins b of equal numbers of rows, ordered by prediction. A
// row of weight w may be in several, with a part of its weight in each.
func binned(weighed bool) string {
	if !weighed {
		return fmt.Sprintf("(SELECT y, p, w, ntile(20) OVER (ORDER BY p, bglm_row) AS b FROM %s)", single)
	}
	return fmt.Sprintf(`(SELECT y, p, least(upto, (b + 1) * total / 20) - greatest(upto - w, b * total / 20) AS w, b
		FROM (SELECT y, p, w, sum(w) OVER (ORDER BY p, bglm_row ROWS UNBOUNDED PRECEDING) AS upto, sum(w) OVER () AS total FROM %s), range(20) r(b)
		WHERE upto > b * total / 20 AND upto - w < (b + 1) * total / 20)`, single)
}

// calibrationCharts bins rows, or trials, by their prediction, with equal numbers of them in each
// bin.
func calibrationCharts(s *duck.Session, binary, trials, weighed bool, family string) ([]*chart.Chart, error) {
	unit := "rows"
	if trials {
		unit, binary, weighed = "trials", true, true
	}
	c := &chart.Chart{ID: "calibration", Title: "Calibration: 20 bins of equally many " + unit, XLabel: "predicted", YLabel: "observed"}
	pts := chart.Series{Kind: "points", Label: "mean of a bin, 95 % interval"}
	lo, hi := math.Inf(1), math.Inf(-1)
	l, err := lik.New(family, "", lik.Params{Dispersion: 1})
	if err != nil {
		return nil, err
	}
	err = s.Each("SELECT any_value(mp), any_value(my), sqrt(sum(w * (y - my)**2) / nullif(greatest(sum(w) - 1, 0), 0) / sum(w)), sum(w) FROM (SELECT *, sum(w * p) OVER bin / sum(w) OVER bin AS mp, sum(w * y) OVER bin / sum(w) OVER bin AS my FROM "+binned(weighed)+" WINDOW bin AS (PARTITION BY b)) GROUP BY b ORDER BY b", func(scan func(...any) error) error {
		var p, y, n float64
		var se sql.NullFloat64
		if err := scan(&p, &y, &se, &n); err != nil {
			return err
		}
		pts.X, pts.Y = append(pts.X, p), append(pts.Y, y)
		low, high := metric.MeanInterval(l, y, se.Float64, n)
		if binary {
			low, high = metric.ShareInterval(whole(y*n), n)
		}
		pts.Lo, pts.Hi = append(pts.Lo, low), append(pts.Hi, high)
		pts.Tip = append(pts.Tip, fmt.Sprintf("%s "+unit+": predicted %.4g, observed %.4g", amount(n), p, y))
		lo, hi = min(lo, p, y), max(hi, p, y)
		return nil
	})
	if n := len(pts.X); n < 20 { // there are fewer rows
		c.Title = "Calibration: " + some(int64(n), "bin") + " of equally many " + unit
	}
	if binary {
		lo, hi = max(lo, 0), min(hi, 1)
	}
	c.Series = []chart.Series{pts, {Kind: "reference", Label: "perfect", X: []float64{lo, hi}, Y: []float64{lo, hi}}}
	return []*chart.Chart{c}, err
}

// whole is x without the rounding error of a sum of whole numbers.
func whole(x float64) float64 {
	if r := math.Round(x); math.Abs(x-r) < 1e-9*math.Max(r, 1) {
		return r
	}
	return x
}

// rocAndLift draws both curves, none if one of the responses does not occur.
func rocAndLift(s *duck.Session) ([]*chart.Chart, error) {
	var steps []metric.Step
	// Rows with equal predictions stay in one step.
	err := s.Each(`WITH d AS (SELECT p, sum(w * y) AS y, sum(w) AS k FROM `+usable+` GROUP BY p),
		e AS (SELECT p, y, k, sum(k) OVER (ORDER BY p DESC) AS upto FROM d)
		SELECT sum(y), sum(k) FROM e GROUP BY ceil(200 * upto / (SELECT sum(k) FROM d)) ORDER BY min(upto)`, func(scan func(...any) error) error {
		var step metric.Step
		err := scan(&step.Positive, &step.Rows)
		steps = append(steps, step)
		return err
	})
	curve := metric.Curve(steps)
	if err != nil || curve == nil {
		return nil, err
	}
	roc, lift := chart.Series{Kind: "line", Label: "ROC"}, chart.Series{Kind: "line", Label: "share of all positives found"}
	for _, c := range curve {
		roc.X, roc.Y = append(roc.X, c.FalsePositive), append(roc.Y, c.TruePositive)
		lift.X, lift.Y = append(lift.X, c.Share), append(lift.Y, c.TruePositive)
	}
	unit := [2]float64{0, 1}
	diagonal := chart.Series{Kind: "reference", Label: "at random", X: []float64{0, 1}, Y: []float64{0, 1}}
	best := chart.Series{Kind: "reference", Label: "at best", X: []float64{0, metric.Prevalence(steps), 1}, Y: []float64{0, 1, 1}}
	return []*chart.Chart{
		{ID: "roc", Title: "ROC", XLabel: "false positive rate", YLabel: "true positive rate", Series: []chart.Series{roc, diagonal}, X: &unit, Y: &unit},
		{ID: "lift", Title: "Lift: rows by falling prediction", XLabel: "share of rows", YLabel: "share of positives found", Series: []chart.Series{lift, diagonal, best}, X: &unit, Y: &unit},
	}, nil
}

// labelSQL names a weight with its group and class.
func labelSQL(f *fitstore.Fits) string {
	var parts []string
	for _, g := range f.Group {
		parts = append(parts, quote.Name(g.Name)+"::VARCHAR")
	}
	if f.HasClass {
		parts = append(parts, "bglm_b.class")
	}
	return "concat_ws(' · ', " + strings.Join(append(parts, "bglm_b.feature"), ", ") + ")"
}

// weights shows the weights furthest from 0: as odds or rate ratios if the link has them, those of
// numbers per standard deviation if the fit knows it.
func (c *reportCommand) weights(s *duck.Session, p *page.Page, f *fitstore.Fits, sum *summary) error {
	factorised, link := sum.factorised(), sum.Link
	what := map[string]string{"the odds": "odds ratio", "the rate": "rate ratio", "the mean": "ratio of means"}[ratioOf(sum.Family, link)]
	ch := &chart.Chart{ID: "weights", XLabel: "weight, of numbers by standard deviation", Ratio: what != ""}
	if ch.Ratio {
		ch.XLabel = what + ", of numbers by standard deviation"
	}
	ch.Title = "Weights furthest from 0"
	is := chart.Series{Kind: "interval"}
	t := &page.Table{Head: []page.Cell{page.Text("feature"), page.Number("mean")}}
	if !factorised {
		ch.Title += ", with 95 % intervals"
		t.Head = append(t.Head, page.Number("sd"), page.Number("lower"), page.Number("upper"), page.Number("z"))
	}
	t.Head = append(t.Head, page.Number("by sd"))
	if ch.Ratio {
		t.Head = append(t.Head, page.Number(what))
	}
	shown := func(v float64) float64 {
		if ch.Ratio {
			return math.Exp(max(-50, min(v, 50)))
		}
		return v
	}
	err := s.Each(fmt.Sprintf(`SELECT %s AS label, bglm_b.mean, sqrt(bglm_b.variance), coalesce(nullif(list_filter(fit.columns, lambda bglm_c: starts_with(bglm_c.kind, 'number') AND bglm_c.name = bglm_b.feature)[1].scale, 0), 1) FROM (SELECT *, unnest(fit.beliefs) AS bglm_b FROM %s)
		ORDER BY bglm_b.feature = '(Intercept)', CASE WHEN bglm_b.variance > 0 THEN abs(bglm_b.mean) / sqrt(bglm_b.variance) ELSE 0 END DESC, label LIMIT %d`, labelSQL(f), f.Table, c.Weights), func(scan func(...any) error) error {
		var name string
		var m, sd, scale float64
		if err := scan(&name, &m, &sd, &scale); err != nil {
			return err
		}
		half := metric.Z95 * sd
		tip := fmt.Sprintf("%s: %.4g ± %.3g", name, m, sd)
		if factorised {
			half, tip = 0, fmt.Sprintf("%s: %.4g", name, m)
		}
		if !strings.HasSuffix(name, kernels.Intercept) { // the intercept is for all numbers at 0, and may be far off
			is.X, is.Y = append(is.X, shown(scale*m)), append(is.Y, float64(len(ch.Names)))
			is.Lo, is.Hi = append(is.Lo, shown(scale*(m-half))), append(is.Hi, shown(scale*(m+half)))
			is.Tip = append(is.Tip, tip)
			ch.Names = append(ch.Names, name)
		}
		number := func(v float64) page.Cell { return page.Number(chart.Digits(v, 4)) }
		row := []page.Cell{page.Text(name), number(m)}
		if !factorised {
			z := "known"
			if sd > 0 {
				z = fmt.Sprintf("%.1f", m/sd)
			}
			row = append(row, page.Number(chart.Digits(sd, 3)), number(m-half), number(m+half), page.Number(z))
		}
		row = append(row, number(scale*m))
		if ch.Ratio {
			row = append(row, number(shown(scale*m)))
		}
		t.Rows = append(t.Rows, row)
		return nil
	})
	if err != nil || len(t.Rows) == 0 {
		return err
	}
	n, none := float64(len(ch.Names)), shown(0)
	ch.Series = []chart.Series{is, {Kind: "reference", X: []float64{none, none}, Y: []float64{-0.5, n - 0.5}}}
	text := "Means are on the scale of the linear predictor, for one unit; by sd for one standard deviation of a number."
	if factorised {
		text += " The posterior is factorised: deviations of single weights are not the posterior's, and not shown."
	} else {
		text += " z is the mean in posterior standard deviations."
	}
	var charts []*chart.Chart
	if len(ch.Names) > 0 {
		charts = append(charts, ch)
	}
	p.Add(page.Section{ID: "coefficients", Title: "Weights", Doc: "coefficients.md", Text: text, Table: t}, charts...)
	return nil
}

// course is the progress of a filter over slices of the rows.
type course struct {
	evidence chart.Series // per row of a slice
	top      []string     // features of the weights furthest from 0
	drifts   bool
	path     map[string][]chartPoint // of top, if they drift
	scale    map[string]float64      // of top: the standard deviation of a number
	hasTime  bool                    // x is the time, else rows
	until    float64                 // the time of the last row
	dates    bool                    // the time counts in days since 1970
	byScale  bool                    // some weight of top belongs to a number, and is shown per standard deviation
}

type chartPoint struct{ x, mean, sd float64 }

// trajectories learns the rows again, slice by slice, and shows the weights and the evidence along
// the way.
func (c *reportCommand) trajectories(s *duck.Session, p *page.Page, sc *scoring, factorised bool) error {
	if f := sc.fits; len(f.Group) > 0 || f.Job(startKey) != "" {
		return nil
	}
	m, drifts, err := c.again(s, sc.fits)
	if err != nil || m == nil {
		return err
	}
	j, err := job.New(sc.src, *m, true)
	if err != nil {
		return err
	}
	learnt, err := c.learnAgain(s, sc, j, drifts)
	if err != nil || learnt == nil {
		return err
	}
	learnt.section(p, factorised)
	for k := range p.Card {
		if f := &p.Card[k]; learnt.dates && f.Key == validAt {
			f.Value = chart.Date(learnt.until)
		}
	}
	return nil
}

// again is the model as it was fitted, nil if it does not learn row by row, or its file does not
// record how it was learnt.
func (c *reportCommand) again(s *duck.Session, f *fitstore.Fits) (m *job.Model, drifts bool, err error) {
	var method string
	if err := s.Row("SELECT any_value(fit.method) FROM fits", &method); err != nil {
		return nil, false, err
	}
	if !job.Streams(method) {
		return nil, false, nil
	}
	own, ok, err := modelOf(f)
	if err != nil || !ok && c.Formula == "" {
		return nil, false, err
	}
	if own.Method = method; c.Formula != "" {
		own.Formula, own.Y, own.X, own.Dot = c.Formula, "", "", nil
	}
	for _, o := range own.Option {
		k, v, _ := strings.Cut(o, "=")
		drifts = drifts || k == "process_noise" && v != "0" || k == "forgetting" && v != "1"
	}
	return &own, drifts, nil
}

// learnAgain runs the job on slices of the rows, each continued from the one before; nil for less
// than two rows.
func (c *reportCommand) learnAgain(s *duck.Session, sc *scoring, j *job.Job, drifts bool) (*course, error) {
	fn, err := job.Function(s, j.Method)
	if err != nil {
		return nil, err
	}
	if err := s.Exec("SET threads = 1"); err != nil {
		return nil, err
	}
	defer func() { _ = s.Exec("RESET threads") }()
	if err := s.Long("ordering", "CREATE OR REPLACE TEMP TABLE slices AS SELECT *, row_number() OVER () AS bglm_k FROM ("+j.Inner(sc.src.Rows())+")"); err != nil {
		return nil, err
	}
	var rows int64
	if err := s.Row("SELECT count(*) FROM slices", &rows); err != nil {
		return nil, err
	}
	n := min(int64(c.Slices), rows)
	if n < 2 {
		return nil, nil
	}
	out := &course{evidence: chart.Series{Kind: "line"}, drifts: drifts, path: map[string][]chartPoint{}, scale: map[string]float64{}}
	if _, out.hasTime = j.Option("time"); out.hasTime {
		cols, err := s.Describe("SELECT bglm_time FROM slices")
		if err != nil {
			return nil, err
		}
		out.dates = strings.HasPrefix(cols[0].Type, "DATE") || strings.HasPrefix(cols[0].Type, "TIMESTAMP")
	}
	err = s.Each(`SELECT b.feature, coalesce(nullif(c.scale, 0), 1), c.scale IS NOT NULL FROM (SELECT unnest(fit.beliefs) AS b FROM fits) LEFT JOIN (SELECT unnest(fit.columns, recursive := true) FROM fits) c ON starts_with(c.kind, 'number') AND c.name = b.feature
		WHERE b.variance > 0 ORDER BY abs(b.mean) / sqrt(b.variance) DESC, b.feature LIMIT 6`, func(scan func(...any) error) error {
		var name string
		var scale float64
		var scaled bool
		err := scan(&name, &scale, &scaled)
		out.top, out.byScale = append(out.top, name), out.byScale || scaled
		out.scale[name] = scale
		return err
	})
	if err != nil {
		return nil, err
	}
	var last sql.NullFloat64
	lastN := int64(0)
	for k := range n {
		var more []job.Setting
		if k > 0 {
			more = append(more, job.Setting{Key: "prior", SQL: "(SELECT fit FROM slice_before)"})
		}
		if err := s.Exec(fmt.Sprintf("CREATE OR REPLACE TEMP TABLE slice AS SELECT %s(bglm_y, bglm_x, %s) AS fit FROM slices WHERE bglm_k > %d AND bglm_k <= %d", fn, j.OptionsText(more...), k*rows/n, (k+1)*rows/n)); err != nil {
			return nil, err
		}
		var logZ, t sql.NullFloat64
		var count int64
		if err := s.Row(`SELECT fit.log_evidence, fit."time", fit.n FROM slice`, &logZ, &t, &count); err != nil {
			return nil, err
		}
		x := float64((k + 1) * rows / n)
		if out.hasTime && t.Valid {
			x, out.until = t.Float64, t.Float64
		}
		if count > lastN {
			out.evidence.X, out.evidence.Y = append(out.evidence.X, x), append(out.evidence.Y, (logZ.Float64-last.Float64)/float64(count-lastN))
		}
		last, lastN = logZ, count
		if drifts {
			if err := out.visit(s, x); err != nil {
				return nil, err
			}
		}
		if err := s.Exec("CREATE OR REPLACE TEMP TABLE slice_before AS FROM slice"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// visit adds the beliefs of the slice at x to the paths.
func (c *course) visit(s *duck.Session, x float64) error {
	return s.Each("SELECT b.feature, b.mean, sqrt(b.variance) FROM (SELECT unnest(fit.beliefs) AS b FROM slice) WHERE b.feature IN ("+strings.Trim(quote.List(c.top), "[]")+")", func(scan func(...any) error) error {
		var name string
		pt := chartPoint{x: x}
		err := scan(&name, &pt.mean, &pt.sd)
		pt.mean, pt.sd = pt.mean*c.scale[name], pt.sd*c.scale[name]
		c.path[name] = append(c.path[name], pt)
		return err
	})
}

// section draws the course, without bands for factorised weights.
func (c *course) section(p *page.Page, factorised bool) {
	xl := "rows learnt"
	if c.hasTime {
		xl = "time"
	}
	if c.dates {
		xl = "date"
	}
	charts := []*chart.Chart{{ID: "evidence", Title: "Evidence: how well each slice was predicted before it was learnt", XLabel: xl, YLabel: "log evidence per row", Series: []chart.Series{c.evidence}, Dates: c.dates}}
	text := "The rows are learnt again in their order, slice by slice."
	if c.drifts {
		tr := &chart.Chart{ID: "trajectories", Title: "Trajectories of the weights furthest from 0", XLabel: xl, YLabel: "weight", Dates: c.dates}
		if c.byScale {
			tr.YLabel += ", of numbers by sd"
		}
		if !factorised {
			tr.YLabel += ", ± 1 sd"
		}
		var bands []chart.Series
		for _, name := range c.top {
			l, b := chart.Series{Kind: "line", Label: name}, chart.Series{Kind: "band"}
			for _, pt := range c.path[name] {
				l.X, l.Y = append(l.X, pt.x), append(l.Y, pt.mean)
				b.X, b.Lo, b.Hi = append(b.X, pt.x), append(b.Lo, pt.mean-pt.sd), append(b.Hi, pt.mean+pt.sd)
			}
			tr.Series = append(tr.Series, l)
			bands = append(bands, b)
		}
		for len(tr.Series) < 8 { // bands have the colours of their lines
			tr.Series = append(tr.Series, chart.Series{Kind: "line"})
		}
		if !factorised {
			tr.Series = append(tr.Series, bands...)
		}
		charts = append([]*chart.Chart{tr}, charts...)
		text += " Weights drift between rows; what is shown is the filter's belief at the time."
	}
	p.Add(page.Section{ID: "course", Title: "Course of learning", Doc: "cookbook/drift.md", Text: text}, charts...)
}

// predicted prints a prediction; a probability next to 1 by its distance from 1, which determines
// its surprise.
func predicted(p float64) string {
	if s := chart.Digits(p, 4); s != "1" || p >= 1 {
		return s
	}
	return "1 - " + strconv.FormatFloat(1-p, 'g', 2, 64)
}

// worst lists the rows with the least expected responses.
func (c *reportCommand) worst(s *duck.Session, p *page.Page, sc *scoring) error {
	binary, err := isBinary(s)
	if err != nil {
		return err
	}
	surprise, what := "abs(y - p) / sqrt(v)", "standard deviations off"
	if binary {
		surprise, what = logLoss, "surprise (nats)"
	}
	cols, err := s.Describe("FROM " + sc.src.Rows())
	if err != nil {
		return err
	}
	cols = slices.DeleteFunc(cols, func(col duck.Column) bool { return strings.EqualFold(col.Name, strings.Trim(sc.y, `"`)) }) // it is y
	show := duck.Names(cols)
	show = show[:min(len(show), 8)]
	const keys = "SELECT bglm_file, bglm_row, y, p, w, s FROM (SELECT *, %s AS s FROM " + usable + ") ORDER BY s DESC, bglm_file, bglm_row LIMIT 20"
	why, err := sc.reasons(s, fmt.Sprintf(keys, surprise))
	if err != nil {
		return err
	}
	t := &page.Table{Head: []page.Cell{page.Text("file"), page.Number("row"), page.Number("y"), page.Number("prediction"), page.Number(what)}}
	if sc.weight != "" {
		t.Head = append(t.Head, page.Number("weight"))
	}
	if len(why) > 0 {
		t.Head = append(t.Head, page.Text("what moved the prediction"))
	}
	var fields []string
	for i, n := range show {
		t.Head = append(t.Head, page.Text(n))
		value := "left(r." + quote.Name(n) + "::VARCHAR, 40)"
		if cols[i].Type == "DOUBLE" || cols[i].Type == "FLOAT" {
			value = "printf('%.6g', r." + quote.Name(n) + "::DOUBLE)"
		}
		fields = append(fields, value)
	}
	q := "SELECT w.bglm_file, w.bglm_row, w.y, w.p, w.w, w.s, " + strings.Join(fields, ", ") + " FROM (" + fmt.Sprintf(keys, surprise) + ") w JOIN " +
		sc.src.Numbered() + " r USING (bglm_file, bglm_row) ORDER BY w.s DESC, w.bglm_file, w.bglm_row"
	err = s.Each(q, func(scan func(...any) error) error {
		var file string
		var row int64
		var y, pr, weight, sp float64
		text := make([]sql.NullString, len(fields))
		dst := []any{&file, &row, &y, &pr, &weight, &sp}
		for i := range text {
			dst = append(dst, &text[i])
		}
		if err := scan(dst...); err != nil {
			return err
		}
		line := []page.Cell{page.Text(filepath.Base(sc.src.FileName(file))), page.Number(count(row)), page.Number(chart.Short(y)), page.Number(predicted(pr)), page.Number(fmt.Sprintf("%.3f", sp))}
		if sc.weight != "" {
			line = append(line, page.Number(amount(weight)))
		}
		if len(why) > 0 {
			line = append(line, page.Text(why[fmt.Sprintf("%s %d", file, row)]))
		}
		for _, v := range text {
			line = append(line, page.Text(v.String))
		}
		t.Rows = append(t.Rows, line)
		return nil
	})
	if err != nil {
		return err
	}
	p.Add(page.Section{ID: "worst", Title: "Rows that fit worst", Doc: "functions.md#bglm_influence", Text: "The responses that the model expected least: wrong data, or what it cannot know. What moved the prediction is each feature's part of the predictor, numbers from their mean.", Table: t})
	return nil
}
