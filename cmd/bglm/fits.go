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
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/option"
)

// fits is a temporary table of the session: the columns of groups and fit.
type fits struct {
	table string
	group []columnType
	// isFit says that fit is a FIT; bglm_gp gives another STRUCT.
	isFit, hasClass bool
	meta            []string // pairs: the job that made them
}

func (f *fits) job(key string) string {
	for i := 0; i+1 < len(f.meta); i += 2 {
		if f.meta[i] == key {
			return f.meta[i+1]
		}
	}
	return ""
}

// look fills in what the table itself says.
func (s *session) look(table string, meta []string) (*fits, error) {
	cols, err := s.describe("FROM " + table)
	if err != nil {
		return nil, err
	}
	f := &fits{table: table, meta: meta}
	found := false
	for _, c := range cols {
		if strings.EqualFold(c.name, "fit") {
			found = true
			f.isFit = strings.Contains(c.sqlType, "beliefs STRUCT(")
			f.hasClass = strings.Contains(c.sqlType, "class VARCHAR") || strings.Contains(c.sqlType, `"class" VARCHAR`)
		} else {
			f.group = append(f.group, c)
		}
	}
	if !found {
		return nil, fmt.Errorf("no column fit; found: %s", strings.Join(names(cols), ", "))
	}
	return f, nil
}

// ---- reading -------------------------------------------------------------------

// load reads fits from a file into a temporary table: a belief table (Parquet,
// Arrow, CSV, JSON), grouped or not, a table with a column fit, or a database that
// bglm fit made. opts say what a table without bglm's metadata is.
func (s *session) load(table, path string, opts [][2]string) (*fits, error) {
	s.e.note(path)
	f, err := s.loadAny(table, path, opts)
	if err == nil && f.isFit {
		// Decoded here, a damaged fit is an error of this file and of no other.
		var n int64
		err = s.row("SELECT count(bglm_beliefs(fit)) FROM "+f.table, &n)
	}
	if err != nil {
		return nil, named(path, err)
	}
	return f, nil
}

func (s *session) loadAny(table, path string, opts [][2]string) (*fits, error) {
	kind := kindOf(path)
	if err := checkData(path, kind); err != nil {
		return nil, err
	}
	file, err := job.Literal(path)
	if err != nil {
		return nil, err
	}
	file = job.FileList([]string{file})
	from := ""
	var meta []string
	switch kind {
	case "duckdb":
		alias := table + "_db"
		if err := s.exec("ATTACH " + quoteText(path) + " AS " + alias + " (READ_ONLY)"); err != nil {
			return nil, err
		}
		err := s.exec("CREATE TEMP TABLE " + table + " AS FROM " + alias + ".main.fits")
		if err == nil {
			meta, err = s.pairs("SELECT key, value FROM " + alias + ".main.bglm_job ORDER BY key")
		}
		if err := errors.Join(err, s.exec("DETACH "+alias)); err != nil {
			return nil, fmt.Errorf("not a database of bglm fit --out: %w", err)
		}
		return s.lookNewest(table, meta)
	case "arrow":
		r, err := arrowio.OpenIPC(path)
		if err != nil {
			return nil, err
		}
		inColumn := r.Schema().HasField("fit")
		m := r.Schema().Metadata()
		err = s.jobOf(m.Keys(), m.Values(), &meta)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		if !inColumn {
			return s.loadPlain(table, path, opts)
		}
		if from, err = job.SpoolArrow(s.Session, path, nil, 1<<20); err != nil {
			return nil, err
		}
		from = "read_parquet(" + quoteText(from) + ", file_row_number = true)"
	case "parquet":
		cols, err := s.describe("FROM read_parquet(" + file + ")")
		if err != nil {
			return nil, err
		}
		own, err := s.pairs("SELECT decode(key), decode(value) FROM parquet_kv_metadata(" + file + ") WHERE starts_with(decode(key), 'bglm.')")
		if err != nil {
			return nil, err
		}
		var keys, values []string
		for i := 0; i < len(own); i += 2 {
			keys, values = append(keys, own[i]), append(values, own[i+1])
		}
		if err := s.jobOf(keys, values, &meta); err != nil {
			return nil, err
		}
		if !slices.Contains(names(cols), "fit") {
			return s.loadPlain(table, path, opts)
		}
		from = "read_parquet(" + file + ", file_row_number = true)"
	case "csv", "json":
		from = "(SELECT *, row_number() OVER () AS file_row_number FROM read_" + kind + "(" + file + "))"
	default:
		return nil, errors.New("the extension does not say what it is; allowed: .parquet, .arrow, .csv, .json, .duckdb")
	}
	cols, err := s.describe("FROM " + from)
	if err != nil {
		return nil, err
	}
	have := names(cols)
	if i := slices.Index(have, "fit"); i >= 0 && !slices.Contains(have, "feature") {
		q := "CREATE TEMP TABLE " + table + " AS SELECT * EXCLUDE (file_row_number) FROM " + from
		if err := s.exec(q); err != nil {
			return nil, err
		}
		return s.lookNewest(table, meta)
	}
	return s.loadFlat(table, from, cols, opts, meta)
}

