package pqrows_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/bglm/bglm/arrowio/pqrows"
)

// What compressed pages say of their own size is not believed: 60 GB would end the process. Pages
// that keep to the size in their header are read.
func TestUnpackedSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, 1000)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	first := binary.LittleEndian.AppendUint64(nil, math.Float64bits(x[0]))
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues(x, nil)
	s := arrow.NewSchema([]arrow.Field{{Name: "mean", Type: arrow.PrimitiveTypes.Float64}}, nil)
	rec := array.NewRecordBatch(s, []arrow.Array{b.NewArray()}, int64(len(x)))
	for c, spoil := range map[compress.Compression]func(file []byte){
		compress.Codecs.Snappy: func(file []byte) { // a varint before the first values
			binary.PutUvarint(file[bytes.Index(file, first)-5:], math.MaxUint32)
		},
		compress.Codecs.Zstd: func(file []byte) { // a frame with a size of eight bytes
			at := bytes.Index(file, []byte{0x28, 0xb5, 0x2f, 0xfd}) + 4
			file[at], file[at+1] = 0xc0, 0
			binary.LittleEndian.PutUint64(file[at+2:], 60<<30)
		},
	} {
		var out bytes.Buffer
		w, err := pqarrow.NewFileWriter(s, &out, parquet.NewWriterProperties(parquet.WithCompression(c), parquet.WithDictionaryDefault(false)), pqarrow.DefaultWriterProps())
		if err == nil {
			err = w.Write(rec)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.parquet")
		read := func(file []byte) (sum float64, err error) {
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := pqrows.Open(t.Context(), path, nil)
			if err != nil {
				return 0, err
			}
			defer r.Release()
			for r.Next() {
				for _, v := range r.RecordBatch().Column(0).(*array.Float64).Float64Values() {
					sum += v
				}
			}
			return sum, r.Err()
		}
		want := 0.0
		for _, v := range x {
			want += v
		}
		if got, err := read(out.Bytes()); err != nil || got != want {
			t.Errorf("%v: %v, %v; want %v", c, got, err, want)
		}
		spoil(out.Bytes())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = read(out.Bytes())
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; err == nil || grown > 64<<20 {
			t.Errorf("%v: %d MiB allocated for a file of %d bytes; %v", c, grown>>20, out.Len(), err)
		}
	}
}
