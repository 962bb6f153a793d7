package export

import "strings"

// parts are the columns after which an interaction is named, if the fit also has all of them
// separately: a and b for a:b. nil for others.
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
	if levels == c.number { // another column with such a name
		return nil
	}
	return out
}

// mixed reports whether the column is an interaction of levels and numbers, named after its
// columns: its levels then consist of fewer values than there are names.
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

// scaled reports whether the column is an interaction of levels and numbers, judging by its name.
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

// valuesOf splits the level of an interaction into its values, which colons separate; a backslash
// escapes a colon within a value.
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
