package sqltest

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/udf"
)

var coldRuns = flag.Int("cold", 5, "fresh processes per cold-process test")

// A cold process: nothing of ours has run but the registration, and the first query
// has two-row groups with ORDER BY in the aggregate on eight threads, where DuckDB
// passes one state pointer for a chunk of rows and foreign pointers lie behind it.
// Every group is compared with the native formula; both sum two squares, so they
// differ by roundings only.
const (
	coldSetup = "SET threads = 8"
	coldQuery = `SELECT count(*), sum((abs(r - s) <= 1e-12)::INT) FROM (
		SELECT g, bglm_rmse(y, p ORDER BY i) AS r, sqrt(avg((y - p) ** 2)) AS s FROM (
			SELECT i, i // 2 AS g, (i * 7919 % 1009) / 1009.0 AS y, (i * 31 % 997) / 997.0 AS p FROM range(200000) t(i))
		GROUP BY g)`
	coldWant = "100000\t100000"
)

// coldEnv makes the test binary answer one query and exit; see TestMain.
const coldEnv = "BGLM_SQLTEST_COLD"

func TestMain(m *testing.M) {
	if os.Getenv(coldEnv) != "" {
		if err := coldProcess(context.Background()); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func coldProcess(ctx context.Context) error {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer db.Close()
	con, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer con.Close()
	if err := udf.Register(ctx, con); err != nil {
		return err
	}
	if _, err := con.ExecContext(ctx, coldSetup); err != nil {
		return err
	}
	rows, err := rowsOf(ctx, con, coldQuery)
	fmt.Println(strings.Join(rows, "\n"))
	return err
}

// TestColdProcess re-executes this test binary; -cold=N sets how often.
func TestColdProcess(t *testing.T) {
	for i := range *coldRuns {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), coldEnv+"=1")
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != coldWant {
			t.Errorf("process %d: got %q (%v), want %q groups, right groups", i+1, got, err, coldWant)
		}
	}
}

// TestColdClients does the same in each client of the extension.
func TestColdClients(t *testing.T) {
	ext := extension(t)
	eachClient(t, func(t *testing.T, v string) {
		for i := range *coldRuns {
			runNode(t, fmt.Sprintf("process %d", i+1), coldWant, ext, v, coldSetup, coldQuery)
		}
	})
}

// runNode runs statements in a fresh node process and compares the rows of the last.
func runNode(t *testing.T, what, want string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"clients/query.mjs"}, args...)...)
	out, err := cmd.CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != want {
		t.Errorf("%s: got %q (%v), want %q", what, got, err, want)
	}
}

// Out of core: more groups than the memory limit holds, so that DuckDB writes rows
// with our states' bytes to disk and reads them back elsewhere. (Our own memory is
// outside the limit, and so are texts kept by any_value, which is why the second query
// groups by its long text.) Each group's two rows are far apart in the input.
const (
	spillGroups = 1_000_000
	spillLimit  = "200MB"
)

func spillStatements(dir string) []string {
	return []string{
		"SET threads = 2", // every thread needs its own buffers under the limit
		"SET memory_limit = '" + spillLimit + "'",
		"SET temp_directory = '" + strings.ReplaceAll(dir, "'", "''") + "'",
		"SET preserve_insertion_order = false",
	}
}

var (
	spillRMSE = `SELECT count(*), sum((abs(r - abs(d1) / 1009.0) <= 1e-12)::INT), sum((k = 'group number ' || g || ' with a long name')::INT) FROM (
		SELECT g, bglm_rmse(y, p) AS r, any_value(d) AS d1, any_value(k) AS k FROM (
			SELECT i % ` + strconv.Itoa(spillGroups) + ` AS g, 'group number ' || g || ' with a long name' AS k, g * 7919 % 1009 AS d, d / 1009.0 AS p, 0.0 AS y FROM range(` + strconv.Itoa(2*spillGroups) + `) t(i))
		GROUP BY g)`
	spillRMSEWant = "1000000\t1000000\t1000000"

	// One weight, two gaussian rows y = g % 10: mean 2 y / 3, variance 1/3.
	spillADF = `SELECT count(*), sum((n = 2 AND abs(m - 2 * (g % 10) / 3.0) < 1e-12 AND abs(v - 1 / 3.0) < 1e-12)::INT), sum((k = repeat('x', 150) || g)::INT) FROM (
		SELECT g, k, f.n AS n, f.beliefs[1].mean AS m, f.beliefs[1].variance AS v FROM (
			SELECT g, k, bglm_adf(g % 10, [1.0], {family: 'gaussian', intercept: false, covariance: 'diagonal', standardize: false, dispersion: 1}) AS f FROM (
				SELECT i % 500000 AS g, repeat('x', 150) || g AS k FROM range(1000000) t(i))
			GROUP BY g, k))`
	spillADFWant = "500000\t500000\t500000"
)

// covers: agg.group
func TestOutOfCore(t *testing.T) {
	if testing.Short() {
		t.Skip("a million groups")
	}
	con := connect(t, open(t))
	dir := t.TempDir()
	for _, s := range spillStatements(dir) {
		if _, err := con.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range [][2]string{{spillRMSE, spillRMSEWant}, {spillADF, spillADFWant}} {
		stop, peak := make(chan struct{}), make(chan int64)
		go func() { peak <- watchSize(dir, stop) }()
		start := time.Now()
		got, err := rowsOf(t.Context(), con, q[0])
		close(stop)
		spilled := <-peak
		if err != nil || len(got) != 1 || got[0] != q[1] {
			t.Errorf("%s\ngot %q (%v), want %q", q[0], got, err, q[1])
		}
		if spilled == 0 {
			t.Errorf("nothing was written to the temporary directory: the limit did not make DuckDB spill\n%s", q[0])
		}
		t.Logf("%v, spilled up to %d MB", time.Since(start).Round(time.Millisecond), spilled>>20)
	}
}

// watchSize is the largest size of the files in dir until stop is closed.
func watchSize(dir string, stop <-chan struct{}) (most int64) {
	for {
		select {
		case <-stop:
			return most
		default:
		}
		var size int64
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, f := range files {
			if st, err := os.Stat(f); err == nil {
				size += st.Size()
			}
		}
		most = max(most, size)
		pause()
	}
}

func TestOutOfCoreClients(t *testing.T) {
	if testing.Short() {
		t.Skip("a million groups")
	}
	ext := extension(t)
	eachClient(t, func(t *testing.T, v string) {
		if between(v) {
			t.Skip("the oldest and the newest do")
		}
		set := spillStatements(t.TempDir())
		runNode(t, "rmse", spillRMSEWant, append(append([]string{ext, v}, set...), spillRMSE)...)
		runNode(t, "adf", spillADFWant, append(append([]string{ext, v}, set...), spillADF)...)
	})
}
