package stream

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

var others, binary, trialled, counted, normal, positive = of("studentt"), of("bernoulli"), of("binomial"), of("poisson"), of("gaussian"), of("gamma")

// of is what a summary asks of a family, of shape 3.
func of(family string) *likelihoodTraits {
	l, err := lik.New(family, "", lik.Params{Dispersion: 1, Shape: 3})
	if err != nil {
		panic(err)
	}
	a := likelihoodTraitsOf(l)
	return &a
}

func courseOf(ys []float64, trials float64, of *likelihoodTraits) *responseSummary {
	c := &responseSummary{}
	for _, y := range ys {
		c.add(lik.Obs{Y: y, Weight: 1, Trials: trials}, of)
	}
	return c
}

// Sorted responses of every family are always said, also in parts put together; random
// orders, rare events and outliers hardly ever are: none of 20,000.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draws := map[string]struct {
		of   *likelihoodTraits
		draw func() float64
	}{
		"even":    {binary, func() float64 { return float64(r.IntN(2)) }},
		"rare":    {binary, func() float64 { return float64(r.IntN(30) / 29) }},
		"counts":  {counted, func() float64 { return float64(r.IntN(4) * r.IntN(4)) }},
		"normal":  {normal, func() float64 { return 1e6 + r.NormFloat64() }},
		"heavy":   {others, func() float64 { return math.Tan(math.Pi * (r.Float64() - 0.5)) }},
		"gamma":   {positive, func() float64 { return r.ExpFloat64() }},
		"shares":  {trialled, func() float64 { return float64(r.IntN(7)) }},
		"outlier": {others, func() float64 { return math.Floor(r.Float64()*1.01) * 1e9 }},
	}
	said := 0
	for name, d := range draws {
		for k := range 2500 {
			n := 20 + k%400
			ys := make([]float64, n)
			for i := range ys {
				ys[i] = d.draw()
			}
			if courseOf(ys, 6, d.of).order(d.of) {
				said++
			}
			if k == 2399 { // enough of them that no few are all that differs
				for range 2000 {
					ys = append(ys, d.draw())
				}
				n = len(ys)
			}
			if slices.Sort(ys); k == 2399 && name != "heavy" && name != "outlier" {
				if !courseOf(ys, 6, d.of).order(d.of) {
					t.Errorf("%s: sorted responses are not said", name)
				}
				a, b := courseOf(ys[:n/3], 6, d.of), courseOf(ys[n/3:], 6, d.of)
				if !merged(a, b).order(d.of) {
					t.Errorf("%s: sorted responses in two parts are not said", name)
				}
				slices.Reverse(ys)
				if !courseOf(ys, 6, d.of).order(d.of) {
					t.Errorf("%s: responses in falling order are not said", name)
				}
			}
		}
	}
	if said > 0 {
		t.Errorf("%d of 20,000 random orders are said", said)
	}
}

// The probability of few runs is that of all orders counted one by one.
func TestRuns(t *testing.T) {
	const n, ones = 12, 5
	var count [n + 1]float64
	all := 0.0
	for m := range 1 << n {
		k, runs, last := 0, 0, 0
		for i := range n {
			b := m >> i & 1
			k += b
			if b == 1 && last == 0 {
				runs++
			}
			last = b
		}
		if k == ones {
			count[runs]++
			all++
		}
	}
	sum := 0.0
	for k := 1; k <= ones; k++ {
		sum += count[k]
		kerneltest.Close(t, "probability", math.Exp(logRuns(float64(k), ones, n-ones)), sum/all, kerneltest.Tol{Rel: 1e-10})
	}
}

