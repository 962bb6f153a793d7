package udf

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/stop"
	"github.com/bglm/bglm/udf/internal/capi"
)

// fitPlan is what the options of a fitting aggregate amount to.
type fitPlan struct {
	method  *engine.Method
	model   *kernels.Model
	onError option.OnError
	empty   engine.Fitter // a fit without rows, which groups begin as clones of; nil where it is not small
	alike   rowKinds      // the kinds of rows seen so far that all have the same features
}

func newFitPlan(method *engine.Method, s *option.Settings, times, trials bool) (*fitPlan, error) {
	if method.Name == engine.Auto && s.Options.RowBudget == 0 {
		s.Options.RowBudget = rowBudget()
	}
	model, err := method.Model(s, times, trials)
	if err != nil {
		return nil, err
	}
	p := &fitPlan{method: method, model: model, onError: s.OnError}
	if f := model.Start; f == nil || len(f.Beliefs) <= smallStart {
		p.empty, err = method.New(running(), model)
	}
	return p, err
}

// begin returns the fit that a group begins with. A pass may begin with gigabytes; an interrupt
// does not wait for their copy.
func (p *fitPlan) begin() (engine.Fitter, error) {
	return abandonable(p.method.Kind == engine.Parts && p.empty.Size() >= longPart, func() (engine.Fitter, error) { return p.empty.Clone(), nil })
}

// smallStart is how many beliefs a continued fit may have to be kept for groups to clone.
const smallStart = 64

// fitState is the aggregate state of one group.
type fitState struct {
	engine.Fitter // nil while the rows wait
	plan          *fitPlan
	waiting
	failed bool // on_error: 'null' saw a bad row
}

func newFitState(p *fitPlan) (*fitState, error) {
	s := &fitState{plan: p}
	if p.empty != nil {
		return s, nil
	}
	f, err := p.method.New(running(), p.model)
	s.Fitter = f
	return s, err
}

func (s *fitState) Clone() capi.State {
	c := *s
	c.rows = slices.Clone(s.rows)
	if s.Fitter != nil {
		c.Fitter = s.Fitter.Clone()
	}
	return &c
}

func (s *fitState) Size() int64 {
	n := 64 + int64(cap(s.rows))
	if s.Fitter != nil {
		n += s.Fitter.Size()
	}
	return n
}

func (s *fitState) Merge(src capi.State) error {
	o, ok := src.(*fitState)
	if !ok {
		return errMixedStates
	}
	a, b := s.plan, o.plan
	if a != b && (a.method.Name != b.method.Name || !a.model.Agrees(b.model)) {
		return fmt.Errorf("the options differ between rows of one group; all but weight, offset, trials and time must be constant")
	}
	s.failed = s.failed || o.failed
	if o.Fitter == nil && !a.model.HasTime { // rows appended in order need no merge of posteriors
		return s.appendWaiting(o)
	}
	var other materialized
	if err := other.materialize(o); err != nil {
		return err
	}
	if err := s.materialize(); err != nil {
		return err
	}
	s.failed = s.failed || other.failed
	return s.Fitter.Merge(running(), other.Fitter) // Merge may keep some of other.Fitter
}

var errMixedStates = errors.New("internal error: merging states of different functions")

var batches = sync.Pool{New: func() any { return new(kernels.Batch) }}

// absorb feeds rows [lo, hi) of src to the fit.
func (s *fitState) absorb(src *rows.Source, lo, hi int) error {
	b := batches.Get().(*kernels.Batch)
	defer batches.Put(b)
	void, err := src.Feed(running(), s.Fitter, s.plan.model, s.plan.onError, lo, hi, b)
	s.failed = s.failed || void
	return advised(err)
}

// advised adds to an error in one row how to go on without that row.
func advised(err error) error {
	if err != nil && (errors.As(err, &rows.ErrValue{}) || errors.Is(err, kernels.ErrRow)) {
		return fmt.Errorf("%w (on_error: 'skip' would count and skip such rows)", err)
	}
	return err
}

