package udf

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/answer"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/udf/internal/capi"
)

// effect is a comparison of two versions of each row.
type effect struct {
	column   string
	contrast string
	lo, hi   version
}

// version is the value of a column in one version of the rows, or all columns of a row.
type version struct {
	level  string
	shift  float64
	number bool
	row    rowVersion // 0 for x with another value in the column
}

// rowVersion is which of the rows of a call a version is, not its vector, which ends with the call.
type rowVersion int

const (
	rowOfX rowVersion = iota + 1
	rowOfColumn
)

func (v version) of(c rows.Column) rows.Column {
	if v.number {
		return rows.Shifted(c, v.shift)
	}
	return rows.Fixed(c, v.level)
}

// effectSums are the sums behind the effects of a group.
type effectSums struct {
	*answer.Comparisons
	what []effect
}

func (e *effectSums) Clone() *effectSums { return &effectSums{e.Comparisons.Clone(), e.what} }

func (e *effectSums) Merge(o *effectSums) { e.Comparisons.Merge(o.Comparisons) }

// effectsOf lists the comparisons of a column of x under f, or of all columns if column is '*'.
func effectsOf(f *kernels.Fit, x rows.Column, column string, o *option.Settings) ([]effect, []answer.EffectOptions, error) {
	var names, fields []string
	for k := range x.Children() {
		if c := x.Child(k); c.Kind() != rows.Struct {
			fields = append(fields, strings.Clone(c.Name()))
		}
	}
	if names = []string{column}; column == "*" {
		names = fields
	}
	var out []effect
	var how []answer.EffectOptions
	kind, err := predict.ParseKind(orWord(o.Answer.Prediction, "exact"))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		part := rows.Part(x, name)
		if part == nil {
			err := fmt.Errorf("column = '%.100s', which x does not have; allowed: '*' for all, or one of %s", name, strings.Join(fields, ", "))
			if near := option.Nearest(name, fields); near != "" {
				err = fmt.Errorf("%w; the nearest is '%s'", err, near)
			}
			return nil, nil, err
		}
		known := knownColumn(f, name)
		holds := known != nil && known.Kind == kernels.FeaturesColumn
		if column == "*" && (known == nil && f.Columns != nil || holds) {
			continue // the fit has not learnt from this column, or only from the features it holds
		}
		if holds {
			return nil, nil, fmt.Errorf("column = '%.100s', which holds features of other names; allowed: a column of numbers or of levels", name)
		}
		number := part.Kind() == rows.Number
		if known != nil && known.Kind == kernels.NumberColumn && !number {
			return nil, nil, fmt.Errorf("column %q is %s; allowed: a number, as the fit has learnt it", known.Name, part.Type())
		}
		if column != "*" {
			if err := unusedBy(name, number, o); err != nil {
				return nil, nil, err
			}
		}
		e := answer.EffectOptions{Level: o.Answer.Level, Kind: kind, Draws: o.Answer.Draws, Seed: o.Options.Seed}
		var found []effect
		if number {
			found = []effect{numberEffect(name, known, o.Answer.Step, &e)}
		} else if found, err = levelEffects(f, name, known, o); err != nil {
			return nil, nil, err
		}
		for range found {
			how = append(how, e)
		}
		out = append(out, found...)
	}
	return out, how, nil
}

// unusedBy returns an error if an option does not apply to the effect of a column of numbers, or of
// levels.
func unusedBy(name string, number bool, o *option.Settings) error {
	switch {
	case number && o.Given("reference"):
		return fmt.Errorf("option reference is not used by %s, a column of numbers; it is the level that other levels are compared with; allowed here: step", name)
	case !number && o.Given("step"):
		return fmt.Errorf("option step is not used by %s, a column of levels; it is added to a number; allowed here: reference", name)
	}
	return nil
}

func orWord(word, other string) string {
	if word == "" {
		return other
	}
	return word
}

// knownColumn is what f remembers of a column, nil for nothing.
func knownColumn(f *kernels.Fit, name string) *kernels.FitColumn {
	for k := range f.Columns {
		if strings.EqualFold(f.Columns[k].Name, name) {
			return &f.Columns[k]
		}
	}
	return nil
}

