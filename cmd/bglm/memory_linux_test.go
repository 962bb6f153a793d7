package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bglm/bglm/kernels/memory"
)

// limitData, in the environment, is RLIMIT_DATA of a test's process.
const limitData = "BGLM_TEST_LIMIT_DATA"

func setDataLimit() {
	if n, err := strconv.ParseUint(os.Getenv(limitData), 10, 64); err == nil {
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			panic(err)
		}
	}
}

// Under 2 GB each of these would end the process; now it ends with an error, within a
// minute.
func TestTwoGigabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds, and gigabytes")
	}
	for _, text := range []string{
		"SELECT (bglm_adf(i%3=0, ['f'||i], {covariance:'full'})).n FROM range(19000) t(i)",
		"SELECT (bglm_adf(i%3=0, ['f'||i], {covariance:'full'})).n FROM range(100000) t(i)",
		"SELECT (bglm_adf(i%3=0, ['f'||i], {covariance:'lowrank', rank: 10000})).n FROM range(100000) t(i)",
		"SELECT (bglm_lowrank(i%3=0, ['f'||i%100000, 'g'||hash(i)%100000], {rank: 10000})).n FROM range(200000) t(i)",
		"SELECT (bglm_ep(i%3=0, [(i%1000)::DOUBLE])).n FROM range(60000000) t(i)",
		"SELECT (bglm_laplace(i%3=0, ['f'||i%13000], {hessian:'full'})).n FROM range(20000) t(i)",
		"SELECT (bglm_softmax(i%7, ['f'||i%1900], {hessian:'full'})).n FROM range(20000) t(i)",
		"SELECT (bglm_gp(i%3=0, [i::DOUBLE])).n FROM range(10000) t(i)",
		"SELECT (bglm_hmc(i%3=0, ['f'||i%5000], {samples: 12000})).n FROM range(10000) t(i)",
	} {
		cmd := exec.Command(os.Args[0], "sql", "-c", text)
		cmd.Env = append(os.Environ(), beMain+"=1", limitData+"=2147483648")
		began := time.Now()
		watch := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
		out, err := cmd.CombinedOutput()
		watch.Stop()
		allowed := strings.Contains(string(out), memory.ErrLimit.Error()) || strings.Contains(string(out), "allowed:")
		if err == nil || cmd.ProcessState.ExitCode() != exitFailed || !allowed || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s gives %v\n%.600s", text, err, out)
		}
		t.Logf("%v: %.200s", time.Since(began).Round(time.Millisecond), out)
	}
}
