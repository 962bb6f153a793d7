package kernels

import (
	"bytes"
	"math"
	"slices"
	"strings"
)

// ColumnStats are the statistics of a numeric column.
type ColumnStats struct {
	N, Missing    int64 // rows, and those without a value
	Center, Scale float64
}

// Add adds a row's value, NaN if it has none.
func (c *ColumnStats) Add(x float64) {
	c.N++
	if math.IsNaN(x) {
		c.Missing++
		return
	}
	n := float64(c.N - c.Missing)
	d := x - c.Center
	c.Center += d / n
	c.Scale = math.Hypot(c.Scale*math.Sqrt((n-1)/n), d*math.Sqrt(n-1)/n)
}

// center is the mean of a column's numbers. A row that stands for several counts as that many.
type center struct{ n, mean float64 }

func (c *center) add(x, rows float64) {
	c.n += rows
	c.mean += (x - c.mean) * (rows / c.n)
}

// Number is what f knows of the numeric column with this name: nil if it has none, or f is nil.
func (f *Fit) Number(name string) *FitColumn { return f.column(name, NumberColumn) }

// column is what f, which may be nil, records of a column.
func (f *Fit) column(name, kind string) *FitColumn {
	if f == nil {
		return nil
	}
	for k := range f.Columns {
		if c := &f.Columns[k]; c.Name == name && c.Kind == kind {
			return c
		}
	}
	return nil
}

// NameColumns returns the columns that f records in the form that splits names.
func (f *Fit) NameColumns() *Columns {
	var levels, numbers []string
	for _, c := range f.Columns {
		switch c.Kind {
		case NumberColumn:
			numbers = append(numbers, c.Name)
		case LevelsColumn:
			levels = append(levels, c.Name)
		}
	}
	return NewColumns(levels, numbers)
}

// Mean is the mean of the values seen of a numeric column; of no values if it is not known or c is
// nil.
func (c *FitColumn) Mean() ColumnStats {
	if c == nil || math.IsNaN(c.Center) {
		return ColumnStats{}
	}
	return ColumnStats{N: c.N - c.Missing, Center: c.Center}
}

// Stats are the statistics of a numeric column that was standardised, of no number if all were
// missing.
func (c *FitColumn) Stats() ColumnStats {
	if math.IsNaN(c.Center) {
		return ColumnStats{N: c.N, Missing: c.Missing}
	}
	return ColumnStats{c.N, c.Missing, c.Center, c.Scale}
}

// Merge adds the rows of o.
func (c *ColumnStats) Merge(o ColumnStats) {
	a, b := float64(c.N-c.Missing), float64(o.N-o.Missing)
	c.N, c.Missing = c.N+o.N, c.Missing+o.Missing
	if b == 0 {
		return
	}
	if a == 0 {
		c.Center, c.Scale = o.Center, o.Scale
		return
	}
	if c.Center == o.Center && c.Scale == o.Scale {
		return
	}
	d, n := o.Center-c.Center, a+b
	c.Center += d * (b / n)
	within := math.Hypot(c.Scale*math.Sqrt(a/n), o.Scale*math.Sqrt(b/n))
	c.Scale = math.Hypot(within, d*math.Sqrt(a*b)/n)
}

// Less is c without the rows of o, with which it began.
func (c ColumnStats) Less(o ColumnStats) ColumnStats {
	n, m := float64(c.N-c.Missing), float64(o.N-o.Missing)
	r := ColumnStats{N: c.N - o.N, Missing: c.Missing - o.Missing}
	k := n - m
	if !(k > 0) {
		return r
	}
	r.Center, r.Scale = c.Center, c.Scale
	if m > 0 {
		r.Center += (c.Center - o.Center) * (m / k)
		d := r.Center - o.Center
		r.Scale = math.Sqrt(math.Max(0, (n*c.Scale*c.Scale-m*o.Scale*o.Scale)/k-d*d*(m/n)))
	}
	return r
}

// Schema describes the columns of rows, in their order: of a STRUCT by name, of a list of numbers
// its places '1', '2', ... It is immutable; rows of equal columns share it.
type Schema struct {
	Names  []string
	Levels []bool   // by column: whether it has levels instead of numbers
	Parts  []string // by column: FitColumn.Parts; nil without interactions
	Open   []bool   // by column: whether it holds features of other names, which are not Levels; nil for none
}

