package laplace

import (
	"fmt"
	"math"
	"slices"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/design"
	"github.com/bglm/bglm/kernels/gauss"
)

// Correlated weights. The weights w that q columns have for one level are N(0, Ω). They are learnt
// in coordinates with a diagonal prior, so that all of its theory applies: w = T U v with
//
//	Ω = T (S C)(S C)ᵀ Tᵀ,  S C = U D^½,  v ~ N(0, D)
//
// where S are standard deviations, C the Cholesky factor of their correlations, U has a unit
// diagonal, and T centres the numbers of slopes if the first column is an intercept: standard
// deviations and correlations are those at the mean, and so do not depend on the origin of the
// numbers. The columns of the design are those of v, x' = Uᵀ Tᵀ x.
//
// The parameters of C are τ: with z = sinh τ a row of C is (z, 1) / √(1 + zᵀz); for two columns the
// correlation is tanh τ. With G = Ω⁻¹ M Ω⁻¹, M = Σ (w wᵀ + Σ_w - Ω) over the levels, the slope of
// the evidence in S C is G S C, plus the part through the mode (learner).

// tie is one set of columns.
type tie struct {
	kernels.Tie
	first  int       // index of its first τ among the parameters, row by row of C
	group  []int     // by column: the group of its standard deviation
	center []float64 // what T subtracts from each column, times the first one
	at     []int     // places of a level's entries in Val
	x      []float64 // Tᵀ x there
	rows   []float64 // by level's entries: the number of rows that theirs counts as
	tau    []float64 // as set, with
	root   []float64 // S C, row by row
	u      []float64 // U
}

// tied holds all sets.
type tied struct {
	of      []*tie
	problem *kernels.Problem // its columns are those of v
}

// newTied returns p with columns of v, whose weights are independent. Cost: O(nnz log nnz).
func newTied(p *kernels.Problem, ties []kernels.Tie) *tied {
	t := &tied{}
	type place struct{ tie, level, member int }
	of := make([]place, p.P)
	for j := range of {
		of[j].tie = -1
	}
	for k, s := range ties {
		q := len(s.Names)
		t.of = append(t.of, &tie{Tie: s, root: make([]float64, q*q), u: make([]float64, q*q), center: make([]float64, q)})
		for l, cols := range s.Levels {
			for m, j := range cols {
				of[j] = place{k, l, m}
			}
		}
	}
	q := *p
	q.Columns = design.Columns{N: p.N, P: p.P, Row: make([]int, 1, p.N+1), Stop: p.Stop}
	for i := range p.N {
		p.Stop.Row(i)
		col, val := p.Entries(i)
		lo := len(q.Col)
		var touched []place
		for e, j := range col {
			o := of[j]
			if o.tie < 0 {
				q.Col, q.Val = append(q.Col, j), append(q.Val, val[e])
			} else if o.member = 0; val[e] != 0 && !slices.Contains(touched, o) {
				touched = append(touched, o)
			}
		}
		for _, o := range touched {
			for _, j := range ties[o.tie].Levels[o.level] {
				x := 0.0
				if e, ok := slices.BinarySearch(col, uint32(j)); ok {
					x = val[e]
				}
				q.Col, q.Val = append(q.Col, uint32(j)), append(q.Val, x)
			}
		}
		design.SortEntries(q.Col[lo:], q.Val[lo:])
		for _, o := range touched {
			for _, j := range ties[o.tie].Levels[o.level] {
				e, _ := slices.BinarySearch(q.Col[lo:], uint32(j))
				s := t.of[o.tie]
				s.at, s.x = append(s.at, lo+e), append(s.x, q.Val[lo+e])
			}
			t.of[o.tie].rows = append(t.of[o.tie].rows, p.RowWeight(i))
		}
		q.Row = append(q.Row, len(q.Col))
	}
	for _, s := range t.of {
		s.centre()
		for e, j := range s.at {
			q.Val[j] = s.x[e]
		}
	}
	t.problem = &q
	return t
}

// centre finds T, and replaces the entries x by Tᵀ x. A row of weight w counts as w rows.
func (s *tie) centre() {
	q, n := len(s.Names), 0.0
	for e := 0; e < len(s.x); e += q {
		if x := s.x[e]; x != 0 && x != 1 {
			return // no intercept
		}
		n += s.rows[e/q] * s.x[e]
	}
	if n == 0 {
		return
	}
	for m := 1; m < q; m++ {
		for e := 0; e < len(s.x); e += q {
			s.center[m] += s.rows[e/q] * s.x[e] * s.x[e+m] / n
		}
		for e := 0; e < len(s.x); e += q {
			s.x[e+m] -= s.center[m] * s.x[e]
		}
	}
}

