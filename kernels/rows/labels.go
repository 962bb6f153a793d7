package rows

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// shown is how many values of a response an error quotes.
const shown = 3

// Labels are the values of a response y that is text: all up to a few, sorted.
type Labels struct {
	Found   string // the first of them, for a message; "" for none
	Numbers bool   // all are numbers as text
	One     string // of at most two that are not numbers, the last
}

// LabelsOf are the labels among values, which may be those of some rows.
func LabelsOf(values iter.Seq[string]) (l Labels) {
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
