package adf

import (
	"runtime"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stream"
)

// A state of few weights that shares its dictionary is one allocation of a few hundred
// bytes, learns without another, and says how large it is.
func TestSmallState(t *testing.T) {
	empty := state(t, &kernels.Model{Lik: like(t, "", "probit", 1), Prior: kernels.DefaultPrior})
	names := empty.Clone().Features()
	b := kernels.Batch{Shared: []uint32{0}}
	for _, name := range []string{"a", "b"} {
		id, err := names.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Shared = append(b.Shared, id)
	}
	for i := range 4 {
		b.Value, b.Y = append(b.Value, 1, float64(i), 0.5), append(b.Y, float64(i&1))
	}
	const n = 10_000
	groups := make([]*stream.State, n)
	fill := func() {
		for i := range groups {
			groups[i] = empty.Clone()
			if !groups[i].Share(names) {
				t.Fatal("a state without rows does not share")
			}
			if err := groups[i].Update(t.Context(), &b, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a := testing.AllocsPerRun(1, fill) / n; a > 1.01 {
		t.Errorf("%.2f allocations a state", a)
	}
	clear(groups)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	fill()
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := float64(after.HeapAlloc-before.HeapAlloc) / n
	kerneltest.Close(t, "size", float64(groups[0].Size()), held, kerneltest.Tol{Rel: 0.2})
	if held > 400 {
		t.Errorf("a state takes %.0f bytes", held)
	}

	// What a state learns beyond is its own.
	own := groups[1].Clone()
	if _, err := own.Features().Add("c"); err != nil {
		t.Fatal(err)
	}
	if names.Len() != 3 || groups[1].Len() != 3 || own.Len() != 4 {
		t.Errorf("%d, %d and %d names", names.Len(), groups[1].Len(), own.Len())
	}
	if own.Share(names) {
		t.Error("a state with features of its own shares")
	}
	// Merged with another of the same dictionary, and with one of its own, it is the same.
	ab, apart := groups[1].Clone(), groups[1].Clone()
	if err := ab.Merge(t.Context(), groups[2]); err != nil {
		t.Fatal(err)
	}
	other := groups[2].Clone()
	other.Features()
	if err := apart.Merge(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	f, g := fit(t, ab), fit(t, apart)
	for i, x := range f.Beliefs {
		if x != g.Beliefs[i] {
			t.Errorf("%v, with a dictionary of its own %v", x, g.Beliefs[i])
		}
	}
	if f.LogEvidence != g.LogEvidence || len(f.Beliefs) != len(g.Beliefs) || f.N != 8 {
		t.Errorf("%+v, with a dictionary of its own %+v", f, g)
	}
}
