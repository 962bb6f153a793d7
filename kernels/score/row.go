package score

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/predict"
)

// Row is named features to be scored: the name of a number, `column=level` for a level. Names may
// repeat, and their values add up. A value for the intercept is added to the 1 that the row has
// anyway, except a second 1, which is an error, as is any intercept in rows to learn from.
//
// A fit that remembers columns needs all of them, by name regardless of case, like a STRUCT in SQL:
// a number that is NaN, or `column IS NULL`, has no value (in an interaction of levels and numbers
// NaN is a missing number, and `u:g IS NULL` with the number is a missing level); features of other
// columns are ignored, unless a map or list of features came with the columns: then any name may
// belong to it, and has its prior if the fit has not seen it.
type Row struct {
	Names  []string
	Values []float64 // as many, or none: all are 1
	Offset float64   // added to the linear predictor
	Open   bool      // as a MAP in SQL: a column that is not named is absent
}

func (r *Row) check() error {
	if len(r.Values) != len(r.Names) && r.Values != nil {
		return fmt.Errorf("%d names and %d values; allowed: as many of both, or no values", len(r.Names), len(r.Values))
	}
	return nil
}

func (r *Row) value(k int) float64 {
	if r.Values == nil {
		return 1
	}
	return r.Values[k]
}

// Predict is the expected response of a row.
//
// Cost: O(k) for k features under a diagonal covariance, O(k p) full, O(k rank) low rank; no
// allocation once the buffers of wide rows and joint covariances are there. Errors: different
// numbers of names and values; an intercept of 1; columns that the fit remembers and the row lacks
// or has in another kind; a predictor that is not finite; an unknown kind of prediction.
func (s *Snapshot) Predict(r Row, kind predict.Kind) (float64, error) {
	if err := kind.Check(); err != nil {
		return 0, err
	}
	m, v, err := s.Linear(r)
	if err != nil {
		return 0, err
	}
	m, v = s.predictive.Of(m, v, r.Offset)
	return predict.Expected(s.lik, kind, m, v), nil
}

// Dist is the predictive distribution of a row; level is that of its interval.
// Errors: those of Predict, a level outside (0, 1).
func (s *Snapshot) Dist(r Row, level float64) (predict.Dist, error) {
	m, v, err := s.Linear(r)
	if err != nil {
		return predict.Dist{}, err
	}
	m, v = s.predictive.Of(m, v, r.Offset)
	return predict.DistOf(s.lik, m, v, level)
}

var errZero = errors.New("the zero Snapshot is of no fit; make one with New")

// narrow is the widest row that is scored on the stack.
const narrow = 32

// Linear is the Gaussian of the linear predictor of a row, the intercept included.
// A feature without a belief has its prior.
func (s *Snapshot) Linear(r Row) (m, v float64, err error) {
	if s.fit == nil {
		return 0, 0, errZero
	}
	if err := r.check(); err != nil {
		return 0, 0, err
	}
	if s.columns != nil {
		n := s.named.Get().(*named)
		defer s.named.Put(n)
		if err := s.read(&r, n); err != nil {
			return 0, 0, err
		}
		r.Names, r.Values = n.names, n.values
	}
	all := false
	if s.simple {
		m, v, all = s.distinct(&r)
	}
	if !all && s.fit.Intercept && (s.columns == nil || r.Open) {
		for k, name := range r.Names {
			if name == kernels.Intercept && r.value(k) == 1 {
				return 0, 0, kernels.ErrIntercept
			}
		}
	}
	switch {
	case all:
	case len(r.Names) > narrow || s.place != nil || len(s.fit.Correlations) > 0:
		m, v = s.wide(&r)
	default:
		m, v = s.summed(&r)
	}
	if err := kernels.CheckPredictor(m, v); err != nil {
		return 0, 0, err
	}
	return m, v, nil
}

// distinct is Linear for a row whose features are clearly distinct: no two hashes agree modulo
// 1024. It gives up at the first that may be a repetition, in 1 row in 20 of ten features.
func (s *Snapshot) distinct(r *Row) (m, v float64, all bool) {
	var seen [16]uint64
	first := unsafe.Pointer(unsafe.SliceData(s.table)) // of mask + 1
	m = r.Offset
	if s.fit.Intercept {
		w := &s.table[s.intercept].Weight
		seen[s.first>>6&15] |= 1 << (s.first & 63)
		m += w.Mean
		v += w.Variance
	}
	values := r.Values
	if values != nil {
		values = values[:len(r.Names)] // no bounds to check below
	}
	for k, name := range r.Names {
		var key key
		var h uint64
		if uint(len(name)-8) <= inline-8 {
			key.lo, key.hi = words(name)
			h = s.mix(key)
		} else {
			key, h = s.keyOf(name)
		}
		bit := &seen[h>>6&15]
		if *bit>>(h&63)&1 != 0 {
			return 0, 0, false
		}
		*bit |= 1 << (h & 63)
		w := (*entry)(unsafe.Add(first, uintptr(uint32(h>>32)&s.mask)*unsafe.Sizeof(entry{})))
		if w.lo != key.lo || w.hi != key.hi {
			w = s.other(key, h, name)
		}
		x := 1.0
		if values != nil {
			x = values[k]
		}
		m += x * w.Mean
		v += x * x * w.Variance
	}
	return m, v, true
}

// other is the entry of a name that is not the first with its hash.
func (s *Snapshot) other(k key, h uint64, name string) *entry {
	if at, found := s.find(k, h, name); found {
		return &s.table[at]
	}
	if name == kernels.Intercept {
		return &s.missing
	}
	return &s.unseen
}

