package sqltest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// clientVersions are the releases of DuckDB's Node client that the extension must
// load in: DuckDB 1.3, 1.4 (both out of support) and 1.5. One of DuckDB 2 goes behind
// the last as soon as there is one; nothing else needs a change to test it.
var clientVersions = []string{"1.3.2-alpha.26", "1.4.4-r.4", "1.5.5-r.5", "1.5.6-r.1"}

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

// TestClients runs the case files through the extension in each client.
//
// covers: hosts
func TestClients(t *testing.T) {
	ext := extension(t)
	for _, v := range clientVersions {
		t.Run(v, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "node", "clients/run.mjs", ext, "cases", v).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
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
