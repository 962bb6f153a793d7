// Package option defines every option once: its key, its allowed values, its default, its meaning
// and the methods that use it. Every interface reads options with it, so that all accept the same
// values and report wrong ones alike, each in its own Words; help, completion and the documentation
// print it.
//
// An option is an entry of list and a field of the struct that its engine reads: kernels.Options or
// another part of kernels.Model, or Settings. A field's zero is its default, unless Defaults sets
// another; Value is for options whose 0 is not their default, and a value 'auto' is a separate
// field.
package option

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/internal/near"
)

// Spec describes an option.
type Spec struct {
	Key      string
	Default  string // functions are marked in it and in Doc: `fit`
	Doc      string
	Uses     string // methods, and other functions with options, separated by blanks
	Note     string // after Allowed
	Row      bool   // it may vary by row
	Reserved bool   // it may be spelt with a trailing underscore, if the key is a reserved word

	NotByPass  string            // why a pass over rows that are not kept lacks it, though laplace has it
	NotByArrow map[string]string // values not supported for rows of Arrow, and why

	forms forms
}

// Words returns the words that the value may be, for completion.
func (p *Spec) Words() []string {
	var out []string
	for _, f := range p.forms {
		out = append(out, f.words...)
	}
	return out
}

// Words are a system's names for the kinds of values below.
type Words map[string]string

// The kinds of values for which systems have types or names of their own.
const (
	Boolean         = "true or false"
	Number          = "a number" // by row, like the next two
	Times           = "a number or a date"
	MethodName      = "the name of a method, such as 'ep'"
	FamilyName      = "the name of a family"
	LinkName        = "the name of a link, such as 'probit'"
	APosterior      = "a fit"
	AState          = "the state of a pass"
	Beliefs         = "beliefs by feature"
	NumbersByName   = "numbers by feature"
	ByColumn        = "these by column"
	NumbersOrWeight = "numbers or beliefs by feature"
	Symmetric       = "a matrix"
	ColumnSets      = "sets of columns"
)

// Allowed describes the values that the option may have, in a system's words or in these.
func (p *Spec) Allowed(w Words) string {
	var all []string
	for _, f := range p.forms {
		all = append(all, cmp.Or(w[f.allowed], f.allowed)+f.note)
	}
	return argument.Either(all) + p.Note
}

// InWords rewords an error about an option, with the allowed values in a system's words.
func InWords(e argument.Error, w Words) argument.Error {
	for _, p := range list {
		if p.Key == e.Name && p.Allowed(nil) == e.Allowed {
			e.Allowed = p.Allowed(w)
		}
	}
	return e
}

// Specs is a list of options.
type Specs []*Spec

func specs(all ...Spec) Specs {
	out := make(Specs, len(all))
	for i := range all {
		p := &all[i]
		p.Uses = " " + p.Uses + " "
		out[i] = p
	}
	return out
}

// All returns every option.
func All() Specs { return slices.Clone(list) }

// For returns the options of methods and of other functions that have any: fit (which takes the name
// of a method), from_beliefs, influence and features. Those of auto include those of the methods
// that it chooses from; those of newton_state include laplace's except those with NotByPass.
func For(functions ...string) Specs {
	if slices.Contains(functions, "auto") {
		functions = append(slices.Clone(functions), "laplace", "adf")
	}
	if i := slices.Index(functions, "newton_state"); i >= 0 {
		more := list.only(func(p *Spec) bool { return strings.Contains(p.Uses, " newton_state ") })
		others := slices.Delete(slices.Clone(functions), i, i+1)
		return append(more, For(append(others, "laplace")...).only(func(p *Spec) bool { return p.NotByPass == "" })...)
	}
	return list.only(func(p *Spec) bool {
		return slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(p.Uses, " "+f+" ") })
	})
}

// Continuing returns the options that come neither from the fit that is continued nor with its new
// rows.
func (all Specs) Continuing() Specs { return all.Without(append(RowFields(), "prior")...) }

// Without leaves out the options with some keys.
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

// Of is the option with a key, nil for an unknown one.
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

// RowFields returns the keys of the options by row, in all their spellings.
func RowFields() []string { return slices.Clone(rowFields) }

