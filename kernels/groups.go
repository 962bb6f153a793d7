package kernels

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/argument"
)

// ColumnPrior is the prior variance of the weights of a column, whose name is matched regardless of
// case: Variance, or with Auto the one of highest evidence.
type ColumnPrior struct {
	Column   string
	Variance float64
	Auto     bool
}

// ColumnPriors are the ColumnPriors of several columns.
type ColumnPriors []ColumnPrior

// Of returns the ColumnPrior of a column, nil if it has none of its own.
func (all ColumnPriors) Of(column string) *ColumnPrior {
	for k := range all {
		if strings.EqualFold(all[k].Column, column) {
			return &all[k]
		}
	}
	return nil
}

// OfFeature returns the ColumnPrior of the column that a feature is named after: the text before a
// '=', the last one if there are several such columns, or before " IS NULL", or the whole name.
func (all ColumnPriors) OfFeature(name string) *ColumnPrior {
	for i := strings.LastIndexByte(name, '='); i >= 0; i = strings.LastIndexByte(name[:i], '=') {
		if c := all.Of(name[:i]); c != nil {
			return c
		}
	}
	return all.Of(strings.TrimSuffix(name, IsNull))
}

// of returns the ColumnPrior of the column of feature id.
func (all ColumnPriors) of(d *Dict, id uint32) *ColumnPrior {
	name := d.LevelColumn(id)
	if name == "" {
		name = d.NumberColumn(id)
	}
	if name == "" {
		return nil
	}
	return all.Of(name)
}

// LearnsPrior reports whether the prior variance of some weights is to be learnt.
func (m *Model) LearnsPrior() bool {
	return m.Options.AutoPrior || len(m.Correlated) > 0 || m.PriorBy.Learn()
}

// Learn reports whether the prior variance of some column is to be learnt.
func (all ColumnPriors) Learn() bool {
	return slices.ContainsFunc(all, func(c ColumnPrior) bool { return c.Auto })
}

// CheckPriorBy returns an error for a column of PriorBy that none of n rows has; d has their names.
func (m *Model) CheckPriorBy(d *Dict, n int64) error {
	if n == 0 || d.Len() == 0 {
		return nil
	}
	for _, c := range m.PriorBy {
		var found []string
		known := false
		is := func(name string) {
			known = known || strings.EqualFold(name, c.Column)
			if !known && name != "" && len(found) < 50 && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
		if d.cols != nil && m.HashBits == 0 { // including those without a value in any row
			for _, text := range d.cols.text {
				is(strings.TrimSuffix(text, "="))
			}
			for _, name := range slices.Sorted(maps.Keys(d.cols.numbers)) {
				is(name)
			}
		}
		for id := 0; id < d.Len() && !known; id++ {
			name := d.LevelColumn(uint32(id))
			if name == "" {
				name = d.NumberColumn(uint32(id))
			}
			is(name)
		}
		if known {
			continue
		}
		e := argument.Word("prior_variance", c.Column, found)
		e.Found = fmt.Sprintf("column %q", c.Column)
		switch {
		case found != nil:
		case m.HashBits > 0:
			e.Allowed = "a number with hash_bits, which leaves no columns"
		default:
			e.Allowed = "columns by name or a list of numbers, which these rows have none of; the variance of a single feature is in priors"
		}
		return e
	}
	return nil
}

// IsNull is the suffix of a column's name in the feature that indicates a missing value.
const IsNull = " IS NULL"

// LevelColumn returns the column of levels that feature id belongs to, "" for none: that of
// `column=value`, and of `column IS NULL` if column has levels.
func (d *Dict) LevelColumn(id uint32) string {
	if col := d.ColumnOf(id); col > 0 {
		return strings.TrimSuffix(d.ColumnText(col), "=")
	}
	return ""
}

// NumberColumn returns the numeric column of which feature id is the value or the missing-value
// indicator; "" for other features.
func (d *Dict) NumberColumn(id uint32) string {
	name := string(d.Name(id))
	if d.NumberPlace(id) < math.MaxInt {
		return name
	}
	if base, ok := strings.CutSuffix(name, IsNull); ok && d.cols != nil {
		if _, ok := d.cols.numbers[base]; ok {
			return base
		}
	}
	return ""
}

// Groups numbers the groups of the columns: features named `group=value` share the group before
// '=', others form their own; the intercept has group -1. names are in the order of the first
// column.
func (p *Problem) Groups() (group []int, names []string) {
	return p.group(func(j int) (string, bool) {
		name := p.Name(j)
		if name == Intercept {
			return "", false
		}
		if before, _, ok := strings.Cut(name, "="); ok {
			name = Or(p.dict.LevelColumn(p.cols[j]), before)
		}
		return name, true
	})
}

// LevelGroups numbers the columns of levels that the features of p belong to, in order of the first
// one; -1 for other features. A feature that belongs to no column known to the dictionary belongs
// to the text before '=' in its name.
func (p *Problem) LevelGroups() (group []int, names []string) {
	return p.group(func(j int) (string, bool) {
		if name := p.dict.LevelColumn(p.cols[j]); name != "" {
			return name, true
		}
		name, _, ok := strings.Cut(p.Name(j), "=")
		return name, ok
	})
}

// VarianceGroups numbers the sets of features that share a prior variance when variances are
// learnt: the levels of a column; features that belong to none, such as those of maps, by their
// name before '='; and all other features, under the name "". A numeric column that Model.PriorBy
// names is a set of its own. -1 is the intercept.
func (p *Problem) VarianceGroups() (group []int, names []string) {
	return p.group(func(j int) (string, bool) {
		id := p.cols[j]
		if j == 0 && !p.NoIntercept && p.Name(0) == Intercept {
			return "", false
		}
		if name := p.dict.LevelColumn(id); name != "" {
			return name, true
		}
		number := p.dict.NumberColumn(id)
		if name, _, ok := strings.Cut(p.Name(j), "="); ok && number == "" {
			return name, true
		}
		if number != "" && p.PriorBy.Of(number) != nil {
			return number, true
		}
		return "", true
	})
}

// group numbers the groups of the columns by their names, in order of the first column; -1 where of
// returns false.
func (p *Problem) group(of func(j int) (string, bool)) (group []int, names []string) {
	group = make([]int, p.P)
	seen := map[string]int{}
	for j := range group {
		name, ok := of(j)
		if !ok {
			group[j] = -1
			continue
		}
		g, old := seen[name]
		if !old {
			g = len(names)
			seen[name] = g
			names = append(names, name)
		}
		group[j] = g
	}
	return group, names
}
