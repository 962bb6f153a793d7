package mode

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Hill is a log posterior, up to a constant, relative to a present point.
type Hill interface {
	// Direction computes Newton's step and returns the slope along it, which is the square of
	// Newton's decrement, the distance to the mode in posterior standard deviations.
	Direction() (slope float64, err error)
	// Gain evaluates t times the step and returns how much higher the log posterior is there;
	// it is not finite if the point is not allowed.
	Gain(t float64) float64
	// Go moves by t times the step, the t of the last Gain; it returns false if that is impossible.
	Go(t float64) bool
	// Height returns the log likelihood, the penalty of the prior, and the number of rows summed:
	// their size determines the rounding error.
	Height() (logLik, penalty float64, rows int)
}

// Newton climbs by Newton's method with step halving.
type Newton struct {
	MaxIter int
	Tol     float64 // distance to the mode, in posterior standard deviations, at which it is reached
	// Stall is the distance below which, if a step does not halve it, only the rounding error of
	// solves with a nearly singular Hessian is left.
	Stall float64
	// Final makes a step also be taken at the mode: it costs no factorisation.
	Final bool

	far int // steps in a row that gained more than a parabola predicts

	Iterations int     // of the latest climb
	Decrement  float64 // at the latest point
	Status     string  // why it stopped before the mode, "" at the mode
}

// NewNewton reads the options MaxIter (100) and Tol (1e-8).
func NewNewton(o *kernels.Options) Newton {
	return Newton{MaxIter: kernels.Or(o.MaxIter, 100), Tol: kernels.Or(o.Tol, 1e-8)}
}

const (
	// hidden is the slope below which the sums of the log posterior hardly resolve a step.
	hidden = 1e-8
	// maxHalvings bounds the halvings of a step: an exponential link can ask for a step of 1e15.
	maxHalvings = 60

	// farOff is the number of successive steps that gain as an exponential does, more than stretch
	// of the linear prediction, after which a step is doubled while that pays: each only reduces
	// the exponent by 1.
	farOff = 8

	noHigher = "no higher log posterior along Newton's direction after %d steps"
)

// Climb climbs h. It has converged if the mode is within Tol posterior standard deviations, by
// Newton's decrement, if only rounding error is left of the decrement, or if h reports that it has
// Arrived. The decrement means nothing on a hill that Curves along the step. Errors: those of h, a
// curvature that overflows.
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
		n.Decrement = math.Sqrt(math.Abs(slope)) // a negative slope is rounding error, not the mode
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

// atRounding reports whether the predicted gain of Newton's step, half the squared decrement, is
// below the rounding error of the log posterior, summed over the rows.
func (n *Newton) atRounding(h Hill) bool {
	logLik, penalty, rows := h.Height()
	return 0.5*n.Decrement*n.Decrement <= 1e-15*(1+math.Abs(logLik)+penalty+math.Sqrt(float64(rows)))
}

// step takes a step that raises the log posterior; it returns false if there is none. If h has a
// method Longest its step is tried first, and longer ones while that pays: the limit, not the
// likelihood, held it back. If h has Overshoots, shorter steps are tried after one had to be cut.
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

// Conclude records in f how its search ended: after how many iterations, with which status, empty if
// it converged, and those notes that say something.
func Conclude(f *kernels.Fit, iterations int, status string, notes []string) {
	f.Iterations = iterations
	f.Converged = status == ""
	said := slices.DeleteFunc(append([]string{status}, notes...), func(s string) bool { return s == "" || s == "ok" })
	if len(said) > 0 {
		f.Status = strings.Join(said, "; ")
	}
}
