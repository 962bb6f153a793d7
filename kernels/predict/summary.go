package predict

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/special"
)

// Term is a weight of a fit for display.
type Term struct {
	Term   string // the feature; for a fit with classes preceded by the class, 'a: x'
	Column string // the column it belongs to, "" for the intercept
	Estimate
	// Exp is exp of the estimate, an odds or rate ratio; NaN for links whose weights add to the
	// response itself, and where it overflows, as for the intercept if a column is far from 0: then
	// only the log odds can be reported.
	ExpMean, ExpLower, ExpUpper float64
	Positive                    float64 // P(w > 0)
	Rope                        float64 // P(|w| < rope), the region of practical equivalence; NaN if none is given
	// PerSD is the mean times the column's standard deviation, NaN if the fit does not know it.
	PerSD float64
}

// Summary lists the weights of a fit in belief order, with central intervals of that level,
// followed by what was learnt with a posterior: as 'sd(column)' the standard deviations of the
// weights of columns of levels, as 'cor(column, column)' the correlations between these, as
// 'sd(residual)' that of gaussian responses, as 'scale(residual)' the scale of studentt's, and as
// 'shape(family)' the shape. An estimate without a standard deviation has no interval.
//
// A rope > 0 asks for the probability that a weight is between -rope and rope.
//
// Cost: O(p). Errors: a level outside (0, 1), a fit that is nil.
func Summary(f *kernels.Fit, level, rope float64) ([]Term, error) {
	if err := CheckLevel(level); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, kernels.ErrNoFit
	}
	ratio := len(f.Classes) > 0 // of odds
	if l, err := f.Likelihood(); err == nil {
		t := l.Traits()
		ratio = t.LogOdds || t.LogMean || t.LogRate
	}
	block := 0
	if len(f.Classes) > 0 {
		block = len(f.Beliefs) / len(f.Classes)
	}
	out := make([]Term, len(f.Beliefs))
	for k, b := range f.Beliefs {
		t := Term{Term: b.Feature, Estimate: gaussian(b.Mean, b.Variance, level), Positive: above(b.Mean, b.Variance), Rope: within(b.Mean, b.Variance, rope),
			ExpMean: math.NaN(), ExpLower: math.NaN(), ExpUpper: math.NaN(), PerSD: math.NaN()}
		if b.Feature != kernels.Intercept {
			t.Column = ColumnOf(f, b.Feature)
			for _, c := range f.Columns {
				if c.Kind == kernels.NumberColumn && c.Name == b.Feature {
					t.PerSD = b.Mean * c.Scale
				}
			}
		}
		if ratio && !math.IsInf(math.Exp(max(t.Mean, t.Upper)), 1) {
			t.ExpMean, t.ExpLower, t.ExpUpper = math.Exp(t.Mean), math.Exp(t.Lower), math.Exp(t.Upper)
		}
		if block > 0 {
			t.Term = f.Classes[k/block] + ": " + b.Feature
		}
		out[k] = t
	}
	return slices.Concat(out, deviations(f, level), correlations(f, level), parameters(f, level)), nil
}

// parameters are those of the likelihood that were learnt: the interval of a standard deviation is
// that of the square root of an inverse chi-square variable, that of a shape of a log-normal one,
// with the estimated mean and standard deviation.
func parameters(f *kernels.Fit, level float64) (out []Term) {
	nan := math.NaN()
	of, _ := f.Likelihood()
	for _, l := range f.Learnt {
		t := Term{Estimate: Estimate{Mean: l.Mean, SD: l.SD, Lower: nan, Upper: nan}, ExpMean: nan, ExpLower: nan, ExpUpper: nan, Positive: 1, Rope: nan, PerSD: nan}
		known := l.Mean > 0 && l.SD > 0
		switch l.Name {
		case kernels.LearntDeviation:
			if t.Term = "scale(residual)"; of != nil && of.Traits().Homoscedastic {
				t.Term = "sd(residual)"
			}
			if known {
				nu := special.InverseChiFreedom(l.SD / l.Mean)
				mean, _ := special.InverseChi(nu)
				at := func(q float64) float64 { return l.Mean / mean * special.InverseChiQuantile(nu, q) }
				t.Lower, t.Upper = at(0.5-0.5*level), at(0.5+0.5*level)
			}
		case kernels.LearntShape:
			t.Term = "shape(" + f.Family + ")"
			if known {
				ratio := min(l.SD/l.Mean, 1e150) // so that its square is finite
				v := math.Log1p(ratio * ratio)
				z := mathext.NormalQuantile(0.5+0.5*level) * math.Sqrt(v)
				t.Lower, t.Upper = l.Mean*math.Exp(-0.5*v-z), l.Mean*math.Exp(-0.5*v+z)
			}
		default: // from a later version
			continue
		}
		out = append(out, t)
	}
	return out
}

