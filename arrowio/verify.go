package arrowio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The Arrow library trusts the lengths in a file's metadata and allocates by them: a damaged one
// ends the process, not just the read. The code below checks the metadata (Flatbuffers, with the
// tables and slots of Message.fbs, Schema.fbs and File.fbs in Arrow's format 1.5) before the
// library reads it.

var errDamaged = errors.New("damaged: lengths in its metadata do not fit")

// Damage converts a panic or error of the Arrow and Parquet libraries into an error to report:
// accesses outside of an array, which Go's runtime stopped, are lengths that do not fit.
func Damage(what any) error {
	err, ok := what.(error)
	if !ok {
		err = fmt.Errorf("damaged: %v", what)
	}
	if strings.Contains(err.Error(), "runtime error") {
		return errDamaged
	}
	return err
}

const (
	maxMetadata = 64 << 20
	maxBody     = 256 << 20 // of a message; also the library's limit
	maxUnpacked = 1 << 30   // of a message's compressed buffers in total
	fewUnpacked = 64 << 20  // always allowed, however small the compressed size
	maxRatio    = 256       // times the compressed size, which may be added to it
	maxRows     = 1 << 28   // of a record
	maxFields   = 1 << 17
	maxDepth    = 64
)

// flat reads Flatbuffers with every access checked.
type flat struct {
	b      []byte
	fields int
	views  views
}

// views counts the fields of view types: each needs an entry in a record's list of variadic
// buffers, which the library reads past its end. Those inside dictionaries belong to the
// dictionaries' own records.
type views struct {
	plain  int
	inside map[int64]int // by dictionary id
}

func (m *flat) u32(at int) (int, error) {
	if at < 0 || at+4 > len(m.b) {
		return 0, errDamaged
	}
	return int(binary.LittleEndian.Uint32(m.b[at:])), nil
}

func (m *flat) i64(at int) (int64, error) {
	if at < 0 || at+8 > len(m.b) {
		return 0, errDamaged
	}
	return int64(binary.LittleEndian.Uint64(m.b[at:])), nil
}

// slot is the position of a table's field, 0 if it is absent.
func (m *flat) slot(table, k int) (int, error) {
	v, err := m.u32(table)
	if err != nil {
		return 0, err
	}
	vt := table - int(int32(v))
	if vt < 0 || vt+4 > len(m.b) {
		return 0, errDamaged
	}
	size := int(binary.LittleEndian.Uint16(m.b[vt:]))
	if vt+size > len(m.b) || size < 4 {
		return 0, errDamaged
	}
	if 4+2*k >= size { // as the library sees it, also when size is odd
		return 0, nil
	}
	if vt+4+2*k+2 > len(m.b) {
		return 0, errDamaged
	}
	off := int(binary.LittleEndian.Uint16(m.b[vt+4+2*k:]))
	if off == 0 {
		return 0, nil
	}
	if table+off >= len(m.b) {
		return 0, errDamaged
	}
	return table + off, nil
}

// at follows the reference in a slot; 0 if the slot is absent.
func (m *flat) at(table, k int) (int, error) {
	s, err := m.slot(table, k)
	if err != nil || s == 0 {
		return 0, err
	}
	off, err := m.u32(s)
	if err != nil || off == 0 || s+off >= len(m.b) {
		return 0, errDamaged
	}
	return s + off, nil
}

// number is the long in slot k of the table in slot t, 0 if it is absent.
func (m *flat) number(table, t, k int) (int64, error) {
	at, err := m.at(table, t)
	if err != nil {
		return 0, err
	}
	return m.long(at, k)
}

func (m *flat) long(table, k int) (int64, error) {
	s, err := m.slot(table, k)
	if err != nil || s == 0 {
		return 0, err
	}
	return m.i64(s)
}

