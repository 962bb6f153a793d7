package lowrank

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// passTol is the distance to the mode, in posterior standard deviations, at which a pass has
// converged: its step ends at the square of that.
const passTol = 1e-6

// rankTol is the least singular value, relative to the largest one, whose square can be
// distinguished from 0 in rounded sums.
const rankTol = 1e-7

// passProblem is a pass in the scales of the problem.
type passProblem struct {
	*kernels.Problem
	s    *Pass
	std  *kernels.Standard
	fill []float64
}

// problem returns the problem of all rows of s.
func (s *Pass) problem(halt *stop.Stop, m *kernels.Model) (*passProblem, error) {
	t, d := s.totals, s.dict.Clone()
	t.Numbers, t.Columns = slices.Clone(t.Numbers), s.counted.Columns()
	q, std, fill, err := kernels.Unseen(halt, m, &d, &t, 1)
	if err != nil {
		return nil, err
	}
	if d.Len() != s.dict.Len() || s.forced() > 0 && (d.Len() == 0 || string(d.Name(0)) != kernels.Intercept) {
		return nil, fmt.Errorf("the state lacks features that the model names: %w", errPass)
	}
	if s.dirs != nil && s.dirs.Rows != d.Len() {
		return nil, fmt.Errorf("the state has %d features and directions of %d: %w", d.Len(), s.dirs.Rows, errPass)
	}
	if q.P < d.Len() {
		for id, w := range m.PriorOf(&d) {
			if w.Variance == 0 {
				return nil, knownError(string(d.Name(uint32(id))))
			}
		}
	}
	return &passProblem{q, s, std, fill}, nil
}

// rowScale sets the transformation of rows to the columns of the problem.
func (p *passProblem) rowScale(c *rowScale, features int) error {
	c.scale, c.shift, c.base, c.fill = slices.Repeat([]float64{1}, features), make([]float64, features), make([]float64, features), make([]float64, features)
	copy(c.fill, p.fill)
	for j := range p.P {
		id := p.Feature(j)
		c.scale[id], c.shift[id], c.base[id] = p.std.Scale[j], p.std.Shift[j], p.Normal.Mean[j]
		c.based = c.based || c.base[id] != 0
		if c.shift[id] != 0 {
			c.centred = append(c.centred, id)
		}
	}
	c.lik, c.unit, c.origin, c.located = p.Lik, p.std.Unit, p.std.Origin, p.Lik.Traits().Located
	return nil
}

// spanned returns an orthonormal basis of the sketch.
func (p *passProblem) spanned() (*dense.Matrix, error) {
	out := p.Matrix(p.s.sketch.Rows, p.s.sketch.Cols)
	for j := range out.Rows {
		p.Stop.Row(j)
		copy(out.Row(j), p.s.sketch.Row(j))
	}
	f := p.s.forced()
	part := out.Slice(f, out.Rows, 0, out.Cols)
	y := part.Clone() // the intercept is not part of it
	moderate(y)
	if err := orthonormalise(y, 2); err != nil {
		return nil, err
	}
	for j := range f {
		clear(out.Row(j))
	}
	for j := range y.Rows {
		y.Stop.Row(j)
		copy(part.Row(j), y.Row(j))
	}
	return out, nil
}

// decompose sets the leading right singular vectors and their singular values of d: the basis W of
// the pass times the eigenvectors of WᵀXᵀXW.
func (p *passProblem) decompose(d *Pass) error {
	s := p.s
	l := s.dirs.Cols
	g := p.Matrix(l, l)
	dense.MulTA(g, s.dirs, s.sketch)
	if !dense.Finite(g) {
		return errOverflow
	}
	for i := range l {
		for j := range i {
			v := 0.5 * (g.At(i, j) + g.At(j, i))
			g.Row(i)[j], g.Row(j)[i] = v, v
		}
	}
	e, v, err := dense.Eigen(g)
	if err != nil {
		return err
	}
	turn := p.Matrix(l, l) // by decreasing eigenvalue
	var all []float64
	for c := range l {
		from := l - 1 - c
		all = append(all, math.Sqrt(max(e[from], 0)))
		for i := range l {
			turn.Row(i)[c] = v.At(i, from)
		}
	}
	got := 0
	for got < l && all[got] > rankTol*all[0] {
		got++
	}
	m := min(s.rank, l)
	switch {
	case got > m:
		d.next = all[m]
	case got < l || s.exact:
		d.exact = true
	default:
		d.next = math.NaN()
	}
	m = min(m, got)
	d.singular = all[:m:m]
	d.dirs = p.Matrix(s.dirs.Rows, m)
	dense.Mul(d.dirs, s.dirs, turn.Slice(0, l, 0, m))
	return nil
}

