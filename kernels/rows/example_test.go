package rows_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/rows"
)

// Columns become numbered features.
func ExampleEncoder() {
	x := rows.Fields(rows.Texts("site", []string{"a", "b"}), rows.Numbers("hour", []float64{1.5, 2}))
	e, err := rows.NewEncoder(x, "x", rows.Words{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var d kernels.Dict
	var b kernels.Batch
	b.Reset()
	if err := e.Append(0, x.Len(), &d, false, nil, &b); err != nil {
		fmt.Println(err)
		return
	}
	for i := range b.Len() {
		ids, values := b.Entries(i)
		for k, id := range ids {
			fmt.Printf("row %d: %s = %v\n", i, d.Name(id), values[k])
		}
	}
	// Output:
	// row 0: site=a = 1
	// row 0: hour = 1.5
	// row 1: site=b = 1
	// row 1: hour = 2
}
