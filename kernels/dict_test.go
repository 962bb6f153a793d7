package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The dictionary against a plain map, through every door: whole names, prefix
// and value, integers, dense columns.
func TestDictAgainstMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var d Dict
		want := map[string]uint32{}
		check := func(name string, id uint32, err error) {
			if err != nil {
				rt.Fatal(err)
			}
			if w, ok := want[name]; ok && w != id || !ok && int(id) != len(want) {
				rt.Fatalf("%q is %d, want %d (known %v)", name, id, w, ok)
			}
			want[name] = id
			if got := string(d.Name(id)); got != name {
				rt.Fatalf("name of %d is %q, want %q", id, got, name)
			}
		}
		word := rapid.OneOf(rapid.StringMatching(`[a-c=]{0,3}`), rapid.StringMatching(`[a-z]{0,20}`))
		for range rapid.IntRange(1, 200).Draw(rt, "n") {
			switch rapid.IntRange(0, 3).Draw(rt, "door") {
			case 0:
				name := word.Draw(rt, "name")
				id, err := d.Add(name)
				check(name, id, err)
			case 1:
				col, val := word.Draw(rt, "column"), word.Draw(rt, "value")
				d.Use(NewColumns([]string{col}, nil))
				c, ok := d.Column(col)
				ts, ids := []Text{NewText(val)}, []uint32{0}
				if !ok { // the column's name holds '='
					c, ts[0] = Names, NewText(col+"="+val)
				}
				known, found := want[col+"="+val]
				if all := d.FindTexts(ids, c, ts); all != found || found && ids[0] != known || !found && ids[0] != Missing {
					rt.Fatalf("find %q of %q: %d %v, want %d %v", val, col, ids[0], all, known, found)
				}
				id, err := d.AddText(c, &ts[0])
				check(col+"="+val, id, err)
			case 2:
				i := rapid.IntRange(-3, 40).Draw(rt, "i")
				id, err := d.AddInt(i)
				check(fmt.Sprint(i), id, err)
				if ids := []uint32{0}; !d.FindInts(ids, []int64{int64(i)}) || ids[0] != id {
					rt.Fatalf("find %d: %d, want %d", i, ids[0], id)
				}
			case 3:
				n := rapid.IntRange(0, 12).Draw(rt, "d")
				before := d.Len()
				base, err := d.Dense(n)
				if err != nil {
					rt.Fatal(err)
				}
				for j := 1; j <= n; j++ {
					if base >= 0 {
						if got := string(d.Name(uint32(base + j - 1))); got != fmt.Sprint(j) {
							rt.Fatalf("column %d is %q", j, got)
						}
					}
				}
				for id := before; id < d.Len(); id++ {
					want[string(d.Name(uint32(id)))] = uint32(id)
				}
			}
		}
		if d.Len() != len(want) {
			rt.Fatalf("%d features, want %d", d.Len(), len(want))
		}
		for name, id := range want {
			if got, ok := d.Find(name); !ok || got != id {
				rt.Fatalf("find %q: %d %v, want %d", name, got, ok, id)
			}
		}
		names := make([]string, 0, len(want))
		for _, id := range d.Order() {
			names = append(names, string(d.Name(id)))
		}
		if !slices.IsSortedFunc(names, CompareNames) {
			rt.Fatalf("order %q", names)
		}
	})
}

func TestOrder(t *testing.T) {
	want := []string{Intercept, "1", "2", "10", "999", "", "(", "-1", "0", "01", "1a", "A", "a", "a=1", "aaaaaaaab", "aaaaaaaac", "é"}
	var d Dict
	for _, i := range []int{5, 3, 16, 0, 8, 2, 11, 1, 7, 13, 4, 10, 6, 9, 12, 15, 14} {
		d.Add(want[i])
	}
	for i, id := range d.Order() {
		if got := string(d.Name(id)); got != want[i] {
			t.Errorf("place %d has %q, want %q", i, got, want[i])
		}
	}
}

// The hash behind hash_bits is part of the belief format: these values may
// never change.
func TestHashIsPinned(t *testing.T) {
	for name, want := range map[string]uint64{"": 0x4b24d35cba4a63b0, "a": 0xcd899f9749883245, "origin=ATL": 0xbd9b90f84e362b36, "a long name with=a long value": 0x1f9cacea546cfe5c} {
		if got := HashName([]byte(name)); got != want {
			t.Errorf("hash of %q is %#x, want %#x", name, got, want)
		}
	}
}