// sharedBlock holds rows of a call that were encoded together, for states that share a dictionary.
// To encode them for each state apart costs many times a row's update.
type sharedBlock struct {
	src    *rows.Source
	n      int // rows of the call
	plan   *fitPlan
	alike  *rowKind
	lo, hi int // the rows encoded last; batch has them if ok
	ok     bool
	batch  kernels.Batch
	part   kernels.Batch
	gone   int // blocks that could not be encoded
	packer rows.Packer
	layout *rows.Layout // of rows that have waited, else nil
}

var blocks = sync.Pool{New: func() any { return new(sharedBlock) }}

// begin resets t, but keeps its memory.
func (t *sharedBlock) begin(src *rows.Source, n int) {
	*t = sharedBlock{src: src, n: n, batch: t.batch, packer: t.packer}
}

// patience is how many blocks of rows a call fails to encode before it stops trying.
const patience = 2

// absorb feeds rows [lo, hi) to s, as far as they are encoded, and returns where it stopped.
func (t *sharedBlock) absorb(s *fitState, lo, hi int) (int, error) {
	for lo < hi && s.shares() && t.encodedAt(s, lo) {
		if s.Fitter == nil {
			s.Fitter = t.alike.ready.Clone()
		} else if !s.Fitter.(engine.Sharer).Share(t.alike.names) {
			break
		}
		end := min(hi, t.hi)
		t.batch.Part(lo-t.lo, end-t.lo, &t.part)
		lo = end
		if err := s.update(&t.part); err != nil {
			return lo, err
		}
	}
	return lo, nil
}

// feed feeds rows [lo, hi) to s, and makes its fit if it has none.
func (t *sharedBlock) feed(s *fitState, lo, hi int) error {
	lo, err := t.absorb(s, lo, hi)
	if err != nil || lo == hi {
		return err
	}
	if s.Fitter == nil {
		if s.Fitter, err = s.plan.begin(); err != nil {
			return err
		}
	}
	if err := t.src.X.Learn(s.plan.model); err != nil {
		return err
	}
	t.src.X.Load(lo, t.n) // short runs share a block
	return s.absorb(t.src, lo, hi)
}

// shares reports whether s can use rows encoded by a dictionary that groups share.
func (s *fitState) shares() bool {
	f := s.Fitter
	if f == nil {
		f = s.plan.empty
	}
	_, ok := f.(engine.Sharer)
	return ok
}

// encodedAt reports whether row i is encoded for states with the plan of s.
func (t *sharedBlock) encodedAt(s *fitState, i int) bool {
	if t.plan == s.plan && t.lo <= i && i < t.hi {
		return t.ok
	}
	if t.gone == patience || s.plan.empty == nil || !t.src.X.Alike() {
		return false
	}
	t.plan, t.lo, t.ok = s.plan, i, false
	seen := false // the features are the names of these columns, and a kind of such rows is known
	for _, a := range s.plan.alike.all() {
		if a.may(t.src) {
			if t.hi, t.ok = t.src.ReadAligned(i, t.n, s, s.plan.model, a.names, false, &t.batch); t.ok && a.describes(&t.batch) {
				t.alike = a
				return true
			}
			seen = seen || t.src.X.Columns() != nil
		}
	}
	if t.ok = false; seen {
		t.gone++
		return false
	}
	names := s.plan.empty.Clone().Features()
	if t.hi, t.ok = t.src.ReadAligned(i, t.n, s, s.plan.model, names, true, &t.batch); t.ok {
		a, err := alikeOf(s.plan.empty, names, &t.batch)
		if t.ok = err == nil; t.ok {
			a.layout = t.layout
			t.alike = s.plan.alike.add(a, t.src)
		}
	}
	if !t.ok {
		t.gone++
	}
	return t.ok
}

