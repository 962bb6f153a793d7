package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/stop"
)

// Merge multiplies partial posteriors a and b that share the prior p: precision Λa + Λb - Λp, and
// the same for precision times mean. logC is the log of the integral of a·b/p, which the two
// partial evidences lack. ok is false if the product is improper. A known weight does not change.
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
	// Means relative to the prior's: the terms of a weight that hardly moved stay small instead of
	// cancelling.
	da, db := a.Mean-p.Mean, b.Mean-p.Mean
	nu := da*la + db*lb
	w = Weight{p.Mean + nu/l, 1 / l}
	det := math.Log((la / lp) * (lb / l)) // one logarithm: a part of a million features needs a million of them
	if !(math.Abs(det) < math.Inf(1)) {
		det = math.Log(la) + math.Log(lb) - math.Log(lp) - math.Log(l)
	}
	logC = 0.5 * (nu*nu/l - da*da*la - db*db*lb + det)
	return w, logC, true
}

// ErrImproper is the error for a product of posteriors that is improper.
var ErrImproper = errors.New("improper")

func differ(what string, a, b any) error {
	return fmt.Errorf("the fits differ in %s (%v and %v); only fits of one model can be merged", what, a, b)
}

// noises pool the dispersions of parts: the product of their posteriors has each part's own noise,
// and the dispersion of the product is the mean of these over the rows. A part without rows has no
// noise of its own.
type noises struct {
	parts       int
	first       float64
	rows, sum   float64
	bare, mixed bool
}

// add adds a part of n rows.
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

// alike reports whether two prior variances are equal up to rounding: those of standardised
// responses are products with their spread.
func alike(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(a, b) }

// Agree returns an error if two fits cannot be parts of one: a different family, link, shape,
// prior, intercept or hash_bits, or classes.
func Agree(a, b *Fit) error { return agree(a, b, false) }

// agree is Agree; with continued, a and b continue one fit, or a continues b.
func agree(a, b *Fit, continued bool) error {
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
	for _, l := range slices.Concat(a.Learnt, b.Learnt) {
		name, ok := strings.CutPrefix(l.Name, levelsPrefix)
		if !ok || a.N == 0 || b.N == 0 || len(a.Correlations)+len(b.Correlations) > 0 { // correlated ones have an error of their own
			continue
		}
		if !continued || !a.keeps(l) || !b.keeps(l) { // parts that continue one fit keep the variance that it learnt
			return fmt.Errorf("features named %.100q have a learnt prior variance of their own, %.4g; only fits of one prior can be merged: if they continue one fit, give that fit as their prior; otherwise fit the parts with one prior_variance, or %w", strings.TrimSuffix(name, ")")+"=...", l.Mean*l.Mean+l.SD*l.SD, ErrApart)
		}
	}
	return differByVariance(a, b, continued)
}

// agreesWith is Agree for a part and the fit that it started from: one that records no columns has
// no prior variances of columns.
func (f *Fit) agreesWith(from *Fit) error {
	own := *f
	if len(from.Columns) == 0 {
		own.Columns = nil
	}
	return agree(&own, from, true)
}

// differByVariance returns an error for a column of levels whose prior variance is not that of
// other weights, unless both fits were given it: with a learnt one the posterior is not that of the
// rows and one prior. One that a part keeps of the fit that it continued is given.
func differByVariance(a, b *Fit, continued bool) error {
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
			own, _ := apart(c.Variance, c.Variance)
			found, to, by := other.column(c.Name, LevelsColumn), "", ""
			same := found != nil && math.Abs(c.ofLevels()*other.Prior.Variance-found.ofLevels()*v) <= 1e-9*c.ofLevels()*other.Prior.Variance
			switch _, _, learnt := c.Deviation(); {
			case other.N == 0 && len(other.Columns) == 0: // it saw no row that could show it
				continue
			case found == nil:
				to = "none"
			case same && (continued || !learnt && !other.learnsPrior()):
				continue
			case learnt, other.learnsPrior():
				own, to = apart(c.Variance, found.Variance)
				to += ", which were learnt"
				if same {
					by = "if they continue one fit, give that fit as their prior; otherwise "
				}
			default:
				own, to = apart(c.Variance, found.Variance)
			}
			return fmt.Errorf("column %.100q has a prior variance of its own, %s, and in another fit %s; only fits of one prior can be merged: %sfit the parts with prior_variance: {%s: %.4g}, or %w", c.Name, own, to, by, c.Name, c.Variance, ErrApart)
		}
	}
	return nil
}

