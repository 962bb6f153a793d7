package stream

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/stop"
)

// Each visits the beliefs in their fixed order, with drift up to the latest row; the state is not
// changed. A name is valid during its visit only. Cost: O(p log p).
func (s *State) Each(ctx context.Context, visit func(name []byte, w kernels.Weight)) error {
	return s.Read(ctx, func(each func(func([]byte, kernels.Weight) bool)) {
		each(func(name []byte, w kernels.Weight) bool {
			visit(name, w)
			return true
		})
	})
}

// Read calls read once with a function like Each that visits while visit returns true; the beliefs
// are sorted once for all its calls. A cancelled ctx ends them, and Read with its cause; s is
// unusable then.
func (s *State) Read(ctx context.Context, read func(each func(visit func(name []byte, w kernels.Weight) bool))) error {
	var sorted *reader
	err := stop.Run(ctx, s.long(), func() (err error) {
		sorted, err = s.sorted(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r := sorted
	defer r.done()
	read(func(visit func(name []byte, w kernels.Weight) bool) {
		if len(r.order) >= manyBeliefs {
			s.readMany(ctx, r, visit)
			return
		}
		for _, id := range r.order {
			r.name = s.dict.AppendName(r.name[:0], id)
			if !visit(r.name, s.units.original(id, r.w[id])) {
				return
			}
		}
	})
	return stop.Cause(ctx)
}

// sorted returns the beliefs and their order, for Read.
func (s *State) sorted(ctx context.Context) (*reader, error) {
	if err := s.Grow(); err != nil {
		return nil, err
	}
	if err := s.plan.Model.CheckPriorBy(s.dict, s.n); err != nil {
		return nil, err
	}
	r := s.reader()
	if err := stop.Cause(ctx); err != nil {
		return nil, err
	}
	r.w = s.present().Beliefs(s.Best(), s.clock, r.w[:0])
	if s.units != nil {
		for id, w := range r.w {
			now := s.units.original(uint32(id), w)
			err := kernels.CheckWeight(now)
			if err == nil && s.vanishes(uint32(id), now, w) {
				err = errVanished
			}
			if err != nil {
				r.done()
				return nil, s.causeOf(fmt.Errorf("feature %q: %w", s.dict.Name(uint32(id)), err))
			}
		}
	}
	return r, nil
}

// From manyBeliefs on the names do not fit into the near caches: blocks of aBlock are read in
// parallel.
const (
	manyBeliefs = 1 << 15
	aBlock      = 1 << 12
)

// readMany visits the beliefs in their order while visit returns true.
func (s *State) readMany(ctx context.Context, r *reader, visit func(name []byte, w kernels.Weight) bool) {
	blocks := make([]struct {
		text []byte
		ends []int
		w    []kernels.Weight
	}, 2*runtime.GOMAXPROCS(0))
	for order := r.order; len(order) > 0 && ctx.Err() == nil; {
		n := min(len(blocks), (len(order)+aBlock-1)/aBlock)
		dense.Each(n, func(k int) {
			b, ids := &blocks[k], order[k*aBlock:min((k+1)*aBlock, len(order))]
			b.text, b.ends = s.dict.AppendNames(b.text[:0], b.ends[:0], ids)
			b.w = b.w[:0]
			for _, id := range ids {
				b.w = append(b.w, r.w[id])
			}
			for i, id := range ids {
				b.w[i] = s.units.original(id, b.w[i])
			}
		})
		for k := range blocks[:n] {
			b, lo := &blocks[k], 0
			for i, hi := range b.ends {
				if !visit(b.text[lo:hi:hi], b.w[i]) {
					return
				}
				lo = hi
			}
		}
		order = order[min(n*aBlock, len(order)):]
	}
}

// reader is memory for visits of beliefs: there may be millions of small groups.
type reader struct {
	w     []kernels.Weight
	name  []byte
	dict  *kernels.Dict // whose order and names these are
	order []uint32
	names []string // in this order
}

// reader returns a reader with the order of the features.
func (s *State) reader() *reader {
	r := readers.Get().(*reader)
	if s.copied || r.dict != s.dict { // a shared one does not change
		r.order, r.names, r.dict = s.dict.Order(), nil, nil
		if !s.copied {
			r.dict = s.dict
		}
	}
	return r
}

// done releases the memory.
func (r *reader) done() {
	if cap(r.w) > maxReader {
		*r = reader{}
	}
	readers.Put(r)
}

// named returns the names of the features in their order.
func (r *reader) named(d *kernels.Dict) []string {
	if len(r.names) < len(r.order) {
		r.names = make([]string, 0, len(r.order))
		for _, id := range r.order {
			r.name = d.AppendName(r.name[:0], id)
			r.names = append(r.names, string(r.name))
		}
	}
	return r.names
}

var readers = sync.Pool{New: func() any { return new(reader) }}

const maxReader = 1 << 16 // the most weights whose memory is worth keeping
