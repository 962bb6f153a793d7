package answer

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/stop"
)

// Point is what one row contributes to the assessment of its fit, logs in nats.
type Point struct {
	// LOO is the log density of the response given all other rows (predict.LeaveOut), NaN if no
	// proper posterior remains without the row.
	LOO float64
	LPD float64 // the same given all rows: log ∫ p(y | s) N(s; m, v) ds
	// Penalty is the variance of log p(y | s) under N(m, v), the row's part of p_waic.
	Penalty float64
	// Reach indicates how far LOO can be trusted (predict.LeftOut).
	Reach float64
	Share float64 // of its predictor's precision that is due to the row (predict.LeftOut)
}

// point is the Point of row i of b, with s ~ N(m, v) under the posterior that includes it. A weight
// counts as so many equal rows: the Point is that of one, and LOO leaves one out. A learnt
// dispersion of gaussian responses is integrated out.
//
// Cost: some 64 evaluations of the likelihood for Penalty, and that of predict.LeaveOut.
// Errors: those of predict.LeaveOut.
//
// Sources: [vehtari2017] for Penalty (eq. 12) and the role of Pareto's k.
func (l *LOO) point(b *kernels.Batch, i int, m, v float64) (Point, error) {
	f, err := l.LeaveOut(b, i, m, v, l.by)
	if err != nil {
		return Point{}, err
	}
	o, beside := b.Obs(i), l.LearntParameters()
	o.Weight = 1
	p := Point{LOO: f.LogDensity, LPD: beside.LogDensity(l.Lik, o, m, v), Reach: f.Reach, Share: f.Share}
	over := func(l lik.Likelihood, v float64) (mean, variance float64) { return logMoments(l, o, m, v) }
	var ok bool
	if p.Penalty, ok = beside.Penalty(l.Lik, o, m, v, over); !ok {
		_, p.Penalty = over(l.Lik, v)
	}
	return p, nil
}

// reach is over how many standard deviations a Gaussian is summed: the rest has weight 1e-16.
const reach = 8.5

// nodes is how many nodes over ±reach resolve what changes over a unit of s under a standard
// deviation sd: the midpoint rule converges faster than any power.
func nodes(sd float64) int { return int(min(max(64, 24*sd), 1024)) }

// logMoments are the mean and variance of log p(y | s), s ~ N(m, v).
func logMoments(l lik.Likelihood, o lik.Obs, m, v float64) (mean, variance float64) {
	at, _, _ := l.LogLik(o, m)
	if v == 0 {
		return at, 0
	}
	sd := math.Sqrt(v)
	n := nodes(sd)
	var total, second float64
	for k := range n {
		z := reach * (2*(float64(k)+0.5)/float64(n) - 1)
		w := math.Exp(-0.5 * z * z)
		log, _, _ := l.LogLik(o, m+sd*z)
		d := log - at
		total += w
		mean += w * d
		second += w * d * d
	}
	mean /= total
	return at + mean, max(second/total-mean*mean, 0)
}

// LOO accumulates the leave-one-out predictions of a fit for its own rows.
//
// A LOO is used by one goroutine at a time; several can be merged. A row of weight w counts as w
// rows.
type LOO struct {
	*predict.Scorer
	rows              int64
	loo, lpd, penalty moments
	warned, failed    int64
	worst, shares     float64
	alone             *lik.Summing // of the rows, nil if their mean alone is not evaluated
	by                predict.Factor
	keep              bool
	points, weights   []float64 // LOO of each row and its weight, if kept
}

// NewLOO returns a LOO without rows. by is the factor that rows have in f (engine.FactorOf); keep
// makes it remember the rows one by one, as Compare needs.
// Errors: those of predict.New.
func NewLOO(f *kernels.Fit, by predict.Factor, keep bool) (*LOO, error) {
	s, err := predict.New(f)
	if err != nil {
		return nil, err
	}
	return &LOO{Scorer: s, by: by, keep: keep, alone: lik.NewSumming(s.Lik)}, nil
}

