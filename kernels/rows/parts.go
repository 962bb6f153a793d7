package rows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
)

// partsOf is the record of an interaction's columns in a fit.
func partsOf(parts Term) string {
	out := make([]kernels.ColumnPart, len(parts))
	for k, c := range parts {
		out[k].Name = c.Name()
		switch c.Kind() {
		case Number:
			out[k].Kind = kernels.NumberColumn
		case Null:
		default:
			out[k].Kind = kernels.LevelsColumn
		}
	}
	return kernels.JoinParts(out)
}

// inOrder returns the columns of an interaction in the order in which a fit has learnt them,
// whatever their order in the rows; unchanged if the fit does not record it.
// Errors: a column that is missing or of another kind, an additional one.
func inOrder(term string, parts Term, known *kernels.FitColumn) (Term, error) {
	want, ok := kernels.SplitParts(known.Parts)
	if !ok {
		return parts, nil
	}
	fail := func(why string) error {
		var learnt, found []string
		for _, p := range want {
			learnt = append(learnt, p.Name)
		}
		for _, c := range parts {
			found = append(found, c.Name())
		}
		return fmt.Errorf("term %s has %s; found: %s; the fit has learnt it from %s", term, why, strings.Join(found, ", "), strings.Join(learnt, ", "))
	}
	out := make(Term, 0, len(parts))
	rest := slices.Clone(parts)
	for _, p := range want {
		at := slices.IndexFunc(rest, func(c Column) bool { return c.Name() == p.Name })
		if at < 0 {
			at = slices.IndexFunc(rest, func(c Column) bool { return strings.EqualFold(c.Name(), p.Name) })
		}
		if at < 0 {
			return nil, fail(fmt.Sprintf("no column %q", p.Name))
		}
		c := rest[at]
		rest = slices.Delete(rest, at, at+1)
		switch {
		case p.Kind == "":
		case c.Kind() == Null:
			c = nullColumn{c, p.Kind == kernels.NumberColumn}
		case (c.Kind() == Number) != (p.Kind == kernels.NumberColumn):
			return nil, fmt.Errorf("term %s: column %q is %s; allowed: %s, as the fit has learnt it%s", term, p.Name, c.Type(), kindWords(p.Kind), howToRead(c, p.Kind))
		}
		out = append(out, c)
	}
	if len(rest) > 0 {
		return nil, fail(fmt.Sprintf("a further column %q", rest[0].Name()))
	}
	return out, nil
}

// nullColumn is a column that is NULL throughout, of the kind that a fit has learnt.
type nullColumn struct {
	Column
	number bool
}

func (c nullColumn) Kind() Kind {
	if c.number {
		return Number
	}
	return Text
}

func (nullColumn) MayNull() bool { return true }
func (nullColumn) Null(int) bool { return true }

// noNumbers is a column of numbers that are NULL throughout, without a type yet.
type noNumbers struct{ Column }

func (noNumbers) Kind() Kind                    { return Number }
func (noNumbers) MayNull() bool                 { return true }
func (noNumbers) Null(int) bool                 { return true }
func (noNumbers) Integer() bool                 { return false }
func (noNumbers) Floats(dst []float64, lo int)  { clear(dst) }
func (noNumbers) Ints(dst []int64, lo int) bool { return false }
