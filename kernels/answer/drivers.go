package answer

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/stop"
)

// Driver describes a column's share in the variation of the predictor over rows.
type Driver struct {
	Column string
	// Estimate is of the share Cov(s_c, s) / Var(s), s_c being the column's part of the predictor
	// s. Shares add up to 1; that of a column that works against the others is negative.
	predict.Estimate
	Spread float64 // standard deviation of s_c over the rows, at the mean weights
}

// Drivers measures how the parts of the linear predictor that belong to columns vary over rows, a
// row of weight w counted as w rows. With the covariance C of the features over the rows, kept as
// sums of products, the share of a column under weights w is
//
//	Σ_{j in c} w_j (C w)_j / wᵀCw
//
// and Estimate is of its values under draws of the weights from the Gaussian that predicts
// (kernels.PredictiveScale), in most fits the posterior: a share is a ratio of squares, far from
// linear if weights are uncertain.
//
// Cost: O(k²) per row for k features; memory for the pairs of features that occur together in rows;
// at the end, up to 512 draws of the weights and as many products with the pairs, 64 draws if there
// are many.
//
// Source: the decomposition of a variance into covariances, [pratt1987].
type Drivers struct {
	*predict.Scorer
	fit   *kernels.Fit // as given, with the mean weights; the Scorer's is the one that predicts
	level float64
	n     float64            // sum of the weights of rows
	x     []float64          // Σ x_j
	near  []float64          // Σ x_i x_j of features below nearBy, by rows of the lower triangle
	far   map[uint64]float64 // of others, by i << 32 | j, i >= j
	about []centre           // subtracted from x: products of numbers far from 0 lose the digits in which they vary
}

// centre is the mean by which the fit standardised a column of numbers.
type centre struct {
	f uint32
	x float64
}

const (
	nearBy    = 2048
	mostDraws = 512
	fewDraws  = 64
	drawWork  = 1e9 // approximate number of products for all draws
)

// NewDrivers returns drivers without rows. A level of 0 means 0.95. Errors: those of predict.New.
func NewDrivers(f *kernels.Fit, level float64) (*Drivers, error) {
	if level == 0 {
		level = 0.95
	}
	if !(level > 0 && level < 1) {
		return nil, fmt.Errorf("level = %v; allowed: a number between 0 and 1", level)
	}
	s, err := predict.New(f.ForPrediction())
	if err != nil {
		return nil, err
	}
	return &Drivers{Scorer: s, fit: f, level: level, about: centres(s)}, nil
}

// centres are those of the columns whose mean is far from 0 relative to their scale; others may be
// 0 in most rows.
func centres(s *predict.Scorer) (out []centre) {
	const far = 1000 // squares lose six digits
	for _, c := range s.Fit.Columns {
		if c.Kind != kernels.NumberColumn || !(math.Abs(c.Center) > far*c.Scale) {
			continue
		}
		if f, ok := s.Features().Find(c.Name); ok && s.Belief(f) >= 0 {
			out = append(out, centre{f, c.Center})
		}
	}
	return out
}

// centred are the entries minus the centres, an absent entry counting as 0.
func (d *Drivers) centred(fs []uint32, xs []float64) ([]uint32, []float64) {
	if len(d.about) == 0 {
		return fs, xs
	}
	fs, xs = slices.Clone(fs), slices.Clone(xs)
	for _, c := range d.about {
		if k := slices.Index(fs, c.f); k >= 0 {
			xs[k] -= c.x
			continue
		}
		fs, xs = append(fs, c.f), append(xs, -c.x)
	}
	return fs, xs
}

// Add adds the rows of b, whose feature numbers are those of Features.
// Errors: the cause of ctx if it is cancelled.
func (d *Drivers) Add(ctx context.Context, b *kernels.Batch) error {
	for i := range b.Len() {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		fs, xs := d.centred(d.Entries(d.Fit, b, i))
		weight := 1.0
		if len(b.Weight) > 0 {
			weight = b.Weight[i]
		}
		d.n += weight
		for k, f := range fs {
			x := weight * xs[k]
			d.x = grown(d.x, int(f))
			d.x[f] += x
			for l, g := range fs[:k+1] {
				d.pair(f, g, x*xs[l])
			}
		}
	}
	return nil
}

// pair adds x to the sum of products of two features.
func (d *Drivers) pair(f, g uint32, x float64) {
	if f < g {
		f, g = g, f
	}
	if f < nearBy {
		at := int(f)*(int(f)+1)/2 + int(g)
		d.near = grown(d.near, at)
		d.near[at] += x
		return
	}
	if d.far == nil {
		d.far = map[uint64]float64{}
	}
	d.far[uint64(f)<<32|uint64(g)] += x
}

func grown(x []float64, at int) []float64 {
	for len(x) <= at {
		x = append(x, 0)
	}
	return x
}

// Merge adds the rows of o, which must have the same fit.
func (d *Drivers) Merge(o *Drivers) {
	id := make([]uint32, o.Features().Len())
	for k := range id {
		f, err := d.Features().AddRaw(string(o.Features().Name(uint32(k))))
		if err != nil {
			return // only a dictionary as large as that of o
		}
		id[k] = f
	}
	d.n += o.n
	for k, v := range o.x {
		d.x = grown(d.x, int(id[k]))
		d.x[id[k]] += v
	}
	for _, p := range o.pairs() {
		d.pair(id[p.f], id[p.g], p.x)
	}
}

// product is a sum over rows of the products of two features.
type product struct {
	f, g uint32
	x    float64
}

