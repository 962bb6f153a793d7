package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
)

// How judged rows were predicted.
const (
	leaveOneOut = "leave-one-out"
	progressive = "progressive"
	fitted      = "fitted" // by the fit as it is, which has learnt them
	otherRows   = "other rows"
	unknownRows = "unknown rows"
)

// explained says what figures from rows predicted in each way are worth.
var explained = map[string]string{
	leaveOneOut:    "These are the rows that the model learnt from: each is predicted by all the others, its own part taken out of the posterior.",
	progressive:    "These are the rows that the model learnt from, in the order in which it did: each is predicted by those before it.",
	crossValidated: "These are the rows that the model learnt from: each fifth of them is predicted by a fit of the other four, made as it was.",
	fitted:         "Rows that the model learnt from are predicted after it had learnt them: the figures flatter it.",
	otherRows:      "These are not exactly the rows that the model learnt from; where some of those are among them, the figures flatter it.",
	unknownRows:    "The belief file does not say which rows the model learnt from; where they are among these, the figures flatter it.",
}

// weighing is a sentence about rows with weights, "" where there are none.
func (r *quality) weighing() string {
	if r.Weight == nil {
		return ""
	}
	return " A row of weight w counts as w rows" + map[string]string{
		leaveOneOut:    ", of which one is left out",
		progressive:    ", which are all predicted before one of them is learnt",
		crossValidated: ", which are all in one fifth",
	}[r.How] + "."
}

// rowsKey is the key for the mark of the rows learnt, in the metadata of a job.
const rowsKey = "rows"

// startKey is the key there for fits that started from beliefs (--prior), which their file lacks:
// running the job alone again would give another model.
const startKey = "prior"

// rowsMark identifies rows in any order: by their number and the sum of DuckDB's hashes of response
// and features, which depend on the version of DuckDB.
func rowsMark(s *duck.Session, y, x, rows string) (mark string, err error) {
	err = s.Row("SELECT count(*) || ' ' || coalesce(sum(hash(("+y+"), ("+x+"))), 0) || ' ' || version() FROM "+rows, &mark)
	return mark, err
}

// sameRows reports whether two marks are of the same rows; if the versions differ, equal numbers of
// rows are taken to be the same.
func sameRows(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	if len(x) == 3 && len(y) == 3 && x[2] != y[2] {
		return x[0] == y[0]
	}
	return a == b
}

// markBetween separates marks in a list.
const markBetween = ", "

// bothRows is the mark of the union of the rows of two marks, "" if unknown.
func bothRows(a, b string) string {
	x, y := strings.Fields(a), strings.Fields(b)
	if len(x) != 3 || len(y) != 3 || x[2] != y[2] {
		return ""
	}
	for i := range 2 {
		p, ok := new(big.Int).SetString(x[i], 10)
		q, too := new(big.Int).SetString(y[i], 10)
		if !ok || !too {
			return ""
		}
		x[i] = p.Add(p, q).String()
	}
	return strings.Join(x, " ")
}

// judge creates the table scored of the rows: y, for binomial responses the proportion, of so many
// trials, else 1; p, its expectation; v, lower and upper of its distribution; log_density, NULL if
// unknown; k, their order in a stream, else NULL; w, how many rows a row counts as; and the columns
// keep. It says how rows are predicted: rows that the fits have learnt, as if they had not.
func (sc *scoring) judge(s *duck.Session) (how string, err error) {
	predicted := func() error { return sc.withoutBadRows(s, func() error { return sc.predicted(s) }) }
	mark := sc.fits.Job(rowsKey)
	if mark == "" {
		return unknownRows, predicted()
	}
	now, err := rowsMark(s, sc.y, sc.x, sc.rows)
	if err != nil {
		return "", err
	}
	if !sameRows(mark, now) {
		return otherRows, predicted()
	}
	m, ok, err := modelOf(sc.fits)
	if err != nil || !ok {
		return fitted, predicted()
	}
	j, err := job.New(sc.src, m, true)
	if err != nil {
		return "", err
	}
	how, err = sc.predictUnlearnt(s, j)
	if err == nil && how == "" {
		return fitted, predicted()
	}
	return how, err
}

