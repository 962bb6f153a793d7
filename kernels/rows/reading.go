package rows

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/option"
)

// reading is how rows become features.
type reading struct {
	missing string                     // "indicator", "absent" (the default) or "error"
	open    bool                       // columns are not recorded
	known   []kernels.FitColumn        // the columns that a fit has learnt, nil for none
	joins   bool                       // unknown columns are new ones; otherwise they are ignored
	adds    bool                       // every row has the intercept in addition to its features
	learns  bool                       // a fit learns from the rows
	fills   bool                       // and has values for missing numbers in interactions
	hashed  bool                       // features are hashed into slots
	places  int                        // the number of places of a list among known
	means   map[string]float64         // of interactions of levels and numbers: the replacements of missing numbers in learning
	factors map[kernels.Factor]float64 // the replacements of missing numbers in a product
}

func (r *reading) same(o *reading) bool {
	if r.missing != o.missing || r.open != o.open || r.joins != o.joins || r.adds != o.adds || r.learns != o.learns || r.fills != o.fills || r.hashed != o.hashed || len(r.known) != len(o.known) || !maps.Equal(r.means, o.means) || !maps.Equal(r.factors, o.factors) {
		return false
	}
	return len(r.known) == 0 || &r.known[0] == &o.known[0] ||
		slices.EqualFunc(r.known, o.known, func(a, b kernels.FitColumn) bool { return a.Name == b.Name && a.Kind == b.Kind && a.Parts == b.Parts })
}

// Learn sets the reading of rows for fits of m: its Missing and AnyColumns, and the columns of the
// fit that it continues or of m.Around, which the rows must have. Cheap if nothing changes; m must
// not change as long as rows are read for it.
// Errors: a column that is missing or of another kind.
func (e *Encoder) Learn(m *kernels.Model) error {
	if e.model == m && m != nil {
		return nil
	}
	r := reading{missing: m.Options.Missing, open: m.Options.AnyColumns, joins: true, adds: !m.NoIntercept, learns: true}
	if !r.open {
		r.known = columnsBefore(m)
		if r.missing == "indicator" {
			r.means, r.factors = m.Start.Centred()
			r.fills = m.HashBits == 0
		}
	}
	if _, err := e.setReading(r); err != nil {
		return err
	}
	if e.taken {
		return fmt.Errorf("column %q has the name of the intercept, which a fit has by itself; leave it out where it is 1 in every row, or give it another name", kernels.Intercept)
	}
	if e.twice == nil {
		e.model = m
	}
	return e.twice
}

// columnsBefore returns the columns of m.Around and of the fit that m continues.
func columnsBefore(m *kernels.Model) (known []kernels.FitColumn) {
	if m.Around != nil {
		known = slices.Clip(m.Around.Columns)
	}
	if m.Start == nil {
		return known
	}
	if len(known) == 0 {
		return m.Start.Columns
	}
	for _, c := range m.Start.Columns {
		if !slices.ContainsFunc(known, func(k kernels.FitColumn) bool { return strings.EqualFold(k.Name, c.Name) }) {
			known = append(known, c)
		}
	}
	return known
}

