package ep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/internal/mode"
)

// A fit whose variance is averaged over has the moments of the mixture, a sum over the variance
// with the fit under each, and predicts what that does: of separated responses by the factors that
// it keeps, where its own Gaussian would be off by half the loss and more.
func TestPredictsAsTheMixture(t *testing.T) {
	f := families(t)["logit"]
	for _, c := range []struct {
		what    string
		flips   float64
		factors bool
	}{{"separated", 0, true}, {"clear", 0.1, false}, {"random", 0.5, false}} {
		rng := rand.New(rand.NewPCG(5, 8))
		var rows []row
		for range 60 {
			x, y := map[string]float64{}, 0.0
			for j := range 5 {
				x[fmt.Sprint("x", j)] = rng.NormFloat64()
			}
			if x["x0"]+0.5*x["x1"] > 0 != (rng.Float64() < c.flips) {
				y = 1
			}
			rows = append(rows, row{x: x, y: y})
		}
		m := &kernels.Model{Lik: f.l, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "full", AutoPrior: true, Integrate: true, SDScale: 2.5, SDFreedom: 3}}
		p := problem(t, m, rows)
		predict := func(f *kernels.Fit) []float64 {
			eta, v := make([]float64, p.N), make([]float64, p.N)
			if err := p.Predictors(f, eta, v); err != nil {
				t.Fatal(err)
			}
			for i, s := range eta {
				eta[i], _ = m.Lik.Predict(f.PredictiveScale().Of(s, v[i], 0))
			}
			return eta
		}
		got := fit(t, p).Fit
		if got.PredictiveScale().Plain() == c.factors || strings.Contains(got.Status, mode.Drawn) {
			t.Errorf("%s: predicted by %v; %s", c.what, got.PredictiveScale(), got.Status)
		}

		mixed, total, top := make([]float64, p.N), 0.0, math.NaN()
		mean, square := make([]float64, len(got.Beliefs)), make([]float64, len(got.Beliefs))
		for theta := -9.0; theta < 18; theta += 0.5 {
			given := *m
			given.Options.AutoPrior, given.Options.Integrate = false, false
			given.Prior.Variance = math.Exp(theta)
			at := fit(t, problem(t, &given, rows)).Fit
			// The deviation s has the density (1 + s²/(ν a²))^-((ν + 1)/2), and θ = 2 log s.
			log := at.LogEvidence + 0.5*theta - 2*math.Log1p(math.Exp(theta)/(3*2.5*2.5))
			if math.IsNaN(top) {
				top = log
			}
			w := math.Exp(log - top)
			total += w
			for i, q := range predict(at) {
				mixed[i] += w * q
			}
			for j, b := range at.Beliefs {
				mean[j] += w * b.Mean
				square[j] += w * (b.Variance + b.Mean*b.Mean)
			}
		}
		loss := func(prob []float64, total float64) (sum float64) {
			for i, q := range prob {
				sum -= math.Log(math.Abs(1-rows[i].y-q/total)) / float64(len(prob))
			}
			return sum
		}
		own := *got
		own.Learnt = nil
		have, moments, want := loss(predict(got), 1), loss(predict(&own), 1), loss(mixed, total)
		t.Logf("%s: log loss %.4f, by the moments %.4f, of the mixture %.4f", c.what, have, moments, want)
		// 0.002 nats a row are what a Gaussian may be off by.
		if math.Abs(have-want) > 0.002 || c.factors && moments < 1.5*want {
			t.Errorf("%s: log loss %.4f, by the moments %.4f, of the mixture %.4f", c.what, have, moments, want)
		}
		for j, b := range got.Beliefs {
			mu := mean[j] / total
			sd := math.Sqrt(square[j]/total - mu*mu)
			if off, r := math.Abs(b.Mean-mu)/sd, math.Sqrt(b.Variance)/sd; off > 0.02 || math.Abs(r-1) > 0.02 {
				t.Errorf("%s: %s has mean %.4f and deviation %.4f, the mixture %.4f and %.4f", c.what, b.Feature, b.Mean, math.Sqrt(b.Variance), mu, sd)
			}
		}
	}
}
