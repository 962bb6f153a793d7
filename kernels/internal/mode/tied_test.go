package mode

import (
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// A precision of unit diagonal and the correlation r of one pair: the two variances are
// 1/(1 - r²), whatever all others are, many or few, and nothing is said of independent columns.
func TestTied(t *testing.T) {
	for _, p := range []int{5, 200} {
		for _, c := range []struct {
			r    float64
			want bool
		}{{0, false}, {0.1, false}, {-0.5, true}, {0.9, true}} {
			h := dense.New(p, p) // the prior has half of the diagonal
			scale := make([]float64, p)
			rng := rand.New(rand.NewPCG(3, uint64(p)))
			for j := range p {
				scale[j] = rng.ExpFloat64()
				h.Row(j)[j] = 0.5 * scale[j] * scale[j]
			}
			h.Row(1)[3] = c.r * scale[1] * scale[3]
			h.Row(3)[1] = h.Row(1)[3]
			prior, post := make([]float64, p), make([]float64, p)
			for j, s := range scale {
				prior[j], post[j] = 2/(s*s), 1/(s*s)
			}
			mean := make([]float64, p)
			got, err := Tied(gauss.NewDiagonal(mean, prior), gauss.NewDiagonal(mean, post), 1, nil, func(dst, m *dense.Matrix) { dense.Mul(dst, h, m) })
			if err != nil || got != c.want {
				t.Errorf("%d weights, correlation %v: %v, want %v (%v)", p, c.r, got, c.want, err)
			}
		}
	}
}
