package kernels_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/filter"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/lik"
)

// The zero Model, Batch, Dict and Prior are the defaults, and nil is the zero Model.
func TestZeroValues(t *testing.T) {
	logit, err := lik.New("bernoulli", "logit", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	said := &kernels.Model{Lik: logit, Prior: kernels.Prior{Variance: 1, InterceptVariance: 10}}
	fill := func(d *kernels.Dict) *kernels.Batch {
		var b kernels.Batch
		for i, name := range []string{"a", "b", "a", "a"} {
			id, err := d.Add(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Add(0, 1)
			b.Add(id, 1)
			b.Add(id, 1)
			b.SumDuplicates(new(kernels.Scratch))
			b.EndRow()
			b.Y = append(b.Y, float64(i%2))
		}
		if b.Len() != 4 {
			t.Fatalf("the zero Batch took %d rows of 4", b.Len())
		}
		return &b
	}
	fits := map[string]func(m *kernels.Model) (*kernels.Fit, error){
		"adf": func(m *kernels.Model) (*kernels.Fit, error) {
			s, err := adf.New(m)
			if err != nil {
				return nil, err
			}
			if err := s.Update(t.Context(), fill(s.Features()), false); err != nil {
				return nil, err
			}
			return s.Fit(t.Context())
		},
		"filter": func(m *kernels.Model) (*kernels.Fit, error) {
			s, err := filter.New(m, filter.ADF{})
			if err != nil {
				return nil, err
			}
			if err := s.Update(t.Context(), fill(s.Features()), false); err != nil {
				return nil, err
			}
			return s.Fit(context.Background())
		},
		"laplace": func(m *kernels.Model) (*kernels.Fit, error) {
			r, err := kernels.NewRows(m)
			if err != nil {
				return nil, err
			}
			if err := r.Update(fill(&r.Dict), false); err != nil {
				return nil, err
			}
			p, err := r.Problem()
			if err != nil {
				return nil, err
			}
			return laplace.Fit(t.Context(), p)
		},
	}
	for name, fit := range fits {
		want, err := fit(said)
		if err != nil {
			t.Fatal(name, err)
		}
		if want.Beliefs[0].Feature != kernels.Intercept || want.N != 4 {
			t.Errorf("%s: %+v", name, want)
		}
		for what, m := range map[string]*kernels.Model{"zero": {}, "nil": nil} {
			got, err := fit(m)
			if err != nil {
				t.Fatal(name, what, err)
			}
			if !reflect.DeepEqual(got.Beliefs, want.Beliefs) || got.Prior != want.Prior || got.Family != want.Family || got.LogEvidence != want.LogEvidence {
				t.Errorf("%s: the %s model gives %+v, the default one %+v", name, what, got, want)
			}
		}
	}
}

// A prior variance of 0 is the default unless it is known to be meant.
func TestPriorZeros(t *testing.T) {
	for _, c := range []struct {
		p             kernels.Prior
		of, intercept kernels.Weight
	}{
		{kernels.Prior{}, kernels.Weight{Variance: 1}, kernels.Weight{Variance: 10}},
		{kernels.Prior{Mean: 2, Variance: 4}, kernels.Weight{Mean: 2, Variance: 4}, kernels.Weight{Mean: 2, Variance: 10}},
		{kernels.Prior{Mean: 2, Known: true}, kernels.Weight{Mean: 2}, kernels.Weight{Mean: 2}},
		{kernels.Prior{InterceptVariance: 3}.Literal(), kernels.Weight{}, kernels.Weight{Variance: 3}},
	} {
		if of, in := c.p.Of([]byte("x")), c.p.Of([]byte(kernels.Intercept)); of != c.of || in != c.intercept {
			t.Errorf("%+v: %v and %v, want %v and %v", c.p, of, in, c.of, c.intercept)
		}
		if p := c.p.Complete().Literal(); p.Complete() != p || p.Of(nil) != c.of {
			t.Errorf("%+v completes to %+v", c.p, p)
		}
	}
	// Known weights stay where they are.
	m := &kernels.Model{Prior: kernels.Prior{Mean: 0.5, Known: true}}
	s, err := adf.New(m)
	if err != nil {
		t.Fatal(err)
	}
	var b kernels.Batch
	b.Add(0, 1)
	b.EndRow()
	b.Y = []float64{0}
	if err := s.Update(t.Context(), &b, false); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Fit(t.Context()); err != nil || f.Beliefs[0].Weight != (kernels.Weight{Mean: 0.5}) {
		t.Errorf("%v %+v", err, f)
	}
}

// A model without a likelihood continues that of its start.
func TestCompleteFollowsStart(t *testing.T) {
	start := &kernels.Fit{Family: "gaussian", Link: "identity", Dispersion: 2, Prior: kernels.Prior{Variance: 3, InterceptVariance: 4}}
	m := (&kernels.Model{Start: start}).Complete()
	if m.Lik.Family() != "gaussian" || m.Params.Dispersion != 2 || m.Prior != start.Prior {
		t.Errorf("%+v", m)
	}
	if m.Complete() != m {
		t.Error("a complete model is copied")
	}
}
