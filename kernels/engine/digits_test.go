package engine

import (
	"context"
	"math"
	"math/big"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/lik"
)

// Merging keeps the digits of its parts where some directions are known 10⁷ times better than
// others: an intercept beside a constant column, which only the prior tells apart, and a number
// known to 10⁻¹³ of its prior variance. The rows follow the line exactly, so that their parts
// agree; expected is the posterior of all rows in 300 bits.
func TestMergeKeepsDigits(t *testing.T) {
	const n, v0 = 2000, 2.0
	// Λ = I/v0 + Σ w x xᵀ, Λ μ = Σ w x y, over number, constant, intercept.
	x := func(i int) [3]float64 { return [3]float64{float64(i - 20), 3, 1} }
	whole := newBig(4)
	for j := range 3 {
		whole.add(j, j, 1/v0)
	}
	for i := range n {
		for j, a := range x(i) {
			for k, b := range x(i) {
				whole.add(j, k, float64(i)*a*b)
			}
			whole.add(j, 3, float64(i)*a*2*float64(i-20))
		}
	}
	var mean, sd [3]float64
	inverse, at := whole.solve()
	for j := range 3 {
		mean[j], _ = at[j].Float64()
		v, _ := inverse[j].Float64()
		sd[j] = math.Sqrt(v)
	}
	l, err := lik.New("gaussian", "", lik.Params{Dispersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, form string }{{"adf", "full"}, {"adf", "arrowhead"}, {"adf", "lowrank"}, {"ekf", "full"}, {"ekf", "lowrank"}} {
		m := kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1}, Prior: kernels.Prior{Variance: v0, InterceptVariance: v0}, Options: kernels.Options{Covariance: c.form, Rank: 3}}
		check := func(how string, f *kernels.Fit, tol float64) {
			t.Helper()
			for j, name := range []string{"x", "z", kernels.Intercept} {
				for _, b := range f.Beliefs {
					if b.Feature != name {
						continue
					}
					if d := math.Abs(b.Mean-mean[j]) / sd[j]; !(d < tol) {
						t.Errorf("%s %s, %s: mean of %s is off by %.2g deviations", c.method, c.form, how, name, d)
					}
					// D - FFᵀ of a low rank form has the digits of D.
					if d := math.Abs(math.Sqrt(b.Variance)/sd[j] - 1); !(d < 1e-6 || c.form == "lowrank" && d < 0.05) {
						t.Errorf("%s %s, %s: deviation of %s is off by %.2g", c.method, c.form, how, name, d)
					}
				}
			}
		}
		// Measured: 10⁻¹⁰ deviations. Sums of precisions lose 10⁻⁶, and of low rank 10³.
		for _, cut := range []int{3, 40, n / 2, n - 40} {
			a, fa := fit(t, c.method, m, line(0, cut))
			b, fb := fit(t, c.method, m, line(cut, n))
			fits, err := kernels.MergeFits(context.Background(), []*kernels.Fit{fa, fb}, nil, adf.MergeArrowheads)
			if err != nil {
				t.Fatal(err)
			}
			if c.form != "lowrank" { // what its variances lost weighs the means
				check("merged fits", fits, 1e-8)
			}
			for _, pair := range [][2]Fitter{{a.Clone(), b}, {b.Clone(), a}} {
				if err := pair[0].Merge(context.Background(), pair[1].Clone()); err != nil {
					t.Fatal(err)
				}
				f, err := pair[0].Fit(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				check("merged states", f.Fit, 1e-8)
			}
		}
	}
}

// The low-rank filter moves its means by what is forgotten and by what units change, not by
// what it knows, and takes no small variance as a difference of large ones: on rows such as
// those above its means were off by 10⁵ deviations, variances of weights by factors up to 20.
// Expected is the filter of the full covariance, whose root forms no precision. Squares of W
// have 16 digits: of standardised columns the best known direction is 10⁸ times better known
// than the worst after 1,000 rows, and by 2,000 no digit is left.
func TestLowRankKeepsDigits(t *testing.T) {
	l, err := lik.New("gaussian", "", lik.Params{Dispersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]func(m *kernels.Model){
		"forgetting":  func(m *kernels.Model) { m.Forgetting = 0.999 },
		"standardize": func(m *kernels.Model) { m.Options.Standardize = true },
		"both":        func(m *kernels.Model) { m.Forgetting, m.Options.Standardize = 0.999, true },
	} {
		var fits [2]*kernels.Fit
		for k, form := range []string{"full", "lowrank"} {
			m := kernels.Model{Lik: l, Params: lik.Params{Dispersion: 1}, Prior: kernels.Prior{Variance: 1, InterceptVariance: 10}, Options: kernels.Options{Covariance: form, Rank: 3}}
			set(&m)
			_, fits[k] = fit(t, "ekf", m, line(0, 1000))
		}
		for j, w := range fits[0].Beliefs {
			if d := math.Abs(fits[1].Beliefs[j].Mean-w.Mean) / math.Sqrt(w.Variance); !(d < 1e-6) {
				t.Errorf("%s: mean of %s is %v, by the full covariance %v: %.2g deviations", name, w.Feature, fits[1].Beliefs[j].Mean, w.Mean, d)
			}
			if r := fits[1].Beliefs[j].Variance / w.Variance; !(math.Abs(r-1) < 0.01) {
				t.Errorf("%s: variance of %s is %v times that by the full covariance", name, w.Feature, r)
			}
		}
	}
}

// line are rows lo to hi of a line: an intercept, a number, a constant, weights that grow.
func line(lo, hi int) (b kernels.Batch) {
	b.Reset()
	for i := lo; i < hi; i++ {
		b.Add(0, 1) // the intercept
		b.Add(1, float64(i-20))
		b.Add(2, 3)
		b.EndRow()
		b.Y, b.Weight = append(b.Y, 2*float64(i-20)), append(b.Weight, float64(i))
	}
	return b
}

// bigs is a system of equations in 300 bits, its right-hand side the last column.
type bigs [][]*big.Float

func newBig(cols int) bigs {
	b := make(bigs, cols-1)
	for i := range b {
		for range cols {
			b[i] = append(b[i], new(big.Float).SetPrec(300))
		}
	}
	return b
}

func (b bigs) add(i, j int, v float64) { b[i][j].Add(b[i][j], big.NewFloat(v)) }

// solve is the diagonal of the inverse, and the solution; b is lost.
func (b bigs) solve() (inverse, x []*big.Float) {
	n := len(b)
	for i := range b {
		for j := range n {
			one := new(big.Float).SetPrec(300)
			if i == j {
				one.SetInt64(1)
			}
			b[i] = append(b[i], one)
		}
	}
	for k := range b {
		for i := range b {
			if i == k {
				continue
			}
			f := new(big.Float).Quo(b[i][k], b[k][k])
			for j := range b[i] {
				b[i][j].Sub(b[i][j], new(big.Float).Mul(f, b[k][j]))
			}
		}
	}
	for k := range b {
		x = append(x, new(big.Float).Quo(b[k][n], b[k][k]))
		inverse = append(inverse, new(big.Float).Quo(b[k][n+1+k], b[k][k]))
	}
	return inverse, x
}
