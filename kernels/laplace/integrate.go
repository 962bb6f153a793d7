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

// Integration. The evidence is a likelihood of the variances and the dispersion. With a prior it
// gives their posterior, and the posterior of the weights becomes a mixture over the points of a
// grid, of which the mean and covariance are kept.
//
// Sources: [rue2009], nested Laplace approximations.

const (
	// maxGrid is the largest number of parameters that are summed over.
	maxGrid = 8
	// maxWork bounds the estimated number of operations of integration.
	maxWork = 5e9
)

// spread is the result of integrating over learnt variances: mean and standard deviation of their
// square roots by group, then of that of the dispersion if it is learnt; those of what tied.spreads
// lists; the mean of the dispersion, 0 if that is unchanged; and the posterior of the weights, nil
// if that stays the one at the maximum.
type spread struct {
	mean, sd []float64
	tied     [2][]float64
	noise    float64
	shape    [3]float64 // of a shape that was summed over: mean, standard deviation, 1 over the mean of its inverse; else zeros
	weights  *belief
}

// hypers returns the parameters to integrate over, their prior (half-t for standard deviations),
// and the starting point.
func (h *learner) hypers() (of []int, prior mode.Prior, start []float64) {
	o := &h.x.Options
	unit, deviation := 1.0, 0.0
	if located := h.lik.Traits().Located; located || h.dispersion >= 0 {
		if deviation = mode.Deviation(h.x); located {
			unit = deviation
		}
	}
	start = slices.Clone(h.theta)
	var priors []mode.Hyper
	add := func(k int, p mode.Hyper) {
		of, priors = append(of, k), append(priors, p)
		start[k] = max(start[k], p.Bottom())
	}
	for k, p := range h.Hypers(o, unit) {
		add(k, p)
	}
	inverse := -1 // the parameter θ whose prior is on 1/√(e^θ)
	shaped := h.relative() && h.earlier.Information == 0
	if shaped {
		inverse = h.shape
		p := mode.Hyper{DF: 3, Scale: 2.5 * mode.RelativeDeviation(h.x)}
		of, priors = append(of, inverse), append(priors, p)
		start[inverse] = min(start[inverse], -p.Bottom())
	}
	dispersed := h.dispersion >= 0 && h.earlier.Freedom == 0
	if dispersed {
		add(h.dispersion, mode.Hyper{DF: kernels.Or(o.DispersionFreedom, 3), Scale: kernels.Or(o.DispersionScale, 2.5*deviation)})
	}
	single := slices.Clone(of)
	if h.relative() && !shaped { // the fit that is continued had the priors
		of = append(of, h.shape)
	}
	if h.dispersion >= 0 && !dispersed {
		of = append(of, h.dispersion)
	}
	if h.tied != nil {
		of = append(of, h.tied.params()...)
		for _, k := range of[len(single):] {
			start[k] = min(max(start[k], -2), 2)
		}
	}
	return of, func(theta, slope []float64) (f float64) {
		for i, k := range single {
			sign := 1.0
			if k == inverse {
				sign = -1
			}
			v, s := priors[i].Log(sign * theta[k])
			f, slope[k] = f+v, slope[k]+sign*s
		}
		if h.tied != nil {
			f += h.tied.prior(theta, slope)
		}
		return f
	}, start
}

// relative reports whether the shape is learnt and 1/√shape is the coefficient of variation of the
// responses.
func (h *learner) relative() bool {
	return h.shape >= 0 && h.pass == nil && h.lik.Traits().Relative
}

