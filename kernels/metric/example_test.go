package metric_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels/metric"
)

// Two parts of the rows, measured as one.
func ExampleNumber() {
	a, b := metric.AUC(), metric.AUC()
	a.Add([]float64{1, 0.8}, 1) // observed, predicted
	a.Add([]float64{0, 0.3}, 1)
	b.Add([]float64{0, 0.9}, 1)
	b.Add([]float64{1, 0.6}, 1)
	if err := a.Merge(b); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Value())
	// Output:
	// 0.5
}
