package kernels

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
)

// sampleRows is the number of rows of a sample: enough to show what concerns many.
const sampleRows = 2048

// sample is one row at random out of each of up to sampleRows stretches of rows.
type sample struct {
	n, next int // rows, and the one that is next
	k, of   int // its stretch
}

func sampleOf(n int) *sample {
	s := &sample{n: n, k: -1, of: min(n, sampleRows)}
	s.advance()
	return s
}

func (s *sample) advance() {
	s.k++
	lo, hi := s.k*s.n/s.of, (s.k+1)*s.n/s.of
	s.next = lo + int(mix(uint64(s.k+1)*k1, k2)%uint64(hi-lo))
}

// has reports whether row i is in the sample. It is asked of all rows in turn.
func (s *sample) has(i int) bool {
	if i != s.next {
		return false
	}
	if s.k+1 < s.of {
		s.advance()
	}
	return true
}

// Residuals is the note on rows of p that depart from what f, its fit, expects of them together with
// those that they follow, in the order of time or of the rows (lik.Dependence), on responses that
// vary otherwise than gaussian with a learnt dispersion (lik.Middle) or a family with a learnt shape
// (lik.Quarters), and on columns that they follow otherwise than f does (curves), or not in the same way
// all along (moves); "" if there is none. lines is false if another note says why numbers have no line, which curves and quarters rest
// on: codes among them (CodeNote), some far from the others (Overshoot), or a prior that holds their
// weights back (PriorNote).
//
// Cost: O(non-zeros).
func (p *Problem) Residuals(f *Fit, lines bool) string {
	if p.Lik == nil || p.N == 0 || p.Count != nil || p.Drifts() {
		return ""
	}
	l, err := f.Likelihood()
	if err != nil {
		return ""
	}
	eta := p.predictorsAt(f)
	b := p.Batch()
	var neighbours lik.Dependence
	var middle lik.Middle
	var quarters lik.Quarters
	var follows *curves
	var moving *moves
	var distribution lik.Distribution
	if lines {
		follows, moving, distribution = curvesOf(p), movesOf(p), p.shapedOf(l)
	}
	normal := p.Lik.Traits().Gaussian && p.Options.AutoDispersion
	some := sampleOf(p.N)
	for i := range p.N {
		p.Stop.Row(i)
		o := b.Obs(i)
		_, slope, bend := l.LogLik(o, eta[i])
		r := lik.Residual(slope, -bend)
		if neighbours.Add(o, r); normal {
			middle.Add(o, slope, -bend)
		}
		if moving != nil && o.Weight > 0 && moving.has(i) {
			moving.add(i, r)
		}
		if !some.has(i) {
			continue
		}
		if follows != nil && o.Weight > 0 {
			follows.add(i, r)
		}
		if distribution != nil && o.Weight == 1 {
			quarters.Add(distribution.CDF(o, eta[i]))
		}
	}
	note := neighbours.Note()
	if normal {
		note = Join(note, middle.Note(!lines))
	}
	if distribution != nil {
		note = Join(note, quarters.Note(l))
	}
	if follows != nil { // first, because rows in the order of such a column depend on each other
		_, follow := followNote(follows, moving, "", 1, &neighbours)
		note = Join(follow, note)
	}
	return note
}

// followNote is the note on what residuals follow most, for which share of their variance; kinds is
// that of curves.note.
func followNote(c *curves, m *moves, of string, kinds int, neighbours *lik.Dependence) (most float64, note string) {
	most, note = c.note(of, kinds, neighbours.Independent())
	if !neighbours.Sorted() {
		if share, moving := m.note(of, kinds, neighbours); share > lik.MovesOver*most {
			most, note = share, moving
		}
	}
	return most, note
}

// ClassResiduals is Residuals for rows whose Y are class numbers, with f their fit by a softmax: each
// class has residuals, of its rows among all, and the note is on those that show most.
//
// Cost: O(non-zeros · classes).
func (p *Problem) ClassResiduals(f *Fit, lines bool) string {
	w := p.classMeans(f)
	if w == nil {
		return ""
	}
	eta := memory.Floats(p.N)
	total := p.classTotals(f, w, eta)
	var curve, series string
	shown, correlation := 0.0, 0.0
	for a, name := range f.Classes {
		p.classPredictor(f, a, w[a], eta)
		var neighbours lik.Dependence
		var follows *curves
		var moving *moves
		if lines {
			follows, moving = curvesOf(p), movesOf(p)
		}
		some := sampleOf(p.N)
		for i, y := range p.Y {
			p.Stop.Row(i)
			o := lik.Obs{Weight: p.RowWeight(i)}
			if int(y) == a {
				o.Y = 1
			}
			prob := math.Exp(eta[i] - total[i])
			r := lik.Residual(o.Y-prob, prob*(1-prob))
			neighbours.Add(o, r)
			picked := some.has(i)
			if follows == nil || !(o.Weight > 0) {
				continue
			}
			if moving.has(i) {
				moving.add(i, r)
			}
			if picked {
				follows.add(i, r)
			}
		}
		if c := neighbours.Correlation(); neighbours.Clear() && c > correlation {
			series, correlation = neighbours.Note(), c
		}
		if follows != nil {
			if share, note := followNote(follows, moving, fmt.Sprintf(" of class %q", name), len(f.Classes), &neighbours); share > shown {
				curve, shown = note, share
			}
		}
	}
	return Join(curve, series)
}

// fewPerWeight is the number of rows for each weight from which residuals vary nearly as much as
// errors.
const fewPerWeight = 4

// shapedOf returns l as a distribution whose shape was learnt from enough rows; nil if it is none.
func (p *Problem) shapedOf(l lik.Likelihood) lik.Distribution {
	if t := l.Traits(); !(t.Counts || t.Relative || t.Heavy()) || !p.Options.AutoShape || p.N < fewPerWeight*p.P {
		return nil
	}
	d, _ := l.(lik.Distribution)
	return d
}
