package kernels

import (
	"fmt"
	"testing"
	"time"
)

func said(f *Fit) string {
	if m := f.Mixed(); m != nil {
		return m.String()
	}
	return ""
}

// Numbers with a few texts among them are said; codes that are all digits, a few numbers
// and many texts are not.
func TestMixedNote(t *testing.T) {
	for _, c := range []struct {
		numbers int
		texts   []string
		want    string
	}{
		{40, []string{"NA"}, "column u was learnt as levels: its texts are numbers but for 'NA'"},
		{20, []string{"-", "n'a", "nan"}, "column u was learnt as levels: its texts are numbers but for '-', 'n''a', 'nan'"},
		{40, nil, ""},
		{5, []string{" n/A ", "?"}, "column u was learnt as levels: its texts are numbers but for ' n/A ', '?'"},
		{19, []string{"NA", "x"}, ""},
		{4, []string{"NA"}, ""},
		{40, []string{"a", "b", "c", "d"}, ""},
	} {
		f := &Fit{Columns: []FitColumn{{Name: "g", Kind: LevelsColumn}, {Name: "u", Kind: LevelsColumn}}}
		add := func(name string) { f.Beliefs = append(f.Beliefs, Belief{Feature: name}) }
		add(Intercept)
		add("g=x")
		add("u IS NULL")
		for k := range c.numbers {
			add(fmt.Sprintf("u=%g", float64(k)/4-2))
		}
		for _, s := range c.texts {
			add("u=" + s)
		}
		if got := said(f); got != c.want {
			t.Errorf("%d numbers and %q: %q, want %q", c.numbers, c.texts, got, c.want)
		}
		f.Columns[1].Kind = NumberColumn
		if got := said(f); got != "" {
			t.Errorf("a column of numbers: %q", got)
		}
	}
}

// Of an interaction the column that has the texts is named; where several have, none is.
func TestMixedNoteOfParts(t *testing.T) {
	for parts, want := range map[string]string{
		"number b, levels a": "column a was learnt as levels: its texts are numbers but for 'NA'",
		"levels b, levels a": "",
	} {
		f := &Fit{Columns: []FitColumn{{Name: "b:a", Kind: LevelsColumn, Parts: parts}}, Beliefs: []Belief{{Feature: "b:a=NA"}}}
		for k := range 30 {
			f.Beliefs = append(f.Beliefs, Belief{Feature: fmt.Sprint("b:a=", k)})
		}
		if got := said(f); got != want {
			t.Errorf("%s: %q", parts, got)
		}
	}
}

// Levels that are numbers, nearly one a row, are said; codes that come again are not.
func TestNumbersAsLevels(t *testing.T) {
	for rows, is := range map[int64]bool{200: true, 220: true, 300: false, 100_000: false} {
		f := &Fit{Columns: []FitColumn{{Name: "u", Kind: LevelsColumn, N: rows}}}
		for k := range 200 {
			f.Beliefs = append(f.Beliefs, Belief{Feature: fmt.Sprint("u=", k)})
		}
		want := ""
		if is {
			want = "column u was learnt as levels: its texts are 200 numbers, nearly one for each row"
		}
		if got := said(f); got != want {
			t.Errorf("%d rows: %q", rows, got)
		}
	}
}

