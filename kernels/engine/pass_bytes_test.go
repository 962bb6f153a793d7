package engine

import (
	"context"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
)

// States of one version are the same bytes for ever: those of passes without rows, whose numbers
// no rounding can change.
func TestPassBytes(t *testing.T) {
	want := map[string][2]uint32{ // length, CRC-32 of all before it
		"":                {980, 265845650},
		"learning":        {1092, 326446181},
		"ep":              {980, 3221059444},
		"ep learning":     {1092, 4208387021},
		"lowrank":         {725, 3923954760},
		"lowrank, second": {725, 4054897146},
	}
	for _, c := range []struct {
		name, sites string
		learns      bool
	}{{"", "", false}, {"learning", "", true}, {"ep", "ep", false}, {"ep learning", "ep", true}, {"lowrank", "lowrank", false}} {
		l, err := lik.New("", "probit", lik.Params{})
		if err != nil {
			t.Fatal(err)
		}
		m := &kernels.Model{Lik: l, Prior: kernels.DefaultPrior, Options: kernels.Options{Sites: c.sites, AutoPrior: c.learns, Rank: 3, Seed: 7}}
		if c.sites != "lowrank" {
			m.Around = alone(m, 6, func(j int) string { return fmt.Sprintf("v%d", j) })
		}
		for _, name := range []string{c.name, c.name + ", second"} {
			f, err := newPass(context.Background(), m)
			if err != nil {
				t.Fatal(err)
			}
			for j := range 6 {
				if _, err := f.Features().Add(fmt.Sprintf("v%d", j)); err != nil {
					t.Fatal(err)
				}
			}
			f.Skip(3)
			r, err := f.Fit(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			b := r.Part.Bytes()
			if got := [2]uint32{uint32(len(b)), crc32.ChecksumIEEE(b[:len(b)-4])}; got != want[name] {
				t.Errorf("%q: %v, want %v", name, got, want[name])
			}
			p, err := DecodePart(b)
			if err != nil || string(p.Bytes()) != string(b) {
				t.Errorf("%q: read again: %v", name, err)
			}
			if m.Before = b; c.sites != "lowrank" {
				break
			}
		}
	}
}
