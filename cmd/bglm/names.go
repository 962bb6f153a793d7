package main

import (
	"context"
	"database/sql"
	"errors"
	"io"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/quote"
)

// The packages below by the names that this one has for them.

type env struct {
	*cli.Env
	ctx            context.Context
	stdout, stderr io.Writer
}

func newEnv(e *cli.Env) *env { return &env{e, e.Ctx, e.Stdout, e.Stderr} }

func (e *env) note(names ...string) { e.Note(names...) }
func (e *env) atomically(path string, write func(tmp string) error) error {
	return files.Atomically(path, e.Stderr, write)
}
func (e *env) create(path string, write func(io.Writer) error) error {
	return files.Create(path, e.Stderr, write)
}

// usageError marks an error as wrong usage: exit code 2.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func isUsage(err error) bool { return cli.IsUsage(err) || errors.As(err, new(usageError)) }

type session struct {
	*duck.Session
	e       *env
	ctx     context.Context
	conn    *sql.Conn
	dir     string
	csvSafe bool // see csvFlags
}

func openSession(e *env, quiet bool) (*session, error) {
	s, err := duck.Open(e.Env, quiet)
	if err != nil {
		return nil, err
	}
	return &session{Session: s, e: e, ctx: s.Ctx, conn: s.Conn, dir: s.Dir}, nil
}

func (s *session) close()                               { s.Close() }
func (s *session) failed(err error) error               { return s.Failed(err) }
func (s *session) exec(query string, args ...any) error { return s.Exec(query, args...) }
func (s *session) long(what, query string) error        { return s.Long(what, query) }
func (s *session) row(query string, dst ...any) error   { return s.Row(query, dst...) }
func (s *session) each(query string, visit func(scan func(...any) error) error) error {
	return s.Each(query, visit)
}

// columnType is a column of a relation.
type columnType struct{ name, sqlType string }

func (s *session) describe(query string) ([]columnType, error) {
	cols, err := s.Describe(query)
	var out []columnType
	for _, c := range cols {
		out = append(out, columnType{c.Name, c.Type})
	}
	return out, err
}

func names(cols []columnType) []string {
	var out []string
	for _, c := range cols {
		out = append(out, c.name)
	}
	return out
}

func quoteName(s string) string        { return quote.Name(s) }
func quoteText(s string) string        { return quote.Text(s) }
func quoteNames(names []string) string { return quote.Names(names) }

func kindOf(name string) string          { return files.KindOf(name) }
func named(name string, err error) error { return files.Named(name, err) }
func checkData(path, kind string) error  { return files.Check(path, kind) }
func isTerminal(v any) bool              { return cli.IsTerminal(v) }
