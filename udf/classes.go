package udf

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/softmax"
	"github.com/bglm/bglm/udf/internal/capi"
)

// classProbs is what bglm_predict returns for a fit with classes.
var classProbs = capi.MapOf(capi.TVarchar, capi.TDouble)

// classScorers are the softmax fits of a call; equal ones are decoded once.
type classScorers struct {
	*fitReader
	scorers decoded[*softmax.Scorer]
	b       kernels.Batch
}

func newClassScorers(v *capi.Vec) (*classScorers, error) {
	r, err := newFitReader(v, "fit")
	if err != nil {
		return nil, err
	}
	r.classes = true
	c := &classScorers{fitReader: r}
	c.scorers.of(v, func(i int) (*softmax.Scorer, error) {
		f, err := r.whole(i)
		if err != nil {
			return nil, err
		}
		s, err := softmax.NewScorer(f)
		if err != nil {
			return nil, fmt.Errorf("the FIT: %w", err)
		}
		return s, nil
	})
	return c, nil
}

// rows encodes row i of each x as a batch under the fit of row i; the scorer is nil if one of them
// has a container that is NULL.
func (c *classScorers) rows(i int, xs ...*features) (*softmax.Scorer, error) {
	if err := interruptCause(i); err != nil {
		return nil, err
	}
	s, err := c.scorers.at(i)
	if err != nil {
		return nil, err
	}
	c.b.Reset()
	for _, x := range xs {
		if _, err := x.Score(s.Fit); err != nil {
			return nil, err
		}
		if x.Null(i) {
			return nil, nil
		}
		if s.Fit.Intercept {
			id, err := s.Features().AddRaw(kernels.Intercept)
			if err != nil {
				return nil, err
			}
			c.b.Add(id, 1)
		}
		if err := x.row(i, s.Features(), &c.b); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// callPredictClasses predicts the class probabilities of a softmax fit.
func callPredictClasses(args []capi.Vec, n int, out *capi.Col) error {
	fits, err := newClassScorers(&args[0])
	if err != nil {
		return err
	}
	x, err := planScoring(&args[1], "x")
	if err != nil {
		return err
	}
	how, err := newHow(args)
	if err != nil {
		return err
	}
	var probs []float64
	for i := range n {
		if fits.null(i) || args[1].Null(i) {
			out.Null()
			continue
		}
		kind, err := how.kind(i)
		if err != nil {
			return err
		}
		s, err := fits.rows(i, x)
		if err != nil {
			return err
		}
		if s == nil {
			out.Null()
			continue
		}
		if len(probs) != len(s.Fit.Classes) {
			probs = make([]float64, len(s.Fit.Classes))
		}
		if err := s.Predict(probs, &fits.b, 0, kind); err != nil {
			return err
		}
		for k, p := range probs {
			out.Elem().Field(0).Str(s.Fit.Classes[k])
			out.Elem().Field(1).Float(p)
			out.Elem().EndStruct()
		}
		out.EndList()
	}
	return nil
}

var (
	classContrast = []capi.Field{fld("class", capi.TVarchar), fld("mean", capi.TDouble), fld("sd", capi.TDouble), fld("lower", capi.TDouble), fld("upper", capi.TDouble), fld("p_positive", capi.TDouble),
		fld("response", capi.StructOf(fld("mean", capi.TDouble), fld("sd", capi.TDouble), fld("lower", capi.TDouble), fld("upper", capi.TDouble), fld("p_positive", capi.TDouble)))}
	classContrasts = capi.ListOf(capi.StructOf(classContrast...))
	classPairs     = capi.ListOf(capi.StructOf(append([]capi.Field{fld("a", capi.TVarchar), fld("b", capi.TVarchar)}, classContrast...)...))
)

// callContrastClasses contrasts two rows in each class.
func callContrastClasses(args []capi.Vec, n int, out *capi.Col) error {
	fits, err := newClassScorers(&args[0])
	if err != nil {
		return err
	}
	a, err := planScoring(&args[1], "a")
	if err != nil {
		return err
	}
	defer a.Release()
	b, err := planScoring(&args[2], "b")
	if err != nil {
		return err
	}
	defer b.Release()
	level, err := levelArgument(args, 3)
	if err != nil {
		return err
	}
	for i := range n {
		if fits.null(i) || args[1].Null(i) || args[2].Null(i) {
			out.Null()
			continue
		}
		s, err := fits.rows(i, a, b)
		if err != nil {
			return err
		}
		if s == nil {
			out.Null()
			continue
		}
		all, err := s.Contrasts(&fits.b, 0, 1, level.at(i))
		if err != nil {
			return err
		}
		e := out.Elem()
		for k := range all {
			appendClassContrast(&all[k], e, 0)
		}
		out.EndList()
	}
	return nil
}

// appendClassContrast writes classContrast, the first field as field from, and ends the STRUCT.
func appendClassContrast(c *softmax.Contrast, out *capi.Col, from int) {
	out.Field(from).Str(c.Class)
	for k, v := range [...]float64{c.Mean, c.SD, c.Lower, c.Upper, c.Positive} {
		out.Field(from + 1 + k).Float(v)
	}
	r := out.Field(from + 6)
	for k, v := range [...]float64{c.Response.Mean, c.Response.SD, c.Response.Lower, c.Response.Upper, c.ResponsePositive} {
		r.Field(k).Float(v)
	}
	r.EndStruct()
	out.EndStruct()
}

// callPairsClasses contrasts the levels of a column in each class.
func callPairsClasses(args []capi.Vec, n int, out *capi.Col) error { return pairs(args, n, out, true) }
