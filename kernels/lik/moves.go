package lik

import "fmt"

// MoveRows is the number of successive rows of a block of Moves, and moveLeast that of a block that a
// gap in the rows ends before, without which it says nothing.
const (
	MoveRows  = 64
	moveLeast = 16
)

// MovesOver is the factor by which the share of an effect that changes must exceed that of what else
// residuals follow to be said in its place: what it changes with may be a column.
const MovesOver = 3

// Moves sums how residuals follow a column within blocks of successive rows, to find whether its effect
// changes in the course of the rows: a fit has one effect of all of them. In a block, with deviations
// x', r' from its means, Σ x'r' has the variance Σ (x'r')² if the effect is the same everywhere, whatever
// the variances of the residuals; of a column of levels, the sum of r' over the rows of a cell has one
// like that. In these units the squares are about their degrees of freedom then, and larger otherwise.
// Like tests for coefficients that change at an unknown time (Nyblom 1989, Journal of the American
// Statistical Association 84) they need no hypothesis of how. The zero value has no rows.
type Moves struct {
	movesSums        // of the blocks so far
	spread    Spread // of the residuals of these

	block  int64         // the number of the one that is summed
	rows   float64       // in it so far
	first  float64       // x of its first row; x below is relative to this
	sum    [3][3]float64 // Σ x^k r^l
	cells  [CrossCells]struct{ rows, residual, square float64 }
	varies Spread // of its residuals
}

// movesSums are those of blocks: the squares, their degrees of freedom, and the squared effect beyond
// that of all rows, times the squares of the column.
type movesSums struct{ squares, freedom, effect float64 }

func (s *movesSums) add(o movesSums) {
	s.squares, s.freedom, s.effect = s.squares+o.squares, s.freedom+o.freedom, s.effect+o.effect
}

// AddNumber adds a row's number x, in any unit, and Residual. Rows of a block follow each other; blocks
// have numbers above 0.
func (m *Moves) AddNumber(block int64, x, r float64) {
	m.enter(block)
	if m.rows == 0 {
		m.first = x
	}
	x -= m.first
	s, xx, rr := &m.sum, x*x, r*r
	s[0][0]++
	s[0][1] += r
	s[0][2] += rr
	s[1][0] += x
	s[1][1] += x * r
	s[1][2] += x * rr
	s[2][0] += xx
	s[2][1] += xx * r
	s[2][2] += xx * rr
	m.varies.Add(r)
	m.rows++
}

// AddCell adds a row's cell of a column of levels, and Residual, in the way of AddNumber.
func (m *Moves) AddCell(block int64, cell uint8, r float64) {
	m.enter(block)
	c := &m.cells[cell]
	c.rows, c.residual, c.square = c.rows+1, c.residual+r, c.square+r*r
	m.varies.Add(r)
	m.rows++
}

// enter ends the block before if this is another.
func (m *Moves) enter(block int64) {
	if block != m.block {
		m.close()
		m.block = block
	}
}

// close adds the block to those before.
func (m *Moves) close() {
	if in := m.within(); m.rows >= moveLeast && in.freedom > 0 {
		m.add(in)
		m.spread.Merge(m.varies)
	}
	m.rows, m.sum, m.varies = 0, [3][3]float64{}, Spread{}
	clear(m.cells[:])
}

// within returns the sums of the block, without degrees of freedom if it does not tell.
func (m *Moves) within() (in movesSums) {
	n := m.rows
	if n < 2 {
		return in
	}
	// by² has the expectation scale if the effect does not change; square is Σ x'².
	add := func(by, scale, square, freedom float64) {
		if scale > 0 {
			in.add(movesSums{freedom * by * by / scale, freedom, freedom * (by*by - scale) / square})
		}
	}
	if s := &m.sum; s[0][0] > 0 {
		x, r := s[1][0]/n, s[0][1]/n
		square := s[2][0] - n*x*x
		if !(square > 0) {
			return in
		}
		add(s[1][1]-n*x*r, s[2][2]-2*r*s[2][1]+r*r*s[2][0]-2*x*(s[1][2]-2*r*s[1][1]+r*r*s[1][0])+x*x*(s[0][2]-n*r*r), square, 1)
		return in
	}
	_, mean, variance, _ := m.varies.moments()
	for _, c := range m.cells {
		share := c.rows / n
		square := c.square - 2*mean*c.residual + c.rows*mean*mean
		add(c.residual-c.rows*mean, (1-share)*(1-share)*square+share*share*(n*variance-square), c.rows*(1-share), 1-share)
	}
	return in
}

// Merge adds the rows of o.
func (m *Moves) Merge(o *Moves) {
	m.close()
	own := o.whole()
	m.add(own.movesSums)
	m.spread.Merge(own.spread)
}

// whole is m with its last block ended.
func (m *Moves) whole() Moves {
	own := *m
	own.close()
	return own
}

// Share returns the part of the residuals' variance that is due to how the effect changes, 0 on average
// if it does not.
func (m *Moves) Share() float64 {
	own := m.whole()
	n, _, variance, _ := own.spread.moments()
	return own.effect / (n * variance)
}

// Clear returns the share if it is large and clear, and otherwise 0.
func (m *Moves) Clear(t ShareTest) float64 {
	own := m.whole()
	n, _, variance, _ := own.spread.moments()
	if share := own.effect / (n * variance); share > curved && own.spread.clear(own.squares/n, own.freedom, t) {
		return share
	}
	return 0
}

// MovesNote returns the sentence about the column whose effect changes in the course of the rows, for
// that share; of is that of CurveNote.
func MovesNote(of, column string, share float64) string {
	return fmt.Sprintf("residuals%s follow column %s differently in different stretches of rows, for %.2g of their variance, as if its effect changed in their course, "+
		"so that predictions of later rows can be far off: adf with process_noise follows an effect that changes with time; otherwise give what it changes with, and both together, in the way of 'u:v': {u: u, v: v}", of, column, share)
}
