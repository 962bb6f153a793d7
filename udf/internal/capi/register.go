package capi

// #cgo CFLAGS: -O2 -fexceptions -fvisibility=hidden -Wall -Wextra
// #include <stdlib.h>
// #include "api.h"
import "C"
import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Aggregate is an aggregate function. Its callbacks run on DuckDB's threads, concurrently for
// different states.
type Aggregate struct {
	Name   string
	Params [][]*Type // one list per overload
	Result *Type
	// Update adds the rows of args to the states in slots.
	Update func(args []Vec, slots Slots) error
	// Finalize appends one entry per state to out; a nil state saw no row. It must not change the
	// states, since a window may read them again.
	Finalize func(states []State, out *Col) error
	// Args names the arguments in error messages. The one called "options" is a STRUCT of
	// constants, read at a state's first row, except for its fields RowFields, which vary by row.
	Args      []string
	RowFields []string
}

// Scalar is a scalar function: Call appends n entries to out.
type Scalar struct {
	Name     string
	Params   [][]*Type
	Result   *Type
	Volatile bool
	Call     func(args []Vec, n int, out *Col) error
	// Also are overloads with another result; their Name, Volatile and Also are ignored.
	Also []*Scalar
	// Check checks argument Constant, if it is constant, when a call is planned: its error is
	// reported by EXPLAIN and PREPARE. nil = no check.
	// DuckDB before 1.5.4 never calls it.
	Check    func(v *Vec) error
	Constant int
}

// Setting is an option of SET for the whole process. Set is called with the new value as text,
// 'auto' for NULL; RESET does not call it.
type Setting struct {
	Name, Description string
	Set               func(text string) error
}

var settings []Setting // set once

// Settable reports whether this DuckDB supports settings.
func Settable() bool { return bool(C.bglm_more()) }

// Functions are numbered for the life of the process: DuckDB keeps the number.
var (
	funcMu   sync.Mutex
	aggList  atomic.Pointer[[]*Aggregate]
	scaList  atomic.Pointer[[]*Scalar]
	linkOnce sync.Once
	linkErr  error
)

func aggregateByID(i uint64) *Aggregate { return (*aggList.Load())[i] }
func scalarByID(i uint64) *Scalar       { return (*scaList.Load())[i] }

func number[T any](list *atomic.Pointer[[]*T], f *T) uint64 {
	funcMu.Lock()
	defer funcMu.Unlock()
	var l []*T
	if p := list.Load(); p != nil {
		l = *p
	}
	for i, g := range l {
		if g == f {
			return uint64(i)
		}
	}
	l = append(l[:len(l):len(l)], f)
	list.Store(&l)
	return uint64(len(l) - 1)
}

// link prepares the function table of a Go program.
func link() error {
	linkOnce.Do(func() {
		if m := C.bglm_link(nil); m != nil {
			linkErr = fmt.Errorf("%w: %s is missing", errNoTable, C.GoString(m))
		}
	})
	return linkErr
}

func (t *Type) logical() C.duckdb_ptr {
	switch t.ID {
	case List:
		e := t.Elem.logical()
		defer C.bglm_type_destroy(e)
		return C.bglm_type_list(e)
	case Map:
		k, v := t.Elem.Fields[0].Type.logical(), t.Elem.Fields[1].Type.logical()
		defer C.bglm_type_destroy(k)
		defer C.bglm_type_destroy(v)
		return C.bglm_type_map(k, v)
	case Struct:
		n := len(t.Fields)
		types := (*[1 << 16]C.duckdb_ptr)(C.malloc(C.size_t(n * 8)))[:n:n]
		names := (*[1 << 16]*C.char)(C.malloc(C.size_t(n * 8)))[:n:n]
		for i, f := range t.Fields {
			types[i], names[i] = f.Type.logical(), C.CString(f.Name)
		}
		s := C.bglm_type_struct(&types[0], &names[0], C.uint64_t(n))
		for i := range types {
			C.bglm_type_destroy(types[i])
			C.free(unsafe.Pointer(names[i]))
		}
		C.free(unsafe.Pointer(&types[0]))
		C.free(unsafe.Pointer(&names[0]))
		return s
	}
	return C.bglm_type(C.int(t.ID))
}

// flatten writes the parameter types of the overloads, one after the other, to C memory.
func flatten(params [][]*Type) (arity *C.int32_t, types *C.duckdb_ptr, n int, free func()) {
	total := 0
	for _, p := range params {
		total += len(p)
	}
	a := unsafe.Slice((*C.int32_t)(C.malloc(C.size_t(4*len(params)))), len(params))
	t := unsafe.Slice((*C.duckdb_ptr)(C.malloc(C.size_t(8*(total+1)))), total+1)
	k := 0
	for i, p := range params {
		a[i] = C.int32_t(len(p))
		for _, q := range p {
			t[k] = q.logical()
			k++
		}
	}
	return &a[0], &t[0], len(params), func() {
		for i := range total {
			C.bglm_type_destroy(t[i])
		}
		C.free(unsafe.Pointer(&a[0]))
		C.free(unsafe.Pointer(&t[0]))
	}
}