// apart prints two numbers with four digits, or with as many as tell them apart.
func apart(x, y float64) (string, string) {
	digits := 4
	for digits < 17 && x != y && strconv.FormatFloat(x, 'g', digits, 64) == strconv.FormatFloat(y, 'g', digits, 64) {
		digits++
	}
	return strconv.FormatFloat(x, 'g', digits, 64), strconv.FormatFloat(y, 'g', digits, 64)
}

// GivenVariances returns the prior variances of columns of levels of f that are not those of other
// weights.
func (f *Fit) GivenVariances() (out ColumnPriors) {
	for _, c := range f.Columns {
		if f.differs(&c) {
			out = append(out, ColumnPrior{Column: c.Name, Variance: c.Variance})
		}
	}
	return out
}

// differs reports whether the prior variance of c, a column of levels, is not that of other weights.
func (f *Fit) differs(c *FitColumn) bool {
	v := f.Prior.Variance
	return c.Kind == LevelsColumn && math.Abs(c.Variance-v) > 1e-9*v
}

// learnsPrior reports whether f is of a stream that learnt its prior variances, which are known for
// each of its weights.
func (f *Fit) learnsPrior() bool {
	return f.Covariance.Form == gauss.Arrowhead && f.Covariance.Arrow().LearnsPrior()
}

// mostFirst returns fits with the one with most rows first among those that learnt their prior
// variances: the product has its variances. Otherwise one whose columns of levels have variances
// comes first, which a part without rows does not know.
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

// AddPart adds to the counts, evidence, time and columns of f those of a part beyond the fit that
// it started from.
// Errors: a part of fewer rows than the start, more rows than MaxCount, columns of one name but
// different kinds.
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

// addColumns adds the columns of part: the rows of those that f has, less those of start, and the
// others unchanged.
// Errors: columns of one name, regardless of case, of which one has numbers and the other levels,
// or whose features are written differently.
func (f *Fit) addColumns(part, start *Fit) error {
	if part.Columns == nil {
		return nil
	}
	f.Columns = append(make([]FitColumn, 0, len(f.Columns)+len(part.Columns)), f.Columns...) // f.Columns may be shared
	for _, c := range part.Columns {
		same := func(d FitColumn) bool { return strings.EqualFold(d.Name, c.Name) }
		c.equal = part.equal(&c)
		stats, begun := c.numbers(), false
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
			o.pool(stats, c.equal, begun)
		}
	}
	return nil
}

var plural = map[string]string{NumberColumn: "numbers", LevelsColumn: "levels", FeaturesColumn: "features of other names"}

// pool adds the rows of o, of a column of the same kind and equal as Fit.equal says; if begun, c
// keeps its scale, that of the fit continued.
func (c *FitColumn) pool(o ColumnStats, equal, begun bool) {
	if c.Kind == NumberColumn {
		all := c.numbers()
		all.Merge(o)
		if all.N > all.Missing {
			c.Center = all.Center
			if !begun && !math.IsNaN(c.Scale) {
				c.Scale, c.equal = all.Scale, all.Scale == 0 && (c.equal || equal)
				if c.equal {
					c.Scale = design.Unit(c.Center, 0, true)
				}
			}
		}
	}
	c.N += o.N
	c.Missing = min(c.Missing+o.Missing, c.N)
}

// ArrowheadProduct multiplies fits with an arrowhead covariance that started from fit from, nil for
// their prior. It returns the beliefs of the product, its covariance and log ∫ Πqk / p^(K-1), and
// records its prior variances in out. adf.MergeArrowheads is one: the filter that makes such fits,
// which knows the prior of their level means, is in a package above this one.
type ArrowheadProduct func(fits []*Fit, from, out *Fit) ([]Belief, Covariance, float64, error)

