package lowrank

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/tally"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Pass is the sum of one of several passes over rows, which are not kept, for a low-rank fit. The
// first one (stage 0) counts, and finds the scales of numbers. The PowerIterations + 2 passes after
// it find the directions, as SVD does,
//
//	W = orth(Xᵀ X Ω),   q times W = orth(Xᵀ X W),   WᵀXᵀX W = R diag(S²) Rᵀ,   U = W R,
//
// and each later one is a Newton step in the remaining coordinates: it sums value, slope and
// curvature of the log likelihood at a point. A pass starts from the merged state of the previous
// pass, its Before; passes over parts of the rows that start from the same state merge to the pass
// over all of them, for any parts in any order, up to rounding.
//
// The result is that of Fit with the rows kept, up to rounding errors, which squared singular values
// double: directions below 1e-7 of the largest singular value are left out.
//
// Memory: 16 p l bytes for p features and l = Rank + Oversample directions, as much per thread. Cost
// of a row of k entries: 4 k l operations while directions are sought, then 2 k l + l².
//
// Source: Halko, Martinsson and Tropp (2011), remark 4.3; Trippe et al. (2019).
type Pass struct {
	head
	stage   int
	dict    kernels.Dict
	counted kernels.ColumnCounts
	totals  kernels.Totals // Columns are those of counted

	// Results of the previous passes, by feature number if by feature.
	before   int64 // number of their rows
	known    []kernels.FitColumn
	same     *kernels.Schema // of rows that were checked to have these columns
	dirs     *dense.Matrix   // directions on standardised columns, 0 for the intercept: p x l
	singular []float64       // their singular values, if known
	next     float64         // and the next one
	exact    bool
	clamped  int
	at       []float64 // the point, by direction, the intercept first
	u        []float64 // and in the coordinates with prior N(0, I)
	from     []float64 // that of the previous pass, nil for none, and the log posterior there
	height   float64

	// Sums.
	sketch *dense.Matrix // Xᵀ X times the directions: p x l
	slope  []float64     // of the log likelihood at the point, by coordinate
	gram   *dense.Matrix // minus its curvature
	logLik float64
	misfit lik.Misfit

	model *kernels.Model // nil after decoding: no more rows can be added
	scale rowScale
	work  rowWork
}

// head is what passes must have in common.
type head struct {
	tally.Head
	standardize           bool
	rank, oversample, pow int
	seed                  uint64
	prior                 string // the point is in its coordinates
}

func (h head) String() string {
	return fmt.Sprintf("%v, standardize %v, method lowrank, rank %d, oversample %d, power_iterations %d, seed %d, prior %s",
		h.Head, h.standardize, h.rank, h.oversample, h.pow, h.seed, h.prior)
}

func headOf(m *kernels.Model) head {
	o := &m.Options
	return head{Head: tally.HeadOf(m), standardize: o.Standardize,
		rank: kernels.Or(o.Rank, 50), oversample: o.Oversample.Or(10), pow: o.PowerIterations.Or(2), seed: o.Seed, prior: priorText(m)}
}

// priorText identifies priors: the default one in words, others by a hash.
func priorText(m *kernels.Model) string {
	text := fmt.Sprintf("N(%v, %v)", m.Prior.Mean, m.Prior.Variance)
	if !m.NoIntercept {
		text += fmt.Sprintf(", intercept N(%v, %v)", m.Prior.Mean, m.Prior.InterceptVariance)
	}
	if len(m.PriorBy)+len(m.Priors) > 0 {
		text += fmt.Sprintf(", of columns and features #%x", nameKey(fmt.Sprint(m.PriorBy, m.Priors)))
	}
	if f := m.Start; f != nil {
		text += fmt.Sprintf(", from a fit #%x", nameKey(fmt.Sprint(f.N, f.Beliefs, f.Covariance)))
	}
	return text
}

// rowScale transforms rows to the columns of the problem.
type rowScale struct {
	lik                      lik.Likelihood
	scale, shift, fill, base []float64 // base is the prior mean
	origin, unit             float64   // of predictors and responses
	located                  bool
	centred                  []uint32 // features with a shift
	based                    bool     // some of base are not 0
}

// rowWork is scratch memory for a row.
type rowWork struct {
	tally tally.Work
	out   []float64 // of a batch: NaN for rows that are left out
	fs    []uint32
	xs    []float64
	z     []float64 // by coordinate
}

// maxPassNumbers bounds features times directions: 2 GiB for each of the two matrices.
const maxPassNumbers = 1 << 28

