package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Problem is what the batch engines solve: n rows in row-compressed form over p columns in belief
// order, and a proper Gaussian prior over the columns. Known weights (prior variance 0) are not
// among the columns: their contribution is in Offset, and Fit restores them.
//
// With times the rows are sorted by time, rows of equal times in their original order.
type Problem struct {
	*Model
	design.Columns

	Y      []float64
	Weight []float64 // nil = 1
	Offset []float64 // nil = 0
	Trials []float64 // nil = none
	Time   []float64 // length n; without times 1, 2, ...
	Count  []float64 // number of rows of the table that each one stands for, nil = 1: see Options.Compress

	// PriorMean is the mean of the prior, PriorVar the diagonal of its covariance; Normal is the
	// whole prior, with the covariance of the fit that it starts from.
	PriorMean, PriorVar []float64
	Normal              *gauss.Normal

	// Begin is the time of the prior: that of the fit continued, otherwise that of the first row.
	// Born reports for each column whether it exists from then on (named by the model); others
	// begin with their first row.
	Begin float64
	Born  []bool

	// Balanced asks a fit at the mode for means that expect about as many events as came.
	Balanced bool

	dict    *Dict
	order   []uint32 // dictionary numbers in belief order, including known ones
	at      []int32  // column of each entry of order, -1 for known weights
	cols    []uint32 // dictionary number of each column
	known   []Weight // by index in order, only if at is -1
	rows    []chunk  // the rows in their chunks, if weights are known: see Features
	skipped int64
	columns []FitColumn // of the rows, as a fit records them
	asIs    bool        // see Apart
	crossed bool        // numbers of interactions are centred: see CrossAs

	noted *predictors // of the notes on a fit: see Noting

	within   []float64 // of pooled rows: see lik.Pooling
	stood    int64     // rows of the table, unless Count is nil
	constant float64   // of the log likelihood of pooled rows
	// unshifted is the pool of all rows without their offsets, if pools combine different ones.
	unshifted *lik.Pool

	// Of rows that are not kept.
	unseen  *Totals
	squares []float64 // mean square of each column
	spread  float64   // mean square of the responses about their mean, less their offsets
}

// Problem lays the rows out for a batch engine; r is not changed and may grow afterwards. Cost:
// O(nnz + p log p) time and 12 bytes per non-zero.
// Errors: a prior that is not a proper Gaussian, a predictor that overflows.
func (r *Rows) Problem() (*Problem, error) { return r.problem(nil, copied) }

// HasMultipleWeights reports whether a row of p has two weights.
func (p *Problem) HasMultipleWeights() bool {
	for i := range p.N {
		p.Stop.Row(i)
		_, xs := p.Entries(i)
		n := 0
		for _, x := range xs {
			if x != 0 {
				n++
			}
		}
		if n > 1 {
			return true
		}
	}
	return false
}

// ErrNoProblem is the error for a problem that is nil or zero.
var ErrNoProblem = errors.New("the problem is of no rows and no model; make one with Rows.Problem")

// Check returns ErrNoProblem for such a problem.
func (p *Problem) Check() error {
	if p == nil || p.Model == nil || p.Normal == nil {
		return ErrNoProblem
	}
	return nil
}

// ProblemUnder is Problem with cancellation by ctx. Many rows with the same features are moved:
// from then on r and the problem share them, and neither may change them, so that they are not held
// twice.
func (r *Rows) ProblemUnder(ctx context.Context) (p *Problem, err error) {
	s := stop.Watch(ctx, 0)
	defer s.End(&err)
	return r.problem(s, moved)
}

// ProblemInPlace is ProblemUnder for a method that only needs products of X: if all of many rows
// have the same features and no value is missing, it reads them where r holds them (design.Pieces).
// It returns nil for other rows.
func (r *Rows) ProblemInPlace(ctx context.Context) (p *Problem, err error) {
	if dense.GramParts(r.Len(), r.Dict.Len()) == 0 || r.nnz != r.Len()*r.Dict.Len() {
		return nil, nil
	}
	s := stop.Watch(ctx, 0)
	defer s.End(&err)
	if p, err = r.problem(s, inPlace); err == errElsewhere {
		return nil, nil
	}
	return p, err
}

// placement is the place of a problem's values.
type placement int

const (
	copied  placement = iota
	moved             // copied, and many rows read from the copy from then on
	inPlace           // where the rows hold them, or errElsewhere
)

