package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/score"
	"github.com/bglm/bglm/kernels/softmax"
)

// words are n rows of a few of many words without columns, some of which have an effect on the
// probability of the first of two or three classes, others on that of the second of three.
func words(rng *rand.Rand, n, of, classes int) (x [][]string, y []float64) {
	for range n {
		eta, second := -0.3, -0.3
		var row []string
		had := map[int]bool{}
		for range 12 {
			w := int(float64(of) * math.Pow(rng.Float64(), 2))
			if had[w] {
				continue
			}
			had[w] = true
			row = append(row, fmt.Sprint("w", w))
			switch effect := 2 * math.Sin(float64(w)); w % 20 {
			case 0:
				eta += effect
			case 1:
				second += effect
			}
		}
		a, b := math.Exp(eta), 0.0
		if classes == 3 {
			b = math.Exp(second)
		}
		class := 0.0
		switch u := rng.Float64() * (1 + a + b); {
		case u < a:
			class = 1
		case u < a+b:
			class = 2
		}
		x, y = append(x, row), append(y, class)
	}
	return x, y
}

// Weights for which no exact Hessian is affordable have a learnt prior variance too: without it, new
// rows are predicted worse than by the base rate.
func TestLearnsWithoutExactHessian(t *testing.T) {
	kerneltest.Slow(t)
	x, y := words(rand.New(rand.NewPCG(7, 7)), 9000, 6000, 2)
	const learnt = 7000
	tab := &rows.Table{X: rows.Lists(x[:learnt]), Y: rows.Numbers("y", y[:learnt])}
	loss := func(f *kernels.Fit) float64 {
		s, err := score.New(f)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i := learnt; i < len(x); i++ {
			q, err := s.Predict(score.Row{Names: x[i], Open: true}, predict.Exact)
			if err != nil {
				t.Fatal(err)
			}
			if y[i] == 0 {
				q = 1 - q
			}
			sum -= math.Log(q)
		}
		return sum / float64(len(x)-learnt)
	}
	rate := 0.0
	for _, v := range y[learnt:] {
		rate += v / float64(len(y)-learnt)
	}
	base := -rate*math.Log(rate) - (1-rate)*math.Log(1-rate)
	last := 0.0
	for _, method := range []string{engine.Auto, "laplace"} {
		for _, hessian := range []string{"auto", "lowrank"} {
			s, err := given{"prior_variance": "auto", "hessian": hessian}.settings(method)
			if err != nil {
				t.Fatal(err)
			}
			r, err := engine.Fit(context.Background(), method, s, tab)
			if err != nil {
				t.Fatal(err)
			}
			f := r.Fit
			if !strings.Contains(f.Status, "ep with factorised beliefs learnt the prior variances") || f.Method != "laplace" || f.Covariance.Form != gauss.LowRank || !(f.Prior.Variance < 0.3) {
				t.Errorf("%s, %s: %s by %s, prior variance %v", method, hessian, f.Status, f.Method, f.Prior.Variance)
			}
			if last = loss(f); !(last < base-0.005) {
				t.Errorf("%s, %s: log loss %.4f of new rows, %.4f by their mean", method, hessian, last, base)
			}
		}
	}
	wide, err := engine.Fit(context.Background(), "laplace", nil, tab)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("log loss of new rows: %.4f with the variance learnt, %.4f under variance 1, %.4f by their mean", last, loss(wide.Fit), base)
	if l := loss(wide.Fit); !(l > base) {
		t.Errorf("log loss %.4f under variance 1, %.4f by the mean: these rows show nothing", l, base)
	}
}

// The same of classes: what is learnt from each class against the rest.
func TestLearnsClassesWithoutExactHessian(t *testing.T) {
	kerneltest.Slow(t)
	x, y := words(rand.New(rand.NewPCG(7, 8)), 8000, 2500, 3)
	const learnt = 6000
	tab := &rows.Table{X: rows.Lists(x[:learnt]), Y: rows.Numbers("y", y[:learnt])}
	count := map[float64]float64{}
	for _, v := range y[learnt:] {
		count[v]++
	}
	base, n := 0.0, float64(len(y)-learnt)
	for _, c := range count {
		base -= c / n * math.Log(c/n)
	}
	loss := func(options given) (float64, *kernels.Fit) {
		s, err := options.settings("softmax")
		if err != nil {
			t.Fatal(err)
		}
		r, err := engine.Fit(context.Background(), "softmax", s, tab)
		if err != nil {
			t.Fatal(err)
		}
		of, err := softmax.NewScorer(r.Fit)
		if err != nil {
			t.Fatal(err)
		}
		sum, p := 0.0, make([]float64, len(r.Fit.Classes))
		for i := learnt; i < len(x); i++ {
			row, err := of.Row(x[i], slices.Repeat([]float64{1}, len(x[i])), 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := of.Predict(p, row, 0, predict.Exact); err != nil {
				t.Fatal(err)
			}
			sum -= math.Log(p[int(y[i])])
		}
		return sum / n, r.Fit
	}
	wide, _ := loss(given{"prior_variance": 1.0})
	auto, f := loss(nil)
	pinned, g := loss(given{"reference": "0"})
	t.Logf("log loss of new rows: %.4f with the variance learnt, %.4f with a reference, %.4f under variance 1, %.4f by their shares", auto, pinned, wide, base)
	for _, f := range []*kernels.Fit{f, g} {
		if !strings.Contains(f.Status, "ep with factorised beliefs learnt the prior variances, one class against the rest") || !(f.Prior.Variance < 0.3) {
			t.Error(f.Status, f.Prior.Variance)
		}
	}
	if !(auto < base-0.005 && pinned < base-0.005 && wide > base) {
		t.Error("the first two are to be less than the last, which is to be less than the third")
	}
}
