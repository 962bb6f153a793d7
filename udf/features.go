package udf

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/udf/internal/capi"
)

// features turns rows of the SQL argument x into entries of a Batch.
//
// A plan is made once per call: the names of columns are hashed there, so that
// a row costs one dictionary probe an entry and builds no string.
type features struct {
	x     *capi.Vec
	dups  bool // a row can name a feature twice, the intercept included
	each  func(f *features, row int, d *kernels.Dict, b *kernels.Batch) error
	field []fieldPlan
	text  []byte
	s     kernels.Scratch

	// Short texts that were numbered before, for runs of rows that share a
	// dictionary: a probe of two words in place of hash, probe and compare.
	memo *memo
}

// memo is a direct-mapped cache from a short text of a column to its number.
type memo struct {
	epoch uint32
	e     [1024]struct {
		lo, hi           uint64
		field, epoch, id uint32
	}
}

var memos = sync.Pool{New: func() any { return new(memo) }}

// share prepares for many rows of one dictionary; done ends that.
func (f *features) share(rows int) {
	if rows >= 64 { // fewer would not repay the misses
		f.memo = memos.Get().(*memo)
		f.forget()
	}
}

// forget voids the memo: the dictionary has changed.
func (f *features) forget() {
	if f.memo == nil {
		return
	}
	if f.memo.epoch++; f.memo.epoch == 0 {
		*f.memo = memo{epoch: 1}
	}
}

func (f *features) done() {
	if f.memo != nil {
		f.forget()
		memos.Put(f.memo)
		f.memo = nil
	}
}

// name numbers the text of entry i of v, which belongs to a field: add does it
// when the memo does not know.
func (f *features) name(field uint32, v *capi.Vec, i int, add func(text string) (uint32, error)) (uint32, error) {
	m := f.memo
	if m == nil {
		return add(v.Str(i))
	}
	lo, hi, ok := v.Inline(i)
	if !ok {
		return add(v.Str(i))
	}
	h := lo*0x9E3779B97F4A7C15 ^ hi*0xD6E8FEB86659FD93 + uint64(field)*0xA0761D6478BD642F
	e := &m.e[(h^h>>29)>>32&uint64(len(m.e)-1)]
	if e.lo == lo && e.hi == hi && e.field == field && e.epoch == m.epoch {
		return e.id, nil
	}
	id, err := add(v.Str(i))
	if err == nil {
		e.lo, e.hi, e.field, e.epoch, e.id = lo, hi, field, m.epoch, id
	}
	return id, err
}

type fieldKind int

const (
	numeric fieldKind = iota
	category
	boolean
	enum
	date
	categories
	absent
)

type fieldPlan struct {
	v      *capi.Vec
	kind   fieldKind
	key    kernels.Key    // numeric
	prefix kernels.Prefix // category, date, categories
	tf     [2]kernels.Key // boolean
	codes  map[int]kernels.Key
}

const featureTypes = "STRUCT, MAP(VARCHAR or integer, number), LIST(STRUCT(feature, value)), LIST(VARCHAR) or a list of numbers"

