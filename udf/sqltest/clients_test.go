package sqltest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clientVersions are the releases of DuckDB's Node client that the extension must
// load in: DuckDB 1.3, 1.4 (both out of support) and 1.5. One of DuckDB 2 goes behind
// the last as soon as there is one; nothing else needs a change to test it.
var clientVersions = []string{"1.3.2-alpha.26", "1.4.4-r.4", "1.5.5-r.5", "1.5.6-r.1"}

// between says whether a client is neither the oldest nor the newest, which do what takes long.
func between(version string) bool {
	return version != clientVersions[0] && version != clientVersions[len(clientVersions)-1]
}

// eachClient runs a test in every client.
func eachClient(t *testing.T, run func(t *testing.T, version string)) {
	for _, v := range clientVersions {
		t.Run(v, func(t *testing.T) { run(t, v) })
	}
}

// extension is the built extension file, or the test is skipped.
func extension(t *testing.T) string {
	t.Helper()
	path := os.Getenv("BGLM_EXTENSION")
	if path == "" {
		t.Skip("BGLM_EXTENSION is not set; set it to build/bglm.duckdb_extension to test the extension in its clients")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abs); err != nil {
		t.Fatalf("BGLM_EXTENSION (relative paths start at the directory of this test): %v", err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skipf("the clients need node: %v", err)
	}
	return abs
}

// TestClients runs the case files through the extension in each client: all of them in the
// oldest and the newest, in those between without the lengthy ones.
//
// covers: hosts
func TestClients(t *testing.T) {
	ext := extension(t)
	eachClient(t, func(t *testing.T, v string) {
		args := []string{"clients/run.mjs", ext, "cases", v}
		if between(v) {
			args = append(args, lengthy...)
		}
		out, err := exec.CommandContext(t.Context(), "node", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
	})
}

// TestSignals: the Go runtime takes SIGURG for itself; a host's own handler still gets
// what others send.
//
// covers: hosts
func TestSignals(t *testing.T) {
	ext := extension(t)
	for _, v := range clientVersions {
		out, err := exec.CommandContext(t.Context(), "node", "clients/signals.mjs", ext, v).CombinedOutput()
		if err != nil {
			t.Errorf("DuckDB %s: %v: %s", v, err, out)
		}
	}
}

// TestHardened: the extension's tables of addresses are read-only once it is loaded
// (full RELRO: all symbols bound at load), and it exports its entry point only.
//
// covers: hosts
func TestHardened(t *testing.T) {
	ext := extension(t)
	f, err := elf.Open(ext)
	if err != nil {
		t.Skipf("not an ELF file: %v", err)
	}
	defer f.Close()
	relro := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_RELRO })
	flags, err := f.DynValue(elf.DT_FLAGS)
	if err != nil {
		t.Fatal(err)
	}
	flags1, err := f.DynValue(elf.DT_FLAGS_1)
	if err != nil {
		t.Fatal(err)
	}
	now := len(flags) > 0 && elf.DynFlag(flags[0])&elf.DF_BIND_NOW != 0 || len(flags1) > 0 && elf.DynFlag1(flags1[0])&elf.DF_1_NOW != 0
	if !relro || !now {
		t.Errorf("GNU_RELRO %v, bound at load %v", relro, now)
	}
}

// TestGlibcFloor: the extension asks the system for nothing newer than glibc 2.28, and for
// no library but the C library.
//
// covers: hosts
func TestGlibcFloor(t *testing.T) {
	ext := extension(t)
	f, err := elf.Open(ext)
	if err != nil {
		t.Skipf("not an ELF file: %v", err)
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		t.Skipf("no floor is kept for %v", f.Machine)
	}
	symbols, err := f.ImportedSymbols()
	if err != nil || len(symbols) < 10 {
		t.Fatalf("%d imported symbols: %v", len(symbols), err)
	}
	for _, s := range symbols {
		var minor int
		if n, _ := fmt.Sscanf(s.Version, "GLIBC_2.%d", &minor); s.Version != "" && (n != 1 || minor > 28) {
			t.Errorf("%s needs %s", s.Name, s.Version)
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libraries {
		if !slices.Contains([]string{"libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}, l) {
			t.Errorf("needs %s", l)
		}
	}
}

// The Node example of docs/clients.md runs as it stands, and the macros come as it says.
func TestNodeExample(t *testing.T) {
	ext := extension(t)
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```js\n")
	code, _, ok := strings.Cut(rest, "```\n")
	macros := "await c.run((await c.runAndReadAll(\"SELECT bglm_macros()\")).getRows()[0][0])"
	if !ok || !strings.Contains(string(page), "`"+macros+"`") {
		t.Fatal("docs/clients.md has no Node example, or none of the macros")
	}
	dir := t.TempDir()
	code += macros + "\nconsole.log((await c.runAndReadAll(\"SELECT count(*) > 12 FROM duckdb_functions() WHERE comment LIKE 'bglm_%'\")).getRows()[0][0]);\n"
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "build"), 0o700), os.Symlink(ext, filepath.Join(dir, "build", filepath.Base(ext))),
		os.WriteFile(filepath.Join(dir, "example.mjs"), []byte(code), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range clientVersions {
		// The package is in the cache by then.
		runNode(t, "DuckDB "+v, "1000", ext, v, "COPY (SELECT i % 3 = 0 AS y, sin(i) AS x FROM range(1000) t(i)) TO '"+filepath.Join(dir, "rows.parquet")+"'",
			"SELECT count(*) FROM '"+filepath.Join(dir, "rows.parquet")+"'")
		modules := filepath.Join(dir, "node_modules")
		_ = os.Remove(modules)
		if err := os.Symlink(filepath.Join(clientCache(t), v, "node_modules"), modules); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "node", "example.mjs")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if text := string(out); err != nil || !strings.Contains(text, "term: 'x'") || !strings.HasSuffix(text, "true\n") {
			t.Errorf("DuckDB %s: %v\n%s", v, err, out)
		}
	}
}

// clientCache is where clients/client.mjs installs the clients.
func clientCache(t *testing.T) string {
	if dir := os.Getenv("BGLM_CLIENT_CACHE"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(home, ".cache", "bglm-clients")
}
