package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	mdCode    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	notAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are the names under which the headings of a page can be linked.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range mdHeading.FindAllStringSubmatch(text, -1) {
		out[strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

// Links between pages of the repository lead to a file, and to a heading where they name
// one; every page under docs is reached from its index.
func TestLinks(t *testing.T) {
	kerneltest.Slow(t)
	t.Chdir("../..")
	pages := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (path == "build" || path == "data" || path != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			pages[path] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	reached := map[string]bool{}
	for path, text := range pages {
		for _, m := range mdLink.FindAllStringSubmatch(mdCode.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: no %s", path, m[1])
				continue
			}
			if anchor != "" && !anchors(pages[to])[anchor] {
				t.Errorf("%s: no heading for %s", path, m[1])
			}
			if path == filepath.Join("docs", "README.md") {
				reached[to] = true
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links found", links)
	}
	for path := range pages {
		if strings.HasPrefix(path, "docs"+string(filepath.Separator)) && !reached[path] && path != filepath.Join("docs", "README.md") {
			t.Errorf("docs/README.md does not link %s", path)
		}
	}
}
