package udf

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/udf/internal/capi"
)

// fitPlan is what the options of a fitting aggregate come to.
type fitPlan struct {
	method  *engine.Method
	model   *kernels.Model
	onError option.OnError
}

func newFitPlan(method *engine.Method, s *option.Settings, times, trials bool) (*fitPlan, error) {
	model, err := method.Model(s, times, trials)
	return &fitPlan{method, model, s.OnError}, err
}

// fitState is the aggregate state of one group.
type fitState struct {
	engine.Fitter
	plan   *fitPlan
	failed bool // on_error: 'null' met a bad row
}

func newFitState(p *fitPlan) (*fitState, error) {
	f, err := p.method.New(p.model)
	return &fitState{Fitter: f, plan: p}, err
}

func (s *fitState) Clone() capi.State { return &fitState{s.Fitter.Clone(), s.plan, s.failed} }
func (s *fitState) Size() int64       { return s.Fitter.Size() + 48 }

func (s *fitState) Merge(src capi.State) error {
	o, ok := src.(*fitState)
	if !ok {
		return errMixedStates
	}
	a, b := s.plan, o.plan
	if a != b && (a.method != b.method || !a.model.Agrees(b.model)) {
		return fmt.Errorf("the options differ between rows of one group; all but weight, offset, trials and time must be constant")
	}
	s.failed = s.failed || o.failed
	return s.Fitter.Merge(running(), o.Fitter)
}

var errMixedStates = errors.New("internal error: merging states of different functions")

var batches = sync.Pool{New: func() any { return new(kernels.Batch) }}

// absorb feeds rows [lo, hi) of src to the state.
func (s *fitState) absorb(src *rows.Source, y *capi.Vec, lo, hi int) error {
	b := batches.Get().(*kernels.Batch)
	defer batches.Put(b)
	if c, ok := s.Fitter.(*engine.Classifier); ok {
		c.Numeric = y.IsNumber()
		src.Label = func(i int) (float64, error) {
			name, err := label(y, i)
			if err != nil {
				return 0, err
			}
			return c.Class(name)
		}
	}
	void, err := src.Feed(running(), s.Fitter, s.plan.model, s.plan.onError, lo, hi, b)
	s.failed = s.failed || void
	if errors.As(err, &rows.ErrValue{}) || errors.Is(err, kernels.ErrRow) {
		return fmt.Errorf("%w (on_error: 'skip' would count and skip such rows)", err)
	}
	return err
}

// checkResponse says whether y can be a response at all.
func checkResponse(y *capi.Vec) error {
	if y.IsNumber() || y.Type == capi.Boolean || y.Type == capi.SQLNull {
		return nil
	}
	return fmt.Errorf("y is %s; allowed: BOOLEAN or a number", y.TypeName())
}

// checkLabel says whether y can be a class.
func checkLabel(y *capi.Vec) error {
	if y.Type == capi.Enum {
		if err := y.CheckEnum(); err != nil {
			return fmt.Errorf("y is %w", err)
		}
	}
	if y.IsNumber() || y.Type == capi.Boolean || y.Type == capi.Varchar || y.Type == capi.Enum || y.Type == capi.SQLNull {
		return nil
	}
	return fmt.Errorf("y is %s; allowed: VARCHAR, ENUM, BOOLEAN or a number", y.TypeName())
}

var fitCache optionCache[*fitPlan]

