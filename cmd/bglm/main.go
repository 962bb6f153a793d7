// Command bglm runs Bayesian generalized linear models: a DuckDB shell with the
// bglm functions loaded, and batch jobs over files.
//
//	bglm sql -c "SELECT bglm_version()"
//
// Exit codes: 0 done, 1 failed, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/bglm/bglm/cmd/internal/shell"
)

// commands is the command line. A command is a struct with a Run(*env) error
// method in a file of its own, and one line here.
type commands struct {
	SQL        sqlCommand        `cmd:"" name:"sql" help:"Run SQL with the bglm functions loaded: a shell, statements, or files."`
	Fit        fitCommand        `cmd:"" help:"Fit a model to the rows of files and write its belief table."`
	Predict    predictCommand    `cmd:"" help:"Score the rows of files with a belief table."`
	Evaluate   evaluateCommand   `cmd:"" help:"Measure predictions against what was observed."`
	Report     reportCommand     `cmd:"" help:"Write a page about a model: calibration, weights, trajectories, evidence, worst rows."`
	Merge      mergeCommand      `cmd:"" help:"Multiply the posteriors of partial runs, their prior counted once."`
	Completion completionCommand `cmd:"" help:"Print the completion script of a shell."`
	Demo       demoCommand       `cmd:"" help:"Learn late flights from real data: belief tables, predictions, calibration, a continued run."`
	Version    versionCommand    `cmd:"" help:"Print the versions of bglm, Go and DuckDB."`
}

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// env is what a command may touch.
type env struct {
	ctx    context.Context
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	names  []string // of files, for message
}

// note keeps names of files that messages may hold.
func (e *env) note(names ...string) { e.names = append(e.names, names...) }

// message is an error's text without what would act on a terminal: in names of files
// line breaks too, which elsewhere are part of the message.
func (e *env) message(err error) string {
	text := err.Error()
	for _, name := range e.names {
		for _, n := range []string{name, filepath.Dir(name)} {
			if v := shell.Visible(n); v != n {
				text = strings.ReplaceAll(text, n, v)
			}
		}
	}
	return shell.Message(text)
}

// usageError marks an error as wrong usage: exit code 2.
type usageError struct{ error }

func main() {
	// SIGTERM always ends the program in order; Ctrl-C is the commands' affair,
	// since the shell uses it to stop a query.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// exited unwinds from kong's --help, which has already printed.
type exited int

// run is the whole program: it parses args, runs the command and returns the
// exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			x, ok := r.(exited)
			if !ok {
				panic(r)
			}
			code = int(x)
		}
	}()
	var c commands
	parser, err := kong.New(&c,
		kong.Name("bglm"),
		kong.Description("Bayesian generalized linear models inside DuckDB."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}),
	)
	if err != nil {
		fmt.Fprintf(stderr, "bglm: %v\n", err)
		return exitFailed
	}
	e := &env{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr, names: slices.Clone(args)}
	k, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "bglm: %s\nbglm --help lists the commands and flags.\n", e.message(err))
		return exitUsage
	}
	err = k.Run(e, parser)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "bglm %s: %s\n", k.Selected().Name, e.message(err))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}
