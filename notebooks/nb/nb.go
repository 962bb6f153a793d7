// Package nb is what the cells of the notebooks call: SQL in, a table or a picture out.
//
//	nb.SQL(`CREATE TABLE fit AS SELECT bglm_fit(late, x) AS fit FROM flights`)
//	nb.SQL(`SELECT fit.n, fit.status FROM fit`)                     // a table
//	nb.Line("Late flights by hour", `SELECT hour, share FROM ...`)  // a picture
//	nb.Claim("the fit has converged", `SELECT fit.converged FROM fit`)
//
// Also in SQL are uniform(seed, i) and normal(seed, i): number i of a sequence of random ones.
//
// Every cell is a program of its own. What has to last is a table of the notebook's DuckDB
// file, which each call opens and closes. Paths are relative to the notebook. A call that
// fails panics, which ends the cell; check.py makes of that a failed run.
package nb

import (
	"context"
	"database/sql"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // the driver
	"github.com/janpfeifer/gonb/gonbui"

	"github.com/bglm/bglm/cmd/chart"
	sqlfiles "github.com/bglm/bglm/sql"
	"github.com/bglm/bglm/udf"
)

// macros are what the notebooks draw random numbers with: functions of a seed and a number,
// the same on every machine and in every order of rows.
const macros = `
CREATE OR REPLACE MACRO uniform(seed, i) AS ((hash(i::BIGINT * 1000003 + seed) >> 11)::DOUBLE + 0.5) / 9007199254740992;
CREATE OR REPLACE MACRO normal(seed, i) AS sqrt(-2 * ln(uniform(seed, 2 * i))) * cos(2 * pi() * uniform(seed, 2 * i + 1));`

// must ends the cell with an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// table is the result of a query: a kind for each column, and its rows.
type table struct {
	names []string
	rows  [][]any
}

// open opens the notebook's database with bglm's functions and macros.
func open() *sql.DB {
	must(os.Chdir(os.Getenv("GONB_DIR")))
	db, err := sql.Open("duckdb", filepath.Join(os.Getenv("GONB_TMP_DIR"), "notebook.duckdb"))
	must(err)
	must(udf.Register(context.Background(), db))
	_, err = db.Exec(sqlfiles.Macros + macros)
	must(err)
	return db
}

// query runs statements in the notebook's database and returns the rows of the last one.
func query(statements string) *table {
	db := open()
	defer db.Close()
	rows, err := db.Query(statements)
	must(err)
	defer rows.Close()
	var t table
	t.names, err = rows.Columns()
	must(err)
	for rows.Next() {
		row, to := make([]any, len(t.names)), make([]any, len(t.names))
		for j := range row {
			to[j] = &row[j]
		}
		must(rows.Scan(to...))
		t.rows = append(t.rows, row)
	}
	must(rows.Err())
	return &t
}

// SQL runs statements, separated by semicolons, and shows the rows of the last one as a
// table. Numbers of a column have as many decimals as they need, at most four.
func SQL(statements string) {
	t := query(statements)
	if len(t.rows) == 0 || len(t.names) == 1 && t.names[0] == "Count" {
		return // a statement, not a query
	}
	gonbui.DisplayHTML(t.html())
	gonbui.Sync() // a program that ends before its output is read loses it
}

// html is the table as a notebook shows it.
func (t *table) html() string {
	var b strings.Builder
	b.WriteString("<table>\n<tr>")
	texts, align := make([][]string, len(t.names)), make([]string, len(t.names))
	for j, name := range t.names {
		texts[j], align[j] = t.texts(j), "right"
		if t.isText(j) {
			align[j] = "left"
		}
		fmt.Fprintf(&b, `<th style="text-align:%s">%s</th>`, align[j], html.EscapeString(name))
	}
	b.WriteString("</tr>\n")
	for i := range t.rows {
		b.WriteString("<tr>")
		for j := range texts {
			fmt.Fprintf(&b, `<td style="text-align:%s">%s</td>`, align[j], html.EscapeString(texts[j][i]))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>")
	return b.String()
}

// isText says whether column j has texts; NULLs are of any kind.
func (t *table) isText(j int) bool {
	return slices.ContainsFunc(t.rows, func(row []any) bool { _, ok := row[j].(string); return ok })
}

// Timed runs statements and adds their processor time in seconds to the table times(what, seconds).
func Timed(what, statements string) {
	db := open()
	defer db.Close()
	start := seconds()
	_, err := db.Exec(statements)
	must(err)
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS times(what VARCHAR, seconds DOUBLE); INSERT INTO times VALUES (?, ?)`, what, seconds()-start)
	must(err)
}

// seconds is the processor time of this program so far.
func seconds() float64 {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// Claim ends the cell with an error unless a query gives the one value true, and else
// prints what it has shown.
func Claim(text, question string) {
	t := query(question)
	if len(t.rows) != 1 || len(t.rows[0]) != 1 || t.rows[0][0] != true {
		panic(fmt.Sprintf("does not hold: %s\n%v", text, t.rows))
	}
	fmt.Println("holds:", text)
}

// number is a value as a number; ok is whether it is one.
func number(v any) (x float64, ok bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case int64:
		return float64(v), true
	case int32:
		return float64(v), true
	case int16:
		return float64(v), true
	case int8:
		return float64(v), true
	case uint64:
		return float64(v), true
	case uint32:
		return float64(v), true
	case uint16:
		return float64(v), true
	case uint8:
		return float64(v), true
	case time.Time:
		return float64(v.Unix()) / 86400, true
	case interface{ Float64() float64 }: // DECIMAL
		return v.Float64(), true
	case fmt.Stringer: // HUGEINT
		x, err := strconv.ParseFloat(v.String(), 64)
		return x, err == nil
	}
	return math.NaN(), false
}

// texts prints the values of column j.
func (t *table) texts(j int) []string {
	out := make([]string, len(t.rows))
	most, decimals, count := 0.0, 0, 0.0
	for _, row := range t.rows {
		if x, ok := row[j].(float64); ok && x != 0 && !math.IsInf(x, 0) && !math.IsNaN(x) {
			most = max(most, math.Abs(x))
			_, after, _ := strings.Cut(strconv.FormatFloat(x, 'f', -1, 64), ".")
			decimals = max(decimals, len(after))
		} else if x, ok := number(row[j]); ok {
			count = max(count, math.Abs(x))
		}
	}
	switch {
	case most < 1:
		decimals = min(decimals, 4)
	case most < 10:
		decimals = min(decimals, 3)
	case most < 100:
		decimals = min(decimals, 2)
	default:
		decimals = min(decimals, 1)
	}
	for i, row := range t.rows {
		switch v := row[j].(type) {
		case nil:
			out[i] = ""
		case float64:
			switch {
			case math.IsInf(v, 0) || math.IsNaN(v):
				out[i] = fmt.Sprint(v)
			case v != 0 && math.Abs(v) < 0.5*math.Pow10(-decimals):
				out[i] = strconv.FormatFloat(v, 'g', 2, 64)
			default:
				out[i] = chart.Thousands(strconv.FormatFloat(v, 'f', decimals, 64))
			}
		case time.Time:
			out[i] = strings.TrimSuffix(v.Format("2006-01-02 15:04"), " 00:00")
		default:
			out[i] = fmt.Sprint(v)
			if _, ok := number(v); ok && count >= 10_000 {
				out[i] = chart.Thousands(out[i])
			}
		}
	}
	return out
}
