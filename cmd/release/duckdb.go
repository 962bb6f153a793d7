package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	duckdbFolder  = "packaging/duckdb"
	duckdbLibrary = "github.com/duckdb/duckdb-go-bindings/lib/linux-amd64"
)

// part is software of others that DuckDB's library includes.
type part struct {
	name, licence string   // licence as SPDX expression
	text          string   // file with the licence
	marks         []string // namespaces and archives that show it in the library; none for templates
}

// duckdbParts reads the list of a folder.
func duckdbParts(folder string) ([]part, error) {
	path := filepath.Join(folder, "components.tsv")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var parts []part
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		f := strings.Split(line, "\t")
		if len(f) != 5 || slices.Contains(f, "") {
			return nil, fmt.Errorf("%s: line %d has %d fields; allowed: 5 that are not empty", path, i+1, len(f))
		}
		if i == 0 {
			continue
		}
		p := part{name: f[0], licence: f[1], text: filepath.Join(folder, f[2]+".txt")}
		if f[3] != "-" {
			p.marks = strings.Fields(f[3])
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// What is DuckDB's own or the compiler's. Nothing of the benchmarks is linked in, see checkTool.
var (
	coreNames    = []string{"duckdb", "std", "__gnu_cxx"}
	coreArchives = []string{
		"libduckdb_static.a", "libduckdb_generated_extension_loader.a", "libautocomplete_extension.a", "libcore_functions_extension.a", "libicu_extension.a",
		"libjson_extension.a", "libparquet_extension.a",
	}
	unlinked = []string{"libtpcds_extension.a", "libtpch_extension.a"}
)

// checkParts compares the list with the library's archives in a directory. Errors: a
// namespace or an archive that no part explains, and one of the list that is not there.
func checkParts(dir string, parts []part) error {
	archives, err := filepath.Glob(filepath.Join(dir, "lib*.a"))
	if err != nil {
		return err
	}
	if len(archives) == 0 {
		return fmt.Errorf("%s holds no library of DuckDB", dir)
	}
	known := map[string]bool{} // whether it was found
	for _, p := range parts {
		for _, m := range p.marks {
			known[m] = false
		}
	}
	var strange []string
	for _, path := range archives {
		name := filepath.Base(path)
		if slices.Contains(unlinked, name) {
			continue
		}
		found, err := namespaces(path)
		if err != nil {
			return err
		}
		if !slices.Contains(coreArchives, name) {
			found[name] = true
		}
		for n := range found {
			if _, ok := known[n]; ok {
				known[n] = true
			} else if !slices.Contains(coreNames, n) {
				strange = append(strange, fmt.Sprintf("%s of %s is not in", n, name))
			}
		}
	}
	for n, found := range known {
		if !found {
			strange = append(strange, n+" is not in the library but in")
		}
	}
	if len(strange) > 0 {
		slices.Sort(strange)
		return fmt.Errorf("DuckDB's library has changed: %s %s/components.tsv, which must name what it includes, with its licence", strings.Join(strange, ", "), duckdbFolder)
	}
	return nil
}

// A mangled name of C++ that begins with a namespace: of functions, or of tables, texts
// and variables that belong to one.
var mangled = regexp.MustCompile(`^_Z(?:T[VTIS]|GV|Z)*N[KVrRO]*(\d+)`)

// namespaces are the outermost namespaces in an archive's table of symbols, which is its first
// member.
func namespaces(path string) (map[string]bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	bad := func(what string) error { return fmt.Errorf("%s: %s", path, what) }
	head := make([]byte, 8+60)
	if _, err := io.ReadFull(f, head); err != nil || string(head[:8]) != "!<arch>\n" || string(head[8:10]) != "/ " {
		return nil, bad("no archive with a table of symbols")
	}
	size, err := strconv.Atoi(strings.TrimSpace(string(head[8+48 : 8+58])))
	if err != nil || size < 4 || size > 1<<28 {
		return nil, bad("a table of symbols of no length")
	}
	table := make([]byte, size)
	if _, err := io.ReadFull(f, table); err != nil {
		return nil, bad("a table of symbols that is cut short")
	}
	n := int(binary.BigEndian.Uint32(table))
	if n > (size-4)/4 {
		return nil, bad("more symbols than their table has room for")
	}
	found := map[string]bool{}
	for name := range bytes.SplitSeq(table[4+4*n:], []byte{0}) {
		m := mangled.FindSubmatch(name)
		if m == nil {
			continue
		}
		rest := name[len(m[0]):]
		if length, err := strconv.Atoi(string(m[1])); err == nil && length <= len(rest) {
			found[string(rest[:length])] = true
		}
	}
	return found, nil
}

// checkTool refuses a tool that holds something of TPC-H or TPC-DS, whose programs have licences of
// the Transaction Processing Performance Council. The names of types stay in a stripped binary.
func checkTool(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, name := range []string{"6duckdb13TpchExtensionE", "6duckdb14TpcdsExtensionE"} {
		if bytes.Contains(b, []byte(name)) {
			return fmt.Errorf("%s holds %s, whose licence is not among the notices", path, name)
		}
	}
	return nil
}

// moduleDir is where a module's files lie.
func moduleDir(module string) (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("where %s lies: %w", module, err)
	}
	return strings.TrimSpace(string(dir)), nil
}