func (r *Rows) problem(s *stop.Stop, to placement) (*Problem, error) {
	m := r.Model
	if m == nil {
		return nil, errNoModel
	}
	r, err := r.Pooled().tied()
	if err != nil {
		return nil, err
	}
	p := &Problem{Columns: design.Columns{N: r.Len(), Stop: s}, Model: m, dict: &r.Dict, order: r.Dict.Order(), skipped: r.skipped, stood: r.stood, constant: r.constant, unshifted: r.unshifted}
	if err := m.CheckPriorBy(&r.Dict, int64(r.Len())); err != nil {
		return nil, err
	}
	prior, begun := m.startOf(&r.Dict)

	n := len(p.order)
	col := memory.Make[int32](n, n) // by dictionary number
	p.at, p.known = memory.Make[int32](n, n), memory.Make[Weight](n, n)
	p.cols, p.Born = memory.Make[uint32](0, n), memory.Make[bool](0, n)
	p.PriorMean, p.PriorVar = memory.Make[float64](0, n), memory.Make[float64](0, n)
	for k, id := range p.order {
		w := prior[id]
		if err := CheckWeight(w); err != nil {
			return nil, fmt.Errorf("prior of feature %q: %w", r.Dict.Name(id), err)
		}
		if w.Variance == 0 {
			p.at[k], p.known[k], col[id] = -1, w, -1
			continue
		}
		p.at[k], col[id] = int32(p.P), int32(p.P)
		p.P++
		p.cols = append(p.cols, id)
		p.PriorMean = append(p.PriorMean, w.Mean)
		p.PriorVar = append(p.PriorVar, w.Variance)
		p.Born = append(p.Born, int(id) < begun)
	}
	var center []float64
	var full func(id uint32) bool
	p.columns, center, full = r.columns()
	lies := p.layOut
	if to == inPlace {
		lies = p.keepInPlace
	}
	if err := lies(r, &layoutInput{col, prior, center, GapsOf(p.columns, &r.Dict), &r.Dict, full, to == moved}); err != nil {
		return nil, err
	}
	if p.HasKnown() {
		p.rows = slices.Clone(r.chunks) // their present place
	}
	return p, p.start()
}

// startOf returns the prior of every feature of d, by number, and how many of them the model names
// (they come first in d).
func (m *Model) startOf(d *Dict) (prior []Weight, named int) {
	prior = make([]Weight, d.Len())
	for id := range prior {
		prior[id] = Weight{m.Prior.Mean, m.Prior.Variance}
	}
	if !m.NoIntercept {
		prior[0] = Weight{m.Prior.Mean, m.Prior.InterceptVariance}
		named = 1
	}
	// A new level of a column that the fit continued knows has the prior variance of that column.
	known := m.Start != nil && len(m.Start.Classes) == 0 && (len(m.Start.Columns) > 0 || m.Start.KeepsLevels())
	for id := named; id < d.Len() && (known || len(m.PriorBy) > 0); id++ {
		if by := m.PriorBy.of(d, uint32(id)); by != nil && !by.Auto {
			prior[id].Variance = by.Variance
		} else if known && d.LevelColumn(uint32(id)) != "" {
			prior[id].Variance = m.Start.PriorOf(d.Name(uint32(id))).Variance
		} else if v, ok := m.Start.keptVariance(d.Name(uint32(id))); ok && known && d.NumberColumn(uint32(id)) == "" {
			prior[id].Variance = v
		}
	}
	put := func(bs []Belief) {
		for _, b := range bs {
			if id, ok := d.Find(b.Feature); ok {
				prior[id] = b.Weight
				named = max(named, int(id)+1)
			}
		}
	}
	put(m.Priors)
	if m.Start != nil && len(m.Start.Classes) == 0 { // for classes see Classes.Prior
		put(m.Start.Beliefs)
	}
	return prior, named
}

// start sets Begin and the prior's Normal.
func (p *Problem) start() error {
	s := p.Start
	p.Begin = math.NaN()
	switch {
	case p.HasTime && s != nil && !math.IsNaN(s.Time):
		p.Begin = s.Time
	case !p.HasTime && s != nil && s.N > 0:
		p.Begin = 0 // the first row is one step later
	case p.N > 0:
		p.Begin = p.Time[0]
	}
	p.Normal = gauss.NewDiagonal(p.PriorMean, p.PriorVar)
	if s == nil || s.Covariance.Form == gauss.Diagonal || len(s.Classes) > 0 {
		return nil
	}
	at := make(map[uint32]int, p.P)
	for j, id := range p.cols {
		at[id] = j
	}
	place := make([]int, len(s.Beliefs))
	for k, b := range s.Beliefs {
		place[k] = -1
		if b.Variance > 0 {
			id, _ := p.dict.Find(b.Feature)
			place[k] = at[id]
		}
	}
	g, err := s.over(place, p.PriorMean, p.PriorVar, p.Stop)
	if err != nil {
		return fmt.Errorf("prior: %w", err)
	}
	p.Normal, p.PriorVar = g, g.Var
	return nil
}

// Under returns p, sharing its rows, with products that s can end.
func (p *Problem) Under(s *stop.Stop) *Problem {
	q := *p
	q.Columns = p.Columns.Under(s)
	return &q
}

