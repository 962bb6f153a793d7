package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const flights = "../../testdata/flights.parquet"

func TestFlightsSample(t *testing.T) {
	info, err := os.Stat(flights)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= 3_000_000 {
		t.Errorf("%s has %d bytes, allowed are fewer than 3000000", flights, info.Size())
	}
	r := bglm(t, "", "sql", "--mode", "csv", "-c",
		`SELECT column_name, column_type FROM (DESCRIBE FROM '`+flights+`')`, "-c", `
		SELECT count(*) >= 200000 AS enough,
		       count(*) FILTER ("date" < before) AS unsorted,
		       count(*) FILTER ("date" <> date_trunc('minute', "date")) AS seconds,
		       count(*) FILTER ("date" IS NULL OR delay IS NULL OR distance IS NULL OR origin IS NULL OR destination IS NULL) AS nulls,
		       min("date")::DATE AS first, max("date")::DATE AS last, count(DISTINCT "date"::DATE) >= 180 AS days,
		       round(avg((delay > 15)::INTEGER), 2) AS late
		FROM (SELECT *, lag("date") OVER (ORDER BY file_row_number) AS before
		      FROM read_parquet('`+flights+`', file_row_number = true))`)
	want := `column_name,column_type
date,TIMESTAMP
delay,SMALLINT
distance,SMALLINT
origin,VARCHAR
destination,VARCHAR
enough,unsorted,seconds,nulls,first,last,days,late
true,0,0,0,2001-01-01,2001-07-01,true,0.2
`
	if r.code != 0 || r.stdout != want {
		t.Errorf("got %s%s\nwant %s", r.stdout, r.stderr, want)
	}
}

// Cutting the sample again from the full data, where they are, gives the same
// rows in the same order.
func TestFlightsSampleIsReproducible(t *testing.T) {
	full := filepath.Join("..", "..", "data", "flights-3m.parquet")
	if _, err := os.Stat(full); err != nil {
		t.Skipf("the full data are not there (testdata/gen/fetch-data.sh gets them): %v", err)
	}
	script, err := os.ReadFile("../../testdata/gen/flights.sql")
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "flights.parquet")
	text := strings.ReplaceAll(string(script), "'testdata/flights.parquet'", "'"+again+"'")
	text = strings.ReplaceAll(text, "data/flights-3m.parquet'", "../../data/flights-3m.parquet'")
	if r := bglm(t, text, "sql"); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	r := bglm(t, "", "sql", "--mode", "csv", "-c", `
		SELECT count(*) = count(*) FILTER (a IS NOT DISTINCT FROM b) AS same, count(*) AS n
		FROM read_parquet('`+flights+`', file_row_number = true) AS a
		FULL JOIN read_parquet('`+again+`', file_row_number = true) AS b USING (file_row_number)`)
	if r.code != 0 || r.stdout != "same,n\ntrue,500000\n" {
		t.Errorf("got %+v", r)
	}
}
