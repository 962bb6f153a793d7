// Package option is every option once: its key, the values it may have, its default, what
// it means and which functions use it. SQL, the command line and Go read options with it,
// so that they accept the same values and say the same of wrong ones; help, completion and
// the documentation print it.
//
// An option is an entry of list and a field of the struct that its engine reads:
// kernels.Options or another part of kernels.Model, or Settings. A field's zero
// is its default, except where Defaults says another; Value is for options whose 0 is not
// their default, and a value 'auto' is a field of its own.
package option

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/internal/near"
	"github.com/bglm/bglm/kernels/lik"
)

// Spec describes an option.
type Spec struct {
	Key      string
	Default  string
	Allowed  string // the values it may have
	Doc      string
	Uses     string // functions without bglm_, between blanks
	Note     string // after Allowed
	Row      bool   // it may differ from row to row
	Reserved bool   // the key is a word of SQL: with an underscore behind it needs no quotes
	Flag     string // the flag that stands for it on the command line, "" = --option
	// ArrowRefuses is a value that bglm fit --engine arrow does not take, and ArrowReason why.
	ArrowRefuses, ArrowReason string

	forms forms
}

// Words are the words that the value may be, for completion.
func (p *Spec) Words() []string {
	var out []string
	for _, f := range p.forms {
		out = append(out, f.words...)
	}
	return out
}

// Specs are some of the options.
type Specs []*Spec

func specs(all ...Spec) Specs {
	out := make(Specs, len(all))
	for i := range all {
		p := &all[i]
		var allowed []string
		for _, f := range p.forms {
			allowed = append(allowed, f.allowed)
		}
		p.Allowed, p.Uses = either(allowed)+p.Note, " "+p.Uses+" "
		out[i] = p
	}
	return out
}

// All lists every option.
func All() Specs { return slices.Clone(list) }

// For lists the options of functions, by name without bglm_.
func For(functions ...string) Specs {
	return list.only(func(p *Spec) bool {
		return slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(p.Uses, " "+f+" ") })
	})
}

// Continuing lists those that do not come from the fit that is continued or with its new
// rows.
func (all Specs) Continuing() Specs { return all.Without(append(RowFields(), "prior")...) }

// Without leaves the options of some keys out.
func (all Specs) Without(keys ...string) Specs {
	return all.only(func(p *Spec) bool { return !slices.Contains(keys, p.Key) })
}

func (all Specs) only(has func(*Spec) bool) Specs {
	return slices.DeleteFunc(slices.Clone(all), func(p *Spec) bool { return !has(p) })
}

// Keys are the options' names.
func (all Specs) Keys() []string {
	var out []string
	for _, p := range all {
		if !slices.Contains(out, p.Key) {
			out = append(out, p.Key)
		}
	}
	return out
}

func (all Specs) find(key string) *Spec {
	if i := slices.IndexFunc(all, func(p *Spec) bool { return p.Key == key }); i >= 0 {
		return all[i]
	}
	return nil
}

// Of is the option of a key, nil for an unknown one.
func Of(key string) *Spec { return list.find(Canonical(key)) }

var rowFields = func() (out []string) {
	for _, p := range list {
		if p.Row {
			out = append(out, p.Key)
			if p.Reserved {
				out = append(out, p.Key+"_")
			}
		}
	}
	return out
}()

// RowFields are the keys of the options by row, in all their spellings.
func RowFields() []string { return slices.Clone(rowFields) }

// ByRow says whether a key is one of RowFields, in any case; it is asked once a group.
func ByRow(key string) bool {
	for _, k := range rowFields {
		if len(k) == len(key) && strings.EqualFold(k, key) {
			return true
		}
	}
	return false
}

// Canonical is the key as the list has it: in lower case, without the underscore behind a
// word of SQL.
func Canonical(key string) string {
	key = strings.ToLower(key)
	if bare, ok := strings.CutSuffix(key, "_"); ok {
		if p := list.find(bare); p != nil && p.Reserved {
			return bare
		}
	}
	return strings.Clone(key)
}

