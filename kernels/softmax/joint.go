package softmax

import (
	"fmt"
	"math"
	"strconv"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/predict"
)

// Known reports whether the weights of class k are all known to be 0: the reference.
func (s *Scorer) Known(k int) bool { return s.known[k] }

// sums are linear combinations of the weights of one class each, plus offsets: sum r of class k is
// Σ_e x[e][r] w_{k, f[e]} + shift[r].
type sums struct {
	f     []uint32
	x     [][]float64
	shift []float64
}

// pair returns the rows i and j of b, and the first less the second, in which what they share is
// exactly 0.
func (s *Scorer) pair(b *kernels.Batch, i, j int) *sums {
	at := map[uint32]int{}
	c := &sums{shift: []float64{b.Shift(i), b.Shift(j), b.Shift(i) - b.Shift(j)}}
	for r, row := range []int{i, j} {
		fs, xs := s.Entries(s.Fit, b, row)
		for e, f := range fs {
			k, ok := at[f]
			if !ok {
				k = len(c.f)
				at[f] = k
				c.f, c.x = append(c.f, f), append(c.x, make([]float64, 3))
			}
			c.x[k][r] += xs[e]
		}
	}
	for _, x := range c.x {
		x[2] = x[0] - x[1]
	}
	return c
}

// joint returns the Gaussian of the sums of all classes, sum r of class k at index r C + k.
//
// Cost: O(R C e p C) full, O(R C e rank) low rank, and O(R² C² p C) or O(R² C² rank).
// Errors: a sum that is not finite.
func (s *Scorer) joint(of *sums) (mean, cov []float64, err error) {
	f, c, r := s.Fit, len(s.Fit.Classes), len(of.shift)
	n := r * c
	mean, cov = memory.Floats(n), make([]float64, n*n)
	width, sign := 0, 1.0
	switch f.Covariance.Form {
	case gauss.Full:
		width = len(f.Beliefs)
	case gauss.LowRank:
		width, sign = f.Covariance.Rank, -1
	}
	part := make([]float64, n*width)
	for k := range c {
		own := func(x []float64, v float64) {
			for a := range r {
				for b := range r {
					cov[(a*c+k)*n+b*c+k] += x[a] * x[b] * v
				}
			}
		}
		for a := range r {
			if !s.known[k] {
				mean[a*c+k] = of.shift[a]
			}
		}
		for e, id := range of.f {
			x := of.x[e]
			j := s.Belief(id)
			if j < 0 {
				if !s.known[k] {
					w := f.PriorOf(s.Features().Name(id))
					own(x, w.Variance)
					s.tied(cov, of, id, x, k)
					for a := range r {
						mean[a*c+k] += x[a] * w.Mean
					}
				}
				continue
			}
			at := k*s.p + j
			w := f.Beliefs[at].Weight
			var row []float64
			switch f.Covariance.Form {
			case gauss.Full:
				row = f.Covariance.Row(at)
			case gauss.LowRank:
				row = f.Covariance.Row(at)
				own(x, row[0])
				row = row[1:]
			default:
				own(x, w.Variance)
			}
			for a := range r {
				mean[a*c+k] += x[a] * w.Mean
				if x[a] != 0 {
					dense.Axpy(x[a], row, part[(a*c+k)*width:][:len(row)])
				}
			}
		}
	}
	for a := range n {
		for b := range a + 1 {
			d := dense.Dot(part[a*width:(a+1)*width], part[b*width:(b+1)*width])
			v := cov[a*n+b] + sign*d
			if a == b && sign < 0 {
				v = kernels.Rest(cov[a*n+b], d, kernels.CovarianceTol)
			}
			cov[a*n+b], cov[b*n+a] = v, v
		}
	}
	for a := range n {
		if err := kernels.CheckPredictor(mean[a], cov[a*n+a]); err != nil {
			return nil, nil, fmt.Errorf("class %q: %w", f.Classes[a%c], err)
		}
	}
	return mean, cov, nil
}

