// Package lik holds the observation models p(y | s) of a generalized linear
// model, s the linear predictor, and their one-dimensional Gaussian moments.
package lik

// Obs is one observation.
type Obs struct {
	// Y is the response on the scale of the family: 0 or 1 (bernoulli), a count
	// (poisson, negbinomial, binomial), any number (gaussian, studentt), a
	// positive number (gamma).
	Y float64
	// Weight w >= 0 raises the likelihood to the power w; 1 is a plain row.
	Weight float64
	// Trials is the number of binomial trials; 0 where the family has none.
	Trials float64
}

// Tilted describes the tilted distribution p(y|s)^w N(s; m, v) / Z.
type Tilted struct {
	LogZ  float64 // log Z in nats
	Alpha float64 // dlogZ/dm: tilted mean = m + v*Alpha
	Beta  float64 // -d2logZ/dm2: tilted variance = v*(1 - v*Beta)
	Ratio float64 // tilted variance / v, kept apart because 1 - v*Beta cancels when the datum is sharp
}

// Likelihood is an observation model with its parameters (dispersion, shape) bound.
// Implementations are immutable values, safe for concurrent use.
type Likelihood interface {
	Family() string // "bernoulli", "poisson", ...
	Link() string   // "logit", "probit", "identity", "log", ...
	Traits() Traits

	// Check returns nil if o is inside the support, otherwise an error that says
	// what was found and what is allowed, for example
	// "y = 3: bernoulli takes 0 or 1 (or BOOLEAN)".
	Check(o Obs) error

	// LogLik returns w*log p(y|s) and its first two derivatives in s.
	LogLik(o Obs, s float64) (logp, d1, d2 float64)

	// Moments returns the tilted moments for s ~ N(m, v), v >= 0.
	Moments(o Obs, m, v float64) Tilted

	// Response is the inverse link g^-1(s): the expected response at a known s.
	Response(s float64) float64

	// Predict returns the mean and variance of a new response y (one trial,
	// weight 1) for s ~ N(m, v), with s integrated out.
	Predict(m, v float64) (mean, variance float64)

	// Moderated returns MacKay's approximation of the predictive mean
	// (Response(m/sqrt(1+pi*v/8)) for logit); families without one return the exact mean.
	Moderated(m, v float64) float64

	// Interval returns the central interval of probability level (0 < level < 1):
	// of the response probability for binary families (a credible interval of
	// g^-1(s)), of a new response y otherwise (a predictive interval).
	Interval(m, v, level float64) (lower, upper float64)
}

// Params are the parameters shared by all families; each reads its own.
type Params struct {
	Dispersion float64 // gaussian noise variance, squared scale of studentt; 0 is 1
	Shape      float64 // negbinomial size, gamma shape, studentt degrees of freedom; 0 is the family's default
	// Quadrature is 0 for 'auto' (closed forms or adaptive nodes) or k > 0 for the
	// plain k-point Gauss-Hermite rule on N(m, v) (Zoeter 2007, section 2).
	Quadrature int
}