// integrate returns the posterior of what was learnt, and of the weights given that. It leaves the
// learner at the mode of that posterior: the evidence of a variance that the data hardly determine
// is often highest at 0, where its weights would be known exactly. It returns nil if the mode is
// not found. If integrating would take too long and the data determine the variances, the learner
// stays at the maximum of the evidence.
func (h *learner) integrate() (*spread, error) {
	of, prior, start := h.hypers()
	n, entries := float64(h.x.N), float64(h.x.Values())
	if h.pass != nil { // cost as if the rows were there: the answer is the same
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
	over := float64(6*len(of)+6)*one > maxWork
	if len(of) == 0 || !h.exact() || over && h.rising { // no maximum that the data determine
		return nil, nil
	}
	if over {
		if out, err := h.known(); out != nil || err != nil {
			return out, err
		}
	}
	if h.costlyFactor {
		h.approach(start, prior)
	}
	h.fixed = over && h.hessian == "full"
	theta, at, log := slices.Clone(h.theta), h.at, h.at.log
	peak, err := mode.NewPeak(h, of, prior, start, h.lo, h.hi, h.search.late)
	if err != nil || peak == nil {
		err := h.back(theta, at, log, err)
		if err == nil && !h.coarse && !h.search.late() {
			every := make([]int, len(h.Names))
			for k := range every {
				every[k] = k
			}
			h.plain = h.matters(every, func(k int) float64 { return 2 * math.Exp(h.theta[k]) })
		}
		return nil, err
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
		points = min(3.5*points, mode.Scattered)
	}
	if affordable := maxWork / (one + join); !h.coarse && len(of) <= maxGrid && affordable >= mode.LeastPoints && h.hessian != "rows" {
		if err := h.grid(peak, of, mode.PointsOf(len(of), points, affordable), out); err != nil {
			return nil, err
		}
	}
	known := false
	if !h.coarse && (out.weights == nil || len(of) > 1) {
		if known, err = h.sections(peak, one, out); err != nil {
			return nil, err
		}
	}
	if err := h.moveTo(peak.Mode()); err != nil {
		return nil, err
	}
	h.plain = known && out.weights == nil && h.matters(peak.Wide(len(h.Names)), func(k int) float64 { return out.mean[k]*out.mean[k] + out.sd[k]*out.sd[k] })
	return out, nil
}

// Curvature implements mode.Curved where differences of slopes take too long: minus the second
// derivatives in the logarithms of variances while the curvature W of the rows stays as it is,
// exact for gaussian responses. With A = Σ, v the prior variances and P_a = 1/v on the weights of
// group a, dμ/dθ_b = A P_b μ and dA/dθ_b = A P_b A, so that of the slope ½ Σ_a (μ²/v + A_jj/v - 1)
//
//	∂²/∂θ_a ∂θ_b = Σ_{i in a, j in b} (μ_i μ_j A_ij + ½ A_ij²) / (v_i v_j) - [a = b] ½ Σ_a (μ² + A_jj) / v
func (h *learner) Curvature() (*dense.Matrix, error) {
	if !h.fixed {
		return nil, nil
	}
	post, err := h.at.build()
	if err != nil {
		return nil, err
	}
	cov := dense.NewUnder(h.x.Stop, post.Dim(), post.Dim())
	post.Cov(cov)
	c := dense.New(len(h.theta), len(h.theta))
	for a := range h.theta {
		for b := range h.theta {
			if a >= len(h.Names) || b >= len(h.Names) {
				c.Row(a)[b] = math.NaN()
			}
		}
	}
	v, mean := h.root.Of.Diag(), h.root.Of.Mean
	for i, a := range h.Of {
		if a < 0 {
			continue
		}
		wi, row := h.at.mean[i]-mean[i], cov.Row(i)
		c.Row(a)[a] += 0.5 * (wi*wi + row[i]) / v[i]
		for j, b := range h.Of {
			if b >= 0 {
				c.Row(a)[b] -= row[j] * (wi*(h.at.mean[j]-mean[j]) + 0.5*row[j]) / (v[i] * v[j])
			}
		}
	}
	return c, nil
}

// matters reports whether weights of the groups wide, whose variances are hardly determined, get
// too small a posterior variance (mode.Groups.TooNarrow); average returns the mean of a group's
// variance.
func (h *learner) matters(wide []int, average func(k int) float64) bool {
	return len(wide) > 0 && h.TooNarrow(h.at.vars(), h.root.Of.Var, func(k int, prior float64) float64 {
		if !slices.Contains(wide, k) {
			return 0
		}
		return average(k)/prior - 1
	})
}

// approach moves the starting value of the variance of a group of few weights, far from that of
// highest evidence, close to the mode of its posterior: exactly there if the likelihoods of the
// weights were independent and stayed as they are now.
func (h *learner) approach(start []float64, prior mode.Prior) {
	v, variance := h.root.Of.Var, h.at.vars()
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

// few is the effective number of determined weights below which approach treats a group.
const few = 10

// grid sums over points of the posterior of the parameters of. out is unchanged if there is none.
func (h *learner) grid(peak *mode.Peak, of []int, points mode.Points, out *spread) error {
	var values []float64 // the square roots, then the values of ties
	sum, err := peak.Sum(points, func(theta []float64) []float64 {
		values = values[:0]
		for _, j := range of {
			values = append(values, math.Exp(0.5*theta[j]))
		}
		if h.tied != nil {
			values = append(values, h.tied.spreads()...)
		}
		if h.relative() {
			values = append(values, math.Exp(theta[h.shape]), math.Exp(-theta[h.shape]))
		}
		return values
	}, func() (*gauss.Normal, error) { return h.at.build() }, nil)
	if err != nil || sum == nil {
		return err
	}
	sd := make([]float64, len(sum.Mean))
	for k := range sd {
		if sd[k] = sum.SD(k); k < len(of) && of[k] == h.dispersion {
			out.noise = sum.Square[k]
		}
	}
	n, all := len(of), len(sd)
	if h.relative() {
		all -= 2
		out.shape = [3]float64{sum.Mean[all], sd[all], 1 / sum.Mean[all+1]}
	}
	out.mean, out.sd, out.tied = sum.Mean[:n], sd[:n], [2][]float64{sum.Mean[n:all], sd[n:all]}
	out.weights = (&belief{}).is(sum.Weights)
	return nil
}

// sections sets the moments of each variance that the data hardly determine, one at a time: these
// posteriors are far from Gaussian on any scale, and a grid over several parameters has few points
// there. one is the cost of an evidence; all reports whether each of them has its moments.
func (h *learner) sections(peak *mode.Peak, one float64, out *spread) (all bool, err error) {
	wide := peak.Wide(len(h.Names))
	if float64(12*len(wide))*one > maxWork {
		return false, nil
	}
	for _, k := range wide {
		mean, sd, ok, err := peak.Section(k)
		if err != nil || !ok {
			return false, err
		}
		out.mean[k], out.sd[k] = mean, sd
	}
	return true, nil
}

// known returns the standard deviations by the information in many rows, with the weights left at
// the maximum (mode.Groups.Information). It returns nil if Σ ρ is below 1 for some variance.
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
	information := slices.Clone(scale) // for correlated weights γ/2
	clear(information[:len(h.Names)])
	h.Information(information, h.at.vars(), h.root.Of.Var)
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

// moveTo moves the learner to theta, near its present point.
func (h *learner) moveTo(theta []float64) error {
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
