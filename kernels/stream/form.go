package stream

import (
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// Form is how a State keeps the Gaussian beliefs of its weights: a bank of them over
// the same features, numbered from 0, one for each of Plan.Rates. A form knows nothing
// of clocks, counts, rows that are refused, evidence or learning.
//
// Features are numbered by the state's dictionary; the first Plan.Named of them have
// their prior or their start from the beginning.
type Form interface {
	// Grow gives the features that d has learnt their prior, independent of the others.
	// Errors: more weights than the form has memory for.
	Grow(d *kernels.Dict) error

	// Begin starts the drift of the named features at time t: the first row, or the
	// time of the fit continued. Others start with the first row that touches them.
	Begin(t float64)
	// Drift brings the features fs, of a row that comes now, from the time of the last
	// row to time to, which is not before it; a form may bring all. The last row's time
	// is NaN before the first. It is called only where Plan.Drifts.
	// Errors: a discounted belief that is not proper.
	Drift(from, to float64, fs []uint32) error

	// Predict is mean and variance of shift + Σ x_j w_j under belief k. It is called for
	// k = 0, 1, ... in this order with one row, which Absorb may then follow for each.
	Predict(k int, fs []uint32, xs []float64, shift float64) (m, v float64)
	// Absorb is the update of belief k by t for the row last predicted, whose variance
	// v was above 0: μ += Σx α, Σ -= Σx (Σx)ᵀ β.
	Absorb(k int, fs []uint32, xs []float64, v float64, t lik.Tilted)

	// Extend inserts a copy of belief from at place at; p is the plan from here on, whose
	// rate there is another.
	// Errors: more than the form has memory for.
	Extend(p *Plan, at, from int) error

	// Rest follows the last row of a batch: memory that only rows need may go.
	Rest()

	// Known is how many weights the data determine, in units of lik.Determined, as of
	// the last row absorbed; Determined counts anew. Rescale multiplies by λ what the
	// data have added to the precision of belief k. All are called only where
	// Plan.Learns.
	Known(k int) int64
	Determined(k int) int64
	Rescale(k int, lambda float64)

	// Numbers is how the form takes the numbers of feature id. Recast brings belief k to
	// other units of them and says by what its log evidence changes.
	Numbers(id uint32) Numbers
	Recast(k int, r *Recast) (logZ float64)
	// Unit is the unit of feature id in the fit that the form continues, and true where its
	// Covariance has the weights in their units; else they are per number as it is.
	Unit(id uint32) (u Unit, kept bool)
	// Stretch makes the means of belief k ratio times themselves, but for what they have of
	// those of their priors (Back), and Lift adds shift to that of the intercept, which is
	// feature 0.
	Stretch(k int, ratio float64)
	Lift(k int, shift float64)

	// Linear is Predict for all rows of b with the drift from now to at(i), and changes
	// no belief.
	Linear(k int, b *kernels.Batch, now float64, at func(i int) float64, mean, variance []float64) error
	// Beliefs appends the marginals of belief k by feature, with their drift up to now.
	Beliefs(k int, now float64, dst []kernels.Weight) []kernels.Weight
	// Covariance is that of belief k over all features in this order.
	Covariance(k int, order []uint32) (kernels.Covariance, error)

	// Merge brings the beliefs and those of o, which stays as it is, to a common time
	// and prepares their product; nil where o has nothing to give.
	Merge(o Form, g *Merging) (Product, error)

	// Clone is an independent copy whose names d has, and memory for the State that has
	// it: a small form and its state are one allocation. old is nil, or a form of the same plan
	// that nobody needs any more: the copy may take its place and its memory, and there is no State
	// then.
	Clone(d *kernels.Dict, old Form) (Form, *State)
	// Size is the memory held, in bytes, that of the State beside it included.
	Size() int64
	// Reserve claims memory for so many copies from the budget; nil where they are small.
	Reserve(copies int64, what string) (*memory.Grant, error)
	// Under gives the long steps from here on a Stop.
	Under(s *stop.Stop)
	// Status is "" or what is to be said about belief k.
	Status(k int) string
}

// Approximate is a Form that takes some gaussian rows only nearly, which is harmless where their
// noise is not far smaller than what their weights may be.
type Approximate interface {
	// Approximates is 0 where the row last predicted is none, else the least share of its predictor's
	// variance that its noise should be.
	Approximates() float64
}

// Loose is a Form that keeps no ties of the weights of a row. What it predicts has a variance, then,
// that falls by parts of itself from row to row, however small the noise is.
type Loose interface {
	// Loose says whether the row last predicted ties weights.
	Loose() bool
}

// Far is a Form that may be larger than the near caches.
type Far interface {
	// Fetch asks for the weights fs, which are read soon; false means that they are near.
	Fetch(fs []uint32) bool
}

// PriorLearner is a form that learns the prior variances of its weights where
// Model.Options.AutoPrior asks for it. It keeps one belief then.
type PriorLearner interface {
	// LearnPriors gives the weights the prior variances of most evidence, as of the rows so far,
	// or brings them nearer where that takes long beside so many rows, and says by what the log
	// evidence changes.
	LearnPriors(rows int64) (logZ float64)
	// Priors notes the variances in a fit that has its columns.
	Priors(f *kernels.Fit)
}

// Whole is a Form that can say what the rows did to all weights together.
type Whole interface {
	// Gain is log |Λ|/|Λ0|, what the data have added to the precision of belief k.
	Gain(k int) float64
	// Apart appends the means of belief k, each in deviations from that of its prior, which is given
	// that of their level mean for leaves.
	Apart(k int, dst []float64) []float64
	// Nearly says that both are of beliefs that even rows which are taken as they are leave only near
	// what they say.
	Nearly() bool
}

// LearnsFrom is the number of rows from which prior variances are learnt.
const LearnsFrom = 16

// learnsAt says whether they are learnt after n rows: at the powers of two and at one and a half
// times these, for what rows tell is taken at the beliefs of their time.
func learnsAt(n int64) bool {
	return n >= LearnsFrom && (n&(n-1) == 0 || n%3 == 0 && (n/3)&(n/3-1) == 0)
}

// learnPriors has the form learn them.
func (s *State) learnPriors() {
	s.bank[0].logZ += s.form.(PriorLearner).LearnPriors(s.told)
}

// Merging is what two forms need to know of their states to be multiplied.
type Merging struct {
	Dict, OtherDict *kernels.Dict // after the merge of Other's names into Own
	Grown           int           // how many features the own form had before
	IDs             []uint32      // the own numbers of Other's features; nil where both have one dictionary

	Now, OtherNow float64 // the times of their last rows, NaN where there was none
	Clock, Begun  float64 // of both together: the latest row and the first
	Seen, Brought bool    // whether the own state has seen a row, whether the other has

	// Joined are own features that the fit continued does not know although its rows have them:
	// numbers that are 0 there.
	Joined []uint32

	// Prepare brings a form as it was before the first row to the units of both: over the
	// model's features by the same numbers, and those of Joined behind them, in order.
	Prepare func(Form)
}

// ID is the own number of the other's feature j.
func (g *Merging) ID(j int) int {
	if g.IDs == nil {
		return j
	}
	return int(g.IDs[j])
}

// Product is the product of two banks of beliefs that share a start, the start counted
// once: Λ = Λa + Λb - Λ0.
type Product interface {
	// Known is Form.Determined of the own belief k, the other and the start.
	Known(k int) [3]int64
	// Multiply takes the product into the own belief k, after the data's part of the
	// three was multiplied by scale (1 without learning). It returns the evidence logZ
	// with log ∫ a b / p0 added, the squared distance of the two where Plan.Learns, and
	// the largest |μa - μb| / sqrt(σa² + σb²).
	// Errors: the product is improper.
	Multiply(k int, scale [3]float64, logZ float64) (sum, apart, conflict float64, err error)
	// Done ends the merge.
	Done()
}
