package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/kernels/kerneltest"
)

var (
	mutants     = flag.Int("mutants", 0, "damaged files in TestMutants; 0: a few")
	mutantsSeed = flag.Uint64("mutants-seed", 1, "seed of TestMutants")
	mutantsKeep = flag.String("mutants-keep", "", "folder for the files of TestMutants that fail")
)

// mutantServer marks a child of TestMutants: it runs the command lines that come in
// as JSON and answers with what they gave.
const mutantServer = "BGLM_TEST_MUTANTS"

const (
	mutantLimit = 1 << 30          // bytes of private writable memory (RLIMIT_DATA), of heap and stacks together
	mutantTime  = 60 * time.Second // of a command
	mutantBatch = 250              // commands of a child
)

type mutantAnswer struct {
	Code           int
	Stdout, Stderr string
	Seconds        float64
	Peak           int64 // KiB resident
}

// serveMutants is main in a child. The limit is that of the process's data: the
// address space would count what Go and DuckDB reserve and never touch.
func serveMutants() int {
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: mutantLimit, Max: mutantLimit}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var args []string
		if err := json.Unmarshal(in.Bytes(), &args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew
		var stdout, stderr bytes.Buffer
		began := time.Now()
		a := mutantAnswer{Code: run(context.Background(), args, strings.NewReader(""), &stdout, &stderr)}
		a.Seconds = time.Since(began).Seconds()
		a.Stdout, a.Stderr, a.Peak = stdout.String(), stderr.String(), peakRSS()
		if out.Encode(a) != nil {
			return 1
		}
	}
	return 0
}

func peakRSS() int64 {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// mutantChild is a child and its pipes.
type mutantChild struct {
	cmd    *exec.Cmd
	in     *json.Encoder
	close  func() error
	out    *bufio.Reader
	errs   bytes.Buffer
	served int
}

func newMutantChild(dir string) (*mutantChild, error) {
	c := &mutantChild{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), mutantServer+"=1", "TMPDIR="+dir)
	c.cmd.Stderr = &c.errs
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.close, c.out = json.NewEncoder(in), in.Close, bufio.NewReader(out)
	return c, c.cmd.Start()
}