// predictUnlearnt is judge for the rows of j, which the fits have learnt; "" if their method cannot
// tell what it would have been without some of them.
func (sc *scoring) predictUnlearnt(s *duck.Session, j *job.Job) (how string, err error) {
	var method string
	if err := s.Row("SELECT any_value(fit.method) FROM fits", &method); err != nil {
		return "", err
	}
	m, err := engine.Find(method)
	switch {
	case err != nil:
		return "", nil
	case !m.Streams:
		// A low-rank likelihood has not seen the directions that it leaves out: a row cannot be
		// taken out of what it is not in.
		whole := true
		if m.Partial {
			if err := s.Row("SELECT coalesce(bool_and(contains(fit.status, ' lowered to ')), false) FROM fits", &whole); err != nil {
				return "", err
			}
		}
		// Nor out of weights at another time than its own: the fit has those at the end.
		if !whole || drifts(j) {
			return "", nil
		}
		return leaveOneOut, sc.withoutBadRows(s, func() error { return sc.leftOut(s, j) })
	}
	if sc.fits.Job(startKey) != "" {
		return "", nil
	}
	ok := false
	learnAgain := func() (err error) {
		ok, err = sc.progressive(s, j, m.Name)
		if err != nil && j.Method == engine.Auto && strings.Contains(err.Error(), "'auto'") {
			// Its filter has not learnt these.
			plain := *j
			plain.Options = slices.DeleteFunc(slices.Clone(j.Options), func(o job.Setting) bool {
				return o.SQL == "'auto'" && slices.Contains([]string{"prior_variance", "shape", "dispersion"}, o.Key) || o.Key == "correlated"
			})
			ok, err = sc.progressive(s, &plain, m.Name)
		}
		return err
	}
	if err = sc.withoutBadRows(s, learnAgain); err == nil && !ok { // invalid rows are in none of its predictions
		if ok, err = sc.excludeBadRows(s); ok {
			err = learnAgain()
		}
	}
	if !ok || err != nil {
		return "", err
	}
	return progressive, nil
}

// drifts reports whether the job's weights may change from row to row.
func drifts(j *job.Job) bool {
	for key, none := range map[string]float64{"process_noise": 0, "forgetting": 1} {
		if v, ok := j.Option(key); ok {
			if x, err := strconv.ParseFloat(v, 64); err != nil || x != none {
				return true
			}
		}
	}
	return false
}

// scored creates the table scored from columns and the weight w.
func (sc *scoring) scored(s *duck.Session, columns, w, from string) error {
	return s.Long("scoring", "CREATE OR REPLACE TEMP TABLE scored AS SELECT "+sc.kept("")+columns+", "+w+" AS w FROM "+from)
}

const (
	// usable are the rows of the table scored that count, each with its weight.
	usable = "scored WHERE y IS NOT NULL AND p IS NOT NULL AND w > 0"
	// single are those of the view outcomes.
	single = "outcomes WHERE y IS NOT NULL AND p IS NOT NULL AND w > 0"
)

// outcomes creates the view outcomes: the rows of the table scored, of trials the successes and the
// failures as rows 1 and 0 of as much weight. trials says that there are such.
func outcomes(s *duck.Session) (trials bool, err error) {
	if err := s.Row("SELECT coalesce(bool_or(trials <> 1), false) FROM scored", &trials); err != nil {
		return false, err
	}
	rows := "FROM scored"
	if trials {
		rows = "SELECT * REPLACE (1::DOUBLE AS y, w * round(trials * y) AS w) FROM scored UNION ALL SELECT * REPLACE (0::DOUBLE AS y, w * (trials - round(trials * y)) AS w) FROM scored"
	}
	return trials, s.Exec("CREATE OR REPLACE TEMP VIEW outcomes AS " + rows)
}

// weighted is the SQL of a mean over rows with weights w.
func weighted(of string) string { return "sum(w * (" + of + ")) / sum(w)" }

// weightOf is the SQL of a weight, checked: "" stands for 1.
func weightOf(sql string) string {
	if sql == "" {
		return "1::DOUBLE"
	}
	w := "(" + sql + ")::DOUBLE"
	return "CASE WHEN " + w + " >= 0 AND isfinite(" + w + ") THEN " + w + " WHEN " + w + " IS NOT NULL THEN error('weight = ' || " + w + " || '; allowed: finite numbers >= 0') END"
}

// kept lists the columns keep, of a STRUCT or a table of that name, followed by a comma.
func (sc *scoring) kept(of string) string {
	var b strings.Builder
	for _, c := range sc.keep {
		b.WriteString(of + c + ", ")
	}
	return b.String()
}

