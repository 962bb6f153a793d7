package fitstore

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/quote"
)

// outDB is the name under which the output database is attached.
const outDB = "bglm_out"

// Database calls write to create tables in the DuckDB file path: in a transaction if the file
// exists, else in a new file that is renamed once complete.
func Database(s *duck.Session, path string, write func(db string) error) error {
	attach := func(file string) error { return s.Exec("ATTACH " + quote.Text(file) + " AS " + outDB) }
	inside := func() (err error) {
		if err := s.Exec("BEGIN"); err != nil {
			return err
		}
		if err := write(outDB); err != nil {
			_ = s.Undo("ROLLBACK")
			return err
		}
		return s.Commit()
	}
	detach := func() error { return s.Undo("DETACH " + outDB) }
	if _, err := os.Stat(path); err == nil {
		again, err := lendFile(s, path)
		if err != nil {
			return err
		}
		if err := attach(path); err != nil {
			return files.Named(path, errors.Join(err, again()))
		}
		return files.Named(path, errors.Join(inside(), detach(), again()))
	}
	return files.Atomically(path, s.Env.Stderr, func(tmp string) error {
		if err := attach(tmp); err != nil {
			return err
		}
		return errors.Join(inside(), detach())
	})
}

// readAs is the name under which the session has attached the database of a file, "" if it has not.
func readAs(s *duck.Session, path string) (name string, err error) {
	own, err := os.Stat(path)
	if err != nil {
		return "", nil // it does not exist yet
	}
	return name, s.Each("SELECT database_name, path FROM duckdb_databases() WHERE path IS NOT NULL AND NOT internal", func(scan func(...any) error) error {
		var db, file string
		if err := scan(&db, &file); err != nil {
			return err
		}
		if st, err := os.Stat(file); err == nil && os.SameFile(own, st) {
			name = db
		}
		return nil
	})
}

// lendFile detaches a database that is read, since DuckDB opens no file twice; again reattaches it.
func lendFile(s *duck.Session, path string) (again func() error, err error) {
	name, err := readAs(s, path)
	if err != nil || name == "" {
		return func() error { return nil }, err
	}
	return func() error { return s.Exec("ATTACH " + quote.Text(path) + " AS " + name + " (READ_ONLY)") }, s.Exec("DETACH " + name)
}

// savePredictions writes a query's rows to the table predictions of a database, which may also be
// the source of the rows.
func savePredictions(s *duck.Session, path, query string) error {
	read, err := readAs(s, path)
	if err != nil {
		return err
	}
	if read != "" {
		if err := s.Long("scoring", "CREATE OR REPLACE TEMP TABLE predicted AS "+query); err != nil {
			return err
		}
		defer func() { _ = s.Exec("DROP TABLE predicted") }()
		query = "FROM temp.main.predicted"
	}
	return Database(s, path, func(db string) error {
		if own, err := userTableKind(s, db, "predictions"); err != nil || own != "" {
			return errors.Join(err, userTableError(own, "predictions"))
		}
		if err := remake(s, db, "TABLE", "predictions", " AS "+query); err != nil {
			return err
		}
		return s.Unchanged()
	})
}

// madeBy is the comment on tables that bglm created in a database, and may replace.
const madeBy = "made by bglm"

// FitTables and PredictionTables are the tables for a fit, and for predictions, in a database.
var (
	FitTables        = []string{"fits", "bglm_job", "beliefs"}
	PredictionTables = []string{"predictions"}
)

// CheckTables reports early if a database has tables of the user's under these names.
func CheckTables(s *duck.Session, path string, names []string) error {
	if _, err := os.Stat(path); err != nil || files.KindOf(path) != "duckdb" {
		return nil
	}
	if err := s.Exec("ATTACH " + quote.Text(path) + " AS " + outDB + " (READ_ONLY)"); err != nil {
		return files.Named(path, err)
	}
	var found error
	for _, name := range names {
		own, err := userTableKind(s, outDB, name)
		found = errors.Join(found, err, userTableError(own, name))
	}
	return files.Named(path, errors.Join(found, s.Exec("DETACH "+outDB)))
}

