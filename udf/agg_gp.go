package udf

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/udf/internal/capi"
)

// gpType is what bglm_gp returns. root and negative are the posterior's factor as
// gp.Posterior documents it.
var gpType = capi.StructOf(fld("family", capi.TVarchar), fld("link", capi.TVarchar), fld("kernel", capi.TVarchar), fld("lengthscale", capi.TDouble),
	fld("signal_variance", capi.TDouble), fld("mean", capi.TDouble), fld("x", capi.ListOf(capi.ListOf(capi.TDouble))), fld("alpha", capi.ListOf(capi.TDouble)),
	fld("n", capi.TBigInt), fld("log_evidence", capi.TDouble), fld("iterations", capi.TInteger), fld("converged", capi.TBoolean), fld("status", capi.TVarchar),
	fld("root", capi.ListOf(capi.TDouble)), fld("negative", capi.TInteger), fld("shape", capi.TDouble), fld("dispersion", capi.TDouble), fld("n_skipped", capi.TBigInt))

// gpPlan is what the options of bglm_gp come to.
type gpPlan struct {
	lik     lik.Likelihood
	options gp.Options
	onError option.OnError
}

// gpState keeps the rows of one group.
type gpState struct {
	plan    *gpPlan
	d       int // length of x, -1 before the first row
	x       []float64
	y       []float64
	weight  []float64 // the columns that there are
	offset  []float64
	trials  []float64
	skipped int64
	failed  bool
}

func (s *gpState) Clone() capi.State {
	c := *s
	for _, v := range []*[]float64{&c.x, &c.y, &c.weight, &c.offset, &c.trials} {
		*v = append([]float64(nil), *v...)
	}
	return &c
}

func (s *gpState) Size() int64 {
	return 8*int64(cap(s.x)+cap(s.y)+cap(s.weight)+cap(s.offset)+cap(s.trials)) + 200
}

func (s *gpState) Merge(src capi.State) error {
	o, ok := src.(*gpState)
	if !ok {
		return errMixedStates
	}
	a, b := s.plan, o.plan
	if a != b && (a.lik.Family() != b.lik.Family() || a.lik.Link() != b.lik.Link() || a.options != b.options) {
		return fmt.Errorf("the options differ between rows of one group; all but weight, offset and trials must be constant")
	}
	if s.d >= 0 && o.d >= 0 && s.d != o.d {
		return fmt.Errorf("x has %d values in one row and %d in another", s.d, o.d)
	}
	s.d = max(s.d, o.d)
	s.x, s.y = append(s.x, o.x...), append(s.y, o.y...)
	s.weight, s.offset, s.trials = append(s.weight, o.weight...), append(s.offset, o.offset...), append(s.trials, o.trials...)
	s.skipped += o.skipped
	s.failed = s.failed || o.failed
	return nil
}

// planGP reads the options at row i.
func planGP(opt *capi.Vec, i int, cols *rowColumns) (*gpPlan, error) {
	s, err := option.For("gp").Decode(constants(opt, i, false))
	if err != nil {
		return nil, err
	}
	if err := s.LikelihoodOf(cols.trials != nil); err != nil {
		return nil, err
	}
	g, o := s.Process, &s.Options
	g.AutoDispersion, g.AutoShape, g.MaxIter, g.Tol, g.TimeLimit = o.AutoDispersion, o.AutoShape, o.MaxIter, o.Tol, o.TimeLimit
	return &gpPlan{s.Lik, g, s.OnError}, nil
}

// checkPoints says whether x can be the inputs of a process.
func checkPoints(x *capi.Vec) error {
	if x.Type == capi.SQLNull || (x.Type == capi.List || x.Type == capi.Array) && (x.Kids[0].IsNumber() || x.Kids[0].Type == capi.SQLNull) {
		return nil
	}
	return fmt.Errorf("x is %s; a Gaussian process takes a list of numbers", x.TypeName())
}

// point appends the numbers of entry i of x.
func point(dst []float64, x *capi.Vec, i int) ([]float64, error) {
	lo, hi := x.Span(i)
	for k := lo; k < hi; k++ {
		if x.Kids[0].Null(k) {
			return dst, rows.ErrValue{Err: fmt.Errorf("x has NULL at place %d; a Gaussian process takes finite numbers", k-lo+1)}
		}
		v := x.Kids[0].Float(k)
		if !(math.Abs(v) <= gp.MaxInput) {
			return dst, rows.ErrValue{Err: fmt.Errorf("x has %v at place %d; allowed: numbers of at most %v", v, k-lo+1, gp.MaxInput)}
		}
		dst = append(dst, v)
	}
	return dst, nil
}

