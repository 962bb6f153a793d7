package ep

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// diagonal is factorised EP: one Gaussian per weight, one site per non-zero. Means are measured
// from the prior means, so that nothing large cancels in the evidence.
//
// Without process noise w is the belief about each weight, and the cavity is the belief divided
// by the site. With it each weight is a chain over its rows: the sweep goes forward in time, w is
// the message from earlier rows, back that from later rows, and the cavity is their product. In
// sweep 1 there are no later rows: it is the filter.
type diagonal struct {
	p      *kernels.Problem
	batch  *kernels.Batch
	kernel *priorKernel

	base []float64        // predictors at the prior means
	w    []kernels.Weight // belief, or message from earlier rows
	prev []kernels.Weight // w at the end of the sweep before
	site []Site
	cav  []kernels.Weight // of one row
	logp []float64
	tilt []kernels.Weight // of the rows' predictors given all rows
	tail []Site           // by column: product of its sites, with drift at the time of its first row
	ran  bool

	newton *newtonStep // nil with drift

	time  []float64 // of each row, not before that of the prior
	noise []float64 // by column; nil without drift
	at    []float64 // by column: time of the last row visited
	back  []Site    // by non-zero: message from later rows
}

func newDiagonal(p *kernels.Problem, k Kernel) *diagonal {
	d := &diagonal{
		w: make([]kernels.Weight, p.P), prev: make([]kernels.Weight, p.P),
		site: make([]Site, len(p.Col)), logp: memory.Floats(p.N), tilt: make([]kernels.Weight, p.N), base: memory.Floats(p.N),
		kernel: newPriorKernel(k.Prior), tail: make([]Site, p.P),
	}
	if d.noise = noises(p); d.noise != nil {
		d.back = make([]Site, len(p.Col))
		d.at = memory.Floats(p.P)
	}
	if d.noise == nil {
		d.newton = newNewtonStep(p.N, p.P)
	}
	longest := 0
	for i := range p.N {
		p.Stop.Row(i)
		longest = max(longest, p.Row[i+1]-p.Row[i])
	}
	d.cav = make([]kernels.Weight, longest)
	d.reset(p)
	return d
}

// noises returns the random-walk variance of each column per unit of time, nil if no weight
// drifts.
func noises(p *kernels.Problem) []float64 {
	if p.Noise <= 0 && p.NoiseBy == nil {
		return nil
	}
	q := memory.Floats(p.P)
	for j := range q {
		q[j] = p.Noise
		if p.NoiseBy != nil {
			q[j] = p.NoiseBy[p.Name(j)]
		}
	}
	return q
}

func (d *diagonal) reset(p *kernels.Problem) error {
	d.p, d.batch, d.time = p, p.Batch(), clock(p)
	p.Predictor(d.base, p.PriorMean)
	d.refresh()
	return nil
}

// clock returns the time of each row; rows before the time of the prior are moved to it, as in
// package adf.
func clock(p *kernels.Problem) []float64 {
	if p.N == 0 || !(p.Time[0] < p.Begin) {
		return p.Time
	}
	t := append([]float64(nil), p.Time...)
	for i := range t {
		t[i] = max(t[i], p.Begin)
	}
	return t
}

// early returns how many rows come before the time of the prior, if weights drift.
func early(p *kernels.Problem) (n int) {
	if noises(p) != nil {
		for n < p.N && p.Time[n] < p.Begin {
			n++
		}
	}
	return n
}

func (d *diagonal) sites() []Site  { return d.site }
func (d *diagonal) loo() []float64 { return d.logp }

// minCavity is the least share of a belief's precision that its cavity must keep: below it the
// difference has no digits left.
const minCavity = 1e-13

// sweep visits every row once: its cavity, the moments of the likelihood under it, and its new
// sites.
func (d *diagonal) sweep(damp float64) (c change, err error) {
	if d.noise != nil {
		d.rewind()
	} else {
		clear(d.tail)
	}
	for i := range d.p.N {
		d.p.Stop.Row(i)
		if err := d.visit(i, damp, &c); err != nil {
			return c, err
		}
	}
	d.ran = true
	c.logZ += d.renew()
	for j, w := range d.w {
		u := d.prev[j]
		if w.Variance > 0 {
			c.size = max(c.size, math.Abs(w.Mean-u.Mean)/(damp*math.Sqrt(w.Variance)), math.Abs(w.Variance-u.Variance)/(damp*w.Variance))
		}
		d.prev[j] = w
	}
	return c, nil
}

