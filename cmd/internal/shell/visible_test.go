package shell

import (
	"bytes"
	"strings"
	"testing"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"größe ✓ 漢字":           "größe ✓ 漢字",
		"a\x1b[31mb\x7f\u009b": `a\x1B[31mb\x7F\x9B`,
		"a\nb\tc\r":            `a\nb\tc\r`,
		"bad \xff\xc3":         `bad \xFF\xC3`,
		"abc\u202edef\u2066":   `abc\u202Edef\u2066`,
		"\ufffd":               "\ufffd",
	} {
		if got := Visible(in); got != want {
			t.Errorf("Visible(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Message("a\n\tb\x1b\r"); got != "a\n\tb"+`\x1B\r` {
		t.Errorf("%q", got)
	}
	// Cut anywhere, the text comes through whole.
	text := strings.Repeat("größe ✓ 漢字 \U0001f600\x1b\n", 20)
	for _, k := range []int{1, 2, 3, 5, 1000} {
		var out bytes.Buffer
		w := ForTerminal(&out, true)
		for b := []byte(text); len(b) > 0; b = b[min(k, len(b)):] {
			if n, err := w.Write(b[:min(k, len(b))]); err != nil || n != min(k, len(b)) {
				t.Fatal(n, err)
			}
		}
		if out.String() != Message(text) {
			t.Errorf("in pieces of %d: %q", k, out.String())
		}
	}
}

// No mode prints control characters of data, names or schemas on a terminal.
func TestModesOnTerminal(t *testing.T) {
	for _, mode := range Modes {
		var out, errs bytes.Buffer
		s, err := Open(t.Context(), Options{Format: Format{Mode: mode, Terminal: true}, Stdout: &out, Stderr: &errs})
		if err != nil {
			t.Fatal(err)
		}
		const name = "\x1b[31mred\u009b"
		err = s.RunText(t.Context(), "test", "CREATE TABLE \""+name+"\" AS SELECT '"+name+"' AS \""+name+"\", ['"+name+"'] AS l; FROM \""+name+"\"; EXPLAIN FROM \""+name+"\" WHERE l[1] = '"+name+"';\n.tables\n.schema\n")
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String()+errs.String(), "\x1b\u009b") || !strings.Contains(out.String(), "red") {
			t.Errorf("%s: %q %q", mode, out.String(), errs.String())
		}
		s.Close()
	}
}
