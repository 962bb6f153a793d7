package lik

import (
	"fmt"
	"math"
)

// Middle counts the rows whose response lies in the central half of what a Gaussian likelihood
// expects. More than half lie there if tails are heavy, the responses are skewed, or their variance
// differs from row to row. The zero value has no rows.
type Middle struct {
	n       float64 // rows
	within  float64
	squares float64 // sum of the squared residuals, each at most farRow
	far     float64 // of what exceeds that
}

// quartile is that of the standard normal distribution.
const quartile = 0.6744897501960817

// Add adds a row, unless it has no weight: its observation, and what its Residual is of.
func (m *Middle) Add(o Obs, slope, curvature float64) {
	if !(o.Weight > 0) {
		return
	}
	r := Residual(slope, curvature)
	m.n++
	if math.Abs(r) < quartile {
		m.within++
	}
	m.squares += r * r
	if whole := slope * slope / curvature; whole > farRow*farRow && whole <= math.MaxFloat64 {
		m.far += whole - farRow*farRow
	}
}

// Merge adds the rows of o.
func (m *Middle) Merge(o Middle) {
	m.n, m.within, m.squares, m.far = m.n+o.n, m.within+o.within, m.squares+o.squares, m.far+o.far
}

// A note is made if so many more of the rows lie in the middle than would of normal residuals with their
// mean square, which weights make smaller, by that many standard errors. Student's t with 3 degrees of
// freedom has 0.10 more, the logistic distribution 0.04. Of few values fewer may lie there, which harms
// no interval much. Some responses far from all others, such as those in another unit, leave the residuals
// of the others so small that only the mean square of all, which the dispersion is learnt from, tells: by
// that, moreBeside more lie there, of which t has 0.17.
const (
	moreWithin    = 0.1
	moreBeside    = 0.2
	withinClearly = 5
)

// Note returns the sentence about responses that are clearly not normal about their means; "" if they
// may be. known says that another note is on responses far from all others.
func (m *Middle) Note(known bool) string {
	part := m.within / m.n
	clear := func(square, least float64) bool {
		of := math.Erf(quartile / math.Sqrt(2*square))
		return part-of > least && part-of > withinClearly*math.Sqrt(of*(1-of)/m.n)
	}
	// A stream may have met rows before it knew their noise, which exceed a mean square of 1.
	if !clear(m.squares/m.n, moreWithin) && (known || !clear(min(1, (m.squares+m.far)/m.n), moreBeside)) {
		return ""
	}
	return fmt.Sprintf("%.2g of the rows lie in the central half of what gaussian expects of them: responses vary otherwise than it says, and so do intervals of new ones; "+
		"take studentt for heavy tails, gamma or the logarithm for skewed ones", part)
}
