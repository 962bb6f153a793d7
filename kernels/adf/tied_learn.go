package adf

import (
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// variances are learnt prior variances: one for each column of levels that the fit records, and one
// for all other weights except the intercept.
type variances struct {
	rest   float64
	levels map[string]float64 // by name of the column
	first  bool               // they are those before any row: nothing was learnt yet
}

// variancesOf returns the prior variances of a fit that learns them, in the unit of its responses,
// nil for other fits.
func variancesOf(f *kernels.Fit) *variances {
	if f.Covariance.Form != gauss.Arrowhead || !f.Covariance.Arrow().LearnsPrior() {
		return nil
	}
	if !(f.Prior.Variance > 0) {
		return nil
	}
	unit := f.Covariance.Arrow().ResponseUnit()
	inUnit := func(v float64) float64 { return kernels.UnscalePrior(v, unit*unit) }
	v := &variances{rest: inUnit(f.Prior.Variance), levels: map[string]float64{}}
	v.first = v.rest == kernels.DefaultPrior.Variance
	for _, c := range f.Columns {
		if c.Kind != kernels.LevelsColumn || !(c.Variance > 0) {
			continue
		}
		v.first = false
		if own := inUnit(c.Variance); own != v.rest {
			v.levels[c.Name] = own
		}
	}
	return v
}

// minVariances returns the smaller variance of t and o for each group.
func (t *tied) minVariances(o *tied) *variances {
	a, b := t.vars, o.vars
	if a == nil {
		a = &variances{rest: t.plan.Model.Prior.Variance}
	}
	if b == nil {
		b = &variances{rest: o.plan.Model.Prior.Variance}
	}
	v := &variances{rest: min(a.rest, b.rest), levels: map[string]float64{}, first: (t.vars == nil || a.first) && (o.vars == nil || b.first)}
	for _, x := range []*variances{a, b} {
		for name := range x.levels {
			v.levels[name] = min(a.of(name), b.of(name))
		}
	}
	return v
}

// of is the variance of a column of levels, or of weights without one ("").
func (v *variances) of(column string) float64 {
	if own, ok := v.levels[column]; ok && column != "" {
		return own
	}
	return v.rest
}

// fresh is the prior of feature id, which has none of its own.
func (t *tied) fresh(id int) kernels.Weight {
	w := t.plan.Fresh(t.dict, id)
	if t.vars != nil && (id != 0 || t.plan.Model.NoIntercept) {
		w.Variance = t.vars.rest
		if len(t.vars.levels) > 0 {
			w.Variance = t.vars.of(t.dict.LevelColumn(uint32(id)))
		}
	}
	return w
}

// part is a weight or a part of one, with prior N(m, share·v), where v is the variance of its group.
type part struct {
	group  int
	at     int // weight of the block, or ^leaf
	share  float64
	hardly bool // a leaf that rows determine less than the prior before any row; its variance is learnt by hints
}

// parts returns all parts that learn, in an order that a continued run shares, and the names of
// their groups, "" first.
func (t *tied) parts() (ps []part, groups []string) {
	groups = []string{""}
	number := map[string]int{"": 0}
	of := func(column string) int {
		if t.plan.Model.Options.AnyColumns {
			column = ""
		}
		g, ok := number[column]
		if !ok {
			g = len(groups)
			number[column], groups = g, append(groups, column)
		}
		return g
	}
	for j, id := range t.is {
		switch {
		case id < 0:
			c := &t.cols[^id]
			ps = append(ps, part{of(strings.TrimSuffix(c.text, "=")), j, t.meanPrior(^id).Variance / c.variance, false})
		case id > 0 || t.plan.Model.NoIntercept:
			ps = append(ps, part{of(t.dict.LevelColumn(uint32(id))), j, 1, false})
		}
	}
	if len(t.owner) == 0 {
		return ps, groups
	}
	for _, id := range t.dict.Order() {
		if int(id) >= len(t.place) || t.place[id] >= 0 || t.place[id] == absent {
			continue
		}
		k := int(^t.place[id])
		if _, q, _ := t.bank[0].Leaf(k); q == 0 {
			continue // known
		}
		share, _, hardly := t.varianceShare(k)
		ps = append(ps, part{of(t.dict.LevelColumn(id)), int(^k), share, hardly})
	}
	return ps, groups
}

// replacePriors replaces the prior variances of all weights by v, nil for those of the model, which
// is exact, and returns the change of the log evidence. The prior means stay. Errors:
// gauss.ErrNotPD if the rows' contribution is not proper over all weights jointly; the priors are
// unchanged then.
func (t *tied) replacePriors(v *variances) (logZ float64, err error) {
	ps, groups := t.parts()
	if v == nil {
		v = &variances{rest: t.plan.Model.Prior.Variance}
	}
	own := t.currentVariances(groups)
	next := make([]float64, len(groups))
	for g, name := range groups {
		next[g] = v.of(name)
	}
	if slices.Equal(own, next) {
		t.setVariances(v)
		return 0, nil
	}
	b := t.bank[0]
	before := b.Clone()
	were, _ := t.evidence(ps, own)
	if err := t.exchangePriors(ps, own, next); err != nil {
		t.bank[0] = before
		return 0, err
	}
	t.setVariances(v)
	now, _ := t.evidence(ps, next)
	return now - were, nil
}

// currentVariances returns the current variances of the groups.
func (t *tied) currentVariances(groups []string) []float64 {
	own := make([]float64, len(groups))
	for g, name := range groups {
		own[g] = t.plan.Model.Prior.Variance
		if t.vars != nil {
			own[g] = t.vars.of(name)
		}
	}
	return own
}

// setVariances makes v the variances of new weights.
func (t *tied) setVariances(v *variances) {
	t.vars = v
	for c := range t.cols {
		t.cols[c].variance = v.of(strings.TrimSuffix(t.cols[c].text, "="))
	}
}

// exchangePriors removes the priors with variances own from the belief and adds those with next.
func (t *tied) exchangePriors(ps []part, own, next []float64) error {
	b, m := t.bank[0], t.plan.Model.Prior.Mean
	b.UpdateLeaves()
	d := b.Dim()
	delta, nu := dense.New(d, d), make([]float64, d)
	for _, p := range ps {
		if own[p.group] == next[p.group] {
			continue
		}
		add := (1/next[p.group] - 1/own[p.group]) / p.share
		if p.at >= 0 {
			delta.Row(p.at)[p.at] += add
			nu[p.at] += add * m
			continue
		}
		mean := m
		if p.share < 1 { // the level mean has m
			mean = 0
		}
		if err := b.LeafPrecise(^p.at, add, mean, delta, nu); err != nil {
			return err
		}
	}
	return b.Precise(delta, nu)
}

// evidence is the log evidence of the variances v, in force, up to terms that do not depend on
// them: ½ (log |Λ0| - log |Λ| + μᵀΛμ) about the prior means. leaves is the part of the leaves that
// rows hardly determine, each given the block.
func (t *tied) evidence(ps []part, v []float64) (sum, leaves float64) {
	b, m := t.bank[0], t.plan.Model.Prior.Mean
	mean := append([]float64(nil), b.Mean...)
	for _, p := range ps {
		sum -= math.Log(p.share * v[p.group])
		if p.at >= 0 {
			mean[p.at] -= m
		}
	}
	if !t.plan.Model.NoIntercept && t.place[0] >= 0 {
		mean[t.place[0]] -= t.prior(0).Mean
	}
	root := b.Root()
	sum += dense.LogDet(root)
	for _, p := range ps {
		if p.at >= 0 {
			continue
		}
		alpha, q, h := b.Leaf(^p.at)
		if p.share == 1 {
			alpha -= m
		}
		for j, x := range h { // α about the prior means of the block
			alpha += x * (b.Mean[j] - mean[j])
		}
		own := math.Log(q) + alpha*alpha/q
		if sum += own; p.hardly {
			leaves += own - math.Log(p.share*v[p.group])
		}
	}
	dense.SolveLowerVec(root, mean)
	return 0.5 * (sum + dense.Dot(mean, mean)), 0.5 * leaves
}

// A learnt variance has a prior worth one weight, at the variance that weights have before any row:
// a group of few weights stays near it. Learnt variances are adopted only if their evidence exceeds
// that of the variances before any row by leastAhead nats in all. Gaussian rows, which say the same
// under any prior, need less of such care.
const (
	fewest     = 32 // weights; fewer say too little of their variance
	fewExact   = 16 // weights, instead of fewest, if rows say the same under any prior
	oneWeight  = 1.0
	exactly    = 0.1  // weights, instead of oneWeight, for these
	narrow     = 1e-2 // variance of the second start, relative to that before any row
	fitted     = 0.5  // weights that the data determine per row
	leastAhead = 1.0
	mostSteps  = 50
	mostARow   = 2 // weights per row so far, plus mostBeside; the rows say too little of more
	mostBeside = 64
	perRow     = 4 // weights over all steps per row so far, plus atOnce
	atOnce     = 512
	nearEnough = 1e-2 // relative change of a variance at which steps end
	noChange   = 0.05 // relative change that is not worth a step
)

// learnable reports whether so many rows say enough of the variances of n weights.
func (t *tied) learnable(n, rows int64) bool {
	least := int64(fewest)
	if t.plan.Located {
		least = fewExact
	}
	return n >= least && n <= mostARow*rows+mostBeside
}

// LearnPriors implements stream.PriorLearner by MacKay's steps: the rows' contribution to the
// weights is a Gaussian, whose evidence under other variances is known without the rows. A step
// costs O(d³) and O(d²) per leaf, where a row costs O(d²): with many weights relative to the rows
// there are few steps or none.
func (t *tied) LearnPriors(rows int64) (logZ float64) {
	if !t.learnable(int64(len(t.owner)+len(t.is)), rows) { // without laying out the parts
		return 0
	}
	ps, groups := t.parts()
	n := int64(len(ps))
	if !t.learnable(n, rows) {
		return 0
	}
	s := &priorSearch{tied: t, ps: ps, hints: t.hints(groups), bumpy: t.plan.Located && !t.plan.Exact}
	v := t.currentVariances(groups)
	logZ = s.learn(v, groups, min(mostSteps, max(1, int((perRow*rows+atOnce)/n))))
	s.enlarge(v, t.currentVariances(groups))
	return logZ
}

// learn sets the variances to those of highest evidence, in at most most steps from v, those in
// force, and returns the change of the log evidence.
func (s *priorSearch) learn(v []float64, groups []string, most int) (logZ float64) {
	t, ps := s.tied, s.ps
	next := s.step(v)
	if converged(v, next, noChange) {
		return 0
	}
	before := t.bank[0].Clone()
	were, _ := t.evidence(ps, v)
	sound := s.bounds()
	last, err := v, error(nil)
	for k := 1; err == nil; k++ {
		if err = t.exchangePriors(ps, last, next); err != nil {
			break
		}
		if last = next; k == most {
			break
		}
		if next = s.step(next); converged(last, next, nearEnough) {
			break
		}
	}
	now := 0.0
	if err == nil {
		last, now = s.orInitial(last)
	}
	if err != nil || !special.Finite(now-were) || !sound(v, last) { // the leaves' contributions are not proper jointly
		t.bank[0] = before
		return 0
	}
	learnt := &variances{rest: last[0], levels: map[string]float64{}}
	for g, name := range groups[1:] {
		learnt.levels[name] = last[g+1]
	}
	t.setVariances(learnt)
	return now - were
}

// SetVariance implements stream.PriorLearner.
func (t *tied) SetVariance(v float64) (logZ float64, err error) {
	return t.replacePriors(&variances{rest: v, levels: map[string]float64{}})
}

// SecondStart implements stream.PriorLearner: a second answer needs rows that the weights may fit
// without noise.
func (t *tied) SecondStart(rows int64) (v float64, ok bool) {
	n := int64(len(t.owner) + len(t.is))
	return narrow * t.base, t.learnable(n, rows) && lik.Weights(t.Known(0)) >= fitted*float64(rows)
}

// LogPrior implements stream.PriorLearner: the density under which step has its maximum.
func (t *tied) LogPrior() (sum float64) {
	_, groups := t.parts()
	for _, v := range t.currentVariances(groups) {
		sum -= 0.5 * exactly * (math.Log(v) + t.base/v)
	}
	return sum
}

// priorSearch searches for the variances of groups of weights.
type priorSearch struct {
	*tied
	ps    []part
	hints []hint // by group
	// bumpy says that tails are heavy: a single row far away then says very little of where a weight is,
	// and that far away, which under a wider prior would be anywhere.
	bumpy bool
}

// orInitial returns to the variances before any row unless v is clearly ahead of them, and
// returns the variances in force and their evidence. What rows contributed under narrower priors
// may not be proper under those, as leaves lose part of it; v stays then. If rows say the same under
// any prior v stays, too: the way back is open.
func (s *priorSearch) orInitial(v []float64) (_ []float64, evidence float64) {
	if s.plan.Located {
		now, _ := s.evidence(s.ps, v)
		return v, now
	}
	first := memory.Floats(len(v))
	for g := range first {
		first[g] = s.base
	}
	learnt := s.bank[0].Clone()
	now, leaves := s.evidence(s.ps, v)
	ahead := now - leaves + s.hinted(v)
	sound := s.bounds()
	if err := s.exchangePriors(s.ps, v, first); err == nil && sound(v, first) {
		base, leaves := s.evidence(s.ps, first)
		if ahead -= base - leaves + s.hinted(first); special.Finite(base) && !(ahead > leastAhead) {
			return first, base
		}
	}
	s.bank[0] = learnt
	return v, now
}

// bounds returns a check of the belief after its variances change from from to to: priors that are
// wider by up to a ratio leave no weight with more than that multiple of its variance now, because
// all other precision stays. Leaves that lost their correlations may violate this, and the evidence
// is meaningless then.
func (s *priorSearch) bounds() func(from, to []float64) bool {
	now := func() []float64 {
		b := s.bank[0]
		b.UpdateLeaves()
		vs := make([]float64, b.Dim(), b.Dim()+b.Leaves())
		b.Variances(vs)
		for k := range b.Leaves() {
			_, q, _ := b.Leaf(k)
			vs = append(vs, q)
		}
		return vs
	}
	before := now()
	return func(from, to []float64) bool {
		ratio := 1.0
		for g := range from {
			ratio = max(ratio, to[g]/from[g])
		}
		for k, v := range now() {
			if v > ratio*before[k]*(1+1e-9) {
				return false
			}
		}
		return true
	}
}

// hinted is the log evidence of v from hardly determined weights.
func (s *priorSearch) hinted(v []float64) (sum float64) {
	for g, h := range s.hints {
		sum += v[g] * (h.slope - 0.5*h.curvature*v[g])
	}
	return sum
}

func converged(a, b []float64, far float64) bool {
	for g := range a {
		if !(math.Abs(math.Log(b[g]/a[g])) <= far) {
			return false
		}
	}
	return true
}

// step is MacKay's: the variance of a group is the sum of its squares over the number of its
// weights that the rows determine. Hardly determined weights contribute through their hints.
func (s *priorSearch) step(v []float64) []float64 {
	b, m, n := s.bank[0], s.plan.Model.Prior.Mean, len(v)
	b.UpdateLeaves()
	squares, known := memory.Floats(n), memory.Floats(n)
	vs := make([]float64, b.Dim())
	b.Variances(vs)
	for _, p := range s.ps {
		var mean, variance float64
		switch {
		case p.hardly:
			continue
		case p.at >= 0:
			mean, variance = b.Mean[p.at]-m, vs[p.at]
		default:
			if mean, variance = b.Marginal(^p.at); p.share == 1 {
				mean -= m
			}
		}
		if s.bumpy && (p.share/variance-1/v[p.group])*s.base < enoughKnown {
			continue
		}
		squares[p.group] += mean * mean / p.share
		known[p.group] += max(0, 1-variance/(p.share*v[p.group]))
	}
	next := memory.Floats(n)
	for g := range next {
		if s.plan.Located {
			v := hint{}.root(squares[g]+exactly*s.base, known[g]+exactly)
			next[g] = kernels.FewDigits(v) // a fit has them in the original unit of the responses
			continue
		}
		next[g] = s.hints[g].root(squares[g]+oneWeight*s.base, known[g]+oneWeight)
	}
	return next
}

// Priors implements stream.PriorLearner.
func (t *tied) Priors(f *kernels.Fit, scale float64) {
	t.keepHints(f)
	if t.vars == nil || t.vars.first {
		return
	}
	to := func(v float64) float64 { return kernels.ScalePrior(v, scale*scale) }
	f.Prior.Variance = to(t.vars.rest)
	for k := range f.Columns {
		switch c := &f.Columns[k]; {
		case c.Kind == kernels.LevelsColumn:
			c.Variance = to(t.vars.of(c.Name))
		case !math.IsNaN(c.Variance):
			c.Variance = to(t.vars.rest)
		}
	}
}
