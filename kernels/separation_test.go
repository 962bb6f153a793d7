package kernels

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// separation fits nothing: the weights are given.
func separation(t *testing.T, rows []map[string]float64, ys []float64, w map[string]float64) string {
	t.Helper()
	r, err := NewRows(nil)
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	b.Reset()
	for i, row := range rows {
		b.Add(0, 1)
		for name, x := range row {
			id, err := r.Dict.Add(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, x)
		}
		b.EndRow()
		b.Y = append(b.Y, ys[i])
	}
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	f := p.Fit("test", p.Normal, 0)
	for k := range f.Beliefs {
		f.Beliefs[k].Mean = w[f.Beliefs[k].Feature]
	}
	return p.Separation(f)
}

// What is known of a column that no longer tells responses apart need not be all of it: the
// others are known in full.
func TestSides(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for trial := range 40 {
		p := &Problem{}
		p.N, p.P = 3000, 6
		whole := trial%2 == 0
		p.Row = []int{0}
		turn := rng.IntN(p.N)
		for i := range p.N {
			y := float64(rng.IntN(2))
			x := []float64{1, rng.NormFloat64(), y - 0.5, y * rng.Float64(), 2*y - 1 + 1e-3*rng.NormFloat64(), rng.Float64() - 0.5}
			if i == turn { // the one row that mixes column 2
				x[2] = -x[2]
			}
			for j, v := range x {
				if whole || rng.IntN(3) > 0 {
					p.Col, p.Val = append(p.Col, uint32(j)), append(p.Val, v)
				}
			}
			p.Row, p.Y = append(p.Row, len(p.Col)), append(p.Y, y)
		}
		full, some := p.sides(true), p.sides(false)
		left := 0
		for j := range full {
			if full[j] != some[j] {
				left++
				if !full[j].mixed() || !some[j].mixed() {
					t.Errorf("column %d: %+v, in part %+v", j, full[j], some[j])
				}
			}
		}
		if left < 3 {
			t.Errorf("%d columns were left out early; want the three that are mixed at random", left)
		}
	}
}

func TestSeparation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	var apart, mixed, level []map[string]float64
	var y, noise, byLevel []float64
	for i := range 120 {
		u, v := rnd.NormFloat64(), rnd.NormFloat64()
		apart = append(apart, map[string]float64{"u": u, "v": v})
		mixed = append(mixed, map[string]float64{"u": u, "v": v, fmt.Sprintf("g=%d", i%3): 1})
		level = append(level, map[string]float64{"u": u, fmt.Sprintf("g=%d", i%3): 1})
		one := 0.0
		if u+0.5*v > 0 {
			one = 1
		}
		y = append(y, one)
		noise = append(noise, float64(rnd.IntN(2)))
		if one = float64(rnd.IntN(2)); i%3 == 1 {
			one = 1
		}
		byLevel = append(byLevel, one)
	}
	w := map[string]float64{"u": 2, "v": 1}
	var eight []map[string]float64 // u + v/2 of ±1/2, where neither says the side
	sides := []float64{1, 0, 1, 0, 1, 0, 1, 0}
	for i, side := range sides {
		u := float64(i/2) - 1.5
		eight = append(eight, map[string]float64{"u": u, "v": 2 * (side - 0.5 - u)})
	}
	for _, c := range []struct {
		name string
		rows []map[string]float64
		ys   []float64
		w    map[string]float64
		want string
	}{
		{"a plane", apart, y, w, "separated by u, v:"},
		{"weights that do not tell them apart", apart, y, map[string]float64{"u": 2}, ""},
		{"noise", mixed, noise, w, ""},
		{"few rows, which a feature separates", apart[:4], y[:4], w, "separated by u:"},
		{"eight rows on two sides of a plane", eight, sides, w, "separated by v, u:"},
		{"four rows, which any labels separate in a plane", eight[:4], sides[:4], w, ""},
		{"a level", level, byLevel, nil, "all rows with g=1 have one response"},
		{"few rows of a level", level[:9], byLevel[:9], nil, ""},
	} {
		got := separation(t, c.rows, c.ys, c.w)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	one := make([]map[string]float64, len(apart))
	for i := range one {
		one[i] = map[string]float64{"u": apart[i]["u"], "k": 2*y[i] - 1}
	}
	if got := separation(t, one, y, map[string]float64{"k": 3}); !strings.Contains(got, "separated by k:") {
		t.Errorf("a feature that separates alone: %q", got)
	}
	if got := separation(t, apart, make([]float64, len(apart)), nil); !strings.Contains(got, "all responses are 0") {
		t.Errorf("one response: %q", got)
	}
}
