package rows

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
)

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		values string
		want   Labels
	}{
		{"yes no yes", Labels{Found: "'no' and 'yes'", One: "yes"}},
		{"it's", Labels{Found: "'it''s'", One: "it's"}},
		{"1 0 1", Labels{Found: "'0' and '1'", Numbers: true}},
		{"1.5 -2 3 4 5", Labels{Found: "'-2', '1.5', '3', ...", Numbers: true}},
		{"b a c", Labels{Found: "'a', 'b' and 'c'"}},
		{"", Labels{Found: ""}},
		{"1 x", Labels{Found: "'1' and 'x'", One: "x"}},
		{"0 1 NA 1", Labels{Found: "numbers but for 'NA'", Mixed: &kernels.Mixed{Column: "y", Texts: []string{"NA"}}}},
		{"0.5 1.5 2.5 3.5 - 4.5 NA", Labels{Found: "numbers but for '-', 'NA'", Mixed: &kernels.Mixed{Column: "y", Texts: []string{"-", "NA"}}}},
		{"0 1 maybe", Labels{Found: "'0', '1' and 'maybe'"}},
	} {
		if got := LabelsOf(slices.Values(strings.Fields(c.values))); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.values, got, c.want)
		}
	}
	if l := LabelsOf(slices.Values([]string{strings.Repeat("a", 50)})); len(l.Found) != 45 {
		t.Error(l.Found)
	}
}
