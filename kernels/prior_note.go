package kernels

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/gauss"
)

var equals, isNull = []byte("="), []byte(IsNull)

// PriorNote is the note on the prior variance that fits its weights worst: that of the weights of a
// column of levels, or of all others; "" if each fits. m is the model of f, whose prior variances
// are literal and whose weights do not drift.
//
// Too narrow: for a weight with posterior N(μ, s²) under the prior N(m, v), the rows amount to one
// observation μ̂ of variance e = 1/(1/s² - 1/v), and under a prior of variance cv the weights have
// the evidence Σ log N(μ̂; m, cv + e). The best c > 1 is ahead of 1 by the number of nats by which
// the rows would have been predicted better.
//
// Too wide: under the prior, the mean of (μ - m)² over all data is v - s², whatever the likelihood.
// If many weights together fall short of that, much of what they learnt is noise.
func (f *Fit) PriorNote(m *Model) string {
	return f.PriorNoteOf(m, func(visit func(feature []byte, w Weight) bool) {
		for k := range f.Beliefs {
			if !visit(view(f.Beliefs[k].Feature), f.Beliefs[k].Weight) {
				return
			}
		}
	})
}

// PriorNoteOf is PriorNote for a fit whose beliefs each visits in order; visit reports whether it
// needs more of them.
func (f *Fit) PriorNoteOf(m *Model, each func(visit func(feature []byte, w Weight) (more bool))) string {
	if f.N < enoughForPrior || len(f.Classes) > 0 {
		return ""
	}
	own := make(map[string]bool, len(m.Priors))
	for _, b := range m.Priors {
		own[b.Feature] = true
	}
	cols := make(map[string]*FitColumn, len(f.Columns))
	one := len(m.PriorBy) == 0 // all weights form one group
	for k := range f.Columns {
		cols[f.Columns[k].Name] = &f.Columns[k]
		one = one && f.Columns[k].Kind != LevelsColumn
	}
	moved := f.movedColumns()
	groups := make(map[string]*scatter)
	var names []string // in order of the beliefs
	prior := m.Prior.Complete()
	unit := math.Sqrt(f.Prior.Variance / prior.Variance) // of responses
	if !(unit > 0) || math.IsInf(unit, 1) {
		return ""
	}
	each(func(feature []byte, b Weight) bool {
		if string(feature) == Intercept && f.Intercept || own[string(feature)] {
			return true
		}
		name, _, _ := bytes.Cut(feature, equals)
		of, v, scale := "", prior.Variance, 1.0
		if c := cols[string(bytes.TrimSuffix(name, isNull))]; c != nil {
			if slices.Contains(moved, c.Name) {
				return true
			}
			if c.Kind == LevelsColumn {
				of = c.Name
			} else if c.Name == string(feature) && c.Scale > 0 {
				scale = c.Scale
				if !f.Intercept && f.Covariance.Form != gauss.Diagonal { // numbers are not centred
					scale = math.Hypot(c.Center, c.Scale)
				}
			}
			if by := m.PriorBy.Of(c.Name); by != nil {
				of, v = c.Name, by.Variance
			}
		}
		g := groups[of]
		if g == nil {
			g = &scatter{v: v}
			groups[of], names = g, append(names, of)
		}
		to := unit * math.Sqrt(v)
		g.add((b.Mean*scale-prior.Mean*unit)/to, b.Variance*(scale/to)*(scale/to))
		return !one || len(g.z) < most
	})
	worst, note := 0.0, ""
	for _, name := range names {
		g := groups[name]
		what := "the weights"
		if name != "" {
			what += " of column " + name
		}
		c, gain := g.wider()
		how := fmt.Sprintf("narrow for %s: %.2g fits them better", what, c*g.v)
		if loss := g.noise(); name != "" || len(g.r) >= manyWeights {
			if loss > gain {
				gain = loss
				how = fmt.Sprintf("wide for %s, which vary less than it says and fit noise: similar rows are predicted worse", what)
			}
		}
		if gain <= max(worst, leastGain, gainByRow*float64(f.N)) {
			continue
		}
		worst = gain
		note = fmt.Sprintf("prior_variance %.3g is too %s by about %.2g nats a row; methods that keep the rows learn it ('auto')", g.v, how, gain/float64(f.N))
	}
	return note
}

