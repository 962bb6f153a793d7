package hmc

import (
	"math"
	"math/rand/v2"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// target is an unnormalised log density in coordinates in which the sampler's mass matrix is the
// identity. at sets the gradient; -Inf or NaN means outside the support.
type target interface {
	at(u, grad []float64) float64
}

const (
	maxDepth     = 10   // a trajectory has at most 2^10 - 1 steps
	maxEnergyGap = 1000 // energy error, in nats, from which a trajectory counts as divergent
)

// point is a state of the Hamiltonian system H = -log π(u) + |p|²/2.
type point struct {
	u, p, g []float64
	logp    float64
}

func newPoint(n int) point {
	return point{u: memory.Floats(n), p: memory.Floats(n), g: memory.Floats(n)}
}

func (z *point) set(from *point) {
	copy(z.u, from.u)
	copy(z.p, from.p)
	copy(z.g, from.g)
	z.logp = from.logp
}

func (z *point) energy() float64 { return 0.5*dense.Dot(z.p, z.p) - z.logp }

// span is a section of a trajectory in the order of integration: the momenta at its ends, their
// sum rho, the weight Σ exp(H0 - H) of its states, and one state picked with probability
// proportional to its weight.
type span struct {
	beg, end, rho []float64
	logW          float64
	pick          point // without momentum
}

func newSpan(n int) span {
	return span{beg: memory.Floats(n), end: memory.Floats(n), rho: memory.Floats(n), pick: newPoint(n)}
}

// sampler is the no-U-turn sampler: trajectories double until they turn back, and the next state
// is a multinomial choice.
//
// Sources: [hoffman2014]; [betancourt2017], appendix A.3 and A.4.2: the choice, the
// criterion on the summed momentum, and its two extra checks across the subtrees.
type sampler struct {
	target
	rng  *rand.Rand
	stop *stop.Stop
	eps  float64

	now   point    // the current draw
	ends  [2]point // of the trajectory, backward and forward
	whole span
	half  [maxDepth]span // half[d] is the second half of a tree of depth d+1

	// of the last trajectory
	h0        float64
	steps     int
	sumAccept float64
	divergent bool
	depth     int
	late      bool // the time limit cut it short: now is not a draw
}

func newSampler(t target, n int, rng *rand.Rand, halt *stop.Stop) *sampler {
	s := &sampler{target: t, rng: rng, stop: halt, eps: 1, now: newPoint(n), whole: newSpan(n)}
	for i := range s.ends {
		s.ends[i] = newPoint(n)
	}
	for i := range s.half {
		s.half[i] = newSpan(n)
	}
	return s
}

// move moves to u.
func (s *sampler) move(u []float64) {
	copy(s.now.u, u)
	s.now.logp = s.at(s.now.u, s.now.g)
}

// drawMomentum draws the momentum p ~ N(0, I).
func (s *sampler) drawMomentum() {
	for i := range s.now.p {
		s.now.p[i] = s.rng.NormFloat64()
	}
}

// leapfrog moves z by one step of size eps.
func (s *sampler) leapfrog(z *point, eps float64) {
	dense.Axpy(eps/2, z.g, z.p)
	dense.Axpy(eps, z.p, z.u)
	z.logp = s.at(z.u, z.g)
	dense.Axpy(eps/2, z.g, z.p)
}

// guessStepSize sets a step size at which a first step is accepted with probability about 80 %.
func (s *sampler) guessStepSize() {
	z := &s.ends[0]
	dir := 0.0
	for range 60 {
		s.drawMomentum()
		z.set(&s.now)
		h0 := z.energy()
		s.leapfrog(z, s.eps)
		d := 1.0
		if gap := h0 - z.energy(); !(gap > math.Log(0.8)) {
			d = -1
		}
		if dir != 0 && d != dir || s.eps > 1e7 {
			return
		}
		dir = d
		s.eps *= math.Exp2(d)
	}
}

// next draws the next state.
func (s *sampler) next() {
	s.drawMomentum()
	s.h0 = s.now.energy()
	s.steps, s.sumAccept, s.divergent, s.depth = 0, 0, false, 0
	s.ends[0].set(&s.now)
	s.ends[1].set(&s.now)
	w := &s.whole
	copy(w.beg, s.now.p)
	copy(w.end, s.now.p)
	copy(w.rho, s.now.p)
	w.logW = 0
	w.pick.set(&s.now)
	for dir := 1; s.depth < maxDepth; s.depth++ {
		side := int(s.rng.Uint64() >> 63)
		if side != dir {
			w.beg, w.end = w.end, w.beg
			dir = side
		}
		u := &s.half[s.depth]
		if !s.build(s.depth, u, &s.ends[side], s.eps*float64(2*side-1)) {
			break
		}
		// Favour progress: the new half is chosen with probability min(1, w'/w).
		if s.rng.Float64() < math.Exp(u.logW-w.logW) {
			w.pick, u.pick = u.pick, w.pick
		}
		if !join(w, u) {
			s.depth++
			break
		}
	}
	s.now.set(&w.pick)
}

// build integrates 2^depth steps from z into t. It returns false if they diverge or turn
// back.
func (s *sampler) build(depth int, t *span, z *point, eps float64) bool {
	if depth == 0 {
		if s.late = s.stop.Nearly(); s.late {
			return false
		}
		s.leapfrog(z, eps)
		s.steps++
		gap := s.h0 - z.energy()
		if !(gap >= -maxEnergyGap) || math.IsInf(gap, 1) {
			s.divergent = true
			return false
		}
		s.sumAccept += math.Min(1, math.Exp(gap))
		copy(t.beg, z.p)
		copy(t.end, z.p)
		copy(t.rho, z.p)
		t.logW = gap
		t.pick.set(z)
		return true
	}
	u := &s.half[depth-1]
	if !s.build(depth-1, t, z, eps) || !s.build(depth-1, u, z, eps) {
		return false
	}
	if s.rng.Float64() < 1/(1+math.Exp(t.logW-u.logW)) {
		t.pick, u.pick = u.pick, t.pick
	}
	return join(t, u)
}

// join appends u, which was integrated after t, to t. It reports whether the trajectory continues:
// no two of its ends and middles move towards each other.
func join(t, u *span) bool {
	ahead := func(p, rho, more []float64) bool { return dense.Dot(p, rho)+dense.Dot(p, more) > 0 }
	on := ahead(t.beg, t.rho, u.rho) && ahead(u.end, t.rho, u.rho) &&
		ahead(t.beg, t.rho, u.beg) && ahead(u.beg, t.rho, u.beg) &&
		ahead(t.end, u.rho, t.end) && ahead(u.end, u.rho, t.end)
	dense.Axpy(1, u.rho, t.rho)
	t.end, u.end = u.end, t.end
	hi, lo := math.Max(t.logW, u.logW), math.Min(t.logW, u.logW)
	t.logW = hi + math.Log1p(math.Exp(lo-hi))
	return on
}
