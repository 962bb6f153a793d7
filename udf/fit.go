package udf

import (
	"fmt"
	"math"
	"math/bits"
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
	if err != nil {
		return nil, err
	}
	var d kernels.Dict
	for k, b := range out {
		if id, err := d.AddRaw(b.Feature); err != nil {
			return nil, err
		} else if int(id) != k {
			return nil, fmt.Errorf("feature %q has more than one belief", b.Feature)
		}
	}
	return out, nil
}

// beliefs copies the beliefs of row i, and the classes of those that have them, one
// for each block. Errors: those of at, blocks of different lengths.
func (r *beliefReader) beliefs(i int) (out []kernels.Belief, classes []string, err error) {
	lo, hi := r.list.Span(i)
	out = make([]kernels.Belief, 0, hi-lo)
	block := 0 // where the last one begins, and how long the first one is
	first := 0
	uneven := func() bool { return len(classes) > 1 && len(out)-block != first }
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
				if uneven() {
					break
				}
				if len(classes) == 1 {
					first = len(out)
				}
				classes, block = append(classes, strings.Clone(c)), len(out)
			}
		}
		out = append(out, kernels.Belief{Feature: strings.Clone(name), Weight: w})
	}
	if uneven() {
		return nil, nil, fmt.Errorf("class %.100q has %d beliefs, class %.100q has %d; allowed: as many for each, one class after the other",
			classes[len(classes)-1], len(out)-block, classes[0], first)
	}
	return out, classes, nil
}

var fitLayout = layout{
	t: fitType,
	// What a FIT put together by hand may leave out: a diagonal covariance, no rows
	// seen, a dispersion of 1.
	optional: fieldSet("method shape dispersion hash_bits time covariance n n_skipped log_evidence iterations converged status"),
	nullable: fieldSet("shape hash_bits time log_evidence"),
}

// fitReader reads FIT columns by field name, so that a FIT that went through a
// file or a table still serves. Each FIT is validated whole before anything of it is
// used, where it lies: nothing of a long list is copied for it.
type fitReader struct {
	v                                    *capi.Vec
	layout                               layout
	method, family, link                 *capi.Vec
	gamma, dispersion, intercept, hashes *capi.Vec
	pMean, pVar, pInt                    *capi.Vec
	time, n, skipped, evidence, steps    *capi.Vec
	kind, rank, values                   *capi.Vec
	beliefs                              *beliefReader
	classes                              bool // takes a softmax fit
	last                                 kernels.Fit
	lik                                  lik.Likelihood

	heads decoded[*kernels.Fit]
	lists decoded[struct{}] // beliefs that are valid
}

func newFitReader(v *capi.Vec, arg string) (*fitReader, error) {
	r := &fitReader{v: v, layout: fitLayout}
	if v.Type == capi.SQLNull {
		return r, nil
	}
	if isProcess(v) {
		return nil, fmt.Errorf("%s is a Gaussian process (bglm_gp), which bglm_predict and bglm_predict_dist take; allowed: a FIT (from bglm_adf, bglm_merge, bglm_from_beliefs, ...)", arg)
	}
	b := v.Field("beliefs")
	if v.Type != capi.Struct || b == nil {
		return nil, fmt.Errorf("%s is %s, without a field beliefs; allowed: a FIT (from bglm_adf, bglm_merge, bglm_from_beliefs, ...)", arg, v.TypeName())
	}
	r.layout.what = arg
	if (b.Type == capi.List || b.Type == capi.Array) && b.Kids[0].Field("class") != nil {
		r.layout.t = classesType
	}
	if err := r.layout.fit(v); err != nil {
		return nil, err
	}
	var err error
	if r.beliefs, err = newBeliefReader(b); err != nil {
		return nil, fmt.Errorf("%s: %w", arg, err)
	}
	r.method, r.family, r.link = v.Field("method"), v.Field("family"), v.Field("link")
	r.gamma, r.dispersion, r.hashes, r.intercept = v.Field("shape"), v.Field("dispersion"), v.Field("hash_bits"), v.Field("intercept")
	p := v.Field("prior")
	r.pMean, r.pVar, r.pInt = p.Field("mean"), p.Field("variance"), p.Field("intercept_variance")
	r.time, r.n, r.skipped, r.evidence, r.steps = v.Field("time"), v.Field("n"), v.Field("n_skipped"), v.Field("log_evidence"), v.Field("iterations")
	if c := v.Field("covariance"); c != nil {
		r.kind, r.rank, r.values = c.Field("kind"), c.Field("rank"), c.Field("values")
	}
	r.heads.of(v, r.decode)
	r.lists.of(b, r.check)
	return r, nil
}