// add adds the parameters τ to h, which already has the standard deviations.
func (t *tied) add(h *learner) error {
	for _, s := range t.of {
		s.first, s.group = len(h.theta), nil
		for m := range s.Names {
			k := h.Of[s.Levels[0][m]]
			if k < 0 {
				return &argument.Error{Name: "correlated", Found: fmt.Sprintf("column %q, which has no value but 0", s.Names[m])}
			}
			s.group = append(s.group, k)
			for range m {
				h.add(0, farTau)
			}
		}
	}
	return nil
}

// farTau is the largest |τ|: correlations of ±0.99999.
const farTau = 6

// set moves to θ, and reports whether the columns changed.
func (t *tied) set(theta []float64) (changed bool) {
	for _, s := range t.of {
		q := len(s.Names)
		s.tau = append(s.tau[:0], theta[s.first:s.first+q*(q-1)/2]...)
		tau := s.tau
		for i := range q {
			z := make([]float64, i)
			norm := 1.0
			for j := range z {
				z[j] = math.Sinh(tau[j])
				norm += z[j] * z[j]
			}
			tau = tau[i:]
			sd := math.Exp(0.5*theta[s.group[i]]) / math.Sqrt(norm)
			for j := range i {
				s.root[i*q+j] = sd * z[j]
			}
			s.root[i*q+i] = sd
		}
		moved := false
		for i := range q {
			for j := range i + 1 {
				u := s.root[i*q+j] / s.root[j*q+j]
				moved = moved || u != s.u[i*q+j]
				s.u[i*q+j] = u
			}
		}
		if !moved {
			continue
		}
		changed = true
		for e := 0; e < len(s.at); e += q {
			for i := range q {
				v := 0.0
				for j := i; j < q; j++ {
					v += s.u[j*q+i] * s.x[e+j]
				}
				t.problem.Val[s.at[e+i]] = v
			}
		}
	}
	if changed {
		t.problem.Refill()
	}
	return changed
}

// independent returns θ with the logarithms of D in place of those of the squares of S.
func (t *tied) independent(theta []float64) []float64 {
	theta = slices.Clone(theta)
	for _, s := range t.of {
		for i, k := range s.group {
			theta[k] = 2 * math.Log(s.root[i*len(s.group)+i])
		}
	}
	return theta
}

// slope sets the slopes of the evidence at ev in the parameters of Ω: dw are the weights v, adj the
// part through the mode, nil for none.
func (t *tied) slope(g, scale []float64, ev *evidence, dw, adj []float64) {
	for _, s := range t.of {
		q := len(s.Names)
		m := make([]float64, q*q)
		for _, cols := range s.Levels {
			for i, a := range cols {
				for j, b := range cols[:i+1] {
					v := dw[a]*dw[b] + ev.between(a, b)
					if adj != nil {
						v -= 0.5 * (adj[a]*dw[b] + adj[b]*dw[a])
					}
					m[i*q+j] += v
				}
			}
		}
		// Y = D⁻¹ M D^-½, and then U⁻ᵀ Y, which is G S C
		d := func(i int) float64 { return s.root[i*q+i] * s.root[i*q+i] }
		y := make([]float64, q*q)
		for i := range q {
			m[i*q+i] -= float64(len(s.Levels)) * d(i)
			for j := range q {
				y[i*q+j] = m[max(i, j)*q+min(i, j)] / d(i) / s.root[j*q+j]
			}
		}
		for i := q - 1; i >= 0; i-- {
			for r := i + 1; r < q; r++ {
				dense.Axpy(-s.u[r*q+i], y[r*q:(r+1)*q], y[i*q:(i+1)*q])
			}
		}
		at, tau := s.first, s.tau
		for i, k := range s.group {
			row, slope := s.root[i*q:i*q+i+1], y[i*q:i*q+i+1]
			along := dense.Dot(row, slope)
			g[k] = 0.5 * along
			square := dense.Dot(row, row)
			for j := range i {
				// d(S C)_ij = S dz_j / √norm, and the row keeps its length
				g[at] = math.Cosh(tau[j]) * (slope[j]*row[i] - row[j]*row[i]/square*along)
				scale[at] = 0.5 * min(scale[k], scale[s.group[j]])
				at++
			}
			tau = tau[i:]
		}
	}
}

