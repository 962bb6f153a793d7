package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// Files of fits of every layout, single and grouped, predict what they did when they
// were made, and serve as a prior and as parts of a merge.
func TestStoredFits(t *testing.T) {
	kerneltest.Slow(t)
	for _, dir := range kerneltest.FitFolders(t) {
		files, err := filepath.Glob(filepath.Join(dir, "predictions", "*.csv"))
		if err != nil || len(files) < 20 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		tmp := t.TempDir()
		in := func(name string) string { return filepath.Join(dir, name) }
		rows := in("rows.csv")
		for _, path := range files {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(path), ".csv")
			tol := 1e-9
			if strings.HasPrefix(name, "softmax") {
				tol = 1e-7 // the answers are of a finer grid: the error that softmax.Probabilities documents
			}
			if name == "softmax_groups" {
				tol = 3e-5 // four classes: of 0.25, the error of the lattice that made them and of today's rule
			}
			for _, form := range []string{"kinds/" + name + ".parquet", "kinds/" + name + ".arrow", name + ".parquet", name + ".arrow", name + ".duckdb.gz"} {
				fit := in(form)
				if _, err := os.Stat(fit); err != nil {
					continue
				}
				if strings.HasSuffix(fit, ".gz") {
					fit = gunzip(t, fit)
				}
				args := []string{"predict", "-q", "--beliefs", fit, rows, "--columns", "none"}
				if strings.Contains(string(want), "eta_mean") {
					args = append(args, "--dist")
				}
				out := filepath.Join(tmp, "out.csv")
				os.Remove(out)
				if r := bglm(t, "", append(args, "--out", out)...); r.code != 0 {
					t.Errorf("layout %s: %s: %s", filepath.Base(dir), form, r.stderr)
					continue
				}
				got, err := os.ReadFile(out)
				if err == nil {
					err = kerneltest.SameAnswer(sorted(got), sorted(want), tol) // a join by group keeps no order
				}
				if err != nil {
					t.Errorf("layout %s: %s: %v", filepath.Base(dir), form, err)
				}
			}
		}
		// Twice the same part, from different files, merged by either path.
		for _, parts := range [][2]string{{"kinds/adf_full.parquet", "kinds/adf_full.arrow"}, {"groups.parquet", "groups.arrow"}} {
			ok(t, "merge", "-q", in(parts[0]), in(parts[1]), "--out", filepath.Join(tmp, "merged.parquet"))
		}
		// Plain tables read with the model they belong to.
		for _, plain := range []string{"plain.csv", "plain.json"} {
			out := filepath.Join(tmp, "plain.csv")
			os.Remove(out)
			ok(t, "predict", "-q", "--beliefs", in(plain), "-o", "family=bernoulli", rows, "--x", "{a: u, s: s}", "--columns", "none", "--dist", "--out", out)
			got, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(in("predictions/adf_diagonal.csv"))
			if err == nil {
				err = kerneltest.SameAnswer(string(got), string(want), 1e-9)
			}
			if err != nil {
				t.Errorf("%s: %v", plain, err)
			}
		}
		for _, prior := range []string{"group.parquet", "group.arrow", "group.duckdb.gz"} {
			from := in(prior)
			if strings.HasSuffix(from, ".gz") {
				from = gunzip(t, from)
			}
			out := filepath.Join(tmp, "on.parquet")
			os.Remove(out)
			ok(t, "fit", "-q", in("d.parquet"), "--order", "i", "--formula", "y ~ u + s", "--group", "g1", "--prior", from, "--out", out)
			if got := query(t, "SELECT count(DISTINCT g1), count(*) FROM '"+out+"'"); got != "3,21" {
				t.Errorf("continued from %s: %s", prior, got)
			}
		}
	}
}

