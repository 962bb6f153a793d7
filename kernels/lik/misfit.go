package lik

// Misfit sums, at known predictors, how rows depart from their distribution: in their variance if
// the mean determines it, and otherwise in their expected sum if that can grow beyond them; and
// together with the row before.
type Misfit struct {
	pearson    Pearson
	overshoot  Overshoot
	dependence Dependence
}

// Follow adds a row, with slope and curvature of its log likelihood, to the sums over neighbours.
func (m *Misfit) Follow(o Obs, slope, curvature float64) {
	m.dependence.Add(o, Residual(slope, curvature))
}

// MisfitOf returns how rows of l, none of which is pooled, are added to a Misfit; nil for
// distributions of which neither is to be asked. s is the predictor of o.
func MisfitOf(l Likelihood) func(sum *Misfit, o Obs, s float64) {
	if add := PearsonOf(l); add != nil {
		return func(sum *Misfit, o Obs, s float64) { add(&sum.pearson, o, s, 1, 0) }
	}
	if add := OvershootOf(l); add != nil {
		return func(sum *Misfit, o Obs, s float64) { add(&sum.overshoot, o, s) }
	}
	return nil
}

// sums are where the numbers of m are.
func (m *Misfit) sums() (at []*float64) {
	p, o, d := &m.pearson, &m.overshoot, &m.dependence
	at = []*float64{&p.Squares, &p.Weight, &p.Several, &p.Damped, &p.DampedWeight, &p.Variance, &p.Third, &o.Expected, &o.Came, &o.Variance, &d.n, &d.sum, &d.squares, &d.product, &d.square, &d.runs}
	for k := range o.Score {
		at = append(at, &o.Score[k])
	}
	for k := range o.Information {
		at = append(at, &o.Information[k])
	}
	return at
}

// MisfitSums is how many numbers Sums returns.
const MisfitSums = 24

// Sums returns the numbers of m, from which MisfitOfSums restores it.
func (m *Misfit) Sums() (sums []float64) {
	for _, v := range m.sums() {
		sums = append(sums, *v)
	}
	return sums
}

// MisfitOfSums returns the Misfit whose Sums are s, that of no rows for fewer numbers.
func MisfitOfSums(s []float64) (m Misfit) {
	if len(s) >= MisfitSums {
		for k, v := range m.sums() {
			*v = s[k]
		}
	}
	return m
}

// Add adds those of other rows.
func (m *Misfit) Add(o Misfit) {
	other := o.sums()
	for k, v := range m.sums() {
		*v += *other[k]
	}
}

// Note returns the note of the rows, of l, on their variance or their sum; "" if there is none. The
// degrees of freedom that their weights took are not counted.
func (m *Misfit) Note(l Likelihood) string {
	if note := m.pearson.Note(l, 0); note != "" {
		return note
	}
	return m.overshoot.Note("")
}

// Neighbours is Dependence.Note for rows whose predictors are known up to distance standard
// deviations; "" if these are too many.
func (m *Misfit) Neighbours(distance float64) string {
	if !(distance <= 1) { // a single step from afar has the mode of a Gaussian
		return ""
	}
	return m.dependence.Note()
}
