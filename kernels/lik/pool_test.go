package lik

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// The rows made of a pool have the likelihood of all rows at every predictor, with its two
// derivatives, whatever the dispersion and shape, and however the pool was put together.
func TestPooled(t *testing.T) {
	for _, info := range Families() {
		for _, link := range info.Links {
			for _, weighted := range []bool{false, true} {
				for seed := range uint64(20) {
					rnd := rand.New(rand.NewPCG(seed, 5))
					l, err := New(info.Family, link, Params{Dispersion: 0.7, Shape: 2.5})
					if err != nil {
						t.Fatal(err)
					}
					by := Pooled(l)
					n := 1 + rnd.IntN(40)
					rows, offsets := make([]Obs, n), make([]float64, n)
					var all, left, right Pool
					total := 0.0
					for i := range rows {
						rows[i] = drawObs(rnd, info.Family, weighted)
						if by.ByResponse && i > 0 {
							rows[i].Y, rows[i].Trials = rows[0].Y, rows[0].Trials
						}
						if offsets[i] = rnd.NormFloat64(); by.ByOffset {
							offsets[i] = 0.3
						}
						total += rows[i].Weight
						by.Add(&all, rows[i], offsets[i])
						if i < n/3 {
							by.Add(&left, rows[i], offsets[i])
						} else {
							by.Add(&right, rows[i], offsets[i])
						}
					}
					left.Merge(&right, l)
					for what, p := range map[string]*Pool{"one after the other": &all, "merged": &left} {
						made, offset, constant := by.Make(p)
						if by.ByOffset {
							offset = 0.3
						}
						weight := 0.0
						for _, o := range made {
							weight += o.Weight
						}
						if p.Rows != float64(n) || len(made) > 2 || math.Abs(weight-total) > 1e-12*total {
							t.Errorf("%s %s, %s: %v rows of weight %v in %d, want %d of %v", info.Family, link, what, p.Rows, weight, len(made), n, total)
						}
						for _, q := range []Params{{Dispersion: 0.7, Shape: 2.5}, {Dispersion: 3, Shape: 0.4}} {
							l, _ := New(info.Family, link, q)
							if info.Family == "negbinomial" {
								q.Shape = 2.5
							}
							for _, s := range []float64{-2, -0.4, 0, 1.1} {
								var want, got [3]float64
								for i, o := range rows {
									a, b, c := l.LogLik(o, s+offsets[i])
									want[0], want[1], want[2] = want[0]+a, want[1]+b, want[2]+c
								}
								got[0] = constant
								for _, o := range made {
									a, b, c := l.LogLik(o, s+offset)
									got[0], got[1], got[2] = got[0]+a, got[1]+b, got[2]+c
								}
								if add := PearsonOf(l); add != nil {
									var all, few Pearson
									for i, o := range rows {
										add(&all, o, s+offsets[i], 1, 0)
									}
									for _, o := range made {
										add(&few, o, s+offset, p.Rows, by.Within(p))
									}
									kerneltest.Close(t, info.Family+" "+link+" Pearson", few.Squares, all.Squares, kerneltest.Tol{Rel: 1e-10})
									kerneltest.Close(t, info.Family+" "+link+" Pearson's weight", few.Weight, all.Weight, kerneltest.Tol{Rel: 1e-12})
								}
								for k := range got {
									kerneltest.Close(t, info.Family+" "+link+" "+what, got[k], want[k], kerneltest.Tol{Rel: 1e-11, Abs: 1e-10 * (1 + total)})
								}
							}
						}
						if t.Failed() {
							return
						}
					}
				}
			}
		}
	}
}

func drawObs(rnd *rand.Rand, family string, weighted bool) Obs {
	o := Obs{Weight: 1}
	if weighted {
		o.Weight = []float64{0, 0.5, 1.3, 4}[rnd.IntN(4)]
	}
	switch family {
	case "bernoulli":
		o.Y = float64(rnd.IntN(2))
	case "binomial":
		o.Trials = float64(1 + rnd.IntN(6))
		o.Y = float64(rnd.IntN(1 + int(o.Trials)))
	case "poisson", "negbinomial":
		o.Y = float64(rnd.IntN(5) * rnd.IntN(400) / 3)
	case "gamma":
		o.Y = math.Exp(rnd.NormFloat64())
	default:
		o.Y = 2 + 3*rnd.NormFloat64()
	}
	return o
}
