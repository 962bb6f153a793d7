package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/lik"
)

// byName are the files outside kernels/lik that may decide by the name of a family or link.
var byName = map[string]string{
	"kernels/export/links.go": "languages of others have their own word for each link; one without is refused",
}

// A likelihood states its traits (lik.Traits, and interfaces such as lik.Distribution): no other
// package compares the name of a family or link, switches on it or looks it up, or a new
// likelihood would have to be written there, too.
func TestNoLikelihoodByName(t *testing.T) {
	names := likelihoods()
	set, files := source(t, 0)
	used := map[string]bool{}
	for _, f := range files {
		// The programs of docs study likelihoods that they name.
		if f.test || f.dir == "kernels/lik" || strings.HasPrefix(f.dir, "docs/") {
			continue
		}
		for _, n := range decisions(f.File, names) {
			if byName[f.name] == "" {
				t.Errorf("%s: decides by %s, the name of a family or link; ask lik.Traits", set.Position(n.Pos()), n.Value)
			}
			used[f.name] = true
		}
	}
	for name := range byName {
		if !used[name] {
			t.Errorf("%s decides by no name: take it off the list", name)
		}
	}
}

// likelihoods are the names of the registry.
func likelihoods() (names []string) {
	for _, f := range lik.Families() {
		names = append(append(names, f.Family), f.Links...)
	}
	return names
}

// decisions are the literals of a file by which it compares a family or link: operands of ==
// and !=, cases, keys of maps, arguments of functions that compare or find, and comparisons
// in SQL.
func decisions(f *ast.File, names []string) (found []*ast.BasicLit) {
	inSQL := regexp.MustCompile(`(?i)\b(family|link)\b\W*?(=|<>|!=|\bIN\s*\()\s*(\W?'\w+',\s*)*'(` + strings.Join(names, "|") + `)'`)
	see := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			for {
				p, ok := e.(*ast.ParenExpr)
				if !ok {
					break
				}
				e = p.X
			}
			if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil && slices.Contains(names, s) {
					found = append(found, l)
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				see(n.X, n.Y)
			}
		case *ast.CaseClause:
			see(n.List...)
		case *ast.KeyValueExpr:
			see(n.Key)
		case *ast.IndexExpr:
			see(n.Index)
		case *ast.CallExpr:
			if name := called(n.Fun); name == "slices.Contains" || name == "slices.Index" || name == "strings.EqualFold" {
				for _, a := range n.Args {
					see(a)
					if list, ok := a.(*ast.CompositeLit); ok {
						see(list.Elts...)
					}
				}
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && inSQL.MatchString(n.Value) {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

// called is the name of a function of another package, as strings.EqualFold.
func called(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if p, ok := s.X.(*ast.Ident); ok {
			return p.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// What the rule finds, and what it leaves alone.
func TestDecisionsAreFound(t *testing.T) {
	names := likelihoods()
	for _, c := range []struct {
		text string
		want int
	}{
		{`if l.Link() == "logit" { return }`, 1},
		{`if ("poisson") != family { return }`, 1},
		{`switch family { case "gamma", "studentt": }`, 2},
		{`switch { case link == "identity": }`, 1},
		{`_ = map[string]bool{"binomial": true}`, 1},
		{`_ = shapes["negbinomial"]`, 1},
		{`_ = slices.Contains([]string{"gaussian", "other"}, family)`, 1},
		{`_ = strings.EqualFold(link, "cloglog")`, 1},
		{"_ = `CASE WHEN fit.family IN ('other', 'gaussian') THEN 1 END`", 1},
		{"_ = `WHERE fit.link = 'log'`", 1},
		{`l, err := lik.New("bernoulli", "logit", lik.Params{})`, 0}, // what there is to compute with
		{`family = "gaussian"`, 0},
		{`_ = Method{Link: "logit"}`, 0},
		{`if call == "logit_rows" { return }`, 0},
		{"_ = `{family: 'poisson', link: 'log'}`", 0},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+c.text+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := decisions(f, names); len(got) != c.want {
			t.Errorf("%s: %d decisions, want %d", c.text, len(got), c.want)
		}
	}
}
