package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/kerneltest/covariance"
	"github.com/bglm/bglm/kernels/lik"
)

func withHessian(m *kernels.Model, h string, rank int) *kernels.Model {
	c := *m
	c.Options.Hessian, c.Options.Rank = h, rank
	return &c
}

// A low rank that reaches min(n, p) is the full Hessian, with any prior, dense and
// sparse, and the status is ok; below it the diagonal of the precision is that of the full one,
// for all of it is kept, the evidence is that of its own determinant, and the status says so.
func TestLowRank(t *testing.T) {
	for _, prior := range []string{"diagonal", "full", "lowrank"} {
		for _, shape := range [][2]int{{60, 20}, {15, 40}} {
			for _, share := range []float64{1, 0.1} {
				rng := rand.New(rand.NewPCG(5, 5))
				m := model(t, "bernoulli", "logit", lik.Params{})
				o := simulate(rng, "bernoulli", shape[0], shape[1], share)
				fit := func(h string, rank int) *kernels.Fit {
					p := problem(t, withHessian(m, h, rank), o)
					r := rand.New(rand.NewPCG(5, 6))
					switch prior {
					case "full":
						fullPrior(r, p)
					case "lowrank":
						lowPrior(t, r, p, 3)
					}
					f, err := Fit(context.Background(), p)
					if err != nil {
						t.Fatal(err)
					}
					return f
				}
				full := fit("full", 0)
				want := covariance.Of(t, full)
				what := fmt.Sprintf("%s %v %v", prior, shape, share)
				p := len(full.Beliefs)
				for _, rank := range []int{1, 5, min(shape[0], p)} {
					f := fit("lowrank", rank)
					got := covariance.Of(t, f)
					for j := range p {
						kerneltest.Close(t, what+" mean", f.Beliefs[j].Mean, full.Beliefs[j].Mean, close8)
					}
					if rank == min(shape[0], p) && prior != "lowrank" {
						// a low-rank prior and the data's rank do not fit into one rank
						kerneltest.Close(t, what+" evidence", f.LogEvidence, full.LogEvidence, close8)
						for i := range p {
							for j := range p {
								kerneltest.Close(t, what+" covariance", got.At(i, j), want.At(i, j), close8)
							}
						}
					}
					if said := strings.Contains(f.Status, "left out by a low rank"); said == (rank == min(shape[0], p)) {
						t.Errorf("%s rank %d: %s", what, rank, f.Status)
					}
					if prior == "lowrank" {
						continue // directions that do not fit are left out
					}
					precise, logDet := inverse(t, got)
					wanted, wantDet := inverse(t, want)
					for j := range p {
						kerneltest.Close(t, what+" precision", precise.At(j, j), wanted.At(j, j), close8)
					}
					kerneltest.Close(t, what+" determinant", f.LogEvidence-full.LogEvidence, 0.5*(logDet-wantDet), kerneltest.Tol{Abs: 1e-7})
				}
			}
		}
	}
}

// inverse is that of a covariance, whose log determinant comes with it.
func inverse(t *testing.T, c *dense.Matrix) (*dense.Matrix, float64) {
	t.Helper()
	l, inv := c.Clone(), dense.New(c.Rows, c.Rows)
	if err := dense.Cholesky(l); err != nil {
		t.Fatal(err)
	}
	dense.InverseFromCholesky(inv, l)
	return inv, dense.LogDet(l)
}

// A rank that was asked for and cannot be is clamped, and the status says so.
func TestRankClamped(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	m := model(t, "bernoulli", "logit", lik.Params{})
	f, err := Fit(context.Background(), problem(t, withHessian(m, "lowrank", 9), simulate(rng, "bernoulli", 30, 4, 1)))
	if err != nil || f.Covariance.Rank != 4 || !strings.Contains(f.Status, "rank 9 is clamped to 4") {
		t.Error(err, f)
	}
}

