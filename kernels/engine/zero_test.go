package engine_test

import (
	"reflect"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/score"
	"github.com/bglm/bglm/kernels/stop"
)

// Methods of zero values that take nothing do not panic. Not here are what only functions
// make of something: problems, classes, scorers, predictors, states, roots, results.
func TestZeroMethods(t *testing.T) {
	for _, x := range []any{
		new(kernels.Model), new(kernels.Batch), new(kernels.Dict), new(kernels.Fit), new(kernels.Prior), new(kernels.Rows), new(kernels.Covariance), new(kernels.Text),
		new(kernels.Scratch), new(kernels.Columns), new(kernels.Options),
		new(dense.Matrix), new(design.Columns), new(design.Scaling), new(gauss.Normal), new(lik.Tilted), new(lik.Learning), new(memory.Grant), new(stop.Stop),
		new(option.Settings), new(option.Spec), new(rows.Table), new(rows.Slice), new(rows.Source), new(rows.Encoder), new(predict.Names),
		new(gp.Posterior), new(score.Snapshot), new(score.Updater), new(engine.Method),
	} {
		v := reflect.ValueOf(x)
		for i := range v.NumMethod() {
			if f := v.Method(i); f.Type().NumIn() == 0 {
				func() {
					defer func() {
						if p := recover(); p != nil {
							t.Errorf("%T.%s: %v", x, v.Type().Method(i).Name, p)
						}
					}()
					f.Call(nil)
				}()
			}
		}
	}
}
