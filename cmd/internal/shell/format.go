package shell

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"
)

// appendText writes a value as DuckDB's cast to VARCHAR does. t describes the value's type; if it
// is nil, the Go type decides alone.
func appendText(dst []byte, t duckdb.TypeInfo, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "NULL"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int8:
		return strconv.AppendInt(dst, int64(v), 10)
	case int16:
		return strconv.AppendInt(dst, int64(v), 10)
	case int32:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case uint8:
		return strconv.AppendUint(dst, uint64(v), 10)
	case uint16:
		return strconv.AppendUint(dst, uint64(v), 10)
	case uint32:
		return strconv.AppendUint(dst, uint64(v), 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case float32:
		return appendFloat(dst, float64(v), 32)
	case float64:
		return appendFloat(dst, v, 64)
	case *big.Int:
		return v.Append(dst, 10)
	case duckdb.Decimal:
		return appendDecimal(dst, v)
	case string:
		return append(dst, v...)
	case []byte:
		if kind(t) == duckdb.TYPE_UUID && len(v) == 16 {
			return appendUUID(dst, v)
		}
		return appendBlob(dst, v)
	case time.Time:
		return appendTime(dst, kind(t), v)
	case duckdb.Interval:
		return appendInterval(dst, v)
	case duckdb.Bit:
		return append(dst, v.String()...)
	case []any, map[string]any, duckdb.OrderedMap:
		return appendNested(dst, textNesting{}, t, v)
	case duckdb.Union:
		return appendText(dst, memberType(t, v.Tag), v.Value)
	default:
		// What remains are parsed JSON values.
		return appendGeneric(dst, v)
	}
}

// nesting is how a format writes the contents of a LIST, STRUCT or MAP.
type nesting interface {
	comma() string
	// field writes the name of a STRUCT's field, key the key of a MAP, each with its separator.
	field(dst []byte, name string) []byte
	key(dst []byte, t duckdb.TypeInfo, v any) []byte
	value(dst []byte, t duckdb.TypeInfo, v any) []byte
}

type textNesting struct{}

func (textNesting) comma() string { return ", " }
func (textNesting) field(dst []byte, name string) []byte {
	return append(appendQuoted(dst, name), ": "...)
}
func (textNesting) key(dst []byte, t duckdb.TypeInfo, v any) []byte {
	return append(appendInner(dst, t, v), '=')
}
func (textNesting) value(dst []byte, t duckdb.TypeInfo, v any) []byte { return appendInner(dst, t, v) }

// appendNested writes a LIST, STRUCT or MAP.
func appendNested(dst []byte, n nesting, t duckdb.TypeInfo, v any) []byte {
	next := func(i int) {
		if i > 0 {
			dst = append(dst, n.comma()...)
		}
	}
	switch v := v.(type) {
	case []any:
		child := childType(t)
		dst = append(dst, '[')
		for i, e := range v {
			next(i)
			dst = n.value(dst, child, e)
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		for i, f := range fields(t, v) {
			next(i)
			dst = n.value(n.field(dst, f.name), f.t, v[f.name])
		}
	case duckdb.OrderedMap:
		kt, vt := mapTypes(t)
		keys, values := v.Keys(), v.Values()
		dst = append(dst, '{')
		for i := range keys {
			next(i)
			dst = n.value(n.key(dst, kt, keys[i]), vt, values[i])
		}
	}
	return append(dst, '}')
}

// appendInner writes a value inside a LIST, STRUCT or MAP: text that could be
// mistaken for structure is quoted.
func appendInner(dst []byte, t duckdb.TypeInfo, v any) []byte {
	switch v.(type) {
	case nil, []any, map[string]any, duckdb.OrderedMap, duckdb.Union:
		return appendText(dst, t, v)
	case string, time.Time, duckdb.Interval, []byte:
		from := len(dst)
		dst = appendText(dst, t, v)
		if _, blob := v.([]byte); blob {
			return dst // escaped already
		}
		if s := string(dst[from:]); needsQuotes(s) {
			return appendQuoted(dst[:from], s)
		}
		return dst
	default:
		return appendText(dst, t, v)
	}
}

// needsQuotes reports text that is empty, like NULL, has outer blanks, or a character with a
// meaning in the text form of nested values.
func needsQuotes(s string) bool {
	if s == "" || strings.EqualFold(s, "NULL") || outerBlank(s[0]) || outerBlank(s[len(s)-1]) {
		return true
	}
	return strings.ContainsAny(s, "'\"(),:=[]{}")
}

func outerBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '\'')
	for i := range len(s) {
		if s[i] == '\'' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '\'')
}

func kind(t duckdb.TypeInfo) duckdb.Type {
	if t == nil {
		return duckdb.TYPE_INVALID
	}
	return t.InternalType()
}

func childType(t duckdb.TypeInfo) duckdb.TypeInfo {
	if t == nil {
		return nil
	}
	switch d := t.Details().(type) {
	case *duckdb.ListDetails:
		return d.Child
	case *duckdb.ArrayDetails:
		return d.Child
	}
	return nil
}

func mapTypes(t duckdb.TypeInfo) (key, value duckdb.TypeInfo) {
	if t == nil {
		return nil, nil
	}
	if d, ok := t.Details().(*duckdb.MapDetails); ok {
		return d.Key, d.Value
	}
	return nil, nil
}

func memberType(t duckdb.TypeInfo, tag string) duckdb.TypeInfo {
	if t == nil {
		return nil
	}
	if d, ok := t.Details().(*duckdb.UnionDetails); ok {
		for _, m := range d.Members {
			if m.Name == tag {
				return m.Type
			}
		}
	}
	return nil
}

type field struct {
	name string
	t    duckdb.TypeInfo
}

