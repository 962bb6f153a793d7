package udf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/answer"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/udf/internal/capi"
)

// OptionWords names the kinds of option values in the terms of SQL.
var OptionWords = option.Words{
	option.Boolean:         "BOOLEAN",
	option.Times:           "a number, DATE or TIMESTAMP",
	option.MethodName:      "the name of a fitting function without bglm_, such as 'ep'",
	option.FamilyName:      "a name listed by bglm_families()",
	option.LinkName:        "a name listed by bglm_families(), such as 'probit'",
	option.APosterior:      "a FIT",
	option.AState:          "[state] of bglm_newton_state or bglm_newton_merge",
	option.Beliefs:         "MAP(VARCHAR, STRUCT(mean, variance)) or LIST(STRUCT(feature, mean, variance))",
	option.NumbersByName:   "MAP(VARCHAR, number)",
	option.ByColumn:        "a STRUCT of these by column",
	option.NumbersOrWeight: "LIST(STRUCT(feature, mean, variance)) or MAP(VARCHAR, number)",
	option.Symmetric:       "DOUBLE[][]",
	option.ColumnSets:      "VARCHAR[][]: sets of two or more columns of levels, each column in one",
}

// worded rewords an error of the kernels for SQL, with the remedy there.
func worded(err error) error {
	switch {
	case errors.Is(err, kernels.ErrOrder):
		err = fmt.Errorf("%w; make the FIT with bglm_from_beliefs(beliefs, options)", err)
	case errors.Is(err, kernels.ErrApart):
		err = fmt.Errorf("%w (bglm_update)", err)
	case errors.Is(err, answer.ErrForm):
		err = &renamed{strings.Replace(err.Error(), answer.ErrForm.Error(), "such as bglm_laplace", 1), err}
	case errors.Is(err, kernels.ErrImproper):
		err = fmt.Errorf("%w; if the fits started from another common prior, give it as the second argument; where they learnt dispersion or shape from few rows, which can leave weights wider "+
			"than their prior, give these options as numbers; and where their weights drift (process_noise, forgetting), each forgot some of the prior: continue one fit with the rows of the others (bglm_update)", err)
	}
	return argument.Reword(moreMemory(err), func(e *argument.Error) string {
		c := option.InWords(*e, OptionWords)
		if c.Why == argument.Unknown {
			c.Why = ""
			return c.Named(fmt.Sprintf("unknown option %q", c.Name))
		}
		if option.Of(c.Name) == nil {
			return c.Error()
		}
		return c.Named("option " + c.Name)
	})
}

// renamed is an error whose text uses the names of SQL.
type renamed struct {
	text string
	err  error
}

func (r *renamed) Error() string { return r.text }
func (r *renamed) Unwrap() error { return r.err }

var marked = regexp.MustCompile("`([a-z_]+)`")

// Told is a text of the kernels with SQL names for the functions marked in it: `laplace`.
func Told(doc string) string { return marked.ReplaceAllString(doc, "bglm_$1") }

// constants yields the fields of the options STRUCT at row i. classes says that a FIT among them
// may have classes.
func constants(v *capi.Vec, i int, classes bool) iter.Seq2[string, option.Source] {
	return func(yield func(string, option.Source) bool) {
		if v == nil || v.Type == capi.SQLNull || v.Null(i) {
			return
		}
		for k := range v.Kids {
			f := &v.Kids[k]
			var value option.Source
			if !f.Null(i) {
				value = constant{f, i, classes}
			}
			if !yield(f.Name, value) {
				return
			}
		}
	}
}

// constant is the value of an option, entry i of v.
type constant struct {
	v       *capi.Vec
	i       int
	classes bool
}

func (c constant) Type() string { return c.v.TypeName() }

func (c constant) Scalar() any {
	switch {
	case c.v.Type == capi.Varchar:
		return strings.Clone(c.v.Str(c.i))
	case c.v.Type == capi.Boolean:
		return c.v.Bool(c.i)
	case c.v.IsNumber():
		return c.v.Float(c.i)
	}
	return nil
}

func (c constant) Decode(to any) (err error) {
	switch to := to.(type) {
	case *option.Class:
		if err = checkClass(c.v, "a class"); err == nil {
			var text string
			text, err = rows.Label(columnOf(c.v), c.i)
			*to = option.Class(text)
		}
	case *[]option.Entry:
		*to, err = numbersByName(c.v, c.i)
	case *[]option.Setting:
		*to, err = settings(c.v, c.i)
	case *[]kernels.Belief:
		if _, err := newBeliefReader(c.v); err != nil {
			return option.ErrType
		}
		*to, err = readBeliefs(c.v, c.i)
	case **kernels.Fit:
		*to, err = readFitAt(c.v, c.i, c.classes)
	case *[]byte:
		*to, err = stateBytes(c.v, c.i)
	case *[][]float64:
		*to, err = matrix(c.v, c.i)
	case *[][]string:
		*to, err = textLists(c.v, c.i)
	default:
		err = option.ErrType
	}
	return err
}

