package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// state is a possible state of a column in a row: a level, a missing level, an unseen level, or one
// unit of a number. A row is a sum of states, each times a value; with their factors r the
// predictor has the mean Σ x mean and the variance Σ x² own + sign |Σ x r|².
type state struct {
	level    string
	mean     float64
	variance float64
	r        []float64
}

// column is a column of the rows to score.
type column struct {
	name   string
	number bool
	open   bool // the fit does not remember the column
	truth  bool // its levels are true and false
	stand  float64
	parts  []*column // for a product of numbers: its columns, whose means replace missing numbers; nil if these are unknown
	unit   state     // of a number
	levels []state   // of levels
	null   state     // the row has no value
	other  state     // a level never seen
}

// model is a fit arranged by columns.
type model struct {
	fit       *kernels.Fit
	base      int  // index of its first belief within the covariance
	pinned    bool // all its weights are known to be 0, including those of unseen features
	place     map[string]int
	sign      float64 // of the factors: -1 if they are subtracted
	rank      int
	intercept *state
	columns   []column
	ties      []tie
}

// tie is what two columns contribute to the variance of a row in which both have the same unseen
// level, or both none: twice the covariance of their weights.
type tie struct {
	a, b  int // the columns
	null  bool
	state state
}

// newModel arranges a fit by columns.
// Errors: a fit with classes or hashed features, of points, or with features that no column of a
// table has.
func newModel(f *kernels.Fit) (*model, error) {
	if len(f.Classes) > 0 {
		return nil, fmt.Errorf("the FIT has classes (bglm_softmax); allowed: a fit of one response")
	}
	if err := f.Covariance.Check(len(f.Beliefs)); err != nil {
		return nil, err
	}
	return layModel(f.ForPrediction(), 0, false)
}

