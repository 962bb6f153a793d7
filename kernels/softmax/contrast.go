package softmax

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
)

// Contrast is the difference between two rows in one class.
type Contrast struct {
	Class string
	// Of the class's predictor: relative to the reference's, which is 0, or if no class is pinned
	// to the mean of all classes' (the latent scores of R's emmeans), because only differences
	// between classes are meaningful.
	predict.Estimate
	Positive float64
	// Of its probability. P(> 0) differs from that of the predictor, which does not determine
	// the other classes.
	Response         predict.Estimate
	ResponsePositive float64
}

// Contrasts returns row i of b less row j, by class. What the two rows share cancels exactly: a
// row less itself is exactly 0.
//
// Means of probabilities are those of Probabilities. Two classes are a logistic contrast
// (predict.ContrastOf). For more, standard deviation, interval and P(> 0) of the probabilities are
// those of up to 32,624 points of shifted lattices over the joint Gaussian of both rows' predictors,
// to about 1e-3 of the standard deviation, the interval to about 0.01 of it.
//
// Cost: that of the joint Gaussian, and 32,624 times O(C²), less for more than 17 classes:
// milliseconds.
// Errors: a level outside (0, 1); a predictor that is not finite.
func (s *Scorer) Contrasts(b *kernels.Batch, i, j int, level float64) ([]Contrast, error) {
	if err := predict.CheckLevel(level); err != nil {
		return nil, err
	}
	rows := s.pair(b, i, j)
	mean, cov, err := s.joint(rows)
	if err != nil {
		return nil, err
	}
	c := len(s.Fit.Classes)
	n := 3 * c
	out := make([]Contrast, c)
	still := true // no difference at all
	pinned := slices.Contains(s.known, true)
	each := make([]float64, c) // Σ_l cov(d_k, d_l)/C
	all, middle := 0.0, 0.0
	for k := range c {
		for l := range c {
			v := cov[(2*c+k)*n+2*c+l]
			each[k] += v / float64(c)
			still = still && v == 0
		}
		all += each[k] / float64(c)
		middle += mean[2*c+k] / float64(c)
		still = still && mean[2*c+k] == 0
	}
	for k := range c {
		m, v := mean[2*c+k], cov[(2*c+k)*n+2*c+k]
		if !pinned {
			m, v = m-middle, max(v-2*each[k]+all, 0)
		}
		out[k] = Contrast{Class: s.Fit.Classes[k], ResponsePositive: 0.5}
		out[k].Estimate, out[k].Positive = predict.Normal(m, v, level)
	}
	s.rescale(mean, cov, rows.shift...)
	switch {
	case still || c == 1:
	case c == 2:
		return out, s.contrastTwo(out, mean, cov, level)
	default:
		s.contrastMany(out, mean, cov, level)
	}
	return out, nil
}

// contrastTwo sets the responses of two classes.
func (s *Scorer) contrastTwo(out []Contrast, mean, cov []float64, level float64) error {
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		return err
	}
	var ms, vs [3]float64
	for k, r := range [3]int{0, 1, 2} {
		a, b := 2*r, 2*r+1
		ms[k] = mean[a] - mean[b]
		vs[k] = max(cov[a*6+a]+cov[b*6+b]-2*cov[a*6+b], 0)
	}
	c, err := predict.ContrastOf(l, kernels.Unscaled, ms, vs, level)
	if err != nil {
		return err
	}
	r := c.Response
	out[0].Response, out[0].ResponsePositive = r, c.Positive
	out[1].Response, out[1].ResponsePositive = predict.Estimate{Mean: -r.Mean, SD: r.SD, Lower: -r.Upper, Upper: -r.Lower}, 1-c.Positive
	return nil
}

// mostShifts is the largest number of shifts of the lattice for a contrast, and shiftWork bounds
// how many numbers its points have in all.
const (
	mostShifts = 8
	shiftWork  = 4e7
)

// contrastMany sets the responses of three classes or more.
func (s *Scorer) contrastMany(out []Contrast, mean, cov []float64, level float64) {
	c := len(out)
	points := differences(c, mean, rowsRoot(c, cov))
	at := func(r int) (p []float64) {
		p = make([]float64, c)
		block := make([]float64, c*c)
		for k := range c {
			copy(block[k*c:(k+1)*c], cov[(r*c+k)*3*c+r*c:][:c])
		}
		Probabilities(p, mean[r*c:(r+1)*c], block, predict.Exact)
		return p
	}
	a, b := at(0), at(1)
	for k, d := range points {
		out[k].Response, out[k].ResponsePositive = predict.OfDraws(d, 1, level)
		out[k].Response.Mean = a[k] - b[k]
	}
}

// rowsRoot returns 2c-2 rows of 2c numbers, a root of the covariance of the two rows' predictors
// without the common shift of each row: P cov P, P the two rows' I - 11ᵀ/C.
func rowsRoot(c int, cov []float64) []float64 {
	n, m := 3*c, 2*c
	half := make([]float64, m*m)
	for a := range m {
		for l := range m {
			half[a*m+l] = cov[a*n+l]
		}
	}
	centre := func(at func(a, l int) *float64) {
		for a := range m {
			for r := range 2 {
				t := 0.0
				for l := r * c; l < (r+1)*c; l++ {
					t += *at(a, l) / float64(c)
				}
				for l := r * c; l < (r+1)*c; l++ {
					*at(a, l) -= t
				}
			}
		}
	}
	centre(func(a, l int) *float64 { return &half[a*m+l] })
	centre(func(a, l int) *float64 { return &half[l*m+a] })
	sym := mat.NewSymDense(m, nil)
	for a := range m {
		for l := range a + 1 {
			sym.SetSym(a, l, 0.5*(half[a*m+l]+half[l*m+a]))
		}
	}
	var es mat.EigenSym
	dim := m - 2
	root := make([]float64, dim*m)
	if es.Factorize(sym, true) { // should not fail; if it does: the plugin, without a standard deviation
		var vec mat.Dense
		es.VectorsTo(&vec)
		val := es.Values(nil)
		for k := range dim {
			sd := math.Sqrt(max(val[m-1-k], 0))
			for l := range m {
				root[k*m+l] = sd * vec.At(l, m-1-k)
			}
		}
	}
	return root
}

// differences returns, by class, draws of the difference in probability between the two rows, on a
// lattice and its mirror image.
func differences(c int, mean, root []float64) [][]float64 {
	m := 2 * c
	dim := m - 2
	shifts := int(min(max(shiftWork/float64(2*latticePoints*m*dim), 1), mostShifts))
	points := make([][]float64, c) // differences by class
	f, p, q := make([]float64, m), make([]float64, c), make([]float64, c)
	for shift := range shifts {
		at := goldenShift * float64(1+shift)
		for _, z := range shifted(dim, at-math.Floor(at)) {
			for _, sign := range [2]float64{1, -1} {
				copy(f, mean[:m])
				for k, x := range z {
					for l, r := range root[k*m : (k+1)*m] {
						f[l] += sign * x * r
					}
				}
				softmaxTo(p, f[:c])
				softmaxTo(q, f[c:])
				for k := range c {
					points[k] = append(points[k], p[k]-q[k])
				}
			}
		}
	}
	return points
}