// findTwins returns an error for a numeric column with the name of another column's level, as in
// {g: 'a', 'g=a': 2}: the two would be one feature. It marks the columns whose missing-value
// indicator is another column. A fit that knows both continues with them. Two columns of one name,
// which only SQL rejects without this check, are an error too.
func (e *Encoder) findTwins() error {
	known := func(name string) bool {
		return slices.ContainsFunc(e.as.known, func(c kernels.FitColumn) bool { return c.Name == name })
	}
	column := func(name string) *term {
		at := slices.IndexFunc(e.terms, func(t term) bool { return t.name == name && !t.hasNamedFeatures() })
		if at < 0 {
			return nil
		}
		return &e.terms[at]
	}
	if err := e.findPlaced(); err != nil {
		return err
	}
	had := make(map[string]bool, len(e.terms))
	for k := range e.terms {
		t := &e.terms[k]
		if had[t.name] && !t.hasNamedFeatures() {
			return fmt.Errorf("two columns are called %q, and would be one; give one of them another name", t.name)
		}
		had[t.name] = !t.hasNamedFeatures()
		if !t.numeric() {
			continue
		}
		if base, ok := strings.CutSuffix(t.name, kernels.IsNull); ok {
			if of := column(base); of != nil {
				of.twin = true
			}
		}
		for i := strings.IndexByte(t.name, '='); i >= 0 && i < len(t.name); {
			if of := column(t.name[:i]); of != nil && of.leveled() && !(known(t.name) && known(of.name)) {
				return fmt.Errorf("the number %q has the name of a level of column %q, with which it would be one feature; give one of them another name", t.name, of.name)
			}
			next := strings.IndexByte(t.name[i+1:], '=')
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	return nil
}

// findPlaced returns an error for a column that has the name of a place of another column, a list
// of numbers, or is a list of numbers itself: the places of both have the same names.
func (e *Encoder) findPlaced() error {
	list := slices.IndexFunc(e.terms, func(t term) bool { return t.kind == dense })
	if list < 0 || len(e.terms) == 1 {
		return nil
	}
	for k := range e.terms {
		name := e.terms[k].name
		if k > list && e.terms[k].kind == dense {
			return fmt.Errorf("the lists %q and %q are both of numbers, whose features 1, 2, ... would be the same; make one list of them with list_concat", e.terms[list].name, name)
		}
		if n, err := strconv.Atoi(name); err == nil && n > 0 && strconv.Itoa(n) == name {
			return fmt.Errorf("the column %q has the name of a number in the list %q, with which it would be one; give it another name", name, e.terms[list].name)
		}
	}
	return nil
}

// Score sets the reading of rows for scoring by f. They must have the columns that f records;
// others are ignored. A row's own value for the intercept is added to the 1 that it has anyway,
// unless it is 1 again, which is an error. anew reports that what was read before is invalid.
// Errors: those of Learn; if f records no columns, columns of types that cannot be features.
func (e *Encoder) Score(f *kernels.Fit) (anew bool, err error) {
	r := reading{open: true, joins: true, adds: f.Intercept}
	if f.Columns != nil {
		r = reading{missing: "indicator", known: f.Columns, adds: f.Intercept, hashed: f.HashBits > 0, factors: f.Factors()}
		if r.hashed && f.LearntAbsent() {
			r.missing = "absent" // see kernels.Fit.LacksIndicator
		}
	}
	return e.setReading(r)
}

// Show sets the reading of rows without a fit, with missing as in the option of that name. A
// missing number is NaN under "indicator".
func (e *Encoder) Show(missing string) error {
	_, err := e.setReading(reading{missing: missing, joins: true})
	return err
}

func (e *Encoder) setReading(r reading) (anew bool, err error) {
	if e.built && r.same(&e.as) {
		return false, nil
	}
	e.model = nil
	for k := range r.known {
		if isPlace(&r.known[k], r.places) {
			r.places++
		}
	}
	same := e.built && e.as.known == nil && r.known == nil && e.as.open == r.open
	if e.as = r; same { // the terms are the same for any such reading
		e.Forget()
		return true, nil
	}
	e.built = false
	return true, e.build()
}

// index finds columns by their names, the first one if several have it, as each column of a row is
// looked up among all that a fit knows.
type index struct{ exact, folded map[string]int }

func indexOf(cols []kernels.FitColumn) index {
	x := index{make(map[string]int, len(cols)), make(map[string]int, len(cols))}
	for k := range slices.Backward(cols) {
		x.exact[cols[k].Name], x.folded[folded(cols[k].Name)] = k, k
	}
	return x
}

// findFold returns the column of this name regardless of case, -1 for none.
func (x index) findFold(name string) int {
	if at, ok := x.folded[folded(name)]; ok {
		return at
	}
	return -1
}

// folded is a representative of all names that strings.EqualFold considers equal.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			least = min(least, o)
		}
		return least
	}, name)
}

// claim returns the name of the column in the fit, what the fit knows of it, and whether it is to
// be read.
func (e *Encoder) claim(name string) (as string, known *kernels.FitColumn, use bool) {
	at, ok := e.index.exact[name]
	if !ok {
		at = e.index.findFold(name)
	}
	if at < 0 {
		return name, nil, e.as.known == nil || e.as.joins
	}
	if e.met[at] {
		return name, nil, false
	}
	e.met[at] = true
	return e.as.known[at].Name, &e.as.known[at], true
}

// claimPlaces claims the columns that are the places of a list.
func (e *Encoder) claimPlaces() {
	for k, n := 0, 0; n < e.as.places; k++ {
		if isPlace(&e.as.known[k], n) {
			e.met[k] = true
			n++
		}
	}
}

// isPlace reports whether c is the place of a list that follows n of them.
func isPlace(c *kernels.FitColumn, n int) bool {
	return c.Kind == kernels.NumberColumn && c.Name == strconv.Itoa(n+1)
}

// openFor marks all columns as read if a container is all that rows have: features that a map lacks
// are absent.
func (e *Encoder) openFor(alone bool) {
	for k := range e.met {
		e.met[k] = e.met[k] || alone
	}
}

