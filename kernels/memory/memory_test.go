package memory

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]int64{"4GB": 4e9, "512MiB": 512 << 20, " 1.5 gb ": 15e8, "100": 100, "2TB": 2e12, "7kb": 7000, "3 bytes": 3} {
		if n, err := Parse(s); err != nil || n != want {
			t.Errorf("%q: %d, %v; want %d", s, n, err, want)
		}
	}
	for _, s := range []string{"", "GB", "-1", "0", "4PB", "nan", "inf"} {
		if n, err := Parse(s); err == nil {
			t.Errorf("%q gives %d", s, n)
		}
	}
}

// Whatever is taken by many goroutines at once stays below the limit, and all of it
// comes back.
func TestBudget(t *testing.T) {
	before := Used()
	defer SetLimit(SetLimit(before + 1000))
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				g, err := Reserve(int64(i*(k+1)%700), "rows")
				if u := Used(); err == nil && u-before < 0 {
					t.Errorf("%d used", u)
				}
				if err != nil && !errors.Is(err, ErrLimit) {
					t.Error(err)
				}
				g.Release()
				g.Release()
			}
		})
	}
	wg.Wait()
	if Used() != before {
		t.Errorf("%d bytes were not given back", Used()-before)
	}
	err := Room(1001, "5 rows")
	if err == nil || !strings.HasPrefix(err.Error(), "5 rows: over the memory budget: it takes") || !strings.Contains(err.Error(), Variable) {
		t.Error(err)
	}
	if err := Room(1000, ""); err != nil {
		t.Error(err)
	}
	if _, err := Reserve(1001, ""); err == nil || Used() != before {
		t.Error(err, Used())
	}
	if Limit() <= 0 || available() <= 0 {
		t.Error(Limit(), available())
	}
}
