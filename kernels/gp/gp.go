package gp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	// MaxRows bounds n: matrices of n² numbers are kept, 0.8 GB each at the limit, three of them
	// and five if a parameter is set by evidence.
	MaxRows = 10000
	// MaxInput bounds the numbers in x, so that squares of differences stay finite.
	MaxInput = 1e150
)

// Options holds the options of a fit. The zero value is the default.
type Options struct {
	Kernel         string  // one of Kernels; default rbf
	Lengthscale    float64 // > 0, default 1, in units of x
	SignalVariance float64 // > 0, default 1, of f
	Mean           float64 // of f, default 0

	// Auto parameters maximise the log evidence. A lengthscale or signal variance that is given as
	// well is one of several starting points. With the linear kernel only their quotient counts:
	// if both are auto, the lengthscale stays as given.
	AutoLengthscale, AutoSignalVariance, AutoMean bool
	// The likelihood's dispersion or shape maximises the evidence, too; its own value is a starting
	// point. Only for families that have one.
	AutoDispersion, AutoShape bool

	// Standardize centres the columns of x and divides them by their standard deviations, with the
	// rows' weights: lengthscales are in that unit. y stays as it is.
	Standardize bool

	MaxIter int     // Newton steps of one mode search, and steps of the parameter search; default 100
	Tol     float64 // distance to the mode, in posterior standard deviations, at which it is found; default 1e-8
	// TimeLimit ends the search with the best found so far and a status that says so; 0 = none.
	TimeLimit time.Duration
}

// Posterior is the fitted process with everything that prediction needs. Its fields are flat
// and may be stored and restored; Check reports whether restored ones are consistent.
type Posterior struct {
	Family, Link      string
	Shape, Dispersion float64 // of the family: Shape NaN if it has none, Dispersion then 1
	Kernel            string
	Lengthscale       float64
	SignalVariance    float64
	Mean              float64

	// X holds the rows of the fit in their order, without those of weight 0; rows of negative
	// curvature, which only likelihoods that are not log-concave have, come last.
	X *dense.Matrix
	// Center and Scale are, by column, subtracted from the rows and then divided by to give X; nil
	// if X holds the rows as given.
	Center, Scale []float64
	// Alpha is K⁻¹(f̂ - mean) = ∇ log p(y | f̂), in the order of X: the pull of each row.
	Alpha []float64
	// Root is T = L⁻¹ |W|½, lower triangular, packed row by row: T(i, j) at i(i+1)/2 + j,
	// n(n+1)/2 numbers. The last Negative rows of T add to the variance instead of
	// reducing it.
	Root     []float64
	Negative int

	N           int     // all rows, those of weight 0 as well
	LogEvidence float64 // Laplace's, in nats
	Iterations  int     // Newton steps of all mode searches
	Converged   bool
	Status      string // "ok" or one sentence
	Beside      string // lik.BesideMean of the rows or of rows left out, what hides their places, and a lengthscale that they contradict; not part of Status
}

// Fit finds the posterior of a Gaussian process, and with auto options its parameters.
//
// x is n x d, y has length n; weight (default 1), offset (0, added to f) and trials may be nil.
// Rows may repeat. Without rows the result is the prior.
//
// Errors: an option out of range; lengths that differ; more than MaxRows rows; x that is not
// finite or beyond MaxInput; a row outside the likelihood's support or impossible at the prior
// mean (these are kernels.ErrRow and number the row from 1); curvatures that overflow; the cause
// of ctx if it is cancelled, or if the time limit ends before there is a first posterior.
//
// Cost: n³/3 operations per Newton step, of which there are about 3 to 10, and n³ for the root;
// ten times the steps or more if a likelihood that is not log-concave gives up rows. With auto
// parameters some 20 to 60 mode searches, and 3n³ per gradient; otherwise up to 11 fits of 300 rows
// for a note (lengthscaleNote). The result is a function of the
// arguments alone, except for TimeLimit.
//
// Source: Rasmussen and Williams (2006), algorithms 3.1, 3.2 and 5.1.
func Fit(ctx context.Context, l lik.Likelihood, x *dense.Matrix, y, weight, offset, trials []float64, o Options) (p *Posterior, err error) {
	if l == nil || x == nil {
		return nil, fmt.Errorf("gp needs a likelihood and a matrix of rows")
	}
	s := stop.Watch(ctx, o.TimeLimit)
	defer s.End(&err)
	watched := *x
	watched.Stop = s
	return fit(l, &watched, y, weight, offset, trials, o)
}

func fit(l lik.Likelihood, x *dense.Matrix, y, weight, offset, trials []float64, o Options) (*Posterior, error) {
	k, err := o.check(l)
	if err != nil {
		return nil, err
	}
	d := &data{mode.Data{Lik: l, Y: y, Weight: weight, Trials: trials, Stop: x.Stop}, x, offset}
	if err := d.check(); err != nil {
		return nil, err
	}
	d = d.counting()
	need := 4.0 // distances, K, B and what the fit returns, in matrices of n x n
	if o.auto() {
		need += 2
	}
	var center, scale []float64
	if o.Standardize && d.x.Rows > 0 {
		d.x, center, scale = standardized(d.x, d.Weight)
	}
	n := float64(d.x.Rows)
	g, err := memory.Reserve(int64(8*(need*n*n+(20+3*float64(x.Cols))*n)), fmt.Sprintf("%d rows, whose covariance is kept several times", d.x.Rows))
	if err != nil {
		return nil, err
	}
	defer g.Release()
	s := newSearch(d, newGeometry(k, d.x), o)
	if d.x.Rows > 0 && o.auto() {
		err = s.byEvidence(o)
	} else if err = s.fit(o.parameters(l)); err == nil {
		err = s.highest()
	}
	if err != nil {
		return nil, err
	}
	p := s.posterior()
	p.N, p.Center, p.Scale = x.Rows, center, scale
	if p.Converged {
		if p.Beside = s.worseThanMeanNote(); p.Beside == "" {
			p.Beside = s.leftOutNote(p, o)
		}
		note, far := s.scaleNote(o)
		if !far && p.Beside == "" {
			note = kernels.Join(note, s.lengthscaleNote(o))
		}
		p.Beside = kernels.Join(note, p.Beside)
	}
	return p, nil
}

