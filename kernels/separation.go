package kernels

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/memory"
)

// Separation is the note on binary responses, or trials, that weights separate without an error,
// and on counts that are all 0, "" for none: the likelihood then increases without bound along
// them, and only the prior limits their size. Rows of weight 0 are ignored. f is a fit of p.
//
// Responses are separated if a single feature does it, or if the mean weights put all ones above 0
// and all zeros below; both are proofs. For several features together there is no note if random
// labels of as many rows in as many dimensions are separable more often than not [cover1965]. A
// feature separates a part of the rows if all that have it have one response, which by the share of
// the others happens by chance less than once in a thousand fits.
//
// Cost: O(non-zeros).
func (p *Problem) Separation(f *Fit) string {
	if p.Lik == nil || p.N == 0 {
		return ""
	}
	switch t := p.Lik.Traits(); {
	case t.Counts:
		for i, y := range p.Y {
			if y != 0 && p.counts(i) {
				return ""
			}
		}
		return p.oneSided(f, 0)
	case t.Trials && p.Trials != nil:
		if p = p.asSingleTrials(); p == nil {
			return ""
		}
	case !t.Binary:
		return ""
	}
	ones, n := 0.0, 0.0
	for i, y := range p.Y {
		if p.counts(i) {
			ones, n = ones+y*p.Rows(i), n+p.Rows(i)
		}
	}
	if n > 0 && (ones == 0 || ones == n) {
		return p.oneSided(f, ones/n)
	}
	w := p.meansOf(f)
	apart := p.apart(w)
	cols := p.sides(apart)
	alone := p.alone(cols, n-ones, ones)
	if apart || alone != nil {
		m := 2*min(ones, n-ones) - 1 // signs: P(Binomial(m, 1/2) < columns)
		if alone != nil || float64(p.P) <= 0.5*m {
			if alone == nil {
				alone = p.mainContributors(cols, w, n)
			}
			return "the responses are separated by " + listed(alone) + priorsWord
		}
		return ""
	}
	var names []string
	for j, c := range cols {
		same, share := c.rows[1], (ones-c.rows[1])/(n-c.rows[0]-c.rows[1])
		if c.rows[1] == 0 {
			same, share = c.rows[0], (n-ones-c.rows[0])/(n-c.rows[0]-c.rows[1])
		} else if c.rows[0] > 0 {
			continue
		}
		if p.Name(j) == Intercept || !(same*math.Log(share) < math.Log(1e-3/float64(p.P))) {
			continue
		}
		names = append(names, p.Name(j))
	}
	if len(names) == 0 {
		return ""
	}
	return "all rows with " + listed(names) + " have one response" + priorsWord
}

// asSingleTrials returns p with responses in place of trials, which in each row all had one
// outcome; nil otherwise.
func (p *Problem) asSingleTrials() *Problem {
	q := *p
	q.Y, q.Weight, q.Count = memory.Floats(p.N), memory.Floats(p.N), memory.Floats(p.N)
	for i, y := range p.Y {
		n := p.Trials[i]
		if !p.counts(i) {
			continue
		}
		if y != 0 && y != n {
			return nil
		}
		q.Y[i], q.Weight[i], q.Count[i] = y/n, p.RowWeight(i), n*p.Rows(i)
	}
	return &q
}

// oneSided is the note on responses that all equal response, 0 or 1. Without an intercept weights
// are bounded by the rows, unless the mean weights put all rows on that side.
func (p *Problem) oneSided(f *Fit, response float64) string {
	switch {
	case !p.Model.NoIntercept:
		return OneSidedNote(response)
	case p.apart(p.meansOf(f)):
		return fmt.Sprintf("all responses are %.0f, and weights put all rows on that side", response) + priorsWord
	}
	return ""
}

// OneSidedNote is the note on responses that all equal response, 0 or 1, with an intercept.
func OneSidedNote(response float64) string {
	return fmt.Sprintf("all responses are %.0f: the prior alone bounds the intercept", response)
}

