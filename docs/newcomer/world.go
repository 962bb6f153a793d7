package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/arrowhead"
)

// world is a truth and rows of it: two correlated numbers, centred and scaled, and a column
// of levels.
type world struct {
	family  string
	weights map[string]float64 // by feature, on the scale of eta
	u, v    []float64
	g       []string
	eta, y  []float64
}

// newWorld has n rows; spread is the standard deviation of the weights, and tied, if it is not
// 0, draws the levels' with a common mean as an arrowhead's prior of so many has it.
func newWorld(r *rand.Rand, family string, n, levels int, spread, tied float64) *world {
	w := &world{family: family, weights: map[string]float64{"(Intercept)": spread * r.NormFloat64(), "u": spread * r.NormFloat64(), "v": spread * r.NormFloat64()}}
	common, own := 0.0, spread
	if tied > 0 {
		common, own = spread*math.Sqrt(arrowhead.MeanShare(tied))*r.NormFloat64(), spread*math.Sqrt(arrowhead.LevelShare(tied))
	}
	names := make([]string, levels)
	for k := range names {
		names[k] = fmt.Sprint("l", k)
		w.weights["g="+names[k]] = common + own*r.NormFloat64()
	}
	for i := range n {
		u := r.NormFloat64()
		w.u, w.v, w.g = append(w.u, u), append(w.v, 0.5*u+r.NormFloat64()), append(w.g, names[i%levels])
	}
	r.Shuffle(n, func(i, j int) { w.g[i], w.g[j] = w.g[j], w.g[i] })
	scaled(w.u)
	scaled(w.v)
	for i := range n {
		eta := w.predictor(w.weights, i)
		w.eta, w.y = append(w.eta, eta), append(w.y, draw(r, family, eta))
	}
	return w
}

// predictor is the linear predictor of row i at some weights.
func (w *world) predictor(weights map[string]float64, i int) float64 {
	return weights["(Intercept)"] + weights["u"]*w.u[i] + weights["v"]*w.v[i] + weights["g="+w.g[i]]
}

// noise is the standard deviation of a simulated gaussian response.
const noise = 0.7

func draw(r *rand.Rand, family string, eta float64) float64 {
	switch family {
	case "gaussian":
		return eta + noise*r.NormFloat64()
	case "poisson":
		// The number of unit-rate arrivals before exp(eta).
		k, t := 0.0, r.ExpFloat64()
		for ; t < math.Exp(eta); t += r.ExpFloat64() {
			k++
		}
		return k
	}
	if r.Float64() < 1/(1+math.Exp(-eta)) {
		return 1
	}
	return 0
}

// scaled gives x mean 0 and standard deviation 1.
func scaled(x []float64) {
	m, ss := mean(x), 0.0
	for i := range x {
		x[i] -= m
		ss += x[i] * x[i]
	}
	for i := range x {
		x[i] /= math.Sqrt(ss / float64(len(x)))
	}
}

// logLik is the log likelihood of the rows at other weights.
func (w *world) logLik(weights map[string]float64) float64 {
	sum := 0.0
	for i := range w.y {
		eta := w.predictor(weights, i)
		switch w.family {
		case "gaussian":
			e := (w.y[i] - eta) / noise
			sum -= e * e / 2
		case "poisson":
			sum += w.y[i]*eta - math.Exp(eta)
		default:
			sum -= math.Log1p(math.Exp((1 - 2*w.y[i]) * eta))
		}
	}
	return sum
}

// load makes the table name (sim, i, u, v, g, eta, y) of some worlds.
func (s *session) load(name string, worlds []*world) error {
	dir, err := os.MkdirTemp("", "newcomer-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var b strings.Builder
	b.WriteString("sim,i,u,v,g,eta,y\n")
	for k, w := range worlds {
		for i := range w.y {
			fmt.Fprintf(&b, "%d,%d,%v,%v,%s,%v,%v\n", k, i, w.u[i], w.v[i], w.g[i], w.eta[i], w.y[i])
		}
	}
	file := filepath.Join(dir, "rows.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return err
	}
	return s.exec("CREATE OR REPLACE TABLE " + name + " AS FROM read_csv('" + file + "', header = true, columns = {sim: 'INT', i: 'INT', u: 'DOUBLE', v: 'DOUBLE', g: 'VARCHAR', eta: 'DOUBLE', y: 'DOUBLE'})")
}

// features are the names of a world's weights, in order.
func (w *world) features() []string {
	names := make([]string, 0, len(w.weights))
	for n := range w.weights {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
