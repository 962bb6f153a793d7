package rows

import (
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels"
)

// A name is found as a walk over all columns finds it, of letters too that have three cases or none.
func TestIndex(t *testing.T) {
	names := []string{"a", "A", "k", "\u212a", "s", "\u017f", "\u00df", "\u1e9e", "\u03c3", "\u03c2", "\u03a3", "i", "\u0130", "\u0131", "a", "", "\xff", "\ufffd", "x y"}
	for from := range names {
		var cols []kernels.FitColumn
		for _, n := range names[from:] {
			cols = append(cols, kernels.FitColumn{Name: n})
		}
		x := indexOf(cols)
		for _, name := range append(names, "I", "X Y", "K", "none") {
			exact, fold := -1, -1
			for k := len(cols) - 1; k >= 0; k-- {
				if cols[k].Name == name {
					exact = k
				}
				if strings.EqualFold(cols[k].Name, name) {
					fold = k
				}
			}
			at, ok := x.exact[name]
			if ok != (exact >= 0) || ok && at != exact || x.findFold(name) != fold {
				t.Errorf("%q: %d %v and %d, want %d and %d", name, at, ok, x.findFold(name), exact, fold)
			}
		}
	}
}
