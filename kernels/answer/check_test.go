package answer

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/special"
)

// The repetitions have the mean and the deviation of the closed form: for the mean of n
// responses Σ E[y] / n and (Σ Var[y | s] + Var[Σ s]) / n² for gaussian ones, the share of zeros
// of counts Σ P(0) / n; and the largest of equal counts its distribution.
func TestCheck(t *testing.T) {
	d, _, _ := facts(t)
	f := d.fit(t, "num", "x g", map[string]any{"family": "gaussian", "dispersion": 0.8}, nil)
	const draws = 3000
	c, err := NewCheck(f, "mean", 0.9, draws, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := d.batch(t, f, c.Features(), "num", "x g")
	if err := c.Add(b); err != nil {
		t.Fatal(err)
	}
	got, err := c.Checked(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var sum kernels.Batch
	sum.Reset()
	for i := range d.n {
		fs, xs := c.Entries(f, b, i)
		for k := range fs {
			sum.Add(fs[k], xs[k]/float64(d.n))
		}
	}
	var s kernels.Scratch
	sum.SumDuplicates(&s)
	sum.EndRow()
	m, v, err := c.Linear(&sum, 0)
	if err != nil {
		t.Fatal(err)
	}
	sd := math.Sqrt(v + 0.8/float64(d.n))
	kerneltest.Close(t, "mean", got.Mean, m, exact(4*sd/math.Sqrt(draws)))
	kerneltest.Close(t, "sd", got.SD, sd, kerneltest.Tol{Rel: 0.06})
	kerneltest.Close(t, "lower", got.Lower, m-1.645*sd, exact(0.12*sd))

	// One count, whose rate is known: Y ~ Poisson(2), n times.
	known, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "(Intercept)", Weight: kernels.Weight{Mean: math.Log(2)}}}, &kernels.Model{Lik: poissonOf(t)})
	if err != nil {
		t.Fatal(err)
	}
	var one kernels.Batch
	one.Reset()
	for range 5 {
		one.Add(0, 1)
		one.EndRow()
		one.Y = append(one.Y, 3)
	}
	p0 := math.Exp(-2)
	cdf := 0.0 // P(Y <= 3)
	for k, p := 0, p0; k <= 3; k++ {
		cdf += p
		p *= 2 / float64(k+1)
	}
	below := cdf - p0*8/6
	for what, want := range map[string]float64{
		"zeros": 1 - 0.5*math.Pow(1-p0, 5), // observed 0: larger unless none is zero, then equal
		"max":   1 - math.Pow(cdf, 5) + 0.5*(math.Pow(cdf, 5)-math.Pow(below, 5)),
		"mean":  -1} {
		c, err := NewCheck(known, what, 0, draws, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Add(&one); err != nil {
			t.Fatal(err)
		}
		got, err := c.Checked(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if want >= 0 {
			kerneltest.Close(t, what+" P", got.P, want, exact(4*0.5/math.Sqrt(draws)))
		}
		if what == "zeros" {
			kerneltest.Close(t, what, got.Mean, p0, exact(4*math.Sqrt(p0/5/draws)))
		}
	}
	if _, err := NewCheck(f, "median", 0, 0, 0); err == nil || !strings.Contains(err.Error(), "allowed: mean, sd, zeros") {
		t.Error(err)
	}
}

// Repetitions with as many events as were observed have the mean and the deviation that was
// observed, in whatever order these come, and count half; those with as many others have the same
// deviation.
func TestCheckTies(t *testing.T) {
	even, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "(Intercept)"}}, &kernels.Model{})
	if err != nil {
		t.Fatal(err)
	}
	const draws, n, events = 10000, 30, 13
	var b kernels.Batch
	b.Reset()
	for i := range n {
		b.Add(0, 1)
		b.EndRow()
		b.Y = append(b.Y, map[bool]float64{true: 1}[i*7%n < events])
	}
	p, mean, sd := math.Pow(0.5, n), 0.0, 0.0
	for k := range n + 1 { // p is P(k events)
		switch {
		case k > events:
			mean += p
		case k == events:
			mean += 0.5 * p
		}
		switch here, at := k*(n-k), events*(n-events); {
		case here > at:
			sd += p
		case here == at:
			sd += 0.5 * p
		}
		p *= float64(n-k) / float64(k+1)
	}
	for what, want := range map[string]float64{"mean": mean, "sd": sd} {
		c, err := NewCheck(even, what, 0, draws, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Add(&b); err != nil {
			t.Fatal(err)
		}
		got, err := c.Checked(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, what+" P", got.P, want, exact(4*0.5/math.Sqrt(draws)))
	}
}

