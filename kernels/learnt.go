package kernels

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bglm/bglm/kernels/special"
)

// Learnt is what a fit learnt of a parameter of its likelihood in addition to its value: mean and
// standard deviation of its posterior, SD NaN if that is not known. Others are pairs of numbers
// that a continued stream needs (Keep).
type Learnt struct {
	Name     string // LearntDeviation, LearntShape, or one of the Kept names
	Mean, SD float64
}

// Names of a Learnt for users.
const (
	LearntDeviation = "deviation" // the square root of the dispersion
	LearntShape     = "shape"
)

// Internal names of a Learnt: all except the last three are only read by a stream that continues
// the fit. Each is present only if the rest of the fit does not imply it exactly.
const (
	KeptUnit       = "unit"       // unit of the responses: its center and its scale, 0 if all were equal
	KeptResponses  = "responses"  // mean and standard deviation of the responses
	KeptRows       = "rows"       // rows of weight above 0, and those from which dispersion or shape was learnt, by weight
	KeptOwed       = "owed"       // weight of the rows whose density lacks a unit that is not known yet; 0
	KeptNoise      = "noise"      // dispersion in the unit of the responses, and the information about it from rows of weights that drift; for studentt, that about its logarithm
	KeptBelieved   = "believed"   // dispersion, or 1/shape, under which the beliefs count earlier rows, in the unit of the responses; 1 if they follow only single steps of it, 2 if rows tied weights without saying anything about it yet (lik.Learning), else 0; for gamma and studentt, lik.KeptLearner.Raised
	KeptSquares    = "squares"    // sum of the rows' squares about the means, in the unit of the responses, to be corrected for later changes of the second: the squared means in standard deviations of their priors
	KeptDetermined = "determined" // correction to a count of the weights that rows determine, in units of lik.Determined; 0
	KeptOrigin     = "origin"     // shift of the prior of gamma's intercept from its mean, in the predictor; 0
	KeptLevel      = "level"      // center of the prior of the intercept of standardised responses, if no numeric column says that they were standardised; 0
	KeptShape      = "log(shape)" // logarithm of a shape, and the information about it from its rows
	KeptSize       = "size"       // what rows say of the logarithm of a factor of all weights but the intercept: slope of the log evidence, and information
	KeptBase       = "base"       // the variance that learnt ones are compared with, after weights were enlarged; 0
	KeptPredictive = "foretold"   // PredictiveScale, of a fit that no stream continues
	KeptDrift      = "drift"      // 1 if weights move with time, which a merge needs to know; 0
	KeptAbsent     = "absent"     // 1 if NULLs of columns contributed nothing (Options.Missing), also if there were none; 0
	KeptPriors     = "priors"     // number of single features, or numeric columns, with given priors, and of those in units that move
	KeptRank       = "rank"       // Options.Rank of a low-rank stream, whose covariance may have more or fewer directions; its default
)

// KeptVarianceOf is the name of what rows say of the prior variance of a column of levels, or of
// all other weights for "", through weights that they hardly determine: slope and curvature of the
// log evidence.
func KeptVarianceOf(column string) string { return "variance(" + column + ")" }

// KeptLevelsOf is the name of the spread of the weights of features of maps and lists with this
// text before '=', whose learnt prior variance is not that of other weights: mean and standard
// deviation of the root of the variance, as in a FitColumn; 0 for one that is not averaged over.
func KeptLevelsOf(name string) string { return levelsPrefix + name + ")" }

const levelsPrefix = "levels("

// KeptUnitOf is the name of the unit of a numeric column: its center and its scale, 0 if all
// numbers were equal.
func KeptUnitOf(column string) string { return "unit(" + column + ")" }

// KeptCrossedOf is the name of what was subtracted from the numbers of an interaction that was
// learnt with centred numbers: mean and scale of a number with levels, 0 for two numbers.
func KeptCrossedOf(column string) string { return "centred(" + column + ")" }

// KeptFilledOf is the name of the record that rows which lacked a number of an interaction were
// learnt with the value of the number's own column: 1, 0.
func KeptFilledOf(column string) string { return "filled(" + column + ")" }

