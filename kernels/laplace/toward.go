package laplace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// Toward estimates the pass over the rows of s at the point of there. there and here are passes over
// a random sample of these rows, here at the point of s:
//
//	ℓ(v) = ℓ(u) + gᵀ(v-u) - ½ (v-u)ᵀH(v-u) + by x (ℓ(v) of the sample less the same approximation of it)
//
// and likewise slope and curvature; by is how many rows each row of the sample stands for. The
// first two orders are those of all rows, only the rest is estimated from the sample: steps on it
// come closer to the mode than a Newton step, and read only the sample. Errors: passes of different
// models, here at another point; the cause of ctx if it is cancelled.
func (s *Pass) Toward(ctx context.Context, there, here *Pass, by float64) (out *Pass, err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	if s.head != there.head || s.head != here.head {
		return nil, fmt.Errorf("passes of different models: %v, %v, and %v", s.head, there.head, here.head)
	}
	out = s.Clone()
	out.model, out.cov = nil, nil
	from, err := here.in(halt, out)
	if err != nil {
		return nil, err
	}
	to, err := there.in(halt, out)
	if err != nil {
		return nil, err
	}
	for j, v := range from.at {
		if from.has[j] && v != s.at[j] {
			return nil, errors.New("passes around different fits: the sample's is not at the point of all rows")
		}
	}
	d := slices.Clone(to.at)
	for j, v := range s.at {
		d[j] -= v
	}
	// A feature that few rows of the sample have would count for more rows than have it: limit it to
	// its weight in all rows.
	share, root := slices.Repeat([]float64{1}, len(d)), slices.Repeat([]float64{1}, len(d))
	for j := range d {
		k := packed(uint32(j), uint32(j))
		if h := by * from.curv[k]; h > 2*s.curv[k] {
			share[j] = s.curv[k] / h
			root[j] = math.Sqrt(share[j])
		}
	}
	all, some := s.times(d), from.times(d)
	out.at = to.at
	out.logLik += dense.Dot(s.slope, d) - 0.5*dense.Dot(d, all) + by*(to.logLik-from.logLik-dense.Dot(from.slope, d)+0.5*dense.Dot(d, some))
	for j := range d {
		out.slope[j] += by*share[j]*(to.slope[j]-from.slope[j]+some[j]) - all[j]
		out.bend[j] = by * to.bend[j]
	}
	k := 0
	for i, r := range root {
		halt.Row(i)
		for _, q := range root[:i+1] {
			out.curv[k] += by * r * q * (to.curv[k] - from.curv[k])
			k++
		}
	}
	out.around = there.around
	return out, nil
}

// placed is a pass in the coordinates of another.
type placed struct {
	Pass
	has []bool
}

// in transforms s to the features and shifts of o; a feature that s does not have is at o's point.
func (s *Pass) in(halt *stop.Stop, o *Pass) (*placed, error) {
	p := o.dict.Len()
	ids, err := o.dict.Merge(&s.dict)
	if err != nil {
		return nil, err
	}
	if o.dict.Len() != p {
		return nil, fmt.Errorf("the sample has %q, which the rows do not have", o.dict.Name(uint32(p)))
	}
	q := &placed{has: make([]bool, p)}
	q.dict, q.logLik = o.dict, s.logLik
	q.at, q.slope, q.bend, q.curv = slices.Clone(o.at), memory.Floats(p), memory.Floats(p), make([]float64, p*(p+1)/2)
	by := memory.Floats(p)
	for j, id := range ids {
		halt.Row(j)
		q.has[id] = true
		q.at[id], q.slope[id], q.bend[id] = s.at[j], s.slope[j], s.bend[j]
		by[id] = s.shift[j] - o.shift[id]
		for k, g := range ids[:j+1] {
			q.curv[packed(id, g)] = s.curv[j*(j+1)/2+k]
		}
	}
	for j, d := range by {
		if d != 0 && q.has[j] {
			halt.Check()
			q.reshift(j, d)
		}
	}
	return q, nil
}

// reshift increases the numbers of feature j by d, except missing ones, which stay 0.
func (q *placed) reshift(j int, d float64) {
	p := len(q.at)
	null := -1
	for id := range p {
		if _, at, ok := q.column(id); ok && at == j {
			null = id
		}
	}
	unit := memory.Floats(p)
	unit[0] = 1
	q.at[0] -= d * q.at[j]
	slope, bend := q.slope[0], q.bend[0]
	if null >= 0 {
		unit[null] = -1
		q.at[null] += d * q.at[j]
		slope, bend = slope-q.slope[null], bend-q.bend[null]
	}
	v := q.times(unit)
	q.slope[j] += d * slope
	q.bend[j] += d * bend
	for i, x := range v {
		q.curv[packed(uint32(i), uint32(j))] += d * x
	}
	q.curv[packed(uint32(j), uint32(j))] += d*v[j] + d*d*dense.Dot(unit, v)
}

// times returns the curvature times x.
func (s *Pass) times(x []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		row := s.curv[packed(uint32(i), 0):][:i+1]
		out[i] += dense.Dot(row, x[:i+1])
		dense.Axpy(x[i], row[:i], out[:i])
	}
	return out
}
