package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/special"
)

// Source holds the columns from which rows are read. Columns that are nil are absent.
type Source struct {
	X                            *Encoder
	Y                            Column
	Weight, Offset, Trials, Time Column
	// Need are further columns: Score leaves out rows in which they are NULL.
	Need []Column
	// Check has the likelihood check each response with Fail too, to name the row.
	Check bool

	keep   []bool
	y      []float64
	fault  []fault
	scalar [4][]float64
	at     []int
}

// Sink is a fit that learns from rows, such as an engine's Fitter.
type Sink interface {
	Features() *kernels.Dict
	Update(ctx context.Context, b *kernels.Batch, skip bool) error
	Skip(n int64)
}

// ByColumn is a Sink that may work on columns of numbers: kernels.Batch.Columns.
type ByColumn interface{ ByColumn() bool }

// Labelled is a Sink whose responses are classes.
type Labelled interface {
	// Class returns the number of a class; numeric says that all labels are numbers.
	Class(label string, numeric bool) (float64, error)
}

// Points is a Sink whose rows are points: X is a list of numbers, none of them missing.
type Points interface {
	// CheckPoint returns an error for a point that is incompatible with those checked before.
	CheckPoint(x []float64) error
}

// Feed reads rows [lo, hi) into dst, a fit of model m; b is scratch memory. void reports that a bad
// row made the fit void.
// Errors: the first bad row with Fail, as RowError or ErrValue with its row; the dictionary's
// limit; those of Encoder.Learn.
func (s *Source) Feed(ctx context.Context, dst Sink, m *kernels.Model, on option.OnError, lo, hi int, b *kernels.Batch) (void bool, err error) {
	if lo >= hi {
		return false, nil
	}
	if err := s.X.Learn(m); err != nil {
		return false, err
	}
	for from := lo; from < hi; {
		to := s.X.ensure(from, hi)
		v, err := s.feed(ctx, dst, m, on, from, to, b)
		if err != nil {
			return false, err
		}
		void = void || v
		from = to
	}
	return void, nil
}

func (s *Source) feed(ctx context.Context, dst Sink, m *kernels.Model, on option.OnError, lo, hi int, b *kernels.Batch) (void bool, err error) {
	n := hi - lo
	dropped := s.nulls(lo, hi)
	if dropped > 0 {
		dst.Skip(int64(dropped))
		if dropped == n {
			return false, nil
		}
	}
	if err := s.read(lo, hi, dst, m, on != option.Fail || s.Check); err != nil {
		return false, err
	}
	if bad := len(s.fault); bad > 0 {
		if on == option.Fail {
			first := s.fault[0]
			for _, f := range s.fault {
				if f.row < first.row {
					first = f
				}
			}
			var v ErrValue
			if errors.As(first.err, &v) {
				return false, ErrValue{Err: v.Err, Row: first.row}
			}
			return false, first.err
		}
		gone := map[int]bool{}
		for _, f := range s.fault {
			s.keep[f.row-lo] = false
			gone[f.row] = true
		}
		if on == option.Skip {
			dst.Skip(int64(len(gone)))
		}
		dropped += len(gone)
		void = on == option.Null
		if dropped == n {
			return void, nil
		}
	}
	keep := s.keep
	if dropped == 0 {
		keep = nil
	}
	b.Reset()
	if c, ok := dst.(ByColumn); ok {
		b.ByColumn = c.ByColumn()
	}
	if err := s.X.Append(lo, hi, dst.Features(), !m.NoIntercept, keep, b); err != nil {
		return void, err
	}
	b.Y = compact(b.Y[:0], s.y, keep)
	for k, to := range [4]*[]float64{&b.Weight, &b.Offset, &b.Trials, &b.Time} {
		if s.column(k) != nil {
			*to = compact((*to)[:0], s.scalar[k], keep)
		}
	}
	err = dst.Update(ctx, b, on == option.Skip)
	clear(b.Columns[:cap(b.Columns)]) // views
	if on == option.Null && errors.Is(err, kernels.ErrRow) {
		return true, nil
	}
	return void, err
}

// ReadAligned reads the rows from lo on that are loaded at once, up to n, into b if all of them have
// exactly the features of d, in their order, and nothing is NULL or at fault: rows of many fits
// that share a dictionary are then read in one go. It returns where they end. With learn, d gains
// names as in Append; otherwise it is not changed. ok is false if the rows do not qualify; b is
// unusable then.
func (s *Source) ReadAligned(lo, n int, dst Sink, m *kernels.Model, d *kernels.Dict, learn bool, b *kernels.Batch) (hi int, ok bool) {
	if s.X.Learn(m) != nil || !s.X.Alike() || d.HashBits > 0 {
		return lo, false
	}
	s.X.Load(lo, n)
	hi = s.X.ensure(lo, n)
	if s.nulls(lo, hi) > 0 || s.read(lo, hi, dst, m, true) != nil || len(s.fault) > 0 {
		return hi, false
	}
	b.Reset()
	if !s.X.together(lo, hi, d, !m.NoIntercept, learn, b) {
		return hi, false
	}
	b.Y = append(b.Y, s.y...)
	for k, to := range [4]*[]float64{&b.Weight, &b.Offset, &b.Trials, &b.Time} {
		if s.column(k) != nil {
			*to = append(*to, s.scalar[k]...)
		}
	}
	return hi, true
}

