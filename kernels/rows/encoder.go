package rows

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bglm/bglm/kernels"
	vector "github.com/bglm/bglm/kernels/dense"
	"github.com/bglm/bglm/kernels/special"
)

// block is the most rows that are read ahead, and entriesAhead about the most entries of theirs:
// they stay in the near caches.
const (
	block        = 512
	entriesAhead = 8192
)

// Encoder numbers the features of rows, one block of them at a time: a column is read as a whole,
// its names are hashed and looked up together, then the rows are assembled from the numbers. It is
// used by one goroutine at a time.
//
// New names are numbered in the order of the rows and of the features in a row, so that numbers do
// not depend on how the rows are divided into blocks.
type Encoder struct {
	x     Column // nil for none; tail is in addition to it
	tail  []Term
	what  string
	words Words
	as    reading
	model *kernels.Model // what Learn has set, nil for another reading
	met   []bool         // by column of as.known: whether a term reads it
	index index          // of as.known
	built bool
	taken bool           // a numeric column has the intercept's name
	twice error          // for two columns with features of one name
	owned *reservedNames // names that keys must not have, nil for none

	meetings []meeting // columns of levels whose features can coincide

	null   []Column // a row is NULL if one of them is
	terms  []term
	cols   *kernels.Columns
	schema *kernels.Schema // nil if the rows are open
	key    string          // of schema
	wider  *kernels.Schema // with the places of an additional list
	dups   bool            // a row can name a feature twice, the intercept included
	wide   bool            // terms have several entries per row

	lo, hi int // rows that are loaded
	faults []fault
	dict   *kernels.Dict // whose numbers the terms have

	seen    kernels.Scratch
	buf     []byte
	floats  []float64
	at      []float64 // of a point
	present []bool
}

// fault is an error in a row.
type fault struct {
	row int
	err error
}

// ErrValue is an error that concerns the values of one row.
type ErrValue struct {
	Err error
	Row int // set by Source.Feed
}

func (e ErrValue) Error() string { return e.Err.Error() }
func (e ErrValue) Unwrap() error { return e.Err }

func notFinite(name string, v float64) error {
	return ErrValue{Err: fmt.Errorf("feature %q has the value %v; allowed: finite numbers", name, v)}
}

type kind uint8

const (
	number kind = iota // the feature `name` with a value
	level              // `name=text`
	day                // `name=2024-01-31`
	coded              // `name=label` by code
	cross              // an interaction: `a:b`, or `a:b=x:y` with levels
	levels             // one level for each element of a list
	names              // each element of a list is a whole name
	pairs              // keys and values
	dense              // features 1..d
)

// term is a column or an interaction, with the values read from it.
type term struct {
	kind  kind
	name  string
	col   Column
	entry Column         // of pairs: the struct, which may be NULL
	key   Column         // elements of levels and names, keys of pairs
	val   Column         // values of pairs and dense
	parts []Column       // of an interaction
	named kernels.Column // the column of its texts; Names if whole
	text  kernels.Text   // number, and cross without levels: the name
	last  uint32         // its number in the dictionary where it was last looked up
	whole bool           // the column's name contains '=': texts are whole names
	ints  bool           // keys are numbers
	exact bool           // of this block: keys are in i, not t
	wide  int            // of this block: the longest list

	*buffers
	view []float64 // of numbers: the column's memory, if it is Viewed

	label  []label // of codes
	column kernels.Column

	place  int          // in the schema, -1 for none
	null   kernels.Text // the feature of rows without a value
	twin   bool         // null is also the name of a numeric column
	nullID uint32       // number of null
	gaps   []uint32     // of dense: the numbers of these features, by place
	lack   []lack       // of dense: entries that are NULL; of cross: rows where a number is NULL that its own column replaces
}

// lack is a NULL number of a list: entry at of row r, and its place from 0.
type lack struct{ r, place, at int }

// buffers hold the values read from a term.
type buffers struct {
	miss []bool // of a single entry: whether a row has none; empty if all have one
	off  []int  // of several: entries off[r] to off[r+1]
	t    []kernels.Text
	i    []int64
	x    []float64
	id   []uint32

	run, upto int // entries of i before upto are 1 to run, repeated
}

