package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// readmeBlock is a fenced block of the README.
type readmeBlock struct {
	lang, text string
	lo, hi     int // of the text
}

var fence = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

func readmeBlocks(t *testing.T, path string) (string, []readmeBlock) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []readmeBlock
	for _, m := range fence.FindAllSubmatchIndex(b, -1) {
		out = append(out, readmeBlock{string(b[m[2]:m[3]]), string(b[m[4]:m[5]]), m[4], m[5]})
	}
	return string(b), out
}

// atTop runs a test where the documentation's paths begin, with a folder build.
func atTop(t *testing.T) {
	t.Helper()
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(top)
	if err := os.MkdirAll("build", 0o755); err != nil {
		t.Fatal(err)
	}
}

// The README's SQL runs as one session and prints what the README says; with
// BGLM_UPDATE=1 the README is written instead. Its bglm commands succeed, and
// its Go lines are those of the package's example.
func TestReadme(t *testing.T) {
	if kerneltest.Race {
		t.Skip("a session, one command after another: the detector only makes it long")
	}
	atTop(t)
	text, blocks := readmeBlocks(t, "README.md")

	checkSession(t, "README.md", text, blocks)

	example, err := os.ReadFile("udf/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	commands := 0
	for _, b := range blocks {
		switch b.lang {
		case "go":
			if !strings.Contains(flat(string(example)), flat(b.text)) {
				t.Errorf("these lines are not those of udf/example_test.go:\n%s", b.text)
			}
		case "sh":
			for _, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
				args, ok := strings.CutPrefix(line, "bglm ")
				if !ok {
					continue
				}
				commands++
				var out, errs bytes.Buffer
				if code := run(context.Background(), words(args), strings.NewReader(""), &out, &errs); code != exitDone || out.Len() == 0 {
					t.Errorf("%s: exit code %d, %s", line, code, errs.String())
				}
			}
		}
	}
	if commands == 0 {
		t.Error("no bglm command found in the README")
	}
}

// checkSession runs the SQL blocks of a document as one session and compares what each
// prints with the text block below it, nothing where there is none; with BGLM_UPDATE=1 it
// writes the document.
func checkSession(t *testing.T, path, text string, blocks []readmeBlock) {
	t.Helper()
	// One session: a marker between blocks parts the output.
	var script strings.Builder
	var wants []readmeBlock
	const marker = "----next----"
	for i, b := range blocks {
		if b.lang != "sql" {
			continue
		}
		script.WriteString(b.text + "\n.mode csv\nSELECT '" + marker + "';\n.mode box\n")
		want := readmeBlock{}
		if i+1 < len(blocks) && blocks[i+1].lang == "text" {
			want = blocks[i+1]
		}
		wants = append(wants, want)
	}
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"sql"}, strings.NewReader(script.String()), &stdout, &stderr); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	parts := regexp.MustCompile(`\n?[^\n]*\n`+marker+`\n`).Split("\n"+stdout.String(), -1)
	if len(parts) != len(wants)+1 {
		t.Fatalf("%d results, want %d: %s", len(parts)-1, len(wants), stdout.String())
	}
	updated, shift := text, 0
	for i, want := range wants {
		got := strings.TrimLeft(parts[i], "\n")
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		if os.Getenv("BGLM_UPDATE") != "" && want.lang != "" {
			updated = updated[:want.lo+shift] + got + updated[want.hi+shift:]
			shift += len(got) - (want.hi - want.lo)
		} else if got != want.text {
			t.Errorf("%s prints\n%s\nbut the session\n%s", path, want.text, got)
		}
	}
	if updated != text {
		if err := os.WriteFile(path, []byte(updated), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Each of these pages is a session too, from its first SQL block to its last.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
	atTop(t)
	pages, err := filepath.Glob("docs/cookbook/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "docs/methods.md", "docs/tutorial.md", "docs/data.md", "docs/coefficients.md") {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, blocks := readmeBlocks(t, page)
			checkSession(t, page, text, blocks)
			for _, b := range blocks {
				if b.lang != "sh" {
					continue
				}
				for _, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
					args, ok := strings.CutPrefix(line, "bglm ")
					if !ok {
						t.Errorf("not a command of bglm: %s", line)
					}
					var out, errs bytes.Buffer
					if code := run(context.Background(), shellWords(args), strings.NewReader(""), &out, &errs); code != exitDone {
						t.Errorf("%s: exit code %d, %s", line, code, errs.String())
					}
				}
			}
		})
	}
}

// words cuts a line at blanks outside double quotes.
func words(s string) []string {
	var out []string
	var cur strings.Builder
	quoted := false
	for _, c := range s {
		switch {
		case c == '"':
			quoted = !quoted
		case c == ' ' && !quoted:
			out = append(out, cur.String())
			cur.Reset()
		default:
			cur.WriteRune(c)
		}
	}
	return append(out, cur.String())
}