// planFeatures inspects the type of x. Errors: a type that is not one of the
// feature types.
func planFeatures(x *capi.Vec, arg string) (*features, error) {
	f := &features{x: x}
	bad := func(why string) error {
		return fmt.Errorf("%s is %s%s; allowed: %s", arg, x.TypeName(), why, featureTypes)
	}
	switch x.Type {
	case capi.SQLNull:
		f.each = func(*features, int, *kernels.Dict, *kernels.Batch) error { return nil }
	case capi.Struct:
		f.each = (*features).structRow
		for i := range x.Kids {
			v := &x.Kids[i]
			if v.Name == "" {
				return nil, bad(", a row without field names")
			}
			p := fieldPlan{v: v}
			f.dups = f.dups || v.Name == kernels.Intercept || strings.Contains(v.Name, "=")
			switch {
			case v.IsNumber():
				p.kind, p.key = numeric, kernels.NewKey(v.Name)
			case v.Type == capi.Varchar:
				p.kind, p.prefix = category, kernels.NewPrefix(v.Name)
			case v.Type == capi.Boolean:
				p.kind = boolean
				p.tf = [2]kernels.Key{kernels.NewKey(v.Name + "=false"), kernels.NewKey(v.Name + "=true")}
			case v.Type == capi.Enum:
				if err := v.CheckEnum(); err != nil {
					return nil, fmt.Errorf("%s field %q is %w", arg, v.Name, err)
				}
				p.kind, p.codes = enum, map[int]kernels.Key{}
			case v.Type == capi.Date:
				p.kind, p.prefix = date, kernels.NewPrefix(v.Name)
			case (v.Type == capi.List || v.Type == capi.Array) && v.Kids[0].Type == capi.Varchar:
				p.kind, p.prefix, f.dups = categories, kernels.NewPrefix(v.Name), true
			case v.Type == capi.SQLNull || v.Type == capi.List && v.Kids[0].Type == capi.SQLNull:
				p.kind = absent
			default:
				return nil, fmt.Errorf("%s field %q is %s; allowed in a STRUCT: numbers, VARCHAR, ENUM, BOOLEAN, DATE and lists of VARCHAR",
					arg, v.Name, v.TypeName())
			}
			f.field = append(f.field, p)
		}
	case capi.Map:
		kv := x.Kids[0].Kids
		if len(kv) != 2 || kv[0].Type != capi.Varchar && !kv[0].IsInteger() && kv[0].Type != capi.SQLNull ||
			!kv[1].IsNumber() && kv[1].Type != capi.SQLNull {
			return nil, bad("")
		}
		f.each, f.dups = (*features).pairRow, true // a key may be the intercept's name
		f.field = []fieldPlan{{v: &kv[0]}, {v: &kv[1]}}
	case capi.List, capi.Array:
		c := &x.Kids[0]
		switch {
		case c.IsNumber():
			f.each = (*features).denseRow
		case c.Type == capi.Varchar:
			f.each, f.dups = (*features).nameRow, true
		case c.Type == capi.SQLNull:
			f.each = func(*features, int, *kernels.Dict, *kernels.Batch) error { return nil }
		case c.Type == capi.Struct:
			k, v := c.Field("feature"), c.Field("value")
			if k == nil || v == nil || len(c.Kids) != 2 {
				return nil, bad("; its entries need the fields feature and value")
			}
			if k.Type != capi.Varchar && !k.IsInteger() && k.Type != capi.SQLNull || !v.IsNumber() && v.Type != capi.SQLNull {
				return nil, bad("; feature must be VARCHAR or an integer, value a number")
			}
			f.each, f.dups = (*features).pairRow, true
			f.field = []fieldPlan{{v: k}, {v: v}}
		default:
			return nil, bad("")
		}
	default:
		return nil, bad("")
	}
	return f, nil
}

// badValue is an error that on_error: 'skip' may pass over.
type badValue struct{ error }

func notFinite(name string, v float64) error {
	return badValue{fmt.Errorf("feature %q has the value %v; allowed: finite numbers", name, v)}
}

func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// row appends the entries of a row and closes it; x must not be NULL there.
// After an error the row is left out.
func (f *features) row(i int, d *kernels.Dict, b *kernels.Batch) error {
	if err := f.each(f, i, d, b); err != nil {
		b.DropRow()
		return err
	}
	if f.dups || d.HashBits > 0 {
		b.SumDuplicates(&f.s)
	}
	b.EndRow()
	return nil
}

