package mode

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

const (
	// Rows are summed in order in blocks of this many, on any number of processors.
	sumRows = 4096
	// Work below this many entries is not worth a second goroutine.
	parallelFrom = 1 << 15
)

// Sum sums f over n rows in blocks, in a fixed order. A row is about as much work as perRow
// entries.
func Sum(s *stop.Stop, n, perRow int, f func(lo, hi int) float64) float64 {
	return SumBy(s, n, sumRows, perRow, f)
}

// SumBy is Sum in blocks of the given number of rows.
func SumBy(s *stop.Stop, n, rows, perRow int, f func(lo, hi int) float64) float64 {
	blocks := (n + rows - 1) / rows
	part := make([]float64, blocks)
	some := func(lo, hi int) {
		for b := lo; b < hi; b++ {
			s.Check()
			part[b] = f(b*rows, min((b+1)*rows, n))
		}
	}
	if n*perRow < parallelFrom {
		some(0, blocks)
	} else {
		dense.Parallel(blocks, some)
	}
	sum := 0.0
	for _, v := range part {
		sum += v
	}
	return sum
}

// Data holds the rows of a log likelihood.
type Data struct {
	Lik               lik.Likelihood
	Only              []bool // the rows that count, nil for all
	Y, Weight, Trials []float64
	Stop              *stop.Stop
}

// DataOf returns the rows of p.
func DataOf(p *kernels.Problem) Data {
	return Data{Lik: p.Lik, Y: p.Y, Weight: p.Weight, Trials: p.Trials, Stop: p.Stop}
}

// Obs returns row i.
func (d *Data) Obs(i int) lik.Obs {
	o := lik.Obs{Y: d.Y[i], Weight: 1}
	if d.Weight != nil {
		o.Weight = d.Weight[i]
	}
	if d.Trials != nil {
		o.Trials = d.Trials[i]
	}
	return o
}

// Point is the log likelihood at linear predictors, with its slopes and curvatures -l″.
type Point struct {
	Eta, D1, Curv []float64
	LogLik        float64
}

// NewPoint returns a point for n rows.
func NewPoint(n int) Point {
	return Point{memory.Floats(n), memory.Floats(n), memory.Floats(n), 0}
}

// Evaluate computes the log likelihood and its derivatives at pt.Eta. If one of them is not finite,
// the log likelihood is -Inf, so that no step goes there.
func (d *Data) Evaluate(pt *Point) {
	many := lik.Many(d.Lik)
	pt.Sums(Sum(d.Stop, len(d.Y), 16, func(lo, hi int) float64 { return d.EvaluateRows(pt, many, lo, hi) }))
}

// EvaluateRows is Evaluate for rows [lo, hi); it returns their part of the log likelihood. many is
// lik.Many of the likelihood.
func (d *Data) EvaluateRows(pt *Point, many func(y, weight, s, d1, curv []float64) float64, lo, hi int) float64 {
	if many != nil && d.Only == nil {
		var weight []float64
		if d.Weight != nil {
			weight = d.Weight[lo:hi]
		}
		return many(d.Y[lo:hi], weight, pt.Eta[lo:hi], pt.D1[lo:hi], pt.Curv[lo:hi])
	}
	sum := 0.0
	for i := lo; i < hi; i++ {
		d.Stop.Row(i)
		if d.Only != nil && !d.Only[i] {
			pt.D1[i], pt.Curv[i] = 0, 0
			continue
		}
		logp, d1, d2 := d.Lik.LogLik(d.Obs(i), pt.Eta[i])
		if !special.Finite(logp) || !special.Finite(d1) || !special.Finite(d2) {
			return math.Inf(-1)
		}
		sum += logp
		pt.D1[i], pt.Curv[i] = d1, -d2
	}
	return sum
}

// Sums sets the log likelihood to the sum of EvaluateRows over all rows, -Inf if that is not finite.
func (pt *Point) Sums(logLik float64) {
	if pt.LogLik = logLik; !special.Finite(logLik) {
		pt.LogLik = math.Inf(-1)
	}
}

// Start returns an error if no climb can start at pt, which is the prior mean; check names the
// arguments to look at.
func (d *Data) Start(pt *Point, check string) error {
	if !math.IsInf(pt.LogLik, -1) {
		return nil
	}
	for i, eta := range pt.Eta {
		logp, d1, d2 := d.Lik.LogLik(d.Obs(i), eta)
		if !special.Finite(logp) || !special.Finite(d1) || !special.Finite(d2) {
			return kernels.RowError(fmt.Errorf("row %d: the likelihood of y = %v is not a positive finite number at the prior mean, linear predictor %v; check %s", i+1, d.Y[i], eta, check))
		}
	}
	return fmt.Errorf("the log likelihood overflows at the prior mean; check %s", check)
}