func (r *fitReader) null(i int) bool { return r.beliefs == nil || r.v.Null(i) }

// optional is the number of a field that may be NULL or missing: NaN then.
func optional(v *capi.Vec, i int, what string) (float64, error) {
	if v == nil || v.Null(i) {
		return nan, nil
	}
	x := v.Float(i)
	if math.IsNaN(x) {
		return x, fmt.Errorf("%s = NaN; allowed: a number or NULL", what)
	}
	return x, nil
}

// numberOr is the number of a field that is not NULL, def where there is no such field.
func numberOr(v *capi.Vec, i int, def float64) float64 {
	if v == nil {
		return def
	}
	return v.Float(i)
}

// count is a whole number of a field that is not NULL, 0 where there is no such field.
func count(v *capi.Vec, i int, what string) (int64, error) {
	if v == nil {
		return 0, nil
	}
	return wholeNumber(v, i, what)
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
	if r.kind == nil {
		return nil
	}
	switch k := r.kind.Str(i); k {
	case "diagonal":
	case "full":
		c.Form = gauss.Full
	case "lowrank":
		c.Form = gauss.LowRank
	default:
		return fmt.Errorf("a covariance of kind %q; allowed: 'diagonal', 'full', 'lowrank'", k)
	}
	rank, err := wholeNumber(r.rank, i, "covariance.rank")
	if err != nil {
		return err
	}
	if rank < 0 || rank > kernels.MaxRank {
		return fmt.Errorf("covariance.rank = %d; allowed: 0 to %d", rank, kernels.MaxRank)
	}
	c.Rank = int(rank)
	lo, hi := r.values.Span(i)
	if v := &r.values.Kids[0]; v.Type == capi.Double && v.AllValid() {
		c.Values = v.Floats()[lo:hi:hi]
	} else {
		c.Values, err = numbers(r.values, i, "covariance.values")
	}
	return err
}

// head is the FIT at row i without its beliefs, valid until the next call.
// Errors: what kernels.Fit.Validate finds; beliefs with classes are checked by whole.
func (r *fitReader) head(i int) (*kernels.Fit, error) { return r.heads.at(i) }

func (r *fitReader) decode(i int) (*kernels.Fit, error) {
	if name := r.layout.null(r.v, i, ""); name != "" {
		return nil, fmt.Errorf("the FIT has NULL for its field %s; allowed: %s", name, typeAt(r.layout.t, name))
	}
	f, err := r.fields(i)
	if err == nil {
		err = f.ValidateHead()
	}
	if err != nil {
		return nil, fmt.Errorf("the FIT: %w", err)
	}
	if r.beliefs.class != nil {
		if !r.classes {
			return nil, r.refuse()
		}
		return f, nil
	}
	if f.Family == kernels.Multinomial {
		return nil, fmt.Errorf("the FIT has family %q but beliefs without a class", f.Family)
	}
	if _, err := r.lists.at(i); err != nil {
		return nil, fmt.Errorf("the FIT: %w", err)
	}
	lo, hi := r.beliefs.list.Span(i)
	if err := f.Covariance.Validate(hi-lo, func(j int) float64 { return r.beliefs.variance.Float(lo + j) }); err != nil {
		return nil, fmt.Errorf("the FIT: %w", err)
	}
	r.lik, err = f.Likelihood()
	return f, err
}

// refuse says what a fit with classes is good for, and why it came to the function of
// other fits where that takes one with classes too.
func (r *fitReader) refuse() error {
	err := fmt.Errorf("the FIT has classes (bglm_softmax); it can be predicted with (bglm_predict), continued (option prior of bglm_softmax) and listed (bglm_beliefs)")
	if d := differs(r.v, classesType, ""); d != "" {
		err = fmt.Errorf("%w, with the types that it had; %s", err, d)
	}
	return err
}

