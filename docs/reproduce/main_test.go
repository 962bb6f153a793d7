package main

import (
	"os"
	"strings"
	"testing"
)

// docs/reproduce.md has a line for every claim.
func TestTable(t *testing.T) {
	page, err := os.ReadFile("../reproduce.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		for _, k := range s.Claims {
			if !strings.Contains(string(page), "\n| "+k.ID+" | "+cell(k.Text)+" |") {
				t.Errorf("docs/reproduce.md lacks %s as it stands now; make reproduce", k.ID)
			}
		}
	}
}

// Every claim that is not a timing comes out as documented.
func TestClaims(t *testing.T) {
	c := &Context{Data: "../../../shared/data"}
	seen := map[string]bool{}
	for _, s := range sections {
		for _, k := range s.Claims {
			if seen[k.ID] {
				t.Errorf("two claims are called %s", k.ID)
			}
			seen[k.ID] = true
			t.Run(k.ID, func(t *testing.T) {
				if k.Slow {
					t.Skip("a timing or a long run: make reproduce")
				}
				if k.Data != "" {
					if _, err := os.Stat(c.Data + "/" + k.Data); err != nil {
						t.Skipf("%s is not there", k.Data)
					}
				}
				c := *c
				c.Log = t.Output()
				f := k.Run(&c)
				if f.Holds != (k.Fails == "") {
					t.Errorf("%s\nexpected %s\nfound %s (holds: %v)", k.Text, k.Expected, f.Text, f.Holds)
				}
			})
		}
	}
}
