package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// decided are the files that decide on an engine's name outside the list of engines, the names,
// and why they may. A word that only looks like one, such as that of a covariance, is here too.
var decided = map[string]struct{ names, why string }{
	"arrowio/schema.go":                         {"lowrank", "a form of a covariance"},
	"kernels/ep/ep.go":                          {"lowrank", "a form of a covariance"},
	"kernels/ep/memory.go":                      {"lowrank", "a form of a covariance"},
	"kernels/ep/search.go":                      {"lowrank", "a form of a covariance"},
	"kernels/filter/filter.go":                  {"lowrank", "a form of a covariance"},
	"kernels/laplace/evidence.go":               {"lowrank", "a form of a Hessian"},
	"kernels/laplace/hessian.go":                {"lowrank", "a form of a Hessian"},
	"kernels/laplace/laplace.go":                {"lowrank", "a form of a Hessian"},
	"kernels/softmax/hessian.go":                {"lowrank", "a form of a Hessian"},
	"kernels/softmax/softmax.go":                {"lowrank", "a form of a Hessian"},
	"kernels/laplace/memory.go":                 {"lowrank", "a form of a Hessian"},
	"kernels/softmax/memory.go":                 {"lowrank", "a form of a Hessian"},
	"kernels/validate.go":                       {"softmax", "a link"},
	"kernels/kerneltest/invariant/invariant.go": {"softmax", "a link"},
	"udf/agg_pass.go":                           {"newton_state", "an example in an error"},
	"udf/update.go":                             {"newton_state", "an example in an error"},
	"kernels/laplace/pass.go":                   {"ep", "the option method of a pass, whose engine this is"},
	"kernels/option/option.go":                  {"newton_state", "its options are those of laplace, but some"},
}

// Engines are told apart by what the list of them says (engine.Method), not by their names: one
// that joins it needs no other place. Programs below docs, which measure engines by name, and the
// queries that tests make are none of this;
// nor is arrowio/beam, a module of its own that names its four methods.
func TestEnginesByName(t *testing.T) {
	set, files := source(t, parser.SkipObjectResolution)
	names := engines(t, files)
	used := map[string]bool{}
	for _, f := range files {
		if f.test || f.dir == "kernels/engine" || strings.HasPrefix(f.dir, "docs/") || strings.HasPrefix(f.dir, "udf/sqltest") {
			continue
		}
		byName(f.File, constants(files, f.dir), func(at token.Pos, word string) {
			if !slices.Contains(names, word) {
				return
			}
			if slices.Contains(strings.Fields(decided[f.name].names), word) {
				used[f.name+" "+word] = true
				return
			}
			t.Errorf("%s: decides on the engine %q by its name; ask engine.Method for what it is about", set.Position(at), word)
		})
	}
	for name, d := range decided {
		for _, word := range strings.Fields(d.names) {
			if !used[name+" "+word] {
				t.Errorf("%s no longer decides on %q: take it off the list", name, word)
			}
		}
	}
}

// engines are the names in the list of engines.
func engines(t *testing.T, files []file) (names []string) {
	for _, f := range files {
		if f.name != "kernels/engine/methods.go" {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Name" {
					if word, ok := text(kv.Value, nil); ok {
						names = append(names, word)
					}
				}
			}
			return true
		})
	}
	if len(names) < 10 {
		t.Fatalf("the list of engines has only %q", names)
	}
	return names
}

// byName visits the words that a file compares with, switches on, keys a map by, or looks for in
// a list that it spells out.
func byName(f *ast.File, named map[string]string, visit func(at token.Pos, word string)) {
	look := func(all ...ast.Expr) {
		for _, e := range all {
			e = ast.Unparen(e)
			if word, ok := text(e, named); ok {
				visit(e.Pos(), word)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				look(n.X, n.Y)
			}
		case *ast.CaseClause:
			look(n.List...)
		case *ast.KeyValueExpr:
			look(n.Key)
		case *ast.IndexExpr:
			look(n.Index)
		case *ast.CallExpr:
			switch from, name := called(n); from + "." + name {
			case "slices.Contains", "slices.Index", "strings.EqualFold":
				look(n.Args...)
				for _, arg := range n.Args {
					if list, ok := arg.(*ast.CompositeLit); ok {
						look(list.Elts...)
					}
				}
			}
		}
		return true
	})
}

// called is what a call names: pkg.name.
func called(c *ast.CallExpr) (pkg, name string) {
	if f, ok := c.Fun.(*ast.SelectorExpr); ok {
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name, f.Sel.Name
		}
	}
	return "", ""
}

// text is the string that e spells or, of a constant of its package, names.
func text(e ast.Expr, named map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			word, err := strconv.Unquote(e.Value)
			return word, err == nil
		}
	case *ast.Ident:
		word, ok := named[e.Name]
		return word, ok
	}
	return "", false
}

// constants are the strings that the package in dir has names for.
func constants(files []file, dir string) map[string]string {
	out := map[string]string{}
	for _, f := range files {
		if f.dir != dir || f.test {
			continue
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, s := range g.Specs {
					v := s.(*ast.ValueSpec)
					for k, e := range v.Values {
						if word, ok := text(e, nil); ok {
							out[v.Names[k].Name] = word
						}
					}
				}
			}
		}
	}
	return out
}

// The check sees each way to ask for a name.
func TestEnginesByNameFails(t *testing.T) {
	const code = `package p
const mine = "ep"
func f(m string) {
	_ = m == "hmc" || mine != m
	switch m { case "laplace": }
	_ = slices.Contains([]string{"adf"}, m) || slices.Contains(ms, "smooth")
	_ = map[string]int{"ekf": 1}[m]
	_ = Find("gp")
}`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	byName(f, constants([]file{{name: "p.go", dir: "p", File: f}}, "p"), func(_ token.Pos, word string) { got = append(got, word) })
	slices.Sort(got)
	if want := []string{"adf", "ekf", "ep", "hmc", "laplace", "smooth"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
