package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/cmd/internal/files"
)

// dataFlags say where the rows come from.
type dataFlags struct {
	Data   []string `sep:"none" placeholder:"FILE" help:"Parquet, Arrow IPC (file or stream), CSV, JSON or DuckDB files, by their extension; globs; - is the standard input. May be given several times."`
	Format string   `placeholder:"FORMAT" enum:",parquet,arrow,csv,json,duckdb" default:"" help:"What the data are, where the extension does not say: parquet, arrow, csv, json or duckdb."`
	Table  string   `placeholder:"NAME" help:"Table of a DuckDB file, needed when it has several."`
	Where  string   `placeholder:"SQL" help:"Condition on the rows."`
	Files  []string `arg:"" optional:"" name:"file" help:"More data files, as --data."`
}

// source is rows that DuckDB can read.
type source struct {
	kind  string
	files []string // as the user named them, globs expanded
	read  []string // what is read for each of them
	from  string   // SQL: a relation
	where string
	fits  string // the file of the fits that meet the rows, "" without
}

// all are the data files named, globs expanded in their order.
func (d *dataFlags) all() ([]string, error) {
	var out []string
	for _, name := range slices.Concat(d.Data, d.Files) {
		if name == "-" || strings.Contains(name, "://") || !strings.ContainsAny(name, "*?[") {
			out = append(out, name)
			continue
		}
		if _, err := os.Stat(name); err == nil {
			out = append(out, name)
			continue
		}
		found, err := files.Expand(name)
		if err != nil {
			return nil, fmt.Errorf("--data %s: %w", name, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("--data %s: no such file", name)
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, usageError{errors.New("no data: give --data FILE, or - for the standard input")}
	}
	return out, nil
}

// kindsOf is the one format of all files.
func (d *dataFlags) kindOfAll(files []string) (string, error) {
	kind := d.Format
	for _, f := range files {
		k := d.Format
		if k == "" && f != "-" {
			if k = kindOf(f); k == "" {
				return "", usageError{fmt.Errorf("--data %s: the extension does not say what it is; give --format parquet, arrow, csv, json or duckdb", f)}
			}
		}
		if kind != "" && k != "" && k != kind {
			return "", usageError{fmt.Errorf("--data %s is %s, but other data are %s; all must be of one format", f, k, kind)}
		}
		if k != "" {
			kind = k
		}
	}
	return kind, nil
}

// open makes the data readable. Arrow files and the standard input go through a
// temporary file: DuckDB reads files, and more than once.
func (s *session) open(d *dataFlags) (*source, error) {
	files, err := d.all()
	if err != nil {
		return nil, err
	}
	kind, err := d.kindOfAll(files)
	if err != nil {
		return nil, err
	}
	s.e.note(files...)
	src := &source{kind: kind, files: files, where: d.Where}
	for i, f := range files {
		read := f
		switch {
		case f == "-":
			if slices.Index(files, "-") != i {
				return nil, usageError{errors.New("--data -: the standard input can be read once")}
			}
			if isTerminal(s.e.Stdin) {
				return nil, usageError{errors.New("--data -: the standard input is a terminal")}
			}
			if read, err = s.spool(src); err != nil {
				return nil, fmt.Errorf("standard input: %w", err)
			}
		case strings.Contains(f, "://"):
		default:
			if err := checkData(f, kind); err != nil {
				return nil, fmt.Errorf("--data: %w", err)
			}
			if kind == "arrow" {
				read, err = s.spoolArrow(f, nil, i)
			} else {
				read, err = literal(f)
			}
			if err != nil {
				return nil, err
			}
		}
		src.read = append(src.read, read)
	}
	if src.from, err = s.relation(src, d.Table); err != nil {
		return nil, err
	}
	return src, nil
}

// spool copies the standard input to a temporary file.
func (s *session) spool(src *source) (string, error) {
	in := bufio.NewReaderSize(s.e.Stdin, 1<<20)
	if _, err := in.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("no data")
		}
		return "", err
	}
	if src.kind == "" {
		src.kind = files.Sniff(in)
	}
	if src.kind == "arrow" {
		return s.spoolArrow("standard input", in, 0)
	}
	f, err := os.Create(filepath.Join(s.dir, "stdin."+src.kind))
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, &untilDone{in, s})
	return f.Name(), errors.Join(err, f.Close())
}

// untilDone stops reading after Ctrl-C.
type untilDone struct {
	io.Reader
	s *session
}

func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.s.ctx.Err(); err != nil {
		return 0, errors.New("interrupted; nothing was written")
	}
	return u.Reader.Read(p)
}

// spoolArrow turns an Arrow IPC file, or a stream, into a temporary Parquet file.
func (s *session) spoolArrow(name string, in *bufio.Reader, i int) (string, error) {
	r, err := s.openArrow(name, in)
	if err != nil {
		return "", err
	}
	defer r.Close()
	f, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("arrow-%d.parquet", i)))
	if err != nil {
		return "", err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(pqrows.FromArrow(w, r), w.Flush(), f.Close()); err != nil {
		return "", named(name, err)
	}
	return f.Name(), s.failed(s.ctx.Err())
}

// openArrow opens a file, or in under that name.
func (s *session) openArrow(name string, in *bufio.Reader) (*arrowio.Reader, error) {
	if in == nil {
		return arrowio.OpenIPC(name)
	}
	if head, _ := in.Peek(6); string(head) != "ARROW1" {
		return arrowio.StreamIPC(name, in)
	}
	// A file needs seeking.
	f, err := os.CreateTemp(s.dir, "stdin-*.arrow")
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(f, in); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return arrowio.OpenIPC(f.Name())
}

