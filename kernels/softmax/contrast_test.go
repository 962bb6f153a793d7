package softmax

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/kerneltest/covariance"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
)

// rowsOf is a batch of two rows, which share features, one of them unseen.
func rowsOf(t *testing.T, s *Scorer) *kernels.Batch {
	t.Helper()
	var b kernels.Batch
	b.Reset()
	for _, row := range []map[string]float64{{"x000": 1, "x001": 0.5, "new": 1}, {"x000": -1, "x002": 2, "new": 1, "other": 0.3}} {
		b.Add(0, 1)
		for _, name := range []string{"new", "other", "x000", "x001", "x002"} {
			x, ok := row[name]
			if !ok {
				continue
			}
			id, err := s.Features().Add(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, x)
		}
		b.EndRow()
	}
	return &b
}

// Contrasts against joint draws of the weights, which come by another way: within four of
// their errors.
func TestContrastsAgainstDraws(t *testing.T) {
	kerneltest.Slow(t)
	rng := rand.New(rand.NewPCG(3, 2))
	for _, o := range []kernels.Options{{}, {Hessian: "diagonal"}, {Hessian: "lowrank", Rank: 3}, {Reference: "class1"}} {
		for _, c := range []int{3, 5} {
			f := fit(t, model(o), simulate(rng, 120, 3, c, 1), names(c))
			s, err := NewScorer(f)
			if err != nil {
				t.Fatal(err)
			}
			b := rowsOf(t, s)
			got, err := s.Contrasts(b, 0, 1, 0.9)
			if err != nil {
				t.Fatal(err)
			}
			d, err := s.NewDraw()
			if err != nil {
				t.Fatal(err)
			}
			const n = 40_000
			latent, prob := make([][]float64, c), make([][]float64, c)
			fa, pa, pb := make([]float64, c), make([]float64, c), make([]float64, c)
			for k := range n {
				d.Set(7, uint64(k))
				x, err := d.Linear(b, 0)
				if err != nil {
					t.Fatal(err)
				}
				copy(fa, x)
				fb, err := d.Linear(b, 1)
				if err != nil {
					t.Fatal(err)
				}
				softmaxTo(pa, fa)
				softmaxTo(pb, fb)
				middle := 0.0
				for j := range c {
					if o.Reference == "" {
						middle += (fa[j] - fb[j]) / float64(c)
					}
				}
				for j := range c {
					latent[j], prob[j] = append(latent[j], fa[j]-fb[j]-middle), append(prob[j], pa[j]-pb[j])
				}
			}
			sum := 0.0
			for j := range c {
				check := func(what string, e predict.Estimate, positive float64, draws []float64, grid float64) {
					w, p := predict.OfDraws(draws, 1, 0.9)
					one := w.SD / math.Sqrt(n)
					kerneltest.Close(t, what+" mean", e.Mean, w.Mean, kerneltest.Tol{Abs: 4*one + 1e-5})
					kerneltest.Close(t, what+" sd", e.SD, w.SD, kerneltest.Tol{Abs: 4*one + 1e-3*w.SD})
					kerneltest.Close(t, what+" lower", e.Lower, w.Lower, kerneltest.Tol{Abs: 15*one + grid*w.SD})
					kerneltest.Close(t, what+" upper", e.Upper, w.Upper, kerneltest.Tol{Abs: 15*one + grid*w.SD})
					kerneltest.Close(t, what+" p", positive, p, kerneltest.Tol{Abs: 2/math.Sqrt(n) + grid})
				}
				check("latent", got[j].Estimate, got[j].Positive, latent[j], 0)
				check("probability", got[j].Response, got[j].ResponsePositive, prob[j], 0.01)
				sum += got[j].Response.Mean
			}
			kerneltest.Close(t, "sum", sum, 0, kerneltest.Tol{Abs: 1e-9})
			same, err := s.Contrasts(b, 1, 1, 0.9)
			if err != nil || same[0].SD != 0 || same[0].Mean != 0 || same[0].Positive != 0.5 || same[0].ResponsePositive != 0.5 || same[0].Response != (predict.Estimate{}) {
				t.Error(same, err)
			}
			if _, err := s.Contrasts(b, 0, 1, 1); err == nil {
				t.Error("a level of 1")
			}
		}
	}
}

// Two classes, one pinned, are the logistic fit of the other.
func TestTwoClassContrast(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 4))
	m := model(kernels.Options{Reference: "no"})
	f := fit(t, m, simulate(rng, 60, 3, 2, 1), []string{"no", "yes"})
	p := len(f.Beliefs) / 2
	l, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	one := *f
	one.Classes, one.Family, one.Link = nil, "bernoulli", "logit"
	one.Beliefs = append([]kernels.Belief(nil), f.Beliefs[p:]...)
	one.Covariance = kernels.Covariance{}
	full := covariance.Of(t, f)
	rows := make([][]float64, p)
	for j := range rows {
		for k := range p {
			rows[j] = append(rows[j], full.At(p+j, p+k))
		}
	}
	if err := one.SetCovariance(one.Beliefs, rows); err != nil {
		t.Fatal(err)
	}
	s, err := NewScorer(f)
	if err != nil {
		t.Fatal(err)
	}
	q, err := predict.NewWith(&one, l)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Contrasts(rowsOf(t, s), 0, 1, 0.9)
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Reset()
	of := rowsOf(t, s)
	for i := range 2 {
		fs, xs := of.Entries(i)
		for k, id := range fs {
			at, err := q.Features().AddRaw(string(s.Features().Name(id)))
			if err != nil {
				t.Fatal(err)
			}
			b.Add(at, xs[k])
		}
		b.EndRow()
	}
	want, err := q.Contrast(&b, 0, 1, 0.9)
	if err != nil {
		t.Fatal(err)
	}
	tol := kerneltest.Tol{Rel: 1e-6, Abs: 1e-9}
	for k, g := range [...][2]float64{{got[1].Mean, want.Mean}, {got[1].SD, want.SD}, {got[1].Lower, want.Lower}, {got[1].Positive, want.Positive}, {got[1].Response.Mean, want.Response.Mean},
		{got[1].Response.SD, want.Response.SD}, {got[1].Response.Lower, want.Response.Lower}, {got[1].Response.Upper, want.Response.Upper}, {got[1].ResponsePositive, want.Positive}, {got[0].Response.Upper, -want.Response.Lower}} {
		kerneltest.Close(t, []string{"mean", "sd", "lower", "p", "response", "response sd", "response lower", "response upper", "response p", "other"}[k], g[0], g[1], tol)
	}
}
