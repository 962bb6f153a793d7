// Command bench measures assumed density filtering through SQL on flights
// against the bare kernel and a plain scan, in one run (make bench).
//
// The rows have an intercept, three categorical features and one number, so
// five non-zeros. Times are medians of several repeats, in seconds.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/udf"
)

const (
	features = "{origin: origin, destination: destination, hour: hour(date)::VARCHAR, distance: distance / 1000}"
	prepare  = `CREATE OR REPLACE TABLE flights AS SELECT date, delay, distance, origin, destination FROM '%s' ORDER BY date`
)

// query is a row of the table; both ways of access run it.
type query struct {
	Name string `json:"name"`
	SQL  string `json:"sql"`
	scan int    // the plain scan with which it is compared
}

func queries(link string) []query {
	factorised := "{link: '" + link + "', prior_variance: 1.0, covariance: 'diagonal'}" // what the kernel is
	return []query{
		{"scan: read y and x", "SELECT count(delay > 15), count(" + features + ") FROM flights", 0},
		{"bglm_adf, factorised", "SELECT bglm_adf(delay > 15, " + features + ", " + factorised + ") IS NULL FROM flights", 0},
		{"bglm_adf", "SELECT bglm_adf(delay > 15, " + features + ", {link: '" + link + "'}) IS NULL FROM flights", 0},
		{"scan ordered: list(y ORDER BY date)", "SELECT len(list({y: delay > 15, x: " + features + "} ORDER BY date)) FROM flights", 3},
		{"bglm_adf, factorised, ORDER BY date", "SELECT bglm_adf(delay > 15, " + features + ", " + factorised + " ORDER BY date) IS NULL FROM flights", 3},
		{"bglm_adf, factorised, GROUP BY origin (229 groups)", "SELECT count(f) FROM (SELECT bglm_adf(delay > 15, " + features + ", " + factorised + ") f FROM flights GROUP BY origin)", 0},
		{"bglm_adf, GROUP BY origin (229 groups)", "SELECT count(f) FROM (SELECT bglm_adf(delay > 15, " + features + ", {link: '" + link + "'}) f FROM flights GROUP BY origin)", 0},
	}
}

