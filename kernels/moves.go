package kernels

import "github.com/bglm/bglm/kernels/lik"

// moves finds the column whose effect changes in the course of the rows (lik.Moves), in blocks of
// successive rows of a problem.
type moves struct {
	curves
	each int // one block out of each so many is in the sample
}

// blockNumbers is about how many numbers the blocks of a sample have; there are movesLeast of them at
// least, and movesMost at most.
const (
	blockNumbers = 1 << 20
	movesLeast   = 32
	movesMost    = 256
)

// movesOf returns nil if p has too few rows.
func movesOf(p *Problem) *moves {
	c := curvesOf(p)
	if c == nil {
		return nil
	}
	c.cells = true
	blocks := min(max(blockNumbers/(lik.MoveRows*p.P), movesLeast), movesMost)
	return &moves{*c, max(1, p.N/(lik.MoveRows*blocks))}
}

// has reports whether row i is in the sample.
func (m *moves) has(i int) bool { return i/lik.MoveRows%m.each == 0 }

// note is that of curves on the column whose effect changes most, or on the level of the responses unless
// neighbours say that rows depend on each other.
func (m *moves) note(of string, kinds int, neighbours *lik.Dependence) (most float64, note string) {
	test, ok := m.test(neighbours.Independent())
	if !ok {
		return 0, ""
	}
	columns := m.columns()
	test.Tests = (1 + len(columns)) * kinds
	var level lik.Moves
	for i, r := range m.residual {
		level.AddLevel(int64(m.rows[i]/lik.MoveRows)+1, r)
	}
	if share := level.Clear(test); share > 0 && !neighbours.Clear() {
		most, note = share, lik.LevelNote(of, share)
	}
	for k := range columns {
		x := &columns[k]
		var sum lik.Moves
		for i, r := range m.residual {
			if block := int64(m.rows[i]/lik.MoveRows) + 1; x.x != nil {
				sum.AddNumber(block, x.x[i], r)
			} else {
				sum.AddCell(block, x.cell[i], r)
			}
		}
		if share := sum.Clear(test); share > most {
			most, note = share, lik.MovesNote(of, x.name, share)
		}
	}
	return most, note
}
