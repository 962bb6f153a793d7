package kernels

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/bglm/bglm/kernels/arrowhead"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// Limits of the values in a Fit.
const (
	MaxHashBits = 30
	MaxCount    = 1 << 52 // of rows: exact in every format, even if doubled
)

// Multinomial is the family of fits with classes.
const Multinomial = "multinomial"

// Validate returns an error for the first broken invariant of a Fit from outside, as a struct in
// SQL or a file: the head (ValidateHead), the columns (ValidateColumns), the beliefs
// (ValidateBeliefs), for a fit with classes in blocks of the same features, and the covariance
// (Covariance.Validate).
//
// Cost: O(number of beliefs and of covariance values), plus that of Covariance.Validate.
func (f *Fit) Validate() error {
	if f == nil {
		return ErrNoFit
	}
	if err := f.ValidateHead(); err != nil {
		return err
	}
	if err := ValidateColumns(f.Columns); err != nil {
		return err
	}
	if err := ValidateCorrelations(f.Correlations); err != nil {
		return err
	}
	if err := ValidateLearnt(f.Learnt); err != nil {
		return err
	}
	n, p := len(f.Classes), len(f.Beliefs)
	if n > 0 {
		if p%n != 0 {
			return fmt.Errorf("%d beliefs for %d classes; allowed: as many for each", p, n)
		}
		p /= n
		if err := f.validateClasses(p); err != nil {
			return err
		}
	}
	if p > 0 && (f.Family == Multinomial) != (n > 0) {
		return fmt.Errorf("family = %q with %d classes; allowed: classes with %s, and only with it", f.Family, n, Multinomial)
	}
	err := ValidateBeliefs(p, func(j int) (string, Weight) { return f.Beliefs[j].Feature, f.Beliefs[j].Weight })
	if err != nil {
		return err
	}
	for j := range p { // for texts in SQL the database ensures it
		if name := f.Beliefs[j].Feature; !utf8.ValidString(name) {
			return fmt.Errorf("feature %.40q is not valid UTF-8", name)
		}
	}
	return f.Covariance.Validate(len(f.Beliefs), func(j int) Weight { return f.Beliefs[j].Weight })
}

// validateClasses checks the names of the classes, and compares the blocks of all others with the
// first.
func (f *Fit) validateClasses(p int) error {
	seen := make(map[string]bool, len(f.Classes))
	for k, c := range f.Classes {
		if seen[c] {
			return fmt.Errorf("class %.100q is there in more than one block; allowed: the beliefs of one class after the other", c)
		}
		seen[c] = true
		if !utf8.ValidString(c) {
			return fmt.Errorf("class %.40q is not valid UTF-8", c)
		}
		for j := range p {
			b := &f.Beliefs[k*p+j]
			if b.Feature != f.Beliefs[j].Feature {
				return fmt.Errorf("belief %d of class %.60q is about feature %.60q, of class %.60q about %.60q; allowed: the same features in the same order",
					j+1, c, b.Feature, f.Classes[0], f.Beliefs[j].Feature)
			}
			if err := CheckWeight(b.Weight); err != nil {
				return fmt.Errorf("class %.60q, feature %.100q: %w", c, b.Feature, err)
			}
		}
	}
	return nil
}

