package fitstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
)

// Load reads fits from a file into a temporary table: a belief table (Parquet, Arrow, CSV, JSON),
// grouped or not, a table with a column fit, or a database created by bglm fit. opts describe the
// model of a table without bglm's metadata; an error if they lack its family.
func Load(s *duck.Session, table, path string, opts [][2]string) (*Fits, error) {
	s.Env.Note(path)
	f, err := loadAny(s, table, path, opts)
	if err == nil && f.IsFit {
		// Decoded here, a damaged fit is an error in this file and no other.
		var n int64
		err = s.Row("SELECT count(bglm_beliefs(fit)) FROM "+f.Table, &n)
	}
	if err != nil {
		return nil, files.Named(path, err)
	}
	return f, nil
}

func loadAny(s *duck.Session, table, path string, opts [][2]string) (*Fits, error) {
	kind := files.KindOf(path)
	if err := files.Check(path, kind); err != nil {
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
		return loadDatabase(s, table, path)
	case "arrow", "parquet":
		from = "read_parquet(" + file + ", file_row_number = true)"
		var inColumn, known bool
		if kind == "arrow" {
			inColumn, known, meta, err = arrowMeta(path)
		} else {
			inColumn, known, meta, err = parquetMeta(s, file)
		}
		if err != nil {
			return nil, err
		}
		if !inColumn {
			f, err := loadPlain(s, table, path, known, opts)
			if err == nil && !known {
				if err = checkFamily(opts); err == nil {
					err = remarkPlain(s, f, path)
				}
			}
			return f, err
		}
		if kind == "arrow" {
			spool, err := job.SpoolArrow(s, path, nil, 1<<20)
			if err != nil {
				return nil, err
			}
			from = "read_parquet(" + quote.Text(spool) + ", file_row_number = true)"
		}
	case "csv", "json":
		from = "(SELECT *, row_number() OVER () AS file_row_number FROM read_" + kind + "(" + file + "))"
	default:
		return nil, errors.New("the extension does not say what it is; allowed: .parquet, .arrow, .csv, .json, .duckdb")
	}
	cols, err := s.Describe("FROM " + from)
	if err != nil {
		return nil, err
	}
	have := duck.Names(cols)
	if slices.Contains(have, "fit") && !slices.Contains(have, "feature") {
		if err := s.Exec("CREATE TEMP TABLE " + table + " AS SELECT * EXCLUDE (file_row_number) FROM " + from); err != nil {
			return nil, err
		}
		return OpenUpgraded(s, table, meta)
	}
	named := slices.ContainsFunc(have, func(name string) bool { return strings.EqualFold(name, "feature") })
	if named && (kind == "csv" || kind == "json") {
		if from, cols, err = asWritten(s, kind, file, cols); err != nil {
			return nil, err
		}
	}
	f, err := loadFlat(s, table, from, cols, opts, meta)
	if err == nil && !slices.ContainsFunc(have, func(name string) bool { return strings.EqualFold(name, "fit") }) {
		err = remarkPlain(s, f, path)
	}
	return f, err
}

// remarkPlain warns of options, given or missing, unlikely to be meant for beliefs alone.
func remarkPlain(s *duck.Session, f *Fits, path string) error {
	var beside, slots bool
	err := s.Row(`SELECT coalesce(bool_or(NOT intercept AND list_contains(names, '(Intercept)')), false),
		coalesce(bool_or(bits IS NULL AND len(list_filter(names, lambda name: name <> '(Intercept)')) > 0 AND len(list_filter(names, lambda name: NOT regexp_full_match(name, '#[0-9]+|[(]Intercept[)]'))) = 0), false)
		FROM (SELECT fit.intercept AS intercept, fit.hash_bits AS bits, list_transform(fit.beliefs, lambda b: b.feature) AS names FROM `+f.Table+")", &beside, &slots)
	if err != nil {
		return err
	}
	if beside {
		fmt.Fprintf(s.Env.Stderr, "%s: (Intercept) is a feature like others in a model without intercept: of rows that bring it themselves\n", path)
	}
	if slots {
		fmt.Fprintf(s.Env.Stderr, "%s: its features are called as slots of hash_bits are: give --option hash_bits=BITS, of the fit, else rows have none of them\n", path)
	}
	return nil
}