// Len is the number of columns.
func (s *Schema) Len() int {
	if s == nil {
		return 0
	}
	return len(s.Names)
}

// kind is the kind of column k.
func (s *Schema) kind(k int) string {
	switch {
	case k < len(s.Open) && s.Open[k]:
		return FeaturesColumn
	case s.Levels[k]:
		return LevelsColumn
	}
	return NumberColumn
}

// Numbers reports whether one of the columns has numbers.
func (s *Schema) Numbers() bool { return s != nil && slices.Contains(s.Levels, false) }

// ColumnCounts is the number of rows of each column, and of those without a value there. The zero
// value has no columns.
type ColumnCounts struct {
	cols    []FitColumn // of earlier rows
	schema  *Schema     // of n later ones
	n       int64
	missing []int64 // of these, by column; shorter if there are none
}

// Schema is that of the latest rows, nil if none had any.
func (c *ColumnCounts) Schema() *Schema { return c.schema }

// CountFrom continues with the columns of a fit, which must not change.
func CountFrom(cols []FitColumn) ColumnCounts { return ColumnCounts{cols: cols} }

// Add counts the rows of b.
func (c *ColumnCounts) Add(b *Batch) {
	if b.Schema == nil {
		return
	}
	if c.schema != b.Schema {
		if c.schema != nil {
			*c = ColumnCounts{cols: c.Columns()}
		}
		c.schema = b.Schema
	}
	c.n += int64(b.Len())
	c.addMissing(b.Missing)
}

func (c *ColumnCounts) addMissing(missing []int64) {
	for k, n := range missing {
		if n == 0 {
			continue
		}
		for len(c.missing) <= k {
			c.missing = append(c.missing, 0)
		}
		c.missing[k] += n
	}
}

// Remove takes back row i of b, whose rows Add counted and whose features are those of d.
func (c *ColumnCounts) Remove(b *Batch, i int, d *Dict) {
	if b.Schema == nil {
		return
	}
	c.n--
	fs, xs := b.Entries(i)
	for k, n := range b.Missing {
		if n == 0 || k >= len(c.missing) || c.missing[k] == 0 {
			continue
		}
		has := false
		for e, id := range fs {
			name := string(d.Name(id))
			if b.Schema.Levels[k] {
				has = has || d.LevelColumn(id) == b.Schema.Names[k] && name != b.Schema.Names[k]+IsNull
			} else {
				has = has || name == b.Schema.Names[k] && xs[e] == xs[e]
			}
		}
		if !has {
			c.missing[k]--
		}
	}
}

// Merge counts the rows of o beyond those of start, nil for none, with which both began.
// Errors: columns of one name but different kinds; c is unchanged then.
func (c *ColumnCounts) Merge(o *ColumnCounts, start *Fit) error {
	alike := len(c.cols) == len(o.cols) && (len(c.cols) == 0 || &c.cols[0] == &o.cols[0])
	if alike && (o.schema == nil || c.schema == nil || c.schema == o.schema) {
		if o.schema != nil {
			c.schema = o.schema
		}
		c.n += o.n
		c.addMissing(o.missing)
		return nil
	}
	f := Fit{Columns: c.Columns()}
	if start == nil {
		start = &Fit{}
	}
	if err := f.addColumns(&Fit{Columns: o.Columns()}, start); err != nil {
		return err
	}
	*c = ColumnCounts{cols: f.Columns}
	return nil
}

// Clone returns an independent copy.
func (c *ColumnCounts) Clone() ColumnCounts { return c.CloneTo(ColumnCounts{}) }

// CloneTo is Clone in the memory of old, which is no longer used.
func (c *ColumnCounts) CloneTo(old ColumnCounts) ColumnCounts {
	d := *c
	d.missing = append(old.missing[:0], c.missing...)
	return d
}

// Numbers reports whether there is a numeric column.
func (c *ColumnCounts) Numbers() bool { return c.schema.Numbers() || len(c.cols) > 0 }

