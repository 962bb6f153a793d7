package kernels

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bglm/bglm/kernels/lik"
)

// Model is the specification of a fit: the observation model, the prior, drift, and the options of
// its engine. All states of one fit share it; it must not change.
//
// The zero Model is logistic regression with an intercept under DefaultPrior.
type Model struct {
	// Lik is the likelihood, nil for that of Start, or bernoulli with logit. Fits with classes do
	// not use it.
	Lik lik.Likelihood
	// Params are the parameters from which Lik was made: engines that learn one of them make a new
	// Lik from Params.
	Params lik.Params

	Prior       Prior
	NoIntercept bool // leaves out the feature Intercept, which is 1 in every row
	HashBits    int  // bounds the dictionary to 2^HashBits slots; 0 = none
	MaxFeatures int  // the limit of the number of features; 0 = none

	// Priors are the priors of single features by name; others have Prior.
	Priors []Belief
	// PriorBy are the prior variances of the weights of single columns; others have Prior's.
	PriorBy ColumnPriors
	// Correlated are sets of columns of levels, each in at most one set: the weights that the
	// columns of a set have for one level have a covariance, which is learnt.
	Correlated [][]string
	// Start is the posterior to continue from, nil for a new fit. Features not in it start at their
	// prior; its counts and evidence are continued.
	Start *Fit

	// Noise is the random-walk variance per unit of time; NoiseBy, when not nil,
	// gives it by feature (others 0).
	Noise   float64
	NoiseBy map[string]float64
	// Forgetting in (0, 1] discounts per unit of time towards the prior: precision λΛ + (1-λ)Λ0,
	// λ = Forgetting^Δt. 0 means 1.
	Forgetting float64
	// HasTime says that rows have times; otherwise each row is one unit.
	HasTime bool
	// At are the weights at which laplace computes the Gaussian, without optimising.
	At []Belief
	// Around is the fit at whose weights a pass over the rows evaluates the likelihood: see
	// laplace.Pass.
	Around *Fit
	// Before is the result of the previous pass, merged, in bytes: see lowrank.Pass.
	Before []byte

	Options Options
}

// Complete is m with defaults in place of zero values; m itself if it has none, and for nil the
// default model.
func (m *Model) Complete() *Model {
	if m == nil {
		m = new(Model)
	}
	if m.Lik != nil && m.Prior == m.Prior.Complete() {
		return m
	}
	c := *m
	if f := m.Start; f != nil && len(f.Classes) == 0 {
		if l, err := f.Likelihood(); m.Lik == nil && err == nil {
			c.Lik = l
			c.Params.Dispersion = f.Dispersion
			if !math.IsNaN(f.Shape) {
				c.Params.Shape = f.Shape
			}
		}
		if m.Prior == (Prior{}) {
			c.Prior = f.Prior
		}
	}
	if c.Lik == nil {
		c.Lik = logit
	}
	c.Prior = c.Prior.Complete()
	return &c
}

// CheckStart returns an error for a Start that m, which is Complete, cannot continue: one with
// another likelihood, intercept or hash bits, or without beliefs. A Start without a family, beliefs alone, fits every
// model.
func (m *Model) CheckStart() error {
	f := m.Start
	if f == nil || f.Family == "" {
		return nil
	}
	if err := f.CheckBeliefs(); err != nil {
		return err
	}
	differs := func(what string, have, want any) error {
		return fmt.Errorf("%s = %v, but the fit in Start has %v; allowed: those of the fit", what, have, want)
	}
	switch l := m.Lik; {
	case l != nil && (l.Family() != f.Family || l.Link() != f.Link):
		return differs("family and link", fmt.Sprintf("%q", l.Family()+" "+l.Link()), fmt.Sprintf("%q", f.Family+" "+f.Link))
	case m.NoIntercept == f.Intercept:
		return differs("intercept", !m.NoIntercept, f.Intercept)
	case m.HashBits != f.HashBits:
		return differs("hash bits", m.HashBits, f.HashBits)
	}
	return nil
}

// logit is the default likelihood.
var logit = func() lik.Likelihood {
	l, err := lik.New("", "", lik.Params{})
	if err != nil {
		panic(err) // the first family of the list
	}
	return l
}()

// Agrees reports whether two models have equal options, so that their fits may be merged.
func (m *Model) Agrees(o *Model) bool {
	likes := func(a, b lik.Likelihood) bool {
		return a == nil && b == nil || a != nil && b != nil && a.Family() == b.Family() && a.Link() == b.Link()
	}
	return likes(m.Lik, o.Lik) && m.Params == o.Params && m.Prior.Complete() == o.Prior.Complete() && m.NoIntercept == o.NoIntercept && m.HashBits == o.HashBits && m.HasTime == o.HasTime &&
		m.Noise == o.Noise && m.Forgetting == o.Forgetting && maps.Equal(m.NoiseBy, o.NoiseBy) && slices.Equal(m.Priors, o.Priors) && slices.Equal(m.PriorBy, o.PriorBy) &&
		slices.EqualFunc(m.Correlated, o.Correlated, slices.Equal[[]string]) &&
		(m.Start == nil) == (o.Start == nil) && slices.Equal(m.At, o.At) && m.Options == o.Options
}