// Add adds the rows of b, whose feature numbers are those of Features.
//
// Errors: a response outside the support or a predictor that is not finite, which are
// kernels.ErrRow and leave the rows before added; the cause of ctx if it is cancelled.
func (l *LOO) Add(ctx context.Context, b *kernels.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	for i := range b.Len() {
		if err := stop.Cause(ctx); err != nil {
			return err
		}
		m, v, err := l.Predictive(b, i)
		if err != nil {
			return err
		}
		o := b.Obs(i)
		p, err := l.point(b, i, m, v)
		if err != nil {
			return err
		}
		l.rows++
		l.lpd.add(p.LPD, o.Weight)
		l.penalty.add(p.Penalty, o.Weight)
		if l.alone != nil {
			l.alone.Add(o)
		}
		l.worst = max(l.worst, p.Reach)
		if p.Share > 0 && !math.IsInf(p.Share, 1) {
			l.shares += p.Share * max(o.Weight, 1) // for a weight below 1, the share is that of a whole row
		}
		if l.keep {
			l.points, l.weights = append(l.points, p.LOO), append(l.weights, o.Weight)
		}
		switch {
		case math.IsNaN(p.LOO):
			l.failed++
			continue
		case p.Reach > predict.MaxReach:
			l.warned++
		}
		l.loo.add(p.LOO, o.Weight)
	}
	return nil
}

// Merge adds the rows of o, which must have the same fit.
func (l *LOO) Merge(o *LOO) {
	l.rows += o.rows
	l.loo.merge(o.loo)
	l.lpd.merge(o.lpd)
	l.penalty.merge(o.penalty)
	l.warned, l.failed, l.worst = l.warned+o.warned, l.failed+o.failed, max(l.worst, o.worst)
	l.shares += o.shares
	if l.alone != nil {
		l.alone.Merge(o.alone)
	}
	l.points, l.weights = append(l.points, o.points...), append(l.weights, o.weights...)
}

// Clone returns an independent copy.
func (l *LOO) Clone() *LOO {
	c := *l
	c.Scorer, c.points, c.weights = l.Scorer.Clone(), slices.Clone(l.points), slices.Clone(l.weights)
	if l.alone != nil {
		alone := *l.alone
		c.alone = &alone
	}
	return &c
}

// Size is the approximate memory held, in bytes.
func (l *LOO) Size() int64 { return 256 + FitSize(l.Fit) + 8*int64(cap(l.points)+cap(l.weights)) }

// LOOSummary is the summary of a LOO, in the terms of R's package loo; logs in nats. Numbers are
// NaN if no row contributes to them.
type LOOSummary struct {
	N int64 // rows, of any weight
	// ELPD is the sum of Point.LOO over the rows, a row of weight w counted as w; SE its standard
	// error √(n Var), LooIC -2 ELPD, PLoo the effective number of weights: the sum of Point.LPD
	// minus ELPD.
	ELPD, SE, PLoo, LooIC float64
	// ELPDWaic is the sum of Point.LPD minus PWaic, the sum of Point.Penalty; Waic is -2 ELPDWaic.
	ELPDWaic, PWaic, Waic float64
	Warned                int64   // rows whose Reach exceeds predict.MaxReach
	Failed                int64   // rows without a LOO; ELPD, SE, PLoo and LooIC are NaN if there are any
	Worst                 float64 // the largest Reach
	Status                string  // "ok", or what is wrong with the sums
}

