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
	// maxWork bounds the operations of integrating as estimated: some seconds.
	maxWork = 3e10
	// pointSweeps is how many sweeps a point takes at least, as estimated: it begins at another's sites,
	// where the last fit began at its own.
	pointSweeps = 15
	// integrateTol is the tolerance of the fits that are summed: the beliefs are within a
	// few of it, in deviations.
	integrateTol = 1e-5
)

// averages says whether the posterior of the prior variances is sought, and of which groups.
func (l *learner) averages() (g mode.Groups, ok bool) {
	if _, joint := l.e.(*full); !joint || !l.p.Options.Integrate || !l.p.LearnsPrior() || !l.out.converged || l.p.N == 0 {
		return g, false
	}
	g, count := l.groups()
	return g, len(count) > 0
}

// integrate finds the posterior of the prior variances, and leaves the learner at its mode. nil where
// it is not found, and where weights have no joint Gaussian.
func (l *learner) integrate() (*mode.Spread, error) {
	g, ok := l.averages()
	if !ok {
		return nil, nil
	}
	f, o := l.e.(*full), &l.p.Options
	about, err := g.Start(l.p)
	if err != nil {
		return nil, err
	}
	unit := 1.0
	if l.p.Lik.Traits().Located {
		unit = mode.Deviation(l.p)
	}
	priors := g.Hypers(o, unit)
	v := l.varied(&g)
	v.tol = integrateTol
	at, notes := l.p, len(l.notes)
	one := f.work() * float64(max(l.out.sweeps, pointSweeps))
	if float64(6*len(priors)+6)*one > maxWork {
		return l.known(&g)
	}
	lo, hi := slices.Clone(about), slices.Clone(about)
	for k, start := range about {
		lo[k], hi[k] = start-mode.Reach, start+mode.Reach
	}
	peak, err := mode.VariancePeak(v, priors, logs(g.Given), lo, hi, l.late)
	if err != nil || peak == nil {
		l.notes = l.notes[:notes]
		if back := l.adopt(at); err == nil {
			err = back
		}
		return nil, err
	}
	out, err := peak.Variances(one, maxWork, v.gaussian, mode.Events(l.p))
	if err != nil {
		return nil, err
	}
	copy(l.e.sites(), v.best)
	l.notes = slices.DeleteFunc(l.notes[:notes], func(s string) bool { return strings.HasSuffix(s, endOfRange) || strings.HasPrefix(s, mode.AtZero) }) // of the maximum, where this is not
	return out, l.adopt(v.at(peak.Mode()))
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
func (l *learner) known(groups *mode.Groups) (*mode.Spread, error) {
	dev, variance := make([]float64, l.p.P), make([]float64, l.p.P)
	if err := l.e.initial(dev, variance); err != nil {
		return nil, err
	}
	information := make([]float64, len(groups.Names))
	groups.Information(information, variance, l.p.PriorVar)
	out := &mode.Spread{}
	for k, x := range information {
		if x < 0.5 {
			return nil, nil
		}
		sd := math.Sqrt(groups.Given[k])
		out.Mean, out.SD = append(out.Mean, sd), append(out.SD, sd*0.5/math.Sqrt(x))
	}
	return out, nil
}

// single says in f where the weights' joint posterior is that under one value of learnt variances, around being what was
// found of them, and that matters.
func (l *learner) single(around *mode.Spread, f *kernels.Fit) error {
	g, ok := l.averages()
	if !ok {
		return nil
	}
	variance := make([]float64, l.p.P)
	if err := l.e.initial(make([]float64, l.p.P), variance); err != nil {
		return err
	}
	if g.Single(around, variance, l.p.PriorVar) {
		f.Say(mode.NotAveraged)
	}
	return nil
}

// gaussian is the posterior where the fit stands.
func (v *varied) gaussian() (*gauss.Normal, error) {
	g, err := v.e.posterior()
	if err == nil && g.Form != gauss.Full {
		g, err = g.ToFull()
	}
	return g, err
}
