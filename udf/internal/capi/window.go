package capi

// #include "api.h"
import "C"
import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// A window whose frame is the whole partition slices a chunk partition by partition. After the
// first, DuckDB reads constant children of a STRUCT past the end of the vector that it built for
// the first (docs/duckdb.md): such fields arrive as garbage, and nothing in the C API distinguishes
// them from columns. What is known:
//   - the first partition of a window arrives intact;
//   - a field that varies inside the first partition is not constant;
//   - a constant with the same value in a later partition as in the first is right.
// All else is refused: STRUCTs of several fields, and options that vary by row.

// window is what is recorded with a state that such a window updates.
type window struct {
	caller  int    // C.BGLM_WINDOW, C.BGLM_SORTED_WINDOW; 0 = no window
	later   bool   // not the first partition
	refusal error  // why a later partition cannot be trusted
	options uint64 // hash of the constant options
	leaf    uint64 // hash of the rows of a STRUCT with one field, as long as they are equal
	varies  bool   // the rows differ
}

var windowSeed = maphash.MakeSeed()

const windowAdvice = "in a window over whole partitions, where DuckDB can put garbage in place of a constant field; write GROUP BY and join its answer to the rows"

// maxText bounds the length of a text whose address is in doubt.
const maxText = 1 << 20

// inspect checks the arguments of an update by a window for a state at a place among its
// neighbours. Errors, in a later partition: arguments that cannot be read or trusted; in the first
// they are only recorded.
func (f *Aggregate) inspect(args []Vec, n, caller int, place uint64) (*window, error) {
	w := &window{caller: caller, later: caller == C.BGLM_WINDOW && place > 0}
	for i := range args {
		v, name := &args[i], fmt.Sprintf("argument %d", i+1)
		if i < len(f.Args) {
			name = f.Args[i]
		}
		var err error
		switch {
		case name == "options" && v.Type == Struct:
			err = w.constants(v, n, f.RowFields)
		case v.Type == Struct || v.Type == Array || v.Type == Union:
			err = w.structColumn(v, n, name)
		}
		if err != nil && w.later {
			return w, err
		}
		if err != nil && w.refusal == nil {
			w.refusal = err
		}
	}
	return w, nil
}

// constants records a hash of the options.
func (w *window) constants(v *Vec, n int, rowFields []string) error {
	var h maphash.Hash
	h.SetSeed(windowSeed)
	for k := range v.Kids {
		c := &v.Kids[k]
		if slices.ContainsFunc(rowFields, func(s string) bool { return strings.EqualFold(s, c.Name) }) && c.Type != SQLNull {
			return fmt.Errorf("option %s: found a value for each row %s", strings.ToLower(c.Name), windowAdvice)
		}
	}
	if !v.Null(0) {
		if err := digest(&h, v, 0); err != nil {
			return fmt.Errorf("options: found %w %s", err, windowAdvice)
		}
	}
	w.options = h.Sum64()
	return nil
}

// structColumn records another STRUCT: a field of a plain type, alone in it, is constant in every
// row or in none.
func (w *window) structColumn(v *Vec, n int, name string) error {
	refuse := fmt.Errorf("%s is %s %s, or give a LIST or MAP", name, v.TypeName(), windowAdvice)
	if v.Type != Struct || len(v.Kids) != 1 {
		return refuse
	}
	c := &v.Kids[0]
	if !c.IsNumber() && c.Type != Boolean && c.Type != Varchar && c.Type != Date {
		return refuse
	}
	for i := range n {
		var h maphash.Hash
		h.SetSeed(windowSeed)
		if !v.Null(i) {
			if err := digest(&h, c, i); err != nil {
				return fmt.Errorf("%s has %w %s, or give a LIST or MAP", name, err, windowAdvice)
			}
		}
		s := h.Sum64()
		if i > 0 && s != w.leaf {
			w.varies = true
		}
		w.leaf = s
	}
	return nil
}

var errUnreadable = errors.New("a value that lies nowhere")

