package tally

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/lik"
)

// Head is what all passes over rows that are not kept must agree in, whatever they add up.
type Head struct {
	Family, Link      string
	Dispersion, Shape float64
	NoIntercept       bool
	HashBits          int
}

// HeadOf is that of a complete model.
func HeadOf(m *kernels.Model) Head {
	h := Head{Family: m.Lik.Family(), Link: m.Lik.Link(), NoIntercept: m.NoIntercept, HashBits: m.HashBits}
	if l, ok := m.Lik.(lik.Dispersed); ok {
		h.Dispersion = l.Dispersion()
	}
	if l, ok := m.Lik.(lik.Shaped); ok {
		h.Shape = l.Shape()
	}
	return h
}

func (h Head) String() string {
	return fmt.Sprintf("%s %s, dispersion %v, shape %v, intercept %v, hash_bits %d", h.Family, h.Link, h.Dispersion, h.Shape, !h.NoIntercept, h.HashBits)
}

// Trials says whether the responses are successes among trials.
func (h Head) Trials() bool { return h.Family == lik.OfTrials() }

// OnlyTogether is why a parameter cannot be learnt.
const OnlyTogether = "rows that are not kept say it only through all of them: give a number, such as that of a fit to a sample"

// Refuse reports a complete model that no pass is made for: one with a shape that is learnt, or a
// dispersion but that of a Gaussian, whose likelihood may have several modes, or whose rows have an
// order.
func Refuse(m *kernels.Model) error {
	t, o := m.Lik.Traits(), &m.Options
	switch {
	case o.AutoShape:
		return &argument.Error{Name: "shape", Found: "'auto'", Why: OnlyTogether}
	case o.AutoDispersion && !t.Gaussian:
		return &argument.Error{Name: "dispersion", Found: "'auto'", Why: OnlyTogether}
	case !t.Concave:
		return &argument.Error{Name: "family", Found: fmt.Sprintf("%s with link %s", m.Lik.Family(), m.Lik.Link()), Why: "its likelihood may have several modes, which passes do not look for"}
	case m.Drifts() || m.HasTime:
		return &argument.Error{Name: "time", Found: "given", Why: "passes take the rows in any order"}
	}
	return nil
}
