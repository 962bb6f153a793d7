package hmc

import (
	"math"
	"math/rand/v2"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// evidence is an estimate of log p(y) and its standard error.
type evidence struct{ logZ, err float64 }

var unknown = evidence{math.NaN(), math.NaN()}

// maxEvidenceError is the largest standard error in nats of an estimate that is reported.
const maxEvidenceError = 1

// bridge estimates log p(y) = log ∫ p(y | z) N(z; 0, I) dz from draws of the posterior and as
// many of a Gaussian q that overlaps it. The first half of each chain determines the moments of
// q, the second half is bridged, so that q does not depend on the draws it is compared with.
// With l = p(y, z)/q(z) and shares a and b of posterior and Gaussian draws, Z solves
//
//	Z = mean_q[l / (a l + b Z)] / mean_post[1 / (a l + b Z)]
//
// Its standard error comes from the variance of both averages, with draws counted by their
// effective number. The result is unknown with fewer than 4 draws per dimension in the halves,
// beyond fullMetricMost dimensions, past the deadline, and if the error exceeds
// maxEvidenceError.
//
// Source: [meng1996], eq. 4.1 (the optimal bridge); [fruhwirth2004] for the error.
func bridge(m *model, draws []*dense.Matrix, rng *rand.Rand, halt *stop.Stop) evidence {
	p, n := m.dim(), draws[0].Rows/2
	total := n * len(draws)
	if p > fullMetricMost || total < 4*p || total < 20 {
		return unknown
	}
	s := newSpread(p, true)
	for _, d := range draws {
		for i := range n {
			s.add(d.Row(i))
		}
	}
	for i := range s.cov.Data {
		s.cov.Data[i] /= s.n - 1
	}
	if dense.Cholesky(s.cov) != nil {
		return unknown
	}
	q := &metric{chol: s.cov}
	half := 0.5 * dense.LogDet(q.chol)
	c := half + 0.5*float64(p)*math.Log(2*math.Pi)

	// log l at the draws of both, relative to a typical one to keep exponents small
	v := m.view(q, s.mean)
	u, grad := memory.Floats(p), memory.Floats(p)
	ratio := func(u []float64) float64 { return v.at(u, grad) + c + 0.5*dense.Dot(u, u) }
	post := make([][]float64, len(draws))
	for k, d := range draws {
		post[k] = memory.Floats(n)
		for i := range n {
			q.from(u, s.mean, d.Row(d.Rows-n+i))
			post[k][i] = ratio(u)
		}
		halt.Check()
		if halt.Past() {
			return unknown
		}
	}
	prop := make([]float64, total)
	for i := range prop {
		for j := range u {
			u[j] = rng.NormFloat64()
		}
		prop[i] = ratio(u)
		if math.IsNaN(prop[i]) {
			prop[i] = math.Inf(-1)
		}
		halt.Check()
		if i%64 == 0 && halt.Past() {
			return unknown
		}
	}
	shift := median(post[0])
	z, e := iterateBridge(post, prop, shift)
	if !(e <= maxEvidenceError) {
		return unknown
	}
	return evidence{shift + math.Log(z), e}
}

// iterateBridge iterates to Z exp(-shift) and returns it with its relative standard error, infinite
// if there is no Z: post are log l of posterior draws by chain, prop of Gaussian ones.
func iterateBridge(post [][]float64, prop []float64, shift float64) (z, e float64) {
	total := len(prop)
	ne := ess(post) // effective number of draws
	if ne == 0 {
		ne = float64(total) // constant: the Gaussian is the posterior
	}
	ne = math.Min(ne, float64(total))
	a := ne / (ne + float64(total))
	b := 1 - a
	z = 1
	top, bottom := make([]float64, total), make([][]float64, len(post))
	for k := range bottom {
		bottom[k] = make([]float64, len(post[k]))
	}
	for range 1000 {
		num, den := 0.0, 0.0
		for i, l := range prop {
			e := math.Exp(l - shift)
			top[i] = e / (a*e + b*z)
			if math.IsInf(e, 1) {
				top[i] = 1 / a
			}
			num += top[i]
		}
		for k := range post {
			for i, l := range post[k] {
				bottom[k][i] = 1 / (a*math.Exp(l-shift) + b*z)
				den += bottom[k][i]
			}
		}
		next := num / den
		done := math.Abs(next-z) <= 1e-12*next
		z = next
		if done || !special.Finite(z) {
			break
		}
	}
	if !(z > 0) || !special.Finite(z) {
		return 0, math.Inf(1)
	}
	mt, vt := meanVar(top)
	all := make([]float64, 0, total)
	for _, x := range bottom {
		all = append(all, x...)
	}
	mb, vb := meanVar(all)
	nb := ess(bottom)
	if vb == 0 || nb == 0 {
		nb = float64(total)
	}
	return z, math.Sqrt(vt/(mt*mt)/float64(total) + vb/(mb*mb)/nb)
}
