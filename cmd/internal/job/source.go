package job

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/quote"
)

// Data describes where the rows come from, with the fields of the batch commands' flags.
type Data struct {
	Data   []string // files, globs, - for the standard input
	Format string   // "" for that of the extensions
	Table  string   // of a DuckDB file
	Where  string   // SQL
	Files  []string // more of Data
}

// Source is the rows in a form that DuckDB can read.
type Source struct {
	Kind  string
	Files []string // as named by the user, globs expanded
	Read  []string // the path that is read for each of them
	Fits  string   // the file of the fits that score or continue with the rows, "" if none

	from      string // SQL: a relation
	how       string // SQL: arguments of the reader other than union's
	where     string
	told      bool // renamed has been reported
	toldMixed bool // mixed has been
	parts     []part
	s         *duck.Session
}

// All returns the data files named, globs expanded in order.
func (d *Data) All() ([]string, error) {
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
		return nil, cli.Usage(errors.New("no data: give --data FILE, or - for the standard input"))
	}
	return out, nil
}

// Kind is the common format of all files.
func (d *Data) Kind(names []string) (string, error) {
	kind := d.Format
	for _, f := range names {
		k := d.Format
		if k == "" && f != "-" {
			if k = files.KindOf(f); k == "" {
				if err := files.NoFolder(f); err != nil {
					return "", cli.Usage(fmt.Errorf("--data: %w", err))
				}
				return "", cli.Usage(fmt.Errorf("--data %s: the extension does not say what it is; give --format parquet, arrow, csv, json or duckdb", f))
			}
		}
		if kind != "" && k != "" && k != kind {
			return "", cli.Usage(fmt.Errorf("--data %s is %s, but other data are %s; all must be of one format", f, k, kind))
		}
		if k != "" {
			kind = k
		}
	}
	return kind, nil
}

// Open makes the data readable. Arrow files and the standard input are copied to a temporary file:
// DuckDB reads files, and more than once.
func Open(s *duck.Session, d Data) (*Source, error) {
	names, err := d.All()
	if err != nil {
		return nil, err
	}
	kind, err := d.Kind(names)
	if err != nil {
		return nil, err
	}
	if twice := files.Twice(names); twice != "" {
		return nil, cli.Usage(fmt.Errorf("--data %s is there twice: its rows would count twice", twice))
	}
	s.Env.Note(names...)
	src := &Source{Kind: kind, Files: names, where: d.Where, s: s}
	for i, f := range names {
		read := f
		switch {
		case f == "-":
			if slices.Index(names, "-") != i {
				return nil, cli.Usage(errors.New("--data -: the standard input can be read once"))
			}
			if cli.IsTerminal(s.Env.Stdin) {
				return nil, cli.Usage(errors.New("--data -: the standard input is a terminal"))
			}
			if read, err = src.spool(); err != nil {
				return nil, fmt.Errorf("standard input: %w", err)
			}
		case strings.Contains(f, "://"):
		default:
			if kind != "duckdb" { // a job may write to it
				s.Reads(f)
			}
			if err := files.Check(f, kind); err != nil {
				return nil, fmt.Errorf("--data: %w", err)
			}
			if kind == "arrow" {
				read, err = SpoolArrow(s, f, nil, i)
			} else {
				read, err = Literal(f)
			}
			if err != nil {
				return nil, err
			}
		}
		src.Read = append(src.Read, read)
	}
	if src.from, err = src.relation(d.Table); err != nil {
		return nil, err
	}
	if kind == "parquet" {
		return src, src.wideDecimals()
	}
	return src, nil
}

// wideDecimals finds decimals of more than 38 digits that DuckDB misreads, by a power of 256 too
// large: those whose bytes are not whole words of 8.
func (src *Source) wideDecimals() error {
	var file, column string
	var digits, scale int64
	err := src.s.Each("SELECT file_name, name, precision, scale FROM parquet_schema("+FileList(src.Read)+") WHERE converted_type = 'DECIMAL' AND precision > 38 AND coalesce(type_length::INTEGER % 8, 1) <> 0 LIMIT 1", func(scan func(...any) error) error {
		return scan(&file, &column, &digits, &scale)
	})
	if err != nil || file == "" {
		return src.Blame(err)
	}
	return fmt.Errorf("%s: column %s is DECIMAL(%d, %d), which DuckDB reads wrongly; allowed: up to 38 digits; bglm fit --engine arrow reads more", src.FileName(file), column, digits, scale)
}