// stateBytes reads a BLOB, or the only BLOB of a list: DuckDB copies a BLOB for each chunk of rows
// that it is joined to, but leaves one in a list where it is.
func stateBytes(v *capi.Vec, i int) ([]byte, error) {
	if v.Type == capi.List && v.Kids[0].Type == capi.Blob {
		lo, hi := v.Span(i)
		if hi-lo != 1 || v.Kids[0].Null(lo) {
			return nil, fmt.Errorf("found a list of %d; allowed: [state]", hi-lo)
		}
		v, i = &v.Kids[0], lo
	}
	if v.Type != capi.Blob {
		return nil, option.ErrType
	}
	return []byte(v.Str(i)), nil
}

// numbersByName reads a MAP(VARCHAR, number).
func numbersByName(v *capi.Vec, i int) ([]option.Entry, error) {
	if v.Type != capi.Map || len(v.Kids[0].Kids) != 2 {
		return nil, option.ErrType
	}
	key, value := &v.Kids[0].Kids[0], &v.Kids[0].Kids[1]
	if key.Type != capi.Varchar || !value.IsNumber() {
		return nil, option.ErrType
	}
	var out []option.Entry
	for j, hi := v.Span(i); j < hi; j++ {
		e := option.Entry{Name: strings.Clone(key.Str(j)), Null: value.Null(j)}
		if !e.Null {
			e.Value = value.Float(j)
		}
		out = append(out, e)
	}
	return out, nil
}

// settings reads a STRUCT of scalars, or a MAP(VARCHAR, number).
func settings(v *capi.Vec, i int) ([]option.Setting, error) {
	if v.Type != capi.Struct {
		all, err := numbersByName(v, i)
		out := make([]option.Setting, len(all))
		for k, e := range all {
			out[k].Name = e.Name
			if !e.Null {
				out[k].Value = e.Value
			}
		}
		return out, err
	}
	out := make([]option.Setting, len(v.Kids))
	for k := range v.Kids {
		f := &v.Kids[k]
		out[k].Name = strings.Clone(f.Name)
		if f.Type == capi.SQLNull || f.Null(i) {
			continue
		}
		if out[k].Value = (constant{v: f, i: i}).Scalar(); out[k].Value == nil {
			return nil, option.ErrType
		}
	}
	return out, nil
}

