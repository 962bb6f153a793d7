//go:build duckdb_arrow && cgo

package duckdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/array"
	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/kernels"
)

// with calls f with the Arrow interface of con's driver connection.
func with(con *sql.Conn, f func(*duckdb.Arrow) error) error {
	return con.Raw(func(c any) error {
		d, ok := c.(driver.Conn)
		if !ok {
			return fmt.Errorf("the connection is a %T; a connection of the DuckDB driver is needed", c)
		}
		a, err := duckdb.NewArrowFromConn(d)
		if err != nil {
			return err
		}
		return f(a)
	})
}

// Query runs a query and returns its result as a stream of records, which the caller releases.
// Until then the connection must not run anything else.
func Query(ctx context.Context, con *sql.Conn, query string, args ...any) (r array.RecordReader, err error) {
	err = with(con, func(a *duckdb.Arrow) error {
		r, err = a.QueryContext(ctx, query, args...)
		return err
	})
	return r, err
}

// Fit fits the rows of a query, whose columns job names, without storing them: arrowio.Fit of
// Query.
func Fit(ctx context.Context, con *sql.Conn, query string, job arrowio.Job) (*kernels.Fit, error) {
	r, err := Query(ctx, con, query)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	return arrowio.Fit(ctx, r, job)
}

// View registers a stream of records as the view name of con, which can be read once. release drops
// the view and frees the stream when it is no longer needed, while con is open; a second call does
// nothing.
func View(con *sql.Conn, r array.RecordReader, name string) (release func(), err error) {
	var free func()
	err = with(con, func(a *duckdb.Arrow) error {
		free, err = a.RegisterView(r, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		// A view would read memory that is freed: if it cannot be dropped, the stream is kept.
		if _, err := con.ExecContext(context.Background(), `DROP VIEW IF EXISTS "`+strings.ReplaceAll(name, `"`, `""`)+`"`); err == nil {
			free()
		}
	}), nil
}
