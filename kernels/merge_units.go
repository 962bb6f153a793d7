package kernels

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
)

// located reports whether the responses of f were standardised, too, so that its priors are in
// units of their own.
func (f *Fit) located() bool {
	l, err := f.Likelihood()
	return err == nil && l.Traits().Located && f.inUnits()
}

// inUnits reports whether the prior of f is in units of its own.
func (f *Fit) inUnits() bool {
	_, ok := f.origin()
	return ok || f.Standardized()
}

// origin is the center of the prior of the intercept of f, recorded by a fit whose numeric columns
// do not show that it was standardised.
func (f *Fit) origin() (at float64, ok bool) {
	for _, name := range []string{KeptOrigin, KeptLevel} {
		if at, _, ok = f.Kept(name); ok {
			return at, true
		}
	}
	if slices.ContainsFunc(f.Columns, func(c FitColumn) bool { return c.Kind == NumberColumn && c.Scale > 0 }) {
		return 0, false
	}
	if f.Covariance.Form == gauss.Arrowhead && f.Covariance.Arrow().HasResponse() {
		at, _, _, _ = f.Covariance.Arrow().Response()
		return at, true
	}
	at, _, ok = f.Kept(KeptUnit)
	return at, ok
}

// mergeUnits are the units of fits that standardised numbers, and responses, each by its own rows,
// and so have no common prior. All are converted to the units of all rows, where the common prior
// is that of the first fit, with the responses' unit of all.
type mergeUnits struct {
	mean, variance []float64 // of the first fit's prior
	center, factor float64   // of all responses: center of the intercept's prior, and factor of its variances
	columns        []ColumnStats
	centred, loose bool // numbers are centred; the parts are diagonal
	kept           bool // the fit records the center of the intercept's prior
}

// unitsOf returns the units of parts over columns of these names, the fits of parts at; nil if none
// was standardised and none has learnt a prior. mean and variance are the prior of the first fit.
//
// The prior of an intercept is centred at the mean of the responses if these were standardised,
// which a fit keeps only for gamma: its predictor at the mean of the numbers serves instead.
//
// at is changed for parts without a number in some column (fill).
func unitsOf(fits []*Fit, at []*gauss.Normal, names []string, mean, variance []float64) (all *mergeUnits, parts []*mergeUnits, err error) {
	learnt := slices.ContainsFunc(fits, (*Fit).learnsPrior)
	if !learnt && !slices.ContainsFunc(fits, (*Fit).inUnits) && !slices.ContainsFunc(fits, (*Fit).blank) {
		return nil, nil, nil
	}
	loose := !slices.ContainsFunc(at, func(g *gauss.Normal) bool { return g.Form != gauss.Diagonal })
	one := mergeUnits{mean: mean, variance: variance, factor: 1, centred: len(names) > 0 && names[0] == Intercept && !loose, loose: loose}
	place := make(map[string]int, len(names))
	for j, name := range names {
		place[name] = j
	}
	sum := one
	sum.factor, sum.columns = 0, make([]ColumnStats, len(names))
	total, equal := 0.0, make([]bool, len(names))
	for k, f := range fits {
		u := one
		u.columns = make([]ColumnStats, len(names))
		for _, c := range f.Columns {
			if j, ok := place[c.Name]; ok && c.Kind == NumberColumn && c.Scale >= 0 {
				u.columns[j] = f.unit(&c)
				c.equal = f.equal(&c)
				equal[j] = equal[j] || c.equal
				sum.columns[j].Merge(c.numbers())
			}
		}
		if f.located() {
			u.factor = f.Prior.Variance / fits[0].Prior.Variance
			if learnt { // that of the intercept is not
				u.factor = f.Prior.InterceptVariance / fits[0].Prior.InterceptVariance
			}
			if u.centred {
				w := make([]float64, len(names))
				design.NewScaling(u.scales()).To(w, at[k].Mean)
				u.center = w[0]
			}
		}
		if origin, ok := f.origin(); ok {
			u.kept, sum.kept = true, true
			if len(names) > 0 && names[0] == Intercept {
				u.center = origin
			}
		}
		n := float64(max(f.N, 1))
		sum.factor += n * u.factor
		if learnt { // others have their own, too
			u.factor = 1
			u.variance = make([]float64, len(names))
			for j, name := range names {
				u.variance[j] = f.PriorOf([]byte(name)).Variance
			}
		}
		sum.center += n * u.center
		total += n
		parts = append(parts, &u)
	}
	for j := range equal {
		if c := &sum.columns[j]; equal[j] && c.Scale == 0 {
			c.Scale = design.Unit(c.Center, 0, true)
		}
	}
	sum.factor /= total
	sum.center /= total
	if one.centred {
		middle := middles(fits)
		for k, f := range fits {
			if at[k], err = parts[k].fill(f, at[k], middle, place, &sum); err != nil {
				return nil, nil, err
			}
		}
	}
	return &sum, parts, nil
}

// blankColumn reports whether f has no number in any row for column c of numbers, but weights for it
// and for its absence: with no mean to stand for, a missing number is 0 there.
func (f *Fit) blankColumn(c *FitColumn) bool {
	if c.Kind != NumberColumn || c.N == 0 || c.N > c.Missing {
		return false
	}
	null := c.Name + IsNull
	return slices.ContainsFunc(f.Beliefs, func(b Belief) bool { return b.Feature == null })
}

// blank reports whether f has such a column.
func (f *Fit) blank() bool {
	return slices.ContainsFunc(f.Columns, func(c FitColumn) bool { return f.blankColumn(&c) })
}