// spare buffers: an encoder lives as long as a chunk of rows, and new ones would cost more than
// reading.
var spare = sync.Pool{New: func() any { return new(buffers) }}

const spareLimit = 1 << 20 // the most entries of buffers worth keeping

// spareTerms is memory for terms, cleared.
var spareTerms sync.Pool

// Release returns the encoder's memory for reuse; the encoder is unusable afterwards.
func (e *Encoder) Release() {
	for k := range e.terms {
		b := e.terms[k].buffers
		e.terms[k] = term{} // its columns are views
		if b != nil && cap(b.t)+cap(b.x)+cap(b.i) <= spareLimit {
			clear(b.t[:cap(b.t)]) // texts are views
			spare.Put(b)
		}
	}
	if cap(e.terms) > 0 {
		free := e.terms[:0]
		spareTerms.Put(&free)
	}
	e.terms = nil
	e.Forget()
}

// numbers returns the numbers of the rows read.
func (t *term) numbers() []float64 {
	if t.view != nil {
		return t.view
	}
	return t.x
}

// label is the text of a code, created when it is first seen.
type label struct {
	text  kernels.Text
	known bool
}

func (t *term) several() bool { return t.kind >= levels }

// hasNamedFeatures reports whether the term has features under their own names.
func (t *term) hasNamedFeatures() bool { return t.kind >= names }

// Words are the allowed types in the user's terms, for errors.
type Words struct {
	Containers string // what x can be
	Struct     string // columns side by side
	Contents   string // what a column of it can be
	Key        string // what the name of a feature can be
	Missing    string // a missing value

	// Advice says what to write for a column of a type that no feature can have; "" for nothing.
	Advice func(name, typ string) string
}

// NewEncoder returns the encoder of the rows whose features are x: a struct of named columns, a
// map, a list of struct(feature, value), of text or of numbers; what names it in errors.
// Errors: another type.
func NewEncoder(x Column, what string, w Words) (*Encoder, error) {
	e := &Encoder{x: x, what: what, words: w}
	return e, e.build()
}

// NewScoring is NewEncoder for rows of fits that are passed to Score before the first row is read:
// columns that the fits do not know are ignored.
func NewScoring(x Column, what string, w Words) *Encoder { return &Encoder{x: x, what: what, words: w} }

// build creates the terms.
func (e *Encoder) build() error {
	e.Release()
	e.null, e.cols, e.schema, e.dups, e.wide = e.null[:0], nil, nil, false, false
	if free, ok := spareTerms.Get().(*[]term); ok {
		e.terms = *free
	}
	e.met, e.index = make([]bool, len(e.as.known)), indexOf(e.as.known)
	if x := e.x; x != nil {
		what := e.what
		if what == "" {
			what = "column " + x.Name()
		}
		e.null = append(e.null, x)
		if x.Kind() != Null {
			ok, err := e.container(x, what, true)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("%s is %s; allowed: %s", what, x.Type(), e.words.Containers)
			}
		}
	}
	if err := e.addTail(); err != nil {
		return err
	}
	if err := e.missingColumnError(); err != nil {
		return err
	}
	e.taken = e.clashes()
	e.twice = e.findTwins()
	e.owned = e.findOwned()
	e.meetings = e.findMeetings()
	e.done()
	e.built = true
	return nil
}