// Summary returns the summary of the rows so far.
func (l *LOO) Summary() LOOSummary {
	n := l.lpd.n
	s := LOOSummary{N: l.rows, Warned: l.warned, Failed: l.failed, Worst: l.worst}
	nan := math.NaN()
	s.ELPD, s.SE, s.PLoo, s.LooIC, s.ELPDWaic, s.PWaic, s.Waic = nan, nan, nan, nan, nan, nan, nan
	if n > 0 {
		s.PWaic = n * l.penalty.mean
		s.ELPDWaic = n*l.lpd.mean - s.PWaic
		s.Waic = -2 * s.ELPDWaic
		if s.Failed == 0 {
			s.ELPD = n * l.loo.mean
			s.SE = math.Sqrt(n * l.loo.variance())
			s.PLoo = n*l.lpd.mean - s.ELPD
			s.LooIC = -2 * s.ELPD
		}
	}
	if l.failed > 0 {
		s.Status = kernels.Join(s.Status, fmt.Sprintf("%s no proper posterior without it: this fit's variances are not those of its rows (fit with method 'laplace' or a full covariance)", rowsHave(l.failed)))
	}
	if l.warned > 0 {
		s.Status = kernels.Join(s.Status, fmt.Sprintf("%s so much weight that its left-out density is not reliable: fit again without it to be sure", rowsHave(l.warned)))
	}
	if l.Fit.N > 0 && s.N > l.Fit.N {
		s.Status = kernels.Join(s.Status, fmt.Sprintf("%d rows, of which the fit has learnt %d at most: a row that it has not learnt cannot be left out of it", s.N, l.Fit.N))
	}
	if p := len(l.Fit.Beliefs); l.shares > 1.1*float64(p)+1 { // under approximations they exceed p by a few per cent
		s.Status = kernels.Join(s.Status, fmt.Sprintf("the leverages of the rows add up to %.4g, which is impossible for the rows of a fit with %d weights: it is of other rows, of a low rank or of weights that drift, and no row can be left out of it; these figures mean nothing", l.shares, p))
	}
	s.Status = kernels.Join(s.Status, l.beside(s.ELPD))
	if l.rows > 0 && l.LearntParameters().NotAveraged(l.Lik) {
		s.Status = kernels.Join(s.Status, "the dispersion, or shape, that was learnt is held at its value, not averaged over: elpd_loo and elpd_waic are too high by about a nat for each of them, which counts in a comparison with another family")
	}
	s.Status = kernels.Join(s.Status, "")
	return s
}

// beside is the note on rows whose sum of log densities, each given the others, is elpd, if their mean
// alone predicts them better; "" otherwise. The mean has the fit's shape, and its dispersion unless
// that was learnt.
func (l *LOO) beside(elpd float64) string {
	dispersion := l.Fit.Dispersion
	if _, _, learnt := l.Fit.Kept(kernels.LearntDeviation); learnt {
		dispersion = 0
	}
	mean, ok := l.alone.Best(dispersion)
	n := l.lpd.n
	if mean -= 0.5 * math.Log(n); !ok || !lik.FarBelow(elpd, mean) {
		return ""
	}
	return fmt.Sprintf("rows left out one by one have a log loss of %.4g under the others, worse than the %.4g of their mean alone: "+
		"these are not the rows of the fit, an offset that they had is missing, or the fit has more weights or a wider prior than they bear", -elpd/n, -mean/n)
}

func rowsHave(n int64) string {
	if n == 1 {
		return "1 row has"
	}
	return fmt.Sprintf("%d rows each have", n)
}

// moments are the weighted mean and sum of squared deviations of numbers.
type moments struct {
	n        float64 // sum of the weights
	mean, m2 float64
}

// add adds x, counted as weight numbers.
func (a *moments) add(x, weight float64) {
	if weight == 0 {
		return
	}
	a.n += weight
	d := x - a.mean
	a.mean += d * weight / a.n
	a.m2 += weight * d * (x - a.mean)
}

func (a *moments) merge(b moments) {
	if b.n == 0 {
		return
	}
	if a.n == 0 {
		*a = b
		return
	}
	n, d := a.n+b.n, b.mean-a.mean
	a.m2 += b.m2 + d*d*a.n*b.n/n
	a.mean += d * b.n / n
	a.n += b.n
}

// variance is the sample variance; NaN for one number or fewer.
func (a *moments) variance() float64 {
	if !(a.n > 1) {
		return math.NaN()
	}
	return a.m2 / (a.n - 1)
}

// FitSize is the approximate memory of a fit and its names, in bytes.
func FitSize(f *kernels.Fit) int64 {
	return 96*int64(len(f.Beliefs)) + 8*int64(len(f.Covariance.Values))
}