// jobOf appends what the metadata of a file tell of the job. Errors: a version of the
// belief table that is not known yet.
func (s *session) jobOf(keys, values []string, meta *[]string) error {
	for i, k := range keys {
		if k == "bglm.schema" && !slices.Contains([]string{"1", "2", arrowio.SchemaVersion}, values[i]) {
			return fmt.Errorf("%w: metadata bglm.schema = %.40q; allowed: \"1\", \"2\" and %q; a newer bglm may read it", arrowio.ErrVersion, values[i], arrowio.SchemaVersion)
		}
		if k, ok := strings.CutPrefix(k, "bglm.job."); ok {
			*meta = append(*meta, k, values[i])
		}
	}
	return nil
}

// lookNewest is look at a temporary table whose FITs may be of an earlier layout.
func (s *session) lookNewest(table string, meta []string) (*fits, error) {
	f, err := s.look(table, meta)
	if err == nil {
		err = s.upgrade(f)
	}
	return f, err
}

func (s *session) pairs(query string) ([]string, error) {
	var out []string
	err := s.each(query, func(scan func(...any) error) error {
		var k, v string
		err := scan(&k, &v)
		out = append(out, k, v)
		return err
	})
	return out, err
}

// loadFlat reads rows of groups, class, feature, mean, variance, covariance and fit
// (the rest of the FIT).
func (s *session) loadFlat(table, from string, cols []columnType, opts [][2]string, meta []string) (*fits, error) {
	var group []string
	have := map[string]bool{}
	for _, c := range cols {
		low := strings.ToLower(c.name)
		have[low] = true
		if !slices.Contains(job.Reserved, low) && low != "file_row_number" {
			group = append(group, c.name)
		}
	}
	for _, c := range []string{"feature", "mean", "variance"} {
		if !have[c] {
			return nil, fmt.Errorf("no column %s; found: %s; a belief table has feature, mean and variance", c, strings.Join(names(cols), ", "))
		}
	}
	keys := quoteNames(group)
	if keys != "" {
		keys += ", "
	}
	class := ""
	if have["class"] {
		class = ", 'class': class"
	}
	by := ""
	if len(group) > 0 {
		by = " GROUP BY " + quoteNames(group)
	}
	q := ""
	if have["fit"] {
		values := "[]"
		if have["covariance"] {
			values = "flatten(list(covariance ORDER BY file_row_number))"
		}
		// In the first layout each row of a group had the rest of its fit, as a STRUCT.
		rest, flat := "from_json(any_value(fit), "+quoteText(restShape())+")", false
		if i := slices.IndexFunc(cols, func(c columnType) bool { return strings.EqualFold(c.name, "fit") }); strings.HasPrefix(cols[i].sqlType, "STRUCT") {
			rest, flat = "any_value(fit)", true
		}
		q = "SELECT " + keys + fitSQL("rest", "coalesce(beliefs, [])", `coalesce("values", [])`, have["class"], flat) + " AS fit FROM (SELECT " + keys + rest + " AS rest, " +
			"list({'feature': feature, 'mean': mean, 'variance': variance" + class + "} ORDER BY file_row_number) FILTER (NOT (feature IS NULL AND mean IS NULL AND variance IS NULL)) AS beliefs, " +
			values + ` AS "values" FROM ` + from + by + ")"
	} else {
		o := "NULL"
		var parts []string
		for _, kv := range opts {
			parts = append(parts, quoteText(kv[0])+": "+job.OptionSQL(kv[0], kv[1]))
		}
		if len(parts) > 0 {
			o = "{" + strings.Join(parts, ", ") + "}"
		}
		q = "SELECT " + keys + "bglm_from_beliefs(list({'feature': feature::VARCHAR, 'mean': mean::DOUBLE, 'variance': variance::DOUBLE} ORDER BY file_row_number), " + o + ") AS fit FROM " + from + by
	}
	if err := s.exec("CREATE OR REPLACE TEMP TABLE " + table + " AS " + q); err != nil {
		return nil, err
	}
	return s.look(table, meta)
}

