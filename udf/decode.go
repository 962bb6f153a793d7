package udf

import (
	"fmt"
	"strings"

	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/udf/internal/capi"
)

// decoded caches what was made of the entry of a column that was last asked for, for one call. It
// serves the entries next to it that are equal in every field (capi.Vec.Runs). All functions with a
// FIT argument decode through it, so that no answer mixes fields of different rows.
type decoded[T any] struct {
	run    []int32
	have   int32 // the run that value belongs to, -1 = none
	value  T
	decode func(i int) (T, error)
}

// of resets d to another column.
func (d *decoded[T]) of(v *capi.Vec, decode func(i int) (T, error)) {
	*d = decoded[T]{run: v.Runs(d.run), have: -1, decode: decode}
}

// at is the decoded entry i.
func (d *decoded[T]) at(i int) (T, error) {
	if run := d.run[i]; run != d.have {
		d.have = -1 // a failed attempt leaves nothing
		v, err := d.decode(i)
		if err != nil {
			return v, err
		}
		d.value, d.have = v, run
	}
	return d.value, nil
}

// layout is what a STRUCT argument must have: its type, the fields that it may lack and the fields
// that may be NULL, both by path.
type layout struct {
	what               string // for messages
	t                  *capi.Type
	optional, nullable map[string]bool
}

func fieldSet(names string) map[string]bool {
	out := map[string]bool{}
	for _, n := range strings.Fields(names) {
		out[n] = true
	}
	return out
}

// fit checks the types of v, in any order of fields and with any type of numbers; fields that s
// does not know are ignored. Errors name the field, the type found and what is allowed.
func (s *layout) fit(v *capi.Vec) error { return s.check(v, s.t, "") }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (s *layout) check(v *capi.Vec, t *capi.Type, path string) error {
	if v.Type == capi.SQLNull || v.Type == capi.Varchar && s.nullable[path] && (t.ID == capi.List || isNumber(t)) {
		return nil // NULLs are checked row by row; a field that is NULL everywhere in JSON is read as text
	}
	bad := func(allowed string) error {
		return fmt.Errorf("%s has a field %s of type %s; allowed: %s", s.what, path, v.TypeName(), allowed)
	}
	switch t.ID {
	case capi.Struct:
		if v.Type != capi.Struct {
			return bad(t.String())
		}
		for k := range v.Kids {
			name := v.Kids[k].Name
			if field(t, name) != nil {
				continue
			}
			// Users may add fields, but a misspelt one would pass for a field left out.
			if near := slipOf(name, v, t); near != "" {
				return fmt.Errorf("%s has a field %s and no field %s; allowed: that name, or one that is not so near to it", s.what, join(path, name), join(path, near))
			}
		}
		for _, f := range t.Fields {
			at := join(path, f.Name)
			kid := v.Field(f.Name)
			if kid == nil {
				if s.optional[at] {
					continue
				}
				return fmt.Errorf("%s is %s, without a field %s; allowed: %s", s.what, v.TypeName(), at, f.Type)
			}
			if err := s.check(kid, f.Type, at); err != nil {
				return err
			}
		}
	case capi.List:
		if v.Type != capi.List && v.Type != capi.Array {
			return bad(t.String())
		}
		if v.Kids[0].Type == capi.Varchar && isNumber(t.Elem) {
			return nil // JSON types lists that are all empty so; function numbers checks the others
		}
		return s.check(&v.Kids[0], t.Elem, path+"[]")
	case capi.Varchar, capi.Boolean:
		if v.Type != t.ID {
			return bad(t.String())
		}
	default:
		if !v.IsNumber() {
			return bad("a number")
		}
	}
	return nil
}

// isNumber reports whether t is a numeric type.
func isNumber(t *capi.Type) bool {
	return t.ID != capi.Struct && t.ID != capi.List && t.ID != capi.Varchar && t.ID != capi.Boolean
}

