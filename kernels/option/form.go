package option

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
)

// form is one form that a value may have: its description for the user, how it is read into the
// settings, and the value there if it is out of range.
type form struct {
	allowed string   // a kind of Words, or literally
	note    string   // after it
	words   []string // if it is a word of a list
	read    func(s *Settings, v Source) error
	outside func(s *Settings) (value any, is bool)
	// differs returns the value there if it is not the default; nil if there is none.
	differs func(s *Settings) (value any, is bool)
}

type forms []form

// ErrType says that a value does not have a form at all; errRange that it does, but is out of
// range.
var (
	ErrType  = errors.New("another type")
	errRange = errors.New("out of range")
)

// interval is a set of finite numbers.
type interval struct {
	allowed string
	has     func(x float64) bool
}

func (in interval) contains(x float64) bool {
	return !math.IsNaN(x) && !math.IsInf(x, 0) && in.has(x)
}

// outside is the error for a value x that belongs to the named what.
func (in interval) outside(what, name string, x float64) error {
	return fmt.Errorf("%s %q has %v; allowed: %s", what, name, x, in.allowed)
}

var (
	anyNumber   = interval{"a finite number", func(float64) bool { return true }}
	nonNegative = interval{"a finite number >= 0", func(x float64) bool { return x >= 0 }}
	positive    = interval{"a finite number > 0", func(x float64) bool { return x > 0 }}
	nonZero     = interval{"a finite number, not 0", func(x float64) bool { return x != 0 }}
	share       = interval{"a number in (0, 1]", func(x float64) bool { return x > 0 && x <= 1 }}
	between     = interval{"a number in (0, 1)", func(x float64) bool { return x > 0 && x < 1 }}
)

func wholeFrom(lo, hi float64) interval {
	return interval{fmt.Sprintf("a whole number from %.0f to %.0f", lo, hi), func(x float64) bool { return x == math.Trunc(x) && x >= lo && x <= hi }}
}

// nonDefault makes differs from get, which finds the value in the settings.
func nonDefault[T comparable](get func(*Settings) T) func(s *Settings) (any, bool) {
	return func(s *Settings) (any, bool) {
		var zero T
		x, d := get(s), Defaults()
		d.Prior = kernels.DefaultPrior
		return x, x != zero && x != get(d)
	}
}

// field is nonDefault for a field.
func field[T comparable](at func(*Settings) *T) func(s *Settings) (any, bool) {
	return nonDefault(func(s *Settings) T { return *at(s) })
}

// form reads a number in the interval; get returns the number in the settings, where 0 stands for
// the default.
func (in interval) form(set func(*Settings, float64), get func(*Settings) float64) form {
	return form{allowed: in.allowed,
		read: func(s *Settings, v Source) error {
			x, ok := v.Scalar().(float64)
			switch {
			case !ok:
				return ErrType
			case !in.contains(x):
				return errRange
			}
			set(s, x)
			return nil
		},
		outside: func(s *Settings) (any, bool) { x := get(s); return x, x != 0 && !in.contains(x) },
		differs: nonDefault(get),
	}
}

func number(in interval, at func(*Settings) *float64) form {
	return in.form(func(s *Settings, x float64) { *at(s) = x }, func(s *Settings) float64 { return *at(s) })
}

func whole[T int | uint64](lo, hi float64, at func(*Settings) *T) form {
	return wholeFrom(lo, hi).form(func(s *Settings, x float64) { *at(s) = T(x) }, func(s *Settings) float64 { return float64(*at(s)) })
}

// count is an integer whose 0 is not the default.
func count(hi float64, at func(*Settings) *kernels.Value[int]) form {
	return wholeFrom(0, hi).form(func(s *Settings, x float64) { *at(s) = kernels.Given(int(x)) }, func(s *Settings) float64 { return float64(at(s).Or(0)) })
}

// seconds is the time limit.
var seconds = interval{"a number of seconds > 0", positive.has}.form(
	func(s *Settings, x float64) { s.Options.TimeLimit = time.Duration(min(x, 1e9) * float64(time.Second)) },
	func(s *Settings) float64 { return s.Options.TimeLimit.Seconds() })

func boolean(at func(*Settings) *bool) form {
	return form{allowed: Boolean, words: []string{"true", "false"}, differs: field(at), read: func(s *Settings, v Source) error {
		b, ok := v.Scalar().(bool)
		if !ok {
			return ErrType
		}
		*at(s) = b
		return nil
	}}
}

