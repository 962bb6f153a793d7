package arrowio

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Key is the group of fit k as text, equal in all processes: a JSON list of its values as
// they print, null for NULL; "[]" without groups. Errors: a text that is not UTF-8.
func (g *Groups) Key(k int) (string, error) {
	if g.Keys == nil {
		return "[]", nil
	}
	return keyText(g.Keys.Columns(), k)
}

func keyText(by []arrow.Array, i int) (string, error) {
	values := make([]*string, len(by))
	for c, a := range by {
		if a.IsNull(i) {
			continue
		}
		v := a.ValueStr(i)
		if !utf8.ValidString(v) {
			return "", fmt.Errorf("group: %.100q is not UTF-8", v)
		}
		values[c] = &v
	}
	text, err := json.Marshal(values)
	return string(text), err
}

// GroupKeys are the columns of Groups.Keys by the texts of Groups.Key, for rows of schema s in
// groups of the columns by. The caller releases them.
// Errors: a column that is not there, a text that is of other columns.
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
			} else if err := b.Field(c).AppendValueFromString(*v); err != nil {
				return nil, fmt.Errorf("group %s: %w", by[c], err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// groupFields are the columns that groups by some of those of s are kept in.
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

// plainType is the type group values are kept in.
func plainType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return plainType(t.ValueType)
	case *arrow.RunEndEncodedType:
		return plainType(t.Encoded())
	case arrow.ExtensionType:
		return plainType(t.StorageType())
	}
	switch t.ID() {
	case arrow.LARGE_STRING, arrow.STRING_VIEW:
		return arrow.BinaryTypes.String
	}
	return t
}

// ReadGroups reads a belief table of many fits, with the columns by of their groups, as
// WriteParquet of Groups writes it; without by a table of one fit.
// Errors: those of ReadFit; a column by that is not there; a table of one fit of an earlier version, or
// of another program.
func ReadGroups(r array.RecordReader, by []string, o *Options) (g *Groups, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Damage(p)
		}
		if err != nil {
			err = fmt.Errorf("arrowio: %w", err)
		}
	}()
	g = &Groups{}
	if len(by) == 0 {
		f, err := readFit(r, o)
		g.Fits = append(g.Fits, f)
		return g, err
	}
	s := r.Schema()
	rest, err := findField(s, Rest)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(by))
	for k, name := range by {
		if at[k], err = findField(s, name); err != nil {
			return nil, fmt.Errorf("group: %w", err)
		}
	}
	var rows []arrow.RecordBatch // of the fit that is being read
	var keys []string
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		var first []arrow.Array
		for _, c := range at {
			first = append(first, rows[0].Column(c))
		}
		key, err := keyText(first, 0)
		if err != nil {
			return err
		}
		one, err := array.NewRecordReader(s, rows)
		if err != nil {
			return err
		}
		defer one.Release()
		f, err := readFit(one, o)
		if err != nil {
			return fmt.Errorf("the fit of group %s: %w", key, err)
		}
		for _, rec := range rows {
			rec.Release()
		}
		rows, keys, g.Fits = nil, append(keys, key), append(g.Fits, f)
		return nil
	}
	for r.Next() {
		rec := r.RecordBatch()
		lo, n := 0, int(rec.NumRows())
		for i := range n {
			if rec.Column(rest).IsNull(i) {
				continue
			}
			if i > lo {
				rows = append(rows, rec.NewSlice(int64(lo), int64(i)))
			}
			if err := flush(); err != nil {
				return nil, err
			}
			lo = i
		}
		if n > lo {
			rows = append(rows, rec.NewSlice(int64(lo), int64(n)))
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := flush(); err != nil {
		return nil, err
	}
	g.Keys, err = groupKeys(s, by, keys)
	return g, err
}
