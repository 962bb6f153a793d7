package metric

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/lik"
)

// Z95 is the half-width of the central 95 % interval of a normal distribution in standard errors.
const Z95 = 1.959963984540054

// ShareInterval is the central 95 % interval of a proportion after k of n, under Jeffreys' prior;
// it begins at 0 for k = 0 and ends at 1 for k = n. It is NaN unless 0 <= k <= n.
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

// MeanInterval is an approximate central 95 % interval of the mean of n responses of a likelihood,
// given their sample mean and its standard error. It is symmetric on the scale on which means are
// unbounded: the logarithm for responses that cannot be negative, the log odds for proportions.
// Without an event it is that of a count, or a proportion, of 0 in n under Jeffreys' prior.
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

// AUCInterval is an approximate 95 % interval of an area under the ROC curve over given numbers of
// positive and negative rows.
//
// Source: Hanley and McNeil (1982), Radiology 143, eq. 2.
func AUCInterval(a, positive, negative float64) (lower, upper float64) {
	q1, q2 := a/(2-a), 2*a*a/(1+a)
	se := math.Sqrt(math.Max(a*(1-a)+(positive-1)*(q1-a*a)+(negative-1)*(q2-a*a), 0) / (positive * negative))
	return math.Max(a-Z95*se, 0), math.Min(a+Z95*se, 1)
}

// Skill compares the losses of predictions with those of predicting the mean response, row by row.
type Skill struct {
	Rows       float64
	Loss, Base float64 // means
	LossSD     float64 // standard deviation over the rows
	GainSD     float64 // standard deviation of the differences
}

// LossInterval is an approximate 95 % interval of the mean loss.
func (s Skill) LossInterval() (lower, upper float64) {
	half := Z95 * s.LossSD / math.Sqrt(s.Rows)
	return s.Loss - half, s.Loss + half
}

// Verdict is 1 if predictions are significantly better than the mean alone (95 %), -1 if they are
// worse, else 0.
func (s Skill) Verdict() int {
	switch gain, half := s.Base-s.Loss, Z95*s.GainSD/math.Sqrt(s.Rows); {
	case gain > half:
		return 1
	case gain < -half:
		return -1
	}
	return 0
}

// Explained is the proportion of the base loss that predictions avoid: for squared errors the
// explained proportion of the variance. NaN without a base loss.
func (s Skill) Explained() float64 { return 1 - s.Loss/s.Base }

// beyondChance is how many standard errors a figure must be off to be reported: enough that many
// figures together raise no false alarm.
const beyondChance = 4

// BeyondChance reports whether a difference is too large, relative to its standard error, to be
// explained by chance.
func BeyondChance(difference, se float64) bool { return difference > beyondChance*se }

// ShareError is the standard error of a proportion p among n rows.
func ShareError(p, n float64) float64 { return math.Sqrt(p * (1 - p) / n) }