// textual is the error of a number, or a list of numbers, that is text and not NULL.
func textual(path string, t *capi.Type) error {
	return fmt.Errorf("%s is text; allowed: %s or NULL, as a cast of the FIT or of this field gives", path, t)
}

// slipOf is the field of t that v lacks and whose name is one edit away from name, or two for long
// names; "" for none.
func slipOf(name string, v *capi.Vec, t *capi.Type) string {
	for _, f := range t.Fields {
		if most := min(len(f.Name)/3, 2); v.Field(f.Name) == nil && option.Edits(strings.ToLower(name), f.Name) <= most {
			return f.Name
		}
	}
	return ""
}

// differs describes the first field of v whose type is not exactly that of t.
func differs(v *capi.Vec, t *capi.Type, path string) string {
	for _, f := range t.Fields {
		kid := v.Field(f.Name)
		if kid == nil {
			continue
		}
		at, u := join(path, f.Name), f.Type
		for u.ID == capi.List && (kid.Type == capi.List || kid.Type == capi.Array) {
			u, kid, at = u.Elem, &kid.Kids[0], at+"[]"
		}
		if u.ID != kid.Type {
			return fmt.Sprintf("its field %s is %s; allowed: %s", at, kid.TypeName(), u)
		}
		if d := differs(kid, u, at); d != "" {
			return d
		}
	}
	return ""
}

func field(t *capi.Type, name string) *capi.Type {
	for _, f := range t.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Type
		}
	}
	return nil
}

// named is a field of a STRUCT argument.
type named struct {
	path string
	v    *capi.Vec
}

// required lists the fields of v that must not be NULL, STRUCTs before their fields, without the
// user's own fields. Entries of lists are checked by their readers.
func (s *layout) required(v *capi.Vec) []named { return s.requires(nil, v, s.t, "") }

func (s *layout) requires(out []named, v *capi.Vec, t *capi.Type, path string) []named {
	for _, f := range t.Fields {
		at, kid := join(path, f.Name), v.Field(f.Name)
		if kid == nil || s.nullable[at] {
			continue
		}
		out = s.requires(append(out, named{at, kid}), kid, f.Type, at)
	}
	return out
}

// missingOf is the path of the first field that is NULL at entry i, "" for none.
func missingOf(fields []named, i int) string {
	for k := range fields {
		if fields[k].v.Null(i) {
			return fields[k].path
		}
	}
	return ""
}

// numbers copies the numbers of entry i of a list. Errors: a NULL among them.
func numbers(v *capi.Vec, i int, what string) ([]float64, error) {
	if v.Type == capi.Varchar {
		return nil, textual(what, capi.ListOf(capi.TDouble))
	}
	lo, hi := v.Span(i)
	if lo < hi && v.Kids[0].Type == capi.Varchar {
		return nil, textual(what, capi.ListOf(capi.TDouble))
	}
	out := make([]float64, 0, hi-lo)
	for k := lo; k < hi; k++ {
		if v.Kids[0].Null(k) {
			return nil, fmt.Errorf("%s has NULL at %d; allowed: finite numbers", what, k-lo+1)
		}
		out = append(out, v.Kids[0].Float(k))
	}
	return out, nil
}

// wholeNumber reads a number that must be an integer of 64 bits.
func wholeNumber(v *capi.Vec, i int, what string) (int64, error) {
	switch v.Type {
	case capi.BigInt:
		return v.Int64(i), nil
	case capi.Varchar:
		return 0, textual(what, capi.TBigInt)
	}
	if x := v.Float(i); x == float64(int64(x)) && x > -1<<63 && x < 1<<63 {
		return int64(x), nil
	}
	return 0, fmt.Errorf("%s = %v; allowed: a whole number", what, v.Float(i))
}

// typeAt is the type of a field of t, by path.
func typeAt(t *capi.Type, path string) *capi.Type {
	for _, name := range strings.Split(path, ".") {
		if t = field(t, name); t == nil {
			break
		}
	}
	return t
}
