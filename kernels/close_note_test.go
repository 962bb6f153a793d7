package kernels

import (
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/gauss"
)

// Numbers that doubles cannot tell apart are named, whatever their sign and however the fit records
// equal ones; those that differ by more, or are smaller, are not.
func TestCloseNote(t *testing.T) {
	for _, c := range []struct {
		center, scale float64
		want          string
	}{
		{9.007199254740994e16, 0, "a - 90071992547409936"},
		{9.007199254740994e16, 9.007199254740994e16, "a - 90071992547409936"},
		{-1 << 60, 900, "a + 1152921504606846976"},
		{1 << 60, 1 << 12, ""},
		{1 << 60, 1 << 59, ""},
		{1<<53 - 1, 0.1, ""},
		{0, 0, ""},
	} {
		f := &Fit{Intercept: true, Columns: []FitColumn{{Name: "g", Kind: LevelsColumn, Center: 1e18}, {Name: "a", Kind: NumberColumn, Center: c.center, Scale: c.scale}}}
		f.Covariance.Form = gauss.Full
		if got := f.CloseNote(); (got == "") != (c.want == "") || !strings.HasSuffix(got, c.want) {
			t.Errorf("%v ± %v: %q", c.center, c.scale, got)
		}
		f.Covariance.Form = gauss.Diagonal
		if got := f.CloseNote(); got != "" {
			t.Errorf("not centred: %q", got)
		}
	}
}
