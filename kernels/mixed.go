package kernels

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A column of levels is suspected to be numbers with a few texts among them if at least
// enoughNumbers levels are numbers and at most fewTexts are not; if these are words for a missing
// value, someNumbers are enough.
const (
	enoughNumbers = 20
	someNumbers   = 5
	fewTexts      = 3
)

// Levels that are all numbers are suspected to be measurements if there are manyNumbers of them,
// and nearly one per row (nearlyAll): codes, years and places recur.
const (
	manyNumbers = 50
	nearlyAll   = 0.9
)

// noValue reports whether a text is one that files use for a missing value.
func noValue(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "na", "n/a", "#n/a", "nan", "null", "nil", "none", "missing", "unknown", "-", "--", "?", ".":
		return true
	}
	return false
}

// manyDays is the number of days, or times, that a column may have as levels before a status
// mentions it.
const manyDays = 100

// dayFormats are how texts write days, the first as a date is written; each is given as Go's layout
// and as that of strptime.
var dayFormats = [...][2]string{{"2006-1-2", ""}, {"2006/1/2", "%Y/%m/%d"}, {"2.1.2006", "%d.%m.%Y"}, {"2/1/2006", "%d/%m/%Y"}, {"1/2/2006", "%m/%d/%Y"}, {"2-1-2006", "%d-%m-%Y"}}

// dates counts the levels of a column that are days, by format, or times.
type dates struct {
	days         [len(dayFormats)]int
	times        int
	tried, found int
}

// triedInVain is the number of levels of which none was a day or a time after which no others are
// parsed, which takes long for a million codes.
const triedInVain = 1000

// add adds a level.
func (d *dates) add(level string) {
	const least, date = len("1/2/2006"), len(time.DateOnly)
	if len(level) < least || level[0] < '0' || level[0] > '9' || !strings.ContainsAny(level[1:5], "./-") {
		return // most levels are not
	}
	if d.tried++; d.tried > triedInVain && d.found == 0 {
		return
	}
	if len(level) > date {
		if _, err := time.Parse(time.DateOnly, level[:date]); err == nil && (level[date] == ' ' || level[date] == 'T') && len(level) >= date+len(" 15:04") && level[date+3] == ':' {
			d.times++
			d.found++
		}
		return
	}
	for k, f := range dayFormats {
		if _, err := time.Parse(f[0], level); err == nil {
			d.days[k]++
			d.found++
		}
	}
}

// many returns the number of days and how they are written, or of times; 0 for few.
func (d *dates) many() (n int, format string, times bool) {
	for k, days := range d.days {
		if days >= manyDays && days > n {
			n, format = days, dayFormats[k][1]
		}
	}
	if d.times >= manyDays && d.times > n {
		return d.times, "", true
	}
	return n, format, false
}

// dressed matches numbers as people write them: with a currency sign or its letters, a percent
// sign, separators of thousands, a decimal comma, a trailing minus.
var dressed = regexp.MustCompile(`^'?([-+−]?)` + currency + blank + `?([-+−]?)(\d+|\d{1,3}(?:(?:[.,'’]|` + blank + `)\d{3})+|\d{1,2}(?:,\d{2})+,\d{3})([.,]\d+)?` + blank + `?(?:%|` + currency + `)(-?)$`)

const (
	currency = `(?:[A-Z]{0,2}\p{Sc}|[A-Z]{3}|kr|Kč|zł|Rs)?`
	blank    = `[\s\x{a0}\x{2009}\x{202f}]`
)

// numberFormat describes how the numbers of a column are written.
type numberFormat struct {
	numbers int
	example string // the first one, in the order of the levels
	comma   bool   // decimal
	parted  bool   // commas separate thousands
	either  bool   // a comma before three digits, which alone is ambiguous
	point   bool   // decimal, in a number without other signs
	sign    bool   // of negative numbers: one that a cast does not know, or brackets
}

