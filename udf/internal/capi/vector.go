package capi

// #include <stdlib.h>
// #include "api.h"
import "C"
import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
	"unsafe"
)

// TypeID is DuckDB's number for a logical type.
type TypeID int32

// DuckDB type ids (an ABI fact of the C API).
const (
	Boolean     TypeID = 1
	TinyInt     TypeID = 2
	SmallInt    TypeID = 3
	Integer     TypeID = 4
	BigInt      TypeID = 5
	UTinyInt    TypeID = 6
	USmallInt   TypeID = 7
	UInteger    TypeID = 8
	UBigInt     TypeID = 9
	Float       TypeID = 10
	Double      TypeID = 11
	Timestamp   TypeID = 12
	Date        TypeID = 13
	Time        TypeID = 14
	Interval    TypeID = 15
	HugeInt     TypeID = 16
	Varchar     TypeID = 17
	Blob        TypeID = 18
	Decimal     TypeID = 19
	TimestampS  TypeID = 20
	TimestampMS TypeID = 21
	TimestampNS TypeID = 22
	Enum        TypeID = 23
	List        TypeID = 24
	Struct      TypeID = 25
	Map         TypeID = 26
	UUID        TypeID = 27
	Union       TypeID = 28
	Bit         TypeID = 29
	TimeTZ      TypeID = 30
	TimestampTZ TypeID = 31
	UHugeInt    TypeID = 32
	Array       TypeID = 33
	Any         TypeID = 34
	BigNum      TypeID = 35
	SQLNull     TypeID = 36
	TimeNS      TypeID = 39
)

var typeNames = map[TypeID]string{
	Boolean: "BOOLEAN", TinyInt: "TINYINT", SmallInt: "SMALLINT", Integer: "INTEGER", BigInt: "BIGINT",
	UTinyInt: "UTINYINT", USmallInt: "USMALLINT", UInteger: "UINTEGER", UBigInt: "UBIGINT", Float: "FLOAT",
	Double: "DOUBLE", Timestamp: "TIMESTAMP", Date: "DATE", Time: "TIME", Interval: "INTERVAL", HugeInt: "HUGEINT",
	Varchar: "VARCHAR", Blob: "BLOB", Decimal: "DECIMAL", TimestampS: "TIMESTAMP_S", TimestampMS: "TIMESTAMP_MS",
	TimestampNS: "TIMESTAMP_NS", Enum: "ENUM", List: "LIST", Struct: "STRUCT", Map: "MAP", UUID: "UUID", Union: "UNION",
	Bit: "BIT", TimeTZ: "TIME WITH TIME ZONE", TimestampTZ: "TIMESTAMP WITH TIME ZONE", UHugeInt: "UHUGEINT",
	Array: "ARRAY", Any: "ANY", BigNum: "BIGNUM", SQLNull: "NULL", TimeNS: "TIME_NS",
}

// String is the SQL name without parameters.
func (t TypeID) String() string {
	if s, ok := typeNames[t]; ok {
		return s
	}
	return "a type that bglm does not read"
}

// Vec is one vector of a nested column, a view that is valid only during the callback: keep no
// slices or strings of it.
type Vec struct {
	Type     TypeID
	Name     string // field name inside a STRUCT
	Len      int    // entries; for a list's child, those of all lists
	Kids     []Vec  // STRUCT fields; the child of LIST, ARRAY and MAP
	ArrayLen int

	internal TypeID
	scale    int32
	data     unsafe.Pointer
	valid    *uint64
	node     *C.bglm_node
}

// TypeName is the SQL type, including fields.
func (v *Vec) TypeName() string {
	switch v.Type {
	case List:
		return v.Kids[0].TypeName() + "[]"
	case Array:
		return v.Kids[0].TypeName() + "[" + itoa(v.ArrayLen) + "]"
	case Map:
		if len(v.Kids[0].Kids) == 2 {
			return "MAP(" + v.Kids[0].Kids[0].TypeName() + ", " + v.Kids[0].Kids[1].TypeName() + ")"
		}
	case Struct:
		var b strings.Builder
		b.WriteString("STRUCT(")
		for i := range v.Kids {
			if i > 0 {
				b.WriteString(", ")
			}
			if i == 8 {
				b.WriteString("...")
				break
			}
			if v.Kids[i].Name != "" {
				b.WriteString(v.Kids[i].Name + " ")
			}
			b.WriteString(v.Kids[i].TypeName())
		}
		return b.String() + ")"
	}
	return v.Type.String()
}

func itoa(i int) string { return big.NewInt(int64(i)).String() }

