module github.com/bglm/bglm

go 1.26

require (
	github.com/alecthomas/kong v1.17.0
	github.com/duckdb/duckdb-go-bindings v0.10505.0
	github.com/duckdb/duckdb-go/v2 v2.10505.0
	github.com/jedib0t/go-pretty/v6 v6.8.3
	github.com/schollz/progressbar/v3 v3.19.1
	gonum.org/v1/gonum v0.17.0
	pgregory.net/rapid v1.3.0
)
