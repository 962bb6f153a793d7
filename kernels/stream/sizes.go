package stream

import (
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
)

const (
	// manySizes is the number of features that sizes has room for: a status names only one.
	manySizes = 64
	// fewEarlier is from how many rows on what was not measured counts: before that, values of 0
	// are likely.
	fewEarlier = 16
	// sizedRows is how many rows of a stream are measured; that many show the scale of a feature.
	sizedRows = 10_000
)

// sizes are the mean squares of the first features of maps and lists, or slots, that had a value far
// from 1 in a row of weight above 0. Earlier rows, if they are fewEarlier, count as if it had been 1.
type sizes struct {
	at   []int32 // by feature: its index in cols, -1 if not known, -2 for one without
	cols []sizeOf
}

type sizeOf struct {
	id     uint32
	n      int64
	square float64
}

func (z *sizes) clone() sizes { return sizes{slices.Clone(z.at), slices.Clone(z.cols)} }

func (z *sizes) size() int64 {
	return 4*int64(cap(z.at)) + 24*int64(cap(z.cols))
}

// measure adds the values of a row, if it is one of the first.
func (s *State) measure(fs []uint32, xs []float64) {
	if s.told >= s.plan.begins+sizedRows {
		return
	}
	for e, x := range xs {
		far := kernels.FarFromOne(x)
		if !far && (s.means == nil || len(s.means.sizes.cols) == 0) {
			continue
		}
		if c := s.sizeOf(fs[e], far); c != nil && x == x && x != 0 {
			c.add(1, x*x)
		}
	}
}

// add adds n values of this mean square.
func (c *sizeOf) add(n int64, square float64) {
	c.n += n
	c.square += (square - c.square) * (float64(n) / float64(c.n))
}

// sizeOf is the mean square of feature id, nil if it is not measured: numbers of columns are in
// units or means. begin says that it may be measured from now on.
func (s *State) sizeOf(id uint32, begin bool) *sizeOf {
	if u := s.units; u != nil && int(id) < len(u.at) && u.at[id] >= 0 {
		return nil
	}
	if m := s.means; m != nil && int(id) < len(m.at) && m.at[id] >= 0 {
		return nil
	}
	if s.means == nil {
		s.means = &means{}
	}
	z := &s.means.sizes
	if n := len(z.at); n < s.dict.Len() {
		z.at = slices.Grow(z.at, s.dict.Len()-n)[:s.dict.Len()]
		for k := n; k < len(z.at); k++ {
			z.at[k] = -1
		}
	}
	k := z.at[id]
	if k == -1 && begin {
		k = -2
		if len(z.cols) < manySizes && int(id) >= s.plan.Named && s.dict.ColumnOf(id) == 0 && s.dict.NumberPlace(id) == math.MaxInt {
			k = int32(len(z.cols))
			c := sizeOf{id: id}
			if earlier := s.told - s.plan.begins; earlier >= fewEarlier {
				c.n, c.square = min(earlier, sizedRows), 1
			}
			z.cols = append(z.cols, c)
		}
		z.at[id] = k
	}
	if k < 0 {
		return nil
	}
	return &z.cols[k]
}

// mergeSizes adds those of src; id maps its feature numbers to those of s.
func (s *State) mergeSizes(src *State, id func(j int) int) {
	if src.means == nil {
		return
	}
	for _, o := range src.means.sizes.cols {
		if c := s.sizeOf(uint32(id(int(o.id))), true); c != nil && o.n > 0 {
			c.add(o.n, o.square)
		}
	}
}

// openNote is kernels.Fit.OpenNote for the feature furthest from the scale of its prior. The scale
// of a real-valued response is known only if it is standardised.
func (s *State) openNote(f *kernels.Fit) string {
	unit := s.units.responses()
	if s.means == nil || s.plan.Model.Lik.Traits().Located && (s.units == nil || s.units.y == nil) {
		return ""
	}
	var name []byte
	worst, rms := 0.0, 0.0
	for _, c := range s.means.sizes.cols {
		x, feature := math.Sqrt(c.square), s.dict.Name(c.id)
		if off := f.OffOpen(feature, x, unit); off > worst {
			name, worst, rms = slices.Clone(feature), off, x
		}
	}
	return f.OpenNote(name, rms)
}
