package files

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What is written under another name until it is whole matches no glob over data, and
// goes with the next run when its owner is gone.
func TestTemporaryNames(t *testing.T) {
	dir := t.TempDir()
	var errs bytes.Buffer
	for _, name := range []string{"s.parquet", "b.arrow", "b.csv", "b.json", "m.duckdb", "page.html", strings.Repeat("n", 240) + ".csv"} {
		target := filepath.Join(dir, name)
		err := Atomically(target, &errs, func(tmp string) error {
			if filepath.Dir(tmp) != dir {
				t.Errorf("%s is not beside %s", tmp, target)
			}
			if err := os.WriteFile(tmp, []byte("half"), 0o600); err != nil {
				return err
			}
			for ext := range extensions {
				for _, glob := range []string{"*", ".*", "*.*", name[:1] + "*", "." + name[:1] + "*"} {
					if found, _ := filepath.Glob(filepath.Join(dir, glob+ext)); len(found) > 0 {
						t.Errorf("%s matches %v", glob+ext, found)
					}
				}
			}
			for _, glob := range []string{"*", ".*", "**/*", "**/.*"} {
				if found, _ := Expand(filepath.Join(dir, glob)); len(found) > 0 {
					t.Errorf("%s expands to %v", glob, found)
				}
			}
			return errors.New("fails")
		})
		if err == nil || err.Error() != "fails" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Fatalf("after errors there is %v", left)
	}
	// A child that has ended, this process, and another machine.
	child := exec.Command(os.Args[0], "-test.run", "^$")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "s.parquet")
	leave := func(host string, pid int, suffix string, age time.Duration) string {
		p := filepath.Join(dir, fmt.Sprintf(".s.parquet.%s-%d-123%s%s", host, pid, tempExt, suffix))
		if err := os.WriteFile(p, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(p, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	dead := []string{leave(tempHost(), child.Process.Pid, "", 0), leave(tempHost(), child.Process.Pid, ".wal", 0)}
	live := leave(tempHost(), os.Getpid(), "", 48*time.Hour)
	elsewhere, recent := leave("0badcafe", 12345, "", 48*time.Hour), leave("0badcafe", 12346, "", 0)
	err := Atomically(target, &errs, func(tmp string) error { return os.WriteFile(tmp, []byte("whole"), 0o600) })
	if b, _ := os.ReadFile(target); err != nil || string(b) != "whole" {
		t.Errorf("%v, %q", err, b)
	}
	for _, f := range dead {
		if _, err := os.Stat(f); err == nil {
			t.Errorf("%s is still there", f)
		}
	}
	for _, f := range []string{live, elsewhere, recent} {
		if _, err := os.Stat(f); err != nil {
			t.Error(err)
		}
	}
	if s := errs.String(); !strings.Contains(s, elsewhere) || strings.Count(s, "\n") != 1 {
		t.Errorf("said: %q", s)
	}
}

// A session's folder that cannot be says which variable names its place.
func TestTempFolder(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	t.Setenv("TMPDIR", nowhere)
	if dir, err := TempFolder(); err == nil || !strings.Contains(err.Error(), nowhere) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("%s, %v", dir, err)
	}
}

func TestKindOf(t *testing.T) {
	for name, want := range map[string]string{"a.parquet": "parquet", "A.CSV": "csv", "a.csv.gz": "csv", "a.json.zst": "json", "a.parquet.gz": "", "a.arrows": "arrow", "a": "", "a.b/c": ""} {
		if got := KindOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for text, want := range map[string]string{"PAR1...": "parquet", "ARROW1": "arrow", "\xff\xff\xff\xff\x10": "arrow", " \n[1]": "json", "a,b": "csv", "": "csv"} {
		if got := Sniff(bufio.NewReader(strings.NewReader(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "2024", "01")
	if err := errors.Join(os.MkdirAll(deep, 0o755), os.WriteFile(filepath.Join(deep, "a.csv"), nil, 0o600), os.WriteFile(filepath.Join(dir, "b.csv"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]int{"*.csv": 1, "**/*.csv": 2, "**/01/*.csv": 1, "2024/**/a.csv": 1, "*.json": 0} {
		if got, err := Expand(filepath.Join(dir, pattern)); err != nil || len(got) != want {
			t.Errorf("%s: %v (%v), want %d", pattern, got, err, want)
		}
	}
}

// A damaged file is named with what is wrong about it; the command's tests have more.
func TestCheck(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(strings.Repeat("y,x\n1,2\n", 1000)))
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"empty.csv":   {"", "the file is empty"},
		"a.parquet":   {"no", "not a Parquet file"},
		"b.parquet":   {"PAR1 and nothing more", "ends with the bytes PAR1"},
		"a.duckdb":    {"text", "not a DuckDB database"},
		"line.csv":    {"y,x\n1,2\n3", "its last line, 3, has 1 of 2 fields"},
		"quote.csv":   {"y,x\n1,\"2", "the quotation in line 2 has no end"},
		"whole.csv":   {"y,x\n1,2\n3,4", ""},
		"little.csv":  {"\xff\xfey\x00,\x00x\x00\n\x00", "text in UTF-16; allowed: UTF-8"},
		"big.json":    {"\xfe\xff\x00{\x00}", "text in UTF-16; allowed: UTF-8"},
		"mark.csv":    {"\ufeffy,x\n1,2\n", ""},
		"cut.csv.gz":  {packed.String()[:packed.Len()/2], "cut off or half-written"},
		"good.csv.gz": {packed.String(), ""},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Check(path, KindOf(name))
		if (err == nil) != (c.want == "") || err != nil && !(strings.Contains(err.Error(), c.want) && strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if fields, raw := CSVHeader(filepath.Join(dir, "whole.csv")); len(fields) != 2 || raw != "y,x" {
		t.Errorf("%q, %q", fields, raw)
	}
	if err := Check(dir, "csv"); err == nil || !strings.Contains(err.Error(), "a folder") {
		t.Errorf("%v", err)
	}
}

// A file is written where a symbolic link leads, which stays one.
func TestThroughLinks(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	for _, err := range []error{
		os.Mkdir(path("far"), 0o755), os.WriteFile(path("far/old.html"), []byte("old"), 0o640),
		os.Symlink("far/old.html", path("a.html")), os.Symlink("a.html", path("b.html")), os.Symlink("far/new.html", path("c.html")),
		os.Symlink("far", path("d")), os.Symlink("../up.html", path("far/up.html")), os.Symlink("round.html", path("round.html")),
	} {
		if err != nil {
			t.Skip(err) // where links are not for everyone
		}
	}
	for link, to := range map[string]string{"a.html": "far/old.html", "b.html": "far/old.html", "c.html": "far/new.html", "d/plain.html": "far/plain.html", "d/up.html": "up.html"} {
		if err := Create(path(link), nil, func(w io.Writer) error { _, err := io.WriteString(w, link); return err }); err != nil {
			t.Errorf("%s: %v", link, err)
			continue
		}
		b, err := os.ReadFile(path(to))
		st, e := os.Lstat(path(to))
		if err != nil || e != nil || string(b) != link || !st.Mode().IsRegular() || to == "far/old.html" && st.Mode().Perm() != 0o640 {
			t.Errorf("%s: %q (%v, %v)", to, b, err, e)
		}
	}
	for _, link := range []string{"a.html", "b.html", "c.html", "d", "far/up.html"} {
		if st, err := os.Lstat(path(link)); err != nil || st.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more (%v)", link, err)
		}
	}
	if err := Create(path("round.html"), nil, func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), "leads nowhere") {
		t.Error(err)
	}
}
