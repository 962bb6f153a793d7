package rows

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/special"
)

// Term is a feature column, or the interaction of several.
//
// A number is the feature `name` with its value; text, BOOLEAN and dates are `name=value` with 1,
// and a list of text is one such feature per element. A struct, a map, a list of
// struct(feature, value) or of numbers stands for the features it holds, under their own names; a
// row where it is NULL is left out.
//
// An interaction, in a struct a field that is itself a struct of the interacting columns, has one
// feature per row, named after all of its columns, or that field: a:b for numbers, a:b=x:y if some
// are not (their values joined; a colon or backslash inside a value is escaped by a backslash). Its
// value is the product of the numbers. If one of its columns is NULL it is NULL, or absent for
// levels with numbers. A NULL number is replaced by its mean if the fit knows it. For a fit that
// learns the means it is NaN, which the number's own column replaces (kernels.Gaps), in an
// interaction of levels and one number that has a column.
type Term []Column

// NewTerms returns the encoder of rows whose features are terms and those of x, unless x is nil.
// Errors: a column whose type cannot be a feature.
func NewTerms(x Column, terms []Term, w Words) (*Encoder, error) {
	e := &Encoder{x: x, tail: terms, words: w}
	return e, e.build()
}

// addTail adds the terms in addition to x.
func (e *Encoder) addTail() error {
	for i, t := range e.tail {
		if len(t) == 0 || slices.Contains(t, nil) {
			return fmt.Errorf("term %d of %d has a column that is nil, or none", i+1, len(e.tail))
		}
		if len(t) > 1 {
			names := make([]string, len(t))
			for k, c := range t {
				names[k] = c.Name()
			}
			if err := e.interaction(strings.Join(names, ":"), nil, t); err != nil {
				return err
			}
			continue
		}
		ok, err := e.column(t[0])
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("column %s is %s; allowed: %s, and as the features of a row %s",
				t[0].Name(), t[0].Type(), e.words.Contents, e.words.Containers)
		}
	}
	return nil
}

// column adds the features of a term of one column; false if there are none.
func (e *Encoder) column(c Column) (ok bool, err error) {
	what := "column " + c.Name()
	switch {
	case c.Kind() == Struct:
		e.null = append(e.null, c)
		return e.container(c, what, false)
	case e.x != nil || len(e.tail) > 1:
		ok, err = e.nested(c, what)
	case c.Kind() == Map || c.Kind() == List:
		if ok, err = e.container(c, what, false); ok && err == nil {
			e.null = append(e.null, c)
			e.openFor(c.Kind() == Map || c.Child(0).Kind() != Number)
		}
	}
	if ok || err != nil {
		return ok, err
	}
	return e.field(c)
}

// interaction adds the interaction of parts, the fields of col unless that is nil.
func (e *Encoder) interaction(name string, col Column, parts Term) error {
	for _, c := range parts {
		switch c.Kind() {
		case Number, Text, Coded, Bool, Date, Null:
		default:
			return fmt.Errorf("term %s: column %s is %s; allowed in an interaction: numbers, text, booleans and dates", name, c.Name(), c.Type())
		}
	}
	as, known, use := e.claim(name)
	if !use {
		return nil
	}
	if known != nil {
		var err error
		if parts, err = inOrder(name, parts, known); err != nil {
			return err
		}
	}
	t := term{kind: cross, name: as, col: col, parts: parts}
	if known != nil && known.Kind != t.columnKind() {
		return fmt.Errorf("term %s has other kinds of columns than the fit has learnt: %s", name, kindWords(known.Kind))
	}
	e.add(t)
	return nil
}

// readCross reads an interaction row by row: most have few columns.
func (e *Encoder) readCross(t *term) {
	n := e.hi - e.lo
	t.miss, t.x, t.t = resize(t.miss, n), resize(t.x, n), resize(t.t, n)
	hasLevels := t.hasLevels()
	stand, stands := e.replacement(t)
	if !hasLevels {
		stand = math.NaN()
	}
	fills := hasLevels && !stands && e.fills(t)
	t.lack = t.lack[:0]
	for r := range n {
		t.miss[r] = !e.isPresent(r) || t.col != nil && t.col.Null(e.lo+r)
		if t.miss[r] {
			t.x[r] = stand
			continue
		}
		v, text := 1.0, e.buf[:0]
		first, lacks, gap := true, false, false
		for _, c := range t.parts {
			number := c.Kind() == Number
			switch {
			case c.Null(e.lo+r) && number && stands:
				lacks = true
				continue
			case c.Null(e.lo+r) && number && fills:
				gap = true
				continue
			case c.Null(e.lo + r):
				t.miss[r] = true
				if hasLevels {
					continue
				}
				if center, ok := e.as.factors[kernels.FactorOf(t.name, c.Name())]; ok {
					v *= center
				} else {
					lacks = true
				}
				continue
			case t.miss[r] && !number:
				continue
			}
			var x [1]float64
			if number {
				if c.Floats(x[:], e.lo+r); !special.Finite(x[0]) {
					e.fault(r, notFinite(c.Name(), x[0]))
				}
				v *= x[0]
				continue
			}
			if !first {
				text = append(text, ':')
			}
			first = false
			text = e.appendPart(text, c, r)
		}
		e.buf = text[:0]
		if lacks {
			v = stand
		} else if gap {
			v = math.NaN()
			if !t.miss[r] {
				t.lack = append(t.lack, lack{r: r})
			}
		} else if !special.Finite(v) {
			e.fault(r, notFinite(t.name, v))
		}
		t.x[r] = v
		if hasLevels && !t.miss[r] {
			t.t[r] = t.value(text)
		}
	}
}

// fills reports whether a missing number in t, an interaction of levels and one number, is replaced
// by that of the number's own column.
func (e *Encoder) fills(t *term) bool {
	numbers, own := 0, 0
	for _, c := range t.parts {
		if c.Kind() != Number {
			continue
		}
		numbers++
		if slices.ContainsFunc(e.terms, func(o term) bool { return o.kind == number && strings.EqualFold(o.name, c.Name()) }) {
			own++
		}
	}
	return e.as.fills && numbers == 1 && own == 1
}

// appendPart appends the level of column c in row r of the block.
func (e *Encoder) appendPart(text []byte, c Column, r int) []byte {
	switch c.Kind() {
	case Text:
		var t [1]kernels.Text
		c.Texts(t[:], e.lo+r)
		return appendLevel(text, t[0].String())
	case Coded:
		s, err := c.Label(c.Code(e.lo + r))
		if err != nil {
			e.fault(r, err)
		}
		return appendLevel(text, s)
	}
	var x [1]float64
	c.Floats(x[:], e.lo+r)
	if c.Kind() == Date {
		return AppendDate(text, x[0])
	}
	return fmt.Appendf(text, "%v", x[0] != 0)
}

// appendLevel appends s with the separators of an interaction's values escaped.
func appendLevel(dst []byte, s string) []byte {
	for i := range len(s) {
		if s[i] == ':' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return dst
}
