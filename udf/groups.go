package udf

import (
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/udf/internal/capi"
)

// fitsWriter appends the results of groups to a column. Of factorised fits that follow
// each other with one plan it writes only what differs, and the rest a column at a time.
type fitsWriter struct {
	out  *capi.Col
	last kernels.Fit // the fit written last; its fields but the varying ones are those of the plan
	plan *fitPlan    // nil where the next fit is written whole
	more int         // fits for which the other columns have no entry yet

	visit func(name []byte, w kernels.Weight)
}

// varying are the places of the fields in which factorised fits of one plan differ.
var varying = func() (v struct {
	beliefs, time, n, skipped, logEvidence, status, columns int
	all                                                     []int
}) {
	for name, at := range map[string]*int{"beliefs": &v.beliefs, "time": &v.time, "n": &v.n, "n_skipped": &v.skipped, "log_evidence": &v.logEvidence, "status": &v.status, "columns": &v.columns} {
		*at = slices.IndexFunc(fitType.Fields, func(f capi.Field) bool { return f.Name == name })
		v.all = append(v.all, *at)
	}
	return v
}()

// flush completes the columns.
func (w *fitsWriter) flush() {
	if w.more > 0 {
		for k := range fitType.Fields {
			if !slices.Contains(varying.all, k) {
				w.out.Field(k).Repeat(w.more)
			}
		}
		w.more = 0
	}
	w.plan = nil
}

// null appends a group without a result.
func (w *fitsWriter) null() {
	w.flush()
	w.out.Null()
}

// result appends what took work.
func (w *fitsWriter) result(p *fitPlan, r *engine.Result) {
	w.flush()
	forms[p.method.Kind].write(w.out, r)
}

// factorised appends the fit of s, which it reads belief by belief.
func (w *fitsWriter) factorised(s *fitState, e engine.Factorised) {
	dispersion := w.last.Dispersion
	w.last = e.Summary()
	f := &w.last
	if s.plan != w.plan || f.Dispersion != dispersion {
		w.flush()
		appendFit(w.out, f, e.Each)
		w.plan = s.plan
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
	e.Each(w.visit)
	beliefs.EndList()
	floatOrNull(out.Field(varying.time), f.Time)
	out.Field(varying.n).Int(f.N)
	out.Field(varying.skipped).Int(f.Skipped)
	floatOrNull(out.Field(varying.logEvidence), f.LogEvidence)
	out.Field(varying.status).Str(f.Status)
	appendColumns(out.Field(varying.columns), f.Columns)
	out.EndStruct()
	w.more++
}
