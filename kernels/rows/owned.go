package rows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
)

// reservedNames are the names of the features of columns, which keys of a map or a list in the same
// rows must not have: the two would be one feature.
type reservedNames struct {
	of     map[kernels.Text]string // the column, by the name of its number or of its missing-value indicator
	ints   map[int64]string        // those of them that are whole numbers
	levels []string                // the prefixes, without '=', of the names of columns' levels
	dense  *term                   // the list of numbers, whose places are names; nil for none
	maybe  [64]uint64              // by a hash of length and first bytes: whether of may have the name
	first  [256]bool               // first bytes of levels, and of places
}

// findOwned returns the names of the columns' features, nil unless there are both keys and columns.
func (e *Encoder) findOwned() *reservedNames {
	keys := func(t term) bool { return t.kind == pairs }
	if !slices.ContainsFunc(e.terms, keys) || !slices.ContainsFunc(e.terms, func(t term) bool { return !keys(t) }) {
		return nil
	}
	o := &reservedNames{of: map[kernels.Text]string{}, ints: map[int64]string{}}
	for k := range e.terms {
		t := &e.terms[k]
		switch {
		case t.kind == dense:
			o.dense = t
			for c := '1'; c <= '9'; c++ {
				o.first[c] = true
			}
			continue
		case t.hasNamedFeatures():
			continue
		case t.leveled():
			o.levels = append(o.levels, t.name)
			o.first[(t.name + "=")[0]] = true
		default:
			o.add(t.name, t.name)
			if n, err := strconv.ParseInt(t.name, 10, 64); err == nil && strconv.FormatInt(n, 10) == t.name {
				o.ints[n] = t.name
			}
		}
		o.add(t.name+kernels.IsNull, t.name)
	}
	return o
}

func (o *reservedNames) add(name, column string) {
	t := kernels.NewText(name)
	o.of[t] = column
	h := t.Lo * 0x9e3779b97f4a7c15 >> 52
	o.maybe[h>>6] |= 1 << (h & 63)
}

// text returns what already has the name t, "" for nothing.
func (o *reservedNames) text(t *kernels.Text) string {
	h := t.Lo * 0x9e3779b97f4a7c15 >> 52
	if o.maybe[h>>6]&(1<<(h&63)) != 0 {
		if c, ok := o.of[*t]; ok {
			return fmt.Sprintf("column %q", c)
		}
	}
	if !o.first[byte(t.Lo>>32)] {
		return ""
	}
	s := t.String()
	for _, c := range o.levels {
		if len(s) > len(c) && s[len(c)] == '=' && strings.HasPrefix(s, c) {
			return fmt.Sprintf("levels of column %q", c)
		}
	}
	s, _ = strings.CutSuffix(s, kernels.IsNull)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
		return o.int(n)
	}
	return ""
}

func (o *reservedNames) int(n int64) string {
	if o.dense != nil && 0 < n && n <= int64(o.dense.wide) {
		return fmt.Sprintf("the list %q of numbers", o.dense.name)
	}
	if len(o.ints) > 0 {
		if c, ok := o.ints[n]; ok {
			return fmt.Sprintf("column %q", c)
		}
	}
	return ""
}

// refuseOwned reports a fault for rows with a key that is the name of a feature of another column,
// if the columns are those of a fit.
func (e *Encoder) refuseOwned() {
	if e.owned == nil || !e.as.learns && e.as.known == nil {
		return
	}
	for k := range e.terms {
		t := &e.terms[k]
		if t.kind != pairs {
			continue
		}
		row := 0
		for j := range t.id {
			for j >= t.off[row+1] {
				row++
			}
			var of string
			if t.exact {
				of = e.owned.int(t.i[j])
			} else {
				of = e.owned.text(&t.t[j])
			}
			if of != "" {
				e.fault(row, ErrValue{Err: fmt.Errorf("the key %q of column %q has a name of %s, with which it would be one feature; give one of them another name", e.keyOf(t, j), t.name, of)})
			}
		}
	}
}

// meeting is a column of levels and another one whose name begins with the first one's and '=': a
// level of the first that begins with rest can be a feature of the other.
type meeting struct {
	of, with *term
	rest     string // prefix of texts of of, before the '=' of with
}

// findMeetings returns the columns of levels whose features can coincide, none unless one of them
// has a name with '='.
func (e *Encoder) findMeetings() []meeting {
	var all []meeting
	for k := range e.terms {
		with := &e.terms[k]
		if with.hasNamedFeatures() || !with.leveled() || !strings.Contains(with.name, "=") {
			continue
		}
		for j := range e.terms {
			of := &e.terms[j]
			rest, ok := strings.CutPrefix(with.name, of.name+"=")
			if !ok || of.hasNamedFeatures() || !of.leveled() {
				continue
			}
			if of.whole {
				rest = with.name
			}
			all = append(all, meeting{of, with, rest})
		}
	}
	return all
}

// refuseMeetings reports a fault for rows with a level that may also be a feature of another column.
func (e *Encoder) refuseMeetings() {
	for _, m := range e.meetings {
		row := 0
		for j := range m.of.t {
			if m.of.several() {
				if j >= m.of.off[e.hi-e.lo] {
					break
				}
				for j >= m.of.off[row+1] {
					row++
				}
			} else if row = j; len(m.of.miss) > 0 && m.of.miss[j] {
				continue
			}
			s := m.of.t[j].String()
			if tail, ok := strings.CutPrefix(s, m.rest); ok && (strings.HasPrefix(tail, "=") || tail == kernels.IsNull) {
				e.fault(row, ErrValue{Err: fmt.Errorf("the level %q of column %q has a name of column %q, with which it would be one feature; give one of them another name", s, m.of.name, m.with.name)})
			}
		}
	}
}