// visit updates row i.
func (d *diagonal) visit(i int, damp float64, c *change) error {
	p := d.p
	m, v, proper := d.cavity(i)
	if !proper {
		c.skipped++
		d.keep(i)
		return nil
	}
	if !special.Finite(m) || !special.Finite(v) {
		return impossible(i, p.Y[i], m, v, 0)
	}
	o := d.batch.Obs(i)
	t := p.Lik.Moments(o, m, v)
	if d.kernel != nil && v > 0 {
		m0, v0 := d.prior(i)
		t = d.kernel.moments(p.Lik, o, m, v, m0, v0)
	}
	if !special.Finite(t.LogZ) || !special.Finite(t.Alpha) || !(t.Ratio > 0) || !special.Finite(t.Ratio) {
		if !d.ran {
			return impossible(i, o.Y, m, v, t.LogZ)
		}
		c.clamped++
		d.keep(i)
		return nil
	}
	if moved := math.Abs(t.LogZ-d.logp[i]) / (1 + math.Abs(t.LogZ)); moved > c.size {
		c.size = moved
	}
	d.logp[i] = t.LogZ
	c.logZ += t.LogZ
	if v == 0 { // all weights of this row are known
		d.add(i)
		return nil
	}
	c.moved(&d.tilt[i], m+v*t.Alpha, v*t.Ratio)
	if d.newton != nil {
		d.newton.visited(i, t.Alpha, t.Beta, t.Ratio)
	}
	d.replace(i, &t, v, damp, c)
	return nil
}

// cavity stores the weights of row i without its sites in d.cav, and returns mean and variance of
// the predictor there; proper is false if a cavity has no digits left.
func (d *diagonal) cavity(i int) (m, v float64, proper bool) {
	p, chain := d.p, d.noise != nil
	lo, hi := p.Row[i], p.Row[i+1]
	xs, sites, cav := p.Val[lo:hi:hi], d.site[lo:hi:hi], d.cav[:hi-lo]
	m = d.base[i]
	for k, j := range p.Col[lo:hi] {
		w := &d.w[j]
		b := Site{-sites[k].Tau, -sites[k].Nu}
		if chain {
			d.forward(j, w, d.time[i])
			b = d.back[lo+k]
		}
		den := 1 + w.Variance*b.Tau
		if !(den > minCavity) {
			return m, v, false
		}
		cv := w.Variance / den
		cm := w.Mean + cv*(b.Nu-b.Tau*w.Mean)
		cav[k] = kernels.Weight{Mean: cm, Variance: cv}
		x := xs[k]
		m += x * cm
		v += x * x * cv
	}
	return m, v, true
}

