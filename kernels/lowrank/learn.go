package lowrank

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// learner maximises the log evidence over what the options leave to be learnt: the variance of
// the weights that no prior names, the dispersion and the shape, on a log scale.
type learner struct {
	r      *Reduced
	s      *solver
	params lik.Params
	// ŨᵀΣ0Ũ = fixed + Σ variance_k free_k
	mode.Groups
	fixed    *dense.Matrix
	free     []*dense.Matrix
	variance []float64
	chol     *dense.Matrix // the factor L of ŨᵀΣ0Ũ; T = Lᵀ
	// index in θ, -1 if not learnt
	dispersion, shape int
	best              float64 // the highest evidence so far
}

const (
	// How far prior variances, the dispersion and the shape may move from their start, on a log
	// scale. A dispersion below e^-23 of the responses' variance gives a curvature that uses up
	// all digits of the prior's.
	reach, dispersionReach, shapeReach = 30.0, 23.0, 16.0
	// differences is the step of the evidence's differences, on a log scale.
	differences = 1e-3
	// flat is how many nats below its maximum the evidence may end, which determines what is
	// learnt to 1e-6; ends is the gain left below which a value is moved to the end of its range.
	flat, ends = 1e-13, 1e-2
)

type learned struct {
	variance float64 // of weights of no column of levels; NaN if not learnt
	params   lik.Params
	lik      lik.Likelihood
	prior    *gauss.Normal
	status   string
	point    string // note about variances of columns of levels
	// The curvature of the log evidence in the logarithms of dispersion and shape; NaN if not
	// known.
	dispersion, shape float64
}

// value is a learnt parameter, on a log scale.
type value struct {
	name  string
	start float64 // in the units of the data
	low   float64 // the end of its range
	high  float64
	// receives its information; nil for prior variances, which are not integrated over here
	information *float64
}

// values returns the parameters that the options leave to be learnt.
func (l *learner) values(out *learned) (vs []value) {
	p := l.r.of
	l.dispersion, l.shape = -1, -1
	if p.LearnsPrior() {
		l.splitPrior()
		theta, err := l.Start(p)
		if err != nil {
			theta = mode.Logs(l.Given)
		}
		for k, name := range l.Names {
			what := "prior_variance"
			if name != "" {
				what += " of column " + name
			}
			vs = append(vs, value{name: what, start: theta[k], low: theta[k] - reach, high: theta[k] + reach})
		}
	}
	if p.Options.AutoDispersion {
		if _, ok := p.Lik.(lik.Dispersed); ok {
			l.dispersion = len(vs)
			at := math.Log(mode.FirstDispersion(p))
			vs = append(vs, value{"dispersion", at, at - dispersionReach, max(at+dispersionReach, mode.MostDispersion(p)), &out.dispersion})
		}
	}
	if p.Options.AutoShape {
		if d, ok := p.Lik.(lik.Shaped); ok {
			l.shape = len(vs)
			at := math.Log(d.Shape())
			vs = append(vs, value{"shape", at, max(at-shapeReach, math.Log(lik.MinShape)), at + shapeReach, &out.shape})
		}
	}
	return vs
}

// learn returns the best values and leaves r whitened by the resulting prior.
func learn(r *Reduced, s *solver) (*learned, error) {
	p := r.of
	l := &learner{r: r, s: s, params: p.Params, best: math.Inf(-1)}
	out := &learned{variance: math.NaN(), params: p.Params, lik: p.Lik, prior: r.Prior, dispersion: math.NaN(), shape: math.NaN()}
	vs := l.values(out)
	if len(vs) == 0 || p.N == 0 {
		return out, nil
	}
	at, err := l.climb(vs, out)
	if err != nil {
		return nil, err
	}
	for _, name := range l.Names {
		if name != "" && p.Options.Integrate {
			out.point = "learnt prior variances are those of the highest evidence: their uncertainty is not in the standard deviations (laplace and ep integrate over them)"
		}
	}
	for i, v := range vs {
		if i < len(l.Names) && at[i] < v.start-nearZero {
			flat, err := l.vanished(at, i, v.low)
			if err != nil {
				return nil, err
			}
			if flat {
				out.point = kernels.Join(mode.Zero(l.Names[i]), out.point)
				continue
			}
		}
		if mode.AtEnd(at[i], v.low, v.high) != 0 && out.status == "" {
			out.status = fmt.Sprintf("%s = %.3g is at the end of its range: the data do not bound it", v.name, math.Exp(at[i]))
			if v.name == "dispersion" { // its unit may not be that of the responses as given
				out.status = "the dispersion is at the end of its range: the data do not bound it"
			}
		}
		if v.information != nil {
			*v.information = information(l.evidence, at, i)
		}
	}
	if err := l.set(at); err != nil {
		return nil, err
	}
	out.params, out.lik = l.params, s.data.Lik
	if len(l.free) > 0 {
		if v, ok := l.Default(mode.Logs(l.variance)); ok {
			out.variance = v
		}
		if out.prior, err = l.prior(); err != nil {
			return nil, err
		}
		if err := r.whiten(out.prior); err != nil {
			return nil, err
		}
		clear(s.u)
		s.t, s.offset = r.T, r.Offset
	}
	return out, nil
}

