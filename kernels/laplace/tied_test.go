package laplace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/lik"
)

// slopes is a problem with the numbers x, an intercept unless m says no, and for the groups of g
// intercepts 'g=' and slopes 'x:g=' of the numbers that slopes names, all of them correlated.
func slopes(t testing.TB, m *kernels.Model, y []float64, offset []float64, g []string, names []string, x ...[]float64) *kernels.Problem {
	t.Helper()
	set := []string{"g"}
	for _, name := range names {
		set = append(set, name+":g")
	}
	m.Correlated = [][]string{set}
	r, err := kernels.NewRows(m)
	if err != nil {
		t.Fatal(err)
	}
	numbers := names
	if m.NoIntercept {
		numbers = nil
	}
	r.Dict.Use(kernels.NewColumns(set, numbers))
	var b kernels.Batch
	b.Reset()
	add := func(name string, x float64) {
		id, err := r.Dict.AddRaw(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(id, x)
	}
	for i := range y {
		if !m.NoIntercept {
			add(kernels.Intercept, 1)
			for k, name := range names {
				add(name, x[k][i])
			}
		}
		add("g="+g[i], 1)
		for k := range names {
			add(set[k+1]+"="+g[i], x[k][i])
		}
		b.EndRow()
	}
	b.Y, b.Offset = y, offset
	if err := r.Update(&b, false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Problem()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Reaction times in ms of 18 subjects on 10 days of little sleep: Belenky et al. (2003), the
// set sleepstudy of the R package lme4.
const sleepstudy = "249.56,258.7047,250.8006,321.4398,356.8519,414.6901,382.2038,290.1486,430.5853,466.3535,222.7339,205.2658,202.9778,204.707,207.7161,215.9618,213.6303,217.7272,224.2957,237.3142,199.0539,194.3322,234.32,232.8416,229.3074,220.4579,235.4208,255.7511,261.0125,247.5153,321.5426,300.4002,283.8565,285.133,285.7973,297.5855,280.2396,318.2613,305.3495,354.0487,287.6079,285,301.8206,320.1153,316.2773,293.3187,290.075,334.8177,293.7469,371.5811,234.8606,242.8118,272.9613,309.7688,317.4629,309.9976,454.1619,346.8311,330.3003,253.8644,283.8424,289.555,276.7693,299.8097,297.171,338.1665,332.0265,348.8399,333.36,362.0428,265.4731,276.2012,243.3647,254.6723,279.0244,284.1912,305.5248,331.5229,335.7469,377.299,241.6083,273.9472,254.4907,270.8021,251.4519,254.6362,245.4523,235.311,235.7541,237.2466,312.3666,313.8058,291.6112,346.1222,365.7324,391.8385,404.2601,416.6923,455.8643,458.9167,236.1032,230.3167,238.9256,254.922,250.7103,269.7744,281.5648,308.102,336.2806,351.6451,256.2968,243.4543,256.2046,255.5271,268.9165,329.7247,379.4445,362.9184,394.4872,389.0527,250.5265,300.0576,269.8939,280.5891,271.8274,304.6336,287.7466,266.5955,321.5418,347.5655,221.6771,298.1939,326.8785,346.8555,348.7402,352.8287,354.4266,360.4326,375.6406,388.5417,271.9235,268.4369,257.2424,277.6566,314.8222,317.2135,298.1353,348.1229,340.28,366.5131,225.264,234.5235,238.9008,240.473,267.5373,344.1937,281.1481,347.5855,365.163,372.2288,269.8804,272.4428,277.8989,281.7895,279.1705,284.512,259.2658,304.6306,350.7807,369.4692,269.4117,273.474,297.5968,310.6316,287.1726,329.6076,334.4818,343.2199,369.1417,364.1236"

func sleep(t testing.TB) (y, days []float64, subject []string) {
	y = numbers(t, sleepstudy)
	for i := range y {
		days, subject = append(days, float64(i%10)), append(subject, fmt.Sprint("s", i/10))
	}
	return y, days, subject
}

// Intercepts and slopes of sleepstudy: the deviations and the correlation of highest evidence
// are those of lmer (lme4 1.1-31), with vague fixed effects its REML estimates, with these
// known at their estimates those of maximum likelihood. Elimination and the full Hessian
// agree, wherever the days have their 0.
func TestSleepStudy(t *testing.T) {
	y, days, subject := sleep(t)
	known := make([]float64, len(y))
	for i, d := range days {
		known[i] = 251.405105 + 10.467286*d
	}
	const far = 1000
	late := make([]float64, len(days))
	for i, d := range days {
		late[i] = d + far
	}
	reml := []float64{24.7404500, 5.92213308, 0.0655513776, 25.5918157}
	ml := []float64{23.7805673, 5.71683462, 0.0813201034, 25.5918156}
	sd := math.Sqrt(reml[0]*reml[0] - 2*far*reml[2]*reml[0]*reml[1] + far*far*reml[1]*reml[1]) // at day -1000
	moved := []float64{sd, reml[1], (reml[2]*reml[0] - far*reml[1]) / sd, reml[3]}
	for _, c := range []struct {
		name      string
		x, offset []float64
		hessian   string
		want      []float64
	}{
		{"REML", days, nil, "full", reml}, {"REML, eliminated", days, nil, "arrow", reml}, {"ML", days, known, "full", ml},
		{"ML, eliminated", days, known, "arrow", ml}, {"REML, days from 1000 on", late, nil, "arrow", moved},
	} {
		m := model(t, "gaussian", "", lik.Params{})
		m.NoIntercept = c.offset != nil
		m.Prior.InterceptVariance, m.Prior.Variance = 1e12, 1e8
		m.Options = kernels.Options{AutoDispersion: true}
		p := slopes(t, m, y, c.offset, subject, []string{"days"}, c.x)
		h := learntBy(t, p, c.hessian)
		got := append(h.tied.spreads()[:3], math.Exp(0.5*h.theta[h.dispersion]))
		for k, want := range c.want {
			kerneltest.Close(t, fmt.Sprint(c.name, " ", k), got[k], want, kerneltest.Tol{Rel: 2e-4})
		}
	}
}

// learntBy is learnt by that Hessian.
func learntBy(t testing.TB, p *kernels.Problem, hessian string) *learner {
	t.Helper()
	p, ties, _, split := planned(p)
	if hessian == "arrow" {
		split = leaves(p, ties)
	}
	e, err := newEngine(p, ties, hessian, split)
	if err != nil {
		t.Fatal(err)
	}
	h, err := newLearner(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, status, _, err := h.maximise(nil); err != nil || status != "" {
		t.Fatal(status, err)
	}
	return h
}

// tiedCase is a problem of counts or truths with three correlated columns.
func tiedCase(t testing.TB, family, link string, n, groups int) *kernels.Problem {
	rng := rand.New(rand.NewPCG(3, 5))
	y, x, z := make([]float64, n), make([]float64, n), make([]float64, n)
	g := make([]string, n)
	a := make([][3]float64, groups)
	for k := range a {
		u := rng.NormFloat64()
		a[k] = [3]float64{0.8 * u, 0.4*u + 0.3*rng.NormFloat64(), 0.5 * rng.NormFloat64()}
	}
	for i := range y {
		k := i % groups
		g[i], x[i], z[i] = fmt.Sprint(k), 2+rng.NormFloat64(), rng.NormFloat64()
		eta := -0.5 + a[k][0] + (0.3+a[k][1])*x[i] + a[k][2]*z[i]
		switch family {
		case "poisson":
			y[i] = float64(int(math.Exp(min(eta, 3)) + rng.Float64()))
		case "gaussian":
			y[i] = eta + rng.NormFloat64()
		default:
			if rng.Float64() < 1/(1+math.Exp(-eta)) {
				y[i] = 1
			}
		}
	}
	m := model(t, family, link, lik.Params{})
	m.NoIntercept = false
	m.Options.AutoDispersion = family == "gaussian"
	return slopes(t, m, y, nil, g, []string{"x", "z"}, x, z)
}

// The slope of the evidence is its derivative, for the full Hessian and by elimination, and
// both have the same evidence.
func TestTiedSlope(t *testing.T) {
	for _, c := range [][2]string{{"gaussian", ""}, {"poisson", ""}, {"bernoulli", "probit"}} {
		for _, kind := range []string{"full", "arrow"} {
			p := tiedCase(t, c[0], c[1], 120, 12)
			p, ties, _, split := planned(p)
			if kind == "arrow" {
				split = leaves(p, ties)
			}
			e, err := newEngine(p, ties, kind, split)
			if err != nil {
				t.Fatal(err)
			}
			h, err := newLearner(e)
			if err != nil {
				t.Fatal(err)
			}
			theta := make([]float64, len(h.theta))
			for k := range theta {
				theta[k] = -0.5 + 0.3*float64(k%4)
			}
			h.w = make([]float64, p.P)
			at := func(theta []float64) float64 {
				log, ok, err := h.Try(theta)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				return log
			}
			log := at(theta)
			g, _, err := h.Slope()
			if err != nil {
				t.Fatal(err)
			}
			if kind == "arrow" {
				full := learnerAt(t, tiedCase(t, c[0], c[1], 120, 12), theta)
				kerneltest.Close(t, c[0]+" evidence", log, full, kerneltest.Tol{Rel: 1e-9})
			}
			for k := range theta {
				const d = 1e-4
				was := theta[k]
				theta[k] = was + d
				up := at(theta)
				theta[k] = was - d
				down := at(theta)
				theta[k] = was
				kerneltest.Close(t, fmt.Sprint(c[0], " ", kind, " slope ", k), g[k], (up-down)/(2*d), kerneltest.Tol{Rel: 1e-4, Abs: 1e-4})
			}
		}
	}
}

func learnerAt(t testing.TB, p *kernels.Problem, theta []float64) float64 {
	t.Helper()
	p, ties, _, split := planned(p)
	e, err := newEngine(p, ties, "full", split)
	if err != nil {
		t.Fatal(err)
	}
	h, err := newLearner(e)
	if err != nil {
		t.Fatal(err)
	}
	h.w = make([]float64, p.P)
	log, _, err := h.Try(theta)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// The posterior of deviations, correlation and noise of sleepstudy, and of the fixed effects
// and one subject's, against importance sampling of the parameters with the exact likelihood
// of the responses, a Gaussian of 10 days for each subject.
func TestTiedPosterior(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 likelihoods")
	}
	y, days, subject := sleep(t)
	m := model(t, "gaussian", "", lik.Params{})
	m.NoIntercept = false
	m.Prior.InterceptVariance, m.Prior.Variance = 1e6, 1e4
	m.Options = kernels.Options{AutoDispersion: true, Integrate: true, SDScale: 30, DispersionScale: 100}
	for _, kind := range []string{"full", "arrow"} {
		h := learntBy(t, slopes(t, m, y, nil, subject, []string{"days"}, days), kind)
		theta := append([]float64(nil), h.theta...)
		got, err := h.integrate()
		if err != nil || got == nil || got.weights == nil {
			t.Fatal(got, err)
		}
		want := sampled(t, h, theta, y, days)
		names := []string{"sd of intercepts", "sd of slopes", "correlation"}
		for k, name := range names {
			kerneltest.Close(t, kind+" "+name, got.tied[0][k], want.mean[k], kerneltest.Tol{Abs: 0.05 * want.sd[k]})
			kerneltest.Close(t, kind+" sd of "+name, got.tied[1][k], want.sd[k], kerneltest.Tol{Rel: 0.03})
		}
		kerneltest.Close(t, kind+" noise", got.mean[h.dispersion], want.mean[3], kerneltest.Tol{Abs: 0.05 * want.sd[3]})
		kerneltest.Close(t, kind+" sd of noise", got.sd[h.dispersion], want.sd[3], kerneltest.Tol{Rel: 0.03})
		for k, j := range []int{0, 1} {
			kerneltest.Close(t, kind+" "+h.x.Name(j), got.weights.mean[j], want.mean[4+k], kerneltest.Tol{Abs: 0.03 * want.sd[4+k]})
			kerneltest.Close(t, kind+" sd of "+h.x.Name(j), math.Sqrt(got.weights.vars()[j]), want.sd[4+k], kerneltest.Tol{Rel: 0.02})
		}
	}
}

type sample struct{ mean, sd []float64 }

// sampled is mean and deviation of the deviations of intercepts and slopes at day 0, their
// correlation, the noise's deviation and the two fixed effects.
func sampled(t *testing.T, h *learner, at []float64, y, days []float64) sample {
	rng := rand.New(rand.NewPCG(1, 2))
	of, prior, _ := h.hypers()
	center := h.tied.of[0].center[1]
	spread := []float64{0.55, 0.5, 0.2, 0.45}
	order := []int{h.tied.of[0].group[0], h.tied.of[0].group[1], h.dispersion, h.tied.of[0].first}
	if len(of) != 4 {
		t.Fatal(of)
	}
	const df, draws = 6, 100_000
	var sums, squares [6]float64
	total, total2 := 0.0, 0.0
	shift := math.NaN()
	for range draws {
		theta := append([]float64(nil), at...)
		logq := 0.0
		for k, j := range order {
			z := rng.NormFloat64()
			c := 0.0
			for range df {
				v := rng.NormFloat64()
				c += v * v
			}
			z /= math.Sqrt(c / df)
			logq -= 0.5 * (df + 1) * math.Log1p(z*z/df)
			theta[j] += spread[k] * z
		}
		s1, s2 := math.Exp(0.5*theta[order[0]]), math.Exp(0.5*theta[order[1]])
		noise, rho := math.Exp(theta[h.dispersion]), math.Tanh(theta[order[3]])
		// at day 0, from those at the mean of the days
		v2, c := s2*s2, rho*s1*s2
		v1 := s1*s1 - 2*center*c + center*center*v2
		c -= center * v2
		log, mean, variance := mixedLikelihood(y, days, v1, v2, c, noise)
		log += prior(theta, make([]float64, len(theta)))
		if math.IsNaN(shift) {
			shift = log
		}
		w := math.Exp(log - shift - logq)
		total += w
		total2 += w * w
		for k, x := range []float64{math.Sqrt(v1), s2, c / math.Sqrt(v1*v2), math.Sqrt(noise), mean[0], mean[1]} {
			sums[k] += w * x
			squares[k] += w * x * x
			if k > 3 {
				squares[k] += w * variance[k-4]
			}
		}
	}
	if ess := total * total / total2; ess < 5000 {
		t.Fatalf("%v draws are worth %v", draws, ess)
	}
	var out sample
	for k := range sums {
		mean := sums[k] / total
		out.mean, out.sd = append(out.mean, mean), append(out.sd, math.Sqrt(squares[k]/total-mean*mean))
	}
	return out
}

// mixedLikelihood is log p(y) of groups of 10 rows with random intercepts and slopes, fixed
// effects N(0, 1e6) and N(0, 1e4), and these effects' means and variances.
func mixedLikelihood(y, days []float64, v1, v2, c, noise float64) (log float64, mean, variance [2]float64) {
	a, b, d := 1/1e6, 0.0, 1/1e4 // precision of the fixed effects
	var r [2]float64
	for g := 0; g < len(y); g += 10 {
		// with Z = (1 days): yᵀV⁻¹y and ZᵀV⁻¹(Z y) by Woodbury over the two random effects
		n, sx, sxx, sy, sxy, syy := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
		for i := g; i < g+10; i++ {
			x := days[i]
			n, sx, sxx = n+1, sx+x, sxx+x*x
			sy, sxy, syy = sy+y[i], sxy+x*y[i], syy+y[i]*y[i]
		}
		det := v1*v2 - c*c
		p11, p12, p22 := v2/det+n/noise, -c/det+sx/noise, v1/det+sxx/noise
		pd := p11*p22 - p12*p12
		i11, i12, i22 := p22/pd, -p12/pd, p11/pd
		quad := func(s, t [2]float64) float64 {
			return i11*s[0]*t[0] + i12*(s[0]*t[1]+s[1]*t[0]) + i22*s[1]*t[1]
		}
		z0, z1, zy := [2]float64{n, sx}, [2]float64{sx, sxx}, [2]float64{sy, sxy}
		nn := noise * noise
		a += n/noise - quad(z0, z0)/nn
		b += sx/noise - quad(z0, z1)/nn
		d += sxx/noise - quad(z1, z1)/nn
		r[0] += sy/noise - quad(z0, zy)/nn
		r[1] += sxy/noise - quad(z1, zy)/nn
		log -= 0.5 * (syy/noise - quad(zy, zy)/nn + n*math.Log(noise) + math.Log(det) + math.Log(pd))
	}
	f := a*d - b*b
	mean = [2]float64{(d*r[0] - b*r[1]) / f, (a*r[1] - b*r[0]) / f}
	log += 0.5 * (r[0]*mean[0] + r[1]*mean[1] - math.Log(f))
	return log, mean, [2]float64{d / f, a / f}
}

// Beyond the weights that a full covariance is kept for, what a level's weights lack of one
// another is said.
func TestTiedBeyondFull(t *testing.T) {
	p := tiedCase(t, "gaussian", "", 4000, 1700)
	f, err := Fit(context.Background(), p)
	if err != nil || !strings.Contains(f.Status, looseNote) || f.Covariance.Form != gauss.Arrowhead {
		t.Fatal(f.Status, f.Covariance.Form, err)
	}
}