// A dispersion and a shape that were learnt are drawn with the weights. With known weights the
// variance of n gaussian responses is D χ²/(n-1), D the scaled inverse chi-square law that was
// learnt, and that of the mean of n gamma ones E[1/κ]/n.
func TestCheckDrawsWhatIsLearnt(t *testing.T) {
	const draws, n, nu = 10000, 21, 20.0
	unit, _ := special.InverseChi(nu)
	for _, c := range []struct {
		family, statistic string
		learn             func(f *kernels.Fit)
		mean, sd          float64
	}{
		{"gaussian", "sd", func(f *kernels.Fit) { f.LearnDeviation(1, nu) }, unit * chiMean(n-1), math.Sqrt(nu/(nu-2) - math.Pow(unit*chiMean(n-1), 2))},
		{"gaussian", "sd", func(f *kernels.Fit) {}, chiMean(n - 1), math.Sqrt(1 - math.Pow(chiMean(n-1), 2))},
		{"gamma", "mean", func(f *kernels.Fit) { f.LearnShape(4, 1) }, 1, math.Sqrt(0.25 * math.Exp(0.5) / n)},
		{"gamma", "mean", func(f *kernels.Fit) {}, 1, math.Sqrt(0.25 / n)},
	} {
		p := lik.Params{Dispersion: 1, Shape: 4}
		l, err := lik.New(c.family, "", p)
		if err != nil {
			t.Fatal(err)
		}
		f, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "(Intercept)"}}, &kernels.Model{Lik: l, Params: p})
		if err != nil {
			t.Fatal(err)
		}
		c.learn(f)
		check, err := NewCheck(f, c.statistic, 0, draws, 5)
		if err != nil {
			t.Fatal(err)
		}
		var b kernels.Batch
		b.Reset()
		for i := range n {
			b.Add(0, 1)
			b.EndRow()
			b.Y = append(b.Y, float64(1+i%2))
		}
		if err := check.Add(&b); err != nil {
			t.Fatal(err)
		}
		got, err := check.Checked(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Close(t, c.family+" mean", got.Mean, c.mean, exact(4*c.sd/math.Sqrt(draws)))
		kerneltest.Close(t, c.family+" sd", got.SD, c.sd, kerneltest.Tol{Rel: 0.06})
	}
}

// chiMean is the mean of a χ of so many degrees of freedom, over their root.
func chiMean(nu float64) float64 {
	top, _ := math.Lgamma(0.5 * (nu + 1))
	bottom, _ := math.Lgamma(0.5 * nu)
	return math.Sqrt(2/nu) * math.Exp(top-bottom)
}