// The hash of a text in two words is that of its bytes, and the words are what
// DuckDB's are with any bytes behind the end.
func TestTextIsItsBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(rt, "text")
		x := NewText(string(b))
		if x.String() != string(b) {
			rt.Fatalf("%q became %q", b, x.String())
		}
		if got, want := x.hashName(), HashName(b); got != want {
			rt.Fatalf("hash of %q is %#x, want %#x", b, got, want)
		}
		if len(b) > 12 {
			return
		}
		var w [16]byte
		binary.LittleEndian.PutUint32(w[:], uint32(len(b)))
		copy(w[4:], b)
		for i := 4 + len(b); i < 16; i++ {
			w[i] = rapid.Byte().Draw(rt, "behind")
		}
		if got := InlineText(binary.LittleEndian.Uint64(w[:]), binary.LittleEndian.Uint64(w[8:])); got != x {
			rt.Fatalf("%q in words: %v, want %v", b, got, x)
		}
	})
}

// 2^12 names in 2^16 slots collide like random ones: chi-square over 256 cells
// of the top bits within 5 sigma, and few equal slots.
func TestHashSpreads(t *testing.T) {
	for _, pattern := range []string{"%d", "x=%d", "col%d", "origin=%03d", strings.Repeat("z", 30) + "%d"} {
		cells := make([]float64, 256)
		const n = 1 << 14
		for i := range n {
			cells[HashName(fmt.Appendf(nil, pattern, i))>>56]++
		}
		chi := 0.0
		for _, c := range cells {
			chi += (c - n/256) * (c - n/256) / (n / 256)
		}
		if z := (chi - 255) / math.Sqrt(2*255); math.Abs(z) > 5 {
			t.Errorf("%s: chi-square is %.1f sigma off", pattern, z)
		}
	}
}

func TestHashBits(t *testing.T) {
	d := Dict{HashBits: 4}
	for i := range 1000 {
		if _, err := d.Add(fmt.Sprint("f", i)); err != nil {
			t.Fatal(err)
		}
	}
	if d.Len() != 16 {
		t.Errorf("%d slots of 16", d.Len())
	}
	d.Use(NewColumns([]string{"f"}, nil))
	c, _ := d.Column("f")
	x := NewText("x")
	a, _ := d.AddText(c, &x)
	if b, _ := d.Add("f=x"); a != b {
		t.Error("a pair and its whole name fall into different slots")
	}
}

func TestMaxFeatures(t *testing.T) {
	d := Dict{Max: 3}
	for i := range 3 {
		if _, err := d.AddInt(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.AddInt(1); err != nil {
		t.Errorf("a known feature: %v", err)
	}
	if _, err := d.AddInt(9); err == nil || !strings.Contains(err.Error(), "max_features = 3") {
		t.Errorf("error %v", err)
	}
}

func TestSumDuplicates(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var b Batch
		var s Scratch
		for range 3 {
			b.Reset()
			want := map[uint32]float64{}
			for range rapid.IntRange(0, 60).Draw(rt, "n") {
				f, v := rapid.Uint32Range(0, 20).Draw(rt, "f"), float64(rapid.IntRange(-9, 9).Draw(rt, "v"))
				want[f] += v
				b.Add(f, v)
			}
			b.SumDuplicates(&s)
			b.EndRow()
			got := map[uint32]float64{}
			for k, f := range b.Feature {
				if _, twice := got[f]; twice {
					rt.Fatalf("feature %d twice", f)
				}
				got[f] = b.Value[k]
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("got %v want %v", got, want)
			}
		}
	})
}

// Merge against the definition: the density of a·b/p at points, normaliser included.
func TestMergeIsTheProduct(t *testing.T) {
	logN := func(x float64, w Weight) float64 {
		d := x - w.Mean
		return -0.5 * (math.Log(2*math.Pi*w.Variance) + d*d/w.Variance)
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := Weight{rapid.Float64Range(-2, 2).Draw(rt, "pm"), rapid.Float64Range(0.5, 5).Draw(rt, "pv")}
		a := Weight{rapid.Float64Range(-3, 3).Draw(rt, "am"), p.Variance * rapid.Float64Range(0.01, 0.99).Draw(rt, "av")}
		b := Weight{rapid.Float64Range(-3, 3).Draw(rt, "bm"), p.Variance * rapid.Float64Range(0.01, 0.99).Draw(rt, "bv")}
		w, c, ok := Merge(a, b, p)
		if !ok {
			rt.Fatal("improper")
		}
		for _, x := range []float64{-1, 0, 0.7, 2} {
			left, right := logN(x, a)+logN(x, b)-logN(x, p), c+logN(x, w)
			if math.Abs(left-right) > 1e-9*(1+math.Abs(left)) { // sums of terms up to a few thousand
				rt.Fatalf("at %g: %g, want %g", x, right, left)
			}
		}
	})
}

