package lik

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// series draws n numbers of variance 1, neighbours of which correlate by c.
func series(rnd *rand.Rand, n int, c float64) []float64 {
	e := make([]float64, n)
	for i := range e {
		e[i] = rnd.NormFloat64()
		if i > 0 {
			e[i] = c*e[i-1] + math.Sqrt(1-c*c)*e[i]
		}
	}
	return e
}

// TestDependenceCorrelation: the correlation is that of the residuals by its definition, whatever
// their unit, without rows of weight 0; of two parts, one product of neighbours is lacking.
func TestDependenceCorrelation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		n, sd := 10+rnd.IntN(200), math.Exp(5*rnd.NormFloat64())
		e := series(rnd, n, 1.8*rnd.Float64()-0.9)
		shift := rnd.NormFloat64()
		var d, a, b Dependence
		var r []float64
		for i, e := range e {
			by := min(max(e+shift, -farRow), farRow)
			o := Obs{Y: rnd.NormFloat64(), Weight: 1}
			slope, curvature := (e+shift)/sd, 1/(sd*sd)
			if rnd.IntN(5) == 0 {
				d.Add(Obs{Y: o.Y}, 2)
			}
			r = append(r, by)
			d.Add(o, Residual(slope, curvature))
			if i < n/2 {
				a.Add(o, Residual(slope, curvature))
			} else {
				b.Add(o, Residual(slope, curvature))
			}
		}
		mean, product, squares := 0.0, 0.0, 0.0
		for _, v := range r {
			mean += v / float64(n)
		}
		for i, v := range r {
			squares += (v - mean) * (v - mean)
			if i > 0 {
				product += (v - mean) * (r[i-1] - mean)
			}
		}
		// Of the products about the mean, those of the first and the last row with it are left out.
		product += mean * (mean - r[0] - r[n-1])
		if p, s := d.around(); math.Abs(p-product) > 1e-9*squares || math.Abs(s-squares) > 1e-9*squares {
			t.Fatalf("sums %v and %v, want %v and %v", p, s, product, squares)
		}
		a.Merge(&b)
		want := d
		want.product -= r[n/2-1] * r[n/2]
		if p, _ := a.around(); a.n != d.n || math.Abs(p-(product-r[n/2-1]*r[n/2])) > 1e-9*squares || math.Abs(a.square-(want.square-math.Pow(r[n/2-1]*r[n/2], 2))) > 1e-9*d.square {
			t.Fatalf("two parts: %+v, all: %+v", a, d)
		}
	}
}

// TestDependenceNote: a series has the note, and repeated rows; independent ones do not, whatever
// their distribution, nor series that lie in the order of their responses.
func TestDependenceNote(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	note := func(y, r []float64) string {
		var d Dependence
		for i := range y {
			d.Add(Obs{Y: y[i], Weight: 1}, Residual(r[i], 1))
		}
		return d.Note()
	}
	for range 100 {
		e := series(rnd, 200, 0.7)
		if s := note(e, e); s == "" {
			t.Errorf("a series of %d rows: no note", len(e))
		}
		order := slices.Sorted(slices.Values(e))
		if s := note(order, e); s != "" {
			t.Errorf("rows in the order of their responses: %s", s)
		}
		e = series(rnd, 200, 0)
		if s := note(e, e); s != "" {
			t.Errorf("independent rows: %s", s)
		}
		var twice []float64
		for _, v := range e {
			twice = append(twice, v, v)
		}
		if s := note(twice, twice); s == "" {
			t.Errorf("each row twice: no note")
		}
	}
	for _, draw := range []func() float64{
		func() float64 { return math.Tan(math.Pi * (rnd.Float64() - 0.5)) }, // Cauchy
		func() float64 { return -1 - math.Log(1-rnd.Float64()) },
		func() float64 { // events of probability 0.03
			if rnd.Float64() < 0.03 {
				return 5.7
			}
			return -0.18
		},
		func() float64 { return 2 + rnd.NormFloat64() }, // of another mean than the model's
	} {
		for _, n := range []int{20, 50, 400} {
			for range 1000 {
				r := make([]float64, n)
				for i := range r {
					r[i] = draw()
				}
				if s := note(r, r); s != "" {
					t.Errorf("%d independent rows: %s", n, s)
				}
			}
		}
	}
}

// TestDependenceRuns: the fewest runs into which responses divide that only rise or only fall.
func TestDependenceRuns(t *testing.T) {
	for _, c := range []struct {
		y    []float64
		runs float64
	}{{[]float64{1, 1, 2, 2, 3}, 1}, {[]float64{3, 2, 2, 1}, 1}, {[]float64{0, 1, 0, 0, 1}, 2}, {[]float64{0, 0, 1, 1, 0, 0}, 2}, {[]float64{1, 2, 1, 2, 3}, 2}, {[]float64{1, 2, 1, 1, 3, 2}, 3}, {[]float64{7}, 1}} {
		var d Dependence
		for _, y := range c.y {
			d.Add(Obs{Y: y, Weight: 1}, 1)
		}
		if d.runs != c.runs {
			t.Errorf("%v has %v runs, want %v", c.y, d.runs, c.runs)
		}
	}
}

// TestDependenceIndependent: the variance of the mean of a long series is that of independent rows
// over the part of them that Independent is, within four standard errors of 2,000 series; alternating
// rows count no more than independent ones.
func TestDependenceIndependent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	const sets, n = 2000, 400
	for _, c := range []float64{-0.5, 0, 0.5, 0.8} {
		part, square := 0.0, 0.0
		for range sets {
			var d Dependence
			mean := 0.0
			for _, e := range series(rnd, n, c) {
				d.Add(Obs{Y: rnd.NormFloat64(), Weight: 1}, e)
				mean += e / n
			}
			part += d.Independent() / sets
			square += mean * mean * n / sets
		}
		switch {
		case c <= 0 && !(part > 0.95 && part <= 1):
			t.Errorf("correlation %v: a part of %v", c, part)
		case c > 0 && math.Abs(part*square-1) > 4*math.Sqrt(2./sets)+2*(1+c)/(1-c)/n:
			t.Errorf("correlation %v: a part of %v, and a variance %v times that of independent rows", c, part, square)
		}
	}
}
