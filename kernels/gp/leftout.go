package gp

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/special"
)

// faint is the part of a row's prior variance that its own likelihood takes away, below which
// rounding hides the posterior variance that the factor implies.
const faint = 1e-8

// leftOutNote returns the sentence about rows that the others predict worse than their mean alone
// does, "" if they do not. At lengthscales far below the distances between rows each row is
// fitted well and says nothing of any other: nothing but this shows it.
//
// The mean has a dispersion and a shape of its own, and pays half the logarithm of the rows for
// each number that it learns (lik.BesideMean).
//
// Cost: n² operations.
func (s *search) leftOutNote(p *Posterior, o Options) string {
	n := len(s.Y)
	taken := make([]float64, n) // the diagonal of R = TᵀJT in the factor's order
	for a, at := 0, 0; a < n; a++ {
		s.b.Stop.Check()
		sign := s.sign(a)
		for c, t := range p.Root[at : at+a+1] {
			taken[c] += sign * t * t
		}
		at += a + 1
	}
	rows, out, weight := make([]lik.Obs, n), 0.0, 0.0
	for a, i := range s.order {
		w, row := s.now.Curv[i], s.Obs(i)
		rows[a] = row
		weight += row.Weight
		logp, _, _ := s.Lik.LogLik(row, s.now.Eta[i])
		prior, _ := s.value(s.between.At(i, i), s.lengthscale, s.signal)
		// R_ii = W - W² Σ_ii. The density under all rows is no less, so that it makes no note.
		if math.Abs(w)*prior > faint {
			of, err := predict.InfluenceOf(s.Lik, row, s.now.Eta[i], (1-taken[a]/w)/w)
			if err == nil && special.Finite(of.LOO) {
				logp = row.Weight * of.LOO
			}
		}
		out += logp
	}
	alone, ok := lik.NullLogLik(s.Lik, rows)
	if !ok || !(weight > 1) {
		return ""
	}
	learnt := 1.0
	if o.AutoDispersion {
		learnt++
	}
	if o.AutoShape {
		learnt++
	}
	alone -= 0.5 * learnt * math.Log(weight)
	if lik.Beside(out, alone, weight) == "" {
		return ""
	}
	why := fmt.Sprintf("lengthscale = %.4g, signal_variance = %.4g and mean = %.4g do not suit them", s.lengthscale, s.signal, s.mean)
	if !o.AutoLengthscale || !o.AutoSignalVariance || !o.AutoMean {
		why += ", and all three can be learnt ('auto')"
	}
	return fmt.Sprintf("rows left out one by one have a log loss of %.4g under the others, worse than the %.4g of their mean alone: %s", -out/weight, -alone/weight, why)
}
