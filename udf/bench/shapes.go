package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/bglm/bglm/udf"
)

// shape is a job whose rows have features of one kind, to measure the speed from the column to the
// kernel.
type shape struct {
	name string
	rows int
	make string // the table t, with y and x
	scan string // reads what the fit reads
	fit  string
}

const plainADF = "{prior_variance: 1.0, covariance: 'diagonal'"

func shapes() []shape {
	adf := func(name string, rows int, x, scan, options string) shape {
		return shape{name, rows, fmt.Sprintf("CREATE OR REPLACE TABLE t AS SELECT hash(i) %% 3 = 0 AS y, %s AS x FROM range(%d) t(i)", x, rows),
			"SELECT count(y), " + scan + " FROM t", "SELECT bglm_adf(y, x, " + plainADF + options + "}).n FROM t"}
	}
	laplace := func(n, d int) shape {
		return shape{fmt.Sprintf("laplace, %d x %d, DOUBLE[]", n, d), n,
			fmt.Sprintf("CREATE OR REPLACE TABLE t AS SELECT hash(i) %% 3 = 0 AS y, [sin(i * (k + 1)) FOR k IN range(%d)]::DOUBLE[] AS x FROM range(%d) t(i)", d, n),
			"SELECT count(y), sum(list_sum(x)) FROM t", "SELECT bglm_laplace(y, x, {prior_variance: 1.0}).n FROM t"}
	}
	names := "[{feature: 'f' || (hash(i * 40 + k) % 1048576), value: 1.0} FOR k IN range(40)]"
	list := "sum(list_sum([e.value FOR e IN x]))"
	columns := "{a: 'a' || hash(i) % 200, b: 'b' || hash(i + 1) % 200, c: 'c' || hash(i + 2) % 24, u: sin(i), v: cos(i)}"
	return []shape{
		adf("adf, 8 names out of 5,000", 1_000_000, "[{feature: 'f' || (hash(i * 8 + k) % 5000), value: 1.0} FOR k IN range(8)]", list, ""),
		adf("adf, 40 names out of 2^20", 300_000, names, list, ""),
		adf("adf, 40 names out of 2^20, hash_bits 20", 300_000, names, list, ", hash_bits: 20"),
		adf("adf, 40 integer keys out of 2^20", 300_000, "map_from_entries(list_distinct([{k: (hash(i * 40 + k) % 1048576)::BIGINT, v: 1.0} FOR k IN range(40)]))", "sum(cardinality(x))", ""),
		adf("adf, STRUCT of 3 texts and 2 numbers", 1_000_000, columns, "sum(length(x.a) + length(x.b) + length(x.c)), sum(x.u + x.v)", ""),
		{"predict, STRUCT of 3 texts and 2 numbers", 1_000_000, "CREATE OR REPLACE TABLE m AS SELECT bglm_adf(y, x, " + plainADF + "}) AS f FROM t",
			"SELECT sum(length(x.a) + length(x.b) + length(x.c)), sum(x.u + x.v) FROM t", "SELECT sum(bglm_predict(f, x)) FROM m, t"},
		laplace(200_000, 50), laplace(100_000, 200), laplace(20_000, 1000),
	}
}

// shapesOnly is timeShapes for those whose name matches.
func shapesOnly(match, profile string, repeats int) error {
	re, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	s := slices.DeleteFunc(shapes(), func(s shape) bool { return !re.MatchString(s.name) })
	return timeShapes(context.Background(), s, profile, repeats)
}

// profiled runs job, writing a processor profile to file if it has a name.
func profiled(file string, job func() error) error {
	if file == "" {
		return job()
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return job()
}

// timeShapes prints the rows per second of each shape on one and on all processors. The processor
// profile of shape i on t threads is written to profile + "i-t", if profile is not empty.
func timeShapes(ctx context.Context, shapes []shape, profile string, repeats int) error {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := udf.Register(ctx, db); err != nil {
		return err
	}
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.SetTitle(fmt.Sprintf("Shapes of features, embedded; medians of %d", repeats))
	t.AppendHeader(table.Row{"job", "rows", "threads", "seconds", "M rows/s", "scan, seconds", "processor seconds"})
	for i, s := range shapes {
		if _, err := db.Exec(s.make); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for threads := 1; threads <= runtime.GOMAXPROCS(0); threads *= 2 {
			if _, err := db.Exec(fmt.Sprintf("SET threads = %d", threads)); err != nil {
				return err
			}
			before := processorTime()
			var secs []float64
			file := profile
			if file != "" {
				file = fmt.Sprintf("%s%d-%d", profile, i, threads)
			}
			if err := profiled(file, func() (err error) {
				secs, err = timeQueries(db, []query{{Name: s.name, SQL: s.fit}, {Name: s.name + ", scan", SQL: s.scan}}, repeats)
				return err
			}); err != nil {
				return err
			}
			spent := (processorTime() - before).Seconds() / float64(repeats)
			t.AppendRow(table.Row{s.name, thousands(s.rows), threads, sec(secs[0]), rate(s.rows, secs[0]), sec(secs[1]), fmt.Sprintf("%.2f", spent)})
		}
	}
	t.Render()
	return nil
}
