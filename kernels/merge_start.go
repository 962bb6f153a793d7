package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/gauss"
)

// Freeze is the number of rows from which the units of a stream stay, except for columns that begin
// to vary or change their scale by a factor of two.
const Freeze = 1 << 16

// overStart multiplies parts over base, the posterior of the fit that they started from. A stream
// that continues it changes the units of numbers and responses, and with them the prior of the
// start: if parts did, all of them and the start are first given the prior in the units of all
// rows. Otherwise the differences would count once for each part where the rows leave the weights
// to the prior. The evidence of a stream is that of its rows as they came, in the units of their
// time: it stays.
func (m *fitMerge) overStart(base *gauss.Normal, parts []*gauss.Normal, names []string) (*gauss.Normal, float64, error) {
	if len(parts) == 1 {
		return gauss.Product(base, parts)
	}
	start := m.startUnits(m.from, names, base.Form == gauss.Diagonal && !slices.ContainsFunc(parts, func(g *gauss.Normal) bool { return g.Form != gauss.Diagonal }))
	if _, _, given := m.from.Kept(KeptPriors); given { // with priors of single weights, which a fit does not keep
		return gauss.Product(base, parts)
	}
	own := make([]*mergeUnits, len(parts))
	moved := false
	for k, f := range m.fits {
		own[k] = m.startUnits(f, names, start.loose)
		moved = moved || !own[k].is(start)
	}
	if !moved {
		return gauss.Product(base, parts)
	}
	all := m.pooledUnits(start, own, names)
	to := all.scaling()
	base, _, err := all.convert(to, start, base)
	if err != nil {
		return nil, 0, err
	}
	ready := make([]*gauss.Normal, len(parts))
	for k, g := range parts {
		if ready[k], _, err = all.convert(to, own[k], g); err != nil {
			return nil, 0, err
		}
	}
	post, logC, err := gauss.Product(base, ready)
	if err != nil {
		return nil, 0, err
	}
	post, err = to.Restore(post)
	return post, logC, err
}

// beyond returns an error for numbers that each part standardised by its own rows, but the start
// did not.
func (m *fitMerge) beyond() error {
	if m.from == nil || len(m.fits) == 1 {
		return nil
	}
	for _, f := range m.fits {
		if c := f.standardisedBeyond(m.from); c != nil {
			return fmt.Errorf("column %.100q is not in the fit that all parts started from, and each standardised it by its own rows; "+
				"only fits of one prior can be merged: fit the parts with standardize: false, start them from a fit that has the column, or %w", c.Name, ErrApart)
		}
	}
	return nil
}

// standardisedBeyond returns a numeric column that f standardised and start, which it continued,
// did not have.
func (f *Fit) standardisedBeyond(start *Fit) *FitColumn {
	for k := range f.Columns {
		c := &f.Columns[k]
		if c.Kind != NumberColumn || !(c.Scale > 0) || slices.ContainsFunc(start.Columns, func(s FitColumn) bool { return strings.EqualFold(s.Name, c.Name) }) {
			continue
		}
		if !slices.ContainsFunc(start.Beliefs, func(b Belief) bool { return b.Feature == c.Name }) {
			return c
		}
	}
	return nil
}

// startUnits returns the units in force of f, which is the start or continued it.
func (m *fitMerge) startUnits(f *Fit, names []string, loose bool) *mergeUnits {
	u := &mergeUnits{factor: 1, loose: loose, centred: len(names) > 0 && names[0] == Intercept && !loose, columns: make([]ColumnStats, len(names))}
	for _, name := range names {
		w := f.Prior.Of([]byte(name))
		if m.byColumn {
			w = f.PriorOf([]byte(name))
		}
		u.mean, u.variance = append(u.mean, w.Mean), append(u.variance, w.Variance)
	}
	if len(names) > 0 && names[0] == Intercept && f.located() {
		if at, ok := f.responseCenter(); ok {
			u.center = at
		} else if at, ok := m.from.responseCenter(); ok {
			u.center = at
		}
	}
	for j, name := range names {
		unit, ok := f.unitOf(name)
		if begun, was := m.from.unitOf(name); ok && was && f != m.from && !f.movedUnit(name, m.from) {
			unit = begun
		}
		if ok {
			u.columns[j] = unit
		}
	}
	return u
}

// responseCenter is the center of the prior of the intercept of f, which standardised its
// responses, at the mean of its numbers.
func (f *Fit) responseCenter() (at float64, ok bool) {
	if f.Covariance.Form == gauss.Arrowhead && f.Covariance.Arrow().HasResponse() {
		at, _, _, _ = f.Covariance.Arrow().Response()
		return at, true
	}
	for _, name := range []string{KeptUnit, KeptLevel} {
		if at, _, ok = f.Kept(name); ok {
			return at, true
		}
	}
	return 0, false
}