// WarmUp has queries that show every kind of caller to the call-site classifier before the first
// real call.
type WarmUp struct {
	Queries []string
	// Window, Sorted and SortedWindow are lessons: each calls its aggregate as its name says, with
	// %s for a list argument, the aggregate's second one.
	Window, Sorted, SortedWindow []string
	// The others are run if DuckDB's version is 2.
	Grouped, Filtered, Distinct []string
	// Constant is a query with a subquery in place of a Scalar's Constant argument. If it fails,
	// constant arguments are not checked.
	Constant string
}

// All is what Register adds.
type All struct {
	Aggregates []*Aggregate
	Scalars    []*Scalar
	Settings   []Setting // where DuckDB supports them, from 1.5.4 on
	WarmUp     WarmUp
}

// Register adds all to the database behind con (a duckdb_connection) and warms up. Functions and
// settings that the database already has are left alone: settings stay even if a transaction that
// added them with the functions is rolled back.
func Register(con unsafe.Pointer, all All) error {
	if err := linkFor(); err != nil {
		return err
	}
	rules, err := admit(Version())
	if err != nil {
		return err
	}
	if rules {
		Rules(true)
	}
	startJanitor()
	registering.Lock()
	defer registering.Unlock()
	// Checked first, since adding an existing function ends the transaction that con may be in.
	var missing error
	if q := all.WarmUp.Queries; len(q) > 0 {
		if missing = Exec(con, q[0]); missing == nil {
			return nil
		}
	}
	done, err := addAggregates(con, all.Aggregates)
	if err != nil {
		return err
	}
	if done && missing != nil {
		return fmt.Errorf("the database has the functions, but this connection does not see them, as while another transaction adds them: %w", missing)
	}
	if done {
		return nil
	}
	for _, f := range all.Scalars {
		if err := addScalar(con, f); err != nil {
			return err
		}
	}
	if err := warmUp(con, &all.WarmUp); err != nil {
		return err
	}
	if !Settable() {
		return nil
	}
	if q := all.WarmUp.Constant; q != "" {
		C.bglm_ask_constants(true)
		if Exec(con, q) != nil {
			C.bglm_ask_constants(false)
		}
	}
	return addSettings(con, all.Settings)
}

// addAggregates adds aggs; done says that all were there already, from an earlier Register.
func addAggregates(con unsafe.Pointer, aggs []*Aggregate) (done bool, err error) {
	had := 0
	for _, f := range aggs {
		arity, types, n, free := flatten(f.Params)
		ret, name := f.Result.logical(), C.CString(f.Name)
		m := C.bglm_register_aggregate(C.duckdb_ptr(con), name, C.uint64_t(number(&aggList, f)), arity, types, C.int32_t(n), ret)
		C.free(unsafe.Pointer(name))
		C.bglm_type_destroy(ret)
		free()
		if m != nil {
			if C.GoString(m) != "exists" {
				return false, fmt.Errorf("registering %s: %s", f.Name, C.GoString(m))
			}
			had++
		}
	}
	return had > 0 && had == len(aggs), nil
}

func addScalar(con unsafe.Pointer, f *Scalar) error {
	var params [][]*Type
	var rets []C.duckdb_ptr
	var ids []C.uint64_t
	for _, g := range append([]*Scalar{f}, f.Also...) {
		id := C.uint64_t(number(&scaList, g))
		for _, p := range g.Params {
			params, rets, ids = append(params, p), append(rets, g.Result.logical()), append(ids, id)
		}
	}
	arity, types, n, free := flatten(params)
	name := C.CString(f.Name)
	m := C.bglm_register_scalar(C.duckdb_ptr(con), name, &ids[0], arity, types, C.int32_t(n), &rets[0], C.bool(f.Volatile), C.bool(f.Check != nil))
	C.free(unsafe.Pointer(name))
	for _, r := range rets {
		C.bglm_type_destroy(r)
	}
	free()
	if m != nil {
		return fmt.Errorf("registering %s: %s", f.Name, C.GoString(m))
	}
	return nil
}

// taught says if warmUp has completed without and with the rules; registering guards it.
var taught [2]bool

