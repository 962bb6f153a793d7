package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// TestVagueNote: the rows that are counted as wide are those whose predictor is so in a fit of all
// other rows. Each has one weight, so that its predictor's variance is that of the weight. Under wider
// priors the mode moves when a row is left out, which the note does not follow.
func TestVagueNote(t *testing.T) {
	levels := []string{"a", "b", "c", "d", "e", "e", "f", "f", "g", "g"}
	counts := []float64{3, 0, 7, 1, 5, 4, 0, 1, 0, 0}
	fit := func(without int, variance float64) *kernels.Fit {
		t.Helper()
		var g []string
		var y []float64
		for i := range levels {
			if i != without {
				g, y = append(g, levels[i]), append(y, counts[i])
			}
		}
		s := option.Defaults()
		s.Family, s.Prior.Variance, s.NoIntercept = "poisson", variance, true
		r, err := Fit(context.Background(), "laplace", s, &rows.Table{X: rows.Fields(rows.Texts("g", g)), Y: rows.Numbers("y", y)})
		if err != nil {
			t.Fatal(err)
		}
		return r.Fit
	}
	for _, prior := range []float64{6, 6.5, 9} {
		wide := 0
		for i, level := range levels {
			v := prior // of a weight that the others do not have
			for _, b := range fit(i, prior).Beliefs {
				if b.Feature == "g="+level {
					v = b.Variance
				}
			}
			if v > kernels.Vague*kernels.Vague {
				wide++
			}
		}
		want := ""
		if 4*wide >= len(levels) {
			want = fmt.Sprintf("%d of %d rows have, given the others, ", wide, len(levels))
		}
		got := fit(-1, prior).Status
		if want == "" && strings.Contains(got, "given the others") || !strings.Contains(got, want) {
			t.Errorf("prior variance %v: %q, want %q", prior, got, want)
		}
	}
}
