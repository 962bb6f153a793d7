package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Gaps are the interactions in which a number can be missing, by their names: what stands for it there is what
// the row has in the number's own column, whose mean where it is missing too. The zero Gaps have none.
type Gaps map[string][]uint32

// GapsOf are those of columns whose features are numbered by d: each interaction whose numbers are columns by
// themselves too, with these. Names that share slots have none.
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

// plainNumbers are the numbers of an interaction, with levels one, by the names of their own columns; nil where one has
// none.
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

// Fills says whether what stands for a number that is missing in c, an interaction of f, is that of its own column.
func (f *Fit) Fills(c *FitColumn) bool { return f.HashBits == 0 && len(plainNumbers(f.Columns, c)) > 0 }

// Of are the features whose product stands where feature id is missing, nil for none.
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

// Value is what stands in a row of features fs, numbered by ids where that is not nil, and values xs for what is the
// product of features of; mean is that of each of these where the row lacks it.
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

// WithoutGaps is b, whose features are numbered by d, with 0 for what is missing in interactions of levels and numbers:
// for those who do not know yet what stands for it.
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

// KeepFilled notes in f, which m has learnt, the interactions of whose rows some lacked a number that Gaps stood for; not
// those of which the fit that m continues learnt such rows otherwise.
func (f *Fit) KeepFilled(m *Model) {
	if m.Options.Missing != "indicator" {
		return
	}
	for k := range f.Columns {
		if c := &f.Columns[k]; c.Missing > 0 && f.Fills(c) && !f.filled(c) && !m.Start.emptied(c.Name) {
			f.Keep(KeptFilledOf(c.Name), 1, 0)
		}
	}
}

// emptied says whether f, nil for none, has rows that lacked a number of an interaction and were learnt without it.
func (f *Fit) emptied(name string) bool {
	return f != nil && slices.ContainsFunc(f.Columns, func(c FitColumn) bool {
		return c.Missing > 0 && strings.EqualFold(c.Name, name) && !f.filled(&c) && !f.aboutMean(&c)
	})
}

// filled says whether rows that lacked a number of c, an interaction, were learnt by what stood for it.
func (f *Fit) filled(c *FitColumn) bool {
	_, _, ok := f.Kept(KeptFilledOf(c.Name))
	return ok
}

// GapNote is the sentence about rows that lacked a number of an interaction and were learnt by m, which has a weight for
// what is missing, as if they had no weight there; "" for none.
func (f *Fit) GapNote(m *Model) string {
	if m.Options.Missing != "indicator" {
		return ""
	}
	for k := range f.Columns {
		c := &f.Columns[k]
		if c.Parts == "" || c.Missing == 0 || f.filled(c) || f.aboutMean(c) {
			continue
		}
		parts, _ := SplitParts(c.Parts)
		var numbers, gone []string // of the parts, and those of which rows lack some
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
		case c.Kind == NumberColumn && len(plainNumbers(f.Columns, c)) == 0: // which is a number like another
		case c.Kind == NumberColumn && f.HashBits == 0:
			return rows + fmt.Sprintf("with %s at its mean, although parts of it are known there; methods that keep the rows use those", c.Name)
		case c.Kind == NumberColumn || c.Mixed() && levels < c.Missing:
			return rows + fmt.Sprintf("as if %s had no weight there", c.Name)
		}
	}
	return ""
}
