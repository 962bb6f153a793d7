package arrowio

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/lik"
	budget "github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// Job describes a fit: the roles of the records' columns, and the engine.
type Job struct {
	Y string // response: numbers or BOOLEAN
	// Features names a column with the features of a row: a struct, a map, a list of
	// struct(feature, value), of text (indicators) or of numbers. Terms are further features; one
	// of the two is needed.
	Features string
	Terms    []Term
	// Levels are names in Terms that stand for the values of a column read as levels, even if they
	// are whole numbers: Levels["factor(year)"] = "year".
	Levels map[string]string

	Weight, Offset, Trials, Time string // columns by row, "" = none
	// Group names columns: each combination of their values gets a fit of its own.
	Group []string

	// Method is a name for engine.Find, by default "adf"; "newton_state" makes Parts of the groups.
	Method string
	// Model is the model. HasTime is set if Time is; a Start continues a fit.
	Model kernels.Model
	// ModelOf, if not nil, returns the model of a group given its Groups.Key, with the likelihood
	// of Model; nil leaves the rows of the group out.
	ModelOf func(key string) (*kernels.Model, error)

	// SkipBad counts rows with an invalid value in Skipped instead of failing. Rows with a NULL in
	// Y, a container of features, or a column by row are always counted there and left out, as in
	// SQL.
	SkipBad bool
	// Progress is called with the number of rows read so far, after each record.
	Progress func(rows int64)
}

// Fit reads r to its end and returns the posterior, nil if there are no rows. Rows are absorbed in
// order, so that the answer depends on their division into records by rounding at most.
//
//	r, _ := ipc.NewReader(os.Stdin)
//	fit, err := arrowio.Fit(ctx, r, arrowio.Job{Y: "click", Terms: []arrowio.Term{{"ad"}, {"site"}, {"ad", "site"}}})
//
// Memory: one record, a batch of 4096 rows, and the engine's: 16 bytes per weight and the names for
// streaming engines, the rows for others.
//
// Errors name the column, the row (from 1) and what is allowed; those of r; the cause of ctx if it
// is cancelled first.
func Fit(ctx context.Context, r array.RecordReader, job Job) (*kernels.Fit, error) {
	if len(job.Group) > 0 {
		return nil, errors.New("arrowio: the job has groups; use FitGroups")
	}
	g, err := FitGroups(ctx, r, job)
	if err != nil || len(g.Fits) == 0 {
		return nil, err
	}
	return g.Fits[0], nil
}

// Groups are fits by group, in the order in which the groups first appeared.
type Groups struct {
	// Keys has the columns of Job.Group, one row per fit; nil without groups. The caller releases
	// it.
	Keys arrow.RecordBatch
	Fits []*kernels.Fit
	// Parts are the passes of method newton_state, one per fit; the fits then have no beliefs.
	Parts []engine.Part
}

// FitGroups is Fit for each group of rows. Memory: an engine's state per group.
func FitGroups(ctx context.Context, r array.RecordReader, job Job) (*Groups, error) {
	if r == nil {
		return nil, errors.New("arrowio: the reader of records is nil")
	}
	f, err := NewFitter(r.Schema(), job)
	if err != nil {
		return nil, err
	}
	for r.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := f.Add(ctx, r.RecordBatch()); err != nil {
			return nil, err
		}
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("arrowio: after row %d: %w", f.rows, err)
	}
	return f.Groups(ctx)
}

// Fitter learns from records one by one, for programs that do not get them from a RecordReader.
type Fitter struct {
	job    Job
	method *engine.Method
	rows   int64

	state []engine.Fitter
	model []*kernels.Model
	order map[string]int // number of the group by its key; -1 for one left out
	keys  *array.RecordBuilder
	key   []byte
	batch kernels.Batch
	held  *budget.Grant // the states' share of the memory budget

	schema *kernels.Schema // of the last record
	kinds  map[string]kindOf
}

// kindOf is the kind of a column in the records so far.
type kindOf struct {
	levels bool
	open   bool
	parts  string // of an interaction: kernels.FitColumn.Parts
	from   string // its type when first seen
}

// NewFitter checks job against the schema of its records. Errors: an unknown method, columns that
// are missing or of an unsuitable type.
func NewFitter(s *arrow.Schema, job Job) (*Fitter, error) {
	f, err := newFitter(s, job)
	if err != nil {
		return nil, fmt.Errorf("arrowio: %w", err)
	}
	return f, nil
}