// correlations are those between columns of levels, if they were learnt: the interval is that of
// the beta distribution on (-1, 1) with the estimated mean and standard deviation.
func correlations(f *kernels.Fit, level float64) (out []Term) {
	for _, c := range f.Correlations {
		n := (1-c.Mean*c.Mean)/(c.SD*c.SD) - 1 // the sum of the beta's parameters
		if !(n > 0) || math.IsInf(n, 1) {
			continue
		}
		nan := math.NaN()
		up, down := 0.5*n*(1+c.Mean), 0.5*n*(1-c.Mean)
		at, positive := func(q float64) float64 { return 2*mathext.InvRegIncBeta(up, down, q) - 1 }, 1-mathext.RegIncBeta(up, down, 0.5)
		if min(up, down) > narrow {
			at, positive = normal(c.Mean, c.SD), above(c.Mean, c.SD*c.SD)
		}
		out = append(out, Term{Term: "cor(" + c.A + ", " + c.B + ")", Column: c.A,
			Estimate: Estimate{Mean: c.Mean, SD: c.SD, Lower: at(0.5 - 0.5*level), Upper: at(0.5 + 0.5*level)},
			ExpMean:  nan, ExpLower: nan, ExpUpper: nan, Positive: positive, Rope: nan, PerSD: nan})
	}
	return out
}

// deviations are the standard deviations of the weights of columns of levels, if they were learnt:
// the interval is that of the gamma distribution with the estimated mean and standard deviation.
func deviations(f *kernels.Fit, level float64) (out []Term) {
	for k := range f.Columns {
		c := &f.Columns[k]
		mean, sd, ok := c.Deviation()
		if !ok {
			continue
		}
		nan := math.NaN()
		shape := mean / sd * (mean / sd)
		at := func(q float64) float64 { return mathext.GammaIncRegInv(shape, q) / shape * mean }
		switch {
		case shape > narrow:
			at = normal(mean, sd)
		case shape < 1e-100: // all probability is at 0
			at = func(float64) float64 { return 0 }
		}
		out = append(out, Term{Term: "sd(" + c.Name + ")", Column: c.Name,
			Estimate: Estimate{Mean: mean, SD: sd, Lower: at(0.5 - 0.5*level), Upper: at(0.5 + 0.5*level)},
			ExpMean:  nan, ExpLower: nan, ExpUpper: nan, Positive: 1, Rope: nan, PerSD: nan})
	}
	return out
}

// narrow is the parameter of a gamma or beta distribution above which the normal one replaces it,
// since its inverses are then inaccurate and may not terminate.
const narrow = 1e8

func normal(mean, sd float64) func(q float64) float64 {
	return func(q float64) float64 { return mean + sd*mathext.NormalQuantile(q) }
}

// within is P(|x| < rope) for x ~ N(m, v), NaN without a rope.
func within(m, v, rope float64) float64 {
	if !(rope > 0) {
		return math.NaN()
	}
	return above(m+rope, v) - above(m-rope, v)
}

// ColumnOf is Column for a feature of f: if f remembers its columns, the longest one that the
// feature can belong to, since a name may contain '='.
func ColumnOf(f *kernels.Fit, feature string) string {
	best := -1
	for k := range f.Columns {
		name := f.Columns[k].Name
		rest, ok := strings.CutPrefix(feature, name)
		if ok && (rest == "" || rest[0] == '=' || rest == kernels.IsNull) && (best < 0 || len(name) > len(f.Columns[best].Name)) {
			best = k
		}
	}
	if best >= 0 {
		return f.Columns[best].Name
	}
	return Column(feature)
}

// Column is the column that a feature belongs to: the part before its first '=', or before ' IS
// NULL', else the feature itself.
func Column(feature string) string {
	if c, _, ok := strings.Cut(feature, "="); ok {
		return c
	}
	return strings.TrimSuffix(feature, " IS NULL")
}
