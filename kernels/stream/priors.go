package stream

import "github.com/bglm/bglm/kernels"

// Fresh is the prior of feature id of d without a prior of its own: that of its column if there is
// one, for a level as the model or the fit continued has it.
func (p *Plan) Fresh(d *kernels.Dict, id int) kernels.Weight {
	prior := &p.Model.Prior
	if id == 0 && !p.Model.NoIntercept {
		return kernels.Weight{Mean: prior.Mean, Variance: prior.InterceptVariance}
	}
	w := kernels.Weight{Mean: prior.Mean, Variance: prior.Variance}
	if p.OnePrior() {
		return w
	}
	name := d.Name(uint32(id))
	if by := p.Model.PriorBy.OfFeature(string(name)); by != nil {
		w.Variance = by.Variance
	} else if p.levels && (id < p.Named || d.LevelColumn(uint32(id)) != "" || p.Model.Start.KeepsLevels()) { // the dictionary may not know the columns of named features yet
		if v, ok := p.Model.Start.LevelVariance(name); ok {
			w.Variance = kernels.UnscalePrior(v, p.startUnit*p.startUnit)
		}
	}
	return w
}

// OnePrior reports whether all weights that the model does not name, except the intercept, have one
// prior.
func (p *Plan) OnePrior() bool { return len(p.Model.PriorBy) == 0 && !p.levels }

// fixedNamed returns the means, by feature, of the weights that the model names and that are known.
func (p *Plan) fixedNamed(d *kernels.Dict) map[uint32]float64 {
	m := p.Model
	fixed := map[uint32]float64{}
	if m.Prior.Variance == 0 || m.Prior.InterceptVariance == 0 || !p.OnePrior() {
		for id := range p.Named {
			if w := p.Fresh(d, id); w.Variance == 0 {
				fixed[uint32(id)] = w.Mean
			}
		}
	}
	put := func(bs []kernels.Belief) {
		for i := range bs {
			if bs[i].Variance > 0 && len(fixed) == 0 {
				continue
			}
			if id, ok := d.Find(bs[i].Feature); ok && bs[i].Variance == 0 {
				fixed[id] = bs[i].Mean
			} else if ok {
				delete(fixed, id)
			}
		}
	}
	put(m.Priors)
	if m.Start != nil {
		put(m.Start.Beliefs)
	}
	return fixed
}

// known returns the mean of the weight of feature id of d if its prior variance is 0.
func (p *Plan) known(d *kernels.Dict, id int) (mean float64, is bool) {
	if id < p.Named {
		mean, is = p.fixed[uint32(id)]
		return mean, is
	}
	w := p.Fresh(d, id)
	return w.Mean, w.Variance == 0
}