// predicted scores the rows by the fits as they are.
func (sc *scoring) predicted(s *duck.Session) error {
	from := sc.subquery("", append(slices.Clone(sc.keep), shareOf(sc.job, sc.y)+" AS bglm_y", trialsOf(sc.job)+" AS bglm_of", weightOf(sc.weight)+" AS bglm_w")...)
	err := sc.scored(s, "bglm_y AS y, d.mean AS p, "+varianceOf(sc.job, "d", "bglm_of")+" AS v, "+intervalOf(sc.job)+", NULL::DOUBLE AS log_density, NULL::BIGINT AS k, bglm_of AS trials", "bglm_w",
		"(SELECT "+sc.kept("")+"bglm_y, bglm_of, bglm_w, bglm_predict_dist(bglm_fit, bglm_x) AS d FROM "+from+")")
	if err != nil {
		return err
	}
	return sc.checkResponses(s)
}

// checkResponses reports a response that the fit's family does not allow. It must be among the
// least, the largest and one that is not whole: every family allows those in between.
func (sc *scoring) checkResponses(s *duck.Session) error {
	var family, link string
	if err := s.Row("SELECT any_value(fit.family), any_value(fit.link) FROM fits", &family, &link); err != nil {
		return err
	}
	l, err := lik.New(family, link, lik.Params{Dispersion: 1})
	if err != nil {
		return nil
	}
	if l.Traits().Trials { // y is a proportion here
		return sc.checkTrials(s, l)
	}
	return s.Each("SELECT DISTINCT unnest([min(y), max(y), any_value(y) FILTER (y <> trunc(y))]) FROM scored", func(scan func(...any) error) error {
		var y sql.NullFloat64
		if err := scan(&y); err != nil || !y.Valid {
			return err
		}
		return sc.inRow(s, y.Float64, l.Check(lik.Obs{Y: y.Float64, Weight: 1}))
	})
}

// checkTrials reports the first row whose numbers of trials and successes l does not allow, if such
// a row was scored.
func (sc *scoring) checkTrials(s *duck.Session, l lik.Likelihood) error {
	var bad int64
	if err := s.Row("SELECT count(*) FROM scored WHERE NOT (trials >= 1 AND trials = trunc(trials) AND isfinite(trials) AND y BETWEEN 0 AND 1 AND abs(trials * y - round(trials * y)) < 1e-9 * trials)", &bad); err != nil || bad == 0 {
		return err
	}
	t, _ := sc.job.Option("trials")
	var file string
	var row int64
	var y, trials float64
	err := s.Row("SELECT * FROM (SELECT bglm_file, bglm_row, ("+sc.y+")::DOUBLE AS y, ("+t+")::DOUBLE AS t FROM "+sc.src.Numbered()+") WHERE NOT (t >= 1 AND t = trunc(t) AND isfinite(t) AND y BETWEEN 0 AND t AND y = trunc(y)) ORDER BY ALL LIMIT 1", &file, &row, &y, &trials)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s, row %d: %w", sc.src.FileName(file), row, l.Check(lik.Obs{Y: y, Trials: trials, Weight: 1}))
}

// inRow adds to err, which is about a response y, the first row that has it.
func (sc *scoring) inRow(s *duck.Session, y float64, err error) error {
	if err == nil {
		return nil
	}
	var file string
	var row int64
	if e := s.Row("SELECT bglm_file, bglm_row FROM "+sc.src.Numbered()+" WHERE ("+sc.y+")::DOUBLE = "+fmt.Sprintf("'%v'::DOUBLE", y)+" ORDER BY ALL LIMIT 1", &file, &row); e != nil {
		return err
	}
	return fmt.Errorf("%s, row %d: %w", sc.src.FileName(file), row, err)
}

// shareOf is a response, for binomial ones the proportion of successes.
func shareOf(j *job.Job, y string) string {
	if t, ok := j.Option("trials"); ok {
		return "(" + y + ")::DOUBLE / (" + t + ")"
	}
	return "(" + y + ")::DOUBLE"
}

// intervalOf is the interval of a response, unknown for a proportion of successes: the predicted
// distribution is that of a trial's probability.
func intervalOf(j *job.Job) string {
	if _, ok := j.Option("trials"); ok {
		return "NULL::DOUBLE AS lower, NULL::DOUBLE AS upper"
	}
	return "d.lower AS lower, d.upper AS upper"
}

// trialsOf is the number of trials of which a response is a proportion.
func trialsOf(j *job.Job) string {
	if t, ok := j.Option("trials"); ok {
		return "(" + t + ")::DOUBLE"
	}
	return "1::DOUBLE"
}

