package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// Files of fits of every layout, single and grouped, predict what they did when they
// were made, and serve as a prior and as parts of a merge.
func TestStoredFits(t *testing.T) {
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
			if testing.Short() && !strings.Contains("adf_full softmax gp group groups", name) {
				continue
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
					err = kerneltest.SameAnswer(sorted(got), sorted(want), 1e-9) // a join by group keeps no order
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
			ok(t, "predict", "-q", "--beliefs", in(plain), rows, "--x", "{a: u, s: s}", "--columns", "none", "--dist", "--out", out)
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

func sorted(text []byte) string {
	lines := strings.Split(string(text), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// gunzip is the path of an unpacked copy.
func gunzip(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, strings.TrimSuffix(filepath.Base(path), ".gz"), string(b))
}
