package softmax

import (
	"math"

	"github.com/bglm/bglm/kernels/predict"
)

// Change is an expected vector of class probabilities, or its slope: Value by class, and its
// derivatives in the mean of each predictor, At, and in the slope of that mean, Slope; value c and
// predictor k are at c C + k.
type Change struct{ Value, At, Slope []float64 }

// Changer computes Changes. It is for one goroutine at a time.
type Changer struct {
	x        mixer
	p, u, ap []float64
	out      Change
}

// reset clears the results.
func (g *Changer) reset(c int) {
	if len(g.p) != c {
		g.p, g.u, g.ap = make([]float64, c), make([]float64, c), make([]float64, c)
		g.out = Change{make([]float64, c), make([]float64, c*c), make([]float64, c*c)}
	}
	clear(g.out.Value)
	clear(g.out.At)
	clear(g.out.Slope)
}

// Expected returns E softmax(f), f ~ N(mean, cov), or softmax(mean) for predict.Plugin, with
// ∂/∂m_k = E[p_c (1[c = k] - p_k)]. It is valid until the next call.
func (g *Changer) Expected(mean, cov []float64, kind predict.Kind) *Change {
	c := len(mean)
	g.reset(c)
	o := &g.out
	g.each(mean, cov, kind, func(w float64, p []float64) {
		for a, v := range p {
			v *= w
			o.Value[a] += v
			row := o.At[a*c : (a+1)*c]
			row[a] += v
			for k, q := range p {
				row[k] -= v * q
			}
		}
	})
	return o
}

// Sloped returns dE softmax(f)/dz for slopes δ and A of mean and covariance of f:
//
//	E[∂p_c/∂f] δ + ½ Σ E[∂²p_c/∂f_k∂f_l] A_kl
//
// because an expectation under a Gaussian changes with the covariance by half the second derivative.
// Derivatives are in mean and δ, with fixed covariances. It is valid until the next call.
func (g *Changer) Sloped(mean, cov, delta, a []float64, kind predict.Kind) *Change {
	c := len(mean)
	g.reset(c)
	o := &g.out
	if kind == predict.Plugin {
		a = nil
	}
	g.each(mean, cov, kind, func(w float64, p []float64) {
		along, own, all := 0.0, 0.0, 0.0 // pᵀδ, Σ p_k A_kk, pᵀAp
		for k, q := range p {
			along += q * delta[k]
		}
		clear(g.ap)
		if a != nil {
			for k := range p {
				for l, q := range p {
					g.ap[k] += a[k*c+l] * q
				}
				own += p[k] * a[k*c+k]
				all += p[k] * g.ap[k]
			}
		}
		diagonal := func(k int) float64 {
			if a == nil {
				return 0
			}
			return a[k*c+k]
		}
		for k := range p { // ∂/∂f_k of the parts that all classes share, over p_k
			g.u[k] = -(delta[k] - along) - 0.5*(diagonal(k)-own) + 2*(g.ap[k]-all)
		}
		for b, v := range p {
			first := delta[b] - along + 0.5*(diagonal(b)-2*g.ap[b]-own+2*all)
			o.Value[b] += w * v * first
			at, slope := o.At[b*c:(b+1)*c], o.Slope[b*c:(b+1)*c]
			at[b] += w * v * first
			slope[b] += w * v
			for k, q := range p {
				d := g.u[k]
				if a != nil {
					d -= a[b*c+k] - g.ap[b]
				}
				at[k] += w * v * q * (d - first)
				slope[k] -= w * v * q
			}
		}
	})
	return o
}

// each visits the nodes of the integral over N(mean, cov): weights, which sum to 1, and the
// probabilities there. Two and three classes use the trapezoid rule, more the rule of degree 5 if
// their distribution is narrow, otherwise the lattice; see Probabilities for the errors.
func (g *Changer) each(mean, cov []float64, kind predict.Kind, visit func(w float64, p []float64)) {
	c, x := len(mean), &g.x
	if kind == predict.Plugin || c == 1 {
		softmaxTo(g.p, mean)
		visit(1, g.p)
		return
	}
	if len(x.m) != c {
		*x = mixer{m: make([]float64, c), f: make([]float64, c), root: make([]float64, c*c)}
	}
	at := func(w float64) {
		softmaxTo(g.p, x.f)
		visit(w, g.p)
	}
	variance := func(i, j int) float64 { return max(cov[i*c+i]-cov[i*c+j]-cov[j*c+i]+cov[j*c+j], 0) }
	narrowly := c > 3 && c <= narrowClasses
	for i := range c {
		for j := range i {
			narrowly = narrowly && variance(i, j) <= narrow*narrow
		}
	}
	switch {
	case c <= 3:
		a, b := 0.0, 0.0
		if c == 3 {
			a, b = x.axes3(cov)
		} else {
			half := 0.5 * math.Sqrt(variance(0, 1))
			a = half * math.Sqrt2
			x.root[0], x.root[1] = half, -half
		}
		g.plane(mean, a, b, at)
	case narrowly:
		g.five(mean, cov, at)
	default:
		g.lattice(mean, cov, at)
	}
}

// plane is the trapezoid rule along one or two axes, with standard deviations a and b.
func (g *Changer) plane(mean []float64, a, b float64, at func(w float64)) {
	x, c := &g.x, len(mean)
	ha, na := gridOf(a)
	hb, nb := gridOf(b)
	mass := 0.0
	for pass := range 2 { // first the sum of the weights
		for i := -na; i <= na; i++ {
			za := ha * float64(i)
			for j := -nb; j <= nb; j++ {
				zb := hb * float64(j)
				w := math.Exp(-0.5 * (za*za + zb*zb))
				if pass == 0 {
					mass += w
					continue
				}
				for k := range mean {
					x.f[k] = mean[k] + za*x.root[k]
					if c == 3 {
						x.f[k] += zb * x.root[c+k]
					}
				}
				at(w / mass)
			}
		}
	}
}

// five is the rule of degree 5 as in mixer.degree5.
func (g *Changer) five(mean, cov []float64, at func(w float64)) {
	x, c := &g.x, len(mean)
	x.triangle(cov)
	dim := c - 1
	n := float64(dim)
	move := func(a int, z float64) {
		for k := a; k < dim; k++ {
			x.f[k] += z * x.root[k*dim+a]
		}
	}
	copy(x.f, mean)
	at(1 + (n*n-7*n)/18)
	for a := range dim {
		for _, z := range [2]float64{math.Sqrt(3), -math.Sqrt(3)} {
			copy(x.f, mean)
			move(a, z)
			at((4 - n) / 18)
			for b := range a {
				for _, y := range [2]float64{math.Sqrt(3), -math.Sqrt(3)} {
					copy(x.f, mean)
					move(a, z)
					move(b, y)
					at(1.0 / 36)
				}
			}
		}
	}
}

// lattice uses the points of mixer.lattice with both signs.
func (g *Changer) lattice(mean, cov []float64, at func(w float64)) {
	x, c := &g.x, len(mean)
	if !x.principal(cov) {
		copy(x.f, mean)
		at(1)
		return
	}
	dim := c - 1
	if x.points == nil {
		x.points = transposed(normals(dim))
	}
	w := 1 / (2 * float64(x.points.Cols))
	for i := range x.points.Cols {
		for _, sign := range [2]float64{1, -1} {
			copy(x.f, mean)
			for k := range dim {
				z := sign * x.points.Row(k)[i]
				for l, r := range x.root[k*c : (k+1)*c] {
					x.f[l] += z * r
				}
			}
			at(w)
		}
	}
}
