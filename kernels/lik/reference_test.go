package lik

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
)

// slowly is a slow integrator that shares nothing with the package but LogLik: the
// mode by bisection, then adaptive bisection of 20-point Gauss-Legendre between the
// points where the tilted law has fallen 60 nats. extra, if not nil, is averaged
// under the tilted law as a function of its log density.
func slowly(l Likelihood, o Obs, m, v float64, extra func(s, logq float64) float64) (t Tilted, mean float64) {
	f := func(s float64) float64 {
		p, _, _ := l.LogLik(o, s)
		return p - (s-m)*(s-m)/(2*v)
	}
	slope := func(s float64) float64 {
		_, d, _ := l.LogLik(o, s)
		return d - (s-m)/v
	}
	lo, hi, step := m, m, math.Sqrt(v)
	for slope(lo) < 0 {
		lo -= step
		step *= 2
	}
	for slope(hi) > 0 {
		hi += step
		step *= 2
	}
	for i := 0; i < 200 && hi-lo > 1e-15*math.Abs(lo); i++ {
		if mid := 0.5 * (lo + hi); slope(mid) > 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	mode := 0.5 * (lo + hi)
	top := f(mode)
	end := func(dir float64) float64 {
		d := 1e-9 * math.Sqrt(v)
		for f(mode+dir*d)-top > -60 {
			d *= 1.3
		}
		return mode + dir*d
	}
	left, right := end(-1), end(1)

	var nodes, weights [20]float64
	quad.Legendre{}.FixedLocations(nodes[:], weights[:], -1, 1)
	scale := (right - left) / 16
	type part [4]float64
	piece := func(a, b float64) (s part) {
		c, h := 0.5*(a+b), 0.5*(b-a)
		for i, u := range nodes {
			x := c + h*u
			logq := f(x) - top
			p := h * weights[i] * math.Exp(logq)
			d := (x - mode) / scale
			s[0] += p
			s[1] += p * d
			s[2] += p * d * d
			if extra != nil {
				s[3] += p * extra(x, logq)
			}
		}
		return s
	}
	var total part
	var split func(a, b float64, whole part, depth int)
	split = func(a, b float64, whole part, depth int) {
		mid := 0.5 * (a + b)
		one, two := piece(a, mid), piece(mid, b)
		bad := 0.0
		for i := range whole {
			bad = math.Max(bad, math.Abs(one[i]+two[i]-whole[i]))
		}
		// below the rounding of f itself there is nothing to refine
		noise := 4e-16 * math.Abs(top) * (math.Abs(whole[0]) + math.Abs(whole[1]) + math.Abs(whole[2]))
		if bad < 1e-13*scale*1e-2+noise || depth > 30 {
			for i := range total {
				total[i] += one[i] + two[i]
			}
			return
		}
		split(a, mid, one, depth+1)
		split(mid, b, two, depth+1)
	}
	// doubling pieces away from the mode: a bend beside it must not fall between two
	// nodes of a long piece, where bisection would see nothing to refine
	for a, step := mode, 0.5*math.Min(1, math.Sqrt(v)); a > left; step *= 2 {
		b := math.Max(left, a-step)
		split(b, a, piece(b, a), 0)
		a = b
	}
	for a, step := mode, 0.5*math.Min(1, math.Sqrt(v)); a < right; step *= 2 {
		b := math.Min(right, a+step)
		split(a, b, piece(a, b), 0)
		a = b
	}
	d := total[1] / total[0]
	variance := (total[2]/total[0] - d*d) * scale * scale
	t.LogZ = top + math.Log(total[0]) - 0.5*math.Log(2*math.Pi*v)
	t.Alpha = (mode + d*scale - m) / v
	t.Ratio = variance / v
	t.Beta = (1 - t.Ratio) / v
	return t, total[3] / total[0]
}

// denseModes is dense for a law that may have two modes: adaptive bisection between
// points that crowd about the prior's mean and the likelihood's own maximum.
func denseModes(l Likelihood, o Obs, m, v float64) (t Tilted) {
	f := func(s float64) float64 {
		p, _, _ := l.LogLik(o, s)
		return p - (s-m)*(s-m)/(2*v)
	}
	peak := o.Y
	if l.Traits().LogMean {
		peak = math.Log(math.Max(1e-3, o.Y))
	}
	sd := math.Sqrt(v)
	knots := []float64{m, peak}
	for d := 1e-6; d < 1e6; d *= 1.5 {
		knots = append(knots, m-d*sd, m+d*sd, peak-d, peak+d)
	}
	slices.Sort(knots)
	top, at := math.Inf(-1), 0.0
	for _, x := range knots {
		if y := f(x); y > top {
			top, at = y, x
		}
	}
	var nodes, weights [20]float64
	quad.Legendre{}.FixedLocations(nodes[:], weights[:], -1, 1)
	piece := func(a, b float64) (s [3]float64) {
		c, h := 0.5*(a+b), 0.5*(b-a)
		for i, u := range nodes {
			x := c + h*u
			p := h * weights[i] * math.Exp(f(x)-top)
			d := (x - at) / sd
			s[0] += p
			s[1] += p * d
			s[2] += p * d * d
		}
		return s
	}
	var total, coarse [3]float64
	var split func(a, b float64, whole [3]float64, depth int)
	split = func(a, b float64, whole [3]float64, depth int) {
		mid := 0.5 * (a + b)
		one, two := piece(a, mid), piece(mid, b)
		done := true
		for i := range whole {
			if math.Abs(one[i]+two[i]-whole[i]) > 1e-14*coarse[i]+(1e-14+4e-16*math.Abs(top))*math.Abs(whole[i]) {
				done = false
			}
		}
		if done || depth > 12 {
			for i := range total {
				total[i] += one[i] + two[i]
			}
			return
		}
		split(a, mid, one, depth+1)
		split(mid, b, two, depth+1)
	}
	for pass := 0; pass < 2; pass++ {
		for i := 1; i < len(knots); i++ {
			a, b := knots[i-1], knots[i]
			if a == b || math.Max(f(a), math.Max(f(b), f(0.5*(a+b)))) < top-200 {
				continue
			}
			whole := piece(a, b)
			if pass == 1 {
				split(a, b, whole, 0)
				continue
			}
			for k := range coarse {
				coarse[k] += math.Abs(whole[k])
			}
		}
	}
	d := total[1] / total[0]
	t.LogZ = top + math.Log(total[0]) - 0.5*math.Log(2*math.Pi*v)
	t.Ratio = total[2]/total[0] - d*d
	t.Alpha = (at + d*sd - m) / v
	t.Beta = (1 - t.Ratio) / v
	return t
}
