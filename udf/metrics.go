package udf

import (
	"fmt"
	"math"
	"sort"

	"github.com/bglm/bglm/udf/internal/capi"
)

// metric is an aggregate over complete rows of numbers; rows with a NULL are
// left out, as in SQL's own aggregates.
type metric interface {
	capi.State
	add(row []float64)
	result(out *capi.Col) // called with at least one row
}

// metricArg is an argument of a metric and what it may be.
type metricArg struct {
	name    string
	ok      func(float64) bool
	allowed string
}

var (
	argBinary = metricArg{"y", func(v float64) bool { return v == 0 || v == 1 }, "BOOLEAN, 0 or 1"}
	argNumber = metricArg{"y", finite, "finite numbers"}
	argProb   = metricArg{"p", func(v float64) bool { return v >= 0 && v <= 1 }, "probabilities from 0 to 1"}
	argPred   = metricArg{"p", finite, "finite numbers"}
	argScore  = metricArg{"p", func(v float64) bool { return v == v }, "numbers"}
	argLower  = metricArg{"lo", func(v float64) bool { return v == v }, "numbers"}
	argUpper  = metricArg{"hi", func(v float64) bool { return v == v }, "numbers"}
)

// updateMetric folds rows; fresh makes the state from the arguments behind those
// in spec, read at the group's first row.
func updateMetric(spec []metricArg, fresh func(args []capi.Vec, i int) (metric, error)) func([]capi.Vec, capi.Slots) error {
	return func(args []capi.Vec, slots capi.Slots) error {
		for k, a := range spec {
			if v := &args[k]; !v.IsNumber() && v.Type != capi.Boolean && v.Type != capi.SQLNull {
				return fmt.Errorf("%s is %s; allowed: %s", a.name, v.TypeName(), a.allowed)
			}
		}
		row := make([]float64, len(spec))
		return slots.Runs(func(slot capi.Slot, lo, hi int) error {
			var m metric
		rows:
			for i := lo; i < hi; i++ {
				for k, a := range spec {
					if args[k].Null(i) {
						continue rows
					}
					if row[k] = args[k].Float(i); !a.ok(row[k]) {
						return fmt.Errorf("%s = %v; allowed: %s", a.name, row[k], a.allowed)
					}
				}
				if m == nil {
					st, err := slot.Mutable(func() (capi.State, error) { return fresh(args[len(spec):], i) })
					if err != nil {
						return err
					}
					m = st.(metric)
				}
				m.add(row)
			}
			return nil
		})
	}
}

func finalizeMetric(states []capi.State, out *capi.Col) error {
	for _, st := range states {
		if st == nil {
			out.Null()
		} else {
			st.(metric).result(out)
		}
	}
	return nil
}

// sum accumulates with Neumaier's compensation, so that the order of rows and
// threads moves a metric by a rounding at most.
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

// meanMetric is a mean of a function of the row, then transformed.
type meanMetric struct {
	total sum
	n     int64
	of    func(row []float64) float64
	then  func(mean float64) float64
}

func (m *meanMetric) Clone() capi.State { c := *m; return &c }
func (m *meanMetric) Size() int64       { return 64 }
func (m *meanMetric) add(row []float64) { m.total.add(m.of(row)); m.n++ }
func (m *meanMetric) Merge(src capi.State) error {
	o := src.(*meanMetric)
	m.total.add(o.total.s)
	if !math.IsInf(o.total.s, 0) {
		m.total.add(o.total.c)
	}
	m.n += o.n
	return nil
}
func (m *meanMetric) result(out *capi.Col) {
	v := m.total.value() / float64(m.n)
	if m.then != nil {
		v = m.then(v)
	}
	out.Float(v)
}

// logLoss is -log of the probability of what was observed; +Inf where a
// certain prediction was wrong.
func logLoss(row []float64) float64 {
	if row[0] == 1 {
		return -math.Log(row[1])
	}
	return -math.Log1p(-row[1])
}

func squaredError(row []float64) float64 { d := row[0] - row[1]; return d * d }

func covered(row []float64) float64 {
	if row[0] >= row[1] && row[0] <= row[2] {
		return 1
	}
	return 0
}

func meanOf(of func([]float64) float64, then func(float64) float64) func([]capi.Vec, int) (metric, error) {
	return func([]capi.Vec, int) (metric, error) { return &meanMetric{of: of, then: then}, nil }
}

