package gp

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// parameters holds the parameters of the process.
type parameters struct {
	lengthscale, signal, mean float64
	dispersion, shape         float64 // of the likelihood, for the search by evidence
}

// search holds the fit at one set of parameters. The unknowns are alpha, with
// f = mean + K alpha, and the log posterior is
//
//	Ψ = Σ log p(y_i | f_i + offset_i) - ½ alphaᵀ K alpha
type search struct {
	*data
	*geometry
	parameters
	mode.Newton

	k       *dense.Matrix // K
	b       *dense.Matrix // B or its factor
	alpha   []float64
	now     point // at alpha
	next    point // at the trial point of a step
	sw      []float64
	da      []float64 // Newton's step of alpha
	df      []float64 // and of f
	g       []float64 // l' - alpha
	scratch []float64
	pull    float64 // slope and curvature of ½ alphaᵀ K alpha along da
	bend    float64

	order    []int // the factor's rows, those of negative curvature last
	negative int   // how many rows of negative curvature

	logEvidence float64
	iterations  int     // over all searches
	ridge       float64 // added to B's diagonal against rounding
	floored     int     // rows whose negative curvature was set to 0
	outer       string  // note about the search for parameters
	edge        string  // about parameters at the end of their range
	note        string  // and about other modes
	warm        bool    // the last fit started from the existing alpha
}

// point is the likelihood at f = K alpha, without the mean.
type point struct {
	mode.Point
	f []float64
}

func newSearch(d *data, g *geometry, o Options) *search {
	n := len(d.Y)
	v := make([]float64, 8*n)
	cut := func() []float64 {
		c := v[:n:n]
		v = v[n:]
		return c
	}
	s := &search{data: d, geometry: g, Newton: mode.Newton{MaxIter: o.MaxIter, Tol: o.Tol, Stall: 1e-5, Final: true}, k: dense.NewUnder(d.x.Stop, n, n), b: dense.NewUnder(d.x.Stop, n, n)}
	s.now, s.next = point{mode.NewPoint(n), cut()}, point{mode.NewPoint(n), cut()}
	s.alpha, s.sw, s.da, s.df, s.g, s.scratch = cut(), cut(), cut(), cut(), cut(), cut()
	s.order = make([]int, n)
	return s
}

func (s *search) late() bool { return s.x.Stop.Late() }

// fit finds mode and evidence at parameters p, from the present alpha.
func (s *search) fit(p parameters) error {
	s.parameters = p
	s.Status, s.ridge, s.floored = "", 0, 0
	s.fill(s.k, p.lengthscale, p.signal)
	for i := range s.Y {
		if v := s.k.At(i, i); !special.Finite(v) {
			return kernels.RowError(fmt.Errorf("row %d: the kernel at this row is %v; scale the inputs down, or give a smaller signal_variance or larger lengthscale", i+1, v))
		}
	}
	if err := s.begin(); err != nil {
		return err
	}
	if err := s.mode(); err != nil {
		return err
	}
	return s.finish()
}

// begin moves to alpha, or to f = mean if that has the higher log posterior. If there may be
// several modes it stays near alpha.
func (s *search) begin() error {
	warm := math.Inf(-1)
	s.warm = true
	for _, a := range s.alpha {
		if a != 0 {
			s.move()
			if warm = s.logPosterior(); math.IsNaN(warm) {
				warm = math.Inf(-1)
			}
			break
		}
	}
	clear(s.next.f)
	s.evaluate(&s.next)
	if _, bumpy := s.Lik.(lik.Bumpy); s.next.LogLik < warm || bumpy && special.Finite(warm) {
		return nil
	}
	if err := s.Start(&s.next.Point, "mean, offset and weight"); err != nil {
		return err
	}
	clear(s.alpha)
	s.warm = false
	s.now, s.next = s.next, s.now
	return nil
}

// move sets f = K alpha and evaluates the likelihood there.
func (s *search) move() {
	dense.Gemv(s.now.f, s.k, s.alpha)
	s.evaluate(&s.now)
}

