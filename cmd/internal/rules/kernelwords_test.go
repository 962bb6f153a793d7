package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// edgeWords are words of the systems that the kernels serve: a function of SQL, SQL itself,
// a flag.
var edgeWords = regexp.MustCompile(`bglm_|\bSELECT\b|CAST\(|::[A-Z]|\w := |\bDATE '|\bdate_diff\b|(^|[\s(])--[a-z]`)

// edgeWordsIn are the files of the kernels whose texts have such words, and why.
var edgeWordsIn = map[string]string{
	"kernels/internal/near/near.go": "it takes the prefix off what users type",
}

// findEdgeWords calls found with the texts of a file that have words of the edges.
func findEdgeWords(f *ast.File, found func(at token.Pos, text string)) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && edgeWords.MatchString(text) {
				found(n.Pos(), text)
			}
		}
		return true
	})
}

// Texts of the kernels are about models and rows; what to do in SQL or on a command line is
// said at the edges, which recognise errors and notes by their types.
func TestKernelWords(t *testing.T) {
	set, files := source(t, 0)
	used := map[string]bool{}
	for _, f := range files {
		if f.test || !strings.HasPrefix(f.dir+"/", "kernels/") || f.dir == "kernels/export" { // which writes SQL
			continue
		}
		findEdgeWords(f.File, func(at token.Pos, text string) {
			if used[f.name] = true; edgeWordsIn[f.name] == "" {
				t.Errorf("%s: %.80q: words of SQL and flags stand at the edges", set.Position(at), text)
			}
		})
	}
	for name := range edgeWordsIn {
		if !used[name] {
			t.Errorf("%s has no such words any more", name)
		}
	}
}

// The rule fails where it should.
func TestKernelWordsFail(t *testing.T) {
	for text, want := range map[string]bool{
		"continue one fit (bglm_update)": true, "as in TRY_CAST(x AS DOUBLE)": true, "y::DOUBLE": true, "SELECT 1": true, "give --rank 3": true, "SET x := 1": true, "DATE '2000-01-01'": true,
		"continue one fit with the rows of the other": false, "selected -- or not": false, "found 'broadcast'": false, "x: -1": false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nvar s = "+strconv.Quote(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		findEdgeWords(f, func(token.Pos, string) { got = true })
		if got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