// missingColumnError returns an error for a column of the fit that the rows do not have.
func (e *Encoder) missingColumnError() error {
	at := slices.Index(e.met, false)
	if at < 0 || e.x != nil && e.x.Kind() == Null {
		return nil
	}
	var found []string
	if e.x != nil && e.x.Kind() == Struct {
		for k := range e.x.Children() {
			found = append(found, e.x.Child(k).Name())
		}
	}
	for _, t := range e.tail {
		if len(t) == 1 {
			found = append(found, t[0].Name())
		}
	}
	what := e.what
	if what == "" {
		what = "the table"
	}
	name := e.as.known[at].Name
	var free []string // without those that other columns of the fit are read from
	for _, f := range found {
		if !slices.ContainsFunc(e.as.known, func(c kernels.FitColumn) bool { return strings.EqualFold(c.Name, f) }) {
			free = append(free, f)
		}
	}
	near := option.Nearest(name, free)
	if near != "" {
		near = fmt.Sprintf("; the nearest that it has is %q", near)
	}
	if parts, ok := kernels.SplitParts(e.as.known[at].Parts); ok {
		near = fmt.Sprintf("; an interaction is a field of its own, %q: %s", name, partsSQL(parts))
	}
	return fmt.Errorf("%s has no column %q, which the fit has learnt from%s (a fit made with columns: 'any' would go without)", what, name, near)
}