// run gives the answer, or what the child died of.
func (c *mutantChild) run(args []string) (a mutantAnswer, died string) {
	c.served++
	timer := time.AfterFunc(mutantTime, func() { c.cmd.Process.Kill() })
	err := c.in.Encode(args)
	var line []byte
	if err == nil {
		line, err = c.out.ReadBytes('\n')
	}
	late := !timer.Stop()
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	switch {
	case late:
		died = fmt.Sprintf("hangs: no end after %v", mutantTime)
	case err != nil:
		died = "dies: " + files.Clip(c.errs.String(), 3000)
	}
	if died != "" {
		c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
	return a, died
}

func (c *mutantChild) end() {
	_ = c.close()
	_ = c.cmd.Wait()
}

// original is a whole file and the commands that read it.
type original struct {
	name     string
	bytes    []byte
	commands [][]string // FILE and OUT stand for the files
}

func originals(t *testing.T, dir string) (out []original) {
	t.Helper()
	path := func(n string) string { return filepath.Join(dir, n) }
	const rows = `SELECT i, i % 3 = 0 AS y, 'a' || i % 7 AS ad, CASE WHEN i % 5 > 0 THEN i * 0.25 END AS x, ['t' || i % 4, 't' || i % 3] AS tags, MAP {'k' || i % 3: i / 10} AS m,
		{u: i % 4, v: 'w' || i % 5} AS st, DATE '2024-01-01' + i::INT AS day, [{feature: 'p' || i % 3, value: 0.5}] AS pairs FROM range(400) t(i)`
	const flat = "SELECT i, y, ad, x, day FROM (" + rows + ")"
	query(t, "COPY ("+rows+") TO '"+path("d.parquet")+"' (ROW_GROUP_SIZE 200)")
	query(t, "COPY ("+rows+") TO '"+path("z.parquet")+"' (COMPRESSION zstd)")
	query(t, "COPY ("+rows+") TO '"+path("u.parquet")+"' (COMPRESSION uncompressed, PARQUET_VERSION v2)")
	for _, f := range []string{"d.csv", "d.csv.gz"} {
		query(t, "COPY ("+flat+") TO '"+path(f)+"'")
	}
	for _, f := range []string{"d.json", "d.ndjson"} {
		query(t, "COPY ("+rows+") TO '"+path(f)+"'")
	}
	ok(t, "sql", "--db", path("d.duckdb"), "-c", "CREATE TABLE rows AS "+rows)
	fit := func(out string, args ...string) {
		ok(t, append([]string{"fit", path("d.parquet"), "-q", "--out", path(out)}, args...)...)
	}
	model := []string{"-f", "y ~ ad + x"}
	for _, f := range []string{"b.parquet", "b.arrow", "b.csv", "b.json", "b.duckdb"} {
		fit(f, model...)
	}
	for _, f := range []string{"full.parquet", "full.arrow", "full.duckdb"} {
		fit(f, append(model, "-o", "covariance=full")...)
	}
	fit("low.parquet", append(model, "-m", "lowrank", "-o", "rank=3")...)
	for _, f := range []string{"group.parquet", "group.arrow"} {
		fit(f, append(model, "--group", "i % 3 AS g")...)
	}
	fit("soft.parquet", "-f", "ad ~ x", "-m", "softmax")
	query(t, "COPY (SELECT bglm_adf(y, {ad: ad, x: x}) AS fit FROM '"+path("d.parquet")+"') TO '"+path("fit.parquet")+"'")
	query(t, "COPY (SELECT bglm_adf(y, {ad: ad, x: x}, {covariance: 'full'}) AS fit FROM '"+path("d.parquet")+"') TO '"+path("fit.json")+"'")
	fit("ledger.duckdb", append(model, "--incremental")...)
	for _, f := range []string{"d.arrow", "d.arrows"} {
		ok(t, "predict", "-b", path("b.parquet"), path("d.parquet"), "--out", path(f), "-q")
	}
	add := func(name string, commands ...[]string) {
		b, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, original{name, b, commands})
	}
	b, good := path("b.parquet"), path("d.parquet")
	fits := []string{"fit", "FILE", "-f", "y ~ ad + x", "--out", "OUT.parquet"}
	score := []string{"predict", "-b", b, "FILE", "--out", "OUT.csv", "--dist"}
	page := []string{"report", "-b", b, "FILE", "--out", "OUT.html", "-q"}
	measure := []string{"evaluate", "-b", b, "FILE", "-q"}
	every := [][]string{fits, fits, score, page, measure}
	nested := [][]string{fits, score, page, measure, {"fit", "FILE", "-f", "y ~ tags + m + st + pairs + ad:x + day", "--out", "OUT.arrow"}, {"predict", "-b", b, "FILE", "--out", "OUT.arrow"},
		{"fit", "FILE", "--engine", "arrow", "-f", "y ~ ad + x + tags + m", "--out", "OUT.csv"}, {"predict", "-b", b, "FILE", "--out", "OUT.parquet"}}
	for _, f := range []string{"d.parquet", "z.parquet", "u.parquet", "d.arrow", "d.arrows"} {
		add(f, nested...)
	}
	add("d.csv", every...)
	add("d.csv.gz", every...)
	add("d.json", every...)
	add("d.ndjson", every...)
	add("d.duckdb", every...)
	beliefs := [][]string{{"predict", "-b", "FILE", good, "-o", "family=bernoulli", "--out", "OUT.csv"}, {"merge", b, "FILE", "-o", "family=bernoulli", "--out", "OUT.parquet"}, {"merge", "FILE", "FILE", "-o", "family=bernoulli", "--out", "OUT.json"},
		{"evaluate", "-b", "FILE", good, "-o", "family=bernoulli", "-q"}, {"report", "-b", "FILE", "-o", "family=bernoulli", "--out", "OUT.html", "-q"}, {"fit", good, "-f", "y ~ ad + x", "--prior", "FILE", "--out", "OUT.parquet"}}
	for _, f := range []string{"b.parquet", "b.arrow", "b.csv", "b.json", "b.duckdb", "full.parquet", "full.arrow", "full.duckdb", "low.parquet", "group.parquet", "group.arrow", "soft.parquet", "fit.parquet", "fit.json"} {
		add(f, beliefs...)
	}
	add("ledger.duckdb", []string{"fit", path("u.parquet"), "-f", "y ~ ad + x", "--incremental", "--out", "FILE"}, beliefs[0], beliefs[4])
	return out
}

