package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/chart"
	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// mover is a column of the data from which parts of the formula other than itself are computed, as
// I(x^2) is from x, or the offset: they move with it.
type mover struct {
	duck.Column
	number   bool
	isTerm   bool           // the column is one
	single   bool           // there is one such part, and the column is no term: it moves as it is, too
	derived  []formula.Part // those parts
	inOffset bool
}

// alone reports whether the column is listed as it is among all: it is no term, or moves nothing.
func (m mover) alone() bool {
	return !m.number && !m.levels() || m.single || !m.isTerm && len(m.derived) == 0
}

// levels reports whether all rows may be given a level of the column, as text is cast to its type.
func (m mover) levels() bool {
	kind, err := formula.KindOf(m.Type)
	return m.isTerm && err == nil && kind == formula.Level
}

// levelsTerm is the mover whose levels are the term called name, in any case: a column of levels, or
// the levels of a number that is a term of its own or in another way, as factor(year) beside year.
func levelsTerm(ms []mover, name string) (m mover, term string) {
	for _, m := range ms {
		if m.levels() && strings.EqualFold(m.Name, name) {
			return m, m.Name
		}
		for _, p := range m.derived {
			if of, ok := formula.Column(p.SQL); ok && strings.EqualFold(of, m.Name) && p.Factor && m.number && !m.single && strings.EqualFold(p.Name, name) {
				return m, p.Name
			}
		}
	}
	return mover{}, ""
}

// movers are the columns whose terms move together, and, by the names of terms, why a term does not
// move alone.
func movers(s *duck.Session, sc *scoring, offset string) (out []mover, blocked map[string]string, err error) {
	blocked = map[string]string{}
	f := sc.job.Formula
	cols, err := s.Describe("FROM " + sc.rows)
	if err != nil {
		return nil, nil, err
	}
	if f == nil {
		fields, _ := s.Describe("SELECT unnest(" + sc.x + ") FROM " + sc.rows) // a MAP or a list has no columns
		for _, c := range fields {
			if formula.Mentions(offset, c.Name) {
				blocked[strings.ToLower(c.Name)] = "the offset is computed from it, and --x does not say what else is; allowed: beliefs of --formula, whose terms and offset move"
			}
		}
		return nil, blocked, nil
	}
	parts := f.Parts()
	plain := map[string]bool{} // columns that are terms, of which there may be thousands
	var computed []formula.Part
	for _, p := range parts {
		if p.Column && !p.Factor {
			plain[strings.ToLower(p.SQL)] = true
		} else {
			computed = append(computed, p)
		}
	}
	for _, c := range cols {
		m := mover{Column: c, isTerm: plain[strings.ToLower(quote.Name(c.Name))], inOffset: formula.Mentions(offset, c.Name)}
		for _, p := range computed {
			if p.Uses(c.Name) {
				m.derived = append(m.derived, p)
			}
		}
		kind, err := formula.KindOf(c.Type)
		m.number = err == nil && kind == formula.Number
		m.single = !m.isTerm && len(m.derived) == 1 && !m.inOffset
		if len(m.derived) == 0 && !m.inOffset || !m.isTerm && !m.number { // such as hour(date) and month(date), which move alone
			continue
		}
		if !m.number && !m.levels() {
			what := "the offset"
			if len(m.derived) > 0 {
				what = m.derived[0].Name
			}
			blocked[strings.ToLower(c.Name)] = what + " is computed from it, whose values are neither numbers nor levels; bglm predict tells how predictions change"
		}
		out = append(out, m)
		others := "other terms are"
		if m.inOffset {
			others = "the offset is"
		}
		for _, p := range m.derived {
			if !m.single {
				blocked[strings.ToLower(p.Name)] = "it is computed from " + c.Name + ", as " + others + ", with which it moves; allowed: --column " + quote.Shell(c.Name)
			}
		}
	}
	for _, p := range computed { // such as hour(date), which is no column of the data
		for _, q := range computed {
			if p.Column || p.SQL == q.SQL || !strings.Contains(q.SQL, p.SQL) {
				continue
			}
			for name, why := range map[string]string{p.Name: q.Name + " is computed from it", q.Name: "it is computed from " + p.Name} {
				if name = strings.ToLower(name); blocked[name] == "" {
					blocked[name] = why + "; make " + p.Name + " a column of the data"
				}
			}
		}
	}
	return out, blocked, nil
}

