package laplace

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

// maxPassWeights bounds the weights of a Pass: 8 p²/2 bytes, 100 MB.
const maxPassWeights = 5000

// Pass is what one pass over rows, which are not kept, yields about the log likelihood near a point:
// its value, slope and curvature there, and the sums that determine the scales of standardised
// numbers. Passes over parts of the rows at the same point merge to the pass over all of them, for
// any parts in any order, up to rounding; a pass without rows changes nothing.
//
// The point is the weights of Model.Around, and 0 without it; a feature that Around does not have
// is at its prior mean, or at 0 if numbers are standardised. With an intercept, the mean of a
// column of numbers that Around remembers is subtracted; a missing number counts as that mean until
// Solve knows the mean of all rows. A feature that Around does not know is added when it first
// occurs.
//
// If prior variances are learnt the pass also sums the derivative of the curvature in the weights,
// each row weighted by the variance of its predictor under Around.
//
// With Options.Sites "ep" each row is represented by the Gaussian site of expectation propagation
// (site) instead of the likelihood's value, slope and curvature at the point.
//
// Memory: 4 p² bytes for p features, at most 5,000; 12 p² if variances are learnt or with sites.
// Cost of a row of k entries: k²/2 multiplications, k² more if variances are learnt; with sites k²
// more and lik.Cavity.
type Pass struct {
	head
	dict    kernels.Dict
	counted kernels.ColumnCounts
	totals  kernels.Totals // Columns are those of counted

	logLik float64
	misfit lik.Misfit // at the point
	at     []float64  // the point, by feature number, for numbers less shift
	shift  []float64
	slope  []float64
	curv   []float64 // packed lower triangle, by feature number

	entries int64     // of all rows
	bend    []float64 // if a prior is learnt: Σ q x dW/dη, with q the variances of the predictor under cov
	known   float64   // with sites: Σ τ q, their information about the weights in units of cov
	rounds  float64   // Σ τ Σ x² Var w; known is what cancellation leaves of it, and has the rounding error of this sum
	bare    int64     // with sites: rows without a cavity, which use Laplace's site
	around  starting

	model   *kernels.Model     // nil after decoding: no more rows can be added
	weights map[string]float64 // of Around
	shifted int                // number of features with a shift
	cov     *dense.Matrix      // of Around, in the point's coordinates; nil if there is none
	third   third
	many    func(y, weight, s, d1, curv []float64) float64 // lik.Many
	depart  func(sum *lik.Misfit, o lik.Obs, s float64)    // lik.MisfitOf
	work    passWork
}

// head is what passes must have in common to be merged.
type head struct {
	tally.Head
	learns bool // prior variances
	sites  bool // of expectation propagation
}

func (h head) String() string {
	by := "laplace"
	if h.sites {
		by = "ep"
	}
	return fmt.Sprintf("%v, prior variances learnt %v, method %s", h.Head, h.learns, by)
}

func headOf(m *kernels.Model) head {
	return head{tally.HeadOf(m), m.LearnsPrior(), bySites(m)}
}

// passWork is scratch memory for a batch.
type passWork struct {
	z, gram          *dense.Matrix // of rows that have all features: columns less their shifts
	whole            bool          // no entry of z is missing
	ones, eta, slope []float64     // by row: 1, the predictor, and the slope of log p in it
	cov, covz        *dense.Matrix // of these features, and times z
	vars             []float64     // by row: the variance of its predictor under cov
	apart            []float64     // and what it would be if weights were independent
	w                []float64     // of all rows: their curvature, NaN if they are left out
	third            []float64     // and its derivative
	fs               []uint32      // entries of rows, and where each row's entries end
	xs               []float64
	ends             []int
	tally            tally.Work
}

// NewPass returns a pass without rows. Errors: a model whose shape or correlations are learnt, or
// whose likelihood may have several modes; the cause of ctx if it is cancelled.
func NewPass(ctx context.Context, m *kernels.Model) (s *Pass, err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	m = m.Complete()
	if err := checkPass(m); err != nil {
		return nil, err
	}
	s = &Pass{head: headOf(m), model: m, weights: map[string]float64{}, around: startOf(m.Around), third: thirdOf(m.Lik)}
	s.many, s.depart = lik.Many(m.Lik), lik.MisfitOf(m.Lik)
	if err := m.Name(&s.dict); err != nil {
		return nil, err
	}
	if m.Around != nil {
		for _, b := range m.Around.Beliefs {
			s.weights[b.Feature] = b.Mean
			if _, err := s.dict.AddRaw(b.Feature); err != nil {
				return nil, err
			}
		}
	}
	return s, s.begin(halt)
}