// ValidateColumns returns an error for a column that occurs twice or is invalid.
func ValidateColumns(columns []FitColumn) error {
	seen := make(map[string]bool, len(columns))
	for _, c := range columns {
		name := strings.ToLower(c.Name)
		switch {
		case seen[name]:
			return fmt.Errorf("columns: %.100q is there more than once", c.Name)
		case !utf8.ValidString(c.Name):
			return fmt.Errorf("columns: %.40q is not valid UTF-8", c.Name)
		case c.Kind != NumberColumn && c.Kind != LevelsColumn && c.Kind != FeaturesColumn:
			return fmt.Errorf("columns: %.100q is of kind %.40q; allowed: '%s', '%s', '%s'", c.Name, c.Kind, NumberColumn, LevelsColumn, FeaturesColumn)
		case c.Parts != "" && !validParts(c.Parts):
			return fmt.Errorf("columns: %.100q is of kind %.100q; allowed: the kinds and names of its columns, as in 'levels of number x, levels g'", c.Name, (*ColumnKind)(&c).String())
		case c.N < 0 || c.N > MaxCount || c.Missing < 0 || c.Missing > c.N:
			return fmt.Errorf("columns: %.100q has n = %d, missing = %d; allowed: whole numbers from 0 to %d, missing at most n", c.Name, c.N, c.Missing, int64(MaxCount))
		case math.IsInf(c.Center, 0) || math.IsInf(c.Scale, 0) || c.Scale < 0:
			return fmt.Errorf("columns: %.100q has center = %v, scale = %v; allowed: finite numbers, scale >= 0, or none", c.Name, c.Center, c.Scale)
		case math.IsInf(c.Variance, 0) || c.Variance < 0:
			return fmt.Errorf("columns: %.100q has variance = %v; allowed: a finite number >= 0, or none", c.Name, c.Variance)
		}
		seen[name] = true
	}
	return nil
}

func validParts(s string) bool {
	_, ok := SplitParts(s)
	return ok && utf8.ValidString(s)
}

// ValidateCorrelations returns an error for an invalid correlation.
func ValidateCorrelations(all []Correlation) error {
	for _, c := range all {
		switch {
		case !utf8.ValidString(c.A) || !utf8.ValidString(c.B):
			return fmt.Errorf("correlations: %.40q and %.40q; allowed: names in valid UTF-8", c.A, c.B)
		case !(math.Abs(c.Mean) <= 1) || c.SD < 0 || math.IsInf(c.SD, 0) || math.IsNaN(c.Covariance) || math.IsInf(c.Covariance, 0):
			return fmt.Errorf("correlations: %.100q and %.100q have mean = %v, sd = %v, covariance = %v; allowed: a mean from -1 to 1, finite numbers, sd >= 0 or none", c.A, c.B, c.Mean, c.SD, c.Covariance)
		}
	}
	return nil
}

// ValidateHead is Validate for all but the beliefs, the classes, the columns and the covariance's
// values.
func (f *Fit) ValidateHead() error {
	if f.HashBits < 0 || f.HashBits > MaxHashBits {
		return fmt.Errorf("hash_bits = %d; allowed: none or 1 to %d", f.HashBits, MaxHashBits)
	}
	for _, w := range []Weight{{f.Prior.Mean, f.Prior.Variance}, {f.Prior.Mean, f.Prior.InterceptVariance}} {
		if err := CheckWeight(w); err != nil {
			return fmt.Errorf("the default prior: %w", err)
		}
	}
	if math.IsInf(f.Time, 0) {
		return fmt.Errorf("time = %v; allowed: a finite number or none", f.Time)
	}
	if f.N < 0 || f.Skipped < 0 || f.Iterations < 0 || f.N > MaxCount || f.Skipped > MaxCount || f.Iterations > math.MaxInt32 {
		return fmt.Errorf("n = %d, n_skipped = %d, iterations = %d; allowed: whole numbers >= 0, of rows up to %d, of iterations up to %d",
			f.N, f.Skipped, f.Iterations, int64(MaxCount), math.MaxInt32)
	}
	if math.IsInf(f.LogEvidence, 1) {
		return fmt.Errorf("log_evidence = %v; allowed: numbers below Infinity, or none", f.LogEvidence)
	}
	for _, s := range []string{f.Method, f.Status} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("method or status %.40q is not valid UTF-8", s)
		}
	}
	if err := f.validatePredictive(); err != nil {
		return err
	}
	if !(f.Dispersion > 0) || math.IsInf(f.Dispersion, 1) {
		return fmt.Errorf("dispersion = %v; allowed: a finite number > 0", f.Dispersion)
	}
	if f.Shape <= 0 || math.IsInf(f.Shape, 1) {
		return fmt.Errorf("shape = %v; allowed: a finite number > 0, or none where the family has none", f.Shape)
	}
	if f.Family == "" || f.Link == "" {
		return fmt.Errorf("family = %q, link = %q; both are needed", f.Family, f.Link)
	}
	if f.Family == Multinomial { // several linear predictors: no likelihood of one
		if f.Link != "softmax" {
			return fmt.Errorf("link = %q: allowed for family %s: softmax", f.Link, Multinomial)
		}
		return nil
	}
	l, err := f.Likelihood()
	if err != nil {
		return err
	}
	if _, ok := l.(lik.Shaped); ok && math.IsNaN(f.Shape) {
		return fmt.Errorf("the shape is missing; family %s has one, a finite number > 0", f.Family)
	}
	return nil
}

