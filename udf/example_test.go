package udf_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/bglm/bglm/udf"
)

// A Go program gets the functions with one call and uses them in its SQL.
func ExampleRegister() {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := udf.Register(context.Background(), db); err != nil {
		log.Fatal(err)
	}
	rows, err := db.Query(`
		SELECT feature, mean, variance
		FROM (SELECT unnest(bglm_adf(y, x, {link: 'probit', covariance: 'diagonal'} ORDER BY i).beliefs, recursive := true)
		      FROM (VALUES (1, true, {site: 'a'}), (2, false, {site: 'b'}), (3, true, {site: 'a'})) t(i, y, x))`)
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var feature string
		var mean, variance float64
		if err := rows.Scan(&feature, &mean, &variance); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-12s %7.4f %7.4f\n", feature, mean, variance)
	}
	if err := rows.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// (Intercept)   0.5528  1.3984
	// site=a        0.6171  0.8042
	// site=b       -0.5557  0.8824
}
