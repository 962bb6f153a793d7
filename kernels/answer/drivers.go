package answer

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/stop"
)

// Driver is what a column has to do with how the predictor varies over rows.
type Driver struct {
	Column string
	// Estimate is of the share Cov(s_c, s) / Var(s), s_c the column's part of the predictor s:
	// shares add up to 1; one is below 0 where a column works against the others.
	predict.Estimate
	Spread float64 // standard deviation of s_c over the rows
}

// Drivers adds up how the parts that columns have in the linear predictor vary over rows, one of
// weight w counted as w rows, at the mean weights. The uncertainty is the posterior's, by the delta method:
//
//	share_c = a_c / V,  a_c = Cov(s_c, s),  V = Σ_c a_c
//	∂a_c/∂w_j = [j in c] Cov(x_j, s) + Cov(s_c, x_j),   ∂V/∂w_j = 2 Cov(x_j, s)
//
// Cost: O(k C) a row for k features in C columns; memory O(p C).
//
// Source: the decomposition of a variance into covariances, [pratt1987].
type Drivers struct {
	*predict.Scorer
	level  float64
	n      float64  // sum of the weights of rows
	column []string // in the order they were met
	of     []int    // by feature: its column, -1 for the intercept
	s      []float64
	ss     [][]float64 // Σ s_c s_d
	x      []float64   // Σ x_j
	xs     [][]float64 // by column: Σ s_c x_j
	part   []float64
}

// NewDrivers adds up no rows yet. A level of 0 is 0.95. Errors: those of predict.New.
func NewDrivers(f *kernels.Fit, level float64) (*Drivers, error) {
	if level == 0 {
		level = 0.95
	}
	if !(level > 0 && level < 1) {
		return nil, fmt.Errorf("level = %v; allowed: a number between 0 and 1", level)
	}
	s, err := predict.New(f)
	if err != nil {
		return nil, err
	}
	return &Drivers{Scorer: s, level: level}, nil
}

// Add takes the rows of b, whose feature numbers are those of Features.
// Errors: the cause of ctx when it is cancelled.
func (d *Drivers) Add(ctx context.Context, b *kernels.Batch) error {
	for i := range b.Len() {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		fs, xs := d.Entries(d.Fit, b, i)
		clear(d.part)
		for k, f := range fs {
			if c := d.columnOf(f); c >= 0 {
				w := 0.0
				if at := d.Belief(f); at >= 0 {
					w = d.Fit.Beliefs[at].Mean
				} else {
					w = d.Fit.PriorOf(d.Features().Name(f)).Mean
				}
				d.part[c] += w * xs[k]
			}
		}
		weight := 1.0
		if len(b.Weight) > 0 {
			weight = b.Weight[i]
		}
		d.count(weight, fs, xs)
	}
	return nil
}

// count adds the row of d.part as weight rows.
func (d *Drivers) count(weight float64, fs []uint32, xs []float64) {
	d.n += weight
	for c, s := range d.part {
		s := weight * s
		d.s[c] += s
		for e, t := range d.part[:c+1] {
			d.ss[c][e] += s * t
		}
		for k, f := range fs {
			d.xs[c] = grown(d.xs[c], int(f))
			d.xs[c][f] += s * xs[k]
		}
	}
	for k, f := range fs {
		d.x = grown(d.x, int(f))
		d.x[f] += weight * xs[k]
	}
}

func grown(x []float64, at int) []float64 {
	for len(x) <= at {
		x = append(x, 0)
	}
	return x
}

// columnOf is the column of a feature, -1 for the intercept.
func (d *Drivers) columnOf(f uint32) int {
	for int(f) >= len(d.of) {
		id := uint32(len(d.of))
		name := string(d.Features().Name(id))
		if name == kernels.Intercept {
			d.of = append(d.of, -1)
			continue
		}
		d.of = append(d.of, d.named(predict.ColumnOf(d.Fit, name)))
	}
	return d.of[f]
}

// named is the number of a column.
func (d *Drivers) named(column string) int {
	c := slices.Index(d.column, column)
	if c < 0 {
		c = len(d.column)
		d.column = append(d.column, column)
		d.s, d.part = append(d.s, 0), append(d.part, 0)
		d.ss, d.xs = append(d.ss, make([]float64, c+1)), append(d.xs, nil)
	}
	return c
}

