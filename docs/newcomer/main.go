// Newcomer makes plain first attempts with bglm, in SQL, in Go and on the command line,
// and compares their predictions with the base rate and with a reference: the truth for
// simulated rows, scikit-learn for real ones.
//
//	go run ./docs/newcomer                                    # all parts, to standard output
//	go run ./docs/newcomer -only attempts,hostile             # some
//	go run ./docs/newcomer -write docs/comparison.md -bglm build/bglm
//
// It exits with code 1 if an attempt is wrong and neither an error nor the status says so, or
// if a figure misses its aim.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Part is a table of docs/comparison.md.
type Part struct {
	Name, Title string
	Text        string // what the table shows, above it
	Run         func(c *Context) (*Table, error)
}

// Context is what a part may use.
type Context struct {
	Project string // folder of the module
	Data    string // folder of the real data sets; those that are not there are left out
	Bglm    string // the command line tool, "" where there is none
	Python  string // Python with scikit-learn, "" where there is none
	R       string // Rscript, whose lme4 is a peer, "" for none
	Peers   string // folder that keeps the peers' predictions between runs, "" = none
	Sets    string // only the sets and attempts whose name has this
	Call    string // the fit of the binary part
	Quick   bool   // fewer rows and repetitions: the form that runs in the tests
	Log     io.Writer
}

// Table is what a part found.
type Table struct {
	Head   []string
	Rows   [][]string
	Notes  []string // below the table
	Missed []miss   // what is wrong or misses its aim
}

// miss is a figure that is not what it should be.
type miss struct{ what, text string }

func (t *Table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

func (t *Table) miss(what, format string, args ...any) {
	t.Missed = append(t.Missed, miss{what, fmt.Sprintf(format, args...)})
}

var parts = []Part{attempts, hostile, binary, separated, streams, numbers, spread, variances, coverage, simulation}

func main() {
	c := &Context{Project: ".", Log: os.Stderr}
	only := flag.String("only", "", "comma-separated parts to run; empty runs all")
	write := flag.String("write", "", "Markdown file whose tables are replaced; empty prints them")
	flag.StringVar(&c.Data, "data", "../shared/data", "folder of the data sets")
	flag.StringVar(&c.Bglm, "bglm", "", "the command line tool; without it, its attempts are left out")
	flag.StringVar(&c.Python, "python", "/usr/bin/python3", "Python with scikit-learn")
	flag.StringVar(&c.R, "r", "/usr/bin/Rscript", "Rscript, whose lme4 is compared if it is installed")
	flag.StringVar(&c.Peers, "peers", "", "folder that keeps scikit-learn's predictions for the next run")
	flag.StringVar(&c.Sets, "sets", "", "run only the data sets and attempts whose name contains this")
	flag.StringVar(&c.Call, "call", "bglm_fit(y, x)", "the fit that the binary part measures")
	flag.BoolVar(&c.Quick, "quick", false, "fewer rows and repetitions")
	flag.Parse()
	failed, err := run(c, *only, *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "newcomer:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "newcomer: %d wrong or short of the aim\n", failed)
		os.Exit(1)
	}
}

func run(c *Context, only, write string) (failed int, err error) {
	var page string
	if write != "" {
		text, err := os.ReadFile(write)
		if err != nil {
			return 0, err
		}
		page = string(text)
	}
	for _, p := range parts {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.Name) {
			continue
		}
		start := time.Now()
		t, err := p.Run(c)
		if err != nil {
			return failed, fmt.Errorf("%s: %w", p.Name, err)
		}
		failed += len(t.Missed)
		fmt.Fprintf(c.Log, "%s: %d lines, %d missed (%.0f s)\n", p.Name, len(t.Rows), len(t.Missed), time.Since(start).Seconds())
		text := p.markdown(t)
		if write == "" {
			fmt.Print(text)
			continue
		}
		if page, err = replace(page, p.Name, text); err != nil {
			return failed, fmt.Errorf("%s: %w", write, err)
		}
		if err := os.WriteFile(write, []byte(page), 0o644); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// markdown is the part's section of the page.
func (p *Part) markdown(t *Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n| %s |\n|%s\n", p.Title, p.Text, strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
	for _, r := range t.Rows {
		for i := range r {
			r[i] = cell(r[i])
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	if len(t.Missed) > 0 {
		b.WriteString("\nMissed aims:\n\n")
		for _, m := range t.Missed {
			fmt.Fprintf(&b, "- %s: %s\n", m.what, strings.Join(strings.Fields(m.text), " "))
		}
	}
	return b.String()
}

// replace puts text between the marks of a part.
func replace(page, name, text string) (string, error) {
	begin, end := "<!-- newcomer "+name+": begin -->\n", "<!-- newcomer "+name+": end -->\n"
	head, rest, ok := strings.Cut(page, begin)
	_, tail, found := strings.Cut(rest, end)
	if !ok || !found {
		return "", fmt.Errorf("no lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return head + begin + text + end + tail, nil
}

func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "|", "\\|"), "\n", " ") }
