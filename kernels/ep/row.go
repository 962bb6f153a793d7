package ep

import (
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// rows is what the joint forms share: one site per row on its predictor, relative to the predictor
// at the prior mean.
type rows struct {
	p     *kernels.Problem
	batch *kernels.Batch
	base  []float64 // predictors at the prior means
	site  []Site
	logp  []float64
	tilt  []kernels.Weight // of the predictors given all rows, relative to the prior mean
	ran   bool
}

func newRows(p *kernels.Problem) rows {
	return rows{site: make([]Site, p.N), logp: memory.Floats(p.N), base: memory.Floats(p.N), tilt: make([]kernels.Weight, p.N)}
}

func (r *rows) use(p *kernels.Problem) {
	r.p, r.batch = p, p.Batch()
	p.Predictor(r.base, p.PriorMean)
}

func (r *rows) sites() []Site  { return r.site }
func (r *rows) loo() []float64 { return r.logp }

// refresh gives row i a new site from its cavity N(m, v), making the share damp of the change. It
// adds log Z less the overlap of cavity and site to the log evidence.
func (r *rows) refresh(i int, m, v, damp float64, c *change) (Site, error) {
	old := r.site[i]
	if !special.Finite(r.base[i]+m) || !special.Finite(v) {
		return old, impossible(i, r.p.Y[i], r.base[i]+m, v, 0)
	}
	if v < 0 || math.IsNaN(v) {
		c.skipped++
		return old, nil
	}
	o := r.batch.Obs(i)
	t := r.p.Lik.Moments(o, r.base[i]+m, v)
	if !special.Finite(t.LogZ) || !special.Finite(t.Alpha) || !(t.Ratio > 0) || !special.Finite(t.Ratio) {
		if !r.ran {
			return old, impossible(i, o.Y, r.base[i]+m, v, t.LogZ)
		}
		c.clamped++
		return old, nil
	}
	c.size = math.Max(c.size, math.Abs(t.LogZ-r.logp[i])/(1+math.Abs(t.LogZ)))
	r.logp[i] = t.LogZ
	c.logZ += t.LogZ
	if v == 0 {
		return old, nil
	}
	c.moved(&r.tilt[i], m+v*t.Alpha, v*t.Ratio)
	up := 1 / t.Ratio
	s := Site{t.Beta * up, (t.Alpha + m*t.Beta) * up}
	dt, dn := s.Tau-old.Tau, s.Nu-old.Nu
	if !special.Finite(dt) || !special.Finite(dn) {
		c.clamped++
		s, dt, dn = old, 0, 0
	}
	tilt := v * t.Ratio
	g := dn - (m+v*t.Alpha)*dt
	c.size = max(c.size, math.Abs(g)*math.Sqrt(tilt), math.Abs(dt)*tilt)
	if damp != 1 {
		s = Site{old.Tau + damp*dt, old.Nu + damp*dn}
	}
	den := 1 + v*s.Tau
	if !(den > 0) {
		c.clamped++
		s, den = Site{}, 1
	}
	c.logZ -= overlap(m, v, s, den) - 0.5*math.Log(den)
	r.site[i] = s
	return s, nil
}