// Merge adds the rows of o, which is of the same fit.
func (d *Drivers) Merge(o *Drivers) {
	id := make([]int, o.Features().Len())
	for k := range id {
		f, err := d.Features().AddRaw(string(o.Features().Name(uint32(k))))
		if err != nil {
			return // a dictionary as large as that of o
		}
		id[k] = int(f)
	}
	d.n += o.n
	at := make([]int, len(o.column))
	for c, name := range o.column {
		at[c] = d.named(name)
		d.s[at[c]] += o.s[c]
		for e, v := range o.ss[c] {
			i, j := max(at[c], at[e]), min(at[c], at[e])
			d.ss[i][j] += v
		}
		for k, v := range o.xs[c] {
			d.xs[at[c]] = grown(d.xs[at[c]], id[k])
			d.xs[at[c]][id[k]] += v
		}
	}
	for k, v := range o.x {
		d.x = grown(d.x, id[k])
		d.x[id[k]] += v
	}
}

// Clone is an independent copy.
func (d *Drivers) Clone() *Drivers {
	c := *d
	c.Scorer = d.Scorer.Clone()
	c.column, c.of, c.s, c.x, c.part = slices.Clone(d.column), slices.Clone(d.of), slices.Clone(d.s), slices.Clone(d.x), slices.Clone(d.part)
	c.ss, c.xs = nil, nil
	for k := range d.ss {
		c.ss, c.xs = append(c.ss, slices.Clone(d.ss[k])), append(c.xs, slices.Clone(d.xs[k]))
	}
	return &c
}

// Size is the memory held, in bytes, roughly.
func (d *Drivers) Size() int64 {
	n := 512 + FitSize(d.Fit)
	for k := range d.xs {
		n += 8 * int64(cap(d.xs[k])+len(d.ss[k]))
	}
	return n
}

// Drivers are the columns, the largest share first; shares are NaN where the predictor does
// not vary.
// Errors: a gradient that is not finite; the cause of ctx when it is cancelled.
func (d *Drivers) Drivers(ctx context.Context) ([]Driver, error) {
	cov := func(c, e int) float64 {
		if c < e {
			c, e = e, c
		}
		return d.ss[c][e]/d.n - d.s[c]/d.n*d.s[e]/d.n
	}
	share, total := make([]float64, len(d.column)), 0.0
	for c := range share {
		if err := stop.Cause(ctx); err != nil {
			return nil, err
		}
		for e := range share {
			share[c] += cov(c, e)
		}
		total += share[c]
	}
	// Cov(s_c, x_j), and Cov(s, x_j)
	with := make([][]float64, len(d.column))
	all := make([]float64, len(d.x))
	for c := range with {
		if err := stop.Cause(ctx); err != nil {
			return nil, err
		}
		with[c] = make([]float64, len(d.x))
		for j, v := range d.xs[c] {
			with[c][j] = v/d.n - d.s[c]/d.n*d.x[j]/d.n
			all[j] += with[c][j]
		}
	}
	out := make([]Driver, len(d.column))
	for c, name := range d.column {
		if err := stop.Cause(ctx); err != nil {
			return nil, err
		}
		out[c].Column, out[c].Spread = name, math.Sqrt(max(cov(c, c), 0))
		nan := math.NaN()
		if out[c].Estimate = (predict.Estimate{Mean: nan, SD: nan, Lower: nan, Upper: nan}); !(total > 0) {
			continue
		}
		s := share[c] / total
		var b kernels.Batch
		b.Reset()
		for j := range d.x {
			g := with[c][j] - 2*s*all[j]
			if d.columnOf(uint32(j)) == c {
				g += all[j]
			}
			if g != 0 {
				b.Add(uint32(j), g/total)
			}
		}
		b.EndRow()
		_, v, err := d.Linear(&b, 0)
		if err != nil {
			return nil, err
		}
		out[c].Estimate, _ = predict.Normal(s, v, d.level)
	}
	slices.SortStableFunc(out, func(a, b Driver) int {
		switch {
		case a.Mean > b.Mean:
			return -1
		case a.Mean < b.Mean:
			return 1
		case a.Column < b.Column:
			return -1
		}
		return 1
	})
	return out, nil
}
