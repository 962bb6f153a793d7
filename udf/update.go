package udf

import (
	"fmt"
	"iter"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/udf/internal/capi"
)

// continuing is the method that continues a fit of another method: the same if it is a filter, else
// adf.
func continuing(method string) *engine.Method {
	m, err := engine.Find(method)
	if err != nil || !m.Streams {
		m, _ = engine.Find("adf")
	}
	return m
}

// callUpdate continues a FIT with a list of rows, in the list's order.
func callUpdate(args []capi.Vec, n int, out *capi.Col) error {
	fits, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	list := &args[1]
	src, x, err := updateRows(list)
	if err != nil {
		return err
	}
	var opt *capi.Vec
	if len(args) > 2 {
		opt = &args[2]
		if err := checkOptions(opt, "{process_noise: 0.001}"); err != nil {
			return err
		}
	}
	w := fitsWriter{out: out}
	defer w.flush()
	for i := range n {
		if fits.null(i) {
			w.null()
			continue
		}
		from, err := fits.whole(i)
		if err != nil {
			return err
		}
		s, err := resumed(from, constants(opt, i, false), src, x == nil)
		if err != nil {
			return err
		}
		if list.Type != capi.SQLNull && !list.Null(i) {
			if err := s.absorbList(list, i, src, x == nil); err != nil {
				return err
			}
		}
		if s.failed {
			w.null()
			continue
		}
		if e, ok := s.Fitter.(engine.Factorised); ok {
			if err := w.factorised(e); err != nil {
				return err
			}
			continue
		}
		f, err := hinted(s.Fit(running()))
		if err != nil {
			return err
		}
		if err := w.result(s.plan, f); err != nil {
			return err
		}
	}
	return nil
}

// updateRows is the source of the rows in a list; x is nil if the list has only NULLs.
func updateRows(list *capi.Vec) (src *rows.Source, x *features, err error) {
	if list.Type == capi.SQLNull {
		return &rows.Source{}, nil, nil
	}
	bad := func(why string) (*rows.Source, *features, error) {
		return nil, nil, fmt.Errorf("rows are %s%s; allowed: LIST(STRUCT(y, x [, weight, offset, trials, time]))", list.TypeName(), why)
	}
	if list.Type != capi.List && list.Type != capi.Array {
		return bad("")
	}
	row := &list.Kids[0]
	if row.Type == capi.SQLNull {
		return &rows.Source{}, nil, nil
	}
	if row.Type != capi.Struct {
		return bad("")
	}
	var y *capi.Vec
	for k := range row.Kids {
		switch option.Canonical(row.Kids[k].Name) {
		case "y":
			y = &row.Kids[k]
		case "x":
			if x, err = planFeatures(&row.Kids[k], "x"); err != nil {
				return nil, nil, err
			}
		case "weight", "offset", "trials", "time":
		default:
			return bad(fmt.Sprintf("; it has a field %q", row.Kids[k].Name))
		}
	}
	if y == nil || x == nil {
		return bad("; y and x are needed")
	}
	if err := checkResponse(y); err != nil {
		return nil, nil, err
	}
	src, err = source(y, x, row, "rows: field")
	return src, x, err
}

// resumed is the state that continues a fit; none says that no row has features.
func resumed(from *kernels.Fit, opt iter.Seq2[string, option.Source], src *rows.Source, none bool) (*fitState, error) {
	method := continuing(from.Method)
	o, err := option.For(method.Name).Continuing().Decode(opt)
	if err != nil {
		return nil, err
	}
	if err := o.Continue(from); err != nil {
		return nil, err
	}
	plan, err := newFitPlan(method, o, src.Time != nil, src.Trials != nil || none && o.Lik != nil && o.Lik.Traits().Trials)
	if err != nil {
		return nil, err
	}
	s, err := newFitState(plan)
	if err != nil {
		return nil, err
	}
	return s, s.materialize()
}

// absorbList absorbs the rows of list i; a NULL row counts as skipped, as a NULL y does.
func (s *fitState) absorbList(list *capi.Vec, i int, src *rows.Source, none bool) error {
	lo, hi := list.Span(i)
	if none {
		s.Skip(int64(hi - lo))
		return nil
	}
	entry := &list.Kids[0]
	for at := lo; at < hi; {
		end := at
		for end < hi && !entry.Null(end) {
			end++
		}
		if err := s.absorb(src, at, end); err != nil {
			return err
		}
		for at = end; at < hi && entry.Null(at); at++ {
			s.Skip(1)
		}
	}
	return nil
}

var beliefsType = capi.ListOf(beliefType)

func callBeliefs(args []capi.Vec, n int, out *capi.Col) error {
	return listBeliefs(args, n, out, false)
}

func callBeliefsClasses(args []capi.Vec, n int, out *capi.Col) error {
	return listBeliefs(args, n, out, true)
}