// Numbers with a decimal comma, parted thousands, or the sign of a currency or a share are
// said; codes and few levels are not.
func TestDressedNote(t *testing.T) {
	const point, comma, either = "point", "comma", "either"
	for _, c := range []struct {
		levels func(k int) string
		n      int
		want   string // before the decimals
		as     string
	}{
		{func(k int) string { return fmt.Sprintf("%d,5", k) }, 20, comma, "0,5"},
		{func(k int) string { return fmt.Sprintf("%d,5", k) }, 19, "", ""},
		{func(k int) string { return fmt.Sprintf("%d%%", k) }, 40, point, "0%"},
		{func(k int) string { return fmt.Sprintf("%d.5 %%", k) }, 40, point, "0.5 %"},
		{func(k int) string { return fmt.Sprintf("$%d,%03d.50", k+1, k) }, 40, point, "$1,000.50"},
		{func(k int) string { return fmt.Sprintf("-$%d.50", k+1) }, 40, point, "-$1.50"},
		{func(k int) string { return fmt.Sprintf("%d,%03d", k+1, k) }, 40, either, "1,000"},
		{func(k int) string { return fmt.Sprintf("%d,%03d", k%3, k) }, 40, comma, "0,000"},
		{func(k int) string { return fmt.Sprintf("-0,%03d", k) }, 40, comma, "-0,000"},
		{func(k int) string { return fmt.Sprintf("%d,%03d", 990+k, k) }, 40, comma, "990,000"},
		{func(k int) string { return fmt.Sprintf("%d,%03d,000", k+1, k) }, 40, point, "1,000,000"},
		{func(k int) string { return fmt.Sprintf("%d.%03d,50 €", k+1, k) }, 40, comma, "1.000,50 €"},
		{func(k int) string { return fmt.Sprintf("1.%03d.%03d", k, k) }, 40, comma, "1.000.000"},
		{func(k int) string { return fmt.Sprintf("%d\u00a0%03d,5", k+1, k) }, 40, comma, "1\u00a0000,5"},
		{func(k int) string { return fmt.Sprintf("%d'%03d CHF", k+1, k) }, 40, point, "1''000 CHF"},
		{func(k int) string { return fmt.Sprintf("%d,%02d,%03d", k+1, k, k) }, 40, point, "1,00,000"},
		{func(k int) string { return fmt.Sprintf("%d’%03d.50", k+1, k) }, 40, point, "1’000.50"},
		{func(k int) string { return fmt.Sprintf("%d,50\u00a0€", k) }, 40, comma, "0,50\u00a0€"},
		{func(k int) string { return fmt.Sprintf("%d,50 kr", k) }, 40, comma, "0,50 kr"},
		{func(k int) string { return fmt.Sprintf("R$ %d.%03d,50", k+1, k) }, 40, comma, "R$ 1.000,50"},
		{func(k int) string { return fmt.Sprintf("+%d.5", k) }, 40, point, "+0.5"},
		{func(k int) string { return fmt.Sprintf("+4930%08d", k) }, 40, "", ""},
		{func(k int) string { return fmt.Sprintf(" %d.5", k) }, 40, point, " 0.5"},
		{func(k int) string { return fmt.Sprintf("%d   ", k) }, 40, "", ""}, // codes of a column of fixed width
		{func(k int) string { return fmt.Sprintf("-$-%d.5", k) }, 40, "", ""},
		{func(k int) string { return []string{"n.a.", "?"}[k%2] }, 2, "", ""},
		{func(k int) string { return fmt.Sprintf("%d-%d", k, k) }, 40, "", ""},
		{func(k int) string { return fmt.Sprintf("A%d", k) }, 40, "", ""},
		{func(k int) string { return fmt.Sprintf("ORD%d", k) }, 0, "", ""},
		{func(k int) string { return fmt.Sprint(k) }, 40, "", ""}, // codes that were made text
	} {
		f := &Fit{Columns: []FitColumn{{Name: "g", Kind: LevelsColumn}, {Name: "u", Kind: LevelsColumn}}, Beliefs: []Belief{{Feature: Intercept}, {Feature: "g=x"}, {Feature: "u IS NULL"}}}
		for k := range c.n {
			f.Beliefs = append(f.Beliefs, Belief{Feature: "u=" + c.levels(k)})
		}
		want := ""
		if c.want != "" {
			want = "column u was learnt as levels: its texts are numbers written as '" + c.as + "'"
		}
		if got := said(f); got != want {
			t.Errorf("%q: %q, want %q", c.levels(0), got, want)
		}
		if m := f.Mixed(); m != nil && (m.Comma != (c.want == comma) || m.Either != (c.want == either)) {
			t.Errorf("%q: a comma is %v, or either %v", c.levels(0), m.Comma, m.Either)
		}
		// A few texts among them change nothing, many do.
		for i, text := range []string{"NA", "-", "x", "y"} {
			f.Beliefs = append(f.Beliefs, Belief{Feature: "u=" + text})
			if got := said(f); want != "" && (got == want) != (i < 3) {
				t.Errorf("%q and %d texts: %q", c.levels(0), i+1, got)
			}
		}
	}
}

