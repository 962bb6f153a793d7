package laplace

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Learning by passes. With value, slope g and curvature H of the log likelihood at a point u, the
// log evidence under prior variances θ is, to second order about u,
//
//	max_w [ℓ + gᵀ(w-u) - ½ (w-u)ᵀH(w-u) - ½ (w-μ0)ᵀΛ0(w-μ0)] - ½ log |I + Σ0H| - ½ tᵀ(w-u)
//
// with t = Σ q x dW/dη, the derivative of log |Λ0 + H| in the weights, and q = xᵀΣx the variances
// of the predictors. It needs no rows. If u is the mode under θ, and q belongs to the posterior
// there, its slope in θ is that of the Laplace evidence itself (learner): joint steps of u and θ,
// one per pass, converge to the same point as with the rows kept.

// starting is what a pass keeps of Around for learning: initial prior variances, and the number of
// rows behind its covariance, 0 if there is none. sum is the sum of the weights' variances, by which
// two covariances are told apart.
type starting struct {
	rows, variance, sum float64
	by                  kernels.ColumnPriors
}

func startOf(f *kernels.Fit) (s starting) {
	if f == nil {
		return s
	}
	s.rows, s.variance = float64(f.N), f.Prior.Variance
	for _, b := range f.Beliefs {
		s.sum += b.Variance
	}
	for _, c := range f.Columns {
		if c.Variance > 0 {
			s.by = append(s.by, kernels.ColumnPrior{Column: c.Name, Variance: c.Variance})
		}
	}
	return s
}

// of returns the initial variance of a group of weights, 0 if there is none.
func (s *starting) of(group string) float64 {
	if s.rows == 0 || group == "" {
		return s.variance
	}
	if c := s.by.Of(group); c != nil {
		return c.Variance
	}
	return 0
}

// spread computes the covariance of Around in the point's coordinates, to which begin transforms its
// weights. Cost: p³.
func (s *Pass) spread(halt *stop.Stop) error {
	if !s.learns && !s.sites || s.model.Around == nil || s.model.Lik.Traits().Gaussian {
		return nil
	}
	post, at, err := s.model.Around.Joint(halt)
	if err == nil {
		post, err = post.ToFull()
	}
	if err != nil {
		return fmt.Errorf("around: %w", err)
	}
	p := len(s.at)
	if need := 24 * int64(p) * int64(p); need > 1<<24 {
		if err := memory.Room(need, fmt.Sprintf("the covariance of %d weights of the fit around", p)); err != nil {
			return err
		}
	}
	root := dense.NewUnder(halt, p, len(at))
	for k, i := range at {
		if id, ok := s.dict.Find(s.model.Around.Beliefs[i].Feature); ok {
			copy(root.Row(int(id)), post.L.Row(k)[:k+1])
		}
	}
	own := root.Clone()
	for id, c := range s.shift {
		if c != 0 {
			dense.Axpy(c, own.Row(id), root.Row(0))
		}
	}
	for id := range p {
		halt.Row(id)
		if column, j, ok := s.column(id); ok {
			dense.Axpy(s.center(column)-s.shift[j], own.Row(j), root.Row(id))
		}
	}
	s.cov = dense.NewUnder(halt, p, p)
	dense.MulTB(s.cov, root, root)
	s.cov.Stop = nil // rows come with contexts of their own
	return nil
}

// variance returns the variance of the predictor of a row with features fs and values xs under the
// covariance of Around, and what it would be with independent weights; unknown features add nothing.
func (s *Pass) variance(fs []uint32, xs []float64) (q, apart float64) {
	for k, f := range fs {
		if int(f) >= s.cov.Rows {
			continue
		}
		row, sum := s.cov.Row(int(f)), 0.0
		for j, g := range fs[:k] {
			if int(g) < len(row) {
				sum += row[g] * xs[j]
			}
		}
		q += xs[k] * (2*sum + row[f]*xs[k])
		apart += xs[k] * row[f] * xs[k]
	}
	return q, apart
}

