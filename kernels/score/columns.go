package score

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/option"
)

// columns are the columns that a fit remembers, against which rows by names are checked. They are
// immutable.
type columns struct {
	cols     []kernels.FitColumn
	nulls    []string           // by column: the feature of rows without a value, "" for none
	mixed    []bool             // by column: an interaction of levels and numbers
	fills    []bool             // by column: one of these whose missing numbers a stream replaces by its own column's mean; nil for none
	means    map[string]float64 // by column name: the replacement of a missing number
	factors  [][]factor         // by column: the factors of a product, if the fit has their replacements; nil for none
	scores   bool               // rows are scored, not learnt
	at       map[string]int32   // by name, and by name in lower case
	features bool               // there are also features with names of their own, which may be any
}

// newColumns is nil for a fit that remembers none. m, nil for scoring, learns from the rows.
func newColumns(f *kernels.Fit, m *kernels.Model) *columns {
	if f == nil || f.Columns == nil {
		return nil
	}
	c := &columns{at: map[string]int32{}, scores: m == nil}
	for _, col := range f.Columns {
		if col.Kind == kernels.FeaturesColumn { // rows here name the features themselves
			c.features = true
		} else {
			c.cols = append(c.cols, col)
		}
	}
	for k := range c.cols {
		null := c.cols[k].Name + kernels.IsNull
		mixed := c.cols[k].Mixed()
		if mixed {
			null = ""
		}
		c.nulls, c.mixed = append(c.nulls, null), append(c.mixed, mixed)
		c.at[c.cols[k].Name] = int32(k)
	}
	for k := range c.cols {
		low := strings.ToLower(c.cols[k].Name)
		if _, ok := c.at[low]; !ok {
			c.at[low] = int32(k)
		}
	}
	switch {
	case c.scores:
		c.means = f.CrossedMeans()
		c.findFactors(f.Factors())
	case m.Options.Missing == "indicator":
		means, factors := f.Centred()
		c.means = means
		c.findFactors(factors)
		c.fills = make([]bool, len(c.cols))
		for k := range c.cols {
			c.fills[k] = c.mixed[k] && f.Fills(&c.cols[k])
		}
	}
	return c
}

// factor is a number in a product: its column, and its replacement if it is missing.
type factor struct {
	column int
	mean   float64
}

// findFactors finds the products of numbers for which means has replacements.
func (c *columns) findFactors(means map[kernels.Factor]float64) {
	if means == nil {
		return
	}
	c.factors = make([][]factor, len(c.cols))
	for k := range c.cols {
		parts, _ := kernels.SplitParts(c.cols[k].Parts)
		for _, p := range parts {
			if mean, ok := means[kernels.FactorOf(c.cols[k].Name, p.Name)]; ok && c.cols[k].Kind == kernels.NumberColumn {
				at := slices.IndexFunc(c.cols, func(u kernels.FitColumn) bool { return u.Parts == "" && strings.EqualFold(u.Name, p.Name) })
				c.factors[k] = append(c.factors[k], factor{at, mean})
			}
		}
	}
}

// absent is the replacement of the missing number in column k; NaN stands for its mean.
func (c *columns) absent(k int, to *named) float64 {
	if c.factors == nil || c.factors[k] == nil {
		return math.NaN()
	}
	x := 1.0
	for _, of := range c.factors[k] {
		switch i := slices.Index(to.names, c.cols[of.column].Name); {
		case to.null[of.column]:
			x *= of.mean
		case i >= 0:
			x *= to.values[i]
		default:
			return math.NaN()
		}
	}
	return x
}

// named is a row by its columns: features under the names that the fit gives them, with their
// values; NaN is a missing number.
type named struct {
	names  []string
	values []float64
	met    []bool // by column: the row mentions it
	null   []bool // by column: it has no value
}

// featureRole is what the name of a feature says.
type featureRole uint8

const (
	other   featureRole = iota // it belongs to no column
	number                     // the column's number
	level                      // one of its levels
	nothing                    // the column has no value
)

