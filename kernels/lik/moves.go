package lik

import "fmt"

// MoveRows is the number of successive rows of a block of Moves, and moveLeast that of a block that a
// gap in the rows ends before, without which it says nothing.
const (
	MoveRows  = 64
	moveLeast = 16
)

// moving is the share of an effect that changes from which on a note is made, and movingLevel that of the
// level. Many effects change a little with time, and levels more than effects.
const (
	moving      = 0.08
	movingLevel = 0.1
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
	blocks float64               // so far
	sums   [CrossCells]movesSums // of these, by cell; those of a number are the first
	spread Spread                // of their residuals

	block  int64         // the number of the one that is summed
	rows   float64       // in it so far
	first  float64       // x of its first row; x below is relative to this
	sum    [3][3]float64 // Σ x^k r^l
	cells  [CrossCells]struct{ rows, residual, square float64 }
	varies Spread // of its residuals
	level  bool   // its mean is of interest
}

// movesSums are over blocks, of each of which by is Σ x'r', scale its variance and square Σ x'². All are
// times the degrees of freedom of a block, chance, the variance of Σ by, times their square.
type movesSums struct {
	freedom, by, square float64 // Σ 1, by, square
	bb, bs, ss          float64 // Σ by²/scale, by square/scale, square²/scale
	effect, chance      float64 // Σ (by² - scale)/square, Σ scale
}

// add adds a block.
func (m *movesSums) add(freedom, by, square, scale float64) {
	if !(scale > 0 && square > 0) {
		return
	}
	f := freedom / scale
	m.merge(movesSums{freedom, freedom * by, freedom * square, f * by * by, f * by * square, f * square * square, freedom * (by*by - scale) / square, freedom * freedom * scale})
}

func (m *movesSums) merge(o movesSums) {
	m.freedom, m.by, m.square = m.freedom+o.freedom, m.by+o.by, m.square+o.square
	m.bb, m.bs, m.ss, m.effect, m.chance = m.bb+o.bb, m.bs+o.bs, m.ss+o.ss, m.effect+o.effect, m.chance+o.chance
}

// about returns the squares, their degrees of freedom, and the sum of the squared effects times those of
// the column beyond what chance adds, about the effect in all of the blocks, which a prior may have kept
// the fit from.
func (m *movesSums) about(blocks float64) (squares, freedom, effect float64) {
	if m.square == 0 {
		return 0, 0, 0
	}
	mean := m.by / m.square
	freedom = m.freedom * (1 - 1/blocks)
	return m.bb - 2*mean*m.bs + mean*mean*m.ss, freedom, m.effect - (m.by*m.by-m.chance)/m.square
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

// AddLevel adds a row's Residual, to find whether the mean of the residuals changes, in the way of AddNumber.
func (m *Moves) AddLevel(block int64, r float64) {
	m.enter(block)
	m.level = true
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

// close adds the block to those before, unless it has too few rows.
func (m *Moves) close() {
	if m.rows >= moveLeast {
		m.within()
	}
	m.rows, m.sum, m.varies = 0, [3][3]float64{}, Spread{}
	clear(m.cells[:])
}

// within adds the block to those before if it tells.
func (m *Moves) within() {
	was, n := m.freedom(), m.rows
	if s := &m.sum; m.level {
		by := m.varies.powers[1]
		m.sums[0].add(1, by, n, (m.varies.powers[2]-by*by/n)*n/(n-1)) // about its mean, which need not be 0
	} else if s[0][0] > 0 {
		x, r := s[1][0]/n, s[0][1]/n
		m.sums[0].add(1, s[1][1]-n*x*r, s[2][0]-n*x*x, s[2][2]-2*r*s[2][1]+r*r*s[2][0]-2*x*(s[1][2]-2*r*s[1][1]+r*r*s[1][0])+x*x*(s[0][2]-n*r*r))
	} else {
		_, mean, variance, _ := m.varies.moments()
		for k := range m.cells {
			c := &m.cells[k]
			in := c.rows / n
			square := c.square - 2*mean*c.residual + c.rows*mean*mean
			m.sums[k].add(1-in, c.residual-c.rows*mean, c.rows*(1-in), (1-in)*(1-in)*square+in*in*(n*variance-square))
		}
	}
	if m.freedom() > was {
		m.blocks++
		m.spread.Merge(m.varies)
	}
}

// freedom is that of all sums.
func (m *Moves) freedom() (sum float64) {
	for k := range m.sums {
		sum += m.sums[k].freedom
	}
	return sum
}

// Merge adds the rows of o.
func (m *Moves) Merge(o *Moves) {
	m.close()
	own := o.whole()
	m.level = m.level || o.level
	for k := range m.sums {
		m.sums[k].merge(own.sums[k])
	}
	m.blocks += own.blocks
	m.spread.Merge(own.spread)
}

// whole is m with its last block ended.
func (m *Moves) whole() Moves {
	own := *m
	own.close()
	return own
}

// share returns Share, the squares for each residual, and their degrees of freedom.
func (m *Moves) share() (share, squares, freedom float64) {
	for k := range m.sums {
		s, f, e := m.sums[k].about(m.blocks)
		share, squares, freedom = share+e, squares+s, freedom+f
	}
	n, _, variance, _ := m.spread.moments()
	return share / (n * variance), squares / n, freedom
}

// Share returns the part of the residuals' variance that is due to how the effect changes, about 0 if it
// does not.
func (m *Moves) Share() float64 {
	own := m.whole()
	share, _, _ := own.share()
	return share
}

// Clear returns the share if it is large and clear, and otherwise 0.
func (m *Moves) Clear(t ShareTest) float64 {
	own, least := m.whole(), moving
	if m.level {
		least = movingLevel
	}
	if share, squares, freedom := own.share(); share > least && own.spread.clear(squares, freedom, t) {
		return share
	}
	return 0
}

// LevelNote returns the sentence about responses whose level changes in the course of the rows, for that
// share of the variance of the residuals; of is that of CurveNote.
func LevelNote(of string, share float64) string {
	return fmt.Sprintf("residuals%s are high in some stretches of rows and low in others, for %.2g of their variance, as if the level of the responses changed in their course, "+
		"so that predictions of later rows can be far off, and standard deviations are too small for what changes slowly: give what it changes with, such as a trend, a season or a group, as a column, or process_noise to adf", of, share)
}

// MovesNote returns the sentence about the column whose effect changes in the course of the rows, for
// that share; of is that of CurveNote.
func MovesNote(of, column string, share float64) string {
	return fmt.Sprintf("residuals%s follow column %s differently in different stretches of rows, for %.2g of their variance, as if its effect changed in their course, "+
		"so that predictions of later rows can be far off: adf with process_noise follows an effect that changes with time; otherwise give what it changes with, and both together, in the way of 'u:v': {u: u, v: v}", of, column, share)
}
