package laplace

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
)

// Of a search whose rows are read once a step XᵀWX is most of the work. Near the mode the
// curvatures hardly change, and a step with B of an earlier point, times the change of W on the
// whole, leaves of the distance about the share by which they changed otherwise: some digits for
// a reading of the rows. XᵀWX is then made where that pays, and at the mode.
const (
	// maxChange is how far the curvatures may have changed for such a step.
	maxChange = 0.2
	// maxLeft is the share of the distance that such a step may leave; else B is made anew.
	maxLeft = 0.3
	// readOf is of how many columns XᵀWX takes as long as reading the rows: of 50 columns it
	// takes as long, of 200 three times (BenchmarkLogit).
	readOf = 60

	// The curvatures where a step will end are foreseen at sampleRuns runs of sampleRows rows.
	sampleRuns = 32
	sampleRows = 16
)

// chord is what a search knows of steps by an earlier B.
type chord struct {
	taken    bool    // the latest step was one
	foreseen float64 // how far the curvatures of its end were to have changed
	share    float64 // what steps have left of the distance, by the change that was foreseen
	reach    float64 // the distance from where XᵀWX was made
}

// pays says whether steps by an earlier B pay from a distance on, to tol, with p columns whose
// curvatures have changed by far: each costs a reading of the rows, and one of Newton's XᵀWX too.
func (c *chord) pays(distance, far, tol float64, p int) bool {
	left := c.share * far
	if !(far <= maxChange && left < 1 && distance > tol) {
		return false
	}
	steps := math.Ceil(math.Log(distance/tol) / -math.Log(left))
	newton, bend := 0, left/max(c.reach, distance)
	for d := distance; d > tol; newton++ {
		d *= min(bend*d, 0.5)
	}
	return steps < float64(newton)*(1+float64(p)/readOf)
}

// changed is how far curvatures w are from a multiple of old, by the mean of |scale w - old| /
// old, over rows [lo, hi) for each of runs; infinite where one is negative or
// there are none.
func changed(w, old []float64, runs [][2]int) (far, scale float64) {
	if len(old) != len(w) {
		return math.Inf(1), 0
	}
	sum, sumOld := 0.0, 0.0
	for _, r := range runs {
		for i, v := range w[r[0]:r[1]] {
			if v < 0 || old[r[0]+i] < 0 {
				return math.Inf(1), 0
			}
			sum += v
			sumOld += old[r[0]+i]
		}
	}
	if !(sum > 0 && sumOld > 0) {
		return math.Inf(1), 0
	}
	scale = sumOld / sum
	for _, r := range runs {
		for i, v := range w[r[0]:r[1]] {
			far += math.Abs(scale*v - old[r[0]+i])
		}
	}
	return far / sumOld, scale
}

// changed is how far the curvatures of the present point are from those of XᵀWX.
func (s *search) changed() (far, scale float64) {
	return changed(s.now.Curv, s.hess.w, [][2]int{{0, s.N}})
}

// chordStep sets du to the step with the XᵀWX there is, made at another point or under
// another prior; false where that does not pay.
func (s *search) chordStep() (ok bool, err error) {
	c := &s.once.chord
	was := c.taken
	c.taken = false
	if s.floored {
		return false, nil
	}
	if _, exact := multiple(s.now.Curv, s.hess.w); exact {
		return false, nil
	}
	far, scale := s.changed()
	if !(far <= maxChange) {
		return false, nil
	}
	if s.factored != s.root || s.hess.made != s.of {
		mode.Whiten(s.b, s.hess.h, s.root)
		if err := mode.Factor(s.b); err != nil {
			return false, err
		}
		s.factored, s.of = s.root, s.hess.made
	}
	s.exact = false
	s.precondition(s.du, s.grad)
	for j := range s.du {
		s.du[j] *= scale
	}
	distance := math.Sqrt(math.Abs(dense.Dot(s.grad, s.du)))
	if was && distance > maxLeft*s.Decrement || distance > s.Tol && !c.pays(distance, far, s.Tol, s.P) {
		return false, nil
	}
	c.taken = true
	return true, nil
}

// learn compares what the latest step has left with what was foreseen; distance is the new one.
func (c *chord) learn(distance, last float64) {
	if promised := c.foreseen * last; promised > 0 && distance > 0 {
		c.share = min(max(distance/promised, 0.01), 1)
	}
	c.foreseen = 0
}

// makesNext says whether XᵀWX is to be made where the whole step ends: at the mode, and where
// a step without it would not pay.
func (s *search) makesNext() bool {
	c := &s.once.chord
	if s.exact {
		c.reach = s.Decrement
	}
	far := s.foresee()
	if c.foreseen = far; math.IsInf(far, 1) {
		c.foreseen = 0
	}
	return !c.pays(c.share*far*s.Decrement, far, s.Tol, s.P)
}

// foresee is how far from those of XᵀWX the curvatures will have spread where the whole step
// ends, by some of the rows, of which next has them then.
func (s *search) foresee() float64 {
	var runs [sampleRuns][2]int
	for k := range runs {
		lo := k * (s.N - sampleRows) / (sampleRuns - 1)
		runs[k] = [2]int{lo, lo + sampleRows}
		for i := lo; i < lo+sampleRows; i++ {
			d := s.dEta[i]
			if s.once.lazy {
				d = 0
				col, x := s.Entries(i)
				for k, j := range col {
					d += x[k] * s.w1[j]
				}
			}
			s.next.Eta[i] = s.now.Eta[i] + d
		}
		if math.IsInf(s.data.EvaluateRows(&s.next, s.once.many, lo, lo+sampleRows), -1) {
			return math.Inf(1)
		}
	}
	far, _ := changed(s.next.Curv, s.hess.w, runs[:])
	return far
}