// column is the column of the scalars k; an array of the four would cost a short run of rows more
// than to read them.
func (s *Source) column(k int) Column {
	switch k {
	case 0:
		return s.Weight
	case 1:
		return s.Offset
	case 2:
		return s.Trials
	}
	return s.Time
}

// compact appends the entries of src that are kept.
func compact(dst, src []float64, keep []bool) []float64 {
	if keep == nil {
		return append(dst, src...)
	}
	for r, v := range src {
		if keep[r] {
			dst = append(dst, v)
		}
	}
	return dst
}

// nulls sets keep to the rows without NULLs and counts the others.
func (s *Source) nulls(lo, hi int) (dropped int) {
	s.keep = resize(s.keep, hi-lo)
	for r := range s.keep {
		s.keep[r] = true
	}
	drop := func(null func(i int) bool) {
		for r := range s.keep {
			if s.keep[r] && null(lo+r) {
				s.keep[r] = false
				dropped++
			}
		}
	}
	for _, c := range [...]Column{s.Y, s.Weight, s.Offset, s.Trials, s.Time} {
		if c != nil && c.MayNull() {
			drop(c.Null)
		}
	}
	for _, columns := range [...][]Column{s.X.null, s.Need} {
		for _, c := range columns {
			if c.MayNull() {
				drop(c.Null)
			}
		}
	}
	return dropped
}

// read reads the scalars of rows [lo, hi) and records the first fault of each row: of the response,
// its features, then weight, offset and time.
// Errors: responses that are not numbers, unless they are classes.
func (s *Source) read(lo, hi int, dst Sink, m *kernels.Model, check bool) error {
	n := hi - lo
	s.fault = s.fault[:0]
	s.y = resize(s.y, n)
	classes, labelled := dst.(Labelled)
	if !labelled {
		switch s.Y.Kind() {
		case Text, Coded, List, Map, Struct, Other: // they have no Floats, which would leave 0
			return fmt.Errorf("y is %s; allowed: numbers or truth values; labels are for softmax", s.Y.Type())
		}
		s.Y.Floats(s.y, lo)
	}
	for k := range s.scalar {
		if c := s.column(k); c != nil {
			s.scalar[k] = resize(s.scalar[k], n)
			c.Floats(s.scalar[k], lo)
		}
	}
	if err := s.responses(lo, n, classes, m, check); err != nil {
		return err
	}
	points, dense := dst.(Points)
	if !dense {
		s.X.Bad(lo, hi, func(row int, err error) {
			if s.keep[row-lo] {
				s.note(row, err)
			}
		})
	}
	s.scalars(lo)
	if !dense {
		return nil
	}
	return s.X.points(lo, hi, s.keep, func(r int, x []float64, err error) {
		if s.noted(lo + r) {
			return
		}
		if err == nil {
			err = points.CheckPoint(x)
		}
		if err != nil {
			s.note(lo+r, ErrValue{Err: err})
		}
	})
}

// note records the first fault of a row.
func (s *Source) note(row int, err error) {
	if !s.noted(row) {
		s.fault = append(s.fault, fault{row, err})
	}
}

func (s *Source) noted(row int) bool {
	return slices.ContainsFunc(s.fault, func(f fault) bool { return f.row == row })
}

// responses sets and checks the responses of n rows from lo on; classes is nil for numbers, which
// have been read. Errors: those of classes.
func (s *Source) responses(lo, n int, classes Labelled, m *kernels.Model, check bool) error {
	for r := range n {
		if !s.keep[r] {
			continue
		}
		if classes != nil {
			name, err := Label(s.Y, lo+r)
			if errors.As(err, &ErrValue{}) {
				s.note(lo+r, err)
				continue
			}
			if err == nil {
				s.y[r], err = classes.Class(name, s.Y.Kind() == Number)
			}
			if err != nil {
				return err
			}
		}
		if !special.Finite(s.y[r]) {
			s.note(lo+r, ErrValue{Err: fmt.Errorf("y = %v; allowed: finite numbers", s.y[r])})
			continue
		}
		if check && m.Lik != nil { // Update would find it too, but only after its features were numbered
			o := lik.Obs{Y: s.y[r], Weight: 1}
			if s.Trials != nil {
				o.Trials = s.scalar[2][r]
			}
			if err := m.Lik.Check(o); err != nil {
				s.note(lo+r, ErrValue{Err: err})
			}
		}
	}
	return nil
}

