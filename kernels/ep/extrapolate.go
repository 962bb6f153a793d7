package ep

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
)

// extrapolation is Anderson's: the combination of the last sweeps, each a map from sites to sites,
// whose changes cancel best. Sweeps of full EP converge slowly if rows share a direction: on
// separable data by a quarter of the change per sweep.
//
// Source: [walker2011].
type extrapolation struct {
	before     []Site      // the sites before the sweep
	from, to   [][]float64 // by sweep: its changes, in standard deviations of the predictors, and its sites
	wait, hold int         // sweeps to wait, and how many after the next failure
	taken      bool
}

// sweepsKept is how many sweeps are combined, mostFactor the largest factor between a site's new
// precision and that of the last sweep.
const (
	sweepsKept = 6
	mostFactor = 4
)

// begin records the sites before a sweep.
func (x *extrapolation) begin(s []Site) { x.before = append(x.before[:0], s...) }

func (x *extrapolation) forget() { x.from, x.to = x.from[:0], x.to[:0] }

// add records a sweep: its changes in standard deviations of the predictors, and its sites.
func (f *full) add() {
	x, n := f.past, f.p.N
	r, g := memory.Floats(2*n), memory.Floats(2*n)
	if len(x.from) == sweepsKept {
		r, g = x.from[0], x.to[0]
		x.from, x.to = slices.Delete(x.from, 0, 1), slices.Delete(x.to, 0, 1)
	}
	for i, s := range f.site {
		v := f.tilt[i].Variance
		dt, dn := s.Tau-x.before[i].Tau, s.Nu-x.before[i].Nu
		r[i], r[n+i] = dt*v, (dn-dt*f.tilt[i].Mean)*math.Sqrt(v)
		g[i], g[n+i] = s.Tau, s.Nu
	}
	x.from, x.to = append(x.from, r), append(x.to, g)
}

// accelerate moves to the combination of the last sweeps, or stays at the last one if that is not
// a proper belief.
func (f *full) accelerate(grew bool) bool {
	x := f.past
	if grew && x.taken {
		x.hold = 2*x.hold + 1
		x.wait = x.hold
		x.forget()
	}
	x.taken = false
	f.add()
	if x.wait > 0 {
		x.wait--
		return false
	}
	share := x.shares()
	if share == nil {
		return false
	}
	n, last := f.p.N, len(x.to)-1
	was := slices.Clone(f.site)
	for i := range f.site {
		t, u := x.to[last][i], x.to[last][n+i]
		dt, du := 0.0, 0.0
		for k, c := range share {
			dt += c * (x.to[k][i] - t)
			du += c * (x.to[k][n+i] - u)
		}
		if next := t + dt; t > 0 && next < t/mostFactor {
			dt = t/mostFactor - t
		} else if t > 0 && next > mostFactor*t {
			dt = mostFactor*t - t
		}
		f.site[i] = Site{t + dt, u + du}
	}
	if _, err := f.rebuild(); err != nil {
		copy(f.site, was)
		if _, err := f.rebuild(); err != nil {
			panic(err) // it was proper before
		}
		x.forget()
		return false
	}
	copy(f.prev, f.mean)
	x.taken = true
	return true
}

// shares returns the coefficients of the earlier sweeps that minimise the combined change, nil if
// there is none before the last one.
func (x *extrapolation) shares() []float64 {
	m := len(x.from) - 1
	if m < 1 {
		return nil
	}
	last := x.from[m]
	d := dense.New(m, len(last))
	for k := range m {
		for i, v := range x.from[k] {
			d.Row(k)[i] = v - last[i]
		}
	}
	a, b := dense.New(m, m), make([]float64, m)
	for k := range m {
		for l := range m {
			a.Row(k)[l] = dense.Dot(d.Row(k), d.Row(l))
		}
		b[k] = -dense.Dot(d.Row(k), last)
	}
	for k := range m {
		a.Row(k)[k] *= 1 + 1e-10
	}
	if dense.Cholesky(a) != nil {
		x.forget()
		return nil
	}
	dense.SolveLowerVec(a, b)
	dense.SolveLowerTVec(a, b)
	return b
}
