package kernels

import (
	"fmt"
	"testing"
	"time"
)

// Numbers with a few texts among them are said; codes that are all digits, a few numbers
// and many texts are not.
func TestMixedNote(t *testing.T) {
	for _, c := range []struct {
		numbers int
		texts   []string
		want    string
	}{
		{40, []string{"NA"}, "column u was learnt as levels: its texts are numbers but for 'NA'; TRY_CAST(u AS DOUBLE), or nullstr = 'NA' where a CSV file is read, makes numbers of them"},
		{20, []string{"-", "n'a", "nan"}, "column u was learnt as levels: its texts are numbers but for '-', 'n''a', 'nan'; TRY_CAST(u AS DOUBLE), or nullstr = '-' where a CSV file is read, makes numbers of them"},
		{40, nil, ""},
		{5, []string{" n/A ", "?"}, "column u was learnt as levels: its texts are numbers but for ' n/A ', '?'; TRY_CAST(u AS DOUBLE), or nullstr = ' n/A ' where a CSV file is read, makes numbers of them"},
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
		if got := f.MixedNote(); got != c.want {
			t.Errorf("%d numbers and %q: %q, want %q", c.numbers, c.texts, got, c.want)
		}
		f.Columns[1].Kind = NumberColumn
		if got := f.MixedNote(); got != "" {
			t.Errorf("a column of numbers: %q", got)
		}
	}
}

// Hundreds of days as levels are said; a year's quarter of them is not.
func TestDaysNote(t *testing.T) {
	for n, want := range map[int]string{
		90:  "",
		100: "column u was learnt as 100 days, each a level of its own: date_diff('day', DATE '2000-01-01', u) makes a number of it, dayname(u) or month(u)::VARCHAR few levels",
	} {
		f := &Fit{Columns: []FitColumn{{Name: "u", Kind: LevelsColumn}}}
		for k := range n {
			f.Beliefs = append(f.Beliefs, Belief{Feature: "u=" + time.Date(2021, 1, k, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)})
		}
		if got := f.MixedNote(); got != want {
			t.Errorf("%d days: %q, want %q", n, got, want)
		}
	}
}
