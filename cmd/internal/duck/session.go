// Package duck is the database of a batch command: one DuckDB in memory with the bglm functions
// loaded, a folder for temporary files, progress bars, Ctrl-C, and error messages without SQL that
// the user did not write.
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

// Session is one DuckDB in memory with the functions loaded, and a folder for temporary files. It
// is used by one goroutine.
type Session struct {
	// Ctx ends with Ctrl-C, and with the command.
	Ctx  context.Context
	Env  *cli.Env
	Conn *sql.Conn
	// Dir is the temporary folder, removed by Close.
	Dir string
	// Spooled is the copy of the standard input, once it has been read.
	Spooled struct{ Path, Kind string }
	// CSVSafe prefixes text in CSV output that a spreadsheet would run as a formula.
	CSVSafe bool

	stop   context.CancelFunc
	done   func() // undoes udf.Interruptible
	db     *sql.DB
	bar    bool
	raw    mapping.Connection // for the progress of a query; its Ptr may be nil
	closed atomic.Bool
	left   chan error // result of a statement that was left behind, nil before
	reads  []reading
}

// reading is the state of a file of rows before any of it was read.
type reading struct {
	name string
	was  os.FileInfo
}

// patience is how long a statement may take to stop after Ctrl-C. DuckDB checks between its steps,
// some of which take seconds: compressing a text of a gigabyte, freeing what a query held.
var patience = 100 * time.Millisecond

// Open opens the database. Ctrl-C ends its queries; a second one the process. quiet turns progress
// bars off.
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
		return nil, s.Failed(err) // warming up runs functions, which an interrupt stops too
	}
	progress := "" // DuckDB's waiting thread polls it all the time
	if s.bar {
		s.raw = rawConnection(s.Conn)
		progress = "; SET enable_progress_bar = true; SET enable_progress_bar_print = false"
	}
	return s, s.Exec("SET temp_directory = " + quote.Text(filepath.Join(s.Dir, "spill")) + progress)
}

// runOrAbandon runs f, which uses the database. If the user has stopped the job and f does not
// return, it is left behind, and the session must not be used any more: the process ends without
// waiting for it. What f writes must not be read then.
func (s *Session) runOrAbandon(f func() error) error {
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

// Close ends the queries and removes the temporary files. After Ctrl-C it waits for the database no
// longer than for a statement, and not at all if a statement was left behind.
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
		s.done() // not earlier: the interrupt must reach the functions of a statement that was left behind
	}()
	switch {
	case !interrupted:
		<-closed
	case s.left == nil: // else it will not be closed soon
		select {
		case <-closed:
		case <-time.After(patience / 2):
		}
	}
	if s.Dir != "" {
		os.RemoveAll(s.Dir)
	}
}

// rawConnection finds the driver's handle, for which there is no accessor; without it there is no
// progress bar.
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

// Failed turns an error from DuckDB into the command's error.
func (s *Session) Failed(err error) error {
	if err == nil {
		return nil
	}
	if s.Ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	return Plainly(err)
}

// Interrupted returns an error once the user has stopped the job: nothing is written from then on.
func (s *Session) Interrupted() error {
	if s.Ctx.Err() == nil {
		return nil
	}
	return s.Failed(s.Ctx.Err())
}

// Reads records the state of a file before rows of it are read, for Unchanged.
func (s *Session) Reads(name string) {
	if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
		s.reads = append(s.reads, reading{name, st})
	}
}

// Unchanged returns an error if a file of rows has changed since the job began: the result is then
// from a mixture of its versions, or from a truncated one.
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
	return s.Failed(s.runOrAbandon(func() error {
		_, err := s.Conn.ExecContext(s.Ctx, query, args...)
		return err
	}))
}

// Commit ends a transaction. It is not left behind after Ctrl-C, since its outcome would be unknown.
func (s *Session) Commit() error {
	if s.left != nil {
		return s.Interrupted()
	}
	_, err := s.Conn.ExecContext(s.Ctx, "COMMIT")
	return s.Failed(err)
}

// Undo runs a statement that reverts the effect of others, even after Ctrl-C.
func (s *Session) Undo(query string) error {
	return s.runOrAbandon(func() error {
		_, err := s.Conn.ExecContext(s.Env.Ctx, query)
		return err
	})
}

// rows are the rows of a query, which the caller must close.
func (s *Session) rows(query string) (*sql.Rows, error) {
	var rows *sql.Rows
	err := s.runOrAbandon(func() (err error) {
		rows, err = s.Conn.QueryContext(s.Ctx, query)
		return err
	})
	if err != nil {
		return nil, s.Failed(err)
	}
	return rows, nil
}

// Long is Exec with a progress bar.
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

// Row scans the only row of a query.
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

// Each visits the rows of a query; scan reads the current one.
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

// Texts returns the rows of a query with one text column.
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

// Describe returns the names and types of a query's columns.
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

// Names returns the names of columns.
func Names(cols []Column) []string {
	var out []string
	for _, c := range cols {
		out = append(out, c.Name)
	}
	return out
}

// Counter is a progress bar over rows of an unknown number.
type Counter struct{ bar *progressbar.ProgressBar }

// Counter starts a bar, which is silent if the session has no progress bars.
func (s *Session) Counter(what string) *Counter {
	if !s.bar {
		return &Counter{}
	}
	return &Counter{progressbar.NewOptions64(-1, progressbar.OptionSetWriter(s.Env.Stderr), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))}
}

// Set sets the number of rows done.
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
