package kernels

import (
	"slices"
	"testing"
)

// What an interaction is made of survives as a text, whatever its columns are called.
func TestPartsAsText(t *testing.T) {
	for _, parts := range [][]ColumnPart{
		{{"x", NumberColumn}, {"g", LevelsColumn}},
		{{"hour(date)", LevelsColumn}, {"größe_1", NumberColumn}},
		{{"a, number b", LevelsColumn}, {`"q" of \`, LevelsColumn}, {"", NumberColumn}},
		{{"x", ""}},
	} {
		text := JoinParts(parts)
		if got, ok := SplitParts(text); !ok || !slices.Equal(got, parts) {
			t.Errorf("%q is read as %v, %v; want %v", text, got, ok, parts)
		}
		c := FitColumn{Kind: LevelsColumn, Parts: text}
		var again FitColumn
		if (*ColumnKind)(&again).Set((*ColumnKind)(&c).String()); again != c {
			t.Errorf("%+v is read as %+v", c, again)
		}
	}
	for _, text := range []string{"number", "text x", "number x, ", "number x,levels g", `number "x`, "number x y", "number x, levels"} {
		if parts, ok := SplitParts(text); ok {
			t.Errorf("%q is read as %v", text, parts)
		}
	}
}

func TestSameParts(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"number x, levels g", "levels G, number X", true},
		{"levels g, levels h", "levels h, levels g", false}, // their levels are written in another order
		{"number x, levels g", "levels x, levels g", false},
		{"number x, levels g", "number x", false},
		{"number x, levels g", "", true},
		{"unknown x, levels g", "number x, levels g", true},
	} {
		if got := SameParts(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
