package kernels

import (
	"math"
	"strings"
	"testing"
)

// A column far from 1 is said where its prior is about numbers near 1: not where the prior's
// variance was made for it, where it was standardised, or where responses are as far.
func TestScaleNote(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		rms, variance, scale, unit float64
		said                       bool
	}{
		{1e6, 1, nan, 1, true},
		{1e-6, 1, nan, 1, true},
		{math.Inf(1), 1, nan, 1, true},
		{1e6, nan, nan, 1, true}, // the general prior
		{500, 1, nan, 1, false},
		{0.01, 1, nan, 1, false},
		{1e6, 1e-12, nan, 1, false},
		{1e-6, 1e12, nan, 1, false},
		{1e6, 0, nan, 1, false}, // a known weight
		{1e6, 1, 1e6, 1, false},
		{1e6, 1, nan, 1e6, false},
		{0, 1, nan, 1, false},
		{nan, 1, nan, 1, false},
	} {
		f := &Fit{Prior: DefaultPrior, Columns: []FitColumn{{Name: "g", Kind: LevelsColumn, Scale: nan}, {Name: "u", Kind: NumberColumn, Scale: c.scale, Variance: c.variance}}}
		got := f.ScaleNote([]float64{1e9, c.rms}, c.unit)
		if (got != "") != c.said || c.said && !strings.HasPrefix(got, "column u is far from unit scale (root mean square ") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
