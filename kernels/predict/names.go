package predict

import (
	"fmt"
	"math"

	"github.com/bglm/bglm/kernels"
)

// Names numbers the features of rows to score: first those of a fit's beliefs, others as they come.
// It is used by one goroutine at a time; Clone makes one for another.
type Names struct {
	dict      kernels.Dict
	place     []int // belief of the dictionary's first features, -1 for none
	intercept bool
	lacks     func(feature string) bool // of LeaveOut
	row       kernels.Batch
	dup       kernels.Scratch
	xs        []float64 // of Entries
}

// NewNames indexes the names of beliefs, in order. The intercept, if there is one, is feature 0.
// Errors: a feature with two beliefs.
func NewNames(beliefs []kernels.Belief, intercept bool, hashBits int) (*Names, error) {
	n := &Names{intercept: intercept}
	if intercept {
		if _, err := n.dict.AddRaw(kernels.Intercept); err != nil {
			return nil, err
		}
		n.place = append(n.place, -1)
	}
	for k, b := range beliefs {
		id, err := n.dict.AddRaw(b.Feature)
		if err != nil {
			return nil, err
		}
		if int(id) == len(n.place) {
			n.place = append(n.place, -1)
		}
		if n.place[id] >= 0 {
			return nil, fmt.Errorf("feature %q has two beliefs", b.Feature)
		}
		n.place[id] = k
	}
	n.dict.HashBits = hashBits
	return n, nil
}

// Clone returns a copy for another goroutine. Existing numbers stay the same.
func (n *Names) Clone() *Names {
	return &Names{dict: n.dict.Clone(), place: n.place, intercept: n.intercept, lacks: n.lacks}
}

// LeaveOut makes Row leave out the features of which lacks is true.
func (n *Names) LeaveOut(lacks func(feature string) bool) { n.lacks = lacks }

// Features numbers the features of the batches to score. The intercept, if the fit has one, is 0
// and must be in each row.
func (n *Names) Features() *kernels.Dict { return &n.dict }

// Belief is the index of a feature's belief, -1 for an unseen one.
func (n *Names) Belief(id uint32) int {
	if int(id) < len(n.place) {
		return n.place[id]
	}
	return -1
}

// Row is a batch of one row of named features, with the intercept added if the fit has one; names
// may repeat, and their values add up. NaN is a missing number (Entries), ignored for hashed
// features. It is valid until the next Row. Errors: lengths that differ, an intercept of 1 beside
// the row's own (kernels.ErrIntercept), too many features for the dictionary.
func (n *Names) Row(names []string, values []float64, offset float64) (*kernels.Batch, error) {
	if len(names) != len(values) {
		return nil, fmt.Errorf("%d names and %d values; allowed: as many of both", len(names), len(values))
	}
	b := &n.row
	b.Reset()
	if n.intercept {
		b.Add(0, 1)
	}
	for k, name := range names {
		if n.dict.HashBits > 0 && math.IsNaN(values[k]) {
			continue // in a slot that names share it would make the others missing too
		}
		if n.lacks != nil && n.lacks(name) {
			continue
		}
		if n.intercept && name == kernels.Intercept && values[k] == 1 {
			return nil, kernels.ErrIntercept
		}
		if err := b.AddNamed(&n.dict, name, values[k]); err != nil {
			return nil, err
		}
	}
	b.SumDuplicates(&n.dup)
	b.EndRow()
	b.Offset = append(b.Offset, offset)
	return b, nil
}

// Entries are the features and values of row i of b as used by f, whose names these are: a missing
// number is replaced by the mean of its column. They are valid until the next call.
func (n *Names) Entries(f *kernels.Fit, b *kernels.Batch, i int) ([]uint32, []float64) {
	fs, xs := b.Entries(i)
	if len(f.Columns) == 0 {
		return fs, xs
	}
	own := false
	for k, x := range xs {
		void := n.Belief(fs[k]) < 0 && f.IgnoresIndicator(n.dict.Name(fs[k]))
		if x == x && !void {
			continue
		}
		if !own {
			n.xs, own = append(n.xs[:0], xs...), true
		}
		n.xs[k] = 0
		if !void {
			n.xs[k] = f.Replacement(string(n.dict.Name(fs[k])), func(feature string) bool {
				id, ok := n.dict.Find(feature)
				return ok && n.Belief(id) >= 0
			})
		}
	}
	if own {
		xs = n.xs
	}
	return fs, xs
}
