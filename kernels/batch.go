package kernels

// Batch is a block of rows in columnar, row-compressed form. Producers may reuse
// its memory between calls; engines keep nothing of it.
type Batch struct {
	// Row has n+1 offsets: row i owns entries Row[i] to Row[i+1].
	Row []int
	// Feature and Value are the entries: the feature's number in the Dict and
	// its value. A feature occurs at most once in a row; zeros are allowed and
	// count as seen.
	Feature []uint32
	Value   []float64

	Y      []float64 // responses, length n; nil when only predicting
	Weight []float64 // likelihood exponents, nil = 1
	Offset []float64 // added to the linear predictor, nil = 0
	Trials []float64 // binomial trials, nil = family default
	Time   []float64 // times of the rows, nil = rows count
}

// Len is the number of rows.
func (b *Batch) Len() int {
	if len(b.Row) == 0 {
		return 0
	}
	return len(b.Row) - 1
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.Row = append(b.Row[:0], 0)
	b.Feature, b.Value = b.Feature[:0], b.Value[:0]
	b.Y, b.Weight, b.Offset, b.Trials, b.Time = b.Y[:0], b.Weight[:0], b.Offset[:0], b.Trials[:0], b.Time[:0]
}

// Add appends an entry to the open row.
func (b *Batch) Add(feature uint32, value float64) {
	b.Feature = append(b.Feature, feature)
	b.Value = append(b.Value, value)
}

// EndRow closes the open row.
func (b *Batch) EndRow() { b.Row = append(b.Row, len(b.Feature)) }

// DropRow forgets the entries of the open row.
func (b *Batch) DropRow() {
	lo := b.Row[len(b.Row)-1]
	b.Feature, b.Value = b.Feature[:lo], b.Value[:lo]
}

// SumDuplicates adds up equal features of the open row: in a factorised belief
// two entries of one weight would count its variance twice.
func (b *Batch) SumDuplicates(s *Scratch) {
	lo := b.Row[len(b.Row)-1]
	f, v := b.Feature[lo:], b.Value[lo:]
	if len(f) < 2 {
		return
	}
	n := 1
	if len(f) <= 24 {
		for i := 1; i < len(f); i++ {
			j := 0
			for j < n && f[j] != f[i] {
				j++
			}
			if j < n {
				v[j] += v[i]
				continue
			}
			f[n], v[n] = f[i], v[i]
			n++
		}
	} else {
		s.next()
		s.at(f[0], 0)
		for i := 1; i < len(f); i++ {
			if j, seen := s.at(f[i], n); seen {
				v[j] += v[i]
				continue
			}
			f[n], v[n] = f[i], v[i]
			n++
		}
	}
	b.Feature, b.Value = b.Feature[:lo+n], b.Value[:lo+n]
}

// Scratch remembers which features a row has had, without clearing between rows.
type Scratch struct {
	epoch uint32
	stamp []uint32
	pos   []int32
}

func (s *Scratch) next() {
	if s.epoch++; s.epoch == 0 {
		clear(s.stamp)
		s.epoch = 1
	}
}

// at returns where feature f stands in this row, or notes pos.
func (s *Scratch) at(f uint32, pos int) (int, bool) {
	if int(f) >= len(s.stamp) {
		n := max(int(f)+1, 2*len(s.stamp))
		s.stamp = append(s.stamp, make([]uint32, n-len(s.stamp))...)
		s.pos = append(s.pos, make([]int32, n-len(s.pos))...)
	}
	if s.stamp[f] == s.epoch {
		return int(s.pos[f]), true
	}
	s.stamp[f], s.pos[f] = s.epoch, int32(pos)
	return pos, false
}
