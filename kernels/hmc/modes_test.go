package hmc

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// Three responses at each of -5 and 5, which no chain goes between: the better mode has 69 % of the
// posterior and is not the one uphill of the prior mean, where all chains began, agreed, and said
// that they had converged.
func TestTwoModes(t *testing.T) {
	par := lik.Params{Dispersion: 0.04, Shape: 2}
	l, err := lik.New("studentt", "", par)
	if err != nil {
		t.Fatal(err)
	}
	y := []float64{-5, -5.2, -4.8, 5, 5.3, 4.7}
	// Moments by the trapezoid rule.
	const n, width = 200_001, 20.0
	var sum, mean, square float64
	for i := range n {
		s := width * (float64(i)/(n-1) - 0.5)
		log := 19 - 0.5*s*s/100 - 0.5*math.Log(2*math.Pi*100) // 19 keeps the numbers about 1
		for _, v := range y {
			logp, _, _ := l.LogLik(lik.Obs{Y: v, Weight: 1}, s)
			log += logp
		}
		d := math.Exp(log)
		sum, mean, square = sum+d, mean+d*s, square+d*s*s
	}
	mean, square = mean/sum, square/sum
	sd, evidence := math.Sqrt(square-mean*mean), math.Log(sum*width/(n-1))-19
	for seed := range uint64(3) {
		rows, err := kernels.NewRows(&kernels.Model{Lik: l, Params: par, Prior: kernels.Prior{Variance: 1, InterceptVariance: 100}, Options: kernels.Options{Seed: seed}})
		if err != nil {
			t.Fatal(err)
		}
		b := kernels.Batch{Y: y}
		for range y {
			b.Add(0, 1)
			b.EndRow()
		}
		if err := rows.Update(&b, false); err != nil {
			t.Fatal(err)
		}
		p, err := rows.Problem()
		if err != nil {
			t.Fatal(err)
		}
		f, err := Fit(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		w := f.Beliefs[0]
		about := fmt.Sprintf("seed %d: %v, log evidence %v, converged %v: %s; want %v ± %v, %v", seed, w, f.LogEvidence, f.Converged, f.Status, mean, sd, evidence)
		if f.Converged || !strings.Contains(f.Status, "2 modes found: 3 of 4 chains began at the best one, which has 70.2 % of their evidence") {
			t.Error(about)
		}
		if math.Abs(w.Mean-mean) > 0.2*sd || math.Abs(math.Sqrt(w.Variance)/sd-1) > 0.1 || math.Abs(f.LogEvidence-evidence) > 0.2 {
			t.Error(about)
		}
	}
}

// What status says of modes by their shares, and which of them chains begin at.
func TestModesNote(t *testing.T) {
	s := &sampling{settings: &settings{chains: 4}, peaks: []*peak{{share: 0.9, begun: 4, near: 10}, {share: 0.08, near: 1}, {share: 0.02}}}
	note, missed := s.modesNote()
	if missed != 0.02 || !strings.Contains(note, "; 3 modes found: 4 of 4 chains began at the best one, which has 90 % of their evidence") ||
		!strings.HasSuffix(note, "; no draw is near modes that have 2 % of it") {
		t.Error(note, missed)
	}
	for k, want := range []int{0, 0, 1, 2} {
		s.peaks[0].share, s.peaks[1].share, s.peaks[2].share = 0.5, 0.25, 0.25
		if got := s.startOf(k); got != s.peaks[want] {
			t.Errorf("chain %d begins at %v", k, got)
		}
	}
}
