// Package score predicts from a fit in services: a Snapshot is an immutable fit prepared for named
// features, usable by any number of goroutines at once; an Updater learns from rows and publishes
// new Snapshots without blocking readers.
//
// Its numbers equal those of package predict, to the last bit.
package score

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
)

// Snapshot is a fit of one response, prepared for scoring by feature names. It is immutable and
// safe for concurrent use.
//
// Beliefs are in a hash table of their names, two per cache line; names of up to 15 bytes are
// stored in it.
type Snapshot struct {
	fit        *kernels.Fit
	predictive kernels.PredictiveScale
	lik        lik.Likelihood
	table      []entry
	place      []int32  // by entry: the belief, -1 for an intercept without one; nil if the covariance is diagonal
	long       []string // names over 15 bytes
	mask       uint32
	seed       maphash.Seed
	salt       uint64 // of the hash of short names
	unseen     entry  // the prior of a feature that has no belief,
	missing    entry  // weight of an intercept that the fit lacks
	simple     bool   // diagonal, names are not hashed into slots, no columns
	intercept  uint32 // its entry, with hash first
	first      uint64
	spread     kernels.Spread
	buffers    sync.Pool
	columns    *columns // those that the fit remembers, nil for none
	named      sync.Pool
}

// entry is a feature: its key and its weight. An empty one has the key of no name.
type entry struct {
	key
	kernels.Weight
}

// key is a name in two words. Up to 15 bytes it is the name, with the length in the upper byte of
// hi; for a longer one it is its hash, and hi has its place in Snapshot.long.
type key struct{ lo, hi uint64 }

const (
	inline  = 15
	isLong  = 1 << 63
	isEmpty = 1 << 62
)

// New prepares a fit, which is retained and must not change.
//
// Cost: O(p) time, about 64 bytes per belief, plus its name if that is long.
// Errors: a fit whose beliefs, covariance or likelihood are not valid; one with classes, which
// softmax.Scorer predicts.
func New(f *kernels.Fit) (*Snapshot, error) {
	p, err := predict.New(f)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{fit: f, predictive: f.PredictiveScale(), lik: p.Lik, seed: maphash.MakeSeed(), simple: f.Covariance.Form == gauss.Diagonal && f.HashBits == 0 && f.Columns == nil, columns: newColumns(f, nil)}
	s.unseen.Weight, s.missing.Weight = f.Prior.Of(nil), f.Prior.Of([]byte(kernels.Intercept))
	s.spread.Under(&f.Covariance)
	s.spread.Prepare()
	s.salt = maphash.String(s.seed, "")
	s.named.New = func() any { return new(named) }
	s.buffers.New = func() any { return &buffer{unseen: map[string]uint32{}} }
	n := 4
	for n < 2*(len(f.Beliefs)+1) {
		n *= 2
	}
	s.table, s.mask = make([]entry, n), uint32(n-1)
	for i := range s.table {
		s.table[i].hi = isEmpty
	}
	if f.Covariance.Form != gauss.Diagonal {
		s.place = make([]int32, n)
	}
	if f.Intercept {
		s.intercept = s.insert(kernels.Intercept, f.Prior.Of([]byte(kernels.Intercept)), -1)
		_, s.first = s.keyOf(kernels.Intercept)
	}
	for j := range f.Beliefs {
		s.insert(f.Beliefs[j].Feature, f.Beliefs[j].Weight, j)
	}
	return s, nil
}

// FromBeliefs is New for a table of independent beliefs under the model m: its likelihood, prior,
// intercept and hash bits; nil is the default model. Beliefs may be in any order.
func FromBeliefs(bs []kernels.Belief, m *kernels.Model) (*Snapshot, error) {
	f, err := kernels.FromBeliefs(bs, m)
	if err != nil {
		return nil, err
	}
	return New(f)
}

// Fit is the fit from which the snapshot was made; it must not be changed.
func (s *Snapshot) Fit() *kernels.Fit { return s.fit }

// Features is the number of beliefs.
func (s *Snapshot) Features() int {
	if s.fit == nil {
		return 0
	}
	return len(s.fit.Beliefs)
}

// insert adds an entry for a name, or changes its weight.
func (s *Snapshot) insert(name string, w kernels.Weight, belief int) uint32 {
	k, h := s.keyOf(name)
	at, found := s.find(k, h, name)
	if !found {
		if len(name) > inline {
			k.hi = isLong | uint64(len(s.long))
			s.long = append(s.long, name)
		}
		s.table[at].key = k
	}
	s.table[at].Weight = w
	if s.place != nil {
		s.place[at] = int32(belief)
	}
	return at
}

// keyOf is the key of a name, without the place of a long one, and its hash.
func (s *Snapshot) keyOf(name string) (key, uint64) {
	n := len(name)
	b := unsafe.Slice(unsafe.StringData(name), n)
	var k key
	switch {
	case n > inline:
		h := maphash.String(s.seed, name)
		return key{h, isLong}, h
	case n >= 8:
		k.lo, k.hi = words(name)
		return k, s.mix(k)
	case n >= 4:
		k.lo = uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<(8*uint(n-4))
	case n > 0:
		k.lo = uint64(b[0]) | uint64(b[n/2])<<(8*uint(n/2)) | uint64(b[n-1])<<(8*uint(n-1))
	}
	k.hi |= uint64(n) << 56
	return k, s.mix(k)
}

// words is the key of a name of 8 to 15 bytes.
func words(name string) (lo, hi uint64) {
	p := unsafe.Pointer(unsafe.StringData(name))
	n := uint(len(name))
	lo = binary.LittleEndian.Uint64((*[8]byte)(p)[:])
	hi = binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(p, n-8))[:])
	return lo, hi>>(8*(16-n)) | uint64(n)<<56 // for n = 8 nothing of hi remains
}

func (s *Snapshot) mix(k key) uint64 {
	hi, lo := bits.Mul64(k.lo^s.salt, k.hi^0xD6E8FEB86659FD93)
	return hi ^ lo
}

// find is the entry of a name, or the empty one in its place.
func (s *Snapshot) find(k key, h uint64, name string) (at uint32, found bool) {
	for at = uint32(h>>32) & s.mask; ; at = (at + 1) & s.mask {
		e := &s.table[at]
		if e.lo == k.lo && e.hi == k.hi {
			return at, true
		}
		if e.hi&isLong != 0 && k.hi == isLong && e.lo == k.lo && s.long[e.hi&^isLong] == name {
			return at, true
		}
		if e.hi == isEmpty {
			return at, false
		}
	}
}