func (f *features) structRow(i int, d *kernels.Dict, b *kernels.Batch) error {
	for k := range f.field {
		p := &f.field[k]
		if p.kind == absent || p.v.Null(i) {
			continue
		}
		var id uint32
		var err error
		value := 1.0
		switch p.kind {
		case numeric:
			if value = p.v.Float(i); !finite(value) {
				return notFinite(p.v.Name, value)
			}
			id, err = d.AddKey(p.key)
		case category:
			id, err = f.name(uint32(k), p.v, i, func(text string) (uint32, error) { return d.AddPair(&p.prefix, text) })
		case boolean:
			t := 0
			if p.v.Bool(i) {
				t = 1
			}
			id, err = d.AddKey(p.tf[t])
		case enum:
			c := p.v.EnumCode(i)
			key, ok := p.codes[c]
			if !ok {
				key = kernels.NewKey(p.v.Name + "=" + p.v.EnumText(c))
				p.codes[c] = key
			}
			id, err = d.AddKey(key)
		case date:
			f.text = appendDate(f.text[:0], p.v.Int64(i))
			id, err = d.AddPair(&p.prefix, string(f.text))
		case categories:
			c := &p.v.Kids[0]
			for j, hi := span(p.v, i); j < hi; j++ {
				if c.Null(j) {
					continue
				}
				if id, err = f.name(uint32(k), c, j, func(text string) (uint32, error) { return d.AddPair(&p.prefix, text) }); err != nil {
					return err
				}
				b.Add(id, 1)
			}
			continue
		}
		if err != nil {
			return err
		}
		b.Add(id, value)
	}
	return nil
}

// appendDate prints a DATE (days since 1970) as DuckDB does.
func appendDate(dst []byte, days int64) []byte {
	switch days {
	case math.MaxInt32:
		return append(dst, "infinity"...)
	case -math.MaxInt32:
		return append(dst, "-infinity"...)
	}
	t := time.Unix(days*86400, 0).UTC()
	y, m, day := t.Date()
	if y > 0 {
		return fmt.Appendf(dst, "%04d-%02d-%02d", y, m, day)
	}
	return fmt.Appendf(dst, "%04d-%02d-%02d (BC)", 1-y, m, day)
}

func span(v *capi.Vec, i int) (int, int) { return v.Span(i) }

// pairRow reads MAP and LIST(STRUCT(feature, value)); a NULL entry, key or value
// is absent.
func (f *features) pairRow(i int, d *kernels.Dict, b *kernels.Batch) error {
	entry, k, v := &f.x.Kids[0], f.field[0].v, f.field[1].v
	for j, hi := span(f.x, i); j < hi; j++ {
		if entry.Null(j) || k.Null(j) || v.Null(j) {
			continue
		}
		var id uint32
		var err error
		value := v.Float(j)
		if k.Type == capi.Varchar {
			if !finite(value) {
				return notFinite(k.Str(j), value)
			}
			id, err = f.name(0, k, j, d.Add)
		} else {
			f.text = k.AppendInt(f.text[:0], j)
			if !finite(value) {
				return notFinite(string(f.text), value)
			}
			id, err = d.Add(string(f.text))
		}
		if err != nil {
			return err
		}
		b.Add(id, value)
	}
	return nil
}

// nameRow reads LIST(VARCHAR): indicators.
func (f *features) nameRow(i int, d *kernels.Dict, b *kernels.Batch) error {
	c := &f.x.Kids[0]
	for j, hi := span(f.x, i); j < hi; j++ {
		if c.Null(j) {
			continue
		}
		id, err := f.name(0, c, j, d.Add)
		if err != nil {
			return err
		}
		b.Add(id, 1)
	}
	return nil
}

// denseRow reads a list of numbers: features 1..d; a NULL element is absent.
func (f *features) denseRow(i int, d *kernels.Dict, b *kernels.Batch) error {
	c := &f.x.Kids[0]
	lo, hi := span(f.x, i)
	base, err := d.Dense(hi - lo)
	if err != nil {
		return err
	}
	doubles, all := c.Floats(), c.AllValid()
	for j := lo; j < hi; j++ {
		if !all && c.Null(j) {
			continue
		}
		var value float64
		if doubles != nil {
			value = doubles[j]
		} else {
			value = c.Float(j)
		}
		if !finite(value) {
			return notFinite(fmt.Sprint(j-lo+1), value)
		}
		id := uint32(base + j - lo)
		if base < 0 {
			if id, err = d.AddInt(j - lo + 1); err != nil {
				return err
			}
		}
		b.Add(id, value)
	}
	return nil
}
