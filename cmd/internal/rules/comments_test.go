package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"testing"
)

// unfinished are words for what is postponed: comments have none of them.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

// Every package says what it is, every exported name what it does, and nothing is
// left for later.
func TestComments(t *testing.T) {
	set, files := source(t, parser.ParseComments)
	promised := promises(files)
	documented := map[string]string{} // packages and the file that speaks for them
	for _, f := range files {
		for _, g := range f.Comments {
			if w := unfinished.FindString(g.Text()); w != "" {
				t.Errorf("%s: a comment says %s", set.Position(g.Pos()), w)
			}
		}
		if f.test {
			continue
		}
		if _, ok := documented[f.dir]; !ok {
			documented[f.dir] = ""
		}
		if f.Doc != nil {
			if other := documented[f.dir]; other != "" {
				t.Errorf("%s and %s both have a package comment", other, f.name)
			}
			documented[f.dir] = f.name
			begin := regexp.MustCompile(`^Package ` + f.Name.Name + ` `)
			if f.Name.Name == "main" {
				begin = regexp.MustCompile(`^(Command \w+|(?i:` + path.Base(f.dir) + `)) `)
			}
			if text := f.Doc.Text(); !begin.MatchString(text) {
				t.Errorf("%s: the package comment begins %.30q, want %s", f.name, text, begin)
			}
		}
		if f.Name.Name != "main" {
			undocumented(f, promised, func(pos token.Pos, name string) {
				t.Errorf("%s: %s has no comment", set.Position(pos), name)
			})
		}
	}
	for dir, name := range documented {
		if name == "" {
			t.Errorf("package %s has no comment", dir)
		}
	}
}

// undocumented visits the exported names of a file that no comment stands over. A
// comment over a group serves all of it, and one at the end of a line its names.
func undocumented(f file, promised map[string]bool, visit func(token.Pos, string)) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Doc == nil && ast.IsExported(name) && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) && !promised[name]) {
				visit(d.Pos(), name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if d.Doc != nil {
					continue
				}
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
						visit(s.Pos(), s.Name.Name)
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if s.Doc == nil && s.Comment == nil && n.IsExported() {
							visit(s.Pos(), n.Name)
						}
					}
				}
			}
		}
	}
}

// promises are the methods that an interface asks for, whose comment is there: those
// of this module's interfaces, and of the best known others.
func promises(files []file) map[string]bool {
	out := map[string]bool{"Error": true, "Unwrap": true, "Is": true, "String": true, "Len": true, "Less": true, "Swap": true}
	for _, f := range files {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						out[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return out
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
