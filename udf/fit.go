package udf

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/fitlayout"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/udf/internal/capi"
)

func fld(name string, t *capi.Type) capi.Field { return capi.Field{Name: name, Type: t} }

var (
	beliefType  = capi.StructOf(fld("feature", capi.TVarchar), fld("mean", capi.TDouble), fld("variance", capi.TDouble))
	classBelief = capi.StructOf(append(slices.Clone(beliefType.Fields), fld("class", capi.TVarchar))...)
	fitType     = fitOf(kernels.FitFormat, beliefType)
	classesType = fitOf(kernels.FitFormat, classBelief) // of bglm_softmax
)

// fitOf is the type of a FIT in a version of the layout.
func fitOf(layout int, belief *capi.Type) *capi.Type {
	return structOf(fitlayout.Fields, layout, belief)
}

func structOf[T any](fields []fitlayout.Field[T], layout int, belief *capi.Type) *capi.Type {
	var out []capi.Field
	for k := range fields {
		if f := &fields[k]; f.Since <= layout {
			out = append(out, fld(f.Name, fieldType(f, layout, belief)))
		}
	}
	return capi.StructOf(out...)
}

func fieldType[T any](f *fitlayout.Field[T], layout int, belief *capi.Type) *capi.Type {
	switch f.Kind() {
	case fitlayout.Struct:
		return structOf(f.Fields, layout, belief)
	case fitlayout.Text:
		return capi.TVarchar
	case fitlayout.Real:
		return capi.TDouble
	case fitlayout.Whole, fitlayout.Version:
		return capi.TInteger
	case fitlayout.Count:
		return capi.TBigInt
	case fitlayout.Flag:
		return capi.TBoolean
	case fitlayout.Reals:
		return capi.ListOf(capi.TDouble)
	case fitlayout.Columns:
		return capi.ListOf(structOf(fitlayout.ColumnFields, layout, belief))
	case fitlayout.Correlations:
		return capi.ListOf(structOf(fitlayout.CorrelationFields, layout, belief))
	case fitlayout.Learnt:
		return capi.ListOf(structOf(fitlayout.LearntFields, layout, belief))
	default: // Beliefs
		return capi.ListOf(belief)
	}
}

// earlier lists the types of a FIT in the previous layouts, oldest first.
func earlier(belief *capi.Type) []*capi.Type {
	var out []*capi.Type
	for layout := 1; layout < kernels.FitFormat; layout++ {
		out = append(out, fitOf(layout, belief))
	}
	return out
}

// beliefWalk calls visit with each belief of a fit, in order.
type beliefWalk func(visit func(name []byte, w kernels.Weight))

// appendFit writes a FIT; each visits its beliefs in order.
func appendFit(c *capi.Col, f *kernels.Fit, each beliefWalk) {
	appendStruct(c, fitlayout.Fields, f, func(l *capi.Col) { appendBeliefs(l, f, each) })
}

// appendStruct writes the fields of v; beliefs writes those of a FIT.
func appendStruct[T any](c *capi.Col, fields []fitlayout.Field[T], v *T, beliefs func(l *capi.Col)) {
	for k := range fields {
		f, c := &fields[k], c.Field(k)
		if f.At == nil {
			appendStruct(c, f.Fields, v, beliefs)
			continue
		}
		switch p := f.At(v).(type) {
		case *string:
			c.Str(*p)
		case *gauss.Form:
			c.Str(p.String())
		case *kernels.ColumnKind:
			c.Str(p.String())
		case *float64:
			floatOrNull(c, *p)
		case *int:
			if *p == 0 && f.Nullable {
				c.Null()
			} else {
				c.Int(int64(*p))
			}
		case *int64:
			c.Int(*p)
		case *bool:
			c.Bool(*p)
		case *[]float64:
			c.Floats(*p)
		case *[]kernels.Belief:
			beliefs(c)
		case *[]kernels.FitColumn:
			appendColumns(c, *p)
		case *[]kernels.Correlation:
			appendList(c, fitlayout.CorrelationFields, *p)
		case *[]kernels.Learnt:
			appendList(c, fitlayout.LearntFields, *p)
		case fitlayout.Format:
			c.Int(int64(p))
		}
	}
	c.EndStruct()
}

