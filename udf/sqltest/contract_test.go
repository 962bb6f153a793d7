package sqltest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/udf"
)

const contractDoc = "../../docs/contract.md"

// contractTests are the Go files whose tests may cover rules of the contract.
var contractTests = []string{"*_test.go", "../*_test.go", "../../sql/*_test.go"}

var (
	ruleLine   = regexp.MustCompile(`(?m)^\| ([a-z_]+(?:[.-][a-z_]+)*) \| (.*?) \|(.*)\|$`)
	caseCovers = regexp.MustCompile(`(?m)^# covers:(.*)$`)
	goCovers   = regexp.MustCompile(`(?m)^// covers:(.*)\n(?://.*\n)*func (Test\w+)\(`)
)

// coverage is, for each rule, the tests that say they cover it.
func coverage(t *testing.T) map[string][]string {
	t.Helper()
	by := map[string][]string{}
	add := func(ids, test string) {
		for _, id := range strings.Fields(ids) {
			if !slices.Contains(by[id], test) {
				by[id] = append(by[id], test)
			}
		}
	}
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, path := range caseFiles(t) {
		for _, m := range caseCovers.FindAllStringSubmatch(read(path), -1) {
			add(m[1], filepath.Base(path))
		}
	}
	for _, pattern := range contractTests {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			text := read(path)
			found := goCovers.FindAllStringSubmatch(text, -1)
			if n := strings.Count(text, "\n// covers:"); n != len(found) {
				t.Errorf("%s: %d covers lines, %d of them above a test", path, n, len(found))
			}
			for _, m := range found {
				add(m[1], m[2])
			}
		}
	}
	return by
}

// TestContract keeps docs/contract.md true: each rule has a test, each marker a rule,
// and the document lists them.
func TestContract(t *testing.T) {
	b, err := os.ReadFile(contractDoc)
	if err != nil {
		t.Fatal(err)
	}
	by := coverage(t)
	rules := map[string]bool{}
	text := ruleLine.ReplaceAllStringFunc(string(b), func(line string) string {
		m := ruleLine.FindStringSubmatch(line)
		id := m[1]
		if id == "id" {
			return line
		}
		if rules[id] {
			t.Errorf("rule %s is there twice", id)
		}
		rules[id] = true
		if len(by[id]) == 0 {
			t.Errorf("rule %s has no test; mark one with covers: %s", id, id)
		}
		return "| " + id + " | " + m[2] + " | " + strings.Join(by[id], ", ") + " |"
	})
	for _, id := range slices.Sorted(maps.Keys(by)) {
		if !rules[id] {
			t.Errorf("%s covers %s, which docs/contract.md does not have", strings.Join(by[id], ", "), id)
		}
	}
	if len(rules) < 100 {
		t.Errorf("found %d rules in docs/contract.md", len(rules))
	}
	// Every option and function of the registry has its rule.
	for _, name := range contractNames() {
		if !rules[name] {
			t.Errorf("docs/contract.md has no rule %s", name)
		}
	}
	if text == string(b) {
		return
	}
	if !*update {
		t.Errorf("the tests column of docs/contract.md is stale; go test ./udf/sqltest -run TestContract -update writes it")
		return
	}
	if err := os.WriteFile(contractDoc, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// contractNames are the rules that the registry asks for: opt.<key> for each option,
// agg.<name> for each aggregate, <name> for each scalar.
func contractNames() []string {
	names := map[string]bool{}
	for _, f := range udf.Functions() {
		name := strings.TrimPrefix(f.Name, "bglm_")
		switch {
		case f.Kind == "aggregate":
			names["agg."+name] = true
		case name == "version" || name == "families" || name == "functions":
			names["functions"] = true
		default:
			names[name] = true
		}
		for _, o := range f.Options {
			if o != "method" { // agg.fit
				names["opt."+o] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
