package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/stop"
)

// Merge multiplies partial posteriors a and b that share the prior p:
// precision Λa + Λb - Λp, and the same for precision times mean. logC is the
// log of the integral of a·b/p, what the two partial evidences lack. ok is
// false when the product is improper. A known weight stays as it is.
func Merge(a, b, p Weight) (w Weight, logC float64, ok bool) {
	if p.Variance == 0 || a.Variance == 0 || b.Variance == 0 {
		if a.Variance == 0 || p.Variance == 0 {
			return a, 0, a == b || b == p
		}
		return b, 0, a == p
	}
	if a == p {
		return b, 0, true
	}
	if b == p {
		return a, 0, true
	}
	la, lb, lp := 1/a.Variance, 1/b.Variance, 1/p.Variance
	l := la + lb - lp
	if !(l > 0) {
		return Weight{}, 0, false
	}
	// Means relative to the prior's: the terms of a weight that hardly moved
	// stay small instead of cancelling.
	da, db := a.Mean-p.Mean, b.Mean-p.Mean
	nu := da*la + db*lb
	w = Weight{p.Mean + nu/l, 1 / l}
	det := math.Log((la / lp) * (lb / l)) // one logarithm: the parts of a million features are a million products
	if !(math.Abs(det) < math.Inf(1)) {
		det = math.Log(la) + math.Log(lb) - math.Log(lp) - math.Log(l)
	}
	logC = 0.5 * (nu*nu/l - da*da*la - db*db*lb + det)
	return w, logC, true
}

// ErrImproper is the error of a product of posteriors that is no distribution.
var ErrImproper = errors.New("improper")

func differ(what string, a, b any) error {
	return fmt.Errorf("the fits differ in %s (%v and %v); only fits of one model can be merged", what, a, b)
}

// noises pool the dispersions of parts: the product of their posteriors has each part's own
// noise, and the mean of these over the rows is that of the product. A part without rows has
// no noise of its own.
type noises struct {
	parts       int
	first       float64
	rows, sum   float64
	bare, mixed bool
}

// add counts a part of n rows.
func (m *noises) add(f *Fit, n int64) error {
	return m.merge(&noises{parts: 1, first: f.Dispersion, rows: float64(n), sum: float64(n) * f.Dispersion, bare: n <= 0})
}

func (m *noises) merge(o *noises) error {
	if m.parts == 0 {
		*m = *o
		return nil
	}
	mixed := m.mixed || o.mixed || o.parts > 0 && m.first != o.first
	if mixed && (m.bare || o.bare) {
		return differ("dispersion", m.first, o.first)
	}
	*m = noises{m.parts + o.parts, m.first, m.rows + o.rows, m.sum + o.sum, m.bare || o.bare, mixed}
	return nil
}

// pooled is the dispersion of all parts.
func (m *noises) pooled() float64 {
	if m.mixed {
		return m.sum / m.rows
	}
	return m.first
}

// alike says whether two prior variances are one to rounding: those of responses that were
// standardised are products of their spread.
func alike(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(a, b) }

// Agree reports what keeps two fits from being parts of one: a different family,
// link, shape, prior, intercept or hash_bits, or classes.
func Agree(a, b *Fit) error {
	bits := func(n int) any {
		if n == 0 {
			return "none"
		}
		return n
	}
	switch {
	case a == nil || b == nil:
		return ErrNoFit
	case a.Family != b.Family || a.Link != b.Link:
		return differ("family or link", a.Family+" "+a.Link, b.Family+" "+b.Link)
	case a.Shape != b.Shape && !(math.IsNaN(a.Shape) && math.IsNaN(b.Shape)) && !(a.learntShape() && b.learntShape()):
		return fmt.Errorf("the fits differ in shape (%v and %v); only fits of one shape can be merged: fit the parts with the option shape, or %w", a.Shape, b.Shape, ErrApart)
	case a.Prior.Mean != b.Prior.Mean:
		return differ("prior.mean", a.Prior.Mean, b.Prior.Mean)
	case !alike(a.Prior.Variance, b.Prior.Variance) && !(a.located() && b.located()) && !(a.learnsPrior() && b.learnsPrior()):
		return fmt.Errorf("%w; where they learnt it, fit them with prior_variance: %.4g, or %w",
			differ("prior.variance", a.Prior.Variance, b.Prior.Variance), math.Sqrt(a.Prior.Variance*b.Prior.Variance), ErrApart)
	case !alike(a.Prior.InterceptVariance, b.Prior.InterceptVariance) && !(a.located() && b.located()):
		return differ("prior.intercept_variance", a.Prior.InterceptVariance, b.Prior.InterceptVariance)
	case a.Intercept != b.Intercept:
		return differ("intercept", a.Intercept, b.Intercept)
	case a.HashBits != b.HashBits:
		return differ("hash_bits", bits(a.HashBits), bits(b.HashBits))
	case len(a.Classes)+len(b.Classes) > 0:
		return fmt.Errorf("fits with classes cannot be merged")
	}
	if a == b {
		return nil
	}
	for _, f := range []*Fit{a, b} {
		for _, c := range f.Columns {
			if _, _, ok := f.Kept(KeptCrossedOf(c.Name)); ok {
				return fmt.Errorf("interaction %.100q was learnt by numbers less their mean in each fit; only fits of one prior can be merged: fit the parts with standardize: false and numbers that are centred by one constant, or %w", c.Name, ErrApart)
			}
		}
	}
	return differByVariance(a, b)
}

