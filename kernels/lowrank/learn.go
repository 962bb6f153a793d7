package lowrank

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// learner maximises the log evidence over what the options leave to the data: the
// variance of the weights that no prior names, the dispersion and the shape. Each is
// searched on a log scale with the others held, in turn until nothing is gained.
type learner struct {
	r      *Reduced
	s      *solver
	params lik.Params
	// ŨᵀΣ0Ũ = fixed + Σ variance_k free_k
	mode.Groups
	fixed    *dense.Matrix
	free     []*dense.Matrix
	variance []float64
	chol     *dense.Matrix // its factor L; T = Lᵀ
	err      error         // of the latest evaluation
	tried    bool
}

// limits of what is learnt, on a log scale around where it starts.
const (
	reach     = 30.0 // e^±30 = 10^±13
	learnTol  = 1e-6 // on a log scale, where the evidence is flat
	maxCycles = 30
)

type learned struct {
	variance float64 // of weights of no column of levels; NaN if it is not learnt
	params   lik.Params
	lik      lik.Likelihood
	prior    *gauss.Normal
	status   string
	point    string // what is said of variances of columns of levels
	// The curvature of the log evidence in the logarithms of dispersion and shape; NaN where it is
	// not known.
	dispersion, shape float64
}

// value is one of what is learnt, on a log scale.
type value struct {
	name  string
	start float64 // in the units of the data
	high  float64 // how far it may go, where that is more than reach from start
	set   func(x float64) error
	// where its information goes; nil for prior variances, which are not summed over here
	information *float64
}

func (v *value) most() float64 { return max(v.start+reach, v.high) }

// values are what the options leave to the data; last is the place of the dispersion, -1 for none.
func (l *learner) values(out *learned) (vs []value, last int, err error) {
	p := l.r.of
	last = -1
	if p.LearnsPrior() {
		if err := l.splitPrior(); err != nil {
			return nil, 0, err
		}
		theta, err := l.Start(p)
		if err != nil {
			theta = logs(l.Given)
		}
		for k, name := range l.Names {
			what := "prior_variance"
			if name != "" {
				what += " of column " + name
			}
			vs = append(vs, value{name: what, start: theta[k], high: theta[k], set: func(x float64) error { return l.setVariance(k, x) }})
		}
	}
	if p.Options.AutoDispersion {
		if _, ok := p.Lik.(lik.Dispersed); ok {
			last = len(vs)
			vs = append(vs, value{"dispersion", math.Log(mode.Variance(p) / 2), mode.MostDispersion(p), func(x float64) error { l.params.Dispersion = math.Exp(x); return l.setLik() }, &out.dispersion})
		}
	}
	if p.Options.AutoShape {
		if d, ok := p.Lik.(lik.Shaped); ok {
			vs = append(vs, value{"shape", math.Log(d.Shape()), math.Log(d.Shape()), func(x float64) error { l.params.Shape = math.Exp(x); return l.setLik() }, &out.shape})
		}
	}
	return vs, last, nil
}