// evaluate computes the likelihood at pt.f.
func (s *search) evaluate(pt *point) {
	for i, f := range pt.f {
		pt.Eta[i] = s.mean + f + s.shift(i)
	}
	s.Evaluate(&pt.Point)
}

func (s *search) logPosterior() float64 { return s.now.LogLik - 0.5*dense.Dot(s.alpha, s.now.f) }

// mode climbs by Newton's method with step-halving. With g = l' - alpha the step is
//
//	Δalpha = (I + WK)⁻¹ g = g - (K + W⁻¹)⁻¹ K g
//
// which corrects the rounding errors of earlier steps, unlike the usual solution for alpha itself.
// Negative W keep their sign if that gives an uphill step, so that convergence is quadratic in every
// family. Newton's decrement, the distance to the mode in posterior standard deviations, is the
// square root of gᵀ K Δalpha.
//
// Source: Rasmussen and Williams (2006), algorithm 3.1, rearranged.
func (s *search) mode() error {
	err := s.Climb(s, s.Stop)
	s.iterations += s.Iterations
	return err
}

func (s *search) Direction() (slope float64, err error) {
	if err := s.curvature(); err != nil {
		return 0, err
	}
	if slope = s.direction(); !special.Finite(slope) {
		return 0, errOverflow
	}
	s.pull, s.bend = dense.Dot(s.now.f, s.da), dense.Dot(s.df, s.da)
	return slope, nil
}

// Arrived reports, without another factorisation, whether the mode is close enough: if W has no
// negative entries gᵀ K g bounds the square of Newton's decrement. g itself must be small, too,
// for its part that K annihilates.
func (s *search) Arrived() bool {
	if s.negative+s.floored > 0 {
		return false
	}
	largest, pull := 0.0, 1.0
	for i, a := range s.alpha {
		if s.now.Curv[i] < 0 {
			return false
		}
		s.g[i] = s.now.D1[i] - a
		largest, pull = max(largest, math.Abs(s.g[i])), max(pull, math.Abs(a))
	}
	if largest > s.Tol*pull {
		return false
	}
	dense.Gemv(s.df, s.k, s.g)
	return dense.Dot(s.g, s.df) <= s.Tol*s.Tol
}

var errOverflow = fmt.Errorf("the curvature of the log posterior overflows; give a smaller signal_variance, or check weight, mean and offset")

// direction sets da and df, and returns the slope of the log posterior along them. With
// R = (K + W⁻¹)⁻¹ the step is g - R K g, and also R W⁻¹ g: the first cancels for rows with a large
// W K, the second divides by 0 for rows without W, so each row of g uses the better one,
//
//	Δalpha = g1 + R (W⁻¹ g2 - K g1),  g1 + g2 = g
func (s *search) direction() (slope float64) {
	for i, a := range s.alpha {
		s.g[i] = s.now.D1[i] - a
		s.da[i] = s.g[i]
		if s.isInformative(i) {
			s.da[i] = 0
		}
	}
	dense.Gemv(s.df, s.k, s.da)
	for i := range s.df {
		s.df[i] = -s.df[i]
		if s.isInformative(i) {
			s.df[i] += s.g[i] / s.weightOf(i)
		}
	}
	s.applyR(s.next.f, s.df)
	dense.Axpy(1, s.next.f, s.da)
	dense.Gemv(s.df, s.k, s.da)
	return dense.Dot(s.g, s.df)
}

// weightOf returns W as factored: floored if that was necessary.
func (s *search) weightOf(i int) float64 { return math.Copysign(s.sw[i]*s.sw[i], s.now.Curv[i]) }

// isInformative reports whether row i is more informative than its prior.
func (s *search) isInformative(i int) bool { return s.sw[i]*s.k.At(i, i)*s.sw[i] > 1 }

func (s *search) Gain(t float64) float64 {
	for i, f := range s.now.f {
		s.next.f[i] = f + t*s.df[i]
	}
	s.evaluate(&s.next)
	return s.next.LogLik - s.now.LogLik - t*(s.pull+0.5*t*s.bend)
}

