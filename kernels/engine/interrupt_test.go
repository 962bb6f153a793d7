package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/stop"
)

var latencyTable = flag.String("latency", "", "cancel big fits of every engine at random moments and write a table of how long they go on to this file")

// long is a fit that would take seconds or more.
type long struct {
	name    string
	method  string // "" = gp
	n, p    int    // of the table
	small   [2]int // of the test
	nnz     int    // a row; 0 = dense
	link    string
	family  string
	classes int
	o       kernels.Options
	m       func(m *kernels.Model)
	gp      gp.Options
	update  bool // cancel the update, not the fit
	merge   bool // or the merging of two with other names
	// Of passes, what is cancelled: begin is New, update the rows, step the solve. They expand
	// around a fit with a full covariance, and those of lowrank go on from as many passes before.
	begin, step, around bool
	before              int
}

var longFits = []long{
	{name: "laplace, hessian full", method: "laplace", n: 30000, p: 1500, small: [2]int{4000, 800}, link: "logit", o: kernels.Options{Hessian: "full"}},
	{name: "laplace, n < p", method: "laplace", n: 4000, p: 7000, small: [2]int{1000, 1500}, link: "logit", o: kernels.Options{Hessian: "full"}},
	{name: "laplace, hessian lowrank", method: "laplace", n: 200000, p: 20000, small: [2]int{20000, 5000}, nnz: 40, link: "logit", o: kernels.Options{Hessian: "lowrank", Rank: 200}},
	{name: "laplace, hessian lowrank, rank 1000", method: "laplace", n: 50000, p: 20000, small: [2]int{8000, 5000}, nnz: 40, link: "logit", o: kernels.Options{Hessian: "lowrank", Rank: 1000}},
	{name: "laplace, hessian block", method: "laplace", n: 200000, p: 6000, small: [2]int{20000, 2000}, nnz: 40, link: "logit", o: kernels.Options{Hessian: "block"}},
	{name: "laplace, hessian diagonal", method: "laplace", n: 400000, p: 50000, small: [2]int{50000, 20000}, nnz: 40, link: "logit", o: kernels.Options{Hessian: "diagonal"}},
	{name: "laplace, prior variance learnt", method: "laplace", n: 30000, p: 800, small: [2]int{8000, 300}, link: "logit", o: kernels.Options{Hessian: "full", AutoPrior: true, PriorGroups: true}},
	{name: "lowrank, rank 1000", method: "lowrank", n: 20000, p: 20000, small: [2]int{4000, 3000}, nnz: 200, link: "logit", o: kernels.Options{Rank: 1000}},
	{name: "ep, full", method: "ep", n: 10000, p: 1500, small: [2]int{4000, 500}, link: "logit", o: kernels.Options{Covariance: "full"}},
	{name: "ep, full, n < p", method: "ep", n: 3000, p: 6000, small: [2]int{800, 1500}, link: "probit", o: kernels.Options{Covariance: "full"}},
	{name: "ep, diagonal", method: "ep", n: 400000, p: 50000, small: [2]int{50000, 20000}, nnz: 40, link: "logit"},
	{name: "ep, full, process noise", method: "ep", n: 20000, p: 500, small: [2]int{4000, 150}, link: "probit", o: kernels.Options{Covariance: "full"}, m: func(m *kernels.Model) { m.Noise = 1e-4 }},
	{name: "ep, diagonal, process noise", method: "ep", n: 300000, p: 5000, small: [2]int{50000, 5000}, nnz: 20, link: "probit", m: func(m *kernels.Model) { m.Noise = 1e-4 }},
	{name: "ep, low rank 300", method: "ep", n: 50000, p: 5000, small: [2]int{8000, 3000}, nnz: 40, link: "logit", o: kernels.Options{Covariance: "lowrank", Rank: 300}},
	{name: "ep, evidence", method: "ep", n: 50000, p: 300, small: [2]int{8000, 100}, link: "logit", o: kernels.Options{Covariance: "full", AutoPrior: true}},
	{name: "hmc", method: "hmc", n: 20000, p: 200, small: [2]int{5000, 100}, link: "logit"},
	{name: "hmc, diagonal metric", method: "hmc", n: 200000, p: 5000, small: [2]int{50000, 2000}, nnz: 20, link: "logit"},
	{name: "hmc, rank 300", method: "hmc", n: 20000, p: 3000, small: [2]int{5000, 1000}, nnz: 100, link: "logit", o: kernels.Options{Rank: 300}},
	{name: "softmax, hessian full", method: "softmax", n: 50000, p: 400, small: [2]int{5000, 200}, classes: 6, o: kernels.Options{Hessian: "full"}},
	{name: "softmax, n < p", method: "softmax", n: 1500, p: 5000, small: [2]int{600, 1000}, classes: 4, o: kernels.Options{Hessian: "diagonal"}},
	{name: "softmax, hessian lowrank", method: "softmax", n: 50000, p: 5000, small: [2]int{10000, 3000}, nnz: 20, classes: 6, o: kernels.Options{Hessian: "lowrank", Rank: 200}},
	{name: "softmax, prior variance learnt", method: "softmax", n: 20000, p: 200, small: [2]int{4000, 50}, classes: 6, o: kernels.Options{AutoPrior: true, PriorGroups: true}},
	{name: "gp", n: 9000, p: 4, small: [2]int{2500, 4}, link: "logit"},
	{name: "gp, parameters by evidence", n: 3000, p: 4, small: [2]int{1000, 4}, link: "logit", gp: gp.Options{AutoLengthscale: true, AutoSignalVariance: true, AutoMean: true}},
	{name: "adf, full", method: "adf", n: 20000, p: 2000, small: [2]int{20000, 500}, nnz: 20, link: "probit", o: kernels.Options{Covariance: "full"}, update: true},
	{name: "adf, full, 8,000 features", method: "adf", n: 3000, p: 8000, small: [2]int{3000, 1000}, nnz: 20, link: "probit", o: kernels.Options{Covariance: "full"}, update: true},
	{name: "adf, low rank 200", method: "adf", n: 50000, p: 5000, small: [2]int{50000, 2000}, nnz: 20, link: "probit", o: kernels.Options{Covariance: "lowrank", Rank: 200}, update: true},
	{name: "adf, diagonal", method: "adf", n: 1000000, p: 5000, small: [2]int{200000, 1000}, nnz: 20, link: "probit", o: kernels.Options{Covariance: "diagonal"}, update: true},
	{name: "adf, arrowhead", method: "adf", n: 300000, p: 5000, small: [2]int{60000, 1000}, nnz: 20, link: "probit", o: kernels.Options{Covariance: "arrowhead"}, update: true},
	{name: "adf, diagonal, many weights", method: "adf", n: 1000, p: 4000000, small: [2]int{1000, 400000}, nnz: 20, link: "probit", o: kernels.Options{Covariance: "diagonal"}},
	{name: "adf, arrowhead, many weights", method: "adf", n: 1000, p: 4000000, small: [2]int{1000, 400000}, nnz: 20, link: "probit", o: kernels.Options{Covariance: "arrowhead"}},
	{name: "adf, diagonal, many weights merged", method: "adf", n: 1000, p: 4000000, small: [2]int{1000, 400000}, nnz: 20, link: "probit", o: kernels.Options{Covariance: "diagonal"}, merge: true},
	{name: "adf, arrowhead, many weights merged", method: "adf", n: 1000, p: 4000000, small: [2]int{1000, 400000}, nnz: 20, link: "probit", o: kernels.Options{Covariance: "arrowhead"}, merge: true},
	{name: "laplace, rows of many names merged", method: "laplace", n: 1000, p: 4000000, small: [2]int{1000, 600000}, nnz: 20, link: "probit", merge: true},
	{name: "sequential_laplace, full", method: "sequential_laplace", n: 20000, p: 2000, small: [2]int{5000, 500}, nnz: 20, link: "logit", o: kernels.Options{Covariance: "full"}, update: true},
	{name: "variational, full", method: "variational", n: 20000, p: 2000, small: [2]int{5000, 500}, nnz: 20, link: "logit", o: kernels.Options{Covariance: "full"}, update: true},
	{name: "smooth", method: "smooth", n: 300000, p: 5000, small: [2]int{5000, 1000}, nnz: 20, link: "probit", m: func(m *kernels.Model) { m.Noise = 1e-4 }},
	{name: "laplace, integrated over prior variances", method: "laplace", n: 30000, p: 800, small: [2]int{2000, 200}, link: "logit", o: kernels.Options{Hessian: "full", AutoPrior: true, PriorGroups: true, Integrate: true}},
	{name: "pass of laplace, rows", method: "newton_state", n: 30000, p: 2000, small: [2]int{3000, 600}, link: "logit", update: true},
	{name: "pass of laplace, covariance of around", method: "newton_state", n: 1, p: 4000, small: [2]int{1, 1200}, link: "logit", o: kernels.Options{AutoPrior: true}, around: true, begin: true},
	{name: "pass of laplace, step", method: "newton_state", n: 100, p: 4000, small: [2]int{20, 700}, link: "logit", o: kernels.Options{AutoPrior: true}, step: true},
	{name: "pass of ep, rows", method: "newton_state", n: 30000, p: 2000, small: [2]int{3000, 400}, link: "logit", o: kernels.Options{Sites: "ep"}, around: true, update: true},
	{name: "pass of ep, step", method: "newton_state", n: 100, p: 4000, small: [2]int{20, 700}, link: "logit", o: kernels.Options{Sites: "ep", AutoPrior: true}, around: true, step: true},
	{name: "pass of lowrank, rows", method: "newton_state", n: 300000, p: 20000, small: [2]int{15000, 2000}, nnz: 40, link: "logit", o: kernels.Options{Sites: "lowrank", Rank: 200}, before: 1, update: true},
	{name: "pass of lowrank, directions", method: "newton_state", n: 2000, p: 50000, small: [2]int{400, 5000}, nnz: 40, link: "logit", o: kernels.Options{Sites: "lowrank", Rank: 300}, before: 2, begin: true},
	{name: "pass of lowrank, step", method: "newton_state", n: 2000, p: 50000, small: [2]int{300, 3000}, nnz: 40, link: "logit", o: kernels.Options{Sites: "lowrank", Rank: 250, PowerIterations: kernels.Given(0)}, before: 3, step: true},
	{name: "pass of lowrank, many names merged", method: "newton_state", n: 1000, p: 4000000, small: [2]int{1000, 400000}, nnz: 20, link: "logit", o: kernels.Options{Sites: "lowrank"}, merge: true},
	{name: "ekf, full, process noise chosen", method: "ekf", n: 20000, p: 500, small: [2]int{20000, 200}, nnz: 20, link: "logit", o: kernels.Options{AutoNoise: true}, update: true},
}

