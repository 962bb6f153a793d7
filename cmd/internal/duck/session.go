// Package duck is the database of a batch command: one DuckDB in memory with the bglm
// functions loaded, a folder for temporary files, progress bars, Ctrl-C, and errors
// in words that do not show SQL which the user never wrote.
package duck

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // the driver "duckdb"
	"github.com/duckdb/duckdb-go/v2/mapping"
	"github.com/schollz/progressbar/v3"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/udf"
)

// Session is one DuckDB in memory with the functions loaded, and a folder for
// temporary files. One goroutine may use it.
type Session struct {
	// Ctx ends with Ctrl-C, and with the command.
	Ctx  context.Context
	Env  *cli.Env
	Conn *sql.Conn
	// Dir is removed by Close.
	Dir string
	// Spooled is the copy of the standard input, once it is read.
	Spooled struct{ Path, Kind string }
	// CSVSafe prefixes what a spreadsheet would run in the CSV files that are written.
	CSVSafe bool

	stop   context.CancelFunc
	done   func() // of what makes Ctx end bglm functions
	db     *sql.DB
	bar    bool
	raw    mapping.Connection // for the progress of a query; its Ptr may be nil
	closed atomic.Bool
	left   chan error // of a statement that was left behind, nil before
	reads  []reading
}

// reading is a file of rows as it was before any of them was read.
type reading struct {
	name string
	was  os.FileInfo
}

// patience is how long a statement has to give way after Ctrl-C. DuckDB asks between its steps,
// some of which take seconds: packing a text of a gigabyte, giving back what a query held.
var patience = 100 * time.Millisecond

// Open opens the database. Ctrl-C ends its queries; a second one the process. quiet
// is without progress bars.
func Open(e *cli.Env, quiet bool) (_ *Session, err error) {
	s := &Session{Env: e, bar: !quiet && cli.IsTerminal(e.Stderr)}
	s.Ctx, s.stop = signal.NotifyContext(e.Ctx, os.Interrupt)
	s.done = udf.Interruptible(s.Ctx)
	context.AfterFunc(s.Ctx, func() {
		s.stop()
		time.AfterFunc(time.Second, func() {
			if !s.closed.Load() {
				fmt.Fprintf(e.Stderr, "bglm: %s; nothing is written\n", shell.Waiting())
			}
		})
	})
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.Dir, err = files.TempFolder(); err != nil {
		return nil, err
	}
	if s.db, err = sql.Open("duckdb", shell.NoDownloads); err != nil {
		return nil, err
	}
	if s.Conn, err = s.db.Conn(s.Ctx); err != nil {
		return nil, err
	}
	if err := udf.Register(s.Ctx, s.db); err != nil {
		return nil, s.Failed(err) // warming up runs functions, which the user's end ends too
	}
	progress := "" // DuckDB's thread that waits asks for it all the time
	if s.bar {
		s.raw = rawConnection(s.Conn)
		progress = "; SET enable_progress_bar = true; SET enable_progress_bar_print = false"
	}
	return s, s.Exec("SET temp_directory = " + quote.Text(filepath.Join(s.Dir, "spill")) + progress)
}

// await runs f, which uses the database. Once the user has ended the job and f does not give way,
// it is left behind, and the session is of no more use: the process ends without waiting for it. What f
// writes may not be read then.
func (s *Session) await(f func() error) error {
	if s.left != nil {
		return s.Ctx.Err()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-s.Ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		s.left = done
		return s.Ctx.Err()
	}
}

// Close ends the queries and removes the temporary files. After Ctrl-C it does not wait for the database
// longer than for a statement, and not for what waits for one.
func (s *Session) Close() {
	s.closed.Store(true)
	interrupted := s.Ctx.Err() != nil
	s.stop()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if s.left != nil {
			<-s.left
		}
		if s.Conn != nil {
			s.Conn.Close()
		}
		if s.db != nil {
			s.db.Close()
		}
		s.done() // not before: functions of a statement that was left behind are to end
	}()
	switch {
	case !interrupted:
		<-closed
	case s.left == nil: // else it is not closed soon
		select {
		case <-closed:
		case <-time.After(patience / 2):
		}
	}
	if s.Dir != "" {
		os.RemoveAll(s.Dir)
	}
}

// rawConnection finds the driver's handle, which it has no accessor for; without
// it there is no progress bar.
func rawConnection(c *sql.Conn) (out mapping.Connection) {
	_ = c.Raw(func(d any) error {
		v := reflect.ValueOf(d)
		if v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
			if f := v.Elem().FieldByName("conn"); f.IsValid() && f.Type() == reflect.TypeFor[mapping.Connection]() {
				out.Ptr = f.FieldByName("Ptr").UnsafePointer()
			}
		}
		return nil
	})
	return out
}

// Failed turns what DuckDB said into the command's error.
func (s *Session) Failed(err error) error {
	if err == nil {
		return nil
	}
	if s.Ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	return Plainly(err)
}