// numberEffect is the effect of a step, or the slope where step is 0.
func numberEffect(name string, known *kernels.FitColumn, step float64, e *answer.EffectOptions) effect {
	if step != 0 {
		text := strconv.FormatFloat(step, 'g', -1, 64)
		if step > 0 {
			text = "+" + text
		}
		return effect{name, text, version{number: true}, version{number: true, shift: step}}
	}
	e.Slopes, e.Step = true, 1
	if known != nil && known.Scale > 0 {
		e.Step = known.Scale
	}
	return effect{name, "dY/dX", version{number: true, shift: -e.Step}, version{number: true, shift: e.Step}}
}

// rowEffect compares x with another version of it: their difference or, if step is given as what
// lies between the two, the slope.
func rowEffect(o *option.Settings) ([]effect, []answer.EffectOptions, error) {
	kind, err := predict.ParseKind(orWord(o.Answer.Prediction, "exact"))
	how := answer.EffectOptions{Level: o.Answer.Level, Kind: kind, Draws: o.Answer.Draws, Seed: o.Options.Seed}
	e := effect{contrast: "column - x", lo: version{row: rowOfX}, hi: version{row: rowOfColumn}}
	if err == nil && o.Given("reference") {
		err = fmt.Errorf("option reference is not used where column is a row; allowed here: step")
	}
	if step := o.Answer.Step; step != 0 {
		e.contrast, how.Slopes, how.Step = "dY/dX", true, step/2
	}
	return []effect{e}, []answer.EffectOptions{how}, err
}

// levelsOf are the levels of a column that f has beliefs about, in their order.
func levelsOf(f *kernels.Fit, name string, known *kernels.FitColumn) (levels []string, err error) {
	if known != nil {
		name = known.Name
	}
	beliefs := f.Beliefs
	if n := len(f.Classes); n > 0 { // all classes have the same features
		beliefs = beliefs[:len(beliefs)/n]
	}
	for _, b := range beliefs {
		// Another column's name may begin with this one's and '='.
		if level, ok := strings.CutPrefix(b.Feature, name+"="); ok && len(f.LevelColumn(b.Feature)) <= len(name) {
			levels = append(levels, level)
		}
	}
	if len(levels) == 0 {
		err = fmt.Errorf("column = '%.100s', of which the FIT knows no level", name)
	}
	return levels, err
}

// levelEffects compares each level with the reference.
func levelEffects(f *kernels.Fit, name string, known *kernels.FitColumn, o *option.Settings) ([]effect, error) {
	levels, err := levelsOf(f, name, known)
	if err != nil {
		return nil, err
	}
	if known != nil {
		name = known.Name
	}
	reference := levels[0]
	if o.Given("reference") {
		reference = o.Answer.Reference
		found := false
		for _, l := range levels {
			found = found || l == reference
		}
		if !found {
			err := fmt.Errorf("option reference: found '%.100s', which is no level of %s", reference, name)
			if near := option.Nearest(reference, levels); near != "" {
				err = fmt.Errorf("%w; the nearest is '%s'", err, near)
			}
			return nil, err
		}
	}
	var out []effect
	for _, l := range levels {
		if l != reference {
			out = append(out, effect{name, "mean(" + l + ") - mean(" + reference + ")", version{level: reference}, version{level: l}})
		}
	}
	return out, nil
}

var effectsType = capi.ListOf(capi.StructOf(fld("column", capi.TVarchar), fld("contrast", capi.TVarchar), fld("n", capi.TBigInt), fld("mean", capi.TDouble), fld("sd", capi.TDouble),
	fld("lower", capi.TDouble), fld("upper", capi.TDouble), fld("p_positive", capi.TDouble)))

// versions reads the rows of a call with other values in a column.
type versions struct {
	x       *capi.Vec
	row     *capi.Vec // the other version of x, nil if a column changes
	options *capi.Vec
	known   map[string]*rows.Source
}