// mutate damages a copy of b: bits, bytes, cuts, blocks, lengths, garbage.
func mutate(rng *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	place := func() int { // heads and footers hold most of what can go wrong
		switch rng.IntN(4) {
		case 0:
			return rng.IntN(min(len(b), 400))
		case 1, 2:
			return len(b) - 1 - rng.IntN(min(len(b), 1500))
		}
		return rng.IntN(len(b))
	}
	garbage := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(rng.IntN(256))
		}
		return out
	}
	for range 1 + rng.IntN(3) {
		if len(b) == 0 {
			break
		}
		at := place()
		n := min(1+rng.IntN(1<<rng.IntN(10)), len(b)-at)
		switch rng.IntN(11) {
		case 0, 1:
			b[at] ^= 1 << rng.IntN(8)
		case 2:
			b[at] = []byte{0, 0xff, 0x7f, 0x80, byte(rng.IntN(256))}[rng.IntN(5)]
		case 3:
			b = b[:at]
		case 4:
			b = slices.Delete(b, at, at+n)
		case 5:
			clear(b[at : at+n])
		case 6:
			b = slices.Insert(b, at, slices.Clone(b[at:at+n])...)
		case 7: // two lengths, swapped
			if k := place() &^ 3; at&^3+4 <= len(b) && k+4 <= len(b) {
				x, y := b[at&^3:], b[k:]
				u, v := binary.LittleEndian.Uint32(x), binary.LittleEndian.Uint32(y)
				binary.LittleEndian.PutUint32(x, v)
				binary.LittleEndian.PutUint32(y, u)
			}
		case 8: // a large length
			if at &^= 3; at+8 <= len(b) {
				v := []uint64{1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 40, 1<<63 - 1, 1 << 63, uint64(len(b)), uint64(rng.IntN(1 << 30))}[rng.IntN(8)]
				if rng.IntN(2) == 0 {
					binary.LittleEndian.PutUint32(b[at:], uint32(v))
				} else {
					binary.LittleEndian.PutUint64(b[at:], v)
				}
			}
		case 9:
			b = append(b, garbage(1+rng.IntN(200))...)
		case 10:
			b = slices.Insert(b, at, garbage(n)...)
		}
	}
	return b
}