// agreesWith is Agree of a part with the fit that it started from: one that remembers no columns has no prior
// variances of theirs.
func (f *Fit) agreesWith(from *Fit) error {
	own := *f
	if len(from.Columns) == 0 {
		own.Columns = nil
	}
	return Agree(&own, from)
}

// differByVariance reports a column of levels whose prior variance is not that of other weights, unless both fits
// have it, and were given it: the posterior of one that was learnt is not of the rows and one prior.
func differByVariance(a, b *Fit) error {
	for _, f := range []*Fit{a, b} {
		other := a
		if f == a {
			other = b
		}
		for _, c := range f.Columns {
			if f.learnsPrior() {
				break
			}
			if !f.differs(&c) {
				continue
			}
			v := f.Prior.Variance
			found, to := other.column(c.Name, LevelsColumn), ""
			switch _, _, learnt := c.Deviation(); {
			case other.N == 0 && len(other.Columns) == 0: // it saw no row that could tell it
				continue
			case found == nil:
				to = "none"
			case learnt, other.learnsPrior():
				to = fmt.Sprintf("%.4g, which were learnt", found.Variance)
			case math.Abs(c.Variance*other.Prior.Variance-found.Variance*v) > 1e-9*c.Variance*other.Prior.Variance:
				to = fmt.Sprintf("%.4g", found.Variance)
			default:
				continue
			}
			return fmt.Errorf("column %.100q has a prior variance of its own, %.4g, and in another fit %s; only fits of one prior can be merged: fit the parts with prior_variance: {%s: %.4g}, or %w", c.Name, c.Variance, to, c.Name, c.Variance, ErrApart)
		}
	}
	return nil
}

// GivenVariances are the prior variances of columns of levels of f that are not those of other weights.
func (f *Fit) GivenVariances() (out ColumnPriors) {
	for _, c := range f.Columns {
		if f.differs(&c) {
			out = append(out, ColumnPrior{Column: c.Name, Variance: c.Variance})
		}
	}
	return out
}

// differs says whether the weights of c, a column of levels, have a prior variance that is not that of others, but for rounding.
func (f *Fit) differs(c *FitColumn) bool {
	v := f.Prior.Variance
	return c.Kind == LevelsColumn && math.Abs(c.Variance-v) > 1e-9*v
}

// learnsPrior says whether f is of a stream that learnt its prior variances, which are known
// of each of its weights.
func (f *Fit) learnsPrior() bool {
	return f.Covariance.Form == gauss.Arrowhead && f.Covariance.Arrow().LearnsPrior()
}

// mostFirst is fits with the one of most rows first of those that learnt their prior variances:
// those of the product are its own. Of others one whose columns of levels have variances comes first,
// which a part without rows does not tell.
func mostFirst(fits []*Fit) []*Fit {
	at := -1
	for k, f := range fits {
		if f.learnsPrior() && (at < 0 || f.N > fits[at].N || f.N == fits[at].N && f.Prior.Variance > fits[at].Prior.Variance) {
			at = k
		}
	}
	if at < 0 && fits[0].GivenVariances() == nil {
		at = slices.IndexFunc(fits, func(f *Fit) bool { return f.GivenVariances() != nil })
	}
	if at < 0 {
		return fits
	}
	out := slices.Clone(fits)
	out[0], out[at] = out[at], out[0]
	return out
}