// Overshoots makes a step that was cut be cut further while that pays.
func (s *search) Overshoots() {}

func (s *search) Go(t float64) bool {
	dense.Axpy(t, s.da, s.alpha)
	s.move() // f = K alpha again: the two do not drift apart
	return !math.IsInf(s.now.LogLik, -1)
}

func (s *search) Height() (logLik, penalty float64, rows int) {
	return s.now.LogLik, 0.5 * dense.Dot(s.alpha, s.now.f), len(s.Y)
}

// factor sets b to the Cholesky factor of B = I + W½ K W½. Its eigenvalues are at least 1, but if
// W and K are so large that they are lost in rounding errors, of relative size n eps, the
// diagonal is raised by that much.
func (s *search) factor() error {
	n := len(s.Y)
	largest := 0.0
	for i, w := range s.sw {
		largest = max(largest, 1+w*s.k.At(i, i)*w)
	}
	if !special.Finite(largest) {
		return errOverflow
	}
	ridge := 0.0
	for try := 0; ; try++ {
		s.each(func(i int) {
			row, from, a := s.b.Row(i), s.k.Row(i), s.sw[i]
			for j, w := range s.sw[:i+1] {
				row[j] = a * from[j] * w
			}
			row[i] += 1 + ridge
		})
		err := dense.Cholesky(s.b)
		if err == nil {
			s.ridge = ridge
			return nil
		}
		if try == 4 {
			return fmt.Errorf("the curvature I + W½KW½ has no Cholesky factor (%w); give a smaller signal_variance or weight", err)
		}
		ridge = max(10*ridge, 1e-16*float64(n)*largest)
	}
}

// curvature factors J + |W|½ K |W|½ = L J Lᵀ, with negative W if f may be a strict maximum with
// them, otherwise with W floored at 0.
func (s *search) curvature() error {
	s.negative, s.floored, s.ridge = 0, 0, 0
	for i, w := range s.now.Curv {
		s.sw[i] = math.Sqrt(math.Abs(w))
		if w < 0 {
			s.negative++
		}
	}
	if s.negative > 0 {
		if s.signed() {
			return nil
		}
		s.negative, s.floored = 0, s.negative
		for i, w := range s.now.Curv {
			s.sw[i] = math.Sqrt(max(w, 0))
		}
	}
	for i := range s.order {
		s.order[i] = i
	}
	return s.factor()
}

// finish factors at the mode and computes the evidence.
func (s *search) finish() error {
	if err := s.curvature(); err != nil {
		return err
	}
	s.logEvidence = s.logPosterior()
	for i := range s.Y {
		s.logEvidence -= math.Log(s.b.At(i, i))
	}
	if !special.Finite(s.logEvidence) {
		return errOverflow
	}
	return nil
}

// applyR sets dst = (K + W⁻¹)⁻¹ x = |W|½ L⁻ᵀ J L⁻¹ |W|½ x; dst must not be x.
func (s *search) applyR(dst, x []float64) {
	u := s.scratch
	for a, i := range s.order {
		u[a] = s.sw[i] * x[i]
	}
	dense.SolveLowerVec(s.b, u)
	for a := len(u) - s.negative; a < len(u); a++ {
		u[a] = -u[a]
	}
	dense.SolveLowerTVec(s.b, u)
	for a, i := range s.order {
		dst[i] = s.sw[i] * u[a]
	}
}

