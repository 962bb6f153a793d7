package main

import (
	"cmp"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/cmd/chart"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/page"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/metric"
)

// columnDrive is a column's share in the variation of the predictions.
type columnDrive struct {
	column              string
	share, lower, upper float64
	with                string // the column of the data whose other terms move with it, "" for none
}

// part describes the size of the share; it is relative to the variation of all columns together, so
// that one may have more than all of it if another works against it.
func (d columnDrive) part() string {
	switch p := math.Round(100 * d.share); {
	case d.share < 0:
		return fmt.Sprintf("it takes back %.0f %% of what the predictions vary by", -p)
	case p > 100:
		return fmt.Sprintf("%.0f %% of what the predictions vary by, of which others take some back", p)
	default:
		return fmt.Sprintf("%.0f %% of what the predictions vary by", p)
	}
}

// strongest are drives by the absolute size of their share.
func strongest(ds []columnDrive) []columnDrive {
	out := slices.Clone(ds)
	slices.SortStableFunc(out, func(a, b columnDrive) int { return cmp.Compare(math.Abs(b.share), math.Abs(a.share)) })
	return out
}

// features are the rows with their features as bglm_x and their weights as bglm_w, without an
// offset.
func (sc *scoring) features(columns ...string) string {
	return "(SELECT " + strings.Join(append(columns, "("+sc.x+") AS bglm_x", weightOf(sc.weight)+" AS bglm_w"), ", ") + " FROM " + sc.rows + ")"
}

// driverRows is the number of rows from which the drivers are computed.
const driverRows = 200_000

// drivers are the columns by their share in the predictor's variance over the rows; none for
// groups, classes, and features without columns.
func drivers(s *duck.Session, sc *scoring) (out []columnDrive, err error) {
	if len(sc.fits.Group) > 0 || sc.fits.HasClass {
		return nil, nil
	}
	err = s.Each(fmt.Sprintf(`SELECT d."column", d.share, d.lower, d.upper FROM (SELECT unnest(bglm_drivers(fit, bglm_x, {weight: bglm_w})) AS d FROM (FROM %s LIMIT %d), (SELECT fit FROM fits)) WHERE d.share IS NOT NULL`, sc.features(), driverRows),
		func(scan func(...any) error) error {
			var d columnDrive
			err := scan(&d.column, &d.share, &d.lower, &d.upper)
			out = append(out, d)
			return err
		})
	if err != nil {
		return nil, err
	}
	ms, _, err := movers(s, sc, "")
	for _, m := range ms {
		for k := range out {
			if m.number && !m.single && m.has(out[k].column) {
				out[k].with = m.Name
			}
		}
	}
	return out, err
}

// judgement summarises the predictions in the table scored.
type judgement struct {
	*quality
	how    string
	binary bool
	skill  metric.Skill // by log loss, of trials that of one, for numbers by squared errors
	auc    [2]float64   // interval
	chance float64      // standard error of the mean of binary responses, or of trials
}

// logLoss is the log loss of a row of the table scored, finite even where it was ruled out.
const logLoss = "-ln(greatest(CASE WHEN y = 1 THEN p ELSE 1 - p END, 1e-300))"

// trialLoss is the SQL of the log loss of one trial of a row whose response is a share, finite.
func trialLoss(p string) string {
	return "-(y * ln(greatest(" + p + ", 1e-300)) + (1 - y) * ln(greatest(1 - " + p + ", 1e-300)))"
}

