package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels/lik"
)

// repeating is n rows of few kinds: of levels, one of them missing here and there, of a number
// with few values, one of them missing and one of either sign of zero; later rows have
// levels and a column that the first ones lack.
func repeating(rnd *rand.Rand, n, levels int, missing bool) *Batch {
	b := &Batch{}
	numbers := []float64{0, math.Copysign(0, -1), math.NaN(), -3, 17, 0.1}
	for i := range n {
		b.Add(0, 1)
		if !missing || rnd.IntN(9) > 0 {
			b.Add(uint32(10+rnd.IntN(2+i*levels/n)), 1)
		}
		b.Add(uint32(1+rnd.IntN(4)), 1)
		b.Add(9, numbers[rnd.IntN(len(numbers))])
		if i > n/2 && rnd.IntN(10) == 0 {
			b.Add(uint32(500+rnd.IntN(3)), 1)
		}
		b.EndRow()
		b.Y = append(b.Y, float64(rnd.IntN(2)))
		b.Weight = append(b.Weight, 0.5+float64(rnd.IntN(3)))
		b.Offset = append(b.Offset, 0.25*float64(rnd.IntN(3)))
		b.Trials = append(b.Trials, float64(1+rnd.IntN(2)))
	}
	return b
}

// alikeAs reports where p differs from pools that were found by comparing features.
func (p *pools) alikeAs(q *pools) error {
	bits := func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }
	switch {
	case !slices.Equal(p.row, q.row) || !slices.Equal(p.feature, q.feature) || !slices.EqualFunc(p.value, q.value, bits) || !slices.Equal(p.offset, q.offset):
		return fmt.Errorf("%d pools differ from the %d of comparing", len(p.sums), len(q.sums))
	case p.rows != q.rows || !slices.Equal(p.sums, q.sums):
		return fmt.Errorf("the sums of %d rows differ from those of %d", p.rows, q.rows)
	}
	return nil
}

// kinds is how many different rows b has, by their texts.
func (p *pools) kinds(b *Batch) int {
	seen := map[string]bool{}
	for i := range b.Len() {
		fs, xs := b.Entries(i)
		text := fmt.Sprint(fs)
		for _, x := range xs {
			text += fmt.Sprint(" ", x+0)
		}
		if p.by.ByOffset {
			text += fmt.Sprint(" at ", b.Offset[i])
		}
		if p.by.ByResponse {
			text += fmt.Sprint(" of ", b.Y[i], b.Trials[i])
		}
		seen[text] = true
	}
	return len(seen)
}

// Pools by tuple are those of comparing features, in their order, to the bit: whatever rows
// lack, as levels come up, in parts of any size, merged in other numbers, and where places
// have too many entries for tuples.
func TestPoolsByTuple(t *testing.T) {
	for _, c := range []struct {
		family, link   string
		levels         int
		missing, wide  bool
		some, compared bool // a tuple was of use; none was
	}{
		{family: "bernoulli", link: "logit", levels: 3, some: true},
		{family: "bernoulli", link: "logit", levels: 300, missing: true, some: true},
		{family: "poisson", link: "log", levels: 40, missing: true, some: true},
		{family: "studentt", link: "identity", levels: 20, some: true},
		{family: "binomial", link: "logit", levels: 5, wide: true, compared: true},
	} {
		t.Run(fmt.Sprint(c.family, c.levels), func(t *testing.T) {
			l, err := lik.New(c.family, c.link, lik.Params{Dispersion: 1, Shape: 3})
			if err != nil {
				t.Fatal(err)
			}
			rnd := rand.New(rand.NewPCG(7, uint64(c.levels)))
			b := repeating(rnd, 20_000, c.levels, c.missing)
			if c.wide {
				for k := range tupleWidth {
					b.Add(uint32(1000+k), 1)
				}
				b.EndRow()
				b.Y, b.Weight, b.Offset, b.Trials = append(b.Y, 1), append(b.Weight, 1), append(b.Offset, 0), append(b.Trials, 1)
			}
			p, q := newPools(l), newPools(l)
			q.tuples.off = true
			for lo, hi := 0, 0; lo < b.Len(); lo = hi {
				hi = min(b.Len(), lo+1+rnd.IntN(2000))
				p.add(b, lo, hi)
				q.add(b, lo, hi)
			}
			if err := p.alikeAs(q); err != nil {
				t.Error(err)
			}
			if want := p.kinds(b); len(p.sums) != want {
				t.Errorf("%d pools of %d kinds of rows", len(p.sums), want)
			}
			if p.tuples.off != c.compared || p.tuples.known == 0 == c.some {
				t.Errorf("tuples are off %v, know %d of %d pools", p.tuples.off, p.tuples.known, len(p.sums))
			}
			ids := make([]uint32, 2000)
			for k, id := range rnd.Perm(len(ids)) {
				ids[k] = uint32(id)
			}
			into, other := newPools(l), newPools(l)
			other.tuples.off = true
			for k := range 2 {
				into.merge(p.clone(), ids)
				other.merge(q, ids)
				into.add(b, 100*k, 100*k+700)
				other.add(b, 100*k, 100*k+700)
			}
			if err := into.alikeAs(other); err != nil {
				t.Error("merged:", err)
			}
		})
	}
}