// replace gives row i the sites for its moments t, where v is the variance of its predictor under
// the cavity, and adds the change of the evidence to c.
func (d *diagonal) replace(i int, t *lik.Tilted, v, damp float64, c *change) {
	p, chain := d.p, d.noise != nil
	lo, hi := p.Row[i], p.Row[i+1]
	cols, xs := p.Col[lo:hi], p.Val[lo:hi:hi]
	sites, cav := d.site[lo:hi:hi], d.cav[:hi-lo]
	inv := 1 / v
	quad, dens := 0.0, 1.0 // of the row's sites under their cavities
	size2 := 0.0
	lost := false
	for k, j := range cols {
		x, cv, cm := xs[k], cav[k].Variance, cav[k].Mean
		xv := x * cv
		a := x * xv * inv
		rest := 1 - a
		if rest < 0 || len(cols) == 1 {
			rest = 0
		}
		if len(cols) == 1 {
			a = 1
		}
		// The belief's new variance relative to the cavity's; adf has the same line.
		ratio := rest + a*t.Ratio
		q := kernels.Weight{Mean: cm + xv*t.Alpha, Variance: cv * ratio}
		up := 1 / ratio
		xb := x * x * t.Beta
		s := Site{xb * up, (x*t.Alpha + cm*xb) * up}
		old := sites[k]
		dt, dn := s.Tau-old.Tau, s.Nu-old.Nu
		if !special.Finite(dt) || !special.Finite(dn) || !(q.Variance > 0) {
			lost = true
			s, dt, dn = old, 0, 0
		}
		g := dn - q.Mean*dt
		if e := g * g * q.Variance; e > size2 {
			size2 = e
		}
		if e := dt * q.Variance; e*e > size2 {
			size2 = e * e
		}
		den := up
		if damp != 1 || lost {
			if damp != 1 {
				s = Site{old.Tau + damp*dt, old.Nu + damp*dn}
			}
			den = 1 + cv*s.Tau
			q = kernels.Weight{Mean: cm + cv*(s.Nu-s.Tau*cm)/den, Variance: cv / den}
		}
		sites[k] = s
		if !chain {
			// The site's overlap with its cavity: q.Variance is cv/den.
			g := s.Nu - s.Tau*cm
			quad -= cm*(g+0.5*s.Tau*cm) + 0.5*q.Variance*g*g
			dens *= den
			sum := &d.tail[j]
			sum.Tau += s.Tau
			sum.Nu += s.Nu
		} else if b := d.back[lo+k]; b != (Site{}) { // otherwise the two overlaps cancel
			w := &d.w[j]
			quad -= overlap(cm, cv, s, den)
			dens *= den
			fden := 1 + w.Variance*s.Tau
			if !(fden > minCavity) { // only later rows keep this site proper
				fden, lost = minCavity, true
			}
			quad += overlap(w.Mean, w.Variance, s, fden)
			dens /= fden
			q = kernels.Weight{Mean: w.Mean + w.Variance*(s.Nu-s.Tau*w.Mean)/fden, Variance: w.Variance / fden}
		}
		d.w[j] = q
		if !(dens > 1e-200 && dens < 1e200) { // a long row
			c.logZ += 0.5 * math.Log(dens)
			dens = 1
		}
	}
	if lost {
		c.clamped++
	}
	c.logZ += quad + 0.5*math.Log(dens)
	if size2 > c.size*c.size {
		c.size = math.Sqrt(size2)
	}
}

// refresh is renew from the present sites.
func (d *diagonal) refresh() {
	if d.noise == nil {
		clear(d.tail)
		for i := range d.p.N {
			d.p.Stop.Row(i)
			d.add(i)
		}
	}
	d.renew()
}

// add adds the present sites of row i to tail.
func (d *diagonal) add(i int) {
	for e := d.p.Row[i]; e < d.p.Row[i+1]; e++ {
		sum := &d.tail[d.p.Col[e]]
		sum.Tau += d.site[e].Tau
		sum.Nu += d.site[e].Nu
	}
}

// renew recomputes the beliefs from prior and sums of sites (without drift), or the messages from
// later rows from the sites (with it), so that no rounding error accumulates over the sweeps.
// Without drift it returns Σ_j log ∫ prior × sites.
func (d *diagonal) renew() (logZ float64) {
	p := d.p
	if d.noise != nil {
		d.backward()
		if !d.ran {
			d.rewind()
		}
		return 0
	}
	for j, s := range d.tail {
		v := p.PriorVar[j]
		den := 1 + v*s.Tau
		if !(den > 0) {
			den = v / d.w[j].Variance // only by rounding
		}
		d.w[j] = kernels.Weight{Mean: v * s.Nu / den, Variance: v / den}
		logZ += overlap(0, v, s, den) - 0.5*math.Log(den)
	}
	return logZ
}

// rewind resets w to the prior and the clocks to the start.
func (d *diagonal) rewind() {
	for j := range d.w {
		d.w[j] = kernels.Weight{Variance: d.p.PriorVar[j]}
		d.at[j] = math.NaN()
		if d.p.Born[j] {
			d.at[j] = d.p.Begin
		}
	}
}

// forward lets weight j drift up to time t.
func (d *diagonal) forward(j uint32, w *kernels.Weight, t float64) {
	if dt := t - d.at[j]; dt > 0 {
		w.Variance = math.Min(w.Variance+d.noise[j]*dt, math.MaxFloat64)
	}
	d.at[j] = t
}

// keep leaves the sites of row i as they are; with drift w passes through them.
func (d *diagonal) keep(i int) {
	if d.noise == nil {
		d.add(i)
		return
	}
	for e := d.p.Row[i]; e < d.p.Row[i+1]; e++ {
		j := d.p.Col[e]
		w, s := &d.w[j], d.site[e]
		d.forward(j, w, d.time[i])
		if den := 1 + w.Variance*s.Tau; den > minCavity {
			w.Mean += w.Variance * (s.Nu - s.Tau*w.Mean) / den
			w.Variance /= den
		}
	}
}