func poissonOf(t testing.TB) lik.Likelihood {
	l, err := lik.New("poisson", "", lik.Params{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// New responses have the mean and the variance that the likelihood says, and their
// distribution function at them is uniform.
func TestRepeatAndPIT(t *testing.T) {
	kerneltest.Slow(t)
	for _, info := range lik.Families() {
		for _, link := range info.Links {
			l, err := lik.New(info.Family, link, lik.Params{Dispersion: 0.7, Shape: 6})
			if err != nil {
				t.Fatal(err)
			}
			trials := 0.0
			if l.Traits().Trials {
				trials = 8
			}
			f := &kernels.Fit{Family: info.Family, Link: link, Dispersion: 0.7, Shape: 6, Intercept: true,
				Beliefs: []kernels.Belief{{Feature: kernels.Intercept, Weight: kernels.Weight{Mean: 0.4, Variance: 0.2}}}}
			c, err := NewCheck(f, "mean", 0, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			c.draws = 4000
			// y of one row, repeated: draws of the predictive distribution
			draw, _ := c.NewDraw()
			var b kernels.Batch
			b.Reset()
			b.Add(0, 1)
			b.EndRow()
			var s, u moments
			for k := range c.draws {
				draw.Set(3, uint64(k))
				eta, _ := draw.Linear(&b, 0)
				y := c.of.Draw(eta, trials, newNoise(3, uint64(k)))
				below, upTo, err := PIT(l, lik.Obs{Y: y, Weight: 1, Trials: trials}, 0.4, 0.2)
				if err != nil || below > upTo || below < 0 || upTo > 1 {
					t.Fatal(l.Family(), link, y, below, upTo, err)
				}
				u.add(0.5*(below+upTo), 1)
				if trials > 0 {
					y /= trials
				}
				s.add(y, 1)
			}
			mean, variance := l.Predict(0.4, 0.2)
			what := info.Family + " " + link
			root := math.Sqrt(s.variance() / float64(c.draws))
			kerneltest.Close(t, what+" mean", s.mean, mean, exact(4*root))
			if trials == 0 {
				kerneltest.Close(t, what+" variance", s.variance(), variance, kerneltest.Tol{Rel: 0.15})
			}
			kerneltest.Close(t, what+" PIT", u.mean, 0.5, exact(4*0.3/math.Sqrt(float64(c.draws))))
		}
	}
}

// The order of the rows and how they were cut make no difference.
func TestMergeCheck(t *testing.T) {
	d, _, _ := facts(t)
	f := d.fit(t, "cnt", "x g", map[string]any{"family": "poisson"}, nil)
	for i := range d.n {
		if i > 90 {
			d.text["g"][i] = "new" + string(rune('a'+i%3))
		}
	}
	check := func(parts int) Checked {
		var whole *Check
		for k := range parts {
			c, err := NewCheck(f, "sd", 0, 30, 4)
			if err != nil {
				t.Fatal(err)
			}
			part := d.only(func(i int) bool { return i*i%parts == k })
			if part.n > 0 {
				if err := c.Add(part.batch(t, f, c.Features(), "cnt", "x g")); err != nil {
					t.Fatal(err)
				}
			}
			if whole == nil {
				whole = c.Clone()
				continue
			}
			whole.Merge(c)
		}
		got, err := whole.Checked(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a, b := check(1), check(4)
	kerneltest.Close(t, "mean", b.Mean, a.Mean, kerneltest.Tol{Rel: 1e-12})
	kerneltest.Close(t, "upper", b.Upper, a.Upper, kerneltest.Tol{Rel: 1e-12})
	if a.P != b.P || a.N != 120 || b.N != 120 {
		t.Error(a, b)
	}
}

// Shares are those of the variance over the rows, computed anew, their posterior that of other draws
// of the weights.
func TestDrivers(t *testing.T) {
	all, _, _ := facts(t)
	f := all.fit(t, "bin", "x z g h", nil, nil)
	d, err := NewDrivers(f, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	other := d.Clone()
	for k, e := range []*Drivers{d, other} {
		part := all.only(func(i int) bool { return i%2 == k })
		if err := e.Add(context.Background(), part.batch(t, f, e.Features(), "", "x z g h")); err != nil {
			t.Fatal(err)
		}
	}
	d.Merge(other)
	got, err := d.Drivers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s := scorer(t, f)
	b := all.batch(t, f, s.Features(), "", "x z g h")
	draw, _ := s.NewDraw()
	shares := func(weight func(id uint32) float64) map[string]float64 {
		cols := []string{"g", "h", "x", "z"}
		part := map[string][]float64{}
		sum := make([]float64, all.n)
		for i := range all.n {
			fs, xs := s.Entries(f, b, i)
			for k, id := range fs {
				c, _, _ := strings.Cut(string(s.Features().Name(id)), "=")
				if part[c] == nil {
					part[c] = make([]float64, all.n)
				}
				part[c][i] += xs[k] * weight(id)
				if slices.Contains(cols, c) {
					sum[i] += xs[k] * weight(id)
				}
			}
		}
		out, total := map[string]float64{}, 0.0
		for _, c := range cols {
			var a, e, both moments
			for i := range sum {
				a.add(part[c][i], 1)
				e.add(sum[i], 1)
				both.add(part[c][i]*sum[i], 1)
			}
			out[c] = both.mean - a.mean*e.mean
			total += out[c]
		}
		for _, c := range cols {
			out[c] /= total
		}
		return out
	}
	const n = 2000
	draws := map[string][]float64{}
	for k := range n {
		draw.Set(9, uint64(k))
		w := make([]float64, s.Features().Len())
		for id := range w {
			var one kernels.Batch
			one.Reset()
			one.Add(uint32(id), 1)
			one.EndRow()
			w[id], _ = draw.Linear(&one, 0)
		}
		for c, x := range shares(func(id uint32) float64 { return w[id] }) {
			draws[c] = append(draws[c], x)
		}
	}
	sum := 0.0
	for _, x := range got {
		want, _ := predict.OfDraws(draws[x.Column], 1, 0.95)
		kerneltest.Close(t, x.Column, x.Mean, want.Mean, exact(0.2*want.SD))
		kerneltest.Close(t, x.Column+" sd", x.SD, want.SD, kerneltest.Tol{Rel: 0.15})
		kerneltest.Close(t, x.Column+" lower", x.Lower, want.Lower, exact(0.4*want.SD))
		kerneltest.Close(t, x.Column+" upper", x.Upper, want.Upper, exact(0.4*want.SD))
		sum += x.Mean
	}
	kerneltest.Close(t, "sum", sum, 1, exact(1e-12))
	for _, x := range got {
		part := make([]float64, all.n)
		var spread moments
		for i := range part {
			fs, xs := s.Entries(f, b, i)
			for k, id := range fs {
				if c, _, _ := strings.Cut(string(s.Features().Name(id)), "="); c == x.Column {
					part[i] += xs[k] * f.Beliefs[s.Belief(id)].Mean
				}
			}
			spread.add(part[i], 1)
		}
		kerneltest.Close(t, x.Column+" spread", x.Spread, math.Sqrt(spread.m2/spread.n), exact(1e-10))
	}
}

// PIT has a number for every shape, and comes to its limit without a step: Poisson, the
// normal, one mean.
func TestPITShapes(t *testing.T) {
	shapes := []float64{0.001, 0.01, 0.5, 3, 1e3, 1e6, 1e9, 1e12, 0.99e13, 1.01e13, 1e14, 1e16, 1e100, 1e307, math.MaxFloat64}
	for _, family := range []string{"gamma", "negbinomial", "studentt"} {
		for _, m := range []float64{-700, -2, 0, 0.5, 3, 700} {
			for _, v := range []float64{0, 1e-6, 2, 1e300} {
				for _, y := range []float64{0, 1, 2, 40, 1e6, 1e300} {
					for _, shape := range shapes {
						if family == "gamma" && y == 0 {
							continue
						}
						l, err := lik.New(family, "", lik.Params{Dispersion: 1, Shape: shape})
						if err != nil {
							t.Fatal(err)
						}
						a, b, err := PIT(l, lik.Obs{Y: y, Weight: 1}, m, v)
						if err != nil || !(a >= 0 && a <= b && b <= 1) {
							t.Errorf("%s of shape %v, y = %v, N(%v, %v): %v to %v, %v", family, shape, y, m, v, a, b, err)
						}
					}
				}
			}
		}
	}
	// Beside the limit: at shape 1e9 it is 1e-9 away.
	for _, c := range []struct {
		family string
		y, m   float64
		want   func() (float64, float64)
	}{
		{"negbinomial", 3, 1, func() (float64, float64) {
			mu := math.E
			p := math.Exp(-mu) * (1 + mu + mu*mu/2)
			return p, p + math.Exp(-mu)*mu*mu*mu/6
		}},
		{"studentt", 0.7, 0.2, func() (float64, float64) { p := 0.5 * math.Erfc(-0.5/math.Sqrt2); return p, p }},
	} {
		lo, hi := c.want()
		for _, shape := range []float64{1e9, 1e12, 0.99e13, 1.01e13, 1e15, 1e300} {
			l, err := lik.New(c.family, "", lik.Params{Dispersion: 1, Shape: shape})
			if err != nil {
				t.Fatal(err)
			}
			a, b, err := PIT(l, lik.Obs{Y: c.y, Weight: 1}, c.m, 0)
			if err != nil || math.Abs(a-lo) > 2e-9 || math.Abs(b-hi) > 2e-9 {
				t.Errorf("%s of shape %v: %v to %v, want %v to %v, %v", c.family, shape, a, b, lo, hi, err)
			}
		}
	}
}

// A response that varies little beside its mean has a distribution function that is steep in the
// predictor: it is the predictor's own then.
func TestPITSteep(t *testing.T) {
	for _, v := range []float64{0.01, 1, 9} {
		for _, z := range []float64{-2, 0.05, 0.7, 3} {
			at := math.Sqrt(v) * z
			for _, dispersion := range []float64{1e-12, 1e-6, 1e-3, 0.02, 1} {
				l, err := lik.New("gaussian", "", lik.Params{Dispersion: dispersion})
				if err != nil {
					t.Fatal(err)
				}
				a, b, err := PIT(l, lik.Obs{Y: 1.5 + at, Weight: 1}, 1.5, v)
				if want := special.Phi(at / math.Sqrt(v+dispersion)); err != nil || math.Abs(a-want) > 1e-9 || a != b {
					t.Errorf("N(1.5, %v), dispersion %v, z = %v: %v to %v, want %v, %v", v, dispersion, z, a, b, want, err)
				}
			}
			for _, c := range []struct{ family, link string }{{"gamma", ""}, {"negbinomial", ""}, {"poisson", ""}, {"gaussian", "log"}} {
				l, err := lik.New(c.family, c.link, lik.Params{Dispersion: 1, Shape: 1e9})
				if err != nil {
					t.Fatal(err)
				}
				a, b, err := PIT(l, lik.Obs{Y: math.Round(1e8 * math.Exp(at)), Weight: 1}, math.Log(1e8), v)
				if want := special.Phi(z); err != nil || math.Abs(a-want) > 1e-5 || math.Abs(b-want) > 1e-5 {
					t.Errorf("%s, N(log 1e8, %v), z = %v: %v to %v, want about %v, %v", c.family, v, z, a, b, want, err)
				}
			}
		}
	}
}

// Responses are drawn at every predictor and parameter that a FIT may have: a number that is
// not NaN.
func TestRepeatExtremes(t *testing.T) {
	for _, info := range lik.Families() {
		for _, link := range info.Links {
			for _, shape := range []float64{lik.MinShape, 0.1, 3, 1e8, 1e300, math.MaxFloat64} {
				for _, dispersion := range []float64{5e-324, 1e-300, 1, 1e300} {
					l, err := lik.New(info.Family, link, lik.Params{Dispersion: dispersion, Shape: shape})
					if err != nil {
						continue
					}
					of, err := lik.DistributionOf(l)
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range []float64{0, -3, 30, 700, 709.9, -746, 1e5, -1e5, 1e150, -1e150, 1e308, -1e308} {
						for _, trials := range []float64{1, 30, 1e6, 1 << 53} {
							if y := of.Draw(s, trials, rand.NewPCG(1, 2)); math.IsNaN(y) {
								t.Errorf("%s %s, shape %v, dispersion %v, predictor %v, %v trials: %v", info.Family, link, shape, dispersion, s, trials, y)
							}
						}
					}
				}
			}
		}
	}
}