// middles returns the means of the numbers of fits, by column.
func middles(fits []*Fit) map[string]ColumnStats {
	out := map[string]ColumnStats{}
	for _, f := range fits {
		for k := range f.Columns {
			if c := &f.Columns[k]; c.Kind == NumberColumn {
				all := out[c.Name]
				all.Merge(c.Mean())
				out[c.Name] = all
			}
		}
	}
	return out
}

// fill returns g, the posterior of f with units u, as if its missing numbers had been replaced by
// the mean of those of the other parts, where f has none in a column: its intercept is then that at
// this mean. all are the units of all parts.
func (u *mergeUnits) fill(f *Fit, g *gauss.Normal, middle map[string]ColumnStats, place map[string]int, all *mergeUnits) (*gauss.Normal, error) {
	scale, shift := slices.Repeat([]float64{1}, len(u.columns)), make([]float64, len(u.columns))
	found := false
	for k := range f.Columns {
		c := &f.Columns[k]
		j, ok := place[c.Name]
		if m := middle[c.Name]; ok && m.N > 0 && f.blankColumn(c) {
			u.columns[j] = ColumnStats{N: 1, Center: m.Center, Scale: all.columns[j].Scale}
			scale[j], shift[j], found = Or(all.columns[j].Scale, 1), m.Center, true
		}
	}
	if !found {
		return g, nil
	}
	return design.NewScaling(scale, shift).Restore(g)
}

// equal reports whether the numbers of column c were the same in all rows of f, a fit that centred
// them: it records as their scale the divisor of equal numbers. Numbers with that standard
// deviation, such as as many zeros as ones, are told apart by the variance of their weight, which is
// that of the prior only if no row says anything about it.
func (f *Fit) equal(c *FitColumn) bool {
	const rounding = 1e-9
	if c.Kind != NumberColumn || !(c.Scale > 0) || !alike(c.Scale, design.Unit(c.Center, 0, true)) {
		return false
	}
	k := slices.IndexFunc(f.Beliefs, func(b Belief) bool { return b.Feature == c.Name })
	v := c.Variance
	if math.IsNaN(v) {
		v = f.Prior.Variance
	}
	return k >= 0 && v > 0 && math.Abs(f.Beliefs[k].Variance*c.Scale*c.Scale/v-1) < rounding
}

// numbers are the statistics of a column of numbers, whose spread is 0 if these are equal.
func (c *FitColumn) numbers() ColumnStats {
	s := c.Stats()
	if c.equal {
		s.Scale = 0
	}
	return s
}

// unit returns the unit that follows from what f knows of a numeric column: the number itself, for
// equal numbers that some rows do not have.
func (f *Fit) unit(c *FitColumn) ColumnStats {
	u := c.Stats()
	if rows, _ := f.TrainingRows(); u.Scale == 0 && u.N > u.Missing && float64(u.N) < rows {
		u.Center, u.Scale = 0, math.Abs(u.Center)
	}
	return u
}

// scales returns the divisors of the columns and the numbers subtracted from them. Numbers of a
// stream that are all equal are centred, but not divided.
func (u *mergeUnits) scales() (scale, shift []float64) {
	scale, shift = make([]float64, len(u.columns)), make([]float64, len(u.columns))
	for j, c := range u.columns {
		switch {
		case c.N == c.Missing:
		case u.centred:
			scale[j], shift[j] = c.Scale, c.Center
		case u.loose:
			scale[j] = c.Scale
		default:
			scale[j] = math.Hypot(c.Center, c.Scale)
		}
		scale[j] = Or(scale[j], 1)
	}
	return scale, shift
}

// prior returns the prior of the weights in the units.
func (u *mergeUnits) prior() *gauss.Normal {
	g := gauss.NewDiagonal(slices.Clone(u.mean), slices.Clone(u.variance))
	for j := range g.Var {
		g.Var[j] *= u.factor
	}
	if u.center != 0 {
		g.Mean[0] += u.center
	}
	return g
}

// product returns the product of the posteriors at of parts, each first given the common prior,
// Λk - Λ0k + Λ0, with the change of its evidence; logC is as in gauss.Product.
func (u *mergeUnits) product(parts []*mergeUnits, at []*gauss.Normal) (post *gauss.Normal, logC float64, err error) {
	to := u.scaling()
	ready := make([]*gauss.Normal, len(at))
	for k, g := range at {
		var lacks float64
		if ready[k], lacks, err = u.convert(to, parts[k], g); err != nil {
			return nil, 0, err
		}
		logC += lacks
	}
	g, lacks, err := gauss.Product(u.prior(), ready)
	if err != nil {
		return nil, 0, err
	}
	post, err = to.Restore(g)
	return post, logC + lacks, err
}

// scaling returns the scaling of numbers to the units.
func (u *mergeUnits) scaling() *design.Scaling { return design.NewScaling(u.scales()) }

// convert gives g, a posterior under the prior in the units own, the prior in those of u, whose
// scaling is to, and converts it to these. lacks is the change of its log evidence.
func (u *mergeUnits) convert(to *design.Scaling, own *mergeUnits, g *gauss.Normal) (_ *gauss.Normal, lacks float64, err error) {
	scale, shift := u.scales()
	s, c := own.scales()
	for j := range s {
		s[j], c[j] = s[j]/scale[j], (c[j]-shift[j])/scale[j]
	}
	prior, err := design.NewScaling(s, c).Restore(own.prior())
	if err != nil {
		return nil, 0, err
	}
	if g, err = to.Inverse().Restore(g); err != nil {
		return nil, 0, err
	}
	return gauss.Product(prior, []*gauss.Normal{g, u.prior()})
}