// asWritten reads names of features and groups in a CSV or JSON file literally: DuckDB would turn
// '1.50' into 1.5, '2024-1-2' into a date and empty text into NULL. Groups keep the type that
// DuckDB finds if it prints them in the same form, as for whole numbers.
func asWritten(s *duck.Session, kind, file string, cols []duck.Column) (from string, out []duck.Column, err error) {
	var types, groups, same []string
	for _, c := range cols {
		switch low := strings.ToLower(c.Name); {
		case low == "file_row_number":
			continue
		case low == "feature":
			c.Type = "VARCHAR"
		case !slices.Contains(job.Reserved, low) && c.Type != "VARCHAR" && !strings.ContainsAny(c.Type, "(["):
			text := "nullif(" + quote.Name(c.Name) + ", '')"
			groups = append(groups, c.Name)
			same = append(same, fmt.Sprintf("CASE WHEN coalesce(bool_and(TRY_CAST(%[1]s AS %[2]s)::VARCHAR IS NOT DISTINCT FROM %[1]s), true) THEN %[3]s ELSE 'VARCHAR' END", text, c.Type, quote.Text(c.Type)))
			if kind == "csv" && c.Type == "DOUBLE" {
				same[len(same)-1] = "'VARCHAR'" // 0.1 may have been a FLOAT
			}
			c.Type = "VARCHAR"
		}
		types = append(types, quote.Text(c.Name)+": "+quote.Text(c.Type))
	}
	how := "columns = {"
	if kind == "csv" {
		how = "header = true, allow_quoted_nulls = false, types = {"
	}
	from = "read_" + kind + "(" + file + ", " + how + strings.Join(types, ", ") + "})"
	if len(groups) > 0 {
		if same, err = s.Texts("SELECT unnest([" + strings.Join(same, ", ") + "]) FROM " + from); err != nil {
			return "", nil, err
		}
		for i, name := range groups {
			groups[i] = "nullif(" + quote.Name(name) + ", '')::" + same[i] + " AS " + quote.Name(name)
		}
		from = "(SELECT * REPLACE (" + strings.Join(groups, ", ") + ") FROM " + from + ")"
	}
	from = "(SELECT *, row_number() OVER () AS file_row_number FROM " + from + ")"
	out, err = s.Describe("FROM " + from)
	return from, out, err
}

// checkFamily reports beliefs whose family is not given: those of counts would be read as those of
// outcomes.
func checkFamily(opts [][2]string) error {
	if slices.ContainsFunc(opts, func(o [2]string) bool { return o[0] == "family" || o[0] == "link" }) {
		return nil
	}
	var names []string
	for _, f := range lik.Families() {
		if !slices.Contains(names, f.Family) {
			names = append(names, f.Family)
		}
	}
	return cli.Usage(fmt.Errorf("it has beliefs, but not what they are of: give --option family=NAME, of %s, and link, shape, dispersion, intercept where they are not the default", strings.Join(names, ", ")))
}

// loadDatabase reads the fits of a database created by bglm fit.
func loadDatabase(s *duck.Session, table, path string) (*Fits, error) {
	alias := table + "_db"
	if err := s.Exec("ATTACH " + quote.Text(path) + " AS " + alias + " (READ_ONLY)"); err != nil {
		return nil, err
	}
	var meta []string
	err := s.Exec("CREATE TEMP TABLE " + table + " AS FROM " + alias + ".main.fits")
	if err == nil {
		meta, err = pairs(s, "SELECT key, value FROM "+alias+".main.bglm_job ORDER BY key")
	}
	if err := errors.Join(err, s.Exec("DETACH "+alias)); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n\nLINE ") // the quoted statement is not the user's
		return nil, fmt.Errorf("not a database of bglm fit --out: %w", duck.Reword(err, text))
	}
	return OpenUpgraded(s, table, meta)
}

