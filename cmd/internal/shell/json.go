package shell

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/duckdb/duckdb-go/v2"
)

type jsonNesting struct{}

func (jsonNesting) comma() string { return "," }
func (jsonNesting) field(dst []byte, name string) []byte {
	return append(appendJSONString(dst, name), ':')
}
func (n jsonNesting) key(dst []byte, t duckdb.TypeInfo, v any) []byte {
	return n.field(dst, string(appendText(nil, t, v)))
}
func (jsonNesting) value(dst []byte, t duckdb.TypeInfo, v any) []byte { return appendJSON(dst, t, v) }

// appendJSON writes a value as JSON: numbers as numbers with all their digits,
// LIST as array, STRUCT and MAP as objects (keys as text), everything else as
// its text form in quotes. JSON has no NaN and no infinity: they become the
// strings "NaN", "Infinity" and "-Infinity".
func appendJSON(dst []byte, t duckdb.TypeInfo, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, *big.Int:
		return appendText(dst, t, v)
	case float32:
		return appendJSONFloat(dst, float64(v), 32)
	case float64:
		return appendJSONFloat(dst, v, 64)
	case duckdb.Decimal:
		from := len(dst)
		dst = appendText(dst, t, v)
		// DECIMAL(2,2) prints as .25, which JSON does not allow.
		for i := from; i < len(dst) && i <= from+1; i++ {
			if dst[i] == '.' && (i == from || dst[i-1] == '-') {
				return slices.Insert(dst, i, '0')
			}
		}
		return dst
	case []any, map[string]any, duckdb.OrderedMap:
		return appendNested(dst, jsonNesting{}, t, v)
	case duckdb.Union:
		return appendJSON(dst, memberType(t, v.Tag), v.Value)
	default:
		return appendJSONString(dst, string(appendText(nil, t, v)))
	}
}

func appendJSONFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	return appendFloat(dst, f, bits)
}

func appendJSONString(dst []byte, s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// A string always encodes.
	_ = enc.Encode(s)
	return append(dst, bytes.TrimRight(b.Bytes(), "\n")...)
}

func sortedFields(v map[string]any) []field {
	fs := make([]field, 0, len(v))
	for name := range v {
		fs = append(fs, field{name: name})
	}
	slices.SortFunc(fs, func(a, b field) int {
		return bytes.Compare([]byte(a.name), []byte(b.name))
	})
	return fs
}
