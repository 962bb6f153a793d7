package pqrows_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
)

func streamOf(t *testing.T, name string, cols ...arrow.Array) []byte {
	t.Helper()
	return packedStream(t, name, nil, cols...)
}

func packedStream(t *testing.T, name string, o []ipc.Option, cols ...arrow.Array) []byte {
	t.Helper()
	var fields []arrow.Field
	for range cols {
		fields = append(fields, arrow.Field{Name: name, Type: cols[0].DataType(), Nullable: true})
	}
	s := arrow.NewSchema(fields, nil)
	var b bytes.Buffer
	w := ipc.NewWriter(&b, append(o, ipc.WithSchema(s))...)
	if err := w.Write(array.NewRecordBatch(s, cols, int64(cols[0].Len()))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// peak is the most memory that f's heap takes, sampled.
func peak(f func()) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, most := m.HeapAlloc, uint64(0)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			time.Sleep(2 * time.Millisecond)
		}
	}()
	f()
	stop.Store(true)
	<-done
	return max(most, before) - before
}

// A small stream cannot make its way to Parquet, and so to DuckDB, take more memory
// than slices of its rows: neither by one long entry of a dictionary for all rows nor
// by rows without bytes.
func TestSmallStreamsStaySmall(t *testing.T) {
	const long, rows = 40_000, 8_000 // 320 MB as text
	b := array.NewDictionaryBuilder(memory.DefaultAllocator, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}).(*array.BinaryDictionaryBuilder)
	for range rows {
		if err := b.AppendString(strings.Repeat("x", long)); err != nil {
			t.Fatal(err)
		}
	}
	for name, in := range map[string][]byte{
		"dictionary": streamOf(t, "d", b.NewArray()),
		"null":       streamOf(t, "n", array.NewNull(1_000_000)),
	} {
		if len(in) > 60_000 {
			t.Fatalf("%s: the stream has %d bytes", name, len(in))
		}
		took := peak(func() {
			r, err := arrowio.StreamIPC(name, bytes.NewReader(in))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := pqrows.FromArrow(io.Discard, r); err != nil {
				t.Error(err)
			}
		})
		t.Logf("%s: %d MB for %d KB", name, took>>20, len(in)>>10)
		if took > 250<<20 {
			t.Errorf("%s: %d MB of memory for a stream of %d KB", name, took>>20, len(in)>>10)
		}
	}
}

// A row of a few bytes cannot hold 100 million values.
func TestValuesWithoutBytes(t *testing.T) {
	offsets := memory.NewBufferBytes(binary.LittleEndian.AppendUint32(make([]byte, 4), 100_000_000))
	list := array.NewListData(array.NewData(arrow.ListOf(arrow.Null), 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{array.NewNull(100_000_000).Data()}, 0, 0))
	const n = 12 << 20
	zeros := array.NewInt64Data(array.NewData(arrow.PrimitiveTypes.Int64, n, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8*n))}, nil, 0, 0))
	for name, in := range map[string][]byte{"lists": streamOf(t, "l", list), "rows": streamOf(t, "n", array.NewNull(200_000_000)), "packed": packedStream(t, "p", []ipc.Option{ipc.WithZstd()}, zeros)} {
		var err error
		took := peak(func() {
			var r *arrowio.Reader
			if r, err = arrowio.StreamIPC(name, bytes.NewReader(in)); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			err = pqrows.FromArrow(io.Discard, r)
		})
		t.Logf("%s: %d MB for %d bytes", name, took>>20, len(in))
		if err == nil || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), "damaged: ") || took > 100<<20 {
			t.Errorf("%s: %d MB of memory for a stream of %d bytes, error %v", name, took>>20, len(in), err)
		}
	}
}

// Offsets that go back and indices outside of their dictionary are found by the
// reader, whoever reads from it.
func TestDamagedArrays(t *testing.T) {
	sb := array.NewStringBuilder(memory.DefaultAllocator)
	for range 1000 {
		sb.Append("0123456789")
	}
	text := streamOf(t, "s", sb.NewStringArray())
	// The offsets 10, 20, 30: the second becomes 9,000.
	at := bytes.Index(text, []byte{10, 0, 0, 0, 20, 0, 0, 0, 30, 0, 0, 0})
	binary.LittleEndian.PutUint32(text[at+4:], 9000)

	db := array.NewDictionaryBuilder(memory.DefaultAllocator, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}).(*array.BinaryDictionaryBuilder)
	for i := range 64 {
		if err := db.AppendString(strings.Repeat("v", i%3+1)); err != nil {
			t.Fatal(err)
		}
	}
	dict := streamOf(t, "d", db.NewArray())
	at = bytes.Index(dict, []byte{1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})
	binary.LittleEndian.PutUint32(dict[at:], 3)

	for name, in := range map[string][]byte{"column \"s\": string offsets": text, "entry 3 of a dictionary of 3": dict} {
		r, err := arrowio.StreamIPC("rows", bytes.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		err = pqrows.FromArrow(io.Discard, r)
		if err == nil || !strings.Contains(err.Error(), "rows: damaged: ") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
		r.Close()
	}
}