// layModel is newModel for beliefs that begin at base within the covariance.
func layModel(f *kernels.Fit, base int, pinned bool) (*model, error) {
	if f.HashBits > 0 {
		return nil, fmt.Errorf("the FIT has hashed features (hash_bits), whose columns are not known; allowed: a fit without")
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	m := &model{fit: f, base: base, pinned: pinned, place: map[string]int{}, sign: 1}
	if f.Covariance.Form == gauss.LowRank {
		m.sign = -1
	}
	for k, b := range f.Beliefs {
		m.place[b.Feature] = k
		if err := checkText("feature", b.Feature); err != nil {
			return nil, err
		}
	}
	if f.Intercept {
		s := m.of(kernels.Intercept)
		m.intercept = &s
	}
	m.columns = columnsOf(f)
	used := map[string]bool{kernels.Intercept: true}
	for k := range m.columns {
		m.fill(&m.columns[k], used)
	}
	if slices.ContainsFunc(f.Columns, func(c kernels.FitColumn) bool { return c.Kind == kernels.FeaturesColumn }) {
		for _, c := range namedColumns(f, used) {
			m.fill(&c, used)
			m.columns = append(m.columns, c)
		}
	}
	m.findProducts()
	m.tie()
	for _, b := range f.Beliefs {
		if !used[b.Feature] {
			return nil, fmt.Errorf("the FIT has the feature %q, which belongs to none of its columns; allowed: fits of STRUCTs and of lists of numbers", b.Feature)
		}
	}
	return m, nil
}

// findProducts finds the products of numbers and their parts, if the fit has replacements for them.
func (m *model) findProducts() {
	means := m.fit.Factors()
	for k := range m.columns {
		at := slices.IndexFunc(m.fit.Columns, func(c kernels.FitColumn) bool { return c.Name == m.columns[k].name && c.Kind == kernels.NumberColumn })
		if means == nil || at < 0 {
			continue
		}
		parts, _ := kernels.SplitParts(m.fit.Columns[at].Parts)
		for _, p := range parts {
			if _, ok := means[kernels.FactorOf(m.columns[k].name, p.Name)]; ok {
				of := slices.IndexFunc(m.columns, func(q column) bool { return q.number && strings.EqualFold(q.name, p.Name) })
				m.columns[k].parts = append(m.columns[k].parts, &m.columns[of])
			}
		}
	}
}

// neverSeen stands for an unseen level; no level has this name.
const neverSeen = "\x01"

// tie finds the pairs of columns of levels whose weights of the same unseen level are correlated.
func (m *model) tie() {
	at := func(name string) int {
		return slices.IndexFunc(m.columns, func(c column) bool { return c.name == name && !c.number })
	}
	unseen := func(feature string) bool {
		_, known := m.place[feature]
		return !known && !m.fit.IgnoresIndicator([]byte(feature))
	}
	for _, c := range m.fit.Correlations {
		t := tie{a: at(c.A), b: at(c.B)}
		cov, ok := m.fit.TiedPrior([]byte(c.A+"="+neverSeen), []byte(c.B+"="+neverSeen))
		if t.a < 0 || t.b < 0 || !ok {
			continue
		}
		if !m.pinned {
			t.state.variance = 2 * cov
		}
		t.null = m.fit.Columns != nil && unseen(c.A+kernels.IsNull) && unseen(c.B+kernels.IsNull)
		m.ties = append(m.ties, t)
	}
}

// columnsOf are the columns that a fit remembers; if it remembers none, namedColumns.
func columnsOf(f *kernels.Fit) []column {
	if f.Columns == nil {
		return namedColumns(f, nil)
	}
	var out []column
	for _, c := range f.Columns {
		if c.Kind != kernels.FeaturesColumn {
			out = append(out, column{name: c.Name, number: c.Kind == kernels.NumberColumn})
		}
	}
	return out
}

// namedColumns are the columns according to the names of features, except those used: the part
// before '=', and the features without.
func namedColumns(f *kernels.Fit, used map[string]bool) []column {
	var out []column
	seen := map[string]bool{}
	for _, b := range f.Beliefs {
		name, _, levels := strings.Cut(b.Feature, "=")
		if used[b.Feature] || b.Feature == kernels.Intercept || strings.HasSuffix(b.Feature, kernels.IsNull) || seen[name] {
			continue
		}
		seen[name] = true
		out = append(out, column{name: name, number: !levels, open: true})
	}
	return out
}

// fill sets the states of a column and marks the features that it uses.
func (m *model) fill(c *column, used map[string]bool) {
	isNull := c.name + kernels.IsNull
	_, known := m.place[isNull]
	used[isNull] = true
	if m.fit.Columns != nil && !c.open && (known || !m.fit.IgnoresIndicator([]byte(isNull))) {
		c.null = m.of(isNull)
	}
	if c.number {
		used[c.name] = true
		c.unit = m.of(c.name)
		c.stand = m.fit.Replacement(c.name, func(feature string) bool { _, ok := m.place[feature]; return ok })
		return
	}
	c.truth = true
	for _, b := range m.fit.Beliefs {
		level, ok := strings.CutPrefix(b.Feature, c.name+"=")
		if !ok || len(m.fit.LevelColumn(b.Feature)) > len(c.name) {
			continue // belongs to a column whose name begins with this one's and '='
		}
		used[b.Feature] = true
		s := m.of(b.Feature)
		s.level = level
		c.levels = append(c.levels, s)
		c.truth = c.truth && (level == "true" || level == "false")
	}
	c.truth = c.truth && len(c.levels) > 0
	c.other = m.of(c.name + "=" + neverSeen)
	c.stand = m.fit.Replacement(c.name+"="+neverSeen, nil) // for an interaction with numbers
}

// of is the state of a feature, with its prior if there is no belief about it.
func (m *model) of(feature string) state {
	f, c := m.fit, &m.fit.Covariance
	at, known := m.place[feature]
	if m.pinned {
		return state{}
	}
	if !known {
		w := f.PriorOf([]byte(feature))
		s := state{mean: w.Mean, variance: w.Variance}
		k := -1
		if c.Form == gauss.Arrowhead {
			k = c.UnseenLevel(feature, len(f.Beliefs), func(k int) string { return f.Beliefs[k].Feature })
		}
		if k >= 0 {
			j, mean, rest, _ := c.LevelMean(k)
			_, r := m.arrow(^j)
			s = state{mean: mean, variance: w.Variance * rest, r: r}
		}
		return m.noted(s)
	}
	s := state{mean: f.Beliefs[at].Mean}
	switch c.Form {
	case gauss.Full:
		s.r = c.Row(m.base + at)
	case gauss.LowRank:
		row := c.Row(m.base + at)
		s.variance, s.r = row[0], row[1:]
	case gauss.Arrowhead:
		s.variance, s.r = m.arrow(at)
	default:
		s.variance = f.Beliefs[at].Variance
	}
	return m.noted(s)
}

// arrow is the variance of its own and the factor of belief at under an arrowhead form, or of the
// block's weight ^at.
func (m *model) arrow(at int) (own float64, r []float64) {
	a := m.fit.Covariance.Arrow()
	g, unit := make([]float64, a.D), a.ResponseUnit()
	own = unit * unit * a.Inputs([]int{at}, []float64{1}, g)
	r = make([]float64, a.D)
	for i, x := range g {
		dense.Axpy(unit*x, a.Root(i), r[:i+1])
	}
	return own, r
}

func (m *model) noted(s state) state {
	for len(s.r) > 0 && s.r[len(s.r)-1] == 0 {
		s.r = s.r[:len(s.r)-1]
	}
	m.rank = max(m.rank, len(s.r))
	return s
}

// at is component k of a state's factor.
func (s *state) at(k int) float64 {
	if k < len(s.r) {
		return s.r[k]
	}
	return 0
}

// numbers is how many numbers the states have.
func (m *model) numbers() int {
	n := 1
	for _, c := range m.columns {
		n += len(c.levels) + 2
	}
	return n * (m.rank + 2)
}