// choice is boolean for a field whose default is neither true nor false.
func choice(at func(*Settings) *kernels.Value[bool]) form {
	f := boolean(nil)
	f.differs = func(s *Settings) (any, bool) { return at(s).Or(false), at(s).IsGiven() }
	f.read = func(s *Settings, v Source) error {
		b, ok := v.Scalar().(bool)
		if !ok {
			return ErrType
		}
		*at(s) = kernels.Given(b)
		return nil
	}
	return f
}

// unless is boolean for a field that means the opposite.
func unless(at func(*Settings) *bool) form {
	f := boolean(at)
	f.differs = func(s *Settings) (any, bool) { return !*at(s), *at(s) }
	read := f.read
	f.read = func(s *Settings, v Source) error {
		if err := read(s, v); err != nil {
			return err
		}
		*at(s) = !*at(s)
		return nil
	}
	return f
}

// text is any word, in lower case; its user knows the valid ones.
func text(allowed string, at func(*Settings) *string) form {
	return form{allowed: allowed, differs: field(at), read: func(s *Settings, v Source) error {
		w, ok := v.Scalar().(string)
		switch {
		case !ok:
			return ErrType
		case w == "": // which would be the default
			return errRange
		}
		*at(s) = strings.ToLower(w)
		return nil
	}}
}

// named is a class or a level; "" in the settings is none.
func named(what string, at func(*Settings) *string) form {
	return decoded(what, func(s *Settings, v Source) error {
		to := at(s)
		if err := v.Decode((*Class)(to)); err != nil || *to != "" {
			return err
		}
		return fmt.Errorf("found ''; allowed: %s that is not the empty text", what)
	})
}

// verbatim reads a text unchanged.
func verbatim(v Source, to *string) error {
	w, ok := v.Scalar().(string)
	if !ok {
		return ErrType
	}
	*to = w
	return nil
}

// word is one of words; at is nil if it stands for the default.
func word[T ~string](at func(*Settings) *T, words ...string) form {
	return form{allowed: argument.Quoted(words), words: words,
		read: func(s *Settings, v Source) error {
			w, ok := v.Scalar().(string)
			w = strings.ToLower(w)
			switch {
			case !ok:
				return ErrType
			case !slices.Contains(words, w):
				return errRange
			case at != nil:
				*at(s) = T(w)
			}
			return nil
		},
		outside: func(s *Settings) (any, bool) {
			if at == nil || *at(s) == "" {
				return nil, false
			}
			return string(*at(s)), !slices.Contains(words, string(*at(s)))
		},
		differs: func(s *Settings) (any, bool) {
			if at == nil {
				return nil, false
			}
			x, is := field(at)(s)
			return string(x.(T)), is
		},
	}
}

// withoutRangeCheck is a form for a field whose range another spec checks, for other methods.
func (f form) withoutRangeCheck() form {
	f.outside = nil
	return f
}

// orAuto is a form of words that also accepts 'auto' for the default.
func (f form) orAuto() form {
	read := f.read
	f.words = append([]string{"auto"}, f.words...)
	f.allowed = argument.Quoted(f.words)
	f.read = func(s *Settings, v Source) error {
		if w, ok := v.Scalar().(string); ok && strings.EqualFold(w, "auto") {
			return nil
		}
		return read(s, v)
	}
	return f
}

// auto is the word 'auto'; at is nil if it stands for the default.
func auto(at func(*Settings) *bool) form {
	differs := func(s *Settings) (any, bool) { return "auto", at != nil && *at(s) }
	return form{allowed: "'auto'", words: []string{"auto"}, differs: differs, read: func(s *Settings, v Source) error {
		if w, ok := v.Scalar().(string); !ok || !strings.EqualFold(w, "auto") {
			return ErrType // other words are as wrong as they are for the number
		}
		if at != nil {
			*at(s) = true
		}
		return nil
	}}
}

// decoded is a value that is not a scalar.
func decoded(allowed string, read func(*Settings, Source) error) form {
	return form{allowed: allowed, read: read}
}

// phrase describes a value that is not a scalar in a message.
type phrase string

// several is a decoded value whose entries in the settings get counts.
func several(allowed string, read func(*Settings, Source) error, get func(*Settings) int) form {
	f := decoded(allowed, read)
	f.differs = func(s *Settings) (any, bool) { return phrase(fmt.Sprintf("a value of length %d", get(s))), get(s) > 0 }
	return f
}

