package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDuckDBParts: the list of what DuckDB's library includes is that of the library which
// go.mod names, every part has a text that says who holds its rights, or refers to
// Apache-2.0, and every text belongs to a part.
func TestDuckDBParts(t *testing.T) {
	const folder = "../../" + duckdbFolder
	parts, err := duckdbParts(folder)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := moduleDir(duckdbLibrary)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkParts(dir, parts); err != nil {
		t.Error(err)
	}
	// The list cannot lose or gain a name unnoticed.
	for i, p := range parts {
		if len(p.marks) == 0 {
			continue
		}
		less := slices.Delete(slices.Clone(parts), i, i+1)
		if err := checkParts(dir, less); err == nil || !strings.Contains(err.Error(), p.marks[0]) {
			t.Errorf("without %s: %v", p.name, err)
		}
	}
	if err := checkParts(dir, append(parts, part{marks: []string{"duckdb_roaring"}})); err == nil || !strings.Contains(err.Error(), "duckdb_roaring is not in the library") {
		t.Errorf("with a part that is not there: %v", err)
	}

	used := map[string]bool{}
	holder := regexp.MustCompile(`(?i)copyright|licensed to|Apache License|by Daniel Lemire`)
	ids := strings.Fields("Apache-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 ICU MIT PostgreSQL Unicode-DFS-2015 Zlib") // of the SPDX list
	for _, p := range parts {
		used[filepath.Base(p.text)] = true
		text, err := os.ReadFile(p.text)
		if err != nil {
			t.Fatal(err)
		}
		if !holder.Match(text) {
			t.Errorf("%s does not say whose it is", p.text)
		}
		for id := range strings.SplitSeq(p.licence, " AND ") {
			if !slices.Contains(ids, id) {
				t.Errorf("%s: licence %q", p.name, id)
			}
		}
		if p.licence != "Apache-2.0" && !regexp.MustCompile(`(?i)as[- ]is`).Match(text) {
			t.Errorf("%s holds no whole licence", p.text)
		}
	}
	files, err := filepath.Glob(folder + "/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !used[filepath.Base(f)] {
			t.Errorf("%s belongs to no part", f)
		}
	}
}

// archiveOf is an archive's table of symbols with these names.
func archiveOf(names ...string) []byte {
	table := binary.BigEndian.AppendUint32(nil, uint32(len(names)))
	table = append(table, make([]byte, 4*len(names))...)
	table = append(table, strings.Join(names, "\x00")+"\x00"...)
	return append(fmt.Appendf(nil, "!<arch>\n%-16s%-12d%-6d%-6d%-8d%-10d`\n", "/", 0, 0, 0, 0, len(table)), table...)
}

// TestNamespaces: names of functions, tables and variables tell their outermost namespaces,
// C's none, and a file that is no archive is an error.
func TestNamespaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "liba.a")
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(archiveOf("_ZN11duckdb_zstd4initEv", "_ZNK6duckdb5Value3getEv", "_ZTSN10duckdb_re23RE2E", "_ZGVZN3abc1fEvE1x", "duckdb_open", "_ZNSt6vectorIiE4pushEv", "_Z4mainN3defE", "_ZN99short"))
	got, err := namespaces(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n := range got {
		names = append(names, n)
	}
	slices.Sort(names)
	if want := []string{"abc", "duckdb", "duckdb_re2", "duckdb_zstd"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if err := checkParts(filepath.Dir(path), nil); err == nil || !strings.Contains(err.Error(), "abc of liba.a") || !strings.Contains(err.Error(), "liba.a of liba.a") {
		t.Errorf("strange names: %v", err)
	}
	whole := archiveOf("_ZN1a1bEv")
	many := slices.Clone(whole)
	binary.BigEndian.PutUint32(many[68:], 1<<30)
	for _, b := range [][]byte{nil, []byte("\x7fELF"), whole[:len(whole)-1], many, archiveOf()[:68]} {
		write(b)
		if got, err := namespaces(path); err == nil {
			t.Errorf("%q: %v", b, got)
		}
	}
	if err := checkParts(t.TempDir(), nil); err == nil {
		t.Error("a directory without library passes")
	}
}

// TestToolWithoutBenchmarks: a tool that holds TPC-DS is refused.
func TestToolWithoutBenchmarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), toolFile)
	for text, ok := range map[string]bool{"N6duckdb12IcuExtensionE": true, "x\x00N6duckdb14TpcdsExtensionE\x00": false, "N6duckdb13TpchExtensionE": false} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := checkTool(path); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
