// Command packext turns a shared library into a DuckDB extension: it appends
// the footer that DuckDB reads before loading (a WebAssembly custom section
// header, eight fields of 32 bytes and room for a signature).
package main

import (
	"fmt"
	"os"
	"runtime"
)

const usage = "usage: packext SHARED_LIBRARY OUTPUT EXTENSION_VERSION [PLATFORM]"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packext:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 || len(args) > 4 {
		return fmt.Errorf("%s", usage)
	}
	p, err := platform()
	if len(args) == 4 {
		p, err = args[3], nil
	}
	if err != nil {
		return err
	}
	lib, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	foot, err := footer(args[2], p)
	if err != nil {
		return err
	}
	tmp := args[1] + ".tmp"
	if err := os.WriteFile(tmp, append(lib, foot...), 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, args[1])
}

// footer holds, last field first: the format "4", the platform, the C API
// version needed, the extension's version, the ABI kind, three empty fields and
// 256 bytes for a signature.
func footer(version, platform string) ([]byte, error) {
	b := []byte{0x00, 0x93, 0x04, 0x10}
	b = append(b, "duckdb_signature"...)
	b = append(b, 0x80, 0x04)
	for _, f := range []string{"", "", "", "C_STRUCT", version, "v1.2.0", platform, "4"} {
		if len(f) > 32 {
			return nil, fmt.Errorf("field %q is longer than 32 bytes", f)
		}
		b = append(b, f...)
		b = append(b, make([]byte, 32-len(f))...)
	}
	return append(b, make([]byte, 256)...), nil
}

// platform is DuckDB's name of this machine.
func platform() (string, error) {
	name, ok := map[string]string{"linux": "linux", "darwin": "osx", "windows": "windows"}[runtime.GOOS]
	if !ok || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return "", fmt.Errorf("DuckDB has no platform name for %s/%s; give one as the last argument", runtime.GOOS, runtime.GOARCH)
	}
	return name + "_" + runtime.GOARCH, nil
}
