package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
)

// crossing is an interaction with numbers and the means that Standardize subtracts from them: the
// weights of the other columns absorb the shift. center and scale are those of the number that is
// crossed with levels; 0 for two numbers.
type crossing struct {
	column, base  string // base: the column of the other levels
	center, scale float64
	levels        bool
	of            []design.Crossed
}

// farNumber is the number of standard deviations from 0 from which a note says that an
// interaction's numbers should be centred.
const farNumber = 5

// CrossNote is the note on an interaction of a number far from 0, or far from unit scale, that was
// learnt as it is although numbers were standardised, "" for none.
func (f *Fit) CrossNote() string {
	for k := range f.Columns {
		c := &f.Columns[k]
		parts, ok := SplitParts(c.Parts)
		if !ok || f.hasCentredInteraction(c) {
			continue
		}
		for _, p := range parts {
			u := plainColumn(f.Columns, p.Name)
			if p.Kind != NumberColumn || u == nil || u.Kind != NumberColumn || !(u.Scale > 0) {
				continue
			}
			spread := u.spread(f)
			if spread > 0 && math.Abs(u.Center) > farNumber*spread {
				return crossNote(c.Name, u.Name, u.Center, spread)
			}
			v := 1.0 // in units of the weights of numbers that are near 1
			if !math.IsNaN(c.Variance) {
				v = c.Variance / f.Prior.Variance
			}
			rms := math.Hypot(u.Center, spread)
			if c.Kind == LevelsColumn && offScale(rms, v, 1) > math.Log(farScale) {
				return crossScaleNote(c.Name, u.Name, rms)
			}
		}
	}
	return ""
}

// hasCentredInteraction reports whether f has learnt c, an interaction, with centred numbers. This
// includes columns in Correlations, which hold the covariance of a level's weight at 0 and its
// slope, if no row lacks them.
func (f *Fit) hasCentredInteraction(c *FitColumn) bool {
	_, _, centred := f.Kept(KeptCrossedOf(c.Name))
	return centred || (c.Missing == 0 || f.filled(c)) && slices.ContainsFunc(f.Correlations, func(r Correlation) bool { return r.A == c.Name || r.B == c.Name })
}

// spread is the standard deviation of a numeric column that was standardised: that is Scale, except
// that a batch fit without an intercept and without covariances has the root mean square there.
func (c *FitColumn) spread(f *Fit) float64 {
	if f.Intercept || f.Covariance.Form != gauss.Diagonal {
		return c.Scale
	}
	return math.Sqrt(max(c.Scale*c.Scale-c.Center*c.Center, 0))
}

func crossNote(column, number string, center, spread float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(spread)))
	sign, by := "-", math.Round(center/unit)*unit
	if by < 0 {
		sign, by = "+", -by
	}
	return fmt.Sprintf("interaction %s uses %s without centring, whose mean is far from 0 (%.6g): its prior says little about the slopes; write it with (%s %s %.10g)", column, number, center, number, sign, by)
}

func crossScaleNote(column, number string, rms float64) string {
	by := math.Pow(10, math.Round(math.Log10(rms)))
	return fmt.Sprintf("interaction %s uses %s as it is, far from unit scale (root mean square %.2g): its prior is for slopes of numbers near 1; write it with %s / %.10g", column, number, rms, number, by)
}

// plainColumn returns the column with this name, regardless of case, that is no interaction; nil
// for none.
func plainColumn(cols []FitColumn, name string) *FitColumn {
	k := slices.IndexFunc(cols, func(c FitColumn) bool { return c.Parts == "" && strings.EqualFold(c.Name, name) })
	if k < 0 {
		return nil
	}
	return &cols[k]
}

// crossings returns the interactions of p whose numbers Standardize centres; loose is as there. All
// their rows have the columns that absorb the means, and no belief is continued.
func (p *Problem) crossings(loose int) (out []crossing) {
	interact := slices.ContainsFunc(p.columns, func(c FitColumn) bool { return c.Parts != "" })
	if !interact || p.asIs || p.Start != nil || p.Drifts() || p.Options.AutoNoise || p.dict.HashBits > 0 || p.N == 0 || !p.crossed && !design.Crosses(loose, p.P) {
		return nil
	}
	at := make(map[uint32]int, p.P)
	for j, id := range p.cols {
		at[id] = j
	}
	for k := range p.columns {
		c := &p.columns[k]
		parts, ok := SplitParts(c.Parts)
		if !ok {
			continue
		}
		var numbers, levels []ColumnPart
		for _, part := range parts {
			if part.Kind == NumberColumn {
				numbers = append(numbers, part)
			} else {
				levels = append(levels, part)
			}
		}
		var x *crossing
		switch {
		case c.Kind == LevelsColumn && len(numbers) == 1:
			x = p.crossLevels(c, levels)
		case c.Kind == NumberColumn && len(numbers) == 2 && len(levels) == 0 && p.centres():
			x = p.crossNumbers(c, numbers, at)
		}
		if x != nil {
			out = append(out, *x)
		}
	}
	return out
}