// begin sets the point for the existing features, those of Around, before any rows, so that all
// parts agree on it.
func (s *Pass) begin(halt *stop.Stop) error {
	if err := s.grow(); err != nil {
		return err
	}
	prior := s.model.PriorOf(&s.dict)
	for id := range s.at {
		c := s.center(string(s.dict.Name(uint32(id))))
		if c == 0 || s.model.NoIntercept || prior[0].Variance == 0 || prior[id].Variance == 0 {
			continue
		}
		s.shift[id] = c
		s.at[0] += s.at[id] * c
		s.shifted++
	}
	for id := range s.at {
		s.fillMissing(id)
	}
	return s.spread(halt)
}

// center returns the mean that Around remembers of a column of numbers, 0 if there is none.
func (s *Pass) center(column string) float64 { return s.model.Around.Number(column).Mean().Center }

// fillMissing adds to the weight of `column IS NULL` the contribution of the number that stands for
// the missing one.
func (s *Pass) fillMissing(id int) {
	if column, j, ok := s.column(id); ok {
		s.at[id] += s.weights[column] * (s.center(column) - s.shift[j])
	}
}

// column returns the column of numbers, feature j, that feature id marks as missing.
func (s *Pass) column(id int) (name string, j int, ok bool) {
	if name, ok = strings.CutSuffix(string(s.dict.Name(uint32(id))), kernels.IsNull); ok {
		var at uint32
		at, ok = s.dict.Find(name)
		j = int(at)
	}
	return name, j, ok
}

func bySites(m *kernels.Model) bool { return m.Options.Sites == "ep" }

func checkPass(m *kernels.Model) error {
	o := &m.Options
	const highest = "sites of ep take the prior variances and the dispersion of the highest evidence; integrating over them is laplace's"
	if bySites(m) {
		for key, v := range map[string]float64{"sd_scale": o.SDScale, "sd_freedom": o.SDFreedom, "dispersion_scale": o.DispersionScale, "dispersion_freedom": o.DispersionFreedom} {
			if v != 0 {
				return &argument.Error{Name: key, Found: fmt.Sprint(v), Why: highest}
			}
		}
	}
	switch {
	case len(m.Correlated) > 0:
		return &argument.Error{Name: "correlated", Found: fmt.Sprintf("%q", m.Correlated[0]), Why: "passes learn variances, but no correlations: these need the rows together"}
	case bySites(m) && o.Integrate:
		return &argument.Error{Name: "integrate", Found: "true", Why: highest}
	case o.ThirdOrder:
		return &argument.Error{Name: "third_order", Found: "true", Why: "passes know the mode alone: this needs the rows together"}
	}
	return tally.Refuse(m)
}

