package kernels

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/memory"
)

// ClassSeparation is Separation for rows whose Y are class numbers, with f their fit by a softmax,
// "" if there is nothing to note: on classes that the mean weights separate without an error, on
// single classes that a feature or a plane separates from all others, and on features whose rows
// are all of one class, or never of one. In each case the likelihood increases without bound along
// some weights.
//
// There is no note on what random labels would do, too, with a chance above 1e-3 in the whole fit:
// for a plane as for two responses [cover1965], once for every class; if all classes are separated
// they are so pairwise, and the two largest decide.
//
// Cost: O(non-zeros · classes) if classes are separated, otherwise O(non-zeros).
func (p *Problem) ClassSeparation(f *Fit) string {
	w := p.classMeans(f)
	if w == nil {
		return ""
	}
	k := len(w)
	c := &classSides{Problem: p, k: k, of: make([]float64, k)}
	for i, y := range p.Y {
		if p.counts(i) {
			c.of[int(y)] += p.Rows(i)
			c.n += p.Rows(i)
		}
	}
	all, single := c.apart(w)
	c.fill()
	if all && c.beyondChance(c.second(), 1) {
		var names []string
		for a := range k {
			for _, name := range c.alone(a) {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		if names == nil {
			names = c.mainContributors(w)
		}
		return "the classes are separated by " + listed(names) + priorsWord
	}
	var out, part []string
	for a, name := range f.Classes {
		if c.of[a] == 0 || c.of[a] == c.n {
			continue
		}
		alone := c.alone(a)
		if alone == nil && !single[a] {
			part = append(part, c.parts(a, name)...)
			continue
		}
		if !c.beyondChance(min(c.of[a], c.n-c.of[a]), float64(k)) {
			continue
		}
		if alone == nil {
			alone = c.mainContributors(c.against(w, a))
		}
		out = append(out, fmt.Sprintf("class %q is separated from the others by %s", name, listed(alone)))
	}
	if len(out) == 0 && len(part) > 0 {
		out = []string{"rows with " + listed(part)}
	}
	if len(out) == 0 {
		return ""
	}
	return listed(out) + priorsWord
}

const priorsWord = ": the prior alone says how large these weights are"

// counts reports whether row i has positive weight.
func (p *Problem) counts(i int) bool { return p.Weight == nil || p.Weight[i] > 0 }

// classSides is what columns have in the rows of each class.
type classSides struct {
	*Problem
	k    int
	of   []float64 // rows of each class
	n    float64
	rows [][]float64 // by column, then class: rows in which it is not 0
	low  [][]float64
	high [][]float64 // and its values there
}

// beyondChance reports whether this many rows, separated from at least as many others, are so by
// chance less than once in a thousand times tests.
func (c *classSides) beyondChance(rows, tests float64) bool {
	m := 2*rows - 1
	return m > 0 && float64(c.P)-0.5*m < -1.6*math.Sqrt(m*(1+math.Log(tests)/math.Log(1000)))
}

// second is the number of rows of the second largest class.
func (c *classSides) second() float64 {
	sorted := slices.Sorted(slices.Values(c.of))
	return sorted[len(sorted)-2]
}

// apart reports whether in all rows the predictor of the row's class is the largest, and which
// classes have, in their rows, larger predictors, relative to the mean of those of the other
// classes, than in all others: larger than 0, if there is no intercept to shift it.
func (c *classSides) apart(w [][]float64) (all bool, single []bool) {
	single = make([]bool, c.k)
	left := 0
	low, high := make([]float64, c.k), make([]float64, c.k)
	for a := range single {
		low[a], high[a] = math.Inf(1), math.Inf(-1)
		if c.NoIntercept {
			low[a], high[a] = math.Inf(1), 0
		}
		if single[a] = c.of[a] > 0; single[a] {
			left++
		}
	}
	all = left > 1
	eta := make([]float64, c.k)
	for i, y := range c.Y {
		if !c.counts(i) {
			continue
		}
		if !all && left == 0 {
			break
		}
		c.Stop.Row(i)
		own, total := int(y), 0.0
		col, val := c.Entries(i)
		for a, v := range w {
			eta[a] = 0
			for e, j := range col {
				eta[a] += val[e] * v[j]
			}
			total += eta[a]
		}
		for a, e := range eta {
			all = all && (a == own || e < eta[own])
			if !single[a] {
				continue
			}
			d := e - (total-e)/float64(c.k-1)
			if a == own {
				low[a] = min(low[a], d)
			} else {
				high[a] = max(high[a], d)
			}
			if !(high[a] < low[a]) {
				single[a] = false
				left--
			}
		}
	}
	return all, single
}

// fill computes rows, low and high.
func (c *classSides) fill() {
	for _, m := range []*[][]float64{&c.rows, &c.low, &c.high} {
		*m = make([][]float64, c.P)
		all := make([]float64, c.P*c.k)
		for j := range *m {
			(*m)[j] = all[j*c.k : (j+1)*c.k]
		}
	}
	for i, y := range c.Y {
		if !c.counts(i) {
			continue
		}
		c.Stop.Row(i)
		a, rows := int(y), c.Rows(i)
		col, val := c.Entries(i)
		for e, j := range col {
			x := val[e]
			if x == 0 {
				continue
			}
			if c.rows[j][a] == 0 {
				c.low[j][a], c.high[j][a] = x, x
			}
			c.rows[j][a] += rows
			c.low[j][a], c.high[j][a] = min(c.low[j][a], x), max(c.high[j][a], x)
		}
	}
}

// alone returns the features that separate class a from the others by themselves.
func (c *classSides) alone(a int) (names []string) {
	for j := range c.P {
		ends := [2][2]float64{{math.Inf(1), math.Inf(-1)}, {math.Inf(1), math.Inf(-1)}}
		for b, n := range c.of {
			if n == 0 {
				continue
			}
			low, high := c.low[j][b], c.high[j][b]
			if c.rows[j][b] < n { // the others are 0
				low, high = min(low, 0), max(high, 0)
			}
			e := &ends[0]
			if b == a {
				e = &ends[1]
			}
			e[0], e[1] = min(e[0], low), max(e[1], high)
		}
		if ends[0][1] < ends[1][0] || ends[1][1] < ends[0][0] {
			names = append(names, c.Name(j))
		}
	}
	return names
}

// parts returns the features whose rows are all of class a, or never.
func (c *classSides) parts(a int, class string) (out []string) {
	least := math.Log(1e-3 / float64(c.P*c.k))
	for j := range c.P {
		rows := 0.0
		for _, r := range c.rows[j] {
			rows += r
		}
		own := c.rows[j][a]
		if c.Name(j) == Intercept || rows == 0 || own > 0 && own < rows {
			continue
		}
		share, how := (c.of[a]-own)/(c.n-rows), "are all of class"
		if own == 0 {
			if slices.ContainsFunc(c.rows[j], func(r float64) bool { return r == rows }) {
				continue // of another class, which notes it
			}
			share, how = 1-share, "are never of class"
		}
		if rows*math.Log(share) < least {
			out = append(out, fmt.Sprintf("%s %s %q", c.Name(j), how, class))
		}
	}
	return out
}

// against returns the predictor of class a less the mean of the others'.
func (c *classSides) against(w [][]float64, a int) [][]float64 {
	d := memory.Floats(c.P)
	for b, v := range w {
		by := -1 / float64(c.k-1)
		if b == a {
			by = 1
		}
		for j, x := range v {
			d[j] += by * x
		}
	}
	return [][]float64{d}
}

// mainContributors returns up to three features that contribute most to the variation of the
// predictors w.
func (c *classSides) mainContributors(w [][]float64) (names []string) {
	sum, square := memory.Floats(c.P), memory.Floats(c.P)
	for i := range c.Y {
		if !c.counts(i) {
			continue
		}
		col, val := c.Entries(i)
		for e, j := range col {
			sum[j] += val[e] * c.Rows(i) / c.n
			square[j] += val[e] * val[e] * c.Rows(i) / c.n
		}
	}
	spread, all := memory.Floats(c.P), make([]int, c.P)
	for j := range all {
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range w {
			low, high = min(low, v[j]), max(high, v[j])
		}
		if len(w) == 1 {
			low, high = 0, math.Abs(w[0][j])
		}
		all[j], spread[j] = j, (high-low)*math.Sqrt(max(square[j]-sum[j]*sum[j], 0))
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(spread[b], spread[a]) })
	for _, j := range all {
		if len(names) < 3 && spread[j] >= 0.1*spread[all[0]] {
			names = append(names, c.Name(j))
		}
	}
	return names
}