// appendList appends a list of structs, NULL for none.
func appendList[T any](c *capi.Col, fields []fitlayout.Field[T], list []T) {
	if list == nil {
		c.Null()
		return
	}
	e := c.Elem()
	for k := range list {
		appendStruct(e, fields, &list[k], nil)
	}
	c.EndList()
}

// appendColumns appends what a fit remembers about its columns.
func appendColumns(l *capi.Col, columns []kernels.FitColumn) {
	if columns == nil {
		l.Null()
		return
	}
	e := l.Elem()
	for k := range columns {
		c := &columns[k]
		e.Field(0).Str(c.Name)
		e.Field(1).Str((*kernels.ColumnKind)(c).String())
		e.Field(2).Int(c.N)
		e.Field(3).Int(c.Missing)
		floatOrNull(e.Field(4), c.Center)
		floatOrNull(e.Field(5), c.Scale)
		floatOrNull(e.Field(6), c.Variance)
		e.EndStruct()
	}
	l.EndList()
}

func appendBeliefs(l *capi.Col, f *kernels.Fit, each beliefWalk) {
	e := l.Elem()
	k, block := 0, 0
	if len(f.Classes) > 0 {
		block = len(f.Beliefs) / len(f.Classes)
	}
	name, mean, variance := e.Field(0), e.Field(1), e.Field(2)
	each(func(s []byte, w kernels.Weight) {
		name.Bytes(s)
		mean.Float(w.Mean)
		variance.Float(w.Variance)
		if block > 0 {
			e.Field(3).Str(f.Classes[k/block])
			k++
		}
		e.EndStruct()
	})
	l.EndList()
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
	classed                 bool      // there is a field class
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
		r.classed = hasClass(r.entry)
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
		r.classed = hasClass(r.entry)
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

func hasClass(entry *capi.Vec) bool {
	f := entry.Field("class")
	return f != nil && f.Type != capi.SQLNull
}

// at is belief j of the child vector. Errors: NULLs, and those of CheckWeight.
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

// readBeliefs copies the beliefs of row i. Errors: invalid beliefs, a feature that occurs twice,
// beliefs of classes.
func readBeliefs(v *capi.Vec, i int) ([]kernels.Belief, error) {
	r, err := newBeliefReader(v)
	if err != nil {
		return nil, err
	}
	if v.Null(i) {
		return nil, nil
	}
	if r.classed {
		return nil, option.ErrClass
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

// beliefs copies the beliefs of row i, and the classes of those that have them, one for each block.
// Errors: those of at, blocks of different lengths.
func (r *beliefReader) beliefs(i int) (out []kernels.Belief, classes []string, err error) {
	lo, hi := r.list.Span(i)
	out = make([]kernels.Belief, 0, hi-lo)
	block := 0 // where the last block begins
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

var fitLayout = func() layout {
	l := layout{t: fitType, optional: map[string]bool{}, nullable: map[string]bool{}}
	fitlayout.Walk(fitlayout.Fields, kernels.FitFormat, func(path string, f *fitlayout.Field[kernels.Fit]) bool {
		l.optional[path], l.nullable[path] = f.Optional, f.Nullable
		return true
	})
	for _, f := range fitlayout.ColumnFields {
		l.nullable["columns[]."+f.Name] = f.Nullable
	}
	for _, f := range fitlayout.CorrelationFields {
		l.nullable["correlations[]."+f.Name] = f.Nullable
	}
	for _, f := range fitlayout.LearntFields {
		l.nullable["learnt[]."+f.Name] = f.Nullable
	}
	return l
}()

// fitReader reads FIT columns by field name, so that a FIT that went through a file or a table
// still works. Each FIT is validated as a whole before any of it is used, and in place: long lists
// are not copied for it.
type fitReader struct {
	v      *capi.Vec
	layout layout

	required   []named
	fields     []leaf[kernels.Fit]
	version    *capi.Vec // of the layout; nil = the first
	beliefs    *beliefReader
	classes    bool // accepts a softmax fit
	last       kernels.Fit
	lik        lik.Likelihood
	spread     kernels.Spread           // of last
	predictive kernels.PredictiveScale  // of last
	beside     predict.LearntParameters // of last, if told
	told       bool

	heads   decoded[*kernels.Fit]
	lists   decoded[struct{}] // beliefs that are valid
	columns decoded[[]kernels.FitColumn]
	related decoded[[]kernels.Correlation]
	learnt  decoded[[]kernels.Learnt]
}

// leaf is a field of a STRUCT that holds a value.
type leaf[T any] struct {
	*fitlayout.Field[T]
	kind fitlayout.Kind
	v    *capi.Vec
	path string
}

// leavesOf lists the fields of the STRUCT v that hold values.
func leavesOf[T any](fields []fitlayout.Field[T], v *capi.Vec, path string) []leaf[T] {
	var out []leaf[T]
	for k := range fields {
		f := &fields[k]
		kid := v.Field(f.Name)
		switch {
		case kid == nil || kid.Type == capi.SQLNull:
		case f.At == nil:
			out = append(out, leavesOf(f.Fields, kid, join(path, f.Name))...)
		default:
			out = append(out, leaf[T]{f, f.Kind(), kid, join(path, f.Name)})
		}
	}
	return out
}

// read sets the field in to from entry i, except lists of structs. The numbers of a DOUBLE list are
// not copied from DuckDB's memory.
func (l *leaf[T]) read(i int, to *T) (err error) {
	switch l.kind {
	case fitlayout.Beliefs, fitlayout.Columns, fitlayout.Correlations, fitlayout.Learnt, fitlayout.Version:
		return nil
	}
	p := l.At(to)
	if l.Nullable && l.v.Null(i) {
		switch p := p.(type) {
		case *float64:
			*p = nan
		case *int:
			*p = 0
		}
		return nil
	}
	switch p := p.(type) {
	case *string:
		if s := l.v.Str(i); *p != s {
			*p = strings.Clone(s)
		}
	case *kernels.ColumnKind:
		p.Set(l.v.Str(i))
	case *gauss.Form:
		if *p, err = gauss.ParseForm(l.v.Str(i)); err != nil {
			err = fmt.Errorf("%s = %w", l.path, err)
		}
	case *float64:
		if l.v.Type == capi.Varchar {
			return textual(l.path, capi.TDouble)
		}
		if *p = l.v.Float(i); l.Nullable && math.IsNaN(*p) {
			return fmt.Errorf("%s = NaN; allowed: a number or NULL", l.path)
		}
	case *int:
		var x int64
		x, err = wholeNumber(l.v, i, l.path)
		*p = int(x)
	case *int64:
		*p, err = wholeNumber(l.v, i, l.path)
	case *bool:
		*p = l.v.Bool(i)
	case *[]float64:
		lo, hi := l.v.Span(i)
		if kid := &l.v.Kids[0]; kid.Type == capi.Double && kid.AllValid() {
			*p = kid.Floats()[lo:hi:hi]
		} else {
			*p, err = numbers(l.v, i, l.path)
		}
	}
	return err
}

// fitNear says where a FIT may be that was meant by v: in a field, if v is a row of its table, or in
// the file that v was read from as text.
func fitNear(v *capi.Vec) string {
	if v.Type == capi.Varchar {
		return "; a FIT is a column of a table or a Parquet file, not its name, and a CSV file keeps only its text"
	}
	if v.Type == capi.Struct {
		for k := range v.Kids {
			if f := &v.Kids[k]; f.Type == capi.Struct && f.Field("beliefs") != nil {
				return fmt.Sprintf("; its field %.60q is one", f.Name)
			}
		}
	}
	return ""
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
		return nil, fmt.Errorf("%s is %s, without a field beliefs; allowed: a FIT (from bglm_adf, bglm_merge, bglm_from_beliefs, ...)%s", arg, v.TypeName(), fitNear(v))
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
	r.last, r.required, r.fields = fitlayout.Default(), r.layout.required(v), leavesOf(fitlayout.Fields, v, "")
	for k := range r.fields {
		switch f := &r.fields[k]; f.kind {
		case fitlayout.Version:
			r.version = f.v
		case fitlayout.Columns:
			r.columns.of(f.v, func(i int) ([]kernels.FitColumn, error) {
				return readList(f.v, i, f.path, fitlayout.ColumnFields, kernels.ValidateColumns)
			})
		case fitlayout.Correlations:
			r.related.of(f.v, func(i int) ([]kernels.Correlation, error) {
				return readList(f.v, i, f.path, fitlayout.CorrelationFields, kernels.ValidateCorrelations)
			})
		case fitlayout.Learnt:
			r.learnt.of(f.v, func(i int) ([]kernels.Learnt, error) {
				return readList(f.v, i, f.path, fitlayout.LearntFields, kernels.ValidateLearnt)
			})
		}
	}
	r.heads.of(v, r.decode)
	r.lists.of(b, r.check)
	return r, nil
}

func (r *fitReader) null(i int) bool { return r.beliefs == nil || r.v.Null(i) }

// optional is the number in a field that may be NULL or missing, NaN in both cases.
func optional(v *capi.Vec, i int, what string) (float64, error) {
	if v == nil || v.Null(i) {
		return nan, nil
	}
	if v.Type == capi.Varchar {
		return nan, textual(what, capi.TDouble)
	}
	x := v.Float(i)
	if math.IsNaN(x) {
		return x, fmt.Errorf("%s = NaN; allowed: a number or NULL", what)
	}
	return x, nil
}

// count is the whole number in a field that is not NULL, 0 if there is no such field.
func count(v *capi.Vec, i int, what string) (int64, error) {
	if v == nil {
		return 0, nil
	}
	return wholeNumber(v, i, what)
}

// readList is entry i of a list of structs, the FIT's field at path.
func readList[T any](v *capi.Vec, i int, path string, entries []fitlayout.Field[T], validate func([]T) error) ([]T, error) {
	if v.Null(i) {
		return nil, nil
	}
	if v.Type == capi.Varchar {
		return nil, textual(path, typeAt(fitType, path))
	}
	lo, hi := v.Span(i)
	out := make([]T, hi-lo)
	if lo == hi {
		return out, nil
	}
	entry := &v.Kids[0]
	fields := leavesOf(entries, entry, path)
	for j := range out {
		if entry.Null(lo + j) {
			return nil, fmt.Errorf("%s: entry %d is NULL; allowed: %s", path, j+1, typeAt(fitType, path).Elem)
		}
		for k := range fields {
			f := &fields[k]
			if !f.Nullable && f.v.Null(lo+j) {
				return nil, fmt.Errorf("NULL for its field %s; allowed: %s", f.path, fieldType(f.Field, kernels.FitFormat, nil))
			}
			if err := f.read(lo+j, &out[j]); err != nil {
				return nil, err
			}
		}
	}
	return out, validate(out)
}

// head is the FIT at row i without its beliefs, valid until the next call.
// Errors: those of kernels.Fit.Validate; beliefs with classes are checked by whole.
func (r *fitReader) head(i int) (*kernels.Fit, error) { return r.heads.at(i) }

// learntBeside is what the last head has learnt in addition to its weights.
func (r *fitReader) learntBeside() predict.LearntParameters {
	if !r.told {
		r.beside, r.told = predict.BesideOf(&r.last), true
	}
	return r.beside
}

func (r *fitReader) decode(i int) (*kernels.Fit, error) {
	r.told = false
	if err := checkFormat(r.version, i); err != nil {
		return nil, fmt.Errorf("the FIT: %w", err)
	}
	if name := missingOf(r.required, i); name != "" {
		return nil, fmt.Errorf("the FIT has NULL for its field %s; allowed: %s", name, typeAt(r.layout.t, name))
	}
	f, err := r.scalars(i)
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
	if err := kernels.ValidateSlots(f.HashBits, hi-lo, func(j int) string { return r.beliefs.feature.Str(lo + j) }); err != nil {
		return nil, fmt.Errorf("the FIT: %w", err)
	}
	if err := f.Covariance.Validate(hi-lo, func(j int) kernels.Weight {
		return kernels.Weight{Mean: r.beliefs.mean.Float(lo + j), Variance: r.beliefs.variance.Float(lo + j)}
	}); err != nil {
		return nil, fmt.Errorf("the FIT: %w", err)
	}
	r.spread.Under(&f.Covariance)
	r.predictive = f.PredictiveScale()
	r.lik, err = f.Likelihood()
	return f, err
}

// refuse is the error of a fit with classes where others are wanted: what can be done with it, and,
// where its types may be the cause, which of them differs.
func (r *fitReader) refuse() error {
	err := fmt.Errorf("the FIT has classes (bglm_softmax); it can be predicted with (bglm_predict), continued (option prior of bglm_softmax), listed (bglm_beliefs, bglm_summary), asked (bglm_contrast, bglm_pairs, bglm_effects) and written as SQL or PMML (bglm_sql, bglm_pmml)")
	if d := differs(r.v, classesType, ""); d != "" {
		err = fmt.Errorf("%w, with the types that it had; %s", err, d)
	}
	return err
}

// checkFormat rejects versions of the layout that are not known yet; v may be nil or NULL.
func checkFormat(v *capi.Vec, i int) error {
	if v == nil || v.Null(i) {
		return nil
	}
	x, err := wholeNumber(v, i, "format")
	if err != nil {
		return err
	}
	return fitlayout.CheckFormat(x)
}

// scalars reads all but the beliefs into the last head.
func (r *fitReader) scalars(i int) (f *kernels.Fit, err error) {
	f = &r.last
	for k := range r.fields {
		if err := r.fields[k].read(i, f); err != nil {
			return f, err
		}
	}
	f.Prior = f.Prior.Literal()
	if r.columns.decode != nil {
		if f.Columns, err = r.columns.at(i); err != nil {
			return f, err
		}
	}
	if r.related.decode != nil {
		if f.Correlations, err = r.related.at(i); err != nil {
			return f, err
		}
	}
	if r.learnt.decode != nil {
		f.Learnt, err = r.learnt.at(i)
	}
	return f, err
}

// check reports the first invalid belief of row i, which has no classes.
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

// plainOrder reports whether names are in belief order, where that is quickly seen: a walk over a
// million names costs nearly as much as all else in a chunk. If false, kernels.ValidateBeliefs
// decides.
func plainOrder(name *capi.Vec, lo, hi int) bool {
	var last, lastRest, lastLen uint64
	plain := false // the previous name is short and begins with a letter: its order is that of its bytes
	for j := lo; j < hi; j++ {
		head, rest, short := name.Inline(j)
		n := head & math.MaxUint32
		head, rest = uint64(bits.ReverseBytes32(uint32(head>>32))), bits.ReverseBytes64(rest)
		letter := head>>24 > '9'
		switch {
		case j == lo:
		case short && plain && letter:
			// Bytes beyond the end of a short string are 0.
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

// plainWeights reports whether all means are finite and all variances finite and not negative.
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
		err := f.Validate()
		if err == nil {
			err = kernels.ValidateSlots(f.HashBits, len(f.Beliefs), func(j int) string { return f.Beliefs[j].Feature })
		}
		if err != nil {
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
