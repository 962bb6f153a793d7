package arrowhead

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// Rows of ten weights, a few dozen operations each, on well-conditioned numbers.
var tol = kerneltest.Tol{Rel: 1e-10, Abs: 1e-11}

// random is an arrowhead belief with a tied block and leaves.
func random(r *rand.Rand, d, k int) *Belief {
	mean, variance := make([]float64, d), make([]float64, d)
	for i := range mean {
		mean[i], variance[i] = r.NormFloat64(), 0.3+r.Float64()
	}
	b := New(mean, variance)
	for j := range d {
		for i := 1; i < d-j; i++ {
			*b.entry(j+i, j) = 0.4 * r.NormFloat64()
		}
	}
	for range k {
		l := b.at(b.Add(r.NormFloat64(), 0.2+r.Float64()))
		for i := range l[2:] {
			l[2+i] = 0.7 * r.NormFloat64()
		}
	}
	return b
}

// joint is mean and covariance of all weights, the block first.
func joint(b *Belief) ([]float64, *dense.Matrix) {
	d, n := b.Dim(), b.Dim()+b.Leaves()
	mean, cov, p := make([]float64, n), dense.New(n, n), dense.New(d, d)
	if d > 0 {
		b.Cov(p)
	}
	rows := dense.New(n, d)
	for i := range d {
		rows.Row(i)[i] = 1
		mean[i] = b.Mean[i]
	}
	for k := range b.Leaves() {
		_, q, h := b.Leaf(k)
		copy(rows.Row(d+k), h)
		mean[d+k], _ = b.Marginal(k)
		cov.Row(d + k)[d+k] = q
	}
	for i := range n {
		for j := range n {
			for u := range d {
				for v := range d {
					cov.Row(i)[j] += rows.Row(i)[u] * p.Row(u)[v] * rows.Row(j)[v]
				}
			}
		}
	}
	return mean, cov
}

func sparse(r *rand.Rand, b *Belief, most int) (x []float64, ks []uint32, xs []float64) {
	x = make([]float64, b.Dim())
	for i := range x {
		x[i] = r.NormFloat64()
	}
	for _, k := range r.Perm(b.Leaves())[:min(most, b.Leaves())] {
		ks, xs = append(ks, uint32(k)), append(xs, r.NormFloat64())
	}
	return x, ks, xs
}

// update is the joint Gaussian's update by the row.
func update(mean []float64, cov *dense.Matrix, x []float64, alpha, beta float64) {
	u := make([]float64, len(mean))
	dense.Gemv(u, cov, x)
	for i := range u {
		mean[i] += alpha * u[i]
		for j := range u {
			cov.Row(i)[j] -= beta * u[i] * u[j]
		}
	}
}

