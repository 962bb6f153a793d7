package rows

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
)

// Sized is a Column that knows how many entries it has.
type Sized interface{ Entries() int }

// readAhead is how many texts an error looks at.
const readAhead = 100_000

// Advised is a Column that can say in its system's words how to make numbers of texts.
type Advised interface {
	Advice(m *kernels.Mixed) string
}

// howToRead says of a column of texts, where numbers were learnt, what these are and how to make
// numbers of them.
func howToRead(c Column, kind string) string {
	s, ok := c.(Sized)
	if !ok || kind != kernels.NumberColumn || c.Kind() != Text {
		return ""
	}
	m, _ := kernels.TextNumbers(c.Name(), func(yield func(string) bool) {
		var t [1]kernels.Text
		for i := range min(s.Entries(), readAhead) {
			if c.MayNull() && c.Null(i) {
				continue
			}
			if c.Texts(t[:], i); !yield(t[0].String()) {
				return
			}
		}
	})
	if m == nil {
		return ""
	}
	if a, ok := c.(Advised); ok {
		return "; " + m.Reading() + "; " + a.Advice(m)
	}
	return "; " + m.Reading()
}

// shown is how many values of a response an error quotes.
const shown = 3

// Labels are the values of a response y that is text: all up to a few, sorted.
type Labels struct {
	Found   string         // the first of them, for a message; "" for none
	Numbers bool           // all are numbers as text
	Mixed   *kernels.Mixed // all but words that stand for no value, or but a few
	One     string         // of at most two that are not numbers, the last
}

// LabelsOf are the labels among values, which may be those of some rows.
func LabelsOf(values iter.Seq[string]) (l Labels) {
	if m, named := kernels.TextNumbers("y", values); named {
		return Labels{Found: strings.TrimPrefix(m.Reading(), "its texts are "), Mixed: m}
	}
	var all []string
	numbers := true
	for v := range values {
		if slices.Contains(all, v) {
			continue
		}
		_, err := strconv.ParseFloat(v, 64)
		numbers = numbers && err == nil
		if all = append(all, v); len(all) > shown {
			break
		}
	}
	if len(all) == 0 {
		return l
	}
	more := len(all) > shown
	all = all[:min(len(all), shown)]
	slices.Sort(all)
	quoted := make([]string, len(all))
	for i, v := range all {
		quoted[i] = Quote(v)
	}
	last := len(all) - 1
	l.Numbers = numbers
	if !numbers && !more && last < 2 {
		l.One = all[last]
	}
	switch l.Found = quoted[last]; {
	case more:
		l.Found = strings.Join(quoted, ", ") + ", ..."
	case last > 0:
		l.Found = strings.Join(quoted[:last], ", ") + " and " + l.Found
	}
	return l
}

// Quote is a text in quotation marks, at most 40 bytes of it.
func Quote(v string) string {
	if len(v) > 40 {
		v = strings.ToValidUTF8(v[:40], "") + "..."
	}
	return "'" + strings.ReplaceAll(v, "'", "''") + "'"
}