func newFitter(s *arrow.Schema, job Job) (f *Fitter, err error) {
	// The Arrow library lacks arrays for some types that a schema can name.
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, fmt.Errorf("the schema, or a type without arrays: %w", Damage(p))
		}
	}()
	f = &Fitter{job: job, order: map[string]int{}, held: &budget.Grant{}}
	runtime.AddCleanup(f, (*budget.Grant).Release, f.held)
	if f.job.Method == "" {
		f.job.Method = "adf"
	}
	if f.method, err = engine.Find(f.job.Method, engine.Weights, engine.Parts); err != nil {
		return nil, err
	}
	if job.Features == "" && len(job.Terms) == 0 {
		return nil, errors.New("the job names no features")
	}
	l := f.job.Model.Complete().Lik
	if l.Traits().Trials != (job.Trials != "") {
		return nil, fmt.Errorf("the family is %s and the column of trials %q; %s needs one, others have none", l.Family(), job.Trials, lik.OfTrials())
	}
	f.job.Model.HasTime = job.Time != ""
	// An empty record reveals errors in the columns.
	part, err := f.columnsOf(s)
	if err != nil {
		return nil, err
	}
	rec := emptyRecord(part)
	if err := f.add(context.Background(), rec); err != nil {
		return nil, err
	}
	if len(job.Group) > 0 {
		fields, err := groupFields(part, job.Group)
		if err != nil {
			return nil, err
		}
		f.keys = array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	}
	return f, nil
}

// emptyRecord is a record without rows. The library's builders cannot make it: they lack some types
// of arrays, such as dictionaries of large_utf8.
func emptyRecord(s *arrow.Schema) arrow.RecordBatch {
	cols := make([]arrow.Array, s.NumFields())
	for i := range cols {
		cols[i] = array.MakeFromData(emptyData(s.Field(i).Type))
	}
	return array.NewRecordBatch(s, cols, 0)
}

// emptyData is the data of an array without values, in Go's memory.
func emptyData(t arrow.DataType) arrow.ArrayData {
	stored := t
	if e, ok := t.(arrow.ExtensionType); ok {
		stored = e.StorageType()
	}
	buffers := make([]*memory.Buffer, len(stored.Layout().Buffers))
	var inner []arrow.ArrayData
	if n, ok := stored.(arrow.NestedType); ok {
		for _, f := range n.Fields() {
			inner = append(inner, emptyData(f.Type))
		}
	}
	if d, ok := stored.(*arrow.DictionaryType); ok {
		return array.NewDataWithDictionary(t, 0, buffers, 0, 0, emptyData(d.ValueType).(*array.Data))
	}
	return array.NewData(t, 0, buffers, inner, 0, 0)
}

// columnsOf is the part of a schema that the job names. Errors: a missing column.
func (f *Fitter) columnsOf(s *arrow.Schema) (*arrow.Schema, error) {
	j := &f.job
	wanted := [][2]string{{"y", j.Y}, {"x", j.Features}, {"weight", j.Weight}, {"offset", j.Offset}, {"trials", j.Trials}, {"time", j.Time}}
	for _, name := range j.Group {
		wanted = append(wanted, [2]string{"group", name})
	}
	for _, t := range j.Terms {
		for _, name := range t {
			if from, ok := j.Levels[name]; ok {
				name = from
			}
			wanted = append(wanted, [2]string{"term " + t.String(), name})
		}
	}
	keep := map[int]bool{}
	for _, w := range wanted {
		if w[1] == "" {
			continue
		}
		found := false
		for i, field := range s.Fields() {
			if equalFold(field.Name, w[1]) {
				keep[i], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s: no column %s; found: %s", w[0], w[1], listNames(columnNames(s)))
		}
	}
	var fields []arrow.Field
	for i, field := range s.Fields() {
		if keep[i] {
			fields = append(fields, field)
		}
	}
	return arrow.NewSchema(fields, nil), nil
}

const (
	batchOf   = 4096    // rows handed to an engine at once
	maxGroups = 1 << 24 // more are an error, before memory runs out
)

// Rows is how many rows were added.
func (f *Fitter) Rows() int64 { return f.rows }

// Add absorbs the rows of rec and retains nothing of it. After an error the fitter must not be
// used. Errors: an invalid row, and the cause of ctx if it is cancelled.
func (f *Fitter) Add(ctx context.Context, rec arrow.RecordBatch) (err error) {
	// Arrays from a damaged file can point outside their buffers.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("arrowio: the record after row %d: %w", f.rows, Damage(p))
		}
	}()
	if err := f.add(ctx, rec); err != nil {
		return fmt.Errorf("arrowio: %w", err)
	}
	if f.job.Progress != nil {
		f.job.Progress(f.rows)
	}
	return nil
}

