// Package predict scores rows under a kernels.Fit: the Gaussian of the linear predictor, the
// expected response, intervals, densities, joint posterior draws, and the influence of a row on the
// fit.
//
// For a row x the posterior N(μ, Σ) gives s = xᵀw + offset ~ N(m, v), m = xᵀμ + offset, v = xᵀΣx.
// Features that the fit has not seen have their prior and are independent. All else is a function
// of the likelihood, m and v; responses are predicted from the Gaussian that
// kernels.PredictiveScale makes of these.
package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
)

// Kind is the definition of a row's expected response.
type Kind int

const (
	Exact  Kind = iota // E[y], s integrated out
	MacKay             // MacKay's moderation, lik.Likelihood.Moderated
	Plugin             // the response at the mean of s
)

var kinds = [...]string{"exact", "mackay", "plugin"}

func (k Kind) String() string {
	if k.Check() != nil {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kinds[k]
}

// Check reports an unknown kind.
func (k Kind) Check() error {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Errorf("prediction: found kind %d; allowed: 0 to %d, %s", int(k), len(kinds)-1, argument.Quoted(kinds[:]))
	}
	return nil
}

// Kinds returns the names of all kinds, the default first.
func Kinds() []string { return slices.Clone(kinds[:]) }

// ParseKind returns the named kind, in any case, like the words of options. Errors: an unknown name.
func ParseKind(name string) (Kind, error) {
	for k, n := range kinds {
		if strings.EqualFold(n, name) {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("prediction: found %q; allowed: %s", name, argument.Quoted(kinds[:]))
}

// mostSpread is the variance of a predictor under the log link above which its mean is no longer
// meaningful.
const mostSpread = 16

// moments are the mean and variance of a new response when s ~ N(m, v). Both are infinite only if m
// alone makes them so.
//
// Under the log link the mean is exp(m + v/2): it lies √v/2 standard deviations above the median,
// more than two of them if v > 16, and is then due to a fortieth of the probability, which no row
// has ever seen. From there on it is taken at two standard deviations, exp(m + 2√v).
func moments(l lik.Likelihood, m, v float64) (mean, variance float64) {
	mean, variance = l.Predict(m, spread(l, v))
	return withinBounds(l, v, mean), withinBounds(l, v, variance)
}

// spread is v, reduced where exp(m + v/2) would be meaningless.
func spread(l lik.Likelihood, v float64) float64 {
	if v > mostSpread && l.Traits().LogMean {
		return math.Sqrt(mostSpread * v)
	}
	return v
}

// withinBounds is x, kept finite if only v makes it infinite.
func withinBounds(l lik.Likelihood, v, x float64) float64 {
	if v > mostSpread && l.Traits().LogMean {
		return math.Min(x, math.MaxFloat64)
	}
	return x
}

// Expected is the expected response when s ~ N(m, v); under the log link it is clamped if the
// predictor has a standard deviation of 4 or more (moments).
func Expected(l lik.Likelihood, k Kind, m, v float64) float64 {
	switch k {
	case MacKay:
		return withinBounds(l, v, l.Moderated(m, spread(l, v)))
	case Plugin:
		return l.Response(m)
	}
	y, _ := moments(l, m, v)
	return y
}

// ExpectedMany is Expected of kind Exact for many predictors N(m, v).
func ExpectedMany(l lik.Likelihood, m, v, y []float64) {
	if means := lik.Means(l); means != nil {
		means(m, v, y)
		return
	}
	for i := range y {
		y[i] = Expected(l, Exact, m[i], v[i])
	}
}

// Dist is the predictive distribution of a row: the Gaussian of s that predicts it, mean and
// variance of a new response, and its interval (see lik.Likelihood.Interval).
type Dist struct{ EtaMean, EtaVariance, Mean, Variance, Lower, Upper float64 }

// CheckLevel reports a level that intervals cannot have.
func CheckLevel(level float64) error {
	if !(level > 0 && level < 1) {
		return fmt.Errorf("level = %v; allowed: a number between 0 and 1", level)
	}
	return nil
}

// DistOf returns the predictive distribution when s ~ N(m, v).
// Errors: a level outside (0, 1).
func DistOf(l lik.Likelihood, m, v, level float64) (Dist, error) {
	if err := CheckLevel(level); err != nil {
		return Dist{}, err
	}
	d := Dist{EtaMean: m, EtaVariance: v}
	d.Mean, d.Variance = moments(l, m, v)
	d.Lower, d.Upper = l.Interval(m, v, level)
	d.Lower, d.Upper = withinBounds(l, v, d.Lower), withinBounds(l, v, d.Upper)
	return d, nil
}

// LogDensity is the log predictive density of the response of o when s ~ N(m, v): log ∫ p(y | s)
// N(s; m, v) ds, for counts the log probability. The weight of o is ignored.
// Errors: a response outside the support.
func LogDensity(l lik.Likelihood, o lik.Obs, m, v float64) (float64, error) {
	if o.Weight = 1; l.Check(o) != nil {
		return math.Inf(-1), l.Check(o)
	}
	return l.Moments(o, m, v).LogZ, nil
}

// PMF is the predictive probability of the count k, 0 outside the support; trials is 0 if the
// family has none. For a continuous family it is the density.
func PMF(l lik.Likelihood, k, trials, m, v float64) float64 {
	p, err := LogDensity(l, lik.Obs{Y: k, Trials: trials}, m, v)
	if err != nil {
		return 0
	}
	return math.Exp(p)
}

// Scorer scores rows under one fit. It is used by one goroutine at a time; Clone makes one for
// another.
type Scorer struct {
	*Names
	Fit *kernels.Fit
	Lik lik.Likelihood

	square     *root    // of a low-rank covariance, made by the first draw
	hashes     []uint64 // of the beliefs' names, made by the first draw that needs them
	predictive kernels.PredictiveScale
	beside     LearntParameters // if learnt is set
	learnt     bool
	at         []int
	val        []float64
	unknown    []kernels.Related
	spread     kernels.Spread
	room       kernels.SpreadScratch
}

// New prepares a fit of one response. The fit is retained and must not change.
//
// Cost: O(p) memory for the names. Errors: a fit whose beliefs, covariance or likelihood are not
// valid; a softmax fit, whose classes have separate weights.
func New(f *kernels.Fit) (*Scorer, error) {
	if err := f.CheckBeliefs(); err != nil {
		return nil, err
	}
	if len(f.Classes) > 0 {
		return nil, fmt.Errorf("a fit of %d classes has no single linear predictor; score it with the softmax engine", len(f.Classes))
	}
	l, err := lik.New(f.Family, f.Link, lik.Params{Dispersion: f.Dispersion, Shape: or0(f.Shape)})
	if err != nil {
		return nil, err
	}
	return NewWith(f, l)
}

func or0(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// NewWith is New with the likelihood given.
func NewWith(f *kernels.Fit, l lik.Likelihood) (*Scorer, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if err := f.Covariance.Check(len(f.Beliefs)); err != nil {
		return nil, err
	}
	n, err := NewNames(f.Beliefs, f.Intercept, f.HashBits)
	if err != nil {
		return nil, err
	}
	n.LeaveOut(f.LacksIndicator)
	return newScorer(Scorer{Names: n, Fit: f, Lik: l}), nil
}

// Clone returns a Scorer for another goroutine. Existing numbers stay the same.
func (s *Scorer) Clone() *Scorer {
	return newScorer(Scorer{Names: s.Names.Clone(), Fit: s.Fit, Lik: s.Lik, square: s.square, hashes: s.hashes})
}

func newScorer(s Scorer) *Scorer {
	s.spread.Under(&s.Fit.Covariance)
	s.predictive = s.Fit.PredictiveScale()
	return &s
}

// belief is the weight of a feature and the index of its belief, -1 for an unseen one, which has
// its prior.
func (s *Scorer) belief(id uint32) (kernels.Weight, int) {
	if at := s.Belief(id); at >= 0 {
		return s.Fit.Beliefs[at].Weight, at
	}
	return s.Fit.PriorOf(s.dict.Name(id)), -1
}

// unseen is the prior of feature id, which has no belief under an arrowhead covariance: for a level
// of a column with a level mean, its deviation from weight j of the block, with that mean; else w,
// -1.
func (s *Scorer) unseen(id uint32, w kernels.Weight) (kernels.Weight, int) {
	c := &s.Fit.Covariance
	k := c.UnseenLevel(string(s.dict.Name(id)), len(s.Fit.Beliefs), func(k int) string { return s.Fit.Beliefs[k].Feature })
	if k < 0 {
		return w, -1
	}
	j, mean, rest, _ := c.LevelMean(k)
	return kernels.Weight{Mean: mean, Variance: w.Variance * rest}, j
}

// Linear is the Gaussian of the linear predictor of row i of b, whose feature
// numbers are those of Features; a feature occurs once in a row.
//
// Cost: O(k) for k entries under a diagonal covariance, O(k p) full, O(k rank) low
// rank; no allocation.
// Errors: a predictor that is not finite.
func (s *Scorer) Linear(b *kernels.Batch, i int) (m, v float64, err error) {
	return s.linear(b, i, false)
}

// linear is Linear; with anew set, levels of columns whose variance was learnt and averaged over
// are treated as new.
func (s *Scorer) linear(b *kernels.Batch, i int, anew bool) (m, v float64, err error) {
	joint := s.Fit.Covariance.Form != gauss.Diagonal
	s.at, s.val, s.unknown = s.at[:0], s.val[:0], s.unknown[:0]
	m = b.Shift(i)
	fs, xs := s.Entries(s.Fit, b, i)
	for k, f := range fs {
		w, at := s.belief(f)
		x := xs[k]
		if anew && at >= 0 {
			if prior, ok := s.Fit.PriorAtMode(s.dict.Name(f)); ok {
				w, at = prior, -1
			}
		}
		if at < 0 && s.Fit.Covariance.Form == gauss.Arrowhead {
			var j int
			if w, j = s.unseen(f, w); j >= 0 {
				s.at, s.val = append(s.at, ^j), append(s.val, x)
			}
		}
		m += x * w.Mean
		if joint && at >= 0 {
			s.at, s.val = append(s.at, at), append(s.val, x)
			continue
		}
		v += x * x * w.Variance
		if at < 0 && len(s.Fit.Correlations) > 0 {
			s.unknown = append(s.unknown, kernels.Related{Name: s.dict.Name(f), X: x})
		}
	}
	v += s.Fit.CorrelatedVariance(s.unknown, v)
	if joint {
		v += s.spread.Variance(s.at, s.val, &s.room)
	}
	if err := kernels.CheckPredictor(m, v); err != nil {
		return 0, 0, err
	}
	return m, v, nil
}

// Predictive is the Gaussian of the linear predictor of row i that predicts its response: that of
// Linear, unless the fit has factors for it (kernels.PredictiveScale).
func (s *Scorer) Predictive(b *kernels.Batch, i int) (m, v float64, err error) {
	if m, v, err = s.Linear(b, i); err == nil {
		m, v = s.predictive.Of(m, v, b.Shift(i))
	}
	return m, v, err
}

// Predict is the expected response of row i.
// Errors: those of Linear; an unknown kind.
func (s *Scorer) Predict(b *kernels.Batch, i int, k Kind) (float64, error) {
	if err := k.Check(); err != nil {
		return 0, err
	}
	m, v, err := s.Predictive(b, i)
	if err != nil {
		return 0, err
	}
	return Expected(s.Lik, k, m, v), nil
}

// Dist is the predictive distribution of row i.
func (s *Scorer) Dist(b *kernels.Batch, i int, level float64) (Dist, error) {
	m, v, err := s.Predictive(b, i)
	if err != nil {
		return Dist{}, err
	}
	return DistOf(s.Lik, m, v, level)
}

// LogDensity is the log predictive density of row i's response.
func (s *Scorer) LogDensity(b *kernels.Batch, i int) (float64, error) {
	if err := b.Check(); err != nil {
		return 0, err
	}
	m, v, err := s.Predictive(b, i)
	if err != nil {
		return 0, err
	}
	return LogDensity(s.Lik, b.Obs(i), m, v)
}

// PMF is the predictive probability of the count k for row i, whose response is ignored.
func (s *Scorer) PMF(b *kernels.Batch, i int, k float64) (float64, error) {
	m, v, err := s.Predictive(b, i)
	if err != nil {
		return 0, err
	}
	trials := 0.0
	if len(b.Trials) > 0 {
		trials = b.Trials[i]
	}
	return PMF(s.Lik, k, trials, m, v), nil
}

// Influence is what row i contributed to the fit, of which it should have been part.
func (s *Scorer) Influence(b *kernels.Batch, i int) (Influence, error) {
	if err := b.Check(); err != nil {
		return Influence{}, err
	}
	m, v, err := s.Linear(b, i)
	if err != nil {
		return Influence{}, err
	}
	n, err := InfluenceOf(s.Lik, b.Obs(i), m, v)
	if err != nil {
		return Influence{}, err
	}
	m, v = s.predictive.Of(m, v, b.Shift(i))
	out, err := s.LeaveOut(b, i, m, v, AtMode)
	n.LOO = out.LogDensity
	return n, err
}

// LeaveOut is LeaveOut for row i with predictor N(m, v) (Predictive), and with Beside.
func (s *Scorer) LeaveOut(b *kernels.Batch, i int, m, v float64, by Factor) (LeftOut, error) {
	if err := b.Check(); err != nil {
		return LeftOut{}, err
	}
	out, err := LeaveOut(s.Lik, b.Obs(i), m, v, by, s.LearntParameters(), func() (m, v float64, err error) {
		if m, v, err = s.linear(b, i, true); err == nil {
			m, v = s.predictive.Of(m, v, b.Shift(i))
		}
		return m, v, err
	})
	if err != nil || s.predictive.Plain() {
		return out, err
	}
	if m, v, err = s.Linear(b, i); err != nil {
		return LeftOut{}, err
	}
	return out.Averaged(s.Lik, b.Obs(i), m, v)
}

// LearntParameters is what the fit has learnt in addition to its weights.
func (s *Scorer) LearntParameters() LearntParameters {
	if !s.learnt {
		s.beside, s.learnt = BesideOf(s.Fit), true
	}
	return s.beside
}
