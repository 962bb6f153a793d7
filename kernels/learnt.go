package kernels

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/bglm/bglm/kernels/special"
)

// Learnt is what a fit learnt of a parameter of its likelihood beside its value: mean and
// deviation of its posterior, SD NaN where that is not known.
type Learnt struct {
	Name     string // LearntDeviation, LearntShape
	Mean, SD float64
}

// Names of a Learnt.
const (
	LearntDeviation = "deviation" // the square root of the dispersion
	LearntShape     = "shape"
)

// Learn notes in f what was learnt of a parameter; numbers that are not finite are not known.
func (f *Fit) Learn(name string, mean, sd float64) {
	if !(mean > 0) || math.IsInf(mean, 1) {
		return
	}
	if !(sd > 0) || math.IsInf(sd, 1) {
		sd = math.NaN()
	}
	own := Learnt{name, mean, sd}
	f.Learnt = slices.Clone(f.Learnt) // others may hold it
	if k := slices.IndexFunc(f.Learnt, func(l Learnt) bool { return l.Name == name }); k >= 0 {
		f.Learnt[k] = own
		return
	}
	f.Learnt = append(f.Learnt, own)
}

// LearnDeviation is Learn of the square root of a dispersion of ν degrees of freedom: of the
// scaled inverse chi-square law of that scale, which for gaussian responses is the posterior. Of
// log σ² it has its mode at the log of the scale, and the curvature ν/2 there.
func (f *Fit) LearnDeviation(scale, nu float64) {
	mean, sd := special.InverseChi(nu)
	if math.IsNaN(mean) {
		mean = 1
	}
	unit := math.Sqrt(scale)
	f.Learn(LearntDeviation, unit*mean, unit*sd)
}

// LearnShape is Learn of a shape whose logarithm is that of mode, with that deviation, NaN where
// it is not known.
func (f *Fit) LearnShape(mode, sd float64) {
	if math.IsNaN(sd) {
		f.Learn(LearntShape, mode, sd)
		return
	}
	mean := mode * math.Exp(0.5*sd*sd)
	f.Learn(LearntShape, mean, mean*math.Sqrt(math.Expm1(sd*sd)))
}

// LearntOf is mean and deviation of a parameter that f learnt; false where it does not know both.
func (f *Fit) LearntOf(name string) (mean, sd float64, ok bool) {
	for _, l := range f.Learnt {
		if l.Name == name {
			return l.Mean, l.SD, l.Mean > 0 && l.SD > 0
		}
	}
	return 0, 0, false
}

// stretchLearnt brings f to responses that are unit times themselves.
func (f *Fit) stretchLearnt(unit float64) {
	f.Learnt = slices.Clone(f.Learnt)
	for k := range f.Learnt {
		if l := &f.Learnt[k]; l.Name == LearntDeviation {
			l.Mean, l.SD = l.Mean*unit, l.SD*unit
		}
	}
}

// ValidateLearnt reports a parameter that is there twice, or cannot be. Names that are not known
// are those of later versions.
func ValidateLearnt(all []Learnt) error {
	for k, l := range all {
		switch {
		case !utf8.ValidString(l.Name):
			return fmt.Errorf("learnt: %.40q is not valid UTF-8", l.Name)
		case slices.ContainsFunc(all[:k], func(o Learnt) bool { return o.Name == l.Name }):
			return fmt.Errorf("learnt: %.100q is there more than once", l.Name)
		case math.IsNaN(l.Mean) || math.IsInf(l.Mean, 0) || l.SD < 0 || math.IsInf(l.SD, 0):
			return fmt.Errorf("learnt: %.100q has mean = %v, sd = %v; allowed: finite numbers, sd >= 0 or none", l.Name, l.Mean, l.SD)
		}
	}
	return nil
}
