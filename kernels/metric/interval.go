package metric

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/lik"
)

// Z95 is how many standard errors the central 95 % interval of a normal law reaches to each side.
const Z95 = 1.959963984540054

// ShareInterval is the central 95 % interval of a share after k of n, under Jeffreys' prior; it
// begins at 0 for k = 0 and ends at 1 for k = n. It is NaN where k is not from 0 to n.
func ShareInterval(k, n float64) (lower, upper float64) {
	if !(k >= 0 && k <= n) {
		return math.NaN(), math.NaN()
	}
	d := distuv.Beta{Alpha: k + 0.5, Beta: n - k + 0.5}
	if lower, upper = d.Quantile(0.025), d.Quantile(0.975); k == 0 {
		lower = 0
	} else if k == n {
		upper = 1
	}
	return lower, upper
}

// MeanInterval is about the central 95 % interval of the mean of n responses of a likelihood whose
// sample mean and its standard error are given: symmetric on the scale on which they are free,
// of responses that cannot be negative the logarithm, of shares the log odds. Without an event
// it is that of a count, or a share, of 0 in n under Jeffreys' prior.
func MeanInterval(l lik.Likelihood, mean, se, n float64) (lower, upper float64) {
	switch half, t := Z95*se, l.Traits(); {
	case t.Binary || t.Trials:
		if mean <= 0 || mean >= 1 {
			return ShareInterval(mean*n, n)
		}
		odds, w := mean/(1-mean), half/(mean*(1-mean))
		return 1 / (1 + math.Exp(w)/odds), 1 / (1 + math.Exp(-w)/odds)
	case l.Check(lik.Obs{Y: -1, Weight: 1}) == nil:
		return mean - half, mean + half
	case mean <= 0:
		return 0, distuv.Gamma{Alpha: 0.5, Beta: n}.Quantile(0.975)
	default:
		return mean * math.Exp(-half/mean), mean * math.Exp(half/mean)
	}
}

// AUCInterval is about the 95 % interval of an area under the ROC curve over rows, so many of them
// positive and negative.
//
// Source: Hanley and McNeil (1982), Radiology 143, eq. 2.
func AUCInterval(a, positive, negative float64) (lower, upper float64) {
	q1, q2 := a/(2-a), 2*a*a/(1+a)
	se := math.Sqrt(math.Max(a*(1-a)+(positive-1)*(q1-a*a)+(negative-1)*(q2-a*a), 0) / (positive * negative))
	return math.Max(a-Z95*se, 0), math.Min(a+Z95*se, 1)
}

// Skill compares the losses of predictions with those of the mean response alone, row by row.
type Skill struct {
	Rows       float64
	Loss, Base float64 // means
	LossSD     float64 // standard deviation over the rows
	GainSD     float64 // that of the differences
}

// LossInterval is about the 95 % interval of the mean loss.
func (s Skill) LossInterval() (lower, upper float64) {
	half := Z95 * s.LossSD / math.Sqrt(s.Rows)
	return s.Loss - half, s.Loss + half
}

// Verdict is 1 where predictions are better than the mean alone beyond chance (95 %), -1 where they
// are worse, else 0.
func (s Skill) Verdict() int {
	switch gain, half := s.Base-s.Loss, Z95*s.GainSD/math.Sqrt(s.Rows); {
	case gain > half:
		return 1
	case gain < -half:
		return -1
	}
	return 0
}

// Explained is the share of the base loss that predictions do without: of squared errors the
// explained share of the variance. NaN without a base loss.
func (s Skill) Explained() float64 { return 1 - s.Loss/s.Base }

// beyondChance is how many standard errors a figure is off before it is said: so many that many
// figures together raise no alarm by chance.
const beyondChance = 4

// BeyondChance says whether a difference is so large, for its standard error, that chance does not
// explain it.
func BeyondChance(difference, se float64) bool { return difference > beyondChance*se }

// ShareError is the standard error of a share p among n rows.
func ShareError(p, n float64) float64 { return math.Sqrt(p * (1 - p) / n) }