// A note is given from enoughForPrior rows on, if another prior variance is ahead by leastGain nats
// in all and by gainByRow for each row. For features that occur together in rows a prior is only
// called too wide for manyWeights of them: the marginals of a few do not show what is known of them
// jointly.
const (
	enoughForPrior = 50
	leastGain      = 7
	gainByRow      = 0.0025
	manyWeights    = 256
)

// scatter are weights of one prior variance, in units of its standard deviation about its mean:
// means and variances < 1.
type scatter struct {
	v    float64
	z, r []float64
}

// most is the number of weights that suffices for a judgement.
const most = 1 << 15

func (s *scatter) add(z, r float64) {
	if len(s.z) < most && r > 0 && 1-r > 1e-6 { // not known, and something was learnt
		s.z, s.r = append(s.z, z), append(s.r, r)
	}
}

// wider returns the c >= 1 of highest evidence, and by how many nats it is ahead of 1.
func (s *scatter) wider() (c, gain float64) {
	c = 1
	for range 50 {
		num, den := 0.0, 0.0
		for k, r := range s.r {
			mu, e := s.z[k]/(1-r), r/(1-r)
			w := 1 / (c + e)
			num += w * w * (mu*mu - e)
			den += w * w
		}
		next := min(max(num/den, 1), 1e4)
		if !(math.Abs(next-c) > 1e-3*c) { // also no weights
			break
		}
		c = next
	}
	for k, r := range s.r {
		q, e := s.z[k]/(1-r)*(s.z[k]/(1-r)), r/(1-r)
		gain += 0.5 * (math.Log((1+e)/(c+e)) + q/(1+e) - q/(c+e))
	}
	return c, gain
}

// noise is how many nats the weights cost if they vary less than their prior says by more than
// three standard errors, else 0.
func (s *scatter) noise() (loss float64) {
	short, square, most, weight := 0.0, 0.0, 0.0, 0.0
	for k, r := range s.r {
		q := s.z[k] * s.z[k]
		d := 1 - r - q
		short += d
		square += d * d
		most += q - r*(1-r)
		weight += (1 - r) * (1 - r)
	}
	if !(short > 3*math.Sqrt(square)) {
		return 0
	}
	// A weight of variance c is estimated with the squared error (1-r)²e + r²c, and ce/(c+e) at
	// best: half of the difference relative to e is what rows like these lose.
	c := max(most/weight, 0)
	for _, r := range s.r {
		e := r / (1 - r)
		loss += 0.5 * ((1-r)*(1-r) + r*r*c/e - c/(c+e))
	}
	return loss
}

// StrayNote names a feature with a prior or process noise whose column f records with another case
// of letters, or a feature with process noise that is no feature and in no column: no row has them.
func (m *Model) StrayNote(f *Fit) string {
	if len(m.Priors)+len(m.NoiseBy) == 0 || m.HashBits > 0 {
		return ""
	}
	stray := func(feature string) string {
		name, _, _ := strings.Cut(feature, "=")
		is := ""
		for _, c := range f.Columns {
			if c.Name == name {
				return ""
			}
			if strings.EqualFold(c.Name, name) {
				is = c.Name
			}
		}
		return is
	}
	for _, b := range m.Priors {
		if is := stray(b.Feature); is != "" {
			return fmt.Sprintf("the prior of feature %q is of no row: its column is %q", b.Feature, is)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.NoiseBy)) {
		if is := stray(name); is != "" {
			return fmt.Sprintf("the process noise of feature %q is of no row: its column is %q", name, is)
		}
	}
	return m.noiseNote(f)
}

// noiseNote names the first feature with process noise about which f has no belief; levels of its
// columns may still come.
func (m *Model) noiseNote(f *Fit) string {
	if len(m.NoiseBy) == 0 || f.N == 0 {
		return ""
	}
	lost := maps.Clone(m.NoiseBy)
	for k := range f.Beliefs {
		delete(lost, f.Beliefs[k].Feature)
	}
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		column := f.LevelColumn(name)
		if !slices.ContainsFunc(f.Columns, func(c FitColumn) bool { return c.Name == column }) {
			return fmt.Sprintf("the process noise of feature %q is of no row: no feature has that name", name)
		}
	}
	return ""
}
