package udf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/udf/internal/capi"
)

func fld(name string, t *capi.Type) capi.Field { return capi.Field{Name: name, Type: t} }

var (
	beliefType  = capi.StructOf(fld("feature", capi.TVarchar), fld("mean", capi.TDouble), fld("variance", capi.TDouble))
	fitType     = fitOf(beliefType)
	classBelief = capi.StructOf(append(slices.Clone(beliefType.Fields), fld("class", capi.TVarchar))...)
	classesType = fitOf(classBelief) // of bglm_softmax
)

func fitOf(belief *capi.Type) *capi.Type {
	return capi.StructOf(
		fld("method", capi.TVarchar), fld("family", capi.TVarchar), fld("link", capi.TVarchar),
		fld("shape", capi.TDouble), fld("dispersion", capi.TDouble), fld("intercept", capi.TBoolean), fld("hash_bits", capi.TInteger),
		fld("prior", capi.StructOf(fld("mean", capi.TDouble), fld("variance", capi.TDouble), fld("intercept_variance", capi.TDouble))),
		fld("time", capi.TDouble), fld("beliefs", capi.ListOf(belief)),
		fld("covariance", capi.StructOf(fld("kind", capi.TVarchar), fld("rank", capi.TInteger), fld("values", capi.ListOf(capi.TDouble)))),
		fld("n", capi.TBigInt), fld("n_skipped", capi.TBigInt), fld("log_evidence", capi.TDouble),
		fld("iterations", capi.TInteger), fld("converged", capi.TBoolean), fld("status", capi.TVarchar),
	)
}

// Positions of the FIT's fields.
const (
	fitMethod = iota
	fitFamily
	fitLink
	fitShape
	fitDispersion
	fitIntercept
	fitHashBits
	fitPrior
	fitTime
	fitBeliefs
	fitCovariance
	fitN
	fitSkipped
	fitLogEvidence
	fitIterations
	fitConverged
	fitStatus
)

// appendFit writes a FIT; each visits the beliefs in their order.
func appendFit(c *capi.Col, f *kernels.Fit, each func(func(name []byte, w kernels.Weight))) {
	c.Field(fitMethod).Str(f.Method)
	c.Field(fitFamily).Str(f.Family)
	c.Field(fitLink).Str(f.Link)
	floatOrNull(c.Field(fitShape), f.Shape)
	c.Field(fitDispersion).Float(f.Dispersion)
	c.Field(fitIntercept).Bool(f.Intercept)
	if f.HashBits > 0 {
		c.Field(fitHashBits).Int(int64(f.HashBits))
	} else {
		c.Field(fitHashBits).Null()
	}
	p := c.Field(fitPrior)
	p.Field(0).Float(f.Prior.Mean)
	p.Field(1).Float(f.Prior.Variance)
	p.Field(2).Float(f.Prior.InterceptVariance)
	p.EndStruct()
	floatOrNull(c.Field(fitTime), f.Time)
	l := c.Field(fitBeliefs)
	e := l.Elem()
	k, block := 0, 0
	if len(f.Classes) > 0 {
		block = len(f.Beliefs) / len(f.Classes)
	}
	each(func(name []byte, w kernels.Weight) {
		e.Field(0).Bytes(name)
		e.Field(1).Float(w.Mean)
		e.Field(2).Float(w.Variance)
		if block > 0 {
			e.Field(3).Str(f.Classes[k/block])
			k++
		}
		e.EndStruct()
	})
	l.EndList()
	v := c.Field(fitCovariance)
	v.Field(0).Str(f.Covariance.Form.String())
	v.Field(1).Int(int64(f.Covariance.Rank))
	for _, x := range f.Covariance.Values {
		v.Field(2).Elem().Float(x)
	}
	v.Field(2).EndList()
	v.EndStruct()
	c.Field(fitN).Int(f.N)
	c.Field(fitSkipped).Int(f.Skipped)
	floatOrNull(c.Field(fitLogEvidence), f.LogEvidence)
	c.Field(fitIterations).Int(int64(f.Iterations))
	c.Field(fitConverged).Bool(f.Converged)
	c.Field(fitStatus).Str(f.Status)
	c.EndStruct()
}

func floatOrNull(c *capi.Col, v float64) {
	if math.IsNaN(v) {
		c.Null()
	} else {
		c.Float(v)
	}
}

