package kernels

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/stop"
)

// Totals are what a problem needs to know of rows that are not kept.
type Totals struct {
	Rows    int64
	Skipped int64
	Weight  float64        // of all rows
	Columns []FitColumn    // as counted; their centers are not used
	Numbers []NumberTotals // by feature number; those of other features are not used
	Squares []float64      // by feature number: weighted sums of squares of entries; those of numbers are not used
	Y       NumberTotals   // of the responses, less their offsets as by Less, for real-valued families and gamma
}

// NumberTotals are the totals of a feature's numbers. Rows without a number count by their weight:
// missing ones, which the mean replaces, and rows without an entry, as zeros.
type NumberTotals struct {
	Rows, Mean               float64 // unweighted
	Weight, Center, Squares  float64 // weighted; Squares are about Center
	Missing, MissingByWeight float64
}

// Add adds the totals of other rows.
func (t *NumberTotals) Add(o NumberTotals) {
	t.Missing += o.Missing
	t.MissingByWeight += o.MissingByWeight
	if o.Rows > 0 {
		t.Rows += o.Rows
		t.Mean += (o.Mean - t.Mean) * (o.Rows / t.Rows)
	}
	t.join(o.Weight, o.Center, o.Squares)
}

func (t *NumberTotals) join(weight, center, squares float64) {
	if !(weight > 0) {
		return
	}
	d, a := center-t.Center, t.Weight
	t.Weight += weight
	t.Center += d * (weight / t.Weight)
	t.Squares += squares + d*d*a*(weight/t.Weight)
}

// Unseen returns the problem of model m with the features of d, which gains those that m names,
// without its rows: it has the prior, what a fit records and, if the model is to be standardised,
// the scales, so that s.Restore converts a fit of the problem to the original ones; otherwise
// s.Scale and s.Shift are 1 and 0. fill has by feature the mean that replaces a missing number.
// loose is as for Problem.Standardize; for a full posterior, 0, all numbers are centred. halt ends
// operations on the problem.
// Errors: those of Rows.Problem and Problem.Standardize.
func Unseen(halt *stop.Stop, m *Model, d *Dict, t *Totals, loose int) (p *Problem, s *Standard, fill []float64, err error) {
	r := &Rows{Model: m.Complete(), counted: ColumnCounts{cols: t.Columns}, skipped: t.Skipped}
	r.Dict = *d
	if err := r.Model.Name(&r.Dict); err != nil {
		return nil, nil, nil, err
	}
	*d = r.Dict
	of, err := r.problem(halt, copied)
	if err != nil {
		return nil, nil, nil, err
	}
	of.unseen = t
	var numbers []NumberTotals
	numbers, fill = of.complete(d, t)
	of.spread = t.Y.square(t.Y.Center)
	scale, shift := slices.Repeat([]float64{1}, of.P), memory.Floats(of.P)
	s = &Standard{of: of, response: 1, Scaling: design.NewScaling(scale, shift)}
	p = of
	if of.Options.Standardize {
		p, err = s.unseen(numbers, t, loose)
	}
	if err == nil {
		p.squares = s.squares(numbers, t)
		p.spread = of.spread / s.response / s.response
	}
	return p, s, fill, err
}

// complete sets the centers of numeric columns, and returns the totals by feature with fill in
// place of missing numbers.
func (p *Problem) complete(d *Dict, t *Totals) (numbers []NumberTotals, fill []float64) {
	numbers = make([]NumberTotals, d.Len())
	copy(numbers, t.Numbers)
	fill = make([]float64, d.Len())
	for k := range p.columns {
		id, ok := d.Find(p.columns[k].Name)
		if p.columns[k].Kind != NumberColumn || !ok || numbers[id].Rows == 0 {
			continue
		}
		before := p.Model.Start.Number(p.columns[k].Name).Mean()
		c := center{float64(before.N), before.Center}
		if numbers[id].Weight > 0 {
			c.add(numbers[id].Center, numbers[id].Weight)
		}
		p.columns[k].Center, fill[id] = c.mean, c.mean
	}
	for k := range numbers {
		n := &numbers[k]
		n.join(n.MissingByWeight, fill[k], 0)
		n.join(max(t.Weight-n.Weight, 0), 0, 0) // absent entries
	}
	return numbers, fill
}

