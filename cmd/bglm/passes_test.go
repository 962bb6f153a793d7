package main

import (
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
	"testing"
	"time"

	"github.com/bglm/bglm/kernels/kerneltest"
)

const passFormula = "y ~ ad + site + x + hour"

// apart is how far the fit in file a is from that in b: means in deviations, variances in
// shares, and whether n, features and columns are the same.
func apart(t *testing.T, a, b string) string {
	t.Helper()
	dir := t.TempDir()
	for k, f := range []string{a, b} {
		ok(t, "sql", "-c", fmt.Sprintf("COPY (SELECT feature, mean, variance, (fit->>'$.n')::BIGINT AS n, (fit->>'$.log_evidence')::DOUBLE AS e FROM '%s') TO '%s/%d.parquet'", f, dir, k))
	}
	return query(t, fmt.Sprintf(`SELECT count(a.feature) = count(*) AND count(b.feature) = count(*) AND count(*) > 25, max(abs(a.mean - b.mean) / sqrt(b.variance)) < 1e-8, max(abs(a.variance / b.variance - 1)) < 1e-8,
		sum(a.n) = sum(b.n), abs(sum(a.e) / sum(b.e) - 1) < 1e-9 FROM '%[1]s/0.parquet' a FULL JOIN '%[1]s/1.parquet' b USING (feature)`, dir))
}

const same = "true,true,true,true,true"