// AddPart adds to the counts, evidence, time and columns of f what a part has beyond the
// fit that it started from.
// Errors: a part of fewer rows than the start, more rows than MaxCount, columns of one name
// that are not of one kind.
func (f *Fit) AddPart(part, start *Fit) error {
	if part.N < start.N || part.Skipped < start.Skipped {
		return fmt.Errorf("prior: it has n = %d, n_skipped = %d, and a fit n = %d, n_skipped = %d; allowed: the fit that all of them started from",
			start.N, start.Skipped, part.N, part.Skipped)
	}
	f.N += part.N - start.N
	f.Skipped += part.Skipped - start.Skipped
	if f.N > MaxCount || f.Skipped > MaxCount {
		return fmt.Errorf("the fits have more than %d rows together", int64(MaxCount))
	}
	f.LogEvidence += part.LogEvidence - start.LogEvidence
	f.Time = Later(f.Time, part.Time)
	return f.addColumns(part, start)
}

// addColumns adds the columns of part: the rows of those that f has, less those of
// start, and the others as they are.
// Errors: columns of one name, without regard to case, of which one has numbers and the
// other levels, or whose features are written differently.
func (f *Fit) addColumns(part, start *Fit) error {
	if part.Columns == nil {
		return nil
	}
	f.Columns = append(make([]FitColumn, 0, len(f.Columns)+len(part.Columns)), f.Columns...) // others may hold them
	for _, c := range part.Columns {
		same := func(d FitColumn) bool { return strings.EqualFold(d.Name, c.Name) }
		stats, begun := c.Stats(), false
		if k := slices.IndexFunc(start.Columns, same); k >= 0 {
			begun, stats = true, stats.Less(start.Columns[k].Stats())
			stats.N, stats.Missing = max(0, stats.N), max(0, stats.Missing)
			c.N, c.Missing = stats.N, stats.Missing
		}
		k := slices.IndexFunc(f.Columns, same)
		if k < 0 {
			f.Columns = append(f.Columns, c)
			continue
		}
		switch o := &f.Columns[k]; {
		case o.Kind != c.Kind:
			return fmt.Errorf("column %.100q has %s in one fit and %s in another; only fits of one model can be merged", c.Name, plural[max(o.Kind, c.Kind)], plural[min(o.Kind, c.Kind)])
		case !SameParts(o.Parts, c.Parts):
			return fmt.Errorf("column %.100q is made of %s in one fit and of %s in another; only fits of one model can be merged", c.Name, c.Parts, o.Parts)
		case o.Name != c.Name:
			return fmt.Errorf("column %.100q is called %.100q in another fit, so that their features differ; only fits of one model can be merged", c.Name, o.Name)
		default:
			o.pool(stats, begun)
		}
	}
	return nil
}

var plural = map[string]string{NumberColumn: "numbers", LevelsColumn: "levels", FeaturesColumn: "features of other names"}

// pool adds the rows of o, of a column of the same kind; one that is begun keeps its scale, that of
// the fit continued.
func (c *FitColumn) pool(o ColumnStats, begun bool) {
	if c.Kind == NumberColumn {
		all := c.Stats()
		all.Merge(o)
		if all.N > all.Missing {
			c.Center = all.Center
			if !begun && !math.IsNaN(c.Scale) {
				c.Scale = all.Scale
			}
		}
	}
	c.N += o.N
	c.Missing = min(c.Missing+o.Missing, c.N)
}

// mergeArrowheads is the product of fits with an arrowhead covariance: its beliefs, its
// covariance and log ∫ Πqk / p^(K-1). It notes in out what prior variances it has.
var mergeArrowheads func(fits []*Fit, from, out *Fit) ([]Belief, Covariance, float64, error)

// SetArrowheads sets what multiplies fits with an arrowhead covariance: the filter that
// makes them, which knows what prior their level means have, is a package above this one.
func SetArrowheads(merge func(fits []*Fit, from, out *Fit) ([]Belief, Covariance, float64, error)) {
	mergeArrowheads = merge
}

