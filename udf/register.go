//go:build !bglm_extension

package udf

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"unsafe"
)

// Conner is what Register accepts: *sql.DB and *sql.Conn.
type Conner interface {
	PingContext(context.Context) error
}

// Register adds bglm's functions to the DuckDB instance behind db, a *sql.DB or *sql.Conn of the
// driver github.com/duckdb/duckdb-go/v2. All connections of the instance see them. Calling it again
// for the same instance changes nothing, even concurrently.
//
// Errors: another type or driver, a failed connection, a driver whose connection has another layout
// (a version this package does not know), functions that another transaction of the instance is
// adding.
func Register(ctx context.Context, db Conner) error {
	switch d := db.(type) {
	case *sql.Conn:
		return registerConn(d)
	case *sql.DB:
		c, err := d.Conn(ctx)
		if err != nil {
			return fmt.Errorf("bglm: connecting: %w", err)
		}
		defer c.Close()
		return registerConn(c)
	}
	return fmt.Errorf("bglm: Register takes a *sql.DB or *sql.Conn, found %T", db)
}

func registerConn(c *sql.Conn) error {
	return c.Raw(func(driverConn any) error {
		p, err := rawConnection(driverConn)
		if err != nil {
			return err
		}
		return registerAll(p)
	})
}

// rawConnection finds the duckdb_connection in the driver's connection: a field conn that holds a
// struct of one pointer. The driver has no accessor for it.
func rawConnection(driverConn any) (unsafe.Pointer, error) {
	v := reflect.ValueOf(driverConn)
	if v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct &&
		v.Elem().Type().PkgPath() == "github.com/duckdb/duckdb-go/v2" {
		if f := v.Elem().FieldByName("conn"); f.IsValid() && f.Kind() == reflect.Struct && f.NumField() == 1 {
			if g := f.Field(0); g.Kind() == reflect.UnsafePointer || g.Kind() == reflect.Pointer {
				if p := g.UnsafePointer(); p != nil {
					return p, nil
				}
				return nil, fmt.Errorf("bglm: the DuckDB connection is closed")
			}
		}
	}
	return nil, fmt.Errorf("bglm: Register needs a connection of github.com/duckdb/duckdb-go/v2 v2.10506.0, found %T", driverConn)
}