// Interrupted is an error once the user has ended the job: nothing is written from then on.
func (s *Session) Interrupted() error {
	if s.Ctx.Err() == nil {
		return nil
	}
	return s.Failed(s.Ctx.Err())
}

// Reads notes a file before rows of it are read: Unchanged asks whether it is the same.
func (s *Session) Reads(name string) {
	if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
		s.reads = append(s.reads, reading{name, st})
	}
}

// Unchanged is an error where a file of rows is another one than when the job began: what was made of it is of some rows
// of one and some of the other, or of the part that was left.
func (s *Session) Unchanged() error {
	for _, r := range s.reads {
		if now, err := os.Stat(r.name); err != nil || now.Size() != r.was.Size() || !now.ModTime().Equal(r.was.ModTime()) {
			return fmt.Errorf("%s changed while it was read", r.name)
		}
	}
	return nil
}

// Exec runs statements.
func (s *Session) Exec(query string, args ...any) error {
	return s.Failed(s.await(func() error {
		_, err := s.Conn.ExecContext(s.Ctx, query, args...)
		return err
	}))
}

// Commit ends a transaction. It is not left behind after Ctrl-C: nobody would know what became of it.
func (s *Session) Commit() error {
	if s.left != nil {
		return s.Interrupted()
	}
	_, err := s.Conn.ExecContext(s.Ctx, "COMMIT")
	return s.Failed(err)
}

// Undo runs a statement that takes back what others did, after Ctrl-C too.
func (s *Session) Undo(query string) error {
	return s.await(func() error {
		_, err := s.Conn.ExecContext(s.Env.Ctx, query)
		return err
	})
}

// rows are those of a query; close them.
func (s *Session) rows(query string) (*sql.Rows, error) {
	var rows *sql.Rows
	err := s.await(func() (err error) {
		rows, err = s.Conn.QueryContext(s.Ctx, query)
		return err
	})
	if err != nil {
		return nil, s.Failed(err)
	}
	return rows, nil
}

// Long is exec with a progress bar.
func (s *Session) Long(what, query string) error {
	if !s.bar || s.raw.Ptr == nil {
		return s.Exec(query)
	}
	bar := progressbar.NewOptions(100, progressbar.OptionSetWriter(s.Env.Stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(150 * time.Millisecond); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
				p := mapping.QueryProgress(s.raw)
				if percent, _, _ := mapping.QueryProgressTypeMembers(&p); percent > 0 {
					_ = bar.Set(int(percent))
				}
			}
		}
	}()
	err := s.Exec(query)
	close(done)
	<-stopped
	_ = bar.Finish()
	return err
}

// Row scans the one row of a query.
func (s *Session) Row(query string, dst ...any) error {
	rows, err := s.rows(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return s.Failed(cmp.Or(rows.Err(), sql.ErrNoRows))
	}
	if err := rows.Scan(dst...); err != nil {
		return s.Failed(err)
	}
	return s.Failed(rows.Close())
}

// Each visits the rows of a query, which scan reads.
func (s *Session) Each(query string, visit func(scan func(...any) error) error) error {
	rows, err := s.rows(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows.Scan); err != nil {
			return s.Failed(err)
		}
	}
	return s.Failed(rows.Err())
}

// Texts are the rows of a query of one column of texts.
func (s *Session) Texts(query string) (out []string, err error) {
	err = s.Each(query, func(scan func(...any) error) error {
		var t string
		err := scan(&t)
		out = append(out, t)
		return err
	})
	return out, err
}

// Column is a column of a relation: its name and SQL type.
type Column struct{ Name, Type string }

// Describe is the names and types of a query's columns.
func (s *Session) Describe(query string) ([]Column, error) {
	var out []Column
	err := s.Each("SELECT column_name, column_type FROM (DESCRIBE "+query+")", func(scan func(...any) error) error {
		var c Column
		err := scan(&c.Name, &c.Type)
		out = append(out, c)
		return err
	})
	return out, err
}

// Names are those of columns.
func Names(cols []Column) []string {
	var out []string
	for _, c := range cols {
		out = append(out, c.Name)
	}
	return out
}

// Counter is a progress bar over rows of an unknown number.
type Counter struct{ bar *progressbar.ProgressBar }

// Counter starts a bar, which shows nothing where the session has none.
func (s *Session) Counter(what string) *Counter {
	if !s.bar {
		return &Counter{}
	}
	return &Counter{progressbar.NewOptions64(-1, progressbar.OptionSetWriter(s.Env.Stderr), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))}
}

// Set says how many rows are done.
func (c *Counter) Set(n int64) {
	if c.bar != nil {
		_ = c.bar.Set64(n)
	}
}

// Finish removes the bar.
func (c *Counter) Finish() {
	if c.bar != nil {
		_ = c.bar.Finish()
	}
}