// beliefReader reads LIST(BELIEF) columns, or MAP(VARCHAR, STRUCT(mean, variance)).
type beliefReader struct {
	list                    *capi.Vec
	entry                   *capi.Vec
	feature, mean, variance *capi.Vec
	class                   *capi.Vec // of a softmax fit, else nil
}

func newBeliefReader(v *capi.Vec) (*beliefReader, error) {
	r := &beliefReader{list: v}
	bad := func() (*beliefReader, error) {
		return nil, fmt.Errorf("beliefs are %s; allowed: LIST(STRUCT(feature VARCHAR, mean, variance)) or MAP(VARCHAR, STRUCT(mean, variance))", v.TypeName())
	}
	switch v.Type {
	case capi.SQLNull:
		return r, nil
	case capi.List, capi.Array:
		r.entry = &v.Kids[0]
		if r.entry.Type == capi.SQLNull {
			return r, nil
		}
		r.feature, r.mean, r.variance = r.entry.Field("feature"), r.entry.Field("mean"), r.entry.Field("variance")
		if f := r.entry.Field("class"); f != nil && f.Type == capi.Varchar {
			r.class = f
		}
	case capi.Map:
		if len(v.Kids[0].Kids) != 2 {
			return bad()
		}
		r.feature = &v.Kids[0].Kids[0]
		r.entry = &v.Kids[0].Kids[1]
		if r.entry.Type == capi.SQLNull {
			return r, nil
		}
		r.mean, r.variance = r.entry.Field("mean"), r.entry.Field("variance")
	default:
		return bad()
	}
	if r.feature == nil || r.mean == nil || r.variance == nil ||
		r.feature.Type != capi.Varchar && r.feature.Type != capi.SQLNull ||
		!r.mean.IsNumber() && r.mean.Type != capi.SQLNull || !r.variance.IsNumber() && r.variance.Type != capi.SQLNull {
		return bad()
	}
	return r, nil
}

// at is belief j of the child vector. Errors: NULLs, and what CheckWeight says.
func (r *beliefReader) at(j int) (name string, w kernels.Weight, err error) {
	if r.feature == nil || r.entry.Null(j) || r.feature.Null(j) {
		return "", w, fmt.Errorf("a belief is NULL; each needs a feature, a mean and a variance")
	}
	name = r.feature.Str(j)
	if r.mean.Null(j) || r.variance.Null(j) {
		return name, w, fmt.Errorf("feature %q has a NULL mean or variance", name)
	}
	w = kernels.Weight{Mean: r.mean.Float(j), Variance: r.variance.Float(j)}
	if err := kernels.CheckWeight(w); err != nil {
		return name, w, fmt.Errorf("feature %q: %w", name, err)
	}
	return name, w, nil
}

// readBeliefs copies the beliefs of row i. Errors: bad beliefs, a feature twice.
func readBeliefs(v *capi.Vec, i int) ([]kernels.Belief, error) {
	r, err := newBeliefReader(v)
	if err != nil {
		return nil, err
	}
	if v.Null(i) {
		return nil, nil
	}
	out, _, err := r.beliefs(i)
	return out, err
}

// beliefs copies the beliefs of row i, and the classes of those that have them.
func (r *beliefReader) beliefs(i int) (out []kernels.Belief, classes []string, err error) {
	lo, hi := r.list.Span(i)
	out = make([]kernels.Belief, 0, hi-lo)
	var d kernels.Dict
	block := 0 // beliefs of the classes before
	for j := lo; j < hi; j++ {
		name, w, err := r.at(j)
		if err != nil {
			return nil, nil, err
		}
		if r.class != nil {
			if r.class.Null(j) {
				return nil, nil, fmt.Errorf("feature %q has a NULL class", name)
			}
			if c := r.class.Str(j); len(classes) == 0 || classes[len(classes)-1] != c {
				classes = append(classes, strings.Clone(c))
				d.Reset()
				block = len(out)
			}
		}
		id, err := d.AddRaw(name)
		if err != nil {
			return nil, nil, err
		}
		if int(id) != len(out)-block {
			return nil, nil, fmt.Errorf("feature %q has more than one belief", name)
		}
		out = append(out, kernels.Belief{Feature: strings.Clone(name), Weight: w})
	}
	return out, classes, nil
}

