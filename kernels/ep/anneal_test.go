package ep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// A third of the responses are outliers, and stand together where the rows are in their order: the
// sites of the first rows must not choose where the posterior is. Of a single mean it is known by
// sums over the mean.
func TestOutliersInOrder(t *testing.T) {
	var ys []float64
	for i := range 60 {
		y := math.Sin(float64(i))
		switch {
		case i%5 == 0:
			y += 15
		case i%7 == 3:
			y -= 15
		}
		ys = append(ys, y)
	}
	params := lik.Params{Shape: 4, Dispersion: 0.25}
	l := like(t, "studentt", "", params)
	var sums [3]float64
	const unit = 260
	for m := -20.0; m < 20; m += 1e-3 {
		log := -0.5*m*m/10 - 0.5*math.Log(2*math.Pi*10)
		for _, y := range ys {
			v, _, _ := l.LogLik(lik.Obs{Y: y, Weight: 1}, m)
			log += v
		}
		w := math.Exp(log+unit) * 1e-3
		sums[0], sums[1], sums[2] = sums[0]+w, sums[1]+w*m, sums[2]+w*m*m
	}
	evidence, mean := math.Log(sums[0])-unit, sums[1]/sums[0]
	sd := math.Sqrt(sums[2]/sums[0] - mean*mean)
	for order, rank := range map[string]func(i int) int{
		"as they come": func(i int) int { return i }, "backwards": func(i int) int { return 59 - i }, "by sevens": func(i int) int { return i * 7 % 60 },
		"outliers first": func(i int) int { return i%12*5 + i/12 },
	} {
		for _, covariance := range []string{"full", "diagonal"} {
			var rows []row
			for i := range ys {
				rows = append(rows, row{x: map[string]float64{}, y: ys[rank(i)]})
			}
			m := &kernels.Model{Lik: l, Params: params, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: covariance}}
			f := fit(t, problem(t, m, rows)).Fit
			what := fmt.Sprintf("%s, %s: ", order, covariance)
			if !f.Converged || len(f.Beliefs) != 1 {
				t.Errorf("%s%s", what, f.Status)
				continue
			}
			// EP's error of 60 rows, not that of a mode 14 deviations and more away.
			kerneltest.Close(t, what+"mean", f.Beliefs[0].Mean, mean, kerneltest.Tol{Abs: 0.1 * sd})
			kerneltest.Close(t, what+"deviation", math.Sqrt(f.Beliefs[0].Variance), sd, kerneltest.Tol{Rel: 0.1})
			kerneltest.Close(t, what+"evidence", f.LogEvidence, evidence, kerneltest.Tol{Abs: 0.1})
		}
	}
}

// Of two fixed points the higher one is taken, whichever rows come first, and the other is said.
func TestRivals(t *testing.T) {
	params := lik.Params{Shape: 4, Dispersion: 0.25}
	m := &kernels.Model{Lik: like(t, "studentt", "", params), Params: params, Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "full"}}
	var evidence [2]float64
	said := ""
	for k := range evidence {
		var rows []row
		for i := range 20 {
			y := math.Sin(float64(i)) - 5
			if i >= 10 {
				y += 10.3
			}
			rows = append(rows, row{x: map[string]float64{}, y: y})
		}
		slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.y, b.y) * (1 - 2*k) })
		f := fit(t, problem(t, m, rows)).Fit
		evidence[k], said = f.LogEvidence, said+f.Status
		t.Log(f.Beliefs[0].Mean, f.LogEvidence, f.Status)
	}
	kerneltest.Close(t, "evidence", evidence[0], evidence[1], kerneltest.Tol{Abs: 1e-6})
	if !strings.Contains(said, "another fixed point") {
		t.Error(said)
	}
}
