package udf

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/metric"
	"github.com/bglm/bglm/udf/internal/capi"
)

// metricState is the aggregate state of a metric; rows with a NULL are left out, as in SQL's own
// aggregates.
type metricState struct{ metric.Metric }

func (s metricState) Clone() capi.State { return metricState{s.Metric.Clone()} }

func (s metricState) Merge(src capi.State) error { return s.Metric.Merge(src.(metricState).Metric) }

// numberMetric is the aggregate of a metric whose value is a number.
func numberMetric(name, sig, doc, example string, fresh func() metric.Number, args ...metric.Arg) entry {
	update := updateMetric(args, 0, func([]capi.Vec, int) (metric.Metric, error) { return fresh(), nil })
	return aggregate(name, sig, doc+countedAs, example, nil, []int{len(args), len(args) + 1}, capi.TDouble, update, finalizeMetric(func(m metric.Metric, out *capi.Col) error {
		floatOrNull(out, m.(metric.Number).Value())
		return nil
	}))
}

// countedAs documents the last argument of metrics.
const countedAs = " A row of weight w, a number >= 0, counts as w rows."

// updateMetric adds rows to a metric, which fresh makes from the so many settings after the
// arguments in spec, read at the group's first row. An argument after these is the weight.
func updateMetric(spec []metric.Arg, settings int, fresh func(args []capi.Vec, i int) (metric.Metric, error)) func([]capi.Vec, capi.Slots) error {
	allowed := func(a metric.Arg) string {
		if a.Allowed == metric.Outcome.Allowed {
			return "BOOLEAN, 0 or 1"
		}
		return a.Allowed
	}
	return func(args []capi.Vec, slots capi.Slots) error {
		for k, a := range spec {
			if v := &args[k]; !v.IsNumber() && v.Type != capi.Boolean && v.Type != capi.SQLNull {
				return fmt.Errorf("%s is %s; allowed: %s", a.Name, v.TypeName(), allowed(a))
			}
		}
		weight := weightsOf(nil)
		if k := len(spec) + settings; len(args) > k {
			if v := &args[k]; !v.IsNumber() && v.Type != capi.SQLNull {
				return fmt.Errorf("%s is %s; allowed: %s", metric.Weight.Name, v.TypeName(), metric.Weight.Allowed)
			}
			weight = weightsOf(&args[k])
		}
		row := make([]float64, len(spec))
		return slots.Runs(func(slot capi.Slot, lo, hi int) error {
			var m metric.Metric
		rows:
			for i := lo; i < hi; i++ {
				for k, a := range spec {
					if args[k].Null(i) {
						continue rows
					}
					if row[k] = args[k].Float(i); !a.OK(row[k]) {
						return fmt.Errorf("%s = %v; allowed: %s", a.Name, row[k], allowed(a))
					}
				}
				if err := metric.Check(spec, row); err != nil {
					return err
				}
				w, ok, err := weight(i)
				if err != nil {
					return err
				}
				if !ok {
					continue
				}
				if m == nil {
					st, err := slot.Mutable(func() (capi.State, error) {
						m, err := fresh(args[len(spec):], i)
						return metricState{m}, err
					})
					if err != nil {
						return err
					}
					m = st.(metricState).Metric
				}
				m.Add(row, w)
			}
			return nil
		})
	}
}

// weightsOf returns the weights of rows, with ok false for NULL; they are 1 if v is nil.
func weightsOf(v *capi.Vec) func(i int) (w float64, ok bool, err error) {
	if v == nil {
		return func(int) (float64, bool, error) { return 1, true, nil }
	}
	return func(i int) (float64, bool, error) {
		if v.Null(i) {
			return 0, false, nil
		}
		w := v.Float(i)
		if a := metric.Weight; !a.OK(w) {
			return 0, false, fmt.Errorf("%s = %v; allowed: %s", a.Name, w, a.Allowed)
		}
		return w, true, nil
	}
}

// finalizeMetric is the finalizer of metrics.
func finalizeMetric(write func(m metric.Metric, out *capi.Col) error) func([]capi.State, *capi.Col) error {
	return eachGroup(func(s metricState, out *capi.Col) error { return write(s.Metric, out) })
}

var calibrationType = capi.ListOf(capi.StructOf(fld("bin", capi.TInteger), fld("lower", capi.TDouble), fld("upper", capi.TDouble),
	fld("n", capi.TBigInt), fld("predicted", capi.TDouble), fld("observed", capi.TDouble)))

func freshCalibration(args []capi.Vec, i int) (metric.Metric, error) {
	bins := 10.0
	if len(args) > 0 && !args[0].Null(i) {
		if !args[0].IsNumber() {
			return nil, fmt.Errorf("bins is %s; allowed: a whole number from 1 to %d", args[0].TypeName(), metric.MaxBins)
		}
		if bins = args[0].Float(i); !(bins >= 1 && bins <= metric.MaxBins) || bins != math.Trunc(bins) {
			return nil, fmt.Errorf("bins = %v; allowed: a whole number from 1 to %d", bins, metric.MaxBins)
		}
	}
	return metric.NewCalibration(int(bins)), nil
}

// tooMany is the least sum of weights that does not fit a BIGINT.
const tooMany = 1 << 63

func appendBins(m metric.Metric, out *capi.Col) error {
	e := out.Elem()
	for _, b := range m.(*metric.Calibration).Bins() {
		if !(b.N < tooMany) {
			return fmt.Errorf("the weights of bin %d add up to %.4g; allowed: less than %.4g, the numbers that n can be", b.Number, b.N, float64(tooMany))
		}
		e.Field(0).Int(int64(b.Number))
		e.Field(1).Float(b.Lower)
		e.Field(2).Float(b.Upper)
		e.Field(3).Int(int64(math.Round(b.N)))
		e.Field(4).Float(b.Predicted)
		e.Field(5).Float(b.Observed)
		e.EndStruct()
	}
	out.EndList()
	return nil
}
