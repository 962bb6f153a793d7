package rows

import (
	"strings"
	"sync"

	"github.com/bglm/bglm/kernels"
)

// shared keeps immutable values by key, so that states and fits of equal columns share one.
type shared[T any] struct {
	values sync.Map // key -> *T
	mu     sync.Mutex
	n      int
}

var (
	columnSets shared[kernels.Columns]
	schemas    shared[kernels.Schema]
)

// sharedLimit is the number of keys kept; beyond it all are dropped.
const sharedLimit = 1024

// of returns the value of key, created if there is none.
func (s *shared[T]) of(key string, create func() *T) *T {
	if v, ok := s.values.Load(key); ok {
		return v.(*T)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n > sharedLimit {
		s.values.Clear()
		s.n = 1
	}
	v, _ := s.values.LoadOrStore(strings.Clone(key), create())
	return v.(*T)
}