// judged compares the predictions with those of the mean alone.
func judged(s *duck.Session, q *quality, how string, binary bool) (*judgement, error) {
	j := &judgement{quality: q, how: how, binary: binary}
	loss, base := logLoss, "-ln(CASE WHEN y = 1 THEN m ELSE 1 - m END)"
	switch {
	case q.Trials != nil:
		loss, base = trialLoss("p"), trialLoss("m")
	case !binary:
		loss, base = "(y - p) * (y - p)", "(y - m) * (y - m)"
	}
	err := s.Exec(fmt.Sprintf("CREATE OR REPLACE TEMP TABLE losses AS SELECT w, trials AS t, y, p, %s AS l, %s AS b FROM (FROM %s), (SELECT sum(w * trials * y) / sum(w * trials) AS m FROM %s)", loss, base, usable, usable))
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Exec("DROP TABLE losses") }()
	var n, mean, of, sd, gainSD, positives, off sql.NullFloat64
	// Standard deviations are those of a sample of as many rows as the weights add up to. The trials
	// of a row are not independent of each other: their mean is a ratio of sums over rows.
	spread := func(of, mean string) string {
		return "sqrt(sum(w * (t * (" + of + " - " + mean + "))**2) / nullif(greatest(sum(w) - 1, 0), 0)) * sum(w) / sum(w * t)"
	}
	err = s.Row("SELECT sum(w), any_value(ml), any_value(mb), "+spread("l", "ml")+", "+spread("(b - l)", "(mb - ml)")+", sum(w * y), sqrt(sum(w * (t * (y - p))**2)) / sum(w * t) FROM losses, (SELECT sum(w * t * l) / sum(w * t) AS ml, sum(w * t * b) / sum(w * t) AS mb FROM losses)",
		&n, &mean, &of, &sd, &gainSD, &positives, &off)
	if err != nil {
		return nil, err
	}
	if q.Mean != nil {
		j.chance = metric.ShareError(*q.Mean, n.Float64)
	}
	if q.Trials != nil {
		j.chance = off.Float64
	}
	j.skill.Rows, j.skill.Loss, j.skill.Base, j.skill.LossSD, j.skill.GainSD = n.Float64, mean.Float64, of.Float64, sd.Float64, gainSD.Float64
	if binary && q.AUC != nil {
		j.auc[0], j.auc[1] = metric.AUCInterval(*q.AUC, positives.Float64, n.Float64-positives.Float64)
	}
	return j, nil
}

// losses describes the loss with its interval and the mean's loss, for numbers by their roots.
func (j *judgement) losses() string {
	lo, hi := j.skill.LossInterval()
	unit, shown := "Log loss", digits
	switch {
	case j.Trials != nil:
		of, _, _ := j.units()
		unit += of
	case !j.binary:
		unit, shown = "RMSE", func(v float64) string { return digits(math.Sqrt(math.Max(v, 0))) }
	}
	return fmt.Sprintf("%s %s (%s to %s) against %s.", unit, shown(j.skill.Loss), shown(lo), shown(hi), shown(j.skill.Base))
}

// verdict answers first: is it good, what drives it, can it be trusted.
func (c *reportCommand) verdict(s *duck.Session, p *page.Page, f *fitstore.Fits, j *judgement, ds []columnDrive, sum *summary) error {
	sec := page.Section{ID: "verdict", Title: "In short", Doc: "coefficients.md"}
	good := "Not clearly better than the mean response alone."
	switch v := j.skill.Verdict(); {
	case j.skill.Base == 0:
		good = "All these responses are alike, so that there is nothing to tell apart."
	case v > 0:
		good = "Better than the mean response alone."
	case v < 0:
		good = "Worse than the mean response alone: do not use it as it is."
	}
	good += " " + j.losses()
	if j.binary && j.AUC != nil {
		good += fmt.Sprintf(" Of two rows, one of each response, it ranks the right one higher %.0f times in 100 (AUC %.3f, %.3f to %.3f).", 100**j.AUC, *j.AUC, j.auc[0], j.auc[1])
	}
	if share := j.skill.Explained(); !j.binary && j.Trials == nil && share > 0 {
		good += fmt.Sprintf(" It explains %.0f %% of the responses' variance.", 100*share)
	}
	sec.Points = append(sec.Points, page.Point{Question: "Is it good?", Answer: good})
	what, err := c.driven(s, f, ds, sum)
	if err != nil {
		return err
	}
	if what != "" {
		sec.Points = append(sec.Points, page.Point{Question: "What drives it?", Answer: what})
	}
	trust := explained[j.how] + unsure(j.Unsure, j.N+j.Missing)
	if (j.binary || j.Trials != nil) && j.Mean != nil && j.Predicted != nil {
		trust += fmt.Sprintf(" On average it predicts %.1f %%, and %.1f %% were observed", 100**j.Predicted, 100**j.Mean)
		if metric.BeyondChance(math.Abs(*j.Predicted-*j.Mean), j.chance) {
			trust += ": more apart than chance explains"
		}
		trust += "."
	} else if j.Coverage != nil {
		trust += fmt.Sprintf(" %.1f %% of the responses are in their 95 %% intervals", 100**j.Coverage)
		if metric.BeyondChance(0.95-*j.Coverage, metric.ShareError(0.95, j.skill.Rows)) {
			trust += ": too few, so that predictions are less sure than they say"
		}
		trust += "."
	}
	status := sum.Status
	if traitsOf(sum.Family, sum.Link).Equidispersed {
		wide, err := overdispersion(s)
		if err != nil {
			return err
		}
		if wide != "" { // the fit may have said so already
			trust += wide
			status = strings.Join(slices.DeleteFunc(strings.Split(status, "; "), lik.IsOverdispersionNote), "; ")
		}
	}
	trust += checks(status)
	sec.Points = append(sec.Points, page.Point{Question: "Can it be trusted?", Answer: trust})
	p.Sections = append(p.Sections, sec)
	return nil
}

