package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
	"github.com/bglm/bglm/kernels/stop"
)

// Fit returns the fit with posterior post over the columns, known weights restored. logZ is the log
// evidence of the rows, to which that of the fit continued is added. Iterations, Converged and
// Status are set to 1, true and "ok".
func (p *Problem) Fit(method string, post *gauss.Normal, logZ float64) *Fit {
	f := p.Model.NewFit(method)
	f.Columns = slices.Clone(p.columns)
	f.N += int64(p.Table())
	f.Skipped += p.skipped
	f.LogEvidence += logZ + p.constant
	if p.HasTime && p.N > 0 {
		f.Time = Later(p.Begin, p.Time[p.N-1])
	}
	p.setPosterior(f, post)
	p.SetVariances(f, p.PriorVar)
	return f
}

// CheckEvidence returns an error if the log evidence of f is not finite and that of the fit
// continued is.
func (p *Problem) CheckEvidence(f *Fit) error {
	if s := p.Model.Start; special.Finite(f.LogEvidence) || s != nil && math.IsNaN(s.LogEvidence) && math.IsNaN(f.LogEvidence) {
		return nil
	}
	return fmt.Errorf("the log evidence is %v; scale the features down", f.LogEvidence)
}

// SetVariances records in the columns of f the prior variances of their weights, by column of p:
// that of the first weight of each without a prior of its own; weights that are named or that the
// fit continued knows have priors of their own. If all have, it is the variance of a new weight.
func (p *Problem) SetVariances(f *Fit, variance []float64) {
	p.eachColumn(f, func(c *FitColumn, j int) {
		switch before := p.Model.Start.column(c.Name, c.Kind); {
		case !p.Born[j]:
			c.Variance = variance[j]
		case before != nil && before.Variance >= 0:
			c.Variance = before.Variance
		default:
			c.Variance = p.Model.Prior.Variance
			if by := p.Model.PriorBy.Of(c.Name); by != nil && !by.Auto {
				c.Variance = by.Variance
			}
		}
	})
	for k := range f.Columns { // a column without a weight yet has that of levels to come
		c := &f.Columns[k]
		if c.Kind != LevelsColumn || c.Variance >= 0 {
			continue
		}
		if before := p.Model.Start.column(c.Name, c.Kind); before != nil {
			c.Variance = before.Variance
		} else if by := p.Model.PriorBy.Of(c.Name); by != nil && !by.Auto {
			c.Variance = by.Variance
		}
	}
	p.setNamed(f, func(j int) float64 { return math.Sqrt(variance[j]) }, func(int) float64 { return 0 })
}

// setNamed records the variances of weights of maps and lists by the text before '=' in their
// names, which is no column of f: mean and standard deviation of their roots, by column of p.
func (p *Problem) setNamed(f *Fit, root, deviation func(j int) float64) {
	other := math.Sqrt(f.Prior.Variance)
	seen := map[string]bool{}
	for j := range p.P {
		m, sd := root(j), deviation(j)
		if p.Born[j] || !(m > 0) || m == other && sd == 0 || p.dict.HashBits > 0 {
			continue
		}
		if id := p.cols[j]; p.dict.ColumnOf(id) > 0 || p.dict.NumberColumn(id) != "" {
			continue
		}
		name, _, ok := strings.Cut(p.Name(j), "=")
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		name = KeptLevelsOf(name)
		f.Learnt = slices.DeleteFunc(slices.Clone(f.Learnt), func(l Learnt) bool { return l.Name == name })
		f.Keep(name, m, sd)
	}
}

// SetSpread records in the columns of levels of f the posterior mean and standard deviation of the
// roots of learnt prior variances, by column of p; those of 0 are not learnt.
func (p *Problem) SetSpread(f *Fit, sd, deviation []float64) {
	p.eachColumn(f, func(c *FitColumn, j int) {
		if sd[j] > 0 && c.Kind == LevelsColumn {
			c.Center, c.Scale = sd[j], deviation[j]
		}
	})
	p.setNamed(f, func(j int) float64 { return sd[j] }, func(j int) float64 { return deviation[j] })
}

// eachColumn visits the columns that f records with the column of the first weight of each,
// preferably one without a prior of its own.
func (p *Problem) eachColumn(f *Fit, visit func(c *FitColumn, j int)) {
	if len(f.Columns) == 0 {
		return
	}
	of := map[string]int{}
	for j := p.P - 1; j >= 0; j-- {
		name := p.dict.LevelColumn(p.cols[j])
		if name == "" {
			name = p.dict.NumberColumn(p.cols[j])
		}
		if k, ok := of[name]; name != "" && (!ok || p.Born[k] || !p.Born[j]) {
			of[name] = j
		}
	}
	f.Columns = slices.Clone(f.Columns)
	for k := range f.Columns {
		if j, ok := of[f.Columns[k].Name]; ok {
			visit(&f.Columns[k], j)
		}
	}
}

// Posterior returns the posterior of f, a fit of p, over the columns.
func (p *Problem) Posterior(f *Fit) (*gauss.Normal, error) {
	place := make([]int, len(p.at))
	for k, j := range p.at {
		place[k] = int(j)
	}
	return f.over(place, memory.Floats(p.P), memory.Floats(p.P), p.Stop)
}