// fitReader reads FIT columns by field name, so that a FIT that went through a
// file or a table still serves.
type fitReader struct {
	v                                    *capi.Vec
	method, family, link                 *capi.Vec
	shape, dispersion, intercept, hashes *capi.Vec
	pMean, pVar, pInt                    *capi.Vec
	time, n, skipped, evidence           *capi.Vec
	kind, rank, values                   *capi.Vec
	beliefs                              *beliefReader
	classes                              bool // takes a softmax fit
	last                                 kernels.Fit
	lik                                  lik.Likelihood
}

func newFitReader(v *capi.Vec, arg string) (*fitReader, error) {
	r := &fitReader{v: v}
	if v.Type == capi.SQLNull {
		return r, nil
	}
	bad := func(why string) (*fitReader, error) {
		return nil, fmt.Errorf("%s is %s, %s; allowed: a FIT (from bglm_adf, bglm_merge, bglm_from_beliefs, ...)", arg, v.TypeName(), why)
	}
	b := v.Field("beliefs")
	if v.Type != capi.Struct || b == nil {
		return bad("without a field beliefs")
	}
	var err error
	if r.beliefs, err = newBeliefReader(b); err != nil {
		return bad(err.Error())
	}
	if b.Type == capi.Map {
		return bad("its beliefs a MAP")
	}
	text := func(name string) *capi.Vec {
		if f := v.Field(name); f != nil && f.Type == capi.Varchar {
			return f
		}
		return nil
	}
	number := func(s *capi.Vec, name string) *capi.Vec {
		if s == nil {
			return nil
		}
		if f := s.Field(name); f != nil && f.IsNumber() {
			return f
		}
		return nil
	}
	r.method, r.family, r.link = text("method"), text("family"), text("link")
	if r.family == nil || r.link == nil {
		return bad("without VARCHAR fields family and link")
	}
	r.shape, r.dispersion, r.hashes = number(v, "shape"), number(v, "dispersion"), number(v, "hash_bits")
	if f := v.Field("intercept"); f != nil && f.Type == capi.Boolean {
		r.intercept = f
	} else {
		return bad("without a BOOLEAN field intercept")
	}
	p := v.Field("prior")
	r.pMean, r.pVar, r.pInt = number(p, "mean"), number(p, "variance"), number(p, "intercept_variance")
	if r.pMean == nil || r.pVar == nil || r.pInt == nil {
		return bad("without a field prior STRUCT(mean, variance, intercept_variance)")
	}
	r.time, r.n, r.skipped, r.evidence = number(v, "time"), number(v, "n"), number(v, "n_skipped"), number(v, "log_evidence")
	if c := v.Field("covariance"); c != nil {
		if f := c.Field("kind"); f != nil && f.Type == capi.Varchar {
			r.kind = f
		}
		r.rank = number(c, "rank")
		if f := c.Field("values"); f != nil && (f.Type == capi.List || f.Type == capi.Array) && f.Kids[0].IsNumber() {
			r.values = f
		}
	}
	return r, nil
}

func (r *fitReader) null(i int) bool {
	return r.beliefs == nil || r.v.Null(i) || r.beliefs.list.Null(i)
}

func num(v *capi.Vec, i int, def float64) float64 {
	if v == nil || v.Null(i) {
		return def
	}
	return v.Float(i)
}

func same(have *string, v *capi.Vec, i int) {
	if v == nil || v.Null(i) {
		*have = ""
	} else if s := v.Str(i); *have != s {
		*have = strings.Clone(s)
	}
}

