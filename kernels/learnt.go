package kernels

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bglm/bglm/kernels/special"
)

// Learnt is what a fit learnt of a parameter of its likelihood beside its value: mean and
// deviation of its posterior, SD NaN where that is not known. Others are what a stream that
// is continued goes on with (Keep), as two numbers.
type Learnt struct {
	Name     string // LearntDeviation, LearntShape, or one of those that are kept
	Mean, SD float64
}

// Names of a Learnt that people ask for.
const (
	LearntDeviation = "deviation" // the square root of the dispersion
	LearntShape     = "shape"
)

// Names of a Learnt that is not for people: but for the last three only a stream reads it which goes on from the fit.
// Each is there where the rest of the fit does not say it, to the last bit.
const (
	KeptUnit       = "unit"       // what the responses are less, and what they are divided by, 0 where all were alike
	KeptResponses  = "responses"  // mean and deviation of the responses
	KeptRows       = "rows"       // rows of weight above 0, and those that taught dispersion or shape, by weight
	KeptOwed       = "owed"       // rows, by weight, whose density lacks a unit that is not known yet; 0
	KeptNoise      = "noise"      // dispersion in the unit of the responses, and what rows of weights that drift told of it
	KeptBelieved   = "believed"   // dispersion by which the beliefs count earlier rows, in the unit of the responses; 1 where they follow only single steps of it (lik.Learning), else 0
	KeptSquares    = "squares"    // sum of the rows' squares about the means, in the unit of the responses, but for what the second has changed by: the means' squares in deviations of their priors
	KeptDetermined = "determined" // by what a count of the weights that rows determine is off, in units of lik.Determined; 0
	KeptOrigin     = "origin"     // where the prior of the intercept of gamma lies beside its mean, in the predictor; 0
	KeptLevel      = "level"      // where the prior of the intercept lies of responses that were standardised, where no column of numbers says that they were; 0
	KeptShape      = "log(shape)" // the logarithm of a shape, and what its rows told of it
	KeptSize       = "size"       // what rows told of the logarithm of a factor of all weights but the intercept: slope of the log evidence, and information
	KeptBase       = "base"       // the variance that learnt ones are compared with, where weights became larger; 0
	KeptPredictive = "foretold"   // PredictiveScale, of a fit that a stream does not go on from
	KeptDrift      = "drift"      // 1 where weights move with time, which a merge has to know; 0
	KeptPriors     = "priors"     // of how many single features, or columns of numbers, the prior was given, and of how many in units that move
)

// KeptVarianceOf is the name of what rows told of the prior variance of a column of levels, or of
// all other weights for "", through weights that they hardly know: slope and curvature of the log
// evidence.
func KeptVarianceOf(column string) string { return "variance(" + column + ")" }

// KeptUnitOf is the name of the unit that a column of numbers is told in: its center and its
// scale, 0 where all numbers were alike.
func KeptUnitOf(column string) string { return "unit(" + column + ")" }

// KeptCrossedOf is the name of what was taken out of the numbers of an interaction that was learnt
// by numbers that are centred: of a number with levels its mean and deviation, of two numbers 0.
func KeptCrossedOf(column string) string { return "centred(" + column + ")" }

// KeptFilledOf is the name of the note that rows which lacked a number of an interaction were learnt by what the
// number's own column has there: 1, 0.
func KeptFilledOf(column string) string { return "filled(" + column + ")" }

// crossedMean is what stands for a number that is missing in c, an interaction with levels: what was taken
// out of its numbers, or the mean of the number's own column where no row was without it; false for none.
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
		if ok || !f.tells(c, u) {
			return 0, false
		}
		mean, ok = u.Center, true
	}
	return mean, ok
}

// tells says whether u, the column of a number by itself, has the mean that stands for it in c.
func (f *Fit) tells(c, u *FitColumn) bool {
	return (c.Missing == 0 || f.filled(c)) && f.HashBits == 0 && u != nil && u.Kind == NumberColumn && !math.IsNaN(u.Center)
}

// CrossedMeans are what stands for numbers that are missing in interactions with levels, by
// column; nil for none.
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

// Factor is a number in a product of columns of numbers, both by their names in lower case.
type Factor struct{ Product, Number string }

// FactorOf is that of a number in a product, in any case.
func FactorOf(product, number string) Factor {
	return Factor{strings.ToLower(product), strings.ToLower(number)}
}