// loadPlain reads a belief table in Parquet or Arrow through arrowio, which checks
// all of it.
func (s *session) loadPlain(table, path string, opts [][2]string) (*fits, error) {
	set, err := job.Settings(s.Session, option.For("from_beliefs").Without("hash_bits", "covariance"), opts)
	if err != nil {
		return nil, err
	}
	o := &arrowio.Options{Family: set.Family, Link: set.Link, Shape: set.Params.Shape, Dispersion: set.Params.Dispersion, Prior: &set.Prior}
	if set.Given("intercept") {
		intercept := !set.NoIntercept
		o.Intercept = &intercept
	}
	f, kept, err := arrowio.ReadFitFile(path, o)
	if err != nil {
		return nil, err
	}
	var meta []string
	for k, v := range kept {
		meta = append(meta, k, v)
	}
	return s.insert(table, &arrowio.Groups{Fits: []*kernels.Fit{f}}, meta)
}

// insert makes the table of fits that Go has, by way of a file.
func (s *session) insert(table string, g *arrowio.Groups, meta []string) (*fits, error) {
	path := filepath.Join(s.dir, table+".parquet")
	err := s.e.create(path, func(w io.Writer) error { return g.WriteParquet(w) })
	if err != nil {
		return nil, err
	}
	from := "read_parquet(" + quoteText(path) + ", file_row_number = true)"
	cols, err := s.describe("FROM " + from)
	if err != nil {
		return nil, err
	}
	f, err := s.loadFlat(table, from, cols, nil, meta)
	return f, errors.Join(err, os.Remove(path))
}

// fetch is the one fit of an ungrouped table, by way of a file.
func (s *session) fetch(f *fits) (*kernels.Fit, error) {
	path := filepath.Join(s.dir, f.table+"-fetched.parquet")
	if err := s.copyTo(path, f.flat(true), []string{"bglm.schema", arrowio.SchemaVersion}); err != nil {
		return nil, err
	}
	out, err := arrowio.ReadParquetFile(path, nil)
	return out, errors.Join(err, os.Remove(path))
}

// ---- writing -------------------------------------------------------------------