// Drifts reports whether weights move between rows.
func (m *Model) Drifts() bool { return m.Noise > 0 || m.NoiseBy != nil || m.Forgets() }

// Forgets reports whether precision is discounted.
func (m *Model) Forgets() bool { return m.Forgetting > 0 && m.Forgetting < 1 }

// Options are the options of the engines; each reads those it lists. Zero values mean the engine's
// documented default. Package option has their ranges, which engines check with option.Check.
type Options struct {
	MaxIter int     // sweeps 100, Newton steps 100, EM steps per row 50, the EKF's iterations per row 1
	Tol     float64 // relative change at which an iteration has converged, 1e-8
	Damping float64 // in (0, 1], EP: the share of a site's change that is applied, 1

	Covariance string // "diagonal", "full" or "lowrank": adf, ep; default by engine
	Hessian    string // "auto" (the default), "full", "diagonal", "block" or "lowrank": laplace, softmax

	Rank                        int        // of low-rank methods and forms, 50; hmc: 0 means no low rank
	Oversample, PowerIterations Value[int] // of the randomised SVD, 10 and 2; 0 is a valid choice

	// AutoNoise, AutoPrior, AutoDispersion and AutoShape select the process noise by innovation
	// likelihood, and the prior variances, dispersion and shape by maximum evidence: one variance
	// for each column of levels and one for all other weights. PriorGroups learns one per group of
	// features instead, a group being the name before '='.
	AutoNoise, AutoPrior, PriorGroups, AutoDispersion, AutoShape bool
	// PriorAsked says that AutoPrior was requested and is not a default.
	PriorAsked bool

	// Integrate includes the uncertainty of learnt prior variances and of a learnt dispersion in
	// the posterior: laplace. The square root of a prior variance has a half-t prior with SDFreedom
	// degrees of freedom (3; 1 is the half-Cauchy) and scale SDScale, by default the one that gives
	// the weights of the group together a predictor of 2.5 times the standard deviation of the
	// responses (identity link) or 2.5.
	Integrate          bool
	SDScale, SDFreedom float64
	// DispersionScale and DispersionFreedom are those of the prior of the square root of a learnt
	// dispersion: 2.5 times the standard deviation of the responses, and 3.
	DispersionScale, DispersionFreedom float64

	// ThirdOrder replaces the mode by an approximation of the posterior mean of the weights that
	// uses third derivatives of the likelihood: laplace.
	ThirdOrder bool

	// MeasurementNoise is the EKF's R, a number > 0; 0 is the variance of the likelihood at the
	// predicted mean. AutoMeasurementNoise infers it from each row instead, at least NoiseFloor, by
	// default 1e-3 of the scale of y.
	MeasurementNoise, NoiseFloor float64
	AutoMeasurementNoise         bool

	Samples, Warmup, Chains int // hmc: 1000, 1000 and 4

	Reference string // softmax: the class pinned at 0

	Process Process // gp

	RowBudget int // the most numbers of x and y that are kept if rows may also be streamed; 0 is engine.DefaultRowBudget

	// Sites selects the Gaussian that approximates a row in a pass over rows that are not kept:
	// "laplace" (the default), the likelihood's at the mode, or "ep", expectation propagation's.
	Sites string

	// Compress keeps rows of equal features once, with sums of their responses that determine the
	// likelihood of all of them: see lik.Pooled.
	Compress    bool
	Standardize bool
	// Missing determines what a NULL in a STRUCT or a list of numbers becomes: "indicator" the
	// column's mean and an indicator feature, "absent" (the default) nothing, "error" a bad row.
	// With AnyColumns the fit records no columns.
	Missing    string
	AnyColumns bool
	Seed       uint64
	TimeLimit  time.Duration // 0 = none
}

// Process is the prior of a Gaussian process; zero values mean the defaults of gp.Options.
type Process struct {
	Kernel                                        string  // the covariance function
	Lengthscale, SignalVariance, Mean             float64 // by maximum evidence where Auto
	AutoLengthscale, AutoSignalVariance, AutoMean bool
}

// Value is an option whose zero differs from its default; the zero Value stands for the default.
type Value[T comparable] struct {
	v   T
	set bool
}

// Given returns the Value v, which may be zero.
func Given[T comparable](v T) Value[T] { return Value[T]{v, true} }

// IsGiven reports whether it is not the zero Value.
func (x Value[T]) IsGiven() bool { return x.set }

// Or returns the given value, or def if there is none.
func (x Value[T]) Or(def T) T {
	if x.set {
		return x.v
	}
	return def
}

// Or returns v, or def if v is zero.
func Or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
