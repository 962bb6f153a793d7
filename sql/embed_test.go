package sqlfiles_test

import (
	"regexp"
	"strings"
	"testing"

	sqlfiles "github.com/bglm/bglm/sql"
)

var macroName = regexp.MustCompile(`(?m)^CREATE OR REPLACE MACRO (\w+)\(`)

// Every macro has a paragraph in the header, and the script makes macros only.
func TestScriptDocumentsItsMacros(t *testing.T) {
	names := macroName.FindAllStringSubmatch(sqlfiles.Macros, -1)
	if len(names) < 7 {
		t.Fatalf("%d macros found, want at least 7", len(names))
	}
	for _, n := range names {
		if !strings.Contains(sqlfiles.Macros, "\n-- "+n[1]+"(") {
			t.Errorf("%s has no paragraph in the header", n[1])
		}
	}
	statements := 0
	for _, s := range strings.Split(sqlfiles.Macros, ";\n") {
		code := ""
		for line := range strings.Lines(s) {
			if l := strings.TrimSpace(line); l != "" && !strings.HasPrefix(l, "--") {
				code += line
			}
		}
		if code == "" {
			continue
		}
		if strings.HasPrefix(code, "COMMENT ON MACRO ") {
			continue
		}
		statements++
		if !strings.HasPrefix(code, "CREATE OR REPLACE MACRO bglm_") {
			t.Errorf("a statement that makes no macro:\n%.200s", code)
		}
	}
	if statements != len(names) {
		t.Errorf("%d statements, %d macros", statements, len(names))
	}
}

// Each macro is listed with its head, its statement and a comment that begins with its name.
func TestList(t *testing.T) {
	all := sqlfiles.List()
	if n := len(macroName.FindAllString(sqlfiles.Macros, -1)); len(all) != n {
		t.Errorf("%d macros listed, %d made", len(all), n)
	}
	for _, m := range all {
		if !strings.HasPrefix(m.Signature, m.Name+"(") || !strings.HasSuffix(m.Signature, ")") || len(m.Doc) < 40 || strings.Contains(m.Doc, "-- >") {
			t.Errorf("%+v", m)
		}
		kind := "MACRO "
		if m.Table {
			kind = "MACRO TABLE "
		}
		one := sqlfiles.SQL(m.Name)
		if !strings.Contains(one, "CREATE OR REPLACE MACRO "+m.Name+"(") || !strings.Contains(one, "COMMENT ON "+kind+m.Name+" IS '"+m.Name+"(") {
			t.Errorf("%s: %s", m.Name, one)
		}
	}
	if sqlfiles.SQL("bglm_no_such") != "" {
		t.Error("a macro that is none has statements")
	}
}

// example is a statement of the header and the rows it shows.
type example struct{ stmt, want string }

func examples(t *testing.T) []example {
	t.Helper()
	var out []example
	stmt := ""
	for line := range strings.Lines(sqlfiles.Macros) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "--     -- > "):
			if len(out) == 0 {
				t.Fatalf("a result before any statement: %s", line)
			}
			out[len(out)-1].want += strings.TrimPrefix(line, "--     -- > ") + "\n"
		case strings.HasPrefix(line, "--     "):
			if l := strings.TrimPrefix(line, "--     "); strings.HasPrefix(l, ".") || strings.HasPrefix(l, "LOAD ") {
				continue
			} else {
				stmt += l + "\n"
			}
			if strings.HasSuffix(line, ";") {
				out = append(out, example{stmt: stmt})
				stmt = ""
			}
		}
	}
	return out
}
