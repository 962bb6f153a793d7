// Package shell is the SQL shell behind `bglm sql`: it splits text into statements, runs them in
// DuckDB with the bglm functions loaded, and prints the results.
//
// A Shell has one connection. Its Run methods read from a text, a file or
// standard input and stop at the first error; REPL talks to a terminal and goes
// on after errors. Both understand the same statements and dot commands.
package shell

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // the driver "duckdb"

	"github.com/bglm/bglm/udf"
)

// ErrQuit is returned when .quit ends the input.
var ErrQuit = errors.New("quit")

// Options opens a Shell.
type Options struct {
	// DB is the database file; "" is a database in memory.
	DB string
	// ReadOnly opens the file without write access.
	ReadOnly bool
	// Format is how results are printed.
	Format Format
	// Stdin is what statements read as '/dev/stdin'; nil if they must not.
	Stdin io.Reader
	// Stdout receives results, Stderr messages.
	Stdout, Stderr io.Writer
}

// Shell runs statements on one connection.
type Shell struct {
	db      *sql.DB
	conn    *sql.Conn
	format  Format
	out     io.Writer
	errOut  io.Writer
	timer   bool
	printed bool // a result was printed
	depth   int  // nesting of .read
	stdin   io.Reader
	spool   string // the temporary copy of stdin

	file       *os.File // of .output, with the writer and format that it replaces
	kept       io.Writer
	keptFormat Format
	screen     *os.File // the terminal of REPL, nil elsewhere
	pager      bool
}

// Open opens the database and loads the bglm functions.
func Open(ctx context.Context, o Options) (*Shell, error) {
	if o.Format.Mode != "" {
		if err := CheckMode(o.Format.Mode); err != nil {
			return nil, err
		}
	}
	db, conn, err := connect(ctx, "--db", o)
	if err != nil {
		return nil, err
	}
	return &Shell{db: db, conn: conn, format: o.Format, stdin: o.Stdin, out: o.Stdout, errOut: o.Stderr}, nil
}