// fit computes the step.
func (n *newtonStep) fit() (*kernels.Fit, error) {
	q := n.q
	root, err := q.Normal.Root()
	if err != nil {
		return nil, err
	}
	n.logLik, n.noise = n.Pass.logLik+n.totals.Weight*math.Log(n.std.Response()), 1
	if l, ok := q.Lik.(lik.Dispersed); ok {
		n.noise = l.Dispersion()
	}
	w := n.totals.Weight
	n.squares = max(-2*n.noise*(n.logLik+0.5*w*math.Log(2*math.Pi*n.noise)), 0)
	if n.around.rows > 0 { // scales its covariance to that of all rows
		share := min(1, n.around.rows/float64(n.totals.Rows))
		for j := range n.bent {
			n.bent[j] *= share
		}
	}
	h, err := newLearner(&engine{x: q, lik: q.Lik, params: q.Params, root: root, hessian: "full", search: &search{Problem: q}})
	if err != nil {
		return nil, err
	}
	h.pass = n
	ev, around, note, err := n.learn(h)
	if err != nil {
		return nil, err
	}
	converged := n.distance <= n.tol()
	if distance := n.distance; converged && around != nil {
		h.coarse = false
		if around, err = h.integrate(); err != nil {
			return nil, err
		}
		log := ev.log
		if ev = (&evidence{h.at.belief, log}); around != nil && around.weights != nil {
			ev.belief = around.weights
		}
		n.distance = distance
	}
	post, err := ev.build()
	if err != nil {
		return nil, err
	}
	method, end, apart := "laplace", "mode", ""
	if n.sites {
		method, end = "ep", "fixed point"
		if off := n.informationChange(post); converged && !(off <= n.tol()) {
			converged, apart = false, fmt.Sprintf("no convergence yet: the variances of the predictors change by %.2g; take another pass around this fit", off)
		}
		if n.bare > 0 {
			note = kernels.Join(note, fmt.Sprintf("%d of %d rows have no proper cavity: Laplace's Gaussian stands for them", n.bare, n.totals.Rows))
		}
	}
	f := q.Fit(method, post, ev.log)
	f.SetLikelihood(h.lik)
	if len(h.theta) > 0 && !q.Options.PriorGroups {
		h.note(f, around)
	}
	if err := h.parameters(f, around); err != nil {
		return nil, err
	}
	f.AddStatus(note)
	if f.Converged = converged; converged && !n.sites && q.Lik.Traits().Binary && -n.logLik < min(float64(q.P), nearlyNone*w) {
		f.AddStatus(separated)
	}
	if !converged {
		if apart != "" {
			f.Status = apart
			return f, nil
		}
		f.Status = fmt.Sprintf("no convergence yet: the pass was about %.2g posterior standard deviations from the %s; take another around this fit", n.distance, end)
	}
	return f, nil
}

// separated is the status note if the mode predicts the responses at less than a nat per weight and
// less than nearlyNone per row, which few rows fail to do: then few rows determine the weights.
// Rows that are kept are compared with the Gaussian itself.
const nearlyNone = 0.02

const separated = "the responses are almost separated: the likelihood is flat at the mode, where laplace's Gaussian is too wide; ep with prior_variance 'auto' of the rows in memory has the posterior"

// learn moves to the θ for the next pass: that of highest evidence, or with Integrate the mode of
// its posterior, in which case around is not nil. The log evidence is the highest.
func (n *newtonStep) learn(h *learner) (ev *evidence, around *spread, note string, err error) {
	starts := [][]float64{h.theta}
	if len(h.Names) > 0 && n.around.rows > 0 {
		unit := n.std.Unit
		for k, name := range h.Names {
			if v := n.around.of(name); v > 0 {
				h.theta[k] = math.Log(v / unit / unit)
			}
		}
	} else if len(h.theta) > 0 {
		starts = h.Starts(h.theta, h.dispersion)
	}
	for _, s := range starts {
		for k := range s {
			s[k] = min(max(s[k], h.lo[k]), h.hi[k])
		}
	}
	theta, status, err := mode.Search{Lo: h.lo, Hi: h.hi, Late: h.search.late}.From(h, starts)
	if err != nil {
		return nil, nil, "", err
	}
	h.theta = theta
	highest := h.at.log
	note = kernels.Join(status, h.learnt())
	if h.x.Options.Integrate && status == "" && len(h.theta) > 0 {
		h.coarse = true
		if around, err = h.integrate(); err != nil {
			return nil, nil, "", err
		}
	}
	return &evidence{h.at.belief, highest}, around, note, nil
}