// MergeFits multiplies posteriors of one model fitted to different rows, the
// common prior counted once: Λ = Λ0 + Σ(Λk - Λ0), whatever the forms of their
// covariances. from is the fit that all of them started from, nil for the default
// prior. Exact for Gaussian likelihoods with full covariance; log_evidence gains
// the overlap log ∫ Πqk / p^(K-1). Known weights must agree.
//
// Cost: that of gauss.Product. Errors: fits of different models, an improper product, ErrPerfect,
// ErrPartPriors, ErrPartCorrelated; the cause of ctx when it is cancelled.
//
// Parts whose dispersions differ, or shapes that they learnt, are multiplied as they are: the
// posterior under noises of their own. Its dispersion is their mean over the rows, by the degrees of
// freedom of all where each is the mean of its law; its shape that of most probability. What parts
// learnt of these is multiplied too (lessons). It has converged
// where all parts have, and its status tells what theirs say (remarks). Of one fit the product is that fit, but for PredictiveScale.
func MergeFits(ctx context.Context, fits []*Fit, from *Fit) (_ *Fit, err error) {
	if len(fits) == 0 {
		return nil, errors.New("there are no fits to merge; allowed: one or more")
	}
	if at := slices.Index(fits, nil); at >= 0 {
		return nil, fmt.Errorf("fit %d of %d: %w", at+1, len(fits), ErrNoFit)
	}
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	defer func() { err = perfect(fits, err) }()
	m := &fitMerge{halt: halt, fits: mostFirst(fits), from: from, prior: map[uint32]Weight{}, known: map[uint32]float64{}}
	if err := m.begin(); err != nil {
		return nil, err
	}
	for _, f := range append([]*Fit{m.start}, m.fits...) {
		if err := m.gather(f); err != nil {
			return nil, err
		}
	}
	var cols []FitColumn
	for _, f := range m.fits {
		own := columnsOf(f, m.start)
		if err := differByColumns(cols, own); err != nil {
			return nil, err
		}
		if len(cols) == 0 {
			cols = own
		}
	}
	if out := &m.out; from != nil {
		out.N, out.Skipped, out.LogEvidence, out.Time, out.Columns = from.N, from.Skipped, from.LogEvidence, from.Time, from.Columns
	}
	for _, f := range m.fits {
		if err := m.out.AddPart(f, m.start); err != nil {
			return nil, err
		}
	}
	if len(fits) == 1 { // which has been held against from
		out := *fits[0]
		out.Method, out.Iterations, out.Learnt = "merge", 1, out.unscaled() // a product predicts from the posterior alone
		return &out, nil
	}
	arrows, err := m.byArrowheads()
	if err != nil {
		return nil, err
	}
	m.out.Method, m.out.Iterations = "merge", 1
	var said remarks
	for _, f := range m.fits {
		said.add(f)
	}
	said.note(&m.out, m.unequal)
	if arrows {
		err = m.arrowheads()
	} else {
		err = m.normals()
	}
	if err != nil {
		return nil, err
	}
	m.out.LogEvidence -= m.excess
	return &m.out, nil
}

// fitMerge is a MergeFits under way.
type fitMerge struct {
	halt        *stop.Stop
	fits        []*Fit
	from, start *Fit // start is from, or the default prior
	out         Fit

	byColumn bool // prior variances are by column of levels

	d     Dict               // all features
	prior map[uint32]Weight  // of each
	known map[uint32]float64 // the values of those of variance 0

	excess  float64 // what the parts' evidences have of dispersions of their own
	unequal string  // about dispersions or shapes of the parts
}

// begin starts the fit that comes out: dispersion, shape, what was learnt of them.
func (m *fitMerge) begin() error {
	out := &m.out
	*out = *m.fits[0]
	m.byColumn = out.learnsPrior() || out.GivenVariances() != nil
	out.N, out.Skipped, out.LogEvidence, out.Time, out.Columns, out.Learnt = 0, 0, 0, math.NaN(), nil, nil
	m.start = &Fit{Prior: out.Prior, Time: math.NaN()}
	var noise noises
	var learnt lessons
	if m.from != nil {
		m.start = m.from
		if err := noise.add(m.from, m.from.N); err != nil {
			return err
		}
	}
	for _, f := range m.fits {
		if err := noise.add(f, f.N-m.start.N); err != nil {
			return err
		}
		learnt.add(f, f.N-m.start.N, 1)
	}
	out.Dispersion = noise.pooled()
	err := learnt.note(out, int64(len(m.fits)), m.from)
	m.excess = learnt.deviation.excess()
	m.unequal = learnt.unequal(out)
	return err
}

