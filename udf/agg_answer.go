package udf

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/answer"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/udf/internal/capi"
)

// sums is what an aggregate over rows of one FIT accumulates for a group; T is the type itself.
type sums[T any] interface {
	Clone() T
	Merge(o T)
	Size() int64
}

// sumState is the aggregate state of sums.
type sumState[T sums[T]] struct {
	of  T
	key uint64 // of the FIT
}

func (s *sumState[T]) Clone() capi.State { return &sumState[T]{s.of.Clone(), s.key} }
func (s *sumState[T]) Size() int64       { return s.of.Size() }

func (s *sumState[T]) Merge(src capi.State) error {
	o, ok := src.(*sumState[T])
	if !ok {
		return errMixedStates
	}
	if s.key != o.key {
		return errManyFits
	}
	s.of.Merge(o.of)
	return nil
}

var errManyFits = fmt.Errorf("the FIT differs between rows of one group; allowed: one FIT for each group (GROUP BY what names the fit)")

// keyed is a column of FITs of which a group must have only one.
type keyed struct {
	*fitReader
	keys decoded[uint64]
}

func newKeyed(v *capi.Vec, arg string) (*keyed, error) {
	r, err := newFitReader(v, arg)
	if err != nil {
		return nil, err
	}
	k := &keyed{fitReader: r}
	k.keys.of(v, k.hash)
	return k, nil
}

// hash is a number that two FITs share only if they are equal.
func (k *keyed) hash(i int) (uint64, error) {
	if k.null(i) {
		return 0, nil
	}
	f, err := k.head(i)
	if err != nil {
		return 0, err
	}
	h := kernels.HashName([]byte(f.Method + f.Family + f.Link))
	mix := func(x float64) { h = bits.RotateLeft64((h^math.Float64bits(x))*0x9E3779B97F4A7C15, 29) }
	for _, x := range [...]float64{f.Dispersion, f.Shape, f.LogEvidence, float64(f.N)} {
		mix(x)
	}
	for j, hi := k.beliefs.list.Span(i); j < hi; j++ {
		mix(k.beliefs.mean.Float(j))
		mix(k.beliefs.variance.Float(j))
	}
	return h, nil
}

// sumRows adds the rows of a call to the sums of their groups. fresh makes the sums of a group
// whose first row is i; feed adds rows [lo, hi), which have the same FITs. Rows with no FIT at all
// are left out; at returns the entry of FIT k for row i, -1 for none.
func sumRows[T sums[T]](fits []*keyed, at func(k, i int) int, slots capi.Slots, fresh func(i int) (T, error), feed func(t T, lo, hi int) error) error {
	key := func(i int) (h uint64, null bool, err error) {
		null = true
		for k, f := range fits {
			x := uint64(0)
			if j := at(k, i); j >= 0 && !f.null(j) {
				null = false
				if x, err = f.keys.at(j); err != nil {
					return 0, false, err
				}
			}
			h = h*0x100000001B3 ^ x
		}
		return h, null, nil
	}
	return slots.Runs(func(slot capi.Slot, lo, hi int) error {
		for lo < hi {
			h, null, err := key(lo)
			if err != nil {
				return err
			}
			end := lo + 1
			for ; end < hi; end++ {
				if g, none, err := key(end); err != nil || g != h || none != null {
					break
				}
			}
			if !null {
				st, err := slot.Mutable(func() (capi.State, error) {
					t, err := fresh(lo)
					return &sumState[T]{t, h}, err
				})
				if err != nil {
					return err
				}
				s := st.(*sumState[T])
				if s.key != h {
					return errManyFits
				}
				if err := feed(s.of, lo, end); err != nil {
					return err
				}
			}
			lo = end
		}
		return nil
	})
}

// underOne is sumRows with one FIT of one response, given as the first argument.
func underOne[T sums[T]](args []capi.Vec, slots capi.Slots, fresh func(f *kernels.Fit, i int) (T, error), feed func(t T, lo, hi int) error) error {
	return underAny(args, slots, false, fresh, feed)
}

