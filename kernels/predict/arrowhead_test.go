package predict

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/kerneltest/invariant"
	"github.com/bglm/bglm/kernels/lik"
)

// Rows scored under a fit with an arrowhead covariance have the predictor that the filter
// itself has for them, levels never seen included, and draws have its moments.
func TestArrowhead(t *testing.T) {
	l, err := lik.New("", "probit", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := adf.NewTied(&kernels.Model{Lik: l, Options: kernels.Options{Covariance: "arrowhead"},
		Priors: []kernels.Belief{{Feature: "g=own", Weight: kernels.Weight{Mean: 1, Variance: 0.5}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Features().Use(kernels.NewColumns([]string{"g", "h"}, []string{"u"}))
	r := rand.New(rand.NewPCG(4, 4))
	batch := func(d *kernels.Dict, rows int, names func(i int) []string) *kernels.Batch {
		var b kernels.Batch
		b.Reset()
		for i := range rows {
			b.Add(0, 1)
			for _, name := range names(i) {
				id, err := d.Add(name)
				if err != nil {
					t.Fatal(err)
				}
				x := 1.0
				if name == "u" {
					x = r.NormFloat64()
				}
				b.Add(id, x)
			}
			b.EndRow()
			b.Y = append(b.Y, float64(r.IntN(2)))
		}
		return &b
	}
	if err := s.Update(context.Background(), batch(s.Features(), 300, func(i int) []string {
		return []string{"u", fmt.Sprintf("g=%d", i%7), fmt.Sprintf("h=%d", i%3)}
	}), false); err != nil {
		t.Fatal(err)
	}
	f, err := s.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := invariant.Check(f); err != nil {
		t.Fatal(err)
	}
	p := scorer(t, f)
	rows := [][]string{{"u", "g=1", "h=2"}, {"g=1"}, {"u", "g=new", "h=0"}, {"g=new", "h=new"}, {"g=own", "other"}, {"g=own"}}
	own := batch(s.Features(), len(rows), func(i int) []string { return rows[i] })
	mean, variance := make([]float64, len(rows)), make([]float64, len(rows))
	if err := s.Linear(own, mean, variance); err != nil {
		t.Fatal(err)
	}
	tol := kerneltest.Tol{Rel: 1e-11, Abs: 1e-12}
	d, err := p.NewDraw()
	if err != nil {
		t.Fatal(err)
	}
	for i, names := range rows {
		_, xs := own.Entries(i)
		b, err := p.Row(names, xs[1:], 0)
		if err != nil {
			t.Fatal(err)
		}
		m, v, err := p.Linear(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprint(names)
		kerneltest.Close(t, what+": mean", m, mean[i], tol)
		kerneltest.Close(t, what+": variance", v, variance[i], tol)
		const draws = 20000
		sum, sq := 0.0, 0.0
		for k := range uint64(draws) {
			d.Set(7, k)
			x, err := d.Linear(b, 0)
			if err != nil {
				t.Fatal(err)
			}
			sum += x
			sq += (x - m) * (x - m)
		}
		kerneltest.Close(t, what+": mean of draws", sum/draws, m, kerneltest.Tol{Abs: 5 * math.Sqrt(v/draws)})
		kerneltest.Close(t, what+": variance of draws", sq/draws, v, kerneltest.Tol{Rel: 5 * math.Sqrt(2.0/draws)})
	}
}
