package answer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/stop"
)

// A cancelled context ends what asks many rows, or makes a covariance of many weights.
func TestInterrupt(t *testing.T) {
	d, _, _ := facts(t)
	f := d.fit(t, "bin", "x z g h", nil, nil)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	is := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, stop.ErrInterrupted) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := NewLOO(f, predict.AtMode, false)
	must(err)
	b := d.batch(t, f, l.Features(), "bin", "x z g h")
	is("LOO.Add", l.Add(ended, b))
	r, err := NewRobust(f, "", false)
	must(err)
	b = d.batch(t, f, r.Features(), "bin", "x z g h")
	is("Robust.Add", r.Add(ended, b, nil))
	c, err := NewCheck(f, "mean", 0, 0, 1)
	must(err)
	must(c.Add(d.batch(t, f, c.Features(), "bin", "x z g h")))
	_, err = c.Checked(ended)
	is("Check.Checked", err)
	v, err := NewDrivers(f, 0.95)
	must(err)
	b = d.batch(t, f, v.Features(), "", "x z g h")
	is("Drivers.Add", v.Add(ended, b))
	must(v.Add(context.Background(), b))
	_, err = v.Drivers(ended)
	is("Drivers.Drivers", err)
	e, err := NewComparisons(f, []EffectOptions{{Draws: 10}})
	must(err)
	b = d.batch(t, f, e.Features(), "", "x z g h")
	is("Comparisons.Add", e.Add(ended, 0, b, b))

	// Three products of p x p matrices last longer than a moment.
	wide := independent(f, 1200)
	if r, err = NewRobust(wide, "hc0", false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	at := make(chan time.Time, 1)
	time.AfterFunc(20*time.Millisecond, func() { at <- time.Now(); cancel() })
	_, err = r.Robustly(ctx)
	is("Robust.Robustly", err)
	if took := time.Since(<-at); took > time.Second { // 0.2 s when nothing else runs
		t.Errorf("went on for %v", took)
	}
}

// independent is f with p weights in the full form.
func independent(f *kernels.Fit, p int) *kernels.Fit {
	w := *f
	w.Columns, w.Beliefs, w.Correlations = nil, nil, nil
	rng := rand.New(rand.NewPCG(1, 1))
	w.Covariance = kernels.Covariance{Form: gauss.Full, Values: make([]float64, p*(p+1)/2)}
	for j := range p {
		w.Covariance.Values[j*(j+3)/2] = 1
		w.Beliefs = append(w.Beliefs, kernels.Belief{Feature: fmt.Sprintf("v%05d", j), Weight: kernels.Weight{Mean: rng.NormFloat64(), Variance: 1}})
	}
	return &w
}
