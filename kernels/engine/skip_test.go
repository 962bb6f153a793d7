package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// skipRow is a row of TestSkippedRows.
type skipRow struct {
	x, z, y, w, o, t float64
	g                string
	bad              bool // may be
}

// skipRows are rows of a family, among them some that may be bad.
func skipRows(rng *rand.Rand, family string, n int, nulls bool) (out []skipRow) {
	at := 0.0
	for i := range n {
		at += rng.Float64()
		r := skipRow{x: 3 + 2*rng.NormFloat64(), z: rng.NormFloat64(), w: 1, t: at, g: fmt.Sprint("k", i%3)}
		s := 0.3*r.x - 0.5*r.z
		switch family {
		case "bernoulli":
			r.y = float64(rng.IntN(2))
		case "poisson", "negbinomial":
			r.y = float64(rng.IntN(6))
		case "gamma":
			r.y = math.Exp(0.2*s) * rng.ExpFloat64()
		default:
			r.y = 1e3 * (s + rng.NormFloat64())
		}
		if rng.IntN(8) == 0 {
			r.w = 0.5 * float64(rng.IntN(3))
		}
		if nulls && rng.IntN(4) == 0 {
			r.x = math.NaN()
		}
		if out = append(out, r); i > 1 && rng.IntN(4) == 0 {
			b := r
			b.bad = true
			b.t += rng.Float64() / 10
			switch rng.IntN(6) {
			case 0:
				b.x = 1e300
			case 1:
				b.z, b.t = -1e300, at+1000
			case 2:
				b.o = 1e308
			case 3:
				b.y = map[string]float64{"bernoulli": 0.5, "poisson": -1, "negbinomial": 1.5, "gamma": -2}[family]
				b.x = 7e5
			case 4:
				b.o, b.w = 1e5, 1
			case 5:
				b.t = math.Inf(1)
			}
			out = append(out, b)
		}
	}
	return out
}

// skipTable is the table of rs.
func skipTable(rs []skipRow, times bool) *rows.Table {
	col := func(of func(r *skipRow) float64) []float64 {
		x := make([]float64, len(rs))
		for i := range rs {
			x[i] = of(&rs[i])
		}
		return x
	}
	g := make([]string, len(rs))
	for i := range rs {
		g[i] = rs[i].g
	}
	x := rows.Numbers("x", col(func(r *skipRow) float64 { return r.x }))
	t := &rows.Table{X: rows.Fields(x, rows.Numbers("z", col(func(r *skipRow) float64 { return r.z })), rows.Texts("g", g)),
		Y: rows.Numbers("y", col(func(r *skipRow) float64 { return r.y })), Weight: rows.Numbers("w", col(func(r *skipRow) float64 { return r.w })),
		Offset: rows.Numbers("o", col(func(r *skipRow) float64 { return r.o }))}
	if times {
		t.Time = rows.Numbers("t", col(func(r *skipRow) float64 { return r.t }))
	}
	return t
}