// Diagonal and block Hessians are the inverse of the diagonal and of the blocks of
// Λ0 + H; both are full where the data make them so.
func TestDiagonalAndBlock(t *testing.T) {
	for _, prior := range []string{"diagonal", "full", "lowrank"} {
		for _, orthogonal := range []bool{false, true} {
			if orthogonal && prior != "diagonal" {
				continue
			}
			rng := rand.New(rand.NewPCG(6, 5))
			m := model(t, "poisson", "log", lik.Params{})
			o := simulate(rng, "poisson", 90, 6, 1)
			o.names = []string{"a=1", "b=1", "a=2", "c", "b=2", "b=3"}
			if orthogonal { // each row has features of one group only
				for i, row := range o.x {
					for j := range row {
						if (o.names[j][0] - 'a') != byte(i%3) {
							row[j] = 0
						}
					}
				}
			}
			fit := func(h string) (*kernels.Problem, *kernels.Fit) {
				p := problem(t, withHessian(m, h, 0), o)
				r := rand.New(rand.NewPCG(5, 6))
				switch prior {
				case "full":
					fullPrior(r, p)
				case "lowrank":
					lowPrior(t, r, p, 2)
				}
				f, err := Fit(context.Background(), p)
				if err != nil {
					t.Fatal(err)
				}
				return p, f
			}
			p, full := fit("full")
			cov := covariance.Of(t, full)
			l, h := cov.Clone(), dense.New(p.P, p.P)
			if err := dense.Cholesky(l); err != nil {
				t.Fatal(err)
			}
			dense.InverseFromCholesky(h, l)
			logDet0, _ := p.Normal.LogDet()
			_, diag := fit("diagonal")
			_, block := fit("block")
			if full.Status != "ok" || diag.Status != kernels.FactorisedNote || (block.Status == kernels.FactorisedNote) == orthogonal {
				t.Errorf("%s, orthogonal %v: full %s; diagonal %s; block %s", prior, orthogonal, full.Status, diag.Status, block.Status)
			}
			logJointAtMode := full.LogEvidence + 0.5*logDet0 - 0.5*dense.LogDet(l)
			got, det := covariance.Of(t, diag), 0.0
			for j := range p.P {
				kerneltest.Close(t, prior+" diagonal", got.At(j, j), 1/h.At(j, j), close8)
				det += math.Log(h.At(j, j))
			}
			kerneltest.Close(t, prior+" diagonal evidence", diag.LogEvidence, logJointAtMode-0.5*(logDet0+det), close8)
			got = covariance.Of(t, block)
			group, _ := p.Groups()
			masked := h.Clone()
			for i := range p.P {
				for j := range p.P {
					if group[i] != group[j] {
						masked.Row(i)[j] = 0
						if got.At(i, j) != 0 {
							t.Errorf("block: covariance %v between groups", got.At(i, j))
						}
					}
				}
			}
			inv := dense.New(p.P, p.P)
			if err := dense.Cholesky(masked); err != nil {
				t.Fatal(err)
			}
			dense.InverseFromCholesky(inv, masked)
			for i := range p.P {
				for j := range p.P {
					kerneltest.Close(t, prior+" block", got.At(i, j), inv.At(i, j), close8)
				}
			}
			kerneltest.Close(t, prior+" block evidence", block.LogEvidence, logJointAtMode-0.5*(logDet0+dense.LogDet(masked)), close8)
			if orthogonal {
				kerneltest.Close(t, "block of orthogonal groups", block.LogEvidence, full.LogEvidence, close8)
			}
		}
	}
}

// With a low-rank Hessian of many weights conjugate gradients find the mode.
func TestManyWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	m := model(t, "bernoulli", "logit", lik.Params{})
	m.Options.Hessian = "lowrank"
	m.NoIntercept = false
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	const n, levels = 4000, 2500
	for range n {
		b.Add(0, 1)
		for g := range 2 {
			id, err := r.Dict.Add(fmt.Sprintf("g%d=%d", g, rng.IntN(levels)))
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, 1)
		}
		b.EndRow()
		b.Y = append(b.Y, float64(rng.IntN(2)))
	}
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(planned(p))
	if err != nil {
		t.Fatal(err)
	}
	if e.search.space != krylov || e.hessian != "lowrank" {
		t.Errorf("space %d, hessian %s for %d weights", e.search.space, e.hessian, p.P)
	}
	f, err := Fit(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if f.Covariance.Form != gauss.LowRank || f.Covariance.Rank != 50 || !f.Converged || !strings.HasPrefix(f.Status, "curvature is left out by a low rank: the Hessian has rank 50 ") {
		t.Errorf("%v rank %d: %s", f.Covariance.Form, f.Covariance.Rank, f.Status)
	}
	w := make([]float64, p.P)
	for j := range w {
		w[j] = f.Beliefs[j].Mean
	}
	// the gradient of the log posterior, against its size at the prior mean
	eta, d1, g := make([]float64, p.N), make([]float64, p.N), make([]float64, p.P)
	p.Predictor(eta, w)
	for i := range eta {
		_, d1[i], _ = p.Lik.LogLik(p.Batch().Obs(i), eta[i])
	}
	p.MulT(g, d1)
	for j := range g {
		if r := g[j] - (w[j]-p.PriorMean[j])/p.PriorVar[j]; math.Abs(r) > 1e-6 {
			t.Fatalf("gradient %v", r)
		}
	}
}
