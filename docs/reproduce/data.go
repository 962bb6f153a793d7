package main

import (
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // the driver

	"github.com/bglm/bglm/kernels"
)

// Table is a data set in memory.
type Table struct {
	Rows  int
	Names []string
	num   map[string][]float64 // NULL is NaN
	text  map[string][]string
	lists [][]pair
}

type pair struct {
	feature string
	value   float64
}

// Num is a numeric or boolean column; it panics on a name that is not there.
func (t *Table) Num(name string) []float64 { return columnOf(t.num, name) }

// Text is a text column.
func (t *Table) Text(name string) []string { return columnOf(t.text, name) }

func columnOf[T any](m map[string][]T, name string) []T {
	v, ok := m[name]
	if !ok {
		panic(fmt.Sprintf("no column %q", name))
	}
	return v
}

// readTable reads a Parquet or CSV file of numbers, text, and at most one column
// LIST(STRUCT(feature, value)), through DuckDB.
func readTable(path string) (*Table, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.Query("FROM '" + strings.ReplaceAll(path, "'", "''") + "'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t := &Table{num: map[string][]float64{}, text: map[string][]string{}}
	if t.Names, err = rows.Columns(); err != nil {
		return nil, err
	}
	vals := make([]any, len(t.Names))
	ptrs := make([]any, len(t.Names))
	for i := range vals {
		ptrs[i] = &vals[i]
	}
	for rows.Next() {
		if err := rows.Scan(ptrs...); err != nil {
			return nil, err
		}
		t.Rows++
		for i, v := range vals {
			if err := t.add(t.Names[i], v); err != nil {
				return nil, fmt.Errorf("%s: column %s: %w", path, t.Names[i], err)
			}
		}
	}
	return t, rows.Err()
}

func (t *Table) add(name string, v any) error {
	if list, ok := v.([]any); ok {
		row := make([]pair, 0, len(list))
		for _, e := range list {
			m, ok := e.(map[string]any)
			if !ok {
				return fmt.Errorf("list of %T", e)
			}
			x, err := number(m["value"])
			if err != nil {
				return err
			}
			row = append(row, pair{fmt.Sprint(m["feature"]), x})
		}
		t.lists = append(t.lists, row)
		return nil
	}
	if s, ok := v.(string); ok {
		t.text[name] = append(t.text[name], s)
		return nil
	}
	x, err := number(v)
	if err != nil {
		return err
	}
	t.num[name] = append(t.num[name], x)
	return nil
}

// number is a number as float64, NULL as NaN, a time in days.
func number(v any) (float64, error) {
	switch v := v.(type) {
	case nil:
		return math.NaN(), nil
	case float64:
		return v, nil
	case float32:
		return float64(v), nil
	case int64:
		return float64(v), nil
	case int32:
		return float64(v), nil
	case int16:
		return float64(v), nil
	case int8:
		return float64(v), nil
	case uint8:
		return float64(v), nil
	case uint16:
		return float64(v), nil
	case uint32:
		return float64(v), nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case time.Time:
		return float64(v.Unix()) / 86400, nil
	}
	return 0, fmt.Errorf("type %T", v)
}

// emptyRows are rows without any; a model without a likelihood is one of classes.
func emptyRows(m *kernels.Model) (*kernels.Rows, error) {
	if m.Lik == nil {
		return kernels.NewLabelledRows(m)
	}
	return kernels.NewRows(m)
}

// sparse makes kernel rows of y and the table's feature lists.
func (t *Table) sparse(m *kernels.Model, y []float64) (*kernels.Rows, error) {
	r, err := emptyRows(m)
	if err != nil {
		return nil, err
	}
	var b kernels.Batch
	b.Reset()
	for i, row := range t.lists {
		if !m.NoIntercept {
			b.Add(0, 1)
		}
		for _, p := range row {
			id, err := r.Dict.Add(p.feature)
			if err != nil {
				return nil, err
			}
			b.Add(id, p.value)
		}
		b.EndRow()
		b.Y = append(b.Y, y[i])
	}
	return r, r.Update(&b, false)
}

// denseRows makes kernel rows of y and the columns of x (by row), named 1..d.
func denseRows(m *kernels.Model, x [][]float64, y []float64) (*kernels.Rows, error) {
	r, err := emptyRows(m)
	if err != nil || len(x) == 0 {
		return r, err
	}
	base, err := r.Dict.Dense(len(x[0]))
	if err != nil {
		return nil, err
	}
	var b kernels.Batch
	b.Reset()
	for i, row := range x {
		if !m.NoIntercept {
			b.Add(0, 1)
		}
		for j, v := range row {
			b.Add(uint32(base+j), v)
		}
		b.EndRow()
		b.Y = append(b.Y, y[i])
	}
	return r, r.Update(&b, false)
}