func (s *gpState) add(y, x *capi.Vec, cols *rowColumns, i int) error {
	n := len(s.x)
	err := func() (err error) {
		o := lik.Obs{Y: y.Float(i), Weight: 1}
		if cols.weight != nil {
			o.Weight = cols.weight.Float(i)
		}
		if cols.trials != nil {
			o.Trials = cols.trials.Float(i)
		}
		if err := s.plan.lik.Check(o); err != nil {
			return rows.ErrValue{Err: err}
		}
		if cols.offset != nil && !finite(cols.offset.Float(i)) {
			return rows.ErrValue{Err: fmt.Errorf("offset = %v; allowed: a finite number", cols.offset.Float(i))}
		}
		if s.x, err = point(s.x, x, i); err != nil {
			return err
		}
		if d := len(s.x) - n; s.d >= 0 && s.d != d {
			return rows.ErrValue{Err: fmt.Errorf("x has %d values, the rows before have %d", d, s.d)}
		} else {
			s.d = d
		}
		s.y = append(s.y, o.Y)
		if cols.weight != nil {
			s.weight = append(s.weight, o.Weight)
		}
		if cols.trials != nil {
			s.trials = append(s.trials, o.Trials)
		}
		if cols.offset != nil {
			s.offset = append(s.offset, cols.offset.Float(i))
		}
		return nil
	}()
	if err != nil {
		s.x = s.x[:n]
	}
	return err
}

var gpCache optionCache[*gpPlan]

func updateGP(args []capi.Vec, slots capi.Slots) error {
	y, x := &args[0], &args[1]
	if err := checkResponse(y); err != nil {
		return err
	}
	if err := checkPoints(x); err != nil {
		return err
	}
	var opt *capi.Vec
	if len(args) > 2 {
		opt = &args[2]
	}
	cols, err := findRowColumns(opt, "option")
	if err != nil {
		return err
	}
	cols.time = nil // not among its keys: an error below
	cache := gpCache.call("gp")
	return slots.Runs(func(slot capi.Slot, lo, hi int) error {
		st, err := slot.Mutable(func() (capi.State, error) {
			plan, err := cache.get(opt, lo, func() (*gpPlan, error) {
				return planGP(opt, lo, &cols)
			})
			return &gpState{plan: plan, d: -1}, err
		})
		if err != nil {
			return err
		}
		s := st.(*gpState)
		if n := s.Size(); n > 16<<20 {
			if err := memory.Room(n, fmt.Sprintf("keeping more than %d rows", len(s.y))); err != nil {
				return err
			}
		}
		for i := lo; i < hi; i++ {
			if y.Null(i) || x.Null(i) || cols.null(i) {
				s.skipped++
				continue
			}
			err := s.add(y, x, &cols, i)
			switch {
			case err == nil:
			case !errors.As(err, &rows.ErrValue{}):
				return err
			case s.plan.onError == option.Skip:
				s.skipped++
			case s.plan.onError == option.Null:
				s.failed = true
			default:
				return fmt.Errorf("%w (on_error: 'skip' would count and skip such rows)", err)
			}
		}
		return nil
	})
}

func finalizeGP(states []capi.State, out *capi.Col) error {
	fits := make([]*gp.Posterior, len(states))
	groups := make([]solvable, len(states))
	for i, st := range states {
		s, _ := st.(*gpState)
		if s == nil || s.failed {
			continue
		}
		groups[i] = solvable{name: "gp", null: s.plan.onError == option.Null, solve: func() (err error) {
			x := &dense.Matrix{Rows: len(s.y), Cols: max(s.d, 0), Stride: max(s.d, 0), Data: s.x}
			fits[i], err = gp.Fit(running(), s.plan.lik, x, s.y, s.weight, s.offset, s.trials, s.plan.options)
			return err
		}}
	}
	return solveAll(groups, out, func(i int) { appendGP(out, fits[i], states[i].(*gpState).skipped) })
}

func appendGP(c *capi.Col, p *gp.Posterior, skipped int64) {
	k := 0
	next := func() *capi.Col { k++; return c.Field(k - 1) }
	next().Str(p.Family)
	next().Str(p.Link)
	next().Str(p.Kernel)
	next().Float(p.Lengthscale)
	next().Float(p.SignalVariance)
	next().Float(p.Mean)
	floats := func(l *capi.Col, v []float64) {
		for _, x := range v {
			l.Elem().Float(x)
		}
		l.EndList()
	}
	x := next()
	for i := range p.X.Rows {
		floats(x.Elem(), p.X.Row(i))
	}
	x.EndList()
	floats(next(), p.Alpha)
	next().Int(int64(p.N))
	next().Float(p.LogEvidence)
	next().Int(int64(p.Iterations))
	next().Bool(p.Converged)
	next().Str(p.Status)
	floats(next(), p.Root)
	next().Int(int64(p.Negative))
	floatOrNull(next(), p.Shape)
	next().Float(p.Dispersion)
	next().Int(skipped)
	c.EndStruct()
}

var gpLayout = layout{
	what: "the Gaussian process", t: gpType,
	optional: fieldSet("n log_evidence iterations converged status n_skipped"),
	nullable: fieldSet("shape log_evidence"),
}