// learn returns the best values and leaves r whitened by the prior they make.
func learn(r *Reduced, s *solver) (*learned, error) {
	p := r.of
	l := &learner{r: r, s: s, params: p.Params}
	out := &learned{variance: math.NaN(), params: p.Params, lik: p.Lik, prior: r.Prior, dispersion: math.NaN(), shape: math.NaN()}
	vs, last, err := l.values(out)
	if err != nil || len(vs) == 0 || p.N == 0 {
		return out, err
	}
	at, best, err := l.grid(vs, last)
	if err != nil {
		return nil, err
	}
	if best, out.status, err = l.climb(vs, at, best); err != nil {
		return nil, err
	}
	for _, name := range l.Names {
		if name != "" && p.Options.Integrate {
			out.point = "learnt prior variances are those of the highest evidence: what the rows leave open of them is not in the deviations (laplace and ep integrate over them)"
		}
	}
	for i, v := range vs {
		if (at[i] < v.start-reach+0.1 || at[i] > v.most()-0.1) && out.status == "" {
			out.status = fmt.Sprintf("%s = %.3g is at the end of its range: the data do not bound it", v.name, math.Exp(at[i]))
			if v.name == "dispersion" { // whose unit may not be that of the responses as they came
				out.status = "the dispersion is at the end of its range: the data do not bound it"
			}
		}
		if v.information == nil {
			continue
		}
		if *v.information = l.information(v.set, at[i], best); l.err != nil {
			return nil, fmt.Errorf("learning %s: %w", v.name, l.err)
		}
	}
	out.params, out.lik = l.params, s.data.Lik
	if len(l.free) > 0 {
		if v, ok := l.Default(logs(l.variance)); ok {
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

// grid sets the best point of a coarse grid, which what is learnt is not below.
func (l *learner) grid(vs []value, last int) (at []float64, best float64, err error) {
	for _, v := range vs {
		at = append(at, v.start)
	}
	best = math.Inf(-1)
	set := func(theta []float64) error {
		for i, x := range theta {
			if err := vs[i].set(x); err != nil {
				return fmt.Errorf("learning %s: %w", vs[i].name, err)
			}
		}
		return nil
	}
	for _, theta := range l.Starts(slices.Clone(at), last) {
		if z := l.evidence(func(float64) error { return set(theta) }, 0); z > best {
			best, at = z, theta
		}
	}
	return at, best, set(at)
}

// climb maximises over each value in turn until nothing is gained.
func (l *learner) climb(vs []value, at []float64, best float64) (_ float64, status string, err error) {
	for range maxCycles {
		before := best
		for i, v := range vs {
			f := func(x float64) float64 { return l.evidence(v.set, x) }
			at[i], best = maximise(f, at[i], v.start-reach, v.most())
			if math.IsInf(best, -1) {
				if l.err == nil {
					l.err = fmt.Errorf("the log evidence is not finite")
				}
				return 0, "", fmt.Errorf("learning %s: %w", v.name, l.err)
			}
			if err := v.set(at[i]); err != nil {
				return 0, "", err
			}
			if l.late() {
				return best, "time_limit ended the search for " + v.name, nil
			}
		}
		if len(vs) == 1 || best-before <= 1e-9*(1+math.Abs(best)) {
			return best, "", nil
		}
	}
	return best, fmt.Sprintf("the evidence still rises after %d rounds of learning", maxCycles), nil
}

// information is the curvature of the log evidence, best at x, in one value, by a second
// difference; all is as before it then.
func (l *learner) information(set func(float64) error, x, best float64) float64 {
	const step = 0.1
	u := slices.Clone(l.s.u)
	down, up := l.evidence(set, x-step), l.evidence(set, x+step)
	l.err = set(x)
	copy(l.s.u, u)
	if fall := 2*best - down - up; special.Finite(fall) {
		return max(fall, 0) / (step * step)
	}
	return math.NaN()
}

func (l *learner) late() bool { return l.s.data.Stop.Late() }

// evidence is the log evidence with one value set, -Inf where there is none.
func (l *learner) evidence(set func(float64) error, x float64) float64 {
	if l.tried && l.late() { // nothing more: the best of what was found is returned
		return math.Inf(-1)
	}
	l.tried = true
	if l.err = set(x); l.err != nil {
		return math.Inf(-1)
	}
	if l.err = l.s.run(); l.err != nil {
		clear(l.s.u)
		return math.Inf(-1)
	}
	if z := l.s.logZ(); !math.IsNaN(z) {
		return z
	}
	return math.Inf(-1)
}

func (l *learner) setLik() error {
	k, err := lik.Remake(l.s.data.Lik, l.params)
	if err == nil {
		l.s.setLik(k)
	}
	return err
}

// splitPrior takes ŨᵀΣ0Ũ apart into what is given and what has the variance of each group
// (mode.NewGroups), the columns that no prior names, independent of the others.
func (l *learner) splitPrior() error {
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
	if len(l.free) == 0 {
		return nil
	}
	return l.setVariance(0, math.Log(l.variance[0]))
}

// setVariance changes the coordinates to those of another prior variance of group g; u moves
// so that γ = Tᵀu stays.
func (l *learner) setVariance(g int, x float64) error {
	was := l.variance[g]
	l.variance[g] = math.Exp(x)
	s := l.s
	gamma := make([]float64, len(s.u))
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
		l.variance[g] = was
		return fmt.Errorf("prior_variance = %g: %w", math.Exp(x), err)
	}
	s.t = l.chol.T()
	copy(s.u, gamma)
	dense.SolveLowerVec(l.chol, s.u)
	return nil
}

// prior is the prior with the learnt variances.
func (l *learner) prior() (*gauss.Normal, error) {
	return l.Prior(l.r.Prior, logs(l.variance))
}

func logs(v []float64) []float64 {
	out := make([]float64, len(v))
	for k, x := range v {
		out[k] = math.Log(x)
	}
	return out
}

// maximise finds a maximum of f in [lo, hi]: uphill from x in growing steps until it
// is bracketed, then golden sections with parabolas ([brent1973]). Values of -Inf are
// avoided.
func maximise(f func(float64) float64, x, lo, hi float64) (at, best float64) {
	const golden = 0.3819660112501051
	b, fb := x, f(x)
	dir, step := 1.0, 0.5
	c := min(b+step, hi)
	fc := f(c)
	a := max(b-step, lo)
	if fc <= fb {
		dir = -1
		c, a = a, c
		fc = f(c)
	}
	for fc > fb { // b is the best so far, a behind it, c ahead of it
		a, b, fb = b, c, fc
		step *= 2
		c = min(max(b+dir*step, lo), hi)
		if c == b {
			break
		}
		fc = f(c)
	}
	if a > c {
		a, c = c, a
	}
	// Brent's section in [a, c] from b; w and v are the second and third best.
	w, v, fw, fv := b, b, fb, fb
	d, e := 0.0, 0.0
	for range 100 {
		mid := 0.5 * (a + c)
		if math.Abs(b-mid)+0.5*(c-a) <= 2*learnTol {
			break
		}
		parabola := false
		if math.Abs(e) > learnTol && special.Finite(fw) && special.Finite(fv) {
			r := (b - w) * (fb - fv)
			q := (b - v) * (fb - fw)
			num := (b-v)*q - (b-w)*r
			q = 2 * (q - r)
			if q > 0 {
				num = -num
			}
			q = math.Abs(q)
			last := e
			e = d
			if math.Abs(num) < math.Abs(0.5*q*last) && num > q*(a-b) && num < q*(c-b) {
				d = num / q
				if u := b + d; u-a < 2*learnTol || c-u < 2*learnTol {
					d = math.Copysign(learnTol, mid-b)
				}
				parabola = true
			}
		}
		if !parabola {
			if b >= mid {
				e = a - b
			} else {
				e = c - b
			}
			d = golden * e
		}
		u := b + d
		if math.Abs(d) < learnTol {
			u = b + math.Copysign(learnTol, d)
		}
		fu := f(u)
		if fu >= fb {
			if u >= b {
				a = b
			} else {
				c = b
			}
			v, fv, w, fw, b, fb = w, fw, b, fb, u, fu
			continue
		}
		if u < b {
			a = u
		} else {
			c = u
		}
		switch {
		case fu >= fw || w == b:
			v, fv, w, fw = w, fw, u, fu
		case fu >= fv || v == b || v == w:
			v, fv = u, fu
		}
	}
	return b, fb
}