// Predictors sets mean and variance to those of the predictors of p's rows, including offsets,
// under f, a fit of p.
//
// Cost: that of Columns.Spread, or of arrowhead.Spread.
func (p *Problem) Predictors(f *Fit, mean, variance []float64) error {
	if f.Covariance.Form != gauss.Arrowhead {
		post, err := p.Posterior(f)
		if err == nil {
			p.Predictor(mean, post.Mean)
			p.Spread(variance, post)
		}
		return err
	}
	w, belief := memory.Floats(p.P), make([]int, p.P)
	for k, j := range p.at {
		if j >= 0 {
			w[j], belief[j] = f.Beliefs[k].Mean, k
		}
	}
	p.Predictor(mean, w)
	l := f.Covariance.Arrow()
	s := l.NewSpread(len(f.Beliefs), p.N, p.Matrix)
	p.Parallel(p.N, p.Values()*(1+l.D), func(lo, hi int) {
		var room arrowhead.SpreadScratch
		at := []int(nil)
		for i := lo; i < hi; i++ {
			p.Stop.Row(i)
			col, val := p.Entries(i)
			at = at[:0]
			for _, j := range col {
				at = append(at, belief[j])
			}
			variance[i] = s.Variance(at, val, &room)
		}
	})
	return nil
}

// meansOf returns the mean weights of f, a fit of p, by column.
func (p *Problem) meansOf(f *Fit) []float64 {
	w := memory.Floats(p.P)
	for k, j := range p.at {
		if j >= 0 {
			w[j] = f.Beliefs[k].Mean
		}
	}
	return w
}

// predictors are those of a fit.
type predictors struct {
	of  *Fit
	eta []float64
}

// Noting returns p, sharing its rows, for several notes on one fit, whose means do not change
// meanwhile: they share its predictors.
func (p *Problem) Noting() *Problem {
	q := *p
	q.noted = &predictors{}
	return &q
}

// predictorsAt returns the linear predictors of the rows, including offsets, at the mean weights of
// f, a fit of p. Other notes may share them: they are read only.
func (p *Problem) predictorsAt(f *Fit) []float64 {
	if p.noted != nil && p.noted.of == f {
		return p.noted.eta
	}
	eta := memory.Floats(p.N)
	p.Predictor(eta, p.meansOf(f))
	if p.noted != nil {
		*p.noted = predictors{f, eta}
	}
	return eta
}

// setPosterior sets the beliefs and the covariance of f to a posterior over the columns.
func (p *Problem) setPosterior(f *Fit, post *gauss.Normal) {
	f.Beliefs = make([]Belief, len(p.order))
	for k, id := range p.order {
		w := p.known[k]
		if j := p.at[k]; j >= 0 {
			w = Weight{post.Mean[j], post.Var[j]}
		}
		f.Beliefs[k] = Belief{string(p.dict.Name(id)), w}
	}
	f.Covariance = pack(p.at, post)
	if post.Form == gauss.Arrowhead { // its numbers include the known weights' means
		for k, j := range p.at {
			if j < 0 {
				f.Covariance.Arrow().Row(k)[1] = p.known[k].Mean
			}
		}
	}
}

// NewFit returns a fit with the specification of m and the counts and columns of Start.
func (m *Model) NewFit(method string) *Fit {
	f := &Fit{
		Method: method, Intercept: !m.NoIntercept, HashBits: m.HashBits, Prior: m.Prior, Time: math.NaN(),
		Shape: math.NaN(), Dispersion: 1, Iterations: 1, Converged: true, Status: "ok",
	}
	if m.Lik != nil {
		f.SetLikelihood(m.Lik)
	}
	if s := m.Start; s != nil {
		f.N, f.Skipped, f.LogEvidence, f.Time = s.N, s.Skipped, s.LogEvidence, s.Time
		f.Columns = s.Columns
	}
	return f
}

// packArrow is pack for an arrowhead, in the layout of package arrowhead; known weights are leaves
// of variance 0.
func packArrow(c *Covariance, at []int32, g *gauss.Normal) {
	a := g.Arrow
	d := len(a.Block)
	c.Rank = d
	c.Values = stop.Make[float64](g.Arrow.L.Stop, arrowhead.Want(d, len(at)))[:0]
	for _, j := range a.Block {
		c.Values = append(c.Values, g.Mean[j])
	}
	c.Values = append(c.Values, make([]float64, d)...)
	for i := range d {
		c.Values = append(c.Values, a.L.Row(i)[:i+1]...)
	}
	none := make([]float64, d)
	for k, j := range at {
		a.L.Stop.Row(k)
		if j < 0 {
			c.Values = append(append(c.Values, -1, 0, 0), none...)
			continue
		}
		place := a.At(int(j))
		if place >= 0 {
			c.Values = append(append(c.Values, float64(-2-place), 0, 0), none...)
			continue
		}
		h := a.H.Row(^place)
		alpha := g.Mean[j]
		for i, b := range a.Block {
			alpha -= h[i] * g.Mean[b]
		}
		c.Values = append(append(c.Values, -1, alpha, a.Q[^place]), h...)
	}
}

// pack converts a posterior to belief order; at is the column of each belief, -1 for known weights.
func pack(at []int32, g *gauss.Normal) Covariance {
	c := Covariance{Form: g.Form}
	switch g.Form {
	case gauss.Full:
		n := len(at)
		c.Values = stop.Make[float64](g.L.Stop, n*(n+1)/2)[:0]
		for k, j := range at {
			g.L.Stop.Check()
			for i := range k + 1 {
				v := 0.0
				if a := at[i]; j >= 0 && a >= 0 {
					v = g.L.Row(int(j))[a]
				}
				c.Values = append(c.Values, v)
			}
		}
	case gauss.LowRank:
		c.Rank = g.F.Cols
		c.Values = stop.Make[float64](g.F.Stop, len(at)*(c.Rank+1))[:0]
		none := make([]float64, c.Rank+1)
		for k, j := range at {
			g.F.Stop.Row(k)
			if j < 0 {
				c.Values = append(c.Values, none...)
				continue
			}
			c.Values = append(append(c.Values, g.D[j]), g.F.Row(int(j))...)
		}
	case gauss.Arrowhead:
		packArrow(&c, at, g)
	}
	return c
}