// Known returns p with a prior and, unless f is nil, the dispersion and shape of f as if they had
// been given: a problem for a method that learns none itself. normal is the prior of the columns.
// Both problems share all else.
func (p *Problem) Known(prior Prior, normal *gauss.Normal, f *Fit) (*Problem, error) {
	known, m := *p, *p.Model
	known.Model = &m
	o := &m.Options
	o.AutoPrior, o.PriorGroups, o.AutoDispersion, o.AutoShape, o.Integrate, o.ThirdOrder = false, false, false, false, false, false
	m.Prior, m.PriorBy = prior, nil
	known.Normal, known.PriorVar = normal, normal.Var
	if f == nil {
		return &known, nil
	}
	m.Params.Dispersion = f.Dispersion
	if _, ok := p.Lik.(lik.Shaped); ok {
		m.Params.Shape = f.Shape
	}
	var err error
	m.Lik, err = lik.New(f.Family, f.Link, m.Params)
	return &known, err
}

// Name is the feature of column j.
func (p *Problem) Name(j int) string { return string(p.dict.Name(p.cols[j])) }

// Features visits the features in belief order: the column of each or, for known weights, -1, the
// weight and the times of the rows that have it, ascending; a row with the value 0 has it.
func (p *Problem) Features(visit func(name string, column int, w Weight, times []float64)) {
	times := p.knownTimes()
	for k, id := range p.order {
		visit(string(p.dict.Name(id)), int(p.at[k]), p.known[k], times[id])
	}
}

// knownTimes returns the times of the rows that have a known weight, by its number.
func (p *Problem) knownTimes() map[uint32][]float64 {
	if !p.HasKnown() {
		return nil
	}
	times := make(map[uint32][]float64, len(p.order)-p.P)
	for k, id := range p.order {
		if p.at[k] < 0 {
			times[id] = nil
		}
	}
	row := 0
	for k := range p.rows {
		c := &p.rows[k]
		for i := range c.Len() {
			p.Stop.Row(row)
			t := float64(row + 1)
			if p.HasTime {
				t = 0
				if len(c.Time) > 0 {
					t = c.Time[i]
				}
			}
			row++
			fs, _ := c.Entries(i)
			for _, id := range fs {
				if c.ids != nil {
					id = c.ids[id]
				}
				if had, ok := times[id]; ok {
					times[id] = append(had, t)
				}
			}
		}
	}
	if p.HasTime {
		for _, t := range times {
			slices.Sort(t)
		}
	}
	return times
}

// HasKnown reports whether some weights are known, with their part of the predictors in the offsets.
func (p *Problem) HasKnown() bool { return len(p.order) > p.P }

// IsNumber reports whether column j is numeric, so that Standardize scales it.
func (p *Problem) IsNumber(j int) bool { return p.dict.NumberPlace(p.cols[j]) < math.MaxInt }

// Place sets w, by column, to the means of at for the features it names. A known weight may be
// named with its own value.
// Errors: a feature that the fit does not have, a mean that is not finite.
func (p *Problem) Place(w []float64, at []Belief) error {
	place := make(map[uint32]int, len(p.order))
	for k, id := range p.order {
		place[id] = k
	}
	for _, b := range at {
		id, ok := p.dict.Find(b.Feature)
		if !ok {
			return fmt.Errorf("feature %q is not in the fit; allowed: features of the rows, of priors and of prior", b.Feature)
		}
		if !special.Finite(b.Mean) {
			return fmt.Errorf("feature %q = %v; allowed: finite numbers", b.Feature, b.Mean)
		}
		k := place[id]
		if j := p.at[k]; j >= 0 {
			w[j] = b.Mean
		} else if b.Mean != p.known[k].Mean {
			return fmt.Errorf("feature %q = %v, but its prior says that it is known to be %v", b.Feature, b.Mean, p.known[k].Mean)
		}
	}
	return nil
}

// Batch returns the rows as a batch that shares p's memory; features are columns.
func (p *Problem) Batch() *Batch {
	return &Batch{Row: p.Row, Feature: p.Col, Shared: p.All(), Value: p.Val, Y: p.Y, Weight: p.Weight, Offset: p.Offset, Trials: p.Trials, Time: p.Time}
}

// Rows is the number of rows of the table that row i stands for.
func (p *Problem) Rows(i int) float64 {
	if p.Count == nil {
		return 1
	}
	return p.Count[i]
}

// RowWeight is the number of rows that row i counts as: its weight, which may be 0.
func (p *Problem) RowWeight(i int) float64 {
	if p.Weight == nil {
		return p.Rows(i)
	}
	return p.Weight[i]
}

// Table is the number of rows of the table from which p was made.
func (p *Problem) Table() float64 {
	switch {
	case p.unseen != nil:
		return float64(p.unseen.Rows)
	case p.Count == nil:
		return float64(p.N)
	}
	return float64(p.stood)
}

// Predictor sets dst = X w + offset.
func (p *Problem) Predictor(dst, w []float64) { p.Affine(dst, w, p.Offset) }