// Order against a sort by CompareNames, where names share long beginnings, hold every
// byte and end inside one another, in dictionaries that are sorted by counting too.
func TestOrderAgainstSort(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := Dict{HashBits: rapid.SampledFrom([]int{0, 0, 10}).Draw(rt, "bits")}
		part := rapid.OneOf(rapid.StringMatching(`[a-b=0]{0,9}`), rapid.StringMatching(`[1-9][0-9]{0,18}`),
			rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "bytes")) }),
			rapid.SampledFrom([]string{"", "#", "#0", "#00", "#1", "#1023", "#1024", "0", Intercept, strings.Repeat("x", 40), strings.Repeat("y", 31)}))
		some := rapid.SliceOfN(part, 1, 40).Draw(rt, "parts")
		n := rapid.SampledFrom([]int{5, 20, 300, 2000}).Draw(rt, "n")
		for range n {
			i, j := rapid.IntRange(0, len(some)-1).Draw(rt, "i"), rapid.IntRange(0, len(some)-1).Draw(rt, "j")
			name := some[i] + some[j]
			if _, err := d.AddRaw(name); err != nil {
				rt.Fatal(err)
			}
			if id, ok := d.Find(name); !ok || string(d.Name(id)) != name {
				rt.Fatalf("%q is found as %q", name, d.Name(id))
			}
		}
		for i := range n {
			d.AddRaw(fmt.Sprint(some[i%len(some)], i))
		}
		got := d.Order()
		want := make([]uint32, d.Len())
		for i := range want {
			want[i] = uint32(i)
		}
		slices.SortFunc(want, func(a, b uint32) int { return CompareNames(string(d.Name(a)), string(d.Name(b))) })
		if !slices.Equal(got, want) {
			rt.Fatalf("order %v, want %v", got, want)
		}
	})
}

// The slots of names are the same whether a dictionary keeps few of them or all, and a
// raw slot's name is the slot.
func TestSlotsOfManyNames(t *testing.T) {
	for _, bits := range []int{1, 3, 12, 16} {
		d := Dict{HashBits: bits}
		d.AddRaw(Intercept)
		d.AddRaw("#1")
		want := map[uint64]uint32{1: 1}
		for i := range 20_000 {
			name := fmt.Sprint("f", i)
			s := HashName([]byte(name)) >> (64 - bits)
			id, ok := want[s]
			if !ok {
				id = uint32(d.Len())
				want[s] = id
			}
			x, ids := NewText(name), []uint32{0}
			if known := d.FindTexts(ids, Names, []Text{x}); known != ok || ok && ids[0] != id {
				t.Fatalf("%d bits: %s is found as %d %v, want %d %v", bits, name, ids[0], known, id, ok)
			}
			if got, err := d.AddText(Names, &x); err != nil || got != id {
				t.Fatalf("%d bits: %s is %d %v, want %d", bits, name, got, err, id)
			}
		}
		for s, id := range want {
			name := fmt.Sprint("#", s)
			if got, ok := d.Find(name); !ok || got != id || string(d.Name(id)) != name {
				t.Fatalf("%d bits: slot %s is %d %v, want %d", bits, name, got, ok, id)
			}
		}
		if id, ok := d.Find(Intercept); !ok || id != 0 {
			t.Fatalf("%d bits: the intercept is %d %v", bits, id, ok)
		}
		if _, ok := d.Find(fmt.Sprint("#", 1<<bits)); ok {
			t.Fatalf("%d bits: a slot behind the last", bits)
		}
		other := Dict{HashBits: bits}
		for i := range 300 {
			other.Add(fmt.Sprint("g", i))
		}
		for _, pair := range [][2]*Dict{{&d, &other}, {&other, &d}} {
			ids, err := pair[0].Merge(pair[1])
			if err != nil {
				t.Fatal(err)
			}
			for j, id := range ids {
				if a, b := string(pair[0].Name(id)), string(pair[1].Name(uint32(j))); a != b {
					t.Fatalf("%d bits: merging makes %s of %s", bits, a, b)
				}
			}
		}
	}
}

