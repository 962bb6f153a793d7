package fitlayout_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels/fitlayout"
)

// The first fields of a FIT.
func Example() {
	for _, f := range fitlayout.Fields[:3] {
		fmt.Println(f.Name)
	}
	// Output:
	// method
	// family
	// link
}