// crossedMean is the replacement of a missing number in c, an interaction with levels: what was
// subtracted from its numbers, or the mean of the number's own column if no row lacked it; false
// for none.
func (f *Fit) crossedMean(c *FitColumn) (mean float64, ok bool) {
	if !c.Mixed() {
		return 0, false
	}
	if mean, _, ok = f.Kept(KeptCrossedOf(c.Name)); ok {
		return mean, true
	}
	parts, _ := SplitParts(c.Parts)
	for _, p := range parts {
		if p.Kind != NumberColumn {
			continue
		}
		u := plainColumn(f.Columns, p.Name)
		if ok || !f.hasMeanOf(c, u) {
			return 0, false
		}
		mean, ok = u.Center, true
	}
	return mean, ok
}

// hasMeanOf reports whether u, a number's own column, has the mean that replaces it in c.
func (f *Fit) hasMeanOf(c, u *FitColumn) bool {
	return (c.Missing == 0 && !f.LearntAbsent() || f.filled(c)) && f.HashBits == 0 && u != nil && u.Kind == NumberColumn && !math.IsNaN(u.Center)
}

// CrossedMeans returns the replacements of missing numbers in interactions with levels, by column;
// nil for none.
func (f *Fit) CrossedMeans() (means map[string]float64) {
	if f == nil {
		return nil
	}
	for k := range f.Columns {
		if mean, ok := f.crossedMean(&f.Columns[k]); ok {
			if means == nil {
				means = map[string]float64{}
			}
			means[f.Columns[k].Name] = mean
		}
	}
	return means
}

// Factor is a number in a product of numeric columns, both by their names in lower case.
type Factor struct{ Product, Number string }

// FactorOf returns the Factor of a number in a product, with names in any case.
func FactorOf(product, number string) Factor {
	return Factor{strings.ToLower(product), strings.ToLower(number)}
}

// Factors returns the means that replace missing numbers in products whose numbers have columns of
// their own, if these were learnt with centred numbers or from rows without gaps; nil for none.
func (f *Fit) Factors() (means map[Factor]float64) {
	if f == nil {
		return nil
	}
	for k := range f.Columns {
		c := &f.Columns[k]
		if c.Parts == "" || c.Kind != NumberColumn {
			continue
		}
		_, _, centred := f.Kept(KeptCrossedOf(c.Name))
		parts, ok := SplitParts(c.Parts)
		whole := map[Factor]float64{}
		for _, p := range parts {
			u := plainColumn(f.Columns, p.Name)
			if ok = ok && (f.hasMeanOf(c, u) || centred && u != nil && u.Kind == NumberColumn && !math.IsNaN(u.Center)); ok {
				whole[FactorOf(c.Name, p.Name)] = u.Center
			}
		}
		if !ok {
			continue
		}
		if means == nil {
			means = map[Factor]float64{}
		}
		maps.Copy(means, whole)
	}
	return means
}

// Centred returns the CrossedMeans and Factors of interactions that were learnt with centred
// numbers. Others continue to treat rows that lack a number as before, so that a continued stream
// equals an unbroken one.
func (f *Fit) Centred() (means map[string]float64, factors map[Factor]float64) {
	if f == nil {
		return nil, nil
	}
	plain := map[string]bool{} // by name in lower case
	for k := range f.Columns {
		c := &f.Columns[k]
		plain[strings.ToLower(c.Name)] = !f.hasCentredInteraction(c)
	}
	means, factors = f.CrossedMeans(), f.Factors()
	maps.DeleteFunc(means, func(name string, _ float64) bool { return plain[strings.ToLower(name)] })
	maps.DeleteFunc(factors, func(of Factor, _ float64) bool { return plain[of.Product] })
	return means, factors
}

// kept reports whether a name is an internal one of a Learnt.
func kept(name string) bool {
	switch name {
	case KeptUnit, KeptResponses, KeptRows, KeptOwed, KeptNoise, KeptBelieved, KeptSquares, KeptDetermined, KeptOrigin, KeptLevel, KeptShape, KeptSize, KeptBase, KeptPredictive, KeptPriors, KeptDrift, KeptAbsent, KeptRank:
		return true
	}
	return (strings.HasPrefix(name, "unit(") || strings.HasPrefix(name, "centred(") || strings.HasPrefix(name, "filled(") || strings.HasPrefix(name, levelsPrefix) || strings.HasPrefix(name, "variance(")) && strings.HasSuffix(name, ")")
}

