package engine_test

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
)

// A fit and a prediction without a database.
func Example() {
	s := option.Defaults()
	s.Standardize = kernels.Given(false) // the prior is of a weight per hour
	fit, err := engine.Fit(context.Background(), "laplace", s, &rows.Table{
		X: rows.Fields(rows.Texts("site", []string{"a", "b", "a", "b", "a"}), rows.Numbers("hour", []float64{1, 2, 3, 4, 5})),
		Y: rows.Bools("click", []bool{false, true, false, true, true})})
	if err != nil {
		fmt.Println(err)
		return
	}
	scorer, _ := predict.New(fit.Fit)
	row, _ := scorer.Row([]string{"site=a", "hour"}, []float64{1, 6}, 0)
	p, err := scorer.Predict(row, 0, predict.Exact)
	fmt.Printf("%.3f %v\n", p, err)
	// Output:
	// 0.742 <nil>
}

// The methods and what their rows come to.
func ExampleNames() {
	fmt.Println(engine.Names(engine.Classes), engine.Names(engine.Paths), engine.Names(engine.Process))
	// Output:
	// [softmax] [smooth] [gp]
}
