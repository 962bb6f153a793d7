// Package udf defines bglm's SQL functions as Go values: name, parameters,
// result, documentation and callbacks over columnar views. Register adds them
// to a DuckDB instance inside a Go program; the loadable extension registers the
// same values.
package udf
