package beam

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/beam/parts"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
)

func TestMain(m *testing.M) {
	beam.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of Prism
	os.Exit(m.Run())
}

// run runs a job on Prism, in this process, and returns the belief table and the counters.
func run(t *testing.T, job *parts.Job, rounds, shards int) (path string, n map[string]int64, err error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fits.parquet")
	p, s := beam.NewPipelineWithRoot()
	fits, err := Fit(s, job, rounds)
	if err != nil {
		t.Fatal(err)
	}
	Write(s, job, fits, path, shards)
	result, err := prism.Execute(t.Context(), p)
	if err != nil {
		return path, nil, err
	}
	n = map[string]int64{}
	for _, c := range result.Metrics().Query(func(metrics.SingleResult) bool { return true }).Counters() {
		n[c.Name()] += c.Result()
	}
	return path, n, nil
}

// fitted runs a job and reads what it wrote.
func fitted(t *testing.T, job *parts.Job) (parts.Fits, map[string]int64) {
	t.Helper()
	path, n, err := run(t, job, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	out, err := parts.ReadFits(t.Context(), path, job.Group)
	if err != nil {
		t.Fatal(err)
	}
	delete(out, "")
	return out, n
}

// Laplace's approximation by passes on Prism is that of one process, for all flights together
// and by origin, from the fit of a sample; so are expectation propagation and low-rank fits (by
// origin of full rank: levels of equal numbers of rows have equal singular values, and rounding
// decides which of them a lower rank keeps).
func TestLaplaceOnPrism(t *testing.T) {
	files := flights(t, 20, 13_000, 4_000)
	for name, job := range map[string]*parts.Job{
		"global":             {Terms: [][]string{{"origin"}, {"destination"}, {"distance"}}},
		"origins":            {Terms: [][]string{{"destination"}, {"distance"}}, Group: []string{"origin"}},
		"lowrank":            {Terms: [][]string{{"origin"}, {"destination"}, {"distance"}}, Method: parts.LowRank, Options: `{"rank": 12}`},
		"origins by lowrank": {Terms: [][]string{{"destination"}, {"distance"}}, Group: []string{"origin"}, Method: parts.LowRank, Options: `{"rank": 400, "power_iterations": 0}`},
		"ep":                 {Terms: [][]string{{"origin"}, {"distance"}}, Method: parts.EP, Options: `{"link": "probit"}`},
	} {
		if job.Files, job.Y = []string{files}, "late"; job.Method == "" {
			job.Method = parts.Laplace
		}
		got, n := fitted(t, job)
		want := alone(t, job, job.Method)
		if len(got) != len(want) {
			t.Fatalf("%s: %d fits, want %d; %v", name, len(got), len(want), n)
		}
		worst, evidence := 0.0, 0.0
		for key, w := range want {
			g, ok := got[key]
			if !ok {
				t.Fatalf("%s: no fit of %s", name, key)
			}
			means, deviations := apart(t, g, w)
			worst = max(worst, means, deviations)
			evidence = max(evidence, math.Abs(g.LogEvidence/w.LogEvidence-1))
			if !g.Converged || strings.Contains(g.Status, "convergence") {
				t.Errorf("%s, %s: %s", name, key, g.Status)
			}
		}
		t.Logf("%s: %d fits, %.1e apart, evidence %.1e; %v", name, len(got), worst, evidence, n)
		if worst > 1e-8 || evidence > 1e-8 {
			t.Errorf("%s: %v apart, evidence %v", name, worst, evidence)
		}
	}
}

// ADF on Prism is the product of the fits of the parts, the prior counted once, which is near
// the fit of one process: for all flights together, by origin, and continued from a fit.
func TestADFOnPrism(t *testing.T) {
	files := flights(t, 20, 13_000, 4_000)
	from := filepath.Join(t.TempDir(), "from.parquet")
	start := alone(t, &parts.Job{Files: []string{flights(t, 100, 10_000, 10_000)}, Y: "late", Terms: [][]string{{"distance"}}, Options: `{"standardize": false}`}, parts.ADF)
	if err := arrowio.WriteParquetFile(from, start["[]"]); err != nil {
		t.Fatal(err)
	}
	for name, job := range map[string]*parts.Job{
		"global":    {Terms: [][]string{{"origin"}, {"distance"}}, Options: `{"standardize": false}`},
		"origins":   {Terms: [][]string{{"distance"}}, Group: []string{"origin"}, Options: `{"standardize": false}`},
		"continued": {Terms: [][]string{{"distance"}}, Group: []string{"origin"}, From: from},
	} {
		job.Files, job.Y, job.Method = []string{files}, "late", parts.ADF
		got, n := fitted(t, job)
		var prior *kernels.Fit
		if job.From != "" {
			prior = start["[]"]
		}
		once := product(t, job, prior)
		want := once
		if job.From == "" {
			want = alone(t, job, parts.ADF)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d fits, want %d; %v", name, len(got), len(want), n)
		}
		tol := 1e-8
		if name == "global" { // the order of a product of arrowheads matters where parts have few rows of a level
			tol = 0.1
		}
		exact, _ := distance(t, got, once)
		rms, widest := distance(t, got, want)
		t.Logf("%s: %d fits, %.1e from the product; %.2g deviations from one process, widths %.2g at most; %v", name, len(got), exact, rms, widest, n)
		if exact > tol {
			t.Errorf("%s: %v deviations from the product of the parts", name, exact)
		}
		if rms > 0.4 || widest > 0.5 {
			t.Errorf("%s: %v deviations from one process, widths %v", name, rms, widest)
		}
	}
}

// distance is how far the means of fits are from others' in their deviations, in the quadratic
// mean over all weights, and the largest difference of deviations in shares.
func distance(t *testing.T, got, want parts.Fits) (rms, widest float64) {
	t.Helper()
	weights := 0
	for key, w := range want {
		_, d := apart(t, got[key], w)
		widest = max(widest, d)
		for i, b := range w.Beliefs {
			rms += math.Pow(got[key].Beliefs[i].Mean-b.Mean, 2) / b.Variance
			weights++
		}
	}
	return math.Sqrt(rms / float64(weights)), widest
}

// product are the fits of the parts of a job, multiplied at once; from is what they continue.
func product(t *testing.T, job *parts.Job, from *kernels.Fit) parts.Fits {
	t.Helper()
	r, err := parts.NewReader(job)
	if err != nil {
		t.Fatal(err)
	}
	splits, err := job.Splits()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]*kernels.Fit{}
	for _, s := range splits {
		if _, err := r.Read(t.Context(), s, 0, nil, func(group string, s parts.State) error {
			b, err := s.Bytes()
			if err != nil {
				return err
			}
			r, err := arrowio.StreamIPC("a state", bytes.NewReader(b[1:]))
			if err != nil {
				return err
			}
			f, err := arrowio.ReadFit(r, nil)
			all[group] = append(all[group], f)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	out := parts.Fits{}
	for group, fits := range all {
		if out[group], err = kernels.MergeFits(t.Context(), fits, from, adf.MergeArrowheads); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// What cannot be run is an error before any worker starts, or of the pipeline: never a hang,
// never a file.
func TestErrors(t *testing.T) {
	files := flights(t, 500, 500, 500)
	good := parts.Job{Files: []string{files}, Y: "late", Terms: [][]string{{"distance"}}, Method: parts.Laplace}
	for want, change := range map[string]func(*parts.Job){
		"names no files":                  func(j *parts.Job) { j.Files = nil },
		`found "hmc"; allowed: ["laplace`: func(j *parts.Job) { j.Method = "hmc" },
		"method is not used here":         func(j *parts.Job) { j.Options = `{"method": "ep"}` },
		"allowed: a JSON object":          func(j *parts.Job) { j.Options = "[1]" },
		"prior_variance: found -1":        func(j *parts.Job) { j.Options = `{"prior_variance": -1}` },
		"priorvariance is unknown":        func(j *parts.Job) { j.Options = `{"priorvariance": 1}` },
		"none-such.parquet":               func(j *parts.Job) { j.From = "none-such.parquet" },
		"trials":                          func(j *parts.Job) { j.Trials = "distance"; j.Options = `{"family": "poisson"}` },
	} {
		job := good
		change(&job)
		_, s := beam.NewPipelineWithRoot()
		if _, err := Fit(s, &job, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	for want, change := range map[string]func(*parts.Job){
		"no file":           func(j *parts.Job) { j.Files = []string{"none-such-*.parquet"} },
		"no column":         func(j *parts.Job) { j.Terms = [][]string{{"speed"}} },
		"allowed: a number": func(j *parts.Job) { j.Y = "origin" },
	} {
		job := good
		change(&job)
		if path, _, err := run(t, &job, 1, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		} else if _, stat := os.Stat(path); stat == nil {
			t.Errorf("%s: there is a file", want)
		}
	}
}

// What a pipeline writes bglm predict and SQL read, by groups in shards too. The tool, which is
// not pure Go, comes from the environment: make test-beam builds it.
func TestToolReads(t *testing.T) {
	tool := os.Getenv("BGLM")
	if tool == "" {
		t.Skip("no BGLM=path of the command line tool")
	}
	files := flights(t, 50, 10_000, 5_000)
	for name, job := range map[string]*parts.Job{
		"global":  {Terms: [][]string{{"origin"}, {"distance"}}, Method: parts.Laplace},
		"origins": {Terms: [][]string{{"distance"}}, Group: []string{"origin"}, Method: parts.ADF},
	} {
		job.Files, job.Y = []string{files}, "late"
		shards := 1 + 2*len(job.Group)
		path, _, err := run(t, job, 0, shards)
		if err != nil {
			t.Fatal(err)
		}
		fits, rows := 0, 0
		for k := range shards {
			path := parts.ShardPath(path, k, shards)
			scored := filepath.Join(t.TempDir(), "scored.csv")
			for _, args := range [][]string{
				{"sql", "-c", "COPY (SELECT count(fit), sum((fit->>'$.n')::BIGINT)::BIGINT FROM '" + path + "') TO '" + scored + "' (HEADER false)"},
				{"predict", "-b", path, files, "--out", scored + ".parquet", "-q"},
				{"sql", "-c", "COPY (SELECT count(prediction) FROM '" + scored + ".parquet') TO '" + scored + ".n' (FORMAT csv, HEADER false)"},
			} {
				if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %v: %s", args, err, out)
				}
			}
			var f, r, p int
			text, err := os.ReadFile(scored)
			if err == nil {
				_, err = fmt.Sscanf(string(text), "%d,%d", &f, &r)
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err = os.ReadFile(scored + ".n")
			if err == nil {
				_, err = fmt.Sscanf(string(text), "%d", &p)
			}
			if err != nil || p < r {
				t.Errorf("%s: %d predictions for %d rows: %v", name, p, r, err)
			}
			fits, rows = fits+f, rows+r
		}
		if rows != 10_000 || fits < 1+200*len(job.Group) {
			t.Errorf("%s: %d fits of %d rows", name, fits, rows)
		}
	}
}
