package main

import (
	"context"
	"database/sql"
	"errors"
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

	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/udf"
)

// outputFlags are common to the batch commands.
type outputFlags struct {
	Quiet bool `short:"q" help:"No progress bar and no summary."`
	JSON  bool `name:"json" help:"Print the summary as JSON."`
}

// session is one DuckDB in memory with the functions loaded, and a folder for
// temporary files.
type session struct {
	ctx  context.Context
	stop context.CancelFunc
	done func() // of what makes ctx end bglm functions
	e    *env
	db   *sql.DB
	conn *sql.Conn
	dir  string
	bar  bool
	raw  mapping.Connection // for the progress of a query; its Ptr may be nil

	csvSafe bool // see csvFlags

	closed atomic.Bool
}

// openSession opens the database. Ctrl-C ends its queries; a second one the
// process.
func openSession(e *env, quiet bool) (_ *session, err error) {
	s := &session{e: e, bar: !quiet && isTerminal(e.stderr)}
	s.ctx, s.stop = signal.NotifyContext(e.ctx, os.Interrupt)
	s.done = udf.Interruptible(s.ctx)
	context.AfterFunc(s.ctx, func() {
		s.stop()
		time.AfterFunc(time.Second, func() {
			if !s.closed.Load() {
				fmt.Fprintf(e.stderr, "bglm: %s; nothing is written\n", shell.Waiting())
			}
		})
	})
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = tempFolder(); err != nil {
		return nil, err
	}
	if s.db, err = sql.Open("duckdb", ""); err != nil {
		return nil, err
	}
	if s.conn, err = s.db.Conn(s.ctx); err != nil {
		return nil, err
	}
	if err := udf.Register(s.ctx, s.db); err != nil {
		return nil, err
	}
	if s.bar {
		s.raw = rawConnection(s.conn)
	}
	return s, s.exec("SET temp_directory = " + quoteText(filepath.Join(s.dir, "spill")) + "; SET enable_progress_bar = true; SET enable_progress_bar_print = false")
}

func (s *session) close() {
	s.closed.Store(true)
	s.stop()
	s.done()
	if s.conn != nil {
		s.conn.Close()
	}
	if s.db != nil {
		s.db.Close()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
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

// failed turns what DuckDB said into the command's error.
func (s *session) failed(err error) error {
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil {
		return errors.New("interrupted; nothing was written")
	}
	return plainly(err)
}

func (s *session) exec(query string, args ...any) error {
	_, err := s.conn.ExecContext(s.ctx, query, args...)
	return s.failed(err)
}

// long is exec with a progress bar.
func (s *session) long(what, query string) error {
	if !s.bar || s.raw.Ptr == nil {
		return s.exec(query)
	}
	bar := progressbar.NewOptions(100, progressbar.OptionSetWriter(s.e.stderr), progressbar.OptionSetDescription(what),
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
	err := s.exec(query)
	close(done)
	<-stopped
	_ = bar.Finish()
	return err
}

func (s *session) row(query string, dst ...any) error {
	return s.failed(s.conn.QueryRowContext(s.ctx, query).Scan(dst...))
}

// each visits the rows of a query, which scan reads.
func (s *session) each(query string, visit func(scan func(...any) error) error) error {
	rows, err := s.conn.QueryContext(s.ctx, query)
	if err != nil {
		return s.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows.Scan); err != nil {
			return s.failed(err)
		}
	}
	return s.failed(rows.Err())
}

// column is a column of a relation.
type columnType struct{ name, sqlType string }

// describe is the names and types of a query's columns.
func (s *session) describe(query string) ([]columnType, error) {
	var out []columnType
	err := s.each("SELECT column_name, column_type FROM (DESCRIBE "+query+")", func(scan func(...any) error) error {
		var c columnType
		err := scan(&c.name, &c.sqlType)
		out = append(out, c)
		return err
	})
	return out, err
}

func names(cols []columnType) []string {
	var out []string
	for _, c := range cols {
		out = append(out, c.name)
	}
	return out
}