// digest hashes entry i of v. It follows no pointer or offset that it has not checked.
func digest(h *maphash.Hash, v *Vec, i int) error {
	h.WriteByte(byte(v.Type))
	if v.Null(i) {
		h.WriteByte(0)
		return nil
	}
	h.WriteByte(1)
	switch v.Type {
	case Varchar, Blob, Bit:
		s, ok := v.checkedStr(i)
		if !ok {
			return errUnreadable
		}
		writeUint(h, uint64(len(s)))
		h.WriteString(s)
	case Boolean:
		h.WriteByte(at[uint8](v.data, i))
	case HugeInt, UHugeInt, UUID, Interval:
		writeUint(h, at[uint64](v.data, 2*i))
		writeUint(h, at[uint64](v.data, 2*i+1))
	case Decimal:
		f := *v
		f.Type = v.internal
		return digest(h, &f, i)
	case Enum:
		code := v.EnumCode(i)
		if code < 0 || code >= int(C.bglm_enum_size(v.node.ltype)) {
			return errUnreadable
		}
		writeUint(h, uint64(code))
	case Struct:
		for k := range v.Kids {
			h.WriteString(v.Kids[k].Name)
			h.WriteByte(0)
			if err := digest(h, &v.Kids[k], i); err != nil {
				return err
			}
		}
	case List, Map, Array:
		lo, hi, ok := v.checkedSpan(i)
		if !ok {
			return errUnreadable
		}
		writeUint(h, uint64(hi-lo))
		for j := lo; j < hi; j++ {
			if err := digest(h, &v.Kids[0], j); err != nil {
				return err
			}
		}
	case Time, TimeTZ:
		writeUint(h, at[uint64](v.data, i))
	case Date, Timestamp, TimestampS, TimestampMS, TimestampNS, TimestampTZ:
		writeUint(h, uint64(v.Int64(i)))
	case SQLNull:
	default:
		if !v.IsNumber() {
			return fmt.Errorf("a %s", v.TypeName())
		}
		if v.Type == BigInt || v.Type == UBigInt {
			writeUint(h, at[uint64](v.data, i))
		} else {
			writeUint(h, math.Float64bits(v.Float(i)))
		}
	}
	return nil
}

func writeUint(h *maphash.Hash, x uint64) {
	b := *(*[8]byte)(unsafe.Pointer(&x))
	h.Write(b[:])
}

// checkedStr is a text whose bytes are known to be readable; ok is false if it is longer than
// maxText.
func (v *Vec) checkedStr(i int) (string, bool) {
	p := unsafe.Add(v.data, i*16)
	if n := *(*uint32)(p); n > 12 && (n > maxText || C.bglm_readable(*(*unsafe.Pointer)(unsafe.Add(p, 8)), C.uint64_t(n)) == 0) {
		return "", false
	}
	return v.Str(i), true
}

// checkedSpan is Span; ok is false unless it lies inside the child.
func (v *Vec) checkedSpan(i int) (lo, hi int, ok bool) {
	lo, hi = v.Span(i)
	return lo, hi, lo >= 0 && lo <= hi && hi <= v.Kids[0].Len
}

// place is the state's place among those created with it.
func (s Slots) place() uint64 { return uint64((*C.bglm_state)(s.ptr(0)).place) }

// note records w with the state.
func (s Slots) note(w *window) { Slot{(*C.bglm_state)(s.ptr(0)), s.shard}.note(w) }

func (s Slot) note(w *window) {
	sl := states.slot(uint64(s.c.handle))
	if sl == nil || w == nil {
		return
	}
	if sl.h.window == nil {
		c := *w
		sl.h.window = &c
		return
	}
	have := sl.h.window
	have.later = have.later || w.later
	have.varies = have.varies || w.varies || have.leaf != w.leaf
	if have.refusal == nil {
		have.refusal = w.refusal
	}
}

// maxSortedPartitions is how many partitions of one window DuckDB's ordered aggregates can
// distinguish: they count them in 16 bits.
const maxSortedPartitions = 1 << 16

// checkWindow compares what windows recorded for later partitions with the first one. Partitions
// come in order: all in one call, or one by one with their offsets.
func (f *Aggregate) checkWindow(source unsafe.Pointer, n, offset int, first *C.bglm_first) error {
	for i := range n {
		sl := states.slot(uint64((*C.bglm_state)(at[unsafe.Pointer](source, i)).handle))
		if offset+i == 0 {
			*first = C.bglm_first{}
		}
		if sl == nil || sl.h.window == nil {
			continue
		}
		w := sl.h.window
		if offset+i == 0 {
			*first = C.bglm_first{set: 1, options: C.uint64_t(w.options), leaf: C.uint64_t(w.leaf)}
			if w.varies {
				first.varies = 1
			}
			continue
		}
		switch {
		case w.caller == C.BGLM_WINDOW && !w.later:
		case w.caller == C.BGLM_SORTED_WINDOW && offset+i >= maxSortedPartitions:
			return fmt.Errorf("a window of more than %d partitions with an order, which DuckDB confuses; write GROUP BY and join its answer to the rows", maxSortedPartitions)
		case w.refusal != nil:
			return w.refusal
		case w.options != 0 && (first.set == 0 || uint64(first.options) != w.options):
			return fmt.Errorf("options differ from those of another partition %s", windowAdvice)
		case w.leaf != 0 && first.varies == 0 && (first.set == 0 || w.varies || uint64(first.leaf) != w.leaf):
			return fmt.Errorf("%s is a STRUCT with one field that is the same in all rows of a partition %s, or give a LIST or MAP", f.structArg(), windowAdvice)
		}
	}
	return nil
}

func (f *Aggregate) structArg() string {
	if len(f.Args) > 1 {
		return f.Args[1]
	}
	return "an argument"
}