// Literal is a path in which DuckDB expands nothing: a file called a[1].csv would otherwise be read
// as a1.csv.
func Literal(path string) (string, error) {
	if !strings.ContainsAny(path, "*?[") {
		return path, nil
	}
	return filepath.Abs(path) // DuckDB then reports it so
}

// globless escapes DuckDB's wildcards.
var globless = strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]")

// FileList is a list of file names in SQL, not expanded by DuckDB.
func FileList(names []string) string {
	var out []string
	for _, f := range names {
		if !strings.Contains(f, "://") {
			f = globless.Replace(f)
		}
		out = append(out, quote.Text(f))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

var readers = map[string]string{"parquet": "read_parquet", "arrow": "read_parquet", "csv": "read_csv", "json": "read_json"}

// arguments are the arguments of the reader after the files.
func (src *Source) arguments() string { return src.union() + src.how }

// one is arguments for a single file, which may lack columns.
func (src *Source) one() string {
	if src.Kind == "csv" {
		return ""
	}
	return src.how
}

// notOneMap separates the columns of a JSON file: DuckDB reads more than 200 as one MAP called
// json. Objects inside columns may be MAPs, unless there are so many columns.
func (src *Source) notOneMap(list string) error {
	cols, err := src.s.Describe("FROM read_json(" + list + src.union() + ")")
	if err == nil && len(cols) == 1 && cols[0].Name == "json" && strings.HasPrefix(cols[0].Type, "MAP(") {
		src.how = ", map_inference_threshold = -1"
	}
	return src.Blame(err)
}

// mixedFiles is how many files mixed looks at, evenly among all.
const mixedFiles = 100

// mixed says, once, which columns among parts are numbers in one Parquet file and text in another,
// and so text in all. cols are those of all files.
func (src *Source) mixed(parts []formula.Part, cols []duck.Column) {
	if src.Kind != "parquet" || src.toldMixed {
		return
	}
	src.toldMixed = true
	var names []string
	for _, c := range cols {
		if c.Type == "VARCHAR" && slices.ContainsFunc(parts, func(p formula.Part) bool { return p.Column && !p.Factor && strings.EqualFold(p.Name, c.Name) }) {
			names = append(names, c.Name)
		}
	}
	type seen struct{ file, sqlType string }
	numbers, texts := map[string]seen{}, map[string]seen{}
	for k := 0; len(names) > 0 && k < min(len(src.Read), mixedFiles); k++ {
		i := k * (len(src.Read) - 1) / max(min(len(src.Read), mixedFiles)-1, 1)
		own, err := src.s.Describe("FROM " + readers[src.Kind] + "(" + FileList(src.Read[i:i+1]) + src.one() + ")")
		if err != nil {
			return // the reader of all files reports it
		}
		for _, c := range own {
			at := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, c.Name) })
			if at < 0 {
				continue
			}
			name, of := names[at], seen{src.name(i), c.Type}
			if kind, err := formula.KindOf(c.Type); err == nil && kind == formula.Number {
				numbers[name] = cmp.Or(numbers[name], of)
			} else if c.Type == "VARCHAR" {
				texts[name] = cmp.Or(texts[name], of)
			}
			if n, t := numbers[name], texts[name]; n.file != "" && t.file != "" {
				note := fmt.Errorf("column %s is %s in %s and %s in %s, and so has levels here; TRY_CAST(%s AS DOUBLE) makes numbers of them", name, n.sqlType, n.file, t.sqlType, t.file, quote.Name(name))
				fmt.Fprintln(src.s.Env.Stderr, "bglm: "+src.s.Env.Message(note))
				names = slices.Delete(names, at, at+1)
			}
		}
	}
}

// union makes the columns of several files match by name, with a type for the values of all;
// otherwise the first file's types would be imposed on the others.
func (src *Source) union() string {
	if len(src.Read) > 1 {
		return ", union_by_name = true"
	}
	return ""
}

