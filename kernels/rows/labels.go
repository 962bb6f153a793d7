package rows

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
)

// Sized is a Column that knows its number of entries.
type Sized interface{ Entries() int }

// readAhead is the number of texts that are inspected for an error message.
const readAhead = 100_000

// Advised is a Column that can say in its system's terms how to convert texts to numbers.
type Advised interface {
	Advice(m *kernels.Mixed) string
}

// howToRead says, for a column of texts where a fit has learnt numbers, what the texts are and how
// to convert them to numbers.
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

// shown is the number of values of a response that an error quotes.
const shown = 3

// Labels are the values of a response y that is text: all if they are few, sorted.
type Labels struct {
	Found   string         // the first values, for a message; "" for none
	Numbers bool           // all are numbers as text
	Mixed   *kernels.Mixed // all are numbers, except words for missing values or a few others
	One     string         // the last value, if there are at most two that are not numbers
}

// LabelsOf returns the labels among values, which may be those of some rows only.
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

// Quote returns a text in quotation marks, at most 40 bytes of it.
func Quote(v string) string {
	if len(v) > 40 {
		v = strings.ToValidUTF8(v[:40], "") + "..."
	}
	return "'" + strings.ReplaceAll(v, "'", "''") + "'"
}