// Keep records two numbers of a stream under one of the names above, without checking them.
func (f *Fit) Keep(name string, a, b float64) {
	f.Learnt = append(slices.Clip(f.Learnt), Learnt{name, a, b}) // f.Learnt may be shared
}

// KeepModel records what a merge needs to know of m, and of the fit that it continues: the number
// of single features with given priors, not counting known weights, columns of levels, whose
// variance f has, and features that no row has yet; whether weights move with the time of the rows;
// and what was subtracted from the numbers of the former fit's interactions. It also records for
// predictions and continued streams whether NULLs contributed nothing. f has its columns.
func (f *Fit) KeepModel(m *Model) {
	f.continueCrossed(m.Start)
	if _, _, before := m.Start.Kept(KeptDrift); before || m.HasTime && (m.Drifts() || m.Options.AutoNoise) {
		f.Keep(KeptDrift, 1, 0)
	}
	f.KeepMissing(m)
	for _, name := range []string{KeptOrigin, KeptLevel} { // the prior is that of the start
		if at, _, ok := m.Start.Kept(name); ok {
			f.Keep(name, at, 0)
		}
	}
	f.keepLevels(m.Start) // of names that these rows do not have
	n, moving, _ := m.Start.Kept(KeptPriors)
	for _, b := range m.Priors {
		if b.Variance > 0 {
			n++
			if m.Options.Standardize && (f.located() || f.Number(b.Feature) != nil) {
				moving++
			}
		}
	}
	for _, b := range m.PriorBy {
		levels := func(c FitColumn) bool { return c.Kind == LevelsColumn && strings.EqualFold(c.Name, b.Column) }
		if f.N > 0 && (b.Auto || b.Variance > 0 && b.Variance != m.Prior.Variance) && !f.learnsPrior() && !slices.ContainsFunc(f.Columns, levels) {
			n++
			if m.Options.Standardize {
				moving++
			}
		}
	}
	if n > 0 {
		f.Keep(KeptPriors, n, moving)
	}
}

// KeepsLevels reports whether f, nil for none, has learnt prior variances of features of maps and
// lists by the text before '='.
func (f *Fit) KeepsLevels() bool {
	return f != nil && slices.ContainsFunc(f.Learnt, func(l Learnt) bool { return strings.HasPrefix(l.Name, levelsPrefix) })
}

// keepLevels records the learnt prior variances that o, nil for none, has by the text before '=' and
// f has not.
func (f *Fit) keepLevels(o *Fit) {
	if o == nil {
		return
	}
	for _, l := range o.Learnt {
		if _, _, has := f.Kept(l.Name); !has && strings.HasPrefix(l.Name, levelsPrefix) {
			f.Keep(l.Name, l.Mean, l.SD)
		}
	}
}

// keeps reports whether f has recorded the variance of l.
func (f *Fit) keeps(l Learnt) bool {
	mean, sd, ok := f.Kept(l.Name)
	v := l.Mean*l.Mean + l.SD*l.SD
	return ok && math.Abs(mean*mean+sd*sd-v) <= 1e-9*v
}

// keptVariance is the prior variance of a feature of a map or a list with the text before '=' of
// which f has learnt one; false for others.
func (f *Fit) keptVariance(feature []byte) (variance float64, ok bool) {
	if !f.KeepsLevels() {
		return 0, false
	}
	name, _, ok := bytes.Cut(feature, equals)
	if !ok {
		return 0, false
	}
	m, sd, ok := f.Kept(KeptLevelsOf(string(name)))
	return m*m + sd*sd, ok
}

// scaleLevels changes the unit of learnt spreads of weights.
func (f *Fit) scaleLevels(unit float64) {
	if !f.KeepsLevels() || unit == 1 {
		return
	}
	f.scaleLearnt(unit, func(name string) bool { return strings.HasPrefix(name, levelsPrefix) })
}

// scaleLearnt multiplies what f has learnt under certain names by unit.
func (f *Fit) scaleLearnt(unit float64, of func(name string) bool) {
	f.Learnt = slices.Clone(f.Learnt)
	for k := range f.Learnt {
		if l := &f.Learnt[k]; of(l.Name) {
			l.Mean, l.SD = l.Mean*unit, l.SD*unit
		}
	}
}