// matrix reads DOUBLE[][].
func matrix(v *capi.Vec, i int) ([][]float64, error) {
	if v.Type != capi.List && v.Type != capi.Array {
		return nil, option.ErrType
	}
	row := &v.Kids[0]
	if row.Type != capi.List && row.Type != capi.Array || !row.Kids[0].IsNumber() {
		return nil, option.ErrType
	}
	lo, hi := v.Span(i)
	out := make([][]float64, hi-lo)
	for j := range out {
		if row.Null(lo + j) {
			return nil, fmt.Errorf("found a NULL row %d; allowed: rows of finite numbers", j+1)
		}
		var err error
		if out[j], err = numbers(row, lo+j, fmt.Sprintf("row %d", j+1)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// textLists reads VARCHAR[][].
func textLists(v *capi.Vec, i int) ([][]string, error) {
	list := func(v *capi.Vec) bool { return v.Type == capi.List || v.Type == capi.Array }
	if !list(v) || !list(&v.Kids[0]) || v.Kids[0].Kids[0].Type != capi.Varchar {
		return nil, option.ErrType
	}
	inner, text := &v.Kids[0], &v.Kids[0].Kids[0]
	lo, hi := v.Span(i)
	out := make([][]string, hi-lo)
	for j := range out {
		if inner.Null(lo + j) {
			return nil, option.ErrType
		}
		for k, end := inner.Span(lo + j); k < end; k++ {
			if text.Null(k) {
				return nil, option.ErrType
			}
			out[j] = append(out[j], strings.Clone(text.Str(k)))
		}
	}
	return out, nil
}

// ---- columns that vary by row ---------------------------------------------------

type rowColumns struct{ weight, offset, columnOffset, trials, time *capi.Vec }

// findRowColumns finds weight, offset, column_offset, trials and time among the fields of a STRUCT:
// the options, or the rows of bglm_update; what names it in errors.
func findRowColumns(v *capi.Vec, what string) (rowColumns, error) {
	var c rowColumns
	if v == nil || v.Type != capi.Struct {
		return c, nil
	}
	for k := range v.Kids {
		f := &v.Kids[k]
		if f.Type == capi.SQLNull {
			continue // a NULL literal: the default
		}
		number := f.IsNumber()
		var to **capi.Vec
		switch option.Canonical(f.Name) {
		case "weight":
			to = &c.weight
		case "offset":
			to = &c.offset
		case "column_offset":
			to = &c.columnOffset
		case "trials":
			to = &c.trials
		case "time":
			to = &c.time
			switch f.Type {
			case capi.Date, capi.Timestamp, capi.TimestampS, capi.TimestampMS, capi.TimestampNS, capi.TimestampTZ:
				number = true
			}
		default:
			continue
		}
		if *to != nil {
			return c, fmt.Errorf("%s %s is there twice", what, option.Canonical(f.Name))
		}
		if !number {
			o := option.Of(f.Name)
			return c, fmt.Errorf("%s %s: found %s; allowed: %s", what, o.Key, f.TypeName(), o.Allowed(OptionWords))
		}
		*to = f
	}
	return c, nil
}

// days is entry i of a time column: numbers unchanged, dates and timestamps in days since 1970.
func days(v *capi.Vec, i int) float64 {
	unit := 0.0
	switch v.Type {
	case capi.Date:
		if d := v.Int64(i); d == math.MaxInt32 || d == -math.MaxInt32 {
			return math.Inf(int(d))
		}
		return float64(v.Int64(i))
	case capi.TimestampS:
		unit = 86400
	case capi.TimestampMS:
		unit = 86400e3
	case capi.Timestamp, capi.TimestampTZ:
		unit = 86400e6
	case capi.TimestampNS:
		unit = 86400e9
	default:
		return v.Float(i)
	}
	t := v.Int64(i)
	if t == math.MaxInt64 || t == -math.MaxInt64 {
		return math.Inf(1)
	}
	return float64(t) / unit
}

// ---- parsing equal options once --------------------------------------------------

// optionCache saves parsing the same options for each of a million groups. Options without lists
// are kept for the whole process under their bytes; those with lists are kept for one call under
// the addresses of the lists.
type optionCache[T any] struct {
	all  sync.Map // string -> T
	size atomic.Int64
}

const optionCacheLimit = 1024

type callCache[T any] struct {
	shared *optionCache[T]
	prefix int // length of the key's constant part: the function's name, and what settings say
	key    []byte
	local  map[string]T
	last   string
	value  T
	ok     bool
}

// call returns the cache for one call of the named function.
func (c *optionCache[T]) call(name string) *callCache[T] {
	key := binary.LittleEndian.AppendUint64(append([]byte(name), 0), uint64(rowBudget()))
	return &callCache[T]{shared: c, prefix: len(key), key: key}
}

// get returns the parsed form of the options at row i.
func (c *callCache[T]) get(v *capi.Vec, i int, parse func() (T, error)) (T, error) {
	c.key = c.key[:c.prefix]
	plain := true
	if v != nil && v.Type == capi.Struct && !v.Null(i) {
		for k := range v.Kids {
			f := &v.Kids[k]
			c.key = append(append(c.key, f.Name...), 0)
			if option.ByRow(f.Name) { // only its presence counts
				c.key = append(c.key, byte(f.Type))
				continue
			}
			c.key, plain = appendKey(c.key, f, i, plain)
		}
	} else if v != nil && v.Type != capi.SQLNull && !v.Null(i) {
		var zero T
		return zero, fmt.Errorf("options are %s; allowed: a STRUCT such as {link: 'probit'}", v.TypeName())
	}
	if c.ok && string(c.key) == c.last {
		return c.value, nil
	}
	key := string(c.key)
	if plain {
		if got, ok := c.shared.all.Load(key); ok {
			c.last, c.value, c.ok = key, got.(T), true
			return c.value, nil
		}
	} else if got, ok := c.local[key]; ok {
		c.last, c.value, c.ok = key, got, true
		return got, nil
	}
	got, err := parse()
	if err != nil {
		return got, err
	}
	if plain {
		if c.shared.size.Add(1) > optionCacheLimit {
			c.shared.all.Clear()
			c.shared.size.Store(1)
		}
		c.shared.all.Store(key, got)
	} else {
		if c.local == nil {
			c.local = map[string]T{}
		}
		c.local[key] = got
	}
	c.last, c.value, c.ok = key, got, true
	return got, nil
}

func appendKey(dst []byte, v *capi.Vec, i int, plain bool) ([]byte, bool) {
	dst = append(dst, byte(v.Type))
	if v.Null(i) {
		return append(dst, 0), plain
	}
	dst = append(dst, 1)
	switch {
	case v.Type == capi.Varchar:
		s := v.Str(i)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(s)))
		return append(dst, s...), plain
	case v.IsNumber() || v.Type == capi.Boolean:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Float(i))), plain
	case v.Type == capi.Struct:
		for k := range v.Kids {
			dst = append(append(dst, v.Kids[k].Name...), 0)
			dst, plain = appendKey(dst, &v.Kids[k], i, plain)
		}
		return dst, plain
	case v.Type == capi.List || v.Type == capi.Map || v.Type == capi.Array:
		lo, hi := v.Span(i)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(uintptr(unsafe.Pointer(v))))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(lo))
		return binary.LittleEndian.AppendUint64(dst, uint64(hi)), false
	}
	return dst, false
}
