package capi

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

type apiEntry struct {
	slot int
	name string
	args int
}

func commas(args string) int {
	args = strings.TrimSpace(args)
	if args == "" || args == "void" {
		return 0
	}
	return strings.Count(args, ",") + 1
}

// entriesOf reads the table of api.h.
func entriesOf(t *testing.T) []apiEntry {
	t.Helper()
	b, err := os.ReadFile("api.h")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\\\s*\n`).ReplaceAllString(string(b), " ")
	var out []apiEntry
	for _, m := range regexp.MustCompile(`X\((\d+), [^,]+, (\w+),\s*\(([^)]*)\)\)`).FindAllStringSubmatch(text, -1) {
		slot, _ := strconv.Atoi(m[1])
		out = append(out, apiEntry{slot, m[2], commas(m[3])})
	}
	if len(out) < 50 {
		t.Fatalf("only %d entries found in api.h", len(out))
	}
	return out
}

// Our prototypes are written by hand: each function must be in DuckDB's own
// header with as many parameters.
func TestPrototypes(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/duckdb/duckdb-go-bindings").Output()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "include", "duckdb.h"))
	if err != nil {
		t.Fatal(err)
	}
	header := regexp.MustCompile(`\s+`).ReplaceAllString(string(b), " ")
	for _, e := range entriesOf(t) {
		m := regexp.MustCompile(`DUCKDB_C_API [\w ]+\*? ?\*?duckdb_` + e.name + `\(([^;]*)\);`).FindStringSubmatch(header)
		if m == nil {
			t.Errorf("duckdb_%s is not in duckdb.h", e.name)
		} else if commas(m[1]) != e.args {
			t.Errorf("duckdb_%s takes %d parameters, api.h says %d: %s", e.name, commas(m[1]), e.args, m[1])
		}
	}
}

// The slots lie inside the stable table of API v1.2.0 (404 entries) or, those looked up
// by version, that of 1.5.4 to 1.5.6 (546); each function once, in the order of the table.
func TestSlots(t *testing.T) {
	last := -1
	for _, e := range entriesOf(t) {
		if e.slot <= last || e.slot >= 546 {
			t.Errorf("%s has slot %d after %d", e.name, e.slot, last)
		}
		last = e.slot
	}
	b, err := os.ReadFile("../../../../shared/duckdb-c-api-slots.tsv")
	if err != nil {
		t.Skip("the list of slots to compare with is not here")
	}
	want := map[string]int{}
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Split(line, "\t"); len(f) == 2 {
			want[strings.TrimPrefix(f[1], "duckdb_")], _ = strconv.Atoi(f[0])
		}
	}
	for _, e := range entriesOf(t) {
		if e.slot < 404 && want[e.name] != e.slot {
			t.Errorf("%s has slot %d, want %d", e.name, e.slot, want[e.name])
		}
	}
}

// A handle of a released slot is refused, also when the slot lives again.
func TestGenerations(t *testing.T) {
	var s slab
	h := &holder{}
	h.refs.Store(2)
	a, err := s.alloc(3, h)
	if err != nil {
		t.Fatal(err)
	}
	if s.slot(a) == nil || s.live.Load() != 1 {
		t.Fatal("a fresh handle is not live")
	}
	if !s.release(a) || s.release(a) || s.slot(a) != nil || s.live.Load() != 0 {
		t.Error("a released handle is still good")
	}
	for range 2 * segSlots {
		b, err := s.alloc(3, h)
		if err != nil {
			t.Fatal(err)
		}
		if b == a {
			t.Fatal("a handle came twice")
		}
	}
	if s.slot(a) != nil || s.slot(0) != nil || s.slot(1<<63|5) != nil {
		t.Error("a stale or made-up handle is good")
	}
}

// A result whose columns do not agree never reaches DuckDB's memory.
func TestResultCheck(t *testing.T) {
	typ := StructOf(Field{"a", TDouble}, Field{"b", ListOf(TVarchar)})
	c := NewCol(typ)
	c.Field(0).Float(1)
	c.Field(1).Elem().Str("x")
	c.Field(1).EndList()
	c.EndStruct()
	c.Null()
	if err := c.check(2); err != nil {
		t.Error(err)
	}
	if c.check(3) == nil {
		t.Error("too few rows passed")
	}
	c.Field(0).Float(2)
	if c.check(2) == nil {
		t.Error("an extra field entry passed")
	}
	d := NewCol(ListOf(TDouble))
	d.Elem().Float(1)
	d.EndList()
	d.Elem().Float(2)
	if d.check(1) == nil {
		t.Error("an open list passed")
	}
}
