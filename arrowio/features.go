package arrowio

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/bglm/bglm/kernels"
)

// Term is a feature column by name, or the interaction of several.
//
// A number is the feature `name` with that value; text, BOOLEAN and dates are
// `name=value` with 1, and a list of text is one such feature an element. A
// struct, a map, a list of struct(feature, value) or of numbers stands for the
// features it holds, under their own names.
//
// An interaction has one feature a row, named after all of its columns: a:b for
// numbers, a:b=x:y where some are not (their values joined; a colon or backslash
// inside a value is escaped by a backslash), its value the product of the
// numbers. It is absent where one of its columns is NULL.
type Term []string

func (t Term) String() string { return strings.Join(t, ":") }

// features numbers the features of the rows of one record.
type features struct {
	term []termPlan
	null func(i int) bool // the row has no features at all: x is NULL
	dups bool             // a row can name a feature twice

	text []byte
	s    kernels.Scratch
	// epoch counts what voids the numbers kept for dictionary codes.
	epoch uint32
}

type termKind int

const (
	numeric termKind = iota
	category
	boolean
	date
	categories
	absent
	pairs
	names
	dense
	cross
)

type termPlan struct {
	kind   termKind
	c      vector
	key    kernels.Key    // numeric, cross without levels
	prefix kernels.Prefix // category, date, categories, cross
	tf     [2]kernels.Key

	// Entries of lists and maps: the span of row i in k and v.
	span  func(i int) (start, end int64)
	entry func(j int) bool // NULL entries
	k, v  vector
	name  string   // cross
	part  []vector // cross
	level bool     // cross: some part is not a number

	// id and epoch hold the numbers of a dictionary's entries.
	id, seen []uint32
}

const containerTypes = "a struct, a map of text or integers to numbers, a list of struct(feature, value), of text or of numbers"

// planFeatures looks at the columns in rec. Errors: columns that are not there,
// types that hold no features.
func planFeatures(rec arrow.RecordBatch, x string, terms []Term) (*features, error) {
	f := &features{null: never, epoch: 1}
	if x != "" {
		c, err := findColumnIn(rec, x)
		if err != nil {
			return nil, err
		}
		whole, err := f.addContainer(&c, true)
		if err != nil {
			return nil, err
		}
		if f.null = c.null; !whole && !c.isNullType() {
			return nil, fmt.Errorf("column %s is %s; allowed: %s", x, c.arr.DataType(), containerTypes)
		}
	}
	for _, t := range terms {
		if len(t) > 1 {
			if err := f.addCross(rec, t); err != nil {
				return nil, err
			}
			continue
		}
		c, err := findColumnIn(rec, t[0])
		if err != nil {
			return nil, err
		}
		whole, err := f.addContainer(&c, false)
		if err != nil {
			return nil, err
		}
		if whole {
			continue
		}
		if err := f.addField(c); err != nil {
			return nil, err
		}
	}
	f.dups = f.dups || len(f.term) > 1 && f.mixed()
	return f, nil
}

// mixed says whether names of different terms can be equal.
func (f *features) mixed() bool {
	for i := range f.term {
		switch f.term[i].kind {
		case pairs, names, dense, categories:
			return true
		}
	}
	return false
}

// addContainer adds the features that a struct, map or list column holds; a list
// of text counts only where the column is x itself.
func (f *features) addContainer(c *vector, alone bool) (bool, error) {
	bad := func(why string) error {
		return fmt.Errorf("column %s is %s%s; allowed: %s", c.name, c.arr.DataType(), why, containerTypes)
	}
	if c.inner {
		return false, nil
	}
	switch a := c.arr.(type) {
	case *array.Struct:
		st := a.DataType().(*arrow.StructType)
		null := c.null
		for i := range a.NumField() {
			k := newVector(st.Field(i).Name, a.Field(i))
			inner := k.null
			if a.NullN() > 0 {
				k.null = func(i int) bool { return null(i) || inner(i) }
			}
			if err := f.addField(k); err != nil {
				return false, fmt.Errorf("column %s: %w", c.name, err)
			}
		}
		return true, nil
	case *array.Map:
		e := a.ListValues().(*array.Struct)
		p := termPlan{kind: pairs, c: *c, span: a.ValueOffsets, entry: never, k: newVector("key", e.Field(0)), v: newVector("value", e.Field(1))}
		if p.k.text == nil && p.k.int == nil && !p.k.isNullType() || !p.v.isNumber() && !p.v.isNullType() {
			return false, bad("")
		}
		f.term, f.dups = append(f.term, p), true
		return true, nil
	case array.ListLike:
		in := newVector("element", a.ListValues())
		p := termPlan{c: *c, span: a.ValueOffsets, entry: in.null, v: in}
		switch {
		case in.isNullType():
			p.kind = absent
		case in.isNumber():
			p.kind = dense
		case in.text != nil && !alone:
			return false, nil
		case in.text != nil:
			p.kind, p.k, f.dups = names, in, true
		default:
			e, ok := in.arr.(*array.Struct)
			if !ok || in.inner {
				return false, bad("")
			}
			st := e.DataType().(*arrow.StructType)
			ki, kok := fieldIndex(st, Feature)
			vi, vok := fieldIndex(st, "value")
			if !kok || !vok || st.NumFields() != 2 {
				return false, bad("; its entries need the fields feature and value")
			}
			p.kind, p.k, p.v, f.dups = pairs, newVector(Feature, e.Field(ki)), newVector("value", e.Field(vi)), true
			if p.k.text == nil && p.k.int == nil && !p.k.isNullType() || !p.v.isNumber() && !p.v.isNullType() {
				return false, bad("; feature must be text or an integer, value a number")
			}
		}
		f.term = append(f.term, p)
		return true, nil
	}
	return false, nil
}