// MergeFits multiplies posteriors of one model fitted to different rows, counting the common prior
// once: Λ = Λ0 + Σ(Λk - Λ0), whatever the forms of their covariances. from is the fit that all of
// them started from, nil for the default prior. Exact for Gaussian likelihoods with full
// covariance; log_evidence gains the overlap log ∫ Πqk / p^(K-1). Known weights must agree.
// product multiplies arrowheads; with nil they are expanded to full covariances, and those with
// level means are refused.
//
// Cost: that of gauss.Product.
// Errors: fits of different models, an improper product, ErrPerfect, ErrPartPriors,
// ErrPartCorrelated; the cause of ctx when it is cancelled.
//
// Parts whose dispersions or learnt shapes differ are multiplied without change: the posterior is
// that under noises of their own. Its dispersion is their mean over the rows, by the degrees of
// freedom of all if each is the mean of its distribution; its shape is the most probable one. What
// parts learnt of these is multiplied, too (partParameters). It has converged if all parts have,
// and its status repeats theirs (remarks). The product of one fit is that fit without
// PredictiveScale.
func MergeFits(ctx context.Context, fits []*Fit, from *Fit, product ArrowheadProduct) (*Fit, error) {
	f, note, err := mergeFits(ctx, fits, from, product)
	if err != nil {
		return nil, err
	}
	f.AddStatus(note)
	return f, nil
}

// mergeFits is MergeFits; note is what status says of the product beyond what it repeats.
func mergeFits(ctx context.Context, fits []*Fit, from *Fit, product ArrowheadProduct) (_ *Fit, note string, err error) {
	if len(fits) == 0 {
		return nil, "", errors.New("there are no fits to merge; allowed: one or more")
	}
	for k, f := range fits {
		if err := f.CheckBeliefs(); err != nil {
			return nil, "", fmt.Errorf("fit %d of %d: %w", k+1, len(fits), err)
		}
	}
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	defer func() { err = perfect(fits, err) }()
	m := &fitMerge{halt: halt, fits: mostFirst(fits), from: from, multiply: product, prior: map[uint32]Weight{}, known: map[uint32]float64{}}
	if err := m.begin(); err != nil {
		return nil, "", err
	}
	for _, f := range append([]*Fit{m.start}, m.fits...) {
		if err := m.gather(f); err != nil {
			return nil, "", err
		}
	}
	var cols []FitColumn
	for _, f := range m.fits {
		own := columnsOf(f, m.start)
		if err := differByColumns(cols, own); err != nil {
			return nil, "", err
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
			return nil, "", err
		}
	}
	if len(fits) == 1 { // it has been checked against from
		out := *fits[0]
		out.Method, out.Iterations, out.Learnt = "merge", 1, out.unscaled() // a product predicts from the posterior alone
		return &out, "", nil
	}
	arrows, err := m.byArrowheads()
	if err != nil {
		return nil, "", err
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
		return nil, "", err
	}
	m.out.LogEvidence -= m.excess
	return &m.out, m.meansNote(), nil
}

// fitMerge is the state of a MergeFits.
type fitMerge struct {
	halt        *stop.Stop
	fits        []*Fit
	from, start *Fit // start is from, or the default prior
	out         Fit

	multiply ArrowheadProduct // nil if arrowheads are to be expanded

	byColumn bool // prior variances are by column of levels

	d     Dict               // all features
	prior map[uint32]Weight  // of each feature
	known map[uint32]float64 // the values of those of variance 0

	moved   bool    // parts have the means of all rows for missing numbers
	excess  float64 // excess of the parts' evidences due to dispersions of their own
	unequal string  // note on dispersions or shapes of the parts
}

