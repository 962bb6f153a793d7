package main

import (
	"context"
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/ep"
)

var tiedSites = Section{
	Title: "EP with sites that are arrowheads",
	Source: "The default covariance of bglm_adf, the arrowhead, is closed under products and quotients, so EP's sites can be arrowheads too. This section compares a prototype with the factorised and the full fixed points of bglm_ep " +
		"on the problems of R1 to R4. In the prototype, the intercept and the numbers are in the block, and every indicator is a leaf. Errors of means are in full EP's sds, and \"sd\" is the ratio to full EP's sd.",
	Claims: []Claim{
		tiedClaim("T1", "quine.parquet", "146 counts, 6 indicators and the intercept", quine),
		tiedClaim("T2", "australian_credit.parquet", "690 rows, 14 attributes as numbers; those with values 0 and 1 are leaves", australian),
		tiedClaim("T3", "australian_credit_sparse.parquet", "690 rows, numbers and indicators of all levels, collinear with the intercept", func(c *Context) (*kernels.Problem, error) {
			return sparseProblem(c, "australian_credit_sparse.parquet", 0)
		}),
		tiedClaim("T4", "births_2014_risk44_sparse.parquet", "the first 20,000 births, 44 indicators", func(c *Context) (*kernels.Problem, error) {
			return sparseProblem(c, "births_2014_risk44_sparse.parquet", 20000)
		}).fails("The sds are closer, but the means are not: they are off by 0.0066 sds on average, against 0.0065 for factorised EP. Leaves that occur in the same rows are tied through the block alone, " +
			"which here is the intercept. For this reason, bglm_ep has no covariance 'arrowhead'; up to 1,000 weights, its full covariance is exact."),
	},
}

func (k Claim) fails(why string) Claim {
	k.Fails = why
	return k
}

func tiedClaim(id, file, what string, problem func(*Context) (*kernels.Problem, error)) Claim {
	return Claim{ID: id, Data: file, Text: what, Slow: id > "T2",
		Expected: "means no further from full EP's than factorised EP's are, and sds closer",
		Run: func(c *Context) Found {
			p, err := problem(c)
			if err != nil {
				return Found{Text: err.Error()}
			}
			var fits [2]*kernels.Fit
			for k, form := range []string{"full", "diagonal"} {
				m := *p.Model
				q := *p
				m.Options.Covariance, m.Options.MaxIter = form, 500
				q.Model = &m
				r, err := ep.Fit(context.Background(), &q)
				if err != nil {
					return Found{Text: err.Error()}
				}
				fits[k] = r.Fit
			}
			tied, sweeps, moves := tiedEP(p)
			f, t := compare(fits[1], fits[0]), compare(tied, fits[0])
			line := func(name string, g gap) string {
				return fmt.Sprintf("%s: error of means at most %.4f, %.4f on average, sd %.2f to %.2f", name, g.worst, g.mean, g.sdMin, g.sdMax)
			}
			far := func(g gap) float64 { return max(math.Abs(math.Log(g.sdMin)), math.Abs(math.Log(g.sdMax))) }
			return Found{line("factorised", f) + "; " + line("arrowhead", t) + fmt.Sprintf("; %d sweeps, of which the last moves means by %.1g sds", sweeps, moves),
				t.worst <= f.worst+1e-6 && t.mean <= f.mean+1e-6 && far(t) < far(f)}
		}}
}

// knot is a Gaussian of the family in natural parameters, over the block and some leaves: the
// block's precision and precision times mean, and of each leaf its precision, what ties it to
// the block, and its precision times mean.
type knot struct {
	bb   *dense.Matrix
	nu   []float64
	leaf []strand
}

// strand is a leaf of a knot.
type strand struct {
	prec, nu float64
	tie      []float64
}

func newKnot(d, leaves int) *knot {
	k := &knot{bb: dense.New(d, d), nu: make([]float64, d), leaf: make([]strand, leaves)}
	for i := range k.leaf {
		k.leaf[i].tie = make([]float64, d)
	}
	return k
}

