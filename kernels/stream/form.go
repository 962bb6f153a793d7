package stream

import (
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// Form is a representation of the Gaussian beliefs of a State's weights: a bank of beliefs over the
// same features, numbered from 0, one for each of Plan.Rates. A form knows nothing of clocks,
// counts, rejected rows, evidence or learning.
//
// Features are numbered by the state's dictionary; the first Plan.Named of them have their prior or
// starting belief from the beginning.
type Form interface {
	// Grow gives the features that d has gained their prior, independent of all others.
	// Errors: more weights than the form has memory for.
	Grow(d *kernels.Dict) error

	// Begin starts the drift of the named features at time t: that of the first row, or of the fit
	// continued. Others start with the first row that has them.
	Begin(t float64)
	// Drift brings the features fs of the row that comes now from the time of the last row to time
	// to, which is not earlier; a form may bring all features. The last row's time is NaN before
	// the first row. Drift is called only if Plan.Drifts.
	// Errors: a discounted belief that is not proper.
	Drift(from, to float64, fs []uint32) error

	// Predict returns mean and variance of shift + Σ x_j w_j under belief k. It is called for
	// k = 0, 1, ... in this order with one row; Absorb may then follow for each belief.
	Predict(k int, fs []uint32, xs []float64, shift float64) (m, v float64)
	// Absorb updates belief k by t for the row last predicted, whose variance v was above 0:
	// μ += Σx α, Σ -= Σx (Σx)ᵀ β.
	Absorb(k int, fs []uint32, xs []float64, v float64, t lik.Tilted)

	// Extend inserts a copy of belief from at index at; p is the plan from then on, which has
	// another rate there.
	// Errors: more than the form has memory for.
	Extend(p *Plan, at, from int) error

	// Rest follows the last row of a batch: memory that only rows need may be released.
	Rest()

	// Known is the number of weights that the data determine, in units of lik.Determined, as of the
	// last row absorbed; Determined counts them anew. Rescale multiplies what the data have added
	// to the precision of belief k by λ. All three are called only if Plan.Learns.
	Known(k int) int64
	Determined(k int) int64
	Rescale(k int, lambda float64)

	// Numbers is how the form represents the numeric column of feature id. Recast changes the units
	// of such columns in belief k and returns the change of its log evidence.
	Numbers(id uint32) Numbers
	Recast(k int, r *Recast) (logZ float64)
	// Unit is the unit of feature id in the fit that the form continues, and whether that fit's
	// Covariance has its weights in such units; otherwise they are per original unit of the number.
	Unit(id uint32) (u Unit, kept bool)
	// Stretch multiplies the means of belief k by ratio, except for the part that their priors'
	// means contribute (Back), and Lift adds shift to the mean of the intercept, feature 0.
	Stretch(k int, ratio float64)
	Lift(k int, shift float64)

	// Linear is Predict for all rows of b, with the drift from now to at(i). It changes no belief.
	Linear(k int, b *kernels.Batch, now float64, at func(i int) float64, mean, variance []float64) error
	// Beliefs appends the marginals of belief k by feature, with their drift up to now, of a Lazy form up to
	// where it is applied.
	Beliefs(k int, now float64, dst []kernels.Weight) []kernels.Weight
	// Covariance returns the covariance of belief k over all features in this order.
	Covariance(k int, order []uint32) (kernels.Covariance, error)

	// Merge brings the beliefs and those of o, which is not changed, to a common time and prepares
	// their product; nil if o has nothing to contribute.
	Merge(o Form, g *Merging) (Product, error)

	// Clone returns an independent copy whose names are in d, and memory for its State: a small
	// form and its state are one allocation. old is nil or a form of the same plan that is no
	// longer needed, whose place and memory the copy may reuse; the returned State is nil then.
	Clone(d *kernels.Dict, old Form) (Form, *State)
	// Size is the memory held in bytes, including that of the State allocated with the form.
	Size() int64
	// Reserve charges so many copies to the memory budget; nil if they are small.
	Reserve(copies int64, what string) (*memory.Grant, error)
	// Under sets the Stop that ends long steps from here on.
	Under(s *stop.Stop)
	// Status returns the note on belief k, or "".
	Status(k int) string
}

// Approximate is a Form that absorbs some gaussian rows only approximately. This is harmless unless
// their noise is far smaller than the uncertainty of their predictor.
type Approximate interface {
	// Approximates returns 0 if the row last predicted is absorbed exactly, else the least share of
	// its predictor's variance that its noise should be.
	Approximates() float64
}

// Lazy is a Form that applies the drift of a weight when a row has it. Where that is an approximation,
// applying it earlier changes what later rows teach.
type Lazy interface {
	// At returns a copy with the drift of all weights up to now.
	At(now float64) Form
}

// Loose is a Form that does not keep the correlations of a row's weights. The variance of its
// predictions then falls by fractions of itself from row to row, however small the noise is.
type Loose interface {
	// Loose reports whether the row last predicted correlates weights.
	Loose() bool
}

// Far is a Form that may be larger than the processor's near caches.
type Far interface {
	// Fetch prefetches the weights fs, which are read soon; false means that they are near.
	Fetch(fs []uint32) bool
}

// PriorLearner is a form that learns the prior variances of its weights if Model.Options.AutoPrior
// is set. It has one belief then.
type PriorLearner interface {
	// LearnPriors sets the prior variances to those of highest evidence given the rows so far, or
	// moves towards them if that is slow for so few rows, and returns the change of the log
	// evidence. Variances have the unit of the responses if these have one.
	LearnPriors(rows int64) (logZ float64)
	// SetVariance makes v the prior variance of all weights, and returns the change of the log
	// evidence. Errors: those of ShareVariances.
	SetVariance(v float64) (logZ float64, err error)
	// SecondStart is another variance of all weights from which LearnPriors may come to another
	// answer; ok is false if there is none.
	SecondStart(rows int64) (v float64, ok bool)
	// LogPrior is the log density of the prior variances, up to a constant.
	LogPrior() float64
	// ShareVariances replaces the prior variances by those that the product with o will have: the
	// smaller of both, as the narrower of two priors keeps a belief proper, or with adopt those of
	// o. It returns the change of the log evidence.
	// Errors: what the rows contributed is not proper over all weights jointly.
	ShareVariances(o Form, adopt bool) (logZ float64, err error)
	// Priors records the variances in a fit, which has its columns; scale is that of the unit of the
	// responses.
	Priors(f *kernels.Fit, scale float64)
}

// Whole is a Form that knows what the rows contributed to all weights jointly.
type Whole interface {
	// Gain is log |Λ|/|Λ0|, where the data have changed the precision of belief k from Λ0 to Λ.
	Gain(k int) float64
	// Apart appends the distances of the means of belief k from their priors' means, in prior
	// standard deviations. The prior of a leaf is conditional on its level mean.
	Apart(k int, dst []float64) []float64
	// Nearly reports whether both rest on beliefs that are approximate even after rows that are
	// absorbed exactly.
	Nearly() bool
}

// Merging is what two forms need to know of their states to be multiplied.
type Merging struct {
	Dict, OtherDict *kernels.Dict // after Other's names were merged into Own
	Grown           int           // the number of features of the own form before
	IDs             []uint32      // the own feature numbers of Other's features; nil if both share a dictionary

	Now, OtherNow float64 // times of their last rows, NaN if there was none
	Clock, Begun  float64 // times of the latest and the first row of both
	Seen, Brought bool    // whether the own and the other state have seen a row

	// Joined are own features that the rows of the fit continued have but the fit does not know:
	// numbers that are 0 there.
	Joined []uint32

	// Prepare brings a form, as it was before the first row, to the units of both: over the model's
	// features with the same numbers, followed by those of Joined in order.
	Prepare func(Form)
}

// ID returns the own number of the other's feature j.
func (g *Merging) ID(j int) int {
	if g.IDs == nil {
		return j
	}
	return int(g.IDs[j])
}

// Product is the product of two banks of beliefs with a common start, which is counted once:
// Λ = Λa + Λb - Λ0.
type Product interface {
	// Known is Form.Determined of the own belief k, the other one and the start.
	Known(k int) [3]int64
	// Multiply replaces the own belief k by the product, after multiplying the data's part of the
	// three by scale (1 without learning). It returns the evidence logZ plus log ∫ a b / p0, the
	// squared distance of the two if Plan.Learns, and the largest |μa - μb| / sqrt(σa² + σb²).
	// Errors: the product is improper.
	Multiply(k int, scale [3]float64, logZ float64) (sum, apart, conflict float64, err error)
	// Done ends the merge.
	Done()
}
