package export

import "strings"

// parts are the columns that an interaction is named after, where the fit has all of them by
// themselves: those of a:b. nil for others.
func (m *model) parts(c *column) []*column {
	names := strings.Split(c.name, ":")
	if len(names) < 2 {
		return nil
	}
	var out []*column
	levels := false
	for _, name := range names {
		var of *column
		for k := range m.columns {
			if q := &m.columns[k]; q != c && strings.EqualFold(q.name, name) {
				of = q
			}
		}
		if of == nil {
			return nil
		}
		out, levels = append(out, of), levels || !of.number
	}
	if levels == c.number { // another column that is called so
		return nil
	}
	return out
}

// mixed says whether the column is an interaction of levels and numbers, named after its
// columns: the values that its levels are made of are fewer than the names.
func (c *column) mixed() bool {
	if c.number {
		return false
	}
	names := strings.Count(c.name, ":") + 1
	for j := range c.levels {
		if len(valuesOf(c.levels[j].level)) < names {
			return names > 1
		}
	}
	return false
}

// scaled says whether the column is an interaction of levels and numbers, as far as its name
// tells.
func (m *model) scaled(c *column) bool {
	if c.number {
		return false
	}
	for _, q := range m.parts(c) {
		if q.number {
			return true
		}
	}
	return c.mixed()
}

// valuesOf are the values that the level of an interaction is made of: between colons, those
// inside of values being escaped by a backslash.
func valuesOf(level string) []string {
	out := []string{""}
	for k := 0; k < len(level); k++ {
		last := &out[len(out)-1]
		switch {
		case level[k] == '\\' && k+1 < len(level):
			k++
			*last += level[k : k+1]
		case level[k] == ':':
			out = append(out, "")
		default:
			*last += level[k : k+1]
		}
	}
	return out
}
