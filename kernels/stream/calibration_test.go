package stream

import (
	"math"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// What was expected of a binary response is the same by its probability, which the moments have, as
// by the predictive mean.
func TestCalibrationOfBinary(t *testing.T) {
	for _, link := range []string{"logit", "probit", "cloglog"} {
		l, err := lik.New("bernoulli", link, lik.Params{})
		if err != nil {
			t.Fatal(err)
		}
		for _, y := range []float64{0, 1} {
			for _, at := range [][2]float64{{-6, 0.5}, {-1, 0.01}, {0, 4}, {1.5, 1}} {
				o := lik.Obs{Y: y, Weight: 1}
				var by, want calibration
				by.addBinaryRow(y, l.Moments(o, at[0], at[1]).LogZ)
				want.addRow(l, o, at[0], at[1])
				tol := kerneltest.Tol{Rel: 1e-6, Abs: 1e-9} // the rules of the two differ
				kerneltest.Close(t, link+": score", by.score, want.score, tol)
				kerneltest.Close(t, link+": information", by.information, want.information, tol)
				kerneltest.Close(t, link+": square", by.square, want.square, tol)
				if math.Signbit(by.score) == (y == 1) {
					t.Errorf("%s: score %v of y = %v", link, by.score, y)
				}
			}
		}
	}
}