// prepare makes the rows and what runs long on them.
func (c *long) prepare(n, p int) (func(ctx context.Context) error, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	if c.method == "" {
		x, y := dense.New(n, p), make([]float64, n)
		for i := range y {
			for j := range p {
				x.Row(i)[j] = rng.NormFloat64()
			}
			y[i] = float64(rng.IntN(2))
		}
		l, err := lik.New(c.family, c.link, lik.Params{Dispersion: 1})
		return func(ctx context.Context) error {
			_, err := gp.Fit(ctx, l, x, y, nil, nil, nil, c.gp)
			return err
		}, err
	}
	m := &kernels.Model{Prior: kernels.DefaultPrior, Options: c.o, Params: lik.Params{Dispersion: 1}}
	if c.m != nil {
		c.m(m)
	}
	method, err := Find(c.method)
	if err != nil {
		return nil, err
	}
	if c.classes == 0 {
		if m.Lik, err = lik.New(c.family, c.link, m.Params); err != nil {
			return nil, err
		}
	}
	name := func(j int) string { return fmt.Sprintf("g%d=%d", j%40, j) }
	if c.around {
		m.Around = alone(m, p, name)
	}
	begun := func() (Fitter, error) {
		f, err := method.New(context.Background(), m)
		for j := 0; j < p && err == nil; j++ {
			_, err = f.Features().Add(name(j))
		}
		return f, err
	}
	f, err := begun()
	if err != nil {
		return nil, err
	}
	for k := range c.classes {
		if _, err := f.(rows.Labelled).Class(fmt.Sprint(k), false); err != nil {
			return nil, err
		}
	}
	var b kernels.Batch
	b.Reset()
	w := make([]float64, p)
	for j := range w {
		w[j] = rng.NormFloat64() / math.Sqrt(float64(p))
	}
	at := make([]int, c.nnz)
	for range n {
		b.Add(0, 1)
		s := 0.0
		if c.nnz == 0 {
			for j := range p {
				x := rng.NormFloat64()
				s += x * w[j]
				b.Add(uint32(j+1), x)
			}
		} else {
			for k := range at {
				at[k] = rng.IntN(p)
			}
			slices.Sort(at)
			for _, j := range slices.Compact(at) {
				x := rng.NormFloat64()
				s += x * w[j]
				b.Add(uint32(j+1), x)
			}
		}
		b.EndRow()
		y := 0.0
		if c.classes > 0 {
			y = float64(rng.IntN(c.classes))
		} else if s+rng.NormFloat64() > 0 {
			y = 1
		}
		b.Y = append(b.Y, y)
	}
	for range c.before {
		if err := f.Update(context.Background(), &b, false); err != nil {
			return nil, err
		}
		r, err := f.Fit(context.Background())
		if err != nil {
			return nil, err
		}
		if m.Before = r.Part.Bytes(); c.begin {
			continue
		}
		if f, err = begun(); err != nil {
			return nil, err
		}
	}
	if c.begin {
		return func(ctx context.Context) error { _, err := method.New(ctx, m); return err }, nil
	}
	if c.update {
		return func(ctx context.Context) error { return f.Clone().Update(ctx, &b, false) }, nil
	}
	if err := f.Update(context.Background(), &b, false); err != nil {
		return nil, err
	}
	if c.merge {
		o, err := method.New(context.Background(), m)
		for j := 0; j < p && err == nil; j++ {
			_, err = o.Features().Add("other" + name(j))
		}
		if err == nil {
			err = o.Update(context.Background(), &b, false)
		}
		return func(ctx context.Context) error { return f.Clone().Merge(ctx, o) }, err
	}
	if c.step {
		r, err := f.Fit(context.Background())
		return func(ctx context.Context) error { _, err := r.Part.Step(ctx, m); return err }, err
	}
	return func(ctx context.Context) error { _, err := f.Clone().Fit(ctx); return err }, nil
}