// prior returns the log density of τ, and adds its slope, for a flat density of correlation
// matrices (LKJ with 1).
func (t *tied) prior(theta, slope []float64) (f float64) {
	for _, s := range t.of {
		q := len(s.Names)
		at := s.first
		for i := 1; i < q; i++ {
			norm := 1.0
			for j := range i {
				norm += math.Sinh(theta[at+j]) * math.Sinh(theta[at+j])
			}
			f -= 0.5 * float64(q+1) * math.Log(norm)
			for j := range i {
				sinh, cosh := math.Sinh(theta[at+j]), math.Cosh(theta[at+j])
				f += math.Log(cosh)
				slope[at+j] += sinh/cosh - float64(q+1)*sinh*cosh/norm
			}
			at += i
		}
	}
	return f
}

// params returns the indices of all τ.
func (t *tied) params() (at []int) {
	for _, s := range t.of {
		for i := range len(s.Names) * (len(s.Names) - 1) / 2 {
			at = append(at, s.first+i)
		}
	}
	return at
}

// covariance returns Ω at the present θ, row by row.
func (s *tie) covariance() []float64 {
	q := len(s.Names)
	a := s.timesT(s.root) // T S C
	out := make([]float64, q*q)
	for i := range q {
		for j := range q {
			out[i*q+j] = dense.Dot(a[i*q:(i+1)*q], a[j*q:(j+1)*q])
		}
	}
	return out
}

// spreads returns, for each set, the standard deviations of Ω by column, then the correlations and
// the covariances by pair.
func (t *tied) spreads() (out []float64) {
	for _, s := range t.of {
		q := len(s.Names)
		c := s.covariance()
		for i := range q {
			out = append(out, math.Sqrt(c[i*q+i]))
		}
		var covs []float64
		for i := range q {
			for j := range i {
				out = append(out, c[i*q+j]/math.Sqrt(c[i*q+i]*c[j*q+j]))
				covs = append(covs, c[i*q+j])
			}
		}
		out = append(out, covs...)
	}
	return out
}

// known returns mean and standard deviation of spreads, where share is the relative standard
// deviation of the root of a learnt variance; those of covariances are not known.
func (t *tied) known(share func(k int) float64) (out [2][]float64) {
	out[0] = t.spreads()
	out[1] = make([]float64, len(out[0]))
	at := 0
	for _, s := range t.of {
		q := len(s.Names)
		for i, k := range s.group {
			out[1][at+i] = out[0][at+i] * share(k)
		}
		pair := at + q
		for i := range q {
			for j := range i {
				r := out[0][pair]
				out[1][pair] = (1 - r*r) * math.Sqrt2 * max(share(s.group[i]), share(s.group[j]))
				pair++
			}
		}
		at += q * q
	}
	return out
}

// variances sets those of the weights, by column, to the diagonal of Ω.
func (t *tied) variances(variance []float64) {
	for _, s := range t.of {
		q := len(s.Names)
		c := s.covariance()
		for _, cols := range s.Levels {
			for i, j := range cols {
				variance[j] = c[i*q+i]
			}
		}
	}
}

// spread returns the variances of w under the posterior ev and under the prior, by column, from
// those of v.
func (t *tied) spread(ev *evidence, variance, prior []float64) (posterior, before []float64) {
	posterior, before = slices.Clone(variance), slices.Clone(prior)
	t.variances(before)
	for _, s := range t.of {
		q, a := len(s.Names), s.matrix()
		for _, cols := range s.Levels {
			for i, j := range cols {
				row, v := a[i*q:(i+1)*q], 0.0
				for m, b := range cols {
					for n, c := range cols {
						v += row[m] * row[n] * ev.between(b, c)
					}
				}
				posterior[j] = v
			}
		}
	}
	return posterior, before
}

// deviations sets mean and sd of the weights' standard deviations, by column, from those of spreads.
func (t *tied) deviations(spreads [2][]float64, mean, sd []float64) {
	at := 0
	for _, s := range t.of {
		q := len(s.Names)
		for _, cols := range s.Levels {
			for i, j := range cols {
				mean[j], sd[j] = spreads[0][at+i], spreads[1][at+i]
			}
		}
		at += q * q
	}
}

// matrix returns T U: w = T U v.
func (s *tie) matrix() []float64 { return s.timesT(s.u) }

// timesT returns T r, row by row like r.
func (s *tie) timesT(r []float64) []float64 {
	q := len(s.Names)
	a := slices.Clone(r)
	for m := 1; m < q; m++ {
		dense.Axpy(-s.center[m], r[m*q:(m+1)*q], a[:q])
	}
	return a
}

