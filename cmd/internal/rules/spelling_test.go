package rules

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// british is Debian's list of words (wbritish); words.txt has those of the field and of this
// project, one a line, in lower case.
const british = "/usr/share/dict/british-english"

var (
	notProse = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\\]\\([^)]*\\)|<[^>]*>|\\$[^$\n]*\\$|https?://\\S+|&\\w+;")
	aWord    = regexp.MustCompile(`[\p{L}\p{N}_.#'’=/:\\@]*\p{L}[\p{L}\p{N}_.#'’=/:\\@]*`)
)

// Every word of the documentation is one: of the dictionary, or of words.txt. Code, names with
// capitals inside, digits or marks, and tables of what wrong inputs print are left out.
func TestSpelling(t *testing.T) {
	known := map[string]bool{}
	for _, path := range []string{british, "words.txt"} {
		f, err := os.Open(path)
		if err != nil {
			if os.Getenv("CI") == "" && path == british {
				t.Skip("no " + british)
			}
			t.Fatal(err)
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			known[strings.ToLower(strings.TrimSpace(s.Text()))] = true
		}
		f.Close()
	}
	if len(known) < 50_000 {
		t.Fatalf("%d words known", len(known))
	}
	pages := 0
	check := func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, w := range misspelt(string(b), known) {
			t.Errorf("%s: %q is no word; mend it, or add it to cmd/internal/rules/words.txt", path, w)
		}
	}
	check("../../../README.md")
	check("../../../CHANGELOG.md")
	err := filepath.WalkDir("../../../docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" && filepath.Base(path) != "errors.md" {
			check(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 30 {
		t.Errorf("%d pages", pages)
	}
	if got := misspelt("A sentance with `cdoe`, weights_of and X2; it's the posterior's recieved half.", known); strings.Join(got, " ") != "sentance recieved" {
		t.Errorf("found %q", got)
	}
}

// misspelt are the words of a page that are not known.
func misspelt(page string, known map[string]bool) (out []string) {
	for _, w := range aWord.FindAllString(notProse.ReplaceAllString(page, " "), -1) {
		w = strings.Trim(strings.ReplaceAll(w, "’", "'"), ".'’:/=#@\\")
		w = strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "s'")
		if len(w) < 3 || strings.ContainsFunc(w, func(r rune) bool { return !unicode.IsLetter(r) }) || strings.ContainsFunc(w[1:], unicode.IsUpper) || strings.ContainsFunc(w, func(r rune) bool { return r > 0x24F }) {
			continue
		}
		low := strings.ToLower(w)
		if !known[low] && !known[strings.TrimSuffix(low, "s")] {
			out = append(out, w)
		}
	}
	return out
}
