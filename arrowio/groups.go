package arrowio

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/kernels"
)

// Key is the group of fit k as text, equal in all processes: a JSON list of its printed values,
// null for NULL; "[]" without groups. Errors: a text that is not UTF-8.
func (g *Groups) Key(k int) (string, error) {
	if g.Keys == nil {
		return "[]", nil
	}
	by := make([]vector, g.Keys.NumCols())
	for c := range by {
		by[c] = newVector(g.Keys.ColumnName(c), g.Keys.Column(c))
	}
	return keyText(by, k)
}

func keyText(by []vector, i int) (string, error) {
	values := make([]*string, len(by))
	for c := range by {
		if by[c].null(i) {
			continue
		}
		v := by[c].print(i)
		if !utf8.ValidString(v) {
			return "", fmt.Errorf("group: %.100q is not UTF-8", v)
		}
		values[c] = &v
	}
	text, err := json.Marshal(values)
	return string(text), err
}

// GroupKeys returns the columns of Groups.Keys given the texts of Groups.Key, for rows of schema s
// grouped by the columns by. The caller releases them.
// Errors: a missing column, a text for other columns.
func GroupKeys(s *arrow.Schema, by, keys []string) (arrow.RecordBatch, error) {
	rec, err := groupKeys(s, by, keys)
	if err != nil {
		return nil, fmt.Errorf("arrowio: %w", err)
	}
	return rec, nil
}

func groupKeys(s *arrow.Schema, by, keys []string) (arrow.RecordBatch, error) {
	fields, err := groupFields(s, by)
	if err != nil {
		return nil, err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, key := range keys {
		var values []*string
		if err := json.Unmarshal([]byte(key), &values); err != nil || len(values) != len(by) {
			return nil, fmt.Errorf("group %.100q; allowed: a JSON list of %d texts", key, len(by))
		}
		for c, v := range values {
			if v == nil {
				b.Field(c).AppendNull()
			} else if err := parseInto(b.Field(c), *v); err != nil {
				return nil, fmt.Errorf("group %s: %w", by[c], err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// groupFields are the fields in which the values of the named columns of s are stored.
func groupFields(s *arrow.Schema, names []string) (fields []arrow.Field, err error) {
	for _, name := range names {
		at, err := findField(s, name)
		if err != nil {
			return nil, fmt.Errorf("group: %w", err)
		}
		fields = append(fields, arrow.Field{Name: name, Type: plainType(s.Field(at).Type), Nullable: true})
	}
	return fields, nil
}

// plainType is the type in which group values are stored.
func plainType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return plainType(t.ValueType)
	case *arrow.RunEndEncodedType:
		return plainType(t.Encoded())
	case arrow.ExtensionType:
		if t.StorageType().ID() == arrow.FIXED_SIZE_BINARY {
			return arrow.BinaryTypes.String // bytes with a textual form, such as a UUID
		}
		return plainType(t.StorageType())
	}
	switch t.ID() {
	case arrow.LARGE_STRING, arrow.STRING_VIEW:
		return arrow.BinaryTypes.String
	}
	return t
}

// ReadGroups reads a belief table of several fits, with the group columns by, as WriteParquet of
// Groups writes it; without by, a table of one fit.
// Errors: those of ReadFit; a missing column of by; a table of one fit of an earlier version, or of
// another program.
func ReadGroups(r array.RecordReader, by []string, o *Options) (g *Groups, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Damage(p)
		}
		if err != nil {
			err = fmt.Errorf("arrowio: %w", err)
		}
	}()
	if len(by) == 0 {
		f, err := readFit(r, o)
		return &Groups{Fits: []*kernels.Fit{f}}, err
	}
	return readGroups(r, by, o)
}

func readGroups(r array.RecordReader, by []string, o *Options) (*Groups, error) {
	s := r.Schema()
	rest, err := findField(s, Rest)
	if err != nil {
		return nil, err
	}
	read := groupReader{schema: s, options: o}
	for _, name := range by {
		c, err := findField(s, name)
		if err != nil {
			return nil, fmt.Errorf("group: %w", err)
		}
		read.by = append(read.by, c)
	}
	for r.Next() {
		rec := r.RecordBatch()
		lo, n := 0, int(rec.NumRows())
		for i := range n {
			if rec.Column(rest).IsNull(i) {
				continue
			}
			read.add(rec, lo, i)
			if err := read.fit(); err != nil {
				return nil, err
			}
			lo = i
		}
		read.add(rec, lo, n)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := read.fit(); err != nil {
		return nil, err
	}
	keys, err := groupKeys(s, by, read.keys)
	return &Groups{Fits: read.fits, Keys: keys}, err
}

// groupReader reads the fits of a table, whose rows come fit by fit in several pieces.
type groupReader struct {
	schema  *arrow.Schema
	options *Options
	by      []int               // columns of the groups
	rows    []arrow.RecordBatch // of the fit being read
	keys    []string
	fits    []*kernels.Fit
}

// add adds rows [lo, hi) to the fit being read.
func (g *groupReader) add(rec arrow.RecordBatch, lo, hi int) {
	if hi > lo {
		g.rows = append(g.rows, rec.NewSlice(int64(lo), int64(hi)))
	}
}

// fit completes the fit of the rows so far, if there are any.
func (g *groupReader) fit() error {
	if len(g.rows) == 0 {
		return nil
	}
	var first []vector
	for _, c := range g.by {
		first = append(first, newVector(g.schema.Field(c).Name, g.rows[0].Column(c)))
	}
	key, err := keyText(first, 0)
	if err != nil {
		return err
	}
	one, err := array.NewRecordReader(g.schema, g.rows)
	if err != nil {
		return err
	}
	defer one.Release()
	f, err := readFit(one, g.options)
	if err != nil {
		return fmt.Errorf("the fit of group %s: %w", key, err)
	}
	for _, rec := range g.rows {
		rec.Release()
	}
	g.rows, g.keys, g.fits = nil, append(g.keys, key), append(g.fits, f)
	return nil
}