// tiedEP is EP by sweeps over the rows: the cavity is the belief without the row's site, the
// tilted one keeps the moments of every pair of block and leaf (package arrowhead), the new
// site is their quotient. Where a cavity is not proper the row keeps its site. Steps are damped
// by a half after ten sweeps.
func tiedEP(p *kernels.Problem) (f *kernels.Fit, sweeps int, moves float64) {
	place := make([]int, p.P) // in the block, or ^leaf
	d, leaves := 0, 0
	for j := range p.P {
		if p.Name(j) == kernels.Intercept || p.IsNumber(j) {
			place[j] = d
			d++
		} else {
			place[j] = ^leaves
			leaves++
		}
	}
	all := newKnot(d, leaves)
	for j, k := range place {
		prec := 1 / p.PriorVar[j]
		if k >= 0 {
			all.bb.Row(k)[k], all.nu[k] = prec, prec*p.PriorMean[j]
		} else {
			all.leaf[^k].prec, all.leaf[^k].nu = prec, prec*p.PriorMean[j]
		}
	}
	b := p.Batch()
	e := &tiedRun{all: all, place: place, sites: make([]*knot, p.N), d: d}
	for i := range p.N {
		n := 0
		for _, j := range p.Col[p.Row[i]:p.Row[i+1]] {
			if place[j] < 0 {
				n++
			}
		}
		e.sites[i] = newKnot(d, n)
	}
	f = &kernels.Fit{}
	for j := range p.P {
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: p.Name(j)})
	}
	for sweeps = 1; ; sweeps++ {
		step := 1.0
		if sweeps > 10 {
			step = 0.5
		}
		for i := range p.N {
			e.row(p, b, i, step)
		}
		moves = e.beliefs(f)
		if moves < 1e-7 || sweeps == 300 {
			return f, sweeps, moves
		}
	}
}

type tiedRun struct {
	all   *knot
	place []int
	sites []*knot
	d     int
}

// given is the block's marginal of q, whose leaves are known by their conditionals: the
// covariance and the mean; false where that is none.
func given(q *knot) (cov *dense.Matrix, mean []float64, ok bool) {
	d := len(q.nu)
	prec := q.bb.Clone()
	mean = append([]float64(nil), q.nu...)
	for _, l := range q.leaf {
		if !(l.prec > 0) {
			return nil, nil, false
		}
		for a, t := range l.tie {
			dense.Axpy(-t/l.prec, l.tie, prec.Row(a))
			mean[a] -= t / l.prec * l.nu
		}
	}
	root := prec.Clone()
	if dense.Cholesky(root) != nil {
		return nil, nil, false
	}
	cov = dense.New(d, d)
	dense.InverseFromCholesky(cov, root)
	dense.SolveLowerVec(root, mean)
	dense.SolveLowerTVec(root, mean)
	return cov, mean, true
}

