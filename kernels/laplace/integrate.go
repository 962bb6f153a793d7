package laplace

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// Integration. The evidence as a function of the variances and the dispersion is a
// likelihood of them; with a prior it is their posterior, and the posterior of the weights a
// mixture of those at the points of a grid. Its mean and covariance are kept.
//
// Sources: [rue2009], nested Laplace approximations.

const (
	// maxGrid is how many parameters a grid is made for.
	maxGrid = 6
	// maxWork bounds the operations of integrating, as estimated.
	maxWork = 5e9
)

// spread is what integrating finds of learnt variances: mean and deviation of their roots by
// group, then of that of the dispersion where it is learnt, of what tied.spreads lists, the mean
// of the dispersion, 0 where that stays, and the posterior of the weights, nil where it stays
// that at the maximum.
type spread struct {
	mean, sd []float64
	tied     [2][]float64
	noise    float64
	weights  *belief
}

// hypers are the parameters that are integrated, their prior, that of deviations being half-t,
// and where to begin.
func (h *learner) hypers() (of []int, prior mode.Prior, start []float64) {
	o := &h.x.Options
	unit := 1.0
	if h.lik.Traits().Located {
		unit = math.Sqrt(mode.Variance(h.x))
	}
	df := kernels.Or(o.SDFreedom, 3)
	start = slices.Clone(h.theta)
	var priors []mode.Hyper
	add := func(k int, p mode.Hyper) {
		of, priors = append(of, k), append(priors, p)
		if !math.IsInf(p.Scale, 1) { // not at the bottom, where there is no slope
			start[k] = max(start[k], 2*math.Log(p.Scale)-8)
		}
	}
	for k := range h.Names {
		add(k, mode.Hyper{DF: df, Scale: kernels.Or(o.SDScale, 2.5*unit/math.Sqrt(h.Squares[k]))})
	}
	if h.dispersion >= 0 {
		add(h.dispersion, mode.Hyper{DF: kernels.Or(o.DispersionFreedom, 3), Scale: kernels.Or(o.DispersionScale, 2.5*unit)})
	}
	single := slices.Clone(of)
	if h.tied != nil {
		of = append(of, h.tied.params()...)
		for _, k := range of[len(single):] {
			start[k] = min(max(start[k], -2), 2)
		}
	}
	return of, func(theta, slope []float64) (f float64) {
		for i, k := range single {
			v, s := priors[i].Log(theta[k])
			f, slope[k] = f+v, slope[k]+s
		}
		if h.tied != nil {
			f += h.tied.prior(theta, slope)
		}
		return f
	}, start
}

// integrate is the posterior of what was learnt, and of the weights given that. It leaves the
// learner at the mode of that posterior: the evidence of a variance that the data hardly know
// is often highest at 0, where its weights would be known. nil where the mode is not found;
// where it would take too long and the data know the variances, the learner stays at the
// maximum of the evidence.
func (h *learner) integrate() (*spread, error) {
	of, prior, start := h.hypers()
	n, entries := float64(h.x.N), float64(h.x.Values())
	if h.pass != nil { // as if the rows were there: the answer is theirs
		n, entries = float64(h.pass.totals.Rows), float64(h.pass.entries)
	}
	one := 3 * (20*entries + 100*n)
	points, join := 15.0, 0.0
	switch h.hessian {
	case "full":
		p := float64(h.x.P)
		one += 3 * p * p * p
		join = 2 * p * p * p
	case "rows":
		one += 4 * n * n * n
	case "arrow":
		d, l := float64(len(h.split.block)), float64(len(h.split.leaf))
		one += 4 * (d*d*d + l*d*d)
		join = 4 * l * d * d
		if h.split.wide > 1 {
			join = math.Pow(d+l, 3)
		}
	}
	if len(of) == 0 || !h.exact() {
		return nil, nil
	}
	if float64(6*len(of)+6)*one > maxWork {
		if out, err := h.known(); out != nil || err != nil {
			return out, err
		}
	}
	if h.dear {
		h.approach(start)
	}
	theta, at, log := slices.Clone(h.theta), h.at, h.at.log
	peak, err := mode.NewPeak(h, of, prior, start, h.lo, h.hi, h.search.late)
	if err != nil || peak == nil {
		return nil, h.back(theta, at, log, err)
	}
	out := &spread{}
	out.mean, out.sd = peak.Moments()
	if h.tied != nil {
		out.tied[0], out.tied[1] = peak.Expect(func(theta []float64) []float64 {
			h.tied.set(theta)
			return h.tied.spreads()
		})
		h.search.renew()
	}
	h.search.loose = 0
	for range len(of) - 1 {
		points *= 3.5
	}
	if !h.coarse && len(of) <= maxGrid && points*(one+join) <= maxWork && h.hessian != "rows" {
		if err := h.grid(peak, of, out); err != nil {
			return nil, err
		}
	}
	if !h.coarse && (out.weights == nil || len(of) > 1) {
		if err := h.sections(peak, one, out); err != nil {
			return nil, err
		}
	}
	return out, h.settle(peak.Mode())
}

