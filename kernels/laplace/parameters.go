package laplace

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
)

// widestShape is the standard deviation of a shape in units of its mean from which neither means
// anything: that of a shape whose logarithm has standard deviation 2.
const widestShape = 7.3

// parameters records in f what was learnt of dispersion and shape: the result of integration if
// they were integrated over, otherwise by the curvature of the evidence in their logarithms, with
// all else fixed.
func (h *learner) parameters(f *kernels.Fit, around *spread) error {
	if k := h.dispersion; k >= 0 {
		if at := len(h.Names); around != nil && at < len(around.mean) {
			f.Learn(kernels.LearntDeviation, around.mean[at], around.sd[at])
		} else {
			information, err := h.information(k)
			if err != nil {
				return err
			}
			f.LearnDeviation(math.Exp(h.theta[k]), 2*information)
		}
	}
	if k := h.shape; around != nil && around.shape[1] > 0 {
		if mean, sd := around.shape[0], around.shape[1]; sd < widestShape*mean {
			f.Learn(kernels.LearntShape, mean, sd)
		} else {
			f.Learn(kernels.LearntShape, f.Shape, math.NaN())
		}
	} else if k >= 0 {
		information, err := h.information(k)
		if err != nil {
			return err
		}
		f.LearnShapeBy(math.Exp(h.theta[k]), information)
	}
	return nil
}

// information returns the curvature of the log evidence in θ_k, by a difference of slopes. It is NaN
// if not known: at the end of the range, without all of the curvature, if time is up, and if an
// evidence is expensive, except for the noise of gaussian responses.
func (h *learner) information(k int) (float64, error) {
	const step = 0.1
	theta, nan := slices.Clone(h.theta), math.NaN()
	switch {
	case !h.exact() || !(theta[k]-step > h.lo[k] && theta[k]+step < h.hi[k]) || h.search.late():
		return nan, nil
	case h.costlyEvidence || h.pass != nil:
		if k != h.dispersion || !h.lik.Traits().Gaussian {
			return nan, nil
		}
		_, scale, err := h.Slope()
		if err != nil {
			return nan, err
		}
		return scale[k], nil
	}
	at := h.at
	defer func() { h.at = at }()
	var slopes [2]float64
	known := true
	for i, x := range []float64{theta[k] - step, theta[k] + step} {
		there := slices.Clone(theta)
		there[k] = x
		_, ok, err := h.Try(there)
		if err != nil {
			return nan, err
		}
		g, _, err := h.Slope()
		if err != nil {
			return nan, err
		}
		slopes[i], known = g[k], known && ok
	}
	if _, _, err := h.Try(theta); err != nil || !known {
		return nan, err
	}
	return max((slopes[0]-slopes[1])/(2*step), 0), nil
}