// climb maximises the evidence from the best point of a coarse grid.
func (l *learner) climb(vs []value, out *learned) (at []float64, err error) {
	f := &mode.Function{Value: l.evidence, Step: differences, Flat: flat}
	var start, ending []float64
	var names []string
	for _, v := range vs {
		start, names = append(start, v.start), append(names, v.name)
		f.Lo, f.Hi, ending = append(f.Lo, v.low), append(f.Hi, v.high), append(ending, ends)
	}
	s := mode.Search{Lo: f.Lo, Hi: f.Hi, Late: l.late, Grid: true, Climbs: 1, Ends: ending, Stretch: true}
	at, out.status, err = s.From(f, l.Starts(start, l.dispersion))
	if err == nil && math.IsInf(l.best, -1) {
		err = fmt.Errorf("the log evidence is not finite")
	}
	if err != nil {
		return nil, fmt.Errorf("learning %s: %w", strings.Join(names, ", "), err)
	}
	return at, nil
}

// information returns the curvature of the log evidence at its maximum in parameter k, by a second
// difference; NaN if not known.
func information(evidence func(theta []float64) (float64, bool, error), at []float64, k int) float64 {
	const step = 0.1
	fall := 0.0
	for _, c := range []struct{ by, times float64 }{{0, 2}, {-step, -1}, {step, -1}} {
		theta := slices.Clone(at)
		theta[k] += c.by
		log, ok, err := evidence(theta)
		if err != nil || !ok {
			return math.NaN()
		}
		fall += c.times * log
	}
	return max(fall, 0) / (step * step)
}

// nearZero is how far, in logarithms, below its start a variance must be to be checked for 0, at
// the cost of two evidences each.
const nearZero = 7

// vanished reports whether the evidence at θ is that with θk at the low end, to a thousandth of a
// nat: a search for its maximum may end anywhere on the way there. It compares evidences because
// the reduced posterior has no variances of single weights, as mode.Groups.Vanished needs.
func (l *learner) vanished(theta []float64, k int, low float64) (bool, error) {
	here, ok, err := l.evidence(theta)
	if err != nil || !ok {
		return false, err
	}
	there := slices.Clone(theta)
	there[k] = low
	z, ok, err := l.evidence(there)
	return ok && z > here-1e-3, err
}

func (l *learner) late() bool { return l.s.data.Stop.Late() }

// evidence returns the log evidence at θ. If time is up it evaluates no more: the best so far is
// returned.
func (l *learner) evidence(theta []float64) (float64, bool, error) {
	if l.late() && !math.IsInf(l.best, -1) {
		return 0, false, nil
	}
	if err := l.set(theta); err != nil {
		return 0, false, err
	}
	if err := l.s.run(); err != nil {
		clear(l.s.u)
		if errors.Is(err, dense.ErrNotPD) { // beyond double precision here, but maybe not elsewhere
			return 0, false, nil
		}
		return 0, false, err
	}
	z := l.s.logZ()
	if !special.Finite(z) {
		return 0, false, nil
	}
	l.best = max(l.best, z)
	return z, true, nil
}

// set sets prior and likelihood to those of θ.
func (l *learner) set(theta []float64) error {
	if n := len(l.free); n > 0 {
		if err := l.setVariances(theta[:n]); err != nil {
			return err
		}
	}
	if l.dispersion >= 0 {
		l.params.Dispersion = math.Exp(theta[l.dispersion])
	}
	if l.shape >= 0 {
		l.params.Shape = math.Exp(theta[l.shape])
	}
	if l.dispersion < 0 && l.shape < 0 {
		return nil
	}
	return l.setLik()
}

func (l *learner) setLik() error {
	k, err := lik.Remake(l.s.data.Lik, l.params)
	if err == nil {
		l.s.setLik(k)
	}
	return err
}

// splitPrior splits ŨᵀΣ0Ũ into the given part and a part for the variance of each group
// (mode.NewGroups) of columns that no prior names, independent of the others.
func (l *learner) splitPrior() {
	r := l.r
	p, k := r.of, r.K()
	l.Groups = mode.NewGroups(p)
	l.variance = slices.Clone(l.Given)
	given := r.basis.Clone()
	for g := range l.Names {
		free := r.basis.Clone()
		for j, of := range l.Of {
			if of == g {
				clear(given.Row(j))
			} else {
				clear(free.Row(j))
			}
		}
		m := dense.New(k, k)
		dense.Gram(m, free, nil)
		l.free = append(l.free, m)
	}
	l.fixed, l.chol = dense.New(k, k), dense.New(k, k)
	r.root.MulTMat(given, given)
	dense.Gram(l.fixed, given, nil)
}

// setVariances changes the coordinates to those of other prior variances, with logarithms theta, and
// changes u so that γ = Tᵀu stays the same.
func (l *learner) setVariances(theta []float64) error {
	for k, x := range theta {
		l.variance[k] = math.Exp(x)
	}
	s := l.s
	gamma := memory.Floats(len(s.u))
	dense.GemvT(gamma, s.t, s.u)
	for i := range l.chol.Rows {
		for j := range l.chol.Row(i) {
			sum := l.fixed.At(i, j)
			for k, v := range l.variance {
				sum += v * l.free[k].At(i, j)
			}
			l.chol.Row(i)[j] = sum
		}
	}
	if err := dense.Cholesky(l.chol); err != nil {
		return fmt.Errorf("prior_variance = %g: %w", l.variance, err)
	}
	s.t = l.chol.T()
	copy(s.u, gamma)
	dense.SolveLowerVec(l.chol, s.u)
	return nil
}

// prior returns the prior with the learnt variances.
func (l *learner) prior() (*gauss.Normal, error) {
	return l.Prior(l.r.Prior, mode.Logs(l.variance))
}