// reduced returns the coordinates of the directions of d under the prior.
func (p *passProblem) reduced(d *Pass) (*Reduced, error) {
	f := d.forced()
	r := &Reduced{of: p.Problem, rows: int(p.s.totals.Rows), Forced: f, Clamped: d.clamped, Factors: &Factors{S: d.singular, Next: d.next, Exact: d.exact}}
	r.basis = dense.New(p.P, f+d.dirs.Cols)
	for j := range p.P {
		p.Stop.Row(j)
		id := int(p.Feature(j))
		copy(r.basis.Row(j)[f:], d.dirs.Row(id))
		if f > 0 && id == 0 {
			r.basis.Row(j)[0] = 1
		}
	}
	return r, r.coordinates(p.Normal)
}

// moveTo moves the point of d to u.
func (r *Reduced) moveTo(d *Pass, u []float64) {
	d.u, d.at = u, make([]float64, len(u))
	dense.GemvT(d.at, r.T, u)
}

// start sets the point of d to the prior mean or, with a log link, to where the intercept alone
// gives the mean response.
func (p *passProblem) start(d *Pass) error {
	r, err := p.reduced(d)
	if err != nil {
		return err
	}
	k := r.K()
	u := make([]float64, k)
	if mean := p.s.totals.Y.Center; d.forced() > 0 && p.Lik.Traits().LogMean && mean > 0 {
		gram := p.Matrix(k, k)
		dense.Gram(gram, r.T, nil)
		if dense.Cholesky(gram) == nil {
			g := make([]float64, k)
			g[0] = math.Log(mean) - p.Normal.Mean[0]
			dense.SolveLowerVec(gram, g)
			dense.SolveLowerTVec(gram, g)
			dense.Gemv(u, r.T, g)
		}
	}
	r.moveTo(d, u)
	return nil
}

// newton is the Newton step of a pass in the coordinates of r, by the eigenvectors of the curvature:
// S = T G Tᵀ = V diag(e) Vᵀ.
type newton struct {
	p       *passProblem
	r       *Reduced
	earlier kernels.Earlier
	e       []float64
	v       *dense.Matrix
	slope   []float64 // Vᵀ T g
	u       []float64 // Vᵀ u
	squares float64   // Gaussian: Σ w (y - η)² at the point
	noise   float64   // the dispersion to which these belong
}

func (p *passProblem) newton() (*newton, error) {
	s := p.s
	r, err := p.reduced(s)
	if err != nil {
		return nil, err
	}
	k := r.K()
	n := &newton{p: p, r: r, earlier: p.Earlier(), noise: 1, slope: make([]float64, k), u: make([]float64, k)}
	g, half, curv := p.Matrix(k, k), p.Matrix(k, k), p.Matrix(k, k)
	for i := range k {
		for j := range i + 1 {
			g.Row(i)[j], g.Row(j)[i] = s.gram.At(i, j), s.gram.At(i, j)
		}
	}
	dense.Mul(half, r.T, g)
	dense.MulTB(curv, half, r.T)
	for i := range k {
		for j := range i {
			curv.Row(j)[i] = curv.Row(i)[j]
		}
	}
	if n.e, n.v, err = dense.Eigen(curv); err != nil {
		return nil, fmt.Errorf("the curvature of the log posterior: %w; scale the features down", err)
	}
	for j := range n.e {
		n.e[j] = max(n.e[j], 0)
	}
	white := make([]float64, k)
	dense.Gemv(white, r.T, s.slope)
	dense.GemvT(n.slope, n.v, white)
	dense.GemvT(n.u, n.v, s.u)
	if l, ok := p.Lik.(lik.Dispersed); ok {
		n.noise = l.Dispersion()
	}
	w := s.totals.Weight
	n.squares = max(-2*n.noise*(s.logLik+0.5*w*math.Log(2*math.Pi*n.noise)), 0)
	return n, nil
}

