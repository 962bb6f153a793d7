package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFontNotices: the fonts of pictures have a licence of their own, deep in their module.
func TestFontNotices(t *testing.T) {
	n, err := notices([]component{{"golang.org/x/image", "v0.0.0", ""}}, nil, "../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(n), "Copyright (c) 2016 Bigelow & Holmes Inc.") {
		t.Error("the notices lack the licence of the fonts")
	}
}

// TestReleaseKnowsItsCommit: make release links the commit in, in a linked worktree too.
func TestReleaseKnowsItsCommit(t *testing.T) {
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	hash := strings.TrimSpace(run("git", "rev-parse", "HEAD"))
	want := "-X main.built=" + hash + `,\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`
	if strings.TrimSpace(run("git", "status", "--porcelain")) != "" {
		want += ",changed"
	}
	if got := run("make", "-n", "release"); !regexp.MustCompile(want + " ").MatchString(got) {
		t.Errorf("make release does not link in %s:\n%s", want, got)
	}
}

// TestPackaging: the image is built from a context that has the repository, which make release
// asks for its commit; actions of the workflows are named by commit.
func TestPackaging(t *testing.T) {
	ignored, err := os.ReadFile("../../.dockerignore")
	if err != nil || slices.Contains(strings.Fields(string(ignored)), ".git") {
		t.Errorf("%v: %s", err, ignored)
	}
	flows, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(flows) < 2 {
		t.Fatalf("%v: %v", err, flows)
	}
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+$`)
	for _, f := range flows {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`uses: (.*)`).FindAllSubmatch(text, -1) {
			if !pinned.Match(m[1]) {
				t.Errorf("%s: found %s; allowed: owner/name@commit # version", f, m[1])
			}
		}
	}
}
