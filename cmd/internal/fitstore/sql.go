package fitstore

import (
	"fmt"
	"strings"

	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/fitlayout"
)

// The conversion of a FIT in SQL, by its list of fields, into the columns of a file and back.

// structSQL is the STRUCT of the fields for which pick returns a text.
func structSQL[T any](fields []fitlayout.Field[T], under string, pick func(path string, f *fitlayout.Field[T]) string) string {
	var parts []string
	for k := range fields {
		f := &fields[k]
		value := ""
		if f.At == nil {
			value = structSQL(f.Fields, under+f.Name+".", pick)
		} else {
			value = pick(under+f.Name, f)
		}
		if value != "" {
			parts = append(parts, quote.Text(f.Name)+": "+value)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// quotePath is a path of fields below a STRUCT, quoted.
func quotePath(path string) string {
	parts := strings.Split(path, ".")
	for k := range parts {
		parts[k] = quote.Name(parts[k])
	}
	return strings.Join(parts, ".")
}

// restSQL is the JSON of a FIT without what files store in columns.
func restSQL(fit string) string {
	return "to_json(" + structSQL(fitlayout.Fields, "", func(path string, f *fitlayout.Field[kernels.Fit]) string {
		if f.InColumns() {
			return ""
		}
		return fit + "." + quotePath(path)
	}) + ")::VARCHAR"
}

// restShape is the structure with which from_json reads that.
func restShape() string { return jsonShape(fitlayout.Fields) }

func jsonShape[T any](fields []fitlayout.Field[T]) string {
	var parts []string
	for k := range fields {
		f := &fields[k]
		if f.InColumns() {
			continue
		}
		t := `"` + f.SQL() + `"`
		switch f.Kind() {
		case fitlayout.Struct:
			t = jsonShape(f.Fields)
		case fitlayout.Columns:
			t = "[" + jsonShape(fitlayout.ColumnFields) + "]"
		case fitlayout.Correlations:
			t = "[" + jsonShape(fitlayout.CorrelationFields) + "]"
		case fitlayout.Learnt:
			t = "[" + jsonShape(fitlayout.LearntFields) + "]"
		}
		parts = append(parts, `"`+f.Name+`":`+t)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// fitSQL is the FIT made from a rest, its beliefs and the values of its covariance.
func fitSQL(rest, beliefs, values string, classes, flat bool) string {
	whole := structSQL(fitlayout.Fields, "", func(path string, f *fitlayout.Field[kernels.Fit]) string {
		switch f.Kind() {
		case fitlayout.Beliefs:
			return beliefs
		case fitlayout.Reals:
			return values
		}
		if flat { // the first layout in files of groups
			if f.Since > 1 {
				return "NULL"
			}
			path = strings.TrimPrefix(path, "covariance.")
		}
		return rest + "." + quotePath(path)
	})
	return "CAST(" + whole + " AS " + fitlayout.SQL(kernels.FitFormat, classes) + ")"
}

// upgrade converts FITs of an earlier layout in a temporary table to the newest one.
func (f *Fits) upgrade() error {
	s := f.s
	if !f.IsFit {
		return nil
	}
	for layout := 1; layout < kernels.FitFormat; layout++ {
		var is bool
		err := s.Row(fmt.Sprintf("SELECT coalesce(bool_and(typeof(fit) = typeof(NULL::%s)), false) FROM (SELECT fit FROM %s LIMIT 1)", fitlayout.SQL(layout, f.HasClass), f.Table), &is)
		if err != nil {
			return err
		}
		if is {
			return s.Exec("CREATE OR REPLACE TEMP TABLE " + f.Table + " AS SELECT * REPLACE (CAST(fit AS " + fitlayout.SQL(kernels.FitFormat, f.HasClass) + ") AS fit) FROM " + f.Table)
		}
	}
	return nil
}
