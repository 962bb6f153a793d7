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
	squares float64 // sum of the squared residuals
}

// quartile is that of the standard normal distribution.
const quartile = 0.6744897501960817

// Add adds a row, unless it has no weight: its observation and Residual.
func (m *Middle) Add(o Obs, r float64) {
	if !(o.Weight > 0) {
		return
	}
	m.n++
	if math.Abs(r) < quartile {
		m.within++
	}
	m.squares += r * r
}

// Merge adds the rows of o.
func (m *Middle) Merge(o Middle) {
	m.n, m.within, m.squares = m.n+o.n, m.within+o.within, m.squares+o.squares
}

// A note is made if so many more of the rows lie in the middle than would of normal residuals with their
// mean square, which weights make smaller, by that many standard errors. Student's t with 3 degrees of
// freedom has 0.10 more, the logistic distribution 0.04. Of few values fewer may lie there, which harms
// no interval much.
const (
	moreWithin    = 0.1
	withinClearly = 5
)

// Note returns the sentence about responses that are clearly not normal about their means; "" if they
// may be.
func (m *Middle) Note() string {
	part := m.within / m.n
	of := math.Erf(quartile / math.Sqrt(2*m.squares/m.n))
	if more := part - of; !(more > moreWithin) || !(more > withinClearly*math.Sqrt(of*(1-of)/m.n)) {
		return ""
	}
	return fmt.Sprintf("%.2g of the rows lie in the central half of what gaussian expects of them: responses vary otherwise than it says, and so do intervals of new ones; "+
		"take studentt for heavy tails, gamma or the logarithm for skewed ones", part)
}
