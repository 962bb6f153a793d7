package shell

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible is s with escapes in place of control characters, including line breaks, of marks that
// change the direction of writing, and of bytes that are not UTF-8: a name or a value must not move
// the cursor, break a row, recolour the terminal or appear in another order than it has.
func Visible(s string) string { return escape(s, "") }

// Message is Visible for text of several lines: it keeps line breaks and tabs.
func Message(s string) string { return escape(s, "\n\t") }

// screen is a terminal to which data are written with the escapes of Message.
type screen struct {
	out  io.Writer
	rest []byte // the beginning of a character
}

func (w *screen) Write(p []byte) (int, error) {
	b := append(w.rest, p...)
	n := len(b)
	for k := 1; k < utf8.UTFMax && k <= len(b); k++ {
		if c := b[len(b)-k]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-k:]) {
				n -= k
			}
			break
		}
	}
	text := Message(string(b[:n]))
	w.rest = append([]byte(nil), b[n:]...)
	if _, err := io.WriteString(w.out, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ForTerminal is w or, if it is a terminal, a writer that escapes control characters in data.
func ForTerminal(w io.Writer, terminal bool) io.Writer {
	if !terminal {
		return w
	}
	return &screen{out: w}
}

func visible(s string) string { return Visible(s) }

func escape(s, keep string) string {
	hidden := func(r rune) bool { return !strings.ContainsRune(keep, r) && escaped(r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02X`, s[i])
		case !hidden(r):
			b.WriteString(s[i : i+n])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
		i += n
	}
	return b.String()
}

// escaped reports control characters, and those that change the order or the lines of text.
func escaped(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
		r == 0x2028 || r == 0x2029 || r == 0x200e || r == 0x200f || r == 0x061c
}
