package kernels

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/special"
)

// partParameters are what parts learnt of their dispersion and of their shape: the product of their
// posteriors over the common prior, which counts once.
//
// The posterior of a dispersion is treated as a scaled inverse chi-square distribution: degrees of
// freedom add, and so do these times the squared scales. Parts whose dispersion is the scale have a
// prior flat in its logarithm; if it is the mean, ν/(ν - 2) times that, the prior is flat in the
// standard deviation, which is one degree of freedom less, also for all parts together. The
// posterior of the logarithm of a shape is treated as a Gaussian, whose precisions add.
type partParameters struct {
	deviation, shape partParameter
	priors, moving   float64         // at most, the number of single features for which a part was given the prior, and of those in units that move
	correlated       bool            // a part has learnt covariances of its prior
	drifts           bool            // weights of a part move with time
	rank             float64         // the largest of the parts' KeptRank
	absent, present  bool            // parts with rows: one says that NULLs contributed nothing, one does not
	filled, void     map[string]bool // interactions for which rows of a part lacked a number: learnt with its replacement, and without it
}

type partParameter struct {
	parts         float64 // number that learnt it
	vague         float64 // of these, those of unknown standard deviation
	rows, typical float64 // sums: rows, and rows times the logarithm
	weight, sum   float64 // sums: information, and that times the square or the logarithm
	logs          float64 // sum: information times the logarithm of the square, NaN if an evidence is not that at the square
	fewer         float64 // sum: information times the reduction of degrees of freedom in the dispersion: 2 if it is the distribution's mean, 0 if it is the scale
	had, scales   float64 // sums: rows times the dispersion, and times the square
	streams       float64 // number of parts that began with lik.FirstShape

	met, mixed bool    // there are parts; their values differ
	value      float64 // the first
	apart      unequal
}

// add adds a part of n rows, or times that much of the common start.
func (l *partParameters) add(f *Fit, n int64, times float64) {
	l.correlated = l.correlated || len(f.Correlations) > 0
	l.gaps(f)
	if f.N > 0 && times > 0 {
		l.absent, l.present = l.absent || f.LearntAbsent(), l.present || !f.LearntAbsent()
	}
	for k := range f.Learnt {
		switch own := &f.Learnt[k]; own.Name {
		case KeptRank:
			l.rank = max(l.rank, own.Mean)
		case LearntDeviation:
			l.deviation.typicalOf(own, n, times)
			if own.SD > 0 && own.Mean > 0 {
				nu, scale := ofDeviation(own.Mean, own.SD)
				l.deviation.weight += times * nu
				l.deviation.sum += times * nu * scale
				l.deviation.fewer += times * nu * nu * (1 - scale/f.Dispersion)
				if w := math.Max(float64(n), 1); times > 0 {
					l.deviation.had += w * f.Dispersion
					l.deviation.scales += w * scale
				}
				if f.Covariance.Form == gauss.Diagonal {
					l.deviation.logs = math.NaN()
				}
				l.deviation.logs += times * nu * math.Log(scale)
				if times > 0 {
					l.deviation.apart.noise(scale, nu)
				}
			}
		case KeptPriors:
			l.priors, l.moving = max(l.priors, own.Mean), max(l.moving, own.SD)
		case KeptDrift:
			l.drifts = true
		case LearntShape:
			l.shape.typicalOf(own, n, times)
			l.shape.meet(f.Shape)
			if log, info, ok := f.Kept(KeptShape); ok {
				l.shape.streams += times
				l.shape.weight += times * info
				l.shape.sum += times * info * log
				if times > 0 && info > 0 {
					l.shape.apart.shape(log, info)
				}
			} else if own.SD > 0 && own.Mean > 0 {
				log, v := ofShape(own.Mean, own.SD)
				l.shape.weight += times / v
				l.shape.sum += times / v * log
				if times > 0 {
					l.shape.apart.shape(log, 1/v)
				}
			}
		}
	}
}

// gaps records how f has learnt from rows that lack a number of an interaction.
func (l *partParameters) gaps(f *Fit) {
	for k := range f.Columns {
		c := &f.Columns[k]
		if c.Parts == "" || c.Missing == 0 {
			continue
		}
		to := &l.void
		if f.filled(c) {
			to = &l.filled
		}
		if name := strings.ToLower(c.Name); !(*to)[name] { // copies share the old map
			*to = union(map[string]bool{name: true}, *to)
		}
	}
}

func (l *partParameter) typicalOf(own *Learnt, n int64, times float64) {
	l.parts += times
	if !(own.SD > 0) {
		l.vague += math.Abs(times)
	}
	if w := math.Max(float64(n), 1); own.Mean > 0 && times > 0 {
		l.rows += w
		l.typical += w * math.Log(own.Mean)
	}
}

func (l *partParameters) merge(o *partParameters) {
	l.deviation.merge(&o.deviation)
	l.shape.merge(&o.shape)
	l.priors, l.moving = max(l.priors, o.priors), max(l.moving, o.moving)
	l.correlated, l.drifts = l.correlated || o.correlated, l.drifts || o.drifts
	l.absent, l.present = l.absent || o.absent, l.present || o.present
	l.filled, l.void = union(l.filled, o.filled), union(l.void, o.void)
}

// union returns the union of a and b; they are not changed.
func union(a, b map[string]bool) map[string]bool {
	if len(b) == 0 {
		return a
	}
	all := maps.Clone(b)
	maps.Copy(all, a)
	return all
}

// meet records that a part has the value x.
func (l *partParameter) meet(x float64) {
	l.mixed = l.mixed || l.met && l.value != x
	if !l.met {
		l.met, l.value = true, x
	}
}

