package shell

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// dotCommand is a command of the shell itself.
type dotCommand struct {
	name string
	args string
	help string
	run  func(s *Shell, ctx context.Context, arg string) error
}

// dotCommands is a function since .help prints the list that contains it.
func dotCommands() []dotCommand {
	return []dotCommand{
		{".functions", "", "list the bglm functions", (*Shell).dotFunctions},
		{".help", "", "show this list", (*Shell).dotHelp},
		{".import", "FILE TABLE", "append the rows of a CSV, Parquet or JSON file to a table, new or old", (*Shell).dotImport},
		{".maxrows", "N", "print at most N rows of a result, 0 for all", (*Shell).dotMaxRows},
		{".mode", strings.Join(Modes, "|"), "set how results are printed", (*Shell).dotMode},
		{".open", "[FILE]", "close the database and open another, in memory without a name", (*Shell).dotOpen},
		{".output", "[FILE]", "write results into a file, back to the screen without a name", (*Shell).dotOutput},
		{".pager", "on|off", "show whole results in $PAGER (less), on a terminal", (*Shell).dotPager},
		{".quit", "", "leave (also .exit, Ctrl-D)", (*Shell).dotQuit},
		{".read", "FILE", "run the statements of a file", (*Shell).dotRead},
		{".schema", "[TABLE]", "show CREATE statements", (*Shell).dotSchema},
		{".tables", "", "list tables and views", (*Shell).dotTables},
		{".timer", "on|off", "print how long each statement took", (*Shell).dotTimer},
	}
}

func isDot(line string) bool {
	t := strings.TrimSpace(line)
	return len(t) > 1 && t[0] == '.' && (t[1] >= 'a' && t[1] <= 'z' || t[1] >= 'A' && t[1] <= 'Z')
}

// Dot runs one dot command. It returns ErrQuit for .quit.
func (s *Shell) Dot(ctx context.Context, line string) error {
	name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	arg = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(arg), ";"))
	name = strings.ToLower(strings.TrimSuffix(name, ";"))
	if name == ".exit" {
		name = ".quit"
	}
	var known []string
	for _, c := range dotCommands() {
		if c.name == name {
			if arg != "" && c.args == "" {
				return fmt.Errorf("%s takes no argument, found %q", name, arg)
			}
			return c.run(s, ctx, arg)
		}
		known = append(known, c.name)
	}
	return fmt.Errorf("unknown command %s, known are %s", name, strings.Join(known, " "))
}

