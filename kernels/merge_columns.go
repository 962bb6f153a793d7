package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// differByColumns reports a column that one of two fits remembers and the other does not: what the
// other knows of its weight is the prior, in no unit of that column's. A fit that remembers none
// agrees with all.
func differByColumns(a, b []FitColumn) error {
	if c := Lacking(a, b); c != nil {
		return noColumn(c)
	}
	return nil
}

// Lacking is the first column that one of two lists has and the other does not, whose name may
// differ in case; nil for none, and where one of them has no columns: it remembers none.
func Lacking(a, b []FitColumn) *FitColumn {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	if c := lacking(a, b); c != nil {
		return c
	}
	return lacking(b, a)
}

// lacking is the first column of a that b lacks, whose name may differ in case.
func lacking(a, b []FitColumn) *FitColumn {
	for k := range a {
		if k < len(b) && a[k].Name == b[k].Name {
			continue
		}
		if !slices.ContainsFunc(b, func(c FitColumn) bool { return strings.EqualFold(c.Name, a[k].Name) }) {
			return &a[k]
		}
	}
	return nil
}

func noColumn(c *FitColumn) error {
	return fmt.Errorf("column %.100q is in one fit and not in another; only fits of one model can be merged: fit the parts with the same columns (columns: 'any' for those that a part may go without), or %w", c.Name, ErrApart)
}

// columnsOf are the columns of a part by which others are judged: one that saw no row beyond its
// start says nothing.
func columnsOf(part, start *Fit) []FitColumn {
	if part.N == start.N {
		return nil
	}
	return part.Columns
}
