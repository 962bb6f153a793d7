package score_test

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/score"
)

// A snapshot of a belief table serves any number of goroutines.
func Example() {
	s, err := score.FromBeliefs([]kernels.Belief{
		{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: -1, Variance: 0.1}},
		{Feature: "site=a", Weight: kernels.Weight{Mean: 2, Variance: 0.3}}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := s.Predict(score.Row{Names: []string{"site=a", "site=new"}}, predict.Exact)
	fmt.Printf("%.3f %v\n", p, err)
	// Output:
	// 0.687 <nil>
}

// An updater learns while readers score its latest snapshot.
func ExampleUpdater() {
	u, err := score.NewUpdater(nil, score.Publishing{Rows: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	red := score.Row{Names: []string{"ad=red"}}
	for range 4 {
		p, _ := u.Snapshot().Predict(red, predict.Exact)
		fmt.Printf("%.3f\n", p)
		if err := u.Learn(context.Background(), score.Observation{Row: red, Y: 1}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 0.500
	// 0.500
	// 0.865
	// 0.865
}
