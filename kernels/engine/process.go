package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gp"
)

// process keeps points, whose coordinates are the features 1, 2, ..., for a Gaussian process.
type process struct {
	batch
	d *int // numbers in a point, -1 before the first
}

func newProcess(_ context.Context, m *kernels.Model) (Fitter, error) {
	r, err := kernels.NewRows(m)
	d := -1
	return process{batch{Rows: r}, &d}, err
}

// CheckPoint reports a point with numbers beyond gp.MaxInput or of another length than the points
// before.
func (s process) CheckPoint(x []float64) error {
	for k, v := range x {
		if !(math.Abs(v) <= gp.MaxInput) {
			return fmt.Errorf("x has %v at place %d; allowed: numbers of at most %v", v, k+1, gp.MaxInput)
		}
	}
	if *s.d >= 0 && *s.d != len(x) {
		return fmt.Errorf("x has %d values, the rows before have %d", len(x), *s.d)
	}
	*s.d = len(x)
	return nil
}

func (s process) Clone() Fitter {
	d := *s.d
	return process{s.batch.Clone().(batch), &d}
}

func (s process) Merge(ctx context.Context, src Fitter) error {
	o, ok := src.(process)
	if !ok {
		return errMixed
	}
	if *s.d >= 0 && *o.d >= 0 && *s.d != *o.d {
		return fmt.Errorf("x has %d values in one row and %d in another", *s.d, *o.d)
	}
	*s.d = max(*s.d, *o.d)
	return s.batch.Merge(ctx, o.batch)
}

func (s process) Fit(ctx context.Context) (*Result, error) {
	n, d := s.Rows.Len(), max(*s.d, 0)
	x := &dense.Matrix{Rows: n, Cols: d, Stride: d}
	b := &kernels.Batch{}
	if n <= gp.MaxRows { // else the error is that of gp.Fit
		b = s.Rows.All()
		x.Data = make([]float64, n*d)
		for i := range n {
			fs, xs := b.Entries(i)
			for k, f := range fs {
				x.Row(i)[f] = xs[k]
			}
		}
	}
	m := s.Model
	o := m.Options.Process
	p, err := gp.Fit(ctx, m.Lik, x, b.Y, b.Weight, b.Offset, b.Trials, gp.Options{
		Kernel: o.Kernel, Lengthscale: o.Lengthscale, SignalVariance: o.SignalVariance, Mean: o.Mean,
		AutoLengthscale: o.AutoLengthscale, AutoSignalVariance: o.AutoSignalVariance, AutoMean: o.AutoMean,
		Standardize: m.Options.Standardize, AutoDispersion: m.Options.AutoDispersion, AutoShape: m.Options.AutoShape,
		MaxIter: m.Options.MaxIter, Tol: m.Options.Tol, TimeLimit: m.Options.TimeLimit})
	if err != nil {
		return nil, err
	}
	if n > 0 && len(p.Alpha) == 0 { // rows of weight 0 are left out
		p.Status = kernels.Join(p.Status, kernels.WeightlessNote)
	}
	p.Status = kernels.Join(kernels.Join(kernels.Join(p.Status, farNote(m, p, b)), p.Beside), kernels.SkippedNote(s.Skipped()))
	return &Result{Process: p, Fit: &kernels.Fit{Method: "gp", Family: p.Family, Link: p.Link, Shape: p.Shape, Dispersion: p.Dispersion, Intercept: true,
		Prior: m.Prior, Time: math.NaN(), N: int64(p.N), Skipped: s.Skipped(), LogEvidence: p.LogEvidence,
		Iterations: p.Iterations, Converged: p.Converged, Status: p.Status}}, nil
}

// farNote is the note if the responses of a location family lie where the prior makes the process
// very improbable: all of them would be explained as noise.
func farNote(m *kernels.Model, p *gp.Posterior, b *kernels.Batch) string {
	if !m.Lik.Traits().Located || len(b.Y) == 0 || m.Options.Standardize {
		return ""
	}
	sum, square, n := 0.0, 0.0, 0.0
	for i, y := range b.Y {
		w := b.Obs(i).Weight
		y -= b.Shift(i)
		sum, square, n = sum+w*y, square+w*y*y, n+w
	}
	if !(n > 0) {
		return ""
	}
	mean := sum / n
	signal := p.SignalVariance
	if p.Kernel == "linear" { // its process grows with its points
		signal *= dense.Dot(p.X.Data, p.X.Data) / float64(p.X.Rows) / p.Lengthscale / p.Lengthscale
	}
	far := math.Abs(mean - p.Mean)
	if sd := math.Sqrt(math.Max(square/n-mean*mean, 0)); !(far > 3*math.Sqrt(signal)) || !(far > sd) {
		return ""
	}
	return fmt.Sprintf("the responses average %.4g, which mean = %.4g and signal_variance = %.4g make very unlikely, so that they are taken for noise: subtract their average, or learn both ('auto')", mean, p.Mean, p.SignalVariance)
}