// updateFit is the update of the aggregate of a method; nil means bglm_fit, whose
// options name it.
func updateFit(method *engine.Method) func(args []capi.Vec, slots capi.Slots) error {
	name := "fit"
	if method != nil {
		name = method.Name
	}
	return func(args []capi.Vec, slots capi.Slots) error {
		y := &args[0]
		check := checkResponse
		if name == engine.Softmax.Name {
			check = checkLabel
		}
		if err := check(y); err != nil {
			return err
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
		return slots.Runs(func(slot capi.Slot, lo, hi int) error {
			st, err := slot.Mutable(func() (capi.State, error) {
				plan, err := cache.get(opt, lo, func() (*fitPlan, error) {
					return planFit(method, opt, lo, src)
				})
				if err != nil {
					return nil, err
				}
				return newFitState(plan)
			})
			if err != nil {
				return err
			}
			x.Load(lo, slots.Len()) // short runs share a block
			return st.(*fitState).absorb(src, y, lo, hi)
		})
	}
}

// planFit reads the options at row i for a method, or for the one they name.
func planFit(method *engine.Method, opt *capi.Vec, i int, src *rows.Source) (*fitPlan, error) {
	uses := []string{"fit"}
	if method == nil {
		name, err := namedMethod(opt, i)
		if err != nil {
			return nil, err
		}
		if method, err = engine.Find(name); err != nil {
			if bare := strings.TrimPrefix(name, "bglm_"); bare == "softmax" || bare == "gp" || bare == "smooth" {
				err = fmt.Errorf("%w; bglm_%s has a result of its own: call it by its name", err, bare)
			}
			return nil, fmt.Errorf("option %w", err)
		}
	} else {
		uses = nil
	}
	s, err := option.For(append(uses, method.Name)...).Decode(constants(opt, i, method.Name == engine.Softmax.Name))
	if err != nil {
		return nil, err
	}
	return newFitPlan(method, s, src.Time != nil, src.Trials != nil)
}

// namedMethod is the option method at row i, adf where there is none.
func namedMethod(opt *capi.Vec, i int) (string, error) {
	for key, value := range constants(opt, i, false) {
		if option.Canonical(key) == "method" && value != nil {
			s, err := option.For("fit").Decode(maps.All(map[string]option.Source{key: value}))
			if err != nil {
				return "", err
			}
			return s.Method, nil
		}
	}
	return "adf", nil
}

// solvable is a group whose answer takes work. The zero value is a group without
// rows, or one that failed before: its answer is NULL.
type solvable struct {
	name  string       // of the method; "" = NULL
	null  bool         // on_error is 'null'
	solve func() error // keeps its answer itself; nil = nothing to do
}

// solveAll solves the groups side by side, each with its own recover, and appends
// their answers in order: what write does for one that was solved, else NULL.
func solveAll(groups []solvable, out *capi.Col, write func(i int)) error {
	errs := make([]error, len(groups))
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
		defer solves(g.name)()
		errs[i] = g.solve()
	}
	if len(groups) == 1 {
		one(0)
	} else {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range min(runtime.GOMAXPROCS(0), len(groups)) {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < int64(len(groups)); i = next.Add(1) - 1 {
					one(int(i))
				}
			})
		}
		wg.Wait()
	}
	for i, g := range groups {
		switch {
		case g.name == "" || errs[i] != nil && g.null && !interrupted(errs[i]):
			out.Null()
		case interrupted(errs[i]):
			return errs[i]
		case errs[i] != nil:
			return fmt.Errorf("%w (on_error: 'null' would give NULL for such a group)", errs[i])
		default:
			write(i)
		}
	}
	return nil
}

// groupsOf makes the groups of fitting states; solve may be nil for a state.
func groupsOf(states []capi.State, solve func(i int, s *fitState) func() error) []solvable {
	groups := make([]solvable, len(states))
	for i, st := range states {
		if s, _ := st.(*fitState); s != nil && !s.failed {
			groups[i] = solvable{name: s.plan.method.Name, null: s.plan.onError == option.Null, solve: solve(i, s)}
		}
	}
	return groups
}

// finalizeFit writes the fits; factorised ones are read belief by belief.
func finalizeFit(states []capi.State, out *capi.Col) error {
	fits := make([]*kernels.Fit, len(states))
	groups := groupsOf(states, func(i int, s *fitState) func() error {
		if _, ok := s.Fitter.(engine.Factorised); ok {
			return nil
		}
		return func() (err error) { fits[i], err = s.Fit(running()); return err }
	})
	return solveAll(groups, out, func(i int) { states[i].(*fitState).write(out, fits[i]) })
}

// trajectoryType is what bglm_smooth returns.
var trajectoryType = capi.ListOf(capi.StructOf(fld("feature", capi.TVarchar), fld("time", capi.TDouble), fld("mean", capi.TDouble), fld("variance", capi.TDouble)))

func finalizeSmooth(states []capi.State, out *capi.Col) error {
	type point struct {
		feature              string
		time, mean, variance float64
	}
	paths := make([][]point, len(states))
	groups := groupsOf(states, func(i int, s *fitState) func() error {
		return func() error {
			return s.Fitter.(engine.Smoother).Trajectories(running(), func(feature string, time, mean, variance float64) {
				paths[i] = append(paths[i], point{feature, time, mean, variance})
			})
		}
	})
	return solveAll(groups, out, func(i int) {
		e := out.Elem()
		for _, p := range paths[i] {
			e.Field(0).Str(p.feature)
			e.Field(1).Float(p.time)
			e.Field(2).Float(p.mean)
			e.Field(3).Float(p.variance)
			e.EndStruct()
		}
		out.EndList()
	})
}

// write appends the state's fit, f where it has been made already.
func (s *fitState) write(out *capi.Col, f *kernels.Fit) {
	if f != nil {
		appendFit(out, f, f.Each)
		return
	}
	e := s.Fitter.(engine.Factorised)
	sum := e.Summary()
	appendFit(out, &sum, e.Each)
}
