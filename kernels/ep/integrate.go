package ep

import (
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
)

// Integration, as in package laplace: EP's evidence is a likelihood of the prior variances, which with
// half-t priors of their roots gives their posterior, and the posterior of the weights is the
// mixture of EP's over it, whose mean and covariance are kept. Dispersion and shape stay at the maximum.
//
// Source: [rue2009], with EP's Gaussians and evidence in the place of Laplace's.

const (
	// maxGrid is how many variances a grid is made for, maxWork bounds the operations of integrating
	// as estimated: some seconds.
	maxGrid = 8
	maxWork = 3e10
	// pointSweeps is how many sweeps a point takes at least, as estimated: it begins at another's sites,
	// where the last fit began at its own.
	pointSweeps = 15
	// integrateTol is the tolerance of the fits that are summed: the beliefs are within a
	// few of it, in deviations.
	integrateTol = 1e-5
)

// spread is what integrating finds: mean and deviation of the roots of the prior variances by
// group, and the posterior of the weights, nil where that stays the one at the mode.
type spread struct {
	groups   mode.Groups
	mean, sd []float64
	weights  *gauss.Normal
}

// integrate finds the posterior of the prior variances, and leaves the learner at its mode. nil where
// it is not found, and where weights have no joint Gaussian.
func (l *learner) integrate() (*spread, error) {
	f, ok := l.e.(*full)
	o := &l.p.Options
	if !ok || !o.Integrate || !l.p.LearnsPrior() || !l.out.converged || l.p.N == 0 {
		return nil, nil
	}
	g, count := l.groups()
	if len(count) == 0 {
		return nil, nil
	}
	about, err := g.Start(l.p)
	if err != nil {
		return nil, err
	}
	unit := 1.0
	if l.p.Lik.Traits().Located {
		unit = mode.Deviation(l.p)
	}
	priors := g.Hypers(o, unit)
	prior := func(theta, slope []float64) (sum float64) {
		for k, p := range priors {
			v, s := p.Log(theta[k])
			sum, slope[k] = sum+v, slope[k]+s
		}
		return sum
	}
	v := l.varied(&g)
	v.tol = integrateTol
	at, notes := l.p, len(l.notes)
	out := &spread{groups: g}
	one := f.work() * float64(max(l.out.sweeps, pointSweeps))
	if float64(6*len(priors)+6)*one > maxWork {
		return l.known(out)
	}
	start, of := logs(g.Given), make([]int, len(priors))
	lo, hi := slices.Clone(about), slices.Clone(about)
	for k, p := range priors {
		of[k] = k
		lo[k], hi[k] = about[k]-mode.Reach, about[k]+mode.Reach
		start[k] = max(start[k], p.Bottom())
	}
	peak, err := mode.NewPeak(v, of, prior, start, lo, hi, l.late)
	if err != nil || peak == nil {
		l.notes = l.notes[:notes]
		if back := l.adopt(at); err == nil {
			err = back
		}
		return nil, err
	}
	if err := out.measure(peak, v, len(of), one); err != nil {
		return nil, err
	}
	copy(l.e.sites(), v.best)
	l.notes = slices.DeleteFunc(l.notes[:notes], func(s string) bool { return strings.HasSuffix(s, endOfRange) }) // of the maximum, where this is not
	return out, l.adopt(v.at(peak.Mode()))
}

// measure finds the moments of n prior variances, and the weights averaged over them, from their
// peak: by a grid and by sections through it where they are worth it, one being the work of a point.
func (s *spread) measure(peak *mode.Peak, v *varied, n int, one float64) error {
	s.mean, s.sd = peak.Moments()
	points := 15.0 // of a grid
	for range n - 1 {
		points = min(3.5*points, mode.Scattered)
	}
	if affordable := maxWork / one; n <= maxGrid && affordable >= min(points, mode.LeastPoints) {
		sum, err := peak.Sum(mode.PointsOf(n, points, affordable), func(theta []float64) []float64 {
			var roots []float64
			for _, x := range theta {
				roots = append(roots, math.Exp(0.5*x))
			}
			return roots
		}, v.gaussian)
		if err != nil {
			return err
		}
		if sum != nil {
			for k, m := range sum.Mean {
				s.mean[k], s.sd[k] = m, sum.SD(k)
			}
			s.weights = sum.Weights
		}
	}
	if wide := peak.Wide(n); (s.weights == nil || n > 1) && float64(12*len(wide))*one <= maxWork {
		for _, k := range wide {
			mean, sd, ok, err := peak.Section(k)
			if err != nil {
				return err
			}
			if ok {
				s.mean[k], s.sd[k] = mean, sd
			}
		}
	}
	return nil
}

// work is about how many operations a sweep takes.
func (f *full) work() float64 {
	n, d := float64(f.p.N), float64(f.dim)
	row := lik.MomentsWork(f.p.Lik, f.p.Weight != nil)
	if f.together {
		return n*row + 6*(float64(f.p.Values())*float64(f.p.Values())/n+d*d*d)
	}
	return n * (row + 6*d*d)
}

// known is the information of many rows, where there is no time for more. nil where it is
// little.
func (l *learner) known(out *spread) (*spread, error) {
	dev, variance := make([]float64, l.p.P), make([]float64, l.p.P)
	if err := l.e.initial(dev, variance); err != nil {
		return nil, err
	}
	information := make([]float64, len(out.groups.Names))
	out.groups.Information(information, variance, l.p.PriorVar)
	for k, x := range information {
		if x < 0.5 {
			return nil, nil
		}
		sd := math.Sqrt(out.groups.Given[k])
		out.mean, out.sd = append(out.mean, sd), append(out.sd, sd*0.5/math.Sqrt(x))
	}
	return out, nil
}

// note keeps in f what was found of the variances.
func (s *spread) note(f *kernels.Fit, p *kernels.Problem) {
	mean, sd := make([]float64, p.P), make([]float64, p.P)
	for j, k := range s.groups.Of {
		if k >= 0 {
			mean[j], sd[j] = s.mean[k], s.sd[k]
		}
	}
	p.SetSpread(f, mean, sd)
}

// gaussian is the posterior where the fit stands.
func (v *varied) gaussian() (*gauss.Normal, error) {
	g, err := v.e.posterior()
	if err == nil && g.Form != gauss.Full {
		g, err = g.ToFull()
	}
	return g, err
}
