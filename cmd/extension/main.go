//go:build bglm_extension

// Command extension is the loadable DuckDB extension: an empty main over udf,
// built with -buildmode=c-shared -tags bglm_extension (make extension).
package main

import _ "github.com/bglm/bglm/udf"

func main() {}
