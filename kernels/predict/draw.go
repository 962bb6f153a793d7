package predict

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/special"
)

// Key is a stream of standard normals, one for each feature name: a function of seed, draw and name
// alone, so that threads, chunks and queries that ask for the same draw get the same weights, in
// any order and for any subset of the features.
type Key struct{ a, b uint64 }

// NewKey returns the stream of (seed, draw).
func NewKey(seed, draw uint64) Key {
	a := scramble(seed + 0x9E3779B97F4A7C15)
	b := scramble(a ^ scramble(draw+0xD1B54A32D192ED03))
	return Key{a, b}
}

// scramble is the finaliser of splitmix64: a bijection of words in which each bit of
// the argument changes each of the result with probability about one half.
//
// Source: [steele2014], variant 13 of Stafford's mixers.
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// Normal is the standard normal of a name: the quantile function at a hash of 53 bits, 52 for the
// size and one for the sign, so that tails reach to ±8.2 symmetrically.
func (k Key) Normal(name []byte) float64 { return k.hashed(kernels.HashName(name)) }

func (k Key) hashed(name uint64) float64 {
	hi, lo := bits.Mul64(scramble(name^k.b)|1, k.a|1)
	h := scramble(hi ^ lo ^ name)
	z := special.PhiInv((float64(h>>12) + 0.5) / (1 << 53))
	if h&1 == 1 {
		return -z
	}
	return z
}

// Draw is one draw of all weights. It is used by one goroutine at a time.
//
//   - diagonal: w_j = μ_j + σ_j z_j, computed on demand;
//   - full: w = μ + L z, each weight on demand, in O(p);
//   - arrowhead: first the block's weights μ + L z, with names of their own, then each leaf;
//   - lowrank: w = μ + D^½ (z - H Hᵀz), the square root of package gauss, where Hᵀz
//     costs O(p rank) once per draw.
//
// z_j is the Key's normal of belief j's name. A feature without a belief is drawn from its prior,
// by its own name.
type Draw struct {
	s          *Scorer
	seed, draw uint64
	key        Key
	set        bool
	z          []float64 // of the beliefs, as far as computed
	u          []float64 // Hᵀz
	// For an arrowhead: its block's weights, the same in its internal units, and the unit of the
	// responses.
	block, inner []float64
	unit         float64
}

// root is the square root of a low-rank covariance over the beliefs that are not known exactly:
// belief k has row at[k] of it, -1 for a known one.
type root struct {
	*gauss.Root
	at []int32
}

// NewDraw returns memory for draws of s.
// Errors: a low-rank covariance that is not positive definite.
func (s *Scorer) NewDraw() (*Draw, error) {
	if s.Fit.Covariance.Form == gauss.LowRank && s.square == nil {
		r, err := newRoot(s.Fit)
		if err != nil {
			return nil, err
		}
		s.square = r
	}
	return &Draw{s: s}, nil
}

func newRoot(f *kernels.Fit) (*root, error) {
	c := &f.Covariance
	r := &root{at: make([]int32, len(f.Beliefs))}
	var d []float64
	var data []float64
	for k := range f.Beliefs {
		row := c.Row(k)
		if row[0] == 0 {
			r.at[k] = -1
			continue
		}
		r.at[k] = int32(len(d))
		d, data = append(d, row[0]), append(data, row[1:]...)
	}
	g, err := gauss.NewLowRank(make([]float64, len(d)), d, &dense.Matrix{Rows: len(d), Cols: c.Rank, Stride: c.Rank, Data: data})
	if err != nil {
		return nil, fmt.Errorf("covariance: %w", err)
	}
	if r.Root, err = g.Root(); err != nil {
		return nil, fmt.Errorf("covariance: %w", err)
	}
	return r, nil
}

// Set makes d the draw of (seed, draw). Repeating the current one costs nothing.
func (d *Draw) Set(seed, draw uint64) {
	if d.set && d.seed == seed && d.draw == draw {
		return
	}
	d.seed, d.draw, d.key, d.set = seed, draw, NewKey(seed, draw), true
	d.z = d.z[:0]
	if c := &d.s.Fit.Covariance; c.Form == gauss.Arrowhead {
		a := c.Arrow()
		if d.block == nil {
			d.block, d.inner = make([]float64, a.D), make([]float64, a.D)
			d.u = make([]float64, a.D)
		}
		for j := range d.u {
			d.u[j] = d.key.hashed(blockNames + uint64(j))
			d.inner[j] = a.Mean(j) + dense.Dot(a.Root(j), d.u[:j+1])
		}
		d.unit = a.OriginalUnits(d.block, d.inner)
		return
	}
	if r := d.s.square; r != nil && r.H != nil {
		d.upTo(len(d.s.Fit.Beliefs))
		if d.u == nil {
			d.u = make([]float64, r.H.Cols)
		}
		clear(d.u)
		for k, at := range r.at {
			if at >= 0 {
				dense.Axpy(d.z[k], r.H.Row(int(at)), d.u)
			}
		}
	}
}

