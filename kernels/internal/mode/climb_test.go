package mode

import (
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// curve is an evidence of one parameter.
type curve struct {
	of    func(theta float64) (log, slope, scale float64)
	at    float64
	tries int
}

func (c *curve) Try(theta []float64) (float64, bool, error) {
	c.tries++
	c.at = theta[0]
	log, _, _ := c.of(c.at)
	return log, true, nil
}

func (c *curve) Keep() {}

func (c *curve) Slope() (slope, scale []float64, err error) {
	_, g, s := c.of(c.at)
	return []float64{g}, []float64{s}, nil
}

// The variance of weights that rows know little of is climbed to from far below in few steps:
// there MacKay's are short, for the evidence rises the more steeply the nearer it is.
func TestClimbFromBelow(t *testing.T) {
	const n, square = 3000.0, 1.09 // weights known with variance 1, and their mean square
	c := &curve{of: func(theta float64) (log, slope, scale float64) {
		v := math.Exp(theta)
		known := v / (1 + v)
		return -0.5 * n * (math.Log(1+v) + square/(1+v)), 0.5 * n * known * (square/(1+v) - 1), 0.5 * n * known
	}}
	s := Search{Lo: []float64{-20}, Hi: []float64{20}, Late: func() bool { return false }}
	at, status, err := s.From(c, [][]float64{{-12}})
	if err != nil || status != "" {
		t.Fatal(status, err)
	}
	kerneltest.Close(t, "variance", math.Exp(at[0]), square-1, kerneltest.Tol{Rel: 1e-5})
	if c.tries > 25 { // by steps of the scale it is not there after 50
		t.Errorf("%d evidences", c.tries)
	}
}

// An evidence that gains next to nothing any more has not stopped too early, one that gains has.
func TestStillRising(t *testing.T) {
	for slope, rises := range map[float64]bool{1e-6: false, 1e-2: true} {
		c := &curve{of: func(theta float64) (float64, float64, float64) { return slope * theta, slope, 10 * slope }}
		s := Search{Lo: []float64{-1e6}, Hi: []float64{1e6}, Late: func() bool { return false }}
		_, status, err := s.From(c, [][]float64{{0}})
		if err != nil || strings.Contains(status, "still rising") != rises {
			t.Errorf("slope %v: %q, %v", slope, status, err)
		}
	}
}