// Factors are the means that stand for a number that is missing in products whose numbers are
// columns by themselves, which were learnt by numbers that are centred or from rows without a gap; nil for none.
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
			if ok = ok && (f.tells(c, u) || centred && u != nil && u.Kind == NumberColumn && !math.IsNaN(u.Center)); ok {
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

// Centred are the CrossedMeans and Factors of interactions that were learnt by numbers that are centred. Others go on
// with rows that lack a number as they were begun, so that a stream that was stopped is the one that was not.
func (f *Fit) Centred() (means map[string]float64, factors map[Factor]float64) {
	if f == nil {
		return nil, nil
	}
	plain := map[string]bool{} // by their names in lower case
	for k := range f.Columns {
		c := &f.Columns[k]
		plain[strings.ToLower(c.Name)] = !f.aboutMean(c)
	}
	means, factors = f.CrossedMeans(), f.Factors()
	maps.DeleteFunc(means, func(name string, _ float64) bool { return plain[strings.ToLower(name)] })
	maps.DeleteFunc(factors, func(of Factor, _ float64) bool { return plain[of.Product] })
	return means, factors
}

// kept says whether a name is of a Learnt that is not for people.
func kept(name string) bool {
	switch name {
	case KeptUnit, KeptResponses, KeptRows, KeptOwed, KeptNoise, KeptBelieved, KeptSquares, KeptDetermined, KeptOrigin, KeptLevel, KeptShape, KeptSize, KeptBase, KeptPredictive, KeptPriors, KeptDrift:
		return true
	}
	return (strings.HasPrefix(name, "unit(") || strings.HasPrefix(name, "centred(") || strings.HasPrefix(name, "filled(") || strings.HasPrefix(name, "variance(")) && strings.HasSuffix(name, ")")
}

// Keep notes two numbers of a stream under one of the names above, without their check.
func (f *Fit) Keep(name string, a, b float64) {
	f.Learnt = append(slices.Clip(f.Learnt), Learnt{name, a, b}) // others may hold it
}

// KeepModel notes what a merge has to know of m, and of the fit that it goes on from. Of how many single features
// it was given the prior: weights that are known do not count, nor columns of levels, whose variance f tells, nor those that no row has yet. And that weights move with
// the time of the rows. And of the former fit's interactions what was taken out of their numbers. f has its columns.
func (f *Fit) KeepModel(m *Model) {
	f.goOnCrossed(m.Start)
	if _, _, before := m.Start.Kept(KeptDrift); before || m.HasTime && (m.Drifts() || m.Options.AutoNoise) {
		f.Keep(KeptDrift, 1, 0)
	}
	for _, name := range []string{KeptOrigin, KeptLevel} { // the prior is that of the start
		if at, _, ok := m.Start.Kept(name); ok {
			f.Keep(name, at, 0)
		}
	}
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

// Kept is what Keep has noted; false for nothing, or for no fit.
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

// Told is how many rows of a fit have weight above 0, and how many have taught its dispersion or
// shape, by weight; 0 of no fit.
func (f *Fit) Told() (rows, taught float64) {
	if f == nil {
		return 0, 0
	}
	if rows, taught, ok := f.Kept(KeptRows); ok {
		return rows, taught
	}
	return float64(f.N), float64(f.N)
}

// KeepsUnits says whether f has the unit of any column of numbers.
func (f *Fit) KeepsUnits() bool {
	return f != nil && slices.ContainsFunc(f.Learnt, func(l Learnt) bool { return strings.HasPrefix(l.Name, "unit(") })
}

// Parameters are what of l was learnt of the likelihood, without what a stream keeps.
func Parameters(l []Learnt) []Learnt {
	return slices.DeleteFunc(slices.Clone(l), func(l Learnt) bool { return kept(l.Name) })
}

// Learn notes in f what was learnt of a parameter; numbers that are not finite are not known.
func (f *Fit) Learn(name string, mean, sd float64) {
	if !(mean > 0) || math.IsInf(mean, 1) {
		return
	}
	if !(sd > 0) || math.IsInf(sd, 1) {
		sd = math.NaN()
	}
	own := Learnt{name, mean, sd}
	f.Learnt = slices.Clone(f.Learnt) // others may hold it
	if k := slices.IndexFunc(f.Learnt, func(l Learnt) bool { return l.Name == name }); k >= 0 {
		f.Learnt[k] = own
		return
	}
	f.Learnt = append(f.Learnt, own)
}

// LearnDeviation is Learn of the square root of a dispersion of ν degrees of freedom: of the
// scaled inverse chi-square law of that scale, which for gaussian responses is the posterior. Of
// log σ² it has its mode at the log of the scale, and the curvature ν/2 there.
func (f *Fit) LearnDeviation(scale, nu float64) {
	mean, sd := special.InverseChi(nu)
	if math.IsNaN(mean) {
		mean = 1
	}
	unit := math.Sqrt(scale)
	f.Learn(LearntDeviation, unit*mean, unit*sd)
}

// LearnShape is Learn of a shape whose logarithm is that of mode, with that deviation, NaN where
// it is not known.
func (f *Fit) LearnShape(mode, sd float64) {
	if math.IsNaN(sd) {
		f.Learn(LearntShape, mode, sd)
		return
	}
	mean := mode * math.Exp(0.5*sd*sd)
	f.Learn(LearntShape, mean, mean*math.Sqrt(math.Expm1(sd*sd)))
}

// LearnShapeBy is LearnShape where the evidence of the shape's logarithm has that curvature, NaN
// where it is not known. Of one that the rows know to no factor of e^2 the mode alone is noted, and
// that is said: the law of the logarithm would have moments that mean nothing.
func (f *Fit) LearnShapeBy(mode, information float64) {
	sd := 1 / math.Sqrt(information)
	if sd > 2 {
		f.Say(fmt.Sprintf("the rows hardly bound the shape: %.3g is its most probable value", mode))
		sd = math.NaN()
	}
	f.LearnShape(mode, sd)
}

// LearntOf is mean and deviation of a parameter that f learnt; false where it does not know both.
func (f *Fit) LearntOf(name string) (mean, sd float64, ok bool) {
	for _, l := range f.Learnt {
		if l.Name == name {
			return l.Mean, l.SD, l.Mean > 0 && l.SD > 0
		}
	}
	return 0, 0, false
}

// stretchLearnt brings f to responses that are unit times themselves.
func (f *Fit) stretchLearnt(unit float64) {
	f.Learnt = slices.Clone(f.Learnt)
	for k := range f.Learnt {
		if l := &f.Learnt[k]; l.Name == LearntDeviation {
			l.Mean, l.SD = l.Mean*unit, l.SD*unit
		}
	}
}

// ValidateLearnt reports a parameter that is there twice, or cannot be. Names that are not known
// are those of later versions.
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
		case l.Name == KeptRows && l.Mean > MaxCount, l.Name == KeptDetermined && math.Abs(l.Mean) > 1<<62:
			return fmt.Errorf("learnt: %.100q has mean = %v; allowed: counts of rows, or of weights", l.Name, l.Mean)
		}
	}
	return nil
}