// A row that is left out leaves a stream as it was, to the last bit, whatever is wrong with it: the
// fit is that of the other rows.
func TestSkippedRows(t *testing.T) {
	kerneltest.Slow(t)
	ctx := context.Background()
	sets := map[string]func(*option.Settings){
		"default": func(s *option.Settings) {},
		"bare":    func(s *option.Settings) { s.Prior = kernels.Prior{Variance: 2, InterceptVariance: 3} },
		"noise":   func(s *option.Settings) { s.Noise = 0.1 },
		"bare noise": func(s *option.Settings) {
			s.Prior, s.Noise = kernels.Prior{Variance: 2, InterceptVariance: 3}, 0.1
		},
		"autonoise": func(s *option.Settings) { s.Options.AutoNoise = true },
		"forgets":   func(s *option.Settings) { s.Forgetting = 0.98 },
		"full":      func(s *option.Settings) { s.Options.Covariance = "full" },
		"diagonal":  func(s *option.Settings) { s.Options.Covariance = "diagonal" },
		"arrowhead": func(s *option.Settings) { s.Options.Covariance = "arrowhead" },
		"lowrank":   func(s *option.Settings) { s.Options.Covariance, s.Options.Rank = "lowrank", 2 },
		"indicator": func(s *option.Settings) { s.Options.Missing = "indicator" },
		"fixed": func(s *option.Settings) {
			s.Priors = []kernels.Belief{{Feature: "x", Weight: kernels.Weight{Mean: 0.25}}}
		},
		"no intercept": func(s *option.Settings) { s.NoIntercept = true },
	}
	tried := map[string]int{}
	for _, m := range engine.Methods() {
		if !m.Streams {
			continue
		}
		for _, family := range []string{"gaussian", "studentt", "bernoulli", "poisson", "negbinomial", "gamma"} {
			for name, set := range sets {
				for k, times := range []bool{false, true} {
					rng := rand.New(rand.NewPCG(uint64(k), uint64(len(family))))
					nulls := rng.IntN(2) == 0 || name == "indicator"
					rs := skipRows(rng, family, 45, nulls)
					model := func() *kernels.Model {
						s := option.Defaults()
						s.Family, s.OnError = family, option.Skip
						set(s)
						p, err := m.Model(s, times, false)
						if err != nil {
							return nil
						}
						return p
					}
					p := model()
					if p == nil {
						continue
					}
					// feed returns the fit of the rows in blocks, and whether each was learnt.
					feed := func(rs []skipRow, block int) (*kernels.Fit, []skipRow) {
						f, err := m.New(ctx, p)
						if err != nil {
							return nil, nil
						}
						src, err := skipTable(rs, times).Source()
						if err != nil {
							t.Fatal(err)
						}
						var good []skipRow
						skipped := int64(0)
						for lo := 0; lo < len(rs); lo += block {
							if _, err := src.Feed(ctx, f, p, option.Skip, lo, min(lo+block, len(rs)), &kernels.Batch{}); err != nil {
								t.Fatalf("%s %s %s: %v", m.Name, family, name, err)
							}
							if block == 1 {
								r, err := f.Clone().Fit(ctx)
								if err != nil {
									return nil, nil
								}
								if r.Skipped == skipped {
									good = append(good, rs[lo])
								}
								skipped = r.Skipped
							}
						}
						r, err := f.Fit(ctx)
						if err != nil {
							return nil, good
						}
						return r.Fit, good
					}
					_, good := feed(rs, 1)
					if good == nil || len(good) == len(rs) {
						continue
					}
					tried[m.Name]++
					for _, block := range []int{1, 4, len(rs)} {
						got, _ := feed(rs, block)
						want, _ := feed(good, block)
						if (got == nil) != (want == nil) {
							t.Errorf("%s %s %s times=%v block %d: only one has a fit", m.Name, family, name, times, block)
							continue
						}
						if got == nil {
							continue
						}
						if got.Skipped != int64(len(rs)-len(good)) {
							t.Errorf("%s %s %s times=%v block %d: %d skipped, want %d", m.Name, family, name, times, block, got.Skipped, len(rs)-len(good))
							continue
						}
						got.Status = strings.Join(slices.DeleteFunc(strings.Split(got.Status, "; "), func(s string) bool { return s == kernels.SkippedNote(got.Skipped) }), "; ")
						got.Status = kernels.Join(got.Status, "")
						got.Skipped = 0
						form := "%+v"
						if block < len(rs) { // batches end elsewhere, where a full covariance is rounded
							form = "%+.8v"
						}
						if a, b := fmt.Sprintf(form, *got), fmt.Sprintf(form, *want); a != b {
							t.Errorf("%s %s %s times=%v block %d:\n%s\nwithout the rows that are left out\n%s", m.Name, family, name, times, block, a, b)
						}
					}
				}
			}
		}
	}
	for _, m := range engine.Methods() {
		if m.Streams && tried[m.Name] == 0 {
			t.Errorf("%s: no bad row", m.Name)
		}
	}
}
