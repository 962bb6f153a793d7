package rows

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/special"
)

// Layout describes the columns of a Source, so that its rows can be kept as bytes: the few rows of
// each of many fits then need tens of bytes, where a fit needs thousands. It is safe for concurrent
// use.
//
// A row is its columns one after the other: the response, those of weight, offset, trials and time
// that exist, then the features. An entry is 0 for NULL, otherwise 1 and its value: eight bytes for
// a number, a length and as many bytes or entries for a text or list, the fields of a struct.
type Layout struct {
	has     [4]bool // weight, offset, trials, time
	cols    []shape
	what    string
	words   Words
	readers sync.Pool
}

// shape describes a column.
type shape struct {
	kind    Kind
	name    string
	typ     string
	integer bool
	kids    []shape
	labels  *labels // of a Coded column
}

// labels are the labels of codes as far as they are known.
type labels struct {
	mu   sync.RWMutex
	text []string
}

// layouts are shared by all rows of the same columns.
var layouts shared[Layout]

// Layout returns the layout of the rows of s, the same for all with the same columns; nil if they
// cannot be packed.
func (s *Source) Layout() *Layout {
	if s.X == nil || s.X.x == nil || s.Y == nil || s.X.tail != nil || s.Need != nil || s.Check {
		return nil
	}
	l := &Layout{what: s.X.what, words: s.X.words}
	key := append([]byte(l.what), 0)
	for k := range l.has {
		l.has[k] = s.column(k) != nil
	}
	for c := range s.columns {
		of, ok := shapeOf(c, &key)
		if !ok {
			return nil
		}
		l.cols = append(l.cols, of)
	}
	for _, has := range l.has {
		key = strconv.AppendBool(key, has)
	}
	return layouts.of(string(key), func() *Layout { return l })
}

// columns visits the columns of a row.
func (s *Source) columns(visit func(c Column) bool) {
	if !visit(s.Y) {
		return
	}
	for k := range s.scalar {
		if c := s.column(k); c != nil && !visit(c) {
			return
		}
	}
	visit(s.X.x)
}

// shapeOf returns the shape of c, which it appends to key; false if c holds values that cannot be
// packed.
func shapeOf(c Column, key *[]byte) (s shape, ok bool) {
	s = shape{kind: c.Kind(), name: strings.Clone(c.Name()), typ: strings.Clone(c.Type()), integer: c.Kind() == Number && c.Integer()}
	*key = append(*key, byte(s.kind), byte(c.Children()))
	*key = append(append(append(append(*key, s.name...), 0), s.typ...), 0)
	if s.kind == Other || c.Children() > math.MaxUint8 {
		return s, false
	}
	if s.kind == Coded {
		s.labels = new(labels)
	}
	for k := range c.Children() {
		kid, ok := shapeOf(c.Child(k), key)
		if !ok {
			return s, false
		}
		s.kids = append(s.kids, kid)
	}
	return s, true
}

// Packer appends rows to bytes. The zero value is ready; it is used by one goroutine at a time.
type Packer struct {
	x [1]float64
	i [1]int64
	t [1]kernels.Text
}

// Pack appends rows [lo, hi) of s, whose layout is l, to data. It leaves data unchanged if one of
// them cannot be packed or the result would exceed limit bytes.
func (p *Packer) Pack(l *Layout, data []byte, s *Source, lo, hi, limit int) (packed []byte, ok bool) {
	packed = data
	for i := lo; i < hi; i++ {
		k := 0
		for c := range s.columns {
			if packed, ok = p.entry(packed, &l.cols[k], c, i, limit); !ok {
				return data, false
			}
			k++
		}
	}
	return packed, true
}

// entry appends entry i of c.
func (p *Packer) entry(data []byte, s *shape, c Column, i, limit int) ([]byte, bool) {
	if len(data) >= limit {
		return data, false
	}
	if s.kind == Null || c.Null(i) {
		return append(data, 0), true
	}
	data = append(data, 1)
	switch s.kind {
	case Number:
		if s.integer {
			if !c.Ints(p.i[:], i) {
				return data, false
			}
			return binary.LittleEndian.AppendUint64(data, uint64(p.i[0])), true
		}
		fallthrough
	case Date:
		c.Floats(p.x[:], i)
		return binary.LittleEndian.AppendUint64(data, math.Float64bits(p.x[0])), true
	case Bool:
		c.Floats(p.x[:], i)
		return append(data, byte(p.x[0])), true
	case Text:
		c.Texts(p.t[:], i)
		n := p.t[0].Len()
		if n > limit-len(data) {
			return data, false
		}
		return p.t[0].Append(binary.AppendUvarint(data, uint64(n))), true
	case Coded:
		code := c.Code(i)
		return binary.AppendUvarint(data, uint64(code)), s.labels.learn(c, code)
	case List, Map:
		lo, hi := c.Span(i)
		if hi-lo > limit-len(data) {
			return data, false
		}
		data = binary.AppendUvarint(data, uint64(hi-lo))
		for at, kid := lo, c.Child(0); at < hi; at++ {
			var ok bool
			if data, ok = p.entry(data, &s.kids[0], kid, at, limit); !ok {
				return data, false
			}
		}
		return data, true
	case Struct:
		for k := range s.kids {
			var ok bool
			if data, ok = p.entry(data, &s.kids[k], c.Child(k), i, limit); !ok {
				return data, false
			}
		}
		return data, true
	}
	return data, false
}

