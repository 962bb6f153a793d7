package mode

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
)

var tight = kerneltest.Tol{Rel: 1e-11, Abs: 1e-11}

func same(t *testing.T, what string, a, b *dense.Matrix) {
	t.Helper()
	for i := range b.Rows {
		for j, v := range b.Row(i) {
			if !kerneltest.Close(t, fmt.Sprintf("%s (%d, %d)", what, i, j), a.At(i, j), v, tight) {
				return
			}
		}
	}
}

// With B = I the posterior's root is that of the prior.
func TestPosteriorRoot(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const p = 12
	mean, d, l, eye := make([]float64, p), make([]float64, p), dense.New(p, p), dense.New(p, p)
	for i := range p {
		d[i] = 1 + rng.Float64()
		for j := range i {
			l.Row(i)[j] = rng.NormFloat64()
		}
		l.Row(i)[i] = d[i]
		eye.Row(i)[i] = 1
	}
	for _, g := range []*gauss.Normal{gauss.NewDiagonal(mean, d), gauss.NewFull(mean, l)} {
		r, err := g.Root()
		if err != nil {
			t.Fatal(err)
		}
		root, got, want := PosteriorRoot(r, eye.Clone()), dense.New(p, p), dense.New(p, p)
		dense.MulTB(got, root, root)
		g.Cov(want)
		same(t, "PosteriorRoot", got, want)
	}
}

// A matrix whose eigenvalues are 1 and more but for rounding gets a factor all the
// same, one that keeps its large part.
func TestFactorOfRoundedMatrix(t *testing.T) {
	const n, big = 6, 1e18
	b := dense.New(n, n)
	for i := range n {
		for j := range n {
			b.Row(i)[j] = big // rank one: I + big 11ᵀ, the ones below rounding
		}
	}
	want := b.Clone()
	if err := Factor(b); err != nil {
		t.Fatal(err)
	}
	got := dense.New(n, n)
	dense.MulTB(got, b, b)
	for i := range n {
		for j := range n {
			kerneltest.Close(t, "factor", got.At(i, j), want.At(i, j), kerneltest.Tol{Rel: 1e-9})
			if j > i && b.At(i, j) != 0 {
				t.Error("not lower triangular")
			}
		}
		if !(b.At(i, i) > 0) {
			t.Errorf("pivot %v", b.At(i, i))
		}
	}
	b.Row(2)[1] = math.Inf(1)
	if err := Factor(b); err != ErrOverflow {
		t.Error(err)
	}
}

// hill is a concave function with its maximum inside, outside or on a flat ground.
type hill struct {
	top   []float64
	at    []float64
	tries int
}

func (h *hill) Try(theta []float64) (float64, bool, error) {
	h.at = append(h.at[:0], theta...)
	h.tries++
	s := 0.0
	for k, x := range theta {
		s -= math.Cosh(0.7*(x-h.top[k])) * float64(1+k)
	}
	return s, true, nil
}

func (h *hill) Keep() {}

func (h *hill) Slope() (g, scale []float64, err error) {
	for k, x := range h.at {
		g, scale = append(g, -0.7*math.Sinh(0.7*(x-h.top[k]))*float64(1+k)), append(scale, 0.1)
	}
	return g, scale, nil
}

func TestMaximise(t *testing.T) {
	h := &hill{top: []float64{3, -9, 0.5, 40}}
	s := Search{Lo: []float64{-20, -5, -20, -20}, Hi: []float64{20, 5, 20, 20}, Late: func() bool { return false }}
	theta, status, err := s.From(h, [][]float64{make([]float64, 4)})
	if err != nil || status != "" {
		t.Fatal(err, status)
	}
	for k, want := range []float64{3, -5, 0.5, 20} {
		kerneltest.Close(t, "θ", theta[k], want, kerneltest.Tol{Abs: 1e-5})
		kerneltest.Close(t, "state", h.at[k], want, kerneltest.Tol{Abs: 1e-5})
	}
	s.Late = func() bool { return true }
	if _, status, _ := s.From(h, [][]float64{make([]float64, 4)}); status == "" {
		t.Error("did not say that it was late")
	}
}

