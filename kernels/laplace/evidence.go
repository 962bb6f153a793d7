package laplace

import (
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

// Evidence maximisation: the parameters θ are the logarithms of the prior variance of each
// group of weights, of the dispersion, and of the shape.
//
// The slope of the Laplace evidence in log σ_g², with w at its mode for every θ, is
//
//	½ (Σ_g (w_j-μ_j)²/σ_g² - γ_g) - ½ vᵀ[(w-μ)/σ_g²]_g
//	γ_g = Σ_g (1 - Σ_jj/σ_g²),  v = Σ Xᵀ (q ∘ dW/dη),  q_i = ∂ log|I + Σ0 H| / ∂W_i
//
// The first part is MacKay's. The second, through which the curvature follows the mode, is 0
// for a Gaussian likelihood; without it, a slope of zero gives MacKay's fixed point
// σ_g² = Σ(w-μ)²/γ_g. His step is the slope divided by γ_g/2. A step of EM,
// σ_g² = (Σ(w-μ)² + ΣΣ_jj)/p_g, is the same slope divided by p_g/2: shorter and safe. The steps
// here are MacKay's, accelerated by the curvature that earlier slopes imply (L-BFGS), and
// shortened until the evidence rises, so it never falls.
//
// Sources: [mackay1992], section 4; [rasmussen2006], section 5.5.1, for the part through the mode.

// learner maximises the evidence over θ.
type learner struct {
	*engine
	mode.Groups
	dispersion, shape int // index in theta, -1 if fixed
	theta, lo, hi     []float64
	prior             *gauss.Normal // as given
	newton            int
	costlyEvidence    bool // the evidence is expensive
	costlyFactor      bool // or its factorisation is

	at           *evidence      // the latest
	currentTheta []float64      // the θ set last
	w, a         []float64      // where the search for the mode starts, as weights or in row space
	drift        *drift         // how w moves with θ; nil if that is not followed
	pass         *newtonStep    // replaces the rows; may be nil
	coarse       bool           // integrate sums over no grid
	fixed        bool           // Curvature is computed, with the curvature of the rows held fixed
	plain        bool           // integrate has not averaged over variances, and that matters
	rough        bool           // the first modes need not be exact: see ease
	risen        *evidenceSlope // the latest result of Slope
	rising       bool           // the evidence has no maximum nearby: only a prior on the learnt numbers gives one
	rooms        [3][]float64   // of room
}

// room returns one of the vectors of slope, with a number for each row, whatever it contains.
func (h *learner) room(k int) []float64 {
	if h.rooms[k] == nil {
		h.rooms[k] = memory.Floats(h.x.N)
	}
	return h.rooms[k]
}

func (e *engine) learns() bool {
	o := &e.x.Options
	return e.learnsPrior() || o.AutoDispersion || o.AutoShape
}

// learns reports whether p asks for anything to be learnt.
func learns(p *kernels.Problem) bool {
	return p.LearnsPrior() || p.Options.AutoDispersion || p.Options.AutoShape
}

// low reports whether the Hessian is of low rank plus the diagonal of the rest.
func (e *engine) low() bool { return e.hessian == "rest" || e.hessian == "lowrank" }

// learnsPrior reports whether prior variances are learnt. An evidence that leaves curvature out
// cannot learn them: a larger variance hides the omission better.
func (e *engine) learnsPrior() bool { return e.x.LearnsPrior() && !e.low() }

// exact reports whether the evidence contains all curvature.
func (e *engine) exact() bool {
	return e.hessian == "full" || e.hessian == "rows" || e.hessian == "arrow"
}

// newLearner sets up the parameters that are learnt.
func newLearner(e *engine) (*learner, error) {
	p := e.x
	h := &learner{engine: e, dispersion: -1, shape: -1, prior: e.root.Of}
	h.costlyEvidence = p.Values() > fewEntries || e.hessian == "rows" && p.N > smallTable
	h.costlyFactor = h.costlyEvidence || e.hessian == "full" && p.P > wide || e.hessian == "arrow" && len(e.split.block) > wide
	o := &p.Options
	h.Of = slices.Repeat([]int{-1}, p.P)
	if e.learnsPrior() {
		h.Groups = mode.NewGroups(p)
		start, err := h.Groups.Start(p)
		if err != nil {
			return nil, err
		}
		for _, x := range start {
			h.add(x, mode.Reach)
		}
	}
	if o.AutoDispersion {
		if _, ok := e.lik.(lik.Dispersed); !ok {
			return nil, lik.Lacks(e.lik, "dispersion")
		}
		h.dispersion = h.add(math.Log(mode.FirstDispersion(p)), 23)
		h.hi[h.dispersion] = max(h.hi[h.dispersion], mode.MostDispersion(p))
	}
	if o.AutoShape {
		l, ok := e.lik.(lik.Shaped)
		if !ok {
			return nil, lik.Lacks(e.lik, "shape")
		}
		h.shape = h.add(math.Log(l.Shape()), 16)
		h.lo[h.shape] = max(h.lo[h.shape], math.Log(lik.MinShape))
	}
	if h.costlyFactor {
		h.follow()
	}
	if e.tied != nil {
		return h, e.tied.add(h)
	}
	return h, nil
}

// follow turns on tracking of the mode where that costs less than a Newton step.
func (h *learner) follow() {
	if n := len(h.Names); h.hessian == "arrow" && h.tied == nil && h.search.sums == nil && n > 0 && n <= mostDrift {
		h.drift = &drift{}
	}
}

func (h *learner) add(start, reach float64) int {
	h.theta = append(h.theta, start)
	h.lo, h.hi = append(h.lo, start-reach), append(h.hi, start+reach)
	return len(h.theta) - 1
}

// set sets the prior and the likelihood to those of θ.
func (h *learner) set(theta []float64) error {
	e := h.engine
	h.currentTheta = append(h.currentTheta[:0], theta...)
	if e.tied != nil && e.tied.set(theta) {
		e.search.renew()
	}
	if len(h.Names) > 0 {
		if err := h.setPrior(theta); err != nil {
			return err
		}
	}
	if h.dispersion < 0 && h.shape < 0 {
		return nil
	}
	l, err := h.likelihood(theta)
	if err != nil {
		return err
	}
	e.lik, e.search.data.Lik, e.search.evaluated = l, l, e.search.evaluated[:0]
	return nil
}

// setPrior sets the prior variances.
func (h *learner) setPrior(theta []float64) error {
	if h.tied != nil {
		theta = h.tied.independent(theta)
	}
	prior, err := h.Prior(h.prior, theta)
	if err != nil {
		return err
	}
	t, err := prior.Root()
	if err != nil {
		return fmt.Errorf("prior: %w", err)
	}
	h.root, h.search.root = t, t
	return nil
}

func (h *learner) likelihood(theta []float64) (lik.Likelihood, error) {
	q := h.params
	if h.dispersion >= 0 {
		q.Dispersion = math.Exp(theta[h.dispersion])
	}
	if h.shape >= 0 {
		q.Shape = max(math.Exp(theta[h.shape]), lik.MinShape)
	}
	return lik.Remake(h.lik, q)
}

// try returns the evidence at θ, searching for the mode from weights w or row-space vector a.
func (h *learner) try(theta, w, a []float64) (*evidence, error) {
	if err := h.set(theta); err != nil {
		return nil, err
	}
	if h.search.space == rowSpace {
		copy(h.search.u, a)
		w = nil
	}
	ev, err := h.climbTo(w)
	h.newton += h.search.Iterations
	status := h.search.Status
	if err == nil && (status == "" || h.search.most > 0) || h.search.late() {
		return ev, err
	}
	// The search stalled or could not start: try another way up, from the prior mean.
	clear(h.search.u)
	if w != nil {
		w = h.root.Of.Mean
	}
	again, failed := h.climbTo(w)
	h.newton += h.search.Iterations
	if failed == nil && (err != nil || h.search.Status == "" || again.log > ev.log) {
		return again, nil
	}
	h.search.Status = status
	return ev, err
}

// near is the distance to the mode, in posterior standard deviations, below which an evidence is
// as good as at the mode: its error is half the square of that.
const near = 1e-3

// probeSteps Newton steps find the mode if the likelihood is log-concave. Student's t with a scale
// far too small takes hundreds, too many for a start that is only probed.
const probeSteps = 40

// Probe makes Try give up after probeSteps.
func (h *learner) Probe(on bool) {
	if h.search.most = 0; on {
		h.search.most = probeSteps
	}
}

// Try returns the log evidence at θ, searching for the mode from where Keep was last called.
func (h *learner) Try(theta []float64) (float64, bool, error) {
	if h.pass != nil {
		return h.pass.try(h, theta)
	}
	ev, err := h.try(theta, h.drift.to(theta, h.w, max(h.search.loose, h.search.Tol)), h.a)
	if err != nil {
		return 0, false, err
	}
	h.at = ev
	return ev.log, h.search.Status == "" || h.search.Decrement < near && !h.search.late(), nil
}

// Keep makes the mode that Try found the next starting point.
func (h *learner) Keep() {
	if h.pass != nil {
		return
	}
	h.w = append(h.w[:0], h.at.mean...)
	if h.search.space == rowSpace {
		h.a = append(h.a[:0], h.search.u...)
	}
	if h.drift != nil {
		h.drift.keep(h)
	}
}

// drift is how the mode moves with the logarithms of the prior variances: dw/dθ_k is the
// covariance of the weights times (w - μ)/σ² in group k.
type drift struct {
	theta     []float64
	push, way [][]float64 // (w - μ)/σ² of each group, and dw/dθ
}

const (
	farDrift  = 1.5 // largest change of a parameter over which drift is followed
	mostDrift = 4   // largest number of parameters: each takes two numbers per weight
)

func (d *drift) keep(h *learner) {
	d.theta = d.theta[:0]
	if h.at.mulCov == nil || h.search.Status != "" {
		return
	}
	for k := range h.Names {
		d.theta = append(d.theta, h.currentTheta[k])
		if k == len(d.push) {
			d.push, d.way = append(d.push, memory.Floats(h.x.P)), append(d.way, memory.Floats(h.x.P))
		}
		clear(d.push[k])
	}
	for j, k := range h.Of {
		if k >= 0 {
			d.push[k][j] = (h.at.mean[j] - h.root.Of.Mean[j]) / h.root.Of.Var[j]
		}
	}
	for k, push := range d.push {
		h.at.mulCov(d.way[k], push)
	}
}

// to returns the approximate mode at θ, given the mode w that was kept. It returns w itself if
// that moves by less than tol posterior standard deviations.
func (d *drift) to(theta, w []float64, tol float64) []float64 {
	if d == nil || len(d.theta) == 0 || len(w) == 0 {
		return w
	}
	far := 0.0
	move := memory.Floats(len(w))
	for k, at := range d.theta {
		by := min(max(theta[k]-at, -farDrift), farDrift)
		dense.Axpy(by, d.way[k], move)
	}
	for k, at := range d.theta {
		far += (theta[k] - at) * dense.Dot(d.push[k], move)
	}
	if !(far > tol*tol) {
		return w
	}
	dense.Axpy(1, w, move)
	return move
}

// evidenceSlope is the slope of an evidence, with the scales that turn it into steps.
type evidenceSlope struct {
	of       *evidence
	g, scale []float64
}

func (h *learner) Slope() (g, scale []float64, err error) {
	if h.pass != nil {
		return h.slopeOfAll(h.at)
	}
	if h.risen == nil || h.risen.of != h.at {
		if g, scale, err = h.slopeOfAll(h.at); err != nil {
			return nil, nil, err
		}
		h.risen = &evidenceSlope{h.at, g, scale}
		h.ease()
	}
	return slices.Clone(h.risen.g), slices.Clone(h.risen.scale), nil
}

// ease sets how close to the mode the next search must come: the error of the evidence there is
// at most 1e-5 of what the slope still promises to gain, that of its slope 1e-2.
func (h *learner) ease() {
	if !h.rough {
		return
	}
	gain := 0.0
	for k, g := range h.risen.g {
		gain += g * g / (2 * h.risen.scale[k])
	}
	h.search.loose = min(max(0.004*math.Sqrt(gain), 0.1*near), roughest)
}

// roughest is the distance to the mode, in posterior standard deviations, of the first evidences.
const roughest = 0.1

// exactly moves to the mode itself if the learner is only near it.
func (h *learner) exactly() error {
	if h.search.loose == 0 {
		return nil
	}
	h.search.loose = 0
	_, _, err := h.Try(h.theta)
	return err
}

// maximise returns the Gaussian at the θ of highest evidence, and the reason if it stopped
// earlier. If the evidence is slow it is one near the mode: see exactly. If the Hessian leaves
// curvature out, which a larger variance hides better, it climbs from a single start.
func (h *learner) maximise(start []float64) (best *evidence, status, note string, err error) {
	h.w, h.a = start, memory.Floats(len(h.search.u))
	starts := [][]float64{h.theta}
	if h.exact() {
		starts = h.Starts(h.theta, h.dispersion)
		if k := h.dispersion; k >= 0 {
			if far, ok := mode.FarDispersion(h.x); ok {
				start := slices.Clone(h.theta)
				for j := range start[:k+1] { // the variances of weights are in its unit
					start[j] += far - h.theta[k]
				}
				starts = slices.Insert(starts, 0, start)
			}
		}
		if h.costlyFactor { // one maximum is enough
			starts = slices.Delete(starts, 1, len(starts)-len(h.Given[:min(1, len(h.Given))]))
			if h.x.Options.Tol == 0 {
				h.rough, h.search.loose = true, roughest
			}
		}
		for _, s := range starts {
			for k := range s {
				s[k] = min(max(s[k], h.lo[k]), h.hi[k])
			}
		}
	}
	for range 3 {
		h.theta, status, err = mode.Search{Lo: h.lo, Hi: h.hi, Late: h.search.late}.From(h, starts)
		if err != nil {
			return nil, "", "", err
		}
		if start != nil || status != "" {
			break
		}
		was := h.at.log
		if h.at, note, err = h.highest(h.at); err != nil {
			return nil, "", "", err
		}
		if !(h.at.log > was+1e-6*(1+math.Abs(was))) {
			break
		}
		h.Keep() // another mode, with its own θ
		starts = [][]float64{h.theta}
	}
	if h.rough {
		h.rough, h.search.loose = false, 0.1*near
	}
	if status == "" {
		status = h.search.Status
	}
	return h.at, status, note, nil
}

// fewEntries is the number of entries above which an evidence is expensive.
const fewEntries = 1 << 20

// smallTable is the number of rows above which an evidence by the n x n form is expensive.
const smallTable = 1000

// wide is the number of weights in a dense factor above which an evidence is slow.
const wide = 1000

// Tolerance returns how many nats below its maximum a slow evidence may end, measured by
// MacKay's scale, which is a few times the curvature: the parameters are then within a tenth
// of their posterior standard deviations.
func (h *learner) Tolerance() float64 {
	if h.costlyFactor {
		return 5e-4
	}
	return 0
}

// slopeOfAll is slope with what the rows of a continued fit say.
func (h *learner) slopeOfAll(ev *evidence) (g, scale []float64, err error) {
	if g, scale, err = h.slope(ev); err != nil {
		return nil, nil, err
	}
	if k := h.dispersion; k >= 0 {
		slope, curvature := h.earlier.NoiseSlope(math.Exp(h.current(k)))
		g[k], scale[k] = g[k]+slope, scale[k]+curvature
	}
	if k := h.shape; k >= 0 {
		slope, curvature := h.earlier.ShapeSlope(math.Exp(h.current(k)))
		g[k], scale[k] = g[k]+slope, scale[k]+curvature
	}
	return g, scale, nil
}

// slope returns the derivative of the rows' evidence in θ at ev, and the scale that divides it to
// give MacKay's step.
func (h *learner) slope(ev *evidence) (g, scale []float64, err error) {
	s := h.search
	g, scale, dw, gamma := h.mackay(ev)
	if h.pass != nil {
		h.pass.slopes(h, g, scale, dw, gamma)
		return g, scale, nil
	}
	var third []float64 // dW/dη, later q dW/dη
	bent := false
	if !h.lik.Traits().Gaussian {
		third = h.room(0)
		bent = h.third(third, ev.floored)
	}
	var q []float64
	diagonal := h.root.Of.Form == gauss.Diagonal
	if bent || h.shape >= 0 || h.dispersion >= 0 && !(h.lik.Traits().Gaussian && diagonal) {
		q = h.room(1)
		ev.rows(q)
	}
	var adj, xv []float64
	if bent {
		for i := range third {
			third[i] *= q[i]
		}
		adj = h.mulCovRows(ev, third)
		h.moved(g, adj, dw)
		if h.shape >= 0 || h.dispersion >= 0 {
			xv = h.room(2)
			h.x.Mul(xv, adj)
		}
	}
	if h.tied != nil {
		h.tied.slope(g, scale, ev, dw, adj)
	}
	for _, k := range []int{h.dispersion, h.shape} {
		if k < 0 {
			continue
		}
		if q == nil { // gaussian: ∂W/∂log D = -W and tr ΣH = γ
			sum, rss := 0.0, 0.0
			if s.sums != nil {
				sum, rss = s.sums.weight, s.sums.of()
			}
			b := h.x.Batch()
			d := math.Exp(h.current(k))
			for i, e := range s.now.Eta {
				o := b.Obs(i)
				sum += o.Weight
				rss += o.Weight * (o.Y - e) * (o.Y - e)
			}
			g[k] = 0.5 * (rss/d - (sum - gamma))
			scale[k] = 0.5 * max(sum-gamma, 1e-3*sum)
			continue
		}
		if g[k], scale[k], err = h.likSlope(k, q, xv, ev.floored); err != nil {
			return nil, nil, err
		}
	}
	return g, scale, nil
}

// mackay returns the part of the slope that does not go through the mode, the scales, the weights
// less their prior means, and the number of weights that the data determine.
func (h *learner) mackay(ev *evidence) (g, scale, dw []float64, gamma float64) {
	g, scale = make([]float64, len(h.theta)), make([]float64, len(h.theta))
	v := h.root.Of.Diag()
	dw = memory.Floats(len(v))
	variance := ev.vars()
	for j, m := range h.root.Of.Mean {
		dw[j] = ev.mean[j] - m
		known := min(max(1-variance[j]/h.root.Of.Var[j], 0), 1)
		gamma += known
		if k := h.Of[j]; k >= 0 {
			g[k] += 0.5 * (dw[j]*dw[j]/v[j] - known)
			scale[k] += 0.5 * known
		}
	}
	return g, scale, dw, gamma
}

// moved adds to g the part through the mode: adj is Σ times the derivative of log |Λ0 + H| in
// the weights.
func (h *learner) moved(g, adj, dw []float64) {
	v := h.root.Of.Diag()
	for j, k := range h.Of {
		if k >= 0 {
			g[k] -= 0.5 * adj[j] * dw[j] / v[j]
		}
	}
}

// current returns the present θ of a likelihood parameter.
func (h *learner) current(k int) float64 {
	if k == h.dispersion {
		return math.Log(h.lik.(lik.Dispersed).Dispersion())
	}
	return math.Log(h.lik.(lik.Shaped).Shape())
}

// third sets dst to dW/dη. It returns false if all are 0.
func (h *learner) third(dst []float64, floored bool) (bent bool) {
	s := h.search
	b, t := h.x.Batch(), thirdOf(h.lik)
	return mode.Sum(s.Stop, len(dst), 16, func(lo, hi int) (some float64) {
		for i := lo; i < hi; i++ {
			if dst[i] = 0; !floored || s.now.Curv[i] >= 0 {
				dst[i] = t.at(b.Obs(i), s.now.Eta[i])
			}
			if dst[i] != 0 {
				some = 1
			}
		}
		return some
	}) > 0
}

// third computes dW/dη of a likelihood.
type third struct {
	lik.Likelihood
	known     func(o lik.Obs, s float64) float64 // nil: use differences
	unit, far float64                            // unit of the predictor, and the share of |η| that replaces it if larger
}

func thirdOf(l lik.Likelihood) third {
	t := third{l, lik.Third(l), 1, 1e-3}
	if d, ok := l.(lik.Dispersed); ok && l.Traits().Located {
		t.unit, t.far = math.Sqrt(d.Dispersion()), 1e-5
	}
	return t
}

// at returns dW/dη, by central differences if it is not known: 0 if they are only rounding error.
func (t third) at(o lik.Obs, eta float64) float64 {
	if t.known != nil {
		return -t.known(o, eta)
	}
	step := 1e-4 * max(t.unit, t.far*math.Abs(eta))
	_, _, up := t.LogLik(o, eta+step)
	_, _, dn := t.LogLik(o, eta-step)
	d := -(up - dn) / (2 * step)
	if !special.Finite(d) || math.Abs(up-dn) < 1e-14*math.Abs(up) {
		return 0
	}
	return d
}

// likSlope returns the slope in a parameter φ of the likelihood: through log p, through the
// curvatures, and through the mode, which both move. The derivatives of log p in φ are
// central differences of fourth order.
func (h *learner) likSlope(k int, q, xv []float64, floored bool) (g, scale float64, err error) {
	const step = 2e-3
	theta := make([]float64, len(h.theta))
	for _, j := range []int{h.dispersion, h.shape} {
		if j >= 0 {
			theta[j] = h.current(j)
		}
	}
	s := h.search
	row := &mode.Point{Eta: s.now.Eta, D1: memory.Floats(s.N), Curv: memory.Floats(s.N)}
	at := theta[k]
	var sums [5]float64 // log p + the log determinant's part, at -2..2 steps
	for m := -2; m <= 2; m++ {
		theta[k] = at + float64(m)*step
		l, err := h.likelihood(theta)
		if err != nil {
			return 0, 0, err
		}
		sums[m+2] = s.sumUnder(l, row, q, xv, floored)
	}
	g = (8*(sums[3]-sums[1]) - (sums[4] - sums[0])) / (12 * step)
	curv := -(sums[4] - 2*sums[2] + sums[0]) / (4 * step * step)
	scale = max(curv, math.Abs(g)/mode.MaxStep, 1e-3)
	return g, scale, nil
}

// sumUnder sums over the rows log p under l at the predictors of row, less half of q times the
// curvatures and of xv (nil for none) times the slopes, both of which it leaves in row.
func (s *search) sumUnder(l lik.Likelihood, row *mode.Point, q, xv []float64, floored bool) float64 {
	data, many := mode.DataOf(s.Problem), lik.Many(l)
	data.Lik = l
	return mode.Sum(s.Stop, s.N, 64, func(lo, hi int) float64 {
		sum := data.EvaluateRows(row, many, lo, hi)
		for i := lo; i < hi; i++ {
			curv := row.Curv[i]
			if floored {
				curv = max(curv, 0)
			}
			sum -= 0.5 * q[i] * curv
			if xv != nil {
				sum -= 0.5 * xv[i] * row.D1[i]
			}
		}
		return sum
	})
}

// learnt describes the learnt prior variances by group, and the θ at the end of their range.
func (h *learner) learnt() string {
	var out []string
	var vanished []bool
	if !h.x.Options.Integrate && len(h.Names) > 0 && h.exact() {
		variance, prior := h.at.vars(), h.root.Of.Var
		if h.tied != nil { // next to nothing may be known of v where w is that of another column
			variance, prior = h.tied.spread(h.at, variance, prior)
		}
		vanished = h.Vanished(variance, prior)
	}
	if s := h.Groups.Learnt(&h.x.Options, h.theta, h.lo, vanished); s != "" {
		out = append(out, s)
	}
	if h.tied != nil {
		out = append(out, h.tied.edges(h.theta)...)
	}
	for _, k := range []int{h.dispersion, h.shape} {
		if k < 0 {
			continue
		}
		at := mode.AtEnd(h.theta[k], h.lo[k], h.hi[k])
		if at == 0 {
			continue
		}
		if k == h.dispersion { // its unit may not be that of the responses as given
			end := "lower"
			if at > 0 {
				end = "upper"
			}
			out = append(out, fmt.Sprintf("the evidence rises towards the %s end of the range of the dispersion, where it was left", end))
			continue
		}
		out = append(out, fmt.Sprintf("the evidence rises towards the end of the range of the shape, %.3g", math.Exp(h.theta[k])))
	}
	return strings.Join(out, "; ")
}