// underAny is underOne; with classes set it also accepts a FIT with classes.
func underAny[T sums[T]](args []capi.Vec, slots capi.Slots, classes bool, fresh func(f *kernels.Fit, i int) (T, error), feed func(t T, lo, hi int) error) error {
	fits, err := newKeyed(&args[0], "fit")
	if err != nil {
		return err
	}
	fits.classes = classes
	return sumRows([]*keyed{fits}, func(_, i int) int { return i }, slots, func(i int) (none T, err error) {
		f, err := fits.whole(i)
		if err != nil {
			return none, err
		}
		return fresh(f, i)
	}, feed)
}

// rowOptions checks the options of a function whose options all vary by row; nil stands for none.
func rowOptions(args []capi.Vec, k int, function string) (*capi.Vec, error) {
	if len(args) <= k {
		return nil, nil
	}
	v := &args[k]
	if v.Type != capi.Struct && v.Type != capi.SQLNull {
		return nil, fmt.Errorf("options are %s; allowed: a STRUCT such as {\"offset\": ln(exposure)}", v.TypeName())
	}
	for j := range v.Kids {
		if _, err := option.For(function).Find(v.Kids[j].Name); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// scoredRows is the source of columns y and x of rows scored under a fit; y may be nil.
func scoredRows(y, x, options *capi.Vec) (*rows.Source, error) {
	f, err := planScoring(x, "x")
	if err != nil {
		return nil, err
	}
	if y == nil {
		src, err := source(x, f, options, "option")
		if err == nil {
			src.Y = nil
		}
		return src, err
	}
	if err := checkResponse(y); err != nil {
		return nil, err
	}
	return source(y, f, options, "option")
}

// checkTrials returns an error if trials are given and none of the likelihoods uses them, or if they
// are not and one needs them.
func checkTrials(src *rows.Source, of ...lik.Likelihood) (err error) {
	given := src.Trials != nil
	for _, l := range of {
		if err = option.CheckTrials(l, given); (err == nil) == given {
			return err
		}
	}
	return err
}

// written is the finalizer of sums.
func written[T sums[T]](write func(t T, out *capi.Col) error) func([]capi.State, *capi.Col) error {
	return eachGroup(func(s *sumState[T], out *capi.Col) error { return write(s.of, out) })
}

var looFields = []capi.Field{fld("n", capi.TBigInt), fld("elpd_loo", capi.TDouble), fld("se_elpd_loo", capi.TDouble), fld("p_loo", capi.TDouble), fld("looic", capi.TDouble),
	fld("elpd_waic", capi.TDouble), fld("p_waic", capi.TDouble), fld("waic", capi.TDouble), fld("n_warned", capi.TBigInt), fld("n_failed", capi.TBigInt), fld("worst", capi.TDouble), fld("status", capi.TVarchar)}

var looType = capi.StructOf(looFields...)

func appendLOO(s *answer.LOOSummary, out *capi.Col, from int) {
	out.Field(from).Int(s.N)
	for k, x := range [...]float64{s.ELPD, s.SE, s.PLoo, s.LooIC, s.ELPDWaic, s.PWaic, s.Waic} {
		floatOrNull(out.Field(from+1+k), x)
	}
	out.Field(from + 8).Int(s.Warned)
	out.Field(from + 9).Int(s.Failed)
	out.Field(from + 10).Float(s.Worst)
	out.Field(from + 11).Str(s.Status)
}

// updateLeftOut adds rows, each left out of the fit it is under; of returns the scorer of the sums
// and the function that adds a batch to them.
func updateLeftOut[T sums[T]](args []capi.Vec, slots capi.Slots, fresh func(f *kernels.Fit, by predict.Factor) (T, error), of func(t T) (*predict.Scorer, func(context.Context, *kernels.Batch) error)) error {
	options, err := rowOptions(args, 3, "loo")
	if err != nil {
		return err
	}
	src, err := scoredRows(&args[1], &args[2], options)
	if err != nil {
		return err
	}
	defer src.X.Release()
	var b kernels.Batch
	return underOne(args, slots, func(f *kernels.Fit, _ int) (T, error) {
		t, err := fresh(f, engine.FactorOf(f.Method))
		if err != nil {
			return t, err
		}
		s, _ := of(t)
		return t, checkTrials(src, s.Lik)
	},
		func(t T, lo, hi int) error {
			s, add := of(t)
			if at, err := src.Score(s.Fit, s.Features(), lo, hi, &b); err != nil || len(at) == 0 {
				return err
			}
			return add(running(), &b)
		})
}

func updateLOO(args []capi.Vec, slots capi.Slots) error {
	return updateLeftOut(args, slots,
		func(f *kernels.Fit, by predict.Factor) (*answer.LOO, error) { return answer.NewLOO(f, by, false) },
		func(l *answer.LOO) (*predict.Scorer, func(context.Context, *kernels.Batch) error) {
			return l.Scorer, l.Add
		})
}

// writeLOO writes the leave-one-out sums of a group.
func writeLOO(l *answer.LOO, out *capi.Col) error {
	s := l.Summary()
	appendLOO(&s, out, 0)
	out.EndStruct()
	return nil
}

func updateLOOAUC(args []capi.Vec, slots capi.Slots) error {
	return updateLeftOut(args, slots, answer.NewPairAUC,
		func(a *answer.PairAUC) (*predict.Scorer, func(context.Context, *kernels.Batch) error) {
			return a.Scorer, a.Add
		})
}

func writeLOOAUC(a *answer.PairAUC, out *capi.Col) error {
	x, err := a.Value(running())
	if err == nil {
		floatOrNull(out, x)
	}
	return err
}

// rivals are the fits compared on the same rows, with their places among the fits given, some of
// which may be NULL.
type rivals struct {
	names  []string
	fits   []*answer.LOO
	places []int
}

func (r *rivals) Clone() *rivals {
	c := &rivals{names: r.names, places: r.places}
	for _, l := range r.fits {
		c.fits = append(c.fits, l.Clone())
	}
	return c
}

func (r *rivals) Merge(o *rivals) {
	for k, l := range r.fits {
		l.Merge(o.fits[k])
	}
}

func (r *rivals) Size() (n int64) {
	for _, l := range r.fits {
		n += l.Size()
	}
	return n
}

var compareType = capi.ListOf(capi.StructOf(append(append([]capi.Field{fld("name", capi.TVarchar)}, looFields...),
	fld("elpd_diff", capi.TDouble), fld("se_diff", capi.TDouble), fld("weight", capi.TDouble), fld("log_evidence", capi.TDouble))...))

// readRivals reads the FITs of a STRUCT, or of a MAP by name: one column for each, and the function
// that finds the entry for row i in it.
func readRivals(v *capi.Vec) (names []string, fits []*keyed, at func(k, i int) int, err error) {
	bad := fmt.Errorf("fits are %s; allowed: a STRUCT of FITs by name, such as {small: a, large: b}, or MAP(VARCHAR, FIT)", v.TypeName())
	switch {
	case v.Type == capi.SQLNull:
		return nil, nil, nil, nil
	case v.Type == capi.Struct && v.Field("beliefs") == nil:
		for k := range v.Kids {
			f, err := newKeyed(&v.Kids[k], "the FIT "+v.Kids[k].Name)
			if err != nil {
				return nil, nil, nil, err
			}
			names, fits = append(names, strings.Clone(v.Kids[k].Name)), append(fits, f)
		}
		return names, fits, func(_, i int) int {
			if v.Null(i) {
				return -1
			}
			return i
		}, nil
	case v.Type != capi.Map || len(v.Kids[0].Kids) != 2 || v.Kids[0].Kids[0].Type != capi.Varchar:
		return nil, nil, nil, bad
	}
	first := -1 // a MAP has one list of names for all rows of a call
	for i := range v.Len {
		if !v.Null(i) {
			first = i
			break
		}
	}
	if first < 0 {
		return nil, nil, nil, nil
	}
	lo, hi := v.Span(first)
	for j := lo; j < hi; j++ {
		names = append(names, strings.Clone(v.Kids[0].Kids[0].Str(j)))
	}
	for i := range v.Len {
		if v.Null(i) {
			continue
		}
		a, z := v.Span(i)
		same := z-a == len(names)
		for k := 0; same && k < len(names); k++ {
			same = v.Kids[0].Kids[0].Str(a+k) == names[k]
		}
		if !same {
			return nil, nil, nil, fmt.Errorf("fits have other names in some rows; allowed: the same fits for all rows")
		}
	}
	all, err := newKeyed(&v.Kids[0].Kids[1], "fits")
	if err != nil {
		return nil, nil, nil, err
	}
	for range names {
		fits = append(fits, all)
	}
	return names, fits, func(k, i int) int {
		if v.Null(i) {
			return -1
		}
		a, _ := v.Span(i)
		return a + k
	}, nil
}

// xOf is the x of FIT k: the same for all, or the field of its name where x is a STRUCT with an x
// for each.
func xOf(x *capi.Vec, names []string, k int) *capi.Vec {
	if x.Type != capi.Struct || len(x.Kids) != len(names) {
		return x
	}
	for _, name := range names {
		f := x.Field(name)
		if f == nil {
			return x
		}
		switch f.Type {
		case capi.Struct, capi.Map, capi.List, capi.Array:
		default:
			return x
		}
	}
	return x.Field(names[k])
}

func updateCompare(args []capi.Vec, slots capi.Slots) error {
	options, err := rowOptions(args, 3, "loo_compare")
	if err != nil {
		return err
	}
	names, fits, at, err := readRivals(&args[0])
	if err != nil || fits == nil {
		return err
	}
	if len(fits) == 0 {
		return fmt.Errorf("fits are empty; allowed: one FIT and more")
	}
	src := make([]*rows.Source, len(fits))
	for k := range fits {
		if src[k], err = scoredRows(&args[1], xOf(&args[2], names, k), options); err != nil {
			return err
		}
		defer src[k].X.Release()
	}
	var b kernels.Batch
	return sumRows(fits, at, slots, func(i int) (*rivals, error) {
		r := &rivals{}
		for k, f := range fits {
			j := at(k, i)
			if j < 0 || f.null(j) {
				continue
			}
			fit, err := f.whole(j)
			if err != nil {
				return nil, err
			}
			l, err := answer.NewLOO(fit, engine.FactorOf(fit.Method), true)
			if err != nil {
				return nil, err
			}
			r.names, r.fits, r.places = append(r.names, names[k]), append(r.fits, l), append(r.places, k)
		}
		var of []lik.Likelihood // a fit that uses trials may be compared with others of the same responses
		for _, l := range r.fits {
			of = append(of, l.Lik)
		}
		return r, checkTrials(src[0], of...)
	}, func(r *rivals, lo, hi int) error {
		for k, l := range r.fits {
			if at, err := src[r.places[k]].Score(l.Fit, l.Features(), lo, hi, &b); err != nil || len(at) == 0 {
				return err
			}
			if err := l.Add(running(), &b); err != nil {
				return fmt.Errorf("the FIT %s: %w", r.names[k], err)
			}
		}
		return nil
	})
}

func writeCompare(r *rivals, out *capi.Col) error {
	all, err := answer.Compare(r.names, r.fits)
	if err != nil {
		return err
	}
	e := out.Elem()
	for k := range all {
		c := &all[k]
		e.Field(0).Str(c.Name)
		appendLOO(&c.LOOSummary, e, 1)
		for j, x := range [...]float64{c.Diff, c.SEDiff, c.Weight, c.LogEvidence} {
			floatOrNull(e.Field(1+len(looFields)+j), x)
		}
		e.EndStruct()
	}
	out.EndList()
	return nil
}