// overdispersion is a sentence about counts that vary more than a Poisson distribution allows,
// which the intervals of small counts, being whole numbers, do not show: Pearson's ratio for the
// predictions, over their variances, which are the mean plus the uncertainty of the weights: this
// grows with the spread as the mean's part does. Its standard error for Poisson counts is
// √(Σ (2 + 1/mean)) / n.
func overdispersion(s *duck.Session) (string, error) {
	var ratio, se sql.NullFloat64
	if err := s.Row("SELECT "+weighted("(y - p) * (y - p) / greatest(v, p)")+", sqrt("+weighted("2 + 1 / p")+" / sum(w)) FROM "+usable+" AND p > 1e-3", &ratio, &se); err != nil {
		return "", err
	}
	r := ratio.Float64
	if !lik.Overdispersed(r, (r-1)/se.Float64, 0) {
		return "", nil
	}
	return fmt.Sprintf(" The counts vary %.2g times as much as Poisson's law allows, so that the weights' intervals are too narrow, by a factor of about %.2g: family=negbinomial learns the spread, bglm_robust measures it.", r, math.Sqrt(r)), nil
}

// checks is the sentence about a fit's status, "" if all of it has been said.
func checks(status string) string {
	switch status {
	case "":
		return ""
	case "ok":
		return " The fit's own checks have found nothing."
	}
	return " The fit says: " + status + "."
}

// digits prints a loss.
func digits(v float64) string {
	if a := math.Abs(v); a >= 100 || a > 0 && a < 1e-3 {
		return chart.Short(math.Round(v*100) / 100)
	}
	return fmt.Sprintf("%.4f", v)
}