// apart reports whether weights w put all ones above 0 and all zeros below. Most rows are not read
// if the first ones are mixed.
func (p *Problem) apart(w []float64) bool {
	const some = 1024
	for i, y := range p.Y[:min(some, p.N)] {
		if !p.counts(i) {
			continue
		}
		eta := 0.0
		col, val := p.Entries(i)
		for k, j := range col {
			eta += val[k] * w[j]
		}
		if (eta > 0) != (y == 1) {
			return false
		}
	}
	eta := memory.Floats(p.N)
	p.Predictor(eta, w)
	for i, y := range p.Y {
		if p.counts(i) && ((eta[i] > 0) != (y == 1) || eta[i] == 0) {
			return false
		}
	}
	return true
}

// side is what a column has in the rows of each response.
type side struct {
	rows      [2]float64 // rows in which it is not 0
	low, high [2]float64 // and its values there
	sum, sq   float64
}

// mixed reports that the column can no longer separate responses: rows of both have it, and no
// number lies between its values in these.
func (c *side) mixed() bool {
	return c.rows[0] > 0 && c.rows[1] > 0 && c.low[0] <= c.high[1] && c.low[1] <= c.high[0]
}

// sides returns the side of each column; unless all is set, that of a mixed column is incomplete.
func (p *Problem) sides(all bool) []side {
	const some = 256 // rows after which mixed columns are left out
	out := make([]side, p.P)
	open := make([]uint32, p.P) // the columns that are not mixed
	for j := range open {
		open[j] = uint32(j)
	}
	done := make([]bool, p.P)
	from, entries := 0, 0 // since columns were last left out
	for i, y := range p.Y {
		if !p.counts(i) {
			continue
		}
		k, rows := int(y), p.Rows(i)
		add := func(j uint32, x float64) {
			c := &out[j]
			if x == 0 || done[j] {
				return
			}
			if c.rows[k] == 0 {
				c.low[k], c.high[k] = x, x
			}
			c.rows[k] += rows
			c.low[k], c.high[k] = min(c.low[k], x), max(c.high[k], x)
			c.sum, c.sq = c.sum+rows*x, c.sq+rows*x*x
		}
		col, val := p.Entries(i)
		if len(col) == p.P {
			for _, j := range open {
				add(j, val[j])
			}
		} else {
			for e, j := range col {
				add(j, val[e])
			}
		}
		entries += len(col)
		if all || i-from < some || entries < len(open) {
			continue
		}
		from, entries = i, 0
		left := open[:0]
		for _, j := range open {
			if done[j] = out[j].mixed(); !done[j] {
				left = append(left, j)
			}
		}
		if open = left; len(open) == 0 {
			break
		}
	}
	return out
}

// alone returns the features that separate the responses by themselves.
func (p *Problem) alone(cols []side, zeros, ones float64) (names []string) {
	for j, c := range cols {
		for k, all := range [2]float64{zeros, ones} {
			if c.rows[k] < all { // the others are 0
				c.low[k], c.high[k] = min(c.low[k], 0), max(c.high[k], 0)
			}
		}
		if c.high[0] < c.low[1] || c.high[1] < c.low[0] {
			names = append(names, p.Name(j))
		}
	}
	return names
}

// mainContributors returns up to three features that contribute most to the variation of the
// predictor over n rows.
func (p *Problem) mainContributors(cols []side, w []float64, n float64) (names []string) {
	spread := func(j int) float64 {
		m := cols[j].sum / n
		return math.Abs(w[j]) * math.Sqrt(max(cols[j].sq/n-m*m, 0))
	}
	all := make([]int, len(cols))
	for j := range all {
		all[j] = j
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(spread(b), spread(a)) })
	for _, j := range all {
		if len(names) < 3 && spread(j) >= 0.1*spread(all[0]) {
			names = append(names, p.Name(j))
		}
	}
	return names
}

// listed is up to three names and the number of further ones.
func listed(names []string) string {
	if n := len(names); n > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), n-3)
	}
	return strings.Join(names, ", ")
}
