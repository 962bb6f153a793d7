package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// vagueVerbs are verbs that say little of what is done; docs/notation.md has the words instead.
var vagueVerbs = strings.Fields("take takes took put puts own owns settle settles settled look looks looked bear bears bore")

// vagueNames are the declared names that have such a verb, and why they may.
var vagueNames = map[string]string{}

// words are the parts of a name in camel case or with underscores, in lower case.
func words(name string) (out []string) {
	rs, start := []rune(name), 0
	for i, r := range rs {
		begins := unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1]))
		if begins || r == '_' {
			out, start = append(out, strings.ToLower(string(rs[start:i]))), i
		}
		if r == '_' {
			start++
		}
	}
	return append(out, strings.ToLower(string(rs[start:])))
}

// vague says whether a name has a word of the list.
func vague(name string) bool {
	return slices.ContainsFunc(words(name), func(w string) bool { return slices.Contains(vagueVerbs, w) })
}

// findVague visits the functions, methods, types, fields, and the constants and variables of the
// package that a file declares under a vague name.
func findVague(f *ast.File, visit func(*ast.Ident)) {
	each := func(names ...*ast.Ident) {
		for _, n := range names {
			if vague(n.Name) {
				visit(n)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			each(n.Name)
		case *ast.TypeSpec:
			each(n.Name)
		case *ast.StructType:
			for _, f := range n.Fields.List {
				each(f.Names...)
			}
		case *ast.InterfaceType:
			for _, f := range n.Methods.List {
				each(f.Names...)
			}
		}
		return true
	})
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			for _, s := range g.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					each(v.Names...)
				}
			}
		}
	}
}

// A declared name says what is done with a word of the field: reserve, evaluate, insert, not
// take, look, put. The variables of a function, which are read beside what they hold, are free.
func TestVerbs(t *testing.T) {
	set, files := source(t, parser.SkipObjectResolution)
	used := map[string]bool{}
	for _, f := range files {
		findVague(f.File, func(n *ast.Ident) {
			if used[n.Name] = true; vagueNames[n.Name] == "" {
				t.Errorf("%s: %s: name what it does with a word of the field, see docs/notation.md", set.Position(n.Pos()), n.Name)
			}
		})
	}
	for name := range vagueNames {
		if !used[name] {
			t.Errorf("nothing is called %s any more: remove it from the list", name)
		}
	}
}

// The rule finds every kind of declaration, and nothing else.
func TestVerbsFail(t *testing.T) {
	const code = `package p
const mostTaken, tookOne = 1, 2
var putAll int
type settle struct{ own, owner int; in struct{ LookUp int } }
type bearer interface{ OwnPrior() }
func (settle) look_at() { put := 1; _ = put }
func lookup() {}
func Output(take int) { type settled int }
func URLPut() {}`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	findVague(f, func(n *ast.Ident) { got = append(got, n.Name) })
	slices.Sort(got)
	if want := []string{"LookUp", "OwnPrior", "URLPut", "look_at", "own", "putAll", "settle", "settled", "tookOne"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