// earlier moves the message s back in time by dt: its variance grows by q dt.
func earlier(s Site, q, dt float64) Site {
	if !(dt > 0) {
		return s
	}
	den := 1 + q*dt*s.Tau
	if !(den > 0) || !special.Finite(den) {
		return Site{} // a message that widens more than drift can carry
	}
	return Site{s.Tau / den, s.Nu / den}
}

// backward computes the messages from later rows.
func (d *diagonal) backward() {
	p := d.p
	clear(d.tail)
	for j := range d.at {
		d.at[j] = math.NaN()
	}
	for i := p.N - 1; i >= 0; i-- {
		p.Stop.Row(i)
		t := d.time[i]
		for e := p.Row[i]; e < p.Row[i+1]; e++ {
			j := p.Col[e]
			b := earlier(d.tail[j], d.noise[j], d.at[j]-t)
			d.back[e] = b
			s := d.site[e]
			d.tail[j] = Site{b.Tau + s.Tau, b.Nu + s.Nu}
			d.at[j] = t
		}
	}
}

// prior returns mean and variance of row i's predictor under the prior kernel: with drift those
// before the row, otherwise those before any row.
func (d *diagonal) prior(i int) (m, v float64) {
	m = d.base[i]
	for e := d.p.Row[i]; e < d.p.Row[i+1]; e++ {
		j, x := d.p.Col[e], d.p.Val[e]
		if d.noise == nil {
			v += x * x * d.p.PriorVar[j]
			continue
		}
		m += x * d.w[j].Mean
		v += x * x * d.w[j].Variance
	}
	return m, v
}

func (d *diagonal) posterior() (*gauss.Normal, error) {
	p := d.p
	mean, variance := memory.Floats(p.P), memory.Floats(p.P)
	if d.noise != nil {
		d.filter(nil)
	}
	for j, w := range d.w {
		if d.noise != nil && p.N > 0 {
			d.forward(uint32(j), &w, d.time[p.N-1])
		}
		mean[j], variance[j] = p.PriorMean[j]+w.Mean, w.Variance
	}
	return gauss.NewDiagonal(mean, variance), nil
}

// filter runs w once more through the present sites, and calls visit for each weight before its
// row.
func (d *diagonal) filter(visit func(e int, w kernels.Weight)) {
	d.rewind()
	for i := range d.p.N {
		d.p.Stop.Row(i)
		if visit != nil {
			for e := d.p.Row[i]; e < d.p.Row[i+1]; e++ {
				j := d.p.Col[e]
				d.forward(j, &d.w[j], d.time[i])
				visit(e, d.w[j])
			}
		}
		d.keep(i)
	}
}

func (d *diagonal) initial(dev, variance []float64) error {
	if d.noise != nil {
		d.backward() // leaves the times of the first rows in at
	}
	for j, w := range d.w {
		if d.noise == nil {
			dev[j], variance[j] = w.Mean, w.Variance
			continue
		}
		s, v := d.tail[j], d.p.PriorVar[j]
		if d.p.Born[j] {
			s = earlier(s, d.noise[j], d.at[j]-d.p.Begin)
		}
		den := 1 + v*s.Tau
		dev[j], variance[j] = v*s.Nu/den, v/den
	}
	return nil
}

func (d *diagonal) touches() (mean, variance []float64, err error) {
	if d.noise == nil {
		return nil, nil, nil
	}
	mean, variance = make([]float64, len(d.site)), make([]float64, len(d.site))
	d.backward()
	d.filter(func(e int, w kernels.Weight) {
		s, b := d.site[e], d.back[e]
		s.Tau += b.Tau
		s.Nu += b.Nu
		den := 1 + w.Variance*s.Tau
		mean[e] = d.p.PriorMean[d.p.Col[e]] + w.Mean + w.Variance*(s.Nu-s.Tau*w.Mean)/den
		variance[e] = w.Variance / den
		if !(variance[e] > 0) && err == nil {
			err = fmt.Errorf("ep: feature %q has no proper posterior at one of its rows", d.p.Name(int(d.p.Col[e])))
		}
	})
	return mean, variance, err
}
