package ep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels"
)

// collinear draws rows of an intercept beside full sets of indicators, in which every
// set sums to it, and a number far from centred.
func collinear(r *rand.Rand, f family, n int) []row {
	rows := make([]row, n)
	for i := range rows {
		a, b, x := r.IntN(2), r.IntN(3), 1+0.5*r.NormFloat64()
		s := 0.5*float64(a) - 0.3*float64(b) + 0.2*x
		rows[i] = row{x: map[string]float64{fmt.Sprint("a", a): 1, fmt.Sprint("b", b): 1, "x": x}, y: f.y(r, s), trials: f.trials}
	}
	return rows
}

// Collinear designs converge in some ten sweeps to the point that sweeps without Newton
// steps approach in thousands; of a Gaussian likelihood its means are those of the joint
// posterior.
func TestNewtonStep(t *testing.T) {
	for name, f := range families(t) {
		n := 80
		rows := collinear(rand.New(rand.NewPCG(5, 6)), f, n)
		m := &kernels.Model{Lik: f.l, Prior: kernels.Prior{Variance: 1, InterceptVariance: 2}}
		a := fit(t, problem(t, m, rows))
		if a.Fit.Status != "ok" || a.Sweeps > 60 {
			t.Errorf("%s: %d sweeps, %s", name, a.Sweeps, a.Fit.Status)
		}
		t.Logf("%s: %d sweeps", name, a.Sweeps)
		if (name == "logit" || name == "poisson") && !testing.Short() { // others take more sweeps still
			p := problem(t, m, rows)
			p.Options.MaxIter, p.Options.Tol = 3000, 1e-15
			d := newDiagonal(p, Kernel{})
			d.newton = nil
			out, err := (&search{}).iterate(d, &p.Options, 0, true)
			if err != nil {
				t.Fatal(err)
			}
			close(t, name+" evidence", a.Fit.LogEvidence, out.logZ, 1e-6)
			for j, w := range d.w {
				sd := math.Sqrt(w.Variance)
				close(t, name+" mean of "+p.Name(j), a.mean[j]/sd, w.Mean/sd, 1e-5)
				close(t, name+" variance of "+p.Name(j), a.variance[j], w.Variance, 1e-6)
			}
		}
		if !f.l.Traits().Gaussian {
			continue
		}
		m.Options.Covariance = "full"
		joint := fit(t, problem(t, m, rows))
		for j := range a.mean {
			close(t, name+" mean", a.mean[j], joint.mean[j], 1e-7)
		}
	}
}

// A run converges by its predictions where its sites would take too long, and says how
// far they are where they have not.
func TestStill(t *testing.T) {
	var s trend
	feed := func(n int, size, shrink, move, faster float64) {
		s = trend{}
		for range n {
			s.add(change{size: size, move: move * move}, 1e-9)
			size *= shrink
			move *= faster
		}
	}
	for _, c := range []struct {
		n                          int
		size, shrink, move, faster float64
		left                       int
		want                       bool
	}{
		{5, 1e-2, 0.99, 1e-6, 0.5, 10, false},   // too few to know
		{6, 1e-2, 0.99, 1e-6, 0.5, 10, true},    // 1e-8 is 1,000 sweeps away
		{6, 1e-2, 0.99, 1e-6, 0.5, 2000, false}, // but those are allowed
		{6, 1e-2, 0.5, 1e-6, 0.5, 100, false},   // 20 sweeps
		{6, 1e-2, 0.99, 1e-4, 0.99, 10, false},  // 1e-4 a sweep come to 1e-2
		{6, 1e-2, 0.99, 1e-5, 0.98, 10, true},   // 1e-5 to 5e-4
		{6, 1e-2, 1, 1e-5, 1.01, 10, false},     // nothing shrinks
	} {
		feed(c.n, c.size, c.shrink, c.move, c.faster)
		if got := s.predictorsConverged(1e-8, c.left); got != c.want {
			t.Errorf("%+v: %v, rest %v", c, got, s.rest())
		}
	}
}
