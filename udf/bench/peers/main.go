//go:build unix

// Command peers compares bglm through SQL with scikit-learn, on the same rows in one run, and
// writes the table into docs/benchmarks.md (make bench-peers).
//
// The two take turns, so that a load on the machine affects both; the figures are medians, of
// wall-clock time and of processor time.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/bglm/bglm/udf"
)

func main() {
	write := flag.String("write", "", "Markdown file whose table is replaced; empty prints it")
	repeats := flag.Int("repeats", 5, "turns of each job")
	scale := flag.Float64("scale", 1, "fraction of the rows to use, for a quick look")
	python := flag.String("python", "/usr/bin/python3", "Python with scikit-learn")
	only := flag.String("only", "", "run only the jobs whose name contains this")
	flag.Parse()
	if err := run(*write, *python, *only, *repeats, *scale); err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(1)
	}
}

// job is the same work for both: here rows in a table t of y and x, there what peers.py makes from
// the arguments in maker.
type job struct {
	name, peer string
	rows       int
	columns    string // of t over range(rows) t(i)
	check      string // of t, equal to the peer's
	prepare    string
	query      string
	maker      []any
}

// mix is the hash of peers.py.
const mix = `CREATE OR REPLACE MACRO mix1(h) AS xor(h, h >> 15) * 1540483477 % 4294967296;
CREATE OR REPLACE MACRO mix2(h) AS xor(h, h >> 13);
CREATE OR REPLACE MACRO mix(x) AS mix2(mix1(x::BIGINT * 2654435761 % 4294967296))`

func jobs(scale float64) []job {
	of := func(n int) int { return max(1000, int(float64(n)*scale)) }
	const response = "mix(i) % 3 = 0 AS y"
	const plain = "{prior_variance: 1.0, covariance: 'diagonal'"
	lists := func(n, k, p int, options string) job {
		n = of(n)
		return job{name: fmt.Sprintf("adf, %s rows of %d names out of %s%s", count(n), k, count(p), strings.Replace(options, ",", ";", 1)), peer: "SGDClassifier.partial_fit, prepared matrix", rows: n,
			columns: fmt.Sprintf("%s, [{feature: 'f' || (mix(i * %d + k) %% %d), value: 1.0} FOR k IN range(%d)] AS x", response, k, p, k),
			check:   "SELECT sum(list_sum([e.feature[2:]::BIGINT FOR e IN x])) FROM t",
			query:   "SELECT bglm_adf(y, x, " + plain + options + "}).n FROM t",
			maker:   []any{"lists", n, k, p}}
	}
	keys := lists(300_000, 40, 1<<20, "")
	keys.name = strings.Replace(keys.name, "40 names", "40 integer keys", 1)
	keys.columns = response + fmt.Sprintf(", map_from_entries(list_distinct([{k: mix(i * 40 + k) %% %d, v: 1.0} FOR k IN range(40)])) AS x", 1<<20)
	keys.check, keys.maker = "SELECT sum(list_sum(map_keys(x))) FROM t", []any{"lists", keys.rows, 40, 1 << 20, true}
	dense := func(n, d int) job {
		n = of(n)
		return job{name: fmt.Sprintf("laplace, %s x %d, DOUBLE[]", count(n), d), peer: "newton-cholesky (no covariance, no evidence)", rows: n,
			columns: fmt.Sprintf("%s, [sin(i * (k + 1)) FOR k IN range(%d)]::DOUBLE[] AS x", response, d),
			check:   "SELECT count(*) FILTER (y) FROM t",
			query:   "SELECT bglm_laplace(y, x, {prior_variance: 1.0}).n FROM t",
			maker:   []any{"dense", n, d}}
	}
	n := of(1_000_000)
	fields := job{rows: n,
		columns: response + ", {a: 'a' || mix(i + 1) % 200, b: 'b' || mix(i + 2) % 200, c: 'c' || mix(i + 3) % 24, u: sin(i), v: cos(i)} AS x",
		check:   "SELECT sum(x.a[2:]::BIGINT + x.b[2:]::BIGINT + x.c[2:]::BIGINT) FROM t"}
	fit, predict := fields, fields
	fit.name, fit.peer, fit.maker = fmt.Sprintf("adf, %s rows, STRUCT of 3 texts and 2 numbers", count(n)), "OneHotEncoder + SGDClassifier.partial_fit", []any{"struct", n}
	fit.query = "SELECT bglm_adf(y, x, " + plain + "}).n FROM t"
	predict.name, predict.peer, predict.maker = fmt.Sprintf("predict, %s rows, STRUCT of 3 texts and 2 numbers", count(n)), "OneHotEncoder + predict_proba", []any{"predict", n}
	predict.prepare = "CREATE OR REPLACE TABLE m AS SELECT bglm_adf(y, x, " + plain + "}) AS f FROM t"
	predict.query = "SELECT sum(bglm_predict(f, x)) FROM m, t"
	return []job{
		lists(1_000_000, 8, 5000, ""),
		lists(300_000, 40, 1<<20, ""),
		lists(300_000, 40, 1<<20, ", hash_bits: 20"),
		keys, fit, predict,
		dense(200_000, 50), dense(100_000, 200), dense(20_000, 1000),
	}
}

