package dense

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// parallelWork is the number of operations, about 20 microseconds, above which waking other
// processors pays.
const parallelWork = 1 << 20

func workersFor(operations float64) int {
	if operations < parallelWork {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// shares is how many parts Parallel makes for each processor: one that other programs use, or a
// host that waits by polling, takes fewer of them.
const shares = 4

// Parallel splits [0, n) into contiguous parts, a few for each processor (GOMAXPROCS; at most n in
// all), and returns when f has run on all of them. The parts depend on the machine: for results
// that do not, f must treat each index independently. A panic in f is propagated to the caller.
func Parallel(n int, f func(lo, hi int)) {
	p := runtime.GOMAXPROCS(0)
	if p == 1 && n > 0 {
		f(0, n)
		return
	}
	parts := min(shares*p, n)
	tasks(parts, p, func(i int) { f(i*n/parts, (i+1)*n/parts) })
}

// Each calls f(0) ... f(n-1), each once, on as many goroutines as there are processors and returns
// when all are done. A panic in f is propagated to the caller.
func Each(n int, f func(i int)) { tasks(n, runtime.GOMAXPROCS(0), f) }

// tasks calls f(0) ... f(n-1), each once, on at most the given number of goroutines, including the
// caller's. Free workers take the next index. After a panic no new index is begun, and the panic
// with the lowest index is propagated to the caller.
func tasks(n, workers int, f func(i int)) {
	workers = min(workers, n)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var (
		next    atomic.Int64
		wg      sync.WaitGroup
		mu      sync.Mutex
		failed  atomic.Bool
		at      = n
		failure any
	)
	one := func(i int) {
		done := false
		defer func() {
			if done {
				return
			}
			r := recover()
			failed.Store(true)
			mu.Lock()
			if i < at {
				at, failure = i, r
			}
			mu.Unlock()
		}()
		f(i)
		done = true
	}
	work := func() {
		for !failed.Load() {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			one(i)
		}
	}
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if failed.Load() {
		panic(failure)
	}
}
