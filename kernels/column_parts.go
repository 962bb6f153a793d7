package kernels

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// ColumnPart is a column of an interaction.
type ColumnPart struct {
	Name string
	Kind string // NumberColumn or LevelsColumn; "" if unknown, because it was NULL throughout
}

const unknownPart = "unknown" // the text for the Kind ""

// JoinParts returns parts in the format of FitColumn.Parts: "number x, levels g".
func JoinParts(parts []ColumnPart) string {
	var b strings.Builder
	for k, p := range parts {
		if k > 0 {
			b.WriteString(", ")
		}
		b.WriteString(Or(p.Kind, unknownPart) + " ")
		if plainPart(p.Name) {
			b.WriteString(p.Name)
		} else {
			b.WriteString(strconv.Quote(p.Name))
		}
	}
	return b.String()
}

// plainPart reports whether a name is written without quotes.
func plainPart(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '.' && r != '(' && r != ')' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// SplitParts is the reverse of JoinParts. ok is false for any other text.
func SplitParts(s string) (parts []ColumnPart, ok bool) {
	for s != "" {
		kind, rest, found := strings.Cut(s, " ")
		if !found || !slices.Contains([]string{NumberColumn, LevelsColumn, unknownPart}, kind) {
			return nil, false
		}
		p := ColumnPart{Kind: kind}
		if kind == unknownPart {
			p.Kind = ""
		}
		if quoted, err := strconv.QuotedPrefix(rest); err == nil && quoted[0] == '"' {
			if p.Name, err = strconv.Unquote(quoted); err != nil {
				return nil, false
			}
			rest = rest[len(quoted):]
		} else {
			end := strings.Index(rest, ", ")
			if end < 0 {
				end = len(rest)
			}
			if p.Name, rest = rest[:end], rest[end:]; !plainPart(p.Name) {
				return nil, false
			}
		}
		parts = append(parts, p)
		if s, found = strings.CutPrefix(rest, ", "); found != (rest != "") || found && s == "" {
			return nil, false
		}
	}
	return parts, len(parts) > 0
}

// Mixed reports whether c is an interaction of levels and numbers, for which rows without a value
// have no feature.
func (c *FitColumn) Mixed() bool {
	if c.Kind != LevelsColumn || c.Parts == "" {
		return false
	}
	parts, _ := SplitParts(c.Parts)
	return slices.ContainsFunc(parts, func(p ColumnPart) bool { return p.Kind == NumberColumn })
}

// SameParts reports whether interactions have the same features: the columns have the same names,
// regardless of case, and kinds, and those of levels are in the same order. Unknown parts match any
// other.
func SameParts(a, b string) bool {
	p, ok := SplitParts(a)
	q, also := SplitParts(b)
	unknown := func(x ColumnPart) bool { return x.Kind == "" }
	if !ok || !also || slices.ContainsFunc(p, unknown) || slices.ContainsFunc(q, unknown) {
		return true
	}
	if len(p) != len(q) {
		return false
	}
	for _, parts := range [][]ColumnPart{p, q} {
		slices.SortStableFunc(parts, func(x, y ColumnPart) int {
			if x.Kind == NumberColumn && y.Kind == NumberColumn {
				return strings.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name))
			}
			return strings.Compare(x.Kind, y.Kind)
		})
	}
	return slices.EqualFunc(p, q, func(x, y ColumnPart) bool {
		return strings.EqualFold(x.Name, y.Name) && x.Kind == y.Kind
	})
}

// ColumnKind is a column's Kind and Parts as one text, as stored in FITs: "number", "levels", and
// for interactions "levels of number x, levels g".
type ColumnKind FitColumn

const kindOf = " of "

// String returns the text.
func (k *ColumnKind) String() string {
	if k.Parts == "" {
		return k.Kind
	}
	return k.Kind + kindOf + k.Parts
}

// Set parses the text; ValidateColumns finds invalid ones.
func (k *ColumnKind) Set(s string) {
	k.Kind, k.Parts, _ = strings.Cut(s, kindOf)
	k.Kind, k.Parts = strings.Clone(k.Kind), strings.Clone(k.Parts)
}
