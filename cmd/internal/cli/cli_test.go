package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestUsage(t *testing.T) {
	err := fmt.Errorf("--beliefs: %w", Usage(io.EOF))
	if !IsUsage(err) || !errors.Is(err, io.EOF) || IsUsage(io.EOF) || err.Error() != "--beliefs: EOF" {
		t.Errorf("%v", err)
	}
}

// A name with control characters cannot write on the terminal, nor begin a line.
func TestMessage(t *testing.T) {
	var e Env
	e.Note("da\nys/a\x1b[2J.csv")
	if got, want := e.Message(errors.New("da\nys/a\x1b[2J.csv: no\nsuch")), `da\nys/a\x1B[2J.csv: no`+"\nsuch"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTerminal(t *testing.T) {
	if width, ok := TerminalWidth(&bytes.Buffer{}); ok || width != 0 || IsTerminal(nil) {
		t.Error("a buffer is no terminal")
	}
}
