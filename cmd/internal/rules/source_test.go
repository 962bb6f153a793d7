package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root   = "../../.."
	module = "github.com/bglm/bglm/"
)

// file is a Go file of the module, whatever its build tags.
type file struct {
	name string // from the root, with slashes
	dir  string // its package's path in the module
	test bool
	*ast.File
}

// source reads every Go file of the module; other modules below it, such as the
// generator of kernels/dense, are not part of it.
func source(t *testing.T, mode parser.Mode) (*token.FileSet, []file) {
	t.Helper()
	set := token.NewFileSet()
	var out []file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, inner := os.Stat(filepath.Join(name, "go.mod"))
			if base := d.Name(); name != root && (inner == nil || base == "testdata" || base == "build" || strings.HasPrefix(base, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(set, name, nil, mode)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		out = append(out, file{rel, path.Dir(rel), strings.HasSuffix(rel, "_test.go"), f})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 100 {
		t.Fatalf("only %d files below %s", len(out), root)
	}
	return set, out
}
