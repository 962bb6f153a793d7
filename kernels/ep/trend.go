package ep

import "math"

// trend estimates from the latest sweeps how far a run still has to go. Sweeps of EP converge
// linearly: if changes shrink by a factor ρ per sweep, the changes to come sum to ρ/(1-ρ) times
// the last one.
//
// Along directions that no row sees, such as the intercept against a full set of indicators,
// factorised sites trade off against each other in steps that shrink by a few per cent per sweep;
// the predictors of the rows, which are all that the posterior is used for, stop moving long before.
type trend struct {
	size, move, step [window]float64 // rings, step relative to 1 + |log Z|
	n                int
}

// window is the number of sweeps over which ρ is taken, as a geometric mean.
const window = 6

func (t *trend) add(c change, step float64) {
	k := t.n % window
	t.size[k], t.move[k], t.step[k] = c.size, math.Sqrt(c.move), math.Abs(step)/(1+math.Abs(c.logZ))
	t.n++
}

// ahead returns the last change of a ring and the sum of those to come, which is infinite if changes
// do not shrink, or if there are too few of them.
func (t *trend) ahead(ring *[window]float64) (last, rest float64) {
	if t.n < window {
		return math.Inf(1), math.Inf(1)
	}
	last, was := ring[(t.n-1)%window], ring[t.n%window]
	if last == 0 {
		return 0, 0
	}
	rho := math.Pow(last/was, 1.0/(window-1))
	if !(rho < 1) {
		return last, math.Inf(1)
	}
	return last, last * rho / (1 - rho)
}

// rest returns by how many standard deviations a row's predictor may still move.
func (t *trend) rest() float64 {
	_, rest := t.ahead(&t.move)
	return rest
}

// predictorsConverged reports whether the predictors have converged while the sites would need more
// than left sweeps for tol. A predictor N(m, v) with an error of δ standard deviations is off by
// δ²/2 nats (Kullback and Leibler), as is one whose standard deviation has a relative error of
// δ/√2; at δ = 10 √tol, 0.001 by default, that is 50 tol, and the log evidence, a sum over rows, is
// within 10 √tol of its size or of 1.
func (t *trend) predictorsConverged(tol float64, left int) bool {
	most := 10 * math.Sqrt(tol)
	for _, ring := range []*[window]float64{&t.move, &t.step} {
		if last, rest := t.ahead(ring); rest > most && last > tol { // below tol it may be rounding error
			return false
		}
	}
	size, rest := t.ahead(&t.size)
	if math.IsInf(rest, 1) {
		return true // nothing shrinks, but predictions have converged
	}
	rho := rest / (rest + size)
	return math.Log(tol/size)/math.Log(rho) > float64(left)
}

// slow reports whether sweeps alone will be many, from states near enough for Newton's method.
func (t *trend) slow() bool {
	if t.n < 4 {
		return false
	}
	now, was := t.size[(t.n-1)%window], t.size[(t.n-2)%window]
	return now > 0.1*was && now < 1
}
