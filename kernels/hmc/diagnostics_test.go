package hmc

import (
	"math"
	"math/rand/v2"
	"testing"
)

// ar1 is m chains of an autoregression of unit variance.
func ar1(rng *rand.Rand, m, n int, rho float64) [][]float64 {
	chains := make([][]float64, m)
	for k := range chains {
		x := rng.NormFloat64()
		chains[k] = make([]float64, n)
		for i := range chains[k] {
			chains[k][i] = x
			x = rho*x + math.Sqrt(1-rho*rho)*rng.NormFloat64()
		}
	}
	return chains
}

// An autoregression of n steps is worth n(1-ρ)/(1+ρ) draws for its mean. The estimate
// sums about 1/(1-ρ) noisy correlations: 15 % at 40,000 steps.
func TestESS(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for _, rho := range []float64{0, 0.5, 0.9, -0.5} {
		c := ar1(rng, 4, 10000, rho)
		want := 40000 * (1 - rho) / (1 + rho)
		if got := ESS(c); math.Abs(got/want-1) > 0.15 {
			t.Errorf("ρ = %v: ESS %v, want %v", rho, got, want)
		}
		// normal scores of normal draws are the draws, nearly
		if got := ESSBulk(c); math.Abs(got/want-1) > 0.15 {
			t.Errorf("ρ = %v: bulk ESS %v, want %v", rho, got, want)
		}
		if got := RHat(c); got > 1.01 {
			t.Errorf("ρ = %v: R-hat %v", rho, got)
		}
	}
	// Independent draws: the indicator of a tail is independent too.
	if got := ESSTail(ar1(rng, 4, 10000, 0)); math.Abs(got/40000-1) > 0.15 {
		t.Errorf("tail ESS %v of 40000 independent draws", got)
	}
}

// By hand: chains (1,2,3,4) and (3,4,5,6) have within-variance 5/3 and means 2.5 and
// 4.5 of variance 2: R² = 3/4 + 2/(5/3) = 1.95.
func TestRHatByHand(t *testing.T) {
	c := [][]float64{{1, 2, 3, 4}, {3, 4, 5, 6}}
	if got, want := rHat(c), math.Sqrt(1.95); math.Abs(got-want) > 1e-15 {
		t.Errorf("R-hat %v, want %v", got, want)
	}
	// Ranks of 1,2,(3,3),(4,4),5,6 are 1, 2, 3.5, 3.5, 5.5, 5.5, 7, 8: scores are
	// symmetric, and the middle pair Φ⁻¹((3.5-0.375)/8.25) = -0.306...
	s := normalScores(c)
	if s[0][2] != s[1][0] || math.Abs(s[0][0]+s[1][3]) > 1e-15 || math.Abs(0.5*math.Erfc(-s[0][2]/math.Sqrt2)-3.125/8.25) > 1e-15 {
		t.Errorf("normal scores %v", s)
	}
	// ESS by hand: one chain 1,-1,1,-1: w = 4/3, total = w·3/4 = 1, the autocovariance
	// sums are -3 and 2, so ρ1 = 1 - (4/3 + 3/4) < -1: one pair, not positive.
	// tau stays at -1 and is cut at 1/log10(10) of 4 draws.
	if got := ess([][]float64{{1, -1, 1, -1}}); got != 4 {
		t.Errorf("ESS %v of an alternating chain", got)
	}
}

// Chains apart, chains of different width, a trend, and chains that stand still.
func TestRHatFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	c := ar1(rng, 4, 500, 0)
	for i := range c[0] {
		c[0][i] += 2
	}
	if r := RHat(c); r < 1.1 {
		t.Errorf("a shifted chain: %v", r)
	}
	c = ar1(rng, 4, 500, 0)
	for i := range c[0] {
		c[0][i] *= 5
	}
	if r := RHat(c); r < 1.1 {
		t.Errorf("a wide chain: %v", r)
	}
	c = ar1(rng, 4, 500, 0)
	for k := range c {
		for i := range c[k] {
			c[k][i] += float64(i) / 200
		}
	}
	if r := RHat(c); r < 1.1 {
		t.Errorf("a trend: %v", r)
	}
	still := [][]float64{make([]float64, 10), make([]float64, 10)}
	if r := RHat(still); !math.IsInf(r, 1) {
		t.Errorf("still chains: R-hat %v", r)
	}
	if e := ESSBulk(still); e != 0 {
		t.Errorf("still chains: ESS %v", e)
	}
}

func TestWindows(t *testing.T) {
	first, ends := windows(1000)
	want := []int{100, 150, 250, 450, 950}
	if first != 75 || len(ends) != len(want) {
		t.Fatalf("windows %d %v", first, ends)
	}
	for i := range want {
		if ends[i] != want[i] {
			t.Fatalf("windows %v, want %v", ends, want)
		}
	}
	for w := range 300 {
		first, ends := windows(w)
		last := first
		for _, e := range ends {
			if e <= last || e > w {
				t.Fatalf("warmup %d: windows %d %v", w, first, ends)
			}
			last = e
		}
	}
}

// Chains that are none, too short or of other lengths have no diagnostics.
func TestNoChains(t *testing.T) {
	for _, chains := range [][][]float64{nil, {}, {{}}, {{1, 2, 3}}, {{1, 2, 3, 4, 5}, {1, 2, 3, 4}}} {
		for what, of := range map[string]func([][]float64) float64{"R-hat": RHat, "bulk ESS": ESSBulk, "tail ESS": ESSTail, "ESS": ESS} {
			if x := of(chains); !math.IsNaN(x) {
				t.Errorf("%s of %v is %v", what, chains, x)
			}
		}
	}
}