func (f *Fitter) add(ctx context.Context, rec arrow.RecordBatch) error {
	x, err := planFeatures(rec, f.job.Features, f.job.Terms, f.job.Levels)
	if err != nil {
		return err
	}
	defer x.Release()
	if err := f.sameKinds(rec, x.Schema()); err != nil {
		return err
	}
	src, err := f.columns(rec, x)
	if err != nil {
		return err
	}
	n := int(rec.NumRows())
	if len(f.job.Group) > 0 {
		return f.addByGroup(ctx, rec, src)
	}
	if n == 0 {
		return nil
	}
	if len(f.state) == 0 {
		if err := f.open(ctx, &f.job.Model); err != nil {
			return err
		}
	}
	for lo := 0; lo < n; lo += batchOf {
		hi := min(n, lo+batchOf)
		if err := f.feed(ctx, 0, src, lo, hi); err != nil {
			return err
		}
	}
	f.rows += int64(n)
	return nil
}

// sameKinds reports a column that has levels in one record and numbers in another, for example in
// two files: both would be learnt under one name. NULLs are of either kind.
func (f *Fitter) sameKinds(rec arrow.RecordBatch, s *kernels.Schema) error {
	if s == nil || s == f.schema {
		return nil
	}
	if f.schema = s; f.kinds == nil {
		f.kinds = map[string]kindOf{}
	}
	for k, name := range s.Names {
		parts, of := "", ""
		if s.Parts != nil && s.Parts[k] != "" {
			parts, of = s.Parts[k], "of "+s.Parts[k]
		} else if v, err := findColumnIn(rec, name); err == nil {
			of = v.arr.DataType().String()
		}
		open := s.Open != nil && s.Open[k]
		if was, ok := f.kinds[name]; !ok {
			f.kinds[name] = kindOf{s.Levels[k], open, parts, of}
		} else if was.levels != s.Levels[k] || was.open != open || !kernels.SameParts(parts, was.parts) {
			return fmt.Errorf("column %s is %s, and %s in the rows before; allowed: one kind throughout, numbers or levels", name, of, was.from)
		}
	}
	return nil
}

func (f *Fitter) open(ctx context.Context, m *kernels.Model) error {
	st, err := f.method.New(ctx, m)
	if err != nil {
		return err
	}
	f.state, f.model = append(f.state, st), append(f.model, m)
	return nil
}

// columns finds the response and the other columns by row.
func (f *Fitter) columns(rec arrow.RecordBatch, x *rows.Encoder) (*rows.Source, error) {
	s := &rows.Source{X: x, Check: true}
	if f.job.Y == "" {
		return nil, errors.New("the job names no response")
	}
	for _, w := range []struct {
		name string
		to   *rows.Column
		what string
	}{{f.job.Y, &s.Y, "y"}, {f.job.Weight, &s.Weight, "weight"}, {f.job.Offset, &s.Offset, "offset"}, {f.job.Trials, &s.Trials, "trials"}, {f.job.Time, &s.Time, "time"}} {
		if w.name == "" {
			continue
		}
		v, err := findColumnIn(rec, w.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.what, err)
		}
		switch {
		case w.what == "time":
			if err := v.days(); err != nil {
				return nil, fmt.Errorf("time: %w", err)
			}
		case w.what == "y" && v.bool != nil:
		case !v.isNumber() && !v.isNullType():
			if w.what != "y" {
				return nil, fmt.Errorf("%s: column %s is %s; allowed: a number", w.what, w.name, v.arr.DataType())
			}
			l, found, as := rows.LabelsOf(v.texts()), "", ""
			if l.Found != "" {
				found = ", with " + l.Found
			}
			switch {
			case l.Numbers:
				as = fmt.Sprintf(", as in %s::DOUBLE", w.name)
			case l.One != "":
				as = fmt.Sprintf(", as in %s = %s", w.name, rows.Quote(l.One))
			}
			return nil, fmt.Errorf("y: column %s is %s%s; allowed: a number or BOOLEAN%s", w.name, v.arr.DataType(), found, as)
		}
		*w.to = &field{vector: v}
	}
	return s, nil
}

