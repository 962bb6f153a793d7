package arrowhead

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// same compares two joint Gaussians, the second by the places order of the first's weights,
// and no covariances where skip says so.
func same(t *testing.T, what string, a, b *Belief, order []int, skip func(i, j int) bool) {
	t.Helper()
	ma, ca := joint(a)
	mb, cb := joint(b)
	for i, at := range order {
		kerneltest.Close(t, what+": mean", mb[at], ma[i], tol)
		for j, to := range order {
			if skip == nil || !skip(i, j) {
				kerneltest.Close(t, what+": covariance", cb.At(at, to), ca.At(i, j), tol)
			}
		}
	}
}

// Leaves that are raised keep all moments. Weights that are shed keep theirs and those with
// the rest of the block, and so do the leaves; shed one by one, with no other leaf on them,
// they keep all.
func TestRaiseAndShed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for n := range 200 {
		d, k := 1+n%5, 2+n%4
		b := random(r, d, k)
		up := b.Clone()
		ks := []int{0, k - 1}
		up.MoveToBlock(ks)
		order := make([]int, d+k) // by weight of b: its place in up
		at := d + len(ks)
		for i := range order {
			switch {
			case i < d:
				order[i] = i
			case i == d:
				order[i] = d
			case i == d+k-1:
				order[i] = d + 1
			default:
				order[i] = at
				at++
			}
		}
		same(t, "raised", b, up, order, nil)

		// What was raised has no leaf on it: the last of the block alone keeps all moments.
		down := up.Clone()
		down.MoveToLeaves([]int{d + 1})
		down.MoveToLeaves([]int{d})
		leaf := d
		for i := d + 1; i < d+k-1; i++ {
			order[i] = leaf
			leaf++
		}
		order[d+k-1], order[d] = leaf, leaf+1
		same(t, "shed again", b, down, order, nil)

		// All but one of a block with leaves on it.
		out := r.Perm(d)[:d-1]
		shed := b.Clone()
		shed.MoveToLeaves(out)
		for i := range order {
			order[i] = d + k - len(out) - k + (i - d)
		}
		next := 0
		for i := range d {
			if j := slices.Index(out, i); j >= 0 {
				order[i] = (d - len(out)) + k + j
			} else {
				order[i] = next
				next++
			}
		}
		same(t, "shed", b, shed, order, func(i, j int) bool {
			kept := func(i int) bool { return i < d && !slices.Contains(out, i) }
			return i != j && !kept(i) && !kept(j)
		})
		if t.Failed() {
			t.Fatalf("case %d", n)
		}
	}
	all := random(r, 3, 2)
	all.MoveToLeaves([]int{2, 0, 1})
	if all.Dim() != 0 || all.Leaves() != 5 {
		t.Errorf("%d weights in the block, %d leaves", all.Dim(), all.Leaves())
	}
}

// A weight that has another added is the sum, and all else what it was.
func TestTie(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 3))
	for n := range 200 {
		d, k := 2+n%4, n%3
		b := random(r, d, k)
		j := n % d
		to := (j + 1 + r.IntN(d-1)) % d
		mean, cov := joint(b)
		m := dense.New(len(mean), len(mean))
		for i := range mean {
			m.Row(i)[i] = 1
		}
		m.Row(j)[to] = -1
		half, want, wantMean := dense.New(len(mean), len(mean)), dense.New(len(mean), len(mean)), make([]float64, len(mean))
		dense.Mul(half, m, cov)
		dense.MulTB(want, half, m)
		dense.Gemv(wantMean, m, mean)
		b.Tie(j, to, -1)
		gotMean, got := joint(b)
		for i := range mean {
			kerneltest.Close(t, "mean", gotMean[i], wantMean[i], tol)
			for l := range mean {
				kerneltest.Close(t, "covariance", got.At(i, l), want.At(i, l), tol)
			}
		}
		if t.Failed() {
			t.Fatalf("case %d", n)
		}
	}
}