// read matches a row to the columns, by name regardless of case, as in SQL; all columns must be
// named, unless the row is open.
// Errors: a missing column, or one of the other kind.
func (c *columns) read(r *Row, to *named) error {
	to.names, to.values = to.names[:0], to.values[:0]
	to.met, to.null = append(to.met[:0], make([]bool, len(c.cols))...), append(to.null[:0], make([]bool, len(c.cols))...)
	for k, name := range r.Names {
		x := r.value(k)
		at, says, end := c.find(name)
		if says == other {
			to.names, to.values = append(to.names, name), append(to.values, x)
			continue
		}
		of := &c.cols[at]
		switch {
		case says == level && of.Kind == kernels.NumberColumn:
			return fmt.Errorf("feature %q: column %q has numbers, as the fit has learnt it; allowed: the name %q and a value", name, of.Name, of.Name)
		case says == number && of.Kind == kernels.LevelsColumn:
			return fmt.Errorf("feature %q: column %q has levels, as the fit has learnt it; allowed: a name %q", name, of.Name, of.Name+"=level")
		case says == nothing && x == 0:
			continue
		}
		to.met[at] = true
		mean, stands := c.means[of.Name]
		switch {
		case says == level && math.IsNaN(x) && !stands && c.fills != nil && c.fills[at]: // the stream has the replacement
			to.null[at] = true
			name = of.Name + name[end:]
		case says == nothing || math.IsNaN(x) && (says == number || c.mixed[at] && !stands):
			if to.null[at] = true; !stands || !c.scores {
				continue
			}
			name = of.Name + kernels.IsNull // Snapshot.read knows whether it is a level
		case says == number:
			name = of.Name
		case math.IsNaN(x) && stands:
			x = mean
			fallthrough
		case name[:end] != of.Name:
			name = of.Name + name[end:]
		}
		to.names, to.values = append(to.names, name), append(to.values, x)
	}
	for k, is := range to.null {
		if is && c.cols[k].Kind == kernels.NumberColumn {
			to.names, to.values = append(to.names, c.cols[k].Name), append(to.values, c.absent(k, to))
		}
		if is && c.nulls[k] != "" {
			to.names, to.values = append(to.names, c.nulls[k]), append(to.values, 1)
		}
	}
	if at := slices.Index(to.met, false); at >= 0 && !r.Open {
		return c.missingError(at, r)
	}
	return nil
}

// present is the part of n that has values.
func (c *columns) present(n *named) (names []string, values []float64) {
	names, values = n.names[:0], n.values[:0]
	for k, name := range n.names {
		at, says, _ := c.find(name)
		if says == nothing || says == number && n.null[at] {
			continue
		}
		names, values = append(names, name), append(values, n.values[k])
	}
	return names, values
}

// find is the column that the name of a feature refers to and what it says about it; end is where
// the column's name ends.
func (c *columns) find(name string) (at int32, says featureRole, end int) {
	if at, says, end = c.exactly(name, kernels.IsNull); says != other {
		return at, says, end
	}
	if low := strings.ToLower(name); low != name && len(low) == len(name) {
		return c.exactly(low, lowNull)
	}
	return 0, other, 0
}

// lacks reports whether a feature, by its name in columns, can be missing in rows to learn from.
func (c *columns) lacks(name string) bool {
	at, says, _ := c.exactly(name, kernels.IsNull)
	return says == number && c.cols[at].Kind == kernels.NumberColumn || says == level && c.fills != nil && c.fills[at]
}

var lowNull = strings.ToLower(kernels.IsNull)

func (c *columns) exactly(name, null string) (at int32, says featureRole, end int) {
	if at, ok := c.at[name]; ok {
		return at, number, len(name)
	}
	if base, ok := strings.CutSuffix(name, null); ok {
		if at, ok := c.at[base]; ok {
			return at, nothing, len(base)
		}
	}
	for end = strings.LastIndexByte(name, '='); end >= 0; end = strings.LastIndexByte(name[:end], '=') {
		if at, ok := c.at[name[:end]]; ok {
			return at, level, end
		}
	}
	return 0, other, 0
}

// missingError is the error of a row without column at.
func (c *columns) missingError(at int, r *Row) error {
	name := c.cols[at].Name
	var free []string // names that belong to no column
	for _, n := range r.Names {
		if _, says, _ := c.find(n); says == other {
			base, _, _ := strings.Cut(n, "=")
			free = append(free, base)
		}
	}
	near := option.Nearest(name, free)
	if near != "" {
		near = fmt.Sprintf("; the nearest that it has is %q", near)
	}
	return fmt.Errorf("the row has no column %q, which the fit has learnt from%s (an open Row goes without)", name, near)
}

// read matches a row to the columns of the fit, without what the fit does not know, and with
// missing numbers replaced by the mean of their column.
func (s *Snapshot) read(r *Row, n *named) error {
	if err := s.columns.read(r, n); err != nil {
		return err
	}
	k := 0
	for j, name := range n.names {
		x := n.values[j]
		switch {
		case math.IsNaN(x) && s.fit.Number(name) != nil:
			x = s.fit.Replacement(name, s.has)
		case s.fit.HashBits == 0 && s.has(name):
		default:
			_, says, _ := s.columns.find(name)
			if says == other && !s.columns.features || says == nothing && s.ignores(name) {
				continue
			}
		}
		n.names[k], n.values[k] = name, x
		k++
	}
	n.names, n.values = n.names[:k], n.values[:k]
	return nil
}

// ignores reports whether a missing-value indicator contributes nothing: rows that lacked the value
// were learnt without it, and, unless it is known that no row has it, neither it nor its slot has a
// belief.
func (s *Snapshot) ignores(name string) bool {
	if s.fit.LacksIndicator(name) {
		return true
	}
	if bits := s.fit.HashBits; bits > 0 {
		name = string(kernels.AppendSlot(nil, kernels.SlotOf(view(name), bits)))
		if s.has(name) {
			return false
		}
	}
	return s.fit.IgnoresIndicator(view(name))
}

// has reports whether there is a belief about a feature.
func (s *Snapshot) has(name string) bool {
	k, h := s.keyOf(name)
	_, found := s.find(k, h, name)
	return found
}
