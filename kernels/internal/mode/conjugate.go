package mode

import (
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/special"
)

// Conjugate is scratch memory for conjugate gradients; the zero value is ready to use.
type Conjugate struct{ r, z, d, bd []float64 }

// Solve sets x to the solution of B x = g, where apply multiplies by B and precondition divides by
// an approximation of it, until the norm of the preconditioned residual is rel times the initial
// one. It returns false if that takes more than the given steps, or if late reports true; x is then
// still a direction of ascent.
func (c *Conjugate) Solve(x, g []float64, rel float64, steps int, apply, precondition func(dst, x []float64), late func() bool) bool {
	if len(c.r) != len(g) {
		n := len(g)
		c.r, c.z, c.d, c.bd = memory.Floats(n), memory.Floats(n), memory.Floats(n), memory.Floats(n)
	}
	clear(x)
	copy(c.r, g)
	precondition(c.z, c.r)
	rz := dense.Dot(c.r, c.z)
	stop := rz * rel * rel
	copy(c.d, c.z)
	for k := 0; rz > stop; k++ {
		if k == steps || k%16 == 15 && late() {
			return false
		}
		apply(c.bd, c.d)
		alpha := rz / dense.Dot(c.d, c.bd)
		if !special.Finite(alpha) {
			return false
		}
		dense.Axpy(alpha, c.d, x)
		dense.Axpy(-alpha, c.bd, c.r)
		precondition(c.z, c.r)
		next := dense.Dot(c.r, c.z)
		beta := next / rz
		rz = next
		for j, v := range c.z {
			c.d[j] = v + beta*c.d[j]
		}
	}
	return true
}
