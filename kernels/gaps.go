package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Gaps are the interactions in which a number can be missing, by name: it is replaced by the row's
// value in the number's own column, or by that column's mean if this is missing, too. The zero Gaps
// have none.
type Gaps map[string][]uint32

// GapsOf returns the Gaps of columns whose features are numbered by d: each interaction whose
// numbers also have columns of their own, with these. Names that share slots have none.
//
// Cost: a lookup for each number of an interaction.
func GapsOf(cols []FitColumn, d *Dict) (g Gaps) {
	if d.HashBits > 0 {
		return nil
	}
	for k := range cols {
		ids := []uint32{}
		for _, name := range plainNumbers(cols, &cols[k]) {
			if id, ok := d.Find(name); ok && d.NumberPlace(id) < math.MaxInt {
				ids = append(ids, id)
			} else {
				ids = nil
				break
			}
		}
		if len(ids) == 0 {
			continue
		}
		if g == nil {
			g = Gaps{}
		}
		g[cols[k].Name] = ids
	}
	return g
}

// plainNumbers returns the numbers of an interaction (one if it has levels) by the names of their
// own columns; nil if one has none.
func plainNumbers(cols []FitColumn, c *FitColumn) (names []string) {
	parts, ok := SplitParts(c.Parts)
	if !ok {
		return nil
	}
	for _, p := range parts {
		if p.Kind != NumberColumn {
			continue
		}
		u := plainColumn(cols, p.Name)
		if u == nil || u.Kind != NumberColumn {
			return nil
		}
		names = append(names, u.Name)
	}
	if c.Mixed() && len(names) > 1 {
		return nil
	}
	return names
}

// Fills reports whether a missing number in c, an interaction of f, is replaced by that of its own
// column.
func (f *Fit) Fills(c *FitColumn) bool { return f.HashBits == 0 && len(plainNumbers(f.Columns, c)) > 0 }

// Of returns the features whose product replaces feature id if it is missing, nil for none.
func (g Gaps) Of(d *Dict, id uint32) []uint32 {
	if len(g) == 0 {
		return nil
	}
	if column := d.LevelColumn(id); column != "" {
		return g[column]
	}
	name := string(d.Name(id))
	of := g[name]
	for end := strings.LastIndexByte(name, '='); of == nil && end >= 0; end = strings.LastIndexByte(name[:end], '=') {
		of = g[name[:end]]
	}
	return of
}

// Value is the product of the values that the features in of have in a row of features fs, numbered
// by ids unless that is nil, and values xs; mean replaces those that the row lacks.
func (g Gaps) Value(of, fs []uint32, xs []float64, ids []uint32, mean func(id uint32) float64) float64 {
	v := 1.0
	for _, u := range of {
		x := math.NaN()
		for e, f := range fs {
			if ids != nil {
				f = ids[f]
			}
			if f == u {
				x = xs[e]
				break
			}
		}
		if x != x {
			x = mean(u)
		}
		v *= x
	}
	return v
}

// WithoutGaps is b, whose features are numbered by d, with 0 for missing values of interactions of
// levels and numbers: for callers that do not know the replacements yet.
func (b *Batch) WithoutGaps(d *Dict) *Batch {
	if b.Schema == nil || b.Schema.Parts == nil || len(b.Missing) == 0 || len(b.Columns) > 0 {
		return b
	}
	out := *b
	for i := range b.Len() {
		fs, xs := b.Entries(i)
		for e, x := range xs {
			if x == x || d.NumberPlace(fs[e]) < math.MaxInt {
				continue
			}
			if &out.Value[0] == &b.Value[0] {
				out.Value = slices.Clone(b.Value)
			}
			_, own := out.Entries(i)
			own[e] = 0
		}
	}
	return &out
}

// KeepFilled records in f, which m has learnt, the interactions in whose rows Gaps have replaced
// missing numbers, except those for which the fit that m continues learnt such rows differently.
func (f *Fit) KeepFilled(m *Model) {
	if m.Options.Missing != "indicator" {
		return
	}
	for k := range f.Columns {
		if c := &f.Columns[k]; c.Missing > 0 && f.Fills(c) && !f.filled(c) && !m.Start.interactionDropped(c.Name) {
			f.Keep(KeptFilledOf(c.Name), 1, 0)
		}
	}
}

// interactionDropped reports whether f, nil for none, has learnt rows that lacked a number of an
// interaction without it.
func (f *Fit) interactionDropped(name string) bool {
	return f != nil && slices.ContainsFunc(f.Columns, func(c FitColumn) bool {
		return c.Missing > 0 && strings.EqualFold(c.Name, name) && !f.filled(&c) && !f.hasCentredInteraction(&c)
	})
}

// filled reports whether rows that lacked a number of c, an interaction, were learnt with its
// replacement.
func (f *Fit) filled(c *FitColumn) bool {
	_, _, ok := f.Kept(KeptFilledOf(c.Name))
	return ok
}

// GapNote is the note on rows that lacked a number of an interaction and were learnt by m, which
// has a weight for missing values, as if they had no weight there; "" for none.
func (f *Fit) GapNote(m *Model) string {
	if m.Options.Missing != "indicator" {
		return ""
	}
	for k := range f.Columns {
		c := &f.Columns[k]
		if c.Parts == "" || c.Missing == 0 || f.filled(c) || f.hasCentredInteraction(c) {
			continue
		}
		parts, _ := SplitParts(c.Parts)
		var numbers, gone []string // of the parts, and those that rows lack
		levels := int64(0)         // rows that lack a level, which has a weight of its own there
		for _, p := range parts {
			u := plainColumn(f.Columns, p.Name)
			switch {
			case p.Kind == NumberColumn:
				if numbers = append(numbers, p.Name); u != nil && u.Missing > 0 {
					gone = append(gone, p.Name)
				}
			case u != nil:
				levels += u.Missing
			}
		}
		if len(gone) == 0 {
			gone = numbers
		}
		rows := "rows without " + strings.Join(gone, " or ") + " were learnt "
		switch {
		case c.Kind == NumberColumn && len(plainNumbers(f.Columns, c)) == 0: // a number like any other
		case c.Kind == NumberColumn && f.HashBits == 0:
			return rows + fmt.Sprintf("with %s at its mean, although parts of it are known there; methods that keep the rows use those", c.Name)
		case c.Kind == NumberColumn || c.Mixed() && levels < c.Missing:
			return rows + fmt.Sprintf("as if %s had no weight there", c.Name)
		}
	}
	return ""
}
