package kernels

import (
	"math"
	"runtime"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
)

// partWidth is the least number of columns in a part of running.
const partWidth = 16

// running continues the means, or mean squares if square is set, of the features that have a place
// in stats, by number; missing values do not count. Each mean is computed over its rows in order:
// if all rows have the same features the columns are divided among processors.
func (r *Rows) running(at []int32, stats []center, square bool) {
	for k := 0; k < len(r.chunks); {
		first, place := r.chunks[k].span(at)
		if place == nil {
			r.chunks[k].visit(at, func(k int32, x, rows float64) {
				if square {
					x *= x
				}
				stats[k].add(x, rows)
			})
			k++
			continue
		}
		end := k + 1
		for ; end < len(r.chunks); end++ {
			if e, p := r.chunks[end].span(at); e != first || !slices.Equal(p, place) {
				break
			}
		}
		part := func(lo, hi int) {
			some := make(centers, hi-lo)
			for j, p := range place[lo:hi] {
				some[j] = stats[p]
			}
			some.add(r.chunks[k:end], first+lo, square)
			for j, p := range place[lo:hi] {
				stats[p] = some[j]
			}
		}
		if r.nnz < 1<<15 {
			part(0, len(place))
		} else {
			// Few and wide: a part reads its columns of every row as whole cache lines.
			parts := min(runtime.GOMAXPROCS(0), (len(place)+partWidth-1)/partWidth)
			dense.Each(parts, func(i int) { part(i*len(place)/parts, (i+1)*len(place)/parts) })
		}
		k = end
	}
}

// span returns the places that at has for the features of c: of consecutive entries of every row,
// from first on. nil if they are not consecutive, or if two have the same place.
func (c *chunk) span(at []int32) (first int, place []int32) {
	for e, id := range c.Shared {
		if c.ids != nil {
			id = c.ids[id]
		}
		switch k := at[id]; {
		case k < 0:
		case place == nil:
			first, place = e, append(place, k)
		case e != first+len(place):
			return 0, nil
		default:
			place = append(place, k)
		}
	}
	sorted := slices.Sorted(slices.Values(place))
	if len(slices.Compact(sorted)) < len(place) {
		return 0, nil
	}
	return first, place
}

type centers []center

// add adds the consecutive entries from first on of the rows of chunks.
func (s centers) add(chunks []chunk, first int, square bool) {
	n, alike := s[0].n, true // all have the same number of rows
	for _, c := range s {
		alike = alike && c.n == n
	}
	mean, before := make([]float64, len(s)), make([]float64, len(s))
	for j, c := range s {
		mean[j] = c.mean
	}
	for k := range chunks {
		c := &chunks[k]
		w := len(c.Shared)
		if alike {
			copy(before, mean)
			now := n
			for i := range c.Len() {
				xs, rows := c.Value[i*w+first:][:len(mean)], c.rows(i)
				now += rows
				if square {
					dense.TowardSquares(rows/now, xs, mean)
				} else {
					dense.Toward(rows/now, xs, mean)
				}
			}
			if !slices.ContainsFunc(mean, math.IsNaN) {
				n = now
				continue
			}
			alike = false // numbers are missing: each column separately from here on
			copy(mean, before)
			for j := range s {
				s[j].n = n
			}
		}
		for i := range c.Len() {
			rows := c.rows(i)
			for j, x := range c.Value[i*w+first:][:len(mean)] {
				if x != x {
					continue
				}
				if square {
					x *= x
				}
				s[j].n += rows
				mean[j] += (x - mean[j]) * (rows / s[j].n)
			}
		}
	}
	for j := range s {
		if s[j].mean = mean[j]; alike {
			s[j].n = n
		}
	}
}
