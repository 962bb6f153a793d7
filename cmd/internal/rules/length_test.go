package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// mostLines is how many lines a function may have: a screen or two.
const mostLines = 80

// long are the functions that may be longer, and why.
var long = map[string]string{
	"kernels/stream/stream.go row":   "the way of one row through a filter, in which parts would share all their variables",
	"kernels/ep/diagonal.go replace": "the way of one row's sites through its weights, where a call costs more than it says",
}

// A function is read in one piece: it has at most mostLines lines. Tests and generated code are none
// of this.
func TestFunctionLength(t *testing.T) {
	set, files := source(t, parser.SkipObjectResolution|parser.ParseComments)
	found := map[string]bool{}
	for _, f := range files {
		if f.test || ast.IsGenerated(f.File) {
			continue
		}
		for _, d := range longer(set, f.File, mostLines) {
			name := f.name + " " + d.Name.Name
			if found[name] = true; long[name] == "" {
				t.Errorf("%s: %s has more than %d lines; cut it where its sense divides", set.Position(d.Pos()), d.Name.Name, mostLines)
			}
		}
	}
	for name := range long {
		if !found[name] {
			t.Errorf("%s is not long: take it off the list", name)
		}
	}
}

// longer are the functions of a file with more than so many lines, comments in them included.
func longer(set *token.FileSet, f *ast.File, most int) (out []*ast.FuncDecl) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && set.Position(fn.End()).Line-set.Position(fn.Pos()).Line+1 > most {
			out = append(out, fn)
		}
	}
	return out
}

// The bound is passed by the line after it, by methods too.
func TestLongerFunctions(t *testing.T) {
	const code = "package p\n\n// Three lines, with another above.\nfunc three() {\n\tf()\n}\n\nfunc (T) four() {\n\t// why\n\tf()\n}\n"
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "p.go", code, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if got := longer(set, f, 3); len(got) != 1 || got[0].Name.Name != "four" {
		t.Errorf("%v are longer than 3 lines", got)
	}
}