// alone is a fit of p independent weights in the full form.
func alone(m *kernels.Model, p int, name func(j int) string) *kernels.Fit {
	f := m.Complete().NewFit("laplace")
	f.N, f.Converged, f.Status = 1000, true, "ok"
	for j := range p {
		f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: name(j), Weight: kernels.Weight{Variance: 0.01}})
	}
	f.Beliefs = append(f.Beliefs, kernels.Belief{Feature: kernels.Intercept, Weight: kernels.Weight{Variance: 0.01}})
	slices.SortFunc(f.Beliefs, func(a, b kernels.Belief) int { return kernels.CompareNames(a.Feature, b.Feature) })
	f.Covariance = kernels.Covariance{Form: gauss.Full, Values: make([]float64, (p+1)*(p+2)/2)}
	for j := range p + 1 {
		f.Covariance.Values[j*(j+3)/2] = 0.1
	}
	return f
}

// cancelled is how long fit goes on after it is cancelled at a moment, on the clock and
// in processor time; an error where it ended before.
func cancelled(fit func(context.Context) error, after time.Duration) (took, cpu time.Duration, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var at time.Time
	var used time.Duration
	stops := func() { at, used = time.Now(), cpuTime(); cancel() }
	var t *time.Timer
	if after > 0 {
		t = time.AfterFunc(after, stops)
	} else {
		stops()
	}
	err = fit(ctx)
	end, spent := time.Now(), cpuTime()
	if t != nil && t.Stop() {
		return 0, 0, fmt.Errorf("%w %v: %v", errBefore, after, err)
	}
	<-ctx.Done()
	took = end.Sub(at)
	if err == nil && after > 0 && took < 200*time.Millisecond {
		return took, 0, fmt.Errorf("%w %v and a moment", errBefore, after)
	}
	if !errors.Is(err, context.Canceled) || !errors.Is(err, stop.ErrInterrupted) {
		return took, 0, fmt.Errorf("cancelled after %v: went on for %v: %v", after, took, err)
	}
	return took, spent - used, nil
}