// flat is the belief table of f as a query: groups, class, feature, mean, variance;
// whole adds the covariance and the rest of the FIT.
func (f *fits) flat(whole bool) string {
	cols := ""
	if len(f.group) > 0 {
		cols = quoteNames(names(f.group)) + ", "
	}
	if f.hasClass {
		cols += "b.class AS class, "
	}
	cols += "b.feature AS feature, b.mean AS mean, b.variance AS variance"
	empty := ""
	if whole {
		cols += `, CASE fit.covariance.kind WHEN 'full' THEN fit.covariance.values[k * (k - 1) // 2 + 1 : k * (k + 1) // 2]
			WHEN 'lowrank' THEN fit.covariance.values[(k - 1) * (fit.covariance.rank + 1) + 1 : k * (fit.covariance.rank + 1)] ELSE [] END AS covariance,
			CASE WHEN k = 1 THEN ` + restSQL("fit") + ` END AS fit`
		empty = " UNION ALL SELECT *, NULL, 1 FROM " + f.table + " WHERE len(fit.beliefs) = 0" // a row without a belief
	}
	q := "SELECT " + cols + " FROM (SELECT *, unnest(fit.beliefs) AS b, generate_subscripts(fit.beliefs, 1) AS k FROM " + f.table + empty + ")"
	if len(f.group) > 0 {
		q += " ORDER BY " + quoteNames(names(f.group)) + ", k"
	}
	return q
}

// copyOptions are DuckDB's for a file kind.
func copyOptions(path, kind string, meta []string) string {
	switch kind {
	case "csv":
		delim := ""
		if strings.Contains(strings.ToLower(filepath.Base(path)), ".tsv") {
			delim = ", DELIMITER '\t'"
		}
		return "(FORMAT csv, HEADER" + delim + packing(path) + ")"
	case "json":
		array := ", ARRAY true"
		if low := strings.ToLower(path); strings.Contains(low, ".ndjson") || strings.Contains(low, ".jsonl") {
			array = ""
		}
		return "(FORMAT json" + array + packing(path) + ")"
	}
	kv := ""
	if len(meta) > 0 {
		var parts []string
		for i := 0; i+1 < len(meta); i += 2 {
			parts = append(parts, quoteName(meta[i])+": "+quoteText(meta[i+1]))
		}
		kv = ", KV_METADATA {" + strings.Join(parts, ", ") + "}"
	}
	return "(FORMAT parquet, COMPRESSION zstd" + kv + ")"
}

func packing(path string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".gz":
		return ", COMPRESSION gzip"
	case ".zst":
		return ", COMPRESSION zstd"
	}
	return ""
}

// copyTo writes a query's rows to a file of the kind its name says.
func (s *session) copyTo(path, query string, meta []string) (err error) {
	kind := kindOf(path)
	switch kind {
	case "parquet", "csv", "json":
		if kind == "csv" && s.csvSafe {
			if query, err = s.spreadsheet(query); err != nil {
				return err
			}
		}
		return s.e.atomically(path, func(tmp string) error {
			return s.long("writing", "COPY ("+query+") TO "+quoteText(tmp)+" "+copyOptions(path, kind, meta))
		})
	case "arrow":
		spool := filepath.Join(s.dir, "out.parquet")
		if err := s.long("writing", "COPY ("+query+") TO "+quoteText(spool)+" (FORMAT parquet, COMPRESSION uncompressed)"); err != nil {
			return err
		}
		return s.e.create(path, func(f io.Writer) error {
			w := bufio.NewWriterSize(f, 1<<20)
			err := pqrows.ToIPC(s.ctx, w, spool, strings.EqualFold(filepath.Ext(path), ".arrows"), meta...)
			return s.failed(errors.Join(err, w.Flush()))
		})
	case "duckdb":
		return s.database(path, func(db string) error {
			return s.long("writing", "CREATE OR REPLACE TABLE "+db+".main.predictions AS "+query)
		})
	}
	return outKind(path)
}

// spreadsheet puts an apostrophe before the names and the text of a query's columns
// that a spreadsheet would run, as shell.Format.CSVSafe does.
func (s *session) spreadsheet(query string) (string, error) {
	cols, err := s.describe(query)
	if err != nil {
		return "", err
	}
	var out []string
	for _, c := range cols {
		name, as := quoteName(c.name), quoteName(shell.Tame(c.name))
		if numericType.MatchString(c.sqlType) {
			out = append(out, name+" AS "+as)
			continue
		}
		text := name + "::VARCHAR"
		out = append(out, "CASE WHEN "+text+" <> '' AND contains("+quoteText(shell.Formula)+", ("+text+")[1]) THEN '''' || "+text+" ELSE "+text+" END AS "+as)
	}
	return "SELECT " + strings.Join(out, ", ") + " FROM (" + query + ")", nil
}