// ByRow reports whether a key is one of RowFields, in any case; it is called once per group.
func ByRow(key string) bool {
	for _, k := range rowFields {
		if len(k) == len(key) && strings.EqualFold(k, key) {
			return true
		}
	}
	return false
}

// Canonical is the key as in the list: in lower case, without the underscore after a reserved word.
func Canonical(key string) string {
	key = strings.ToLower(key)
	if bare, ok := strings.CutSuffix(key, "_"); ok {
		if p := list.find(bare); p != nil && p.Reserved {
			return bare
		}
	}
	return strings.Clone(key)
}

// Find returns the option with a key. Errors: a key that is unknown, with the nearest one, or
// belongs to other functions.
func (all Specs) Find(key string) (*Spec, error) {
	key = Canonical(key)
	if p := all.find(key); p != nil {
		return p, nil
	}
	if list.find(key) != nil {
		return nil, &argument.Error{Name: key, Why: notHere(key), Allowed: strings.Join(all.Keys(), ", ")}
	}
	e := &argument.Error{Name: key, Why: argument.Unknown, Nearest: near.Word(key, all.Keys())}
	if e.Nearest == "" {
		e.Allowed = strings.Join(all.Keys(), ", ")
	}
	return nil, e
}

// notHere says that others than the caller have the option, and which.
func notHere(key string) string {
	var users []string
	for _, p := range list {
		if p.Key != key {
			continue
		}
		for _, f := range strings.Fields(p.Uses) {
			if !slices.Contains(users, f) {
				users = append(users, f)
			}
		}
	}
	return "is not used here; it belongs to: " + strings.Join(users, ", ")
}

// Nearest is the word in allowed that a misspelt word probably means, "" if none.
func Nearest(word string, allowed []string) string { return near.Word(word, allowed) }

// Edits is the Levenshtein distance of two words.
func Edits(a, b string) int { return near.Edits(a, b) }

// OnError says what happens to an invalid row.
type OnError string

// The values of on_error.
const (
	Fail OnError = "fail" // the fit fails
	Skip OnError = "skip" // it is counted and left out
	Null OnError = "null" // its group's fit is NULL
)

// Settings are the constants of a call: set directly by Go programs, and by Decode for other
// systems. Method.Model of package engine makes a complete model from them. Zero Settings are those
// of a call without options.
type Settings struct {
	// Model has the options of the engines; Lik and HasTime are set later.
	kernels.Model

	Method       string      // fit
	Family, Link string      // "" follows from the other one; bernoulli and logit
	OnError      OnError     // "" is Fail
	Matrix       [][]float64 // from_beliefs: the covariance

	// Standardize is Options.Standardize if it is given; otherwise Method.Model of package engine
	// chooses that.
	Standardize kernels.Value[bool]

	Answer Answer

	// Columns is "exact", the default, or "any" for Options.AnyColumns.
	Columns string

	given map[string]bool
	read  kernels.Prior // Prior with its defaults, as options or the fit that is continued made it
}

// Answer has the options of the tables over rows under a fit.
type Answer struct {
	Level      float64 // 0 is 0.95
	Rope       float64 // 0 for none
	Step       float64 // 0 for slopes
	Reference  string  // a level; by default the first
	Prediction string  // "" is exact
	Draws      int
	Type       string // of a robust covariance, "" is HC0

	Table, Keep, Form string // of a query that scores
}

// Defaults returns the settings of a call without options, with values for what the method does not
// choose.
func Defaults() *Settings {
	s := &Settings{given: map[string]bool{}}
	s.Complete()
	return s
}

// Complete sets zero fields of the settings to their defaults, where these are the same for all
// methods and families. The zeros of Prior stay: they say that none was given.
func (s *Settings) Complete() {
	s.OnError = kernels.Or(s.OnError, Fail)
	s.Forgetting = kernels.Or(s.Forgetting, 1)
	s.MaxFeatures = kernels.Or(s.MaxFeatures, 50_000_000)
}

// Clone returns a copy whose fields may be set; it shares the elements of slices and maps.
func (s *Settings) Clone() *Settings {
	c := *s
	c.given = maps.Clone(s.given)
	return &c
}

// Given reports whether the option was read, not left at its default.
func (s *Settings) Given(key string) bool { return s.given[key] }