// checkResponse returns an error if the type of y cannot be a response.
func checkResponse(y *capi.Vec) error {
	if y.IsNumber() || y.Type == capi.Boolean || y.Type == capi.SQLNull {
		return nil
	}
	var l rows.Labels
	if y.Type == capi.Varchar || y.Type == capi.Enum && y.CheckEnum() == nil {
		l = rows.LabelsOf(texts(y))
	}
	switch {
	case l.Found == "":
		how := ""
		switch y.Type {
		case capi.Struct, capi.Map, capi.List, capi.Array:
			how = "; y comes first, then x"
		}
		return fmt.Errorf("y is %s; allowed: BOOLEAN or a number%s", y.TypeName(), how)
	case l.Mixed != nil:
		return fmt.Errorf("y is %s, with %s; allowed: BOOLEAN or a number, as in %s", y.TypeName(), l.Found, castOrNull(l.Mixed))
	case l.Numbers:
		return fmt.Errorf("y is %s, with %s; allowed: BOOLEAN or a number, as in y::DOUBLE", y.TypeName(), l.Found)
	case l.One != "":
		return fmt.Errorf("y is %s, with %s; allowed: BOOLEAN or a number, as in y = %s", y.TypeName(), l.Found, rows.Quote(l.One))
	}
	return fmt.Errorf("y is %s, such as %s; allowed: BOOLEAN or a number; labels are for bglm_softmax", y.TypeName(), l.Found)
}

// texts are the values of a VARCHAR or ENUM, without NULLs.
func texts(v *capi.Vec) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range v.Len {
			if v.Null(i) {
				continue
			}
			s := ""
			if v.Type == capi.Enum {
				s = v.EnumText(v.EnumCode(i))
			} else {
				s = string(v.Str(i))
			}
			if !yield(s) {
				return
			}
		}
	}
}

// checkLabel returns an error if the type of y cannot be a class.
func checkLabel(y *capi.Vec) error { return checkClass(y, "y") }

func checkClass(v *capi.Vec, what string) error {
	if v.Type == capi.Enum {
		if err := v.CheckEnum(); err != nil {
			return fmt.Errorf("%s is %w", what, err)
		}
	}
	if v.IsNumber() || v.Type == capi.Boolean || v.Type == capi.Varchar || v.Type == capi.Enum || v.Type == capi.SQLNull {
		return nil
	}
	return fmt.Errorf("%s is %s; allowed: VARCHAR, ENUM, BOOLEAN or a number", what, v.TypeName())
}

var fitCache optionCache[*fitPlan]

// updateFit is the update function of a method's aggregate; nil stands for bglm_fit, whose options
// name the method.
func updateFit(method *engine.Method) func(args []capi.Vec, slots capi.Slots) error {
	name, kind := "fit", engine.Weights
	if method != nil {
		name, kind = method.Name, method.Kind
	}
	return updateBy(name, kind, func(opt *capi.Vec, i int, src *rows.Source) (*fitPlan, error) { return planFit(method, opt, i, src) })
}

// updateBy is the update function of the named aggregate, for rows of a kind; plan reads the
// options at a row.
func updateBy(name string, kind engine.Kind, plan func(opt *capi.Vec, i int, src *rows.Source) (*fitPlan, error)) func(args []capi.Vec, slots capi.Slots) error {
	return func(args []capi.Vec, slots capi.Slots) error {
		y := &args[0]
		f := forms[kind]
		if err := f.y(y); err != nil {
			return err
		}
		if f.x != nil {
			if err := f.x(&args[1]); err != nil {
				return err
			}
		}
		x, err := planFeatures(&args[1], "x")
		if err != nil {
			return err
		}
		defer x.Release()
		var opt *capi.Vec
		if len(args) > 2 {
			opt = &args[2]
		}
		src, err := source(y, x, opt, "option")
		if err != nil {
			return err
		}
		cache := fitCache.call(name)
		layout := src.Layout()
		block := blocks.Get().(*sharedBlock)
		defer blocks.Put(block)
		block.begin(src, slots.Len())
		return slots.Runs(func(slot capi.Slot, lo, hi int) error {
			st, err := slot.Mutable(func() (capi.State, error) {
				p, err := cache.get(opt, lo, func() (*fitPlan, error) { return plan(opt, lo, src) })
				if err != nil {
					return nil, err
				}
				return newFitState(p)
			})
			if err != nil {
				return err
			}
			s := st.(*fitState)
			if s.Fitter == nil {
				if err := x.Learn(s.plan.model); err != nil { // errors of columns that differ from the model's
					return err
				}
				if s.wait(&block.packer, layout, src, lo, hi) {
					return nil
				}
				if err := s.materialize(); err != nil {
					return err
				}
			}
			return block.feed(s, lo, hi)
		})
	}
}