// KeepMissing records for predictions and continued fits whether NULLs contributed nothing. f has
// its columns.
func (f *Fit) KeepMissing(m *Model) {
	if m.Options.Missing == "absent" && !m.Options.AnyColumns && slices.ContainsFunc(f.Columns, func(c FitColumn) bool { return c.Kind != FeaturesColumn }) {
		f.Keep(KeptAbsent, 1, 0)
	}
}

// LearntAbsent reports whether f, nil for none, was learnt with missing values that contribute
// nothing, by an option that said so.
func (f *Fit) LearntAbsent() bool {
	_, _, ok := f.Kept(KeptAbsent)
	return ok
}

// Missing is Options.Missing of the runs that continue f by default: as f has learnt; "indicator" for a nil
// fit.
func (f *Fit) Missing() string {
	if f.LearntAbsent() {
		return "absent"
	}
	return "indicator"
}

// Kept returns what Keep has recorded; false if nothing was, or for a nil fit.
func (f *Fit) Kept(name string) (a, b float64, ok bool) {
	if f == nil {
		return 0, 0, false
	}
	for _, l := range f.Learnt {
		if l.Name == name {
			return l.Mean, l.SD, true
		}
	}
	return 0, 0, false
}

// TrainingRows returns the number of rows of a fit with weight above 0, and of those from which its
// dispersion or shape was learnt, by weight; 0 for a nil fit.
func (f *Fit) TrainingRows() (rows, taught float64) {
	if f == nil {
		return 0, 0
	}
	if rows, taught, ok := f.Kept(KeptRows); ok {
		return rows, taught
	}
	return float64(f.N), float64(f.N)
}

// KeepsUnits reports whether f has the unit of any numeric column.
func (f *Fit) KeepsUnits() bool {
	return f != nil && slices.ContainsFunc(f.Learnt, func(l Learnt) bool { return strings.HasPrefix(l.Name, "unit(") })
}

// Parameters returns the parameters of the likelihood among l, without what a stream keeps.
func Parameters(l []Learnt) []Learnt {
	return slices.DeleteFunc(slices.Clone(l), func(l Learnt) bool { return kept(l.Name) })
}

// Learn records in f what was learnt of a parameter; numbers that are not finite are unknown.
func (f *Fit) Learn(name string, mean, sd float64) {
	if !(mean > 0) || math.IsInf(mean, 1) {
		return
	}
	if !(sd > 0) || math.IsInf(sd, 1) {
		sd = math.NaN()
	}
	own := Learnt{name, mean, sd}
	f.Learnt = slices.Clone(f.Learnt) // f.Learnt may be shared
	if k := slices.IndexFunc(f.Learnt, func(l Learnt) bool { return l.Name == name }); k >= 0 {
		f.Learnt[k] = own
		return
	}
	f.Learnt = append(f.Learnt, own)
}

// LearnDeviation is Learn for the square root of a dispersion with ν degrees of freedom and a
// scaled inverse chi-square distribution with this scale, which for gaussian responses is the
// posterior. The distribution of log σ² has its mode at the log of the scale, with curvature ν/2.
func (f *Fit) LearnDeviation(scale, nu float64) {
	mean, sd := special.InverseChi(nu)
	if math.IsNaN(mean) {
		mean = 1
	}
	unit := math.Sqrt(scale)
	f.Learn(LearntDeviation, unit*mean, unit*sd)
}

// LearntNoise is the inverse of LearnDeviation: the scale and the degrees of freedom of the
// distribution of the dispersion; false if f, which may be nil, did not learn it or does not know its
// spread.
func (f *Fit) LearntNoise() (scale, nu float64, ok bool) {
	mean, sd, ok := f.LearntOf(LearntDeviation)
	if !ok {
		return 0, 0, false
	}
	nu, scale = ofDeviation(mean, sd)
	return scale, nu, true
}

// ofDeviation returns the degrees of freedom and the scale of a scaled inverse chi-square
// distribution with this mean and standard deviation of the root.
func ofDeviation(mean, sd float64) (nu, scale float64) {
	nu, unit := freedom(sd / mean)
	root := mean / unit
	return nu, root * root
}