func main() {
	file := flag.String("flights", "", "Parquet file of flights (default: data/flights-3m.parquet, else testdata/flights.parquet)")
	ext := flag.String("extension", "build/bglm.duckdb_extension", "built extension; empty to leave it out")
	repeats := flag.Int("repeats", 5, "repeats of each measurement")
	link := flag.String("link", "probit", "link of the model")
	groups := flag.Int("groups", 1_000_000, "groups of the many-groups row; 0 leaves it out")
	only := flag.String("shapes", "", "measure only the shapes of features whose name matches this regular expression")
	profile := flag.String("cpuprofile", "", "write a processor profile of each shape, numbered from 0, and number of threads to files that begin so")
	child := flag.Int("child", 0, "internal: run only the many-groups rows with that many threads")
	repeated := flag.Int("kinds", 6_000_000, "rows of the table of compressed rows, written to a Parquet file for it; 0 leaves it out")
	onlyKinds := flag.Bool("only-kinds", false, "measure only compressed rows")
	flag.Parse()
	if *onlyKinds {
		if err := kinds(*repeated, runtime.GOMAXPROCS(0), min(*repeats, 3)); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if *child > 0 {
		if err := manyGroups(*child, *groups, *repeats); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if *only != "" {
		if err := shapesOnly(*only, *profile, *repeats); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	err := run(*file, *ext, *link, *repeats, *groups)
	if err == nil && *repeated > 0 {
		err = kinds(*repeated, runtime.GOMAXPROCS(0), min(*repeats, 3))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(file, ext, link string, repeats, groups int) error {
	if file == "" {
		file = "testdata/flights.parquet"
		if _, err := os.Stat("data/flights-3m.parquet"); err == nil {
			file = "data/flights-3m.parquet"
		}
	}
	ctx := context.Background()
	db, err := open()
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec(fmt.Sprintf(prepare, file)); err != nil {
		return err
	}
	var rows int
	if err := db.QueryRow("SELECT count(*) FROM flights").Scan(&rows); err != nil {
		return err
	}
	kernel, err := kernelTime(ctx, db, link, rows, repeats)
	if err != nil {
		return err
	}
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.SetTitle(fmt.Sprintf("%s rows of %s, %s, medians of %d, GOMAXPROCS %d", thousands(rows), filepath.Base(file), link, repeats, runtime.GOMAXPROCS(0)))
	t.AppendHeader(table.Row{"where", "what", "threads", "seconds", "M rows/s", "x kernel", "x (kernel + scan)"})
	t.AppendRow(table.Row{"kernel", "adf.Update on prepared batches", 1, sec(kernel), rate(rows, kernel), "1.00", ""})
	add := func(where string, threads int, qs []query, secs []float64) {
		for i, q := range qs {
			rel := ""
			if q.scan != i {
				rel = fmt.Sprintf("%.2f", secs[i]/(kernel+secs[q.scan]))
			}
			t.AppendRow(table.Row{where, q.Name, threads, sec(secs[i]), rate(rows, secs[i]), fmt.Sprintf("%.2f", secs[i]/kernel), rel})
		}
		t.AppendSeparator()
	}
	t.AppendSeparator()
	qs := queries(link)
	for _, threads := range []int{1, 2} {
		if _, err := db.Exec(fmt.Sprintf("SET threads = %d", threads)); err != nil {
			return err
		}
		secs, err := timeQueries(db, qs, repeats)
		if err != nil {
			return err
		}
		add("embedded", threads, qs, secs)
	}
	if _, err := os.Stat(ext); ext != "" && err == nil {
		for _, threads := range []int{1, 2} {
			secs, err := clientTimes(file, ext, qs, threads, repeats)
			if err != nil {
				return err
			}
			add("extension", threads, qs, secs)
		}
	}
	t.Render()
	if err := timeShapes(ctx, shapes(), "", repeats); err != nil {
		return err
	}
	if groups > 0 { // in a separate process, to measure its own peak memory
		self, err := os.Executable()
		if err != nil {
			return err
		}
		for _, threads := range []int{1, 2} {
			cmd := exec.Command(self, "-child", fmt.Sprint(threads), "-groups", fmt.Sprint(groups), "-repeats", fmt.Sprint(repeats))
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := cmd.Run(); err != nil {
				return err
			}
		}
	}
	return nil
}

// kernelTime runs the filter alone on the same rows, batches prepared.
func kernelTime(ctx context.Context, db *sql.DB, link string, rows, repeats int) (float64, error) {
	l, err := lik.New("", link, lik.Params{Dispersion: 1})
	if err != nil {
		return 0, err
	}
	cfg := &kernels.Model{Lik: l, Prior: kernels.DefaultPrior}
	r, err := db.QueryContext(ctx, "SELECT delay > 15, 'origin=' || origin, 'destination=' || destination, 'hour=' || hour(date), distance / 1000 FROM flights ORDER BY date")
	if err != nil {
		return 0, err
	}
	defer r.Close()
	proto, err := adf.New(cfg)
	if err != nil {
		return 0, err
	}
	dist, _ := proto.Features().Add("distance")
	var batches []*kernels.Batch
	var b *kernels.Batch
	var o, d, h sql.RawBytes
	for r.Next() {
		if b == nil || b.Len() == 2048 {
			b = &kernels.Batch{}
			b.Reset()
			batches = append(batches, b)
		}
		var y bool
		var x float64
		if err := r.Scan(&y, &o, &d, &h, &x); err != nil {
			return 0, err
		}
		b.Add(0, 1)
		for _, s := range []sql.RawBytes{o, d, h} {
			id, err := proto.Features().Add(string(s))
			if err != nil {
				return 0, err
			}
			b.Add(id, 1)
		}
		b.Add(dist, x)
		b.EndRow()
		if y {
			b.Y = append(b.Y, 1)
		} else {
			b.Y = append(b.Y, 0)
		}
	}
	if err := r.Err(); err != nil {
		return 0, err
	}
	if err := proto.Grow(); err != nil {
		return 0, err
	}
	var secs []float64
	for range repeats {
		s := proto.Clone()
		start := time.Now()
		for _, b := range batches {
			if err := s.Update(ctx, b, false); err != nil {
				return 0, err
			}
		}
		secs = append(secs, time.Since(start).Seconds())
	}
	return median(secs), nil
}

func timeQueries(db *sql.DB, qs []query, repeats int) ([]float64, error) {
	out := make([]float64, len(qs))
	for i, q := range qs {
		var secs []float64
		for range repeats {
			start := time.Now()
			if err := drain(db, q.SQL); err != nil {
				return nil, fmt.Errorf("%s: %w", q.Name, err)
			}
			secs = append(secs, time.Since(start).Seconds())
		}
		out[i] = median(secs)
	}
	return out, nil
}

func drain(db *sql.DB, q string) error {
	r, err := db.Query(q)
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() {
	}
	return r.Err()
}

// clientTimes runs the queries in DuckDB's Node client with the extension loaded.
func clientTimes(file, ext string, qs []query, threads, repeats int) ([]float64, error) {
	in, err := json.Marshal(map[string]any{"extension": ext, "prepare": fmt.Sprintf(prepare, file), "queries": qs, "threads": threads, "repeats": repeats})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("node", "udf/bench/client.mjs", string(in))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the Node client: %w", err)
	}
	var secs []float64
	return secs, json.Unmarshal(out, &secs)
}

// open opens a database in memory with the functions, on one connection.
func open() (*sql.DB, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := udf.Register(context.Background(), db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func manyGroups(threads, groups, repeats int) error {
	db, err := open()
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec(fmt.Sprintf("SET threads = %d", threads)); err != nil {
		return err
	}
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.SetTitle(fmt.Sprintf("%s groups of 4 rows; threads: %d", thousands(groups), threads))
	t.AppendHeader(table.Row{"what", "seconds", "M rows/s", "processor seconds", "peak RSS MiB"})
	src := fmt.Sprintf("(SELECT i %% %d AS g, i, i %% 3 = 0 AS y FROM range(%d) t(i))", groups, 4*groups)
	for _, q := range []query{
		{Name: "sum, count: DuckDB alone", SQL: "SELECT sum(s), sum(n) FROM (SELECT g, sum(y::INT) s, count(*) n FROM " + src + " GROUP BY g)"},
		{Name: "list: DuckDB alone", SQL: "SELECT sum(len(l)) FROM (SELECT g, list({y: y, a: i % 7, b: 1.5}) l FROM " + src + " GROUP BY g)"},
		{Name: "bglm_log_loss: a bglm aggregate with a small state", SQL: "SELECT sum(l) FROM (SELECT g, bglm_log_loss(y, 0.5) l FROM " + src + " GROUP BY g)"},
		{Name: "bglm_adf, diagonal", SQL: "SELECT sum(f.n) FROM (SELECT g, bglm_adf(y, {a: i % 7, b: 1.5}, {link: 'probit', covariance: 'diagonal'}) f FROM " + src + " GROUP BY g)"},
		{Name: "bglm_adf", SQL: "SELECT sum(f.n) FROM (SELECT g, bglm_adf(y, {a: i % 7, b: 1.5}, {link: 'probit'}) f FROM " + src + " GROUP BY g)"},
	} {
		n := min(repeats, 3)
		before := processorTime()
		secs, err := timeQueries(db, []query{q}, n)
		if err != nil {
			return err
		}
		spent := (processorTime() - before).Seconds() / float64(n)
		t.AppendRow(table.Row{q.Name, sec(secs[0]), rate(4*groups, secs[0]), fmt.Sprintf("%.2f", spent), peakRSS()})
	}
	t.Render()
	return nil
}

func median(x []float64) float64 {
	s := slices.Clone(x)
	slices.Sort(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func sec(s float64) string            { return fmt.Sprintf("%.3f", s) }
func rate(rows int, s float64) string { return fmt.Sprintf("%.2f", float64(rows)/s/1e6) }

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// peakRSS is the process's largest resident memory in MiB, from the kernel's accounting; "?" if
// unavailable.
func peakRSS() string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "?"
	}
	var kib int
	for _, line := range slices.Collect(lines(b)) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return fmt.Sprint(kib / 1024)
		}
	}
	return "?"
}

func lines(b []byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		start := 0
		for i, c := range b {
			if c == '\n' {
				if !yield(string(b[start:i])) {
					return
				}
				start = i + 1
			}
		}
	}
}
