package engine

import (
	"fmt"
	"testing"

	"github.com/bglm/bglm/kernels"
)

// Numbers with a few texts among them are said; codes that are all digits, a few numbers
// and many texts are not.
func TestMixed(t *testing.T) {
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
		f := &kernels.Fit{Columns: []kernels.FitColumn{{Name: "g", Kind: kernels.LevelsColumn}, {Name: "u", Kind: kernels.LevelsColumn}}}
		add := func(name string) { f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: name}) }
		add(kernels.Intercept)
		add("g=x")
		add("u IS NULL")
		for k := range c.numbers {
			add(fmt.Sprintf("u=%g", float64(k)/4-2))
		}
		for _, s := range c.texts {
			add("u=" + s)
		}
		if got := mixed(f); got != c.want {
			t.Errorf("%d numbers and %q: %q, want %q", c.numbers, c.texts, got, c.want)
		}
		f.Columns[1].Kind = kernels.NumberColumn
		if got := mixed(f); got != "" {
			t.Errorf("a column of numbers: %q", got)
		}
	}
}
