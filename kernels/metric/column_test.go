package metric

import (
	"slices"
	"testing"
)

// What to mind about a column, on both sides of each bound.
func TestDoubts(t *testing.T) {
	number := func(mean, sd float64) Column {
		return Column{Rows: 100, Number: true, Known: true, Mean: mean, SD: sd}
	}
	perUnit := number(0, 2e5)
	perUnit.PerUnit = true
	counting := number(50, 29)
	counting.Counting = true
	for _, c := range []struct {
		Column
		want []Warning
	}{
		{number(3, 2), nil},
		{number(0, 0), []Warning{Constant}},
		{number(1e9, 1e3), []Warning{FarScale, FarMean}},
		{number(0, 999), nil},
		{number(0, 1e-3), []Warning{FarScale}},
		{perUnit, []Warning{FarScalePrior}},
		{number(2024, 1.1), []Warning{FarMean}},
		{number(1024, 1.1), nil},
		{counting, []Warning{CountsRows}},
		{Column{Rows: 80, Missing: 20, Number: true}, nil},
		{Column{Rows: 79, Missing: 21, Number: true}, []Warning{MostlyMissing}},
		{Column{}, nil},
		{Column{Levels: 1, Counted: 50}, []Warning{Constant}},
		{Column{Levels: 20, Rare: 20, Counted: 20}, nil},
		{Column{Levels: 21, Rare: 21, Counted: 41}, []Warning{LevelPerRow}},
		{Column{Levels: 21, Rare: 11, Counted: 42}, []Warning{MostLevelsRare}},
		{Column{Levels: 22, Rare: 11, Counted: 44}, nil},
		{Column{Rows: 1, Missing: 1, Levels: 1, Counted: 1}, []Warning{MostlyMissing, Constant}},
	} {
		if got := c.Warnings(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.Column, got, c.want)
		}
	}
}
