package capi

// #include <stdlib.h>
// #include <string.h>
// #include "api.h"
import "C"
import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// guard turns an error or a panic of f into the error text of out.
func guard(name string, out *C.bglm_out, f func() error) {
	defer func() {
		if r := recover(); r != nil {
			out.err = C.CString(fmt.Sprintf("%s: internal error: %s\n%s", name, Printable(fmt.Sprint(r)), firstLines(debug.Stack(), 24)))
		}
	}()
	if err := f(); err != nil {
		out.err = C.CString(name + ": " + Printable(err.Error()))
	}
}

// Printable writes bytes that are not UTF-8 and control characters, among them those that control a
// terminal or change the direction of text, as Go escapes: names of features and columns in an
// error come from the data. Other text is unchanged.
func Printable(s string) string {
	plain := func(r rune) bool {
		return !unicode.Is(unicode.C, r) && r != '\u2028' && r != '\u2029' || r == '\u200c' || r == '\u200d' // joiners belong to words
	}
	clean := true
	for i, r := range s {
		if !plain(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\x%02x`, s[i])
		case plain(r):
			b = append(b, s[i:i+n]...)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b = append(b, q[1:len(q)-1]...)
		}
		i += n
	}
	return string(b)
}

func firstLines(b []byte, n int) []byte {
	for i, c := range b {
		if c == '\n' {
			if n--; n == 0 {
				return b[:i]
			}
		}
	}
	return b
}

func enter() { states.last.Store(now()) }

//export bglmGoUpdate
func bglmGoUpdate(fid C.uint64_t, nodes *C.bglm_node, ncol, nnode C.int64_t, n C.uint64_t, sts unsafe.Pointer, by *C.bglm_caller, shard C.uint64_t, out *C.bglm_out) {
	states.gate.RLock()
	defer states.gate.RUnlock()
	enter()
	f := aggregateByID(uint64(fid))
	guard(f.Name, out, func() error {
		args, slots := views(nodes, int(ncol), int(nnode)), Slots{sts, int(n), bool(by.constant), uint64(shard)}
		if by.call != 0 {
			if err := slots.toLanes(args, uint32(fid), by); err != nil {
				return err
			}
		}
		caller := by.window
		if caller == 0 {
			return f.Update(args, slots)
		}
		w, err := f.inspect(args, int(n), int(caller), slots.place())
		if err != nil {
			return err
		}
		if err := f.Update(args, slots); err != nil {
			if w.later || w.refusal != nil { // the error may come from garbage
				err = fmt.Errorf("%w (%s)", err, windowAdvice)
			}
			return err
		}
		slots.note(w)
		return nil
	})
}

//export bglmGoCombine
func bglmGoCombine(fid C.uint64_t, source, target unsafe.Pointer, n C.uint64_t, shard C.uint64_t, out *C.bglm_out) {
	states.gate.RLock()
	defer states.gate.RUnlock()
	enter()
	f := aggregateByID(uint64(fid))
	guard(f.Name, out, func() error {
		for i := range int(n) {
			src := (*C.bglm_state)(at[unsafe.Pointer](source, i))
			dst := Slot{(*C.bglm_state)(at[unsafe.Pointer](target, i)), uint64(shard)}
			if src.handle == 0 {
				continue
			}
			sl := states.slot(uint64(src.handle))
			if sl == nil {
				return errPurged
			}
			if dst.c.handle == 0 {
				if err := dst.set(sl.h); err != nil {
					return err
				}
				continue
			}
			st, err := dst.Mutable(nil)
			if err != nil {
				return err
			}
			if err := st.Merge(sl.h.state); err != nil {
				return err
			}
			dst.note(sl.h.window)
			if err := dst.account(); err != nil {
				return err
			}
		}
		return nil
	})
}

//export bglmGoFinalize
func bglmGoFinalize(fid C.uint64_t, source unsafe.Pointer, n, offset C.uint64_t, first *C.bglm_first, out *C.bglm_out) {
	states.gate.RLock()
	defer states.gate.RUnlock()
	enter()
	f := aggregateByID(uint64(fid))
	done := false
	// DuckDB does not destroy the states whose finalize failed: without this they would hold their
	// memory until the janitor releases them.
	defer func() {
		for i := 0; i < int(n) && !done; i++ {
			states.release(uint64((*C.bglm_state)(at[unsafe.Pointer](source, i)).handle))
		}
	}()
	guard(f.Name, out, func() error {
		sts := make([]State, int(n))
		for i := range sts {
			st, err := Slot{c: (*C.bglm_state)(at[unsafe.Pointer](source, i))}.Get()
			if err != nil {
				return err
			}
			sts[i] = st
		}
		if err := f.checkWindow(source, int(n), int(offset), first); err != nil {
			return err
		}
		c := acquireCol(f.Result)
		if err := f.Finalize(sts, c); err != nil {
			return err
		}
		err := hold(c, len(sts), out)
		done = err == nil
		return err
	})
}

//export bglmGoDestroy
func bglmGoDestroy(sts unsafe.Pointer, n C.uint64_t) {
	defer func() { _ = recover() }() // destroy cannot report; the slot stays counted
	states.gate.RLock()
	defer states.gate.RUnlock()
	for i := range int(n) {
		states.release(uint64((*C.bglm_state)(at[unsafe.Pointer](sts, i)).handle))
	}
}

//export bglmGoRelease
func bglmGoRelease(handle C.uint64_t) {
	defer func() { _ = recover() }()
	states.gate.RLock()
	defer states.gate.RUnlock()
	if states.release(uint64(handle)) {
		states.reused.Add(1)
	}
}

//export bglmGoScalar
func bglmGoScalar(fid C.uint64_t, nodes *C.bglm_node, ncol, nnode C.int64_t, n C.uint64_t, out *C.bglm_out) {
	f := scalarByID(uint64(fid))
	guard(f.Name, out, func() error {
		c := acquireCol(f.Result)
		if err := f.Call(views(nodes, int(ncol), int(nnode)), int(n), c); err != nil {
			return err
		}
		return hold(c, int(n), out)
	})
}

//export bglmGoConstant
func bglmGoConstant(fid C.uint64_t) C.int64_t {
	return C.int64_t(scalarByID(uint64(fid)).Constant)
}

//export bglmGoCheck
func bglmGoCheck(fid C.uint64_t, nodes *C.bglm_node, nnode C.int64_t, out *C.bglm_out) {
	f := scalarByID(uint64(fid))
	guard(f.Name, out, func() error { return f.Check(&views(nodes, 1, int(nnode))[0]) })
}

//export bglmGoSetting
func bglmGoSetting(k C.uint64_t, nodes *C.bglm_node, nnode C.int64_t, n C.uint64_t, set C.bool, out *C.bglm_out) {
	s := settings[k]
	guard(s.Name, out, func() error {
		v, c := &views(nodes, 1, int(nnode))[0], acquireCol(TVarchar)
		for i := range int(n) {
			text := "auto"
			switch {
			case v.Null(i):
			case v.Type == Varchar:
				text = v.Str(i)
			default:
				text = strconv.FormatFloat(v.Float(i), 'f', -1, 64)
			}
			if bool(set) {
				if err := s.Set(text); err != nil {
					return err
				}
			}
			c.Str(text)
		}
		return hold(c, int(n), out)
	})
}

//export bglmGoFill
func bglmGoFill(token C.uint64_t, nodes *C.bglm_node, nnode C.int64_t, text **C.bglm_text, ntext *C.int64_t) {
	v, ok := pending.Load(uint64(token))
	if !ok {
		return
	}
	f := filler{nodes: unsafe.Slice(nodes, int(nnode))}
	f.fill(v.(*Col), 0)
	if len(f.text) == 0 {
		return
	}
	size := C.size_t(len(f.text)) * C.size_t(unsafe.Sizeof(f.text[0]))
	p := (*C.bglm_text)(C.malloc(size))
	copy(unsafe.Slice(p, len(f.text)), f.text)
	*text, *ntext = p, C.int64_t(len(f.text))
}

//export bglmGoDrop
func bglmGoDrop(token C.uint64_t) {
	if c, ok := pending.LoadAndDelete(uint64(token)); ok {
		releaseCol(c.(*Col))
	}
}

var errNoTable = errors.New("DuckDB's function table is not linked")