// approach moves the start of variances of few weights, far from those of the highest evidence,
// to about the mode of their posterior: as it is where the data said of each weight what they
// say now and of all of them independently.
func (h *learner) approach(start []float64) {
	v, variance := h.root.Of.Var, h.at.vars()
	_, prior, _ := h.hypers()
	slope := make([]float64, len(h.theta))
	for k := range h.Names {
		var squares, noise []float64
		known := 0.0
		for j, g := range h.Of {
			if g != k {
				continue
			}
			if len(squares) == few {
				known = few
				break
			}
			known += 1 - variance[j]/v[j]
			if s := 1 / (1/variance[j] - 1/v[j]); s > 0 && special.Finite(s) {
				b := (h.at.mean[j] - h.root.Of.Mean[j]) * s / variance[j]
				squares, noise = append(squares, b*b), append(noise, s)
			}
		}
		if known >= few {
			continue
		}
		theta := slices.Clone(start)
		height := func(x float64) float64 {
			theta[k] = x
			f := prior(theta, slope)
			for i, s := range noise {
				all := math.Exp(x) + s
				f -= 0.5 * (math.Log(all) + squares[i]/all)
			}
			return f
		}
		best, high := start[k], height(start[k])
		for step := 1.0; step > 1e-3; step /= 4 {
			for at, d := best, -8; d <= 8; d++ {
				x := min(max(at+step*float64(d), h.lo[k]), h.hi[k])
				if f := height(x); f > high {
					best, high = x, f
				}
			}
		}
		start[k] = best
	}
}

// few is up to how many weights, as far as the data know them, approach looks at.
const few = 10

// grid sums over that of the posterior of the parameters of; out stays where there is none.
func (h *learner) grid(peak *mode.Peak, of []int, out *spread) error {
	var m mixture
	var values []float64 // of the roots, then those of ties
	total := 0.0
	var sums, squares []float64
	whole, err := peak.Grid(func(theta []float64, log float64) error {
		w, err := m.add(h.at, log)
		values = values[:0]
		for _, j := range of {
			values = append(values, math.Exp(0.5*theta[j]))
		}
		if h.tied != nil {
			values = append(values, h.tied.spreads()...)
		}
		if sums == nil {
			sums, squares = make([]float64, len(values)), make([]float64, len(values))
		}
		total += w
		for k, v := range values {
			sums[k] += w * v
			squares[k] += w * v * v
		}
		return err
	})
	if err != nil || !whole {
		return err
	}
	for k := range sums {
		sums[k] /= total
		squares[k] /= total
		if k < len(of) && of[k] == h.dispersion {
			out.noise = squares[k]
		}
		squares[k] = math.Sqrt(max(squares[k]-sums[k]*sums[k], 0))
	}
	n := len(of)
	out.mean, out.sd, out.tied = sums[:n], squares[:n], [2][]float64{sums[n:], squares[n:]}
	out.weights, err = m.belief()
	return err
}

// sections has moments of the variances that the data hardly know, each by itself: their
// posteriors are far from Gaussian on any scale, and a grid of more than one parameter has few
// points there. one is what an evidence costs.
func (h *learner) sections(peak *mode.Peak, one float64, out *spread) error {
	wide := peak.Wide(len(h.Names))
	if float64(12*len(wide))*one > maxWork {
		return nil
	}
	for _, k := range wide {
		mean, sd, ok, err := peak.Section(k)
		if err != nil || !ok {
			return err
		}
		out.mean[k], out.sd[k] = mean, sd
	}
	return nil
}

// known is what the information in many rows says about the deviations, the weights staying at
// the maximum: b = N(0, σ² + s), what the rows say of a weight alone, has the information
// ½ ρ² of log σ², ρ = σ²/(σ² + s) being how far they determine it, 1 less the part of its prior
// variance that is left. nil where Σ ρ is below 1 for a variance.
func (h *learner) known() (*spread, error) {
	_, scale, err := h.Slope()
	if err != nil {
		return nil, err
	}
	for k := range h.Names {
		if scale[k] < 0.5 {
			return nil, nil
		}
	}
	information := slices.Clone(scale) // of correlated weights, γ/2
	clear(information[:len(h.Names)])
	variance := h.at.vars()
	for j, k := range h.Of {
		if k >= 0 && k < len(h.Names) {
			known := min(max(1-variance[j]/h.root.Of.Var[j], 0), 1)
			information[k] += 0.5 * known * known
		}
	}
	out := &spread{}
	share := func(k int) float64 { return 0.5 / math.Sqrt(max(information[k], 0.5)) }
	for k := range h.Names {
		sd := math.Exp(0.5 * h.theta[k])
		out.mean, out.sd = append(out.mean, sd), append(out.sd, sd*share(k))
	}
	if h.tied != nil {
		out.tied = h.tied.known(share)
	}
	return out, nil
}