// maxCodes limits the labels that a layout keeps.
const maxCodes = 1 << 16

// learn records the label of a code; false if it differs from the one recorded before.
func (l *labels) learn(c Column, code int) bool {
	if code < 0 || code >= maxCodes {
		return false
	}
	text, err := c.Label(code)
	if err != nil {
		return false
	}
	l.mu.RLock()
	was, known := "", code < len(l.text)
	if known {
		was = l.text[code]
	}
	l.mu.RUnlock()
	if known && was != "" {
		return was == text
	}
	if text == "" { // it marks an unknown label
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if code >= len(l.text) {
		l.text = append(l.text, make([]string, code+1-len(l.text))...)
	}
	if l.text[code] == "" {
		l.text[code] = strings.Clone(text)
	}
	return l.text[code] == text
}

func (l *labels) of(code int) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.text[code]
}

// Numbers reads packed rows of numbers into b: response, scalars, and width values per row, the
// first being 1 if intercept is set. It returns false, leaving b unusable, if a row has other
// columns, an entry that is NULL or not finite, or a different number of values.
func (l *Layout) Numbers(data []byte, intercept bool, width int, b *kernels.Batch) bool {
	x := &l.cols[len(l.cols)-1]
	scalars := [4]*[]float64{&b.Weight, &b.Offset, &b.Trials, &b.Time}
	for len(data) > 0 {
		at, ok := 0, false
		if b.Y, data, ok = l.cols[0].number(b.Y, data); !ok {
			return false
		}
		for k, has := range l.has {
			if has {
				at++
				if *scalars[k], data, ok = l.cols[at].number(*scalars[k], data); !ok {
					return false
				}
			}
		}
		if x.kind != Struct || data[0] == 0 {
			return false
		}
		data = data[1:]
		from := len(b.Value)
		if intercept {
			b.Value = append(b.Value, 1)
		}
		for k := range x.kids {
			if b.Value, data, ok = x.kids[k].number(b.Value, data); !ok {
				return false
			}
		}
		if len(b.Value)-from != width {
			return false
		}
	}
	return true
}

// number appends the number at the start of data to dst.
func (s *shape) number(dst []float64, data []byte) ([]float64, []byte, bool) {
	switch {
	case data[0] == 0:
		return dst, data, false
	case s.kind == Bool:
		return append(dst, float64(data[1])), data[2:], true
	case s.kind != Number:
		return dst, data, false
	}
	v, u := 0.0, binary.LittleEndian.Uint64(data[1:])
	if s.integer {
		v = float64(int64(u))
	} else if v = math.Float64frombits(u); !special.Finite(v) {
		return dst, data, false
	}
	return append(dst, v), data[9:], true
}

// Unpacked are packed rows as a Source. It is used by one goroutine at a time.
type Unpacked struct {
	*Source
	layout *Layout
	cols   []unpacked
}

// Unpack reads data that Packer.Pack wrote with l: rows 0 to n of the Source, valid until Close.
// Errors: those of NewEncoder.
func (l *Layout) Unpack(data []byte) (u *Unpacked, n int, err error) {
	u, _ = l.readers.Get().(*Unpacked)
	if u == nil {
		if u, err = l.reader(); err != nil {
			return nil, 0, err
		}
	}
	for k := range u.cols {
		u.cols[k].reset()
	}
	for ; len(data) > 0; n++ {
		for k := range u.cols {
			data = u.cols[k].read(data)
		}
	}
	u.X.Forget()
	return u, n, nil
}

// Close releases u for reuse.
func (u *Unpacked) Close() {
	u.X.Forget()
	u.layout.readers.Put(u)
}

