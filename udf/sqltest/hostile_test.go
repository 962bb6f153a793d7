package sqltest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const hostileDefault = 1500

var (
	hostileCount = flag.Int("hostile", hostileDefault, "how many random statements TestHostile and TestHostileClients run")
	hostileSeed  = flag.Uint64("hostile-seed", 1, "seed of the random statements")
)

// escapes are control characters, which bglm's own messages do not show.
var escapes = regexp.MustCompile("bglm_\\w+: [^\n]*[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e]")

// crashes are errors that no statement may give.
var crashes = regexp.MustCompile(`(?i)internal error|fatal|INTERNAL|segmentation|nil pointer|index out of range|slice bounds|runtime error|assertion`)

// unread are errors of rowsOf about what a statement gave.
var unread = regexp.MustCompile(`^column .*: a value of Go type`)

// hostileLimit is the processor time that one statement may take, and a tenth of what it
// may take by the clock, which tells what else runs on the machine; the engines' own bounds
// are far below it.
const hostileLimit = 60 * time.Second

// kindOf shortens an error to its kind for the figures.
func kindOf(err string) string {
	err, _, _ = strings.Cut(err, ":")
	return err
}

// TestHostile runs random statements in this process: each succeeds or gives a SQL
// error; no state, and no memory beyond a bound, stays behind.
//
// covers: never.crash never.leak
func TestHostile(t *testing.T) {
	n := *hostileCount
	if testing.Short() {
		n /= 10
	}
	var db *sql.DB
	var con *sql.Conn
	fresh := func() {
		db = open(t)
		con = connect(t, db)
		for _, q := range HostileSetup() {
			if _, err := con.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	fresh()
	h := NewHostile(*hostileSeed)
	began := time.Now()
	kinds := map[string]int{}
	var before int64
	var slowest time.Duration
	var slow string
	for i := range n {
		// An error inside an aggregate with ORDER BY leaks DuckDB's own memory until the
		// database is closed (docs/duckdb.md), so that a memory_limit is met in the end.
		if i%1000 == 0 && i > 0 {
			con.Close()
			db.Close()
			fresh()
		}
		st := h.Next()
		q := st.SQL
		ctx, stop := context.WithTimeout(t.Context(), 10*hostileLimit)
		start, used := time.Now(), cpuTime()
		// A call into bglm cannot be interrupted: one without end would only be seen as
		// the test's own time running out.
		watch := time.AfterFunc(hostileLimit, func() { fmt.Fprintf(os.Stderr, "statement %d still runs after %v: %s\n", i, hostileLimit, q) })
		var answer []string
		var err error
		if st.Zero {
			answer, err = rowsOf(ctx, con, q)
		} else {
			_, err = con.ExecContext(ctx, q)
		}
		took := time.Since(start)
		watch.Stop()
		stop()
		if took > slowest {
			slowest, slow = took, q
		}
		switch {
		case took >= hostileLimit && cpuTime()-used >= hostileLimit || took >= 10*hostileLimit:
			t.Errorf("statement %d takes %v: %s", i, took, q)
		case err == nil && st.Zero && answer[0] != "0" && !strings.HasPrefix(answer[0], "0\t"):
			t.Errorf("statement %d: rows differ without an error: %s\n%s", i, q, answer[0])
		case err == nil && st.Zero:
			kinds["equal"]++
		case err == nil:
			kinds["ok"]++
		case st.Must:
			t.Errorf("statement %d fails: %s\n%v", i, q, err)
		case unread.MatchString(err.Error()) || crashes.MatchString(err.Error()) || escapes.MatchString(err.Error()):
			t.Errorf("statement %d: %q\n%q", i, q, err)
		case st.Zero:
			kinds["refused: "+kindOf(err.Error())]++
		default:
			kinds[kindOf(err.Error())]++
		}
		if i == n/4 {
			before = resident(t)
		}
	}
	if _, err := con.ExecContext(t.Context(), "SELECT bglm_purge()"); err != nil {
		t.Fatal(err)
	}
	left, err := rowsOf(t.Context(), con, "SELECT bglm_state().live_states, bglm_state().bytes")
	if err != nil || left[0] != "0\t0" {
		t.Errorf("states and bytes left: %q, %v", left, err)
	}
	after := resident(t)
	t.Logf("%d statements, %.0f a second: %s; resident %d MiB after a quarter of them, %d MiB at the end; slowest %v: %s", n, float64(n)/time.Since(began).Seconds(), figures(kinds), before>>20, after>>20, slowest, slow)
	// Go returns memory late, DuckDB keeps caches and address checks keep what is freed:
	// what must not happen is growth with the number of statements, of which few tell
	// nothing.
	if n >= 1000 && after > before+512<<20 {
		t.Errorf("resident memory grew from %d to %d MiB", before>>20, after>>20)
	}
}

// A difference is seen, and shown, by what reads the answers.
func TestDifferenceShown(t *testing.T) {
	con := connect(t, open(t))
	got, err := rowsOf(t.Context(), con, counted("a <> r")+" FROM (VALUES (1, 1), (1, 2)) v(a, r)")
	if want := "1\t[1, 2]"; err != nil || got[0] != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// What random statements compare without an order does not depend on one: without the
// exceptions of comparison, the order of the rows and the threads show.
func TestShuffled(t *testing.T) {
	con := connect(t, open(t))
	for _, q := range HostileSetup() {
		if _, err := con.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	n := 200
	if testing.Short() {
		n = 50
	}
	h := NewHostile(*hostileSeed)
	for range n {
		q := h.shuffled()
		if answer, err := rowsOf(t.Context(), con, q); err != nil {
			t.Errorf("%s: %v", q, err)
		} else if !strings.HasPrefix(answer[0], "0\t") {
			t.Errorf("%s: %s", q, answer[0])
		}
	}
}

func figures(kinds map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		out = append(out, fmt.Sprintf("%s %d", k, kinds[k]))
	}
	return strings.Join(out, ", ")
}

// resident is this process's resident memory in bytes, 0 where the system does not say.
func resident(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory() // what Go has collected and would give back later
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var total, pages int64
	fmt.Sscan(string(b), &total, &pages)
	return pages * int64(os.Getpagesize())
}

// TestHostileClients runs the same statements through the extension in each client: all in the
// oldest and the newest, in those between a quarter where no more are asked for than by default.
//
// covers: never.crash
func TestHostileClients(t *testing.T) {
	ext := extension(t)
	h := NewHostile(*hostileSeed)
	all := make([]Statement, *hostileCount)
	for i := range all {
		all[i] = h.Next()
	}
	eachClient(t, func(t *testing.T, v string) {
		statements := all
		if between(v) && len(all) <= hostileDefault {
			statements = all[:(len(all)+3)/4]
		}
		b, err := json.Marshal(map[string]any{"setup": HostileSetup(), "statements": statements, "limit": hostileLimit.Milliseconds()})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "statements.json")
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		// A statement that ends the process, or does not end, is named, and the next
		// process goes on behind it.
		for from, deaths := 0, 0; from < len(statements) && deaths < 20; deaths++ {
			out, err := exec.CommandContext(t.Context(), "node", "clients/hostile.mjs", ext, file, v, strconv.Itoa(from)).CombinedOutput()
			if code := exitCode(err); code == 0 || code == 1 {
				if t.Logf("%s", out); err != nil {
					t.Fail()
				}
				return
			}
			at, _ := os.ReadFile(file + ".at")
			i, convErr := strconv.Atoi(string(at))
			if convErr != nil {
				t.Fatalf("%v before the first statement\n%s", err, out)
			}
			t.Errorf("DuckDB %s: %v at statement %d: %s\n%s", v, err, i, statements[i].SQL, out)
			from = i + 1
		}
	})
}

// exitCode is the code a command ended with, -1 for a signal.
func exitCode(err error) int {
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
