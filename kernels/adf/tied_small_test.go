package adf

import (
	"runtime"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
	"github.com/bglm/bglm/kernels/stream"
)

// A small group with an arrowhead covariance that shares its dictionary is a few allocations
// and says how large it is; levels cost no change of priors.
func TestSmallTied(t *testing.T) {
	if kerneltest.Race {
		t.Skip("the detector's allocations count too")
	}
	empty, err := NewTied(&kernels.Model{Lik: like(t, "", "probit", 1), Prior: kernels.DefaultPrior, Options: kernels.Options{Covariance: "arrowhead"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		names  []string
		allocs float64
		bytes  float64
	}{{[]string{"a", "b"}, 1.1, 1100}, {[]string{"g=1", "g=2", "g=3", "h=1", "h=2"}, 14, 2000}} {
		names := empty.Clone().Features()
		names.Use(kernels.NewColumns([]string{"g", "h"}, []string{"a", "b"}))
		b := kernels.Batch{Shared: []uint32{0}}
		for _, name := range c.names {
			id, err := names.Add(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Shared = append(b.Shared, id)
		}
		for i := range 4 {
			b.Value, b.Y = append(b.Value, 1), append(b.Y, float64(i&1))
			for k := range c.names {
				b.Value = append(b.Value, float64((i+k)%3))
			}
		}
		const n = 5000
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
		if a := testing.AllocsPerRun(1, fill) / n; a > c.allocs {
			t.Errorf("%d names: %.2f allocations a state", len(c.names), a)
		}
		clear(groups)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC() // pools keep what they have for one
		runtime.ReadMemStats(&before)
		fill()
		runtime.GC()
		runtime.ReadMemStats(&after)
		held := float64(after.HeapAlloc-before.HeapAlloc) / n
		kerneltest.Close(t, "size", float64(groups[0].Size()), held, kerneltest.Tol{Rel: 0.25})
		if held > c.bytes {
			t.Errorf("%d names: a state takes %.0f bytes", len(c.names), held)
		}
	}
}
