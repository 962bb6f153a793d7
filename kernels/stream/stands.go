package stream

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
)

// stands are the columns of numbers that rows lacked, by feature. A missing number is the mean so
// far, which moves, and the weight of its absence belongs to the average of these means, while
// predictions take the last. Those of the first rows, without a summary, do not count.
type stands struct{ of []stand }

// stand is the average of what missing numbers of a feature stood for, in rows of this total weight.
type stand struct {
	id           uint32
	mean, weight float64
}

func (t *stands) clone() *stands {
	if t == nil {
		return nil
	}
	return &stands{slices.Clone(t.of)}
}

func (t *stands) size() int64 {
	if t == nil {
		return 0
	}
	return 24 + 24*int64(cap(t.of))
}

// add returns t with rows of this weight whose missing numbers of feature id stood for mean.
func (t *stands) add(id uint32, mean, weight float64) *stands {
	if t == nil {
		t = &stands{}
	}
	at, ok := t.find(id)
	if !ok {
		t.of = slices.Insert(t.of, at, stand{id: id})
	}
	c := &t.of[at]
	c.weight += weight
	c.mean += (mean - c.mean) * (weight / c.weight)
	return t
}

func (t *stands) find(id uint32) (at int, ok bool) {
	return slices.BinarySearchFunc(t.of, id, func(a stand, id uint32) int { return int(a.id) - int(id) })
}

func (t *stands) has(id uint32) bool {
	if t == nil {
		return false
	}
	_, ok := t.find(id)
	return ok
}

// plus returns t with those of o, which is not changed.
func (t *stands) plus(o *stands) *stands {
	if o == nil {
		return t
	}
	for _, c := range o.of {
		t = t.add(c.id, c.mean, c.weight)
	}
	return t
}

// renumbered is t with feature id(j) in place of j.
func (t *stands) renumbered(id func(j int) int) (out *stands) {
	if t == nil {
		return nil
	}
	for _, c := range t.of {
		out = out.add(uint32(id(int(c.id))), c.mean, c.weight)
	}
	return out
}

// lacked notes the numbers that row i of b lacked, which has been learnt. Weights that drift follow
// the mean as it moves.
func (s *State) lacked(b *kernels.Batch, i int, weight float64) {
	if s.responses == nil || len(b.Missing) == 0 || s.plan.Drifts || s.dict.HashBits > 0 {
		return
	}
	fs, xs := b.Entries(i)
	for e, id := range fs {
		if xs[e] == xs[e] || s.dict.NumberPlace(id) == math.MaxInt {
			continue
		}
		if _, is := s.interactionLacking(id, fs, xs); is {
			continue
		}
		if mean, _, ok := s.average(id); ok {
			s.responses.stands = s.responses.stands.add(id, mean, weight)
		}
	}
}

// average returns the running mean of feature id, a numeric column, and the unit of its weight;
// false without a number.
func (s *State) average(id uint32) (mean, unit float64, ok bool) {
	if s.units != nil && int(id) < len(s.units.at) && s.units.at[id] >= 0 {
		c := &s.units.cols[s.units.at[id]]
		return c.Center, c.unit.scale(), c.N > c.Missing
	}
	if s.means != nil && int(id) < len(s.means.at) && s.means.at[id] >= 0 {
		c := &s.means.cols[s.means.at[id]]
		return c.center, 1, c.n > 0
	}
	return 0, 1, false
}

// standsNote says of which column the means that missing numbers stood for, in the fit that is
// continued, too, are too far from the one that predictions take.
func (s *State) standsNote(k int) string {
	if s.responses == nil || s.plan.Drifts || s.dict.HashBits > 0 {
		return ""
	}
	most, of := 0.0, ""
	note := func(t stand) {
		name := string(s.dict.Name(t.id))
		if before, rows := s.plan.Model.Start.MissingMean(name); rows > 0 {
			t.weight += rows
			t.mean += (before - t.mean) * (rows / t.weight)
		}
		null, ok := s.dict.Find(name + kernels.IsNull)
		mean, unit, has := s.average(t.id)
		if !ok || !has {
			return
		}
		slope, _ := s.form.Predict(k, []uint32{t.id}, []float64{1}, 0)
		_, v := s.form.Predict(k, []uint32{null}, []float64{1}, 0)
		if d := math.Abs(slope / unit * (mean - t.mean)); d > kernels.FarMean*math.Sqrt(v) && d > most {
			most, of = d, name
		}
	}
	t := s.responses.stands
	if t != nil {
		for _, c := range t.of {
			note(c)
		}
	}
	if f := s.plan.Model.Start; f != nil {
		for j := range f.Columns {
			if id, ok := s.dict.Find(f.Columns[j].Name); ok && !t.has(id) {
				if _, rows := f.MissingMean(f.Columns[j].Name); rows > 0 {
					note(stand{id: id})
				}
			}
		}
	}
	if of == "" {
		return ""
	}
	if s.units != nil {
		most *= s.units.responses()
	}
	return fmt.Sprintf("missing numbers of column %.100q stood for its mean so far, which has moved since: the predictor of rows without it is off by about %.3g; give the rows in random order, or use a method that keeps them", of, most)
}
