package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
)

// merged is the product of parts with these statuses, by MergeFits.
func merged(t *testing.T, parts ...*kernels.Fit) *kernels.Fit {
	t.Helper()
	f, err := kernels.MergeFits(t.Context(), parts, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func saying(status string) *kernels.Fit {
	f := diagonalFit("a", 0.1, 0.5)
	f.Status, f.Converged = status, true
	if strings.Contains(status, "skipped") {
		f.Skipped = 3
	}
	return f
}

// What parts say is said of the product, once, with how many they were.
func TestMergedStatus(t *testing.T) {
	const twice = "shape 1 is wrong: give another; or learn it"
	for _, c := range []struct{ parts, want []string }{
		{[]string{"ok", "ok"}, []string{"ok"}},
		{[]string{"ok", ""}, []string{"ok"}},
		{[]string{twice}, []string{twice}},
		{[]string{"3 rows were skipped", "ok", "3 rows were skipped"}, []string{"6 rows were skipped"}},
		{[]string{"ok", kernels.WeightlessNote}, []string{"ok"}},
		{[]string{kernels.WeightlessNote, kernels.WeightlessNote}, []string{kernels.WeightlessNote}},
		{[]string{"the counts vary 2.5 times", "ok", "the counts vary 26.7 times", "the counts vary 9 times"},
			[]string{"3 of 4 parts say, one of them so: the counts vary 26.7 times"}},
		{[]string{twice, "b", twice}, []string{"2 of 3 parts say: " + twice, "1 of 3 parts says: b"}},
		{[]string{"b; " + twice, twice}, []string{"2 of 2 parts say: shape 1 is wrong: give another", "or learn it", "1 of 2 parts says: b"}},
		{[]string{`column "x1" does`, `column "x2" does`}, []string{`1 of 2 parts says: column "x1" does`, `1 of 2 parts says: column "x2" does`}},
	} {
		var parts []*kernels.Fit
		for _, s := range c.parts {
			parts = append(parts, saying(s))
		}
		if got := merged(t, parts...).Status; got != strings.Join(c.want, "; ") {
			t.Errorf("%q: %q, want %q", c.parts, got, c.want)
		}
	}
}

// A product of products counts the parts of both, and says what it says in one layer.
func TestMergedStatusTwice(t *testing.T) {
	said := func(n float64) *kernels.Fit { return saying(fmt.Sprintf("vary %v times; take another", n)) }
	a, b := merged(t, said(3), saying("ok")), merged(t, said(7), said(2))
	if got, want := merged(t, a, b).Status, "3 parts say, one of them so: vary 7 times; take another"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	all := said(0)
	for k := range 20 {
		all = merged(t, all, said(float64(k%5)))
	}
	if got, want := all.Status, "21 parts say, one of them so: vary 4 times; take another"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := merged(t, a).Status; got != a.Status {
		t.Errorf("one part: %q, want %q", got, a.Status)
	}
}

// However many things parts say, the status stays short and the same in any order and cut, and
// says how much it leaves out; a product has converged where all of its parts have.
func TestMergedStatusOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 1))
	var parts []*kernels.Fit
	for k := range 40 {
		f := saying(fmt.Sprintf("vary %d times; column %q is odd", k%7, string(rune('a'+k%20))))
		f.Converged = k != 17
		if k%9 == 0 {
			f.Status = "ok"
		}
		parts = append(parts, f)
	}
	want := merged(t, parts...)
	if n := len(want.Status); want.Converged || n > 600 || !strings.HasPrefix(want.Status, "35 of 40 parts say, one of them so: vary 6 times; ") || !strings.HasSuffix(want.Status, "; and 13 other sentences") {
		t.Errorf("%v %d %q", want.Converged, n, want.Status)
	}
	if f := merged(t, parts[:17]...); !f.Converged {
		t.Error("not converged")
	}
	for range 10 {
		rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		ms := []*kernels.Merger{nil, nil, nil}
		for k, f := range parts {
			var err error
			m := &ms[min(rnd.IntN(3), k)]
			if *m == nil {
				*m, err = kernels.NewMerger(f, nil)
			}
			if err == nil {
				err = (*m).Add(f, beliefsOf(f))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		m := ms[0].Clone()
		for _, o := range ms[1:] {
			if o == nil {
				continue
			}
			if err := m.Merge(o); err != nil {
				t.Fatal(err)
			}
		}
		f, _, err := m.Fit(t.Context(), nil)
		if err != nil || f.Status != want.Status || f.Converged {
			t.Fatalf("%v %q, want %q, %v", f.Converged, f.Status, want.Status, err)
		}
		if f, _, err = ms[0].Fit(t.Context(), nil); err != nil || f.Status == want.Status {
			t.Fatalf("a clone has changed what it is of: %q, %v", f.Status, err)
		}
	}
}

// Parts whose noises, or shapes, differ by more than chance and enough to matter are said to, in
// any order and also where parts were merged before.
func TestUnequal(t *testing.T) {
	part := func(name string, value, sd float64, n int64) *kernels.Fit {
		f := &kernels.Fit{Method: "laplace", Family: "gaussian", Link: "identity", Dispersion: 1, Shape: math.NaN(), Prior: kernels.DefaultPrior, Time: math.NaN(), N: n, Converged: true, Status: "ok",
			Beliefs: []kernels.Belief{{Feature: "x", Weight: kernels.Weight{Mean: 0.5, Variance: 0.01}}}}
		if name == kernels.LearntShape {
			f.Family, f.Link, f.Shape = "gamma", "log", value
		} else {
			f.Dispersion = value * value
		}
		f.Learn(name, value, sd)
		return f
	}
	noise := func(d float64, n int64) *kernels.Fit {
		return part(kernels.LearntDeviation, math.Sqrt(d), math.Sqrt(d/2/float64(n)), n)
	}
	shape := func(k float64, n int64) *kernels.Fit {
		return part(kernels.LearntShape, k, k*math.Sqrt(2/float64(n)), n)
	}
	for _, c := range []struct {
		fits []*kernels.Fit
		want string
	}{
		{[]*kernels.Fit{noise(1, 200), noise(10, 200)}, "dispersions from 0.99"},
		{[]*kernels.Fit{noise(1, 200), noise(2, 200)}, "parts have different noise"},
		{[]*kernels.Fit{noise(1, 200), noise(1.3, 200)}, "ok"},
		{[]*kernels.Fit{noise(1, 1e6), noise(1.1, 1e6)}, "ok"},
		{[]*kernels.Fit{noise(1, 4), noise(5, 4)}, "ok"},
		{[]*kernels.Fit{shape(1, 200), shape(8, 300)}, "parts have different shapes: those from 0.99"},
		{[]*kernels.Fit{shape(1, 200), shape(1.2, 200)}, "ok"},
		{[]*kernels.Fit{shape(1, 6), shape(3, 6)}, "ok"},
	} {
		for _, fits := range [][]*kernels.Fit{c.fits, {c.fits[1], c.fits[0]}} {
			f, err := kernels.MergeFits(t.Context(), fits, nil, nil)
			if err != nil || !strings.Contains(f.Status, c.want) || (c.want == "ok") != (f.Status == "ok") {
				t.Errorf("%v and %v: %v (%v), want %q", fits[0].Learnt, fits[1].Learnt, f, err, c.want)
			}
			m, err := kernels.NewMerger(fits[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range fits {
				if err := m.Add(f, beliefsOf(f)); err != nil {
					t.Fatal(err)
				}
			}
			g, _, err := m.Fit(t.Context(), nil)
			if err != nil || g.Status != f.Status {
				t.Errorf("%v and %v: a merger says %v (%v), want %q", fits[0].Learnt, fits[1].Learnt, g, err, f.Status)
			}
		}
	}
}