// warmUp runs the queries of w; registering must be held. They teach the addresses of calling code,
// which is the same for all databases of a process: only the first of them needs it.
func warmUp(con unsafe.Pointer, w *WarmUp) error {
	done := &taught[0]
	if C.bglm_ruled() {
		done = &taught[1]
	}
	if *done {
		return nil
	}
	C.bglm_warming(true)
	defer C.bglm_warming(false)
	for _, q := range w.Queries {
		if err := Exec(con, q); err != nil {
			return fmt.Errorf("warming up: %w", err)
		}
	}
	defer C.bglm_lesson(0, 0)
	lessons := map[C.int][]string{C.BGLM_LESSON_WINDOW: w.Window, C.BGLM_LESSON_SORTED: w.Sorted,
		C.BGLM_LESSON_SORTED_WINDOW: w.SortedWindow}
	if C.bglm_ruled() {
		lessons[C.BGLM_LESSON_GROUPED], lessons[C.BGLM_LESSON_FILTERED], lessons[C.BGLM_LESSON_DISTINCT] = w.Grouped, w.Filtered, w.Distinct
	}
	for kind, queries := range lessons {
		for _, q := range queries {
			token := 1 + rand.Float64() // no other query has this number
			C.bglm_lesson(kind, C.double(token))
			if err := Exec(con, fmt.Sprintf(q, fmt.Sprintf("[%s::DOUBLE]", strconv.FormatFloat(token, 'e', -1, 64)))); err != nil {
				return fmt.Errorf("warming up: %w", err)
			}
		}
	}
	*done = true
	return nil
}

// addSettings adds the options, and shows the classifier calls of SET and others; registering must
// be held.
func addSettings(con unsafe.Pointer, all []Setting) error {
	if len(all) == 0 {
		return nil
	}
	if settings == nil {
		settings = all
	}
	for k, s := range all {
		name, about := C.CString(s.Name), C.CString(s.Description)
		m := C.bglm_register_setting(C.duckdb_ptr(con), name, about, C.uint64_t(k))
		C.free(unsafe.Pointer(name))
		C.free(unsafe.Pointer(about))
		if m != nil {
			if Exec(con, "SELECT current_setting('"+s.Name+"')") == nil {
				return nil // they exist already
			}
			return fmt.Errorf("adding the setting %s: %s", s.Name, C.GoString(m))
		}
	}
	defer C.bglm_hear(0, nil)
	for k, q := range []string{
		"SET $s = '$t'", // the lesson for SET; no other statement may match it
		"SELECT current_setting('$s') = '$t'",
		"SELECT current_setting('$s') IN ('a', '$t')",
		"SELECT [current_setting('$s'), '$t']",
		"SELECT current_setting('$s') UNION ALL SELECT '$t'",
		"SELECT * FROM (SELECT current_setting('$s') AS s) WHERE s = '$t'",
		"SELECT * FROM (SELECT current_setting('$s') AS s FROM range(3)) JOIN (SELECT '$t' AS t FROM range(3)) ON s = t",
	} {
		lesson := C.int(C.BGLM_HEAR_OTHER)
		if k == 0 {
			lesson = C.BGLM_HEAR_SET
		}
		token := C.CString(fmt.Sprintf("lesson %x", rand.Uint64()))
		C.bglm_hear(lesson, token)
		err := Exec(con, strings.NewReplacer("$s", all[0].Name, "$t", C.GoString(token)).Replace(q))
		C.free(unsafe.Pointer(token))
		if err != nil {
			return fmt.Errorf("trying the settings: %w", err)
		}
	}
	return nil
}

// registering serialises Register: a second call for the same database would find some of the
// functions and return while others are still missing.
var registering sync.Mutex

// Exec runs a statement on con and discards its result.
func Exec(con unsafe.Pointer, sql string) error {
	q := C.CString(sql)
	defer C.free(unsafe.Pointer(q))
	if m := C.bglm_exec(C.duckdb_ptr(con), q); m != nil {
		defer C.free(unsafe.Pointer(m))
		return fmt.Errorf("%s", C.GoString(m))
	}
	return nil
}

// Version is the version of the running DuckDB, such as v1.5.6.
func Version() string {
	if linkFor() != nil {
		return ""
	}
	return C.GoString(C.bglm_version())
}

// SiteCounts are the call-site classifier's counters: callers known as flat, constant and
// contradictory; updates decided by the fast path, by unwinding and by inspection; then callers
// known as windows over whole partitions, as ordered aggregates, as windows above these, and as
// GROUP BY without FILTER, with it, and with DISTINCT.
type SiteCounts struct {
	Flat, Constant, Conflict, Fast, Unwound, Inspected uint64
	Windows, Sorted, Parents                           uint64
	Grouped, Filtered, Distinct                        uint64
}

// Sites returns the classifier's counters.
func Sites() SiteCounts {
	var c C.bglm_sites
	C.bglm_site_counts(&c)
	return SiteCounts{uint64(c.flat), uint64(c.constant), uint64(c.conflict), uint64(c.fast), uint64(c.unwound), uint64(c.inspected),
		uint64(c.windows), uint64(c.sorted), uint64(c.parents), uint64(c.grouped), uint64(c.filtered), uint64(c.distinct)}
}
