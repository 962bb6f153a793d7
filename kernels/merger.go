package kernels

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/gauss"
)

// Merger multiplies posteriors of one model that were fitted to different rows, as they come. It
// keeps natural parameters relative to the common prior, so that the order of the parts does not
// matter beyond rounding: per feature Σ(Λk - Λ0), Σ(νk - ν0) and the parts' log normalisers. It is
// used by one goroutine at a time.
type Merger struct {
	head   Fit
	dict   Dict
	prior  map[string]Weight // features of from; nil without
	from   *Fit
	sums   []mergeSum // by feature
	k      int64
	given  bool           // prior variances by column of levels, or by text before '='
	cols   []FitColumn    // of a part; nil if none records any
	noise  noises         // of the parts, without from
	learnt partParameters // of the parts, without from
	said   remarks        // of the parts

	// joint are the parts with a covariance; the fields above summarise the others.
	joint []*Fit
}

// mergeSum is the contribution of the parts to one weight.
type mergeSum struct {
	lam   float64 // Σ (Λk - Λ0)
	nu    float64 // Σ (μk - μ0) Λk: means relative to the prior's
	logA  float64 // Σ log normaliser differences, for the evidence
	het   float64 // Σ (μk - μ0)² Λk, for the parts' disagreement
	mean  float64 // if known
	known bool
}

// MaxConflict is the distance, in standard deviations, of merged beliefs of a weight from which the
// status mentions it: six sigma does not happen by chance.
const MaxConflict = 6

