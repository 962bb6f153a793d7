package udf

import (
	"context"
	"database/sql"
	"unsafe"

	"github.com/bglm/bglm/udf/internal/capi"
)

// Kinds is how many kinds of rows the plans share names of.
func Kinds() (n int) {
	fitCache.all.Range(func(_, p any) bool {
		n += len(p.(*fitPlan).alike.all())
		return true
	})
	return n
}

// Waiting sets how many bytes of rows wait for a small group, and returns what sets it back.
func Waiting(n int) (restore func()) {
	was := maxWaiting
	maxWaiting = n
	return func() { maxWaiting = was }
}

// RegisterPanics adds functions that panic in a callback: update, combine,
// finalize, scalar.
func RegisterPanics(ctx context.Context, db *sql.DB) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	bomb := func(when string) *capi.Aggregate {
		return &capi.Aggregate{Name: "panic_" + when, Params: anys(1), Result: capi.TDouble,
			Update: func(args []capi.Vec, slots capi.Slots) error {
				return slots.Runs(func(s capi.Slot, lo, hi int) error {
					_, err := s.Mutable(func() (capi.State, error) { return &bombState{when}, nil })
					if when == "update" {
						var p *int
						*p = 1 // a nil dereference, as a bug would
					}
					return err
				})
			},
			Finalize: func(sts []capi.State, out *capi.Col) error {
				if when == "finalize" {
					panic("finalize")
				}
				for range sts {
					out.Float(1)
				}
				return nil
			}}
	}
	aggs := []*capi.Aggregate{bomb("update"), bomb("combine"), bomb("finalize"),
		{Name: "short_result", Params: anys(1), Result: capi.ListOf(capi.TDouble),
			Update:   func([]capi.Vec, capi.Slots) error { return nil },
			Finalize: func(sts []capi.State, out *capi.Col) error { out.Elem().Float(1); return nil }}}
	scalars := []*capi.Scalar{{Name: "panic_scalar", Params: anys(1), Result: capi.TVarchar, Call: func([]capi.Vec, int, *capi.Col) error {
		panic("scalar")
	}}}
	return c.Raw(func(dc any) error {
		p, err := rawConnection(dc)
		if err != nil {
			return err
		}
		return capi.Register(p, capi.All{Aggregates: aggs, Scalars: scalars})
	})
}

type bombState struct{ when string }

func (b *bombState) Clone() capi.State { c := *b; return &c }
func (b *bombState) Size() int64       { return 16 }
func (b *bombState) Merge(capi.State) error {
	if b.when == "combine" {
		panic("combine")
	}
	return nil
}

// Sites are the call-site classifier's counters.
func Sites() capi.SiteCounts { return capi.Sites() }

// States are the counts of live aggregate states.
func States() capi.StateCounts { return capi.States() }

// RawConnection exposes the search for the driver's connection.
func RawConnection(c any) (unsafe.Pointer, error) { return rawConnection(c) }

// Rules turns the rules for DuckDB 2 on or off.
func Rules(on bool) { capi.Rules(on) }

// Lanes are the counters of those rules.
func Lanes() capi.LaneCounts { return capi.Lanes() }