// relation is the relation for FROM.
func (src *Source) relation(table string) (string, error) {
	list := FileList(src.Read)
	if f, ok := readers[src.Kind]; ok {
		switch {
		case src.Kind == "json":
			if err := src.notOneMap(list); err != nil {
				return "", err
			}
		case src.Kind == "csv" && len(src.s.Env.CSVTypes) > 0:
			if err := src.typed(list); err != nil {
				return "", err
			}
		}
		return f + "(" + list + src.arguments() + ")", nil
	}
	if len(src.Read) != 1 {
		return "", cli.Usage(errors.New("--data: one DuckDB file at a time"))
	}
	if err := src.s.Exec("ATTACH " + quote.Text(src.Read[0]) + " AS bglm_data (READ_ONLY)"); err != nil {
		return "", files.Named(src.Files[0], err)
	}
	if table != "" {
		if !strings.Contains(table, ".") {
			table = "main." + quote.Name(table)
		}
		return "bglm_data." + table, nil
	}
	tables, err := src.s.Texts("SELECT schema_name || '.' || table_name FROM (SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'bglm_data' UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'bglm_data' AND NOT internal) ORDER BY 1")
	if err != nil {
		return "", err
	}
	if len(tables) != 1 {
		return "", cli.Usage(fmt.Errorf("--data %s has %d tables (%.200s); say which: --table NAME", src.Files[0], len(tables), strings.Join(tables, ", ")))
	}
	schema, name, _ := strings.Cut(tables[0], ".")
	return "bglm_data." + quote.Name(schema) + "." + quote.Name(name), nil
}

// Rows is the relation with the condition.
func (src *Source) Rows() string {
	if src.where == "" {
		return src.from
	}
	return "(FROM " + src.from + " WHERE " + src.where + ")"
}

// Empty reports whether there are no rows. It needs no types: in a CSV file without rows every
// column is text, for which neither the condition nor a formula need have a meaning.
func (src *Source) Empty() bool {
	n := int64(1)
	err := src.s.Row("SELECT count(*) FROM (FROM "+src.Rows()+" LIMIT 1)", &n)
	if err != nil && src.where != "" {
		err = src.s.Row("SELECT count(*) FROM (FROM "+src.from+" LIMIT 1)", &n)
	}
	return err == nil && n == 0
}

// Numbered is Rows with the columns bglm_file and bglm_row, which counts all rows of a file from 1.
// Columns of the data may have DuckDB's names for these.
func (src *Source) Numbered() string {
	list := FileList(src.Read)
	var all string
	switch {
	case readers[src.Kind] == "":
		all = "(SELECT *, " + quote.Text(src.Files[0]) + " AS bglm_file, row_number() OVER () AS bglm_row FROM " + src.from + ")"
	case readers[src.Kind] == "read_parquet" && !src.has("file_row_number"):
		all = "(SELECT * EXCLUDE (bglm_name, file_row_number), bglm_name AS bglm_file, file_row_number + 1 AS bglm_row FROM read_parquet(" + list + src.arguments() + ", filename = 'bglm_name', file_row_number = true))"
	default:
		all = "(SELECT * EXCLUDE (bglm_name, bglm_k), bglm_name AS bglm_file, bglm_k - min(bglm_k) OVER (PARTITION BY bglm_name) + 1 AS bglm_row FROM (SELECT *, row_number() OVER () AS bglm_k FROM " + readers[src.Kind] + "(" + list + src.arguments() + ", filename = 'bglm_name')))"
	}
	if src.where == "" {
		return all
	}
	return "(FROM " + all + " WHERE " + src.where + ")"
}

// has reports whether the data have a column of that name.
func (src *Source) has(name string) bool {
	cols, err := src.s.Describe("FROM " + src.from)
	return err == nil && slices.ContainsFunc(cols, func(c duck.Column) bool { return strings.EqualFold(c.Name, name) })
}

// name is the user's name for file i.
func (src *Source) name(i int) string { return src.FileName(src.Read[i]) }

// Names are the user's names for the files.
func (src *Source) Names() (out []string) {
	for i := range src.Read {
		out = append(out, src.name(i))
	}
	return out
}

// FileName is the user's name for a file that is read.
func (src *Source) FileName(read string) string {
	if i := slices.Index(src.Read, read); i >= 0 {
		if src.Files[i] == "-" {
			return "standard input"
		}
		return src.Files[i]
	}
	return read
}
