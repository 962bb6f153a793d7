package udf

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/softmax"
	"github.com/bglm/bglm/udf/internal/capi"
)

// classProbs is what bglm_predict gives for a fit with classes.
var classProbs = capi.MapOf(capi.TVarchar, capi.TDouble)

// callPredictClasses predicts with a softmax fit; equal ones of a call are decoded once.
func callPredictClasses(args []capi.Vec, n int, out *capi.Col) error {
	fits, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	fits.classes = true
	x, err := planScoring(&args[1], "x")
	if err != nil {
		return err
	}
	how, err := newHow(args)
	if err != nil {
		return err
	}
	var scorers decoded[*softmax.Scorer]
	scorers.of(&args[0], func(i int) (*softmax.Scorer, error) {
		f, err := fits.whole(i)
		if err != nil {
			return nil, err
		}
		s, err := softmax.NewScorer(f)
		if err != nil {
			return nil, fmt.Errorf("the FIT: %w", err)
		}
		return s, nil
	})
	var b kernels.Batch
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
		s, err := scorers.at(i)
		if err != nil {
			return err
		}
		if len(probs) != len(s.Fit.Classes) {
			probs = make([]float64, len(s.Fit.Classes))
		}
		if _, err := x.Score(s.Fit); err != nil {
			return err
		}
		b.Reset()
		if s.Fit.Intercept {
			id, err := s.Features().AddRaw(kernels.Intercept)
			if err != nil {
				return err
			}
			b.Add(id, 1)
		}
		if err := x.row(i, s.Features(), &b); err != nil {
			return err
		}
		if err := s.Predict(probs, &b, 0, kind); err != nil {
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