// unseen returns s.of on the scales of the numbers, and of the responses if their dispersion is
// learnt, and sets them in s.
func (s *Standard) unseen(numbers []NumberTotals, t *Totals, loose int) (*Problem, error) {
	of := s.of
	q, own := *of, *of.Model
	q.Model, own.Options.Standardize = &own, false
	q.columns = slices.Clone(of.columns)
	if err := s.scaleNumbers(&q, numbers, t, loose); err != nil {
		return nil, err
	}
	l, dispersed := own.Lik.(lik.Dispersed)
	if !dispersed && !own.Lik.Traits().Relative || own.Start != nil || t.Rows == 0 {
		return &q, nil
	}
	mean, unit := s.unitOf(&q, t.Y.Center, math.Sqrt(of.spread))
	if s.response = unit; dispersed && (unit != 1 || mean != 0) {
		return &q, s.measure(&q, l, unit)
	}
	return &q, nil
}

// scaleNumbers sets the scales and shifts of the numbers, also in the columns of q.
func (s *Standard) scaleNumbers(q *Problem, numbers []NumberTotals, t *Totals, loose int) error {
	of := s.of
	at := map[string]int{}
	for k, c := range q.columns {
		at[c.Name] = k
	}
	number := of.standardised()
	all := 0
	for j := range of.P {
		if number(j) {
			all++
		}
	}
	scale, shift := slices.Repeat([]float64{1}, of.P), memory.Floats(of.P)
	plain := map[int]float64{} // standard deviations of numbers that are not centred
	centring := design.NewCentring(of.centres(), loose, of.P, all)
	for j, id := range of.cols {
		if !number(j) {
			continue
		}
		n := numbers[id]
		spread := math.Sqrt(n.square(n.Center))
		if _, known := design.Scale(n.Center, spread, true); !known {
			return of.beyond(j)
		}
		here := of.centres()
		if loose > 0 {
			here = centring.Of(n.Center, spread, int(float64(t.Rows)-n.Rows-n.Missing))
		}
		if scale[j] = design.Unit(n.Center, spread, here); here {
			shift[j] = n.Center
		} else {
			plain[j] = spread
		}
		if k, ok := at[of.Name(j)]; ok && q.columns[k].Kind == NumberColumn {
			q.columns[k].Scale = scale[j]
		}
	}
	s.Scaling = design.NewScaling(scale, shift)
	for j, spread := range plain {
		s.NotCentred(j, spread)
	}
	s.Note = centring.Note
	return nil
}

// square is the mean square of numbers about a point.
func (t *NumberTotals) square(about float64) float64 {
	if !(t.Weight > 0) {
		return 0
	}
	d := t.Center - about
	return t.Squares/t.Weight + d*d
}

// squares returns the mean squares of the columns on their new scales.
func (s *Standard) squares(numbers []NumberTotals, t *Totals) []float64 {
	out := memory.Floats(s.of.P)
	for j, id := range s.of.cols {
		switch {
		case s.of.dict.NumberPlace(id) < math.MaxInt:
			out[j] = numbers[id].square(s.Shift[j]) / s.Scale[j] / s.Scale[j]
		case int(id) < len(t.Squares):
			if t.Weight > 0 {
				out[j] = t.Squares[id] / t.Weight
			}
		case id == 0 && s.of.centres():
			out[j] = 1
		}
	}
	return out
}

// MeanSquares returns the weighted mean squares of the columns; all weights of the rows may be 0.
func (p *Problem) MeanSquares() []float64 {
	if p.unseen != nil {
		return p.squares
	}
	square, n := memory.Floats(p.P), 0.0
	for i := range p.N {
		n += p.RowWeight(i)
	}
	for i := range p.N {
		w := p.RowWeight(i)
		if !(w > 0) {
			continue
		}
		col, val := p.Entries(i)
		for k, j := range col {
			square[j] += val[k] * val[k] * w / n
		}
	}
	return square
}

// ResponseSpread is the mean square of the responses about their mean, less their offsets, for rows
// that are not kept; ok is false for others.
func (p *Problem) ResponseSpread() (square float64, ok bool) { return p.spread, p.unseen != nil }

// beyond is the error for column j, whose numbers cannot be squared.
func (p *Problem) beyond(j int) error { return SpreadError(p.Name(j)) }

// SpreadError is the error for a feature whose numbers cannot be squared: design.Squares.
func SpreadError(name string) error {
	return fmt.Errorf("feature %q: the spread of its numbers is beyond 1e-140 to 1e140; scale them", name)
}

// ErrResponseSpread is the error for responses that cannot be squared: design.Squares.
var ErrResponseSpread = errors.New("y: the spread of its numbers is beyond 1e-140 to 1e140; scale them")

// Feature is the number of column j in the dictionary.
func (p *Problem) Feature(j int) uint32 { return p.cols[j] }

// PriorOf returns by feature number the prior of the model for the features of d, which has those
// that the model names.
func (m *Model) PriorOf(d *Dict) []Weight {
	prior, _ := m.startOf(d)
	return prior
}
