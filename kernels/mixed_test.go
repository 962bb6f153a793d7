package kernels

import (
	"fmt"
	"testing"
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
		{19, []string{"NA"}, ""},
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
