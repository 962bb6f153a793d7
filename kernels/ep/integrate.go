package ep

import (
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/internal/mode"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// Integration, as in package laplace: EP's evidence is a likelihood of the prior variances. With
// half-t priors of their roots it gives their posterior, and the posterior of the weights is the
// mixture of EP's over it, of which mean and covariance are kept. Dispersion and shape stay at the
// maximum.
//
// Source: [rue2009], with EP's Gaussians and evidence in place of Laplace's.

const (
	// maxWork bounds the estimated number of operations of integration: some seconds.
	maxWork = 3e10
	// pointSweeps is the least estimate of the sweeps per point: a point starts from another's
	// sites, the last fit started from its own.
	pointSweeps = 15
	// integrateTol is the tolerance of the fits in the sum: the beliefs are within a few times
	// that, in standard deviations.
	integrateTol = 1e-5
)

// averages reports whether to integrate over the prior variances, and of which groups.
func (l *learner) averages() (g mode.Groups, ok bool) {
	if _, joint := l.e.(*full); !joint || !l.p.Options.Integrate || !l.p.LearnsPrior() || !l.out.converged || l.p.N == 0 {
		return g, false
	}
	g, count := l.groups()
	return g, len(count) > 0
}

// integrate finds the posterior of the prior variances, and leaves the learner at its mode. It
// returns nil if that is not found, or if the weights have no joint Gaussian.
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
	peak, err := mode.VariancePeak(v, priors, mode.Logs(g.Given), lo, hi, l.late)
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
	l.notes = slices.DeleteFunc(l.notes[:notes], func(s string) bool { return strings.HasSuffix(s, endOfRange) || strings.HasPrefix(s, mode.AtZero) }) // these belong to the maximum, which is elsewhere
	return out, l.adopt(v.at(peak.Mode()))
}

// work estimates the number of operations of a sweep.
func (f *full) work() float64 {
	n, d := float64(f.p.N), float64(f.dim)
	row := lik.MomentsWork(f.p.Lik, f.p.Weight != nil)
	if f.together {
		return n*row + 6*(float64(f.p.Values())*float64(f.p.Values())/n+d*d*d)
	}
	return n * (row + 6*d*d)
}

// known uses the information in many rows if there is no time for more. It returns nil if that
// is little.
func (l *learner) known(groups *mode.Groups) (*mode.Spread, error) {
	dev, variance := memory.Floats(l.p.P), memory.Floats(l.p.P)
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

// single notes in f if the weights' joint posterior is that under a single value of learnt
// variances, and that matters; around is what was found of them.
func (l *learner) single(around *mode.Spread, f *kernels.Fit) error {
	g, ok := l.averages()
	if !ok {
		return nil
	}
	variance := memory.Floats(l.p.P)
	if err := l.e.initial(memory.Floats(l.p.P), variance); err != nil {
		return err
	}
	if g.Single(around, variance, l.p.PriorVar) {
		f.AddStatus(mode.NotAveraged)
	}
	return nil
}

// gaussian returns the posterior at the present fit.
func (v *varied) gaussian() (*gauss.Normal, error) {
	g, err := v.e.posterior()
	if err == nil && g.Form != gauss.Full {
		g, err = g.ToFull()
	}
	return g, err
}