// tied adds to cov, as in joint, the covariances of class k's weight of feature id, never seen, with
// values x, with those of other features never seen.
func (s *Scorer) tied(cov []float64, of *sums, id uint32, x []float64, k int) {
	if len(s.Fit.Correlations) == 0 {
		return
	}
	c, r := len(s.Fit.Classes), len(of.shift)
	name := s.Features().Name(id)
	for o, other := range of.f {
		if s.Belief(other) >= 0 {
			continue
		}
		v, _ := s.Fit.TiedPrior(name, s.Features().Name(other))
		for a := range r {
			for b := range r {
				cov[(a*c+k)*r*c+b*c+k] += (x[a]*of.x[o][b] + of.x[o][a]*x[b]) * v
			}
		}
	}
}

// Variance returns that of Σ by[e C + k] w_{k, fs[e]} over features and classes.
//
// Cost: that of the covariance's quadratic form (kernels.Covariance.Variance).
func (s *Scorer) Variance(fs []uint32, by []float64) float64 {
	f, c := s.Fit, len(s.Fit.Classes)
	joint := f.Covariance.Form != gauss.Diagonal
	var at []int
	var val []float64
	v := 0.0
	for k := range c {
		if s.known[k] {
			continue
		}
		for e, id := range fs {
			x := by[e*c+k]
			j := s.Belief(id)
			switch {
			case x == 0:
			case j < 0:
				v += x * x * f.PriorOf(s.Features().Name(id)).Variance
			case joint:
				at, val = append(at, k*s.p+j), append(val, x)
			default:
				v += x * x * f.Beliefs[k*s.p+j].Variance
			}
		}
	}
	if joint {
		v += f.Covariance.Variance(at, val, nil)
	}
	return v
}

// Draw is a draw of the weights of all classes, like predict.Draw for one response: a function of
// seed, draw and the names of classes and features only.
type Draw struct {
	s   *Scorer
	of  *predict.Draw // its weights are those of all classes, one after the other
	key predict.Key
	b   kernels.Batch
	f   []float64
}

// NewDraw returns a Draw for s, for repeated use.
// Errors: a low-rank covariance that is not positive definite.
func (s *Scorer) NewDraw() (*Draw, error) {
	f := s.Fit
	all := &kernels.Fit{Method: f.Method, Family: "bernoulli", Link: "logit", Shape: math.NaN(), Dispersion: 1, Covariance: f.Covariance}
	for k, b := range f.Beliefs {
		b.Feature = drawName(k/s.p, b.Feature)
		all.Beliefs = append(all.Beliefs, b)
	}
	l, err := lik.New(all.Family, all.Link, lik.Params{})
	if err != nil {
		return nil, err
	}
	one, err := predict.NewWith(all, l)
	if err != nil {
		return nil, err
	}
	d, err := one.NewDraw()
	return &Draw{s: s, of: d, f: make([]float64, len(f.Classes))}, err
}

// drawName is the name under which the weight of a feature in class k is drawn.
func drawName(k int, feature string) string { return strconv.Itoa(k) + "\x00" + feature }

// Set sets d to the draw (seed, draw).
func (d *Draw) Set(seed, draw uint64) {
	d.of.Set(seed, draw)
	d.key = predict.NewKey(seed, draw)
}

// Linear returns the predictors of row i of b under the draw, by class; valid until the next call.
// Errors: a predictor that is not finite.
func (d *Draw) Linear(b *kernels.Batch, i int) ([]float64, error) {
	s := d.s
	fs, xs := s.Entries(s.Fit, b, i)
	for k := range d.f {
		d.f[k] = 0
		if s.known[k] {
			continue
		}
		d.b.Reset()
		shift := b.Shift(i)
		for e, id := range fs {
			if j := s.Belief(id); j >= 0 {
				d.b.Add(uint32(k*s.p+j), xs[e])
				continue
			}
			name := s.Features().Name(id)
			w := s.Fit.PriorOf(name)
			z := func(name []byte) float64 { return d.key.Normal([]byte(drawName(k, string(name)))) }
			v, tied := s.Fit.Share(name, w, z)
			if !tied {
				v = w.Mean + math.Sqrt(w.Variance)*z(name)
			}
			shift += xs[e] * v
		}
		d.b.EndRow()
		x, err := d.of.Linear(&d.b, 0)
		if err != nil {
			return nil, fmt.Errorf("class %q: %w", s.Fit.Classes[k], err)
		}
		d.f[k] = x + shift
	}
	return d.f, nil
}