// WithoutCentring returns p with its interactions in original numbers if there are more weights
// than a posterior of every form can have with centred numbers: what one form learns of their prior
// then holds for another.
func (p *Problem) WithoutCentring() *Problem {
	if design.Crosses(1, p.P) {
		return p
	}
	q := *p
	q.asIs = true
	return &q
}

// CrossAs makes p centre the numbers of exactly those interactions for which q, p or another form
// of it on standardised scales, does: what q learnt of their prior holds for p.
func (p *Problem) CrossAs(q *Problem) { p.asIs, p.crossed = !q.crossed, q.crossed }

// crossNumbers is the crossing of a product of two numbers: (u - ū)(v - v̄) = uv - ū v - v̄ u + ūv̄.
func (p *Problem) crossNumbers(c *FitColumn, numbers []ColumnPart, at map[uint32]int) *crossing {
	column := func(name string) int {
		if id, ok := p.dict.Find(name); ok && p.dict.NumberPlace(id) < math.MaxInt {
			if j, ok := at[id]; ok {
				return j
			}
		}
		return -1
	}
	x := design.Crossed{Column: column(c.Name), By: 1}
	var mean [2]float64
	for k, n := range numbers {
		u := plainColumn(p.columns, n.Name)
		if u == nil || u.Kind != NumberColumn || u.Missing > 0 && p.Options.Missing != "indicator" {
			return nil
		}
		j := column(u.Name)
		if j < 0 || slices.Contains(x.Base, j) {
			return nil
		}
		mean[k] = p.numberMean(j)
		x.Base = append(x.Base, j)
	}
	if x.Column < 0 || c.Missing > 0 && p.Options.Missing != "indicator" {
		return nil
	}
	x.Base = append(x.Base, 0)
	x.C = []float64{mean[1], mean[0], -mean[0] * mean[1]}
	return &crossing{column: c.Name, of: []design.Crossed{x}}
}

// numberMean is the weighted mean of column j, with absent entries as zeros.
func (p *Problem) numberMean(j int) float64 {
	x := memory.Floats(p.N)
	for i := range p.N {
		col, val := p.Entries(i)
		if k, ok := slices.BinarySearch(col, uint32(j)); ok {
			x[i] = val[k]
		}
	}
	mean, _ := design.Moments(x, p.Weight)
	return mean
}

// crossLevels is the crossing of a number with levels, each of which also has a weight of its own:
// (u - ū) z = uz - ū z. nil if that is not so, for example if rows have the level without the
// number.
func (p *Problem) crossLevels(c *FitColumn, levels []ColumnPart) *crossing {
	base := baseOf(p.columns, levels)
	if base == "" || p.Correlates(c.Name) || p.Correlates(base) {
		return nil
	}
	found := levelsOf(p.dict, []string{base})
	pair, owner := make([]int, p.P), make([]int, p.P) // by column: its base, or the column of which it is the base
	at := make(map[uint32]int, p.P)
	for j, id := range p.cols {
		pair[j], owner[j], at[id] = -1, -1, j
	}
	x := &crossing{column: c.Name, base: base, levels: true}
	for j, id := range p.cols {
		column, level := levelOf(p.dict, id)
		if column != c.Name {
			continue
		}
		with, ok := found.find(0, level)
		b, learnt := at[with]
		if !ok || !learnt {
			return nil
		}
		pair[j], owner[b] = b, j
		x.of = append(x.of, design.Crossed{Column: j, Base: []int{b}})
	}
	u, weight, ok := p.crossedNumbers(pair, owner)
	if !ok || len(u) == 0 {
		return nil
	}
	mean, spread := design.Moments(u, weight)
	if !design.Squares(mean, spread) {
		return nil
	}
	x.center, x.scale = mean, design.Unit(mean, spread, true)
	for k := range x.of {
		x.of[k].By, x.of[k].C = x.scale, []float64{mean}
	}
	return x
}

// baseOf returns the column of these levels alone, "" if there is none.
func baseOf(cols []FitColumn, levels []ColumnPart) string {
	if len(levels) == 1 {
		if c := plainColumn(cols, levels[0].Name); c != nil && c.Kind == LevelsColumn {
			return c.Name
		}
		return ""
	}
	for _, c := range cols {
		parts, ok := SplitParts(c.Parts)
		same := func(a, b ColumnPart) bool { return strings.EqualFold(a.Name, b.Name) && a.Kind == b.Kind }
		if ok && c.Kind == LevelsColumn && slices.EqualFunc(parts, levels, same) {
			return c.Name
		}
	}
	return ""
}

