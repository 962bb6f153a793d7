package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/jedib0t/go-pretty/v6/table"
)

// kinds times fits of compressed rows against DuckDB's own GROUP BY of the same columns: rows
// in a Parquet file with six columns of 12, 8, 24, 5, 4 and 10 values, three of them text, so
// that there are up to 460,800 different ones.
func kinds(rows, threads, repeats int) error {
	dir, err := os.MkdirTemp("", "bglm-kinds-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := open()
	if err != nil {
		return err
	}
	defer db.Close()
	file := filepath.Join(dir, "rows.parquet")
	for _, q := range []string{
		fmt.Sprintf("SET threads = %d", threads),
		fmt.Sprintf(`COPY (SELECT 'month ' || h %% 12 AS month, 'device ' || (h // 12) %% 8 AS device, ((h // 96) %% 24)::TINYINT AS hour, ((h // 2304) %% 5)::TINYINT AS tier,
 'region ' || (h // 11520) %% 4 AS region, ((h // 46080) %% 10)::TINYINT AS ads, (h >> 40) %% 100 < 20 + 3 * (h %% 12) AS y, ((h >> 48) %% 4)::TINYINT AS n FROM (SELECT hash(i) AS h FROM range(%d) t(i))) TO '%s'`, rows, file),
	} {
		if _, err := db.Exec(q); err != nil {
			return err
		}
	}
	const columns = "month, device, hour, tier, region, ads"
	const x = "{month: month, device: device, hour: hour, tier: tier, region: region, ads: ads}"
	from := fmt.Sprintf(" FROM '%s'", file)
	fit := func(y, options string) string {
		return "SELECT (bglm_laplace(" + y + ", " + x + ", {compress: true, prior_variance: 1" + options + "})).n" + from
	}
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.SetTitle(fmt.Sprintf("%s rows from Parquet, up to 460,800 of them distinct; threads: %d, medians of %d", thousands(rows), threads, repeats))
	t.AppendHeader(table.Row{"what", "seconds", "M rows/s", "processor seconds", "x GROUP BY", "x GROUP BY, processor time", "peak RSS MiB"})
	var base, spent0 float64
	for i, q := range []query{
		{Name: "GROUP BY of the six columns: DuckDB alone", SQL: "SELECT count(*) FROM (SELECT " + columns + ", sum(y::INT), count(*)" + from + " GROUP BY ALL)"},
		{Name: "bglm_laplace, compress, logit", SQL: fit("y", "")},
		{Name: "bglm_laplace, compress, poisson", SQL: fit("n", ", family: 'poisson'")},
		{Name: "bglm_fit, compress alone", SQL: "SELECT (bglm_fit(y, " + x + ", {compress: true})).n" + from},
	} {
		before := processorTime()
		secs, err := timeQueries(db, []query{q}, repeats)
		if err != nil {
			return err
		}
		spent := (processorTime() - before).Seconds() / float64(repeats)
		if i == 0 {
			base, spent0 = secs[0], spent
		}
		t.AppendRow(table.Row{q.Name, sec(secs[0]), rate(rows, secs[0]), fmt.Sprintf("%.2f", spent), fmt.Sprintf("%.2f", secs[0]/base), fmt.Sprintf("%.2f", spent/spent0), peakRSS()})
	}
	t.Render()
	return nil
}
