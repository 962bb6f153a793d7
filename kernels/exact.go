package kernels

import (
	"fmt"
	"math"
	"strings"

	"github.com/bglm/bglm/kernels/lik"
)

// exactly is the ratio of the noise to a column's effect on the responses below which no
// measurement lies.
const exactly = 1e-9

// ExactNote is the note on numeric columns that determine real responses almost exactly, like a
// column from which they were computed; "" for none. The noise is one that m has learnt from more
// rows than weights.
//
// Cost: O(columns + beliefs).
func (f *Fit) ExactNote(m *Model) string {
	if m.Lik == nil || !m.Lik.Traits().Located || !(f.Dispersion > 0) || f.N < 2*int64(len(f.Beliefs)) {
		return ""
	}
	if _, is := m.Lik.(lik.Dispersed); !is || !m.Options.AutoDispersion {
		return ""
	}
	numbers := map[string]*FitColumn{}
	for k := range f.Columns {
		if c := &f.Columns[k]; c.Kind == NumberColumn && c.Parts == "" {
			numbers[c.Name] = c
		}
	}
	var names []string
	for i := 0; len(numbers) > 0 && i < len(f.Beliefs); i++ {
		c := numbers[f.Beliefs[i].Feature]
		if c == nil {
			continue
		}
		if does := f.Beliefs[i].Mean * c.spread(f); f.Dispersion < exactly*does*does && !math.IsInf(does, 0) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	column, gives := "column", "gives"
	if len(names) > 1 {
		column, gives = "columns", "give"
	}
	more := ""
	if len(names) > 3 {
		names, more = names[:3], " and more"
	}
	return fmt.Sprintf("%s %s%s %s the responses almost exactly: leave out what is computed from them", column, strings.Join(names, ", "), more, gives)
}