// Damaged files of every kind through every way in, under a limit to the process's
// memory: each ends in time, with an answer (the damage may lie where nothing reads,
// or in a number) or with a message that names the file; no crash, no trace, no part
// of an output. The long run:
//
//	go test ./cmd/bglm -run TestMutants -v -timeout 4h -mutants 20000
func TestMutants(t *testing.T) {
	kerneltest.Slow(t)
	n := *mutants
	if n == 0 {
		n = 200
	}
	dir := t.TempDir()
	all := originals(t, dir)
	workers := 1
	if *mutants > 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var (
		mu       sync.Mutex
		next     int
		outcomes = map[string]int{}
		peak     int64
		slowest  float64
		slow     string
		large    string
		wg       sync.WaitGroup
	)
	report := func(worst bool, format string, args ...any) {
		if mu.Lock(); worst {
			t.Errorf(format, args...)
		} else {
			t.Logf(format, args...)
		}
		mu.Unlock()
	}
	for w := range workers {
		wg.Go(func() {
			work := filepath.Join(dir, fmt.Sprintf("work-%d", w))
			if err := os.Mkdir(work, 0o700); err != nil {
				report(true, "%v", err)
				return
			}
			var child *mutantChild
			defer func() {
				if child != nil {
					child.end()
				}
			}()
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				rng := rand.New(rand.NewPCG(*mutantsSeed, uint64(i)))
				o := all[i%len(all)]
				b := mutate(rng, o.bytes)
				name := filepath.Join(work, fmt.Sprintf("mutant-%d%s", i, o.name[strings.IndexByte(o.name, '.'):]))
				if err := os.WriteFile(name, b, 0o600); err != nil {
					report(true, "%v", err)
					return
				}
				args := slices.Clone(o.commands[rng.IntN(len(o.commands))])
				var out string
				for k, a := range args {
					args[k] = strings.ReplaceAll(a, "FILE", name)
					if ext, ok := strings.CutPrefix(a, "OUT"); ok {
						out = filepath.Join(work, "out"+ext)
						args[k] = out
					}
				}
				if child == nil {
					var err error
					if child, err = newMutantChild(work); err != nil {
						report(true, "%v", err)
						return
					}
				}
				a, died := child.run(args)
				wrong, kind := died, ""
				_, outErr := os.Stat(out)
				switch low := strings.ToLower(a.Stderr); {
				case died != "":
					kind = strings.SplitN(died, ":", 2)[0]
				case strings.Contains(low, "panic") || strings.Contains(low, "goroutine ") || strings.Contains(low, "internal error") || strings.Contains(low, "runtime error") || strings.Contains(low, "stack trace"):
					wrong = "speaks of its insides"
				case a.Code == exitDone:
					kind = "read"
				case a.Code != exitFailed && a.Code != exitUsage:
					wrong = "exit code"
				case !strings.Contains(a.Stderr, name):
					wrong = "does not name the file"
				case outErr == nil && out != "":
					wrong = "leaves an output"
				case a.Stdout != "":
					wrong = "prints half a result"
				case strings.Contains(low, "memory"):
					kind = "refused: memory"
				default:
					kind = "refused"
				}
				os.Remove(out)
				os.Remove(name)
				os.Remove(name + ".wal")
				if died == "" {
					if left, _ := os.ReadDir(work); len(left) > 0 {
						wrong = fmt.Sprintf("leaves %v", left)
					}
				}
				mu.Lock()
				if wrong != "" && kind == "" {
					kind = wrong
				}
				outcomes[kind]++
				if a.Peak > peak {
					peak, large = a.Peak, fmt.Sprintf("file %d (%s), %s", i, o.name, args[0])
				}
				if a.Seconds > slowest {
					slowest, slow = a.Seconds, fmt.Sprintf("file %d (%s), %s", i, o.name, args[0])
				}
				mu.Unlock()
				if wrong != "" {
					if *mutantsKeep != "" {
						_ = os.WriteFile(filepath.Join(*mutantsKeep, filepath.Base(name)), b, 0o600)
					}
					report(true, "file %d, of %s: bglm %s: %s: exit code %d, %s%s", i, o.name, strings.Join(args, " "), wrong, a.Code, files.Clip(a.Stdout, 300), files.Clip(a.Stderr, 1500))
				}
				if died != "" {
					child = nil
					for _, e := range leftIn(work) {
						os.RemoveAll(e)
					}
				} else if child.served >= mutantBatch {
					child.end()
					child = nil
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d files of %d kinds: %v; at most %d MB resident (%s), %.1f s (%s)", n, len(all), outcomes, peak>>10, large, slowest, slow)
	if peak > mutantLimit>>10 {
		t.Errorf("%d MB resident", peak>>10)
	}
}

func leftIn(dir string) (out []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		out = append(out, filepath.Join(dir, e.Name()))
	}
	return out
}