// AllValid reports that the mask marks no entry as NULL (a quick test for loops).
func (v *Vec) AllValid() bool { return v.valid == nil && v.Type != SQLNull }

// Null reports whether entry i is NULL.
func (v *Vec) Null(i int) bool {
	if v.valid == nil {
		return v.Type == SQLNull
	}
	w := *(*uint64)(unsafe.Add(unsafe.Pointer(v.valid), (i>>6)<<3))
	return w>>(uint(i)&63)&1 == 0
}

func at[T any](p unsafe.Pointer, i int) T {
	var z T
	return *(*T)(unsafe.Add(p, uintptr(i)*unsafe.Sizeof(z)))
}

// IsNumber reports whether Float reads this type: every integer width, FLOAT,
// DOUBLE and DECIMAL.
func (v *Vec) IsNumber() bool { return v.Type.IsNumber() }

// IsNumber reports whether the type is an integer of any width, FLOAT, DOUBLE or DECIMAL.
func (t TypeID) IsNumber() bool {
	switch t {
	case TinyInt, SmallInt, Integer, BigInt, UTinyInt, USmallInt, UInteger, UBigInt, Float, Double, HugeInt, UHugeInt, Decimal:
		return true
	}
	return false
}

// IsInteger reports whether Int reads this type without loss.
func (v *Vec) IsInteger() bool {
	switch v.Type {
	case TinyInt, SmallInt, Integer, BigInt, UTinyInt, USmallInt, UInteger, UBigInt, HugeInt, UHugeInt:
		return true
	}
	return false
}

// Floats is the vector's memory if it holds DOUBLE, else nil.
func (v *Vec) Floats() []float64 {
	if v.Type != Double || v.data == nil {
		return nil
	}
	return unsafe.Slice((*float64)(v.data), v.Len)
}

// Float is entry i as a number; BOOLEAN counts as 0 and 1.
func (v *Vec) Float(i int) float64 {
	switch v.Type {
	case Double:
		return at[float64](v.data, i)
	case Float:
		return float64(at[float32](v.data, i))
	case Decimal:
		return v.decimal(i)
	}
	return v.integer(v.Type, i)
}

// FloatsTo sets dst to entries lo, lo+1, ... as Float returns them; those of NULLs are unspecified.
func (v *Vec) FloatsTo(dst []float64, lo int) {
	switch v.Type {
	case Double:
		copy(dst, v.Floats()[lo:])
	case Float:
		convert[float32](v, dst, lo)
	case TinyInt:
		convert[int8](v, dst, lo)
	case UTinyInt:
		convert[uint8](v, dst, lo)
	case SmallInt:
		convert[int16](v, dst, lo)
	case USmallInt:
		convert[uint16](v, dst, lo)
	case UInteger:
		convert[uint32](v, dst, lo)
	case Integer:
		convert[int32](v, dst, lo)
	case BigInt:
		convert[int64](v, dst, lo)
	case Boolean:
		convert[uint8](v, dst, lo)
	case Decimal:
		if !v.decimalsTo(dst, lo) {
			v.floatsTo(dst, lo)
		}
	default:
		v.floatsTo(dst, lo)
	}
}

// floatsTo is FloatsTo entry by entry.
func (v *Vec) floatsTo(dst []float64, lo int) {
	for k := range dst {
		if !v.Null(lo + k) {
			dst[k] = v.Float(lo + k)
		}
	}
}

// decimalsTo is FloatsTo for decimals of up to nine digits, whose quotients of exact numbers are
// the nearest ones; it returns false for wider ones.
func (v *Vec) decimalsTo(dst []float64, lo int) bool {
	if int(v.scale) >= len(pow10) {
		return false
	}
	switch v.internal {
	case SmallInt:
		convert[int16](v, dst, lo)
	case Integer:
		convert[int32](v, dst, lo)
	default:
		return false
	}
	unit := pow10[v.scale]
	for k := range dst {
		dst[k] /= unit
	}
	return true
}

func convert[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | float32](v *Vec, dst []float64, lo int) {
	if len(dst) == 0 {
		return
	}
	for k, x := range unsafe.Slice((*T)(unsafe.Add(v.data, uintptr(lo)*unsafe.Sizeof(T(0)))), len(dst)) {
		dst[k] = float64(x)
	}
}