// auc keeps the scores of both classes: the area under the trapezoid ROC curve
// is the share of (1, 0) pairs in the right order, ties counting half.
type auc struct{ pos, neg []float64 }

func (a *auc) Clone() capi.State {
	return &auc{append([]float64(nil), a.pos...), append([]float64(nil), a.neg...)}
}
func (a *auc) Size() int64 { return 8*int64(cap(a.pos)+cap(a.neg)) + 48 }
func (a *auc) add(row []float64) {
	if row[0] == 1 {
		a.pos = append(a.pos, row[1])
	} else {
		a.neg = append(a.neg, row[1])
	}
}
func (a *auc) Merge(src capi.State) error {
	o := src.(*auc)
	a.pos, a.neg = append(a.pos, o.pos...), append(a.neg, o.neg...)
	return nil
}

// result is NULL when only one class was seen: no pair to order.
func (a *auc) result(out *capi.Col) {
	if len(a.pos) == 0 || len(a.neg) == 0 {
		out.Null()
		return
	}
	pos, neg := append([]float64(nil), a.pos...), append([]float64(nil), a.neg...)
	sort.Float64s(pos)
	sort.Float64s(neg)
	below, upto, pairs := 0, 0, 0.0
	for _, p := range pos {
		for below < len(neg) && neg[below] < p {
			below++
		}
		upto = max(upto, below)
		for upto < len(neg) && neg[upto] <= p {
			upto++
		}
		pairs += float64(below) + 0.5*float64(upto-below)
	}
	out.Float(pairs / float64(len(pos)) / float64(len(neg)))
}

var calibrationType = capi.ListOf(capi.StructOf(fld("bin", capi.TInteger), fld("lower", capi.TDouble), fld("upper", capi.TDouble),
	fld("n", capi.TBigInt), fld("predicted", capi.TDouble), fld("observed", capi.TDouble)))

// calibration counts rows in equal-width bins of the predicted probability.
type calibration struct {
	n        []int64
	pred, ys []sum
}

func newCalibration(bins int) *calibration {
	return &calibration{make([]int64, bins), make([]sum, bins), make([]sum, bins)}
}

const maxBins = 10000

func freshCalibration(args []capi.Vec, i int) (metric, error) {
	bins := 10.0
	if len(args) > 0 && !args[0].Null(i) {
		if !args[0].IsNumber() {
			return nil, fmt.Errorf("bins is %s; allowed: a whole number from 1 to %d", args[0].TypeName(), maxBins)
		}
		if bins = args[0].Float(i); !(bins >= 1 && bins <= maxBins) || bins != math.Trunc(bins) {
			return nil, fmt.Errorf("bins = %v; allowed: a whole number from 1 to %d", bins, maxBins)
		}
	}
	return newCalibration(int(bins)), nil
}

func (c *calibration) Clone() capi.State {
	return &calibration{append([]int64(nil), c.n...), append([]sum(nil), c.pred...), append([]sum(nil), c.ys...)}
}
func (c *calibration) Size() int64 { return 40*int64(len(c.n)) + 72 }
func (c *calibration) add(row []float64) {
	k := min(int(row[1]*float64(len(c.n))), len(c.n)-1)
	c.n[k]++
	c.pred[k].add(row[1])
	c.ys[k].add(row[0])
}
func (c *calibration) Merge(src capi.State) error {
	o := src.(*calibration)
	if len(o.n) != len(c.n) {
		return fmt.Errorf("bins differ between rows of one group (%d and %d)", len(c.n), len(o.n))
	}
	for k := range c.n {
		c.n[k] += o.n[k]
		c.pred[k].add(o.pred[k].value())
		c.ys[k].add(o.ys[k].value())
	}
	return nil
}

// result lists the bins that have rows.
func (c *calibration) result(out *capi.Col) {
	e, bins := out.Elem(), float64(len(c.n))
	for k, n := range c.n {
		if n == 0 {
			continue
		}
		e.Field(0).Int(int64(k + 1))
		e.Field(1).Float(float64(k) / bins)
		e.Field(2).Float(float64(k+1) / bins)
		e.Field(3).Int(n)
		e.Field(4).Float(c.pred[k].value() / float64(n))
		e.Field(5).Float(c.ys[k].value() / float64(n))
		e.EndStruct()
	}
	out.EndList()
}