// A row gives every pair of a leaf with the block, and every leaf alone, the moments of
// the joint Gaussian's update, whatever the sign of β.
func TestAbsorb(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 300 {
		b := random(r, n%5, 1+n%7)
		d := b.Dim()
		mean, cov := joint(b)
		x, ks, xs := sparse(r, b, 1+n%4)
		full := make([]float64, len(mean))
		copy(full, x)
		for i, k := range ks {
			full[d+int(k)] = xs[i]
		}
		m, v := b.Predict(x, ks, xs)
		u := make([]float64, len(mean))
		dense.Gemv(u, cov, full)
		kerneltest.Close(t, "mean of the predictor", m, dense.Dot(full, mean), tol)
		kerneltest.Close(t, "variance of the predictor", v, dense.Dot(full, u), tol)
		ratio := []float64{0.5, 0.01, 0.99, 1.3, 3}[n%5]
		tilt := lik.Tilted{Alpha: r.NormFloat64(), Beta: (1 - ratio) / v, Ratio: ratio}
		b.Absorb(ks, xs, tilt)
		update(mean, cov, full, tilt.Alpha, tilt.Beta)
		gotMean, got := joint(b)
		for i := range mean {
			what := fmt.Sprintf("case %d, weight %d", n, i)
			kerneltest.Close(t, what+": mean", gotMean[i], mean[i], tol)
			for j := range mean {
				if i == j || i < d || j < d {
					kerneltest.Close(t, fmt.Sprintf("%s: covariance with %d", what, j), got.At(i, j), cov.At(i, j), tol)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

// Where no two leaves meet in a row the filter is the joint Gaussian's, row after row.
func TestLeavesThatNeverMeet(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	b := random(r, 3, 6)
	for k := range 6 { // a prior: leaves independent of the block
		clear(b.at(k)[2:])
	}
	mean, cov := joint(b)
	for range 400 {
		x, ks, xs := sparse(r, b, 1)
		full := make([]float64, len(mean))
		copy(full, x)
		full[3+int(ks[0])] = xs[0]
		_, v := b.Predict(x, ks, xs)
		tilt := lik.Tilted{Alpha: 0.3 * r.NormFloat64(), Beta: 1 / (v + 2), Ratio: 2 / (v + 2)}
		b.Absorb(ks, xs, tilt)
		update(mean, cov, full, tilt.Alpha, tilt.Beta)
	}
	gotMean, got := joint(b)
	// 400 rows: rounding adds up
	long := kerneltest.Tol{Rel: 1e-8, Abs: 1e-10}
	for i := range mean {
		kerneltest.Close(t, "mean", gotMean[i], mean[i], long)
		for j := range mean {
			kerneltest.Close(t, "covariance", got.At(i, j), cov.At(i, j), long)
		}
	}
}

// natural is precision, precision times mean and log normaliser of a joint Gaussian.
func natural(t *testing.T, mean []float64, cov *dense.Matrix) (*dense.Matrix, []float64) {
	t.Helper()
	l := cov.Clone()
	if err := dense.Cholesky(l); err != nil {
		t.Fatal(err)
	}
	prec := dense.New(len(mean), len(mean))
	dense.InverseFromCholesky(prec, l)
	nu := make([]float64, len(mean))
	dense.Gemv(nu, prec, mean)
	return prec, nu
}

// absorb some rows, so that posteriors have something to multiply.
func (b *Belief) learn(r *rand.Rand, rows int) *Belief {
	for range rows {
		x, ks, xs := sparse(r, b, 2)
		_, v := b.Predict(x, ks, xs)
		b.Absorb(ks, xs, lik.Tilted{Alpha: 0.3 * r.NormFloat64(), Beta: 1 / (v + 2), Ratio: 2 / (v + 2)})
	}
	return b
}

// The product adds natural parameters, and its integral is that of the joint Gaussians.
func TestProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for n := range 100 {
		d, k := n%4, 1+n%5
		prior := random(r, d, k)
		a, b := prior.Clone().learn(r, 20), prior.Clone().learn(r, 30)
		var parts []*gauss.Normal
		for _, q := range []*Belief{prior, a, b} {
			mean, cov := joint(q)
			if err := dense.Cholesky(cov); err != nil {
				t.Fatal(err)
			}
			parts = append(parts, gauss.NewFull(mean, cov))
		}
		want, logC, err := gauss.Product(parts[0], parts[1:])
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := a.Product(b, prior, false)
		if err != nil {
			t.Fatal(err)
		}
		mean, cov := joint(a)
		all := dense.New(d+k, d+k)
		want.Cov(all)
		kerneltest.Close(t, "log integral", got, logC, kerneltest.Tol{Rel: 1e-9, Abs: 1e-9})
		for i := range mean {
			kerneltest.Close(t, fmt.Sprintf("case %d: mean %d", n, i), mean[i], want.Mean[i], kerneltest.Tol{Rel: 1e-9, Abs: 1e-9})
			for j := range mean {
				kerneltest.Close(t, fmt.Sprintf("case %d: covariance %d %d", n, i, j), cov.At(i, j), all.At(i, j), kerneltest.Tol{Rel: 1e-9, Abs: 1e-9})
			}
		}
		if t.Failed() {
			return
		}
	}
}

// A change of the priors of block and leaves adds to the joint precision.
func TestPrecise(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for n := range 100 {
		b := random(r, n%5, 1+n%6)
		d := b.Dim()
		mean, cov := joint(b)
		prec, nu := natural(t, mean, cov)
		delta, dnu := dense.New(d, d), make([]float64, d)
		for j := range d {
			x := r.Float64() - 0.1
			m := r.NormFloat64()
			delta.Row(j)[j] = x
			dnu[j] = x * m
			prec.Row(j)[j] += x
			nu[j] += x * m
		}
		for k := range b.Leaves() {
			_, q, _ := b.Leaf(k)
			x, m := (r.Float64()-0.3)/q, r.NormFloat64()
			if err := b.LeafPrecise(k, x, m, delta, dnu); err != nil {
				t.Fatal(err)
			}
			prec.Row(d + k)[d+k] += x
			nu[d+k] += x * m
		}
		if err := b.Precise(delta, dnu); err != nil {
			continue // that much could not be taken away
		}
		if err := dense.Cholesky(prec); err != nil {
			t.Fatal(err)
		}
		want := dense.New(len(mean), len(mean))
		dense.InverseFromCholesky(want, prec)
		wantMean := make([]float64, len(mean))
		dense.Gemv(wantMean, want, nu)
		gotMean, got := joint(b)
		for i := range mean {
			kerneltest.Close(t, fmt.Sprintf("case %d: mean %d", n, i), gotMean[i], wantMean[i], kerneltest.Tol{Rel: 1e-8, Abs: 1e-9})
			for j := range mean {
				kerneltest.Close(t, fmt.Sprintf("case %d: covariance %d %d", n, i, j), got.At(i, j), want.At(i, j), kerneltest.Tol{Rel: 1e-8, Abs: 1e-9})
			}
		}
		if t.Failed() {
			return
		}
	}
}

// Precisions along single directions and of single leaves, one after the other, are those of all
// together, taken away as well as added.
func TestPreciseAlong(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	compared := 0
cases:
	for n := range 60 {
		b := random(r, 1+n%23, 1+n%6)
		d := b.Dim()
		whole := b.Clone()
		delta, nu, g := dense.New(d, d), make([]float64, d), make([]float64, d)
		for range 1 + n%3 {
			for i := range g {
				g[i] = r.NormFloat64()
			}
			v, m := b.quad(g), r.NormFloat64()
			w := (2*r.Float64() - 0.9) / v // 1 + w v > 0 is left
			if err := b.PreciseAlong(g, w, m); err != nil {
				t.Fatal(err)
			}
			for i := range g {
				nu[i] += w * m * g[i]
				dense.Axpy(w*g[i], g, delta.Row(i))
			}
		}
		if err := b.PreciseAlong(g, -1.5/b.quad(g), 0); !errors.Is(err, gauss.ErrNotPD) {
			t.Errorf("case %d: more than all precision was taken away: %v", n, err)
		}
		for k := range b.Leaves() {
			_, q, _ := b.Leaf(k)
			x, m := (r.Float64()-0.2)/q, r.NormFloat64()
			if b.LeafPreciseNow(k, x, m) != nil {
				continue cases // that much could not be taken away
			}
			if err := whole.LeafPrecise(k, x, m, delta, nu); err != nil {
				t.Fatal(err)
			}
		}
		if err := whole.Precise(delta, nu); err != nil {
			t.Fatal(err)
		}
		compared++
		gotMean, got := joint(b)
		wantMean, want := joint(whole)
		for i := range gotMean {
			kerneltest.Close(t, fmt.Sprintf("case %d: mean %d", n, i), gotMean[i], wantMean[i], kerneltest.Tol{Rel: 1e-8, Abs: 1e-9})
			for j := range gotMean {
				kerneltest.Close(t, fmt.Sprintf("case %d: covariance %d %d", n, i, j), got.At(i, j), want.At(i, j), kerneltest.Tol{Rel: 1e-8, Abs: 1e-9})
			}
		}
		if t.Failed() {
			return
		}
	}
	if compared < 20 {
		t.Errorf("%d cases", compared)
	}
}

// New units of the block change no predictor.
func TestRescale(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for n := range 100 {
		b := random(r, 1+n%5, 1+n%6)
		d := b.Dim()
		last := r.IntN(d)
		ratio, shift := make([]float64, d), make([]float64, d)
		for j := range d {
			ratio[j], shift[j] = 1, 0
			if j != last && j%3 < 2 {
				ratio[j], shift[j] = 0.2+r.Float64(), r.NormFloat64()
			}
		}
		c := b.Clone()
		c.Rescale(ratio, shift, last)
		for range 5 {
			x, ks, xs := sparse(r, b, 2)
			// w·x with w' = ratio w and w'_last = w_last + shift·w
			y := append([]float64(nil), x...)
			for j := range d {
				y[j] = (x[j] - shift[j]*x[last]) / ratio[j]
			}
			for j := range d {
				if v := *c.entry(j, j); v < 0 {
					t.Fatalf("a diagonal below 0: %v", v)
				}
			}
			m0, v0 := b.Predict(x, ks, xs)
			m1, v1 := c.Predict(y, ks, xs)
			kerneltest.Close(t, "mean", m1, m0, tol)
			kerneltest.Close(t, "variance", v1, v0, tol)
		}
	}
}

// No update makes a variance that is not positive, even of nearly exact rows.
func TestStaysProper(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	b := New(make([]float64, 3), []float64{1, 1, 10})
	for range 20 {
		b.Add(0, 1)
	}
	for n := range 20000 {
		x, ks, xs := sparse(r, b, 3)
		if n%3 == 0 {
			x[0] = 1e-9 * x[1]
		}
		m, v := b.Predict(x, ks, xs)
		noise := math.Pow(10, -8+10*r.Float64())
		b.Absorb(ks, xs, lik.Tilted{Alpha: (r.NormFloat64() - m) / (v + noise), Beta: 1 / (v + noise), Ratio: noise / (v + noise)})
		for k := range 20 {
			if _, q, _ := b.Leaf(k); !(q > 0) || !(q <= 1) {
				t.Fatalf("row %d: leaf %d has variance %v", n, k, q)
			}
		}
	}
	for j := range 3 {
		if v := *b.entry(j, j); !(v > 0) || v > 4 {
			t.Fatalf("diagonal %d of the root: %v", j, v)
		}
	}
}

// A new weight of the block and another order of its weights change no predictor.
func TestExtendPermute(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for n := range 50 {
		b := random(r, 1+n%4, 1+n%5)
		c := b.Clone()
		d := c.Extend([]float64{0.3}, []float64{2})
		order := r.Perm(d + 1)
		if err := c.Permute(order); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			x, ks, xs := sparse(r, b, 2)
			y := make([]float64, d+1)
			extra := r.NormFloat64()
			for j, i := range order {
				if i < d {
					y[j] = x[i]
				} else {
					y[j] = extra
				}
			}
			m0, v0 := b.Predict(x, ks, xs)
			m1, v1 := c.Predict(y, ks, xs)
			kerneltest.Close(t, "mean", m1, m0+0.3*extra, tol)
			kerneltest.Close(t, "variance", v1, v0+2*extra*extra, tol)
		}
	}
}

// An intercept may be marked as one with the unit of the responses, as that of a fit that learns its
// prior variances, and as both, in either order.
func TestMarks(t *testing.T) {
	for k := range 6 {
		l := Layout{D: 1, Values: make([]float64, Want(1, 1))}
		l.Row(0)[0] = -2
		l.Values[2] = 1
		unit, learns := k%3 != 0, k%3 != 1
		if k >= 3 && learns {
			l.SetLearnsPrior()
		}
		if unit {
			l.SetResponse(5, 2, 6, 3)
		}
		if k < 3 && learns {
			l.SetLearnsPrior()
		}
		if l.HasResponse() != unit || l.LearnsPrior() != learns || l.InUnits() != unit {
			t.Errorf("unit %v, learns %v: found unit %v, learns %v, in units %v", unit, learns, l.HasResponse(), l.LearnsPrior(), l.InUnits())
		}
		if err := l.Check(1); err != nil {
			t.Error(err)
		}
		if center, scale, _, _ := l.Response(); unit && (center != 5 || scale != 2) {
			t.Errorf("unit (y - %v)/%v", center, scale)
		}
	}
}
