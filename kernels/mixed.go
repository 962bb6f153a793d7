package kernels

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Levels of a column that is taken for numbers with a few texts among them: at least
// enoughNumbers that are numbers, at most fewTexts that are none; where these are words for
// a value that is missing, someNumbers are enough.
const (
	enoughNumbers = 20
	someNumbers   = 5
	fewTexts      = 3
)

// noValue says whether a text is what files have where a value is missing.
func noValue(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "na", "n/a", "#n/a", "nan", "null", "nil", "none", "missing", "unknown", "-", "--", "?", ".":
		return true
	}
	return false
}

// manyDays is how many days a column may have as levels before a status asks whether they are
// meant to be.
const manyDays = 100

// MixedNote says of the columns of levels of f which are numbers but for a few texts, such as
// 'NA' or '-', and how to read them, or are many days; "" for none.
func (f *Fit) MixedNote() string {
	type column struct {
		numbers, days int
		texts         []string
	}
	cols := map[string]*column{}
	for k := range f.Columns {
		if c := &f.Columns[k]; c.Kind == LevelsColumn {
			cols[c.Name] = new(column)
		}
	}
	if len(cols) == 0 {
		return ""
	}
	for k := range f.Beliefs {
		name, level, ok := strings.Cut(f.Beliefs[k].Feature, "=")
		c := cols[name]
		if !ok || c == nil {
			continue
		}
		if _, err := time.Parse(time.DateOnly, level); err == nil {
			c.days++
		}
		if len(c.texts) > fewTexts {
			continue
		}
		if _, err := strconv.ParseFloat(strings.TrimSpace(level), 64); err == nil && !isWord(level) {
			c.numbers++
		} else {
			c.texts = append(c.texts, level)
		}
	}
	for k := range f.Columns {
		name := f.Columns[k].Name
		c := cols[name]
		if c != nil && c.days >= manyDays {
			return fmt.Sprintf("column %s was learnt as %d days, each a level of its own: date_diff('day', DATE '2000-01-01', %s) makes a number of it, dayname(%s) or month(%s)::VARCHAR few levels", name, c.days, name, name, name)
		}
		if c == nil || len(c.texts) == 0 || len(c.texts) > fewTexts {
			continue
		}
		if c.numbers < someNumbers || c.numbers < enoughNumbers && slices.ContainsFunc(c.texts, func(t string) bool { return !noValue(t) }) {
			continue
		}
		quoted := make([]string, len(c.texts))
		for i, t := range c.texts {
			quoted[i] = fmt.Sprintf("'%.40s'", strings.ReplaceAll(t, "'", "''"))
		}
		return fmt.Sprintf("column %s was learnt as levels: its texts are numbers but for %s; TRY_CAST(%s AS DOUBLE), or nullstr = %s where a CSV file is read, makes numbers of them",
			name, strings.Join(quoted, ", "), name, quoted[0])
	}
	return ""
}

// isWord says whether a text that parses as a number is one of the words for none.
func isWord(s string) bool {
	s = strings.TrimLeft(strings.TrimSpace(s), "+-")
	return s == "" || (s[0] < '0' || s[0] > '9') && s[0] != '.'
}