var numericType = regexp.MustCompile(`^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BIGNUM|FLOAT|DOUBLE|DECIMAL\(.*\)|BOOLEAN)$`)

func outKind(path string) error {
	return usageError{fmt.Errorf("--out %s: the extension says what is written; allowed: .parquet, .arrow, .csv, .json, .duckdb", path)}
}

// checkOut refuses early what could not be written after a long fit.
func checkOut(path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if kindOf(path) == "" {
		return outKind(path)
	}
	st, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("--out %s: %w", path, err)
	}
	if !st.IsDir() {
		return fmt.Errorf("--out %s: %s is no folder", path, filepath.Dir(path))
	}
	return nil
}

// database lets write make tables in the DuckDB file path: in a transaction if it is
// there, else in a file that is renamed when it is whole.
func (s *session) database(path string, write func(db string) error) error {
	const db = "bglm_out"
	attach := func(file string) error { return s.exec("ATTACH " + quoteText(file) + " AS " + db) }
	inside := func() (err error) {
		if err := s.exec("BEGIN"); err != nil {
			return err
		}
		if err := write(db); err != nil {
			_, _ = s.conn.ExecContext(s.e.ctx, "ROLLBACK")
			return err
		}
		return s.exec("COMMIT")
	}
	detach := func() error {
		_, err := s.conn.ExecContext(s.e.ctx, "DETACH "+db)
		return err
	}
	if _, err := os.Stat(path); err == nil {
		if err := attach(path); err != nil {
			return named(path, err)
		}
		return errors.Join(inside(), detach())
	}
	return s.e.atomically(path, func(tmp string) error {
		if err := attach(tmp); err != nil {
			return err
		}
		return errors.Join(inside(), detach())
	})
}

// save writes fits to a file, as its extension says.
func (s *session) save(f *fits, path string) error {
	kind := kindOf(path)
	if kind == "" {
		return outKind(path)
	}
	if kind == "duckdb" {
		return s.database(path, func(db string) error { return s.saveTables(f, db) })
	}
	var meta []string
	for i := 0; i+1 < len(f.meta); i += 2 {
		meta = append(meta, "bglm.job."+f.meta[i], f.meta[i+1])
	}
	meta = append(meta, "bglm.schema", arrowio.SchemaVersion)
	switch {
	case !f.isFit:
		if kind == "csv" || kind == "arrow" {
			return fmt.Errorf("--out %s: this method's fit has no belief table; allowed: .parquet, .json, .duckdb", path)
		}
		return s.copyTo(path, "FROM "+f.table, meta)
	case kind == "csv" || kind == "json":
		return s.copyTo(path, f.flat(false), nil)
	}
	return s.copyTo(path, f.flat(true), meta)
}

// saveTables writes fits, the view beliefs over it, and the job.
func (s *session) saveTables(f *fits, db string) error {
	steps := []string{
		"CREATE OR REPLACE TABLE " + db + ".main.fits AS FROM " + f.table,
		"CREATE OR REPLACE TABLE " + db + ".main.bglm_job (key VARCHAR PRIMARY KEY, value VARCHAR)",
	}
	if f.isFit {
		view := *f
		view.table = "main.fits"
		steps = append(steps, "CREATE OR REPLACE VIEW "+db+".main.beliefs AS "+view.flat(false))
	}
	for i := 0; i+1 < len(f.meta); i += 2 {
		steps = append(steps, "INSERT INTO "+db+".main.bglm_job VALUES ("+quoteText(f.meta[i])+", "+quoteText(f.meta[i+1])+")")
	}
	for _, q := range steps {
		if err := s.exec(q); err != nil {
			return err
		}
	}
	return nil
}
