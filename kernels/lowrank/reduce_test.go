package lowrank

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
)

// Lifting the prior of u gives the prior of the weights; lifting any Gaussian gives
// mean μ0 + Σ0 Ũ (ŨᵀΣ0Ũ)⁻¹ (E γ - Ũᵀμ0) and the covariance that goes with it, by dense
// algebra, for priors of all forms.
func TestLift(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, n := range []int{4, 30} { // rank 3, and all weights
		for _, d := range []int{7, 3} {
			x := gaussian(rng, n, d)
			for _, intercept := range []bool{false, true} {
				p := problem(t, model(t, "gaussian", intercept, kernels.Options{Rank: 3}), x, make([]float64, n), nil)
				for _, prior := range normals(t, rng, p.P) {
					p.Normal = prior
					r, err := Reduce(p)
					if err != nil {
						t.Fatal(err)
					}
					k := r.K()
					unit := gauss.NewDiagonal(make([]float64, k), decay(k, func(float64) float64 { return 1 }))
					w, held, err := r.Lift(unit)
					if err != nil || held != 0 {
						t.Fatal(held, err)
					}
					close2(t, "prior mean", w.Mean, prior.Mean, 1e-13)
					close2(t, "prior covariance", covariance(w).Data, covariance(prior).Data, 1e-13)

					// The reduced design is X Ũ Tᵀ, and C H = Σ0 Ũ T⁻¹.
					g := dense.New(p.P, k)
					for j := range k {
						e := make([]float64, k)
						e[j] = 1
						w := make([]float64, p.P)
						r.Weights(w, e)
						for i := range w {
							g.Row(i)[j] = w[i] - prior.Mean[i]
						}
					}
					s0, gt, want := covariance(prior), dense.New(p.P, k), dense.New(p.P, k)
					dense.Mul(gt, g, r.T)
					dense.Mul(want, s0, r.basis)
					close2(t, "C H T", gt.Data, want.Data, 1e-13)

					// A covariance below the prior's, then one above it in a direction.
					for _, factor := range []float64{0.5, 1.5} {
						l := dense.New(k, k)
						mean := make([]float64, k)
						for i := range k {
							mean[i] = rng.NormFloat64()
							l.Row(i)[i] = 0.3
						}
						l.Row(0)[0] = factor
						u := gauss.NewFull(mean, l)
						w, held, err := r.Lift(u)
						if err != nil || held != 0 {
							t.Fatal(held, err)
						}
						cov, inner := covariance(prior), covariance(u)
						for i := range k {
							inner.Row(i)[i]--
						}
						gi := dense.New(p.P, k)
						dense.Mul(gi, g, inner)
						dense.Gemm(cov, 1, gi, false, g, true, 1)
						close2(t, "covariance", covariance(w).Data, cov.Data, 1e-12)
						m := append([]float64(nil), prior.Mean...)
						for i := range m {
							m[i] += dense.Dot(g.Row(i), mean)
						}
						close2(t, "mean", w.Mean, m, 1e-13)
						if wantFull := prior.Form == gauss.Full || factor > 1 || r.rankAfter() >= p.P; (w.Form == gauss.Full) != wantFull {
							t.Errorf("form %v from prior %v, factor %v", w.Form, prior.Form, factor)
						}
					}

					// The reduced problem's predictor is X μ0 + X Ũ Ũᵀ(w - μ0) and so on.
					q := r.Problem()
					u := gaussian(rng, 1, k).Data
					got, full, low := make([]float64, n), make([]float64, p.P), make([]float64, n)
					q.Predictor(got, u)
					r.Weights(full, u)
					b := make([]float64, k)
					for j, v := range full {
						dense.Axpy(v-prior.Mean[j], r.basis.Row(j), b)
					}
					p.Predictor(low, prior.Mean)
					for i := range low {
						low[i] += dense.Dot(r.Z.Row(i), b)
					}
					close2(t, "predictor", got, low, 1e-12)
				}
			}
		}
	}
}

// With n, p far above the rank a direction wider than the prior is held and counted.
func TestLiftHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("more than FullLimit weights")
	}
	rng := rand.New(rand.NewPCG(6, 1))
	x := dense.New(20, FullLimit+1)
	for j := range x.Cols {
		x.Row(rng.IntN(20))[j] = rng.NormFloat64()
	}
	p := problem(t, model(t, "gaussian", true, kernels.Options{Rank: 3}), x, make([]float64, 20), nil)
	r, err := Reduce(p)
	if err != nil {
		t.Fatal(err)
	}
	w, held, err := r.Lift(gauss.NewDiagonal(make([]float64, 4), []float64{0.5, 2, 1, 3}))
	if err != nil || held != 2 || w.Form != gauss.LowRank {
		t.Fatal(held, err)
	}
	for j, v := range w.Var {
		if !(v > 0) || v > p.PriorVar[j]*(1+1e-12) {
			t.Fatalf("variance %v of prior %v", v, p.PriorVar[j])
		}
	}
	p.Normal = &gauss.Normal{Form: gauss.Full, Mean: p.PriorMean, Var: p.PriorVar}
	r.Prior = p.Normal
	if _, _, err := r.Lift(gauss.NewDiagonal(make([]float64, 4), []float64{1, 1, 1, 1})); err == nil {
		t.Error("full prior above the limit gives no error")
	}
}

// The intercept's direction is a coordinate of its own.
func TestForced(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	x := gaussian(rng, 30, 12)
	p := problem(t, model(t, "bernoulli", true, kernels.Options{Rank: 4}), x, make([]float64, 30), nil)
	r, err := Reduce(p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Forced != 1 || r.K() != 5 || r.Clamped != 0 {
		t.Fatalf("forced %d, k %d, clamped %d", r.Forced, r.K(), r.Clamped)
	}
	alone, err := SVD(design.Dense(x), Options{Rank: 4, Key: func(j int) uint64 { return nameKey(p.Name(j + 1)) }})
	if err != nil {
		t.Fatal(err)
	}
	close2(t, "U", r.U.Clone().Data, alone.U.Data, 0)
	for i := range p.N {
		if r.Z.At(i, 0) != 1 {
			t.Fatal("first column is not the intercept")
		}
	}
	for j := range p.P {
		if v := math.Abs(r.basis.At(j, 0)); v != 0 && j > 0 || v != 1 && j == 0 {
			t.Errorf("basis of the intercept: %v at %d", v, j)
		}
	}
}
