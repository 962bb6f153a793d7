// Package covariance expands the covariances of fits, for tests.
package covariance

import (
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
)

// Of is the covariance of the beliefs of f, which has no arrowhead, by its packed form.
func Of(t testing.TB, f *kernels.Fit) *dense.Matrix {
	t.Helper()
	p := len(f.Beliefs)
	if err := f.Covariance.Check(p); err != nil {
		t.Fatal(err)
	}
	c := dense.New(p, p)
	switch f.Covariance.Form {
	case gauss.Full:
		l := dense.New(p, p)
		for j := range p {
			copy(l.Row(j), f.Covariance.Row(j))
		}
		dense.MulTB(c, l, l)
	case gauss.LowRank:
		for i := range p {
			a := f.Covariance.Row(i)
			for j := range p {
				c.Row(i)[j] = -dense.Dot(a[1:], f.Covariance.Row(j)[1:])
			}
			c.Row(i)[i] += a[0]
		}
	default:
		for j, b := range f.Beliefs {
			c.Row(j)[j] = b.Variance
		}
	}
	return c
}
