package shell

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

// column describes one column of a result.
type column struct {
	name string
	typ  string          // the SQL type's name
	info duckdb.TypeInfo // nil when the driver cannot describe the type
	// json: the values are JSON, parsed by the driver or, with text, as text.
	json bool
	// text: DuckDB has cast the values to VARCHAR already.
	text bool
}

// numeric reports whether values are aligned at the right.
func (c column) numeric() bool {
	if c.text {
		return false
	}
	switch kind(c.info) {
	case duckdb.TYPE_TINYINT, duckdb.TYPE_SMALLINT, duckdb.TYPE_INTEGER, duckdb.TYPE_BIGINT,
		duckdb.TYPE_UTINYINT, duckdb.TYPE_USMALLINT, duckdb.TYPE_UINTEGER, duckdb.TYPE_UBIGINT,
		duckdb.TYPE_HUGEINT, duckdb.TYPE_UHUGEINT, duckdb.TYPE_BIGNUM,
		duckdb.TYPE_FLOAT, duckdb.TYPE_DOUBLE, duckdb.TYPE_DECIMAL:
		return true
	}
	return false
}

func (c column) appendText(dst []byte, v any) []byte {
	if c.json && !c.text && v != nil {
		return appendGeneric(dst, v)
	}
	return appendText(dst, c.info, v)
}

func (c column) appendJSON(dst []byte, v any) []byte {
	if c.json && v != nil {
		if s, ok := v.(string); ok && c.text {
			return appendRawJSON(dst, s)
		}
		return appendGeneric(dst, v)
	}
	return appendJSON(dst, c.info, v)
}

// query runs one statement on the connection and sends its result to w; asJSON says whether w wants
// values that the driver cannot deliver as JSON or as text. The driver's statement type is used
// below database/sql, since only it gives the kind of the statement and the exact column types.
// Cancelling ctx interrupts DuckDB; the connection stays usable.
func query(ctx context.Context, conn *sql.Conn, text string, asJSON bool, w resultWriter) error {
	return conn.Raw(func(dc any) error {
		c, ok := dc.(*duckdb.Conn)
		if !ok {
			return fmt.Errorf("the connection is a %T, want a DuckDB connection", dc)
		}
		st, cols, wrapped, err := prepare(ctx, c, text, asJSON)
		if err != nil {
			return err
		}
		defer st.Close()
		err = stream(ctx, st, cols, w)
		if err != nil && wrapped {
			// The statement is one line lower than the user wrote it.
			err = renumber(err, -1)
		}
		return err
	})
}

// prepare binds the statement, wrapped in another one if wrap requires it.
func prepare(ctx context.Context, c *duckdb.Conn, text string, asJSON bool) (st *duckdb.Stmt, cols []column, wrapped bool, err error) {
	st, err = prepareOne(ctx, c, text)
	if err != nil {
		return nil, nil, false, err
	}
	cols, err = describe(st)
	if err != nil {
		st.Close()
		return nil, nil, false, err
	}
	if w, wcols := wrap(ctx, c, st, text, cols, asJSON); w != nil {
		st.Close()
		return w, wcols, true, nil
	}
	return st, cols, false, nil
}

func prepareOne(ctx context.Context, c *duckdb.Conn, text string) (*duckdb.Stmt, error) {
	ds, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	st, ok := ds.(*duckdb.Stmt)
	if !ok {
		ds.Close()
		return nil, fmt.Errorf("the driver prepared a %T, want a DuckDB statement", ds)
	}
	if n := st.NumInput(); n > 0 {
		st.Close()
		return nil, fmt.Errorf("the statement has %d parameters (? or $1) without values: write the values, or SET VARIABLE x = ... and getvariable('x')", n)
	}
	return st, nil
}

func describe(st *duckdb.Stmt) ([]column, error) {
	n, err := st.ColumnCount()
	if err != nil {
		return nil, err
	}
	cols := make([]column, n)
	for i := range cols {
		if cols[i].name, err = st.ColumnName(i); err != nil {
			return nil, err
		}
		// An error means a type the driver has no name for: info stays nil.
		cols[i].info, _ = st.ColumnTypeInfo(i)
	}
	return cols, nil
}

// wrap makes DuckDB convert to text those columns that the driver cannot deliver as they are:
// VARIANT, STRUCTs without names, moments in the session's time zone, and JSON, which the driver
// would parse and so lose the digits of long numbers. It returns nil if the plain statement
// suffices.
func wrap(ctx context.Context, c *duckdb.Conn, st *duckdb.Stmt, text string, cols []column, asJSON bool) (*duckdb.Stmt, []column) {
	if t, err := st.StatementType(); err != nil || t != duckdb.STATEMENT_TYPE_SELECT {
		return nil, nil
	}
	need := false
	for _, col := range cols {
		need = need || anyLeaf(col.info, func(t duckdb.Type) bool { return opaque(t) || t == duckdb.TYPE_VARCHAR })
	}
	if !need {
		return nil, nil
	}
	types := typeNames(ctx, c, text)
	if len(types) != len(cols) {
		return nil, nil
	}
	out := make([]column, len(cols))
	sel, names := make([]string, len(cols)), make([]string, len(cols))
	need = false
	for i, col := range cols {
		names[i] = "c" + strconv.Itoa(i)
		sel[i] = names[i]
		out[i] = col
		// For the driver JSON is VARCHAR, in particular inside other types.
		isJSON := types[i] == "JSON"
		if !isJSON && !strings.Contains(types[i], "JSON") && !anyLeaf(col.info, opaque) {
			continue
		}
		need = true
		out[i].text, out[i].json, out[i].typ = true, isJSON || asJSON, types[i]
		if sel[i] = "CAST(" + names[i] + " AS VARCHAR)"; asJSON && !isJSON {
			sel[i] = "CAST(to_json(" + names[i] + ") AS VARCHAR)"
		}
	}
	if !need {
		return nil, nil
	}
	// The statement starts on a new line, so that a trailing comment ends.
	ws, err := prepareOne(ctx, c, "SELECT "+strings.Join(sel, ", ")+" FROM (\n"+text+"\n) AS t("+strings.Join(names, ", ")+")")
	if err != nil {
		return nil, nil
	}
	return ws, out
}

