//go:build !bglm_extension

package capi

import _ "github.com/duckdb/duckdb-go-bindings" // links DuckDB's symbols into the program

// linkFor fills the function table from the program's own symbols.
func linkFor() error { return link() }
