package filter

import (
	"fmt"
	"math"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// walk keeps Σ itself, the lower triangle row by row, for weights in a random walk. It is symmetric
// by construction.
//
// Each update rounds every entry by at most 3u max Σ_ii, u = 1.1e-16, a symmetric perturbation of
// norm below 3pu max Σ_ii. Before the next row q is added to every variance: if q >= 3pu max Σ_ii
// (1e-13 max Σ_ii at p = 300) this makes up for the rounding, and Σ always stays positive definite.
// With less noise, or none for some weights, a Cholesky factorisation every checkRows rows detects
// an indefinite Σ, and the diagonal is raised until the factorisation succeeds.
type walk struct {
	p        int
	s        []float64
	c        []float64 // Σx of the row last predicted
	x        []float64
	v        float64
	rows     int // since the last check
	repaired int64
	sharp    int64 // rows that left less than digits of their predictor's variance
	stop     *stop.Stop
}

const checkRows = 1024

// digits is the share of its predictor's variance that a row may leave: of sixteen digits four
// remain.
const digits = 1e-12

func newWalk(g *gauss.Normal) (*walk, error) {
	w := &walk{}
	w.size0(g.Dim())
	sigma := dense.New(w.p, w.p)
	g.Cov(sigma)
	for i := range w.p {
		copy(w.row(i), sigma.Row(i))
	}
	return w, nil
}

func (w *walk) size0(p int) {
	w.p = p
	w.s, w.c, w.x = stop.Make[float64](w.stop, p*(p+1)/2), memory.Floats(p), memory.Floats(p)
}

// row returns row i up to the diagonal.
func (w *walk) row(i int) []float64 {
	lo := i * (i + 1) / 2
	return w.s[lo : lo+i+1 : lo+i+1]
}

func (w *walk) grow(p int, move []int, variance []float64) {
	n := *w
	n.size0(p)
	for i, v := range variance {
		n.row(i)[i] = v
	}
	for i, to := range move {
		dst := n.row(to)
		for j, v := range w.row(i) {
			dst[move[j]] = v
		}
	}
	*w = n
}

func (w *walk) predict(cols []int32, x []float64) float64 {
	for try := 0; ; try++ {
		clear(w.c)
		if 4*len(cols) > w.p { // dense: one pass over the triangle
			clear(w.x)
			for e, j := range cols {
				w.x[j] = x[e]
			}
			for i := range w.p {
				r := w.row(i)
				w.c[i] += dense.Dot(r, w.x[:i+1])
				if w.x[i] != 0 {
					dense.Axpy(w.x[i], r[:i], w.c[:i])
				}
			}
		} else {
			for e, k := range cols {
				j := int(k)
				dense.Axpy(x[e], w.row(j), w.c[:j+1])
				for i, at := j+1, (j+1)*(j+2)/2+j; i < w.p; i++ {
					w.c[i] += x[e] * w.s[at]
					at += i + 1
				}
			}
		}
		w.v = 0
		zero := true
		for e, j := range cols {
			w.v += x[e] * w.c[j]
			zero = zero && x[e] == 0
		}
		if w.v > 0 || zero || try > 0 || !special.Finite(w.v) {
			w.v = math.Max(w.v, 0)
			return w.v
		}
		w.repair()
	}
}

func (w *walk) absorb(mean []float64, t lik.Tilted) {
	dense.Axpy(t.Alpha, w.c, mean)
	if t.Beta == 0 {
		return
	}
	if t.Ratio < digits {
		w.sharp++
	}
	for i := range w.p {
		ci := w.c[i]
		if ci == 0 {
			continue
		}
		r := w.row(i)
		// Σ'_ii = Σ_ii (1 - ρ²(1 - ratio)) with ρ² <= 1: rounding must not go below that
		floor := r[i] * math.Min(t.Ratio, 1)
		dense.Axpy(-t.Beta*ci, w.c[:i+1], r)
		r[i] = math.Max(r[i], math.Max(floor, least*least))
	}
	if w.rows++; w.rows == checkRows {
		w.rows = 0
		w.repair()
	}
}

// matrix returns the lower triangle of Σ.
func (w *walk) matrix() *dense.Matrix {
	m := dense.NewUnder(w.stop, w.p, w.p)
	for i := range w.p {
		w.stop.Row(i)
		copy(m.Row(i), w.row(i))
	}
	return m
}

// cholesky factors Σ, raising the diagonal if necessary; raised is the relative increase.
func (w *walk) cholesky() (l *dense.Matrix, raised float64, err error) {
	for raised = 0; raised < 1; raised = math.Max(1e-15, raised*10) {
		l = w.matrix()
		for i := range w.p {
			l.Row(i)[i] *= 1 + raised
		}
		if err = dense.Cholesky(l); err == nil {
			return l, raised, nil
		}
	}
	return nil, 0, fmt.Errorf("process_noise makes variances between rows of which rounding leaves no covariance (%w: %w); lower it, tell time in larger units, or use adf with covariance 'arrowhead'", gauss.ErrNotPD, err)
}

// repair raises the diagonal if rounding has made Σ indefinite.
func (w *walk) repair() {
	_, raised, err := w.cholesky()
	if err != nil || raised == 0 {
		return // overflow is found by predict
	}
	w.repaired++
	for i := range w.p {
		w.row(i)[i] *= 1 + raised
	}
}

func (w *walk) walk(scale float64, d []float64) {
	for i := range w.p {
		v := &w.s[i*(i+1)/2+i]
		*v = math.Min(*v+scale*d[i], math.MaxFloat64)
	}
}

func (w *walk) recast(ratio, shift []float64, to int) {
	at := func(i, j int) *float64 { return &w.s[max(i, j)*(max(i, j)+1)/2+min(i, j)] }
	if to >= 0 {
		gain, own := memory.Floats(w.p), 0.0 // Σ shift_j Σ_ij, and the variance of that sum
		for j, s := range shift {
			if s != 0 {
				for i := range gain {
					gain[i] += s * *at(i, j)
				}
			}
		}
		own = dense.Dot(shift, gain)
		*at(to, to) += gain[to] + own
		for i, g := range gain {
			*at(to, i) += g
		}
	}
	for i, r := range ratio {
		if r != 1 {
			for j := range w.p {
				*at(i, j) *= r
			}
			*at(i, i) *= r
		}
	}
}

// forget works on a root.
func (w *walk) forget(lambda float64, mean, restMu, restV []float64) error {
	l, _, err := w.cholesky()
	if err != nil {
		return err
	}
	r := &root{stop: w.stop}
	r.size0(w.p)
	r.set(l)
	if err := r.forget(lambda, mean, restMu, restV); err != nil {
		return err
	}
	w.setFactor(r.matrix())
	return nil
}

// setFactor sets Σ to l lᵀ.
func (w *walk) setFactor(l *dense.Matrix) {
	m := dense.NewUnder(w.stop, w.p, w.p)
	dense.MulTB(m, l, l)
	for i := range w.p {
		copy(w.row(i), m.Row(i))
	}
}

func (w *walk) merge(o, prior covariance, da, db []float64) ([]float64, float64, float64, error) {
	var ls [3]*dense.Matrix
	for k, c := range []covariance{w, o, prior} {
		var err error
		if ls[k], _, err = c.(*walk).cholesky(); err != nil {
			return nil, 0, 0, err
		}
	}
	l, d, logC, apart, err := product(ls[0], ls[1], ls[2], da, db)
	if err != nil {
		return nil, 0, 0, err
	}
	w.setFactor(l)
	return d, logC, apart, nil
}

func (w *walk) variances(dst []float64) {
	for i := range dst {
		dst[i] = w.row(i)[i]
	}
}

func (w *walk) quick(dst []float64) { w.variances(dst) }

func (w *walk) pack(places []int32) (kernels.Covariance, error) {
	l, _, err := w.cholesky()
	if err != nil {
		return kernels.Covariance{}, err
	}
	return packFull(w.stop, places, l.At), nil
}

func (w *walk) clone() covariance {
	c := *w
	c.size0(w.p)
	copy(c.s, w.s)
	return &c
}

func (w *walk) under(s *stop.Stop) { w.stop = s }

func (w *walk) size() int64 { return 8 * int64(cap(w.s)+2*cap(w.c)) }

func (w *walk) status() string {
	var said []string
	if w.sharp > 0 {
		said = append(said, fmt.Sprintf("%d %s said more than 1e12 times what was known of %s predictor, of which rounding leaves less than four digits: process_noise is large for the time between rows, or a prior variance is", w.sharp, kernels.Inflect(w.sharp, "row", "rows"), kernels.Inflect(w.sharp, "its", "their")))
	}
	if w.repaired > 0 {
		said = append(said, fmt.Sprintf("rounding took the covariance out of the positive definite %d times; its diagonal was raised by parts in 1e15 or more", w.repaired))
	}
	return strings.Join(said, "; ")
}