// Files of one fit and of groups have one form, which keeps fits without beliefs and what
// fits remember of columns, and is read by SQL alone.
func TestOneFormOfFiles(t *testing.T) {
	kerneltest.Slow(t)
	dir := kerneltest.FitFolders(t)[0]
	data := filepath.Join(dir, "d.parquet")
	tmp := t.TempDir()
	in := func(name string) string { return filepath.Join(tmp, name) }
	for _, ext := range []string{".parquet", ".arrow"} {
		ok(t, "fit", "-q", data, "--y", "CASE WHEN g1 > 0 THEN y END", "--x", "{a: u}", "-m", "adf", "-o", "intercept=false", "-o", "covariance=diagonal", "--group", "g1", "--out", in("groups"+ext))
		ok(t, "fit", "-q", data, "--y", "NULL::BOOLEAN", "--x", "{a: u}", "-m", "adf", "-o", "intercept=false", "-o", "covariance=diagonal", "--out", in("none"+ext))
		ok(t, "fit", "-q", data, "--y", "y", "--x", "{a: u}", "-m", "adf", "-o", "covariance=full", "-o", "prior_variance=1", "--out", in("one"+ext))
	}
	ok(t, "fit", "-q", data, "--y", "y", "--x", "{a: u, b: CASE WHEN g1 > 0 THEN 'p' ELSE 'q' END}", "-m", "adf", "-o", "covariance=arrowhead", "--out", in("arrow.parquet"))
	for file, want := range map[string]string{
		"groups.parquet": "g1 BIGINT, feature VARCHAR, mean DOUBLE, variance DOUBLE, covariance DOUBLE[], fit VARCHAR",
		"one.parquet":    "feature VARCHAR, mean DOUBLE, variance DOUBLE, covariance DOUBLE[], fit VARCHAR",
		"none.parquet":   "feature VARCHAR, mean DOUBLE, variance DOUBLE, covariance DOUBLE[], fit VARCHAR",
	} {
		if got := query(t, "SELECT string_agg(column_name || ' ' || column_type, ', ') FROM (DESCRIBE FROM '"+in(file)+"')"); strings.Trim(got, `"`) != want {
			t.Errorf("%s has %s, want %s", file, got, want)
		}
	}
	// What Go and DuckDB write of a fit is the same.
	var f *kernels.Fit
	for _, name := range []string{"arrow", "one"} {
		var err error
		if f, _, err = arrowio.ReadFitFile(in(name+".parquet"), nil); err != nil {
			t.Fatal(err)
		}
		if err := arrowio.WriteParquetFile(in("go.parquet"), f); err != nil {
			t.Fatal(err)
		}
		if got := query(t, "SELECT count(*) FROM (FROM '"+in("go.parquet")+"' EXCEPT ALL FROM '"+in(name+".parquet")+"')"); got != "0" {
			t.Errorf("%s: %s rows of Go are not those of DuckDB", name, got)
		}
	}
	for _, ext := range []string{".parquet", ".arrow"} {
		if f, _, err := arrowio.ReadFitFile(in("none"+ext), nil); err != nil || f.Skipped != 120 || len(f.Beliefs) != 0 {
			t.Errorf("a fit without beliefs: %+v, %v", f, err)
		}
		if _, _, err := arrowio.ReadFitFile(in("groups"+ext), nil); err == nil || !strings.Contains(err.Error(), "without groups") {
			t.Errorf("groups as one fit: %v", err)
		}
		// Each group goes on from its own fit, the one without beliefs too.
		ok(t, "fit", "-q", data, "--y", "CASE WHEN g1 > 0 THEN y END", "--x", "{a: u}", "-m", "adf", "-o", "covariance=diagonal", "--group", "g1", "--prior", in("groups"+ext), "--out", in("on.parquet"))
		if got := query(t, "SELECT string_agg(g1 || ':' || (fit->>'n') || ':' || (fit->>'n_skipped'), ' ' ORDER BY g1) FROM '"+in("on.parquet")+"' WHERE fit IS NOT NULL"); got != "0:0:80 1:80:0 2:80:0" {
			t.Errorf("continued from groups%s: %s", ext, got)
		}
	}
	// Columns go through files, merges and continued fits.
	f.Columns = []kernels.FitColumn{{Name: "a", Kind: kernels.NumberColumn, N: 120, Missing: 2, Center: 0.25, Scale: 2, Variance: math.NaN()}}
	if err := arrowio.WriteParquetFile(in("columns.parquet"), f); err != nil {
		t.Fatal(err)
	}
	ok(t, "merge", "-q", in("columns.parquet"), in("columns.parquet"), "--out", in("merged.arrow"))
	ok(t, "fit", "-q", data, "--y", "y", "--x", "{a: u}", "-m", "adf", "-o", "covariance=full", "--prior", in("merged.arrow"), "--out", in("continued.parquet"))
	if got := query(t, "SELECT fit->'columns' FROM '"+in("continued.parquet")+"' LIMIT 1"); !strings.HasPrefix(got, `"[{""name"":""a"",""kind"":""number"",""n"":360,""missing"":4,`) {
		t.Errorf("columns: %s", got)
	}
	// A file of a layout to come is refused with what to do.
	query(t, fmt.Sprintf("COPY (SELECT * REPLACE (replace(fit, '\"format\":%d', '\"format\":%d') AS fit) FROM '", kernels.FitFormat, kernels.FitFormat+1)+in("one.parquet")+"') TO '"+in("newer.parquet")+"' (KV_METADATA {'bglm.schema': '3'})")
	if r := bglm(t, "", "predict", "--beliefs", in("newer.parquet"), data, "--out", in("p.csv")); r.code != 1 || !strings.Contains(r.stderr, "update bglm") {
		t.Errorf("%+v", r)
	}
	if _, _, err := arrowio.ReadFitFile(in("newer.parquet"), nil); !errors.Is(err, arrowio.ErrVersion) || !strings.Contains(err.Error(), "update bglm") {
		t.Errorf("a newer layout: %v", err)
	}
}

func sorted(text []byte) string {
	lines := strings.Split(string(text), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// gunzip is the path of an unpacked copy.
func gunzip(t *testing.T, path string) string {
	t.Helper()
	return file(t, strings.TrimSuffix(filepath.Base(path), ".gz"), string(kerneltest.Gunzip(t, path)))
}
