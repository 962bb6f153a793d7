package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenQuotation(t *testing.T) {
	some := "y,s\n" + strings.Repeat("1,\"a\"\n0,\"b, \"\"c\"\"\"\n", 20)
	for name, c := range map[string]struct {
		text string
		line int
	}{
		"none":      {some, 0},
		"middle":    {some + "1,\"abc\n" + some[4:], 42},
		"two":       {some + "1,\"abc\n" + some[4:] + "1,\"abc\n0,\"x\"\n", 42},
		"last":      {some + "1,\"abc\n", 42},
		"lines":     {some + "1,\"two\nlines, \"\"and\nmore\"\"\"\n" + some[4:], 0},
		"after":     {some + "1,\"a\" b\n" + some[4:], 0},
		"text":      {"y\ts\n" + strings.Repeat("1\t\"tis\n0\tb\n", 20), 0},
		"carriage":  {strings.ReplaceAll(some+"1,\"abc\n"+some[4:], "\n", "\r\n"), 42},
		"unquoted":  {"y,s\n1,a\n", 0},
		"only long": {"y,s\n1,\"a\n" + strings.Repeat("1,b\n", 300), 0},
	} {
		path := filepath.Join(t.TempDir(), "q.csv")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := OpenQuotation(path); got != c.line {
			t.Errorf("%s: line %d, want %d", name, got, c.line)
		}
		if HasQuotations(path) != (name != "unquoted") {
			t.Errorf("%s: quotations", name)
		}
	}
}