// Merging numbers names, numbers and texts of any length as adding them one by one.
func TestMergeOfDictionaries(t *testing.T) {
	names := func(d *Dict, from, to int) {
		for i := from; i < to; i++ {
			d.Add(fmt.Sprint("f", i))
			d.AddInt(i - 50)
			d.Add(fmt.Sprint("a name of more than twelve bytes ", i))
			d.Add(fmt.Sprint("c=", i%7))
		}
	}
	for _, split := range []int{0, 1, 2, 3} { // which of the two know the column c
		var a, b Dict
		if split&1 > 0 {
			a.Use(NewColumns([]string{"c"}, nil))
		}
		if split&2 > 0 {
			b.Use(NewColumns([]string{"d", "c"}, nil))
		}
		names(&a, 0, 1000)
		names(&b, 500, 3000)
		want := a.Clone()
		ids, err := a.Merge(&b)
		if err != nil {
			t.Fatal(err)
		}
		for j, got := range ids {
			id, err := want.AddRaw(string(b.Name(uint32(j))))
			if err != nil || got != id {
				t.Fatalf("%d: %q is %d, want %d %v", split, b.Name(uint32(j)), got, id, err)
			}
		}
	}
}

// Dictionaries so large that goroutines share their work: their order, the names that are read
// together, and a merge are those of one name after the other.
func TestManyNames(t *testing.T) {
	fill := func(d *Dict, from, to int) {
		d.Use(NewColumns([]string{"c"}, nil))
		for i := from; i < to; i++ {
			switch i % 5 {
			case 0:
				d.AddInt(i - 50)
			case 1:
				d.Add(fmt.Sprint("a name of more than twelve bytes ", i))
			case 2:
				d.Add(fmt.Sprint("c=", i))
			default:
				d.Add(fmt.Sprint("f", i))
			}
		}
	}
	for _, bits := range []int{0, 17} {
		var a, b Dict
		for _, d := range []*Dict{&a, &b} {
			d.AddRaw(Intercept)
			d.HashBits = bits
		}
		fill(&a, 0, 1<<17)
		fill(&b, 1<<16, 3<<16)
		if bits > 0 && !a.complete {
			t.Fatal("a has few slots")
		}
		want := a.Clone()
		ids, err := a.Merge(&b)
		if err != nil {
			t.Fatal(err)
		}
		for j, got := range ids {
			id, err := want.AddRaw(string(b.Name(uint32(j))))
			if err != nil || got != id {
				t.Fatalf("%d: %q is %d, want %d %v", bits, b.Name(uint32(j)), got, id, err)
			}
		}
		order := a.Order()
		if len(order) != a.Len() || a.Len() != want.Len() {
			t.Fatalf("%d: %d in order of %d, want %d", bits, len(order), a.Len(), want.Len())
		}
		text, ends := a.AppendNames(nil, nil, order)
		for k, id := range order {
			lo := 0
			if k > 0 {
				lo = ends[k-1]
				if CompareNames(string(a.Name(order[k-1])), string(a.Name(id))) >= 0 {
					t.Fatalf("%d: %q before %q", bits, a.Name(order[k-1]), a.Name(id))
				}
			}
			if got := string(text[lo:ends[k]]); got != string(a.Name(id)) {
				t.Fatalf("%d: %q, want %q", bits, got, a.Name(id))
			}
		}
	}
}

// The hashes of many names are those of each.
func TestHashNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	for range 20_000 {
		ts := make([]Text, 1+rng.IntN(4))
		number := false
		for k := range ts {
			b := make([]byte, rng.IntN(16))
			for i := range b {
				b[i] = "abz_=#09 \x00\xff"[rng.IntN(11)]
			}
			ts[k] = CopyText(b)
			number = number || len(b) > 0 && (b[0] == '#' || b[0] >= '0' && b[0] <= '9')
		}
		hs := make([]uint64, len(ts))
		if ok := hashNames(hs, ts); ok == number {
			t.Fatalf("%v: %v", ts, ok)
		} else if !ok {
			continue
		}
		for k := range ts {
			if want := HashName([]byte(ts[k].String())); hs[k] != want {
				t.Fatalf("%q: %x, want %x", ts[k].String(), hs[k], want)
			}
		}
	}
}

