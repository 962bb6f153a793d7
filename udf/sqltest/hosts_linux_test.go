package sqltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// hostParts are the C host, a DuckDB library of a client, and objects with static TLS.
type hostParts struct{ host, duckdb, ext, dir string }

func buildHost(t *testing.T) hostParts {
	t.Helper()
	p := hostParts{ext: extension(t), dir: t.TempDir()}
	p.host = filepath.Join(p.dir, "host")
	compile(t, "-O1", "-Wall", "-o", p.host, "hosts/host.c", "-ldl", "-lpthread")
	version := clientVersions[len(clientVersions)-1]
	runNode(t, "install", "1", p.ext, version, "SELECT 1")
	found, err := filepath.Glob(filepath.Join(clientCache(t), version, "node_modules/@duckdb/*/libduckdb.so"))
	if err != nil || len(found) != 1 {
		t.Skipf("DuckDB's library is not in the client's package: %v", found)
	}
	p.duckdb = found[0]
	return p
}

func compile(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// objects are n libraries with size bytes of static TLS each.
func (p hostParts) objects(t *testing.T, n, size int) (out []string) {
	t.Helper()
	first := filepath.Join(p.dir, fmt.Sprintf("tls%d", size))
	compile(t, "-shared", "-fPIC", fmt.Sprintf("-DSIZE=%d", size), "-o", first, "hosts/tls.c")
	b, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		path := fmt.Sprintf("%s-%d.so", first, i)
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
		out = append(out, path)
	}
	return out
}

// TestHosts runs the extension in a plain C program: after twenty objects with static TLS,
// twice, in two databases; where no static TLS is left; over fork; with the host's own
// signal handlers; and left by exit while queries run.
//
// covers: hosts
func TestHosts(t *testing.T) {
	p := buildHost(t)
	for _, c := range []struct {
		scenario    string
		count, size int
	}{{"among", 20, 16}, {"full", 60, 64}, {"forks", 0, 0}, {"signals", 0, 0}, {"leaves", 0, 0}} {
		t.Run(c.scenario, func(t *testing.T) {
			var objects []string
			if c.count > 0 {
				objects = p.objects(t, c.count, c.size)
			}
			out, err := exec.CommandContext(t.Context(), p.host, append([]string{c.scenario, p.duckdb, p.ext}, objects...)...).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestOtherGo: another Go library in the process, loaded before. Go promises nothing here.
//
// covers: hosts
func TestOtherGo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a library")
	}
	p := buildHost(t)
	lib := filepath.Join(p.dir, "libother.so")
	text, err := os.ReadFile("hosts/othergo.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.go": string(text), "go.mod": "module other\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-o", lib)
	build.Dir = p.dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), p.host, "other_go", p.duckdb, p.ext, lib).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAmongClients: the same in Node, whose add-ons use static TLS.
//
// covers: hosts
func TestAmongClients(t *testing.T) {
	p := buildHost(t)
	for _, v := range clientVersions {
		out, err := exec.CommandContext(t.Context(), "node", append([]string{"clients/among.mjs", p.ext, v}, p.objects(t, 20, 16)...)...).CombinedOutput()
		if err != nil {
			t.Errorf("DuckDB %s: %v\n%s", v, err, out)
		}
	}
}

// TestSlotsClients: each function that bglm takes from DuckDB's table, stable or looked up by
// version, lies there where the header says, in every client.
//
// covers: hosts
func TestSlotsClients(t *testing.T) {
	extension(t)
	dir := t.TempDir()
	object, packed := filepath.Join(dir, "libslots.so"), filepath.Join(dir, "slots.duckdb_extension")
	compile(t, "-shared", "-fPIC", "-o", object, "hosts/slots.c", "-ldl")
	if out, err := exec.CommandContext(t.Context(), "go", "run", "../../cmd/packext", object, packed, "v1").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	header, err := os.ReadFile("../internal/capi/api.h")
	if err != nil {
		t.Fatal(err)
	}
	wants := regexp.MustCompile(`X\((\d+), [^,]+, (\w+),`).FindAllStringSubmatch(string(header), -1)
	if len(wants) < 80 {
		t.Fatalf("only %d functions found in api.h", len(wants))
	}
	for _, v := range clientVersions {
		names := filepath.Join(dir, v)
		t.Setenv("SLOTS", names)
		runNode(t, "loading", "1", packed, v, "SELECT 1")
		text, err := os.ReadFile(names)
		if err != nil {
			t.Fatal(err)
		}
		have := strings.Fields(string(text))
		for _, m := range wants {
			slot, _ := strconv.Atoi(m[1])
			if slot >= stableSlots && !hasSettings(v) {
				continue
			}
			if slot >= len(have) || have[slot] != "duckdb_"+m[2] {
				t.Errorf("DuckDB %s has %d functions; slot %d is not duckdb_%s", v, len(have), slot, m[2])
			}
		}
	}
}

// stableSlots is how many functions the stable table of API v1.2.0 has.
const stableSlots = 404

// hasSettings says whether bglm looks up the options of extensions in a client's DuckDB:
// in 1.5, from 1.5.4 on.
func hasSettings(version string) bool {
	return strings.HasPrefix(version, "1.5.") && version >= "1.5.4"
}

// TestSettingsClients: SET bglm_... where DuckDB has it; the budget of the environment
// everywhere; and LOAD is refused nowhere for want of them.
//
// covers: hosts
func TestSettingsClients(t *testing.T) {
	ext := extension(t)
	t.Setenv("BGLM_MAX_MEMORY", "300MB")
	for _, v := range clientVersions {
		runNode(t, "DuckDB "+v, "300000000", ext, v, "SELECT bglm_state().max_memory")
		n := "0"
		if hasSettings(v) {
			n = "3"
		}
		runNode(t, "DuckDB "+v, n, ext, v, "SELECT count(*) FROM duckdb_settings() WHERE name LIKE 'bglm%'")
		if n == "0" {
			continue
		}
		runNode(t, "DuckDB "+v, "200000000\t300000000", ext, v, "SET bglm_max_memory = '200MB'", "CREATE TABLE t AS SELECT bglm_state().max_memory AS m",
			"SET bglm_max_memory = 'auto'", "SELECT m, bglm_state().max_memory FROM t")
	}
}
