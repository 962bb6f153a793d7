package kernels

import (
	"math"
	"strings"
	"testing"
)

// A status is "ok" until something is said, and says nothing twice.
func TestSay(t *testing.T) {
	f := &Fit{Status: "ok"}
	for _, c := range []struct{ say, want string }{
		{"", "ok"}, {"ok", "ok"}, {"one", "one"}, {"two", "one; two"}, {"one", "one; two"}, {"", "one; two"}, {"on", "one; two; on"},
	} {
		if f.AddStatus(c.say); f.Status != c.want {
			t.Fatalf("after %q: %q, want %q", c.say, f.Status, c.want)
		}
	}
}

// Levels with a prior variance of their own are not multiplied as if they had the common one.
func TestColumnVariancesAreNotMerged(t *testing.T) {
	fit := func(v float64) *Fit {
		return &Fit{Prior: DefaultPrior, Columns: []FitColumn{{Name: "g", Kind: LevelsColumn, Variance: v}}}
	}
	if err := Agree(fit(1), fit(math.NaN())); err != nil {
		t.Error(err)
	}
	if err := Agree(fit(1), fit(0.2)); err == nil || !strings.Contains(err.Error(), `"g" has a prior variance of its own, 0.2`) {
		t.Error(err)
	}
	if err := Agree(fit(0.12081), fit(0.12084)); err == nil || !strings.Contains(err.Error(), "0.12081, and in another fit 0.12084;") {
		t.Error(err)
	}
	// Of what was learnt, each part by its rows, that holds although the variances are the same.
	learnt := fit(0.2)
	learnt.Columns[0].Center, learnt.Columns[0].Scale = 0.4, 0.1
	if err := Agree(learnt, learnt); err != nil {
		t.Error(err)
	}
	other := *learnt
	if err := Agree(learnt, &other); err == nil || !strings.Contains(err.Error(), "0.2, and in another fit 0.2, which were learnt") {
		t.Error(err)
	}
	if err := Agree(fit(0.2), fit(0.2)); err != nil {
		t.Error(err)
	}
}
