package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// set is a data set: rows of y and of features, all columns that are not y.
type set struct {
	name string
	file string // in the data folder
	from string // SQL of the rows, %s for the file
	rows int    // at most so many, drawn at random; 0 = all
	loo  bool   // a fold for each row
	// exposure is a column that multiplies the mean, and no feature; column e of t.
	exposure string
}

// plain are the columns of a file without those that only number or split the rows.
const plain = "SELECT COLUMNS(c -> c NOT IN ('id', 't', 'split')) FROM '%s'"

// binarySets are all sets with a response of two values.
var binarySets = []set{
	{name: "australian_credit", from: plain},
	{name: "australian_credit_sparse", from: plain},
	{name: "bank_marketing", from: plain, rows: 20000},
	{name: "bank_marketing_sparse", from: plain, rows: 20000},
	{name: "births_2014 (intensive care)", file: "births_2014.parquet", from: "SELECT ab_nicu = 'y' AS y, * EXCLUDE (id, ab_nicu) FROM '%s'", rows: 20000},
	{name: "births_2014_risk44_sparse", from: "SELECT y, features FROM '%s'", rows: 20000},
	{name: "breast_cancer_wisconsin", from: plain},
	{name: "caravan", from: plain},
	{name: "credit_default", from: plain},
	{name: "farm_ads_sparse", from: plain},
	{name: "flights_3m (late)", file: "flights_3m.parquet", rows: 20000,
		from: "SELECT delay > 15 AS y, origin, destination, hour(date)::VARCHAR AS hour, distance FROM '%s'"},
	{name: "ionosphere", from: plain},
	{name: "mammography", from: plain},
	{name: "mushrooms", from: plain},
	{name: "mushrooms_sparse", from: plain},
	{name: "phishing_sparse", from: plain},
	{name: "sms_spam_sparse", from: plain},
	{name: "spambase", from: plain},
	{name: "spambase_sparse", from: plain},
	{name: "weather_bellevue", from: plain},
}

// separatedSets are single classes of sets that have more.
var separatedSets = []set{
	{name: "iris (setosa)", file: "iris.parquet", from: "SELECT y = 'setosa' AS y, * EXCLUDE (id, y) FROM '%s'"},
	{name: "iris (virginica)", file: "iris.parquet", from: "SELECT y = 'virginica' AS y, * EXCLUDE (id, y) FROM '%s'"},
	{name: "wine (1)", file: "wine.parquet", from: "SELECT y = 1 AS y, * EXCLUDE (id, y) FROM '%s'"},
	{name: "wine (2)", file: "wine.parquet", from: "SELECT y = 2 AS y, * EXCLUDE (id, y) FROM '%s'"},
	{name: "wine (3)", file: "wine.parquet", from: "SELECT y = 3 AS y, * EXCLUDE (id, y) FROM '%s'"},
}

// wanted are the sets that are there and that the run asks for; the others of them are
// named in notes.
func (c *Context) wanted(all []set, t *Table) (out []set) {
	var lacking []string
	for _, s := range all {
		if s.file == "" {
			s.file = s.name + ".parquet"
		}
		if !strings.Contains(s.name, c.Sets) {
			continue
		}
		s.file = filepath.Join(c.Data, s.file)
		if _, err := os.Stat(s.file); err != nil {
			lacking = append(lacking, s.name)
			continue
		}
		if c.Quick && (s.rows == 0 || s.rows > 2000) {
			s.rows = 2000
		}
		out = append(out, s)
	}
	if len(lacking) > 0 {
		t.Notes = append(t.Notes, "Not run, because the files are missing: "+strings.Join(lacking, ", ")+".")
	}
	return out
}

// cut says which rows of a set were taken.
func (d *set) cut(n int) string {
	if n == d.rows {
		return fmt.Sprintf("%d (sample)", n)
	}
	return fmt.Sprint(n)
}