// keptVersions is how many versions are kept for the next group. Each holds a reader of all
// columns, and keeping every version of thousands of columns would take gigabytes.
const keptVersions = 64

func (v *versions) release() {
	for _, s := range v.known {
		s.X.Release()
	}
}

// source is the rows with a version of a column, without rows that lack a number there.
func (v *versions) source(column string, as version) (*rows.Source, error) {
	key := fmt.Sprintf("%s\x00%v", column, as)
	if s := v.known[key]; s != nil {
		return s, nil
	}
	if len(v.known) >= keptVersions {
		v.release()
		clear(v.known)
	}
	col := columnOf(v.x)
	var with rows.Column
	switch as.row {
	case rowOfX:
		with = col
	case rowOfColumn:
		with = columnOf(v.row)
	default:
		with, _, _ = rows.Change(col, column, as.of)
	}
	s := &rows.Source{X: rows.NewScoring(with, "x", words)}
	c, err := findRowColumns(v.options, "option")
	if err != nil {
		return nil, err
	}
	s.Weight, s.Offset = columnOr(c.weight), columnOr(c.offset)
	switch {
	case v.row != nil: // the two versions are of the same rows
		s.Need = []rows.Column{col, columnOf(v.row)}
		for _, o := range []*capi.Vec{c.offset, c.columnOffset} {
			if o != nil {
				s.Need = append(s.Need, columnOf(o))
			}
		}
		if c.columnOffset != nil && as.row == rowOfColumn {
			s.Offset = columnOf(c.columnOffset)
		}
	case c.columnOffset != nil:
		return nil, errors.New("option column_offset is not used where column is a name; it is the offset of another version of x; allowed here: offset")
	case as.number:
		s.Need = []rows.Column{rows.Part(col, column)}
	}
	v.known[key] = s
	return s, nil
}

// otherRow is column if it is another version of x, nil if it names a column.
func otherRow(column *capi.Vec) (*capi.Vec, error) {
	switch column.Type {
	case capi.Varchar, capi.SQLNull:
		return nil, nil
	case capi.Struct:
		return column, checkEnums(column, "column")
	}
	return nil, fmt.Errorf("column is %s; allowed: VARCHAR, the name of a column of x, or '*'; or a STRUCT, another version of x", column.TypeName())
}