// isProcess says whether v is a Gaussian process, maybe with other types of numbers
// than bglm_gp gives, rather than a FIT.
func isProcess(v *capi.Vec) bool { return v.Field("beliefs") == nil && v.Field("kernel") != nil }

// gpReader reads a column of processes; equal ones of a call are decoded once.
type gpReader struct {
	v    *capi.Vec
	list decoded[*gp.Predictor]
}

func newGPReader(v *capi.Vec) (*gpReader, error) {
	if err := gpLayout.fit(v); err != nil {
		return nil, err
	}
	r := &gpReader{v: v}
	r.list.of(v, r.decode)
	return r, nil
}

func (r *gpReader) decode(i int) (*gp.Predictor, error) {
	p, err := r.posterior(i)
	if err != nil {
		return nil, fmt.Errorf("the Gaussian process: %w", err)
	}
	g, err := gp.NewPredictor(p, "")
	if err != nil {
		return nil, fmt.Errorf("the Gaussian process: %w", err)
	}
	return g, nil
}

func (r *gpReader) posterior(i int) (*gp.Posterior, error) {
	if name := gpLayout.null(r.v, i, ""); name != "" {
		return nil, fmt.Errorf("NULL for its field %s; allowed: %s", name, typeAt(gpType, name))
	}
	f := func(name string) *capi.Vec { return r.v.Field(name) }
	p := &gp.Posterior{Family: strings.Clone(f("family").Str(i)), Link: strings.Clone(f("link").Str(i)), Kernel: strings.Clone(f("kernel").Str(i)),
		Lengthscale: f("lengthscale").Float(i), SignalVariance: f("signal_variance").Float(i), Mean: f("mean").Float(i), Dispersion: f("dispersion").Float(i)}
	var err error
	if p.Shape, err = optional(f("shape"), i, "shape"); err != nil {
		return nil, err
	}
	if _, err = optional(f("log_evidence"), i, "log_evidence"); err != nil {
		return nil, err
	}
	if p.Alpha, err = numbers(f("alpha"), i, "alpha"); err != nil {
		return nil, err
	}
	if p.Root, err = numbers(f("root"), i, "root"); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		name string
		to   *int
	}{{"negative", &p.Negative}, {"n", &p.N}, {"iterations", &p.Iterations}, {"n_skipped", new(int)}} {
		k, err := count(f(c.name), i, c.name)
		if err != nil {
			return nil, err
		}
		if k < 0 || k > kernels.MaxCount {
			return nil, fmt.Errorf("%s = %d; allowed: whole numbers from 0 to %d", c.name, k, int64(kernels.MaxCount))
		}
		*c.to = int(k)
	}
	x := f("x")
	a, b := x.Span(i)
	p.X = &dense.Matrix{Rows: b - a}
	for k := a; k < b; k++ {
		if x.Kids[0].Null(k) {
			return nil, fmt.Errorf("x has a NULL row")
		}
		row, err := numbers(&x.Kids[0], k, "x")
		if err != nil {
			return nil, err
		}
		if k > a && len(row) != p.X.Cols {
			return nil, fmt.Errorf("x has rows of %d and of %d numbers", p.X.Cols, len(row))
		}
		p.X.Cols, p.X.Stride = len(row), len(row)
		p.X.Data = append(p.X.Data, row...)
	}
	return p, nil
}

// rows calls f with the latent Gaussian of each row; rows without process or x are NULL.
func (r *gpReader) rows(x *capi.Vec, n int, out *capi.Col, f func(i int, l lik.Likelihood, m, v float64) error) error {
	if err := checkPoints(x); err != nil {
		return err
	}
	var at []float64
	for i := range n {
		if r.v.Null(i) {
			out.Null()
			continue
		}
		g, err := r.list.at(i)
		if err != nil {
			return err
		}
		if x.Null(i) {
			out.Null()
			continue
		}
		if at, err = point(at[:0], x, i); err != nil {
			return err
		}
		m, v, err := g.Linear(at, 0)
		if err != nil {
			return err
		}
		if err := f(i, g.Lik, m, v); err != nil {
			return err
		}
	}
	return nil
}

func callPredictGP(args []capi.Vec, n int, out *capi.Col) error {
	how, err := newHow(args)
	if err != nil {
		return err
	}
	r, err := newGPReader(&args[0])
	if err != nil {
		return err
	}
	return r.rows(&args[1], n, out, func(i int, l lik.Likelihood, m, v float64) error { return how.write(i, l, m, v, out) })
}

func callPredictDistGP(args []capi.Vec, n int, out *capi.Col) error {
	level, err := newLevel(args)
	if err != nil {
		return err
	}
	r, err := newGPReader(&args[0])
	if err != nil {
		return err
	}
	return r.rows(&args[1], n, out, func(i int, l lik.Likelihood, m, v float64) error { return level.write(i, l, m, v, out) })
}