// feed feeds rows [lo, hi) to group g.
func (f *Fitter) feed(ctx context.Context, g int, src *rows.Source, lo, hi int) error {
	on := option.Fail
	if f.job.SkipBad {
		on = option.Skip
	}
	st := f.state[g]
	size := st.Size()
	_, err := src.Feed(ctx, st, f.model[g], on, lo, hi, &f.batch)
	var v rows.ErrValue
	if errors.As(err, &v) {
		return fmt.Errorf("row %d: %w", f.rows+int64(v.Row)+1, v.Err)
	}
	if err != nil {
		return fmt.Errorf("rows %d to %d: %w", f.rows+int64(lo)+1, f.rows+int64(hi), err)
	}
	if err := f.held.Grow(st.Size()-size, "the fits so far"); err != nil {
		return fmt.Errorf("rows %d to %d: %w", f.rows+int64(lo)+1, f.rows+int64(hi), err)
	}
	return nil
}

// addByGroup splits rec into runs of rows of one group.
func (f *Fitter) addByGroup(ctx context.Context, rec arrow.RecordBatch, src *rows.Source) error {
	var by []vector
	for _, name := range f.job.Group {
		v, err := findColumnIn(rec, name)
		if err != nil {
			return fmt.Errorf("group: %w", err)
		}
		by = append(by, v)
	}
	n := int(rec.NumRows())
	for lo := 0; lo < n; {
		g, err := f.group(ctx, by, lo)
		if err != nil {
			return err
		}
		hi := lo + 1
		for key := string(f.key); hi < n && hi < lo+batchOf; hi++ {
			if f.keyOf(by, hi); string(f.key) != key {
				break
			}
		}
		if g >= 0 {
			src.X.Load(lo, n) // short runs share a block
			if err := f.feed(ctx, g, src, lo, hi); err != nil {
				return err
			}
		}
		lo = hi
	}
	f.rows += int64(n)
	return nil
}

func (f *Fitter) keyOf(by []vector, i int) {
	f.key = f.key[:0]
	for k := range by {
		v := &by[k]
		switch {
		case v.null(i):
			f.key = append(f.key, 0)
		case v.text != nil:
			f.key = append(append(append(f.key, 1), strings.ReplaceAll(v.text(i), "\x00", "\x00\x01")...), 0, 0)
		case v.int != nil:
			f.key = append(v.int(append(f.key, 2), i), 0, 0)
		default:
			f.key = append(append(append(f.key, 3), v.print(i)...), 0, 0)
		}
	}
}

// group is the number of row i's group, which may be new; -1 if it is left out.
func (f *Fitter) group(ctx context.Context, by []vector, i int) (int, error) {
	f.keyOf(by, i)
	if g, ok := f.order[string(f.key)]; ok {
		return g, nil
	}
	g := len(f.state)
	if g >= maxGroups {
		return 0, fmt.Errorf("row %d: more than %d groups", f.rows+int64(i)+1, maxGroups)
	}
	m, err := f.modelOf(by, i)
	if err != nil || m == nil {
		f.order[string(f.key)] = -1
		return -1, err
	}
	if err := f.open(ctx, m); err != nil {
		return 0, err
	}
	f.order[string(f.key)] = g
	for k := range by {
		b := f.keys.Field(k)
		if by[k].null(i) {
			b.AppendNull()
		} else if err := parseInto(b, by[k].print(i)); err != nil {
			return 0, fmt.Errorf("group %s: %w", f.job.Group[k], err)
		}
	}
	return g, nil
}

// modelOf is the model of row i's group, nil if it is left out.
func (f *Fitter) modelOf(by []vector, i int) (*kernels.Model, error) {
	if f.job.ModelOf == nil {
		return &f.job.Model, nil
	}
	key, err := keyText(by, i)
	if err != nil {
		return nil, err
	}
	return f.job.ModelOf(key)
}

// Groups returns the posteriors given the rows so far; more rows may follow. Errors: those of the
// method, and the cause of ctx if it is cancelled. Without groups there is one fit, or none if
// there were no rows.
func (f *Fitter) Groups(ctx context.Context) (*Groups, error) {
	out := &Groups{Fits: make([]*kernels.Fit, len(f.state))}
	for i, st := range f.state {
		fit, err := st.Fit(ctx)
		if err != nil {
			return nil, fmt.Errorf("arrowio: method %s: %w", f.method.Name, err)
		}
		out.Fits[i] = fit.Fit
		if fit.Part != nil {
			out.Parts = append(out.Parts, fit.Part)
		}
	}
	if f.keys != nil {
		out.Keys = f.keys.NewRecordBatch()
	}
	return out, nil
}
