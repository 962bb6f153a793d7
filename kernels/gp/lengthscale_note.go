package gp

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

const (
	// leastCompared is the number of rows from which lengthscales are compared, mostCompared the
	// number of rows of the sample that is taken of more.
	leastCompared, mostCompared = 50, 300
	// A gain of certainGain nats comes once in e^10 times, at most, if the rows are of the given
	// lengthscale: the expected ratio of the likelihoods is then 1. worthGain nats a row matter to
	// predictions.
	certainGain, worthGain = 10, 0.03
	// compared is the ratio of a lengthscale to the next, mostSteps their number to either side.
	compared, mostSteps = 3, 5
	// dip is how far, in nats, the evidence may fall on the way to a higher one: it is flat where the
	// process is nearly constant over the rows.
	dip = 3
)

// lengthscaleNote returns the sentence about a given lengthscale under which the rows are far less
// likely than under a longer or a shorter one; "" if they are not, and for likelihoods that are not
// log-concave.
//
// Cost: that of three to eleven fits of up to mostCompared rows.
func (s *search) lengthscaleNote(o Options) string {
	n := len(s.Y)
	if _, bumpy := s.Lik.(lik.Bumpy); o.AutoLengthscale || s.at == nil || n < leastCompared || bumpy || s.late() {
		return ""
	}
	some, rows := s.data, "them"
	if n > mostCompared {
		var keep []int
		for k := range mostCompared {
			keep = append(keep, k*n/mostCompared)
		}
		some, rows = s.subset(keep), fmt.Sprintf("%d of them", mostCompared)
	}
	c := newSearch(some, newGeometry(s.kernel, some.x), o)
	evidence := func(factor float64) float64 {
		p := s.parameters
		if p.lengthscale *= factor; s.late() || !special.Finite(p.lengthscale) || !(p.lengthscale > 0) {
			return math.NaN()
		}
		if err := c.fit(p); err != nil || c.Status != "" || c.floored > 0 {
			return math.NaN()
		}
		return c.logEvidence
	}
	given, most, best := evidence(1), 0.0, 1.0
	for _, by := range []float64{1.0 / compared, compared} {
		high := 0.0
		for k, factor := 0, by; k < mostSteps; k, factor = k+1, factor*by {
			gain := evidence(factor) - given
			if !(gain > high-dip) {
				break
			}
			if high = max(high, gain); gain > most {
				most, best = gain, factor
			}
		}
	}
	if !(most > max(certainGain, worthGain*float64(len(some.Y)))) {
		return ""
	}
	return fmt.Sprintf("lengthscale = %.4g does not agree with the rows: %.2g raises the log evidence of %s by %.3g; 'auto' learns it", s.lengthscale, best*s.lengthscale, rows, most)
}
