package main

import (
	"database/sql"
	"fmt"
	"runtime"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/udf"
)

type versionCommand struct{}

// Help is the text below the usage line.
func (*versionCommand) Help() string {
	return `Example:

  bglm version`
}

// Run prints one line for each part.
func (*versionCommand) Run(e *cli.Env) error {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer db.Close()
	var duck string
	if err := db.QueryRowContext(e.Ctx, "SELECT version()").Scan(&duck); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Stdout, "bglm   %s\nGo     %s %s/%s\nDuckDB %s\n", udf.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, duck)
	return err
}
