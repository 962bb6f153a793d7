package lik

import "math"

// Bumpy is a likelihood that is not log-concave in s, under which a posterior may have several
// modes: far from the s that fits a row, its log likelihood bends up and its pull decreases, as
// if the row had been given up.
type Bumpy interface {
	Likelihood
	// Smoothed is the likelihood with f > 1 times the width. The wider, the fewer modes a
	// posterior has under it.
	Smoothed(f float64) Likelihood
	// Far is the squared distance of s from the maximum of o, in units of the distance at which
	// the log likelihood begins to bend up: it does above 1.
	Far(o Obs, s float64) float64
}

// Smoothed multiplies the squared scale.
func (l studentT) Smoothed(f float64) Likelihood {
	wide := l
	wide.dispersion = math.Min(l.dispersion*f, math.MaxFloat64/4/l.dof)
	wide.scale2 = l.dof * wide.dispersion
	wide.peak = logGammaHalfStep(0.5*l.dof) - 0.5*math.Log(math.Pi*wide.scale2)
	return wide
}

// Far is (y-s)² in units of nu D.
func (l studentT) Far(o Obs, s float64) float64 {
	r := (o.Y - s) / math.Sqrt(l.scale2)
	return r * r
}

// Smoothed is the parabola of log p about its maximum at log y, with f times the variance.
func (g gaussianLog) Smoothed(f float64) Likelihood {
	g.dispersion *= f
	return logTops{g}
}

// Far is (log y - s)² in units of (log 2)², for s below log y: log p bends up below e^s = y/2.
func (gaussianLog) Far(o Obs, s float64) float64 {
	if !(o.Y > 0) {
		return 0
	}
	r := math.Max(math.Log(o.Y)-s, 0) / math.Ln2
	return r * r
}

// logTops replaces gaussianLog's rows by the parabolas about their maxima. Rows without one
// (y <= 0) are log-concave as they are.
type logTops struct{ gaussianLog }

func (g logTops) LogLik(o Obs, s float64) (logp, d1, d2 float64) {
	if o.Weight == 0 {
		return 0, 0, 0
	}
	if !(o.Y > 0) {
		return g.gaussianLog.LogLik(o, s)
	}
	c := o.Weight / g.dispersion * o.Y * o.Y
	r := math.Log(o.Y) - s
	return -0.5 * c * r * r, c * r, -c
}
