package main

import (
	"os"
	"testing"

	"github.com/bglm/bglm/kernels"
)

func TestReadTable(t *testing.T) {
	const folder = "../../../shared/data/"
	if _, err := os.Stat(folder + "farm_ads_sparse.parquet"); err != nil {
		t.Skip("no data sets")
	}
	for _, c := range []struct {
		file string
		rows int
	}{{"australian_credit.parquet", 690}, {"quine.parquet", 146}, {"ships.csv", 40}, {"farm_ads_sparse.parquet", 4143}} {
		d, err := readTable(folder + c.file)
		if err != nil {
			t.Fatal(err)
		}
		if d.Rows != c.rows || len(d.Num("y")) != c.rows {
			t.Errorf("%s: %d rows, %d responses, want %d", c.file, d.Rows, len(d.Num("y")), c.rows)
		}
		if d.lists == nil {
			continue
		}
		r, err := d.sparse(&kernels.Model{Prior: kernels.DefaultPrior}, d.Num("y"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Problem()
		if err != nil {
			t.Fatal(err)
		}
		if p.N != 4143 || p.P != 54878 {
			t.Errorf("%s: %d x %d", c.file, p.N, p.P)
		}
	}
}
