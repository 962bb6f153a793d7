package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// lowRankPasses fits rows of a table in parts by passes of lowrank, each around the merged state
// of the one before, and returns how many passes it took. Every state goes through bytes.
func lowRankPasses(t *testing.T, options []any, tab *rows.Table, parts int) (*kernels.Fit, int) {
	t.Helper()
	m, err := Find("newton_state")
	if err != nil {
		t.Fatal(err)
	}
	var before []byte
	for k := range 60 {
		given := append([]any{"method", "lowrank"}, options...)
		if before != nil {
			given = append(given, "around", before)
		}
		s, err := option.For("newton_state").Decode(with(given...))
		if err != nil {
			t.Fatal(err)
		}
		model, err := m.Model(s, false, tab.Trials != nil)
		if err != nil {
			t.Fatal(err)
		}
		var whole Part
		n := tab.Len()
		for i := range parts {
			f, err := m.New(context.Background(), model)
			if err != nil {
				t.Fatal(err)
			}
			src, err := tab.Source()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := src.Feed(context.Background(), f, model, option.Skip, i*n/parts, (i+1)*n/parts, &kernels.Batch{}); err != nil {
				t.Fatal(err)
			}
			r, err := f.Fit(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			p, err := DecodePart(r.Part.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if whole == nil {
				whole = p
			} else if err := whole.Join(context.Background(), p); err != nil {
				t.Fatal(err)
			}
		}
		step, err := whole.Step(context.Background(), model)
		if err != nil {
			t.Fatal(err)
		}
		if step.Fit.Converged {
			return step.Fit, k + 1
		}
		before = whole.Bytes()
	}
	t.Fatal("no convergence in 60 passes")
	return nil, 0
}

// lowRankPart is the pass over rows [lo, hi) around a state, nil for the first one, of rows of
// which every 50th is a bad one.
func lowRankPart(t *testing.T, tab *rows.Table, before []byte, lo, hi int) (Part, *kernels.Model) {
	t.Helper()
	m, err := Find("newton_state")
	if err != nil {
		t.Fatal(err)
	}
	given := []any{"method", "lowrank", "rank", 5, "power_iterations", 1, "on_error", "skip"}
	if before != nil {
		given = append(given, "around", before)
	}
	s, err := option.For("newton_state").Decode(with(given...))
	if err != nil {
		t.Fatal(err)
	}
	model, err := m.Model(s, false, false)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.New(context.Background(), model)
	if err != nil {
		t.Fatal(err)
	}
	src, err := tab.Source()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Feed(context.Background(), f, model, option.Skip, lo, hi, &kernels.Batch{}); err != nil {
		t.Fatal(err)
	}
	r, err := f.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r.Part, model
}

// badRows are rows of which every 50th has no response of its family.
func badRows() *rows.Table {
	t := wideRows("bernoulli", 600, 40, false)
	var y []float64
	for i := range t.Len() {
		if y = append(y, float64(i%3/2)); i%50 == 7 {
			y[i] = 3
		}
	}
	t.Y = rows.Numbers("y", y)
	return t
}

// Parts merge to the whole in any order and grouping, at every stage, and a merge does not change
// its source; one without rows changes nothing.
func TestLowRankPassMerge(t *testing.T) {
	tab := badRows()
	cuts := []int{0, 7, 8, 250, 600} // the second part is a bad row
	var before []byte
	for stage := range 8 {
		join := func(order ...int) Part {
			all, _ := lowRankPart(t, tab, before, 0, 0)
			for _, k := range order {
				p, _ := lowRankPart(t, tab, before, cuts[k], cuts[k+1])
				was := string(p.Bytes())
				c := all.Copy()
				if err := all.Join(context.Background(), p); err != nil {
					t.Fatal(err)
				}
				if rows, _ := c.Counts(); string(p.Bytes()) != was || rows != 0 && string(c.Bytes()) == string(all.Bytes()) {
					t.Error("a merge changed its source, or a copy")
				}
			}
			return all
		}
		left, right := join(3, 1), join(0, 2)
		if err := right.Join(context.Background(), left); err != nil {
			t.Fatal(err)
		}
		whole, model := lowRankPart(t, tab, before, 0, 600)
		step, err := whole.Step(context.Background(), model)
		if err != nil {
			t.Fatal(err)
		}
		want := step.Fit
		for _, p := range []Part{right, join(3, 2, 1, 0), join(0, 1, 2, 3)} {
			step, err := p.Step(context.Background(), model)
			if err != nil {
				t.Fatal(err)
			}
			got := step.Fit
			if got.Skipped != 12 || got.N != 588 || got.Converged != want.Converged {
				t.Fatalf("stage %d: %d rows, %d skipped", stage, got.N, got.Skipped)
			}
			for i, b := range want.Beliefs {
				kerneltest.Close(t, "mean of "+b.Feature, got.Beliefs[i].Mean, b.Mean, kerneltest.Tol{Abs: 1e-8 * math.Sqrt(b.Variance)})
				kerneltest.Close(t, "variance of "+b.Feature, got.Beliefs[i].Variance, b.Variance, kerneltest.Tol{Rel: 1e-9})
			}
		}
		before = right.Bytes()
	}
}

// Bytes that were cut or changed are refused; those with a right sum are read or refused, and
// whatever they say, solving, merging and going on end with a fit or an error.
func TestDamagedParts(t *testing.T) {
	tab := badRows()
	rnd := rand.New(rand.NewPCG(5, 5))
	states := map[string][]byte{}
	var before []byte
	for stage := range 7 {
		p, _ := lowRankPart(t, tab, before, 0, 600)
		before = p.Bytes()
		states[fmt.Sprint("stage ", stage)] = before
	}
	f := door(t, "newton_state", nil)
	feed(t, f, 0, 100, 100)
	r, err := f.Fit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	states["laplace"] = r.Part.Bytes()
	read := 0
	for what, b := range states {
		for _, bad := range [][]byte{nil, b[:10], b[:len(b)/2], b[:len(b)-1], append(slices.Clone(b), 0)} {
			if _, err := DecodePart(bad); err == nil {
				t.Errorf("%s: %d of %d bytes: no error", what, len(bad), len(b))
			}
		}
		for range 400 {
			bad := slices.Clone(b)
			for range 1 + rnd.IntN(3) {
				at := rnd.IntN(len(bad) - 4)
				switch rnd.IntN(3) {
				case 0:
					bad[at] ^= byte(1 << rnd.IntN(8))
				case 1:
					copy(bad[at:len(bad)-4], []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f}) // NaN, or a large count
				default:
					copy(bad[at:len(bad)-4], bad[rnd.IntN(at+1):])
				}
			}
			if _, err := DecodePart(bad); err == nil && !slices.Equal(bad, b) {
				t.Errorf("%s: changed bytes are read", what)
			}
			binary.LittleEndian.PutUint32(bad[len(bad)-4:], crc32.ChecksumIEEE(bad[:len(bad)-4]))
			p, err := DecodePart(bad)
			if err != nil {
				continue
			}
			read++
			other, model := lowRankPart(t, tab, nil, 0, 10)
			if step, err := p.Step(context.Background(), model); err == nil && step.Fit.Check() != nil {
				t.Errorf("%s: %v", what, step.Fit.Check())
			}
			_ = p.Copy().Join(context.Background(), p)
			_ = other.Join(context.Background(), p)
			own := *model
			own.Before = bad
			m, _ := Find("newton_state")
			_, _ = m.New(context.Background(), &own)
		}
	}
	if read < 100 {
		t.Errorf("%d changed states were read: too few to tell", read)
	}
}

// wideRows are n rows of a text of many levels, two of few and two numbers, whose response is of
// the family.
func wideRows(family string, n, levels int, weighted bool) *rows.Table {
	rnd := rand.New(rand.NewPCG(8, uint64(n)))
	var u, v, y, w, o, trials []float64
	var a, b, c []string
	effect := make([]float64, levels)
	for k := range effect {
		effect[k] = rnd.NormFloat64()
	}
	for range n {
		i := int(math.Pow(rnd.Float64(), 2) * float64(levels))
		u, v = append(u, rnd.NormFloat64()*3+50), append(v, rnd.ExpFloat64()*1e-3)
		a, b, c = append(a, fmt.Sprint(i)), append(b, fmt.Sprint(rnd.IntN(3))), append(c, fmt.Sprint(rnd.IntN(12)))
		s := 0.5*effect[i] + 0.2*(u[len(u)-1]-50) - 200*v[len(v)-1]
		p := 1 / (1 + math.Exp(-s))
		r := 0.0
		switch family {
		case "bernoulli":
			if rnd.Float64() < p {
				r = 1
			}
		case "binomial":
			trials = append(trials, 7)
			for range 7 {
				if rnd.Float64() < p {
					r++
				}
			}
		case "poisson":
			for x := rnd.ExpFloat64(); x < 40*math.Exp(s); x += rnd.ExpFloat64() {
				r++
			}
		default:
			r = 1000 + 30*(s+rnd.NormFloat64())
		}
		y, w, o = append(y, r), append(w, 0.5+rnd.Float64()), append(o, 0.1*rnd.NormFloat64())
	}
	columns := []*rows.Slice{rows.Numbers("u", u), rows.Numbers("v", v), rows.Texts("a", a), rows.Texts("b", b), rows.Texts("c", c)}
	if family == "far" { // from 0, which a posterior without covariances does not centre
		far := make([]float64, n)
		for i := range far {
			far[i] = 1e7 + 10*u[i]*v[i]
		}
		columns = append(columns, rows.Numbers("far", far))
	}
	t := &rows.Table{X: rows.Fields(columns...), Y: rows.Numbers("y", y)}
	if weighted {
		t.Weight, t.Offset = rows.Numbers("weight", w), rows.Numbers("offset", o)
	}
	if trials != nil {
		t.Trials = rows.Numbers("trials", trials)
	}
	return t
}

// Passes end at the low-rank fit of the rows kept.
func TestPassesLowRank(t *testing.T) {
	kerneltest.Slow(t)
	for _, c := range []struct {
		family, link string
		levels       int
		weighted     bool
		more         []any
	}{
		{"bernoulli", "logit", 200, false, nil},
		{"bernoulli", "probit", 200, true, nil},
		{"binomial", "logit", 60, true, []any{"power_iterations", 0}},
		{"poisson", "log", 90, false, []any{"standardize", false, "prior_variance", 0.7}},
		{"poisson", "log", 90, true, []any{"oversample", 0}},
		{"gaussian", "identity", 700, false, nil},
		{"bernoulli", "logit", 700, true, nil},
		{"far", "identity", 700, false, []any{"dispersion", 2000.0}},
		{"gaussian", "identity", 100, true, []any{"dispersion", 800.0}},
		{"bernoulli", "logit", 4, false, nil}, // every direction is kept
		{"bernoulli", "logit", 150, false, []any{"intercept", false, "prior_variance", map[string]any{"a": 0.5}}},
	} {
		what := fmt.Sprint(c)
		tab := wideRows(c.family, 3000, c.levels, c.weighted)
		options := append([]any{"family", strings.Replace(c.family, "far", "gaussian", 1), "link", c.link, "rank", 15}, c.more...)
		s, err := option.For("lowrank").Decode(with(append([]any{"tol", 1e-10}, options...)...))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Fit(context.Background(), "lowrank", s, tab)
		if err != nil {
			t.Fatal(what, err)
		}
		got, k := lowRankPasses(t, options, tab, 3)
		want := r.Fit
		if rank, _, _ := strings.Cut(want.Status, ","); !strings.HasPrefix(got.Status, rank) {
			t.Errorf("%s: %d passes: status %q, want %q", what, k, got.Status, want.Status)
		}
		far, wide := 0.0, 0.0
		for i, b := range want.Beliefs {
			if got.Beliefs[i].Feature != b.Feature {
				t.Fatalf("%s: feature %s, want %s", what, got.Beliefs[i].Feature, b.Feature)
			}
			far = max(far, math.Abs(got.Beliefs[i].Mean-b.Mean)/math.Sqrt(b.Variance))
			wide = max(wide, math.Abs(got.Beliefs[i].Variance/b.Variance-1))
		}
		// A dispersion is searched by values of the evidence alone, to 1e-6 of it.
		tol := 1e-8
		if learnt := len(want.Learnt) > 0; learnt {
			tol = 1e-6
		}
		if far > tol || wide > tol || got.N != want.N || got.Covariance.Form != want.Covariance.Form {
			t.Errorf("%s: means are %.2g deviations apart, variances %.2g", what, far, wide)
		}
		kerneltest.Close(t, what+": log evidence", got.LogEvidence, want.LogEvidence, kerneltest.Tol{Rel: 1e-9})
		kerneltest.Close(t, what+": dispersion", got.Dispersion, want.Dispersion, kerneltest.Tol{Rel: 1e-5})
	}
}
