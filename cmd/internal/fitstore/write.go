package fitstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/cmd/internal/shell"
)

// Flat is the belief table of f as a query: groups, class, feature, mean, variance; with whole also
// the covariance and the rest of the FIT.
func (f *Fits) Flat(whole bool) string {
	cols := ""
	if len(f.Group) > 0 {
		cols = quote.Names(duck.Names(f.Group)) + ", "
	}
	if f.HasClass {
		cols += "bglm_b.class AS class, "
	}
	cols += "bglm_b.feature AS feature, bglm_b.mean AS mean, bglm_b.variance AS variance"
	empty := ""
	if whole {
		cols += `, CASE fit.covariance.kind WHEN 'full' THEN fit.covariance.values[bglm_k * (bglm_k - 1) // 2 + 1 : bglm_k * (bglm_k + 1) // 2]
			WHEN 'lowrank' THEN fit.covariance.values[(bglm_k - 1) * (fit.covariance.rank + 1) + 1 : bglm_k * (fit.covariance.rank + 1)]
			WHEN 'arrowhead' THEN fit.covariance.values[CASE bglm_k WHEN 1 THEN 1 ELSE bglm_r * (bglm_r + 5) // 2 + (bglm_k - 1) * (bglm_r + 3) + 1 END : bglm_r * (bglm_r + 5) // 2 + bglm_k * (bglm_r + 3)] ELSE [] END AS covariance,
			CASE WHEN bglm_k = 1 THEN ` + restSQL("fit") + ` END AS fit`
		empty = " UNION ALL SELECT *, NULL, 1, NULL FROM " + f.Table + " WHERE len(fit.beliefs) = 0" // a fit without beliefs is a row without a belief
	}
	q := "SELECT " + cols + " FROM (SELECT *, unnest(fit.beliefs) AS bglm_b, generate_subscripts(fit.beliefs, 1) AS bglm_k, fit.covariance.rank AS bglm_r FROM " + f.Table + empty + ")"
	if len(f.Group) > 0 {
		q += " ORDER BY " + quote.Names(duck.Names(f.Group)) + ", bglm_k"
	}
	return q
}

// wideValues is the length of a covariance above which a FIT is not joined to each of its beliefs:
// DuckDB would copy it for each.
const wideValues = 1 << 12

// whole is Flat(true). The covariance of FITs with many weights is split into numbers, which are
// joined to the beliefs.
func (f *Fits) whole() (string, error) {
	var longest int64
	if err := f.s.Row("SELECT coalesce(max(len(fit.covariance.values)), 0) FROM "+f.Table, &longest); err != nil {
		return "", err
	}
	if longest < wideValues {
		return f.Flat(true), nil
	}
	return f.flatWide(), nil
}

func (f *Fits) flatWide() string {
	groups, by, class := "", "bglm_g", ""
	if len(f.Group) > 0 {
		by = quote.Names(duck.Names(f.Group))
		groups = by + ", "
	}
	if f.HasClass {
		class = "bglm_b.class AS class, "
	}
	return `WITH w AS (SELECT row_number() OVER () AS bglm_g, ` + groups + `fit.beliefs AS bglm_beliefs, fit.covariance.kind AS bglm_kind, fit.covariance.rank AS bglm_r, fit.covariance.values AS bglm_v, ` + restSQL("fit") + ` AS bglm_rest FROM ` + f.Table + `),
		p AS (SELECT bglm_g, bglm_k, list(x ORDER BY i) AS bglm_covariance FROM (SELECT bglm_g, x, i, CASE kind WHEN 'full' THEN ceil((sqrt(8 * i + 1) - 1) / 2)::BIGINT
				WHEN 'lowrank' THEN (i - 1) // (r + 1) + 1 ELSE greatest((i - 1 - r * (r + 5) // 2) // (r + 3) + 1, 1) END AS bglm_k
			FROM (SELECT bglm_g, bglm_kind AS kind, bglm_r AS r, unnest(bglm_v) AS x, unnest(range(1, len(bglm_v) + 1)) AS i FROM w)) GROUP BY ALL)
		SELECT ` + groups + class + `bglm_b.feature AS feature, bglm_b.mean AS mean, bglm_b.variance AS variance, coalesce(bglm_covariance, []) AS covariance, bglm_fit AS fit
		FROM (SELECT bglm_g, ` + groups + `unnest(bglm_beliefs) AS bglm_b, unnest([bglm_rest]) AS bglm_fit, unnest(range(1, greatest(len(bglm_beliefs), 1) + 1)) AS bglm_k FROM w) LEFT JOIN p USING (bglm_g, bglm_k) ORDER BY ` + by + `, bglm_k`
}

// copyOptions are DuckDB's options of COPY for a file kind.
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
			parts = append(parts, quote.Name(meta[i])+": "+quote.Text(meta[i+1]))
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