// driven describes the effects of the three strongest columns.
func (c *reportCommand) driven(s *duck.Session, f *fitstore.Fits, ds []columnDrive, sum *summary) (string, error) {
	var out []string
	for _, d := range strongest(ds)[:min(3, len(ds))] {
		if math.Abs(d.share) < 0.005 {
			break
		}
		text := fmt.Sprintf("%s (%s)", d.column, d.part())
		var kind sql.NullString
		var per, expo, lower, upper sql.NullFloat64 // lower and upper of per
		var high, low sql.NullString
		err := s.Row(`SELECT any_value(split_part(c.kind, ' of ', 1)), any_value(t.per_sd) FILTER (t.term = `+quote.Text(d.column)+`), any_value(t.exp_mean) FILTER (t.term = `+quote.Text(d.column)+`),
				any_value(t.per_sd + t.per_sd / nullif(t.mean, 0) * (t.lower - t.mean)) FILTER (t.term = `+quote.Text(d.column)+`), any_value(t.per_sd + t.per_sd / nullif(t.mean, 0) * (t.upper - t.mean)) FILTER (t.term = `+quote.Text(d.column)+`),
				arg_max(t.term, t.mean) FILTER (starts_with(t.term, t."column" || '=')), arg_min(t.term, t.mean) FILTER (starts_with(t.term, t."column" || '='))
			FROM (SELECT unnest(bglm_summary(fit)) AS t FROM `+f.Table+`), (SELECT unnest(fit.columns) AS c FROM `+f.Table+`) WHERE t."column" = `+quote.Text(d.column)+` AND c.name = `+quote.Text(d.column)+` AND t.term NOT LIKE '% IS NULL'`,
			&kind, &per, &expo, &lower, &upper, &high, &low)
		if err != nil {
			return "", err
		}
		between := func(shown func(float64) float64) string {
			if sum.factorised() || !lower.Valid || !upper.Valid {
				return ""
			}
			return fmt.Sprintf(" (%.3g to %.3g)", shown(lower.Float64), shown(upper.Float64))
		}
		switch {
		case d.with != "": // its weight alone says nothing
			text += ": one curve with the other terms of " + d.with
		case kind.String == "number" && per.Valid && expo.Valid:
			text += fmt.Sprintf(": one standard deviation more multiplies %s by %.3g", ratioOf(sum.Family, sum.Link), math.Exp(per.Float64)) + between(math.Exp)
		case kind.String == "number" && per.Valid:
			text += fmt.Sprintf(": one standard deviation more adds %.3g", per.Float64) + between(func(v float64) float64 { return v }) + " to the predictor"
		case high.Valid && low.Valid && high.String != low.String:
			text += fmt.Sprintf(": highest for %s, lowest for %s", strings.TrimPrefix(high.String, d.column+"="), strings.TrimPrefix(low.String, d.column+"="))
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return "", nil
	}
	return strings.Join(out, "; ") + ".", nil
}

// ratioOf is what the exponential of a weight multiplies, "" if it has no such meaning.
func ratioOf(family, link string) string {
	switch t := traitsOf(family, link); {
	case t.LogOdds:
		return "the odds"
	case t.LogRate:
		return "the rate"
	case t.LogMean:
		return "the mean"
	}
	return ""
}

// driverChart shows the shares of the columns.
func driverChart(p *page.Page, ds []columnDrive) {
	if len(ds) == 0 {
		return
	}
	shown := strongest(ds)[:min(len(ds), 15)]
	slices.SortStableFunc(shown, func(a, b columnDrive) int { return cmp.Compare(b.share, a.share) })
	ch := &chart.Chart{ID: "drivers", Title: "Share of what the predictions vary by", XLabel: "share of the predictor's variance"}
	is := chart.Series{Kind: "interval"}
	t := &page.Table{Head: []page.Cell{page.Text("column"), page.Number("share"), page.Number("lower"), page.Number("upper")}}
	for i, d := range shown {
		is.X, is.Y, is.Lo, is.Hi = append(is.X, d.share), append(is.Y, float64(i)), append(is.Lo, d.lower), append(is.Hi, d.upper)
		is.Tip = append(is.Tip, fmt.Sprintf("%s: %s (%s to %s)", d.column, thousandths(d.share), thousandths(d.lower), thousandths(d.upper)))
		ch.Names = append(ch.Names, d.column)
		t.Rows = append(t.Rows, []page.Cell{page.Text(d.column), page.Number(thousandths(d.share)), page.Number(thousandths(d.lower)), page.Number(thousandths(d.upper))})
	}
	ch.Series = []chart.Series{is, {Kind: "reference", X: []float64{0, 0}, Y: []float64{-0.5, float64(len(shown)) - 0.5}}}
	text := "How much of the spread of the linear predictor over the rows goes with each column, the others' help included, with 95 % intervals. The shares add up to 1; below 0 is a column that runs against the others."
	if len(shown) < len(ds) {
		text += fmt.Sprintf(" Shown are the %d strongest of %s columns.", len(shown), count(int64(len(ds))))
	}
	p.Add(page.Section{ID: "driving", Title: "What drives it", Doc: "coefficients.md", Table: t,
		Text: text}, ch)
}

// thousandths prints a share.
func thousandths(v float64) string {
	if s := fmt.Sprintf("%.3f", v); s != "-0.000" {
		return s
	}
	return "0.000"
}

const (
	effectColumns = 6
	effectLevels  = 12
	effectPoints  = 25
)

// effects shows the expected response along each of the strongest columns, with the others as in a
// typical row: numbers at their mean, levels at the most frequent one.
func (c *reportCommand) effects(s *duck.Session, p *page.Page, sc *scoring, ds []columnDrive, of lik.Traits) error {
	if len(ds) == 0 {
		return nil
	}
	fields, ok, err := typical(s, sc)
	if err != nil || !ok {
		return err
	}
	ms, blocked, err := movers(s, sc, "") // the offset is 0
	if err != nil {
		return sc.src.Blame(err)
	}
	ms = slices.DeleteFunc(ms, func(m mover) bool { return !m.number || m.single })
	for _, m := range ms {
		if err := sc.refineTypical(s, m, fields); err != nil {
			return err
		}
	}
	var charts []*chart.Chart
	drawn := map[string]bool{}
	for _, d := range strongest(ds) {
		if len(charts) == effectColumns {
			break
		}
		if math.Abs(d.share) < 0.001 || !slices.Contains(fields, d.column) {
			continue
		}
		name := strings.ToLower(d.column)
		var ch *chart.Chart
		switch k := slices.IndexFunc(ms, func(m mover) bool { return m.has(name) }); {
		case k >= 0 && !drawn[ms[k].Name]:
			ch, err = movedCurve(s, sc, ms[k], fields, of, len(charts))
			drawn[ms[k].Name] = true
		case k < 0 && blocked[name] == "":
			ch, err = effect(s, sc, d.column, of, len(charts))
		}
		if err != nil {
			return err
		}
		if ch != nil {
			charts = append(charts, ch)
		}
	}
	if len(charts) > 0 {
		text := "The expected response along a column with its 95 % band, all other columns as in a typical row: numbers at their mean, levels at the most frequent one."
		if len(drawn) > 0 {
			text += " Terms that are computed from a column move with it."
		}
		if sc.offset != "" {
			text += " The offset is 0: an exposure of 1, where it is the logarithm of one."
		}
		p.Add(page.Section{ID: "effects", Title: "Effect of each column", Doc: "coefficients.md#from-log-odds-to-probabilities", Text: text}, charts...)
	}
	return nil
}

// typical creates the table typical with one row of features; false if x is not a STRUCT of numbers
// and levels only, or the columns are related by interactions.
func typical(s *duck.Session, sc *scoring) (fields []string, ok bool, err error) {
	cols, err := sc.sampleColumns(s)
	if err != nil || cols == nil {
		return nil, false, err
	}
	kinds, centres := map[string]string{}, map[string]sql.NullFloat64{}
	if err := s.Each("SELECT c.name, split_part(c.kind, ' of ', 1), c.center FROM (SELECT unnest(fit.columns) AS c FROM fits)", func(scan func(...any) error) error {
		var name, kind string
		var centre sql.NullFloat64
		err := scan(&name, &kind, &centre)
		kinds[name], centres[name] = kind, centre
		return err
	}); err != nil {
		return nil, false, err
	}
	var set []string
	for _, c := range cols {
		if !isPlain(c) {
			return nil, false, nil
		}
		name := quote.Name(c.Name)
		switch kinds[c.Name] {
		case "number":
			centre := "NULL"
			if v := centres[c.Name]; v.Valid {
				centre = "'" + strconv.FormatFloat(v.Float64, 'g', -1, 64) + "'"
			}
			set = append(set, name+" := "+centre+"::DOUBLE")
		case "levels":
			level, err := sc.mostFrequent(s, name)
			if err != nil {
				return nil, false, err
			}
			set = append(set, name+" := "+level)
		case "features": // no single row of them is typical
			return nil, false, nil
		default:
			continue
		}
		fields = append(fields, c.Name)
	}
	if len(set) == 0 {
		return nil, false, nil
	}
	return fields, true, s.Exec("CREATE OR REPLACE TEMP TABLE typical AS SELECT struct_pack(" + strings.Join(set, ", ") + ") AS x")
}

// mostFrequent is the SQL of the level that most rows have, by their weights.
func (sc *scoring) mostFrequent(s *duck.Session, name string) (string, error) {
	level := "NULL::VARCHAR"
	err := s.Each(fmt.Sprintf("SELECT %[1]s::VARCHAR FROM %[2]s WHERE %[1]s IS NOT NULL GROUP BY ALL ORDER BY sum(bglm_w) DESC, 1 LIMIT 1", name, firstRows), func(scan func(...any) error) error {
		var v string
		err := scan(&v)
		level = quote.Text(v)
		return err
	})
	return level, err
}

// firstRows are those of the table seen for which effects are drawn.
var firstRows = fmt.Sprintf("(FROM seen LIMIT %d)", driverRows)

// middle is the SQL of lo and hi, the bounds of a number that leave out 2 % of the rows on each
// side.
func (sc *scoring) middle(name, from string) string {
	rows := fmt.Sprintf("(SELECT (%s)::DOUBLE AS v, bglm_w AS w FROM %s)", name, from)
	if sc.weight == "" {
		return "(SELECT quantile_cont(v, 0.02) AS lo, quantile_cont(v, 0.98) AS hi FROM " + rows + ")"
	}
	return "(SELECT min(v) FILTER (upto >= 0.02 * total) AS lo, min(v) FILTER (upto >= 0.98 * total) AS hi FROM (SELECT v, sum(w) OVER (ORDER BY v) AS upto, sum(w) OVER () AS total FROM " + rows + " WHERE v IS NOT NULL AND w > 0))"
}

// expected is the expected response of the distribution d with its 95 % interval, which for numbers
// and counts is narrower than that of a new response.
func expected(of lik.Traits) string {
	switch {
	case of.Located:
		return fmt.Sprintf("d.eta_mean, d.eta_mean - %[1]v * sqrt(d.eta_variance), d.eta_mean + %[1]v * sqrt(d.eta_variance)", metric.Z95)
	case of.LogMean:
		return fmt.Sprintf("d.mean, exp(d.eta_mean - %[1]v * sqrt(d.eta_variance)), exp(d.eta_mean + %[1]v * sqrt(d.eta_variance))", metric.Z95)
	}
	return "d.mean, d.lower, d.upper"
}

// curve draws d, distributions of the response, along v; nil for no rows of q.
func curve(s *duck.Session, ch *chart.Chart, q string, of lik.Traits) (*chart.Chart, error) {
	line, band := chart.Series{Kind: "line"}, chart.Series{Kind: "band"}
	err := s.Each("SELECT v, "+expected(of)+" FROM ("+q+") ORDER BY v", func(scan func(...any) error) error {
		var v, m, lo, hi float64
		err := scan(&v, &m, &lo, &hi)
		line.X, line.Y = append(line.X, v), append(line.Y, m)
		band.X, band.Lo, band.Hi = append(band.X, v), append(band.Lo, lo), append(band.Hi, hi)
		return err
	})
	if err != nil || len(line.X) == 0 {
		return nil, err
	}
	ch.Series, ch.Same = []chart.Series{band, line}, true
	return ch, nil
}

// effect draws one column; nil if it does not vary.
func effect(s *duck.Session, sc *scoring, column string, of lik.Traits, k int) (*chart.Chart, error) {
	name := quote.Name(column)
	var number bool
	if err := s.Row("SELECT bool_or(starts_with(c.kind, 'number')) FROM (SELECT unnest(fit.columns) AS c FROM fits) WHERE c.name = "+quote.Text(column), &number); err != nil {
		return nil, err
	}
	ch := &chart.Chart{ID: fmt.Sprintf("effect-%d", k+1), Title: column}
	if number {
		ch.XLabel, ch.YLabel = column, "expected response"
		if err := s.Row(fmt.Sprintf("SELECT coalesce(bool_and((%[1]s)::DOUBLE = trunc((%[1]s)::DOUBLE)), false) FROM %[2]s", name, firstRows), &ch.Whole); err != nil {
			return nil, err
		}
		q := fmt.Sprintf(`SELECT v, d FROM (SELECT v, bglm_predict_dist(fit, struct_update(x, %s := v)) AS d FROM fits, typical,
			(SELECT lo + (hi - lo) * k / %d.0 AS v FROM %s, range(%d) t(k) WHERE lo < hi)) ORDER BY v`,
			name, effectPoints-1, sc.middle(name, firstRows), effectPoints)
		return curve(s, ch, q, of)
	}
	ch.XLabel = "expected response"
	var levels int64
	if err := s.Row(fmt.Sprintf("SELECT count(DISTINCT %s) FROM %s", name, firstRows), &levels); err != nil {
		return nil, err
	}
	if levels > effectLevels {
		ch.Title += fmt.Sprintf(": the %d most frequent of %s levels", effectLevels, count(levels))
	}
	is := chart.Series{Kind: "interval"}
	q := fmt.Sprintf(`SELECT v, n, bglm_predict_dist(fit, struct_update(x, %[1]s := v)) AS d FROM fits, typical,
		(SELECT (%[1]s)::VARCHAR AS v, sum(bglm_w) AS n FROM %[2]s WHERE %[1]s IS NOT NULL GROUP BY ALL ORDER BY n DESC, v LIMIT %[3]d)`, name, firstRows, effectLevels)
	err := s.Each("SELECT v, n, "+expected(of)+" FROM ("+q+") ORDER BY d.eta_mean DESC, v", func(scan func(...any) error) error {
		var v string
		var n, m, lo, hi float64
		err := scan(&v, &n, &m, &lo, &hi)
		is.X, is.Y = append(is.X, m), append(is.Y, float64(len(ch.Names)))
		is.Lo, is.Hi = append(is.Lo, lo), append(is.Hi, hi)
		is.Tip = append(is.Tip, fmt.Sprintf("%s, %s rows: %.4g (%.4g to %.4g)", v, amount(n), m, lo, hi))
		ch.Names = append(ch.Names, v)
		return err
	})
	if len(ch.Names) < 2 {
		return nil, err
	}
	ch.Series = []chart.Series{is}
	return ch, err
}