// fields reads the scalars and the covariance into the last head.
func (r *fitReader) fields(i int) (f *kernels.Fit, err error) {
	f = &r.last
	same(&f.Method, r.method, i)
	same(&f.Family, r.family, i)
	same(&f.Link, r.link, i)
	f.Dispersion = numberOr(r.dispersion, i, 1)
	f.Intercept = r.intercept.Bool(i)
	f.Prior = kernels.Prior{Mean: r.pMean.Float(i), Variance: r.pVar.Float(i), InterceptVariance: r.pInt.Float(i)}.Literal()
	f.HashBits, f.LogEvidence = 0, 0
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	opt := func(v *capi.Vec, what string) float64 { x, e := optional(v, i, what); keep(e); return x }
	num := func(v *capi.Vec, what string) int64 { x, e := count(v, i, what); keep(e); return x }
	f.Shape, f.Time = opt(r.gamma, "shape"), opt(r.time, "time")
	if r.evidence != nil {
		f.LogEvidence = opt(r.evidence, "log_evidence")
	}
	if r.hashes != nil && !r.hashes.Null(i) {
		bits := num(r.hashes, "hash_bits")
		if bits < 0 || bits > kernels.MaxHashBits {
			keep(fmt.Errorf("hash_bits = %d; allowed: NULL or 1 to %d", bits, kernels.MaxHashBits))
		}
		f.HashBits = int(bits)
	}
	f.N, f.Skipped, f.Iterations = num(r.n, "n"), num(r.skipped, "n_skipped"), int(num(r.steps, "iterations"))
	keep(r.covariance(i))
	return f, err
}

// check reports the first broken belief of row i, which has no classes.
func (r *fitReader) check(i int) (none struct{}, err error) {
	b := r.beliefs
	lo, hi := b.list.Span(i)
	if lo == hi {
		return none, nil
	}
	if b.feature == nil || !b.entry.AllValid() || !b.feature.AllValid() || !b.mean.AllValid() || !b.variance.AllValid() {
		for j := lo; j < hi; j++ {
			if _, _, err := b.at(j); err != nil {
				return none, err
			}
		}
	}
	if m, v := b.mean.Floats(), b.variance.Floats(); m != nil && v != nil {
		if plainOrder(b.feature, lo, hi) && plainWeights(m[lo:hi], v[lo:hi]) {
			return none, nil
		}
		return none, kernels.ValidateBeliefs(hi-lo, func(j int) (string, kernels.Weight) {
			return b.feature.Str(lo + j), kernels.Weight{Mean: m[lo+j], Variance: v[lo+j]}
		})
	}
	return none, kernels.ValidateBeliefs(hi-lo, func(j int) (string, kernels.Weight) {
		return b.feature.Str(lo + j), kernels.Weight{Mean: b.mean.Float(lo + j), Variance: b.variance.Float(lo + j)}
	})
}

// plainOrder says that names are in belief order, where that is quickly seen: a chunk is
// not much more work than a walk through a million of names. Others are for
// kernels.ValidateBeliefs.
func plainOrder(name *capi.Vec, lo, hi int) bool {
	var last, lastRest, lastLen uint64
	plain := false // the name before is short and begins with a letter: it is its bytes
	for j := lo; j < hi; j++ {
		head, rest, short := name.Inline(j)
		n := head & math.MaxUint32
		head, rest = uint64(bits.ReverseBytes32(uint32(head>>32))), bits.ReverseBytes64(rest)
		letter := head>>24 > '9'
		switch {
		case j == lo:
		case short && plain && letter:
			// Bytes beyond the end are 0.
			if !(head > last || head == last && (rest > lastRest || rest == lastRest && n > lastLen)) {
				return false
			}
		case letter && last>>24 > '9':
			if name.Str(j-1) >= name.Str(j) {
				return false
			}
		case kernels.CompareNames(name.Str(j-1), name.Str(j)) >= 0:
			return false
		}
		last, lastRest, lastLen, plain = head, rest, n, short && letter
	}
	return true
}

// plainWeights says that all means are finite, all variances finite and not negative.
func plainWeights(m, v []float64) bool {
	bad := 0.0 // the sum of x - x, NaN where an x is not finite
	for j, x := range v {
		if !(x >= 0) {
			return false
		}
		bad += (x - x) + (m[j] - m[j])
	}
	return bad == 0
}

// whole is the FIT at row i with a copy of its beliefs.
func (r *fitReader) whole(i int) (*kernels.Fit, error) {
	h, err := r.head(i)
	if err != nil {
		return nil, err
	}
	f := *h
	if f.Beliefs, f.Classes, err = r.beliefs.beliefs(i); err != nil {
		return nil, fmt.Errorf("the FIT: %w", err)
	}
	f.Covariance.Values = slices.Clone(f.Covariance.Values)
	if r.beliefs.class != nil {
		if err := f.Validate(); err != nil {
			return nil, fmt.Errorf("the FIT: %w", err)
		}
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