// By passes the fit is that of the rows kept, whatever the files, and one that was stopped
// goes on from where it was.
func TestOutOfCore(t *testing.T) {
	data := rowsFile(t, "rows.parquet")
	dir := filepath.Dir(data)
	csv := filepath.Join(dir, "rows.csv")
	query(t, "COPY (FROM '"+data+"') TO '"+csv+"'")
	kept := filepath.Join(dir, "kept.parquet")
	ok(t, "fit", "--data", data, "--formula", passFormula, "--method", "laplace", "--out", kept, "-q")
	for name, args := range map[string][]string{
		"parquet": {"--data", data, "--method", "laplace"},
		"csv":     {"--data", csv, "--method", "laplace"},
		"around":  {"--data", data, "--around", kept, "--method", "laplace"},
	} {
		out := filepath.Join(dir, name+".parquet")
		r := ok(t, append([]string{"fit", "--formula", passFormula, "--out-of-core", "--out", out}, args...)...)
		if got := apart(t, out, kept); got != same {
			t.Errorf("%s: %s", name, got)
		}
		if passes := strings.Count(r.stderr, "posterior standard deviations from the mode"); name == "around" && passes != 0 || passes > 3 {
			t.Errorf("%s: %s", name, r.stderr)
		}
		if _, err := os.Stat(passFile(out)); err == nil {
			t.Errorf("%s: the unfinished fit is still there", name)
		}
	}
	sites := filepath.Join(dir, "sites.parquet")
	ok(t, "fit", "--data", data, "--formula", passFormula, "--method", "ep", "--option", "covariance=full", "--option", "tol=1e-11", "--out", sites, "-q")
	ep := []string{"--option", "covariance=full", "--data", data, "--formula", passFormula, "--method", "ep", "--out", filepath.Join(dir, "ep.parquet"), "-q"}
	ok(t, append([]string{"fit", "--out-of-core"}, ep...)...)
	if got := apart(t, filepath.Join(dir, "ep.parquet"), sites); got != same {
		t.Errorf("ep: %s", got)
	}
	part := filepath.Join(dir, "part.parquet")
	ok(t, "fit", "--partial", "--data", data, "--formula", passFormula, "--method", "ep", "--around", sites, "--out", part, "-q")
	ok(t, "finish", part, "--out", filepath.Join(dir, "ep.parquet"), "-q")
	if got := apart(t, filepath.Join(dir, "ep.parquet"), sites); got != same {
		t.Errorf("ep by a part: %s", got)
	}
	if err := os.Rename(filepath.Join(dir, "parquet.parquet"), passFile(filepath.Join(dir, "ep.parquet"))); err != nil {
		t.Fatal(err)
	}
	if r := bglm(t, "", append([]string{"fit", "--out-of-core"}, ep[2:]...)...); r.code == 0 || !strings.Contains(r.stderr, `was fitted with the method "", not with "ep"`) {
		t.Errorf("ep after laplace: %d: %s", r.code, r.stderr)
	}
	// What a run that was killed leaves: the next one needs one pass.
	out := filepath.Join(dir, "again.parquet")
	b, err := os.ReadFile(kept)
	if err == nil {
		err = os.WriteFile(passFile(out), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := ok(t, "fit", "--data", data, "--formula", passFormula, "--method", "laplace", "--out-of-core", "--out", out); strings.Contains(r.stderr, "pass 1") {
		t.Error(r.stderr)
	}
	if err := os.WriteFile(passFile(out), b, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"was fitted with the formula":    {"--out-of-core", "--out", out, "--formula", "y ~ x"},
		`with the option link ""`:        {"--out-of-core", "--out", out, "--method", "laplace", "--formula", passFormula, "--option", "link=probit"},
		"passes are laplace's, ep's and": {"--out-of-core", "--method", "adf", "--formula", "y ~ x"},
		"go without --engine arrow":      {"--out-of-core", "--engine", "arrow", "--formula", "y ~ x"},
		"covariance is not used here":    {"--out-of-core", "--method", "ep", "--option", "covariance=diagonal", "--formula", "y ~ x"},
		"give one of them":               {"--out-of-core", "--partial", "--formula", "y ~ x"},
		"give --out FILE.parquet":        {"--partial", "--formula", "y ~ x"},
		"--around belongs to":            {"--around", kept, "--formula", "y ~ x"},
		"shape: found 'auto'":            {"--partial", "--formula", "hour ~ x", "--option", "family=negbinomial", "--out", out},
		"hessian is not used here":       {"--partial", "--formula", "y ~ x", "--option", "hessian=full", "--out", out},
	} {
		if r := bglm(t, "", append([]string{"fit", "--data", data}, args...)...); r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %d: %s", args, r.code, r.stderr)
		}
	}
}

// A fit of columns beside maps and lists is the same in every way there is to make it: in SQL, of
// Arrow records, in passes and of parts.
func TestContainersAllWays(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "rows.parquet")
	query(t, `COPY (SELECT (hash(i * 7) % 1000 / 1000.0 < 1 / (1 + exp(1.5 - k - 2 * a - i % 4 + (i % 5) / 2)))::INT AS y, CASE WHEN i % 10 > 0 THEN 50000 + 3000 * k END AS inc,
		CASE WHEN i % 9 > 0 THEN MAP {'a': a, 'g=' || i % 4: 1.0, 'h=' || i % 5: 1.0} END AS m, [a * k, CASE WHEN i % 7 > 0 THEN 4000 + k END] AS v, {p: a + k, q: 'q' || i % 3} AS st
		FROM (SELECT i, sin(i * 1.3) AS k, cos(i * 2.1) AS a FROM range(500) t(i))) TO '`+data+`'`)
	for _, c := range []struct{ formula, x string }{
		{"y ~ inc + v", "{inc: inc, v: v}"}, {"y ~ inc + st + m", "{inc: inc, p: st.p, q: st.q, m: m}"}, {"y ~ m", "m"},
	} {
		file := func(name string) string { return filepath.Join(dir, name+".parquet") }
		fit := func(name string, args ...string) {
			ok(t, append([]string{"fit", "--data", data, "--method", "laplace", "--out", file(name), "-q"}, args...)...)
		}
		fit("sql", "--y", "y", "--x", c.x)
		fit("formula", "--formula", c.formula)
		fit("arrow", "--formula", c.formula, "--engine", "arrow")
		fit("passes", "--formula", c.formula, "--out-of-core")
		fit("part", "--formula", c.formula, "--partial", "--around", file("formula"))
		ok(t, "finish", file("part"), "--out", file("finished"), "-q")
		for _, name := range []string{"formula", "arrow", "passes", "finished"} {
			if got := apart(t, file(name), file("sql")); !strings.HasSuffix(same, strings.TrimPrefix(got, "false")) {
				t.Errorf("%s, %s: %s", c.formula, name, got)
			}
			ok(t, "predict", "--data", data, "--beliefs", file(name), "--out", file(name+"-p"), "-q")
		}
		for _, name := range []string{"arrow", "passes", "finished"} {
			got := query(t, "SELECT coalesce(max(abs(a.prediction - b.prediction)) < 1e-4, false) AND count(a.prediction) = count(b.prediction) FROM '"+file(name+"-p")+"' a POSITIONAL JOIN '"+file("formula-p")+"' b")
			if !strings.Contains(got, "true") {
				t.Errorf("%s, %s: predictions differ: %s", c.formula, name, got)
			}
		}
	}
	page := filepath.Join(dir, "page.html")
	ok(t, "fit", "--data", data, "--formula", "y ~ inc + m", "--out", filepath.Join(dir, "page.parquet"), "-q")
	ok(t, "report", "--data", data, "--beliefs", filepath.Join(dir, "page.parquet"), "--out", page, "-q")
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), ">features<") || strings.Contains(string(b), "an identifier?") {
		t.Errorf("the page takes a map for levels (%v)", err)
	}
	// Prior variances are learnt for the same groups of features.
	learn := func(name string, args ...string) string {
		out := filepath.Join(dir, name+".parquet")
		ok(t, append([]string{"fit", "--data", data, "--method", "laplace", "--option", "prior_variance=auto", "--option", "integrate=false", "--formula", "y ~ m", "--out", out, "-q"}, args...)...)
		return out
	}
	if got := query(t, "SELECT max(abs(a.mean - b.mean) / sqrt(b.variance)) < 1e-3, max(abs(a.variance / b.variance - 1)) < 1e-2 FROM '"+learn("auto", "--out-of-core")+"' a JOIN '"+learn("kept")+"' b USING (feature)"); got != "true,true" {
		t.Errorf("learnt prior variances: %s", got)
	}
}