// begin starts the resulting fit: dispersion, shape and what was learnt of them.
func (m *fitMerge) begin() error {
	out := &m.out
	*out = *m.fits[0]
	m.byColumn = out.learnsPrior() || out.GivenVariances() != nil || m.from.KeepsLevels()
	out.N, out.Skipped, out.LogEvidence, out.Time, out.Columns, out.Learnt = 0, 0, 0, math.NaN(), nil, nil
	m.start = &Fit{Prior: out.Prior, Time: math.NaN()}
	var noise noises
	var learnt partParameters
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

// gather adds the features of f, which is of the same model, and checks known weights.
func (m *fitMerge) gather(f *Fit) error {
	first := m.fits[0]
	if f == m.from {
		if err := first.agreesWith(f); err != nil {
			return err
		}
	} else if f != m.start {
		if err := agree(first, f, m.from != nil); err != nil {
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

// byArrowheads reports whether the fits are multiplied as arrowheads; otherwise they are expanded
// to full covariances.
func (m *fitMerge) byArrowheads() (bool, error) {
	arrows, means, units := 0, false, false
	blank, name := m.blank()
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
	case means && blank:
		return false, fmt.Errorf("column %.100q has no number in the rows of a fit, which has level means, and numbers in those of another; "+
			"allowed: parts with covariance: 'full', or of method laplace; or %w", name, ErrApart)
	case means && !all, means && m.multiply == nil:
		return false, fmt.Errorf("%d of %d fits have an arrowhead covariance, whose weights share level means; allowed: all of them or none", arrows, len(m.fits))
	}
	shifted := m.d.Len() <= mostShifted && m.shifted()
	return means || all && !units && !blank && !shifted && m.multiply != nil, nil
}

// blank reports whether a part without a common start has no number in a column, which is named,
// in which another has some.
func (m *fitMerge) blank() (is bool, name string) {
	if m.from != nil {
		return false, ""
	}
	middle := middles(m.fits)
	for _, f := range m.fits {
		for k := range f.Columns {
			if c := &f.Columns[k]; f.blankColumn(c) && middle[c.Name].N > 0 {
				return true, c.Name
			}
		}
	}
	return false, ""
}

// arrowheads computes the product of arrowheads.
func (m *fitMerge) arrowheads() error {
	bs, c, logC, err := m.multiply(m.fits, m.from, &m.out)
	if err != nil {
		return fmt.Errorf("the product of %d posteriors over the prior is %w (%w)", len(m.fits), ErrImproper, err)
	}
	m.out.Beliefs, m.out.Covariance, m.out.LogEvidence = bs, c, m.out.LogEvidence+logC
	return nil
}

// normals computes the product of fits expanded to Gaussians over the weights that are not known.
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
		v := variance // for weights that f lacks
		switch {
		case f.learnsPrior():
			v = make([]float64, len(variance))
			for _, id := range order {
				if j := col[id]; j >= 0 {
					v[j] = f.PriorOf(m.d.Name(id)).Variance
				}
			}
		case (f != m.start || f == m.from) && f.located(): // scaled by the spread of its own responses
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

// product multiplies parts over base; if they began with a prior in units of their own, in common
// units.
func (m *fitMerge) product(base *gauss.Normal, parts []*gauss.Normal, names []string, mean, variance []float64) (*gauss.Normal, float64, error) {
	if m.from != nil {
		lacks, err := m.atMeans(names, parts, func(int) (*gauss.Normal, error) { return base, nil })
		if err != nil {
			return nil, 0, err
		}
		post, logC, err := m.overStart(base, parts, names)
		return post, logC + lacks, err
	}
	out, first := &m.out, m.fits[0]
	all, own, err := unitsOf(m.fits, parts, names, mean, variance)
	if err != nil {
		return nil, 0, err
	}
	lacks, err := m.atMeans(names, parts, func(k int) (*gauss.Normal, error) {
		if all == nil {
			return base, nil
		}
		return own[k].scaling().Restore(own[k].prior())
	})
	if err != nil {
		return nil, 0, err
	}
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
			if all != nil {
				c.Variance *= all.factor
			}
		}
	}
	var post *gauss.Normal
	var logC float64
	if all != nil {
		post, logC, err = all.product(own, parts)
	} else {
		post, logC, err = gauss.Product(base, parts)
	}
	return post, logC + lacks, err
}

// ErrApart is in the errors of fits that cannot be merged, but could learn each other's rows.
var ErrApart = errors.New("continue one fit with the rows of the other")

// ErrPerfect is the error for a product of posteriors without noise, for which doubles have no
// digits: the prior's contribution is smaller than the rounding of the rows'.
var ErrPerfect = errors.New("the rows are fitted without a residual")

// perfect returns err, that a sum of precisions has no root, or its cause if a fit has almost no
// noise.
func perfect(fits []*Fit, err error) error {
	const noise = 1e-13 // relative to the prior variance: the rows then contribute 1e13 times as much as the prior
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

// Later returns the later of two times, of which either may be NaN.
func Later(a, b float64) float64 {
	if !(a >= b) && !math.IsNaN(b) {
		return b
	}
	return a
}