// add adds a level; false if it is not such a number, or one in plain notation.
func (d *numberFormat) add(level string) bool {
	bare := strings.TrimSpace(level)
	if bare == "" || 'a' <= bare[0] && bare[0] <= 'z' || !strings.ContainsAny(bare, "0123456789") {
		return false // most levels are not, and matching would be slow to find that
	}
	inner, open := strings.CutPrefix(bare, "(")
	if inner, closed := strings.CutSuffix(inner, ")"); open && closed {
		bare = inner
	}
	m := dressed.FindStringSubmatch(bare)
	if m == nil || m[1] != "" && m[2] != "" {
		return false
	}
	d.numbers++
	if d.example == "" {
		d.example = level
	}
	whole, decimals := m[3], m[4]
	d.sign = d.sign || open || m[1] == "−" || m[2] == "−" || m[5] != ""
	// 1,234 is ambiguous: a comma is decimal if the digits after it are not three, if before it
	// there are a zero or more digits than a group of thousands has, or if points separate the
	// thousands.
	if strings.HasPrefix(decimals, ",") && (len(decimals) != 4 || whole[0] == '0' || len(whole) > 3) || strings.Count(whole, ".") > 1 {
		d.comma = true
	}
	d.either = d.either || strings.HasPrefix(decimals, ",")
	d.parted = d.parted || strings.Contains(whole, ",")
	d.decimals(whole + decimals)
	d.point = d.point || strings.HasPrefix(decimals, ".") && strings.Contains(whole, ",")
	return true
}

// decimals records a point that does not separate thousands.
func (d *numberFormat) decimals(number string) {
	before, after, _ := strings.Cut(strings.TrimLeft(number, "+-"), ".")
	parts := len(after) == 3 && len(before) <= 3 && !strings.HasPrefix(before, "0")
	d.point = d.point || strings.Count(number, ".") == 1 && !parts && !strings.ContainsAny(number, ",eE")
}

// isBare reports whether a number is in plain notation, without a plus or spaces around decimals.
func isBare(level string) bool {
	const ofCodes = 8 // as telephone numbers have
	number := strings.TrimSpace(level)
	return (number[0] != '+' || len(number) >= ofCodes) && (number == level || !strings.Contains(number, "."))
}

// Mixed is a column of texts that may have been meant as numbers.
type Mixed struct {
	Column  string
	Texts   []string // all others are numbers
	Written string   // or all are numbers written like this one,
	Comma   bool     // with a decimal comma,
	Either  bool     // or one that may separate thousands instead,
	Point   bool     // in addition to some with a decimal point;
	Sign    bool     // negative ones with a sign that a cast does not know, or in brackets
	Numbers int      // or this many numbers, nearly one for each row
	Days    int      // or this many days,
	Format  string   // written in this format of strptime, "" as dates are;
	Times   bool     // or times instead of days
}

// String says what was learnt.
func (m *Mixed) String() string {
	if m.Days > 0 {
		what := "days"
		if m.Times {
			what = "times"
		}
		return fmt.Sprintf("column %s was learnt as %d %s, each a level of its own", m.Column, m.Days, what)
	}
	return fmt.Sprintf("column %s was learnt as levels: %s", m.Column, m.Reading())
}

// Reading says what the texts are.
func (m *Mixed) Reading() string {
	switch {
	case m.Written != "":
		return "its texts are numbers written as " + quoted(m.Written)
	case m.Numbers > 0:
		return fmt.Sprintf("its texts are %d numbers, nearly one for each row", m.Numbers)
	case len(m.Texts) == 0:
		return "its texts are numbers"
	}
	texts := make([]string, len(m.Texts))
	for i, t := range m.Texts {
		texts[i] = quoted(t)
	}
	return "its texts are numbers but for " + strings.Join(texts, ", ")
}

// quoted returns a level in quotation marks, at most 40 bytes of it.
func quoted(level string) string {
	return fmt.Sprintf("'%.40s'", strings.ReplaceAll(level, "'", "''"))
}