// Rows that share their features, numbers of few values, are pooled by tuple too.
func TestPoolsShared(t *testing.T) {
	l, err := lik.New("poisson", "log", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	b := &Batch{Shared: []uint32{0, 3, 1}}
	for i := range 4000 {
		b.Value = append(b.Value, 1, float64(i%7), float64(i%3)-1)
		b.Y = append(b.Y, float64(i%5))
	}
	p, q := newPools(l), newPools(l)
	q.tuples.off = true
	p.add(b, 0, 4000)
	q.add(b, 0, 4000)
	if err := p.alikeAs(q); err != nil || len(p.sums) != 21 || p.tuples.known != 21 {
		t.Errorf("%v; %d pools, %d known; want 21", err, len(p.sums), p.tuples.known)
	}
}

// A number of many values ends tuples, whose memory is given back.
func TestPoolsManyValues(t *testing.T) {
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	p := newPools(l)
	n := tupleDigits + 5000
	for lo := 0; lo < n; lo += 1000 {
		b := &Batch{Shared: []uint32{0, 1}}
		for i := range 1000 {
			b.Value, b.Y = append(b.Value, 1, 0.5*float64(lo+i)), append(b.Y, 1)
		}
		p.add(b, 0, 1000)
	}
	if !p.tuples.off || p.tuples.memory() != 0 || int64(len(p.sums)) != p.rows {
		t.Errorf("%d pools of %d rows, tuples off %v, %d bytes", len(p.sums), p.rows, p.tuples.off, p.tuples.memory())
	}
}

// Pooling rows of six columns of levels, 460,800 kinds of rows: by tuple, and by comparing.
func BenchmarkPools(b *testing.B) {
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		b.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	some := make([]*Batch, 2000)
	for k := range some {
		rows := &Batch{}
		for range tupleRows {
			id := 1
			rows.Add(0, 1)
			for _, n := range []int{4, 6, 8, 10, 12, 20} {
				rows.Add(uint32(id+rnd.IntN(n)), 1)
				id += n
			}
			rows.EndRow()
			rows.Y = append(rows.Y, float64(rnd.IntN(2)))
		}
		some[k] = rows
	}
	for _, off := range []bool{false, true} {
		b.Run(fmt.Sprintf("compared=%v", off), func(b *testing.B) {
			p := newPools(l)
			p.tuples.off = off
			for _, rows := range some {
				p.add(rows, 0, tupleRows)
			}
			k := 0
			for b.Loop() {
				p.add(some[k%len(some)], 0, tupleRows)
				k++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tupleRows), "ns/row")
		})
	}
}

// The rows without their offsets are one pool whenever the first offset comes, in parts as at once.
func TestPoolsWithoutOffsets(t *testing.T) {
	for _, family := range [][2]string{{"poisson", "log"}, {"gaussian", "identity"}, {"gamma", "log"}} {
		l, err := lik.New(family[0], family[1], lik.Params{Dispersion: 1, Shape: 3})
		if err != nil {
			t.Fatal(err)
		}
		b := repeating(rand.New(rand.NewPCG(3, 1)), 3000, 5, false)
		plain := *b
		plain.Offset = nil
		want, by := lik.Pool{}, lik.Pooled(l)
		for i := range b.Y {
			b.Y[i] += 0.5 // gamma has no 0
			by.Add(&want, plain.Obs(i), 0)
		}
		ids := make([]uint32, 2000)
		for k := range ids {
			ids[k] = uint32(k)
		}
		late, part := newPools(l), newPools(l)
		late.add(&plain, 0, 1000)
		if late.unshifted != nil {
			t.Error(family, "offsets that no row has")
		}
		late.add(b, 1000, 1500)
		part.add(&plain, 1500, 3000)
		late.clone().merge(part, ids)
		if late.unshifted.Rows != 1500 || part.unshifted != nil {
			t.Error(family, "a part has changed")
		}
		part.merge(late, ids)
		late.merge(newPools(l), ids)
		got := part.unshifted
		for k, v := range [][2]float64{{got.Rows, want.Rows}, {got.Weight, want.Weight}, {got.Mean, want.Mean}, {got.Spread, want.Spread}, {got.Log, want.Log}} {
			if math.Abs(v[0]-v[1]) > 1e-9*(1+math.Abs(v[1])) {
				t.Errorf("%s: sum %d is %v, not %v", family, k, v[0], v[1])
			}
		}
	}
}