// gather takes the features of f, which is of the same model, and checks known weights.
func (m *fitMerge) gather(f *Fit) error {
	first := m.fits[0]
	if f == m.from {
		if err := first.agreesWith(f); err != nil {
			return err
		}
	} else if f != m.start {
		if err := Agree(first, f); err != nil {
			return err
		}
	}
	for k, b := range f.Beliefs {
		m.halt.Row(k)
		id, err := m.d.AddRaw(b.Feature)
		if err != nil {
			return err
		}
		if _, ok := m.prior[id]; !ok {
			if m.prior[id] = m.out.Prior.Of(view(b.Feature)); m.byColumn {
				m.prior[id] = first.PriorOf(view(b.Feature))
			}
			if f == m.start {
				m.prior[id] = b.Weight
			}
		}
		if p := m.prior[id]; b.Variance == 0 || p.Variance == 0 {
			if p.Variance == 0 && b.Weight != p {
				return fmt.Errorf("feature %q is known a priori (variance 0), but a fit has mean %v, variance %v", b.Feature, b.Mean, b.Variance)
			}
			if v, ok := m.known[id]; ok && v != b.Mean {
				return fmt.Errorf("feature %q is known (variance 0) as %v and as %v", b.Feature, v, b.Mean)
			}
			m.known[id] = b.Mean
		}
	}
	return nil
}

// byArrowheads says whether the fits are multiplied as arrowheads; else they are written out in
// full.
func (m *fitMerge) byArrowheads() (bool, error) {
	arrows, means, units := 0, false, false
	for _, f := range m.fits {
		if f.Covariance.Form == gauss.Arrowhead {
			arrows++
			means = means || f.Covariance.hasLevelMeans()
			units = units || f.Covariance.Arrow().InUnits() || f.located() && !alike(f.Prior.Variance, m.fits[0].Prior.Variance)
		}
	}
	all := arrows == len(m.fits)
	switch {
	case means && units:
		return false, fmt.Errorf("the fits have level means and numbers, or responses, that each standardised by its own rows; "+
			"allowed: parts with standardize: false, or covariance: 'full', or of method laplace; or %w", ErrApart)
	case means && !all, means && mergeArrowheads == nil:
		return false, fmt.Errorf("%d of %d fits have an arrowhead covariance, whose weights share level means; allowed: all of them or none", arrows, len(m.fits))
	}
	return means || all && !units && mergeArrowheads != nil, nil
}

// arrowheads is the product of arrowheads.
func (m *fitMerge) arrowheads() error {
	bs, c, logC, err := mergeArrowheads(m.fits, m.from, &m.out)
	if err != nil {
		return fmt.Errorf("the product of %d posteriors over the prior is %w (%w)", len(m.fits), ErrImproper, err)
	}
	m.out.Beliefs, m.out.Covariance, m.out.LogEvidence = bs, c, m.out.LogEvidence+logC
	return nil
}

