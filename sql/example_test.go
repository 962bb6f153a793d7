package sqlfiles_test

import (
	"fmt"
	"strings"

	sqlfiles "github.com/bglm/bglm/sql"
)

// The macros are one script.
func Example() {
	for line := range strings.Lines(sqlfiles.Macros) {
		if name, ok := strings.CutPrefix(line, "CREATE OR REPLACE MACRO "); ok {
			fmt.Println(name[:strings.IndexByte(name, '(')])
		}
	}
	// Output:
	// bglm_source
	// bglm_needs
	// bglm_is_belief
	// bglm_bounded
	// bglm_fit_by
	// bglm_fit_by_ordered
	// bglm_compress
	// bglm_belief_rank
	// bglm_weights
	// bglm_score
	// bglm_compare
	// bglm_compare_fits
	// bglm_contrasts
	// bglm_evaluate
}
