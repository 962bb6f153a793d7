package arrowio

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/rows"
)

// levelsOf is c as a column of levels called name.
// Errors: numbers that are not whole, which other programs may print differently.
func levelsOf(c rows.Column, name string) (rows.Column, error) {
	switch {
	case c.Kind() != rows.Number:
		return renamed{c, name}, nil
	case c.Integer():
		return wholeLevels{renamed{c, name}}, nil
	}
	return nil, fmt.Errorf("the levels of column %s are %s; allowed: whole numbers, text, booleans and dates; cast it", c.Name(), c.Type())
}

type renamed struct {
	rows.Column
	name string
}

func (c renamed) Name() string { return c.name }

// wholeLevels are whole numbers as levels, by their printed form.
type wholeLevels struct{ renamed }

func (wholeLevels) Kind() rows.Kind { return rows.Text }

func (c wholeLevels) Texts(dst []kernels.Text, lo int) {
	var b []byte
	for k := range dst {
		if !c.MayNull() || !c.Null(lo+k) {
			b = c.AppendInt(b[:0], lo+k)
			dst[k] = kernels.CopyText(b)
		}
	}
}
