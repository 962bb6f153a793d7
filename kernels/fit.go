package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// Weight is a Gaussian belief over one weight. Variance 0 is a known weight.
type Weight struct{ Mean, Variance float64 }

// Belief is a named Weight, the row of a belief table.
type Belief struct {
	Feature string
	Weight
}

// Prior is the belief of a weight without data. The zero Prior is DefaultPrior.
type Prior struct {
	Mean              float64 // of every weight
	Variance          float64 // of every weight except the intercept; 0 stands for 1 unless Known
	InterceptVariance float64 // 0 stands for 10 unless Known
	// Known says that a variance of 0 is meant literally: the weight is known to be Mean.
	Known bool
}

// DefaultPrior is N(0, 1), for the intercept N(0, 10).
var DefaultPrior = Prior{Mean: 0, Variance: 1, InterceptVariance: 10}

// Complete is p with defaults in place of its zeros.
func (p Prior) Complete() Prior {
	if !p.Known {
		p.Variance = Or(p.Variance, DefaultPrior.Variance)
		p.InterceptVariance = Or(p.InterceptVariance, DefaultPrior.InterceptVariance)
	}
	return p
}

// Literal is the prior with exactly these numbers, including zeros.
func (p Prior) Literal() Prior {
	p.Known = p.Variance == 0 || p.InterceptVariance == 0
	return p
}

// Of is the prior of a feature by name.
func (p Prior) Of(name []byte) Weight {
	p = p.Complete()
	if string(name) == Intercept {
		return Weight{p.Mean, p.InterceptVariance}
	}
	return Weight{p.Mean, p.Variance}
}

// FitFormat is the version of the layout in which a Fit is stored, in SQL and in files. All
// versions up to it are read; version 1 had neither columns nor a version number.
const FitFormat = 4

// Kinds of a FitColumn.
const (
	NumberColumn   = "number"
	LevelsColumn   = "levels"
	FeaturesColumn = "features" // a map or list among columns, whose features have names of their own
)

// FitColumn is a fit's record of a column of its rows: of a STRUCT by name, of a list of numbers by
// place.
type FitColumn struct {
	Name          string
	Kind          string  // NumberColumn, LevelsColumn or FeaturesColumn
	Parts         string  // of an interaction: its columns (JoinParts); "" if they are not known
	N, Missing    int64   // rows seen, and how many of them had no value there
	Center, Scale float64 // mean and standard deviation by which a number was standardised; NaN if it was not
	Variance      float64 // prior variance that the column's weights had or learnt; NaN if unknown

	equal bool // of a column of numbers that is being merged: see Fit.equal

	// For levels whose variance was learnt and integrated, Center and Scale are the posterior mean
	// and standard deviation of the standard deviation of their weights; √Variance maximises the
	// evidence.
}

// Deviation is the posterior mean and standard deviation of the standard deviation of the weights
// of a column of levels; false if it is not known.
func (c *FitColumn) Deviation() (mean, sd float64, ok bool) {
	return c.Center, c.Scale, c.Kind == LevelsColumn && c.Scale > 0 && c.Center > 0
}

// PriorOf is the prior of a feature about which f has no belief: for a level of a column with a
// known prior variance that variance, including its uncertainty.
func (f *Fit) PriorOf(name []byte) Weight {
	w := f.Prior.Of(name)
	if v, ok := f.LevelVariance(name); ok {
		w.Variance = v
	}
	return w
}

// PriorAtMode is the prior of a level that f has learnt, if it has learnt the variance of its
// column and averaged over it: at the variance of highest evidence. false for other features.
func (f *Fit) PriorAtMode(name []byte) (Weight, bool) {
	w := f.Prior.Of(name)
	c := f.levelsOf(name)
	if c == nil {
		return w, false
	}
	_, _, ok := c.Deviation()
	w.Variance = c.Variance
	return w, ok && c.Variance >= 0
}

