package rows

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// shown is how many values of a response an error quotes.
const shown = 3

// Labels says of a response y that is text what its values are, and what to write instead
// of it: the comparison with one of two values, or a cast of texts that are numbers. sql
// is "" where there are more than two values. The values may be those of some rows.
func Labels(y string, values iter.Seq[string]) (found, sql string) {
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
		return "", ""
	}
	more := len(all) > shown
	all = all[:min(len(all), shown)]
	slices.Sort(all)
	quoted := make([]string, len(all))
	for i, v := range all {
		quoted[i] = quote(v)
	}
	last := quoted[len(quoted)-1]
	switch {
	case numbers:
		sql = y + "::DOUBLE"
	case len(all) <= 2:
		sql = y + " = " + last
	}
	switch {
	case more:
		return strings.Join(quoted, ", ") + ", ...", sql
	case len(quoted) == 1:
		return last, sql
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " and " + last, sql
}

// quote is a text as SQL has it, at most 40 bytes of it.
func quote(v string) string {
	if len(v) > 40 {
		v = strings.ToValidUTF8(v[:40], "") + "..."
	}
	return "'" + strings.ReplaceAll(v, "'", "''") + "'"
}
