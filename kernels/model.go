package kernels

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/bglm/bglm/kernels/lik"
)

// Model is what a fit is asked for: the observation model, the prior, drift, and
// the options of its engine. All states of one fit share it; nobody changes it.
type Model struct {
	Lik lik.Likelihood
	// Params are the parameters Lik was made with: engines that learn one of
	// them make a new Lik from Params.
	Params lik.Params

	Prior       Prior
	Intercept   bool
	HashBits    int
	MaxFeatures int

	// Priors are the priors of single features by name; others have Prior.
	Priors []Belief
	// Start is the posterior to continue from, nil for a fresh fit. Features not
	// in it start at their prior; its counts and evidence are carried on.
	Start *Fit

	// Noise is the random-walk variance per unit of time; NoiseBy, when not nil,
	// gives it by feature (others 0).
	Noise   float64
	NoiseBy map[string]float64
	// Forgetting in (0, 1] discounts per unit of time towards the prior:
	// precision λΛ + (1-λ)Λ0, λ = Forgetting^Δt. 0 means 1.
	Forgetting float64
	// HasTime says that rows carry times; else each row is one unit.
	HasTime bool

	Options Options
}

// Agrees says whether two models have equal options, so that their fits may be
// merged.
func (m *Model) Agrees(o *Model) bool {
	same := func(a, b float64) bool { return a == b || a != a && b != b }
	likes := func(a, b lik.Likelihood) bool {
		return a == nil && b == nil || a != nil && b != nil && a.Family() == b.Family() && a.Link() == b.Link()
	}
	x, y := m.Options, o.Options
	x.At, y.At = nil, nil
	noise := same(x.MeasurementNoise, y.MeasurementNoise)
	x.MeasurementNoise, y.MeasurementNoise = 0, 0
	return likes(m.Lik, o.Lik) && m.Prior == o.Prior && m.Intercept == o.Intercept && m.HashBits == o.HashBits && m.HasTime == o.HasTime &&
		same(m.Params.Dispersion, o.Params.Dispersion) && same(m.Params.Shape, o.Params.Shape) && m.Params.Quadrature == o.Params.Quadrature &&
		m.Noise == o.Noise && m.Forgetting == o.Forgetting && maps.Equal(m.NoiseBy, o.NoiseBy) && slices.Equal(m.Priors, o.Priors) &&
		(m.Start == nil) == (o.Start == nil) && noise && slices.Equal(m.Options.At, o.Options.At) && reflect.DeepEqual(x, y)
}

// Drifts says whether weights move between rows.
func (m *Model) Drifts() bool { return m.Noise > 0 || m.NoiseBy != nil || m.Forgets() }

// Forgets says whether precision is discounted.
func (m *Model) Forgets() bool { return m.Forgetting > 0 && m.Forgetting < 1 }

// Options are the options of the engines; each reads those it lists. Zero values
// mean the engine's documented default.
type Options struct {
	MaxIter int     // sweeps, Newton steps, EM steps a row: by engine
	Tol     float64 // relative change at which an iteration has converged
	Damping float64 // in (0, 1], EP: the share of a site's change that is taken

	Covariance string // "", "diagonal", "full" or "lowrank": adf, ep
	Hessian    string // "", "auto", "full", "diagonal", "block" or "lowrank": laplace, softmax

	Rank, Oversample, PowerIterations int // low rank; -1 for a wanted 0

	// AutoNoise, AutoPrior, AutoDispersion and AutoShape ask for the process noise
	// by innovation likelihood, and for the prior variance, dispersion and shape by
	// maximum evidence. PriorGroups learns one prior variance per group of features,
	// a group being the name before '='.
	AutoNoise, AutoPrior, PriorGroups, AutoDispersion, AutoShape bool

	// MeasurementNoise is the EKF's R: 0 = the variance of the likelihood at the
	// predicted mean, a number > 0, or NaN = inferred. NoiseFloor is its least value.
	MeasurementNoise, NoiseFloor float64

	Samples, Warmup, Chains int // hmc

	At        []Belief // laplace: the weights to take the Gaussian at, without optimising
	Reference string   // softmax: the class pinned at 0

	Standardize bool
	Seed        uint64
	TimeLimit   time.Duration // 0 = none
}

// Or returns v, or def where v is zero.
func Or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
