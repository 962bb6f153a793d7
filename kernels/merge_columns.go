package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// differByColumns returns an error for a column that one of two fits records and the other does
// not: the other has only the prior for its weight, in no unit of that column's. A fit that records
// none agrees with all.
func differByColumns(a, b []FitColumn) error {
	if c := Lacking(a, b); c != nil {
		return noColumn(c)
	}
	return nil
}

// Lacking returns the first column that one of two lists has and the other does not, ignoring the
// case of names; nil for none, and if one of them has no columns: it records none.
func Lacking(a, b []FitColumn) *FitColumn {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	if c := lacking(a, b); c != nil {
		return c
	}
	return lacking(b, a)
}

// lacking returns the first column of a that b lacks, ignoring the case of names.
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

// columnsOf returns the columns of a part that are compared with those of others: none if it saw no
// row beyond its start.
func columnsOf(part, start *Fit) []FitColumn {
	if part.N == start.N {
		return nil
	}
	return part.Columns
}
