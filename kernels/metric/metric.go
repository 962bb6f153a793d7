// Package metric measures predictions against what was observed: metrics absorb rows one by one and
// can be merged, so that several threads can each process a part.
package metric

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/bglm/bglm/kernels/special"
)

// Metric is a statistic of rows of numbers, which are in the order of its Args. It is used by one
// goroutine at a time.
type Metric interface {
	// Add counts a row, whose values must be allowed by its Args, as weight rows; 0 ignores it.
	Add(row []float64, weight float64)
	// Merge adds the rows of src, a metric of the same kind and settings, which is not
	// changed. Errors: other settings.
	Merge(src Metric) error
	Clone() Metric
	Size() int64 // bytes
}

// Number is a Metric that is a single number.
type Number interface {
	Metric
	// Value is the metric of the rows so far; NaN if they leave it undefined, as no rows do.
	Value() float64
}

// Arg is an argument of a metric and its allowed values.
type Arg struct {
	Name    string
	OK      func(x float64) bool
	Allowed string
	Ends    bool // it is the upper end of an interval whose lower end is the previous argument
}

// Check reports an error in a row of the arguments args, whose values are each allowed: an interval
// that ends before it begins contains nothing.
func Check(args []Arg, row []float64) error {
	for k, a := range args {
		if a.Ends && row[k-1] > row[k] {
			lower := args[k-1].Name
			return fmt.Errorf("%s = %v is above %s = %v; allowed: %s <= %s, in this order", lower, row[k-1], a.Name, row[k], lower, a.Name)
		}
	}
	return nil
}

func number(x float64) bool { return x == x }

// The arguments: responses, predictions and the ends of intervals.
var (
	Outcome     = Arg{Name: "y", OK: func(x float64) bool { return x == 0 || x == 1 }, Allowed: "0 and 1"}
	Response    = Arg{Name: "y", OK: special.Finite, Allowed: "finite numbers"}
	Probability = Arg{Name: "p", OK: func(x float64) bool { return x >= 0 && x <= 1 }, Allowed: "probabilities from 0 to 1"}
	Prediction  = Arg{Name: "p", OK: special.Finite, Allowed: "finite numbers"}
	Score       = Arg{Name: "p", OK: number, Allowed: "numbers"}
	Lower       = Arg{Name: "lo", OK: number, Allowed: "numbers"}
	Upper       = Arg{Name: "hi", OK: number, Allowed: "numbers", Ends: true}
	// Weight is how many rows a row counts as.
	Weight = Arg{Name: "weight", OK: func(x float64) bool { return x >= 0 && special.Finite(x) }, Allowed: "finite numbers >= 0"}
)

// sum accumulates with Neumaier's compensation, so that the order of rows and threads changes a
// metric by at most a rounding error.
type sum struct{ s, c float64 }

func (a *sum) add(x float64) {
	t := a.s + x
	if math.Abs(a.s) >= math.Abs(x) {
		a.c += a.s - t + x
	} else {
		a.c += x - t + a.s
	}
	a.s = t
}

func (a *sum) value() float64 {
	if math.IsInf(a.s, 0) {
		return a.s
	}
	return a.s + a.c
}

// merge adds another sum.
func (a *sum) merge(o sum) {
	a.add(o.s)
	if !math.IsInf(o.s, 0) {
		a.add(o.c)
	}
}

// wide is a sum whose terms and value may overflow or underflow, as squares and products with
// weights may: sum times 2^e. A power of 2 causes no rounding, so that numbers of any size keep
// their accuracy.
type wide struct {
	sum
	e int
}

// plain adds x if x and the sum are within the range of full accuracy, and reports whether.
func (a *wide) plain(x float64) bool {
	if size := math.Abs(x); a.e != 0 || !(size > 1e-140 && size < 1e140) {
		return false
	}
	a.sum.add(x)
	return true
}

// add adds x times 2^e, where x is Inf or near 1.
func (a *wide) add(x float64, e int) {
	switch {
	case x == 0:
		return
	case a.s == 0:
		a.e = e
	case e > a.e:
		a.s, a.c, a.e = math.Ldexp(a.s, a.e-e), math.Ldexp(a.c, a.e-e), e
	}
	a.sum.add(math.Ldexp(x, e-a.e))
}

func (a *wide) merge(o wide) {
	a.add(o.s, o.e)
	if !math.IsInf(o.s, 0) {
		a.add(o.c, o.e)
	}
}