// NewPass returns a pass without rows: the first one, or with Model.Before the next one.
// Errors: a model that learns parameters other than a gaussian dispersion, or whose likelihood may
// have several modes; a Before that is not a pass, or of another model; the cause of ctx if it is
// cancelled.
func NewPass(ctx context.Context, m *kernels.Model) (s *Pass, err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	m = m.Complete()
	if err := checkPass(m); err != nil {
		return nil, err
	}
	if m.Before != nil {
		var before *Pass
		var err error
		halt.Beside(func() { before, err = DecodePass(m.Before) }) // it may be some gigabytes
		if err != nil {
			return nil, &argument.Error{Name: "around", Err: err}
		}
		return before.after(halt, m)
	}
	s = &Pass{head: headOf(m), model: m}
	if err := m.Name(&s.dict); err != nil {
		return nil, err
	}
	s.grow()
	return s, nil
}

func checkPass(m *kernels.Model) error {
	o := &m.Options
	switch {
	case m.LearnsPrior():
		return &argument.Error{Name: "prior_variance", Found: "'auto'", Why: tally.OnlyTogether}
	case m.Around != nil:
		return &argument.Error{Name: "around", Found: "a fit", Why: "passes of lowrank go on from the merged state of the pass before, which has the directions"}
	case o.Integrate:
		return &argument.Error{Name: "integrate", Found: "true", Why: "low-rank fits take the dispersion of the highest evidence; integrating over it is laplace's"}
	}
	if err := tally.Refuse(m); err != nil {
		return err
	}
	switch {
	case m.Prior.Variance == 0:
		return knownError("every weight")
	case m.Prior.InterceptVariance == 0 && !m.NoIntercept:
		return knownError(kernels.Intercept)
	}
	for _, c := range m.PriorBy {
		if c.Variance == 0 {
			return knownError(c.Column)
		}
	}
	for _, b := range m.Priors {
		if b.Variance == 0 {
			return knownError(b.Feature)
		}
	}
	return nil
}

func knownError(what string) error {
	return &argument.Error{Name: "prior_variance", Found: "0 for " + what, Why: "passes of lowrank have no weights that are known"}
}

// grow makes room for features that were added.
func (s *Pass) grow() {
	if more := s.dict.Len() - len(s.totals.Numbers); more > 0 {
		s.totals.Numbers = append(s.totals.Numbers, make([]kernels.NumberTotals, more)...)
	}
}

// forced returns how many coordinates are not directions: the intercept's.
func (s *Pass) forced() int {
	if s.NoIntercept {
		return 0
	}
	return 1
}

// seeks reports whether directions are sought.
func (s *Pass) seeks() bool { return s.stage > 0 && s.stage <= s.pow+2 }

// steps reports whether the pass is a Newton step.
func (s *Pass) steps() bool { return s.stage > s.pow+2 }

// after returns the pass that starts from s, the state of all rows, under model m.
func (s *Pass) after(halt *stop.Stop, m *kernels.Model) (*Pass, error) {
	if h := headOf(m); h != s.head {
		return nil, fmt.Errorf("the pass before was made with other options: %v; found %v", s.head, h)
	}
	if err := s.checkSameRows(); err != nil {
		return nil, fmt.Errorf("around: %w", err)
	}
	d := &Pass{head: s.head, stage: s.stage + 1, model: m, dict: s.dict.Clone(), before: s.totals.Rows, known: s.counted.Columns(), dirs: s.dirs, singular: s.singular, next: s.next, exact: s.exact, clamped: s.clamped}
	d.grow()
	p, err := s.problem(halt, m)
	if err != nil {
		return nil, err
	}
	if err := p.rowScale(&d.scale, d.dict.Len()); err != nil {
		return nil, err
	}
	switch {
	case d.stage == 1:
		err = d.draw(p)
	case s.stage < s.pow+2:
		d.dirs, err = p.spanned()
	case s.stage == s.pow+2:
		if err = p.decompose(d); err == nil {
			err = p.start(d)
		}
	default:
		err = p.onward(d)
	}
	if err != nil {
		return nil, err
	}
	d.dirs.Stop = nil // rows come with contexts of their own
	k := d.dirs.Cols
	if d.steps() {
		k += d.forced()
		d.slope, d.gram = make([]float64, k), dense.New(k, k)
	} else {
		d.sketch = p.Matrix(d.dirs.Rows, d.dirs.Cols)
		d.sketch.Stop = nil
	}
	return d, nil
}

// checkSameRows returns an error if the pass had other rows than the previous one.
func (s *Pass) checkSameRows() error {
	if s.stage > 0 && s.before != s.totals.Rows {
		return fmt.Errorf("its pass had %d rows, and the one before that %d: passes take all rows, and the same", s.totals.Rows, s.before)
	}
	return nil
}

