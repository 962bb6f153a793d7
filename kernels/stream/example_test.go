package stream_test

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/stream"
)

// Two states that saw a part of the rows each become one.
func ExampleState_Merge() {
	ctx := context.Background()
	m := &kernels.Model{NoIntercept: true} // of both
	a, err := adf.New(m)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := a.Clone()
	for y, s := range []*stream.State{a, b} {
		id, _ := s.Features().Add("x")
		rows := kernels.Batch{Y: []float64{float64(y)}}
		rows.Add(id, 2)
		rows.EndRow()
		if err := s.Update(ctx, &rows, false); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := a.Merge(ctx, b); err != nil {
		fmt.Println(err)
		return
	}
	f, err := a.Fit(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d rows, variance %.3f\n", f.N, f.Beliefs[0].Variance)
	// Output:
	// 2 rows, variance 0.463
}