func listBeliefs(args []capi.Vec, n int, out *capi.Col, classes bool) error {
	fits, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	fits.classes = classes
	var valid decoded[struct{}] // validates the FIT; whole also checks its classes
	valid.of(&args[0], func(i int) (none struct{}, err error) {
		if classes {
			_, err = fits.whole(i)
		} else {
			_, err = fits.head(i)
		}
		return none, err
	})
	for i := range n {
		if fits.null(i) {
			out.Null()
			continue
		}
		if _, err := valid.at(i); err != nil {
			return err
		}
		r := fits.beliefs
		for j, hi := r.list.Span(i); j < hi; j++ {
			name, w, err := r.at(j)
			if err != nil {
				return err
			}
			e := out.Elem()
			e.Field(0).Str(name)
			e.Field(1).Float(w.Mean)
			e.Field(2).Float(w.Variance)
			if classes {
				e.Field(3).Str(r.class.Str(j))
			}
			e.EndStruct()
		}
		out.EndList()
	}
	return nil
}

// checkOptions returns an error if the type of v cannot be options, such as example.
func checkOptions(v *capi.Vec, example string) error {
	if v != nil && v.Type != capi.Struct && v.Type != capi.SQLNull {
		return fmt.Errorf("options are %s; allowed: a STRUCT such as %s", v.TypeName(), example)
	}
	return nil
}

var exampleOptions = map[string]string{"newton_state": "{link: 'probit'}, that of bglm_newton_state", "from_beliefs": "{link: 'probit'}", "features": "{missing: 'absent'}"}

// optionsAt are the options at row i of a scalar function that has an example of them.
func optionsAt(use string, opt *capi.Vec, i int) (*option.Settings, error) {
	if err := checkOptions(opt, exampleOptions[use]); err != nil {
		return nil, err
	}
	o, err := option.For(use).Decode(constants(opt, i, false))
	if err == nil && use == "from_beliefs" && (len(o.PriorBy) > 0 || o.Options.AutoPrior) {
		return nil, &argument.Error{Name: "prior_variance", Why: "is that of all features without a belief here, as nothing is learnt", Allowed: "a finite number >= 0; give single features as beliefs"}
	}
	return o, err
}

// callFromBeliefs makes a FIT with n = 0 from a list of beliefs.
func callFromBeliefs(args []capi.Vec, n int, out *capi.Col) error {
	var opt *capi.Vec
	if len(args) > 1 {
		opt = &args[1]
	}
	if err := checkOptions(opt, exampleOptions["from_beliefs"]); err != nil {
		return err
	}
	if _, err := newBeliefReader(&args[0]); err != nil {
		return err
	}
	for i := range n {
		if args[0].Null(i) {
			out.Null()
			continue
		}
		bs, err := readBeliefs(&args[0], i)
		if err != nil {
			return err
		}
		o, err := optionsAt("from_beliefs", opt, i)
		if err != nil {
			return err
		}
		if err := o.Likelihood(); err != nil {
			return err
		}
		f, err := kernels.FromBeliefs(bs, &kernels.Model{Lik: o.Lik, Prior: o.Prior, NoIntercept: o.NoIntercept, HashBits: o.HashBits})
		if err != nil {
			return err
		}
		if o.Given("covariance") {
			if err := setCovariance(f, bs, o.Matrix); err != nil {
				return err
			}
		}
		appendFit(out, f, f.Each)
	}
	return nil
}

// setCovariance sets the covariance matrix of f, whose features are in the order of the list bs of
// its beliefs.
func setCovariance(f *kernels.Fit, bs []kernels.Belief, cov [][]float64) error {
	bad := func(found any) error {
		return fmt.Errorf("option covariance: found %v; allowed: DOUBLE[][] of %d x %d, symmetric and positive definite, in the order of the beliefs", found, len(bs), len(bs))
	}
	if len(cov) != len(bs) {
		return bad(fmt.Sprintf("%d rows", len(cov)))
	}
	for j, row := range cov {
		if len(row) != len(bs) {
			return bad(fmt.Sprintf("a row %d of %d numbers", j+1, len(row)))
		}
	}
	if err := f.SetCovariance(bs, cov); err != nil {
		return bad(err)
	}
	for j, b := range bs {
		if v := cov[j][j]; math.Abs(b.Variance-v) > 1e-6*v {
			f.AddStatus(fmt.Sprintf("the list has the variance %v for \"%.100s\", the option covariance %v, which was taken", b.Variance, b.Feature, v))
			break
		}
	}
	return nil
}

var pairsType = capi.ListOf(capi.StructOf(fld("feature", capi.TVarchar), fld("value", capi.TDouble)))

func callFeatures(args []capi.Vec, n int, out *capi.Col) error {
	x, err := planFeatures(&args[0], "x")
	if err != nil {
		return err
	}
	var opt *capi.Vec
	if len(args) > 1 {
		opt = &args[1]
		if err := checkOptions(opt, exampleOptions["features"]); err != nil {
			return err
		}
	}
	var d kernels.Dict
	var b kernels.Batch
	for i := range n {
		if args[0].Null(i) {
			out.Null()
			continue
		}
		o, err := optionsAt("features", opt, i)
		if err != nil {
			return err
		}
		if err := x.Show(kernels.Or(o.Options.Missing, "indicator")); err != nil {
			return err
		}
		if x.Null(i) {
			out.Null()
			continue
		}
		b.Reset()
		if err := x.row(i, &d, &b); err != nil {
			return err
		}
		e := out.Elem()
		for k, id := range b.Feature {
			if b.Value[k] != b.Value[k] { // missing: the column's mean is used
				continue
			}
			e.Field(0).Bytes(d.Name(id))
			e.Field(1).Float(b.Value[k])
			e.EndStruct()
		}
		out.EndList()
	}
	return nil
}
