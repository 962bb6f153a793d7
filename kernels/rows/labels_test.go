package rows

import (
	"slices"
	"strings"
	"testing"
)

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		values     string
		found, sql string
	}{
		{"yes no yes", "'no' and 'yes'", "y = 'yes'"},
		{"it's", "'it''s'", "y = 'it''s'"},
		{"1 0 1", "'0' and '1'", "y::DOUBLE"},
		{"1.5 -2 3 4 5", "'-2', '1.5', '3', ...", "y::DOUBLE"},
		{"b a c", "'a', 'b' and 'c'", ""},
		{"", "", ""},
		{"1 x", "'1' and 'x'", "y = 'x'"},
	} {
		found, sql := Labels("y", slices.Values(strings.Fields(c.values)))
		if found != c.found || sql != c.sql {
			t.Errorf("%s: %s; %s", c.values, found, sql)
		}
	}
	if found, _ := Labels("y", slices.Values([]string{strings.Repeat("a", 50)})); len(found) != 45 {
		t.Error(found)
	}
}