// mean is the mean of a function of the row, as a number times 2^e.
type mean struct {
	total wide
	n     wide // of weights
	of    func(row []float64) float64
	far   func(row []float64) (x float64, e int) // of where its value overflows or underflows; nil = it never does
	root  bool                                   // the square root of the mean
}

func (m *mean) Clone() Metric { c := *m; return &c }
func (m *mean) Size() int64   { return 80 }
func (m *mean) Add(row []float64, weight float64) {
	if weight == 0 { // also for an infinite loss
		return
	}
	x := m.of(row)
	if !m.n.plain(weight) {
		m.n.add(math.Frexp(weight))
	}
	if v := weight * x; m.total.plain(v) || x == 0 && m.far == nil {
		return
	}
	x, e := math.Frexp(x)
	if m.far != nil {
		x, e = m.far(row)
	}
	w, k := math.Frexp(weight)
	m.total.add(w*x, k+e)
}

func (m *mean) Merge(src Metric) error {
	o := src.(*mean)
	m.total.merge(o.total)
	m.n.merge(o.n)
	return nil
}

func (m *mean) Value() float64 {
	v, e := m.total.value()/m.n.value(), m.total.e-m.n.e
	if !m.root {
		return math.Ldexp(v, e)
	}
	return math.Ldexp(math.Sqrt(math.Ldexp(v, e&1)), e>>1)
}

// LogLoss is the mean of -log of the probability (second) assigned to the outcome (first); +Inf if
// a certain prediction was wrong.
func LogLoss() Number { return &mean{of: logLoss} }

func logLoss(row []float64) float64 {
	if row[0] == 1 {
		return -math.Log(row[1])
	}
	return -math.Log1p(-row[1])
}

// Brier is the mean squared difference between outcome and probability.
func Brier() Number { return &mean{of: squaredError, far: squaredErrorFar} }

// RMSE is the root mean squared difference between response and prediction.
func RMSE() Number { return &mean{of: squaredError, far: squaredErrorFar, root: true} }

func squaredError(row []float64) float64 { d := row[0] - row[1]; return d * d }

func squaredErrorFar(row []float64) (float64, int) {
	d, e := math.Frexp(row[0] - row[1])
	if math.IsInf(d, 0) { // a difference of numbers near the largest
		d, e = math.Frexp(row[0]/2 - row[1]/2)
		e++
	}
	return d * d, 2 * e
}

// Coverage is the proportion of responses between the lower and upper ends (second and third), ends
// included.
func Coverage() Number { return &mean{of: covered} }

func covered(row []float64) float64 {
	if row[0] >= row[1] && row[0] <= row[2] {
		return 1
	}
	return 0
}

// AUC is the area under the trapezoid ROC curve: the proportion of (1, 0) pairs whose scores are in
// the right order, ties counting half. It is NaN if only one class was seen.
//
// Memory: it keeps the scores. Cost of Value: O(n log n).
func AUC() Number { return &auc{} }

type auc struct{ pos, neg scores }

func (a *auc) Clone() Metric { return &auc{a.pos.clone(), a.neg.clone()} }
func (a *auc) Size() int64   { return a.pos.size() + a.neg.size() + 96 }
func (a *auc) Add(row []float64, weight float64) {
	switch {
	case weight == 0:
	case row[0] == 1:
		a.pos.add(row[1], weight)
	default:
		a.neg.add(row[1], weight)
	}
}

func (a *auc) Merge(src Metric) error {
	o := src.(*auc)
	a.pos.merge(o.pos)
	a.neg.merge(o.neg)
	return nil
}

func (a *auc) Value() float64 {
	if len(a.pos.at) == 0 || len(a.neg.at) == 0 {
		return math.NaN()
	}
	pos, neg := a.pos.sorted(), a.neg.sorted()
	all := neg.upTo()
	below, upto, pairs, n := 0, 0, 0.0, 0.0
	for i, p := range pos.at {
		for below < len(neg.at) && neg.at[below] < p {
			below++
		}
		upto = max(upto, below)
		for upto < len(neg.at) && neg.at[upto] <= p {
			upto++
		}
		w := pos.weightOf(i)
		pairs += w * (all(below) + 0.5*(all(upto)-all(below)))
		n += w
	}
	return pairs / n / all(len(neg.at))
}

// scores are predictions with their weights, which are nil while all are 1.
type scores struct{ at, weight []float64 }