// slopeStep is the distance of the rows to either side between which slopes are taken, as a share of
// the column's standard deviation. A central difference errs by h²/6 times the third derivative,
// 2e-9 of a curve that bends within a standard deviation, and by rounding, 1e-12 of the terms.
const slopeStep = 1e-4

// movedRow is the column with the other version of each row's features.
const movedRow = "bglm_hi"

// movedOffset is the column with the offset of that version.
const movedOffset = "bglm_ohi"

// moved is the rows with the features of two versions of each, as sc.x and movedRow, between which the
// column and everything computed from it moves, the offset as movedOffset: from x to x + step or, with
// step 0, from x - h to x + h. Rows without a number are left out, as by bglm_effects. Levels have no
// slopes: they stay.
func (sc *scoring) moved(s *duck.Session, m mover, step float64) (out *scoring, h float64, err error) {
	name := quote.Name(m.Name)
	stay := map[formula.Part]string{}
	var kept []string
	var numbers []formula.Part
	lo, up := "bglm_was", stepped(m.Type, step)
	if step == 0 {
		for _, p := range m.derived {
			kind, err := sc.job.Kind(sc.src, p)
			switch {
			case err != nil:
				return nil, 0, err
			case kind == formula.Number && !p.Factor:
				numbers = append(numbers, p)
			case kind <= formula.Levels:
				as := fmt.Sprintf("bglm_keep%d", len(kept))
				stay[p.Key()], kept = as, append(kept, "("+p.SQL+") AS "+as)
			}
		}
		if m.inOffset {
			numbers = append(numbers, formula.Part{Name: "the offset", SQL: sc.offset})
		}
		sd := 0.0
		if h, sd, err = sc.slopeStep(s, name); err != nil {
			return nil, 0, err
		}
		if err := sc.checkJumps(s, m, numbers, h, sd); err != nil {
			return nil, 0, err
		}
		lo, up = fmt.Sprintf("(bglm_was::DOUBLE - %v)", h), fmt.Sprintf("(bglm_was::DOUBLE + %v)", h)
	}
	x, err := sc.job.XWith(sc.src, stay)
	if err != nil {
		return nil, 0, err
	}
	rows := "(FROM " + sc.rows + " WHERE " + name + " IS NOT NULL)"
	return sc.versions(m, rows, x, kept, lo, up), h, nil
}

// versions is rows with the features x, SQL, of two versions of each, where the column has the values lo
// and up, SQL of bglm_was, its own. kept are columns computed before.
func (sc *scoring) versions(m mover, rows, x string, kept []string, lo, up string) *scoring {
	c := *sc
	c.x = "bglm_lo"
	was, is := "("+x+") AS bglm_lo", "("+x+") AS "+movedRow
	if m.inOffset {
		was, is = was+", ("+sc.offset+") AS bglm_olo", is+", ("+sc.offset+") AS "+movedOffset
		c.offset = "bglm_olo"
	}
	c.rows = atValues(rows, quote.Name(m.Name), kept, [][2]string{{lo, was}, {up, is}})
	return &c
}

// atLevels is the rows of each level of the term but reference, with two versions of each: where the
// column, and everything computed from it, has the reference, and where it has the level, bglm_level.
func (sc *scoring) atLevels(m mover, levels []string, reference string) *scoring {
	rows := fmt.Sprintf("(SELECT * FROM %s, (SELECT unnest(%s) AS bglm_level) WHERE bglm_level <> %s)", sc.rows, quote.List(levels), quote.Text(reference))
	return sc.versions(m, rows, sc.job.X, nil, quote.Text(reference)+"::"+m.Type, "bglm_level::"+m.Type)
}

// termLevels are the levels of a term that the fits know and its column may have, in byte order.
func (sc *scoring) termLevels(s *duck.Session, m mover, term string) ([]string, error) {
	prefix := quote.Text(term + "=")
	return s.Texts(fmt.Sprintf("SELECT DISTINCT l FROM (SELECT substr(feature, len(%[1]s) + 1) AS l FROM (SELECT unnest(fit.beliefs, recursive := true) FROM %[2]s) WHERE starts_with(feature, %[1]s)) WHERE TRY_CAST(l AS %[3]s) IS NOT NULL ORDER BY 1",
		prefix, sc.fits.Table, m.Type))
}