// signed computes the factorisation in two blocks, rows of negative curvature last:
//
//	L11 L11ᵀ = I + S1 K11 S1,  L21 = S2 K21 S1 L11⁻ᵀ,  L22 L22ᵀ = I - S2 K22 S2 + L21 L21ᵀ
//
// It returns false if a block is not positive definite: then f̂ is not a strict maximum.
func (s *search) signed() bool {
	n := len(s.Y)
	p := n - s.negative
	head, tail := s.order[:0:p], s.order[p:p]
	for i, w := range s.now.Curv {
		if w < 0 {
			tail = append(tail, i)
		} else {
			head = append(head, i)
		}
	}
	for a, i := range s.order {
		s.b.Stop.Check()
		row, from := s.b.Row(a), s.k.Row(i)
		for c, j := range s.order[:a+1] {
			row[c] = s.sw[i] * from[j] * s.sw[j]
		}
		row[a]++
	}
	l11, l22 := s.b.Slice(0, p, 0, p), s.b.Slice(p, n, p, n)
	if dense.Cholesky(l11) != nil {
		return false
	}
	l12 := s.b.Slice(p, n, 0, p).T()
	dense.SolveLower(l11, l12)
	l21 := l12.T()
	for a := range s.negative {
		copy(s.b.Row(p + a)[:p], l21.Row(a))
		row := l22.Row(a)
		for c := range row[:a] {
			row[c] = -row[c]
		}
		row[a] = 2 - row[a] // the 1 was added above
	}
	dense.Syrk(l22, 1, l21, 1)
	return dense.Cholesky(l22) == nil
}

// sign returns J's entry for row a of the factor.
func (s *search) sign(a int) float64 {
	if a >= len(s.order)-s.negative {
		return -1
	}
	return 1
}

// rootOf sets dst = T = L⁻¹ |W|½, columns in the order of the factor.
func (s *search) rootOf(dst *dense.Matrix) {
	n := len(s.Y)
	clear(dst.Data)
	for a, i := range s.order {
		dst.Set(a, a, s.sw[i])
	}
	const block = 128 // T is lower triangular: each block of columns starts at its diagonal
	for lo := 0; lo < n; lo += block {
		hi := min(lo+block, n)
		dense.SolveLower(s.b.Slice(lo, n, lo, n), dst.Slice(lo, n, lo, hi))
	}
}

// posterior returns the result. It overwrites K.
func (s *search) posterior() *Posterior {
	n := len(s.Y)
	l := s.Lik
	p := &Posterior{
		Family: l.Family(), Link: l.Link(), Shape: math.NaN(), Dispersion: 1, Kernel: s.name,
		Lengthscale: s.lengthscale, SignalVariance: s.signal, Mean: s.mean,
		X: dense.New(n, s.x.Cols), Alpha: memory.Floats(n), Root: stop.Make[float64](s.x.Stop, n*(n+1)/2)[:0], Negative: s.negative,
		N: n, LogEvidence: s.logEvidence, Iterations: s.iterations, Status: s.sentence(),
	}
	f := kernels.Fit{}
	f.SetLikelihood(l)
	p.Shape, p.Dispersion = f.Shape, f.Dispersion
	p.Converged = s.Status == "" && s.outer == ""
	s.rootOf(s.k)
	for a, i := range s.order {
		s.b.Stop.Check()
		copy(p.X.Row(a), s.x.Row(i))
		p.Alpha[a] = s.alpha[i]
		p.Root = append(p.Root, s.k.Row(a)[:a+1]...)
	}
	return p
}

// sentence returns the fit's status.
func (s *search) sentence() string {
	switch {
	case s.Status != "":
		return s.Status
	case s.outer != "":
		return s.outer
	case s.edge != "" && s.note != "":
		return s.edge + "; " + s.note
	case s.edge != "":
		return s.edge
	case s.floored > 0:
		return fmt.Sprintf("%d %s more negative curvature than the prior makes up for: it was taken as 0, and log_evidence is not reliable", s.floored, kernels.Inflect(s.floored, "row has", "rows have"))
	case s.ridge > 1e-8:
		return fmt.Sprintf("the data are so precise that rounding hides %.1g of the curvature: log_evidence and variances are approximate", s.ridge)
	}
	return kernels.Or(s.note, "ok")
}

// worseThanMeanNote returns the sentence about rows that the mode predicts worse than their mean
// alone does.
func (s *search) worseThanMeanNote() string {
	return lik.BesideMean(s.Lik, len(s.Y), 0, func(i int) (lik.Obs, float64) { return s.Obs(i), s.now.Eta[i] })
}