// varianceOf is the variance of a response whose mean, variance and interval the prediction d
// gives. For a proportion of so many trials it is the variance of the probability, which the
// interval implies, plus that of the successes.
func varianceOf(j *job.Job, d, trials string) string {
	if _, ok := j.Option("trials"); !ok {
		return d + ".variance"
	}
	of := "((" + d + ".upper - " + d + ".lower) / 3.92)**2"
	return "greatest(" + d + ".mean * (1 - " + d + ".mean) - " + of + ", 0) / " + trials + " + " + of
}

// leftOut scores each row by the posterior without it; for a row of weight w, which stands for w
// rows, one of these is left out.
func (sc *scoring) leftOut(s *duck.Session, j *job.Job) error {
	extra := append(slices.Clone(sc.keep), shareOf(j, j.Y)+" AS bglm_share", "("+j.Y+")::DOUBLE AS bglm_y", trialsOf(j)+" AS bglm_of", weightOf(sc.weight)+" AS bglm_w")
	args := "bglm_fit, bglm_y, bglm_x"
	var fields []string
	for _, key := range []string{"weight", "trials"} {
		if v, ok := j.Option(key); ok {
			extra, fields = append(extra, "("+v+") AS bglm_"+key), append(fields, key+": bglm_"+key)
		}
	}
	if sc.offset != "" {
		fields = append(fields, "offset_: bglm_offset")
	}
	if fields != nil {
		args += ", {" + strings.Join(fields, ", ") + "}"
	}
	rows := sc.joined("", extra...)
	from := "(SELECT " + sc.kept("") + "bglm_share, bglm_of, bglm_w, bglm_loo_predict(" + args + ") AS d FROM " + rows + ")"
	if err := sc.scored(s, "bglm_share AS y, d.mean AS p, "+varianceOf(j, "d", "bglm_of")+" AS v, "+intervalOf(j)+", d.log_density AS log_density, NULL::BIGINT AS k, bglm_of AS trials, d.reach AS reach", "bglm_w", from); err != nil {
		return err
	}
	return sc.leftOutInPairs(s, rows, args)
}

// leftOutInPairs sets pairAUC. rows are those of bglm_loo_predict(args).
func (sc *scoring) leftOutInPairs(s *duck.Session, rows, args string) error {
	sc.pairAUC = nil
	if len(sc.fits.Group) > 0 {
		return nil
	}
	var family string
	if err := s.Row("SELECT fit.family FROM fits", &family); err != nil || !traitsOf(family, "").Binary {
		return err
	}
	var auc sql.NullFloat64
	if err := s.Row("SELECT bglm_loo_auc("+args+") FROM "+rows, &auc); err != nil || !auc.Valid {
		return err
	}
	sc.pairAUC = &auc.Float64
	return nil
}

// decisive counts the rows that leftOut cannot take out without the others changing, and those of
// them that it cannot take out at all.
func decisive(s *duck.Session) (n, none int64, err error) {
	err = s.Row(fmt.Sprintf("SELECT count(*) FILTER (log_density IS NULL OR reach > %g), count(*) FILTER (log_density IS NULL) FROM scored WHERE y IS NOT NULL AND reach IS NOT NULL AND w > 0", predict.MaxReach), &n, &none)
	return n, none, err
}

// unsure is the sentence about n decisive rows of all, "" for none.
func unsure(n, all int64) string {
	switch n {
	case 0:
		return ""
	case 1:
		if all == 1 {
			return " The one row weighs all: nothing is left to predict it from."
		}
		return fmt.Sprintf(" 1 of the %s rows weighs so much that what the others predict for it is not reliable.", count(all))
	}
	return fmt.Sprintf(" %s of the %s rows weigh so much that what the others predict for them is not reliable.", count(n), count(all))
}