func fieldIndex(st *arrow.StructType, name string) (int, bool) {
	for i := range st.NumFields() {
		if equalFold(st.Field(i).Name, name) {
			return i, true
		}
	}
	return 0, false
}

// addField adds one named column.
func (f *features) addField(c vector) error {
	p := termPlan{c: c}
	f.dups = f.dups || c.name == kernels.Intercept || strings.Contains(c.name, "=")
	switch {
	case c.isNumber():
		p.kind, p.key = numeric, kernels.NewKey(c.name)
	case c.text != nil:
		p.kind, p.prefix = category, kernels.NewPrefix(c.name)
	case c.bool != nil:
		p.kind, p.tf = boolean, [2]kernels.Key{kernels.NewKey(c.name + "=false"), kernels.NewKey(c.name + "=true")}
	case c.date:
		p.kind, p.prefix = date, kernels.NewPrefix(c.name)
	case c.isNullType():
		p.kind = absent
	default:
		l, ok := c.arr.(array.ListLike)
		if !ok || c.inner {
			return fieldError(&c)
		}
		in := newVector(c.name, l.ListValues())
		switch {
		case in.text != nil:
			p.kind, p.prefix, p.span, p.entry, p.k, f.dups = categories, kernels.NewPrefix(c.name), l.ValueOffsets, in.null, in, true
		case in.isNullType():
			p.kind = absent
		default:
			return fieldError(&c)
		}
	}
	if n := p.codes(); n > 0 {
		p.id, p.seen = make([]uint32, n), make([]uint32, n)
	}
	f.term = append(f.term, p)
	return nil
}

// codes is the size of the dictionary whose numbers are worth keeping.
func (p *termPlan) codes() int {
	switch {
	case p.kind == category && p.c.code != nil:
		return p.c.codes
	case p.kind == categories && p.k.code != nil:
		return p.k.codes
	}
	return 0
}

func fieldError(c *vector) error {
	return fmt.Errorf("column %s is %s; allowed: numbers, text, booleans, dates, lists of text, and as the features of a row %s",
		c.name, c.arr.DataType(), containerTypes)
}

func (f *features) addCross(rec arrow.RecordBatch, t Term) error {
	p := termPlan{kind: cross, name: t.String()}
	for _, name := range t {
		c, err := findColumnIn(rec, name)
		if err != nil {
			return err
		}
		if c.num == nil && c.text == nil && c.bool == nil && !c.isNullType() {
			return fmt.Errorf("term %s: column %s is %s; allowed in an interaction: numbers, text, booleans and dates", t, name, c.arr.DataType())
		}
		p.level = p.level || !c.isNumber()
		p.part = append(p.part, c)
	}
	p.key, p.prefix = kernels.NewKey(t.String()), kernels.NewPrefix(t.String())
	f.dups = f.dups || strings.Contains(t.String(), "=")
	f.term = append(f.term, p)
	return nil
}

// badValue is an error that concerns one row only.
type badValue struct{ error }

func notFinite(name string, v float64) error {
	return badValue{fmt.Errorf("feature %q has the value %v; allowed: finite numbers", name, v)}
}

func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// row appends the entries of row i and closes it; after an error the row is left
// out.
func (f *features) row(i int, d *kernels.Dict, b *kernels.Batch) error {
	for k := range f.term {
		if err := f.add(&f.term[k], i, d, b); err != nil {
			b.DropRow()
			return err
		}
	}
	if f.dups || d.HashBits > 0 {
		b.SumDuplicates(&f.s)
	}
	b.EndRow()
	return nil
}

// view is text without a copy, for the dictionary to look at.
func (f *features) view() string { return unsafe.String(unsafe.SliceData(f.text), len(f.text)) }

// forget voids kept numbers: the dictionary lost entries.
func (f *features) forget() { f.epoch++ }

// coded numbers the entry at place i of c by its code.
func (f *features) coded(p *termPlan, c *vector, i int, d *kernels.Dict) (uint32, error) {
	if p.id == nil {
		return d.AddPair(&p.prefix, c.text(i))
	}
	code := c.code(i)
	if p.seen[code] == f.epoch {
		return p.id[code], nil
	}
	id, err := d.AddPair(&p.prefix, c.text(i))
	if err == nil {
		p.id[code], p.seen[code] = id, f.epoch
	}
	return id, err
}