// The maximum of functions without a slope, from walls and flat ground.
func TestFunction(t *testing.T) {
	late := func() bool { return false }
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.Float64Range(-20, 20).Draw(rt, "at")
		start := rapid.Float64Range(-20, 20).Draw(rt, "start")
		skew := rapid.Float64Range(0.2, 3).Draw(rt, "skew")
		calls := 0
		f := &Function{Lo: []float64{-30}, Hi: []float64{30}, Step: 1e-3, Value: func(x []float64) (float64, bool, error) {
			calls++
			d := x[0] - at
			return -math.Exp(-skew*d) - skew*d, true, nil // flat to the right, a wall to the left
		}}
		x, status, err := Search{Lo: f.Lo, Hi: f.Hi, Late: late, Stretch: true}.From(f, [][]float64{{start}})
		if err != nil || status != "" || math.Abs(x[0]-at) > 1e-5 || calls > 100 {
			rt.Errorf("maximum at %v, found %v after %d calls: %q, %v", at, x, calls, status, err)
		}
	})
	for _, value := range []func(x float64) float64{func(x float64) float64 { return x }, func(x float64) float64 { return -math.Exp(-x) }} {
		f := &Function{Lo: []float64{-3}, Hi: []float64{17}, Step: 1e-3, Value: func(x []float64) (float64, bool, error) { return value(x[0]), true, nil }}
		if x, _, err := (Search{Lo: f.Lo, Hi: f.Hi, Late: late, Ends: []float64{0.01}}.From(f, [][]float64{{0}})); err != nil || x[0] != 17 {
			t.Errorf("at the end of the range: %v, %v", x, err)
		}
	}
}

// ridge is an evidence in one dimension that remembers where it stands.
type ridge struct {
	f    func(x float64) float64
	at   float64
	nats float64
}

func (r *ridge) Tolerance() float64 { return r.nats }

func (r *ridge) Try(theta []float64) (float64, bool, error) {
	r.at = theta[0]
	return r.f(r.at), true, nil
}

func (r *ridge) Keep() {}

func (r *ridge) Slope() (slope, scale []float64, err error) {
	const h = 1e-4
	return []float64{(r.f(r.at+h) - r.f(r.at-h)) / (2 * h)}, nil, nil
}

// A search ends on the higher of two hills, or at a start that is above them, and stands there, also
// where it tried an end of the range that is lower.
func TestSearchStarts(t *testing.T) {
	hills := func(x float64) float64 { return math.Exp(-0.5*x*x) + 2*math.Exp(-0.5*(x-9)*(x-9)) }
	ledge := func(x float64) float64 { return -math.Exp(-x) - 1e-7*math.Exp(max(x-9, 0)) }
	for _, c := range []struct {
		f      func(x float64) float64
		starts [][]float64
		want   float64
		nats   float64
	}{{hills, [][]float64{{0.5}, {7}}, 9, 1e-12}, {hills, [][]float64{{8}, {0.1}}, 9, 1e-12}, {ledge, [][]float64{{0}}, 12, 1e-4}} {
		for _, grid := range []bool{false, true} {
			r := &ridge{f: c.f, nats: c.nats}
			s := Search{Lo: []float64{-20}, Hi: []float64{30}, Late: func() bool { return false }, Grid: grid, Ends: []float64{0.02}}
			x, status, err := s.From(r, c.starts)
			if err != nil || status != "" {
				t.Fatal(status, err)
			}
			if r.at != x[0] || !(c.f(x[0]) > c.f(c.want)-1e-5-200*c.nats) {
				t.Errorf("from %v: %v, %v high, standing at %v; want %v, %v high", c.starts, x, c.f(x[0]), r.at, c.want, c.f(c.want))
			}
		}
	}
}

func TestSmallest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 200; n++ {
		x := make([]float64, n)
		for i := range x {
			x[i] = math.Floor(rng.NormFloat64() * float64(n%13))
		}
		sorted := slices.Sorted(slices.Values(x))
		for _, k := range []int{0, n / 4, n / 2, 3 * n / 4, n - 1} {
			if got := smallest(x, k); got != sorted[k] {
				t.Fatalf("of %d numbers: %v in place %d, want %v", n, got, k, sorted[k])
			}
		}
	}
}

// rounded is a hill whose slope comes out below 0 the second time it is asked for.
type rounded struct{ calls int }

func (r *rounded) Direction() (float64, error) {
	if r.calls++; r.calls > 1 {
		return -0.01, nil
	}
	return 1, nil
}
func (r *rounded) Gain(t float64) float64          { return t * (1 - t/2) }
func (r *rounded) Go(float64) bool                 { return true }
func (r *rounded) Height() (float64, float64, int) { return -1, 1, 10 }

// A slope that rounding has made negative is not the top.
func TestNegativeSlope(t *testing.T) {
	n := Newton{MaxIter: 100, Tol: 1e-8}
	if err := n.Climb(&rounded{}, nil); err != nil || n.Status == "" || n.Iterations != 1 || n.Decrement != 0.1 {
		t.Errorf("%v, status %q, %d steps, decrement %v", err, n.Status, n.Iterations, n.Decrement)
	}
}