// grow makes room for features that were added.
func (s *Pass) grow() error {
	n, p := len(s.at), s.dict.Len()
	if n == p {
		return nil
	}
	if p > maxPassWeights {
		return fmt.Errorf("%d features and more; allowed without keeping the rows: up to %d; hash_bits bounds them, adf and lowrank take more", p, maxPassWeights)
	}
	if more := 4 * int64(p*p-n*n); more > 1<<24 {
		if err := memory.Room(more, fmt.Sprintf("the curvature of %d weights", p)); err != nil {
			return err
		}
	}
	s.curv = append(s.curv, make([]float64, p*(p+1)/2-n*(n+1)/2)...)
	s.slope = append(s.slope, make([]float64, p-n)...)
	s.at, s.shift = append(s.at, make([]float64, p-n)...), append(s.shift, make([]float64, p-n)...)
	s.bend, s.totals.Squares = append(s.bend, make([]float64, p-n)...), append(s.totals.Squares, make([]float64, p-n)...)
	s.totals.Numbers = append(s.totals.Numbers, make([]kernels.NumberTotals, p-n)...)
	prior := s.model.PriorOf(&s.dict)
	for id := n; id < p; id++ {
		w, known := s.weights[string(s.dict.Name(uint32(id)))]
		switch {
		case prior[id].Variance == 0:
			s.at[id] = prior[id].Mean
			continue
		case known:
			s.at[id] = w
		case s.model.Around != nil && !s.model.Options.Standardize:
			s.at[id] = prior[id].Mean
		}
		if n > 0 {
			s.fillMissing(id)
		}
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

// Weights returns the number of features.
func (s *Pass) Weights() int { return len(s.at) }

// Learns reports whether prior variances are learnt.
func (s *Pass) Learns() bool { return s.learns }

// Sites reports whether rows are represented by the sites of expectation propagation.
func (s *Pass) Sites() bool { return s.sites }

// Size returns the memory held, in bytes.
func (s *Pass) Size() int64 {
	size := s.dict.Size() + 8*int64(cap(s.curv)+5*cap(s.at)+7*cap(s.totals.Numbers)) + 500
	if s.cov != nil {
		size += 8 * int64(len(s.cov.Data))
	}
	return size
}

// Clone returns an independent copy.
func (s *Pass) Clone() *Pass {
	c := *s
	c.dict, c.counted = s.dict.Clone(), s.counted.Clone()
	c.at, c.shift, c.slope, c.curv = slices.Clone(s.at), slices.Clone(s.shift), slices.Clone(s.slope), slices.Clone(s.curv)
	c.bend, c.totals.Squares = slices.Clone(s.bend), slices.Clone(s.totals.Squares)
	c.totals.Numbers = slices.Clone(s.totals.Numbers)
	c.work = passWork{}
	return &c
}

// Update adds the rows of b. With skip, rows outside the support are counted and left out;
// otherwise the first one ends the update with an error that Is kernels.ErrRow.
func (s *Pass) Update(ctx context.Context, b *kernels.Batch, skip bool) (err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	if err := b.Check(); err != nil {
		return err
	}
	if err := s.grow(); err != nil {
		return err
	}
	l, n := s.model.Lik, b.Len()
	s.counted.Add(b)
	b = b.WithoutGaps(&s.dict)
	w := &s.work
	w.w, w.third = slices.Grow(w.w[:0], n)[:n], slices.Grow(w.third[:0], n)[:n]
	clear(w.w)
	s.entries += int64(len(b.Value))
	if len(b.Columns) > 0 {
		s.entries += int64(n * len(b.Columns))
	}
	for i := range n {
		halt.Row(i)
		if err := l.Check(b.Obs(i)); err != nil {
			if !skip {
				return kernels.RowError(err)
			}
			s.totals.Skipped++
			w.w[i] = math.NaN()
		}
	}
	block := b.Shared != nil && !slices.ContainsFunc(w.w, math.IsNaN) && s.shiftedIn(b.Shared) == s.shifted
	if block {
		if err := s.block(halt, b); err != nil {
			return err
		}
	} else {
		b.Transpose()
		if err := s.byRow(halt, b); err != nil {
			return err
		}
	}
	tally.Responses(&s.totals, b, l.Traits(), s.work.w)
	if s.learns {
		s.squares(b)
	}
	s.numbers(b, block && w.whole)
	return nil
}

// shiftedIn returns how many of the features have a shift.
func (s *Pass) shiftedIn(fs []uint32) (k int) {
	for _, f := range fs {
		if s.shift[f] != 0 {
			k++
		}
	}
	return k
}

// byRow adds rows entry by entry; rows whose curvature is NaN are left out.
func (s *Pass) byRow(halt *stop.Stop, b *kernels.Batch) error {
	n, w := b.Len(), &s.work
	w.eta, w.slope = slices.Grow(w.eta[:0], n)[:n], slices.Grow(w.slope[:0], n)[:n]
	w.fs, w.xs, w.ends = w.fs[:0], w.xs[:0], w.ends[:0]
	for i := range n {
		eta, from := b.Shift(i), len(w.fs)
		if w.w[i] == w.w[i] {
			s.addRow(b.Entries(i))
			xs := w.xs[from:]
			for k, f := range w.fs[from:] {
				eta += xs[k] * s.at[f]
			}
		}
		w.eta[i], w.ends = eta, append(w.ends, len(w.fs))
	}
	if s.cov != nil {
		w.vars, w.apart = slices.Grow(w.vars[:0], n)[:n], slices.Grow(w.apart[:0], n)[:n]
		from := 0
		for i, end := range w.ends {
			halt.Check()
			w.vars[i], w.apart[i] = s.variance(w.fs[from:end], w.xs[from:end])
			from = end
		}
	}
	s.evaluateAll(halt, b)
	from := 0
	for i, end := range w.ends {
		halt.Check()
		fs, xs := w.fs[from:end], w.xs[from:end]
		if from = end; len(fs) == 0 {
			continue
		}
		if s.bends() {
			by := w.vars[i] * w.third[i]
			for k, f := range fs {
				s.bend[f] += by * xs[k]
			}
		}
		d1, curv := w.slope[i], w.w[i]
		for k, f := range fs {
			x := xs[k]
			s.slope[f] += d1 * x
			c := curv * x
			row := s.curv[packed(f, 0):][:f+1]
			for j, g := range fs[:k+1] {
				row[g] += c * xs[j]
			}
		}
	}
	return nil
}

// addRow adds a row to the scratch memory, sorted by feature, so that its contribution to a row of
// the curvature lies before the diagonal. Shifts are subtracted: a missing number becomes 0, and a
// feature without an entry minus its shift.
func (s *Pass) addRow(fs []uint32, xs []float64) {
	w, met, from := &s.work, 0, len(s.work.fs)
	for k, f := range fs {
		x := xs[k]
		if c := s.shift[f]; c != 0 {
			x -= c
			met++
		}
		if x != x {
			x = 0
		}
		w.insert(from, f, x)
	}
	if met == s.shifted {
		return
	}
	for id, c := range s.shift {
		if f := uint32(id); c != 0 && !slices.Contains(w.fs[from:], f) {
			w.insert(from, f, -c)
		}
	}
}

// insert inserts an entry in order into the row that begins at from.
func (w *passWork) insert(from int, f uint32, x float64) {
	k := len(w.fs)
	w.fs, w.xs = append(w.fs, f), append(w.xs, x)
	for ; k > from && w.fs[k-1] > f; k-- {
		w.fs[k], w.xs[k] = w.fs[k-1], w.xs[k-1]
	}
	w.fs[k], w.xs[k] = f, x
}

// evaluate evaluates the likelihood of row i at a predictor, and records its curvature.
func (s *Pass) evaluate(b *kernels.Batch, i int, eta float64) (d1 float64) {
	o := b.Obs(i)
	if s.sites && s.cov != nil && s.work.vars[i] > 0 {
		if d1, ok := s.site(o, i, eta); ok {
			return d1
		}
		s.bare++
	}
	logp, d1, d2 := s.model.Lik.LogLik(o, eta)
	s.work.w[i], s.work.third[i] = -d2, 0
	if s.sites && s.cov != nil && special.Finite(d2) {
		s.say(-d2, i)
	}
	if !special.Finite(logp) || !special.Finite(d1) || !special.Finite(d2) {
		s.logLik, s.work.w[i] = math.Inf(-1), 0
		return 0
	}
	s.logLik += logp
	if s.bends() {
		s.work.third[i] = s.third.at(o, eta)
	}
	return d1
}

// bends reports whether third derivatives are summed.
func (s *Pass) bends() bool { return s.cov != nil && !s.sites }

// site computes the Gaussian site of row i, whose predictor is N(eta, vars[i]), and records its
// precision; it returns false if there is none. With the cavity N(m, v), its moments, and r the
// ratio of the variances, the site has precision β/r, and at eta the slope α and the height log Z -
// ½ log r + ½ v α².
//
// Source: Rasmussen and Williams (2006), section 3.6, with each row's site the one that is
// consistent with the posterior, so that no site has to be kept.
func (s *Pass) site(o lik.Obs, i int, eta float64) (slope float64, ok bool) {
	q := s.work.vars[i]
	_, v, t, ok := lik.Cavity(s.model.Lik, o, eta, q)
	height, precision := t.LogZ-0.5*math.Log(t.Ratio)+0.5*v*t.Alpha*t.Alpha, t.Beta/t.Ratio
	if !ok || !special.Finite(height) || !special.Finite(t.Alpha) || !special.Finite(precision) {
		return 0, false
	}
	s.logLik += height
	s.say(precision, i)
	s.work.w[i] = precision
	return t.Alpha, true
}

// say adds the information of row i, a precision, about the weights.
func (s *Pass) say(precision float64, i int) {
	s.known += precision * s.work.vars[i]
	s.rounds += precision * s.work.apart[i]
}

func packed(f, g uint32) int {
	i, j := int(max(f, g)), int(min(f, g))
	return i*(i+1)/2 + j
}

// squares adds the rows of b to the squares of features.
func (s *Pass) squares(b *kernels.Batch) {
	for j, column := range b.Columns {
		f := b.Shared[j]
		if len(b.Weight) == 0 {
			s.totals.Squares[f] += dense.Dot(column, column)
			continue
		}
		for i, x := range column {
			s.totals.Squares[f] += b.Weight[i] * x * x
		}
	}
	if len(b.Columns) > 0 {
		return
	}
	for i, curvature := range s.work.w {
		if curvature != curvature {
			continue
		}
		weight := 1.0
		if len(b.Weight) > 0 {
			weight = b.Weight[i]
		}
		fs, xs := b.Entries(i)
		for k, f := range fs {
			s.totals.Squares[f] += weight * xs[k] * xs[k]
		}
	}
}

// numbers adds to the totals of features that are numbers; whole says that z has all of them.
func (s *Pass) numbers(b *kernels.Batch, whole bool) {
	if whole && len(b.Weight) == 0 {
		s.wholeNumbers(b.Shared, b.Len())
		return
	}
	s.work.tally.Numbers(&s.totals, &s.dict, b, s.work.w)
}

// Merge adds the rows of src, a pass at the same point; src is not changed. Errors: a pass at
// another point, of another likelihood, or with columns of another kind; the cause of ctx, which
// leaves s partly merged.
func (s *Pass) Merge(ctx context.Context, src *Pass) (err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	if s.head != src.head {
		return fmt.Errorf("passes of different models: %v, and %v", s.head, src.head)
	}
	if (s.learns || s.sites) && s.around.sum != src.around.sum {
		return fmt.Errorf("passes around different fits: the variances of their weights add up to %v and %v", s.around.sum, src.around.sum)
	}
	if err := s.counted.Merge(&src.counted, nil); err != nil {
		return err
	}
	n := s.dict.Len()
	ids, err := s.dict.Merge(&src.dict)
	if err != nil {
		return err
	}
	p := s.dict.Len()
	if p > maxPassWeights {
		return fmt.Errorf("%d features; allowed without keeping the rows: up to %d", p, maxPassWeights)
	}
	s.at = append(s.at, make([]float64, p-n)...)
	s.shift, s.slope = append(s.shift, make([]float64, p-n)...), append(s.slope, make([]float64, p-n)...)
	s.curv = append(s.curv, make([]float64, p*(p+1)/2-n*(n+1)/2)...)
	s.bend, s.totals.Squares = append(s.bend, make([]float64, p-n)...), append(s.totals.Squares, make([]float64, p-n)...)
	s.totals.Numbers = append(s.totals.Numbers, make([]kernels.NumberTotals, p-n)...)
	for j, id := range ids {
		switch {
		case int(id) >= n:
			s.at[id] = src.at[j]
			if src.shift[j] != 0 {
				return fmt.Errorf("passes around different fits: only one knows %q", src.dict.Name(uint32(j)))
			}
		case s.at[id] != src.at[j] || s.shift[id] != src.shift[j]:
			return fmt.Errorf("passes around different fits: the weight of %q is %v in one and %v in another", src.dict.Name(uint32(j)), s.at[id], src.at[j])
		}
	}
	for j, id := range ids {
		halt.Row(j)
		s.slope[id] += src.slope[j]
		s.bend[id] += src.bend[j]
		s.totals.Squares[id] += src.totals.Squares[j]
		for k, g := range ids[:j+1] {
			s.curv[packed(id, g)] += src.curv[j*(j+1)/2+k]
		}
	}
	s.logLik += src.logLik
	s.known += src.known
	s.rounds += src.rounds
	s.bare += src.bare
	s.misfit.Add(src.misfit)
	s.entries += src.entries
	tally.Join(&s.totals, &src.totals, ids)
	return nil
}