// height returns the log posterior at the point, up to a constant.
func (n *newton) height() float64 { return n.p.s.logLik - 0.5*dense.Dot(n.u, n.u) }

// step returns the step to the mode of the parabola, for a gaussian under another dispersion, the
// distance to that mode and the log evidence there.
func (n *newton) step(noise float64) (step []float64, distance, logZ float64) {
	by := n.noise / noise
	logZ = n.p.s.logLik
	if by != 1 {
		logZ = -0.5*n.p.s.totals.Weight*math.Log(2*math.Pi*noise) - 0.5*n.squares/noise
	}
	step = make([]float64, len(n.e))
	rise := 0.0
	for j, e := range n.e {
		c, b := by*n.slope[j]-n.u[j], 1+by*e
		step[j] = c / b
		rise += c * c / b
		logZ -= 0.5*n.u[j]*n.u[j] + 0.5*math.Log(b)
	}
	return step, math.Sqrt(rise), logZ + 0.5*rise + n.earlier.NoiseLog(noise)
}

// stepBack returns a point part of the way from the previous point, if the present one is worse.
func (n *newton) stepBack() (u []float64, is bool) {
	s := n.p.s
	h := n.height()
	if s.from == nil || h >= s.height-1e-9*(1+math.Abs(s.height)) {
		return nil, false
	}
	part := 0.5
	if math.IsInf(h, -1) {
		part = 0.1
	}
	u = slices.Clone(s.from)
	for j := range u {
		u[j] += part * (s.u[j] - u[j])
	}
	return u, true
}

// onward sets the point of d to the end of the pass's step.
func (p *passProblem) onward(d *Pass) error {
	n, err := p.newton()
	if err != nil {
		return err
	}
	if u, is := n.stepBack(); is {
		d.from, d.height = p.s.from, p.s.height
		n.r.moveTo(d, u)
		return nil
	}
	if math.IsInf(p.s.logLik, -1) {
		return errStart
	}
	step, _, _ := n.step(n.noise)
	u := slices.Clone(p.s.u)
	move := make([]float64, len(u))
	dense.Gemv(move, n.v, step)
	dense.Axpy(1, move, u)
	d.from, d.height = p.s.u, n.height()
	n.r.moveTo(d, u)
	return nil
}

// Solve returns the fit after the step of the pass, under model m, whose options must be those of
// the passes: the prior while directions are sought. It has converged, and is the fit with the rows
// kept, if the point was within tol (1e-6) standard deviations of the mode. Its status has no bound
// on the mean, which requires the rows (Fit). distance is that to the mode, by the curvature; NaN
// if there is none yet. Errors: a model that differs from that of the pass, a point where the
// likelihood is not finite; the cause of ctx if it is cancelled.
func (s *Pass) Solve(ctx context.Context, m *kernels.Model) (f *kernels.Fit, distance float64, err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	m = m.Complete()
	if err := checkPass(m); err != nil {
		return nil, 0, err
	}
	if h := headOf(m); h != s.head {
		return nil, 0, fmt.Errorf("the pass was made with other options: %v; found %v", s.head, h)
	}
	if err := s.checkSameRows(); err != nil {
		return nil, 0, fmt.Errorf("state: %w", err)
	}
	p, err := s.problem(halt, m)
	if err != nil {
		return nil, 0, err
	}
	f, distance, err = p.fit()
	if err == nil {
		err = p.std.Restore(f)
	}
	if err != nil {
		return nil, 0, err
	}
	f.AddStatus(kernels.SkippedNote(f.Skipped))
	if f.Converged {
		f.AddStatus(s.misfit.Note(m.Lik))
		f.AddStatus(s.misfit.Neighbours(distance))
		f.AddStatus(s.totals.BaseNote(m, s.logLik))
		f.AddStatus(f.CloseNote())
		f.AddStatus(f.CrossNote())
		f.AddStatus(f.GapNote(m))
	}
	return f, distance, f.Check()
}