// IntsTo sets dst to entries lo, lo+1, ... of integers; it returns false if the type is wider than
// signed 64 bits.
func (v *Vec) IntsTo(dst []int64, lo int) bool {
	switch v.Type {
	case BigInt:
		if len(dst) > 0 {
			copy(dst, unsafe.Slice((*int64)(unsafe.Add(v.data, uintptr(lo)*8)), len(dst)))
		}
		return true
	case UBigInt, HugeInt, UHugeInt:
		return false
	}
	for k := range dst {
		dst[k] = int64(v.integer(v.Type, lo+k))
	}
	return true
}

func (v *Vec) integer(t TypeID, i int) float64 {
	switch t {
	case Boolean, UTinyInt:
		return float64(at[uint8](v.data, i))
	case TinyInt:
		return float64(at[int8](v.data, i))
	case SmallInt:
		return float64(at[int16](v.data, i))
	case USmallInt:
		return float64(at[uint16](v.data, i))
	case Integer, Date:
		return float64(at[int32](v.data, i))
	case UInteger:
		return float64(at[uint32](v.data, i))
	case BigInt, Timestamp, TimestampS, TimestampMS, TimestampNS, TimestampTZ:
		return float64(at[int64](v.data, i))
	case UBigInt:
		return float64(at[uint64](v.data, i))
	case HugeInt:
		hi, lo := at[uint64](v.data, 2*i+1), at[uint64](v.data, 2*i)
		if int64(hi) < 0 { // two's complement
			lo, borrow := bits.Sub64(0, lo, 0)
			hi, _ = bits.Sub64(0, hi, borrow)
			return -float128(hi, lo)
		}
		return float128(hi, lo)
	case UHugeInt:
		return float128(at[uint64](v.data, 2*i+1), at[uint64](v.data, 2*i))
	}
	return math.NaN()
}

// float128 is the float64 nearest to hi·2⁶⁴ + lo.
func float128(hi, lo uint64) float64 {
	if hi == 0 {
		return float64(lo)
	}
	n := bits.LeadingZeros64(hi)
	top, rest := hi<<n|lo>>1>>(63-n), lo<<n
	if rest != 0 {
		top |= 1 // set below the rounded bits: only breaks ties
	}
	return math.Ldexp(float64(top), 64-n)
}

var pow10 = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
	1e19, 1e20, 1e21, 1e22}

// A quotient of two exact doubles is the nearest double of the decimal, so
// 0.1::DECIMAL reads as 0.1.
func (v *Vec) decimal(i int) float64 {
	if s := int(v.scale); s < len(pow10) && v.internal != HugeInt {
		n := v.integer(v.internal, i)
		if math.Abs(n) < 1<<53 {
			return n / pow10[s]
		}
	}
	f, _ := new(big.Rat).SetFrac(v.bigInt(v.internal, i), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.scale)), nil)).Float64()
	return f
}

func (v *Vec) bigInt(t TypeID, i int) *big.Int {
	switch t {
	case HugeInt:
		b := new(big.Int).Lsh(big.NewInt(at[int64](v.data, 2*i+1)), 64)
		return b.Add(b, new(big.Int).SetUint64(at[uint64](v.data, 2*i)))
	case UHugeInt:
		b := new(big.Int).Lsh(new(big.Int).SetUint64(at[uint64](v.data, 2*i+1)), 64)
		return b.Add(b, new(big.Int).SetUint64(at[uint64](v.data, 2*i)))
	case UBigInt:
		return new(big.Int).SetUint64(at[uint64](v.data, i))
	case BigInt:
		return big.NewInt(at[int64](v.data, i))
	}
	return big.NewInt(int64(v.integer(t, i)))
}

// Whole is an integer entry; ok is false outside the range of int64.
func (v *Vec) Whole(i int) (x int64, ok bool) {
	switch v.Type {
	case BigInt:
		return at[int64](v.data, i), true
	case HugeInt, UHugeInt, UBigInt:
		b := v.bigInt(v.Type, i)
		return b.Int64(), b.IsInt64()
	}
	return int64(v.integer(v.Type, i)), v.IsInteger()
}

// Bits is the 64 bits of an integer entry; ok is false if it has more.
func (v *Vec) Bits(i int) (bits uint64, ok bool) {
	switch v.Type {
	case HugeInt, UHugeInt, UBigInt:
		if b := v.bigInt(v.Type, i); b.IsUint64() {
			return b.Uint64(), true
		}
	}
	x, ok := v.Whole(i)
	return uint64(x), ok
}

// AppendInt appends the decimal text of an integer entry.
func (v *Vec) AppendInt(dst []byte, i int) []byte { return v.bigIntAppend(dst, i) }