// draw sets the directions of the first sketch.
func (s *Pass) draw(p *passProblem) error {
	least := int(min(int64(p.P-s.forced()), s.before))
	m := min(s.rank, least)
	if s.rank > least {
		s.clamped = s.rank
	}
	l := min(m+s.oversample, least)
	s.exact = l == least
	n := s.dict.Len()
	if n*l > maxPassNumbers {
		return fmt.Errorf("rank = %d with oversample needs %d directions of %d features; allowed: %d numbers in all, lower rank", s.rank, l, n, maxPassNumbers)
	}
	if need := 16 * int64(n) * int64(l); need > 1<<24 {
		if err := memory.Room(need, fmt.Sprintf("rank = %d: %d directions of %d features", s.rank, l, n)); err != nil {
			return err
		}
	}
	s.dirs = p.Matrix(n, l)
	draw(s.dirs, Options{Stop: p.Stop, Seed: s.seed, Key: func(j int) uint64 { return nameKey(string(s.dict.Name(uint32(j)))) }})
	if s.forced() > 0 {
		clear(s.dirs.Row(0))
	}
	return nil
}

// Features returns the dictionary that numbers the features.
func (s *Pass) Features() *kernels.Dict { return &s.dict }

// Skip counts n rows as left out.
func (s *Pass) Skip(n int64) { s.totals.Skipped += n }

// Counts returns the number of rows, and of those that were left out.
func (s *Pass) Counts() (rows, skipped int64) { return s.totals.Rows, s.totals.Skipped }

// Columns returns the columns of the rows, nil if none are remembered.
func (s *Pass) Columns() []kernels.FitColumn { return s.counted.Columns() }

// Size returns the memory held, in bytes.
func (s *Pass) Size() int64 {
	size := s.dict.Size() + 8*int64(7*cap(s.totals.Numbers)+4*len(s.scale.scale)) + 500
	for _, m := range []*dense.Matrix{s.dirs, s.sketch, s.gram} {
		if m != nil {
			size += 8 * int64(len(m.Data))
		}
	}
	return size
}

// Clone returns an independent copy.
func (s *Pass) Clone() *Pass {
	c := *s
	c.dict, c.counted = s.dict.Clone(), s.counted.Clone()
	c.totals.Numbers, c.slope = slices.Clone(s.totals.Numbers), slices.Clone(s.slope)
	if s.sketch != nil {
		c.sketch = s.sketch.Clone()
	}
	if s.gram != nil {
		c.gram = s.gram.Clone()
	}
	c.work = rowWork{}
	return &c
}

// Update adds the rows of b. With skip, rows outside the support are counted and left out;
// otherwise the first one ends the update with an error that Is kernels.ErrRow.
// Errors: features that the previous pass did not have, missing columns that it had.
func (s *Pass) Update(ctx context.Context, b *kernels.Batch, skip bool) (err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	if err := b.Check(); err != nil {
		return err
	}
	s.grow()
	if err := s.checkColumns(b.Schema); err != nil {
		return err
	}
	s.counted.Add(b)
	b = b.WithoutGaps(&s.dict)
	n, w := b.Len(), &s.work
	w.out = slices.Grow(w.out[:0], n)[:n]
	clear(w.out)
	for i := range n {
		if err := s.model.Lik.Check(b.Obs(i)); err != nil {
			if !skip {
				return kernels.RowError(err)
			}
			s.totals.Skipped++
			w.out[i] = math.NaN()
		}
	}
	tally.Responses(&s.totals, b, s.model.Lik.Traits(), w.out)
	w.tally.Numbers(&s.totals, &s.dict, b, w.out)
	if s.stage == 0 {
		return nil
	}
	if known := s.dirs.Rows; s.dict.Len() > known {
		return fmt.Errorf("feature %q is new: the pass before did not meet it; passes take the same rows", s.dict.Name(uint32(known)))
	}
	b.Transpose()
	depart := lik.MisfitOf(s.model.Lik)
	for i := range n {
		halt.Check() // a row can take a million products
		if w.out[i] != w.out[i] {
			continue
		}
		base := s.project(b.Entries(i))
		if s.seeks() {
			for k, f := range w.fs {
				dense.Axpy(w.xs[k], w.z, s.sketch.Row(int(f)))
			}
			continue
		}
		eta := base + b.Shift(i)/s.scale.unit + dense.Dot(w.z, s.at)
		o := b.Obs(i)
		if depart != nil { // of no located response: the origin is that of the predictor
			depart(&s.misfit, o, eta+s.scale.origin)
		}
		if s.scale.located {
			o.Y = (o.Y - s.scale.origin) / s.scale.unit
		} else if s.scale.origin != 0 { // link log
			o.Y /= math.Exp(s.scale.origin)
		}
		s.addLikelihood(o, eta)
	}
	return nil
}