// Whole numbers by every door, in a table or out of it: those that are small beside the number
// of features, and large ones, those that came while the dictionary was small, texts between
// them, in a copy and merged.
func TestNumbersAgainstMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 4))
	for _, width := range []int64{12, 300, 20_000, 1 << 20, 1 << 40} {
		var d, other Dict
		want := map[string]uint32{}
		number := func(d *Dict, v int64, door int) (id uint32, err error) {
			name := fmt.Sprint(v)
			switch door {
			case 0:
				return d.AddInt(int(v))
			case 1:
				return d.AddRaw(name)
			}
			ts := []Text{NewText(name)}
			return d.AddText(Names, &ts[0])
		}
		for k := range 30_000 {
			v := rnd.Int64N(width)
			if _, err := number(&other, rnd.Int64N(2*width), k%3); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprint(v)
			add := func() (uint32, error) { return number(&d, v, rnd.IntN(3)) }
			if k%7 == 0 {
				name = "n" + name
				add = func() (uint32, error) { return d.Add(name) }
			}
			id, err := add()
			if w, ok := want[name]; err != nil || ok && w != id || !ok && int(id) != len(want) {
				t.Fatalf("%q of %d is %d, want %d (known %v): %v", name, len(want), id, w, ok, err)
			}
			want[name] = id
		}
		c := d.Clone()
		if _, err := c.Merge(&other); err != nil {
			t.Fatal(err)
		}
		for id := range uint32(other.Len()) {
			if _, ok := c.Find(string(other.Name(id))); !ok {
				t.Fatalf("%q is lost", other.Name(id))
			}
		}
		for _, d := range []*Dict{&d, &c} {
			ids := make([]uint32, 3)
			for k := range 5_000 {
				v := rnd.Int64N(2*width) - 1
				name := fmt.Sprint(v)
				known, has := want[name]
				if d == &c {
					if id, is := other.Find(name); is && !has {
						known, has = Missing, string(other.Name(id)) == name
					}
				}
				all := d.FindInts(ids[:1], []int64{v})
				ts := []Text{NewText(name), NewText(name)}
				texts := d.FindTexts(ids[1:], Names, ts)
				id, ok := d.Find(name)
				if !ok {
					id = Missing
				}
				if all != has || texts != has || ok != has || ids[0] != id || ids[1] != id || ids[2] != id || known != Missing && has && id != known {
					t.Fatalf("%d: %q: %v %v %v %v %d, want %v %d", k, name, ids, all, texts, ok, id, has, known)
				}
			}
		}
	}
}

// TestDictLookups: features are found one by one, some or all at once, and by their number, with
// the same result.
func TestDictLookups(t *testing.T) {
	for _, c := range []struct {
		columns bool
		bits    int
	}{{}, {columns: true}, {bits: 9}, {true, 9}} {
		d := Dict{HashBits: c.bits}
		col := Names
		if c.columns {
			d.Use(NewColumns([]string{"g"}, nil))
			col, _ = d.Column("g")
		}
		var texts []Text
		var ints []int64
		for k := range 1500 {
			text := NewText([]string{fmt.Sprint("name ", k), fmt.Sprint(k), fmt.Sprint("a=", k), fmt.Sprint("a name of more than twelve bytes ", k), fmt.Sprint("#", k)}[k%5])
			texts, ints = append(texts, text), append(ints, int64(7*k-300))
			if k%3 == 0 {
				continue // unknown, unless it falls into a slot of others
			}
			id, err := d.AddText(col, &text)
			if err != nil {
				t.Fatal(err)
			}
			if !c.columns && c.bits == 0 && k%5 == 0 && (!d.Is(id, &text) || d.Is(id+1, &text)) {
				t.Fatalf("%q is not feature %d, or is another", text.String(), id)
			}
			if _, err := d.AddInt(int(ints[k])); err != nil {
				t.Fatal(err)
			}
		}
		if d.Is(Missing, &texts[5]) {
			t.Error("no feature has a name")
		}
		find := map[string]func(ids []uint32, lo, hi int) bool{
			"texts": func(ids []uint32, lo, hi int) bool { return d.FindTexts(ids, col, texts[lo:hi]) },
			"ints":  func(ids []uint32, lo, hi int) bool { return d.FindInts(ids, ints[lo:hi]) },
		}
		for what, find := range find {
			all := make([]uint32, len(texts))
			find(all, 0, len(texts))
			for k, id := range all {
				if c.bits == 0 && what == "ints" && (id == Missing) != (k%3 == 0) || k%3 > 0 && id == Missing ||
					c.bits == 0 && what == "texts" && !c.columns && k%3 > 0 && k%5 != 1 && k%5 != 4 && string(d.Name(id)) != texts[k].String() {
					t.Fatalf("%+v, %s: %q, %d: feature %d", c, what, texts[k].String(), ints[k], id)
				}
			}
			for _, n := range []int{1, 20, fewLookups, fewLookups + 1} {
				some := make([]uint32, n)
				for lo := 0; lo+n <= len(texts); lo += n {
					known := find(some, lo, lo+n)
					if !slices.Equal(some, all[lo:lo+n]) || known == slices.Contains(some, Missing) {
						t.Fatalf("%+v, %d %s from %d: %v, together %v", c, n, what, lo, some, all[lo:lo+n])
					}
				}
			}
		}
	}
}