// LevelVariance is the prior variance of a new level of a column of f, or of a new feature of a map
// or a list that is named like others; false if f knows none for these.
func (f *Fit) LevelVariance(name []byte) (variance float64, ok bool) {
	c := f.levelsOf(name)
	if c == nil {
		return f.keptVariance(name)
	}
	variance = c.ofLevels()
	return variance, variance >= 0
}

// ofLevels is the prior variance of a new level, including the uncertainty of a learnt one.
func (c *FitColumn) ofLevels() float64 {
	if m, sd, ok := c.Deviation(); ok {
		return m*m + sd*sd
	}
	return c.Variance
}

// levelsOf returns the column of levels that a feature belongs to, the longest if names of columns
// contain '='; nil for none.
func (f *Fit) levelsOf(name []byte) (of *FitColumn) {
	for k := range f.Columns {
		c := &f.Columns[k]
		if c.Kind != LevelsColumn || of != nil && len(of.Name) >= len(c.Name) {
			continue
		}
		if rest, ok := bytes.CutPrefix(name, view(c.Name)); ok && isLevel(rest) {
			of = c
		}
	}
	return of
}

// LevelColumn is the name of the column of levels that a feature of f belongs to; for a fit that
// records no columns, the text before the first '=' or IsNull.
func (f *Fit) LevelColumn(feature string) string {
	if c := f.levelsOf(view(feature)); c != nil {
		return c.Name
	}
	name, _, level := strings.Cut(feature, "=")
	if !level {
		name = strings.TrimSuffix(name, IsNull)
	}
	return name
}

// Fit is a posterior with everything that predicting, continuing and merging need. Package
// fitlayout lists how it is stored.
type Fit struct {
	Method, Family, Link string
	Shape, Dispersion    float64 // Shape is NaN if the family has none
	Intercept            bool
	HashBits             int
	Prior                Prior
	Time                 float64 // time of the beliefs; NaN without time
	Beliefs              []Belief
	Covariance           Covariance
	Classes              []string // softmax: beliefs are len(Classes) blocks of equal length, class by class
	N, Skipped           int64
	LogEvidence          float64 // nats
	Iterations           int
	Converged            bool
	Status               string      // "ok", or sentences (AddStatus)
	Columns              []FitColumn // nil: not recorded
	Correlations         []Correlation
	Learnt               []Learnt // none: nil
}

// Standardized reports whether numbers or responses were standardised.
func (f *Fit) Standardized() bool {
	if _, _, ok := f.Kept(KeptUnit); ok {
		return true
	}
	if _, _, ok := f.Kept(KeptOrigin); ok {
		return true
	}
	for _, c := range f.Columns {
		if c.Kind == NumberColumn && !math.IsNaN(c.Scale) {
			return true
		}
	}
	return f.Covariance.Form == gauss.Arrowhead && f.Covariance.Arrow().InUnits()
}

// SetLikelihood records the family, link and parameters of l.
func (f *Fit) SetLikelihood(l lik.Likelihood) {
	f.Family, f.Link, f.Shape, f.Dispersion = l.Family(), l.Link(), math.NaN(), 1
	if s, ok := l.(lik.Shaped); ok {
		f.Shape = s.Shape()
	}
	if d, ok := l.(lik.Dispersed); ok {
		f.Dispersion = d.Dispersion()
	}
}

// AddStatus adds a sentence to the status, "" for none. A sentence is not repeated.
func (f *Fit) AddStatus(sentence string) { f.Status = Join(f.Status, sentence) }

// Join adds a sentence to a status: "ok" if neither says anything.
func Join(status, sentence string) string {
	switch {
	case status == "" || status == "ok":
		return Or(sentence, "ok")
	case sentence == "" || sentence == "ok" || slices.Contains(strings.Split(status, "; "), sentence):
		return status
	}
	return status + "; " + sentence
}

// WeightlessNote is the status of a fit none of whose rows counts.
const WeightlessNote = "no row counts, for all weights are 0: the posterior is the prior"