// checkColumns returns an error if rows lack a column of the previous pass.
func (s *Pass) checkColumns(of *kernels.Schema) error {
	if of == nil || of == s.same {
		return nil
	}
	for _, c := range s.known {
		if !slices.ContainsFunc(of.Names, func(name string) bool { return strings.EqualFold(name, c.Name) }) {
			return fmt.Errorf("the rows have no column %.100q, which those of the pass before had; passes take the same rows", c.Name)
		}
	}
	s.same = of
	return nil
}

// project sets the entries of a row in the columns of the problem and its coordinates, and returns
// the predictor at the prior mean.
func (s *Pass) project(fs []uint32, xs []float64) (base float64) {
	w, c := &s.work, &s.scale
	w.fs, w.xs = append(w.fs[:0], fs...), w.xs[:0]
	met := 0
	for k, f := range fs {
		x := xs[k]
		if x != x {
			x = c.fill[f]
		}
		if c.shift[f] != 0 {
			met++
		}
		w.xs = append(w.xs, (x-c.shift[f])/c.scale[f])
	}
	if met < len(c.centred) {
		for _, f := range c.centred {
			if !slices.Contains(fs, f) {
				w.fs, w.xs = append(w.fs, f), append(w.xs, -c.shift[f]/c.scale[f])
			}
		}
	}
	k := 0
	if s.steps() {
		k = s.forced()
	}
	w.z = slices.Grow(w.z[:0], k+s.dirs.Cols)[:k+s.dirs.Cols]
	clear(w.z)
	for j, f := range w.fs {
		dense.Axpy(w.xs[j], s.dirs.Row(int(f)), w.z[k:])
		if f == 0 && k > 0 {
			w.z[0] = w.xs[j]
		}
	}
	if c.based {
		for j, f := range w.fs {
			base += w.xs[j] * c.base[f]
		}
	}
	return base
}

// addLikelihood adds the likelihood of a response at a predictor, and its derivatives in the
// coordinates.
func (s *Pass) addLikelihood(o lik.Obs, eta float64) {
	logp, d1, d2 := s.scale.lik.LogLik(o, eta)
	if !special.Finite(logp) || !special.Finite(d1) || !special.Finite(d2) {
		s.logLik = math.Inf(-1)
		return
	}
	s.logLik += logp
	s.misfit.Follow(o, d1, -d2)
	z := s.work.z
	dense.Axpy(d1, z, s.slope)
	for i, v := range z {
		dense.Axpy(-d2*v, z[:i+1], s.gram.Row(i)[:i+1])
	}
}

// Merge adds the rows of src, a pass of the same stage; src is not changed. Errors: a pass of
// another model, from another state, or with columns of another kind; the cause of ctx, which
// leaves s partly merged.
func (s *Pass) Merge(ctx context.Context, src *Pass) (err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	switch {
	case s.head != src.head:
		return fmt.Errorf("passes of different models: %v, and %v", s.head, src.head)
	case s.stage != src.stage:
		return fmt.Errorf("passes of different stages: %d and %d", s.stage, src.stage)
	case s.before != src.before || !slices.Equal(s.u, src.u) || (s.dirs == nil) != (src.dirs == nil) || s.dirs != nil && !equal(halt, s.dirs, src.dirs):
		return fmt.Errorf("passes that began with different states of the pass before")
	}
	if err := s.counted.Merge(&src.counted, nil); err != nil {
		return err
	}
	var ids []uint32
	err = stop.Run(ctx, s.dict.Len()+src.dict.Len() >= manyNames, func() (err error) {
		ids, err = s.dict.Merge(&src.dict)
		return err
	})
	if err != nil {
		return err
	}
	s.grow()
	if s.dirs != nil {
		for j, id := range ids {
			if int(id) != j {
				return fmt.Errorf("passes that began with different states of the pass before")
			}
		}
	}
	add := func(to, from *dense.Matrix) {
		for i := 0; to != nil && i < to.Rows; i++ {
			halt.Row(i)
			dense.Axpy(1, from.Row(i), to.Row(i))
		}
	}
	add(s.sketch, src.sketch)
	add(s.gram, src.gram)
	if s.slope != nil {
		dense.Axpy(1, src.slope, s.slope)
	}
	s.logLik += src.logLik
	s.misfit.Add(src.misfit)
	tally.Join(&s.totals, &src.totals, ids)
	return nil
}

// manyNames is the number of names from which merging must not block the caller: a million take
// tenths of a second.
const manyNames = 1 << 17

// equal reports whether a and b have the same entries; s may end it.
func equal(s *stop.Stop, a, b *dense.Matrix) bool {
	if a.Rows != b.Rows || a.Cols != b.Cols {
		return false
	}
	for i := range a.Rows {
		s.Row(i)
		if !slices.Equal(a.Row(i), b.Row(i)) {
			return false
		}
	}
	return true
}