func (p *passProblem) fit() (f *kernels.Fit, distance float64, err error) {
	s := p.s
	if !s.steps() {
		f = p.Fit("lowrank", p.Normal, 0)
		f.LogEvidence, f.Iterations, f.Converged = math.NaN(), s.stage+1, false
		f.Status = fmt.Sprintf("no weights yet: this was %d of the %d passes that look for scales and directions; take the next one around this state", s.stage+1, s.pow+3)
		return f, math.NaN(), nil
	}
	n, err := p.newton()
	if err != nil {
		return nil, 0, err
	}
	_, worse := n.stepBack()
	if math.IsInf(s.logLik, -1) && !worse {
		return nil, 0, errStart
	}
	noise, nu := n.noise, 0.0
	l := p.Lik
	if s.learnsNoise(p) {
		if noise, nu, err = n.learn(); err != nil {
			return nil, 0, err
		}
		params := p.Params
		params.Dispersion = noise
		if l, err = lik.Remake(l, params); err != nil {
			return nil, 0, err
		}
	}
	step, distance, logZ := n.step(noise)
	u := slices.Clone(s.u)
	move := make([]float64, len(u))
	dense.Gemv(move, n.v, step)
	dense.Axpy(1, move, u)
	gone, keep := make([]float64, len(n.e)), make([]float64, len(n.e))
	for j, e := range n.e {
		e *= n.noise / noise
		gone[j], keep[j] = e/(1+e), 1/(1+e)
	}
	post, held, err := n.r.lift(u, n.v, gone, keep)
	if err != nil {
		return nil, 0, err
	}
	f = p.Fit("lowrank", post, logZ)
	f.SetLikelihood(l)
	if nu > 0 {
		f.LearnDeviation(f.Dispersion, nu)
	}
	f.Iterations = s.stage - s.pow - 2
	f.Converged = !worse && (distance <= max(passTol, p.Options.Tol) || l.Traits().Gaussian)
	switch {
	case worse:
		f.Status = "no convergence yet: the step led too far, and the next pass looks nearer to where it began; take it around this state"
	case !f.Converged:
		f.Status = fmt.Sprintf("no convergence yet: the pass was about %.2g posterior standard deviations from the mode; take another around this state", distance)
	default:
		f.Status = n.r.rankNote()
		switch {
		case n.r.rounded > 0:
			f.AddStatus(fmt.Sprintf("%d %s held at 1e-13 of the prior's, the limit of rounding", n.r.rounded, kernels.Inflect(n.r.rounded, "variance is", "variances are")))
		case held > 0:
			f.AddStatus(fmt.Sprintf("the variance of %d %s is held at the prior's", held, kernels.Inflect(held, "direction", "directions")))
		}
	}
	return f, distance, nil
}

// learnsNoise reports whether the dispersion is learnt.
func (s *Pass) learnsNoise(p *passProblem) bool {
	_, ok := p.Lik.(lik.Dispersed)
	return ok && p.Options.AutoDispersion && s.totals.Rows > 0
}

// learn returns the dispersion of highest evidence, and its degrees of freedom.
func (n *newton) learn() (noise, nu float64, err error) {
	best := math.Inf(-1)
	value := func(x []float64) (float64, bool, error) {
		_, _, z := n.step(math.Exp(x[0]))
		if special.Finite(z) {
			best = max(best, z)
		}
		return z, special.Finite(z), nil
	}
	start := math.Log(mode.FirstDispersion(n.p.Problem))
	f := &mode.Function{Value: value, Lo: []float64{start - reach}, Hi: []float64{start + reach}, Step: differences, Flat: flat}
	at, _, err := mode.Search{Lo: f.Lo, Hi: f.Hi, Late: func() bool { return false }, Ends: []float64{ends}, Stretch: true}.From(f, [][]float64{{start}})
	if err == nil && math.IsInf(best, -1) {
		err = fmt.Errorf("learning dispersion: the log evidence is not finite")
	}
	if err != nil {
		return 0, 0, err
	}
	return math.Exp(at[0]), 2 * information(value, at, 0), nil
}