// blockNames replaces the hashes of names, which a block's weights do not have.
const blockNames = 0xA5A5_0F0F_3C3C_9696

// arrow is the weight of feature id under an arrowhead, with belief at, or w if it has none.
func (d *Draw) arrow(id uint32, w kernels.Weight, at int) float64 {
	if at < 0 {
		j := -1
		if w, j = d.s.unseen(id, w); j >= 0 {
			w.Mean = d.block[j]
		}
		return w.Mean + math.Sqrt(w.Variance)*d.key.Normal(d.s.Features().Name(id))
	}
	r := d.s.Fit.Covariance.Arrow().Row(at)
	c := int(r[0])
	if c <= -2 {
		return d.block[-2-c]
	}
	x := r[1] + dense.Dot(r[3:], d.inner)
	if c >= 0 {
		x += d.inner[c]
	}
	return d.unit * (x + math.Sqrt(r[2])*d.key.hashed(d.s.hash(at)))
}

// upTo draws the normals of the first n beliefs.
func (d *Draw) upTo(n int) {
	if len(d.z) >= n {
		return
	}
	if cap(d.z) < n {
		z := make([]float64, len(d.z), len(d.s.Fit.Beliefs))
		copy(z, d.z)
		d.z = z
	}
	for k := len(d.z); k < n; k++ {
		d.z = append(d.z, d.key.hashed(d.s.hash(k)))
	}
}

// hash is the hash of belief k's name.
func (s *Scorer) hash(k int) uint64 {
	if s.hashes == nil {
		s.hashes = make([]uint64, len(s.Fit.Beliefs))
		for i, b := range s.Fit.Beliefs {
			s.hashes[i] = kernels.HashName([]byte(b.Feature))
		}
	}
	return s.hashes[k]
}

// weight is the weight of feature id.
func (d *Draw) weight(id uint32) float64 {
	w, at := d.s.belief(id)
	if w.Variance == 0 {
		return w.Mean
	}
	c := &d.s.Fit.Covariance
	if at < 0 && len(d.s.Fit.Correlations) > 0 {
		if x, ok := d.s.Fit.Share(d.s.Features().Name(id), w, d.key.Normal); ok {
			return x
		}
	}
	if c.Form == gauss.Arrowhead {
		return d.arrow(id, w, at)
	}
	if at < 0 || c.Form == gauss.Diagonal {
		return w.Mean + math.Sqrt(w.Variance)*d.key.Normal(d.s.Features().Name(id))
	}
	d.upTo(at + 1)
	if c.Form == gauss.Full {
		return w.Mean + dense.Dot(c.Row(at), d.z[:at+1])
	}
	r := d.s.square
	j := int(r.at[at])
	if j < 0 { // the covariance, which takes precedence, knows the weight exactly
		return w.Mean
	}
	z := d.z[at]
	if r.H != nil {
		z -= dense.Dot(r.H.Row(j), d.u)
	}
	return w.Mean + r.Scale[j]*z
}

// Linear is the linear predictor of row i of b under the draw.
//
// Cost: O(k) for k entries under a diagonal covariance, O(k p) full, O(k rank) low rank, a quantile
// function for each normal drawn; no allocation.
// Errors: a predictor that is not finite.
func (d *Draw) Linear(b *kernels.Batch, i int) (float64, error) {
	s := b.Shift(i)
	fs, xs := d.s.Entries(d.s.Fit, b, i)
	for k, x := range xs {
		if x != 0 {
			s += x * d.weight(fs[k])
		}
	}
	if !special.Finite(s) {
		return 0, fmt.Errorf("the linear predictor of a draw is %v; scale the features down", s)
	}
	return s, nil
}

// Response is the expected response of row i under the draw.
func (d *Draw) Response(b *kernels.Batch, i int) (float64, error) {
	s, err := d.Linear(b, i)
	if err != nil {
		return 0, err
	}
	return d.s.Lik.Response(s), nil
}