// userTableError is the error for a table or view, of that kind, of the user's; nil for none.
func userTableError(kind, name string) error {
	if kind == "" {
		return nil
	}
	return fmt.Errorf("it has a %s %s without the mark of bglm, which would replace it; give another file, or rename that", kind, name)
}

// remake creates or replaces a table or a view of a database.
func remake(s *duck.Session, db, kind, name, definition string) error {
	full := db + ".main." + name
	if err := s.Long("writing", "CREATE OR REPLACE "+kind+" "+full+definition); err != nil {
		return err
	}
	return s.Exec("COMMENT ON " + kind + " " + full + " IS '" + madeBy + "'")
}

// userTableKind is the kind of a table or view of the user's, "" if there is none or bglm created
// it. Versions before the comment are recognised by what only they wrote: fits with a FIT together
// with bglm_job, and no comment.
func userTableKind(s *duck.Session, db, name string) (kind string, err error) {
	err = s.Each("SELECT kind, coalesce(comment, '') FROM (SELECT 'table' AS kind, database_name, schema_name, table_name AS name, comment FROM duckdb_tables() UNION ALL SELECT 'view', database_name, schema_name, view_name, comment FROM duckdb_views() WHERE NOT internal) WHERE database_name = "+
		quote.Text(db)+" AND schema_name = 'main' AND lower(name) = "+quote.Text(strings.ToLower(name)), func(scan func(...any) error) error {
		var comment string
		if err := scan(&kind, &comment); err != nil {
			return err
		}
		if strings.HasPrefix(comment, madeBy) {
			kind = ""
		}
		return nil
	})
	if err != nil || kind == "" || name == "predictions" {
		return kind, err
	}
	var old bool
	err = s.Row(`SELECT count(*) FILTER (table_name = 'fits' AND column_name = 'fit' AND data_type LIKE 'STRUCT(%') = 1 AND count(*) FILTER (table_name = 'bglm_job' AND column_name IN ('key', 'value')) = 2
			AND count(*) FILTER (table_name = 'fits' AND table_comment IS NOT NULL) = 0
		FROM (SELECT c.table_name, c.column_name, c.data_type, t.comment AS table_comment FROM duckdb_columns() c JOIN duckdb_tables() t USING (table_oid, database_name) WHERE database_name = `+quote.Text(db)+` AND t.schema_name = 'main')`, &old)
	if old {
		kind = ""
	}
	return kind, err
}

// jobTable are the columns of the table bglm_job.
const jobTable = " (key VARCHAR PRIMARY KEY, value VARCHAR)"

// SaveTables writes fits, the view beliefs over it, and the job.
func (f *Fits) SaveTables(db string) error {
	s := f.s
	steps := [][3]string{{"TABLE", "fits", " AS FROM " + f.Table}, {"TABLE", "bglm_job", jobTable}}
	if f.IsFit {
		view := *f
		view.Table = "main.fits"
		steps = append(steps, [3]string{"VIEW", "beliefs", " AS " + view.Flat(false)})
	}
	// Check all first: the three are recognised only together, so not once one is replaced.
	for _, t := range steps {
		if own, err := userTableKind(s, db, t[1]); err != nil || own != "" {
			return errors.Join(err, userTableError(own, t[1]))
		}
	}
	for _, t := range steps {
		if err := remake(s, db, t[0], t[1], t[2]); err != nil {
			return err
		}
	}
	for i := 0; i+1 < len(f.Meta); i += 2 {
		if err := s.Exec("INSERT INTO " + db + ".main.bglm_job VALUES (" + quote.Text(f.Meta[i]) + ", " + quote.Text(f.Meta[i+1]) + ")"); err != nil {
			return err
		}
	}
	return nil
}
