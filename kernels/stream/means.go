package stream

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
)

// means are the running means of numeric columns that are not standardised, which replace missing
// values, and the sizes of numbers without a column.
type means struct {
	at   []int32 // by feature: its index in cols, -1 for none
	cols []mean
	xs   []float64 // memory
	gaps *gaps     // nil until a row lacks a number; kept in units if there are any

	sizes sizes // of numbers in maps and lists, and in slots
}

// mean is the mean of n values of feature id; those of standardised ones are kept in units.
type mean struct {
	id             uint32
	n              int64
	before         int64   // how many of the n are values of the fit that is continued
	center, square float64 // mean of the values, and of the squares of the new ones
}

func (m *means) clone() *means {
	if m == nil {
		return nil
	}
	return &means{at: slices.Clone(m.at), cols: slices.Clone(m.cols), sizes: m.sizes.clone()}
}

func (m *means) size() int64 {
	if m == nil {
		return 0
	}
	return 120 + 4*int64(cap(m.at)) + 40*int64(cap(m.cols)) + 8*int64(cap(m.xs)) + m.sizes.size()
}

// bare reports whether there are numbers that are not in units.
func (s *State) bare() bool {
	if s.units == nil {
		return true
	}
	if len(s.units.at) < s.dict.Len() {
		s.number()
	}
	return s.units.bare
}

// averages returns the means of all numbers of the dictionary that are not in units.
func (s *State) averages() *means {
	if s.means == nil {
		s.means = &means{}
	}
	m := s.means
	if len(m.at) == s.dict.Len() {
		return m
	}
	if s.units != nil && len(s.units.at) < s.dict.Len() {
		s.number()
	}
	for id := len(m.at); id < s.dict.Len(); id++ {
		m.at = append(m.at, -1)
		if s.dict.NumberPlace(uint32(id)) == math.MaxInt || s.units != nil && s.units.at[id] >= 0 {
			continue
		}
		c := mean{id: uint32(id)}
		c.n, c.center = s.meanBefore(c.id)
		c.before = c.n
		m.at[id] = int32(len(m.cols))
		m.cols = append(m.cols, c)
	}
	return m
}

// meanBefore returns how many values of feature id the fit that is continued has seen, and their
// mean.
func (s *State) meanBefore(id uint32) (n int64, center float64) {
	k := s.columnBefore(id).Mean()
	return k.N, k.Center
}

// columnBefore is what the fit that is continued knows of feature id, nil if nothing.
func (s *State) columnBefore(id uint32) *kernels.FitColumn {
	if int(id) >= s.plan.Named {
		return nil
	}
	return s.plan.Model.Start.Number(string(s.dict.Name(id)))
}

// fill returns a row's values with means for missing ones; with counts it learns the means first.
func (s *State) fill(fs []uint32, xs []float64, counts bool) []float64 {
	m := s.means
	if len(m.cols) == 0 {
		return xs
	}
	lacks := false
	for e, id := range fs {
		x := xs[e]
		if x != x {
			lacks = true
			continue
		}
		if k := m.at[id]; k >= 0 && counts {
			c := &m.cols[k]
			c.n++
			c.center += (x - c.center) / float64(c.n)
			c.square += (x*x - c.square) / float64(c.n-c.before)
		}
	}
	if !lacks {
		return xs
	}
	m.xs = append(m.xs[:0], xs...)
	for e, id := range fs {
		if xs[e] == xs[e] {
			continue
		}
		if x, ok := s.interactionLacking(id, fs, xs); ok {
			m.xs[e] = x
		} else if k := m.at[id]; k >= 0 {
			m.xs[e] = m.cols[k].center
		}
	}
	return m.xs
}

// interactionLacking returns the value of interaction id in a row that lacks one of its numbers;
// false for other features.
func (s *State) interactionLacking(id uint32, fs []uint32, xs []float64) (x float64, ok bool) {
	var kept **gaps
	if s.units != nil {
		kept = &s.units.gaps
	} else {
		kept = &s.means.gaps
	}
	g := *kept
	if g == nil || g.features != s.dict.Len() || g.schema != s.counted.Schema() {
		g = &gaps{s.dict.Len(), s.counted.Schema(), kernels.GapsOf(s.counted.Columns(), s.dict)}
		*kept = g
	}
	of := g.of.Of(s.dict, id)
	if len(of) == 0 {
		return 0, false
	}
	return g.of.Value(of, fs, xs, nil, s.center), true
}