// crossedNumbers returns the numbers of an interaction with levels, and their weights. ok is false
// if a row has one without its level's 1, or the level without a number.
func (p *Problem) crossedNumbers(pair, owner []int) (u, weight []float64, ok bool) {
	for i := range p.N {
		p.Stop.Row(i)
		own, with := -1, -1
		col, val := p.Entries(i)
		for k, j := range col {
			switch {
			case pair[j] >= 0 && own < 0:
				own = pair[j]
				u = append(u, val[k])
				if p.Weight != nil {
					weight = append(weight, p.Weight[i])
				}
			case owner[j] >= 0 && with < 0 && val[k] == 1:
				with = int(j)
			case pair[j] >= 0 || owner[j] >= 0:
				return nil, nil, false
			}
		}
		if own != with {
			return nil, nil, false
		}
	}
	return u, weight, true
}

// movedColumns returns the interactions whose numbers were centred, and the columns that absorbed
// the means: their prior is one of other weights.
func (f *Fit) movedColumns() (names []string) {
	for k := range f.Columns {
		c := &f.Columns[k]
		if _, _, ok := f.Kept(KeptCrossedOf(c.Name)); !ok {
			continue
		}
		names = append(names, c.Name)
		parts, _ := SplitParts(c.Parts)
		if c.Kind == LevelsColumn {
			names = append(names, baseOf(f.Columns, slices.DeleteFunc(parts, func(p ColumnPart) bool { return p.Kind == NumberColumn })))
			continue
		}
		for _, p := range parts {
			if u := plainColumn(f.Columns, p.Name); u != nil {
				names = append(names, u.Name)
			}
		}
	}
	return names
}

// restoreCrossed converts what f says of new levels to the original numbers, and records what was
// centred: a level's weight at 0 and its slope are correlated.
func (s *Standard) restoreCrossed(f *Fit) {
	for _, x := range s.crossed {
		f.Keep(KeptCrossedOf(x.column), x.center, x.scale)
		if !x.levels {
			continue
		}
		slope, base := f.column(x.column, LevelsColumn), f.column(x.base, LevelsColumn)
		slope.Variance /= x.scale * x.scale
		if slope.Scale > 0 {
			slope.Center, slope.Scale = slope.Center/x.scale, slope.Scale/x.scale
		}
		v, ok := f.LevelVariance([]byte(x.column + "="))
		if !ok {
			continue
		}
		base.atZero(slope, x.center)
		all, _ := f.LevelVariance([]byte(x.base + "="))
		cor := 0.0
		if all > 0 {
			cor = max(-x.center*math.Sqrt(v/all), -1)
			cor = min(cor, 1)
		}
		f.Correlations = append(f.Correlations, Correlation{A: x.base, B: x.column, Mean: cor, SD: math.NaN(), Covariance: -x.center * v})
	}
}

// continueCrossed records in f, which continues start, what was subtracted from the numbers of its
// interactions, and the covariances of weights of new levels: these are still those at 0.
func (f *Fit) continueCrossed(start *Fit) {
	if start == nil {
		return
	}
	for k := range start.Columns {
		name := KeptCrossedOf(start.Columns[k].Name)
		center, scale, ok := start.Kept(name)
		if _, _, has := f.Kept(name); ok && !has {
			f.Keep(name, center, scale)
		}
	}
	for _, c := range start.Correlations {
		has := slices.ContainsFunc(f.Correlations, func(o Correlation) bool { return o.A == c.A && o.B == c.B })
		if !has && f.column(c.A, LevelsColumn) != nil && f.column(c.B, LevelsColumn) != nil {
			f.Correlations = append(slices.Clip(f.Correlations), c)
		}
	}
}

// atZero converts c from the spread of weights where a number is center to that where it is 0, with
// independent slopes. The standard deviation keeps its second moment.
func (c *FitColumn) atZero(slope *FitColumn, center float64) {
	m, sd, ok := c.Deviation()
	n, nsd, too := slope.Deviation()
	if ok {
		a, b := m*m+sd*sd, center*center*slope.Variance
		if too {
			b = center * center * (n*n + nsd*nsd)
		}
		// that of the root of the sum of squares, to first order
		by := math.Hypot(m*sd, center*center*n*nsd) / math.Hypot(m, center*n)
		if !too {
			by = m * sd / math.Sqrt(m*m+b)
		}
		c.Scale = by
		c.Center = math.Sqrt(max(a+b-by*by, 0))
	}
	v := slope.Variance
	if !ok && too {
		v = n*n + nsd*nsd
	}
	c.Variance += center * center * v
}