// summed is Linear for a narrow row under a diagonal covariance.
func (s *Snapshot) summed(r *Row) (m, v float64) {
	var ids [narrow + 1]uint32
	var xs [narrow + 1]float64
	n := s.resolve(r, &ids, &xs)
	m = r.Offset
	for k, id := range ids[:n] {
		x, w := xs[k], s.weight(r, id)
		m += x * w.Mean
		v += x * x * w.Variance
	}
	return m, v
}

// weight is the belief of an entry, or the prior of an unseen feature of r, whose number is beyond
// the entries.
func (s *Snapshot) weight(r *Row, id uint32) kernels.Weight {
	if id <= s.mask {
		return s.table[id].Weight
	}
	if s.fit.HashBits == 0 && r.Names[id-s.mask-1] == kernels.Intercept {
		return s.missing.Weight
	}
	if s.columns != nil && s.fit.HashBits == 0 {
		return s.fit.PriorOf(view(r.Names[id-s.mask-1]))
	}
	return s.unseen.Weight
}

// view is the bytes of a string, which must not be changed.
func view(name string) []byte { return unsafe.Slice(unsafe.StringData(name), len(name)) }

// resolve finds the entries of a narrow row, each once, with the sums of their values.
func (s *Snapshot) resolve(r *Row, ids *[narrow + 1]uint32, xs *[narrow + 1]float64) (n int) {
	var seen [4]uint64 // hashes seen, modulo 256
	if s.fit.Intercept {
		ids[0], xs[0], n = s.intercept, 1, 1
		seen[s.first>>6&3] |= 1 << (s.first & 63)
	}
	for k, name := range r.Names {
		id, h := s.number(name, k)
		x := r.value(k)
		if bit := uint64(1) << (h & 63); seen[h>>6&3]&bit == 0 {
			seen[h>>6&3] |= bit
		} else if j := s.earlier(r, ids[:n], id); j >= 0 {
			xs[j] += x
			continue
		}
		ids[n], xs[n] = id, x
		n++
	}
	return n
}

// number is the entry of name k of a row, and its hash. An unseen feature is its slot or, without
// hash bits, its index in the row, counted from the end of the entries.
func (s *Snapshot) number(name string, k int) (id uint32, h uint64) {
	if s.fit.HashBits > 0 {
		return s.slot(name)
	}
	key, h := s.keyOf(name)
	if at, found := s.find(key, h, name); found {
		return at, h
	}
	return s.mask + 1 + uint32(k), h
}

// slot is number for a name that is hashed to a slot.
func (s *Snapshot) slot(name string) (id uint32, h uint64) {
	var b [24]byte
	slot := kernels.SlotOf(view(name), s.fit.HashBits)
	t := kernels.AppendSlot(b[:0], slot)
	name = unsafe.String(&t[0], len(t))
	key, h := s.keyOf(name)
	if at, found := s.find(key, h, name); found {
		return at, h
	}
	return s.mask + 1 + uint32(slot), h
}

// earlier is the index of feature id in ids, -1 if it is not there.
func (s *Snapshot) earlier(r *Row, ids []uint32, id uint32) int {
	byName := id > s.mask && s.fit.HashBits == 0
	for j, other := range ids {
		if other == id || byName && other > s.mask && r.Names[other-s.mask-1] == r.Names[id-s.mask-1] {
			return j
		}
	}
	return -1
}

// buffer is the memory for a row that is wide or has a joint covariance.
type buffer struct {
	row     kernels.Batch
	dup     kernels.Scratch
	unseen  map[string]uint32
	at      []int
	val     []float64
	unknown []kernels.Related
	room    kernels.SpreadScratch
}

// wide is Linear with pooled memory from the heap.
func (s *Snapshot) wide(r *Row) (m, v float64) {
	b := s.buffers.Get().(*buffer)
	defer s.buffers.Put(b)
	b.row.Reset()
	if s.fit.Intercept {
		b.row.Add(s.intercept, 1)
	}
	for k, name := range r.Names {
		id, _ := s.number(name, k)
		if id > s.mask && s.fit.HashBits == 0 {
			if had, met := b.unseen[name]; met {
				id = had
			} else {
				b.unseen[name] = id
			}
		}
		b.row.Add(id, r.value(k))
	}
	b.row.SumDuplicates(&b.dup)
	b.row.EndRow()
	b.at, b.val, b.unknown = b.at[:0], b.val[:0], b.unknown[:0]
	m = r.Offset
	ids, xs := b.row.Entries(0)
	for k, id := range ids {
		x, w := xs[k], s.weight(r, id)
		if id > s.mask && s.fit.HashBits == 0 && s.fit.Covariance.Form == gauss.Arrowhead {
			c := &s.fit.Covariance
			if l := c.UnseenLevel(r.Names[id-s.mask-1], len(s.fit.Beliefs), func(k int) string { return s.fit.Beliefs[k].Feature }); l >= 0 {
				j, mean, rest, _ := c.LevelMean(l)
				w.Mean, w.Variance = mean, w.Variance*rest
				b.at, b.val = append(b.at, ^j), append(b.val, x)
			}
		}
		m += x * w.Mean
		if s.place != nil && id <= s.mask && s.place[id] >= 0 {
			b.at, b.val = append(b.at, int(s.place[id])), append(b.val, x)
			continue
		}
		v += x * x * w.Variance
		if id > s.mask && len(s.fit.Correlations) > 0 && s.fit.HashBits == 0 {
			b.unknown = append(b.unknown, kernels.Related{Name: view(r.Names[id-s.mask-1]), X: x})
		}
	}
	v += s.fit.CorrelatedVariance(b.unknown, v)
	if s.place != nil {
		v += s.spread.Variance(b.at, b.val, &b.room)
	}
	clear(b.unseen) // do not retain the caller's names
	clear(b.unknown)
	return m, v
}