// normals is the product of fits written out as Gaussians over the weights that are not known.
func (m *fitMerge) normals() error {
	order := m.d.Order()
	col := make([]int, m.d.Len())
	var names []string
	var mean, variance []float64
	for _, id := range order {
		col[id] = -1
		if _, ok := m.known[id]; !ok {
			col[id] = len(mean)
			mean, variance = append(mean, m.prior[id].Mean), append(variance, m.prior[id].Variance)
			names = append(names, string(m.d.Name(id)))
		}
	}
	over := func(f *Fit) (*gauss.Normal, error) {
		place := make([]int, len(f.Beliefs))
		for k, b := range f.Beliefs {
			id, _ := m.d.Find(b.Feature)
			place[k] = col[id]
		}
		v := variance // of what f has not
		switch {
		case f.learnsPrior():
			v = make([]float64, len(variance))
			for _, id := range order {
				if j := col[id]; j >= 0 {
					v[j] = f.PriorOf(m.d.Name(id)).Variance
				}
			}
		case (f != m.start || f == m.from) && f.located(): // by the spread of its own responses
			v = slices.Clone(variance)
			for j := range v {
				v[j] *= f.Prior.Variance / m.fits[0].Prior.Variance
			}
		}
		return f.over(place, append([]float64(nil), mean...), v, m.halt)
	}
	if err := m.beyond(); err != nil {
		return err
	}
	base, err := over(m.start)
	if err != nil {
		return fmt.Errorf("prior: %w", err)
	}
	if m.from != nil && m.from.learnsPrior() {
		for _, f := range m.fits {
			for _, name := range names {
				if own, begun := f.PriorOf(view(name)), m.from.PriorOf(view(name)); !alike(own.Variance, begun.Variance) {
					return differ("prior.variance", own.Variance, begun.Variance)
				}
			}
		}
	}
	parts := make([]*gauss.Normal, len(m.fits))
	for k, f := range m.fits {
		if parts[k], err = over(f); err != nil {
			return err
		}
	}
	post, logC, err := m.product(base, parts, names, mean, variance)
	if err != nil {
		return fmt.Errorf("the product of %d posteriors over the prior is %w (%w)", len(m.fits), ErrImproper, err)
	}
	m.out.LogEvidence += logC
	p := Problem{dict: &m.d, order: order, at: make([]int32, len(order)), known: make([]Weight, len(order))}
	for k, id := range order {
		p.at[k] = int32(col[id])
		if col[id] < 0 {
			p.known[k].Mean = m.known[id]
		}
	}
	p.setPosterior(&m.out, post)
	return nil
}

// product multiplies parts over base; where they began with a prior in units of their own, in
// common ones.
func (m *fitMerge) product(base *gauss.Normal, parts []*gauss.Normal, names []string, mean, variance []float64) (*gauss.Normal, float64, error) {
	if m.from != nil {
		return m.overStart(base, parts, names)
	}
	out, first := &m.out, m.fits[0]
	all, own := unitsOf(m.fits, parts, names, mean, variance)
	if all != nil {
		out.Prior.Variance *= all.factor
		out.Prior.InterceptVariance *= all.factor
		for k := range out.Columns {
			if c := &out.Columns[k]; c.Kind == LevelsColumn || alike(c.Variance, first.Prior.Variance) {
				c.Variance *= all.factor
			}
		}
		if all.kept {
			name := KeptOrigin
			if first.located() {
				name = KeptLevel
			}
			out.Keep(name, all.center, 0)
		}
	}
	for k := range out.Columns {
		if c := &out.Columns[k]; slices.ContainsFunc(m.fits, (*Fit).learnsPrior) && c.Kind == LevelsColumn {
			c.Variance = first.PriorOf([]byte(c.Name + "=")).Variance
		}
	}
	if all != nil {
		return all.product(own, parts)
	}
	return gauss.Product(base, parts)
}

// ErrApart is in the errors of fits that are not merged, whose rows one of them can still learn.
var ErrApart = errors.New("continue one fit with the rows of the other")

// ErrPerfect is the error of a product of posteriors without noise, of which doubles have no
// digits: what the prior says beside the rows is less than their rounding.
var ErrPerfect = errors.New("the rows are fitted without a residual")

// perfect is err, that a sum of precisions has no root, or why where a fit has next to no noise.
func perfect(fits []*Fit, err error) error {
	const noise = 1e-13 // of the prior variance: what the rows add to it then is 1e13 times itself
	if !errors.Is(err, gauss.ErrNotPD) && !errors.Is(err, dense.ErrNotPD) {
		return err
	}
	for _, f := range fits {
		if l, _ := f.Likelihood(); l != nil && l.Traits().Located && f.Dispersion < noise*f.Prior.Variance {
			return fmt.Errorf("%w by a fit of dispersion %.3g under a prior variance of %.3g: the precisions of its weights are too far apart to be added; fit the parts with the option dispersion, a number, or %w",
				ErrPerfect, f.Dispersion, f.Prior.Variance, ErrApart)
		}
	}
	return err
}

// Later is the larger of two times of which either may be NaN.
func Later(a, b float64) float64 {
	if !(a >= b) && !math.IsNaN(b) {
		return b
	}
	return a
}
