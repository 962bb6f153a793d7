package rows

import (
	"strings"

	"github.com/bglm/bglm/kernels"
)

// Change returns x, a struct, with its columns of this name, regardless of case, replaced by the
// results of by: its field, and the fields in interactions. It also returns the original field, nil
// if only interactions have it. ok is false if x has no such column.
func Change(x Column, name string, by func(Column) Column) (c Column, field Column, ok bool) {
	if x.Kind() != Struct {
		return x, nil, false
	}
	out := &changed{Column: x, kids: make([]Column, x.Children())}
	for k := range out.kids {
		kid := x.Child(k)
		out.kids[k] = kid
		switch {
		case kid.Kind() == Struct:
			if with, _, has := Change(kid, name, by); has {
				out.kids[k], ok = with, true
			}
		case strings.EqualFold(kid.Name(), name):
			out.kids[k], field, ok = by(kid), kid, true
		}
	}
	return out, field, ok
}

// Part returns the column of this name that Change would replace, nil for none.
func Part(x Column, name string) (part Column) {
	Change(x, name, func(c Column) Column {
		if part == nil {
			part = c
		}
		return c
	})
	return part
}

type changed struct {
	Column
	kids []Column
}

func (c *changed) Child(k int) Column { return c.kids[k] }

// Shifted is a column of numbers with by added to each.
func Shifted(c Column, by float64) Column { return shifted{c, by} }

type shifted struct {
	Column
	by float64
}

func (c shifted) Integer() bool { return false }

func (c shifted) Floats(dst []float64, lo int) {
	c.Column.Floats(dst, lo)
	for k := range dst {
		dst[k] += c.by
	}
}

// Fixed is a column with the same level in every row, in place of c.
func Fixed(c Column, level string) Column { return fixed{c, kernels.NewText(level)} }

type fixed struct {
	Column
	level kernels.Text
}

func (fixed) Kind() Kind    { return Text }
func (fixed) MayNull() bool { return false }
func (fixed) Null(int) bool { return false }

func (c fixed) Texts(dst []kernels.Text, _ int) {
	for k := range dst {
		dst[k] = c.level
	}
}
