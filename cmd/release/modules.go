package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// component is a Go module that a binary holds.
type component struct{ path, version, sum string }

// components reads the modules from a binary itself.
func components(path string) ([]component, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []component
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, component{m.Path, m.Version, m.Sum})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s names no modules", path)
	}
	return out, nil
}

// merge is the union, ordered by path.
func merge(a, b []component) []component {
	for _, c := range b {
		if !slices.Contains(a, c) {
			a = append(a, c)
		}
	}
	slices.SortFunc(a, func(x, y component) int { return strings.Compare(x.path, y.path) })
	return a
}

// cycloneDX is the bill of materials in the format CycloneDX 1.5. What DuckDB's library
// includes hangs under the module that brings it, with licences but without versions,
// which the library does not tell.
func cycloneDX(version string, parts []component, included []part) ([]byte, error) {
	type property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type item struct {
		Type       string              `json:"type"`
		Ref        string              `json:"bom-ref"`
		Name       string              `json:"name"`
		Version    string              `json:"version,omitempty"`
		Licences   []map[string]string `json:"licenses,omitempty"`
		PURL       string              `json:"purl,omitempty"`
		Properties []property          `json:"properties,omitempty"`
		Parts      []item              `json:"components,omitempty"`
	}
	golang := func(kind, path, version string) item {
		purl := "pkg:golang/" + path + "@" + version
		return item{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
	}
	items := []item{golang("library", "std", strings.TrimPrefix(runtime.Version(), "go"))}
	for _, p := range parts {
		i := golang("library", p.path, p.version)
		if p.sum != "" {
			i.Properties = []property{{"go.sum", p.sum}}
		}
		if p.path == duckdbLibrary {
			for _, d := range included {
				i.Parts = append(i.Parts, item{Type: "library", Ref: i.Ref + "#" + filepath.Base(d.text) + "/" + d.name, Name: d.name, Licences: []map[string]string{{"expression": d.licence}}})
			}
		}
		items = append(items, i)
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":   map[string]any{"component": golang("application", "github.com/bglm/bglm", version)},
		"components": items,
	}, "", " ")
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)`)

const libgccNotice = `The binaries hold parts of libgcc and libstdc++ of the GNU Compiler Collection, under the GNU General Public License
version 3 with the GCC Runtime Library Exception 3.1, which permits it.
`

// deeper are licences that do not lie at the root of their modules or just below it.
var deeper = map[string][]string{"golang.org/x/image": {"font/gofont/ttfs/README"}} // of the fonts

// notices joins the licences of the modules, of what DuckDB's library includes, of Go, and
// of GCC's libraries; apache is the file with the text of Apache-2.0, to which many only
// refer. Errors: a module whose licence is not there.
func notices(parts []component, included []part, apache string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("Third-party software in bglm's binaries. DuckDB comes as prebuilt library in\ngithub.com/duckdb/duckdb-go-bindings/lib; what it includes follows the Go modules.\n\n")
	section := func(name string, files []string) error {
		fmt.Fprintf(&b, "%s\n%s\n%s\n\n", strings.Repeat("=", 79), name, strings.Repeat("=", 79))
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s\n\n", bytes.TrimSpace(text))
		}
		return nil
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	if err := section("Go "+runtime.Version(), []string{filepath.Join(strings.TrimSpace(string(root)), "LICENSE")}); err != nil {
		return nil, err
	}
	for _, p := range parts {
		dir, err := moduleDir(p.path)
		if err != nil {
			return nil, err
		}
		files, err := licences(dir)
		if err != nil {
			return nil, err
		}
		for _, f := range deeper[p.path] {
			files = append(files, filepath.Join(dir, f))
		}
		if len(files) == 0 && strings.HasPrefix(p.path, "github.com/duckdb/duckdb-go-bindings/") {
			continue // under that of github.com/duckdb/duckdb-go-bindings
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s %s has no licence file", p.path, p.version)
		}
		if err := section(p.path+" "+p.version, files); err != nil {
			return nil, err
		}
	}
	for _, d := range included {
		if err := section(d.name+" (in DuckDB, "+d.licence+")", []string{d.text}); err != nil {
			return nil, err
		}
	}
	if err := section("Apache License, version 2.0", []string{apache}); err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "%s\nGCC\n%s\n\n%s", strings.Repeat("=", 79), strings.Repeat("=", 79), libgccNotice)
	return b.Bytes(), nil
}

// licences are the licence files of a module: those at its root and one level below.
func licences(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		depth := strings.Count(rel, string(filepath.Separator))
		if d.IsDir() {
			if depth > 1 || strings.EqualFold(d.Name(), "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if licenceFile.MatchString(d.Name()) && !strings.HasSuffix(d.Name(), ".go") || strings.Contains(strings.ToUpper(filepath.Dir(rel)), "THIRD_PARTY_LICENSES") {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
