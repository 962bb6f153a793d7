package adf_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stream"
)

// gaps is rows of two numbers of which some have none, which is 0, in an order.
type gaps struct {
	*sample
	order []int
}

// lacks says whether row i has no number u.
func (g *gaps) lacks(i int) bool { return i%3 == 1 }

// newGaps is 128 rows, those without a number u after first others.
func newGaps(family string, first int) *gaps {
	g := &gaps{sample: newSample(128, family, 9)}
	var with, without []int
	for i := range g.y {
		if g.lacks(i) {
			without = append(without, i)
		} else {
			with = append(with, i)
		}
	}
	g.order = append(append(append(g.order, with[:first]...), without...), with[first:]...)
	return g
}

func (g *gaps) feed(t *testing.T, st *stream.State, lo, hi int) {
	t.Helper()
	d := st.Features()
	d.Use(unitColumns)
	var b kernels.Batch
	b.Reset()
	for _, i := range g.order[lo:hi] {
		b.Add(0, 1)
		for _, name := range []string{"u", "v"} {
			if name == "u" && g.lacks(i) {
				continue
			}
			id, err := d.AddRaw(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Add(id, map[string]float64{"u": 100 + 3*g.u[i], "v": 7 + g.v[i]}[name])
		}
		b.EndRow()
		b.Y = append(b.Y, g.y[i])
	}
	if err := st.Update(context.Background(), &b, false); err != nil {
		t.Fatal(err)
	}
}

// A number that a row does not have is 0 whenever that row comes: before the column has a number,
// while all of its numbers are the same one, or later. With a Gaussian likelihood of given noise the
// posterior is that of any order, of parts, and of a run that goes on.
func TestUnitsAbsent(t *testing.T) {
	for _, family := range []string{"gaussian", "bernoulli"} {
		for _, covariance := range []string{"full", "arrowhead"} {
			m := unitModel(t, family, covariance)
			m.Options.AutoDispersion = false
			// two numbers first: units of all that follows, which TestUnitsExact has
			late := newGaps(family, 2)
			st := newUnits(t, m)
			late.feed(t, st, 0, 128)
			want := unitFit(t, st)
			tol := kerneltest.Tol{Rel: 1e-6, Abs: 1e-6} // numbers lie a hundred deviations from 0
			for _, first := range []int{0, 1, 2} {
				g := newGaps(family, first)
				whole := newUnits(t, m)
				g.feed(t, whole, 0, 128)
				same := func(what string, got *kernels.Fit) {
					t.Helper()
					if family == "bernoulli" { // for which the order counts
						return
					}
					sameBeliefs(t, fmt.Sprintf("%s, %s, %d numbers first%s", family, covariance, first, what), got, want, tol)
				}
				same("", unitFit(t, whole))
				for _, cut := range []int{1, 2, 20, 43, 44, 45, 100} {
					part, other := newUnits(t, m), newUnits(t, m)
					g.feed(t, part, 0, cut)
					next := continuing(t, m, unitFit(t, part))
					on := newUnits(t, next)
					g.feed(t, on, cut, 128)
					kept := unitFit(t, on)
					sameFit(t, fmt.Sprintf("%s, %s, %d numbers first, cut at %d", family, covariance, first, cut), kept, unitFit(t, whole), kerneltest.Tol{Rel: 1e-9, Abs: 1e-9})

					g.feed(t, other, cut, 128)
					if err := part.Merge(context.Background(), other); err != nil {
						t.Fatal(err)
					}
					same(fmt.Sprintf(", parts cut at %d", cut), unitFit(t, part))

					if cut < 100 {
						one, two := newUnits(t, next), newUnits(t, next)
						g.feed(t, one, cut, 100)
						g.feed(t, two, 100, 128)
						if err := one.Merge(context.Background(), two); err != nil {
							t.Fatal(err)
						}
						same(fmt.Sprintf(", parts that go on from %d", cut), unitFit(t, one))
					}
				}
			}
		}
	}
}