// fitted is a decoded value that is a fit.
func fitted(allowed string, at func(*Settings) **kernels.Fit) form {
	f := decoded(allowed, func(s *Settings, v Source) error { return v.Decode(at(s)) })
	f.differs = func(s *Settings) (any, bool) { return phrase("a fit"), *at(s) != nil }
	return f
}

// symmetric is a covariance matrix.
func symmetric(read func(*Settings, Source) error) form {
	return form{allowed: Symmetric, note: ", symmetric and positive definite, in the order of the beliefs", read: read}
}

// column may vary by row; the reader of the rows reads it.
func column(allowed, note string) form {
	return form{allowed: allowed, note: note + ", may be a column", read: func(*Settings, Source) error { return nil }}
}

func noiseBy(s *Settings, v Source) error {
	all, err := entries(v, nonNegative)
	if err != nil {
		return err
	}
	s.NoiseBy = map[string]float64{}
	for _, e := range all {
		if !e.Null {
			s.NoiseBy[e.Name] = e.Value
		}
	}
	return nil
}

// priorBy reads prior variances by column; NULL means that a column has none of its own.
func priorBy(s *Settings, v Source) error {
	var all []Setting
	if err := v.Decode(&all); err != nil {
		return err
	}
	for _, e := range all {
		c := kernels.ColumnPrior{Column: e.Name}
		switch x := e.Value.(type) {
		case nil:
			continue
		case float64:
			c.Variance = x
		case string:
			if !strings.EqualFold(x, "auto") {
				return fmt.Errorf("column %q has '%s'; allowed: %s or 'auto'", e.Name, x, nonNegative.allowed)
			}
			c.Auto = true
		default:
			return fmt.Errorf("column %q has %v; allowed: %s or 'auto'", e.Name, x, nonNegative.allowed)
		}
		s.PriorBy = append(s.PriorBy, c)
	}
	return checkPriorBy(s.PriorBy)
}

// checkPriorBy reports a column that occurs twice, and an invalid variance.
func checkPriorBy(all kernels.ColumnPriors) error {
	for k, c := range all {
		if !c.Auto && !nonNegative.contains(c.Variance) {
			return fmt.Errorf("%w or 'auto'", nonNegative.outside("column", c.Column, c.Variance))
		}
		if all[:k].Of(c.Column) != nil {
			return fmt.Errorf("column %q is there twice", c.Column)
		}
	}
	return nil
}

// correlated reads sets of columns.
func correlated(s *Settings, v Source) error {
	if err := v.Decode(&s.Correlated); err != nil {
		return err
	}
	return checkCorrelated(s)
}

// checkCorrelated reports sets that share a column or have only one, and a column whose prior
// variance is given.
func checkCorrelated(s *Settings) error {
	seen := map[string]bool{}
	for _, set := range s.Correlated {
		if len(set) < 2 {
			return fmt.Errorf("a set of %d; allowed: two columns or more", len(set))
		}
		for _, name := range set {
			if seen[strings.ToLower(name)] {
				return fmt.Errorf("column %q is there twice", name)
			}
			seen[strings.ToLower(name)] = true
			if own := s.PriorBy.Of(name); own != nil && !own.Auto {
				return fmt.Errorf("column %q has a prior variance of its own; allowed: 'auto' or none", name)
			}
		}
	}
	return nil
}

// weightsAt reads numbers by name, or beliefs, whose means are used.
func weightsAt(s *Settings, v Source) error {
	all, err := entries(v, anyNumber)
	if errors.Is(err, ErrType) {
		return v.Decode(&s.At)
	}
	for _, e := range all {
		if e.Null {
			return fmt.Errorf("feature %q has no number; allowed: a finite number", e.Name)
		}
		s.At = append(s.At, kernels.Belief{Feature: e.Name, Weight: kernels.Weight{Mean: e.Value}})
	}
	return err
}

// entries are numbers by name, each NULL or in an interval.
func entries(v Source, in interval) (all []Entry, err error) {
	if err = v.Decode(&all); err != nil {
		return nil, err
	}
	for _, e := range all {
		if !e.Null && !in.contains(e.Value) {
			return nil, in.outside("feature", e.Name, e.Value)
		}
	}
	return all, nil
}