// covariance sets the last head's, its values where they lie in DuckDB's memory
// if they are DOUBLE there.
func (r *fitReader) covariance(i int) error {
	c := &r.last.Covariance
	*c = kernels.Covariance{}
	if r.kind == nil || r.kind.Null(i) {
		return nil
	}
	switch k := r.kind.Str(i); k {
	case "diagonal":
		return nil
	case "full":
		c.Form = gauss.Full
	case "lowrank":
		c.Form = gauss.LowRank
		c.Rank = int(num(r.rank, i, -1))
	default:
		return fmt.Errorf("the FIT has a covariance of kind %q; allowed: 'diagonal', 'full', 'lowrank'", k)
	}
	if r.values == nil || r.values.Null(i) {
		return fmt.Errorf("the FIT has a covariance of kind '%s' without its values", c.Form)
	}
	lo, hi := r.values.Span(i)
	if v := &r.values.Kids[0]; v.Type == capi.Double && v.AllValid() {
		c.Values = v.Floats()[lo:hi:hi]
	} else {
		for k := lo; k < hi; k++ {
			c.Values = append(c.Values, num(v, k, nan))
		}
	}
	a, b := r.beliefs.list.Span(i)
	if want := c.Want(b - a); len(c.Values) != want || c.Rank < 0 {
		return fmt.Errorf("the FIT has a covariance of kind '%s', rank %d, with %d values for %d beliefs; allowed: %d", c.Form, c.Rank, len(c.Values), b-a, want)
	}
	return nil
}

// head is the FIT at row i without its beliefs, valid until the next call.
func (r *fitReader) head(i int) (*kernels.Fit, error) {
	f := &r.last
	if err := r.covariance(i); err != nil {
		return nil, err
	}
	oldFamily, oldLink, oldDisp, oldShape := f.Family, f.Link, f.Dispersion, f.Shape
	same(&f.Method, r.method, i)
	same(&f.Family, r.family, i)
	same(&f.Link, r.link, i)
	f.Shape, f.Dispersion = num(r.shape, i, math.NaN()), num(r.dispersion, i, 1)
	f.Intercept = !r.intercept.Null(i) && r.intercept.Bool(i)
	f.HashBits = int(num(r.hashes, i, 0))
	if f.HashBits < 0 || f.HashBits > 30 {
		return nil, fmt.Errorf("the FIT has hash_bits = %d; allowed: NULL or 1 to 30", f.HashBits)
	}
	f.Prior = kernels.Prior{Mean: num(r.pMean, i, 0), Variance: num(r.pVar, i, 1), InterceptVariance: num(r.pInt, i, 10)}
	for _, w := range []kernels.Weight{{Mean: f.Prior.Mean, Variance: f.Prior.Variance}, {Mean: f.Prior.Mean, Variance: f.Prior.InterceptVariance}} {
		if err := kernels.CheckWeight(w); err != nil {
			return nil, fmt.Errorf("the FIT's prior: %w", err)
		}
	}
	f.Time = num(r.time, i, math.NaN())
	f.N, f.Skipped = int64(num(r.n, i, 0)), int64(num(r.skipped, i, 0))
	f.LogEvidence = num(r.evidence, i, 0)
	if r.beliefs.class != nil {
		if !r.classes {
			return nil, fmt.Errorf("the FIT has classes (bglm_softmax); it can be predicted with (bglm_predict), continued (option prior of bglm_softmax) and listed (bglm_beliefs)")
		}
		return f, nil
	}
	if r.lik == nil || oldFamily != f.Family || oldLink != f.Link || oldDisp != f.Dispersion || oldShape != f.Shape &&
		!(math.IsNaN(oldShape) && math.IsNaN(f.Shape)) {
		l, err := lik.New(f.Family, f.Link, lik.Params{Dispersion: f.Dispersion, Shape: f.Shape})
		if err != nil {
			r.lik = nil
			return nil, fmt.Errorf("the FIT: %w", err)
		}
		r.lik = l
	}
	return f, nil
}

// whole is the FIT at row i with a copy of its beliefs.
func (r *fitReader) whole(i int) (*kernels.Fit, error) {
	h, err := r.head(i)
	if err != nil {
		return nil, err
	}
	f := *h
	if f.Beliefs, f.Classes, err = r.beliefs.beliefs(i); err != nil {
		return nil, err
	}
	f.Covariance.Values = slices.Clone(f.Covariance.Values)
	if err := f.Covariance.Check(len(f.Beliefs)); err != nil {
		return nil, fmt.Errorf("the FIT: %w", err)
	}
	f.Iterations, f.Converged, f.Status = 1, true, "ok"
	return &f, nil
}

func readFitAt(v *capi.Vec, i int, classes bool) (*kernels.Fit, error) {
	r, err := newFitReader(v, "the FIT")
	if err != nil {
		return nil, err
	}
	r.classes = classes
	if r.null(i) {
		return nil, nil
	}
	return r.whole(i)
}