// vector is the position and length of a slot's vector.
func (m *flat) vector(table, k, size int) (at, n int, err error) {
	v, err := m.at(table, k)
	if err != nil || v == 0 {
		return 0, 0, err
	}
	if n, err = m.u32(v); err != nil || n > (len(m.b)-v-4)/size {
		return 0, 0, errDamaged
	}
	return v + 4, n, nil
}

// tables visits the tables of a slot's vector.
func (m *flat) tables(table, k int, visit func(at int) error) error {
	lo, n, err := m.vector(table, k, 4)
	for i := 0; i < n && err == nil; i++ {
		var off int
		if off, err = m.u32(lo + 4*i); err == nil {
			err = visit(lo + 4*i + off)
		}
	}
	return err
}

func (m *flat) keyValues(table, k int) error {
	return m.tables(table, k, func(at int) error {
		for s := range 2 {
			if _, _, err := m.vector(at, s, 1); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *flat) schema(at int) error {
	if _, _, err := m.vector(at, 3, 8); err != nil {
		return err
	}
	if err := m.keyValues(at, 2); err != nil {
		return err
	}
	return m.tables(at, 1, func(at int) error { return m.field(at, 0, nil) })
}

func (m *flat) field(at, depth int, inside *int64) error {
	// References may share targets: a small file can describe a tree of any size.
	if m.fields++; m.fields > maxFields || depth > maxDepth {
		return errDamaged
	}
	if _, _, err := m.vector(at, 0, 1); err != nil {
		return err
	}
	if err := m.keyValues(at, 6); err != nil {
		return err
	}
	if d, err := m.slot(at, 4); err != nil {
		return err
	} else if d > 0 {
		id, err := m.number(at, 4, 0)
		if err != nil {
			return err
		}
		inside = &id
	}
	if s, err := m.slot(at, 2); err != nil {
		return err
	} else if s > 0 && (m.b[s] == 23 || m.b[s] == 24) { // BinaryView, Utf8View
		if inside == nil {
			m.views.plain++
		} else {
			if m.views.inside == nil {
				m.views.inside = map[int64]int{}
			}
			m.views.inside[*inside]++
		}
	}
	for _, k := range []int{3, 4} { // type and dictionary are tables
		t, err := m.at(at, k)
		if err != nil {
			return err
		}
		if t == 0 {
			continue
		}
		if _, err := m.slot(t, 0); err != nil {
			return err
		}
		if s, err := m.slot(at, 2); k == 3 && err == nil && s > 0 && m.b[s] == 14 { // Union: type ids
			if _, _, err := m.vector(t, 1, 4); err != nil {
				return err
			}
		}
	}
	return m.tables(at, 5, func(at int) error { return m.field(at, depth+1, inside) })
}

// record checks a RecordBatch and returns the ranges of its compressed buffers.
func (m *flat) record(at, needed int) (buffers [][2]int64, err error) {
	if s, err := m.slot(at, 0); err != nil {
		return nil, err
	} else if s > 0 {
		if n, err := m.i64(s); err != nil || n < 0 || n > maxRows {
			return nil, errDamaged
		}
	}
	lo, n, err := m.vector(at, 1, 16)
	for i := 0; i < n && err == nil; i++ {
		length, _ := m.i64(lo + 16*i)
		if nulls, _ := m.i64(lo + 16*i + 8); length < 0 || length > 1<<40 || nulls < -1 || nulls > length {
			err = errDamaged
		}
	}
	if err != nil {
		return nil, err
	}
	if lo, n, err = m.vector(at, 2, 16); err != nil {
		return nil, err
	}
	list, k, err := m.vector(at, 4, 8)
	if err == nil && k < needed {
		err = errDamaged
	}
	for i := range k { // how many buffers a view array has
		if v, _ := m.i64(list + 8*i); v < 0 || v > int64(n) {
			return nil, errDamaged
		}
	}
	packed, err2 := m.at(at, 3)
	if err = errors.Join(err, err2); err != nil || packed == 0 {
		return nil, err
	}
	for i := range n {
		off, _ := m.i64(lo + 16*i)
		size, _ := m.i64(lo + 16*i + 8)
		buffers = append(buffers, [2]int64{off, size})
	}
	return buffers, nil
}

// message checks the metadata of an encapsulated message. body is the length of the body that
// follows, packed the ranges of compressed buffers in it.
func (m *flat) message() (body int64, packed [][2]int64, err error) {
	root, err := m.u32(0)
	if err != nil {
		return 0, nil, err
	}
	if s, err := m.slot(root, 3); err != nil {
		return 0, nil, err
	} else if s > 0 {
		if body, err = m.i64(s); err != nil || body < 0 || body > maxBody {
			return 0, nil, errDamaged
		}
	}
	if err := m.keyValues(root, 4); err != nil {
		return 0, nil, err
	}
	s, err := m.slot(root, 1)
	if err != nil || s == 0 {
		return 0, nil, errDamaged
	}
	header, err := m.at(root, 2)
	if err != nil || header == 0 {
		return 0, nil, errDamaged
	}
	switch m.b[s] {
	case 1:
		err = m.schema(header)
	case 2:
		var id int64
		if id, err = m.long(header, 0); err != nil {
			break
		}
		if header, err = m.at(header, 1); err == nil && header == 0 {
			err = errDamaged
		}
		if err == nil {
			packed, err = m.record(header, m.views.inside[id])
		}
	case 3:
		packed, err = m.record(header, m.views.plain)
	}
	return body, packed, err
}

// checkPacked checks the uncompressed size of the compressed buffers of a body; prefix reads the
// eight bytes at an offset.
func checkPacked(packed [][2]int64, body int64, prefix func(at int64) (int64, error)) error {
	sum, size := int64(0), int64(0)
	for _, p := range packed {
		if p[0] < 0 || p[1] < 0 || p[0] > body || p[1] > body-p[0] {
			return errDamaged
		}
		if p[1] < 8 {
			continue
		}
		n, err := prefix(p[0])
		if err != nil {
			return err
		}
		if n < -1 || n > maxUnpacked {
			return errDamaged
		}
		size += p[1]
		if sum += max(n, 0); sum > maxUnpacked {
			return errDamaged
		}
	}
	if sum > fewUnpacked+maxRatio*size {
		return fmt.Errorf("damaged: %d bytes of compressed buffers unpack to %d", size, sum)
	}
	return nil
}

// Checked passes an Arrow IPC stream on, checking the lengths in each message first: the Arrow
// library allocates by them, true or not. The readers of this package do so themselves.
func Checked(in io.Reader) io.Reader { return &stream{in: in} }

// stream passes an IPC stream on, message by message, each after its check.
type stream struct {
	in   io.Reader
	out  []byte // checked, not read yet
	body int64  // unchecked bytes that follow: a body without compression
	buf  []byte
	err  error

	unended bool // it stopped between messages, without the one that ends it

	views views // of the schema
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		switch {
		case len(s.out) > 0:
			n := copy(p, s.out)
			s.out = s.out[n:]
			return n, nil
		case s.body > 0:
			n, err := s.in.Read(p[:min(int64(len(p)), s.body)])
			s.body -= int64(n)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		case s.err != nil:
			return 0, s.err
		}
		s.next()
	}
}

// next reads and checks the metadata of a message.
func (s *stream) next() {
	s.buf = append(s.buf[:0], make([]byte, 8)...)
	// Older streams have no marker before the length.
	n, err := io.ReadFull(s.in, s.buf[:4])
	if err != nil {
		s.out, s.err = s.buf[:n], err
		s.unended = err == io.EOF
		return
	}
	head := 4
	size := int64(binary.LittleEndian.Uint32(s.buf))
	if size == 0xffffffff {
		if n, err = io.ReadFull(s.in, s.buf[4:8]); err != nil {
			s.out, s.err = s.buf[:4+n], io.ErrUnexpectedEOF
			return
		}
		head, size = 8, int64(binary.LittleEndian.Uint32(s.buf[4:]))
	}
	if size == 0 { // the end of the stream
		s.out, s.err = s.buf[:head], io.EOF
		return
	}
	if size > maxMetadata {
		s.err = errDamaged
		return
	}
	if s.buf, err = grow(s.in, s.buf[:head], size); err != nil {
		s.err = err
		return
	}
	m := flat{b: s.buf[head:], views: s.views}
	body, packed, err := m.message()
	if err != nil {
		s.err = err
		return
	}
	s.views = m.views
	s.body = body
	if len(packed) > 0 {
		at := int64(len(s.buf))
		if s.buf, err = grow(s.in, s.buf, body); err != nil {
			s.err = err
			return
		}
		s.body = 0
		s.err = checkPacked(packed, body, func(k int64) (int64, error) {
			if k+8 > body {
				return 0, errDamaged
			}
			return int64(binary.LittleEndian.Uint64(s.buf[at+k:])), nil
		})
		if s.err != nil {
			return
		}
	}
	s.out = s.buf
}

// grow appends n bytes of in, in steps, since n may be false.
func grow(in io.Reader, b []byte, n int64) ([]byte, error) {
	const step = 1 << 20
	for n > 0 {
		k := int(min(n, step))
		at := len(b)
		b = append(b, make([]byte, k)...)
		if _, err := io.ReadFull(in, b[at:]); err != nil {
			return b, io.ErrUnexpectedEOF
		}
		n -= int64(k)
	}
	return b, nil
}

// checkFile checks the footer of an IPC file and the metadata of all blocks.
func checkFile(r io.ReaderAt, size int64) error {
	var tail [10]byte
	if size < 20 {
		return errors.New("too short for an Arrow IPC file")
	}
	if _, err := r.ReadAt(tail[:], size-10); err != nil {
		return err
	}
	if string(tail[4:]) != string(fileMagic) {
		return errors.New("cut off: its end is missing")
	}
	n := int64(int32(binary.LittleEndian.Uint32(tail[:])))
	if n <= 0 || n > size-18 || n > maxMetadata {
		return errDamaged
	}
	m := flat{b: make([]byte, n)}
	if _, err := r.ReadAt(m.b, size-10-n); err != nil {
		return err
	}
	root, err := m.u32(0)
	if err != nil {
		return err
	}
	schema, err := m.at(root, 1)
	if err != nil || schema == 0 {
		return errDamaged
	}
	if err := m.schema(schema); err != nil {
		return err
	}
	if err := m.keyValues(root, 4); err != nil {
		return err
	}
	for _, k := range []int{2, 3} {
		lo, blocks, err := m.vector(root, k, 24)
		if err != nil {
			return err
		}
		for i := range blocks {
			off, _ := m.i64(lo + 24*i)
			length, _ := m.u32(lo + 24*i + 8)
			body, _ := m.i64(lo + 24*i + 16)
			if err := checkBlock(r, size, off, int64(int32(length)), body, m.views); err != nil {
				return fmt.Errorf("record %d: %w", i+1, err)
			}
		}
	}
	return nil
}

func checkBlock(r io.ReaderAt, size, off, length, body int64, v views) error {
	if off < 0 || length < 8 || length > maxMetadata || body < 0 || body > maxBody || off > size || length+body > size-off {
		return errDamaged
	}
	b := make([]byte, length)
	if _, err := r.ReadAt(b, off); err != nil {
		return err
	}
	head := 4
	if binary.LittleEndian.Uint32(b) == 0xffffffff {
		head = 8
	}
	m := flat{b: b[head:], views: v}
	n, packed, err := m.message()
	if err != nil {
		return err
	}
	if n > body {
		return errDamaged
	}
	return checkPacked(packed, body, func(k int64) (int64, error) {
		var p [8]byte
		_, err := r.ReadAt(p[:], off+length+k)
		return int64(binary.LittleEndian.Uint64(p[:])), err
	})
}
