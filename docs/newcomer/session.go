package main

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"

	_ "github.com/duckdb/duckdb-go/v2" // the driver

	"github.com/bglm/bglm/udf"
)

// session is a DuckDB in memory with bglm's functions.
type session struct{ db *sql.DB }

// open sets one thread, so that figures are the same again.
func open() (*session, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := udf.Register(context.Background(), db); err != nil {
		return nil, err
	}
	s := &session{db}
	return s, s.exec("SET threads = 1; SELECT setseed(0.5)")
}

func (s *session) Close() { s.db.Close() }

func (s *session) exec(q string) error {
	_, err := s.db.Exec(q)
	return short(err)
}

// row scans the one row of a query.
func (s *session) row(q string, to ...any) error { return short(s.db.QueryRow(q).Scan(to...)) }

// columns are the numbers of a query, column by column; NULL is NaN, true 1.
func (s *session) columns(q string) ([][]float64, error) {
	rows, err := s.db.Query(q)
	if err != nil {
		return nil, short(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(names))
	values, at := make([]sql.NullFloat64, len(names)), make([]any, len(names))
	for i := range values {
		at[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(at...); err != nil {
			return nil, err
		}
		for i, v := range values {
			if !v.Valid {
				v.Float64 = math.NaN()
			}
			out[i] = append(out[i], v.Float64)
		}
	}
	return out, short(rows.Err())
}

// texts is the one column of a query.
func (s *session) texts(q string) (out []string, err error) {
	rows, err := s.db.Query(q)
	if err != nil {
		return nil, short(err)
	}
	defer rows.Close()
	for rows.Next() {
		var t sql.NullString
		if err := rows.Scan(&t); err != nil {
			return nil, err
		}
		out = append(out, t.String)
	}
	return out, short(rows.Err())
}

// short is an error without the driver's and DuckDB's words in front.
func short(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, w := range []string{"Invalid Input Error: ", "bglm: "} {
		if _, rest, ok := strings.Cut(text, w); ok {
			text = rest
		}
	}
	return fmt.Errorf("%s", strings.TrimSpace(text))
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// weight is a belief over a weight.
type weight struct{ mean, sd float64 }

// beliefs are those of the FIT that a query gives, by feature.
func (s *session) beliefs(fit string) (map[string]weight, error) {
	rows, err := s.db.Query("SELECT feature, mean, sqrt(variance) FROM (SELECT unnest(fit.beliefs, recursive := true) FROM (" + fit + ") f(fit))")
	if err != nil {
		return nil, short(err)
	}
	defer rows.Close()
	out := map[string]weight{}
	for rows.Next() {
		var name string
		var w weight
		if err := rows.Scan(&name, &w.mean, &w.sd); err != nil {
			return nil, err
		}
		out[name] = w
	}
	return out, short(rows.Err())
}