// settle goes to theta, near where the learner stands.
func (h *learner) settle(theta []float64) error {
	if _, ok, err := h.Try(theta); err != nil || !ok {
		return err
	}
	h.Keep()
	h.theta = theta
	return nil
}

// back returns to the maximum of the evidence.
func (h *learner) back(theta []float64, at *evidence, log float64, err error) error {
	if err != nil {
		return err
	}
	h.search.loose = 0
	h.w = append(h.w[:0], at.mean...)
	if _, _, err := h.Try(theta); err != nil {
		return err
	}
	if _, ok := h.lik.(lik.Bumpy); ok && math.Abs(h.at.log-log) > 1e-6*(1+math.Abs(log)) {
		return fmt.Errorf("internal error: another mode after integration")
	}
	return nil
}

// mixture gathers Gaussians of one form: full, or with the same leaves.
type mixture struct {
	form  *gauss.Normal // the first
	log   float64
	total float64
	mean  []float64     // Σ weight (mean - that of the first)
	cov   *dense.Matrix // Σ weight (Σ + d dᵀ), of the block with leaves
	tie   *dense.Matrix // of each leaf with the block
	own   []float64     // of each leaf
}

// add is the weight of a Gaussian with that log density, which is added.
func (m *mixture) add(bl *evidence, log float64) (float64, error) {
	g, err := bl.build()
	if err != nil {
		return 0, err
	}
	if m.form == nil {
		m.form, m.log = g, log
		m.mean = make([]float64, g.Dim())
		n := g.Dim()
		if g.Form == gauss.Arrowhead {
			n = len(g.Arrow.Block)
			m.tie, m.own = dense.New(len(g.Arrow.Leaf), n), make([]float64, len(g.Arrow.Leaf))
		}
		m.cov = dense.New(n, n)
	}
	w := math.Exp(log - m.log)
	m.total += w
	d := make([]float64, g.Dim())
	for j, v := range g.Mean {
		d[j] = v - m.form.Mean[j]
		m.mean[j] += w * d[j]
	}
	l, block := g.L, d
	if a := g.Arrow; g.Form == gauss.Arrowhead {
		l, block = a.L, make([]float64, len(a.Block))
		for i, j := range a.Block {
			block[i] = d[j]
		}
	}
	if len(block) > 0 {
		dense.Gemm(m.cov, w, l, false, l, true, 1)
	}
	for i, v := range block {
		dense.Axpy(w*v, block, m.cov.Row(i))
	}
	if a := g.Arrow; g.Form == gauss.Arrowhead {
		n := len(a.Block)
		p, hp := dense.New(n, n), dense.New(len(a.Leaf), n)
		if n > 0 {
			dense.MulTB(p, l, l)
			dense.Mul(hp, a.H, p)
		}
		for k, j := range a.Leaf {
			dense.Axpy(w, hp.Row(k), m.tie.Row(k))
			dense.Axpy(w*d[j], block, m.tie.Row(k))
			m.own[k] += w * (g.Var[j] + d[j]*d[j])
		}
	}
	return w, nil
}

// belief is the Gaussian with the mixture's mean and covariance; with leaves that of the
// block, and of every leaf with it.
func (m *mixture) belief() (*belief, error) {
	mean := slices.Clone(m.form.Mean)
	for j, s := range m.mean {
		m.mean[j] = s / m.total
		mean[j] += m.mean[j]
	}
	block := m.mean
	a := m.form.Arrow
	if a != nil {
		block = make([]float64, len(a.Block))
		for i, j := range a.Block {
			block[i] = m.mean[j]
		}
	}
	l := m.cov
	for i, v := range block {
		for k, u := range block {
			l.Row(i)[k] = l.Row(i)[k]/m.total - v*u
		}
	}
	if err := dense.Cholesky(l); err != nil {
		return nil, err
	}
	if a == nil {
		return (&belief{}).is(gauss.NewFull(mean, l)), nil
	}
	out := &gauss.Arrow{Block: a.Block, Leaf: a.Leaf, L: l, H: m.tie, Q: m.own}
	for k, j := range a.Leaf {
		h := m.tie.Row(k)
		for i := range h {
			h[i] = h[i]/m.total - m.mean[j]*block[i]
		}
		v := m.own[k]/m.total - m.mean[j]*m.mean[j]
		dense.SolveLowerVec(l, h) // hᵀPh before the second half of the solution
		m.own[k] = max(v-dense.Dot(h, h), 1e-14*v)
		dense.SolveLowerTVec(l, h)
	}
	return (&belief{}).is(gauss.NewArrowhead(mean, out)), nil
}
