package mode

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Hill is a log posterior, less any constant, seen from where one stands on it.
type Hill interface {
	// Direction makes Newton's step and returns the slope along it, which is the square
	// of Newton's decrement, the distance to the top in posterior deviations.
	Direction() (slope float64, err error)
	// Gain looks at t times the step and says by how much it is higher there; not
	// finite where nobody can stand.
	Gain(t float64) float64
	// Go takes t times the step, where Gain has looked last; false: one cannot.
	Go(t float64) bool
	// Height is the log likelihood, what the prior takes from it, and the number of rows
	// summed: their size says what is rounding.
	Height() (logLik, penalty float64, rows int)
}

// Newton climbs by Newton's method with step halving.
type Newton struct {
	MaxIter int
	Tol     float64 // the top is reached when it is this near in posterior deviations
	// Stall is where a step that does not halve the distance leaves nothing but the
	// rounding of solves with a Hessian that is nearly singular.
	Stall float64
	// Final says that a step is also taken where the top is reached: it costs no factor.
	Final bool

	far int // steps in a row that gained more than a parabola has it

	Iterations int     // of the latest climb
	Decrement  float64 // where it last looked
	Status     string  // why it stopped before the top, "" at the top
}

// NewNewton has the options MaxIter (100) and Tol (1e-8).
func NewNewton(o *kernels.Options) Newton {
	return Newton{MaxIter: kernels.Or(o.MaxIter, 100), Tol: kernels.Or(o.Tol, 1e-8)}
}

const (
	// hidden is the slope from which on the sums of the log posterior hardly see a step.
	hidden = 1e-8
	// maxHalvings of a step: an exponential link can ask for a step of 1e15.
	maxHalvings = 60

	// farOff is after how many steps that gain as an exponential does, more than stretch of what
	// the slope has it, one is doubled for as long as that pays: each takes only 1 off the exponent.
	farOff = 8

	noHigher = "no higher log posterior along Newton's direction after %d steps"
)

// Climb goes up h. It has converged when the top is within Tol posterior deviations, by
// Newton's decrement, when rounding is all that is left of the decrement, or, if h can
// tell, when it has arrived. A hill that Curves along the step is no parabola there, and has
// no decrement that means anything. Errors: those of h, a curvature that overflows.
func (n *Newton) Climb(h Hill, halt *stop.Stop) error {
	n.Status, n.Iterations, n.Decrement, n.far = "", 0, math.Inf(1), 0
	short := func(why string) error {
		n.Status = fmt.Sprintf(why+": the mode is about %.2g posterior standard deviations away", n.Iterations, n.Decrement)
		return nil
	}
	for {
		slope, err := h.Direction()
		if err != nil {
			return err
		}
		if !special.Finite(slope) {
			return ErrOverflow
		}
		last := n.Decrement
		n.Decrement = math.Sqrt(math.Abs(slope)) // a slope below 0 is rounding, not the top
		there := n.Decrement <= n.Tol || n.Decrement < 1e-4 && n.Decrement > 0.5*last && (n.Decrement < n.Stall || n.atRounding(h))
		if c, ok := h.(interface{ Curves() bool }); ok && there && n.Decrement > 0 {
			there = !c.Curves()
		}
		switch {
		case there && !n.Final:
			return nil
		case there:
		case slope < 0:
			if n.Decrement > 1e-4 && !n.atRounding(h) {
				return short(noHigher)
			}
			return nil
		case n.Iterations >= n.MaxIter:
			return short("no convergence in %d Newton steps")
		case halt.Late():
			return short("stopped at the time limit after %d Newton steps")
		}
		n.Iterations++
		moved := n.step(h, slope)
		if there {
			return nil
		}
		if !moved {
			if n.Decrement > 1e-4 && !n.atRounding(h) {
				return short(noHigher)
			}
			return nil
		}
		if a, ok := h.(interface{ Arrived() bool }); ok && a.Arrived() {
			return nil
		}
	}
}

// atRounding says that what Newton's step promises, half the squared decrement, is
// below the rounding of the log posterior, summed over the rows.
func (n *Newton) atRounding(h Hill) bool {
	logLik, penalty, rows := h.Height()
	return 0.5*n.Decrement*n.Decrement <= 1e-15*(1+math.Abs(logLik)+penalty+math.Sqrt(float64(rows)))
}

// step takes a step that raises the log posterior, false if there is none. A hill with
// a Longest step is tried with that at first, and with longer ones while that pays: the
// cap, not the likelihood, held it back. One with Overshoots is tried with shorter ones
// after a step had to be cut.
func (n *Newton) step(h Hill, slope float64) bool {
	logLik, _, rows := h.Height()
	t, capped := 1.0, false
	if c, ok := h.(interface {
		Longest() (t float64, capped bool)
	}); ok {
		t, capped = c.Longest()
	}
	blur := 1e-14 * (math.Abs(logLik) + math.Sqrt(float64(rows)))
	got := h.Gain(t)
	for halvings := 0; !(got >= 1e-4*t*slope); halvings++ {
		if slope < hidden && got > -1e-12*(1+math.Abs(logLik)) || halvings == 0 && 1e-4*slope <= blur && got >= -blur {
			break
		}
		if halvings == maxHalvings {
			return false
		}
		t *= 0.5
		got = h.Gain(t)
	}
	longer := func(by float64) bool {
		more := h.Gain(by * t)
		if !(more > got) {
			h.Gain(t)
			return false
		}
		t, got = by*t, more
		return true
	}
	for capped && t <= 0.5 && longer(2) {
	}
	if n.far++; t < 1 || !(got > stretch*slope) {
		n.far = 0
	}
	for n.far > farOff && longer(2) {
	}
	if _, overshoots := h.(interface{ Overshoots() }); overshoots && t < 1 {
		for longer(0.5) {
		}
	}
	return h.Go(t)
}
