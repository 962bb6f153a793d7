package kernels

import (
	"fmt"

	"github.com/bglm/bglm/kernels/memory"
)

// Vague is the standard deviation of a predictor above which an expected response is over twenty
// times the median, if its mean is e to the predictor. VagueRows is the number of rows up to which
// it is noted if it is that wide for a quarter of them.
const (
	Vague     = 2.5
	VagueRows = 100
)

// leastVague is the number of rows below which the others of a row always say little.
const leastVague = 3

// VagueMeaning is what predictors as wide as Vague mean.
const VagueMeaning = "the rows hardly determine the weights under this prior, and expected responses are many times the typical ones"

// VagueNote is the note on few rows whose predictors are so wide, each given the others, that
// expected responses of rows to come, which grow exponentially with the predictor, are too large by
// any factor; "" if there are few of them. f is a fit of p.
//
// The predictor of a row is that of f without the row's own curvature of the likelihood, at the mode
// of all rows.
//
// Cost: that of Predictors for up to VagueRows rows.
func (p *Problem) VagueNote(f *Fit) string {
	if p.Lik == nil || p.Count != nil || p.N > VagueRows || p.Drifts() || !p.Lik.Traits().LogMean {
		return ""
	}
	eta, v := memory.Floats(p.N), memory.Floats(p.N)
	if err := p.Predictors(f, eta, v); err != nil {
		return ""
	}
	rows, wide := 0, 0
	b := p.Batch()
	for i := range v {
		o := b.Obs(i)
		if !(o.Weight > 0) {
			continue
		}
		rows++
		_, _, d2 := p.Lik.LogLik(o, eta[i])
		if left := 1 + d2*v[i]; v[i] > Vague*Vague*left { // v / left is the variance given the others
			wide++
		}
	}
	if rows < leastVague || 4*wide < rows {
		return ""
	}
	return fmt.Sprintf("%d of %d rows have, given the others, a linear predictor of standard deviation above %v: %s", wide, rows, Vague, VagueMeaning)
}
