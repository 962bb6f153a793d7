// Reproduce runs the numbered claims of the papers that bglm builds on and prints
// claim, expected and found.
//
//	go run ./docs/reproduce                     # all of them, as a table
//	go run ./docs/reproduce -only Z5,L3         # some
//	go run ./docs/reproduce -write docs/reproduce.md
//
// Claims about real data read -data (default ../shared/data) and say so when it is
// not there.
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

// Claim is one statement of a source and the program that checks it.
type Claim struct {
	ID       string // Z1 to Z12, L1 to L10, N1 to N6, H1 to H12; comparisons have names
	Text     string // what is claimed, in our words
	Expected string // the number or relation to find
	Slow     bool   // a timing or minutes of work: not part of the tests
	Data     string // the data file needed, if any
	// Fails says why the claim is known not to hold as printed; such a claim is
	// shown with its reason, and the tests check that it still does not hold.
	Fails string
	Run   func(c *Context) Found
}

// Found is what a run gave.
type Found struct {
	Text  string // figures, short
	Holds bool
}

// Context is what a claim's program may use.
type Context struct {
	Data string    // folder of the data sets
	Log  io.Writer // progress and details
}

// Section is the claims of one source.
type Section struct {
	Title, Source string
	Claims        []Claim
}

var sections = []Section{zoeter, lrglm, niranjan, hennig.with(hennigGP), referee, tiedSites}

func main() {
	only := flag.String("only", "", "comma-separated claims to run; empty runs all")
	write := flag.String("write", "", "file to write the page to; empty writes to standard output")
	data := flag.String("data", "../shared/data", "folder of the data sets")
	fast := flag.Bool("fast", false, "leave out timings and long runs")
	flag.Parse()
	var ids []string
	if *only != "" {
		ids = strings.Split(*only, ",")
	}
	c := &Context{Data: *data, Log: os.Stderr}
	text, failed := report(c, func(k *Claim) bool {
		return (len(ids) == 0 || slices.Contains(ids, k.ID)) && !(*fast && k.Slow)
	})
	if *write == "" {
		fmt.Print(text)
	} else if err := os.WriteFile(*write, []byte(text), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "reproduce:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "reproduce: %d claims did not come out as documented\n", failed)
		os.Exit(1)
	}
}

// report runs the claims that want picks. failed counts those that came out
// other than the claim says.
func report(c *Context, want func(*Claim) bool) (text string, failed int) {
	var b strings.Builder
	b.WriteString(`# What the papers claim, and what bglm finds

bglm builds on the papers below. This page lists their numbered claims, and some of bglm's own, with what was
expected and what bglm finds. Each row is a program under docs/reproduce.

- ` + "`make reproduce`" + ` runs all of them and writes this page. The tests run them too, except timings and long runs.
- "no" in the last column marks a claim that does not hold as printed. The reason is below the table.
- The sources are in docs/references.bib.
`)
	for _, s := range sections {
		var rows, notes strings.Builder
		for i := range s.Claims {
			k := &s.Claims[i]
			if !want(k) {
				continue
			}
			if k.Data != "" {
				if _, err := os.Stat(c.Data + "/" + k.Data); err != nil {
					fmt.Fprintf(&rows, "| %s | %s | %s | not run: %s is missing | |\n", k.ID, cell(k.Text), cell(k.Expected), k.Data)
					continue
				}
			}
			start := time.Now()
			f := k.Run(c)
			fmt.Fprintf(c.Log, "%s: %s (%.1f s)\n", k.ID, f.Text, time.Since(start).Seconds())
			holds := "yes"
			if !f.Holds {
				holds = "no"
			}
			if f.Holds != (k.Fails == "") {
				failed++
				fmt.Fprintf(c.Log, "%s: holds is %v, which is not what is documented\n", k.ID, f.Holds)
			}
			fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s |\n", k.ID, cell(k.Text), cell(k.Expected), cell(f.Text), holds)
			if k.Fails != "" {
				fmt.Fprintf(&notes, "- %s: %s\n", k.ID, k.Fails)
			}
		}
		if rows.Len() > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| | claim | expected | found | holds |\n|---|---|---|---|---|\n%s", s.Title, s.Source, rows.String())
			if notes.Len() > 0 {
				b.WriteString("\n" + notes.String())
			}
		}
	}
	return b.String(), failed
}

func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "|", "\\|"), "\n", " ") }