// unitOf returns the unit in force of a numeric column of f; false if it has none.
func (f *Fit) unitOf(name string) (u ColumnStats, ok bool) {
	k := slices.IndexFunc(f.Columns, func(c FitColumn) bool { return c.Kind == NumberColumn && c.Name == name && c.Scale >= 0 })
	if k < 0 {
		return u, false
	}
	u = f.unit(&f.Columns[k])
	if f.Covariance.Form == gauss.Arrowhead {
		l := f.Covariance.Arrow()
		if at := slices.IndexFunc(f.Beliefs, func(b Belief) bool { return b.Feature == name }); at >= 0 {
			if j := -2 - int(l.Row(at)[0]); j >= 0 && l.InUnits() {
				u.Center, u.Scale = l.Unit(j)
				return u, true
			}
		}
	}
	if center, scale, kept := f.Kept(KeptUnitOf(name)); kept {
		if rows, _ := f.TrainingRows(); rows >= Freeze { // fewer rows leave the prior in the unit that they arrive at
			u.Center, u.Scale = center, scale
		}
	}
	return u, true
}

// movedUnit reports whether f, which continued start, changed the unit of a column. If not, for a
// method that keeps its rows, the unit is that of start.
func (f *Fit) movedUnit(name string, start *Fit) bool {
	if f.Covariance.Form == gauss.Arrowhead && f.Covariance.Arrow().InUnits() {
		return true
	}
	if _, _, kept := f.Kept(KeptUnitOf(name)); kept {
		return true
	}
	scale := func(f *Fit) float64 {
		k := slices.IndexFunc(f.Columns, func(c FitColumn) bool { return c.Name == name })
		return f.Columns[k].Scale
	}
	return scale(f) != scale(start)
}

// is reports whether the units are those of o.
func (u *mergeUnits) is(o *mergeUnits) bool {
	same := func(a, b ColumnStats) bool { return a.Scale == b.Scale && (a.Center == b.Center || !u.centred) }
	return u.center == o.center && slices.EqualFunc(u.variance, o.variance, alike) && slices.EqualFunc(u.columns, o.columns, same)
}

// pooledUnits returns the units of all rows, and records them in the product.
func (m *fitMerge) pooledUnits(start *mergeUnits, own []*mergeUnits, names []string) *mergeUnits {
	all := &mergeUnits{factor: 1, loose: start.loose, centred: start.centred, mean: start.mean, columns: slices.Clone(start.columns)}
	out, rows := &m.out, math.Max(float64(m.from.N), 1)
	total, center, priors := rows, rows*start.center, []float64{m.from.Prior.Variance * rows, m.from.Prior.InterceptVariance * rows}
	all.variance = make([]float64, len(names))
	for j, v := range start.variance {
		all.variance[j] = rows * v
	}
	for k, u := range own {
		n := math.Max(float64(m.fits[k].N-m.from.N), 1)
		total += n
		center += n * u.center
		priors[0] += n * m.fits[k].Prior.Variance
		priors[1] += n * m.fits[k].Prior.InterceptVariance
		for j, v := range u.variance {
			all.variance[j] += n * v
		}
	}
	for j := range all.variance {
		all.variance[j] /= total
	}
	all.center = center / total
	out.Prior.Variance, out.Prior.InterceptVariance = priors[0]/total, priors[1]/total
	if m.from.learnsPrior() {
		m.poolVariances(rows, total)
	}
	if m.from.located() {
		out.Keep(KeptLevel, all.center, 0)
	}
	for j, name := range names {
		if !slices.ContainsFunc(own, func(u *mergeUnits) bool { return u.columns[j] != start.columns[j] }) {
			continue
		}
		pool, _ := m.from.numbers(name)
		for _, f := range m.fits {
			if c, ok := f.numbers(name); ok {
				begun, _ := m.from.numbers(name)
				pool.Merge(c.Less(begun))
			}
		}
		if k := slices.IndexFunc(out.Columns, func(c FitColumn) bool { return c.Name == name }); k >= 0 && pool.Scale > 0 {
			all.columns[j] = pool
			out.Columns[k].Center, out.Columns[k].Scale = pool.Center, pool.Scale
		}
	}
	return all
}

// poolVariances gives columns of levels of the product the mean of the variances that the start, of so
// many rows out of total, and the parts have learnt.
func (m *fitMerge) poolVariances(rows, total float64) {
	for k := range m.out.Columns {
		c := &m.out.Columns[k]
		if c.Kind != LevelsColumn {
			continue
		}
		level := []byte(c.Name + "=")
		c.Variance = rows * m.from.PriorOf(level).Variance
		for _, f := range m.fits {
			c.Variance += math.Max(float64(f.N-m.from.N), 1) * f.PriorOf(level).Variance
		}
		c.Variance /= total
	}
}

// numbers returns what f records of a numeric column.
func (f *Fit) numbers(name string) (ColumnStats, bool) {
	k := slices.IndexFunc(f.Columns, func(c FitColumn) bool { return c.Kind == NumberColumn && c.Name == name })
	if k < 0 {
		return ColumnStats{}, false
	}
	return f.Columns[k].Stats(), true
}