// NewMerger returns a Merger for fits of the model of f, whose beliefs it does not need, that all
// started from from, nil for the default prior.
// Errors: a from of another model.
func NewMerger(f, from *Fit) (*Merger, error) {
	if f == nil {
		return nil, ErrNoFit
	}
	m := &Merger{head: *f}
	m.head.N, m.head.Skipped, m.head.LogEvidence, m.head.Time = 0, 0, 0, math.NaN()
	m.head.Beliefs, m.head.Covariance, m.head.Columns, m.head.Learnt = nil, Covariance{}, nil, Parameters(f.Learnt)
	if from == nil {
		return m, nil
	}
	one := m.head
	one.Covariance, one.Columns, one.Learnt = f.Covariance, f.Columns, f.Learnt // these show which prior variances f was given, or has learnt
	if err := one.agreesWith(from); err != nil {
		return nil, fmt.Errorf("prior: %w", err)
	}
	m.from = from
	m.head.keepLevels(from)
	m.head.N, m.head.Skipped, m.head.LogEvidence, m.head.Columns = from.N, from.Skipped, from.LogEvidence, from.Columns
	m.prior = make(map[string]Weight, len(from.Beliefs))
	for _, b := range from.Beliefs {
		m.prior[b.Feature] = b.Weight
		if _, err := m.slot(b.Feature); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// ErrPriors is the error for parts that did not start from the same fit.
var ErrPriors = errors.New("the prior differs between rows of one group; allowed: the one fit that all parts started from")

// Joint reports whether a part with the head f has to be added with AddJoint: it or the prior has a
// covariance, or its numbers have units of their own.
func (m *Merger) Joint(f *Fit) bool {
	return f.Covariance.Form != gauss.Diagonal || f.inUnits() || m.from != nil && m.from.Covariance.Form != gauss.Diagonal
}

// model is a fit that others must agree with: a joint one shows whether it is in units of its own.
func (m *Merger) model() *Fit {
	if len(m.joint) > 0 {
		return m.joint[0]
	}
	return &m.head
}

// same compares the columns of a part with those of the parts before it.
func (m *Merger) same(cols []FitColumn) error {
	if err := differByColumns(m.cols, cols); err != nil {
		return err
	}
	if len(m.cols) == 0 {
		m.cols = cols
	}
	return nil
}

// AddJoint adds a whole fit. It is retained and must not change.
func (m *Merger) AddJoint(f *Fit) error {
	if m.k > 0 || len(m.joint) > 0 {
		if err := agree(m.model(), f, m.from != nil); err != nil {
			return err
		}
	}
	if err := m.same(columnsOf(f, m.start())); err != nil {
		return err
	}
	if err := m.noise.add(f, f.N-m.start().N); err != nil {
		return err
	}
	m.learnt.add(f, f.N-m.start().N, 1)
	m.said.add(f)
	m.joint = append(m.joint, f)
	return nil
}

// Add adds a fit without covariance: its head f and its beliefs, whose names are copied.
// Errors: a fit of another model, or of fewer rows than the start; beliefs that contradict known
// ones; those of beliefs. The merger is unusable then.
func (m *Merger) Add(f *Fit, beliefs iter.Seq2[Belief, error]) error {
	if m.k > 0 {
		if err := agree(&m.head, f, m.from != nil); err != nil {
			return err
		}
	}
	if err := m.same(columnsOf(f, m.start())); err != nil {
		return err
	}
	if err := m.noise.add(f, f.N-m.start().N); err != nil {
		return err
	}
	if err := m.head.AddPart(f, m.start()); err != nil {
		return err
	}
	m.given = m.head.GivenVariances() != nil || m.from.KeepsLevels()
	m.learnt.add(f, f.N-m.start().N, 1)
	m.said.add(f)
	m.k++
	for b, err := range beliefs {
		if err != nil {
			return err
		}
		id, err := m.slot(b.Feature)
		if err != nil {
			return err
		}
		p, w := m.priorOf(m.dict.Name(uint32(id))), b.Weight
		if w.Variance == 0 || p.Variance == 0 {
			if p.Variance == 0 && w != p {
				return fmt.Errorf("feature %q is known a priori (variance 0), but a fit has mean %v, variance %v", b.Feature, w.Mean, w.Variance)
			}
			if err := m.know(id, b.Feature, w.Mean); err != nil {
				return err
			}
			continue
		}
		if w == p {
			continue
		}
		d, s := w.Mean-p.Mean, &m.sums[id]
		s.lam += 1/w.Variance - 1/p.Variance
		s.nu += d / w.Variance
		s.het += d * d / w.Variance
		s.logA += -logNorm(1/w.Variance, d/w.Variance) + logNorm(1/p.Variance, 0)
	}
	return nil
}

// Merge adds the parts of src, which is not changed.
// Errors: those of Add; ErrPriors.
func (m *Merger) Merge(src *Merger) error {
	if err := agree(m.model(), src.model(), m.from != nil); err != nil {
		return err
	}
	if err := m.StartsFrom(src.from); err != nil {
		return err
	}
	if err := m.same(src.cols); err != nil {
		return err
	}
	if err := m.noise.merge(&src.noise); err != nil {
		return err
	}
	if err := m.head.AddPart(&src.head, m.start()); err != nil {
		return err
	}
	m.given = m.given || src.given
	m.learnt.merge(&src.learnt)
	m.said.merge(&src.said)
	m.k += src.k
	m.joint = append(m.joint, src.joint...)
	for j, o := range src.sums {
		name := string(src.dict.Name(uint32(j)))
		id, err := m.slot(name)
		if err != nil {
			return err
		}
		if o.known {
			if err := m.know(id, name, o.mean); err != nil {
				return err
			}
		}
		s := &m.sums[id]
		s.lam += o.lam
		s.nu += o.nu
		s.logA += o.logA
		s.het += o.het
	}
	return nil
}

// StartsFrom returns ErrPriors unless from is the fit that the parts started from, bit by bit.
func (m *Merger) StartsFrom(from *Fit) error {
	if !sameFit(m.from, from) {
		return ErrPriors
	}
	return nil
}

func sameFit(a, b *Fit) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Beliefs, x.Covariance.Values, y.Beliefs, y.Covariance.Values = nil, nil, nil, nil
	bits := func(u, v float64) bool { return math.Float64bits(u) == math.Float64bits(v) }
	return fmt.Sprint(x) == fmt.Sprint(y) && slices.EqualFunc(a.Covariance.Values, b.Covariance.Values, bits) &&
		slices.EqualFunc(a.Beliefs, b.Beliefs, func(u, v Belief) bool {
			return u.Feature == v.Feature && bits(u.Mean, v.Mean) && bits(u.Variance, v.Variance)
		})
}

// Clone returns an independent copy.
func (m *Merger) Clone() *Merger {
	c := *m
	c.dict, c.said = m.dict.Clone(), m.said.clone()
	c.sums, c.joint = slices.Clone(m.sums), slices.Clone(m.joint)
	return &c
}

// Size is the memory held in bytes.
func (m *Merger) Size() int64 {
	n := m.dict.Size() + m.said.size() + 48*int64(cap(m.sums)) + 400
	for _, f := range m.joint {
		n += 8*int64(len(f.Covariance.Values)) + 60*int64(len(f.Beliefs))
	}
	return n
}

// noStart is the start of fits without a prior fit.
var noStart = Fit{Time: math.NaN()}

func (m *Merger) start() *Fit {
	if m.from != nil {
		return m.from
	}
	return &noStart
}

func (m *Merger) priorOf(name []byte) Weight {
	if w, ok := m.prior[string(name)]; ok {
		return w
	}
	if m.given {
		return m.head.PriorOf(name)
	}
	return m.head.Prior.Of(name)
}

func (m *Merger) slot(name string) (int, error) {
	id, err := m.dict.AddRaw(name)
	if err != nil {
		return 0, err
	}
	if int(id) == len(m.sums) {
		m.sums = append(m.sums, mergeSum{})
	}
	return int(id), nil
}

func (m *Merger) know(id int, name string, mean float64) error {
	s := &m.sums[id]
	if s.known && s.mean != mean {
		return fmt.Errorf("feature %q is known (variance 0) as %v and as %v", name, s.mean, mean)
	}
	s.known, s.mean = true, mean
	return nil
}

// logNorm is the log normaliser of a Gaussian with precision lam and
// precision times mean nu, without the constant.
func logNorm(lam, nu float64) float64 { return 0.5 * (nu*nu/lam - math.Log(lam)) }

// Fit returns the product: the fit without beliefs, and those in belief order, which each visits.
// product is that of MergeFits.
//
// Cost: O(p log p), with covariances that of MergeFits.
// Errors: an improper product (ErrImproper), ErrPartPriors, ErrPartCorrelated; the cause of ctx.
func (m *Merger) Fit(ctx context.Context, product ArrowheadProduct) (f *Fit, each func(visit func(name []byte, w Weight)), err error) {
	if m.k == 0 && len(m.joint) == 1 {
		if f, err = MergeFits(ctx, m.joint, m.from, product); err != nil {
			return nil, nil, err
		}
		return f, f.Each, nil
	}
	head := m.head
	f = &head
	f.Method, f.Iterations = "merge", 1
	all := m.noise
	if m.from != nil {
		if err := all.add(m.from, m.from.N); err != nil {
			return nil, nil, err
		}
	}
	if all.parts > 0 {
		f.Dispersion = all.pooled()
	}
	count := m.k + int64(len(m.joint))
	if err := m.learnt.note(f, count, m.from); err != nil {
		return nil, nil, err
	}
	unequal := m.learnt.unequal(f)
	m.said.note(f, unequal)
	ws := make([]Weight, len(m.sums))
	conflict := 0.0
	for id := range ws {
		p, s := m.priorOf(m.dict.Name(uint32(id))), &m.sums[id]
		switch {
		case s.known:
			ws[id] = Weight{Mean: s.mean}
		case p.Variance == 0 || s.lam == 0 && s.nu == 0:
			ws[id] = p
		default:
			l := 1/p.Variance + s.lam
			if !(l > 0) {
				return nil, nil, fmt.Errorf("feature %q: the product of %d posteriors over the prior (variance %v) is %w, precision %v",
					m.dict.Name(uint32(id)), m.k, p.Variance, ErrImproper, l)
			}
			ws[id] = Weight{Mean: p.Mean + s.nu/l, Variance: 1 / l}
			if m.k > 1 { // Cochran's Q: K-1 squared normal deviates if the parts agree
				conflict = max(conflict, (s.het-s.nu*s.nu/l)/float64(m.k-1))
			}
			// log ∫ Πqk / p^(K-1), which the sum of the parts' evidences lacks
			f.LogEvidence += logNorm(l, s.nu) - logNorm(1/p.Variance, 0) + s.logA
		}
	}
	each = func(visit func([]byte, Weight)) {
		for _, id := range m.dict.Order() {
			visit(m.dict.Name(id), ws[id])
		}
	}
	if len(m.joint) == 0 {
		if conflict > MaxConflict*MaxConflict {
			m.said.note(f, Join(unequal, fmt.Sprintf("the fits disagree about a weight by %.0f standard deviations: log_evidence is not reliable", math.Sqrt(conflict))))
		}
		return f, each, nil
	}
	parts := m.joint
	if m.k > 0 { // the product of the diagonal parts is one more part
		each(func(name []byte, w Weight) {
			f.Beliefs = append(f.Beliefs, Belief{Feature: string(name), Weight: w})
		})
		parts = append(slices.Clone(parts), f)
	}
	var means string
	if f, means, err = mergeFits(ctx, parts, m.from, product); err != nil {
		return nil, nil, err
	}
	f.Dispersion = all.pooled()
	m.said.note(f, Join(unequal, means))
	return f, f.Each, m.learnt.note(f, count, m.from)
}
