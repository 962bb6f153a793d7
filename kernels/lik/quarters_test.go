package lik

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestQuarters: a quarter of the draws of every distribution lies in each of its quarters, within four
// standard errors of counts, which are the largest, and nothing is said of them.
func TestQuarters(t *testing.T) {
	const n = 20000
	distributions(t, func(t *testing.T, d Distribution, trials float64) {
		var q Quarters
		src, rnd := rand.NewPCG(1, 9), rand.New(rand.NewPCG(1, 10))
		for range n {
			s := 0.5 + rnd.Float64()
			q.Add(d.CDF(Obs{Y: d.Draw(s, trials, src), Weight: 1, Trials: trials}, s))
		}
		total := 0.0
		for k, sum := range q.sum {
			mean := sum / n
			if se := math.Sqrt(0.1875 / n); math.Abs(mean-0.25) > 4*se {
				t.Errorf("%v of the draws lie in quarter %d", mean, k)
			}
			total += mean
		}
		if math.Abs(total-1) > 1e-12 {
			t.Errorf("the quarters add up to %v", total)
		}
		if note := q.Note(d); note != "" {
			t.Error(note)
		}
	})
}

// TestQuartersAdd: a response counts for the quarters that its step of the distribution function reaches
// across, in proportion.
func TestQuartersAdd(t *testing.T) {
	for _, c := range []struct {
		below, upTo float64
		want        [4]float64
	}{
		{0, 1, [4]float64{0.25, 0.25, 0.25, 0.25}},
		{0, 0.5, [4]float64{0.5, 0.5, 0, 0}},
		{0.2, 0.3, [4]float64{0.5, 0.5, 0, 0}},
		{0.7, 1, [4]float64{0, 0, 1. / 6, 5. / 6}},
		{0.1, 0.1, [4]float64{1, 0, 0, 0}},
		{0.25, 0.25, [4]float64{0, 1, 0, 0}},
		{0, 0, [4]float64{1, 0, 0, 0}},
		{1, 1, [4]float64{0, 0, 0, 1}},
	} {
		var q Quarters
		q.Add(c.below, c.upTo)
		for k, want := range c.want {
			if math.Abs(q.sum[k]-want) > 1e-12 {
				t.Errorf("%v to %v: quarters %v, want %v", c.below, c.upTo, q.sum, c.want)
				break
			}
		}
	}
}

// TestQuartersNote: zeros among large counts are said, and named as what they may be.
func TestQuartersNote(t *testing.T) {
	l, err := New("negbinomial", "", Params{Shape: 0.4})
	if err != nil {
		t.Fatal(err)
	}
	d := l.(Distribution)
	var q Quarters
	for i := range 300 {
		y := 0.0
		if i%5 < 2 {
			y = float64(8 + i%7)
		}
		q.Add(d.CDF(Obs{Y: y, Weight: 1}, math.Log(4.4)))
	}
	note := q.Note(l)
	for _, want := range []string{"of the rows, not 0.25, lie in the ", " quarter of what negbinomial expects of them", "fit y > 0"} {
		if !strings.Contains(note, want) {
			t.Errorf("%q lacks %q", note, want)
		}
	}
	// So few rows may be like this by chance.
	var few Quarters
	for range 10 {
		few.Add(0.8, 0.9)
		few.Add(0.1, 0.2)
	}
	if note := few.Note(l); note != "" {
		t.Error(note)
	}
}
