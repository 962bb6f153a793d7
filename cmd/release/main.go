// Command release completes a release: it checks what the built extension and tool need of
// the system, and writes beside them a bill of materials, the licences of all that is
// linked in, the files of DuckDB's community catalogue, a signed repository for DuckDB 2
// (where a key is given), and checksums of everything.
//
// usage: release -version v0.1.0 -out DIR [-key PRIVATE.pem -duckdb v2.0.0,v2.0.1]
//
// DIR holds bglm.duckdb_extension and bglm. It is run by make release.
package main

import (
	"crypto/sha256"
	"debug/elf"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	extensionFile = "bglm.duckdb_extension"
	toolFile      = "bglm"
	glibcFloor    = 28 // of glibc 2
)

func main() {
	version := flag.String("version", "", "version of the release, such as v0.1.0")
	out := flag.String("out", "", "directory with the extension and the tool; all else is written there")
	key := flag.String("key", "", "private RSA key of 2048 bits (PEM) to sign the repository with; without it there is none")
	duckdb := flag.String("duckdb", "v2.0.0,v2.0.1", "releases of DuckDB that the repository serves")
	platform := flag.String("platform", "linux_amd64", "DuckDB's name of the platform")
	flag.Parse()
	if err := run(*version, *out, *key, *platform, strings.Split(*duckdb, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(version, out, key, platform string, duckdb []string) error {
	if !strings.HasPrefix(version, "v") || out == "" {
		return fmt.Errorf("found -version %q and -out %q; allowed: a version such as v0.1.0 and a directory", version, out)
	}
	var parts []component
	for _, name := range []string{extensionFile, toolFile} {
		path := filepath.Join(out, name)
		if err := checkFloor(path); err != nil {
			return err
		}
		c, err := components(path)
		if err != nil {
			return err
		}
		parts = merge(parts, c)
	}
	if err := checkTool(filepath.Join(out, toolFile)); err != nil {
		return err
	}
	included, err := duckdbParts(duckdbFolder)
	if err != nil {
		return err
	}
	library, err := moduleDir(duckdbLibrary)
	if err != nil {
		return err
	}
	if err := checkParts(library, included); err != nil {
		return err
	}
	bom, err := cycloneDX(version, parts, included)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "bglm.cdx.json"), bom, 0o644); err != nil {
		return err
	}
	notices, err := notices(parts, included, "LICENSE")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "THIRD_PARTY_NOTICES.txt"), notices, 0o644); err != nil {
		return err
	}
	if err := catalogue(version, out); err != nil {
		return err
	}
	if key == "" {
		fmt.Println("no key: no signed repository")
	} else if err := repository(out, key, platform, duckdb); err != nil {
		return err
	}
	return checksums(out)
}

// checkFloor refuses a binary that needs a newer glibc than 2.28, or a C++ library.
func checkFloor(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return err
	}
	most := 0
	for _, s := range symbols {
		var minor int
		if n, _ := fmt.Sscanf(s.Version, "GLIBC_2.%d", &minor); n == 1 {
			most = max(most, minor)
		} else if s.Version != "" {
			return fmt.Errorf("%s needs %s of %s, which is not in the C library", path, s.Name, s.Version)
		}
		if minor > glibcFloor {
			return fmt.Errorf("%s needs %s of glibc 2.%d; allowed: up to 2.%d", path, s.Name, minor, glibcFloor)
		}
	}
	for _, tag := range []elf.DynTag{elf.DT_TEXTREL} {
		if v, _ := f.DynValue(tag); len(v) > 0 {
			return fmt.Errorf("%s has relocations in its text", path)
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %.1f MB, needs glibc 2.%d\n", filepath.Base(path), float64(st.Size())/1e6, most)
	return nil
}

// catalogue writes what DuckDB's community catalogue asks for.
func catalogue(version, out string) error {
	b, err := os.ReadFile("packaging/description.yml")
	if err != nil {
		return err
	}
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("the commit of this release: %w", err)
	}
	text := strings.NewReplacer("${VERSION}", strings.TrimPrefix(version, "v"), "${REF}", strings.TrimSpace(string(commit))).Replace(string(b))
	if err := os.WriteFile(filepath.Join(out, "description.yml"), []byte(text), 0o644); err != nil {
		return err
	}
	b, err = os.ReadFile("docs/function_descriptions.csv")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "function_descriptions.csv"), b, 0o644)
}

// checksums writes SHA256SUMS of all files, in the form that sha256sum -c reads.
func checksums(out string) error {
	const name = "SHA256SUMS"
	var lines []string
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == name {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(out, path)
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(b), filepath.ToSlash(rel)))
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(out, name), []byte(strings.Join(lines, "")), 0o644)
}
