// Package argument has the error of an argument or option that is not allowed. The kernels
// say what was found and what is allowed; whoever knows how the user gave it, as a field of
// SQL, a flag or a field of Go, says so by Reword.
package argument

import (
	"errors"
	"strings"

	"github.com/bglm/bglm/kernels/internal/near"
)

// Error is an argument that is not allowed. What is "" is left out.
type Error struct {
	Name    string // of the argument, as package option has it
	Found   string // as the user may have written it
	Why     string // a clause: why it is not allowed
	For     string // where Allowed is allowed
	Allowed string
	Nearest string // of what is allowed, a word that may have been meant
	Err     error  // what is wrong with it, in the place of Found
}

// Unknown is the Why of a name that there is not.
const Unknown = "is unknown"

func (e *Error) Error() string { return e.Named(e.Name) }
func (e *Error) Unwrap() error { return e.Err }

// Named is the error with another name for the argument, such as its flag.
func (e *Error) Named(name string) string {
	var b strings.Builder
	b.WriteString(name)
	if e.Found != "" {
		b.WriteString(": found " + e.Found)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Why != "" {
		if e.Found != "" {
			b.WriteByte(';')
		}
		b.WriteString(" " + e.Why)
	}
	if e.Allowed != "" {
		b.WriteString("; allowed")
		if e.For != "" {
			b.WriteString(" for " + e.For)
		}
		b.WriteString(": " + e.Allowed)
	}
	if e.Nearest != "" {
		b.WriteString("; the nearest is " + e.Nearest)
	}
	return b.String()
}

// Word is a word that is none of those allowed.
func Word(name, found string, allowed []string) *Error {
	return &Error{Name: name, Found: "'" + found + "'", Allowed: strings.Join(allowed, ", "), Nearest: near.Word(found, allowed)}
}

// Reword is err with the Error in it, where there is one, said by word. It wraps err.
func Reword(err error, word func(e *Error) string) error {
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	return &reworded{strings.Replace(err.Error(), e.Error(), word(e), 1), err}
}

type reworded struct {
	text string
	err  error
}

func (r *reworded) Error() string { return r.text }
func (r *reworded) Unwrap() error { return r.err }

// Quoted is words in quotation marks: 'a', 'b' or 'c'.
func Quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + w + "'"
	}
	return Either(out)
}

// Either joins alternatives: a, b or c.
func Either(all []string) string {
	if n := len(all) - 1; n > 0 {
		return strings.Join(all[:n], ", ") + " or " + all[n]
	}
	return strings.Join(all, "")
}
