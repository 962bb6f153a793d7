package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// overshot returns rows of a family of shape k about means e^s, and the sums of them about e^t.
func overshot(t *testing.T, family string, k float64, s, about []float64, src rand.Source) (l Likelihood, rows []Obs, sum Overshoot) {
	t.Helper()
	l, err := New(family, "log", Params{Shape: k})
	if err != nil {
		t.Fatal(err)
	}
	add := OvershootOf(l)
	for i := range s {
		o := Obs{Y: l.(Distribution).Draw(s[i], 1, src), Weight: 1 + float64(i%2)}
		rows = append(rows, o)
		add(&sum, o, about[i])
	}
	return l, rows, sum
}

// TestOvershootSums: the sums are those of the likelihood's own slopes, and of their variances as
// draws have them; bend is the score of s² after a weighted regression on 1 and s.
func TestOvershootSums(t *testing.T) {
	for family, k := range map[string]float64{"gamma": 0.7, "negbinomial": 2} {
		src := rand.NewPCG(3, 5)
		rnd := rand.New(src)
		var s []float64
		for range 300 {
			s = append(s, 2+rnd.NormFloat64())
		}
		l, rows, sum := overshot(t, family, k, s, s, src)
		var score, came, expected float64
		x, z, u := []float64(nil), []float64(nil), []float64(nil) // s, s² and the information
		for i, o := range rows {
			_, d1, _ := l.LogLik(o, s[i])
			score += d1
			came, expected = came+o.Weight*o.Y, expected+o.Weight*math.Exp(s[i])
			variance := math.Exp(2*s[i]) / k
			if family == "negbinomial" {
				variance += math.Exp(s[i])
			}
			x, z, u = append(x, s[i]), append(z, s[i]*s[i]), append(u, o.Weight*math.Exp(2*s[i])/variance)
		}
		tol := kerneltest.Tol{Rel: 1e-10}
		kerneltest.Close(t, family+": score", sum.Score[0], score, tol)
		kerneltest.Close(t, family+": came", sum.Came, came, tol)
		kerneltest.Close(t, family+": expected", sum.Expected, expected, tol)
		origin, slope := stat.LinearRegression(x, z, u, false)
		left, information := 0.0, 0.0
		for i, o := range rows {
			_, d1, _ := l.LogLik(o, s[i])
			r := z[i] - origin - slope*x[i]
			left, information = left+d1*r, information+u[i]*r*r
		}
		kerneltest.Close(t, family+": bend", sum.bend(), left/math.Sqrt(information), kerneltest.Tol{Rel: 1e-8})

		// Of one row often drawn: the variance of its score and of its response, within four
		// standard errors, which are √(2 + excess kurtosis)/√n relative to them.
		const n = 200_000
		at := make([]float64, n)
		for i := range at {
			at[i] = 1.5
		}
		l, rows, sum = overshot(t, family, k, at, at, src)
		slopes, responses := make([]float64, n), make([]float64, n)
		for i, o := range rows {
			_, d1, _ := l.LogLik(Obs{Y: o.Y, Weight: 1}, at[i])
			slopes[i], responses[i] = d1, o.Y
		}
		within := 4 * math.Sqrt((2+stat.ExKurtosis(slopes, nil))/n)
		kerneltest.Close(t, family+": information", sum.Information[0]/(1.5*n), stat.Variance(slopes, nil), kerneltest.Tol{Rel: within})
		kerneltest.Close(t, family+": variance", sum.Variance/(1.5*n), stat.Variance(responses, nil), kerneltest.Tol{Rel: within})
	}
}

// TestOvershootClear: of rows about their own means, whose sum no fit has brought to what came, those
// in 2.6 % of the sets, by the two tests, and three standard errors more, are clearly expected to
// respond too much. Means far above the largest responses are found whether one row makes up the
// sum or many.
func TestOvershootClear(t *testing.T) {
	const sets = 300
	for family, k := range map[string]float64{"gamma": 1, "negbinomial": 1.5} {
		src := rand.NewPCG(8, 2)
		rnd := rand.New(src)
		said := map[string]int{}
		for range sets {
			var s, steep, one []float64
			for range 200 {
				e := rnd.NormFloat64()
				s, steep, one = append(s, 2+e), append(steep, 1+0.5*math.Exp(e)), append(one, 2+e)
			}
			one[7] += 20
			for what, about := range map[string][]float64{"own": s, "steep": steep, "one": one} {
				_, _, sum := overshot(t, family, k, s, about, src)
				if sum.Clear() {
					said[what]++
				}
			}
		}
		t.Logf("%s: %v of %d", family, said, sets)
		if said["own"] > sets*54/1000 || said["one"] < sets*9/10 || said["steep"] < sets*2/3 {
			t.Errorf("%s: %v of %d sets", family, said, sets)
		}
	}
}

// The total of a few unequal gamma responses is nearly gamma distributed; it is less likely to be
// far below its mean: no more draws than said lie below its lower 2 % point, and not a tenth of them.
func TestOvershootTotal(t *testing.T) {
	src := rand.NewPCG(1, 9)
	const draws = 40_000
	below := 0
	weights := []float64{30, 8, 3, 1, 1, 0.5}
	var sum, variance float64
	for _, w := range weights {
		sum, variance = sum+w, variance+w*w/1.5
	}
	total := distuv.Gamma{Alpha: sum * sum / variance, Beta: sum / variance}
	for range draws {
		came := 0.0
		for _, w := range weights {
			came += w * distuv.Gamma{Alpha: 1.5, Beta: 1.5, Src: src}.Rand()
		}
		if total.CDF(came) < unlikely {
			below++
		}
	}
	if p := float64(below) / draws; p < unlikely/10 || p > unlikely {
		t.Errorf("%v of the draws lie below the point of %v", p, unlikely)
	}
}