// A state that is damaged, or no state, is an error that names it and says what to do.
func TestOutOfCoreLowRank(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	dir := filepath.Dir(data)
	file := func(name string) string { return filepath.Join(dir, name+".parquet") }
	of := func(args ...string) []string {
		return append([]string{"--data", data, "--formula", passFormula, "--method", "lowrank", "--option", "rank=6", "-q"}, args...)
	}
	fit := func(args ...string) result { return ok(t, append([]string{"fit"}, of(args...)...)...) }
	fit("--option", "tol=1e-10", "--out", file("kept"))
	fit("--out-of-core", "--out", file("passes"))
	if got := apart(t, file("passes"), file("kept")); got != same {
		t.Error(got)
	}
	// Three parts in a pass, merged, until the fit has converged; a run out of core that was
	// stopped after the fourth pass goes on from it.
	var around []string
	for k := range 20 {
		var parts []string
		for i := range 3 {
			parts = append(parts, file(fmt.Sprintf("part-%d", i)))
			fit(append([]string{"--partial", "--where", fmt.Sprintf("i %% 3 = %d", i), "--out", parts[i]}, around...)...)
		}
		ok(t, append([]string{"merge", "--out", file("pass"), "-q"}, parts...)...)
		r := ok(t, "finish", file("pass"), "--out", file("parts"), "--json")
		if around = []string{"--around", file("pass")}; strings.Contains(r.stdout, `"converged": true`) {
			break
		}
		if k == 3 {
			b, err := os.ReadFile(file("pass"))
			if err == nil {
				err = os.WriteFile(passFile(file("resumed")), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := apart(t, file("parts"), file("kept")); got != same {
		t.Errorf("by parts: %s", got)
	}
	if r := ok(t, "fit", "--data", data, "--formula", passFormula, "--method", "lowrank", "--option", "rank=6", "--out-of-core", "--out", file("resumed")); strings.Contains(r.stderr, "this was 4 of") {
		t.Errorf("the run did not go on: %s", r.stderr)
	}
	if got := apart(t, file("resumed"), file("kept")); got != same {
		t.Errorf("resumed: %s", got)
	}
	for want, args := range map[string][]string{
		"has no states of passes":             {"--out-of-core", "--around", file("kept")},
		"passes of --method lowrank make one": {"--out-of-core", "--group", "site"},
		"the pass before was made with other": {"--partial", "--around", file("pass"), "--option", "rank=7", "--out", file("other")},
		"prior_variance: found 'auto'":        {"--out-of-core", "--option", "prior_variance=auto"},
	} {
		all := append([]string{"fit", "--data", data, "--formula", passFormula, "--method", "lowrank"}, args...)
		if !slices.Contains(all, "rank=7") {
			all = append(all, "--option", "rank=6")
		}
		if r := bglm(t, "", all...); r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %d: %s", args, r.code, r.stderr)
		}
	}
}

func TestOutOfCoreDamaged(t *testing.T) {
	data := rowsFile(t, "rows.parquet")
	out := filepath.Join(filepath.Dir(data), "fit.parquet")
	args := []string{"fit", "--data", data, "--formula", "y ~ ad", "--method", "laplace", "--out", out, "-q"}
	ok(t, args...)
	whole, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(whole)
	for k := range damaged[:len(damaged)/2] {
		damaged[len(damaged)/4+k] ^= byte(k)
	}
	rows, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{"cut": whole[:len(whole)/2], "empty": nil, "damaged": damaged, "rows": rows} {
		if err := os.WriteFile(passFile(out), b, 0o600); err != nil {
			t.Fatal(err)
		}
		r := bglm(t, "", append(args, "--out-of-core")...)
		if r.code != 1 || !strings.Contains(r.stderr, "unfinished fit: ") || !strings.Contains(r.stderr, passFile(out)) || !strings.Contains(r.stderr, "remove it to begin anew") {
			t.Errorf("%s: %d: %s", what, r.code, r.stderr)
		}
	}
}

// A fit that is killed at random points, again and again, and begun again, is that of one
// run; BGLM_KILLS sets how often.
func TestOutOfCoreKilled(t *testing.T) {
	if runtime.GOOS == "windows" || testing.Short() {
		t.Skip("no SIGKILL, or short")
	}
	kills := 2
	if n, err := strconv.Atoi(os.Getenv("BGLM_KILLS")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "rows.parquet")
	query(t, `COPY (SELECT hash(i) % 5 < 1 + hash(i + 7) % 60 // 20 AS y, 'a' || hash(i + 7) % 60 AS ad, (hash(i + 3) % 100) / 50.0 AS x FROM range(150000) t(i)) TO '`+data+`'`)
	t.Run("laplace", func(t *testing.T) { outOfCoreKilled(t, kills, dir, data, "--method", "auto") })
	t.Run("lowrank", func(t *testing.T) {
		outOfCoreKilled(t, kills, t.TempDir(), data, "--method", "lowrank", "--option", "rank=5")
	})
}

func outOfCoreKilled(t *testing.T, kills int, dir, data string, more ...string) {
	t.Helper()
	args := func(out string) []string {
		return append([]string{"fit", "--data", data, "--formula", "y ~ ad + x", "--out-of-core", "--out", filepath.Join(dir, out)}, more...)
	}
	began := time.Now()
	ok(t, args("whole.parquet")...)
	took := time.Since(began)
	rng := rand.New(rand.NewPCG(uint64(began.UnixNano()), 1))
	out := filepath.Join(dir, "killed.parquet")
	left, resumed := 0, 0
	for k := 0; k < kills; {
		if _, err := os.Stat(passFile(out)); err == nil {
			resumed++
		}
		cmd := exec.Command(os.Args[0], args("killed.parquet")...)
		cmd.Env = append(os.Environ(), beMain+"=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		anytime, before := rng.IntN(2) == 0, stamp(passFile(out))
		any, soon := time.Duration(rng.Int64N(int64(took))), time.Duration(rng.Int64N(int64(took/10)))
		done := make(chan struct{})
		go func() { // at any time, or soon after the next pass has ended
			after := any
			for began := time.Now(); !anytime && stamp(passFile(out)) == before && time.Since(began) < 2*took; time.Sleep(time.Millisecond) {
				after = soon
			}
			select {
			case <-done:
			case <-time.After(after):
				cmd.Process.Kill()
			}
		}()
		err := cmd.Wait()
		close(done)
		if err == nil { // it was through: what it wrote is whole, and another one begins
			if got := apart(t, out, filepath.Join(dir, "whole.parquet")); got != same {
				t.Fatalf("after %d kills: %s", k, got)
			}
			os.Remove(out)
			left++
			continue
		}
		k++
	}
	t.Logf("%d kills, %d runs went on from a pass, %d got through", kills, resumed, left)
	ok(t, args("killed.parquet")...)
	if got := apart(t, out, filepath.Join(dir, "whole.parquet")); got != same {
		t.Error(got)
	}
}

// stamp says whether a file is another one than before; of none it is 0.
func stamp(path string) int64 {
	if st, err := os.Stat(path); err == nil {
		return st.ModTime().UnixNano()
	}
	return 0
}

// Without further options it is bglm fit without further options: prior variances are learnt
// and integrated over. The sample is all rows here, so that passes begin at the answer.
func TestOutOfCoreDefault(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	dir := filepath.Dir(data)
	for name, args := range map[string][]string{
		"bernoulli": {"--formula", passFormula},
		"poisson":   {"--formula", "hour ~ ad + x", "--option", "family=poisson"},
		// the scales of priors are measured by quartiles of y, which passes do not have
		"gaussian": {"--formula", "x ~ ad + site + hour", "--option", "family=gaussian", "--option", "sd_scale=1", "--option", "dispersion_scale=1"},
		"column":   {"--formula", passFormula, "--option", "prior_variance={'ad': 'auto', 'site': 2.0}"},
		"priors":   {"--formula", passFormula, "--option", "priors=MAP {'x': {mean: 0.0, variance: 2.0}}"}, // under which none is learnt
	} {
		a, b := filepath.Join(dir, name+"-a.parquet"), filepath.Join(dir, name+"-b.parquet")
		ok(t, append([]string{"fit", "--data", data, "--out", a, "-q"}, args...)...)
		r := ok(t, append([]string{"fit", "--data", data, "--out-of-core", "--out", b}, args...)...)
		got := query(t, fmt.Sprintf(`SELECT count(a.feature) = count(*) AND count(b.feature) = count(*), max(abs(a.mean - b.mean) / sqrt(a.variance)) < 5e-3, max(abs(a.variance / b.variance - 1)) < 1e-2
			FROM (SELECT feature, mean, variance FROM '%s') a FULL JOIN (SELECT feature, mean, variance FROM '%s') b USING (feature)`, a, b))
		if got != "true,true,true" {
			t.Errorf("%s: %s %s", name, got, r.stderr)
		}
	}
}

// Sixteen processes take a pass over a part of the rows each, some are killed and start
// again; their parts, merged in any order, are the pass of one process.
func TestPartsOfProcesses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGKILL")
	}
	data := rowsFile(t, "rows.parquet")
	dir := filepath.Dir(data)
	around := filepath.Join(dir, "around.parquet")
	ok(t, "fit", "--data", data, "--where", "i % 11 = 0", "--formula", passFormula, "--method", "laplace", "--out", around, "-q")
	part := func(out string, where string) []string {
		return []string{"fit", "--partial", "--data", data, "--where", where, "--formula", passFormula, "--around", around, "--out", filepath.Join(dir, out), "-q"}
	}
	ok(t, part("whole.parquet", "true")...)
	const parts = 16
	kills, mu := 0, sync.Mutex{}
	one := func(k int) error {
		rng := rand.New(rand.NewPCG(uint64(k), 5))
		for try := range 4 {
			cmd := exec.Command(os.Args[0], part(fmt.Sprintf("part-%d.parquet", k), fmt.Sprintf("i %% %d = %d", parts, k))...)
			cmd.Env = append(os.Environ(), beMain+"=1")
			if err := cmd.Start(); err != nil {
				return err
			}
			if k%4 == 1 && try < 2 {
				time.AfterFunc(time.Duration(rng.IntN(80))*time.Millisecond, func() { cmd.Process.Kill() })
			}
			if err := cmd.Wait(); err == nil {
				return nil
			}
			mu.Lock()
			kills++
			mu.Unlock()
		}
		return fmt.Errorf("part %d does not get through", k)
	}
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for k := w; k < parts; k += 2 {
				if err := one(k); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	t.Logf("%d kills", kills)
	files := func(lo, hi int) (out []string) {
		for k := hi - 1; k >= lo; k-- {
			out = append(out, filepath.Join(dir, fmt.Sprintf("part-%d.parquet", k)))
		}
		return out
	}
	merged := filepath.Join(dir, "merged.parquet")
	ok(t, append(append([]string{"merge"}, files(3, parts)...), "--out", merged, "-q")...)
	fits := []string{filepath.Join(dir, "fit-1.parquet"), filepath.Join(dir, "fit-16.parquet")}
	ok(t, "finish", filepath.Join(dir, "whole.parquet"), "--out", fits[0], "-q")
	ok(t, append(append([]string{"finish"}, files(0, 3)...), merged, "--out", fits[1], "-q")...)
	if got := apart(t, fits[1], fits[0]); got != same {
		t.Error(got)
	}
	for want, args := range map[string][]string{
		"has no states of passes": {"finish", around},
		"give --out FILE.parquet": append([]string{"merge"}, files(0, 2)...),
		"are of different jobs":   {"finish", merged, filepath.Join(dir, "other.parquet")},
	} {
		if want == "are of different jobs" {
			ok(t, "fit", "--partial", "--data", data, "--formula", "y ~ x", "--out", filepath.Join(dir, "other.parquet"), "-q")
		}
		if r := bglm(t, "", args...); r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %d: %s", args, r.code, r.stderr)
		}
	}
}

// One fit a group: with the rows of groups that have room, by passes over those of others; a run
// that was killed goes on with those that are not done.
func TestOutOfCoreGroups(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "rows.parquet")
	query(t, `COPY (SELECT hash(i) % 5 < 1 + hash(i + 7) % 30 // 10 + hash(i + 9) % 3 // 2 AS y, 'a' || hash(i + 7) % 30 AS ad, (hash(i + 3) % 100) / 50.0 AS x,
		CASE WHEN i < 6000 THEN 'big ' || i % 2 WHEN i % 11 > 0 THEN 'g' || i % 11 END AS g, i % 3 = 0 AND i > 6000 AS h FROM range(9000) t(i)) TO '`+data+`'`)
	old := roomForRows
	defer func() { roomForRows = old }()
	args := func(out string, more ...string) []string {
		if !slices.Contains(more, "--method") {
			more = append(more, "--method", "laplace")
		}
		return append([]string{"fit", "--data", data, "--formula", "y ~ ad + x", "--group", "g, h", "--out", filepath.Join(dir, out)}, more...)
	}
	kept := filepath.Join(dir, "kept.parquet")
	compare := func(what, out string) {
		t.Helper()
		got := query(t, fmt.Sprintf(`SELECT count(a.feature) = count(*) AND count(b.feature) = count(*) AND count(*) > 500, max(abs(a.mean - b.mean) / sqrt(b.variance)) < 1e-8, max(abs(a.variance / b.variance - 1)) < 1e-8,
			sum((a.fit->>'$.n')::INTEGER) = sum((b.fit->>'$.n')::INTEGER), max(abs((a.fit->>'$.log_evidence')::DOUBLE / (b.fit->>'$.log_evidence')::DOUBLE - 1)) < 1e-9
			FROM '%s' a FULL JOIN '%s' b ON a.feature = b.feature AND a.g IS NOT DISTINCT FROM b.g AND a.h = b.h`, filepath.Join(dir, out), kept))
		if got != same {
			t.Errorf("%s: %s", what, got)
		}
	}
	ok(t, args("kept.parquet", "-q", "--method", "ep", "--option", "covariance=full", "--option", "tol=1e-11")...)
	roomForRows = 2000
	ok(t, args("got.parquet", "-q", "--method", "ep", "--out-of-core")...)
	compare("ep", "got.parquet")
	ok(t, args("kept.parquet", "-q")...)
	for what, room := range map[string]int64{"all at once": 0, "parts": 7000, "passes": 2000, "passes alone": 1} {
		roomForRows = room
		r := ok(t, args("got.parquet", "--out-of-core")...)
		compare(what, "got.parquet")
		if by := strings.Contains(r.stderr, "groups go on"); by && room == 0 {
			t.Errorf("%s: %s", what, r.stderr)
		}
		if !strings.Contains(r.stdout, "groups") {
			t.Errorf("%s: %s", what, r.stdout)
		}
	}
	// What a run leaves that was killed: small groups, one large one, and another around a fit
	// that is not the last.
	roomForRows = 2000
	out := filepath.Join(dir, "again.parquet")
	ok(t, "fit", "--data", data, "--formula", "y ~ ad + x", "--group", "g, h", "--method", "laplace", "--where", "g <> 'g3' OR h", "--out", passFile(out), "-q")
	r := ok(t, args("again.parquet", "--out-of-core")...)
	compare("again", "again.parquet")
	if strings.Contains(r.stderr, "pass 1") {
		t.Error(r.stderr)
	}
	for want, more := range map[string][]string{
		"--partial takes a pass for one fit": {"--partial"},
		"its groups are (":                   {"--out-of-core", "--around", filepath.Join(dir, "one.parquet")},
	} {
		ok(t, "fit", "--data", data, "--formula", "y ~ ad + x", "--method", "laplace", "--out", filepath.Join(dir, "one.parquet"), "-q")
		if r := bglm(t, "", args("no.parquet", more...)...); r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %d: %s", more, r.code, r.stderr)
		}
	}
}

// Responses that a number separates: the passes end, if slowly, with a sentence that the Gaussian
// at the mode is not the posterior.
func TestOutOfCoreSeparated(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d.parquet")
	query(t, "COPY (SELECT i > 1000 AS y, i AS x, 'g' || i % 3 AS g FROM range(2000) t(i)) TO '"+data+"'")
	r := ok(t, "fit", data, "-f", "y ~ x + g", "--out-of-core", "--out", filepath.Join(filepath.Dir(data), "f.parquet"))
	if s := r.stdout + r.stderr; !strings.Contains(s, "the responses are almost separated") {
		t.Error(s)
	}
}
