package main

import (
	"bytes"
	"context"
	"os"
	"reflect"
	"strings"
	"testing"
)

// shellWords cuts a line as a shell does: quotes of both kinds.
func shellWords(line string) []string {
	var out []string
	var cur strings.Builder
	var quote rune
	open := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			cur.WriteRune(c)
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == ' ':
			if cur.Len() > 0 || open {
				out = append(out, cur.String())
			}
			cur.Reset()
			open = false
		default:
			cur.WriteRune(c)
		}
	}
	if cur.Len() > 0 || open {
		out = append(out, cur.String())
	}
	return out
}

// The commands of docs/cli.md run as they stand.
func TestCLIDoc(t *testing.T) {
	if testing.Short() {
		t.Skip("a dozen jobs over the flights")
	}
	atTop(t)
	for _, name := range []string{"build/model.duckdb", "build/months"} { // they would go on from there
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, m := range fence.FindAllSubmatch(text, -1) {
		if string(m[1]) != "sh" {
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(string(m[2])), "\n") {
			var stdin []byte
			args := line
			if cat, rest, ok := strings.Cut(line, " | "); ok {
				if stdin, err = os.ReadFile(strings.TrimPrefix(cat, "cat ")); err != nil {
					t.Fatal(err)
				}
				args = rest
			}
			args, ok := strings.CutPrefix(args, "bglm ")
			if !ok {
				t.Errorf("not a command of bglm: %s", line)
				continue
			}
			commands++
			var out, errs bytes.Buffer
			if code := run(context.Background(), shellWords(args), bytes.NewReader(stdin), &out, &errs); code != exitDone {
				t.Errorf("%s: exit code %d: %s", line, code, errs.String())
			}
		}
	}
	if commands < 15 {
		t.Errorf("%d commands found", commands)
	}
}

// The table of commands has all there are.
func TestCommandTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "Exit codes:")
	c := reflect.TypeFor[commands]()
	for i := range c.NumField() {
		name := strings.ToLower(c.Field(i).Name)
		if !strings.Contains(table, "`bglm "+name+"`") && !strings.Contains(table, "`"+name+"`") {
			t.Errorf("docs/cli.md has no line about bglm %s", name)
		}
	}
}
