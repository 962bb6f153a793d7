package duck

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/cmd/internal/cli"
)

// DuckDB's own stack and the SQL of statements that nobody wrote stay out.
func TestPlainly(t *testing.T) {
	for in, want := range map[string]string{
		"INTERNAL Error: Attempted to access index 3\n\nStack Trace:\n\n/lib/libduckdb.so(+0x1)": "damaged, or a fault of DuckDB, which says: Attempted to access index 3",
		"IO Error: no\n\nLINE 1: SELECT 1\n         ^":                                           "IO Error: no",
		"Binder Error: no\n\nLINE 1: SELECT 1\n         ^":                                       "Binder Error: no\n\nLINE 1: SELECT 1\n         ^",
		"Out of Memory Error: no":                                                                "Out of Memory Error: no",
	} {
		err := errors.New(in)
		if got := Plainly(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestSession(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	s, err := Open(&cli.Env{Ctx: ctx, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Long("making", "CREATE TABLE t AS SELECT i, 'x' || i AS name FROM range(3) r(i)"); err != nil {
		t.Fatal(err)
	}
	cols, err := s.Describe("FROM t")
	if err != nil || len(cols) != 2 || cols[0] != (Column{"i", "BIGINT"}) || strings.Join(Names(cols), " ") != "i name" {
		t.Errorf("%v (%v)", cols, err)
	}
	var sum int
	if err := s.Each("FROM t", func(scan func(...any) error) error {
		var i int
		var name string
		err := scan(&i, &name)
		sum += i
		return err
	}); err != nil || sum != 3 {
		t.Errorf("sum %d (%v)", sum, err)
	}
	installs := true
	if err := s.Row("SELECT current_setting('autoinstall_known_extensions')", &installs); err != nil || installs {
		t.Errorf("DuckDB would fetch its extensions (%v)", err)
	}
	var version string
	if err := s.Row("SELECT bglm_version()", &version); err != nil || version == "" {
		t.Errorf("%q (%v)", version, err)
	}
	other, err := Open(&cli.Env{Ctx: ctx, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	spills := map[string]bool{".tmp": true} // DuckDB's, where processes read each other's blocks
	for _, s := range []*Session{s, other} {
		var folder string
		if err := s.Row("SELECT current_setting('temp_directory')", &folder); err != nil || spills[folder] {
			t.Errorf("spills to %q (%v)", folder, err)
		}
		spills[folder] = true
	}
	bar := s.Counter("counting")
	bar.Set(1)
	bar.Finish()
	if errs.Len() > 0 {
		t.Errorf("without a terminal it said %q", errs.String())
	}
	// An ended context is told as what the user did.
	cancel()
	if err := s.Exec("SELECT 1"); err == nil || err.Error() != "interrupted; nothing was written" {
		t.Errorf("%v", err)
	}
	s.Close()
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", s.Dir, err)
	}
}

// A statement that does not give way is left behind, and nothing else waits for it or runs beside
// it.
func TestLeftBehind(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer func(was time.Duration) { patience = was }(patience)
	patience = time.Millisecond
	s, err := Open(&cli.Env{Ctx: ctx, Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, true)
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	if err := s.runOrAbandon(func() error {
		cancel()
		<-release // as DuckDB in a step that does not ask
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("left behind, it gives %v", err)
	}
	var n int
	for name, run := range map[string]func() error{
		"Exec":   func() error { return s.Exec("SELECT 1") },
		"Row":    func() error { return s.Row("SELECT 1", &n) },
		"Commit": s.Commit,
	} {
		if err := run(); !errors.Is(err, cli.ErrInterrupted) {
			t.Errorf("%s after that gives %v", name, err)
		}
	}
	if err := s.Undo("ROLLBACK"); !errors.Is(err, context.Canceled) {
		t.Errorf("ROLLBACK after that gives %v", err)
	}
	s.Close()
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", s.Dir, err)
	}
	if err := s.Conn.PingContext(t.Context()); err != nil {
		t.Errorf("the database was closed below a statement: %v", err)
	}
	close(release)
	for s.Conn.PingContext(t.Context()) == nil { // until it is closed
		time.Sleep(time.Millisecond)
	}
}
