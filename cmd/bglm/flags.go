package main

import (
	"fmt"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/job"
)

// dataFlags select the rows.
type dataFlags struct {
	Data   []string `sep:"none" placeholder:"FILE" help:"Data files: Parquet, Arrow IPC (file or stream), CSV, JSON or DuckDB, told apart by their extension. Globs are allowed; - is the standard input. May be given several times."`
	Format string   `placeholder:"FORMAT" enum:",parquet,arrow,csv,json,duckdb" default:"" help:"Format of the data, if the extension does not say: parquet, arrow, csv, json or duckdb."`
	Table  string   `placeholder:"NAME" help:"Table of a DuckDB file; needed if the file has several."`
	Where  string   `placeholder:"SQL" help:"Condition that selects the rows."`
	Files  []string `arg:"" optional:"" name:"file" help:"More data files, as with --data."`
}

func (d *dataFlags) data() job.Data { return job.Data(*d) }

// rejectOverwrite rejects an output that would replace the rows, or other files that are read. A
// database may get tables in addition to those that are read.
func (d *dataFlags) rejectOverwrite(out string, others ...string) error {
	data := d.data()
	names, err := data.All()
	if err != nil || files.KindOf(out) == "duckdb" {
		return nil // reading the rows gives the error again
	}
	return spared(out, append(names, others...)...)
}

// spared rejects an output that would replace a file that is read.
func spared(out string, read ...string) error {
	if name := files.Among(out, read); name != "" {
		return cli.Usage(fmt.Errorf("--out %s: it would replace %s, which is read; give another name", out, name))
	}
	return nil
}

// modelFlags define what is fitted to the rows.
type modelFlags struct {
	Formula string   `short:"f" placeholder:"'Y ~ TERMS'" help:"The model as in R: 'late ~ origin + hour(date) + origin:destination - 1'. Functions are SQL."`
	Y       string   `name:"y" placeholder:"SQL" help:"Response, in place of a formula."`
	X       string   `name:"x" placeholder:"SQL" help:"Features, with --y: a STRUCT such as '{origin, hour: hour(date)::VARCHAR}', a MAP or a list."`
	Group   []string `sep:"none" placeholder:"SQL" help:"Make one fit for each value of these columns (a,b) or expressions. May be given several times."`
	Order   string   `placeholder:"SQL" help:"Order in which rows are absorbed; the result is then that of one thread."`
	Method  string   `short:"m" placeholder:"NAME" help:"How to fit: the name of a fitting function without bglm_, such as ep or hmc. The default, auto, is laplace if the rows fit in memory, otherwise adf."`
	Option  []string `short:"o" sep:"none" placeholder:"KEY=VALUE" help:"An option of the method, such as link=probit. weight, offset, trials and time are SQL expressions. May be given several times."`
}

func (m *modelFlags) model() job.Model {
	return job.Model{Formula: m.Formula, Y: m.Y, X: m.X, Group: m.Group, Order: m.Order, Method: m.Method, Option: m.Option}
}

// outputFlags are the flags that all batch commands have.
type outputFlags struct {
	Quiet bool `short:"q" help:"No progress bar and no summary."`
	JSON  bool `name:"json" help:"Print the summary as JSON."`
}

// csvFlags are the flags of commands that may write CSV.
type csvFlags struct {
	CSVSafe bool `name:"csv-safe" help:"In CSV output, put an apostrophe before text that begins with =, +, -, @, a tab or a line break, because a spreadsheet would run it as a formula."`
}

func (c *csvFlags) check(out string) error {
	if c.CSVSafe && out != "" && out != "-" && files.KindOf(out) != "csv" {
		return cli.Usage(fmt.Errorf("--csv-safe belongs to CSV output, but --out is %s", out))
	}
	return nil
}