// Columns returns the columns as a fit records them, nil for none; centers, scales and variances of
// new ones are not known yet.
func (c *ColumnCounts) Columns() []FitColumn {
	if c.schema == nil {
		return slices.Clone(c.cols)
	}
	out := make([]FitColumn, len(c.cols), max(len(c.cols), len(c.schema.Names)))
	copy(out, c.cols)
	nan := math.NaN()
	var of map[string]int // by name, if the earlier rows had others
	for k, name := range c.schema.Names {
		missing := int64(0)
		if k < len(c.missing) {
			missing = c.missing[k]
		}
		at := k
		if at >= len(out) || out[at].Name != name {
			if of == nil && len(c.cols) > 0 {
				of = make(map[string]int, len(out))
				for j := range out {
					of[strings.ToLower(out[j].Name)] = j + 1
				}
			}
			at = of[strings.ToLower(name)] - 1
		}
		if at < 0 {
			at = len(out)
			parts := ""
			if c.schema.Parts != nil {
				parts = c.schema.Parts[k]
			}
			out = append(out, FitColumn{Name: name, Kind: c.schema.kind(k), Parts: parts, Center: nan, Scale: nan, Variance: nan})
		}
		out[at].N += c.n
		out[at].Missing = min(out[at].Missing+missing, out[at].N)
	}
	return out
}

// Replacement is the replacement of a missing number of a feature: the mean of its column or, for an
// interaction with levels, that of the number; but 0 if rows that lacked one were learnt without
// it. has reports whether there is a belief about a feature.
func (f *Fit) Replacement(feature string, has func(feature string) bool) float64 {
	if c := f.Number(feature); c != nil {
		if !math.IsNaN(c.Center) && (c.Missing == 0 && !f.LearntAbsent() || has(feature+IsNull)) {
			return c.Center
		}
		return 0
	}
	for k := range f.Columns {
		c := &f.Columns[k]
		if level, ok := strings.CutPrefix(feature, c.Name); ok && isLevel([]byte(level)) {
			if mean, ok := f.crossedMean(c); ok {
				return mean
			}
		}
	}
	return 0
}

// IgnoresIndicator reports whether a feature without a belief contributes nothing: a missing-value
// indicator, if rows that lacked the value were learnt without it. With HashBits a feature is the
// name of its slot.
func (f *Fit) IgnoresIndicator(feature []byte) bool {
	if f.HashBits > 0 {
		var room [24]byte
		return slices.ContainsFunc(f.Columns, func(c FitColumn) bool {
			return f.trainedWithout(&c) && !f.lacksIndicator(&c) &&
				bytes.Equal(feature, AppendSlot(room[:0], SlotOf([]byte(c.Name+IsNull), f.HashBits)))
		})
	}
	column, ok := bytes.CutSuffix(feature, []byte(IsNull))
	return ok && slices.ContainsFunc(f.Columns, func(c FitColumn) bool {
		return c.Name == string(column) && f.trainedWithout(&c)
	})
}

// LacksIndicator reports whether a feature, by its own name, is a missing-value indicator that no
// row to score has under HashBits, where its slot may be that of another feature.
func (f *Fit) LacksIndicator(feature string) bool {
	if f.HashBits == 0 {
		return false
	}
	column, ok := strings.CutSuffix(feature, IsNull)
	return ok && slices.ContainsFunc(f.Columns, func(c FitColumn) bool {
		return c.Name == column && f.lacksIndicator(&c)
	})
}

func (f *Fit) lacksIndicator(c *FitColumn) bool { return f.LearntAbsent() || c.Mixed() }

// trainedWithout reports whether rows without a value of c were learnt without it, or without the
// level of an interaction.
func (f *Fit) trainedWithout(c *FitColumn) bool {
	if !c.Mixed() || !f.filled(c) {
		return c.Missing > 0 || f.LearntAbsent() || c.Mixed() && !f.hasCentredInteraction(c)
	}
	parts, _ := SplitParts(c.Parts)
	return !f.hasCentredInteraction(c) || slices.ContainsFunc(parts, func(p ColumnPart) bool {
		u := plainColumn(f.Columns, p.Name)
		return p.Kind != NumberColumn && (u == nil || u.Missing > 0)
	})
}
