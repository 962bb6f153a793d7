package main

import (
	"fmt"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/udf"
)

type macrosCommand struct {
	Name string `arg:"" optional:"" help:"Name of one macro, such as bglm_score (default: all)."`
}

// Help is the text below the usage line.
func (*macrosCommand) Help() string {
	return `Prints the SQL that creates the table macros, for a DuckDB with the extension loaded (bglm_macros).
The shell, bglm sql, has them already.

Examples:

  bglm macros > bglm.sql
  bglm macros bglm_score`
}

// Run prints the script.
func (c *macrosCommand) Run(e *cli.Env) error {
	text, err := udf.MacroSQL(c.Name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(e.Stdout, text)
	return err
}
