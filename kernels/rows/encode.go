package rows

import "github.com/bglm/bglm/kernels"

// Append encodes rows [lo, hi), numbers their features in d and appends them to b; with intercept,
// feature 0 comes first with value 1. If keep is not nil, only rows i with keep[i-lo] are encoded
// and add names to d.
//
// If all rows have the same features and the batch has no rows yet, it becomes a batch of Shared
// features.
//
// Errors: the dictionary's limit; ErrValue for the first encoded row with a value that is not
// finite, which is not in the batch.
func (e *Encoder) Append(lo, hi int, d *kernels.Dict, intercept bool, keep []bool, b *kernels.Batch) error {
	if e.dict != d {
		e.attach(d)
	}
	for from := lo; from < hi; {
		to := e.ensure(from, hi)
		part := keep
		if keep != nil {
			part = keep[from-lo : to-lo]
		}
		if err := e.block(from-e.lo, to-e.lo, d, intercept, part, b); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// attach binds the terms to the columns of d.
func (e *Encoder) attach(d *kernels.Dict) {
	e.dict = d
	own := e.cols == nil || d.Use(e.cols)
	for k := range e.terms {
		t := &e.terms[k]
		switch {
		case !t.split():
			t.named = kernels.Names
		case own:
			t.named = t.column
		default:
			t.named, _ = d.Column(t.name)
		}
	}
}

// ensure loads a block with row from, and returns the end of the rows up to hi in it.
func (e *Encoder) ensure(from, hi int) int {
	if from < e.lo || from >= e.hi {
		e.load(from, from+min(e.ahead(from), max(hi-from, 1)))
	}
	return min(hi, e.hi)
}

// Load reads ahead: rows up to n exist. Short runs of rows then share a block.
func (e *Encoder) Load(from, n int) {
	if from < e.lo || from >= e.hi {
		e.load(from, min(n, from+e.ahead(from)))
	}
}

// ahead is the number of rows to read from row i on: fewer if they have many entries.
func (e *Encoder) ahead(i int) int {
	entries := 0
	for k := range e.terms {
		if t := &e.terms[k]; t.several() && !t.col.Null(i) {
			lo, hi := t.col.Span(i)
			entries += hi - lo
		}
	}
	return min(block, max(entriesAhead/max(entries, 1), 16))
}

// Bad calls f for each of the rows [lo, hi) with a value that is not finite, with its error.
func (e *Encoder) Bad(lo, hi int, f func(row int, err error)) {
	for from := lo; from < hi; {
		to := e.ensure(from, hi)
		for _, x := range e.faults {
			if r := x.row + e.lo; from <= r && r < to {
				f(r, x.err)
			}
		}
		from = to
	}
}

// block encodes rows [lo, hi) of the loaded block.
func (e *Encoder) block(lo, hi int, d *kernels.Dict, intercept bool, keep []bool, b *kernels.Batch) error {
	first := -1
	for k, x := range e.faults {
		if lo <= x.row && x.row < hi && (keep == nil || keep[x.row-lo]) && (first < 0 || x.row < e.faults[first].row) {
			first = k
		}
	}
	if first >= 0 {
		return e.faults[first].err
	}
	all := true
	for k := range e.terms {
		known := e.find(&e.terms[k], lo, hi, d)
		nulls := e.findNulls(&e.terms[k], lo, hi, d)
		all = all && known && nulls
	}
	if !all {
		if err := e.addNew(lo, hi, keep, d); err != nil {
			return err
		}
	}
	if keep == nil && b.Len() == 0 && d.HashBits == 0 && !e.dups && e.share(lo, hi, intercept, b) {
		return nil
	}
	b.Unshare()
	e.emit(lo, hi, d, intercept, keep, b)
	e.count(lo, hi, keep, b)
	return nil
}

// find looks up the names of rows [lo, hi) and reports whether d has them all.
func (e *Encoder) find(t *term, lo, hi int, d *kernels.Dict) bool {
	if !t.several() {
		if t.numeric() {
			return e.findName(t, lo, hi, d)
		}
		return d.FindTexts(t.id[lo:hi], t.named, t.t[lo:hi]) || t.all(lo, hi)
	}
	a, z := t.off[lo], t.off[hi]
	switch {
	case t.kind == dense:
		base, ok := d.DenseBase(t.wide) // if they exist already, their numbers are consecutive
		if !ok {
			for k := a; k < z; k++ {
				t.id[k] = kernels.Missing
			}
			return false
		}
		ids := t.id[a:z]
		for k, i := range t.i[a:z] {
			ids[k] = uint32(base + int(i) - 1)
		}
		return true
	case a == z:
		return true
	case t.exact:
		return d.FindInts(t.id[a:z], t.i[a:z])
	}
	return d.FindTexts(t.id[a:z], t.named, t.t[a:z])
}

// all reports whether all rows of [lo, hi) that have an entry have a feature number.
func (t *term) all(lo, hi int) bool {
	if len(t.miss) == 0 {
		return false
	}
	for r := lo; r < hi; r++ {
		if t.id[r] == kernels.Missing && !t.miss[r] {
			return false
		}
	}
	return true
}

// findName looks up the single name of a numeric column.
func (e *Encoder) findName(t *term, lo, hi int, d *kernels.Dict) bool {
	id := [1]uint32{t.last}
	if t.whole || !d.Is(t.last, &t.text) { // groups number the columns equally, as a rule
		d.FindTexts(id[:], kernels.Names, []kernels.Text{t.text})
		t.last = id[0]
	}
	ids := t.id[lo:hi]
	if len(ids) > 0 {
		ids[0] = id[0]
	}
	for n := 1; n < len(ids); n *= 2 {
		copy(ids[n:], ids[:n])
	}
	return id[0] != kernels.Missing
}

// addNew numbers the names that are not in d yet, in the order of the rows and of the features in a
// row.
func (e *Encoder) addNew(lo, hi int, keep []bool, d *kernels.Dict) (err error) {
	for r := lo; r < hi; r++ {
		if keep != nil && !keep[r-lo] || !e.isPresent(r) {
			continue
		}
		for k := range e.terms {
			t := &e.terms[k]
			if t.several() {
				err = e.addSeveral(t, r, d)
			} else if (len(t.miss) == 0 || !t.miss[r] || t.numeric() && e.indicates(t)) && t.id[r] == kernels.Missing {
				t.id[r], err = e.addOne(t, r, d)
			}
			if err == nil {
				err = e.addNulls(t, r, d)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Encoder) addOne(t *term, r int, d *kernels.Dict) (uint32, error) {
	if t.numeric() {
		return d.AddText(kernels.Names, &t.text)
	}
	return d.AddText(t.named, &t.t[r])
}

func (e *Encoder) addSeveral(t *term, r int, d *kernels.Dict) (err error) {
	a, z := t.off[r], t.off[r+1]
	if t.kind == dense {
		if t.col.Null(e.lo + r) {
			return nil
		}
		lo, hi := t.col.Span(e.lo + r)
		base, err := d.Dense(hi - lo)
		if err != nil {
			return err
		}
		for k := a; k < z; k++ {
			if t.id[k] = uint32(base + int(t.i[k]) - 1); base < 0 {
				if t.id[k], err = d.AddInt(int(t.i[k])); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for k := a; k < z; k++ {
		switch {
		case t.id[k] != kernels.Missing:
		case t.exact:
			t.id[k], err = d.AddInt(int(t.i[k]))
		default:
			t.id[k], err = d.AddText(t.named, &t.t[k])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Alike reports whether rows may all have the same features: only with numbers alone.
func (e *Encoder) Alike() bool {
	for k := range e.terms {
		if t := &e.terms[k]; t.kind != number && t.kind != dense {
			return false
		}
	}
	return !e.dups
}

// together makes rows [lo, hi), which are loaded, a batch of shared features that are exactly those
// of d in their order, and returns false if they are not. Without learn d is not changed.
func (e *Encoder) together(lo, hi int, d *kernels.Dict, intercept, learn bool, b *kernels.Batch) bool {
	if !learn && e.cols != nil && !d.Uses(e.cols) {
		return false
	}
	if e.dict != d {
		e.attach(d)
	}
	lo, hi = lo-e.lo, hi-e.lo
	for k := range e.terms {
		if t := &e.terms[k]; len(t.miss) > 0 || len(t.lack) > 0 {
			return false // rows that lack a value have other features
		}
		if !e.find(&e.terms[k], lo, hi, d) && !learn {
			return false
		}
	}
	if learn && e.addNew(lo, hi, nil, d) != nil || !e.share(lo, hi, intercept, b) || len(b.Shared) != d.Len() {
		return false
	}
	for id, f := range b.Shared {
		if int(f) != id {
			return false
		}
	}
	return true
}

// ones is the column of the intercept.
var ones = func() (one [block]float64) {
	for i := range one {
		one[i] = 1
	}
	return one
}()

// share makes b a batch of shared features if rows [lo, hi) all have the same: only numbers, or one
// list of numbers of one length.
func (e *Encoder) share(lo, hi int, intercept bool, b *kernels.Batch) bool {
	if len(e.present) > 0 || len(e.terms) == 0 || hi-lo < 2 {
		return false
	}
	for k := range e.terms {
		t := &e.terms[k]
		if t.kind == number && len(t.miss) == 0 {
			continue
		}
		if t.kind != dense || len(e.terms) > 1 || len(t.lack) > 0 {
			return false
		}
		w := t.off[lo+1] - t.off[lo]
		if w == 0 {
			return false
		}
		for r := lo; r < hi; r++ {
			// A row without its whole list has lost NULL entries.
			if t.off[r+1]-t.off[r] != w || t.i[t.off[r+1]-1] != int64(w) {
				return false
			}
		}
	}
	shared := b.Keep[:0]
	if intercept {
		shared = append(shared, 0)
	}
	if e.wide {
		t := &e.terms[0]
		shared = append(shared, t.id[t.off[lo]:t.off[lo+1]]...)
	} else {
		for k := range e.terms {
			shared = append(shared, e.terms[k].id[lo])
		}
	}
	b.Shared, b.Keep = shared, shared
	e.count(lo, hi, nil, b)
	if b.ByColumn && !e.wide {
		if b.Columns = b.Columns[:0]; intercept {
			b.Columns = append(b.Columns, ones[:hi-lo])
		}
		for k := range e.terms {
			b.Columns = append(b.Columns, e.terms[k].numbers()[lo:hi])
		}
		return true
	}
	w, n := len(shared), hi-lo
	b.Value = resize(b.Value[:0], n*w)
	at := 0
	if intercept {
		for r := range n {
			b.Value[r*w] = 1
		}
		at = 1
	}
	if e.wide {
		t := &e.terms[0]
		for r := range n {
			copy(b.Value[r*w+at:(r+1)*w], t.x[t.off[lo+r]:t.off[lo+r+1]])
		}
		return true
	}
	const some = 32 // rows whose cache lines stay near
	for from := lo; from < hi; from += some {
		rows := b.Value[(from-lo)*w+at:]
		for k := range e.terms {
			i := k
			for _, v := range e.terms[k].numbers()[from:min(from+some, hi)] {
				rows[i] = v
				i += w
			}
		}
	}
	return true
}

// emit assembles the rows.
func (e *Encoder) emit(lo, hi int, d *kernels.Dict, intercept bool, keep []bool, b *kernels.Batch) {
	sum := e.dups || d.HashBits > 0
	if !e.wide && !sum && keep == nil && e.full() {
		e.emitFixed(lo, hi, intercept, b)
		return
	}
	for r := lo; r < hi; r++ {
		if keep != nil && !keep[r-lo] {
			continue
		}
		if intercept {
			b.Add(0, 1)
		}
		if !e.isPresent(r) {
			b.EndRow()
			continue
		}
		for k := range e.terms {
			t := &e.terms[k]
			switch {
			case t.several():
				a, z := t.off[r], t.off[r+1]
				b.Feature = append(b.Feature, t.id[a:z]...)
				if t.kind == pairs || t.kind == dense {
					b.Value = append(b.Value, t.x[a:z]...)
				} else {
					for range z - a {
						b.Value = append(b.Value, 1)
					}
				}
				if t.kind == dense && len(t.lack) > 0 {
					e.emitLacks(t, r, d, b)
				}
				if e.nullAt(t, r) {
					b.Add(t.nullID, 1)
				}
			case len(t.miss) > 0 && t.miss[r]:
				if e.indicates(t) {
					x := 1.0
					switch {
					case t.kind == cross && t.numeric():
						b.Add(t.id[r], given(t.x[r], d))
					case t.numeric():
						b.Add(t.id[r], absent(d))
					case t.kind == cross && t.mixed():
						x = given(t.x[r], d)
					}
					b.Add(t.nullID, x)
				}
			case t.kind == number || t.kind == cross:
				b.Add(t.id[r], given(t.numbers()[r], d))
			default:
				b.Add(t.id[r], 1)
			}
		}
		if sum {
			b.SumDuplicates(&e.seen)
		}
		b.EndRow()
	}
}

// emitLacks adds the indicators of NULL numbers in the list of row r.
func (e *Encoder) emitLacks(t *term, r int, d *kernels.Dict, b *kernels.Batch) {
	if e.as.missing != "indicator" {
		return
	}
	from := len(b.Value) - (t.off[r+1] - t.off[r])
	for _, l := range t.lack {
		if l.r == r {
			b.Value[from+l.place] = absent(d)
		}
	}
	for _, l := range t.lack {
		if l.r == r {
			b.Add(t.gaps[l.place], 1)
		}
	}
}

// full reports whether every row has every entry.
func (e *Encoder) full() bool {
	for k := range e.terms {
		if len(e.terms[k].miss) > 0 {
			return false
		}
	}
	return len(e.present) == 0
}

// emitFixed assembles rows with one entry per term, one column at a time.
func (e *Encoder) emitFixed(lo, hi int, intercept bool, b *kernels.Batch) {
	at, w := len(b.Feature), len(e.terms)
	if intercept {
		w++
	}
	n := hi - lo
	b.Feature = grow(b.Feature, n*w)
	b.Value = grow(b.Value, n*w)
	fs, xs := b.Feature[at:], b.Value[at:]
	first := 0
	if intercept {
		for r := range n {
			fs[r*w], xs[r*w] = 0, 1
		}
		first = 1
	}
	for k := range e.terms {
		t := &e.terms[k]
		p := first + k
		if t.kind == number || t.kind == cross {
			x := t.numbers()[lo:hi]
			for r, id := range t.id[lo:hi] {
				fs[p], xs[p] = id, x[r]
				p += w
			}
			continue
		}
		for _, id := range t.id[lo:hi] {
			fs[p], xs[p] = id, 1
			p += w
		}
	}
	for r := range n {
		b.Row = append(b.Row, at+(r+1)*w)
	}
}

// grow extends s by n entries of arbitrary value.
func grow[T any](s []T, n int) []T {
	if len(s)+n > cap(s) {
		return append(s, make([]T, n)...)
	}
	return s[:len(s)+n]
}