// CopyTo writes a query's rows to a file of the kind that its name implies.
func CopyTo(s *duck.Session, path, query string, meta []string) (err error) {
	if Stdout(path) {
		return toStdout(s, path, query, meta)
	}
	kind := files.KindOf(path)
	switch kind {
	case "parquet", "csv", "json":
		if kind == "csv" && s.CSVSafe {
			if query, err = spreadsheet(s, query); err != nil {
				return err
			}
		}
		return files.Atomically(path, s.Env.Stderr, func(tmp string) error {
			if err := s.Long("writing", "COPY ("+query+") TO "+quote.Text(tmp)+" "+copyOptions(path, kind, meta)); err != nil {
				return err
			}
			return s.Unchanged()
		})
	case "arrow":
		if query, err = intervalsAsText(s, query); err != nil {
			return err
		}
		spool := filepath.Join(s.Dir, "out.parquet")
		if err := s.Long("writing", "COPY ("+query+") TO "+quote.Text(spool)+" (FORMAT parquet, COMPRESSION uncompressed)"); err != nil {
			return err
		}
		if err := s.Unchanged(); err != nil {
			return err
		}
		return files.Create(path, s.Env.Stderr, func(f io.Writer) error {
			w := bufio.NewWriterSize(f, 1<<20)
			err := pqrows.ToIPC(s.Ctx, w, spool, strings.EqualFold(filepath.Ext(path), ".arrows"), meta...)
			return s.Failed(errors.Join(err, w.Flush()))
		})
	case "duckdb":
		return savePredictions(s, path, query)
	}
	return outKind(path)
}

// intervalsAsText converts interval columns to text: Parquet stores them as bytes on the way to
// Arrow, which nobody reads, and cannot store negative ones.
func intervalsAsText(s *duck.Session, query string) (string, error) {
	cols, err := s.Describe(query)
	if err != nil {
		return "", err
	}
	var out []string
	for _, c := range cols {
		if c.Type == "INTERVAL" {
			out = append(out, quote.Name(c.Name)+"::VARCHAR AS "+quote.Name(c.Name))
		}
	}
	if out == nil {
		return query, nil
	}
	return "SELECT * REPLACE (" + strings.Join(out, ", ") + ") FROM (" + query + ")", nil
}

// Stdout reports whether path stands for the standard output: "-", in CSV, or "-.json" and so on
// for another format.
func Stdout(path string) bool { return path == "-" || strings.HasPrefix(path, "-.") }

// OutKind is the format that is written for --out path; to the standard output it is CSV, unless path
// names another.
func OutKind(path string) string {
	if path == "" || path == "-" {
		return "csv"
	}
	return files.KindOf(path)
}

// toStdout spools its output, so that a query that fails prints nothing.
func toStdout(s *duck.Session, path, query string, meta []string) error {
	if path == "-" {
		path += ".csv"
	}
	spool := filepath.Join(s.Dir, "stdout"+path[1:])
	if err := CopyTo(s, spool, query, meta); err != nil {
		return err
	}
	f, err := os.Open(spool)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(s.Env.Stdout, f)
	return err
}

// spreadsheet puts an apostrophe before names and texts of a query's columns that a spreadsheet
// would run, like shell.Format.CSVSafe.
func spreadsheet(s *duck.Session, query string) (string, error) {
	cols, err := s.Describe(query)
	if err != nil {
		return "", err
	}
	var out []string
	for _, c := range cols {
		name, as := quote.Name(c.Name), quote.Name(shell.Tame(c.Name))
		if numericType.MatchString(c.Type) {
			out = append(out, name+" AS "+as)
			continue
		}
		text := name + "::VARCHAR"
		out = append(out, "CASE WHEN "+text+" <> '' AND contains("+quote.Text(shell.Formula)+", ("+text+")[1]) THEN '''' || "+text+" ELSE "+text+" END AS "+as)
	}
	return "SELECT " + strings.Join(out, ", ") + " FROM (" + query + ")", nil
}

var numericType = regexp.MustCompile(`^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BIGNUM|FLOAT|DOUBLE|DECIMAL\(.*\)|BOOLEAN)$`)

func outKind(path string) error {
	return cli.Usage(fmt.Errorf("--out %s: the extension says what is written; allowed: .parquet, .arrow, .csv, .json, .duckdb", path))
}

// CheckOut rejects early what could not be written after a long fit.
func CheckOut(path string) error {
	if path == "" || path == "-" {
		return nil
	}
	kind := files.KindOf(path)
	if kind == "" {
		return outKind(path)
	}
	if Stdout(path) && kind == "duckdb" {
		return fmt.Errorf("--out %s: a database is a file; allowed for the standard output: --out - (CSV), --out=-.json, -.ndjson, -.arrows, -.parquet", path)
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

// jobMeta is a file's metadata for the pairs of its job.
func jobMeta(job []string) (meta []string) {
	for i := 0; i+1 < len(job); i += 2 {
		meta = append(meta, "bglm.job."+job[i], job[i+1])
	}
	return append(meta, "bglm.schema", arrowio.SchemaVersion)
}

// Save writes fits to a file in the format of its extension.
func (f *Fits) Save(path string) error {
	s := f.s
	kind := files.KindOf(path)
	if kind == "" {
		return outKind(path)
	}
	if kind == "duckdb" {
		return Database(s, path, func(db string) error { return f.SaveTables(db) })
	}
	meta := jobMeta(f.Meta)
	switch {
	case !f.IsFit:
		if kind == "csv" || kind == "arrow" {
			return fmt.Errorf("--out %s: this method's fit has no belief table; allowed: .parquet, .json, .duckdb", path)
		}
		return CopyTo(s, path, "FROM "+f.Table, meta)
	case kind == "csv" || kind == "json":
		return CopyTo(s, path, f.Flat(false), nil)
	}
	q, err := f.whole()
	if err != nil {
		return err
	}
	return CopyTo(s, path, q, meta)
}
