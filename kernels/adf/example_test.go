package adf_test

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
)

// Rows are learnt as they come; each prediction is made before its row.
func Example() {
	s, err := adf.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var mean, variance [1]float64
	for i, ad := range []string{"red", "blue", "red", "red"} {
		var b kernels.Batch
		id, _ := s.Features().Add("ad=" + ad)
		b.Add(0, 1) // the intercept
		b.Add(id, 1)
		b.EndRow()
		if err := s.Linear(&b, mean[:], variance[:]); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-4s  log odds N(%.3f, %.3f)\n", ad, mean[0], variance[0])
		b.Y = []float64{float64(i % 2)}
		if err := s.Update(context.Background(), &b, false); err != nil {
			fmt.Println(err)
			return
		}
	}
	f, err := s.Fit(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d rows, log evidence %.3f\n", f.N, f.LogEvidence)
	// Output:
	// red   log odds N(0.000, 11.000)
	// blue  log odds N(-2.125, 6.484)
	// red   log odds N(-0.071, 4.130)
	// red   log odds N(-1.284, 3.149)
	// 4 rows, log evidence -3.968
}
