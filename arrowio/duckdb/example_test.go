//go:build duckdb_arrow && cgo

package duckdb_test

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/duckdb"
)

// The result of a query streams into an engine, record by record.
func ExampleFit() {
	ctx := context.Background()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	con, err := db.Conn(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer con.Close()
	f, err := duckdb.Fit(ctx, con, "SELECT i % 3 = 0 AS click, 'site' || i % 2 AS site FROM range(100) t(i)",
		arrowio.Job{Y: "click", Terms: []arrowio.Term{{"site"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.N, "rows,", len(f.Beliefs), "beliefs")
	// Output:
	// 100 rows, 3 beliefs
}