// partsSQL is the STRUCT of an interaction in SQL.
func partsSQL(parts []kernels.ColumnPart) string {
	fields := make([]string, len(parts))
	for k, p := range parts {
		name := `"` + strings.ReplaceAll(p.Name, `"`, `""`) + `"`
		fields[k] = name + ": " + name
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// clashes reports whether a numeric column has the intercept's name: two that are one feature would
// both be wrong. Fits that know it as a column continue with it.
func (e *Encoder) clashes() bool {
	return slices.ContainsFunc(e.terms, func(t term) bool { return t.name == kernels.Intercept && t.numeric() }) &&
		!slices.ContainsFunc(e.as.known, func(c kernels.FitColumn) bool { return c.Name == kernels.Intercept })
}

var errIntercept = ErrValue{Err: kernels.ErrIntercept}

// refuseIntercept reports a fault for the rows of t, of several entries, that name the intercept if
// they have it already.
func (e *Encoder) refuseIntercept(t *term) {
	if !e.as.adds || t.kind != pairs && t.kind != names {
		return
	}
	for k := range t.t {
		if t.t[k] != intercept || !e.as.learns && t.kind == pairs && t.x[k] != 1 {
			continue
		}
		r, _ := slices.BinarySearch(t.off, k+1)
		e.fault(r-1, errIntercept)
	}
}

// refuseOne is refuseIntercept for a numeric column in rows to be scored.
func (e *Encoder) refuseOne(t *term) {
	if !e.taken || !e.as.adds || t.name != kernels.Intercept {
		return
	}
	for r, x := range t.numbers() {
		if x == 1 && (len(t.miss) == 0 || !t.miss[r]) {
			e.fault(r, errIntercept)
		}
	}
}

var intercept = kernels.NewText(kernels.Intercept)

// leveled reports whether the term has levels.
func (t *term) leveled() bool {
	return t.kind != number && (t.kind != cross || t.hasLevels())
}

// columnKind is the term's kind in a fit; the term holds no features of other names.
func (t *term) columnKind() string {
	if t.leveled() {
		return kernels.LevelsColumn
	}
	return kernels.NumberColumn
}

func kindWords(kind string) string {
	switch kind {
	case kernels.LevelsColumn:
		return "levels (text, a truth value or a date)"
	case kernels.FeaturesColumn:
		return "features of other names (a map or a list)"
	}
	return "a number"
}

// otherKind is the error for a column not of the kind that the fit has learnt; nil if that is
// unknown.
func (e *Encoder) otherKind(known *kernels.FitColumn, c Column) error {
	if known == nil {
		return nil
	}
	return fmt.Errorf("column %q is %s; allowed: %s, as the fit has learnt it%s", known.Name, c.Type(), kindWords(known.Kind), howToRead(c, known.Kind))
}

// cut is the end of list r, from lo to hi, for the fit.
func (e *Encoder) cut(r, lo, hi int) int {
	switch d := e.as.places; {
	case d == 0:
	case hi-lo < d:
		e.fault(r, ErrValue{Err: fmt.Errorf("the list has %d numbers; the fit has learnt from %d: column \"%d\" is missing", hi-lo, d, hi-lo+1)})
	case !e.as.joins:
		return lo + d
	}
	return hi
}

// findLacks records which numbers of a list are NULL.
func (e *Encoder) findLacks(t *term, r, at, lo, hi int) {
	for j := lo; j < hi; j++ {
		if t.val.Null(j) {
			t.lack = append(t.lack, lack{r, j - lo, at + j - lo})
			t.x[at+j-lo] = 0
		}
	}
}

// refuse reports a fault for the rows of t that lack a value if that is an error.
func (e *Encoder) refuse(t *term) {
	if t.twin && e.indicates(t) {
		for r, is := range t.miss {
			if is && e.isPresent(r) {
				e.fault(r, ErrValue{Err: fmt.Errorf("column %q is NULL, and the feature %q that says so is a column of numbers too; give that another name, or take no feature for what is missing (missing: 'absent')", t.name, t.name+kernels.IsNull)})
			}
		}
	}
	if e.as.missing != "error" {
		return
	}
	bad := func(r int, name string) {
		e.fault(r, ErrValue{Err: fmt.Errorf("column %q is NULL; with missing: 'error' every row needs a value", name)})
	}
	for r, is := range t.miss {
		if is && e.isPresent(r) {
			bad(r, t.name)
		}
	}
	for _, l := range t.lack {
		bad(l.r, strconv.Itoa(l.place+1))
	}
}

// indicates reports whether rows of t without a value have an indicator feature. No fit learns one
// for an interaction of levels and numbers; where its numbers were centred it counts as a level all
// the same.
func (e *Encoder) indicates(t *term) bool {
	return e.as.missing == "indicator" && len(t.miss) > 0 && (e.scores() && !e.as.hashed || !t.mixed())
}

// scores reports whether rows are read for a fit that records columns, and does not learn from them.
func (e *Encoder) scores() bool { return e.as.known != nil && !e.as.learns }

// replacement is the replacement of a missing number in t, an interaction of levels and numbers:
// NaN if the fit that scores the row replaces it; false for none.
func (e *Encoder) replacement(t *term) (x float64, ok bool) {
	switch {
	case e.as.missing != "indicator" || !t.mixed():
		return 0, false
	case e.scores():
		return math.NaN(), true
	}
	x, ok = e.as.means[t.name]
	return x, ok
}

// nullAt reports whether row r of t has the missing-value indicator.
func (e *Encoder) nullAt(t *term, r int) bool { return e.indicates(t) && t.miss[r] && e.isPresent(r) }

// findNulls looks up the missing-value indicators and reports whether d has all that rows [lo, hi)
// need.
func (e *Encoder) findNulls(t *term, lo, hi int, d *kernels.Dict) (all bool) {
	if e.as.missing != "indicator" {
		return true
	}
	all = true
	if t.kind == dense {
		t.gaps = resize(t.gaps, t.wide)
		for k := range t.gaps {
			t.gaps[k] = kernels.Missing
		}
		for _, l := range t.lack {
			if t.gaps[l.place] == kernels.Missing && lo <= l.r && l.r < hi {
				name := [1]kernels.Text{kernels.NewText(strconv.Itoa(l.place+1) + kernels.IsNull)}
				all = d.FindTexts(t.gaps[l.place:l.place+1], kernels.Names, name[:]) && all
			}
		}
		return all
	}
	if !e.indicates(t) {
		return true
	}
	var id [1]uint32
	d.FindTexts(id[:], kernels.Names, []kernels.Text{t.null})
	t.nullID = id[0]
	return t.nullID != kernels.Missing || !slices.Contains(t.miss[lo:hi], true)
}

// addNulls numbers the features that findNulls has not found, for row r.
func (e *Encoder) addNulls(t *term, r int, d *kernels.Dict) (err error) {
	if t.kind == dense && e.as.missing == "indicator" {
		for _, l := range t.lack {
			if l.r == r && t.gaps[l.place] == kernels.Missing && err == nil {
				name := kernels.NewText(strconv.Itoa(l.place+1) + kernels.IsNull)
				t.gaps[l.place], err = d.AddText(kernels.Names, &name)
			}
		}
		return err
	}
	if t.nullID == kernels.Missing && e.nullAt(t, r) {
		t.nullID, err = d.AddText(kernels.Names, &t.null)
	}
	return err
}

// absent is the value of a missing number: in a slot that names share it is 0.
func absent(d *kernels.Dict) float64 {
	if d.HashBits > 0 {
		return 0
	}
	return math.NaN()
}

// given is x, or absent if x is missing.
func given(x float64, d *kernels.Dict) float64 {
	if x != x {
		return absent(d)
	}
	return x
}

// count records in b the columns of rows [lo, hi), and the number of missing values.
func (e *Encoder) count(lo, hi int, keep []bool, b *kernels.Batch) {
	if e.as.open {
		return
	}
	b.Schema = e.schema
	note := func(k, r int) {
		if k < 0 || r < lo || r >= hi || keep != nil && !keep[r-lo] {
			return
		}
		for len(b.Missing) <= k {
			b.Missing = append(b.Missing, 0)
		}
		b.Missing[k]++
	}
	places := 0
	for k := range e.terms {
		t := &e.terms[k]
		if t.kind == dense {
			places = max(places, e.widest(t, lo, hi, keep), e.as.places)
			b.Schema = e.placed(places)
			for _, l := range t.lack {
				note(e.schema.Len()+l.place, l.r)
			}
			continue
		}
		for r, is := range t.miss {
			if is && e.isPresent(r) {
				note(t.place, r)
			}
		}
		if t.kind == cross {
			for _, l := range t.lack {
				note(t.place, l.r)
			}
		}
	}
}

// widest is the length of the longest list in rows [lo, hi), from which keep leaves out some. Other
// rows of the block may be another group's, whose lists are longer.
func (e *Encoder) widest(t *term, lo, hi int, keep []bool) (wide int) {
	if lo == 0 && hi == e.hi-e.lo && keep == nil {
		return t.wide
	}
	mayNull := t.col.MayNull()
	for r := lo; r < hi && wide < t.wide; r++ {
		if i := e.lo + r; (keep == nil || keep[r-lo]) && e.isPresent(r) && !(mayNull && t.col.Null(i)) {
			from, to := t.col.Span(i)
			wide = max(wide, to-from)
		}
	}
	return min(wide, t.wide)
}

// schemaOf returns the columns of the terms, nil for none, and sets their places.
func (e *Encoder) schemaOf() *kernels.Schema {
	e.wider = nil
	s := &kernels.Schema{}
	for k := range e.terms {
		t := &e.terms[k]
		t.place = -1
		if t.hasNamedFeatures() && (t.name == "" || len(e.terms) == 1 && t.kind != dense) {
			continue // all that the rows have: they are open, or a list of numbers; one with a name is found by it
		}
		t.place = len(s.Names)
		s.Names, s.Levels = append(s.Names, t.name), append(s.Levels, t.leveled())
		if t.hasNamedFeatures() {
			if s.Open == nil {
				s.Open = make([]bool, len(e.terms))
			}
			s.Open[t.place] = true
			continue
		}
		if t.kind == cross {
			if s.Parts == nil {
				s.Parts = make([]string, len(e.terms))
			}
			s.Parts[t.place] = partsOf(t.parts)
		}
	}
	if len(s.Names) == 0 {
		return nil
	}
	var key strings.Builder
	for k, name := range s.Names {
		kind := byte('n')
		if s.Levels[k] {
			kind = 'l'
		}
		if s.Open != nil && s.Open[k] {
			kind = 'f'
		}
		key.WriteByte(kind)
		key.WriteString(name)
		if s.Parts != nil {
			key.WriteString("\x01" + s.Parts[k])
		}
		key.WriteByte(0)
	}
	e.key = key.String()
	return schemas.of(e.key, func() *kernels.Schema { s.Names = cloneAll(s.Names); return s })
}

// placed returns the columns of the terms and the places of a list of n numbers, nil for none.
func (e *Encoder) placed(n int) *kernels.Schema {
	all := e.schema.Len()
	if all == 0 {
		return placesOf(n)
	}
	if e.wider != nil && e.wider.Len() == all+n {
		return e.wider
	}
	e.wider = schemas.of(e.key+"\x02"+strconv.Itoa(n), func() *kernels.Schema {
		s := &kernels.Schema{Names: slices.Clone(e.schema.Names), Levels: append(slices.Clone(e.schema.Levels), make([]bool, n)...), Open: e.schema.Open}
		for k := range n {
			s.Names = append(s.Names, strconv.Itoa(k+1))
		}
		if e.schema.Parts != nil {
			s.Parts = append(slices.Clone(e.schema.Parts[:all]), make([]string, n)...)
		}
		return s
	})
	return e.wider
}

// placesOf returns the columns of a list of n numbers; nil for none.
func placesOf(n int) *kernels.Schema {
	if n == 0 {
		return nil
	}
	return schemas.of(strconv.Itoa(n), func() *kernels.Schema {
		s := &kernels.Schema{Names: make([]string, n), Levels: make([]bool, n)}
		for k := range s.Names {
			s.Names[k] = strconv.Itoa(k + 1)
		}
		return s
	})
}