// pairs are the nonzero sums, in the order of their features.
func (d *Drivers) pairs() []product {
	var out []product
	at := 0
	for f := uint32(0); at < len(d.near); f++ {
		for g := uint32(0); g <= f && at < len(d.near); g, at = g+1, at+1 {
			if x := d.near[at]; x != 0 {
				out = append(out, product{f, g, x})
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(d.far)) {
		out = append(out, product{uint32(k >> 32), uint32(k), d.far[k]})
	}
	return out
}

// Clone returns an independent copy.
func (d *Drivers) Clone() *Drivers {
	c := *d
	c.Scorer = d.Scorer.Clone()
	c.x, c.near, c.far = slices.Clone(d.x), slices.Clone(d.near), maps.Clone(d.far)
	return &c
}

// Size is the approximate memory held, in bytes.
func (d *Drivers) Size() int64 {
	return 512 + FitSize(d.Fit) + 8*int64(cap(d.x)+cap(d.near)) + 40*int64(len(d.far))
}

// columns are the columns of all features, and the column of each feature, -1 for the intercept.
func (d *Drivers) columns() (names []string, of []int) {
	at := map[string]int{}
	for f := range d.x {
		name := string(d.Features().Name(uint32(f)))
		if name == kernels.Intercept {
			of = append(of, -1)
			continue
		}
		column := predict.ColumnOf(d.Fit, name)
		c, ok := at[column]
		if !ok {
			c = len(names)
			at[column] = c
			names = append(names, column)
		}
		of = append(of, c)
	}
	return names, of
}

// under computes the parts a_c = Cov(s_c, s) of the columns under weights w, and Var(s_c) if own is
// not nil. It returns Var(s), 0 if that is only rounding.
func (d *Drivers) under(w []float64, pairs []product, of []int, a, own []float64) (total float64) {
	clear(a)
	clear(own)
	mean, sum := make([]float64, len(a)), 0.0
	for f, x := range d.x {
		if c := of[f]; c >= 0 {
			mean[c] += w[f] * x / d.n
			sum += w[f] * x / d.n
		}
	}
	for _, p := range pairs {
		c, e := of[p.f], of[p.g]
		if c < 0 || e < 0 {
			continue
		}
		x := w[p.f] * w[p.g] * p.x / d.n
		if p.f != p.g {
			a[e] += x
		}
		a[c] += x
		if own != nil && c == e {
			if own[c] += x; p.f != p.g {
				own[c] += x
			}
		}
	}
	for c := range a {
		a[c] -= mean[c] * sum
		total += a[c]
		if own != nil {
			own[c] -= mean[c] * mean[c]
		}
	}
	if total <= 1e-14*sum*sum {
		return 0
	}
	return total
}

// Drivers returns the columns, the largest share first; shares are NaN if the predictor does not
// vary.
// Errors: those of predict.Scorer.NewDraw; the cause of ctx if it is cancelled.
func (d *Drivers) Drivers(ctx context.Context) ([]Driver, error) {
	names, of := d.columns()
	pairs := d.pairs()
	a, own := make([]float64, len(names)), make([]float64, len(names))
	w := make([]float64, len(d.x))
	for f := range w {
		if at := d.Belief(uint32(f)); at >= 0 {
			w[f] = d.fit.Beliefs[at].Mean
		} else {
			w[f] = d.fit.PriorOf(d.Features().Name(uint32(f))).Mean
		}
	}
	d.under(w, pairs, of, a, own)
	shares, err := d.shares(ctx, pairs, of, len(names))
	if err != nil {
		return nil, err
	}
	out := make([]Driver, len(names))
	nan := math.NaN()
	for c, name := range names {
		out[c] = Driver{name, predict.Estimate{Mean: nan, SD: nan, Lower: nan, Upper: nan}, math.Sqrt(max(own[c], 0))}
		if shares != nil {
			out[c].Estimate, _ = predict.OfDraws(shares[c], 1, d.level)
		}
	}
	slices.SortStableFunc(out, func(a, b Driver) int {
		switch {
		case a.Mean > b.Mean:
			return -1
		case a.Mean < b.Mean:
			return 1
		}
		return strings.Compare(a.Column, b.Column)
	})
	return out, nil
}

// shares are those of each column under draws of the weights; nil if a predictor does not vary.
func (d *Drivers) shares(ctx context.Context, pairs []product, of []int, columns int) ([][]float64, error) {
	draw, err := d.NewDraw()
	if err != nil {
		return nil, err
	}
	work := float64(len(pairs) + len(d.x))
	if d.Fit.Covariance.Form == gauss.Full {
		work += float64(len(d.Fit.Beliefs)) * float64(len(d.Fit.Beliefs)) / 2
	}
	n := int(min(max(drawWork/work, fewDraws), mostDraws))
	shares := make([][]float64, columns)
	w, a := make([]float64, len(d.x)), make([]float64, columns)
	var b kernels.Batch
	for k := range n {
		if err := stop.Cause(ctx); err != nil {
			return nil, err
		}
		draw.Set(0, uint64(k))
		for f := range w {
			b.Reset()
			b.Add(uint32(f), 1)
			b.EndRow()
			if w[f], err = draw.Linear(&b, 0); err != nil {
				return nil, err
			}
		}
		total := d.under(w, pairs, of, a, nil)
		if !(total > 0) {
			return nil, nil
		}
		for c, x := range a {
			shares[c] = append(shares[c], x/total)
		}
	}
	return shares, nil
}