// container adds the features that x holds; false if x is no container. alone says that x is all
// that rows have: lists of text are then containers too, and features that a map lacks are absent.
func (e *Encoder) container(x Column, what string, alone bool) (bool, error) {
	bad := func(why string) error {
		return fmt.Errorf("%s is %s%s; allowed: %s", what, x.Type(), why, e.words.Containers)
	}
	fits := func(k, v Column) bool {
		return (k.Kind() == Text || k.Integer() || k.Kind() == Null) && (v.Kind() == Number || v.Kind() == Null)
	}
	switch x.Kind() {
	case Struct:
		for k := range x.Children() {
			c := x.Child(k)
			if c.Name() == "" {
				return false, bad(", a row without field names")
			}
			ok, err := e.nested(c, fmt.Sprintf("%s field %q", what, c.Name()))
			if err == nil && !ok {
				ok, err = e.field(c)
			}
			if err != nil {
				return false, err
			}
			if !ok {
				err := fmt.Errorf("%s field %q is %s; allowed in %s: %s", what, c.Name(), c.Type(), e.words.Struct, e.words.Contents)
				if e.words.Advice != nil {
					if advice := e.words.Advice(c.Name(), c.Type()); advice != "" {
						err = fmt.Errorf("%w; write %s", err, advice)
					}
				}
				return false, err
			}
		}
		return true, nil
	case Map:
		s := x.Child(0)
		if s.Kind() != Struct || s.Children() != 2 || !fits(s.Child(0), s.Child(1)) {
			return false, bad("")
		}
		e.openFor(alone)
		e.add(term{kind: pairs, col: x, entry: s, key: s.Child(0), val: s.Child(1)})
		return true, nil
	case List:
		c := x.Child(0)
		switch c.Kind() {
		case Null:
			if e.as.places > 0 { // the list is too short, whatever its type
				e.claimPlaces()
				e.add(term{kind: dense, col: x, val: noNumbers{c}})
				return true, nil
			}
			e.openFor(alone)
			return true, nil
		case Number:
			e.claimPlaces()
			e.add(term{kind: dense, col: x, val: c})
			return true, nil
		case Text:
			if alone {
				e.openFor(alone)
				e.add(term{kind: names, col: x, key: c})
			}
			return alone, nil
		case Struct:
			k, v := pairOf(c)
			if k == nil || v == nil {
				return false, bad("; its entries need the fields feature and value")
			}
			if n := c.Children(); n != 2 {
				return false, bad(fmt.Sprintf("; its entries have %d fields, which may be feature and value alone", n))
			}
			if !fits(k, v) {
				return false, bad("; feature must be " + e.words.Key + ", value a number")
			}
			e.openFor(alone)
			e.add(term{kind: pairs, col: x, entry: c, key: k, val: v})
			return true, nil
		}
		return false, nil
	}
	return false, nil
}

// pairOf returns the fields of a struct(feature, value), nil for a missing one.
func pairOf(c Column) (feature, value Column) {
	for i := range c.Children() {
		switch f := c.Child(i); {
		case strings.EqualFold(f.Name(), "feature"):
			feature = f
		case strings.EqualFold(f.Name(), "value"):
			value = f
		}
	}
	return feature, value
}

// nested adds the features of a map or list c that is one of several columns; false if c is an
// ordinary column. A row is NULL if c is, as if c were all that rows have.
func (e *Encoder) nested(c Column, what string) (bool, error) {
	at := e.index.findFold(c.Name())
	if !hasNamedFeatures(c, at >= 0 && e.as.known[at].Kind == kernels.FeaturesColumn) {
		return false, nil
	}
	name, known, use := e.claim(c.Name())
	if !use {
		return true, nil
	}
	if known != nil && known.Kind != kernels.FeaturesColumn {
		return false, e.otherKind(known, c)
	}
	e.null = append(e.null, c)
	if c.Kind() == Null {
		return true, nil
	}
	n := len(e.terms)
	ok, err := e.container(c, what, false)
	for k := n; k < len(e.terms); k++ {
		e.terms[k].name = name
	}
	return ok, err
}

// hasNamedFeatures reports whether c has several features per row under their own names; known says
// that a fit has learnt it so, which decides if its type does not.
func hasNamedFeatures(c Column, known bool) bool {
	switch c.Kind() {
	case Map:
		return true
	case List:
		in := c.Child(0).Kind()
		return in == Number || in == Struct || known && in == Null
	}
	return known && c.Kind() == Null
}

// CheckPoints returns an error for features that cannot be points, which are lists of numbers; what
// names them.
func CheckPoints(x Column, what string) error {
	if x.Kind() == Null || x.Kind() == List && (x.Child(0).Kind() == Number || x.Child(0).Kind() == Null) {
		return nil
	}
	return fmt.Errorf("%s is %s; a Gaussian process takes a list of numbers", what, x.Type())
}

// points calls f with the numbers of each row that is kept, or with the row's error.
// Errors: those of CheckPoints.
func (e *Encoder) points(lo, hi int, keep []bool, f func(r int, x []float64, err error)) error {
	x := e.null[0]
	if err := CheckPoints(x, "x"); err != nil {
		return err
	}
	for r := range hi - lo {
		if !keep[r] {
			continue
		}
		at, err := e.Point(lo + r)
		f(r, at, err)
	}
	return nil
}

