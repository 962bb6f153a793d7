package arrowio

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// The Parquet library allocates a page by the size in its header, which is bounded, but its codecs
// for zstd and snappy then allocate by the size in the compressed data: a damaged one ends the
// process. These use only the given space, as the other codecs do, and as compress.Codec requires.

// codec is a codec of the library.
type codec interface {
	compress.Codec
	compress.StreamingCodec
}

// zstdWithin and snappyWithin decode into dst only, unless it is nil.
type (
	zstdWithin   struct{ codec }
	snappyWithin struct{ codec }
)

var zstdDecoder, errZstd = zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))

func init() {
	for c, within := range map[compress.Compression]func(codec) compress.Codec{
		compress.Codecs.Zstd:   func(c codec) compress.Codec { return zstdWithin{c} },
		compress.Codecs.Snappy: func(c codec) compress.Codec { return snappyWithin{c} },
	} {
		of, err := compress.GetCodec(c)
		if of, ok := of.(codec); ok && err == nil && errZstd == nil {
			compress.RegisterCodec(c, within(of))
		}
	}
}

func (z zstdWithin) Decode(dst, src []byte) []byte { return decoded(z.DecodeWithError(dst, src)) }

func (z zstdWithin) DecodeWithError(dst, src []byte) ([]byte, error) {
	if dst == nil {
		return compress.Decode(z.codec, nil, src)
	}
	return zstdDecoder.DecodeAll(src, dst[:0:len(dst)])
}

func (s snappyWithin) Decode(dst, src []byte) []byte { return decoded(s.DecodeWithError(dst, src)) }

func (s snappyWithin) DecodeWithError(dst, src []byte) ([]byte, error) {
	if n, k := binary.Uvarint(src); dst != nil && k > 0 && n > uint64(len(dst)) {
		return nil, fmt.Errorf("snappy: %d bytes of data where there is room for %d", n, len(dst))
	}
	return compress.Decode(s.codec, dst, src)
}

// decoded is the result of Codec.Decode, which panics on an error.
func decoded(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