// planFit reads the options at row i for a method, or for the method they name.
func planFit(method *engine.Method, opt *capi.Vec, i int, src *rows.Source) (*fitPlan, error) {
	uses := []string{"fit"}
	if method == nil {
		name, err := namedMethod(opt, i, engine.Auto)
		if err != nil {
			return nil, err
		}
		if method, err = engine.Find(name, engine.Weights); err != nil {
			if m, other := engine.Find(strings.TrimPrefix(name, "bglm_")); other == nil && m.Kind != engine.Weights {
				err = fmt.Errorf("%w; bglm_%s has a result of its own: call it by its name", err, m.Name)
			}
			return nil, err
		}
	} else {
		uses = nil
	}
	s, err := option.For(append(uses, method.Name)...).Decode(constants(opt, i, method.Kind == engine.Classes))
	if err != nil {
		return nil, err
	}
	return newFitPlan(method, s, src.Time != nil, src.Trials != nil)
}

// planProgressive reads the options of bglm_progressive at row i.
func planProgressive(opt *capi.Vec, i int, src *rows.Source) (*fitPlan, error) {
	name, err := namedMethod(opt, i, "adf")
	if err != nil {
		return nil, err
	}
	m, err := engine.Find(name, engine.Weights)
	if err != nil {
		m = &engine.Method{Name: name} // it does not stream: Progressive returns the error
	}
	p, err := m.Progressive()
	if err != nil {
		return nil, err
	}
	s, err := option.For("fit", m.Name).Decode(constants(opt, i, false))
	if err != nil {
		return nil, err
	}
	return newFitPlan(p, s, src.Time != nil, src.Trials != nil)
}

// namedMethod is the option method at row i, def if it is not given.
func namedMethod(opt *capi.Vec, i int, def string) (string, error) {
	for key, value := range constants(opt, i, false) {
		if option.Canonical(key) == "method" && value != nil {
			s, err := option.For("fit").Decode(maps.All(map[string]option.Source{key: value}))
			if err != nil {
				return "", err
			}
			return s.Method, nil
		}
	}
	return def, nil
}

// solvable is a group whose answer takes work to compute. The zero value is a group without rows,
// or one that failed before: its answer is NULL.
type solvable struct {
	name  string       // of the method; "" = NULL
	null  bool         // on_error is 'null'
	solve func() error // keeps the answer; nil = nothing to do
}

