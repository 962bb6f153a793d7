package stream

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
)

// expected sums what rows were expected to respond before they came, and what they did.
//
// Where expectations grow exponentially with the predictor, one value far from the others, or
// weights that few rows determine, makes them too large by any factor, while the log density of the
// rows, which bounds what single ones cost, may still be better than that of their mean alone.
type expected struct{ rows, sum, came float64 }

func (e *expected) merge(o expected) {
	e.rows, e.sum, e.came = e.rows+o.rows, e.sum+o.sum, e.came+o.came
}

// expect adds a row whose predictor was N(m, v) before it came, with its expectation as package
// predict has it.
func (c *responseSummary) expect(o lik.Obs, m, v float64) {
	if n := int64(c.n); n >= growingEarly && n&(n-1) == 0 {
		c.lately[1], c.lately[0] = c.lately[0], expected{}
	}
	if v > widest*widest { // the one row of what is new, whose expectation alone would be the sum; countScore says it of many
		return
	}
	c.lately[0].merge(expected{o.Weight, o.Weight * math.Exp(m+math.Min(0.5*v, 2*math.Sqrt(v))), o.Weight * o.Y})
}

// expectedFar is how many times what came the expectation must be.
const expectedFar = 10

// expectedNote is the note on rows, the latter half and more, that were expected to respond far more
// than they did; "" if they were not, or if they are among the first, whose predictors are wide in
// any stream. For counts, three that did not come are no reason.
func (c *responseSummary) expectedNote(of *likelihoodTraits) string {
	e := c.lately[0]
	e.merge(c.lately[1])
	came := e.came
	if of.counts {
		came += 3
	}
	if !(c.n > first) || !(e.sum > expectedFar*came) {
		return ""
	}
	return fmt.Sprintf("before they came, the last rows, of weight %.4g, were expected to respond %.3g together, and they did %.3g: %s",
		e.rows, e.sum, e.came, lik.OvershootMeaning(" or weights that few rows determine"))
}
