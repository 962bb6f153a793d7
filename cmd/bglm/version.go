package main

import (
	"database/sql"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for releases: -ldflags "-X main.version=v1.2.3".
var version = ""

// bglmVersion returns the release, or what the Go tool recorded of the source.
func bglmVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

type versionCommand struct{}

// Help is the text below the usage line.
func (*versionCommand) Help() string {
	return `Example:

  bglm version`
}

// Run prints one line for each part.
func (*versionCommand) Run(e *env) error {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer db.Close()
	var duck string
	if err := db.QueryRowContext(e.ctx, "SELECT version()").Scan(&duck); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "bglm   %s\nGo     %s %s/%s\nDuckDB %s\n", bglmVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, duck)
	return err
}
