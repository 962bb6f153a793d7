package lik

import (
	"fmt"
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

func TestMany(t *testing.T) {
	places := []float64{-750, -40, -12, -3, -0.5, 0, 1e-9, 0.4, 2, 5, 9, 60, 800}
	looked := 0
	every(t, func(t *testing.T, l Likelihood) {
		many, third := Many(l), Third(l)
		var ys, ws, ss []float64
		for _, y := range responses(l) {
			for _, w := range []float64{0, 0.3, 1, 4} {
				for _, s := range places {
					ys, ws, ss = append(ys, y), append(ws, w), append(ss, s)
					if third == nil || math.Abs(s) > 20 || w == 0 {
						continue
					}
					const h = 1e-3
					o := observe(l, y, w)
					_, _, d2 := l.LogLik(o, s)
					kerneltest.Gradient(t, fmt.Sprintf("third y=%v w=%v s=%v", y, w, s), func(s float64) float64 { _, _, c := l.LogLik(o, s); return c }, s, h,
						third(o, s), kerneltest.Tol{Rel: 1e-8, Abs: 1e-9 + 4e-16*math.Abs(d2)/h})
				}
			}
		}
		if many == nil {
			return
		}
		looked++
		d1, curv := make([]float64, 1), make([]float64, 1)
		for i, y := range ys {
			for _, weight := range [][]float64{ws[i : i+1], nil} {
				o := observe(l, y, ws[i])
				if weight == nil {
					o.Weight = 1
				}
				logp, g, c := l.LogLik(o, ss[i])
				sum := many(ys[i:i+1], weight, ss[i:i+1], d1, curv)
				what := fmt.Sprintf("y=%v w=%v s=%v", y, o.Weight, ss[i])
				kerneltest.Close(t, what+" log p", sum, logp, kerneltest.Tol{Rel: 1e-15, Abs: 1e-15 * o.Weight})
				kerneltest.Close(t, what+" d1", d1[0], g, kerneltest.Tol{Rel: 4e-15, Abs: 1e-260})
				kerneltest.Close(t, what+" curvature", curv[0], -c, kerneltest.Tol{Rel: 4e-15, Abs: 1e-260})
			}
		}
		all, each := many(ys, ws, ss, make([]float64, len(ys)), make([]float64, len(ys))), 0.0
		for i := range ys {
			logp, _, _ := l.LogLik(observe(l, ys[i], ws[i]), ss[i])
			each += logp
		}
		kerneltest.Close(t, "sum", all, each, kerneltest.Tol{Rel: 1e-13})
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			if sum := many([]float64{1, 1, 0}, nil, []float64{0, bad, bad}, make([]float64, 3), make([]float64, 3)); !math.IsNaN(sum) && !math.IsInf(sum, 0) {
				t.Errorf("at %v the sum is %v", bad, sum)
			}
		}
	})
	if looked == 0 {
		t.Error("no likelihood looks at many rows")
	}
}