// LearnShape is Learn for a shape whose logarithm has the mode log(mode) and this standard
// deviation, NaN if that is not known.
func (f *Fit) LearnShape(mode, sd float64) {
	if math.IsNaN(sd) {
		f.Learn(LearntShape, mode, sd)
		return
	}
	mean := mode * math.Exp(0.5*sd*sd)
	f.Learn(LearntShape, mean, mean*math.Sqrt(math.Expm1(sd*sd)))
}

// LearntLogShape is the inverse of LearnShape: the mode, and the information about the shape's
// logarithm; false if f did not learn a shape or its spread is not known.
func (f *Fit) LearntLogShape() (mode, information float64, ok bool) {
	mean, sd, ok := f.LearntOf(LearntShape)
	if !ok {
		return 0, 0, false
	}
	log, v := ofShape(mean, sd)
	return math.Exp(log), 1 / v, true
}

// ofShape returns the mean and the variance of the logarithm of a log-normal variable.
func ofShape(mean, sd float64) (log, v float64) {
	v = math.Log1p(sd / mean * (sd / mean))
	return math.Log(mean) - 0.5*v, v
}

// LearnShapeBy is LearnShape with the curvature of the log evidence in the shape's logarithm, NaN
// if that is not known. If the rows determine the shape only up to a factor above e^2, it records
// the mode alone, with a note: the moments of such a log-normal distribution would be meaningless.
func (f *Fit) LearnShapeBy(mode, information float64) {
	sd := 1 / math.Sqrt(information)
	if sd > 2 {
		f.AddStatus(fmt.Sprintf("the rows hardly bound the shape: %.3g is its most probable value", mode))
		sd = math.NaN()
	}
	f.LearnShape(mode, sd)
}

// LearntOf returns mean and standard deviation of a parameter that f learnt; false if it does not
// know both.
func (f *Fit) LearntOf(name string) (mean, sd float64, ok bool) {
	mean, sd, ok = f.Kept(name)
	return mean, sd, ok && mean > 0 && sd > 0
}

// rescaleLearnt converts f to responses multiplied by unit.
func (f *Fit) rescaleLearnt(unit float64) {
	f.scaleLearnt(unit, func(name string) bool { return name == LearntDeviation })
}

// ValidateLearnt returns an error for a parameter that occurs twice or has invalid numbers. Unknown
// names are those of later versions.
func ValidateLearnt(all []Learnt) error {
	for k, l := range all {
		switch {
		case !utf8.ValidString(l.Name):
			return fmt.Errorf("learnt: %.40q is not valid UTF-8", l.Name)
		case slices.ContainsFunc(all[:k], func(o Learnt) bool { return o.Name == l.Name }):
			return fmt.Errorf("learnt: %.100q is there more than once", l.Name)
		case !special.Finite(l.Mean) || l.SD < 0 || math.IsInf(l.SD, 0):
			return fmt.Errorf("learnt: %.100q has mean = %v, sd = %v; allowed: finite numbers, sd >= 0 or none", l.Name, l.Mean, l.SD)
		case kept(l.Name) && math.IsNaN(l.SD):
			return fmt.Errorf("learnt: %.100q has no sd; allowed: a number >= 0", l.Name)
		case l.Mean < 0 && slices.Contains([]string{KeptRows, KeptOwed}, l.Name), l.Mean <= 0 && slices.Contains([]string{KeptNoise, KeptBelieved, KeptBase}, l.Name):
			return fmt.Errorf("learnt: %.100q has mean = %v; allowed: numbers >= 0, for noise, believed and base above 0", l.Name, l.Mean)
		case l.Name == KeptPredictive && !(l.Mean > 0):
			return fmt.Errorf("learnt: %.100q has mean = %v; allowed: a number above 0", l.Name, l.Mean)
		case l.Name == KeptRank && !(l.Mean >= 1 && l.Mean <= MaxRank && l.Mean == math.Trunc(l.Mean)):
			return fmt.Errorf("learnt: %.100q has mean = %v; allowed: a whole number from 1 to %d", l.Name, l.Mean, MaxRank)
		case l.Name == KeptRows && l.Mean > MaxCount, l.Name == KeptDetermined && math.Abs(l.Mean) > 1<<62:
			return fmt.Errorf("learnt: %.100q has mean = %v; allowed: counts of rows, or of weights", l.Name, l.Mean)
		}
	}
	return nil
}