// Point returns the numbers of row i of a list, valid until the next call.
// Errors: a missing number.
func (e *Encoder) Point(i int) ([]float64, error) {
	x := e.null[0]
	a, b := x.Span(i)
	c := x.Child(0)
	for k := a; k < b; k++ {
		if c.Null(k) {
			return nil, fmt.Errorf("x has %s at place %d; a Gaussian process takes finite numbers", e.words.Missing, k-a+1)
		}
	}
	e.at = resize(e.at, b-a)
	if b > a {
		c.Floats(e.at, a)
	}
	return e.at, nil
}

// field adds a named column; false if it cannot be a feature.
func (e *Encoder) field(c Column) (bool, error) {
	if c.Kind() == Struct {
		parts := make(Term, c.Children())
		for k := range parts {
			parts[k] = c.Child(k)
		}
		return true, e.interaction(c.Name(), c, parts)
	}
	name, known, use := e.claim(c.Name())
	if !use {
		return true, nil
	}
	t := term{name: name, col: c}
	switch c.Kind() {
	case Null:
		if known == nil {
			return true, nil
		}
		if parts, ok := kernels.SplitParts(known.Parts); ok {
			t.kind = cross
			for _, p := range parts {
				t.parts = append(t.parts, nullColumn{c, p.Kind == kernels.NumberColumn})
			}
			e.add(t)
			return true, nil
		}
		if t.kind = number; known.Kind == kernels.LevelsColumn {
			t.kind = level
		}
		e.add(t)
		return true, nil
	case Number:
		t.kind = number
	case Bool, Coded:
		t.kind = coded
	case Text:
		t.kind = level
	case Date:
		t.kind = day
	case List:
		switch in := c.Child(0); in.Kind() {
		case Null:
			if known == nil {
				return true, nil
			}
			t.kind, t.key = levels, in
		case Text:
			t.kind, t.key = levels, in
		default:
			return false, e.otherKind(known, c)
		}
	default:
		return false, e.otherKind(known, c)
	}
	if known != nil && known.Kind != t.columnKind() {
		return false, e.otherKind(known, c)
	}
	e.add(t)
	return true, nil
}

func (e *Encoder) add(t term) {
	switch t.kind {
	case levels, names, pairs:
		e.dups = true // keys may be equal
	}
	if t.name == kernels.Intercept || strings.Contains(t.name, "=") {
		e.dups, t.whole = true, strings.Contains(t.name, "=")
	}
	t.buffers = spare.Get().(*buffers)
	t.text = kernels.NewText(t.name)
	t.null = kernels.NewText(t.name + kernels.IsNull)
	t.named = kernels.Names
	t.ints = t.kind == pairs && t.key.Integer()
	e.wide = e.wide || t.several()
	e.terms = append(e.terms, t)
}

// done completes the list of terms.
func (e *Encoder) done() {
	var cols, numbers []string
	if !e.as.open {
		e.schema = e.schemaOf()
	}
	for k := range e.terms {
		t := &e.terms[k]
		switch {
		case t.split(), t.whole && t.leveled():
			cols = append(cols, t.name)
		case t.numeric():
			numbers = append(numbers, t.name)
		}
		if t.kind >= levels && len(e.terms) > 1 {
			e.dups = true // names of different terms can be equal
		}
	}
	if e.cols = sharedColumns(cols, numbers); e.cols != nil {
		for k := range e.terms {
			if t := &e.terms[k]; t.split() {
				t.column, _ = e.cols.Column(t.name)
			}
		}
	}
}

// split reports whether the term's names are column=value with a column of their own.
func (t *term) split() bool {
	switch t.kind {
	case level, day, coded, levels:
		return !t.whole
	case cross:
		return !t.whole && t.hasLevels()
	}
	return false
}

func (t *term) hasLevels() bool {
	return slices.ContainsFunc(t.parts, func(c Column) bool { return c.Kind() != Number })
}

// numeric reports whether the term is one number per row.
func (t *term) numeric() bool { return t.kind == number || t.kind == cross && !t.hasLevels() }

