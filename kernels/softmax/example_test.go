package softmax_test

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/softmax"
)

// Three classes of one number, and the probabilities of each at a new one.
func Example() {
	r, err := kernels.NewLabelledRows(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var b kernels.Batch
	for i, x := range []float64{-2, -1, 0, 1, 2, 3} {
		id, _ := r.Dict.Add("x")
		b.Add(0, 1) // the intercept
		b.Add(id, x)
		b.EndRow()
		b.Y = append(b.Y, float64(i/2))
	}
	if err := r.Update(&b, false); err != nil {
		fmt.Println(err)
		return
	}
	p, err := r.Problem()
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := softmax.Fit(context.Background(), p, []string{"low", "middle", "high"})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := softmax.NewScorer(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	row, _ := s.Row([]string{"x"}, []float64{3}, 0)
	var prob [3]float64
	if err := s.Predict(prob[:], row, 0, predict.Exact); err != nil {
		fmt.Println(err)
		return
	}
	for k, class := range f.Classes {
		fmt.Printf("%-6s  %.3f\n", class, prob[k])
	}
	// Output:
	// low     0.065
	// middle  0.239
	// high    0.697
}