// arrowMeta returns the job of a file, whether it has the rest of its fits in a column, and whether
// its metadata describe a fit.
func arrowMeta(path string) (inColumn, known bool, meta []string, err error) {
	r, err := arrowio.OpenIPC(path)
	if err != nil {
		return false, false, nil, err
	}
	m := r.Schema().Metadata()
	meta, err = jobOf(m.Keys(), m.Values())
	return r.Schema().HasField("fit"), m.FindKey("bglm.schema") >= 0, meta, errors.Join(err, r.Close())
}

// parquetMeta is arrowMeta for Parquet; file is a list in SQL.
func parquetMeta(s *duck.Session, file string) (inColumn, known bool, meta []string, err error) {
	cols, err := s.Describe("FROM read_parquet(" + file + ")")
	if err != nil {
		return false, false, nil, err
	}
	all, err := pairs(s, "SELECT decode(key), decode(value) FROM parquet_kv_metadata("+file+") WHERE starts_with(decode(key), 'bglm.')")
	if err != nil {
		return false, false, nil, err
	}
	var keys, values []string
	for i := 0; i < len(all); i += 2 {
		keys, values = append(keys, all[i]), append(values, all[i+1])
	}
	meta, err = jobOf(keys, values)
	return slices.Contains(duck.Names(cols), "fit"), slices.Contains(keys, "bglm.schema"), meta, err
}

// jobOf returns the job in the metadata of a file, as pairs. Errors: a version of the belief table
// that is not known yet.
func jobOf(keys, values []string) (meta []string, err error) {
	for i, k := range keys {
		if k == "bglm.schema" && !slices.Contains([]string{"1", "2", arrowio.SchemaVersion}, values[i]) {
			return nil, fmt.Errorf("%w: metadata bglm.schema = %.40q; allowed: \"1\", \"2\" and %q; a newer bglm may read it", arrowio.ErrVersion, values[i], arrowio.SchemaVersion)
		}
		if k, ok := strings.CutPrefix(k, "bglm.job."); ok {
			meta = append(meta, k, values[i])
		}
	}
	return meta, nil
}

// OpenUpgraded is Open for a temporary table whose FITs may have an earlier layout.
func OpenUpgraded(s *duck.Session, table string, meta []string) (*Fits, error) {
	f, err := Open(s, table, meta)
	if err == nil {
		err = f.upgrade()
	}
	return f, err
}

func pairs(s *duck.Session, query string) ([]string, error) {
	var out []string
	err := s.Each(query, func(scan func(...any) error) error {
		var k, v string
		err := scan(&k, &v)
		out = append(out, k, v)
		return err
	})
	return out, err
}