// scalars checks weights, offsets and times; the likelihood checks trials.
func (s *Source) scalars(lo int) {
	for k, what := range [4]string{"weight", "offset", "", "time"} {
		if s.column(k) == nil || what == "" {
			continue
		}
		for r, v := range s.scalar[k] {
			if !s.keep[r] {
				continue
			}
			if err := checkScalar(what, v); err != nil {
				s.note(lo+r, err)
			}
		}
	}
}

// Valid reports whether a likelihood accepts the responses of b, and whether weights, offsets and
// times are valid.
func Valid(l lik.Likelihood, b *kernels.Batch) bool {
	for k, what := range [4]string{"weight", "offset", "", "time"} {
		if what == "" {
			continue
		}
		for _, v := range [4][]float64{b.Weight, b.Offset, nil, b.Time}[k] {
			if checkScalar(what, v) != nil {
				return false
			}
		}
	}
	for i, y := range b.Y {
		o := lik.Obs{Y: y, Weight: 1}
		if len(b.Trials) > 0 {
			o.Trials = b.Trials[i]
		}
		if l != nil && l.Check(o) != nil {
			return false
		}
	}
	return true
}

// Label returns entry i of a column as the name of a class: numbers as they print.
// Errors: a number that is not finite (ErrValue), a column without labels.
func Label(c Column, i int) (string, error) {
	var x [1]float64
	switch c.Kind() {
	case Text:
		var t [1]kernels.Text
		c.Texts(t[:], i)
		return strings.Clone(t[0].String()), nil
	case Coded:
		name, err := c.Label(c.Code(i))
		return strings.Clone(name), err
	case Bool:
		c.Floats(x[:], i)
		return strconv.FormatBool(x[0] != 0), nil
	case Number:
		if c.Integer() {
			return string(c.AppendInt(nil, i)), nil
		}
		if c.Floats(x[:], i); special.Finite(x[0]) {
			return option.Show(x[0]), nil
		}
		return "", ErrValue{Err: fmt.Errorf("class = %v; allowed: finite numbers, text and truth values", x[0])}
	}
	return "", fmt.Errorf("a class is %s; allowed: text, a truth value or a number", c.Type())
}

// checkScalar returns the error of the weight, offset or time of a row.
func checkScalar(what string, v float64) error {
	allowed := "a finite number"
	switch what {
	case "weight":
		if special.Finite(v) && v >= 0 {
			return nil
		}
		allowed += " >= 0"
	case "time":
		allowed += " or a date"
	}
	if what != "weight" && special.Finite(v) {
		return nil
	}
	return ErrValue{Err: fmt.Errorf("%s = %v; allowed: %s", what, v, allowed)}
}

// Score reads rows [lo, hi) without NULLs into b, to be scored under f, with their responses unless
// Y is nil. d numbers the features. It returns which rows these are, in a list that is valid until
// the next call.
// Errors: those of Encoder.Score and Append; a response, weight or offset that is not finite.
func (s *Source) Score(f *kernels.Fit, d *kernels.Dict, lo, hi int, b *kernels.Batch) (at []int, err error) {
	b.Reset()
	s.at = s.at[:0]
	if _, err := s.X.Score(f); err != nil {
		return nil, err
	}
	keep := []bool(nil)
	if s.nulls(lo, hi) > 0 {
		keep = s.keep
	}
	for i := lo; i < hi; i++ {
		if s.keep[i-lo] {
			s.at = append(s.at, i)
		}
	}
	if len(s.at) == 0 {
		return nil, nil
	}
	if err := s.X.Append(lo, hi, d, f.Intercept, keep, b); err != nil {
		return nil, err
	}
	column := func(c Column, what string, to *[]float64) {
		if c == nil || err != nil {
			return
		}
		x := make([]float64, hi-lo)
		c.Floats(x, lo)
		*to = compact((*to)[:0], x, keep)
		for _, v := range *to {
			if what != "trials" && err == nil { // the likelihood checks these
				err = checkScalar(what, v)
			}
		}
	}
	column(s.Y, "y", &b.Y)
	column(s.Weight, "weight", &b.Weight)
	column(s.Offset, "offset", &b.Offset)
	column(s.Trials, "trials", &b.Trials)
	return s.at, err
}

// Obs returns the observation of row i and its offset; ok is false if one of its columns is NULL.
// Errors: a weight or offset that is not allowed.
func (s *Source) Obs(i int) (o lik.Obs, offset float64, ok bool, err error) {
	at := func(c Column, absent float64) float64 {
		if c == nil {
			return absent
		}
		var x [1]float64
		c.Floats(x[:], i)
		return x[0]
	}
	for _, c := range [...]Column{s.Y, s.Weight, s.Offset, s.Trials} {
		if c != nil && c.Null(i) {
			return o, 0, false, nil
		}
	}
	o = lik.Obs{Y: at(s.Y, 0), Weight: at(s.Weight, 1), Trials: at(s.Trials, 0)}
	offset = at(s.Offset, 0)
	if err := checkScalar("weight", o.Weight); err != nil {
		return o, 0, false, err
	}
	return o, offset, true, checkScalar("offset", offset)
}
