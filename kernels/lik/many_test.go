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
	look := func(t *testing.T, l Likelihood) {
		many, third := Many(l), Third(l)
		var ys, ws, ss []float64
		for _, y := range responses(l) {
			for _, w := range []float64{0, 0.3, 1, 4} {
				for _, s := range places {
					ys, ws, ss = append(ys, y), append(ws, w), append(ss, s)
					if third == nil || math.Abs(s) > 20 || w == 0 {
						continue
					}
					h := 1e-3 * min(l.Traits().Scale, 1)
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
				rel, terms, curvature := rounding(l, o, ss[i], c)
				kerneltest.Close(t, what+" log p", sum, logp, kerneltest.Tol{Rel: rel, Abs: rel * terms})
				kerneltest.Close(t, what+" d1", d1[0], g, kerneltest.Tol{Rel: 4 * rel, Abs: 1e-260 + rel*curvature})
				kerneltest.Close(t, what+" curvature", curv[0], -c, kerneltest.Tol{Rel: 4 * rel, Abs: 1e-260})
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
	}
	every(t, look)
	for _, family := range []string{"gamma", "negbinomial", "studentt"} {
		for _, shape := range []float64{1e-3, 0.15, 40, 900, 1e5, 1e9} {
			t.Run(fmt.Sprint(family, " ", shape), func(t *testing.T) { look(t, mustNew(t, family, "", Params{Dispersion: 0.3, Shape: shape})) })
		}
	}
	if looked == 0 {
		t.Error("no likelihood looks at many rows")
	}
}

// rounding is how far two ways to log p may be off, relative to it and to the terms that it is the
// sum of: e^(s - log y) has the rounding of its exponent, |s| + |log y| times its own. About the
// zero of a slope that is a difference of two exponentials these have the size of the curvature -c.
func rounding(l Likelihood, o Obs, s, c float64) (rel, terms, curvature float64) {
	const eps = 1e-15
	rel, curvature = eps*(1+0.25*math.Abs(s)), math.Abs(c)
	switch l.Family() {
	case "gamma":
		return rel + 0.25*eps*math.Abs(math.Log(o.Y)), o.Weight*(1+l.(Shaped).Shape()) + curvature, curvature
	case "negbinomial":
		r := l.(Shaped).Shape()
		of := math.Abs(math.Log(r))
		return rel + 0.25*eps*of, o.Weight * (1 + (o.Y+r)*(1+math.Abs(s)+of)), curvature
	case "poisson":
		return rel, o.Weight*(1+o.Y*(math.Abs(s)+math.Log1p(o.Y))) + curvature, curvature
	case "studentt":
		return eps, o.Weight * (1 + l.(Shaped).Shape()), 0
	}
	return eps, o.Weight, 0
}

// BenchmarkMany is a row of each likelihood that has something faster, by Many and by LogLik.
func BenchmarkMany(b *testing.B) {
	const n = 4096
	for _, info := range Families() {
		l := mustNew(b, info.Family, "", Params{Dispersion: 1.5, Shape: 2})
		many := Many(l)
		if many == nil {
			continue
		}
		all, y, s := responses(l), make([]float64, n), make([]float64, n)
		for i := range y {
			y[i], s[i] = all[i%min(len(all), 4)], math.Sin(float64(i))
		}
		d1, curv := make([]float64, n), make([]float64, n)
		for _, by := range []struct {
			name string
			rows func(y, weight, s, d1, curv []float64) float64
		}{{"many", many}, {"one", func(y, weight, s, d1, curv []float64) float64 { return oneByOne(l, y, weight, s, d1, curv) }}} {
			b.Run(info.Family+"/"+by.name, func(b *testing.B) {
				for b.Loop() {
					by.rows(y, nil, s, d1, curv)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
			})
		}
	}
}