// Decode reads options into settings; a nil Source is NULL, the default. Of options by row only the
// key is checked. Errors are an argument.Error.
func (all Specs) Decode(options iter.Seq2[string, Source]) (*Settings, error) {
	s := Defaults()
	s.Prior = kernels.DefaultPrior
	seen := map[string]bool{}
	for key, v := range options {
		p, err := all.Find(key)
		if err != nil {
			return nil, err
		}
		if seen[p.Key] {
			return nil, &argument.Error{Name: p.Key, Why: "is there twice"}
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
	s.read = s.Prior
	if err := s.checkDrift(); err != nil {
		return nil, err
	}
	if s.Start != nil {
		return s, s.Continue(s.Start)
	}
	return s, nil
}

// read sets the option by the first of its forms that accepts v.
func (p *Spec) read(s *Settings, v Source) error {
	known := false // the type of v fits a form
	for _, f := range p.forms {
		switch err := f.read(s, v); {
		case err == nil:
			return nil
		case errors.Is(err, errRange):
			known = true
		case !errors.Is(err, ErrType):
			return &argument.Error{Name: p.Key, Err: err}
		}
	}
	found := v.Type()
	if x := v.Scalar(); x != nil {
		if found = Show(x); !known {
			found += " (" + v.Type() + ")"
		}
	}
	return &argument.Error{Name: p.Key, Found: found, Allowed: p.Allowed(nil)}
}

// Validate reports numbers and words out of their option's range, and invalid beliefs and numbers
// by name: what Decode would have rejected.
func (s *Settings) Validate() error {
	for _, p := range list {
		for _, f := range p.forms {
			if f.outside == nil {
				continue
			}
			if x, is := f.outside(s); is {
				return &argument.Error{Name: p.Key, Found: Show(x), Allowed: p.Allowed(nil)}
			}
		}
	}
	return s.checkNamed()
}

// checkNamed is Validate for options with values by name, and for those that exclude each other.
func (s *Settings) checkNamed() error {
	var noise error
	for _, name := range slices.Sorted(maps.Keys(s.NoiseBy)) {
		if x := s.NoiseBy[name]; noise == nil && !nonNegative.contains(x) {
			noise = nonNegative.outside("feature", name, x)
		}
	}
	for _, c := range []struct {
		key string
		err error
	}{{"process_noise", noise}, {"priors", checkBeliefs(s.Priors)}, {"prior_variance", checkPriorBy(s.PriorBy)}, {"correlated", checkCorrelated(s)}, {"at", checkBeliefs(s.At)}} {
		if c.err != nil {
			return &argument.Error{Name: c.key, Err: c.err}
		}
	}
	return s.checkDrift()
}

// checkDrift reports two models of drift.
func (s *Settings) checkDrift() error {
	if s.Forgets() && (s.Noise > 0 || s.NoiseBy != nil || s.Options.AutoNoise) {
		return &argument.Error{Name: "process_noise", Why: "and forgetting are two models of drift; give one of them"}
	}
	return nil
}

// Unused reports a number, word or truth value that was set although the options all lack it, so
// that the method would ignore it. It is for settings made by Go programs; Decode reports this
// itself.
func (all Specs) Unused(s *Settings) error {
	for key, found := range all.Lacking(s) {
		return &argument.Error{Name: key, Found: found, Why: notHere(key), Allowed: strings.Join(all.Keys(), ", ")}
	}
	return nil
}

// Lacking yields the options, except method, that are not at their default in s although the options
// all lack them, with their values.
func (all Specs) Lacking(s *Settings) iter.Seq2[string, string] {
	keys := all.Keys()
	return func(yield func(key, found string) bool) {
		for _, p := range list {
			if slices.Contains(keys, p.Key) || p.Key == "method" {
				continue
			}
			for _, f := range p.forms {
				if f.differs == nil {
					continue
				}
				if x, is := f.differs(s); is && !yield(p.Key, Show(x)) {
					return
				}
			}
		}
	}
}

// Check is Validate for engines called without Settings; nil stands for the defaults.
func Check(o *kernels.Options) error {
	if o == nil {
		return nil
	}
	return (&Settings{Model: kernels.Model{Options: *o}}).Validate()
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

// numberText prints whole numbers in full, and -0 as the 0 that it equals.
func numberText(x float64) string {
	if x == 0 {
		return "0"
	}
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(x)
}
