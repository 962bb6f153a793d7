//go:build unix

// Command scale measures what passes over rows cost, makes of it the cost model of
// docs/scale.md, holds that against rounds of 1, 2, 4 and 8 simulated workers, and says what
// large jobs would need. A worker is a state of its own that goes through bytes, as between
// machines; workers run one after the other, so that their processor times are their own.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/option"
)

// shape is what rows are like: dense columns of numbers, or columns of levels, so many each.
type shape struct {
	columns, levels int // levels 0: numbers
}

func (s shape) weights() int { return 1 + s.columns*max(s.levels, 1) }

func (s shape) String() string {
	if s.levels == 0 {
		return fmt.Sprintf("%d numbers", s.columns)
	}
	return fmt.Sprintf("%d of %d levels", s.columns, s.levels)
}

func cpu() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		log.Fatal(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// timed is the processor time of f, the least of some runs.
func timed(runs int, f func()) float64 {
	best := 0.0
	for k := range runs {
		runtime.GC()
		began := cpu()
		f()
		if t := cpu() - began; k == 0 || t < best {
			best = t
		}
	}
	return best
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func model() *kernels.Model {
	return must(must(engine.Find("newton_state")).Model(option.Defaults(), false, false))
}

// fitter is a worker without rows that knows the features.
func (s shape) fitter(m *kernels.Model) engine.Fitter {
	f := must(must(engine.Find("newton_state")).New(context.Background(), m))
	s.features(f.Features())
	return f
}

// features adds those of the columns to d, and returns their numbers.
func (s shape) features(d *kernels.Dict) []uint32 {
	var names []string
	for c := range s.columns {
		names = append(names, fmt.Sprintf("c%d", c))
	}
	if s.levels == 0 {
		d.Use(kernels.NewColumns(nil, names))
	} else {
		d.Use(kernels.NewColumns(names, nil))
	}
	id := make([]uint32, s.columns*max(s.levels, 1))
	for k := range id {
		name := names[k/max(s.levels, 1)]
		if s.levels > 0 {
			name += fmt.Sprintf("=%d", k%s.levels)
		}
		id[k] = must(d.Add(name))
	}
	return id
}

// rows are batches of n rows.
func (s shape) rows(n int) []*kernels.Batch {
	const size = 2048
	r := rand.New(rand.NewPCG(uint64(s.columns), uint64(s.levels)))
	id := s.features(s.fitter(model()).Features())
	var out []*kernels.Batch
	for at := 0; at < n; at += size {
		b := &kernels.Batch{}
		b.Reset()
		if s.levels == 0 {
			b.Shared = append([]uint32{0}, id...)
		}
		for range min(size, n-at) {
			switch {
			case s.levels == 0:
				b.Value = append(b.Value, 1)
				for range s.columns {
					b.Value = append(b.Value, r.NormFloat64())
				}
			default:
				b.Add(0, 1)
				for c := range s.columns {
					b.Add(id[c*s.levels+r.IntN(s.levels)], 1)
				}
				b.EndRow()
			}
			b.Y = append(b.Y, float64(r.IntN(2)))
		}
		out = append(out, b)
	}
	return out
}

// pass is a worker's state of batches.
func (s shape) pass(m *kernels.Model, batches []*kernels.Batch) *laplace.Pass {
	f := s.fitter(m)
	for _, b := range batches {
		if err := f.Update(context.Background(), b, false); err != nil {
			log.Fatal(err)
		}
	}
	return must(f.Fit(context.Background())).Pass
}

// costs are seconds of a row, of a state's merge (decoding it included) and of a step, and the
// bytes of a state.
type costs struct{ row, merge, solve, bytes float64 }

func (s shape) measure(n int) (c costs) {
	m := model()
	batches := s.rows(n)
	c.row = timed(3, func() { s.pass(m, batches) }) / float64(n)
	state := s.pass(m, batches)
	bytes := state.Bytes()
	c.bytes = float64(len(bytes))
	c.merge = timed(3, func() {
		p := must(laplace.DecodePass(state.Bytes()))
		if err := state.Clone().Merge(context.Background(), p); err != nil {
			log.Fatal(err)
		}
	})
	c.solve = timed(2, func() { must(state.Solve(context.Background(), m)) })
	return c
}

// law is the cost model: coefficients that shapes were measured for.
type law struct {
	row, entry, pair float64 // seconds of a row, its entries, their pairs
	number, square   float64 // of a row of numbers
	merge, solve     float64 // of p², p³
	bytes            float64 // of p²
}

func learn() law {
	var l law
	few, some, many := shape{4, 50}, shape{12, 50}, shape{36, 20}
	a, b, c := few.measure(100_000), some.measure(50_000), many.measure(20_000)
	// row + k entry + k² pair through three points, k entries with the intercept
	x, y := [3]float64{5, 13, 37}, [3]float64{a.row, b.row, c.row}
	d1, d2 := (y[1]-y[0])/(x[1]-x[0]), (y[2]-y[1])/(x[2]-x[1])
	l.pair = (d2 - d1) / (x[2] - x[0])
	l.entry = d1 - l.pair*(x[0]+x[1])
	l.row = y[0] - l.entry*x[0] - l.pair*x[0]*x[0]
	thin, wide := shape{20, 0}.measure(50_000), shape{200, 0}.measure(10_000)
	l.square = (wide.row - thin.row*200/20) / (201*201 - 21*21*10)
	l.number = (thin.row - l.square*21*21) / 21
	p := float64(many.weights())
	l.merge, l.solve, l.bytes = c.merge/p/p, c.solve/p/p/p, c.bytes/p/p
	return l
}

// of is the seconds of a row with so many columns.
func (l *law) of(s shape) float64 {
	k := float64(s.columns + 1)
	if s.levels == 0 {
		return l.number*k + l.square*k*k
	}
	return l.row + l.entry*k + l.pair*k*k
}

// round runs workers over parts of the rows: the longest of them, what merging and the step take,
// and the bytes of their states.
func (s shape) round(batches []*kernels.Batch, workers int) (longest, end, bytes float64) {
	m := model()
	states := make([][]byte, workers)
	for w := range workers {
		part := batches[w*len(batches)/workers : (w+1)*len(batches)/workers]
		longest = max(longest, timed(2, func() { states[w] = s.pass(m, part).Bytes() }))
		bytes += float64(len(states[w]))
	}
	end = timed(2, func() {
		all := must(laplace.DecodePass(states[0]))
		for _, b := range states[1:] {
			if err := all.Merge(context.Background(), must(laplace.DecodePass(b))); err != nil {
				log.Fatal(err)
			}
		}
		must(all.Solve(context.Background(), m))
	})
	return longest, end, bytes
}

func main() {
	log.SetFlags(0)
	runtime.GOMAXPROCS(1)
	began := time.Now()
	l := learn()
	fmt.Printf("seconds of a row of k entries: %.2g + %.2g k + %.2g k²; of k numbers: %.2g k + %.2g k²\n", l.row, l.entry, l.pair, l.number, l.square)
	fmt.Printf("p weights: a state %.2g p² bytes, its merge %.2g p² s, a step %.2g p³ s\n\n", l.bytes, l.merge, l.solve)
	fmt.Println("| rows | weights | workers | longest worker, s | model | merge and step, s | model | MB moved | model |\n|---|---|---|---|---|---|---|---|---|")
	for _, c := range []struct {
		shape
		n int
	}{{shape{6, 80}, 400_000}, {shape{50, 0}, 200_000}, {shape{25, 40}, 60_000}} {
		batches := c.rows(c.n)
		p := float64(c.weights())
		for _, w := range []int{1, 2, 4, 8} {
			longest, end, bytes := c.round(batches, w)
			part := float64((len(batches)+w-1)/w*2048) / float64(len(batches)*2048) * float64(c.n)
			fmt.Printf("| %d of %v | %.0f | %d | %.3f | %.3f | %.3f | %.3f | %.2f | %.2f |\n", c.n, c.shape, p, w, longest, part*l.of(c.shape), end, float64(w)*l.merge*p*p+l.solve*p*p*p, bytes/1e6, float64(w)*l.bytes*p*p/1e6)
		}
	}
	fmt.Println("\n| job | processor time a round, s | of one of 64 | merge and step, s | state, MB | moved a round, MB |\n|---|---|---|---|---|---|")
	for _, j := range []struct {
		name string
		n, p float64
		shape
	}{{"1e9 rows of 50 numbers", 1e9, 51, shape{50, 0}}, {"1e10 rows of 40 levels, hashed to 5,000 weights", 1e10, 5000, shape{40, 125}}} {
		total, state := j.n*l.of(j.shape), l.bytes*j.p*j.p/1e6
		fmt.Printf("| %s | %.0f | %.0f | %.1f | %.2f | %.0f |\n", j.name, total, total/64, 64*l.merge*j.p*j.p+l.solve*j.p*j.p*j.p, state, 2*64*state)
	}
	fmt.Println(strings.TrimSpace(fmt.Sprintf("\n%.0f s in all", time.Since(began).Seconds())))
}
