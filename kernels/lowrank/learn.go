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
	// The curvature of the log evidence in the logarithms of dispersion and shape; NaN where it is
	// not known.
	dispersion, shape float64
}

// learn returns the best values and leaves r whitened by the prior they make.
func learn(r *Reduced, s *solver) (*learned, error) {
	p := r.of
	o := &p.Options
	l := &learner{r: r, s: s, params: p.Params}
	var set []func(x float64) error
	var names []string
	var start []float64 // in the units of the data
	last := -1          // the dispersion
	if p.LearnsPrior() {
		if err := l.splitPrior(); err != nil {
			return nil, err
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
			names, start = append(names, what), append(start, theta[k])
			set = append(set, func(x float64) error { return l.setVariance(k, x) })
		}
	}
	if o.AutoDispersion {
		if _, ok := p.Lik.(lik.Dispersed); ok {
			last = len(names)
			names = append(names, "dispersion")
			start = append(start, math.Log(mode.Variance(p)/2))
			set = append(set, func(x float64) error { l.params.Dispersion = math.Exp(x); return l.setLik() })
		}
	}
	if o.AutoShape {
		if d, ok := p.Lik.(lik.Shaped); ok {
			names = append(names, "shape")
			start = append(start, math.Log(d.Shape()))
			set = append(set, func(x float64) error { l.params.Shape = math.Exp(x); return l.setLik() })
		}
	}
	out := &learned{variance: math.NaN(), params: l.params, lik: p.Lik, prior: r.Prior, dispersion: math.NaN(), shape: math.NaN()}
	if len(set) == 0 || p.N == 0 {
		return out, nil
	}
	best := math.Inf(-1)
	at := append([]float64(nil), start...)
	// A coarse grid first: what is learnt is not below it.
	for _, theta := range l.Starts(start, last) {
		z := l.evidence(func(float64) error {
			for i, x := range theta {
				if err := set[i](x); err != nil {
					return err
				}
			}
			return nil
		}, 0)
		if z > best {
			best, at = z, theta
		}
	}
	for i, x := range at {
		if err := set[i](x); err != nil {
			return nil, fmt.Errorf("learning %s: %w", names[i], err)
		}
	}
	cycle := 0
	for ; cycle < maxCycles; cycle++ {
		before := best
		for i := range set {
			f := func(x float64) float64 { return l.evidence(set[i], x) }
			at[i], best = maximise(f, at[i], start[i]-reach, start[i]+reach)
			if math.IsInf(best, -1) {
				if l.err == nil {
					l.err = fmt.Errorf("the log evidence is not finite")
				}
				return nil, fmt.Errorf("learning %s: %w", names[i], l.err)
			}
			if err := set[i](at[i]); err != nil {
				return nil, err
			}
			if l.late() {
				out.status = "time_limit ended the search for " + names[i]
				break
			}
		}
		if out.status != "" || len(set) == 1 || best-before <= 1e-9*(1+math.Abs(best)) {
			break
		}
	}
	if cycle == maxCycles {
		out.status = fmt.Sprintf("the evidence still rises after %d rounds of learning", cycle)
	}
	for i, x := range at {
		if math.Abs(x-start[i]) > reach-0.1 && out.status == "" {
			out.status = fmt.Sprintf("%s = %.3g is at the end of its range: the data do not bound it", names[i], math.Exp(x))
		}
	}
	for i, what := range names {
		if information := &out.dispersion; what == "dispersion" || what == "shape" {
			if what == "shape" {
				information = &out.shape
			}
			if *information = l.information(set[i], at[i], best); l.err != nil {
				return nil, fmt.Errorf("learning %s: %w", what, l.err)
			}
		}
	}
	out.params, out.lik = l.params, s.data.Lik
	if len(l.free) > 0 {
		if v, ok := l.Default(logs(l.variance)); ok {
			out.variance = v
		}
		var err error
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
	k, err := lik.New(l.s.data.Lik.Family(), l.s.data.Lik.Link(), l.params)
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
