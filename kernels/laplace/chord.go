package laplace

import (
	"math"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
)

// In a search that reads the rows once per step most of the work is XᵀWX. Near the mode the
// curvatures hardly change. A step with B from an earlier point, scaled by the overall change of
// W, leaves about the share of the distance by which the curvatures changed otherwise: a few
// digits per pass over the rows. So XᵀWX is computed only where that pays, and at the mode.
const (
	// maxChange is the largest relative change of the curvatures for such a step.
	maxChange = 0.2
	// maxLeft is the largest share of the distance that such a step may leave; beyond it B is
	// recomputed.
	maxLeft = 0.3
	// readOf is the number of columns for which XᵀWX takes as long as reading the rows: about as
	// long for 50 columns, three times as long for 200 (BenchmarkLogit).
	readOf = 60

	// The curvatures where a step will end are predicted from sampleRuns runs of sampleRows rows.
	sampleRuns = 32
	sampleRows = 16
)

// staleHessian is what a search has learnt about steps with an earlier B.
type staleHessian struct {
	taken    bool    // the latest step was one
	foreseen float64 // predicted change of the curvatures at its end
	share    float64 // share of the distance that steps have left, per unit of predicted change
	reach    float64 // distance to the mode where XᵀWX was computed
}

// pays reports whether steps with an earlier B pay, from distance to tol with p columns, if the
// curvatures have changed by far. Each costs a pass over the rows, a Newton step also XᵀWX.
func (c *staleHessian) pays(distance, far, tol float64, p int) bool {
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

// changed returns how far the curvatures w are from a multiple of old: the sum of |scale w - old|
// over that of old, over the rows [lo, hi) of each of runs. It is infinite if a curvature is
// negative or there are none.
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

// changed compares the curvatures of the present point with those of XᵀWX.
func (s *search) changed() (far, scale float64) {
	return changed(s.now.Curv, s.hess.w, [][2]int{{0, s.N}})
}

// chordStep sets du to the step with the existing XᵀWX, computed at another point or under
// another prior. It returns false if that does not pay.
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

// learn compares the new distance, which the latest step left, with the prediction.
func (c *staleHessian) learn(distance, last float64) {
	if promised := c.foreseen * last; promised > 0 && distance > 0 {
		c.share = min(max(distance/promised, 0.01), 1)
	}
	c.foreseen = 0
}

// makesNext reports whether to compute XᵀWX where the whole step ends: at the mode, and where
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

// foresee predicts from a sample of rows how far the curvatures will be from those of XᵀWX where
// the whole step ends. It overwrites these rows of next.
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
