package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/shell"
)

type sqlCommand struct {
	DB       string   `name:"db" placeholder:"FILE" help:"Database file, created if it does not exist (default: a database in memory)."`
	ReadOnly bool     `help:"Open the database file without write access."`
	Command  []string `short:"c" sep:"none" placeholder:"SQL" help:"Run these statements; may be given several times. They run after the files."`
	Mode     string   `placeholder:"MODE" default:"box" enum:"box,csv,json,markdown,line" help:"How results are printed: box, csv, json, markdown or line."`
	MaxRows  int      `placeholder:"N" default:"-1" help:"Print at most N rows of a result; 0 prints all (default: 40 in box mode, all in other modes)."`
	CSVSafe  bool     `name:"csv-safe" help:"In csv mode, put an apostrophe before text that begins with =, +, -, @, a tab or a line break, because a spreadsheet would run it as a formula."`
	Files    []string `arg:"" optional:"" name:"file" help:"Files with SQL, run in the given order; - is the standard input."`
}

// Help is the text below the usage line.
func (*sqlCommand) Help() string {
	return `Without files and -c, statements are read from the standard input; on a terminal this is a shell with
history and editing. Elsewhere the first error ends the run, and the message on standard error names
the file and the line of the statement. With files or -c, SQL can read data from the standard input
as '/dev/stdin'.

Examples:

  bglm sql
  bglm sql --db flights.db fit.sql -c "SELECT unnest(bglm_beliefs(fit)) FROM fits"
  bglm sql --mode csv -c "SELECT origin, avg(delay) FROM 'flights.parquet' GROUP BY 1" > delays.csv

In the shell, .help lists the commands. The history is kept in ~/.bglm_history, or in the file that
BGLM_HISTORY names.`
}

// Run opens the shell and passes it the statements.
func (c *sqlCommand) Run(e *cli.Env) (err error) {
	if c.ReadOnly && c.DB == "" {
		return cli.Usage(errors.New("--read-only needs --db FILE"))
	}
	if c.MaxRows < -1 {
		return cli.Usage(fmt.Errorf("--max-rows is %d, allowed is 0 (all rows) or more", c.MaxRows))
	}
	for _, f := range c.Files {
		if files.KindOf(f) == "duckdb" {
			return cli.Usage(fmt.Errorf("%s is the name of a database; --db %s opens it, and files hold SQL", f, f))
		}
	}
	width, onTerminal := cli.TerminalWidth(e.Stdout)
	interactive := len(c.Files) == 0 && len(c.Command) == 0 && cli.IsTerminal(e.Stdin)

	ctx := e.Ctx
	if !interactive {
		var stop func()
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		// A second Ctrl-C ends the process even if a query does not stop.
		defer context.AfterFunc(ctx, stop)()
		defer context.AfterFunc(ctx, func() {
			time.AfterFunc(time.Second, func() { fmt.Fprintf(e.Stderr, "bglm sql: %s\n", shell.Waiting()) })
		})()
	}
	// Statements may read the standard input unless they come from there.
	var data io.Reader
	if !interactive && (len(c.Files) > 0 || len(c.Command) > 0) && !slices.Contains(c.Files, "-") && !cli.IsTerminal(e.Stdin) {
		data = e.Stdin
	}
	sh, err := shell.Open(ctx, shell.Options{
		DB:       c.DB,
		ReadOnly: c.ReadOnly,
		Format:   shell.Format{Mode: c.Mode, MaxRows: c.MaxRows, Width: width, CSVSafe: c.CSVSafe, Terminal: onTerminal},
		Stdin:    data,
		Stdout:   e.Stdout,
		Stderr:   e.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sh.Close()) }()

	if interactive {
		prompts := e.Stdout
		if !onTerminal {
			prompts = e.Stderr
		}
		fmt.Fprintln(prompts, "bglm shell. End statements with a semicolon; .help lists the commands.")
		return sh.REPL(ctx, prompts)
	}
	if err := c.feed(ctx, sh, e.Stdin); !errors.Is(err, shell.ErrQuit) {
		return err
	}
	return nil
}

func (c *sqlCommand) feed(ctx context.Context, sh *shell.Shell, stdin io.Reader) error {
	if len(c.Files) == 0 && len(c.Command) == 0 {
		return sh.Run(ctx, "stdin", stdin)
	}
	for _, f := range c.Files {
		var err error
		if f == "-" {
			err = sh.Run(ctx, "stdin", stdin)
		} else {
			err = sh.RunFile(ctx, f)
		}
		if err != nil {
			return err
		}
	}
	for i, text := range c.Command {
		source := "-c"
		if len(c.Command) > 1 {
			source = fmt.Sprintf("-c %d", i+1)
		}
		if err := sh.RunText(ctx, source, text); err != nil {
			return err
		}
	}
	return nil
}