var errBefore = errors.New("ended before")

// A cancelled context ends every engine at any moment, and a time limit too.
func TestInterrupt(t *testing.T) {
	moments := []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond}
	if testing.Short() {
		moments = moments[1:2]
	}
	for _, c := range longFits {
		t.Run(c.name, func(t *testing.T) {
			fit, err := c.prepare(c.small[0], c.small[1])
			if err != nil {
				t.Fatal(err)
			}
			for _, after := range moments {
				took, _, err := cancelled(fit, after)
				if errors.Is(err, errBefore) {
					t.Log(err)
				} else if err != nil {
					t.Error(err)
				}
				if took > 2*time.Second { // 0.2 s when nothing else runs
					t.Errorf("went on for %v when cancelled after %v", took, after)
				}
			}
		})
	}
}

func TestLatencyTable(t *testing.T) {
	if *latencyTable == "" {
		t.Skip("-latency FILE")
	}
	out, err := os.Create(*latencyTable)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	fmt.Fprintln(out, "| fit | rows x features | cancelled | median | longest | processor time, longest |\n|---|---|---:|---:|---:|---:|")
	rng := rand.New(rand.NewPCG(3, 3))
	for _, c := range longFits {
		fit, err := c.prepare(c.n, c.p)
		if err != nil {
			t.Fatal(c.name, err)
		}
		var took, cpu []time.Duration
		whole := 3 * time.Second
		for range 6 {
			after := time.Duration(rng.Float64() * float64(whole))
			d, used, err := cancelled(fit, after)
			if err != nil {
				t.Log(c.name, err)
				whole = min(whole, after)
				continue
			}
			took, cpu = append(took, d), append(cpu, used)
		}
		slices.Sort(took)
		if len(took) == 0 {
			t.Errorf("%s: nothing to cancel", c.name)
			continue
		}
		ms := func(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000) }
		fmt.Fprintf(out, "| %s | %d x %d | %d times | %s | %s | %s |\n", c.name, c.n, c.p, len(took), ms(took[len(took)/2]), ms(took[len(took)-1]), ms(slices.Max(cpu)))
		t.Log(c.name, took, cpu)
	}
}