// standardized returns x with each column centred and in units of its standard deviation; a column
// of equal numbers becomes 0.
func standardized(x *dense.Matrix, weight []float64) (z *dense.Matrix, center, scale []float64) {
	z = dense.New(x.Rows, x.Cols)
	z.Stop = x.Stop
	column := make([]float64, x.Rows)
	for j := range x.Cols {
		for i := range column {
			column[i] = x.At(i, j)
		}
		mean, spread := design.Moments(column, weight)
		unit := design.Unit(mean, spread, true)
		center, scale = append(center, mean), append(scale, unit)
		for i, v := range column {
			z.Row(i)[j] = (v - mean) / unit
		}
	}
	return z, center, scale
}

func (o *Options) auto() bool {
	return o.AutoLengthscale || o.AutoSignalVariance || o.AutoMean || o.AutoDispersion || o.AutoShape
}

// parameters returns the given ones, and those of l.
func (o *Options) parameters(l lik.Likelihood) parameters {
	p := parameters{o.Lengthscale, o.SignalVariance, o.Mean, 1, 1}
	if d, ok := l.(lik.Dispersed); ok {
		p.dispersion = d.Dispersion()
	}
	if s, ok := l.(lik.Shaped); ok {
		p.shape = s.Shape()
	}
	return p
}

// check validates o and fills in the defaults.
func (o *Options) check(l lik.Likelihood) (kernel, error) {
	err := option.Check(&kernels.Options{MaxIter: o.MaxIter, Tol: o.Tol, TimeLimit: o.TimeLimit,
		Process: kernels.Process{Lengthscale: o.Lengthscale, SignalVariance: o.SignalVariance, Mean: o.Mean}})
	if err != nil {
		return kernel{}, err
	}
	o.Lengthscale, o.SignalVariance = kernels.Or(o.Lengthscale, 1), kernels.Or(o.SignalVariance, 1)
	o.MaxIter, o.Tol = kernels.Or(o.MaxIter, 100), kernels.Or(o.Tol, 1e-8)
	k, err := newKernel(o.Kernel)
	_, dispersed := l.(lik.Dispersed)
	_, shaped := l.(lik.Shaped)
	switch {
	case err != nil:
	case o.AutoDispersion && !dispersed:
		err = lik.Lacks(l, "dispersion")
	case o.AutoShape && !shaped:
		err = lik.Lacks(l, "shape")
	}
	return k, err
}

// data holds the rows.
type data struct {
	mode.Data
	x      *dense.Matrix
	offset []float64
}

// shift returns the known part of row i's predictor.
func (d *data) shift(i int) float64 {
	if d.offset == nil {
		return 0
	}
	return d.offset[i]
}

func (d *data) check() error {
	n := d.x.Rows
	if n > MaxRows {
		return fmt.Errorf("%d rows; allowed: up to %d, since matrices of n² numbers are kept: take a sample of the rows, or method laplace on features made of x", n, MaxRows)
	}
	for _, c := range []struct {
		name string
		v    []float64
		need bool
	}{{"y", d.Y, true}, {"weight", d.Weight, false}, {"offset", d.offset, false}, {"trials", d.Trials, false}} {
		if len(c.v) != n && (c.need || c.v != nil) {
			return fmt.Errorf("%s has %d values for the %d rows of x", c.name, len(c.v), n)
		}
	}
	for i := range n {
		if err := checkInput(d.x.Row(i)); err != nil {
			return kernels.RowError(fmt.Errorf("row %d: %w", i+1, err))
		}
		if !special.Finite(d.shift(i)) {
			return kernels.RowError(fmt.Errorf("row %d: offset = %v; allowed: finite numbers", i+1, d.offset[i]))
		}
		if err := d.Lik.Check(d.Obs(i)); err != nil {
			return kernels.RowError(fmt.Errorf("row %d: %w", i+1, err))
		}
	}
	return nil
}

// counting returns the rows whose weight is not 0. The others say nothing of f, but their places and
// responses would move the bounds and starts of a search by evidence.
func (d *data) counting() *data {
	if !slices.Contains(d.Weight, 0) {
		return d
	}
	var keep []int
	for i, w := range d.Weight {
		if w != 0 {
			keep = append(keep, i)
		}
	}
	return d.subset(keep)
}

// subset returns the rows keep of d.
func (d *data) subset(keep []int) *data {
	of := func(v []float64) []float64 {
		if v == nil {
			return nil
		}
		return pick(v, keep)
	}
	c := &data{d.Data, dense.NewUnder(d.x.Stop, len(keep), d.x.Cols), of(d.offset)}
	c.Y, c.Weight, c.Trials = of(d.Y), of(d.Weight), of(d.Trials)
	for a, i := range keep {
		copy(c.x.Row(a), d.x.Row(i))
	}
	return c
}

func checkInput(x []float64) error {
	for j, v := range x {
		if !(math.Abs(v) <= MaxInput) {
			return fmt.Errorf("x[%d] = %v; allowed: finite numbers up to %g in size; scale the inputs down", j+1, v, MaxInput)
		}
	}
	return nil
}