func (s *Shell) dotHelp(context.Context, string) error {
	for _, c := range dotCommands() {
		fmt.Fprintf(s.out, "%-34s %s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	}
	_, err := fmt.Fprintln(s.out, "Everything else is SQL, ended by a semicolon.")
	return err
}

func (s *Shell) dotQuit(context.Context, string) error { return ErrQuit }

func (s *Shell) dotMode(_ context.Context, arg string) error {
	if arg == "" {
		mode := s.format.Mode
		if mode == "" {
			mode = Modes[0]
		}
		_, err := fmt.Fprintln(s.out, mode)
		return err
	}
	if err := CheckMode(arg); err != nil {
		return fmt.Errorf(".mode: %w", err)
	}
	s.format.Mode = arg
	return nil
}

func (s *Shell) dotTimer(_ context.Context, arg string) error {
	switch arg {
	case "on", "off":
		s.timer = arg == "on"
		return nil
	}
	return fmt.Errorf(".timer is %q, allowed are on, off", arg)
}

// maxReadDepth stops a file that reads itself.
const maxReadDepth = 16

func (s *Shell) dotRead(ctx context.Context, arg string) error {
	if arg = unquoted(arg); arg == "" {
		return fmt.Errorf(".read needs a file name")
	}
	if s.depth == maxReadDepth {
		return fmt.Errorf(".read %s: files read each other more than %d deep", arg, maxReadDepth)
	}
	s.depth++
	defer func() { s.depth-- }()
	if err := s.RunFile(ctx, arg); err != nil {
		return fmt.Errorf(".read: %w", err)
	}
	return nil
}

// unquoted is a file name without the quotes around it.
func unquoted(arg string) string {
	if len(arg) >= 2 && (arg[0] == '\'' || arg[0] == '"') && arg[len(arg)-1] == arg[0] {
		return arg[1 : len(arg)-1]
	}
	return arg
}

func (s *Shell) dotMaxRows(_ context.Context, arg string) error {
	if arg == "" {
		_, err := fmt.Fprintln(s.out, s.format.maxRows())
		return err
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 {
		return fmt.Errorf(".maxrows is %q, allowed are 0 (all rows) and more", arg)
	}
	s.format.MaxRows = n
	return nil
}

func (s *Shell) dotPager(_ context.Context, arg string) error {
	switch arg {
	case "on":
		if s.screen == nil {
			return errors.New(".pager needs a terminal")
		}
		s.pager = true
		return nil
	case "off":
		s.pager = false
		return nil
	}
	return fmt.Errorf(".pager is %q, allowed are on, off", arg)
}

// dotOutput redirects results. A file gets them in full, whatever the terminal's width.
func (s *Shell) dotOutput(_ context.Context, arg string) error {
	if err := s.closeOutput(); err != nil {
		return err
	}
	arg = unquoted(arg)
	if arg == "" || arg == "stdout" {
		return nil
	}
	f, err := os.Create(arg)
	if err != nil {
		return fmt.Errorf(".output: %w", err)
	}
	s.file, s.kept, s.keptFormat = f, s.out, s.format
	s.out, s.format.Width, s.format.Terminal, s.printed = f, 0, false, false
	s.format.MaxRows = 0 // until .maxrows sets it for the file
	return nil
}

// closeOutput ends the effect of .output; a mode chosen since then stays.
func (s *Shell) closeOutput() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	mode := s.format.Mode
	s.out, s.format, s.file, s.printed = s.kept, s.keptFormat, nil, true
	s.format.Mode = mode
	if err != nil {
		return fmt.Errorf(".output: %w", err)
	}
	return nil
}

func (s *Shell) dotOpen(ctx context.Context, arg string) error {
	o := Options{DB: unquoted(arg)}
	db, conn, err := connect(ctx, ".open", o)
	if err != nil {
		return err
	}
	err = errors.Join(s.conn.Close(), s.db.Close())
	s.db, s.conn = db, conn
	return err
}

// dotImport appends a file to a table, matching columns by name.
func (s *Shell) dotImport(ctx context.Context, arg string) error {
	file, table, ok := lastWord(arg)
	if !ok {
		return errors.New(".import needs a file and a table: .import rows.csv rows")
	}
	file = unquoted(file)
	from := "'" + strings.ReplaceAll(file, "'", "''") + "'"
	if filepath.Ext(file) == ".tsv" {
		from = "read_csv(" + from + ")"
	}
	var parts []string
	for _, part := range nameParts(table) {
		parts = append(parts, `"`+strings.ReplaceAll(part, `"`, `""`)+`"`)
	}
	name := strings.Join(parts, ".")
	none := rowFunc(func([]driver.Value) error { return nil })
	text := "CREATE TABLE " + name + " AS FROM " + from
	if query(ctx, s.conn, "SELECT 1 FROM "+name+" LIMIT 0", false, none) == nil {
		text = "INSERT INTO " + name + " BY NAME FROM " + from
	}
	if err := s.Exec(ctx, text); err != nil {
		return fmt.Errorf(".import: %w", err)
	}
	return nil
}

// lastWord splits off the last word, which may be in double quotes and then contain blanks.
func lastWord(arg string) (before, word string, ok bool) {
	quoted := false
	for at := len(arg) - 1; at > 0; at-- {
		switch {
		case arg[at] == '"':
			quoted = !quoted
		case arg[at] == ' ' && !quoted:
			return strings.TrimSpace(arg[:at]), arg[at+1:], true
		}
	}
	return "", arg, false
}

// nameParts splits a name at its dots, except those in quotes.
func nameParts(name string) []string {
	out, quoted := []string{""}, false
	for at := 0; at < len(name); at++ {
		last := &out[len(out)-1]
		switch c := name[at]; {
		case c == '"' && quoted && strings.HasPrefix(name[at+1:], `"`):
			at++
			*last += `"`
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			out = append(out, "")
		default:
			*last += name[at : at+1]
		}
	}
	return out
}

func (s *Shell) dotTables(ctx context.Context, _ string) error {
	return s.list(ctx, `
		SELECT CASE WHEN schema = current_schema() AND db = current_database() THEN name
		            WHEN db IN (current_database(), 'temp') THEN schema || '.' || name
		            ELSE db || '.' || schema || '.' || name END
		FROM (SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE NOT internal
		      UNION ALL
		      SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal) AS t(db, schema, name)
		ORDER BY 1`)
}

func (s *Shell) dotSchema(ctx context.Context, arg string) error {
	if arg == "" {
		return s.list(ctx, schemaSQL+` ORDER BY kind, name`)
	}
	n := 0
	name := strings.ReplaceAll(strings.Trim(arg, `"`), "'", "''")
	err := query(ctx, s.conn, schemaSQL+` WHERE lower(name) = lower('`+name+`') ORDER BY kind`, false, rowFunc(func(v []driver.Value) error {
		n++
		return printFirst(s.out, v)
	}))
	if err == nil && n == 0 {
		return fmt.Errorf(".schema: no table or view is named %q; .tables lists them", arg)
	}
	return err
}

const schemaSQL = `
	SELECT sql FROM (
		SELECT 1, table_name, sql FROM duckdb_tables() WHERE NOT internal
		UNION ALL SELECT 2, index_name, sql FROM duckdb_indexes()
		UNION ALL SELECT 3, view_name, sql FROM duckdb_views() WHERE NOT internal) AS t(kind, name, sql)`

func (s *Shell) dotFunctions(ctx context.Context, _ string) error {
	width := 0
	var rows [][2]string
	err := query(ctx, s.conn, `
		SELECT f.signature, regexp_extract(f.description, '^.*?[.:](\s|$)')
		FROM (SELECT unnest(bglm_functions()) AS f) ORDER BY f.name`,
		false, rowFunc(func(v []driver.Value) error {
			r := [2]string{string(appendText(nil, nil, v[0])), strings.TrimRight(string(appendText(nil, nil, v[1])), ".: ")}
			rows = append(rows, r)
			width = max(width, len(r[0]))
			return nil
		}))
	if err != nil {
		return err
	}
	for _, r := range rows {
		fmt.Fprintf(s.out, "%-*s  %s\n", width, r[0], r[1])
	}
	return nil
}

// list prints the first column, one value per line.
func (s *Shell) list(ctx context.Context, text string) error {
	return query(ctx, s.conn, text, false, rowFunc(func(v []driver.Value) error { return printFirst(s.out, v) }))
}

func printFirst(w io.Writer, v []driver.Value) error {
	_, err := fmt.Fprintln(w, Message(string(appendText(nil, nil, v[0]))))
	return err
}
