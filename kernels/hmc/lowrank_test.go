package hmc

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/lowrank"
)

// The low-rank likelihood of rank 3 and 2 of a design of rank 3, gaussian family:
// the posterior is that of the closed form with X U Uᵀ for X, all of X at rank 3.
// Moments and draws of the weights agree with it, and the evidence.
func TestLowRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	const n, d = 25, 6
	a, b := normals(rng, n, 3), normals(rng, 3, d)
	x := make([][]float64, n)
	y := make([]float64, n)
	for i := range x {
		x[i] = make([]float64, d)
		for j := range x[i] {
			for k := range 3 {
				x[i][j] += a[i][k] * b[k][j]
			}
		}
		y[i] = x[i][0] + rng.NormFloat64()
	}
	for _, full := range []bool{false, true} {
		for _, rank := range []int{3, 2} {
			m := &kernels.Model{NoIntercept: true, Lik: family(t, "gaussian", "", lik.Params{Dispersion: 1}), Prior: kernels.Prior{Variance: 1.5, InterceptVariance: 10}}
			m.Options = kernels.Options{Rank: rank, Seed: 3}
			p := problem(t, m, x, y)
			if full {
				l := dense.New(d, d)
				for i := range d {
					for j := range i {
						l.Row(i)[j] = 0.2
					}
					l.Row(i)[i] = 1
				}
				p.Normal = gauss.NewFull(p.PriorMean, l)
			}
			r := sample(t, p)
			f, err := lowrank.SVD(design.Dense(p.Dense()), lowrank.Options{Rank: rank})
			if err != nil {
				t.Fatal(err)
			}
			seen := make([][]float64, n)
			for i := range seen {
				seen[i] = make([]float64, d)
				dense.Gemv(seen[i], f.U, f.XU.Row(i))
			}
			q := problem(t, m, seen, y)
			q.Normal = p.Normal
			mean, cov, logZ := ridge(t, q)
			if math.Abs(r.LogEvidence-logZ) > 5*r.LogEvidenceError {
				t.Errorf("rank %d: log evidence %v ± %v, want %v", rank, r.LogEvidence, r.LogEvidenceError, logZ)
			}
			ess := math.Inf(1)
			for j := range r.ESSBulk {
				ess = math.Min(ess, math.Min(r.ESSBulk[j], r.ESSTail[j]))
			}
			s := newSpread(d, true)
			w := make([]float64, d)
			for c := range r.Draws {
				for i := range r.Draws[c].Rows {
					r.Weights(w, c, i)
					s.add(w)
				}
			}
			for j := range mean {
				sd := math.Sqrt(cov.At(j, j))
				got := r.Fit.Beliefs[j]
				if z := math.Abs(got.Mean-mean[j]) / sd * math.Sqrt(ess); z > 5 {
					t.Errorf("rank %d: mean %d off by %.1f standard errors", rank, j, z)
				}
				if z := math.Abs(got.Variance/cov.At(j, j)-1) * math.Sqrt(ess/4); z > 5 {
					t.Errorf("rank %d: variance %d = %v, want %v", rank, j, got.Variance, cov.At(j, j))
				}
				if z := math.Abs(s.mean[j]-mean[j]) / sd * math.Sqrt(ess); z > 5 {
					t.Errorf("rank %d: mean of draws %d off by %.1f standard errors", rank, j, z)
				}
				if z := math.Abs(s.cov.At(j, j)/(s.n-1)/cov.At(j, j)-1) * math.Sqrt(ess/4); z > 5 {
					t.Errorf("rank %d: variance of draws %d = %v, want %v", rank, j, s.cov.At(j, j)/(s.n-1), cov.At(j, j))
				}
			}
			if !r.Fit.Converged || !strings.Contains(r.Fit.Status, "rank") {
				t.Errorf("status %q", r.Fit.Status)
			}
			if rank == 2 && !full {
				t.Log(r.Fit.Status)
			}
		}
	}
}