// Inflect is one if n is 1, else many: the word that a sentence has beside a number.
func Inflect[N int | int32 | int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// SkippedNote says how many rows were skipped, "" for none.
func SkippedNote(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s skipped", n, Inflect(n, "row was", "rows were"))
}

// FactorisedNote is the note on factorised beliefs of weights that occur together in rows.
const FactorisedNote = "the posterior is factorised, but features occur together in rows: its variances are too small where weights are correlated, most of all the intercept's"

const manyFactorised = "weights is factorised (covariance 'full' was not asked for): standard deviations are too small where columns are correlated"

// ManyFactorised is the note on this many weights, for which no other form was requested.
func ManyFactorised(weights int) string {
	return fmt.Sprintf("the posterior of %d %s", weights, manyFactorised)
}

// Factorised reports whether a status has FactorisedNote or ManyFactorised.
func Factorised(status string) bool {
	return strings.Contains(status, FactorisedNote) || strings.Contains(status, manyFactorised)
}

// Each visits the beliefs in their order.
func (f *Fit) Each(visit func(name []byte, w Weight)) {
	for i := range f.Beliefs {
		b := &f.Beliefs[i]
		visit(view(b.Feature), b.Weight)
	}
}

// CheckBeliefs returns an error for a fit of rows with an intercept but without beliefs, as those of Gaussian
// processes, whose intercept is their mean, and of passes that are not solved are.
func (f *Fit) CheckBeliefs() error {
	if f == nil {
		return ErrNoFit
	}
	if f.N > 0 && len(f.Beliefs) == 0 && f.Intercept {
		return fmt.Errorf("a fit of %d rows by %s has no beliefs; allowed: one with the posterior of its weights", f.N, f.Method)
	}
	return nil
}

// ErrNoFit is the error for a nil fit.
var ErrNoFit = errors.New("the fit is nil; allowed: a fit that a method or FromBeliefs made")

// Check returns an error for the first belief that is not a Gaussian.
// Errors: also ErrNoFit.
func (f *Fit) Check() error {
	if f == nil {
		return ErrNoFit
	}
	for _, b := range f.Beliefs {
		if err := CheckWeight(b.Weight); err != nil {
			return fmt.Errorf("feature %q: %w", b.Feature, err)
		}
	}
	return nil
}

// CheckWeight returns an error for a mean that is not finite or a variance that is negative or not
// finite.
func CheckWeight(w Weight) error {
	if !special.Finite(w.Mean) {
		return fmt.Errorf("mean = %v: a finite number is needed", w.Mean)
	}
	if !(w.Variance >= 0) || math.IsInf(w.Variance, 0) {
		return fmt.Errorf("variance = %v: a finite number >= 0 is needed", w.Variance)
	}
	return nil
}

// FromBeliefs returns a fit of no rows with the independent beliefs bs, under the likelihood,
// prior, intercept and hash bits of m; nil is the default model. Beliefs may be in any order; an
// intercept that is not among them has its prior.
//
// Errors: a belief that is not a Gaussian, two about one feature, or under hash bits one that is no
// slot.
func FromBeliefs(bs []Belief, m *Model) (*Fit, error) {
	seen := make(map[string]bool, len(bs))
	for _, b := range bs {
		if seen[b.Feature] {
			return nil, fmt.Errorf("feature %.100q has more than one belief", b.Feature)
		}
		seen[b.Feature] = true
	}
	own := *m.Complete()
	if err := ValidateSlots(own.HashBits, len(bs), func(j int) string { return bs[j].Feature }); err != nil {
		return nil, err
	}
	own.Priors, own.Start = bs, nil
	rows, err := NewRows(&own)
	if err != nil {
		return nil, err
	}
	p, err := rows.Problem()
	if err != nil {
		return nil, err
	}
	return p.Fit("beliefs", p.Normal, 0), nil
}
