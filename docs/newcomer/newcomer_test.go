package main

import (
	"os"
	"strings"
	"testing"
)

// quick is a context of the quick forms: no peers, no command line tool.
func quick(t *testing.T) *Context {
	return &Context{Project: "../..", Data: "../../../shared/data", Quick: true, Log: t.Output()}
}

// check runs a part; docs/comparison.md lists what is known to be wrong in it.
func check(t *testing.T, p Part) {
	t.Helper()
	table, err := p.Run(quick(t))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table.Missed {
		if strings.Contains(string(page), "\n- "+m.what+": ") {
			t.Log("as documented:", m)
			continue
		}
		t.Error(m)
	}
}

// Plain first attempts are right, or say so.
func TestAttempts(t *testing.T) { check(t, attempts) }

// So are tables with columns that tables do have.
func TestHostile(t *testing.T) { check(t, hostile) }

// Intervals hold the truth as often as they say, up to the noise of few data sets.
func TestCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of fits")
	}
	check(t, coverage)
}

// The engines are calibrated, and engines that are wrong on purpose are rejected.
func TestSimulation(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of fits")
	}
	check(t, simulation)
}

// Learnt variances of published data are those published.
func TestComponents(t *testing.T) { check(t, variances) }

// The page has a place for each part.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if _, err := replace(string(page), p.Name, ""); err != nil {
			t.Error(err)
		}
	}
}