// Likelihood returns the observation model of a fit with one response.
func (f *Fit) Likelihood() (lik.Likelihood, error) {
	q := lik.Params{Dispersion: f.Dispersion}
	if !math.IsNaN(f.Shape) {
		q.Shape = f.Shape
	}
	l, err := lik.New(f.Family, f.Link, q)
	if err != nil {
		return nil, fmt.Errorf("%v", err) // an error in the fit is not one of an argument
	}
	return l, nil
}

// ValidateBeliefs checks n beliefs, however they are stored: Gaussians, in belief order, without
// repetitions. at(j) is belief j, whose name is valid until the call after the next.
//
// Cost: O(n).
func ValidateBeliefs(n int, at func(j int) (name string, w Weight)) error {
	last := ""
	for j := range n {
		name, w := at(j)
		if j > 0 && !before(last, name) {
			return outOfOrder(last, name)
		}
		// Both tests at once: the difference of a finite number to itself is 0.
		if !(w.Variance >= 0) || w.Mean-w.Mean != 0 || w.Variance-w.Variance != 0 {
			return fmt.Errorf("feature %.100q: %w", name, CheckWeight(w))
		}
		last = name
	}
	return nil
}

// ValidateSlots checks that n beliefs under hash bits, 0 for none, are of the intercept and of
// slots: rows have no other features, and such beliefs would have no effect. It is for callers that
// are about to use beliefs; Validate, which is used for reading and writing files, omits it.
func ValidateSlots(hashBits, n int, at func(j int) string) error {
	if hashBits <= 0 {
		return nil
	}
	for j := range n {
		name := at(j)
		if name == Intercept {
			continue
		}
		if t := NewText(name); len(name) > 1 && name[0] == '#' {
			if t = keyOf(t); t.Lo == slotMark && t.Hi < 1<<hashBits {
				continue
			}
		}
		return fmt.Errorf("feature %.100q is no slot of hash_bits = %d; allowed: #0 to #%d", name, hashBits, 1<<hashBits-1)
	}
	return nil
}

func outOfOrder(last, name string) error {
	if last == name {
		return fmt.Errorf("feature %.100q has more than one belief", name)
	}
	return fmt.Errorf("the beliefs are %w (%.100q before %.100q)", ErrOrder, last, name)
}

// ErrOrder is the error for beliefs that are not in belief order, CompareNames.
var ErrOrder = errors.New("not in their order")

// before is CompareNames(a, b) < 0. Two names that begin with a letter, as most do, are neither the
// intercept nor a number: comparing their bytes suffices.
func before(a, b string) bool {
	if len(a) > 0 && len(b) > 0 && a[0] > '9' && b[0] > '9' {
		return a < b
	}
	return CompareNames(a, b) < 0
}

const (
	// CovarianceTol is the largest difference, relative to the variance before anything is
	// subtracted from it, between a belief's variance and that of the covariance: engines compute
	// the two in different ways, and FLOAT columns have 1e-7.
	CovarianceTol = 1e-6
	// definiteWork limits the multiplications of the test that a low-rank form is positive
	// semi-definite: a millisecond or two.
	definiteWork = 1 << 22
)