// try returns the evidence at θ.
func (n *newtonStep) try(h *learner, theta []float64) (float64, bool, error) {
	if err := h.set(theta); err != nil {
		return 0, false, err
	}
	ev, err := n.evidence(h)
	if err != nil {
		return 0, false, err
	}
	h.at = ev
	return ev.log, special.Finite(ev.log), nil
}

// evidence returns the Gaussian of the quadratic approximation under prior and likelihood of h.
func (n *newtonStep) evidence(h *learner) (*evidence, error) {
	p, root := n.q.P, h.root
	by, logLik := 1.0, n.logLik
	if h.dispersion >= 0 { // quadratic in the predictor
		d := h.lik.(lik.Dispersed).Dispersion()
		by, logLik = n.noise/d, -0.5*n.totals.Weight*math.Log(2*math.Pi*d)-0.5*n.squares/d
	}
	z, white := memory.Floats(p), memory.Floats(p)
	for j, m := range root.Of.Mean {
		z[j] = n.u[j] - m
	}
	root.Solve(z, z)
	root.MulT(white, n.g)
	n.height = logLik
	for j, v := range z {
		white[j] = by*white[j] - v
		n.height -= 0.5 * v * v
	}
	b := n.q.Matrix(p, p)
	mode.Whiten(b, n.h, root)
	if by != 1 {
		for i := range p {
			b.Stop.Row(i)
			row := b.Row(i)
			row[i]--
			for j := range row {
				row[j] *= by
			}
			row[i]++
		}
	}
	if err := mode.Factor(b); err != nil {
		return nil, err
	}
	step := memory.Floats(p)
	mode.ReverseVec(step, white)
	dense.SolveLowerVec(b, step)
	dense.SolveLowerTVec(b, step)
	mode.ReverseVec(step, step)
	slope := dense.Dot(step, white)
	if !special.Finite(slope) {
		return nil, mode.ErrOverflow
	}
	n.distance = math.Sqrt(max(slope, 0))
	mean := memory.Floats(p)
	root.Mul(mean, step)
	logDet := dense.LogDet(b)
	log := n.height + 0.5*slope - 0.5*logDet - 0.5*dense.Dot(n.bent, mean) + h.earlier.Log(h.lik)
	for j, v := range n.u {
		mean[j] += v
	}
	post := sync.OnceValue(func() *gauss.Normal { return gauss.NewFull(mean, mode.PosteriorRoot(root, b)) })
	bl := &belief{mean: mean, logDet: logDet}
	bl.vars = func() []float64 { return post().Var }
	bl.mulCov = func(dst, x []float64) { post().MulCov(dst, x) }
	bl.build = func() (*gauss.Normal, error) { return post(), nil }
	return &evidence{bl, log}, nil
}

// slopes adds the contribution of the rows to learner.slope.
func (n *newtonStep) slopes(h *learner, g, scale, dw []float64, gamma float64) {
	p := n.q.P
	if slices.ContainsFunc(n.bent, func(v float64) bool { return v != 0 }) {
		adj := memory.Floats(p)
		h.at.mulCov(adj, n.bent)
		h.moved(g, adj, dw)
	}
	if k := h.dispersion; k >= 0 {
		d := memory.Floats(p)
		for j, m := range h.at.mean {
			d[j] = m - n.u[j]
		}
		hd := memory.Floats(p)
		dense.Gemv(hd, n.h, d)
		rss := n.squares - 2*n.noise*dense.Dot(n.g, d) + n.noise*dense.Dot(d, hd)
		sum := n.totals.Weight
		g[k] = 0.5 * (max(rss, 0)/math.Exp(h.current(k)) - (sum - gamma))
		scale[k] = 0.5 * max(sum-gamma, 1e-3*sum)
	}
}