// mixed reports whether the term is an interaction of levels and numbers.
func (t *term) mixed() bool {
	return t.hasLevels() && slices.ContainsFunc(t.parts, func(c Column) bool { return c.Kind() == Number })
}

func sharedColumns(cols, numbers []string) *kernels.Columns {
	if len(cols)+len(numbers) == 0 {
		return nil
	}
	key := strings.Join(cols, "\x00") + "\x00\x00" + strings.Join(numbers, "\x00")
	return columnSets.of(key, func() *kernels.Columns { return kernels.NewColumns(cloneAll(cols), cloneAll(numbers)) })
}

func cloneAll(s []string) []string {
	out := make([]string, len(s))
	for i := range s {
		out[i] = strings.Clone(s[i])
	}
	return out
}

// Columns returns the columns that begin the names of features, nil for none; encoders of the same
// columns share them.
func (e *Encoder) Columns() *kernels.Columns { return e.cols }

// Schema returns the columns of the rows, nil if they are open.
func (e *Encoder) Schema() *kernels.Schema { return e.schema }

// Null reports whether row i has no features at all: x is NULL.
func (e *Encoder) Null(i int) bool {
	for _, c := range e.null {
		if c.Null(i) {
			return true
		}
	}
	return false
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// load reads rows [lo, hi) of all columns.
func (e *Encoder) load(lo, hi int) {
	e.lo, e.hi = lo, hi
	e.faults = e.faults[:0]
	n := hi - lo
	none := false
	for _, c := range e.null {
		none = none || c.MayNull()
	}
	e.present = e.present[:0]
	if none {
		e.present = resize(e.present, n)
		for r := range n {
			e.present[r] = !e.Null(lo + r)
		}
	}
	for k := range e.terms {
		e.read(&e.terms[k])
	}
	e.refuseOwned()
	e.refuseMeetings()
}

// Forget drops what was loaded, after a change of the columns or the dictionary.
func (e *Encoder) Forget() { e.lo, e.hi, e.dict = 0, 0, nil }

// fault records that row r of the block is bad; the first error of a row stays.
func (e *Encoder) fault(r int, err error) {
	for _, f := range e.faults {
		if f.row == r {
			return
		}
	}
	e.faults = append(e.faults, fault{r, err})
}

// isPresent reports whether row r of the block has features at all.
func (e *Encoder) isPresent(r int) bool { return len(e.present) == 0 || e.present[r] }

func (e *Encoder) read(t *term) {
	n := e.hi - e.lo
	if t.several() {
		e.readSeveral(t)
		return
	}
	t.id = resize(t.id, n)
	t.miss, t.view = t.miss[:0], nil
	if t.kind != cross && t.col.MayNull() || len(e.present) > 0 {
		t.miss = resize(t.miss, n)
		for r := range n {
			t.miss[r] = !e.isPresent(r) || t.kind != cross && t.col.Null(e.lo+r)
		}
	}
	defer e.refuse(t)
	if t.kind != cross && t.col.Kind() == Null { // a known column: all are missing
		t.x, t.t, t.miss = resize(t.x, n), resize(t.t, n), resize(t.miss, n)
		clear(t.t)
		for r := range n {
			t.miss[r] = true
		}
		return
	}
	switch t.kind {
	case number:
		defer e.refuseOne(t)
		if c, ok := t.col.(Viewed); ok {
			t.view = c.View(e.lo, e.hi)
		}
		if t.view == nil {
			t.x = resize(t.x, n)
			t.col.Floats(t.x, e.lo)
		}
		if vector.AllFinite(t.numbers()) {
			return
		}
		for r, v := range t.numbers() {
			if !special.Finite(v) && (len(t.miss) == 0 || !t.miss[r]) {
				e.fault(r, notFinite(t.name, v))
			}
		}
	case level:
		t.t = resize(t.t, n)
		t.col.Texts(t.t, e.lo)
		if t.whole {
			for r := range t.t {
				if len(t.miss) == 0 || !t.miss[r] {
					t.t[r] = kernels.NewText(t.name + "=" + t.t[r].String())
				}
			}
		}
	case day:
		t.t = resize(t.t, n)
		e.floats = resize(e.floats, n)
		t.col.Floats(e.floats, e.lo)
		for r, d := range e.floats {
			switch {
			case len(t.miss) > 0 && t.miss[r]:
			case r > 0 && d == e.floats[r-1] && (len(t.miss) == 0 || !t.miss[r-1]):
				t.t[r] = t.t[r-1]
			default:
				e.buf = AppendDate(e.buf[:0], d)
				t.t[r] = t.value(e.buf)
			}
		}
	case coded:
		e.readCodes(t)
	case cross:
		e.readCross(t)
	}
}

// value is the text of a level, or the whole name if the column's name contains '='.
func (t *term) value(b []byte) kernels.Text {
	if t.whole {
		return kernels.NewText(t.name + "=" + string(b))
	}
	return kernels.CopyText(b)
}

// readCodes turns codes into the texts of their labels, each created once.
func (e *Encoder) readCodes(t *term) {
	t.t = resize(t.t, e.hi-e.lo)
	if t.col.Kind() == Bool {
		e.floats = resize(e.floats, e.hi-e.lo)
		t.col.Floats(e.floats, e.lo)
	}
	for r := range t.t {
		if len(t.miss) > 0 && t.miss[r] {
			continue
		}
		c := 0
		if t.col.Kind() != Bool {
			c = t.col.Code(e.lo + r)
		} else if e.floats[r] != 0 {
			c = 1
		}
		if c >= len(t.label) {
			t.label = append(t.label, make([]label, max(2, c+1-len(t.label)))...)
		}
		l := &t.label[c]
		if !l.known {
			s, err := labelOf(t.col, c)
			if err != nil {
				e.fault(r, err)
				continue
			}
			l.text, l.known = t.value([]byte(s)), true
		}
		t.t[r] = l.text
	}
}

func labelOf(c Column, code int) (string, error) {
	if c.Kind() == Bool {
		return [2]string{"false", "true"}[code], nil
	}
	return c.Label(code)
}

func (e *Encoder) readSeveral(t *term) {
	n := e.hi - e.lo
	e.beginSeveral(t)
	defer e.refuse(t)
	skip := t.kind == pairs && (t.entry.MayNull() || t.key.MayNull() || t.val.MayNull()) ||
		t.kind == dense && t.val.MayNull() && e.as.missing != "indicator" || (t.kind == levels || t.kind == names) && t.key.MayNull()
	mayNull := t.col.MayNull()
	if t.kind == pairs && (t.key.Kind() == Null || t.val.Kind() == Null) || t.kind == levels && t.key.Kind() == Null {
		clear(t.off)
		return
	}
	for r := range n {
		at := t.off[r]
		t.off[r+1] = at
		i := e.lo + r
		if mayNull && t.col.Null(i) || !e.isPresent(r) {
			continue
		}
		lo, hi := t.col.Span(i)
		if t.kind == dense {
			hi = e.cut(r, lo, hi)
		}
		m := hi - lo
		if m == 0 {
			continue
		}
		t.wide = max(t.wide, m)
		end := at + m
		if t.kind == pairs || t.kind == dense {
			t.x = slices.Grow(t.x, m)[:end]
			t.val.Floats(t.x[at:end], lo)
		}
		switch {
		case t.exact:
			t.i = slices.Grow(t.i, m)[:end]
			if !t.key.Ints(t.i[at:end], lo) {
				e.intsAsTexts(t, at)
				e.appendIntTexts(t, lo, hi)
			}
		case t.ints:
			e.appendIntTexts(t, lo, hi)
		case t.kind != dense:
			t.t = slices.Grow(t.t, m)[:end]
			t.key.Texts(t.t[at:end], lo)
		}
		if t.kind == dense {
			t.number(at, m)
			if t.val.MayNull() {
				e.findLacks(t, r, at, lo, hi)
			}
		}
		if skip {
			end = t.drop(at, lo, hi)
		}
		t.off[r+1] = end
		if (t.kind == pairs || t.kind == dense) && !vector.AllFinite(t.x[at:end]) {
			e.findInfinite(t, r, at, end)
		}
	}
	if !skip {
		for _, l := range t.lack {
			t.x[l.at] = math.NaN()
		}
	}
	t.id = resize(t.id, t.off[n])
	e.refuseIntercept(t)
	if t.kind == levels && t.whole {
		for k := range t.t {
			t.t[k] = kernels.NewText(t.name + "=" + t.t[k].String())
		}
	}
}

// beginSeveral allocates the block's rows of t, and records which of them are NULL.
func (e *Encoder) beginSeveral(t *term) {
	n := e.hi - e.lo
	t.off = resize(t.off, n+1)
	t.t, t.i, t.x, t.id = t.t[:0], t.i[:0], t.x[:0], t.id[:0]
	t.off[0], t.wide, t.lack = 0, 0, t.lack[:0]
	t.exact = t.ints
	if t.kind != dense {
		t.upto = 0
	}
	if t.miss = t.miss[:0]; t.kind == levels && t.col.MayNull() {
		t.miss = resize(t.miss, n)
		for r := range n {
			t.miss[r] = e.isPresent(r) && t.col.Null(e.lo+r)
		}
	}
}

// findInfinite reports the first of row r's entries [at, end) that is not finite.
func (e *Encoder) findInfinite(t *term, r, at, end int) {
	for k := at; k < end; k++ {
		if !special.Finite(t.x[k]) {
			e.fault(r, notFinite(e.keyOf(t, k), t.x[k]))
			return
		}
	}
}

// number sets the m entries from at on to 1 to m, unless they are that already.
func (t *term) number(at, m int) {
	end := at + m
	if cap(t.i) < end {
		t.upto = min(t.upto, at) // entries beyond are not copied
	}
	t.i = slices.Grow(t.i, m)[:end]
	again := m == t.run && at <= t.upto && at%m == 0
	if again && end <= t.upto {
		return
	}
	for k := range m {
		t.i[at+k] = int64(k + 1)
	}
	switch {
	case again:
		t.upto = end
	case at == 0:
		t.run, t.upto = m, end
	default:
		t.upto = min(t.upto, at)
	}
}

// keyOf returns the name of entry k, for an error.
func (e *Encoder) keyOf(t *term, k int) string {
	if t.exact || t.kind == dense {
		return fmt.Sprint(t.i[k])
	}
	return t.t[k].String()
}

// intsAsTexts converts the keys before entry at to texts: one is too large for an int64.
func (e *Encoder) intsAsTexts(t *term, at int) {
	t.exact = false
	for _, v := range t.i[:at] {
		t.t = append(t.t, kernels.NewText(fmt.Sprint(v)))
	}
	t.i = t.i[:0]
}

func (e *Encoder) appendIntTexts(t *term, lo, hi int) {
	for j := lo; j < hi; j++ {
		e.buf = e.buf[:0]
		if !t.key.Null(j) {
			e.buf = t.key.AppendInt(e.buf, j)
		}
		t.t = append(t.t, kernels.CopyText(e.buf))
	}
}

// drop removes NULL entries from at on, and returns the new end.
func (t *term) drop(at, lo, hi int) int {
	t.upto = min(t.upto, at)
	end := at
	for j := lo; j < hi; j++ {
		switch t.kind {
		case pairs:
			if t.entry.Null(j) || t.key.Null(j) || t.val.Null(j) {
				continue
			}
		case dense:
			if t.val.Null(j) {
				continue
			}
		default:
			if t.key.Null(j) {
				continue
			}
		}
		from := at + j - lo
		if len(t.x) > from {
			t.x[end] = t.x[from]
		}
		if len(t.i) > from {
			t.i[end] = t.i[from]
		}
		if len(t.t) > from {
			t.t[end] = t.t[from]
		}
		end++
	}
	t.x, t.i, t.t = t.x[:min(len(t.x), end)], t.i[:min(len(t.i), end)], t.t[:min(len(t.t), end)]
	return end
}

// AppendDate prints days since 1970 as DuckDB prints a DATE.
func AppendDate(dst []byte, days float64) []byte {
	switch days {
	case math.MaxInt32:
		return append(dst, "infinity"...)
	case -math.MaxInt32:
		return append(dst, "-infinity"...)
	}
	y, m, day := time.Unix(int64(days)*86400, 0).UTC().Date()
	if y > 0 {
		return fmt.Appendf(dst, "%04d-%02d-%02d", y, m, day)
	}
	return fmt.Appendf(dst, "%04d-%02d-%02d (BC)", 1-y, m, day)
}