// transform transforms rows of v to rows of w, a = T U; row returns that of a column.
func (s *tie) transform(a []float64, cols []int, row func(j int) []float64) {
	q := len(cols)
	old := make([][]float64, q)
	for i, j := range cols {
		old[i] = slices.Clone(row(j))
	}
	for i, j := range cols {
		to := row(j)
		clear(to)
		for k, from := range old {
			dense.Axpy(a[i*q+k], from, to)
		}
	}
}

// weights transforms the posterior g of v to that of w: a full one, or the block of an arrowhead.
func (t *tied) weights(g *gauss.Normal) *gauss.Normal {
	mean := slices.Clone(g.Mean)
	l, at := g.L, func(j int) int { return j }
	if g.Form == gauss.Arrowhead {
		l, at = g.Arrow.L, g.Arrow.At
	}
	l = l.Clone()
	last := make([]int, l.Rows) // by row: its last non-zero column
	for i := range last {
		last[i] = i
	}
	var h *dense.Matrix
	if g.Form == gauss.Arrowhead { // regressions hᵀ on v become hᵀ(T U)⁻¹ on w
		h = g.Arrow.H.Clone()
	}
	for _, s := range t.of {
		if at(s.Levels[0][0]) < 0 {
			continue // leaves
		}
		a := s.matrix()
		for _, cols := range s.Levels {
			s.transform(a, cols, func(j int) []float64 { return mean[j : j+1] })
			s.transform(a, cols, func(j int) []float64 { return l.Row(at(j)) })
			most := 0
			for _, j := range cols {
				most = max(most, at(j))
			}
			for _, j := range cols {
				last[at(j)] = most
			}
			if h != nil {
				s.regress(cols, at, h)
			}
		}
	}
	design.Lower(l, last)
	if h == nil {
		return gauss.NewFull(mean, l)
	}
	return gauss.NewArrowhead(mean, &gauss.Arrow{Block: g.Arrow.Block, Leaf: g.Arrow.Leaf, L: l, H: h, Q: g.Arrow.Q})
}

// regress transforms the regressions h on the v of a level to those on its w: h U⁻¹ T⁻¹.
func (s *tie) regress(cols []int, at func(j int) int, h *dense.Matrix) {
	q := len(cols)
	for k := range h.Rows {
		row := h.Row(k)
		for j := q - 1; j >= 0; j-- {
			for i := j + 1; i < q; i++ {
				row[at(cols[j])] -= row[at(cols[i])] * s.u[i*q+j]
			}
		}
		for m := 1; m < q; m++ {
			row[at(cols[m])] += s.center[m] * row[at(cols[0])]
		}
	}
}

// leaves is weights for an arrowhead whose leaves are the levels of s: h are their regressions on
// the block and own their covariances given it, q x q.
func (s *tie) leaves(mean []float64, h *dense.Matrix, own []float64) []float64 {
	q := len(s.Names)
	a := s.matrix()
	mean = slices.Clone(mean)
	for k, cols := range s.Levels {
		s.transform(a, cols, func(j int) []float64 { return mean[j : j+1] })
		place := make(map[int]int, q)
		for i, j := range cols {
			place[j] = k*q + i
		}
		s.transform(a, cols, func(j int) []float64 { return h.Row(place[j]) })
		c := own[k*q*q : (k+1)*q*q]
		sandwich(c, a, slices.Clone(c), q)
	}
	return mean
}

// correlations returns those that a fit keeps, from values by pair as in spreads.
func (t *tied) correlations(mean, sd []float64) (out []kernels.Correlation) {
	at := 0
	for _, s := range t.of {
		q := len(s.Names)
		pairs := q * (q - 1) / 2
		at += q
		for i := range q {
			for j := range i {
				c := kernels.Correlation{A: s.Names[j], B: s.Names[i], Mean: mean[at], SD: math.NaN(), Covariance: mean[at+pairs]}
				if sd != nil {
					c.SD = sd[at]
				}
				out = append(out, c)
				at++
			}
		}
		at += pairs
	}
	return out
}

// edges reports the correlations whose evidence is highest at ±1.
func (t *tied) edges(theta []float64) (out []string) {
	for _, s := range t.of {
		at := s.first
		for i := range s.Names {
			for j := range i {
				if math.Abs(theta[at]) >= farTau {
					out = append(out, fmt.Sprintf("the evidence is highest at a correlation of %+d between columns %s and %s", int(math.Copysign(1, theta[at])), s.Names[j], s.Names[i]))
				}
				at++
			}
		}
	}
	return out
}