func (s *scores) clone() scores { return scores{slices.Clone(s.at), slices.Clone(s.weight)} }
func (s *scores) size() int64   { return 8 * int64(cap(s.at)+cap(s.weight)) }

func (s *scores) add(x, weight float64) {
	if weight != 1 {
		s.weigh()
	}
	s.at = append(s.at, x)
	if s.weight != nil {
		s.weight = append(s.weight, weight)
	}
}

// weigh makes the weights explicit.
func (s *scores) weigh() {
	if s.weight == nil {
		s.weight = slices.Repeat([]float64{1}, len(s.at))
	}
}

func (s *scores) merge(o scores) {
	if o.weight != nil {
		s.weigh()
	}
	if s.weight != nil {
		o.weigh()
		s.weight = append(s.weight, o.weight...)
	}
	s.at = append(s.at, o.at...)
}

func (s *scores) weightOf(i int) float64 {
	if s.weight == nil {
		return 1
	}
	return s.weight[i]
}

// sorted is a copy in ascending order of score, with weights scaled to at most about 1 by a power
// of 2, which causes no rounding: products and sums of the given weights may overflow.
func (s *scores) sorted() scores {
	c := s.clone()
	if c.weight == nil {
		slices.Sort(c.at)
		return c
	}
	_, e := math.Frexp(slices.Max(c.weight))
	for i, w := range c.weight {
		c.weight[i] = math.Ldexp(w, -e)
	}
	sort.Sort(byScore(c))
	return c
}

// upTo returns a function for the sum of the first n weights.
func (s *scores) upTo() func(n int) float64 {
	if s.weight == nil {
		return func(n int) float64 { return float64(n) }
	}
	sums, total := make([]float64, 1, len(s.weight)+1), sum{}
	for _, w := range s.weight {
		total.add(w)
		sums = append(sums, total.value())
	}
	return func(n int) float64 { return sums[n] }
}

type byScore scores

func (s byScore) Len() int           { return len(s.at) }
func (s byScore) Less(i, j int) bool { return s.at[i] < s.at[j] }
func (s byScore) Swap(i, j int) {
	s.at[i], s.at[j] = s.at[j], s.at[i]
	s.weight[i], s.weight[j] = s.weight[j], s.weight[i]
}

// Calibration counts outcomes in bins of the predicted probability of equal width.
type Calibration struct {
	n, pred, ys []sum
}

// MaxBins limits the bins of a Calibration.
const MaxBins = 10000

// NewCalibration returns a Calibration with 1 to MaxBins bins.
func NewCalibration(bins int) *Calibration {
	return &Calibration{make([]sum, bins), make([]sum, bins), make([]sum, bins)}
}

func (c *Calibration) Clone() Metric {
	return &Calibration{slices.Clone(c.n), slices.Clone(c.pred), slices.Clone(c.ys)}
}

// Size is the memory held, in bytes.
func (c *Calibration) Size() int64 { return 48*int64(len(c.n)) + 72 }

// Add adds an outcome and its predicted probability as weight rows.
func (c *Calibration) Add(row []float64, weight float64) {
	k := min(int(row[1]*float64(len(c.n))), len(c.n)-1)
	c.n[k].add(weight)
	c.pred[k].add(weight * row[1])
	c.ys[k].add(weight * row[0])
}

// Merge adds the rows of another Calibration. Errors: another number of bins.
func (c *Calibration) Merge(src Metric) error {
	o := src.(*Calibration)
	if len(o.n) != len(c.n) {
		return fmt.Errorf("bins differ between rows of one group (%d and %d)", len(c.n), len(o.n))
	}
	for k := range c.n {
		c.n[k].merge(o.n[k])
		c.pred[k].merge(o.pred[k])
		c.ys[k].merge(o.ys[k])
	}
	return nil
}

// Bin is a bin of a Calibration: probabilities from Lower to Upper.
type Bin struct {
	Number              int // from 1
	Lower, Upper        float64
	N                   float64 // sum of the weights of its rows
	Predicted, Observed float64 // means
}

// Bins returns the bins that have rows.
func (c *Calibration) Bins() (out []Bin) {
	bins := float64(len(c.n))
	for k := range c.n {
		if n := c.n[k].value(); n > 0 {
			out = append(out, Bin{k + 1, float64(k) / bins, float64(k+1) / bins, n, c.pred[k].value() / n, c.ys[k].value() / n})
		}
	}
	return out
}