func run(write, python, only string, repeats int, scale float64) error {
	if repeats < 1 || !(scale > 0) {
		return fmt.Errorf("repeats = %d, scale = %v; allowed: numbers > 0", repeats, scale)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := udf.Register(context.Background(), db); err != nil {
		return err
	}
	threads := runtime.NumCPU()
	if _, err := db.Exec(fmt.Sprintf("SET threads = %d; %s", threads, mix)); err != nil {
		return err
	}
	p, err := start(python, threads)
	if err != nil {
		return err
	}
	defer p.end()
	var version string
	if err := db.QueryRow("SELECT version()").Scan(&version); err != nil {
		return err
	}
	before := load()
	var b strings.Builder
	b.WriteString("| job | seconds | M rows/s | scikit-learn | its seconds | ratio | range of the ratio | ratio of processor time |\n|---|---:|---:|---|---:|---:|---:|---:|\n")
	for _, j := range jobs(scale) {
		if !strings.Contains(j.name, only) {
			continue
		}
		line, err := measure(db, p, j, repeats)
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		fmt.Fprint(os.Stderr, line)
		b.WriteString(line)
	}
	fmt.Fprintf(&b, "\nMedians of %d turns, in which bglm and scikit-learn run one after the other. A ratio is scikit-learn's time divided by bglm's: above 1, bglm is faster. Its range is over the turns.\n"+
		"%s, %d threads each; Go %s, DuckDB %s; Python %s, scikit-learn %s, NumPy %s with OpenBLAS. The load average was %s before and %s after, of which this run accounts for up to %d.\n",
		repeats, processor(), threads, strings.TrimPrefix(runtime.Version(), "go"), version, p.Python, p.Sklearn, p.NumPy, before, load(), threads)
	if write == "" {
		fmt.Print(b.String())
		return nil
	}
	return replace(write, b.String())
}

// measure returns a line of the table.
func measure(db *sql.DB, p *peer, j job, repeats int) (string, error) {
	if _, err := db.Exec(fmt.Sprintf("CREATE OR REPLACE TABLE t AS SELECT %s FROM range(%d) t(i)", j.columns, j.rows)); err != nil {
		return "", err
	}
	if j.prepare != "" {
		if _, err := db.Exec(j.prepare); err != nil {
			return "", err
		}
	}
	var check int64
	if err := db.QueryRow(j.check).Scan(&check); err != nil {
		return "", err
	}
	made, err := p.ask(j.maker...)
	if err != nil {
		return "", err
	}
	if made.Check != check {
		return "", fmt.Errorf("the rows differ: checksum %d in bglm, %d in scikit-learn", check, made.Check)
	}
	var ours, theirs, ratio, share []float64
	for turn := range repeats + 1 {
		wall, spent := time.Now(), processorTime()
		var out any
		if err := db.QueryRow(j.query).Scan(&out); err != nil {
			return "", err
		}
		mine, cpu := time.Since(wall).Seconds(), (processorTime() - spent).Seconds()
		it, err := p.ask("run")
		if err != nil {
			return "", err
		}
		if turn == 0 {
			continue // both warm up
		}
		ours, theirs = append(ours, mine), append(theirs, it.Wall)
		ratio, share = append(ratio, it.Wall/mine), append(share, it.Processors/cpu)
	}
	return fmt.Sprintf("| %s | %.3f | %.2f | %s | %.3f | %.2f | %.2f to %.2f | %.2f |\n", j.name, median(ours), float64(j.rows)/median(ours)/1e6,
		j.peer, median(theirs), median(theirs)/median(ours), slices.Min(ratio), slices.Max(ratio), median(share)), nil
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// peer is scikit-learn in a separate process.
type peer struct {
	answer
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

type answer struct {
	Python, Sklearn string
	NumPy           string `json:"numpy"`
	Check           int64
	Wall            float64
	Processors      float64
}

func start(python string, threads int) (*peer, error) {
	p := &peer{cmd: exec.Command(python, "udf/bench/peers/peers.py")}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads), fmt.Sprintf("OMP_NUM_THREADS=%d", threads))
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	p.answer, err = p.hear()
	return p, err
}

func (p *peer) ask(what ...any) (answer, error) {
	line, err := json.Marshal(what)
	if err != nil {
		return answer{}, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return answer{}, fmt.Errorf("scikit-learn: %w", err)
	}
	return p.hear()
}

func (p *peer) hear() (a answer, err error) {
	if !p.out.Scan() {
		return a, fmt.Errorf("scikit-learn ended: %v (%v)", p.out.Err(), p.cmd.Wait())
	}
	return a, json.Unmarshal(p.out.Bytes(), &a)
}

func (p *peer) end() {
	p.in.Close()
	p.cmd.Wait()
}

// processorTime is the processor time used by this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load is the load average over a minute, processor the processor's name, both if Linux provides
// them.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, " \t:"))
		}
	}
	return runtime.GOARCH
}

const begin, end = "<!-- bench-peers: begin -->\n", "<!-- bench-peers: end -->\n"

// replace inserts the table between the marks of a file.
func replace(path, table string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, found := strings.Cut(rest, end)
	if !ok || !found {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644)
}

// count is a number with commas, powers of two as such.
func count(n int) string {
	if n == 1<<20 {
		return "2^20"
	}
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