func (l *partParameter) merge(o *partParameter) {
	if l.mixed = l.mixed || o.mixed; o.met {
		l.meet(o.value)
	}
	l.parts += o.parts
	l.vague += o.vague
	l.rows += o.rows
	l.typical += o.typical
	l.weight += o.weight
	l.sum += o.sum
	l.logs += o.logs
	l.fewer += o.fewer
	l.had += o.had
	l.scales += o.scales
	l.streams += o.streams
	l.apart.merge(&o.apart)
}

// ErrPartPriors is the error for parts with priors of single features or numeric columns that have
// no starting fit.
var ErrPartPriors = errors.New("parts with priors of single features, which would count in each of them; allowed: with the fit that all parts started from, which has these priors (a prior variance of a column of numbers is one)")

// ErrPartCorrelated is the error for parts with learnt covariances of their priors that have no
// starting fit.
var ErrPartCorrelated = fmt.Errorf("parts with correlated columns, whose covariance each has learnt by its own rows; allowed: with the fit that all parts started from; or %w", ErrApart)

// note records in f what this many parts have learnt, which began with from.
// Errors: ErrPartPriors, ErrPartCorrelated.
func (l partParameters) note(f *Fit, parts int64, from *Fit) error {
	if from == nil && parts > 1 {
		switch {
		case l.priors > 0:
			return ErrPartPriors
		case l.correlated:
			return ErrPartCorrelated
		}
	}
	if from != nil {
		l.add(from, from.N, -float64(parts-1))
	}
	f.Learnt = slices.DeleteFunc(slices.Clone(f.Learnt), func(l Learnt) bool { return l.Name != KeptOrigin && l.Name != KeptLevel })
	if l.drifts {
		f.Keep(KeptDrift, 1, 0)
	}
	if l.rank > 0 && f.Covariance.Form == gauss.LowRank {
		f.Keep(KeptRank, l.rank, 0)
	}
	f.keepLevels(from)
	if l.absent && !l.present {
		f.Keep(KeptAbsent, 1, 0)
	}
	if l.priors > 0 {
		f.Keep(KeptPriors, l.priors, l.moving)
	}
	for k := range f.Columns {
		if name := strings.ToLower(f.Columns[k].Name); l.filled[name] && !l.void[name] {
			f.Keep(KeptFilledOf(f.Columns[k].Name), 1, 0)
		}
	}
	all := func(l *partParameter, name string) bool { // whether all parts learnt it
		if _, _, ok := from.Kept(name); ok {
			return l.parts == 1
		}
		return l.parts > 0 && l.parts == float64(parts)
	}
	if d := &l.deviation; all(d, LearntDeviation) {
		if d.vague == 0 && d.weight > 0 && d.sum > 0 {
			fewer := d.fewer / d.weight
			nu := d.weight + (d.parts-1)*fewer/2 // their prior counts once
			if !(nu > 0) {
				nu = d.weight
			}
			f.LearnDeviation(d.sum/nu, nu)
			if mean := d.sum / (nu - fewer); from != nil && mean > 0 { // the parts' own have the start's rows, too
				f.Dispersion = mean
			} else if k := d.scales / d.had * d.weight / (nu - fewer); parts > 1 && k > 0 {
				f.Dispersion *= k
			}
		} else {
			f.Learn(LearntDeviation, math.Sqrt(f.Dispersion), math.NaN())
		}
	}
	if s := &l.shape; all(s, LearntShape) {
		info := s.weight
		if s.streams > 0 {
			info += lik.FirstShape
		}
		if s.vague == 0 && s.weight > 0 && info > 0 {
			f.Shape = s.of(math.Exp(s.sum / s.weight))
			f.LearnShape(f.Shape, 1/math.Sqrt(info))
		} else if s.rows > 0 {
			f.Shape = s.of(math.Exp(s.typical / s.rows))
			f.LearnShape(f.Shape, math.NaN())
		}
	}
	return nil
}

// excess is by how much the evidences of the parts, each at its own dispersion D, exceed that at
// the common one: ½ (Σν log ΣνD/Σν - Σν log D).
func (l *partParameter) excess() float64 {
	if d := 0.5 * (l.weight*math.Log(l.sum/l.weight) - l.logs); l.vague == 0 && d > 0 && special.Finite(d) {
		return d
	}
	return 0
}

// unequal is the note on parts whose dispersions, or shapes, differ; f is their product, with the
// common one.
func (l *partParameters) unequal(f *Fit) string {
	return Join(l.deviation.apart.noises(f.Dispersion), l.shape.apart.shapes(f.Shape))
}

// of is the common value of all parts if they have one, else x.
func (l *partParameter) of(x float64) float64 {
	if l.mixed {
		return x
	}
	return l.value
}

// freedom is special.InverseChiFreedom of a ratio, and the mean of that distribution, in few steps.
func freedom(ratio float64) (nu, mean float64) {
	nu = math.Max(0.5/(ratio*ratio), 2.5)
	for range 8 {
		var sd float64
		mean, sd = special.InverseChi(nu)
		q := sd / mean / ratio
		next := math.Max(nu*q*q, 2+0.5*(nu-2))
		if math.Abs(next-nu) <= 1e-13*nu {
			return nu, mean
		}
		nu = next
	}
	nu = special.InverseChiFreedom(ratio)
	mean, _ = special.InverseChi(nu)
	return nu, mean
}

// learntShape reports whether f learnt its shape from its rows.
func (f *Fit) learntShape() bool {
	for _, l := range f.Learnt {
		if l.Name == LearntShape {
			return true
		}
	}
	return false
}