// stepped is the SQL of bglm_was, a number of that type, plus step. Whole numbers stay whole, so that
// their levels have the same names.
func stepped(sqlType string, step float64) string {
	if wholeType(sqlType) && step == math.Trunc(step) && math.Abs(step) < 1<<53 {
		return fmt.Sprintf("(bglm_was::BIGINT + %d)", int64(step))
	}
	return fmt.Sprintf("(bglm_was::DOUBLE + %v)", step)
}

// wholeType reports whether values of a type are whole numbers that BIGINT holds.
func wholeType(sqlType string) bool {
	return slices.Contains([]string{"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}, sqlType)
}

// atValues is the rows with further columns, computed where the column called name has other values,
// of bglm_was, its value. kept are columns computed before.
func atValues(rows, name string, kept []string, at [][2]string) string {
	q := "(SELECT " + strings.Join(append([]string{"*", name + " AS bglm_was"}, kept...), ", ") + " FROM " + rows + ")"
	for _, a := range at {
		q = "(SELECT *, " + a[1] + " FROM (SELECT * REPLACE (" + a[0] + " AS " + name + ") FROM " + q + "))"
	}
	return "(SELECT * EXCLUDE (bglm_was) REPLACE (bglm_was AS " + name + ") FROM " + q + ")"
}

// slopeStep is half the distance of the two versions of rows between which the slope of a column is
// taken, and the column's standard deviation. It is short beside all values other than 0, near which
// a logarithm bends or ends.
func (sc *scoring) slopeStep(s *duck.Session, name string) (h, sd float64, err error) {
	var least float64
	err = s.Row(fmt.Sprintf("SELECT coalesce(stddev_pop(v), 0), coalesce(min(abs(v)) FILTER (v <> 0), 0) FROM (SELECT (%s)::DOUBLE AS v FROM %s) WHERE isfinite(v)", name, sc.rows), &sd, &least)
	if !(sd > 0) || !special.Finite(sd) {
		sd = 1
	}
	return max(min(slopeStep*sd, 1e-3*least), 1e-3*slopeStep*sd), sd, err
}

// errNoEffect is returned for a column whose effect is not known, while those of others are.
var errNoEffect = errors.New("; bglm predict tells how predictions change")

// has reports whether name, in lower case, is the column or a part that moves with it.
func (m mover) has(name string) bool {
	return strings.EqualFold(m.Name, name) || slices.ContainsFunc(m.derived, func(p formula.Part) bool { return strings.EqualFold(p.Name, name) })
}

// names are the names of the column and of the parts that move with it, as texts in lower case.
func (m mover) names() string {
	all := quote.Text(strings.ToLower(m.Name))
	for _, p := range m.derived {
		all += ", " + quote.Text(strings.ToLower(p.Name))
	}
	return all
}

// checkJumps returns an error if a part jumps along the column, as floor(x) does: the difference
// across a jump does not shrink with the distance, and is far more than a slope over it.
func (sc *scoring) checkJumps(s *duck.Session, m mover, parts []formula.Part, h, sd float64) error {
	if len(parts) == 0 {
		return nil
	}
	var at [][2]string
	for i, by := range []float64{-h, -h / 2, h / 2, h} {
		var cols []string
		for k, p := range parts {
			cols = append(cols, fmt.Sprintf("(%s)::DOUBLE AS bglm_p%d_%d", p.SQL, k, i))
		}
		at = append(at, [2]string{fmt.Sprintf("(bglm_was::DOUBLE + %v)", by), strings.Join(cols, ", ")})
	}
	var ask []string
	found := make([]bool, len(parts))
	var into []any
	for k := range parts {
		into = append(into, &found[k])
		ask = append(ask, fmt.Sprintf("coalesce(max(CASE WHEN abs(bglm_p%[1]d_2 - bglm_p%[1]d_1) > 0.75 * abs(bglm_p%[1]d_3 - bglm_p%[1]d_0) THEN abs(bglm_p%[1]d_3 - bglm_p%[1]d_0) END) > %[2]v * (max(bglm_p%[1]d_3) - min(bglm_p%[1]d_3)), false)",
			k, 20*h/sd))
	}
	rows := "(FROM " + sc.rows + " WHERE " + quote.Name(m.Name) + " IS NOT NULL)"
	if err := s.Row("SELECT "+strings.Join(ask, ", ")+" FROM "+atValues(rows, quote.Name(m.Name), nil, at), into...); err != nil {
		return sc.src.Blame(err)
	}
	if k := slices.Index(found, true); k >= 0 {
		return cli.Usage(fmt.Errorf("--column %s: %s jumps, and so has no slope; allowed: --step%w", m.Name, parts[k].Name, errNoEffect))
	}
	return nil
}

// typicalAt is the SQL of the typical row of features where the column has the values bglm_v of a
// relation, with the parts computed from it; ok is false if these need columns that are no features.
func (sc *scoring) typicalAt(s *duck.Session, m mover, fields []string, values string) (q string, ok bool) {
	var columns, set []string
	for _, f := range fields {
		if !m.has(f) {
			columns = append(columns, "x."+quote.Name(f)+" AS "+quote.Name(f))
		}
	}
	v := "bglm_v::DOUBLE"
	if wholeType(m.Type) {
		v = "round(bglm_v)::BIGINT" // as in the rows, so that its levels have the same names
	}
	columns = append(columns, v+" AS "+quote.Name(m.Name), "x AS bglm_x")
	if slices.Contains(fields, m.Name) {
		set = append(set, quote.Name(m.Name)+" := "+quote.Name(m.Name)+"::DOUBLE")
	}
	for _, p := range m.derived {
		if !slices.Contains(fields, p.Name) {
			continue
		}
		as := "VARCHAR"
		if kind, err := sc.job.Kind(sc.src, p); err != nil {
			return "", false
		} else if kind == formula.Number && !p.Factor {
			as = "DOUBLE"
		}
		set = append(set, quote.Name(p.Name)+" := ("+p.SQL+")::"+as)
	}
	q = fmt.Sprintf("(SELECT DISTINCT %s::DOUBLE AS v, struct_update(bglm_x, %s) AS x FROM (SELECT %s FROM typical, %s))",
		quote.Name(m.Name), strings.Join(set, ", "), strings.Join(columns, ", "), values)
	_, err := s.Describe("FROM " + q)
	return q, err == nil && len(set) > 0
}

// refineTypical sets what is computed from a column to its value in the typical row: the square of
// the mean is not the mean of the squares.
func (sc *scoring) refineTypical(s *duck.Session, m mover, fields []string) error {
	if !slices.Contains(fields, m.Name) {
		return nil
	}
	n := m
	n.Type = "DOUBLE" // a mean is not whole
	q, ok := sc.typicalAt(s, n, fields, "(SELECT x."+quote.Name(m.Name)+" AS bglm_v FROM typical)")
	if !ok {
		return nil
	}
	return s.Exec("CREATE OR REPLACE TEMP TABLE typical AS SELECT x FROM " + q)
}

// movedCurve draws a column of numbers with everything that is computed from it; nil if it does not
// vary, or if that needs columns that are no features.
func movedCurve(s *duck.Session, sc *scoring, m mover, fields []string, of lik.Traits, k int) (*chart.Chart, error) {
	name := quote.Name(m.Name)
	rows := fmt.Sprintf("(SELECT %s, %s AS bglm_w FROM %s LIMIT %d)", name, weightOf(sc.weight), sc.rows, driverRows)
	ch := &chart.Chart{ID: fmt.Sprintf("effect-%d", k+1), Title: m.Name, XLabel: m.Name, YLabel: "expected response"}
	if err := s.Row(fmt.Sprintf("SELECT coalesce(bool_and((%[1]s)::DOUBLE = trunc((%[1]s)::DOUBLE)), false) FROM %[2]s", name, rows), &ch.Whole); err != nil {
		return nil, sc.src.Blame(err)
	}
	q, ok := sc.typicalAt(s, m, fields, fmt.Sprintf("(SELECT lo + (hi - lo) * k / %d.0 AS bglm_v FROM %s, range(%d) t(k) WHERE lo < hi)", effectPoints-1, sc.middle(name, rows), effectPoints))
	if !ok {
		return nil, nil
	}
	return curve(s, ch, "SELECT v, bglm_predict_dist(fit, x) AS d FROM fits, "+q, of)
}
