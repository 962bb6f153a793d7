// Command bglm-beam fits rows of Parquet files on a runner of Apache Beam, by default Prism in this
// process.
//
//	bglm-beam -y late -x origin,destination,distance -method laplace -out fit.parquet 'rows/*.parquet'
//	bglm-beam -y late -x destination,distance -group origin -out fits.parquet 'rows/*.parquet'
//
// It writes a belief table for bglm predict and SQL. docs/scale.md describes how to submit it to a
// cluster.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	bglmbeam "github.com/bglm/bglm/arrowio/beam"
	"github.com/bglm/bglm/arrowio/beam/parts"
)

// command is the parsed command line.
type command struct {
	job            parts.Job
	terms, group   string
	given          map[string]json.RawMessage // options
	out            string
	rounds, shards int
	verbose        bool
}

func main() {
	var c command
	c.flags(flag.CommandLine)
	flag.Parse()
	beam.Init()
	if err := c.run(context.Background(), flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bglm-beam:", err)
		os.Exit(1)
	}
}

func (c *command) flags(f *flag.FlagSet) {
	f.StringVar(&c.job.Y, "y", "", "`column` of the response: numbers or BOOLEAN")
	f.StringVar(&c.terms, "x", "", "`columns` of the features, between commas; a:b is an interaction")
	f.StringVar(&c.job.Features, "features", "", "`column` that holds the features of a row: a struct, a map or a list")
	f.StringVar(&c.group, "group", "", "`columns`, between commas: each combination of their values has a fit of its own")
	f.StringVar(&c.job.Weight, "weight", "", "`column` of weights")
	f.StringVar(&c.job.Offset, "offset", "", "`column` of offsets")
	f.StringVar(&c.job.Trials, "trials", "", "`column` of binomial trials")
	f.StringVar(&c.job.Method, "method", parts.Laplace, "laplace, ep or lowrank, by passes that add up, or adf, whose parts are multiplied")
	f.Func("option", "option of the method, as `key=value`, such as family=poisson; may be given again", c.option)
	f.StringVar(&c.job.From, "from", "", "stored fit, a `file` that all workers see: laplace and ep expand around it first, adf continues from it, lowrank has none")
	f.StringVar(&c.out, "out", "", "Parquet `file` for the belief table, in a folder that all workers see")
	f.IntVar(&c.rounds, "rounds", 0, fmt.Sprintf("passes over the rows, at most, of methods laplace, ep and lowrank; 0: %d, for the last two %d", bglmbeam.DefaultRounds, bglmbeam.DefaultRounds+bglmbeam.MoreRounds))
	f.IntVar(&c.shards, "shards", 1, "files that groups are dealt out to")
	f.Int64Var(&c.job.SplitRows, "split_rows", 0, "rows of a part, at least, in whole row groups; 0 makes each row group a part")
	f.BoolVar(&c.verbose, "v", false, "show what the runner logs")
}

func (c *command) run(ctx context.Context, files []string, stdout io.Writer) error {
	if !c.verbose {
		log.SetLogger(&quiet{})
		slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 1}))) // Prism's log
	}
	if err := c.parse(files); err != nil {
		return err
	}
	p, s := beam.NewPipelineWithRoot()
	fits, err := bglmbeam.Fit(s, &c.job, c.rounds)
	if err != nil {
		return err
	}
	bglmbeam.Write(s, &c.job, fits, c.out, c.shards)
	result, err := beamx.RunWithMetrics(ctx, p)
	if err != nil {
		return err
	}
	n := map[string]int64{}
	for _, m := range result.Metrics().Query(func(r metrics.SingleResult) bool { return r.Namespace() == "bglm" }).Counters() {
		n[m.Name()] += m.Result()
	}
	all, open, err := c.written(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote %s: %d fits; the runner counted %d rows read in all rounds, %d states, %d bytes\n", c.out, all, n["rows"], n["states"], n["state_bytes"])
	if open > 0 {
		return fmt.Errorf("%d fits have not converged, as their status says; give more -rounds, or a nearer fit with -from", open)
	}
	return nil
}

// written counts the fits of the output, and those that have not converged: runners may lose their
// counters.
func (c *command) written(ctx context.Context) (all, open int, err error) {
	for k := range max(c.shards, 1) {
		fits, err := parts.ReadFits(ctx, parts.ShardPath(c.out, k, c.shards), c.job.Group)
		if errors.Is(err, fs.ErrNotExist) && c.shards > 1 { // no group was assigned to it
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		delete(fits, "") // the same fit as "[]"
		for _, f := range fits {
			if all++; !f.Converged {
				open++
			}
		}
	}
	return all, open, nil
}

// option parses an option, whose value is JSON or plain text.
func (c *command) option(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("allowed: key=value")
	}
	if !json.Valid([]byte(value)) {
		quoted, err := json.Marshal(value)
		if err != nil {
			return err
		}
		value = string(quoted)
	}
	if c.given == nil {
		c.given = map[string]json.RawMessage{}
	}
	c.given[key] = json.RawMessage(value)
	return nil
}

// parse completes the job from the command line.
func (c *command) parse(files []string) error {
	if c.out == "" {
		return errors.New("-out is missing; allowed: a Parquet file")
	}
	if len(files) == 0 {
		return errors.New("no files; allowed: Parquet files, or patterns of them, behind the flags")
	}
	c.job.Files = files
	if c.terms != "" {
		for _, t := range strings.Split(c.terms, ",") {
			c.job.Terms = append(c.job.Terms, strings.Split(t, ":"))
		}
	}
	if c.group != "" {
		c.job.Group = strings.Split(c.group, ",")
	}
	if len(c.given) == 0 {
		return nil
	}
	text, err := json.Marshal(c.given)
	c.job.Options = string(text)
	return err
}

// quiet drops what runners log below errors.
type quiet struct{ log.Standard }

// Log implements log.Logger.
func (q *quiet) Log(ctx context.Context, sev log.Severity, depth int, msg string) {
	if sev >= log.SevError {
		q.Standard.Log(ctx, sev, depth+1, msg)
	}
}