// connect opens a database with the bglm functions; errors begin with what.
func connect(ctx context.Context, what string, o Options) (*sql.DB, *sql.Conn, error) {
	name := o.DB
	if name == "" {
		name = ":memory:"
	}
	source, err := dsn(o)
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("duckdb", source)
	if err != nil {
		return nil, nil, openError(what, name, err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, nil, openError(what, name, err)
	}
	if err := register(ctx, db, conn); err != nil {
		conn.Close()
		db.Close()
		return nil, nil, fmt.Errorf("load the bglm functions: %w", err)
	}
	return db, conn, nil
}

// openError removes the driver's prefix from DuckDB's message.
func openError(what, name string, err error) error {
	msg := err.Error()
	if _, rest, ok := strings.Cut(msg, "could not connect to database: "); ok {
		msg = rest
	}
	return &messageError{fmt.Sprintf("%s %s: %s", what, name, msg), err}
}

// NoDownloads, appended to the name of a database, keeps DuckDB from downloading an extension,
// which is a program, when a statement needs one: INSTALL does it if wanted.
const NoDownloads = "?autoinstall_known_extensions=false"

// dsn names the database for the driver, which reads what follows a question mark as options.
func dsn(o Options) (string, error) {
	if strings.Contains(o.DB, "?") {
		return "", fmt.Errorf("--db %s: the name holds a question mark, which is not allowed", o.DB)
	}
	if o.ReadOnly {
		return o.DB + NoDownloads + "&access_mode=READ_ONLY", nil
	}
	return o.DB + NoDownloads, nil
}

// Close closes the connection and the database and removes temporary files.
func (s *Shell) Close() error {
	if s.spool != "" {
		os.Remove(s.spool)
	}
	return errors.Join(s.closeOutput(), s.conn.Close(), s.db.Close())
}

// Error is a failure with the position of the statement that caused it.
type Error struct {
	// Source names the text: a file, "stdin", "-c".
	Source string
	// Line is where the statement begins, counted from 1.
	Line int
	// Err is the error from DuckDB or the shell.
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %v", e.Source, e.Line, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// RunText runs all statements of a text and stops at the first error, an *Error.
// It returns ErrQuit after .quit.
func (s *Shell) RunText(ctx context.Context, source, text string) error {
	return s.Run(ctx, source, strings.NewReader(text))
}

// RunFile runs a file like RunText.
func (s *Shell) RunFile(ctx context.Context, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.Run(ctx, name, f)
}

// Run reads statements and dot commands from r and runs each one as soon as it is complete. It
// stops at the first error, an *Error; .quit returns ErrQuit.
func (s *Shell) Run(ctx context.Context, source string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	var sp Splitter
	for first := true; ; first = false {
		line, err := in.ReadString('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s: %w", source, err)
		}
		if first {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if at := sp.line + 1; !sp.Pending() && isDot(line) {
			sp.Feed("\n") // counts the line
			if derr := s.Dot(ctx, line); derr != nil {
				return s.place(source, at, derr)
			}
		} else {
			for _, st := range sp.Feed(line) {
				if err := s.runAt(ctx, source, st); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return s.runAt(ctx, source, sp.Rest())
		}
	}
}

func (s *Shell) runAt(ctx context.Context, source string, st Statement) error {
	if st.Empty() {
		return nil
	}
	if err := s.Exec(ctx, st.SQL()); err != nil {
		return s.place(source, st.Line, renumber(err, st.Line-1))
	}
	return nil
}

// place adds the position, except to an error that has one, from inside .read.
func (s *Shell) place(source string, line int, err error) error {
	var placed *Error
	if errors.Is(err, ErrQuit) || errors.As(err, &placed) {
		return err
	}
	return &Error{Source: source, Line: line, Err: err}
}

// watched records whether there was a result.
type watched struct {
	resultWriter
	begun bool
}

func (w *watched) begin(cols []column) error {
	w.begun = true
	return w.resultWriter.begin(cols)
}

// Exec runs one statement, given without its semicolon, and prints its result.
func (s *Shell) Exec(ctx context.Context, text string) error {
	began := time.Now()
	text, err := s.readStdin(text)
	if err != nil {
		return err
	}
	out, format, shown := s.paged()
	w := &watched{resultWriter: newWriter(out, format, !s.printed)}
	defer udf.Interruptible(ctx)()
	err = query(ctx, s.conn, text, s.format.Mode == "json", w)
	shown(ctx)
	s.printed = s.printed || w.begun
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted after %.1f s", time.Since(began).Seconds())
	}
	if err != nil {
		return err
	}
	if s.timer {
		fmt.Fprintf(s.errOut, "Time: %.3f s\n", time.Since(began).Seconds())
	}
	return nil
}

// paged is the destination of results: with a pager a buffer for all of them, which shown displays.
func (s *Shell) paged() (out io.Writer, f Format, shown func(context.Context)) {
	if !s.pager || s.file != nil {
		return s.out, s.format, func(context.Context) {}
	}
	f = s.format
	f.MaxRows, f.Width = 0, 0
	var b bytes.Buffer
	return &b, f, func(ctx context.Context) {
		if b.Len() == 0 {
			return
		}
		words := strings.Fields(os.Getenv("PAGER"))
		if len(words) == 0 {
			words = []string{"less"}
		}
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		if _, own := os.LookupEnv("LESS"); !own {
			cmd.Env = append(os.Environ(), "LESS=FRSX") // long lines are not folded; what fits is printed
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = &b, s.screen, s.errOut
		text := b.Bytes()
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil { // the program does not exist
			fmt.Fprintf(s.errOut, "%s: %v; .pager off\n", words[0], err)
			s.out.Write(text)
			s.pager = false
		}
	}
}

var lineMark = regexp.MustCompile(`(?m)^LINE (\d+): `)

// messageError keeps the cause of an error whose text was rewritten.
type messageError struct {
	text string
	err  error
}

func (e *messageError) Error() string { return e.text }
func (e *messageError) Unwrap() error { return e.err }

// renumber converts the line numbers in a DuckDB message, which count from the statement's first
// word, into those of the whole text, and keeps the caret below its place in the line.
func renumber(err error, by int) error {
	msg := err.Error()
	loc := lineMark.FindStringSubmatchIndex(msg)
	if loc == nil || by == 0 {
		return err
	}
	n, convErr := strconv.Atoi(msg[loc[2]:loc[3]])
	if convErr != nil {
		return err
	}
	num := strconv.Itoa(n + by)
	head, tail := msg[:loc[2]]+num, msg[loc[3]:]
	if grown := len(num) - (loc[3] - loc[2]); grown > 0 {
		if nl := strings.IndexByte(tail, '\n'); nl >= 0 {
			tail = tail[:nl+1] + strings.Repeat(" ", grown) + tail[nl+1:]
		}
	}
	return &messageError{head + tail, err}
}
