package option

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bglm/bglm/kernels"
)

// Source is a value that an option is read from.
type Source interface {
	// Scalar is the value as a float64, string or bool; nil for any other.
	Scalar() any
	// Type is its type in the user's words.
	Type() string
	// Decode reads a non-scalar value into a *[]Entry, *[]Setting, *[]kernels.Belief,
	// **kernels.Fit, *[]byte, *Class, *[][]float64 or *[][]string. Its error Is ErrType if the
	// value does not have that form.
	Decode(to any) error
}

// Entry is an entry of a MAP(VARCHAR, number); the number may be NULL.
type Entry struct {
	Name  string
	Value float64
	Null  bool
}

// Setting is a field of a STRUCT: a number, a text, a boolean, or nil for NULL.
type Setting struct {
	Name  string
	Value any
}

// Class is a class as text: numbers in their printed form.
type Class string

// Go returns a Go value as a Source: a number, text, bool, map[string]float64, []kernels.Belief,
// *kernels.Fit, []byte, [][]float64, [][]string, or anything with the JSON of one.
func Go(v any) Source {
	f, _ := v.(*kernels.Fit)
	state, _ := v.([]byte)
	text, err := json.Marshal(v)
	if f != nil || v == nil || err != nil { // of no form other than a fit's
		text = nil
	}
	return value{text, fmt.Sprintf("%T", v), f, state}
}

// JSON returns a value of another system, given its JSON and that system's name of its type.
func JSON(text []byte, typeName string) Source { return value{text, typeName, nil, nil} }

type value struct {
	text     []byte
	typeName string
	fit      *kernels.Fit
	state    []byte
}

func (x value) Type() string { return x.typeName }

func (x value) is(to any) bool { return json.Unmarshal(x.text, to) == nil }

func (x value) Scalar() any {
	var v any
	if x.is(&v) {
		switch v.(type) {
		case float64, string, bool:
			return v
		}
	}
	return nil
}

func (x value) Decode(to any) error {
	switch to := to.(type) {
	case *Class:
		if v := x.Scalar(); v != nil {
			*to = Class(fmt.Sprint(v))
			if n, ok := v.(float64); ok {
				*to = Class(numberText(n))
			}
			return nil
		}
	case *[]Entry:
		var by map[string]*float64
		if x.is(&by) {
			for _, name := range slices.Sorted(maps.Keys(by)) {
				e := Entry{Name: name, Null: by[name] == nil}
				if !e.Null {
					e.Value = *by[name]
				}
				*to = append(*to, e)
			}
			return nil
		}
	case *[]Setting:
		var by map[string]any
		if x.is(&by) {
			for _, name := range slices.Sorted(maps.Keys(by)) {
				*to = append(*to, Setting{name, by[name]})
			}
			return nil
		}
	case *[]kernels.Belief:
		return x.beliefs(to)
	case **kernels.Fit:
		if *to = x.fit; x.fit != nil {
			return nil
		}
	case *[]byte:
		if *to = x.state; x.state != nil {
			return nil
		}
	case *[][]float64:
		if x.is(to) {
			return nil
		}
	case *[][]string:
		if x.is(to) {
			return nil
		}
	}
	return ErrType
}

// ErrClass says that a belief has a class, although one of a feature is wanted.
var ErrClass = errors.New("found beliefs with a class; allowed: feature, mean and variance, of a feature in every class (a fit of classes is continued by option prior)")

// beliefs reads a list of {feature, mean, variance}, or a map to {mean, variance}.
func (x value) beliefs(to *[]kernels.Belief) error {
	type entry struct {
		Feature        *string
		Mean, Variance *float64
		Class          any
	}
	var all []entry
	var by map[string]entry
	if !x.is(&all) {
		if !x.is(&by) {
			return ErrType
		}
		for _, name := range slices.Sorted(maps.Keys(by)) {
			e := by[name]
			e.Feature = &name
			all = append(all, e)
		}
	}
	for _, e := range all {
		if e.Feature == nil || e.Mean == nil || e.Variance == nil {
			return ErrType
		}
		if e.Class != nil {
			return ErrClass
		}
		*to = append(*to, kernels.Belief{Feature: *e.Feature, Weight: kernels.Weight{Mean: *e.Mean, Variance: *e.Variance}})
	}
	return checkBeliefs(*to)
}

// checkBeliefs reports a feature that occurs twice, and an invalid belief.
func checkBeliefs(all []kernels.Belief) error {
	seen := make(map[string]bool, len(all))
	for _, b := range all {
		if seen[b.Feature] {
			return fmt.Errorf("feature %q has more than one belief", b.Feature)
		}
		if err := kernels.CheckWeight(b.Weight); err != nil {
			return fmt.Errorf("feature %q: %w", b.Feature, err)
		}
		seen[b.Feature] = true
	}
	return nil
}
