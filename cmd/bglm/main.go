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
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
)

// commands is the command line. A command is a struct with a Run(*env) error
// method in a separate file, and one line here.
type commands struct {
	SQL        sqlCommand        `cmd:"" name:"sql" help:"Run SQL with the bglm functions loaded: a shell, statements, or files."`
	Fit        fitCommand        `cmd:"" help:"Fit a model to the rows of files and write its belief table."`
	Predict    predictCommand    `cmd:"" help:"Predict the rows of files with a belief table."`
	Evaluate   evaluateCommand   `cmd:"" help:"Measure how well predictions match what was observed."`
	Summary    summaryCommand    `cmd:"" help:"Print the weights of a fit: intervals, odds or rate ratios, P(> 0)."`
	Contrast   contrastCommand   `cmd:"" help:"Print the difference between two rows, or between the levels of a column."`
	Effects    effectsCommand    `cmd:"" help:"Print the average effects of columns on the response."`
	Compare    compareCommand    `cmd:"" help:"Compare fits of the same rows by leave-one-out cross-validation."`
	Export     exportCommand     `cmd:"" help:"Write a fit as SQL or PMML that predicts rows without bglm, or as JSON."`
	Report     reportCommand     `cmd:"" help:"Write an HTML report about a model: calibration, weights, trajectories, evidence, worst rows."`
	Merge      mergeCommand      `cmd:"" help:"Merge fits of different parts of the rows into one."`
	Finish     finishCommand     `cmd:"" help:"Make a fit from passes over parts of the rows (bglm fit --partial)."`
	Macros     macrosCommand     `cmd:"" help:"Print the SQL that creates the table macros."`
	Completion completionCommand `cmd:"" help:"Print the completion script for a shell."`
	Demo       demoCommand       `cmd:"" help:"Show a tour with real data: learn which flights are late, predict, check calibration, continue a run."`
	Version    versionCommand    `cmd:"" help:"Print the versions of bglm, Go and DuckDB."`
}

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// SIGTERM always ends the program in an orderly way; Ctrl-C is left to the commands, since the
	// shell uses it to stop a query. A closed terminal ends it too, unless nohup makes it ignored.
	ends := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// exited unwinds from kong's --help, which has already printed.
type exited int

// helpFor says where to read about wrong flags; an option of the methods is not a flag.
func helpFor(err error) string {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag --"); ok {
		name, _, _ = strings.Cut(name, ",")
		if key := option.Canonical(strings.ReplaceAll(name, "-", "_")); slices.ContainsFunc(option.All(), func(p *option.Spec) bool { return p.Key == key }) {
			return fmt.Sprintf("%s is an option of the methods: --option %s=VALUE; bglm fit --help lists them.", key, key)
		}
	}
	return "bglm --help lists the commands and flags."
}

var (
	flagAlone = regexp.MustCompile(`^(-[a-zA-Z]|--[a-z][a-z-]*)$`)
	noFlag    = regexp.MustCompile(`^-[^=]*\s`)
)

// joined joins args with values that look like flags, such as SQL after a comment, to the flags
// before them, since the parser would mistake them for flags; they are recognised by a space.
func joined(args []string) (out []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(out, args[i:]...)
		}
		if i+1 < len(args) && flagAlone.MatchString(a) && noFlag.MatchString(args[i+1]) {
			if i++; strings.HasPrefix(a, "--") {
				a += "="
			}
			a += args[i]
		}
		out = append(out, a)
	}
	return out
}

// run is the whole program: it parses args, runs the command and returns the
// exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	return runIn(&cli.Env{Ctx: ctx, Stdin: stdin, Stdout: stdout, Stderr: stderr, Names: slices.Clone(args)}, args)
}

// runIn is run, repeated if types of columns are found out on the way.
func runIn(e *cli.Env, args []string) (code int) {
	stdout, stderr := e.Stdout, e.Stderr
	defer func() {
		if r := recover(); r != nil {
			x, ok := r.(exited)
			if !ok {
				panic(r)
			}
			code = int(x)
		}
	}()
	if len(args) == 1 && args[0] == "--version" { // as in other programs
		args = []string{"version"}
	}
	var c commands
	parser, err := kong.New(&c,
		kong.Name("bglm"),
		kong.Description("Bayesian generalized linear models inside DuckDB."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.Vars{
			"predictions":       strings.Join(predict.Kinds(), ","),
			"effectpredictions": strings.Join(wordsOf("effects", "prediction"), ","),
		},
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}),
	)
	if err != nil {
		fmt.Fprintf(stderr, "bglm: %v\n", err)
		return exitFailed
	}
	k, err := parser.Parse(joined(args))
	if err != nil {
		fmt.Fprintf(stderr, "bglm: %s\n%s\n", files.Clip(e.Message(err), 500), helpFor(err))
		return exitUsage
	}
	err = k.Run(e, parser)
	if err == nil {
		return exitDone
	}
	if whole := (*job.WholeTypes)(nil); errors.As(err, &whole) && e.CSVTypes == nil {
		fmt.Fprintf(stderr, "bglm %s: %s\n", k.Selected().Name, e.Message(errors.New(whole.Note())))
		e.CSVTypes = whole.Types
		return runIn(e, args)
	}
	// The user who stopped it does not care which step that was and what it calls it. Finished
	// statements of bglm sql have written their results.
	if k.Selected().Name != "sql" && (errors.Is(err, context.Canceled) || errors.Is(err, cli.ErrInterrupted)) {
		err = cli.ErrInterrupted
	}
	fmt.Fprintf(stderr, "bglm %s: %s\n", k.Selected().Name, e.Message(byFlag(err)))
	if cli.IsUsage(err) {
		return exitUsage
	}
	return exitFailed
}
