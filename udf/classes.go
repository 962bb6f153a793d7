package udf

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/softmax"
	"github.com/bglm/bglm/udf/internal/capi"
)

// classProbs is what bglm_predict gives for a fit with classes.
var classProbs = capi.MapOf(capi.TVarchar, capi.TDouble)

// callPredictClasses predicts with a softmax fit; one that spans many rows is decoded
// once.
func callPredictClasses(args []capi.Vec, n int, out *capi.Col) error {
	fits, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	fits.classes = true
	x, err := planFeatures(&args[1], "x")
	if err != nil {
		return err
	}
	how, err := newHow(args)
	if err != nil {
		return err
	}
	var s *softmax.Scorer
	var b kernels.Batch
	var probs []float64
	last := [2]int{-1, -1}
	for i := range n {
		if fits.null(i) || args[1].Null(i) {
			out.Null()
			continue
		}
		kind, err := how.kind(i)
		if err != nil {
			return err
		}
		lo, hi := fits.beliefs.list.Span(i)
		if s == nil || last != [2]int{lo, hi} {
			f, err := fits.whole(i)
			if err != nil {
				return err
			}
			if s, err = softmax.NewScorer(f); err != nil {
				return fmt.Errorf("the FIT: %w", err)
			}
			last = [2]int{lo, hi}
			probs = make([]float64, len(f.Classes))
			if x, err = planFeatures(&args[1], "x"); err != nil { // it remembers numbers of a dictionary
				return err
			}
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