// Find returns the option of a key. Errors: a key that is unknown, with the nearest one, or
// belongs to other functions.
func (all Specs) Find(key string) (*Spec, error) {
	key = Canonical(key)
	if p := all.find(key); p != nil {
		return p, nil
	}
	if list.find(key) != nil {
		return nil, fmt.Errorf("option %s is not used here; allowed: %s", key, strings.Join(all.Keys(), ", "))
	}
	if n := near.Word(key, all.Keys()); n != "" {
		return nil, fmt.Errorf("unknown option %q; the nearest is %s", key, n)
	}
	return nil, fmt.Errorf("unknown option %q; allowed: %s", key, strings.Join(all.Keys(), ", "))
}

// Nearest is the one of allowed that a misspelt word may stand for, "" if none.
func Nearest(word string, allowed []string) string { return near.Word(word, allowed) }

// Edits is the Levenshtein distance of two words.
func Edits(a, b string) int { return near.Edits(a, b) }

// OnError says what becomes of a bad row.
type OnError string

// The values of on_error.
const (
	Fail OnError = "fail" // the fit
	Skip OnError = "skip" // it is counted and left out
	Null OnError = "null" // its group has no fit
)

// Settings are the constants of a call: what Go sets directly, and SQL and the command line
// by Decode. Method.Model of package engine makes a complete model of them.
type Settings struct {
	// Model has the options of the engines; Lik and HasTime are filled in later.
	kernels.Model

	Method       string // fit
	Family, Link string // "" by the other one; bernoulli and logit
	OnError      OnError
	Matrix       [][]float64 // from_beliefs: the covariance

	given map[string]bool
}

// Defaults are the settings of a call without options.
func Defaults() *Settings {
	return &Settings{OnError: Fail, given: map[string]bool{}, Model: kernels.Model{
		Prior: kernels.DefaultPrior, Params: lik.Params{Dispersion: 1}, Forgetting: 1, MaxFeatures: 50_000_000}}
}

// Given says whether the option was read, not left at its default.
func (s *Settings) Given(key string) bool { return s.given[key] }

// Decode reads options into settings; a nil Source is NULL, the default. Options by row are
// only checked for their key. Errors name the option, what was found and what is allowed.
func (all Specs) Decode(options iter.Seq2[string, Source]) (*Settings, error) {
	s := Defaults()
	seen := map[string]bool{}
	for key, v := range options {
		p, err := all.Find(key)
		if err != nil {
			return nil, err
		}
		if seen[p.Key] {
			return nil, fmt.Errorf("option %s is there twice", p.Key)
		}
		seen[p.Key] = true
		if v == nil {
			continue
		}
		s.given[p.Key] = true
		if err := p.read(s, v); err != nil {
			return nil, err
		}
	}
	s.Prior = s.Prior.Literal()
	if s.Forgets() && (s.Noise > 0 || s.NoiseBy != nil || s.Options.AutoNoise) {
		return nil, errors.New("options process_noise and forgetting are two models of drift; give one of them")
	}
	if s.Start != nil {
		return s, s.Continue(s.Start)
	}
	return s, nil
}

// read sets the option by the first of its forms that takes v.
func (p *Spec) read(s *Settings, v Source) error {
	known := false // of a type that a form has
	for _, f := range p.forms {
		switch err := f.read(s, v); {
		case err == nil:
			return nil
		case errors.Is(err, errRange):
			known = true
		case !errors.Is(err, ErrType):
			return fmt.Errorf("option %s: %w", p.Key, err)
		}
	}
	found := v.Type()
	if x := v.Scalar(); x != nil {
		if found = Show(x); !known {
			found += " (" + v.Type() + ")"
		}
	}
	return fmt.Errorf("option %s: found %s; allowed: %s", p.Key, found, p.Allowed)
}

// Validate reports a number or word that is out of its option's range: what Decode would
// not have set.
func (s *Settings) Validate() error {
	for _, p := range list {
		for _, f := range p.forms {
			if f.outside == nil {
				continue
			}
			if x, is := f.outside(s); is {
				return fmt.Errorf("option %s: found %v; allowed: %s", p.Key, x, p.Allowed)
			}
		}
	}
	return nil
}

// Show prints a number, a text or a boolean for a message.
func Show(x any) string {
	switch x := x.(type) {
	case string:
		if len(x) > 60 {
			x = strings.ToValidUTF8(x[:60], "") + "..."
		}
		return "'" + x + "'"
	case float64:
		return numberText(x)
	}
	return fmt.Sprint(x)
}

// numberText prints whole numbers in full.
func numberText(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(x)
}