// loadFlat reads rows of groups, class, feature, mean, variance, covariance and fit
// (the rest of the FIT).
func loadFlat(s *duck.Session, table, from string, cols []duck.Column, opts [][2]string, meta []string) (*Fits, error) {
	var group []string
	have := map[string]bool{}
	for _, c := range cols {
		low := strings.ToLower(c.Name)
		have[low] = true
		if !slices.Contains(job.Reserved, low) && low != "file_row_number" {
			group = append(group, c.Name)
		}
	}
	for _, c := range []string{"feature", "mean", "variance"} {
		if !have[c] {
			found := slices.DeleteFunc(duck.Names(cols), func(name string) bool { return name == "file_row_number" })
			return nil, fmt.Errorf("no column %s; found: %s; a belief table has feature, mean and variance", c, strings.Join(found, ", "))
		}
	}
	keys := quote.Names(group)
	if keys != "" {
		keys += ", "
	}
	class := ""
	if have["class"] {
		class = ", 'class': class"
	}
	by := ""
	if len(group) > 0 {
		by = " GROUP BY " + quote.Names(group)
	}
	q := ""
	if have["fit"] {
		values := "[]"
		if have["covariance"] {
			values = "flatten(list(covariance ORDER BY file_row_number))"
		}
		// In the first layout each row of a group had the rest of its fit, as a STRUCT.
		rest, flat := "from_json(any_value(fit), "+quote.Text(restShape())+")", false
		if i := slices.IndexFunc(cols, func(c duck.Column) bool { return strings.EqualFold(c.Name, "fit") }); strings.HasPrefix(cols[i].Type, "STRUCT") {
			rest, flat = "any_value(fit)", true
		}
		q = "SELECT " + keys + fitSQL("rest", "coalesce(beliefs, [])", `coalesce("values", [])`, have["class"], flat) + " AS fit FROM (SELECT " + keys + rest + " AS rest, " +
			"list({'feature': feature, 'mean': mean, 'variance': variance" + class + "} ORDER BY file_row_number) FILTER (NOT (feature IS NULL AND mean IS NULL AND variance IS NULL)) AS beliefs, " +
			values + ` AS "values" FROM ` + from + by + ")"
	} else {
		if err := checkFamily(opts); err != nil {
			return nil, err
		}
		var parts []string
		for _, kv := range opts {
			parts = append(parts, quote.Text(kv[0])+": "+job.OptionSQL(kv[0], kv[1]))
		}
		o := "{" + strings.Join(parts, ", ") + "}"
		q = "SELECT " + keys + "bglm_from_beliefs(list({'feature': feature::VARCHAR, 'mean': mean::DOUBLE, 'variance': variance::DOUBLE} ORDER BY file_row_number), " + o + ") AS fit FROM " + from + by
	}
	if err := s.Exec("CREATE OR REPLACE TEMP TABLE " + table + " AS " + q); err != nil {
		return nil, err
	}
	return Open(s, table, meta)
}

// loadPlain reads a belief table in Parquet or Arrow through arrowio, which checks all of it; known
// says that the file has the head of its fit.
func loadPlain(s *duck.Session, table, path string, known bool, opts [][2]string) (*Fits, error) {
	set, err := job.Settings(s, option.For("from_beliefs").Without("covariance"), opts)
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
	if !known {
		f.HashBits = set.HashBits
	}
	var meta []string
	for k, v := range kept {
		meta = append(meta, k, v)
	}
	return Insert(s, table, &arrowio.Groups{Fits: []*kernels.Fit{f}}, meta)
}

// Insert creates the table from fits in Go, by way of a file.
func Insert(s *duck.Session, table string, g *arrowio.Groups, meta []string) (*Fits, error) {
	path := filepath.Join(s.Dir, table+".parquet")
	err := files.Create(path, s.Env.Stderr, func(w io.Writer) error { return g.WriteParquet(w) })
	if err != nil {
		return nil, err
	}
	from := "read_parquet(" + quote.Text(path) + ", file_row_number = true)"
	cols, err := s.Describe("FROM " + from)
	if err != nil {
		return nil, err
	}
	f, err := loadFlat(s, table, from, cols, nil, meta)
	return f, errors.Join(err, os.Remove(path))
}

// Fetch returns the one fit of an ungrouped table, by way of a file.
func (f *Fits) Fetch() (*kernels.Fit, error) {
	s := f.s
	path := filepath.Join(s.Dir, f.Table+"-fetched.parquet")
	q, err := f.whole()
	if err != nil {
		return nil, err
	}
	if err := CopyTo(s, path, q, []string{"bglm.schema", arrowio.SchemaVersion}); err != nil {
		return nil, err
	}
	out, err := arrowio.ReadParquetFile(path, nil)
	return out, errors.Join(err, os.Remove(path))
}