// opaque reports whether the driver cannot deliver values of the type faithfully.
func opaque(t duckdb.Type) bool {
	switch t {
	case duckdb.TYPE_INVALID, duckdb.TYPE_ANY, duckdb.TYPE_VARIANT, duckdb.TYPE_GEOMETRY, duckdb.TYPE_TIMESTAMP_TZ:
		return true
	}
	return false
}

// anyLeaf reports whether f holds for the type or one nested in it. A type that the driver cannot
// describe counts as TYPE_INVALID.
func anyLeaf(t duckdb.TypeInfo, f func(duckdb.Type) bool) bool {
	if f(kind(t)) {
		return true
	}
	if t == nil {
		return false
	}
	switch d := t.Details().(type) {
	case *duckdb.ListDetails:
		return anyLeaf(d.Child, f)
	case *duckdb.ArrayDetails:
		return anyLeaf(d.Child, f)
	case *duckdb.MapDetails:
		// The driver does not support keys of nested types.
		if nested(d.Key) && f(duckdb.TYPE_INVALID) {
			return true
		}
		return anyLeaf(d.Key, f) || anyLeaf(d.Value, f)
	case *duckdb.StructDetails:
		for _, e := range d.Entries {
			if anyLeaf(e.Info(), f) {
				return true
			}
		}
	case *duckdb.UnionDetails:
		for _, m := range d.Members {
			if anyLeaf(m.Type, f) {
				return true
			}
		}
	}
	return false
}

func nested(t duckdb.TypeInfo) bool {
	switch kind(t) {
	case duckdb.TYPE_LIST, duckdb.TYPE_ARRAY, duckdb.TYPE_STRUCT, duckdb.TYPE_MAP, duckdb.TYPE_UNION:
		return true
	}
	return false
}

// typeNames asks DuckDB for the column types of a query, as written in SQL.
func typeNames(ctx context.Context, c *duckdb.Conn, text string) []string {
	st, err := prepareOne(ctx, c, "SELECT column_type FROM (DESCRIBE\n"+text+"\n)")
	if err != nil {
		return nil
	}
	defer st.Close()
	var names []string
	err = stream(ctx, st, nil, rowFunc(func(v []driver.Value) error {
		s, _ := v[0].(string)
		names = append(names, s)
		return nil
	}))
	if err != nil {
		return nil
	}
	return names
}

// stream executes the statement and passes its rows on, one at a time.
func stream(ctx context.Context, st *duckdb.Stmt, cols []column, w resultWriter) (err error) {
	kindOf, err := st.StatementType()
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(ctx, nil)
	if err != nil {
		return err
	}
	// Closing the rows releases the statement; its result was read completely or is no longer
	// needed.
	defer rows.Close()
	names := rows.Columns()
	if silent(kindOf, names) {
		return nil
	}
	if len(cols) != len(names) {
		cols = make([]column, len(names))
		for i, n := range names {
			cols[i].name = n
		}
	}
	if t, ok := rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		for i := range cols {
			if !cols[i].text {
				cols[i].typ = plainType(t.ColumnTypeDatabaseTypeName(i))
				cols[i].json = cols[i].typ == "JSON"
			}
		}
	}
	if err := w.begin(cols); err != nil {
		return err
	}
	values := make([]driver.Value, len(cols))
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return w.end()
		} else if err != nil {
			return err
		}
		if err := w.row(values); err != nil {
			return err
		}
	}
}

// silent reports statements that change something: their single column Count or Success is no
// result to print.
func silent(t duckdb.StmtType, names []string) bool {
	switch t {
	case duckdb.STATEMENT_TYPE_SELECT, duckdb.STATEMENT_TYPE_EXPLAIN:
		return false
	}
	return len(names) == 0 || len(names) == 1 && (names[0] == "Count" || names[0] == "Success")
}

var plainField = regexp.MustCompile(`"([A-Za-z_][A-Za-z0-9_]*)" `)

// plainType drops the quotes around field names that need none.
func plainType(name string) string { return plainField.ReplaceAllString(name, "$1 ") }

// rowFunc is a resultWriter that only visits the rows.
type rowFunc func([]driver.Value) error

func (f rowFunc) begin([]column) error       { return nil }
func (f rowFunc) row(v []driver.Value) error { return f(v) }
func (f rowFunc) end() error                 { return nil }