func (e *tiedRun) row(p *kernels.Problem, b *kernels.Batch, i int, step float64) {
	o := b.Obs(i)
	site, d := e.sites[i], e.d
	cavity := &knot{bb: e.all.bb.Clone(), nu: append([]float64(nil), e.all.nu...), leaf: append([]strand(nil), e.all.leaf...)}
	for a := range d {
		dense.Axpy(-1, site.bb.Row(a), cavity.bb.Row(a))
		cavity.nu[a] -= site.nu[a]
	}
	var at []int     // leaves of the row
	var xs []float64 // their values
	g := make([]float64, d)
	for k := p.Row[i]; k < p.Row[i+1]; k++ {
		if j := e.place[p.Col[k]]; j >= 0 {
			g[j] += p.Val[k]
		} else {
			s, l := site.leaf[len(at)], cavity.leaf[^j]
			tie := append([]float64(nil), l.tie...)
			dense.Axpy(-1, s.tie, tie)
			cavity.leaf[^j] = strand{l.prec - s.prec, l.nu - s.nu, tie}
			at, xs = append(at, ^j), append(xs, p.Val[k])
		}
	}
	cov, mean, ok := given(cavity)
	if !ok {
		return
	}
	m, v := b.Shift(i), 0.0
	for n, k := range at {
		l := cavity.leaf[k]
		dense.Axpy(-xs[n]/l.prec, l.tie, g)
		m += xs[n] * l.nu / l.prec
		v += xs[n] * xs[n] / l.prec
	}
	u := make([]float64, d)
	dense.Gemv(u, cov, g)
	within := dense.Dot(g, u)
	m, v = m+dense.Dot(g, mean), v+within
	t := p.Lik.Moments(o, m, v)
	c := t.Beta / (1 - t.Beta*within)
	dense.Axpy(t.Alpha, u, mean)
	far := dense.Dot(g, mean)
	next := newKnot(d, len(at))
	for a := range d {
		dense.Axpy(c*g[a], g, next.bb.Row(a))
		next.nu[a] = g[a] * (t.Alpha + c*far)
	}
	for n, k := range at {
		l := cavity.leaf[k]
		q := 1 / l.prec
		ek := xs[n] * q
		h := make([]float64, d)
		dense.Axpy(-q, l.tie, h)
		was := append([]float64(nil), h...)
		alpha := l.nu*q + ek*t.Alpha + ek*c*far
		dense.Axpy(-ek*c, g, h)
		now := q - ek*ek*c
		if !(now > 0) {
			return
		}
		s := &next.leaf[n]
		s.prec, s.nu = 1/now-l.prec, alpha/now-l.nu
		for a := range d {
			s.tie[a] = -h[a]/now - l.tie[a]
			dense.Axpy(h[a]/now, h, next.bb.Row(a))
			dense.Axpy(-was[a]/q, was, next.bb.Row(a))
			next.nu[a] -= h[a]*alpha/now - was[a]*l.nu
		}
	}
	e.replace(site, next, at, step)
}

// replace moves a site towards next, and the belief with it.
func (e *tiedRun) replace(site, next *knot, at []int, step float64) {
	move := func(site, all *float64, next float64) {
		delta := step * (next - *site)
		*site += delta
		*all += delta
	}
	for a := range e.d {
		move(&site.nu[a], &e.all.nu[a], next.nu[a])
		for k := range e.d {
			move(&site.bb.Row(a)[k], &e.all.bb.Row(a)[k], next.bb.Row(a)[k])
		}
	}
	for n, k := range at {
		s, l := &site.leaf[n], &e.all.leaf[k]
		move(&s.prec, &l.prec, next.leaf[n].prec)
		move(&s.nu, &l.nu, next.leaf[n].nu)
		for a := range e.d {
			move(&s.tie[a], &l.tie[a], next.leaf[n].tie[a])
		}
	}
}

// beliefs sets those of f, and returns by how many deviations a mean has moved at most.
func (e *tiedRun) beliefs(f *kernels.Fit) (moves float64) {
	cov, mean, ok := given(e.all)
	if !ok {
		return math.Inf(1)
	}
	ph := make([]float64, e.d)
	for j, k := range e.place {
		w := kernels.Weight{}
		if k >= 0 {
			w = kernels.Weight{Mean: mean[k], Variance: cov.At(k, k)}
		} else {
			l := e.all.leaf[^k]
			dense.Gemv(ph, cov, l.tie)
			w = kernels.Weight{Mean: (l.nu - dense.Dot(l.tie, mean)) / l.prec, Variance: 1/l.prec + dense.Dot(l.tie, ph)/(l.prec*l.prec)}
		}
		moves = max(moves, math.Abs(w.Mean-f.Beliefs[j].Mean)/math.Sqrt(w.Variance))
		f.Beliefs[j].Weight = w
	}
	return moves
}
