package laplace

import (
	"context"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// passTol is the distance to the mode, in posterior standard deviations, at which a pass has
// converged: its step ends at the square of that, and the relative error of its curvature is of
// that order.
const passTol = 1e-6

// siteTol is the same for sites, whose passes converge linearly instead of quadratically.
const siteTol = 1e-8

// tol returns the distance at which a pass has converged.
func (n *newtonStep) tol() float64 {
	least := passTol
	if n.sites {
		least = siteTol
	}
	return max(least, n.q.Options.Tol)
}

// informationChange returns how much the information of the sites about the weights changes if the
// posterior becomes post, as a share of all of it: of tr(H Σ), which is the same in all
// coordinates. Rounding error is excluded: a very informative row's variance is a difference of
// much larger numbers, with as many digits fewer as the covariance is ill-conditioned.
func (n *newtonStep) informationChange(post *gauss.Normal) float64 {
	if n.q.Lik.Traits().Gaussian {
		return 0
	}
	known := 0.0
	hl := n.q.Matrix(n.h.Rows, n.h.Cols)
	dense.Mul(hl, n.h, post.L)
	for j := range hl.Rows {
		hl.Stop.Row(j)
		known += dense.Dot(hl.Row(j), post.L.Row(j))
	}
	return max(math.Abs(n.known-known)-1e-12*n.rounds, 0) / max(known, 1)
}

// Step is Newton's step from the point of a pass.
type Step struct {
	Fit *kernels.Fit // the Gaussian at its end
	// Distance is the distance from the pass's point to the mode in posterior standard deviations,
	// by the curvature, and LogPosterior the height of that point: log likelihood plus log prior.
	Distance, LogPosterior float64
}

// Solve takes Newton's step under model m, whose options must be those of the pass. Fit has the
// mean where the step ends, the covariance from the curvature at the pass's point, and the evidence
// from both; it has converged, and is Laplace's approximation, if the point was within tol (1e-6)
// standard deviations of the mode. Learnt prior variances and dispersion are those of the highest
// evidence, or, with Integrate, integrated over, as by Fit: from the quadratic approximation of the
// log likelihood at the point and the slope of log |Λ0 + H| there, whose slope at the mode is that
// of the evidence. Its result is Full. Cost: O(p³), some tens of times that if anything is learnt.
//
// Errors: a model that differs from that of the pass, a point where the likelihood is not
// finite; the cause of ctx if it is cancelled.
func (s *Pass) Solve(ctx context.Context, m *kernels.Model) (out *Step, err error) {
	halt := stop.Watch(ctx, 0)
	defer halt.End(&err)
	m = m.Complete()
	if err := checkPass(m); err != nil {
		return nil, err
	}
	if h := headOf(m); h != s.head {
		return nil, fmt.Errorf("the pass was made with other options: %v; found %v", s.head, h)
	}
	if math.IsInf(s.logLik, -1) || math.IsNaN(s.logLik) {
		return nil, fmt.Errorf("the log likelihood is not finite at the weights of around; begin with the fit of a sample of the rows")
	}
	t, d := s.totals, s.dict.Clone()
	t.Columns = s.counted.Columns()
	q, std, fill, err := kernels.Unseen(halt, m, &d, &t, 0)
	if err != nil {
		return nil, err
	}
	if q.P > maxPassWeights {
		return nil, fmt.Errorf("%d weights; allowed without keeping the rows: up to %d", q.P, maxPassWeights)
	}
	n := &newtonStep{Pass: s, q: q, std: std, dict: &d, fill: fill}
	n.transform()
	f, err := n.fit()
	if err != nil {
		return nil, err
	}
	if err := std.Restore(f); err != nil {
		return nil, err
	}
	out = &Step{Fit: f, Distance: n.distance, LogPosterior: n.height - t.Weight*math.Log(std.Response())}
	f.AddStatus(kernels.SkippedNote(f.Skipped))
	if f.Converged {
		f.AddStatus(s.scaleNote(f, m, &d))
		f.AddStatus(f.CloseNote())
		f.AddStatus(f.CrossNote())
		f.AddStatus(f.GapNote(m))
		f.AddStatus(s.misfit.Note(m.Lik))
		f.AddStatus(s.misfit.Neighbours(n.distance))
		if !s.sites { // those of ep sum no likelihood at the point
			f.AddStatus(s.totals.BaseNote(m, s.logLik))
		}
		if !m.LearnsPrior() {
			f.AddStatus(f.PriorNote(m))
		}
	}
	return out, f.Check()
}

// scaleNote returns kernels.Fit.ScaleNote of f.
func (s *Pass) scaleNote(f *kernels.Fit, m *kernels.Model, d *kernels.Dict) string {
	if m.Options.Standardize {
		return ""
	}
	size := func(t kernels.NumberTotals) float64 {
		return math.Hypot(t.Center, math.Sqrt(t.Squares/max(t.Weight, math.SmallestNonzeroFloat64)))
	}
	rms := make([]float64, len(f.Columns))
	for k := range rms {
		rms[k] = math.NaN()
		if id, ok := d.Find(f.Columns[k].Name); ok && int(id) < len(s.totals.Numbers) && m.Start.Number(f.Columns[k].Name) == nil {
			rms[k] = size(s.totals.Numbers[id])
		}
	}
	unit := 1.0
	if m.Lik.Traits().Located {
		unit = kernels.Or(size(s.totals.Y), 1)
	}
	return f.ScaleNote(rms, unit)
}

// newtonStep is a pass in the scales of the problem.
type newtonStep struct {
	*Pass
	q    *kernels.Problem
	std  *kernels.Standard
	dict *kernels.Dict
	fill []float64

	h       *dense.Matrix // curvature
	g, u    []float64     // slope and point, by column
	bent    []float64     // the slope of log |Λ0 + H|
	logLik  float64       // at the point
	noise   float64       // the dispersion to which these belong
	squares float64       // Gaussian: Σ w (y - η)² at the point

	distance, height float64 // of the last evidence
}

// A mix is a column of the problem in terms of the pass's columns: (z_j + a z_0 + b z_k)/c, where
// z_0 is the intercept and z_k marks the number as missing (k = -1 if there is no such column).
type mix struct {
	j, k    int
	a, b, c float64
}

func (n *newtonStep) mix(col int) mix {
	id := int(n.q.Feature(col))
	m := mix{j: id, k: -1, c: n.std.Scale[col]}
	shift := 0.0
	if id < len(n.shift) {
		shift = n.shift[id]
	}
	m.a = shift - n.std.Shift[col]
	if n.dict.NumberPlace(uint32(id)) == math.MaxInt {
		return m
	}
	if at, ok := n.dict.Find(n.q.Name(col) + kernels.IsNull); ok && int(at) < len(n.at) {
		m.k, m.b = int(at), n.fill[id]-shift
	}
	return m
}

// transform transforms point, slope and curvature to the columns of the problem.
func (n *newtonStep) transform() {
	p, d := n.q.P, len(n.at)
	mixes := make([]mix, p)
	half := n.q.Matrix(p, d) // mixed rows of the curvature
	n.g, n.u, n.h, n.bent = memory.Floats(p), memory.Floats(p), n.q.Matrix(p, p), memory.Floats(p)
	unit := n.std.Unit
	add := func(row []float64, by float64, id int) {
		if by == 0 || id < 0 || id >= d {
			return
		}
		for k := range row {
			row[k] += by * n.curv[packed(uint32(id), uint32(k))]
		}
	}
	value := func(v []float64, id int) float64 {
		if id < 0 || id >= len(v) {
			return 0
		}
		return v[id]
	}
	for j := range mixes {
		n.q.Stop.Row(j)
		m := n.mix(j)
		mixes[j] = m
		add(half.Row(j), unit/m.c, m.j)
		add(half.Row(j), unit*m.a/m.c, 0)
		add(half.Row(j), unit*m.b/m.c, m.k)
		n.g[j] = unit / m.c * (value(n.slope, m.j) + m.a*value(n.slope, 0) + m.b*value(n.slope, m.k))
		n.bent[j] = unit / m.c * (value(n.bend, m.j) + m.a*value(n.bend, 0) + m.b*value(n.bend, m.k))
		n.u[j] = value(n.at, m.j)
	}
	place := map[int]int{}
	for j, m := range mixes {
		n.q.Stop.Row(j)
		place[m.j] = j
		row := half.Row(j)
		to := n.h.Row(j)
		for k, c := range mixes {
			to[k] = unit / c.c * (value(row, c.j) + c.a*value(row, 0) + c.b*value(row, c.k))
		}
	}
	// The point: first the weights of numbers, whose shifts the other weights absorb.
	for _, m := range mixes {
		w := value(n.at, m.j)
		if at, ok := place[0]; ok && !n.NoIntercept && m.j != 0 {
			n.u[at] -= m.a * w
		}
		if at, ok := place[m.k]; ok && m.k >= 0 {
			n.u[at] -= m.b * w
		}
	}
	for j, m := range mixes {
		if m.j == 0 && !n.NoIntercept {
			n.u[j] -= n.std.Origin
		}
		n.u[j] *= m.c / unit
	}
}