// Validate returns an error for a covariance that cannot be that of p beliefs with these variances:
// its form, rank and length; values that are not finite; a negative diagonal of a Cholesky factor,
// or a negative d; variances (its diagonal) that are negative or not the beliefs'. A full form is
// positive semi-definite by construction. A low-rank one is tested (I - Fᵀ D⁻¹ F, to 1e-6) while
// that needs up to 4 M multiplications; in larger ones each predicted row shows it (Variance).
//
// Cost: O(values), plus O(p rank²) for low rank if it is tested.
func (c *Covariance) Validate(p int, belief func(j int) Weight) error {
	if err := c.checkSize(p); err != nil {
		return err
	}
	switch c.Form {
	case gauss.Diagonal:
		return nil
	case gauss.Arrowhead:
		return c.validateArrow(p, belief)
	}
	for j := range p {
		r, v, left := c.Row(j), belief(j).Variance, 0.0
		all := r[0]
		if c.Form == gauss.LowRank {
			left = all - dense.Dot(r[1:], r[1:])
		} else {
			all = dense.Dot(r, r)
			left = all
		}
		// A number that is not finite makes all or left so.
		if !(math.Abs(left-v) <= CovarianceTol*math.Max(all, v)+tiny) || all < 0 || all-all != 0 || c.Form == gauss.Full && r[j] < 0 {
			return c.badRow(j, all, left, v)
		}
	}
	if c.Form == gauss.LowRank && c.Rank > 0 && p > 0 && p <= definiteWork/c.Rank/c.Rank && !c.definite(p) {
		return fmt.Errorf("covariance: diag(d) - F Fᵀ is not positive semi-definite")
	}
	return nil
}

// validated is the number of operations up to which the variances of all of an arrowhead's beliefs
// are compared with it; beyond, only some are.
const validated = 1 << 27

// validateArrow is Validate for an arrowhead form, which is positive semi-definite by construction.
func (c *Covariance) validateArrow(p int, belief func(j int) Weight) error {
	a := c.Arrow()
	if err := a.Check(p); err != nil {
		return fmt.Errorf("covariance: %w", err)
	}
	var s arrowhead.Spread
	s.Pack(a)
	var room arrowhead.SpreadScratch
	at, one, g := make([]int, 1), []float64{1}, make([]float64, a.D)
	for j := 0; j < p; j += 1 + p*a.D*a.D/validated {
		at[0] = j
		w := belief(j)
		if all, v := s.Variance(at, one, &room), w.Variance; !(math.Abs(all-v) <= CovarianceTol*math.Max(all, v)+tiny) {
			return fmt.Errorf("covariance: its variance of belief %d is %v, that in beliefs %v; allowed: the same, to %v", j+1, all, v, CovarianceTol)
		}
		if mean, size := a.MeanOf(j, g); w.Variance > 0 && !(math.Abs(mean-w.Mean) <= CovarianceTol*(math.Sqrt(w.Variance)+size)) {
			return fmt.Errorf("covariance: its mean of belief %d is %v, that in beliefs %v; allowed: the same", j+1, mean, w.Mean)
		}
	}
	return nil
}

// badRow returns the error of row j, which leaves the variance left of all where the belief has v.
func (c *Covariance) badRow(j int, all, left, v float64) error {
	r := c.Row(j)
	for _, x := range r {
		if err := checkValue(x); err != nil {
			return err
		}
	}
	switch {
	case c.Form == gauss.Full && r[j] < 0:
		return fmt.Errorf("covariance: %v on the diagonal of the Cholesky factor, in row %d; allowed: numbers >= 0", r[j], j+1)
	case all < 0:
		return fmt.Errorf("covariance: d = %v of belief %d; allowed: numbers >= 0", all, j+1)
	}
	return fmt.Errorf("covariance: its variance of belief %d is %v, that in beliefs %v; allowed: the same, to %v of %v", j+1, left, v, CovarianceTol, all)
}

// tiny is the tolerance for squares that underflow.
const tiny = 1e-307

// definite reports whether diag(d) - F Fᵀ is positive semi-definite, to 1e-6 of d: equivalently
// I - Fᵀ D⁻¹ F, apart from beliefs with d = 0.
func (c *Covariance) definite(p int) bool {
	w := memory.Floats(p)
	for j := range w {
		if d := c.Row(j)[0]; d > tiny { // otherwise its row of F is 0 up to rounding
			w[j] = -1 / d
		}
	}
	g := dense.New(c.Rank, c.Rank)
	dense.Gram(g, &dense.Matrix{Rows: p, Cols: c.Rank, Stride: c.Rank + 1, Data: c.Values[1:]}, w)
	for i := range g.Rows {
		g.Row(i)[i] += 1 + CovarianceTol
	}
	return dense.Cholesky(g) == nil
}