// solveAll solves the groups in parallel, each with its own recover, and appends their answers in
// order: by write for a group that was solved, else by null. A write that fails must have written
// nothing. Once the query is interrupted no more groups begin.
func solveAll(groups []solvable, null func(), write func(i int) error) error {
	errs := make([]error, len(groups))
	work := slices.ContainsFunc(groups, func(g solvable) bool { return g.solve != nil })
	one := func(i int) {
		g := &groups[i]
		if g.solve == nil {
			return
		}
		defer func() {
			if r := recover(); r != nil {
				errs[i] = fmt.Errorf("internal error in method %s: %v", g.name, r)
			}
		}()
		errs[i] = g.solve()
	}
	var next atomic.Int64
	some := func() {
		name, ended := "", func() {}
		defer func() { ended() }()
		for i := next.Add(1) - 1; i < int64(len(groups)); i = next.Add(1) - 1 {
			if errs[i] = stop.Cause(running()); errs[i] != nil {
				return // the groups after it would begin only to be stopped
			}
			if g := &groups[i]; g.name != name && g.solve != nil {
				ended()
				name, ended = g.name, solves(g.name)
			}
			one(int(i))
		}
	}
	if len(groups) == 1 {
		some()
	} else if work {
		var wg sync.WaitGroup
		for range min(runtime.GOMAXPROCS(0), len(groups)) {
			wg.Go(some)
		}
		wg.Wait()
	}
	for i, g := range groups {
		if err := stop.Cause(running()); err != nil {
			return err // nobody reads the rest
		}
		err := errs[i]
		if g.name != "" && err == nil {
			if err = write(i); err == nil {
				continue
			}
		}
		var rows waitedError
		switch {
		case interrupted(err):
			return err
		case errors.As(err, &rows):
			return rows.error
		case g.name == "" || g.null:
			null()
		default:
			return fmt.Errorf("%w (on_error: 'null' would give NULL for such a group)", err)
		}
	}
	return nil
}

// form is how SQL presents the methods of a kind.
type form struct {
	y, x    func(v *capi.Vec) error // check the types; where x is nil, features may have any type
	result  *capi.Type
	doc     string // of the result
	example string // a statement with a $call
	call    string // the arguments in it after bglm_<method>, with a $link, and $order where rows are ordered
	// write appends the result; nil where fitsWriter.result does so itself.
	write func(out *capi.Col, r *engine.Result)
}

var forms = map[engine.Kind]form{
	engine.Weights: {
		y: checkResponse, result: fitType,
		example: "SELECT feature, round(mean, 4) AS mean, round(variance, 4) AS variance FROM (SELECT unnest(fit.beliefs, recursive := true) FROM (SELECT $call AS fit " + tenRows + "));",
		call:    "(late, {origin: origin}, {link: '$link'}$order)",
		write:   func(out *capi.Col, r *engine.Result) { appendFit(out, r.Fit, r.Each) },
	},
	engine.Paths: {
		y: checkResponse, result: trajectoryType,
		doc:     "The result is LIST(STRUCT(feature, time, mean, variance)), by feature, then time, with one entry for each row that has the feature; without the option time, rows count from 1. Beliefs have a joint covariance up to 1,000 weights if rows and their values, times the square of the weights, are up to 1e9 (100 numbers in 1,000 rows); beyond that they are factorised. Columns and responses are not standardised: if gaussian responses lie around 1000, give intercept_variance, prior_variance, dispersion and process_noise in their units, or subtract their mean.",
		example: "SELECT p.feature, p.time, round(p.mean, 4) AS mean, round(p.variance, 4) AS variance FROM (SELECT unnest($call) AS p " + tenRows + ") LIMIT 3;",
		call:    "(late, {origin: origin}, {link: '$link', process_noise: 0.1, time: i})",
		write:   appendPath,
	},
	engine.Classes: {
		y: checkLabel, result: classesType,
		doc: "y is a class label. The FIT's beliefs also have class VARCHAR: classes in byte order, numbers in numeric order, each with its weights in belief order. bglm_predict gives MAP(VARCHAR, DOUBLE), the probability of each class.",
		example: "SELECT c, round(p[c], 4) AS p FROM (SELECT bglm_predict(fit, {u: 0.9}) AS p FROM (SELECT $call AS fit FROM (SELECT i, ['low', 'mid', 'top'][1 + i // 10] AS c FROM range(30) t(i)))), " +
			"(VALUES ('low'), ('mid'), ('top')) v(c);",
		call:  "(c, {u: i / 30})",
		write: func(out *capi.Col, r *engine.Result) { appendFit(out, r.Fit, r.Each) },
	},
	engine.Parts: {
		y: checkResponse, result: capi.TBlob,
		doc:     "Without rows the result is NULL, which bglm_newton_merge ignores.",
		example: "SELECT f.n, f.converged FROM (SELECT bglm_newton_solve(bglm_newton_merge(s), {link: 'probit'}) AS f FROM (SELECT $call AS s " + tenRows + " GROUP BY i % 2));",
		call:    "(late, {origin: origin}, {link: '$link'})",
	},
	engine.Predictions: {y: checkResponse, result: predictionsType, write: appendPredictions},
	engine.Process: {
		y: checkResponse, x: checkPoints, result: gpType,
		doc:     "Returns " + gpFields() + ", which bglm_predict and bglm_predict_dist accept.",
		example: "SELECT round(bglm_predict(g, [0.5]), 4) AS p, round(g.log_evidence, 4) AS log_evidence FROM (SELECT $call AS g FROM (SELECT i / 10 AS u FROM range(11) t(i)));",
		call:    "(u > 0.3 AND u < 0.8, [u], {lengthscale: 0.2} ORDER BY u)",
		write:   func(out *capi.Col, r *engine.Result) { appendGP(out, r.Process, r.Skipped) },
	},
}

