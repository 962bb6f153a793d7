package kernels

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Many rows that are laid out are held once: they move into the problem, and those that follow
// stand behind them. Where a mean stands for a number that is missing its chunk stays.
func TestRowsMove(t *testing.T) {
	const k, n = 64, 1<<16 + 4096
	defer func(was int) { movesFrom = was }(movesFrom)
	movesFrom = 1 << 22
	for _, missing := range []bool{false, true} {
		batch := func(seed uint64) *Batch {
			rng := rand.New(rand.NewPCG(seed, 1))
			b := &Batch{Shared: []uint32{0}}
			for j := range k {
				b.Shared = append(b.Shared, uint32(j+1))
			}
			for i := range 2048 {
				b.Value = append(b.Value, 1)
				for range k {
					b.Value = append(b.Value, rng.Float64())
				}
				b.Y = append(b.Y, float64(i&1))
			}
			if missing && seed == 3 {
				b.Value[5] = math.NaN()
			}
			return b
		}
		var names []string
		for j := range k {
			names = append(names, fmt.Sprintf("x%02d", j))
		}
		schema := &Schema{Names: names, Levels: make([]bool, k)}
		rows := func() *Rows {
			r, err := NewRows(&Model{})
			if err != nil {
				t.Fatal(err)
			}
			r.Dict.Use(NewColumns(nil, names))
			for _, name := range names {
				if _, err := r.Dict.Add(name); err != nil {
					t.Fatal(err)
				}
			}
			return r
		}
		moved, stayed := rows(), rows()
		fill := func(r *Rows, from, to int) {
			for s := from; s < to; s++ {
				b := batch(uint64(s))
				b.Schema = schema
				if err := r.Update(b, false); err != nil {
					t.Fatal(err)
				}
			}
		}
		check := func() {
			p, err := moved.ProblemUnder(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			q, err := stayed.Problem()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.Val, q.Val) || !slices.Equal(p.Y, q.Y) || p.Row != nil {
				t.Fatalf("missing %v: rows that move are others", missing)
			}
			at, own := 0, 0
			for i := range moved.chunks {
				c := &moved.chunks[i]
				if &c.Value[0] != &p.Val[at] {
					own++
				}
				at += len(c.Value)
			}
			if want := map[bool]int{true: 1}[missing]; own != want {
				t.Errorf("missing %v: %d of %d chunks did not move, want %d", missing, own, len(moved.chunks), want)
			}
			if at != len(p.Val) {
				t.Errorf("%d values of %d", at, len(p.Val))
			}
		}
		half := n / 2048
		fill(moved, 0, half)
		fill(stayed, 0, half)
		before := moved.Clone()
		check()
		if &before.chunks[0].Value[0] == &moved.chunks[0].Value[0] {
			t.Error("a clone moved too")
		}
		fill(moved, half, half+5)
		fill(stayed, half, half+5)
		check()
	}
}
