package kernels

import "math"

// ColumnStats is what is known of a column of numbers.
type ColumnStats struct {
	N, Missing    int64 // rows, and those without a value
	Center, Scale float64
}

// Add adds a row's value, NaN where it has none.
func (c *ColumnStats) Add(x float64) {
	c.N++
	if math.IsNaN(x) {
		c.Missing++
		return
	}
	n := float64(c.N - c.Missing)
	d := x - c.Center
	c.Center += d / n
	c.Scale = math.Hypot(c.Scale*math.Sqrt((n-1)/n), d*math.Sqrt(n-1)/n)
}

// Merge adds the rows of o.
func (c *ColumnStats) Merge(o ColumnStats) {
	a, b := float64(c.N-c.Missing), float64(o.N-o.Missing)
	c.N, c.Missing = c.N+o.N, c.Missing+o.Missing
	if b == 0 {
		return
	}
	if a == 0 {
		c.Center, c.Scale = o.Center, o.Scale
		return
	}
	d, n := o.Center-c.Center, a+b
	c.Center += d * (b / n)
	within := math.Hypot(c.Scale*math.Sqrt(a/n), o.Scale*math.Sqrt(b/n))
	c.Scale = math.Hypot(within, d*math.Sqrt(a*b)/n)
}
