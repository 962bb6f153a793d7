package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// Where no covariance is asked for ep is full up to 1,000 weights and says so beyond them, as where
// a factorised one is.
func TestCovarianceOfEP(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	table := func(n, levels int) *rows.Table {
		a, b, y := make([]string, n), make([]string, n), make([]bool, n)
		for i := range n {
			a[i], b[i] = fmt.Sprint(i%levels), fmt.Sprint(rng.IntN(3))
			y[i] = (rng.Float64() < 0.3) != (b[i] == "1")
		}
		return &rows.Table{X: rows.Fields(rows.Texts("a", a), rows.Texts("b", b)), Y: rows.Bools("y", y)}
	}
	fit := func(t *testing.T, x *rows.Table, covariance string) *Result {
		s := option.Defaults()
		s.Options.Covariance = covariance
		f, err := Fit(context.Background(), "ep", s, x)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct {
		n, levels int
		form      string
		said      bool
	}{{120, 5, "full", false}, {1100, 1050, "diagonal", true}} {
		x := table(c.n, c.levels)
		got, want := fit(t, x, ""), fit(t, x, c.form)
		if got.Covariance.Form.String() != c.form || !slices.Equal(got.Beliefs, want.Beliefs) || got.LogEvidence != want.LogEvidence {
			t.Errorf("%d levels: covariance %s, log evidence %v and %v", c.levels, got.Covariance.Form, got.LogEvidence, want.LogEvidence)
		}
		if kernels.Factorised(got.Status) != c.said || kernels.Factorised(want.Status) != c.said {
			t.Errorf("%d levels: %s; asked for: %s", c.levels, got.Status, want.Status)
		}
	}
}
