//go:build notebooks

// Package notebooks is what the cells of the notebooks import, so that go.mod
// and go.sum hold it. The notebooks are a module of their own: nothing here is
// needed to build or test bglm.
package notebooks

import (
	_ "github.com/duckdb/duckdb-go/v2"
	_ "github.com/janpfeifer/gonb/gonbui"
	_ "gonum.org/v1/plot"

	_ "github.com/bglm/bglm/udf"
)
