package udf

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/udf/internal/capi"
)

// fitsWriter appends the results of groups to a column. Of consecutive fits that differ only in
// what was learnt it writes only that, and the other fields afterwards, a column at a time.
type fitsWriter struct {
	out  *capi.Col
	last kernels.Fit // the fit written last
	open bool        // the next fit may be written in part
	more int         // fits whose other columns have no entry yet

	visit func(name []byte, w kernels.Weight)
}

// varying are the places of the fields that may differ between fits of one plan.
var varying = func() (v struct {
	beliefs, covariance, time, n, skipped, logEvidence, status, columns int
	all                                                                 []int
}) {
	for name, at := range map[string]*int{"beliefs": &v.beliefs, "covariance": &v.covariance, "time": &v.time, "n": &v.n, "n_skipped": &v.skipped, "log_evidence": &v.logEvidence, "status": &v.status, "columns": &v.columns} {
		*at = slices.IndexFunc(fitType.Fields, func(f capi.Field) bool { return f.Name == name })
		v.all = append(v.all, *at)
	}
	return v
}()

// alikeButLearnt reports whether two fits differ at most in the varying fields.
func alikeButLearnt(a, b *kernels.Fit) bool {
	same := func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }
	return a.Method == b.Method && a.Family == b.Family && a.Link == b.Link && same(a.Shape, b.Shape) && same(a.Dispersion, b.Dispersion) &&
		a.Intercept == b.Intercept && a.HashBits == b.HashBits && a.Prior == b.Prior && a.Iterations == b.Iterations && a.Converged == b.Converged &&
		len(a.Classes) == 0 && len(b.Classes) == 0 && a.Correlations == nil && b.Correlations == nil && a.Learnt == nil && b.Learnt == nil
}

// flush writes the entries that the other columns still lack.
func (w *fitsWriter) flush() {
	if w.more > 0 {
		for k := range fitType.Fields {
			if !slices.Contains(varying.all, k) {
				w.out.Field(k).Repeat(w.more)
			}
		}
		w.more = 0
	}
	w.open = false
}

// null appends a group without a result.
func (w *fitsWriter) null() {
	w.flush()
	w.out.Null()
}

// result appends a solved result, or nothing of a state whose writing was interrupted.
func (w *fitsWriter) result(p *fitPlan, r *engine.Result) error {
	switch p.method.Kind {
	case engine.Weights:
		w.fit(r.Fit, r.Each)
	case engine.Parts:
		b, err := partBytes(r.Part)
		if err != nil {
			return err
		}
		w.flush()
		w.out.Bytes(b)
	default:
		w.flush()
		forms[p.method.Kind].write(w.out, r)
	}
	return nil
}

// factorised appends a fit that is read belief by belief, or nothing if it cannot be read.
func (w *fitsWriter) factorised(e engine.Factorised) error {
	return e.Read(running(), func(f *kernels.Fit, each func(visit func(name []byte, w kernels.Weight))) { w.fit(f, each) })
}

// fit appends f, whose beliefs each visits.
func (w *fitsWriter) fit(f *kernels.Fit, each beliefWalk) {
	alike := w.open && alikeButLearnt(&w.last, f)
	w.last = *f
	if !alike {
		w.flush()
		appendFit(w.out, f, each)
		w.open = true
		return
	}
	out := w.out
	beliefs := out.Field(varying.beliefs)
	if w.visit == nil {
		c := beliefs.Elem()
		w.visit = func(name []byte, b kernels.Weight) {
			c.Field(0).Bytes(name)
			c.Field(1).Float(b.Mean)
			c.Field(2).Float(b.Variance)
			c.EndStruct()
		}
	}
	each(w.visit)
	beliefs.EndList()
	covariance := out.Field(varying.covariance)
	covariance.Field(0).Str(f.Covariance.Form.String())
	covariance.Field(1).Int(int64(f.Covariance.Rank))
	covariance.Field(2).Floats(f.Covariance.Values)
	covariance.EndStruct()
	floatOrNull(out.Field(varying.time), f.Time)
	out.Field(varying.n).Int(f.N)
	out.Field(varying.skipped).Int(f.Skipped)
	floatOrNull(out.Field(varying.logEvidence), f.LogEvidence)
	out.Field(varying.status).Str(f.Status)
	appendColumns(out.Field(varying.columns), f.Columns)
	out.EndStruct()
	w.more++
}