// Mixed returns the first of the columns of levels of f that are numbers except for a few texts,
// such as 'NA' or '-', or for their notation, that are numbers nearly one for each row, or that are
// many days or times; nil for none.
func (f *Fit) Mixed() *Mixed {
	type column struct {
		numbers int
		dates
		numberFormat
		texts []string
	}
	if len(f.Beliefs) < min(someNumbers, enoughNumbers, manyNumbers, manyDays) {
		return nil // a small group
	}
	cols := map[string]*column{}
	for k := range f.Columns {
		if c := &f.Columns[k]; c.Kind == LevelsColumn && c.asLevels() != "" {
			cols[c.Name] = new(column)
		}
	}
	if len(cols) == 0 {
		return nil
	}
	for k := range f.Beliefs {
		feature, c, level := f.Beliefs[k].Feature, (*column)(nil), ""
		for i := strings.LastIndexByte(feature, '='); i >= 0 && c == nil; i = strings.LastIndexByte(feature[:i], '=') {
			c, level = cols[feature[:i]], feature[i+1:]
		}
		if c == nil {
			continue
		}
		c.dates.add(level)
		if len(c.texts) > fewTexts {
			continue
		}
		_, err := strconv.ParseFloat(strings.TrimSpace(level), 64)
		number := err == nil && !isWord(level)
		switch {
		case number && isBare(level):
			c.numbers++
			c.decimals(level)
		case c.numberFormat.add(level):
		case number:
			c.numbers++
		default:
			c.texts = append(c.texts, level)
		}
	}
	for k := range f.Columns {
		c := cols[f.Columns[k].Name]
		name := f.Columns[k].asLevels()
		if c == nil {
			continue
		}
		if n, format, times := c.many(); n > 0 {
			return &Mixed{Column: name, Days: n, Format: format, Times: times}
		}
		if len(c.texts) <= fewTexts && c.numberFormat.numbers > 0 && c.numbers+c.numberFormat.numbers >= enoughNumbers {
			return &Mixed{Column: name, Written: c.example, Comma: c.comma, Either: c.either && !c.comma && !c.parted, Point: c.comma && c.point, Sign: c.sign}
		}
		if of := &f.Columns[k]; len(c.texts) == 0 && c.numbers >= manyNumbers && float64(c.numbers) >= nearlyAll*float64(of.N-of.Missing) && of.N > of.Missing {
			return &Mixed{Column: name, Numbers: c.numbers}
		}
		if len(c.texts) == 0 || len(c.texts) > fewTexts {
			continue
		}
		if c.numbers < someNumbers || c.numbers < enoughNumbers && slices.ContainsFunc(c.texts, func(t string) bool { return !noValue(t) }) {
			continue
		}
		return &Mixed{Column: name, Texts: c.texts}
	}
	return nil
}

// asLevels is the name of the column whose texts are the levels of c: for an interaction, that of
// its only column of levels, "" if there are several.
func (c *FitColumn) asLevels() string {
	parts, ok := SplitParts(c.Parts)
	if !ok {
		return c.Name
	}
	name, n := "", 0
	for _, p := range parts {
		if p.Kind != NumberColumn {
			name, n = p.Name, n+1
		}
	}
	if n != 1 {
		return ""
	}
	return name
}

// TextNumbers returns the column of this name if its texts are numbers, all or all but a few; nil
// for others. named reports that these few are words for a missing value, or that the numbers are
// many.
func TextNumbers(name string, texts iter.Seq[string]) (m *Mixed, named bool) {
	numbers := map[string]bool{}
	var words []string
	for t := range texts {
		if _, err := strconv.ParseFloat(strings.TrimSpace(t), 64); err == nil && !isWord(t) {
			if len(numbers) < enoughNumbers {
				numbers[strings.Clone(t)] = true
			}
		} else if !slices.Contains(words, t) {
			if words = append(words, strings.Clone(t)); len(words) > fewTexts {
				return nil, false
			}
		}
	}
	if len(numbers) == 0 {
		return nil, false
	}
	slices.Sort(words)
	named = len(words) > 0 && (len(numbers) >= enoughNumbers || !slices.ContainsFunc(words, func(t string) bool { return !noValue(t) }))
	return &Mixed{Column: name, Texts: words}, named
}

// isWord reports whether a text that parses as a number is one of the words for a missing value.
func isWord(s string) bool {
	s = strings.TrimLeft(strings.TrimSpace(s), "+-")
	return s == "" || (s[0] < '0' || s[0] > '9') && s[0] != '.'
}