// gaps are those of a state's columns at this number of features. They do not change.
type gaps struct {
	features int
	schema   *kernels.Schema
	of       kernels.Gaps
}

// center is the running mean of feature id, a numeric column.
func (s *State) center(id uint32) float64 {
	if s.units != nil && s.units.at[id] >= 0 {
		return s.units.cols[s.units.at[id]].Center
	}
	if s.means != nil && int(id) < len(s.means.at) && s.means.at[id] >= 0 {
		return s.means.cols[s.means.at[id]].center
	}
	return 0
}

// filled is b with means in place of missing values.
func (s *State) filled(b *kernels.Batch) *kernels.Batch {
	if len(s.averages().cols) == 0 || !slices.ContainsFunc(b.Value, func(x float64) bool { return x != x }) {
		return b
	}
	c := *b
	c.Value = slices.Clone(b.Value)
	for i := range c.Len() {
		fs, xs := c.Entries(i)
		copy(xs, s.fill(fs, xs, false))
	}
	return &c
}

// mergeMeans adds the values of src that came after the common start; id maps its feature numbers to
// those of s.
func (s *State) mergeMeans(src *State, id func(j int) int) {
	if src.means == nil {
		return
	}
	m := s.averages()
	for _, o := range src.means.cols {
		k := m.at[id(int(o.id))]
		if k < 0 {
			continue
		}
		c := &m.cols[k]
		n, was := s.meanBefore(c.id)
		if o.n == n {
			continue
		}
		c.square += (o.square - c.square) * (float64(o.n-n) / float64(c.n-n+o.n-n))
		if all := c.n + o.n - n; c.n == n {
			c.n, c.center = o.n, o.center
		} else {
			c.center += (float64(o.n)*(o.center-c.center) - float64(n)*(was-c.center)) / float64(all)
			c.n = all
		}
	}
}

// scaleNote is kernels.Fit.ScaleNote of f, whose columns are those of s. The scale of a real-valued
// response is not known here, so Located families have no note.
func (s *State) scaleNote(f *kernels.Fit) string {
	if s.means == nil || s.units != nil || s.plan.Model.Lik.Traits().Located {
		return ""
	}
	rms := make([]float64, len(f.Columns))
	for k := range rms {
		rms[k] = math.NaN()
		if id, ok := s.dict.Find(f.Columns[k].Name); ok && int(id) < len(s.means.at) && s.means.at[id] >= 0 {
			if c := s.means.cols[s.means.at[id]]; c.before == 0 && c.n > 0 {
				rms[k] = math.Sqrt(c.square)
			}
		}
	}
	return f.ScaleNote(rms, 1)
}

// columns returns the columns as a fit records them.
func (s *State) columns() []kernels.FitColumn {
	if s.plan.Model.Options.AnyColumns {
		return nil
	}
	out := s.counted.Columns()
	next := 0 // columns mostly come in the order of their features
	var of map[string]int
	var room [64]byte
	find := func(id uint32) *kernels.FitColumn {
		name := s.dict.AppendName(room[:0], id)
		if next < len(out) && out[next].Name == string(name) {
			next++
			return &out[next-1]
		}
		if of == nil {
			of = make(map[string]int, len(out))
			for k := range out {
				of[out[k].Name] = k + 1
			}
		}
		if k := of[string(name)]; k > 0 {
			next = k
			return &out[k-1]
		}
		nan := math.NaN()
		out = append(out, kernels.FitColumn{Name: string(name), Kind: kernels.NumberColumn, Center: nan, Scale: nan, Variance: nan})
		return &out[len(out)-1]
	}
	if s.means != nil {
		for _, c := range s.averages().cols {
			if c.n > 0 {
				k := find(c.id)
				k.Center = c.center
				k.N = c.n + k.Missing // without rows of weight 0
			}
		}
	}
	if s.units == nil {
		return out
	}
	if len(s.units.at) < s.dict.Len() {
		s.number()
	}
	for _, c := range s.units.cols {
		k := find(c.id)
		missing := max(k.Missing, c.Missing)
		k.N, k.Missing, k.Center, k.Scale = c.N-c.Missing+missing, missing, c.Center, c.Scale
		k.Variance = s.plan.Fresh(s.dict, int(c.id)).Variance
	}
	for k := range out { // columns without a number yet, and so without a weight
		if c := &out[k]; c.Kind == kernels.NumberColumn && c.N == c.Missing && math.IsNaN(c.Scale) {
			c.Center, c.Scale = 0, 0
		}
	}
	return out
}