// literal is a path in which DuckDB finds nothing to expand: a file that is called
// a[1].csv would else be looked for as a1.csv.
func literal(path string) (string, error) {
	if !strings.ContainsAny(path, "*?[") {
		return path, nil
	}
	return filepath.Abs(path) // what DuckDB calls it then
}

// globless escapes what DuckDB would expand.
var globless = strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]")

func listText(files []string) string {
	var out []string
	for _, f := range files {
		if !strings.Contains(f, "://") {
			f = globless.Replace(f)
		}
		out = append(out, quoteText(f))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

var readers = map[string]string{"parquet": "read_parquet", "arrow": "read_parquet", "csv": "read_csv", "json": "read_json"}

// union makes the columns of several files agree by name, in a type that holds the
// values of all; else the first file's types would be forced on the others.
func (src *source) union() string {
	if len(src.read) > 1 {
		return ", union_by_name = true"
	}
	return ""
}

// relation is what stands after FROM.
func (s *session) relation(src *source, table string) (string, error) {
	list := listText(src.read)
	if f, ok := readers[src.kind]; ok {
		return f + "(" + list + src.union() + ")", nil
	}
	if len(src.read) != 1 {
		return "", usageError{errors.New("--data: one DuckDB file at a time")}
	}
	if err := s.exec("ATTACH " + quoteText(src.read[0]) + " AS bglm_data (READ_ONLY)"); err != nil {
		return "", named(src.files[0], err)
	}
	if table != "" {
		if !strings.Contains(table, ".") {
			table = "main." + quoteName(table)
		}
		return "bglm_data." + table, nil
	}
	var tables []string
	err := s.each("SELECT schema_name || '.' || table_name FROM (SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'bglm_data' UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'bglm_data' AND NOT internal) ORDER BY 1", func(scan func(...any) error) error {
		var t string
		err := scan(&t)
		tables = append(tables, t)
		return err
	})
	if err != nil {
		return "", err
	}
	if len(tables) != 1 {
		return "", usageError{fmt.Errorf("--data %s has %d tables (%.200s); say which: --table NAME", src.files[0], len(tables), strings.Join(tables, ", "))}
	}
	schema, name, _ := strings.Cut(tables[0], ".")
	return "bglm_data." + quoteName(schema) + "." + quoteName(name), nil
}

// rows is the relation with the condition.
func (src *source) rows() string {
	if src.where == "" {
		return src.from
	}
	return "(FROM " + src.from + " WHERE " + src.where + ")"
}

// numbered is rows with the columns bglm_file and bglm_row.
func (src *source) numbered() string {
	where := ""
	if src.where != "" {
		where = " WHERE " + src.where
	}
	list := listText(src.read)
	switch src.kind {
	case "parquet", "arrow":
		return "(SELECT * EXCLUDE (filename, file_row_number), filename AS bglm_file, file_row_number + 1 AS bglm_row FROM read_parquet(" + list + src.union() + ", filename = true, file_row_number = true)" + where + ")"
	case "csv", "json":
		return "(SELECT * EXCLUDE (filename, bglm_k), filename AS bglm_file, bglm_k - min(bglm_k) OVER (PARTITION BY filename) + 1 AS bglm_row FROM (SELECT *, row_number() OVER () AS bglm_k FROM read_" + src.kind + "(" + list + src.union() + ", filename = true))" + where + ")"
	}
	return "(SELECT *, " + quoteText(src.files[0]) + " AS bglm_file, row_number() OVER () AS bglm_row FROM " + src.from + where + ")"
}

// fileName is how the user called a file that is read.
func (src *source) fileName(read string) string {
	if i := slices.Index(src.read, read); i >= 0 {
		if src.files[i] == "-" {
			return "standard input"
		}
		return src.files[i]
	}
	return read
}

var numberedColumn = regexp.MustCompile(`^column\d+$`)

// misread finds the CSV file in which DuckDB sees other columns than its first line
// has: found are those of all files. It does when some line has more or fewer fields
// than the others, and among several files the rows would count as rows without
// values.
func (s *session) misread(src *source, found []string) error {
	if src.kind != "csv" {
		return nil
	}
	numbered := func(c string) bool { return numberedColumn.MatchString(c) }
	// No file has a header, or all have.
	mixed := slices.ContainsFunc(found, numbered) && slices.ContainsFunc(found, func(c string) bool { return !numbered(c) })
	if !mixed && !slices.ContainsFunc(found, func(c string) bool { return strings.ContainsAny(c, ",;\t|") }) {
		return nil
	}
	for i, path := range src.read {
		header, raw := files.CSVHeader(path)
		if len(header) < 2 {
			continue
		}
		own := found
		if len(src.read) > 1 {
			cols, err := s.describe("FROM read_csv(" + listText([]string{path}) + ")")
			if err != nil {
				return named(src.files[i], err)
			}
			own = names(cols)
		}
		if slices.Contains(own, strings.TrimSpace(raw)) || mixed && slices.ContainsFunc(own, numbered) {
			return fmt.Errorf("%s: damaged, or no CSV: its first line has %d fields (%s), but not every line has as many", src.files[i], len(header), files.Clip(strings.Join(header, ", "), 200))
		}
	}
	return nil
}