// fields returns a STRUCT's fields in the order of its type, which the Go map
// has lost.
func fields(t duckdb.TypeInfo, v map[string]any) []field {
	if t != nil {
		if d, ok := t.Details().(*duckdb.StructDetails); ok {
			fs := make([]field, len(d.Entries))
			for i, e := range d.Entries {
				fs[i] = field{e.Name(), e.Info()}
			}
			return fs
		}
	}
	return sortedFields(v)
}

// appendFloat writes the shortest digits that read back as f, with an exponent
// below 1e-4 and from 1e16 on, as DuckDB does.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
	for _, c := range dst[from:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// appendDecimal keeps every digit of the scale: 1.50 stays 1.50.
func appendDecimal(dst []byte, d duckdb.Decimal) []byte {
	digits := new(big.Int).Abs(d.Value).String()
	if d.Value.Sign() < 0 {
		dst = append(dst, '-')
	}
	scale := int(d.Scale)
	if scale == 0 {
		return append(dst, digits...)
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale-len(digits)+1) + digits
	}
	cut := len(digits) - scale
	// A DECIMAL without integer digits has no leading zero.
	if whole := digits[:cut]; whole != "0" || d.Width > d.Scale {
		dst = append(dst, whole...)
	}
	dst = append(dst, '.')
	return append(dst, digits[cut:]...)
}

func appendUUID(dst, v []byte) []byte {
	for i, part := range [][]byte{v[:4], v[4:6], v[6:8], v[8:10], v[10:16]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

func appendBlob(dst, v []byte) []byte {
	for _, c := range v {
		if c < 32 || c > 126 || c == '\\' || c == '\'' || c == '"' {
			dst = fmt.Appendf(dst, "\\x%02X", c)
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

// appendTime writes the date and time types. DuckDB stores the infinities as
// the ends of the integer range, which reach Go as far-off moments.
func appendTime(dst []byte, t duckdb.Type, v time.Time) []byte {
	var ticks, top int64
	switch t {
	case duckdb.TYPE_DATE:
		ticks, top = v.Unix()/86400, math.MaxInt32
	case duckdb.TYPE_TIMESTAMP, duckdb.TYPE_TIMESTAMP_TZ:
		ticks, top = v.UnixMicro(), math.MaxInt64
	case duckdb.TYPE_TIMESTAMP_S:
		ticks, top = v.Unix(), math.MaxInt64
	case duckdb.TYPE_TIMESTAMP_MS:
		ticks, top = v.UnixMilli(), math.MaxInt64
	case duckdb.TYPE_TIMESTAMP_NS:
		ticks, top = v.UnixNano(), math.MaxInt64
	}
	if top != 0 && ticks == top {
		return append(dst, "infinity"...)
	}
	if top != 0 && ticks == -top {
		return append(dst, "-infinity"...)
	}
	switch t {
	case duckdb.TYPE_DATE:
		return appendDate(dst, v)
	case duckdb.TYPE_TIME:
		return appendClock(dst, v)
	case duckdb.TYPE_TIME_TZ:
		dst = appendClock(dst, v)
		_, offset := v.Zone()
		return appendOffset(dst, offset)
	case duckdb.TYPE_TIMESTAMP_TZ:
		dst = appendClock(append(appendDate(dst, v), ' '), v)
		return append(dst, "+00"...)
	default:
		return appendClock(append(appendDate(dst, v), ' '), v)
	}
}

func appendDate(dst []byte, v time.Time) []byte {
	y, m, d := v.Date()
	if y <= 0 {
		return fmt.Appendf(dst, "%04d-%02d-%02d (BC)", 1-y, m, d)
	}
	return fmt.Appendf(dst, "%04d-%02d-%02d", y, m, d)
}

func appendClock(dst []byte, v time.Time) []byte {
	dst = fmt.Appendf(dst, "%02d:%02d:%02d", v.Hour(), v.Minute(), v.Second())
	return appendFraction(dst, int64(v.Nanosecond()), 9)
}

// appendFraction writes n/10^digits without trailing zeros, nothing for 0.
func appendFraction(dst []byte, n int64, digits int) []byte {
	if n == 0 {
		return dst
	}
	s := fmt.Sprintf("%0*d", digits, n)
	return append(append(dst, '.'), strings.TrimRight(s, "0")...)
}

func appendOffset(dst []byte, seconds int) []byte {
	sign := byte('+')
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	dst = append(dst, sign)
	dst = fmt.Appendf(dst, "%02d", seconds/3600)
	if seconds%3600 != 0 {
		dst = fmt.Appendf(dst, ":%02d", seconds/60%60)
	}
	if seconds%60 != 0 {
		dst = fmt.Appendf(dst, ":%02d", seconds%60)
	}
	return dst
}

func appendInterval(dst []byte, v duckdb.Interval) []byte {
	from := len(dst)
	part := func(n int32, unit string) {
		if n == 0 {
			return
		}
		if len(dst) > from {
			dst = append(dst, ' ')
		}
		dst = fmt.Appendf(dst, "%d %s", n, unit)
		if n != 1 && n != -1 {
			dst = append(dst, 's')
		}
	}
	part(v.Months/12, "year")
	part(v.Months%12, "month")
	part(v.Days, "day")
	if v.Micros == 0 && len(dst) > from {
		return dst
	}
	if len(dst) > from {
		dst = append(dst, ' ')
	}
	micros := uint64(v.Micros)
	if v.Micros < 0 {
		dst = append(dst, '-')
		micros = -micros
	}
	s := micros / 1_000_000
	dst = fmt.Appendf(dst, "%02d:%02d:%02d", s/3600, s/60%60, s%60)
	return appendFraction(dst, int64(micros%1_000_000), 6)
}

func appendGeneric(dst []byte, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Append(dst, v)
	}
	return append(dst, b...)
}
