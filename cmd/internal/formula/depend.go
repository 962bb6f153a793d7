package formula

import (
	"slices"
	"strings"
)

// Uses reports whether a part is computed from a column of the rows, or is that column.
func (p Part) Uses(column string) bool {
	return mentions(strings.ToLower(p.SQL), strings.ToLower(column))
}

// Mentions reports whether SQL names a column of the rows.
func Mentions(sql, column string) bool { return Part{SQL: sql}.Uses(column) }

// Key is what makes two parts the same, whatever they are called.
func (p Part) Key() Part { return Part{SQL: p.SQL, Factor: p.Factor} }

// Parts are the different parts of all terms.
func (f *Formula) Parts() (out []Part) {
	for _, t := range f.Terms {
		for _, p := range t {
			if !slices.ContainsFunc(out, func(o Part) bool { return o.Key() == p.Key() }) {
				out = append(out, p)
			}
		}
	}
	return out
}

// With is f with the SQL of some parts, by their keys, replaced.
func (f *Formula) With(as map[Part]string) *Formula {
	g := *f
	g.Terms = nil
	for _, t := range f.Terms {
		t = slices.Clone(t)
		for k := range t {
			if sql, ok := as[t[k].Key()]; ok {
				t[k].SQL = sql
			}
		}
		g.Terms = append(g.Terms, t)
	}
	return &g
}
