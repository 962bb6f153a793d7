package special_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels/special"
)

// The normal tail far out, where its probability is below every number.
func ExampleLogPhi() {
	fmt.Printf("%.6f %.6f %.3e\n", special.LogPhi(0), special.LogPhi(-40), special.Phi(-40))
	// Output:
	// -0.693147 -804.608442 0.000e+00
}