func (l *Layout) reader() (*Unpacked, error) {
	u := &Unpacked{Source: new(Source), layout: l, cols: make([]unpacked, len(l.cols))}
	for k := range u.cols {
		u.cols[k].of(&l.cols[k])
	}
	u.Y = &u.cols[0]
	at := 1
	for k, to := range [4]*Column{&u.Weight, &u.Offset, &u.Trials, &u.Time} {
		if l.has[k] {
			*to = &u.cols[at]
			at++
		}
	}
	var err error
	u.X, err = NewEncoder(&u.cols[at], l.what, l.words)
	return u, err
}

// unpacked is a column of packed rows.
type unpacked struct {
	*shape
	null  []bool
	nulls bool
	x     []float64
	i     []int64
	code  []int
	text  []kernels.Text
	ends  []int // of lists
	kids  []unpacked
}

func (c *unpacked) of(s *shape) {
	c.shape, c.kids = s, make([]unpacked, len(s.kids))
	for k := range c.kids {
		c.kids[k].of(&s.kids[k])
	}
}

func (c *unpacked) reset() {
	c.null, c.nulls = c.null[:0], false
	c.x, c.i, c.code, c.text, c.ends = c.x[:0], c.i[:0], c.code[:0], c.text[:0], c.ends[:0]
	for k := range c.kids {
		c.kids[k].reset()
	}
}

// read adds the entry at the start of data, and returns the remaining data.
func (c *unpacked) read(data []byte) []byte {
	there := data[0] == 1
	data = data[1:]
	if !there {
		c.addNull()
		return data
	}
	c.null = append(c.null, false)
	count := func() int {
		v, n := binary.Uvarint(data)
		data = data[n:]
		return int(v)
	}
	switch c.kind {
	case Number, Date:
		v := binary.LittleEndian.Uint64(data)
		data = data[8:]
		if c.integer {
			c.i = append(c.i, int64(v))
			c.x = append(c.x, float64(int64(v)))
		} else {
			c.x = append(c.x, math.Float64frombits(v))
		}
	case Bool:
		c.x = append(c.x, float64(data[0]))
		data = data[1:]
	case Text:
		n := count()
		c.text = append(c.text, kernels.NewText(unsafe.String(unsafe.SliceData(data), n)))
		data = data[n:]
	case Coded:
		c.code = append(c.code, count())
	case List, Map:
		for range count() {
			data = c.kids[0].read(data)
		}
		c.ends = append(c.ends, len(c.kids[0].null))
	case Struct:
		for k := range c.kids {
			data = c.kids[k].read(data)
		}
	}
	return data
}

// addNull adds an entry that is NULL.
func (c *unpacked) addNull() {
	c.null, c.nulls = append(c.null, true), true
	switch c.kind {
	case Number, Date, Bool:
		c.x = append(c.x, 0)
		if c.integer {
			c.i = append(c.i, 0)
		}
	case Text:
		c.text = append(c.text, kernels.Text{})
	case Coded:
		c.code = append(c.code, 0)
	case List, Map:
		c.ends = append(c.ends, len(c.kids[0].null))
	case Struct:
		for k := range c.kids {
			c.kids[k].addNull()
		}
	}
}

func (c *unpacked) Kind() Kind                         { return c.kind }
func (c *unpacked) Name() string                       { return c.name }
func (c *unpacked) Type() string                       { return c.typ }
func (c *unpacked) Entries() int                       { return len(c.null) }
func (c *unpacked) MayNull() bool                      { return c.nulls || c.kind == Null }
func (c *unpacked) Null(i int) bool                    { return c.null[i] }
func (c *unpacked) Integer() bool                      { return c.integer }
func (c *unpacked) Floats(dst []float64, lo int)       { copy(dst, c.x[lo:]) }
func (c *unpacked) View(lo, hi int) []float64          { return c.x[lo:hi:hi] }
func (c *unpacked) Texts(dst []kernels.Text, lo int)   { copy(dst, c.text[lo:]) }
func (c *unpacked) AppendInt(dst []byte, i int) []byte { return strconv.AppendInt(dst, c.i[i], 10) }
func (c *unpacked) Code(i int) int                     { return c.code[i] }
func (c *unpacked) Label(code int) (string, error)     { return c.labels.of(code), nil }
func (c *unpacked) Children() int                      { return len(c.kids) }
func (c *unpacked) Child(k int) Column                 { return &c.kids[k] }

func (c *unpacked) Ints(dst []int64, lo int) bool {
	copy(dst, c.i[lo:])
	return true
}

func (c *unpacked) Span(i int) (lo, hi int) {
	if i > 0 {
		lo = c.ends[i-1]
	}
	return lo, c.ends[i]
}