// The baseline is what an exact running mean would have scored, within half a nat, and
// parts put together have that of the whole.
func TestBaseline(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	beta := func(a, b float64) float64 {
		x, _ := math.Lgamma(a)
		y, _ := math.Lgamma(b)
		z, _ := math.Lgamma(a + b)
		return x + y - z
	}
	var ones, ys, ns []float64
	wins, sum, fact := 0.0, 0.0, 0.0
	for range 400 {
		y := float64(r.IntN(3) / 2)
		ones, wins = append(ones, y), wins+y
		k := float64(r.IntN(6))
		g, _ := math.Lgamma(k + 1)
		ys, sum, fact = append(ys, k), sum+k, fact+g
		ns = append(ns, 3+2*r.NormFloat64())
	}
	n := 400.0
	// Beta(1/2, 1/2) and Gamma(1/2, 1/2) on the rate: exact by conjugacy.
	bernoulli := beta(wins+0.5, n-wins+0.5) - beta(0.5, 0.5)
	g1, _ := math.Lgamma(sum + 0.5)
	g0, _ := math.Lgamma(0.5)
	poisson := 0.5*math.Log(0.5) - g0 + g1 - (sum+0.5)*math.Log(n+0.5) - fact
	// N(0, 100) on the mean, noise variance 4.
	normalAt := func(ys []float64) float64 {
		s, q := 0.0, 0.0
		for _, y := range ys {
			s, q = s+y, q+y*y
		}
		p := 1/100.0 + n/4
		return -0.5 * (n*math.Log(2*math.Pi*4) + q/4 + math.Log(100*p) - s*s/16/p)
	}
	for _, c := range []struct {
		name string
		of   *likelihoodTraits
		ys   []float64
		want float64
		near float64
	}{{"bernoulli", binary, ones, bernoulli, 0.7}, {"poisson", counted, ys, poisson, 1.5}, {"gaussian", normal, ns, normalAt(ns), 2}} {
		whole := courseOf(c.ys, 0, c.of)
		got, ok := whole.baseline(c.of, 4)
		if !ok || math.Abs(got-c.want) > c.near {
			t.Errorf("%s: baseline %v, exact running mean %v", c.name, got, c.want)
		}
		parts := merged(courseOf(c.ys[:150], 0, c.of), courseOf(c.ys[150:], 0, c.of))
		other, _ := parts.baseline(c.of, 4)
		kerneltest.Close(t, c.name+" in parts", other, got, kerneltest.Tol{Rel: 1e-10})
	}
}

// A response that leads all others is named wherever it comes, also in parts put together; of random
// ones none is, nor one that was foreseen.
func TestFurthest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	of := map[bool]*likelihoodTraits{true: {homoscedastic: true}, false: {positive: true}}
	draws := map[string]struct {
		squares bool
		draw    func() float64
	}{
		"residuals": {true, func() float64 { x := r.NormFloat64(); return x * x }},
		"wide":      {false, func() float64 { return math.Floor(math.Exp(1 + 0.8*r.NormFloat64())) }},
		"rare":      {false, func() float64 { return float64(r.IntN(30) / 29) }},
		"gamma":     {false, r.ExpFloat64},
	}
	said := 0
	for name, d := range draws {
		for k := range 2500 {
			n := 40 + k%400
			sizes := make([]float64, n)
			for i := range sizes {
				sizes[i] = d.draw()
			}
			furthestOf := func(sizes []float64) (c furthest) {
				for _, x := range sizes {
					c.add(x, 1, x, x == 1e13)
				}
				return c
			}
			whole := furthestOf(sizes)
			if whole.note(of[d.squares]) != "" {
				said++
			}
			if name == "rare" {
				continue
			}
			at := r.IntN(n)
			sizes[at] = 1e12
			whole, parts := furthestOf(sizes), furthestOf(sizes[:n/2])
			parts.merge(furthestOf(sizes[n/2:]))
			if whole.note(of[d.squares]) == "" || parts.note(of[d.squares]) == "" {
				t.Fatalf("%s: 1e12 at %d of %d is not named", name, at, n)
			}
			sizes[at] = 1e13
			if c := furthestOf(sizes); c.note(of[d.squares]) != "" {
				t.Fatalf("%s: a foreseen response is named", name)
			}
		}
	}
	if said > 0 {
		t.Errorf("%d of 10,000 random sets have such a response", said)
	}
}

// TestLearningCost: rows that say the same of one weight cost half the logarithm of what they add up to,
// in one stream or in parts; a row under a wide prior costs half a row's; few rows and rows under drift
// are bounded.
func TestLearningCost(t *testing.T) {
	const n = 2000
	tol := kerneltest.Tol{Rel: 1e-12}
	var all learningCost
	var parts [2]learningCost
	for k := range n {
		shrinks := (1 + float64(k)) / (2 + float64(k)) // a prior worth a row, and k rows
		all.add(shrinks)
		parts[k%2].add(shrinks)
	}
	kerneltest.Close(t, "a weight", all.of(n, 1), 0.5*math.Log(1+n), tol)
	parts[0].merge(parts[1])
	kerneltest.Close(t, "in parts", parts[0].of(n, 1), 0.5*math.Log(1+n), tol)
	var wide, drift learningCost
	wide.add(1e-12)
	kerneltest.Close(t, "a wide prior", wide.of(4, 1), 0.5*math.Ln2, tol)
	for range n {
		drift.add(0.6)
	}
	kerneltest.Close(t, "drift", drift.of(n, 1), 0.5*math.Log(1+n), tol)
	kerneltest.Close(t, "far beyond the range of a number", drift.of(n, n/learntBy), -0.5*n*math.Log(0.6), tol)
	if got := all.of(n, 1+n/learntBy); got != 0 {
		t.Errorf("few rows for each weight: %v", got)
	}
	var none learningCost
	if got := none.of(n, 1); got != 0 {
		t.Errorf("no rows: %v", got)
	}
}
