// Package files handles the files of the batch commands: which format a name implies, which names a
// glob matches, whether a file is damaged, and how to write one atomically.
package files

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// extensions maps file extensions to formats.
var extensions = map[string]string{
	".parquet": "parquet", ".pq": "parquet", ".parq": "parquet",
	".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow",
	".csv": "csv", ".tsv": "csv", ".txt": "csv",
	".json": "json", ".ndjson": "json", ".jsonl": "json",
	".duckdb": "duckdb", ".db": "duckdb", ".ddb": "duckdb",
}

// KindOf is the format of a file name, "" if the extension is unknown.
func KindOf(name string) string {
	name = strings.ToLower(name)
	for _, packed := range []string{".gz", ".zst"} {
		if inner := strings.TrimSuffix(name, packed); inner != name {
			if k := extensions[filepath.Ext(inner)]; k == "csv" || k == "json" {
				return k
			}
		}
	}
	return extensions[filepath.Ext(name)]
}

// Expand is filepath.Glob, with ** for any number of folders, without files that a bglm process is
// writing.
func Expand(pattern string) ([]string, error) {
	before, after, ok := strings.Cut(pattern, "**/")
	if !ok {
		found, err := filepath.Glob(pattern)
		return slices.DeleteFunc(found, IsTemp), err
	}
	var out []string
	root := filepath.Clean(before + ".")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rest := strings.Split(filepath.ToSlash(after), "/")
		parts := strings.Split(filepath.ToSlash(path), "/")
		if len(parts) < len(rest) {
			return nil
		}
		ok, err := filepath.Match(strings.Join(rest, "/"), strings.Join(parts[len(parts)-len(rest):], "/"))
		if ok && !IsTemp(path) {
			out = append(out, path)
		}
		return err
	})
	return out, err
}

// Sniff guesses the format of a stream from its beginning.
func Sniff(in *bufio.Reader) string {
	head, _ := in.Peek(64)
	text := bytes.TrimLeft(head, " \t\r\n\xef\xbb\xbf")
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		return "parquet"
	case bytes.HasPrefix(head, []byte("ARROW1")), bytes.HasPrefix(head, []byte{0xff, 0xff, 0xff, 0xff}):
		return "arrow"
	case len(head) >= 12 && string(head[8:12]) == "DUCK":
		return "duckdb"
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		return "json"
	}
	return "csv"
}

// Unpacked decompresses a stream compressed by gzip or zstd, recognised by its first bytes.
func Unpacked(in *bufio.Reader) (*bufio.Reader, error) {
	name := ""
	switch head, _ := in.Peek(4); {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		name = ".gz"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		name = ".zst"
	}
	r, packed, err := unpacked(in, name)
	if err != nil || !packed {
		return in, err
	}
	return bufio.NewReaderSize(r, 1<<20), nil
}

// Named adds the name of its file to an error, if missing.
func Named(name string, err error) error {
	if err == nil || strings.Contains(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
