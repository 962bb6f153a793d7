package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/lik"
)

// likely are the files outside kernels/lik that may decide by the name of a family or link.
var likely = map[string]string{
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
		decisions(f.File, names, func(at token.Pos, word string) {
			if likely[f.name] == "" {
				t.Errorf("%s: decides by %s, the name of a family or link; ask lik.Traits", set.Position(at), word)
			}
			used[f.name] = true
		})
	}
	for name := range likely {
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

// decisions visits the names by which a file decides, as byName finds them, and comparisons in
// SQL.
func decisions(f *ast.File, names []string, visit func(at token.Pos, word string)) {
	byName(f, nil, func(at token.Pos, word string) {
		if slices.Contains(names, word) {
			visit(at, word)
		}
	})
	inSQL := regexp.MustCompile(`(?i)\b(family|link)\b\W*?(=|<>|!=|\bIN\s*\()\s*(\W?'\w+',\s*)*'(` + strings.Join(names, "|") + `)'`)
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && inSQL.MatchString(l.Value) {
			visit(l.Pos(), l.Value)
		}
		return true
	})
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
		got := 0
		decisions(f, names, func(token.Pos, string) { got++ })
		if got != c.want {
			t.Errorf("%s: %d decisions, want %d", c.text, got, c.want)
		}
	}
}