// load makes the tables raw of the set's columns and t (i, fold, shuffled, y, x) of its
// rows: x is a STRUCT of all features, or the list that holds them, e the exposure; shuffled
// is a random order and i that of the file.
func (d *set) load(s *session) error {
	from := fmt.Sprintf(d.from, strings.ReplaceAll(d.file, "'", "''"))
	limit := ""
	if d.rows > 0 {
		limit = fmt.Sprintf(" ORDER BY md5('rows' || i) LIMIT %d", d.rows)
	}
	err := s.exec("CREATE OR REPLACE TABLE raw AS SELECT * FROM (SELECT * FROM (SELECT row_number() OVER () AS i, * FROM (" + from + ") WHERE y IS NOT NULL)" + limit + ") ORDER BY i")
	if err != nil {
		return err
	}
	names, err := s.texts("SELECT column_name FROM (DESCRIBE raw) WHERE column_name NOT IN ('i', 'y', '" + d.exposure + "')")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("no features")
	}
	x := "features"
	if names[0] != "features" {
		for i, n := range names {
			names[i] = quote(n) + " := " + quote(n)
		}
		x = "struct_pack(" + strings.Join(names, ", ") + ")"
	}
	e := "1.0"
	if d.exposure != "" {
		e = quote(d.exposure)
	}
	folds := "5"
	if d.loo {
		folds = "(SELECT count(*) FROM raw)"
	}
	return s.exec("CREATE OR REPLACE TABLE t AS SELECT i, (row_number() OVER (ORDER BY md5('fold' || i)) - 1) % " + folds + " AS fold, md5('order' || i) AS shuffled, y, " + x + " AS x, " + e + " AS e FROM raw ORDER BY i")
}

// sparse says that the features are a list.
func (s *session) sparse() (is bool, err error) {
	return is, s.row("SELECT count(*) > 0 FROM (DESCRIBE raw) WHERE column_name = 'features'", &is)
}

// folded are predictions of rows that the fit had not seen, in the order of t.
type folded struct {
	y, p     []float64
	statuses []string // of the fits
	method   string
}

// status is the first of the fits' that is not 'ok'.
func (f *folded) status() string {
	for _, t := range f.statuses {
		if t != "ok" {
			return t
		}
	}
	return "ok"
}

// crossValidate fits t without each fold in turn by the aggregate and predicts the fold.
func (s *session) crossValidate(aggregate, predict string) (*folded, error) {
	var n int
	if err := s.row("SELECT max(fold) + 1 FROM t", &n); err != nil {
		return nil, err
	}
	if err := s.exec("CREATE OR REPLACE TABLE predicted (i BIGINT, p DOUBLE)"); err != nil {
		return nil, err
	}
	out := &folded{}
	for k := range n {
		if err := s.exec(fmt.Sprintf("CREATE OR REPLACE TABLE fit AS SELECT %s AS fit FROM t WHERE fold <> %d", aggregate, k)); err != nil {
			return nil, err
		}
		var status string
		if err := s.row("SELECT fit.method, fit.status FROM fit", &out.method, &status); err != nil {
			return nil, err
		}
		out.statuses = append(out.statuses, status)
		if err := s.exec(fmt.Sprintf("INSERT INTO predicted SELECT i, %s FROM fit, t WHERE fold = %d", predict, k)); err != nil {
			return nil, err
		}
	}
	both, err := s.columns("SELECT TRY_CAST(y AS DOUBLE), p FROM t LEFT JOIN predicted USING (i) ORDER BY i")
	if err != nil {
		return nil, err
	}
	out.y, out.p = both[0], both[1]
	return out, nil
}

// baseRates are the means of y in the other folds, in the order of t.
func (s *session) baseRates() ([]float64, error) {
	p, err := s.columns("SELECT m FROM t JOIN (SELECT f.fold, avg(y::DOUBLE) AS m FROM t, (SELECT DISTINCT fold FROM t) f WHERE t.fold <> f.fold GROUP BY f.fold) USING (fold) ORDER BY i")
	if err != nil {
		return nil, err
	}
	return p[0], nil
}