// Signs of negative numbers that a cast does not know are told, and decimals behind commas and
// points in one column.
func TestDressedSigns(t *testing.T) {
	for _, c := range []struct {
		levels      []string
		sign, point bool
	}{
		{[]string{"%d,5", "-%d,25"}, false, false},
		{[]string{"%d,5", "%d.250"}, false, false}, // which may be parted
		{[]string{"%d,5", "%d.5"}, false, true},
		{[]string{"%d,5", "0.%d50"}, false, true},
		{[]string{"%d,5", "1,000.%d"}, false, true},
		{[]string{"%d,5", "1.%02[1]d0.%02[1]d0"}, false, false},
		{[]string{"%d,5", "$%d.5"}, false, true},
		{[]string{"%d.5", "$%d.5"}, false, false},
		{[]string{"%d,5", "(%d,25)"}, true, false},
		{[]string{"%d.5", "($%d.25)"}, true, false},
		{[]string{"%d.5", "%d.25-"}, true, false},
		{[]string{"%d.5", "−%d.25"}, true, false},
		{[]string{"%d.5", "€ −%d.25"}, true, false},
	} {
		f := &Fit{Columns: []FitColumn{{Name: "u", Kind: LevelsColumn}}}
		for k := range 40 {
			f.Beliefs = append(f.Beliefs, Belief{Feature: "u=" + fmt.Sprintf(c.levels[k%2], k)})
		}
		if m := f.Mixed(); m == nil || m.Sign != c.sign || m.Point != c.point {
			t.Errorf("%q: %+v", c.levels, m)
		}
	}
}

// Hundreds of days as levels are said; a year's quarter of them is not.
func TestDaysNote(t *testing.T) {
	for n, want := range map[int]string{
		90:  "",
		100: "column u was learnt as 100 days, each a level of its own",
	} {
		f := &Fit{Columns: []FitColumn{{Name: "u", Kind: LevelsColumn}}}
		for k := range n {
			f.Beliefs = append(f.Beliefs, Belief{Feature: "u=" + time.Date(2021, 1, k, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)})
		}
		if got := said(f); got != want {
			t.Errorf("%d days: %q, want %q", n, got, want)
		}
	}
}

// Texts that are days in another format, or times, are said as well, with the format.
func TestTimesNote(t *testing.T) {
	for layout, want := range map[string]Mixed{
		"2006/01/02":                {Format: "%Y/%m/%d"},
		"02.01.2006":                {Format: "%d.%m.%Y"},
		"2.1.2006":                  {Format: "%d.%m.%Y"},
		"02/01/2006":                {Format: "%d/%m/%Y"},
		"1/2/2006":                  {Format: "%m/%d/%Y"},
		"02-01-2006":                {Format: "%d-%m-%Y"},
		"2006-01-02":                {},
		"2006-01-02 15:04:05.000":   {Times: true},
		"2006-01-02T15:04:05Z07:00": {Times: true},
		"2006-01-02 15:04":          {Times: true},
		"15:04:05 2006-01-02":       {Days: -1},
		"Jan 2 2006":                {Days: -1},
		"v2006.1.2":                 {Days: -1},
	} {
		for n, many := range map[int]bool{99: false, 130: true} {
			f := &Fit{Columns: []FitColumn{{Name: "u", Kind: LevelsColumn}}}
			for k := range n {
				f.Beliefs = append(f.Beliefs, Belief{Feature: "u=" + time.Date(2021, 1, k, k%24, k%60, 0, 0, time.UTC).Format(layout)})
			}
			m := f.Mixed()
			if !many || want.Days < 0 {
				if m != nil {
					t.Errorf("%d of %s: %+v", n, layout, m)
				}
				continue
			}
			if m == nil || m.Days != n || m.Format != want.Format || m.Times != want.Times {
				t.Errorf("%d of %s: %+v, want %+v", n, layout, m, want)
			}
		}
	}
}