func (f *features) add(p *termPlan, i int, d *kernels.Dict, b *kernels.Batch) error {
	if p.kind == absent || p.kind != cross && p.c.null(i) {
		return nil
	}
	var id uint32
	var err error
	value := 1.0
	switch p.kind {
	case numeric:
		if value = p.c.num(i); !finite(value) {
			return notFinite(p.c.name, value)
		}
		id, err = d.AddKey(p.key)
	case category:
		id, err = f.coded(p, &p.c, i, d)
	case boolean:
		t := 0
		if p.c.bool(i) {
			t = 1
		}
		id, err = d.AddKey(p.tf[t])
	case date:
		f.text = appendDate(f.text[:0], int64(p.c.num(i)))
		id, err = d.AddPair(&p.prefix, f.view())
	case categories:
		for j, hi := p.span(i); j < hi; j++ {
			if p.entry(int(j)) {
				continue
			}
			if id, err = f.coded(p, &p.k, int(j), d); err != nil {
				return err
			}
			b.Add(id, 1)
		}
		return nil
	case cross:
		return f.cross(p, i, d, b)
	case names:
		for j, hi := p.span(i); j < hi; j++ {
			if p.entry(int(j)) {
				continue
			}
			if id, err = d.Add(p.k.text(int(j))); err != nil {
				return err
			}
			b.Add(id, 1)
		}
		return nil
	case pairs:
		return f.pairs(p, i, d, b)
	case dense:
		return f.dense(p, i, d, b)
	}
	if err != nil {
		return err
	}
	b.Add(id, value)
	return nil
}

// pairs reads maps and lists of struct(feature, value); a NULL entry, key or value
// is absent.
func (f *features) pairs(p *termPlan, i int, d *kernels.Dict, b *kernels.Batch) error {
	lo, hi := p.span(i)
	for at := lo; at < hi; at++ {
		j := int(at)
		if p.entry(j) || p.k.null(j) || p.v.null(j) {
			continue
		}
		var id uint32
		var err error
		value := p.v.num(j)
		if p.k.text != nil {
			if !finite(value) {
				return notFinite(p.k.text(j), value)
			}
			id, err = d.Add(p.k.text(j))
		} else {
			f.text = p.k.int(f.text[:0], j)
			if !finite(value) {
				return notFinite(string(f.text), value)
			}
			id, err = d.Add(f.view())
		}
		if err != nil {
			return err
		}
		b.Add(id, value)
	}
	return nil
}

// dense reads a list of numbers: features 1..d; a NULL element is absent.
func (f *features) dense(p *termPlan, i int, d *kernels.Dict, b *kernels.Batch) error {
	lo, hi := p.span(i)
	base, err := d.Dense(int(hi - lo))
	if err != nil {
		return err
	}
	for at := lo; at < hi; at++ {
		j := int(at)
		var value float64
		if p.v.floats != nil {
			value = p.v.floats[j]
		} else if p.entry(j) {
			continue
		} else {
			value = p.v.num(j)
		}
		if !finite(value) {
			return notFinite(fmt.Sprint(at-lo+1), value)
		}
		id := uint32(base + int(at-lo))
		if base < 0 {
			if id, err = d.AddInt(int(at-lo) + 1); err != nil {
				return err
			}
		}
		b.Add(id, value)
	}
	return nil
}

func (f *features) cross(p *termPlan, i int, d *kernels.Dict, b *kernels.Batch) error {
	value := 1.0
	f.text = f.text[:0]
	first := true
	for k := range p.part {
		c := &p.part[k]
		if c.null(i) {
			return nil
		}
		if c.isNumber() {
			v := c.num(i)
			if !finite(v) {
				return notFinite(c.name, v)
			}
			value *= v
			continue
		}
		if !first {
			f.text = append(f.text, ':')
		}
		first = false
		switch {
		case c.text != nil:
			f.text = appendLevel(f.text, c.text(i))
		case c.bool != nil:
			f.text = fmt.Appendf(f.text, "%v", c.bool(i))
		default:
			f.text = appendDate(f.text, int64(c.num(i)))
		}
	}
	if !finite(value) {
		return notFinite(p.name, value)
	}
	var id uint32
	var err error
	if p.level {
		id, err = d.AddPair(&p.prefix, f.view())
	} else {
		id, err = d.AddKey(p.key)
	}
	if err != nil {
		return err
	}
	b.Add(id, value)
	return nil
}

// appendLevel escapes what separates the values of an interaction.
func appendLevel(dst []byte, s string) []byte {
	for i := range len(s) {
		if s[i] == ':' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return dst
}

// appendDate prints days since 1970 as DuckDB prints a DATE.
func appendDate(dst []byte, days int64) []byte {
	switch days {
	case math.MaxInt32:
		return append(dst, "infinity"...)
	case -math.MaxInt32:
		return append(dst, "-infinity"...)
	}
	y, m, day := time.Unix(days*86400, 0).UTC().Date()
	if y > 0 {
		return fmt.Appendf(dst, "%04d-%02d-%02d", y, m, day)
	}
	return fmt.Appendf(dst, "%04d-%02d-%02d (BC)", 1-y, m, day)
}