func (v *Vec) bigIntAppend(dst []byte, i int) []byte {
	switch v.Type {
	case HugeInt, UHugeInt, UBigInt:
		return v.bigInt(v.Type, i).Append(dst, 10)
	case BigInt:
		return appendInt(dst, at[int64](v.data, i))
	}
	return appendInt(dst, int64(v.integer(v.Type, i)))
}

// Int64 is a date (days) or timestamp (in its own unit) entry as stored.
func (v *Vec) Int64(i int) int64 {
	if v.Type == Date {
		return int64(at[int32](v.data, i))
	}
	return at[int64](v.data, i)
}

// Bool is a BOOLEAN entry.
func (v *Vec) Bool(i int) bool { return at[uint8](v.data, i) != 0 }

// Str is a VARCHAR or BLOB entry, aliasing DuckDB's memory: clone it to keep it, also as a map key.
func (v *Vec) Str(i int) string {
	p := unsafe.Add(v.data, i*16)
	n := *(*uint32)(p)
	if n <= 12 {
		return unsafe.String((*byte)(unsafe.Add(p, 4)), int(n))
	}
	return unsafe.String(*(**byte)(unsafe.Add(p, 8)), int(n))
}

// EnumCode is the dictionary position of an ENUM entry.
func (v *Vec) EnumCode(i int) int { return int(v.integer(v.internal, i)) }

// maxEnumCheck is the number of labels up to which CheckEnum compares them.
const maxEnumCheck = 1024

// CheckEnum checks for labels that are equal up to a NUL byte: the C API cuts them there, so that
// they would become one. Errors: two such labels. Cost: one call into C per label; dictionaries
// with more than maxEnumCheck labels are not checked.
func (v *Vec) CheckEnum() error {
	n := int(C.bglm_enum_size(v.node.ltype))
	if n > maxEnumCheck {
		return nil
	}
	seen := make(map[string]bool, n)
	for i := range n {
		s := v.EnumText(i)
		if seen[s] {
			return fmt.Errorf("an ENUM with two labels that are %q up to a NUL byte, where DuckDB's C API cuts them; cast it to VARCHAR", s)
		}
		seen[s] = true
	}
	return nil
}

// EnumText is the dictionary's text for a code, up to a NUL byte. Cost: one call into C.
func (v *Vec) EnumText(code int) string {
	c := C.bglm_enum_value(v.node.ltype, C.uint64_t(code))
	defer C.bglm_free(unsafe.Pointer(c))
	return C.GoString(c)
}

// Inline is the 16 bytes of a VARCHAR entry if they hold the whole text (up to 12 bytes and the
// length): equal words are then equal texts.
func (v *Vec) Inline(i int) (lo, hi uint64, ok bool) {
	p := unsafe.Add(v.data, i*16)
	lo, hi = *(*uint64)(p), *(*uint64)(unsafe.Add(p, 8))
	return lo, hi, *(*uint32)(p) <= 12
}

// Span is the range of entry i of a LIST, MAP or ARRAY in its child. Undefined for NULL entries.
func (v *Vec) Span(i int) (lo, hi int) {
	if v.Type == Array {
		return i * v.ArrayLen, (i + 1) * v.ArrayLen
	}
	off := at[uint64](v.data, 2*i)
	return int(off), int(off + at[uint64](v.data, 2*i+1))
}

// Field is the STRUCT field with that name (case-insensitive), or nil.
func (v *Vec) Field(name string) *Vec {
	if v.Type != Struct {
		return nil
	}
	for i := range v.Kids {
		if strings.EqualFold(v.Kids[i].Name, name) {
			return &v.Kids[i]
		}
	}
	return nil
}

func views(nodes *C.bglm_node, ncol, nnode int) []Vec {
	ns := unsafe.Slice(nodes, nnode)
	vs := make([]Vec, nnode)
	for i := range ns {
		n := &ns[i]
		v := &vs[i]
		v.Type, v.internal, v.scale = TypeID(n._type), TypeID(n.internal), int32(n.scale)
		v.Len, v.ArrayLen = int(n.count), int(n.array_size)
		v.data, v.valid, v.node = n.data, (*uint64)(unsafe.Pointer(n.valid)), n
		if n.name != nil {
			v.Name = unsafe.String((*byte)(unsafe.Pointer(n.name)), cstrlen(n.name))
		}
		if n.nchild > 0 {
			c := int(n.child)
			v.Kids = vs[c : c+int(n.nchild) : c+int(n.nchild)]
		}
	}
	return vs[:ncol]
}

func cstrlen(p *C.char) int {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return n
}