func updateEffects(args []capi.Vec, slots capi.Slots) error {
	x, column := &args[1], &args[2]
	if x.Type != capi.Struct && x.Type != capi.SQLNull {
		return fmt.Errorf("x is %s; allowed: a STRUCT, whose columns can be changed", x.TypeName())
	}
	row, err := otherRow(column)
	if err != nil {
		return err
	}
	if err := checkEnums(x, "x"); err != nil {
		return err
	}
	var options *capi.Vec
	if len(args) > 3 {
		options = &args[3]
		if options.Type != capi.Struct && options.Type != capi.SQLNull {
			return fmt.Errorf("options are %s; allowed: a STRUCT such as {step: 10}", options.TypeName())
		}
	}
	if x.Type == capi.SQLNull || column.Type == capi.SQLNull {
		return nil
	}
	vs := &versions{x: x, row: row, options: options, known: map[string]*rows.Source{}}
	defer vs.release()
	var lo, hi kernels.Batch
	return underAny(args, slots, true, func(f *kernels.Fit, i int) (*effectSums, error) {
		o, err := option.For("effects").Decode(constants(options, i, false))
		if err != nil {
			return nil, err
		}
		var what []effect
		var how []answer.EffectOptions
		switch {
		case row != nil:
			what, how, err = rowEffect(o)
		case column.Null(i):
			err = fmt.Errorf("column is NULL; allowed: the name of a column of x, or '*'")
		default:
			what, how, err = effectsOf(f, columnOf(x), strings.Clone(column.Str(i)), o)
		}
		if err != nil {
			return nil, err
		}
		c, err := answer.NewComparisons(f, how)
		if err != nil {
			return nil, err
		}
		return &effectSums{c, what}, nil
	}, func(e *effectSums, from, to int) error {
		read := func(column string, as version, b *kernels.Batch) error {
			src, err := vs.source(column, as)
			if err == nil {
				_, err = src.Score(e.Fit, e.Features(), from, to, b)
			}
			return err
		}
		for k := range e.what {
			w := &e.what[k]
			if k == 0 || w.column != e.what[k-1].column || w.lo != e.what[k-1].lo { // levels share the reference
				if err := read(w.column, w.lo, &lo); err != nil {
					return err
				}
			}
			if err := read(w.column, w.hi, &hi); err != nil {
				return err
			}
			if err := e.Add(running(), k, &lo, &hi); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeEffects(e *effectSums, out *capi.Col) error {
	c := out.Elem()
	for k, w := range e.what {
		all, err := e.Effect(k)
		if err != nil {
			return err
		}
		for _, x := range all {
			contrast := w.contrast
			if x.Class != "" { // named as bglm_summary names terms
				contrast = x.Class + ": " + contrast
			}
			if w.column == "" {
				c.Field(0).Null()
			} else {
				c.Field(0).Str(w.column)
			}
			c.Field(1).Str(contrast)
			c.Field(2).Int(x.N)
			for j, v := range [...]float64{x.Mean, x.SD, x.Lower, x.Upper, x.Positive} {
				floatOrNull(c.Field(3+j), v)
			}
			c.EndStruct()
		}
	}
	out.EndList()
	return nil
}

// updateRobust reads (fit, y, x [, cluster] [, options]).
func updateRobust(args []capi.Vec, slots capi.Slots) error {
	var cluster, options *capi.Vec
	for k := 3; k < len(args); k++ {
		v := &args[k]
		switch {
		case v.Type == capi.SQLNull:
		case k == len(args)-1 && v.Type == capi.Struct:
			options = v
		case k == 3:
			if err := checkClass(v, "cluster"); err != nil {
				return err
			}
			cluster = v
		default:
			return fmt.Errorf("options are %s; allowed: a STRUCT such as {type: 'hc3'}", v.TypeName())
		}
	}
	src, err := scoredRows(&args[1], &args[2], options)
	if err != nil {
		return err
	}
	defer src.X.Release()
	fits, err := newKeyed(&args[0], "fit")
	if err != nil {
		return err
	}
	var b kernels.Batch
	var names []string
	return sumRows([]*keyed{fits}, func(_, i int) int { return i }, slots, func(i int) (*answer.Robust, error) {
		o, err := option.For("robust").Decode(constants(options, i, false))
		if e := (*argument.Error)(nil); errors.As(err, &e) && e.Name == "cluster" {
			return nil, fmt.Errorf("cluster is given as an option; allowed: as an argument, bglm_robust(fit, y, x, cluster)")
		}
		if err != nil {
			return nil, err
		}
		f, err := fits.whole(i)
		if err != nil {
			return nil, err
		}
		h, err := fits.head(i)
		if err != nil {
			return nil, err
		}
		f.Iterations, f.Converged, f.Status = h.Iterations, h.Converged, h.Status
		r, err := answer.NewRobust(f, o.Answer.Type, cluster != nil)
		if err != nil {
			return nil, err
		}
		return r, checkTrials(src, r.Lik)
	}, func(r *answer.Robust, lo, hi int) error {
		at, err := src.Score(r.Fit, r.Features(), lo, hi, &b)
		if err != nil || len(at) == 0 {
			return err
		}
		if cluster != nil {
			names = names[:0]
			for _, i := range at {
				if cluster.Null(i) {
					return fmt.Errorf("cluster is NULL in a row; allowed: a value for every row")
				}
				name, err := rows.Label(columnOf(cluster), i)
				if err != nil {
					return err
				}
				names = append(names, name)
			}
		}
		return r.Add(running(), &b, names)
	})
}

func writeRobust(r *answer.Robust, out *capi.Col) error {
	f, err := r.Robustly(running())
	if err != nil {
		return err
	}
	appendFit(out, f, f.Each)
	return nil
}
