package option

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/bglm/bglm/kernels"
)

// Source is a value that an option is read from.
type Source interface {
	// Scalar is the value as a float64, string or bool; nil for any other.
	Scalar() any
	// Type is its type in the user's words.
	Type() string
	// Decode reads what is no scalar into a *[]Entry, *[]kernels.Belief, **kernels.Fit,
	// *Class or *[][]float64. Its error Is ErrType where the value is not of that form.
	Decode(to any) error
}

// Entry is an entry of a MAP(VARCHAR, number); the number may be NULL.
type Entry struct {
	Name  string
	Value float64
	Null  bool
}

// Class is a class as text: numbers as they print.
type Class string

// Go is a value of Go as a Source: a number, text, bool, map[string]float64,
// []kernels.Belief, *kernels.Fit, [][]float64, and what json.Unmarshal makes of their JSON.
func Go(v any) Source { return value{v, fmt.Sprintf("%T", v)} }

// JSON is a value of another system by its JSON and that system's name of its type; nil for
// null.
func JSON(text []byte, typeName string) (Source, error) {
	var v any
	if err := json.Unmarshal(text, &v); err != nil || v == nil {
		return nil, err
	}
	return value{v, typeName}, nil
}

type value struct {
	v        any
	typeName string
}

func (s value) Type() string { return s.typeName }

func (s value) Scalar() any {
	switch x := s.v.(type) {
	case int:
		return float64(x)
	case int64:
		return float64(x)
	case uint64:
		return float64(x)
	case float64, string, bool:
		return x
	}
	return nil
}

func (s value) Decode(to any) error {
	switch to := to.(type) {
	case *Class:
		switch x := s.Scalar().(type) {
		case string:
			*to = Class(x)
			return nil
		case float64:
			*to = Class(numberText(x))
			return nil
		case bool:
			*to = Class(strconv.FormatBool(x))
			return nil
		}
	case *[]Entry:
		null := map[string]bool{}
		by, ok := s.v.(map[string]float64)
		if m, is := s.v.(map[string]any); is {
			by, ok = map[string]float64{}, true
			for name, v := range m {
				if by[name], is = v.(float64); !is && v != nil {
					return ErrType
				}
				null[name] = v == nil
			}
		}
		if ok {
			for _, name := range slices.Sorted(maps.Keys(by)) {
				*to = append(*to, Entry{name, by[name], null[name]})
			}
			return nil
		}
	case *[]kernels.Belief:
		bs, ok := s.v.([]kernels.Belief)
		if !ok {
			if bs, ok = beliefs(s.v); !ok {
				return ErrType
			}
		}
		if *to = bs; len(bs) > 0 {
			return checkBeliefs(bs)
		}
		return nil
	case **kernels.Fit:
		if f, ok := s.v.(*kernels.Fit); ok {
			*to = f
			return nil
		}
	case *[][]float64:
		if m, ok := s.v.([][]float64); ok {
			*to = m
			return nil
		}
	}
	return ErrType
}

// beliefs are those of a list of {feature, mean, variance}, or of a map to {mean, variance}.
func beliefs(v any) ([]kernels.Belief, bool) {
	var out []kernels.Belief
	one := func(name any, v any) bool {
		m, ok := v.(map[string]any)
		if !ok {
			return false
		}
		if name == nil {
			name = m["feature"]
		}
		text, named := name.(string)
		mean, hasMean := m["mean"].(float64)
		variance, hasVariance := m["variance"].(float64)
		out = append(out, kernels.Belief{Feature: text, Weight: kernels.Weight{Mean: mean, Variance: variance}})
		return named && hasMean && hasVariance
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !one(nil, e) {
				return nil, false
			}
		}
		return out, true
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !one(name, v[name]) {
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}

func checkBeliefs(bs []kernels.Belief) error {
	seen := map[string]bool{}
	for _, b := range bs {
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
