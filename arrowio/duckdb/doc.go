// Package duckdb connects package arrowio and DuckDB's Go driver through Arrow's C data interface:
// a query's result streams into an engine record by record, and records such as a belief table
// become a view, without a file or a copy of values in between.
//
// The driver's Arrow interface needs a build tag: build with
//
//	go build -tags duckdb_arrow
//
// Without the tag, or without a C compiler, the package is empty.
package duckdb
