// Package cli has what the commands of bglm share: their streams, usage errors, and safe output to
// a terminal.
package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/bglm/bglm/cmd/internal/shell"
)

// Env is the environment of a command.
type Env struct {
	Ctx    context.Context
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Names are names of files that messages may contain.
	Names []string
	// CSVTypes are the SQL types of columns of CSV files whose first rows suggest others.
	CSVTypes map[string]string
}

// Note records names of files that messages may contain.
func (e *Env) Note(names ...string) { e.Names = append(e.Names, names...) }

// Message is an error's text without control characters for a terminal; in names of files line
// breaks are escaped too, which elsewhere are part of the message.
func (e *Env) Message(err error) string {
	text := err.Error()
	for _, name := range e.Names {
		for _, n := range []string{name, filepath.Dir(name)} {
			if v := shell.Visible(n); v != n {
				text = strings.ReplaceAll(text, n, v)
			}
		}
	}
	return shell.Message(text)
}

// ErrInterrupted is the error of a command that the user has stopped.
var ErrInterrupted = errors.New("interrupted; nothing was written")

type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// Usage marks an error as wrong usage: exit code 2.
func Usage(err error) error { return usage{err} }

// IsUsage reports whether an error, or one that it wraps, is marked as wrong usage.
func IsUsage(err error) bool { return errors.As(err, new(usage)) }

// descriptor is implemented by *os.File, not by a test's buffer.
type descriptor interface{ Fd() uintptr }

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(v any) bool {
	f, ok := v.(descriptor)
	return ok && term.IsTerminal(int(f.Fd()))
}

// TerminalWidth is the width in characters of the terminal that w writes to: 0 if it is unknown or
// unusably small, ok false if w is not a terminal.
func TerminalWidth(w any) (width int, ok bool) {
	if !IsTerminal(w) {
		return 0, false
	}
	width, _, err := term.GetSize(int(w.(descriptor).Fd()))
	if err != nil || width < 20 {
		return 0, true
	}
	return width, true
}
