package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels"
)

// Clones and merged parts share their rows: whatever is kept, cloned and merged in
// whatever order, each holds just the rows that it was given.
func TestRowsShareChunks(t *testing.T) {
	type kept struct {
		rows *kernels.Rows
		want []string // each row as text
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := &kernels.Model{}
		fresh := func() *kept {
			r, err := kernels.NewLabelledRows(m)
			if err != nil {
				rt.Fatal(err)
			}
			return &kept{rows: r}
		}
		all := []*kept{fresh(), fresh()}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		y := 0.0
		give := func(k *kept) {
			var b kernels.Batch
			b.Reset()
			shared := r.IntN(2) == 0
			n := 1 + r.IntN(3)
			if r.IntN(6) == 0 {
				n = 3000 // chunks of their own
			}
			weights := r.IntN(3) == 0
			var ids []uint32
			names := []string{kernels.Intercept}
			for len(names) < 3 {
				name := fmt.Sprint("x", r.IntN(6))
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			for _, name := range names {
				id, err := k.rows.Dict.Add(name)
				if err != nil {
					rt.Fatal(err)
				}
				ids = append(ids, id)
			}
			for range n {
				y++
				row := fmt.Sprint(y)
				for j, id := range ids {
					v := float64(r.IntN(9))
					if shared {
						b.Value = append(b.Value, v)
					} else {
						b.Add(id, v)
					}
					row += fmt.Sprint(" ", names[j], "=", v)
				}
				if !shared {
					b.EndRow()
				}
				b.Y = append(b.Y, y)
				if weights {
					b.Weight = append(b.Weight, y/2)
					row += fmt.Sprint(" w=", y/2)
				} else {
					row += " w=1"
				}
				k.want = append(k.want, row)
			}
			if shared {
				b.Shared = ids
			}
			if err := k.rows.Update(&b, false); err != nil {
				rt.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			k := all[r.IntN(len(all))]
			switch r.IntN(4) {
			case 0:
				all = append(all, &kept{k.rows.Clone(), slices.Clone(k.want)})
			case 1:
				if o := all[r.IntN(len(all))]; o != k {
					if err := k.rows.Merge(o.rows); err != nil {
						rt.Fatal(err)
					}
					k.want = append(k.want, o.want...)
				}
			default:
				give(k)
			}
		}
		for _, k := range all {
			b := k.rows.All()
			if b.Len() != len(k.want) || k.rows.Len() != len(k.want) {
				rt.Fatalf("%d rows, want %d", b.Len(), len(k.want))
			}
			for i, want := range k.want {
				fs, xs := b.Entries(i)
				got := fmt.Sprint(b.Y[i])
				for j, f := range fs {
					got += fmt.Sprint(" ", string(k.rows.Dict.Name(f)), "=", xs[j])
				}
				w := 1.0
				if len(b.Weight) > 0 {
					w = b.Weight[i]
				}
				if got += fmt.Sprint(" w=", w); got != want {
					rt.Fatalf("row %d is %s, want %s", i, got, want)
				}
			}
		}
	})
}