// predictionsType is what bglm_progressive returns.
var predictionsType = capi.ListOf(capi.StructOf(fld("y", capi.TDouble), fld("mean", capi.TDouble), fld("lower", capi.TDouble), fld("upper", capi.TDouble), fld("log_density", capi.TDouble)))

func appendPredictions(out *capi.Col, r *engine.Result) {
	e := out.Elem()
	for _, p := range r.Rows {
		for k, v := range [...]float64{p.Y, p.Mean, p.Lower, p.Upper, p.LogDensity} {
			e.Field(k).Float(v)
		}
		e.EndStruct()
	}
	out.EndList()
}

func checkPoints(x *capi.Vec) error { return rows.CheckPoints(columnOf(x), "x") }

// finalizeFit writes the results; factorised fits are written belief by belief.
func finalizeFit(states []capi.State, out *capi.Col) error {
	results := make([]*engine.Result, len(states))
	fits := make([]engine.Factorised, len(states))
	awoken := make([]materialized, len(states))
	groups := make([]solvable, len(states))
	for i, st := range states {
		s, _ := st.(*fitState)
		if s == nil || s.failed {
			continue
		}
		g := solvable{name: s.plan.method.Name, null: s.plan.onError == option.Null}
		if e, ok := s.Fitter.(engine.Factorised); ok {
			fits[i] = e
		} else {
			g.solve = func() error {
				a := &awoken[i]
				err := a.materialize(s)
				if err != nil {
					return waitedError{err}
				}
				if a.failed {
					return nil
				}
				if e, ok := a.Fitter.(engine.Factorised); ok {
					fits[i] = e
					return nil
				}
				results[i], err = hinted(a.Fit(running()))
				a.release(err)
				return err
			}
		}
		groups[i] = g
	}
	w := fitsWriter{out: out}
	defer w.flush()
	return solveAll(groups, w.null, func(i int) error {
		switch {
		case results[i] != nil:
			return w.result(states[i].(*fitState).plan, results[i])
		case fits[i] != nil:
			err := w.factorised(fits[i])
			awoken[i].release(err)
			return err
		default: // a row made the group NULL
			w.null()
		}
		return nil
	})
}

// trajectoryType is what bglm_smooth returns.
var trajectoryType = capi.ListOf(capi.StructOf(fld("feature", capi.TVarchar), fld("time", capi.TDouble), fld("mean", capi.TDouble), fld("variance", capi.TDouble)))

func appendPath(out *capi.Col, r *engine.Result) {
	e := out.Elem()
	for _, p := range r.Path {
		e.Field(0).Str(p.Feature)
		e.Field(1).Float(p.Time)
		e.Field(2).Float(p.Mean)
		e.Field(3).Float(p.Variance)
		e.EndStruct()
	}
	out.EndList()
}
