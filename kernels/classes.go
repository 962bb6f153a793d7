package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/memory"
)

// Classes is a Problem with separate weights for every class: class c of the Learnt ones has
// columns c P to (c+1) P of the joint Gaussians.
type Classes struct {
	*Problem
	Names  []string
	Pinned int   // the class whose weights are 0, -1 for none
	Learnt []int // the other classes
}

// NewClasses checks the classes and the one pinned at 0, "" for none.
func NewClasses(p *Problem, names []string, pinned string) (*Classes, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	c := &Classes{Problem: p, Names: names, Pinned: -1}
	for k, name := range names {
		if slices.Contains(names[:k], name) {
			return nil, fmt.Errorf("class %q is there twice", name)
		}
		if name == pinned && pinned != "" {
			c.Pinned = k
			continue
		}
		c.Learnt = append(c.Learnt, k)
	}
	if pinned != "" && c.Pinned < 0 {
		shown := make([]string, 0, 20)
		for k, name := range names {
			if k == cap(shown) {
				shown = append(shown, "...")
				break
			}
			shown = append(shown, fmt.Sprintf("'%.100s'", name))
		}
		return nil, &argument.Error{Name: "reference", Found: "'" + pinned + "'", Allowed: "a class: " + strings.Join(shown, ", ")}
	}
	return c, nil
}

// Prior returns the joint prior of the learnt classes: that of the problem for each, and for the
// classes and features of the fit that is continued its posterior, with the covariance between
// classes.
// Errors: a fit of other classes or another reference, or with beliefs out of order.
func (c *Classes) Prior() (*gauss.Normal, error) {
	p, a := c.P, len(c.Learnt)
	mean, variance := make([]float64, 0, a*p), make([]float64, 0, a*p)
	for range c.Learnt {
		mean, variance = append(mean, c.PriorMean...), append(variance, c.PriorVar...)
	}
	s := c.Start
	if s == nil {
		return gauss.NewDiagonal(mean, variance), nil
	}
	if !slices.Equal(s.Classes, c.Names) {
		return nil, fmt.Errorf("prior: a fit of the classes %q; allowed: one of %q", s.Classes, c.Names)
	}
	q := len(s.Beliefs) / len(c.Names)
	if q*len(c.Names) != len(s.Beliefs) {
		return nil, fmt.Errorf("prior: %d beliefs for %d classes", len(s.Beliefs), len(c.Names))
	}
	at := make(map[string]int, p)
	for j := range p {
		at[c.Name(j)] = j
	}
	place := make([]int, len(s.Beliefs)) // column of each belief, -1 for none
	for k, b := range s.Beliefs {
		place[k] = -1
		j, ok := at[b.Feature]
		learnt := slices.Index(c.Learnt, k/q)
		switch {
		case !ok: // a known weight of this model
		case learnt < 0:
			if b.Weight != (Weight{}) {
				return nil, fmt.Errorf("prior: its weight of feature %q is %v in class %q, the reference; allowed: a fit with the same reference", b.Feature, b.Mean, c.Names[k/q])
			}
		case b.Variance == 0:
			return nil, fmt.Errorf("prior: its weight of feature %q is known in class %q; allowed: a fit with the same reference and known weights", b.Feature, c.Names[k/q])
		default:
			place[k] = j + learnt*p
		}
	}
	g, err := s.over(place, mean, variance, c.Problem.Stop)
	if err != nil {
		return nil, fmt.Errorf("prior: %w", err)
	}
	return g, nil
}

// Fit returns the fit with posterior post over the learnt classes' columns. Its family is
// multinomial, its link softmax; see Problem.Fit.
func (c *Classes) Fit(method string, post *gauss.Normal, logZ float64) *Fit {
	f := c.Problem.Fit(method, gauss.NewDiagonal(c.PriorMean, c.PriorVar), logZ)
	f.Family, f.Link, f.Classes = "multinomial", "softmax", c.Names
	one := f.Beliefs
	f.Beliefs = make([]Belief, 0, len(c.Names)*len(one))
	at := make([]int32, 0, cap(f.Beliefs))
	for k := range c.Names {
		learnt := slices.Index(c.Learnt, k)
		for i, b := range one {
			j := int32(-1)
			switch {
			case learnt < 0:
				b.Weight = Weight{}
			case c.at[i] >= 0:
				j = c.at[i] + int32(learnt*c.P)
				b.Weight = Weight{post.Mean[j], post.Var[j]}
			}
			f.Beliefs, at = append(f.Beliefs, b), append(at, j)
		}
	}
	f.Covariance = pack(at, post)
	return f
}

// classMeans are the weights of each class of f, a fit of the rows by a softmax; nil if that has fewer
// than two.
func (p *Problem) classMeans(f *Fit) [][]float64 {
	k := len(f.Classes)
	if p.N == 0 || k < 2 || len(f.Beliefs) != k*len(p.at) {
		return nil
	}
	w := make([][]float64, k)
	for a := range w {
		w[a] = memory.Floats(p.P)
		for b, j := range p.at {
			if j >= 0 {
				w[a][j] = f.Beliefs[a*len(p.at)+b].Mean
			}
		}
	}
	return w
}

// classPredictor sets eta to that of the rows for class a of f, whose weights are w.
func (p *Problem) classPredictor(f *Fit, a int, w, eta []float64) {
	offset := p.Offset
	if f.Classes[a] == p.Options.Reference {
		offset = nil
	}
	p.Affine(eta, w, offset)
}

// classTotals are the logarithms of the rows' sums of the classes' exponentials, at weights w; eta is
// room for a predictor of each row.
func (p *Problem) classTotals(f *Fit, w [][]float64, eta []float64) []float64 {
	total := memory.Floats(p.N)
	for a := range w {
		p.classPredictor(f, a, w[a], eta)
		for i, x := range eta {
			p.Stop.Row(i)
			if a == 0 {
				total[i] = x
				continue
			}
			hi, lo := max(total[i], x), min(total[i], x)
			total[i] = hi + math.Log1p(math.Exp(lo-hi))
		}
	}
	return total
}