// progressive learns the rows of j as the fits did and scores each before it is learnt; false if
// the fits have learnt others too.
func (sc *scoring) progressive(s *duck.Session, j *job.Job, method string) (ok bool, err error) {
	if err := s.Exec("SET threads = 1"); err != nil {
		return false, err
	}
	defer func() { _ = s.Exec("RESET threads") }()
	own := option.For("fit", method).Keys()
	options := j.OptionsOf(func(key string) bool { return slices.Contains(own, key) }, job.Setting{Key: "method", SQL: quote.Text(method)})
	needed := []string{"bglm_y IS NOT NULL", "bglm_x IS NOT NULL"}
	for _, key := range job.RowKeys {
		if _, ok := j.Option(key); ok {
			needed = append(needed, "bglm_"+key+" IS NOT NULL")
		}
	}
	var fields strings.Builder
	for _, c := range sc.keep {
		fields.WriteString(", " + c + ": " + c)
	}
	q := "SELECT bglm_progressive(bglm_y, bglm_x, " + options + ") AS l, list({y: bglm_share, of: bglm_of, w: bglm_w" + fields.String() + "}) FILTER (" + strings.Join(needed, " AND ") + ") AS rows FROM (" +
		j.Inner(sc.rows, append(slices.Clone(sc.keep), shareOf(j, j.Y)+" AS bglm_share", trialsOf(j)+" AS bglm_of", weightOf(sc.weight)+" AS bglm_w")...) + ") q"
	if names := quote.Names(j.GroupNames()); names != "" {
		q += " GROUP BY " + names
	}
	if err := s.Long("scoring", "CREATE OR REPLACE TEMP TABLE course AS "+q); err != nil {
		return false, err
	}
	defer func() { _ = s.Exec("DROP TABLE course") }()
	if err := s.Row("SELECT coalesce(bool_and(len(l) = len(rows)), false) AND coalesce(sum(len(l)), 0) = (SELECT coalesce(sum(fit.n), 0) FROM fits) FROM course WHERE l IS NOT NULL", &ok); err != nil || !ok {
		return false, err
	}
	k := "k"
	if len(j.Group) > 0 {
		k = "NULL::BIGINT AS k"
	}
	return true, sc.scored(s, "r.y AS y, d.mean AS p, "+varianceOf(j, "d", "r.of")+" AS v, "+intervalOf(j)+", d.log_density AS log_density, "+k+", r.of AS trials", "r.w",
		"(SELECT "+sc.kept("r.")+"struct_insert(l, variance := ((l.upper - l.lower) / 3.92)**2) AS d, r, k FROM (SELECT unnest(l) AS l, unnest(rows) AS r, generate_subscripts(l, 1) AS k FROM course))")
}

// modelOf is the model of fits recorded in their file; false if there is none.
func modelOf(f *fitstore.Fits) (m job.Model, ok bool, err error) {
	m = job.Model{Formula: f.Job("formula"), Y: f.Job("y"), X: f.Job("x"), Order: f.Job("order")}
	for i := 0; i+1 < len(f.Meta); i += 2 {
		if k, ok := strings.CutPrefix(f.Meta[i], "option."); ok {
			m.Option = append(m.Option, k+"="+f.Meta[i+1])
		}
	}
	for _, g := range f.Group {
		m.Group = append(m.Group, f.Job("group."+g.Name))
	}
	if dot := f.Job("dot"); dot != "" {
		if err := json.Unmarshal([]byte(dot), &m.Dot); err != nil {
			return m, false, fmt.Errorf("what . stood for: %w", err)
		}
	}
	return m, m.Formula != "" || m.X != "", nil
}

// offsetsOf are the offsets in the model of fits, as written.
func offsetsOf(f *fitstore.Fits, m job.Model) (offset []string, err error) {
	if v := f.Job("option.offset"); v != "" {
		offset = append(offset, v)
	}
	if m.Formula == "" {
		return offset, nil
	}
	p, err := formula.Parse(m.Formula)
	if err != nil {
		return nil, err
	}
	return append(offset, p.Offset...), nil
}

// period is a part of the rows in the order in which a stream learnt them.
type period struct {
	From      int64    `json:"from"` // its first row, from 1
	N         int64    `json:"n"`
	Observed  *float64 `json:"observed,omitempty"` // mean response
	Predicted *float64 `json:"predicted,omitempty"`
	LogLoss   *float64 `json:"log_loss,omitempty"` // minus the mean log density of a response; of trials that of one
	AUC       *float64 `json:"auc,omitempty"`
}

// periods divides the table scored into most periods of equal numbers of rows, none without an
// order. Its responses are binary, or of trials, or neither.
func periods(s *duck.Session, most int, binary, trials bool) (out []period, err error) {
	auc, loss := "NULL::DOUBLE", "-"+weighted("log_density")
	if trials {
		loss = weighted(logLoss) // of single trials
	}
	if binary {
		auc = "CASE WHEN min(y) < max(y) THEN bglm_auc(y = 1, p, w) END"
	}
	err = s.Each(fmt.Sprintf(`SELECT min(k), count(DISTINCT k), %s, %s, %s, %s FROM
		(SELECT *, (k - 1) * %d // max(k) OVER () AS part FROM %s AND k IS NOT NULL) GROUP BY part ORDER BY part`, weighted("y"), weighted("p"), loss, auc, most, single), func(scan func(...any) error) error {
		var p period
		err := scan(&p.From, &p.N, &p.Observed, &p.Predicted, &p.LogLoss, &p.AUC)
		out = append(out, p)
		return err
	})
	return out, err
}
