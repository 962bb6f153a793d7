package arrowio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/fitlayout"
	"github.com/bglm/bglm/kernels/gauss"
)

// encodeHead is f without its beliefs and the values of its covariance, as JSON: the same text as
// DuckDB's to_json of the FIT's STRUCT without them.
func encodeHead(f *kernels.Fit) string { return string(appendObject(nil, fitlayout.Fields, f)) }

func appendObject[T any](b []byte, fields []fitlayout.Field[T], v *T) []byte {
	b = append(b, '{')
	first := true
	for k := range fields {
		f := &fields[k]
		if f.InColumns() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(append(b, '"'), f.Name...), '"', ':')
		if f.At == nil {
			b = appendObject(b, f.Fields, v)
			continue
		}
		switch p := f.At(v).(type) {
		case *string:
			b = appendText(b, *p)
		case *gauss.Form:
			b = appendText(b, p.String())
		case *kernels.ColumnKind:
			b = appendText(b, p.String())
		case *float64:
			b = appendNumber(b, *p)
		case *int:
			if *p == 0 && f.Nullable {
				b = append(b, "null"...)
			} else {
				b = strconv.AppendInt(b, int64(*p), 10)
			}
		case *int64:
			b = strconv.AppendInt(b, *p, 10)
		case *bool:
			b = strconv.AppendBool(b, *p)
		case fitlayout.Format:
			b = strconv.AppendInt(b, int64(p), 10)
		case *[]kernels.FitColumn:
			b = appendList(b, fitlayout.ColumnFields, *p)
		case *[]kernels.Correlation:
			b = appendList(b, fitlayout.CorrelationFields, *p)
		case *[]kernels.Learnt:
			b = appendList(b, fitlayout.LearntFields, *p)
		}
	}
	return append(b, '}')
}

func appendList[T any](b []byte, fields []fitlayout.Field[T], list []T) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for k := range list {
		if k > 0 {
			b = append(b, ',')
		}
		b = appendObject(b, fields, &list[k])
	}
	return append(b, ']')
}

func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // of no string
	}
	return append(b, text...)
}

// appendNumber writes numbers as DuckDB does: NaN as null, and infinities as words that JSON lacks.
func appendNumber(b []byte, x float64) []byte {
	switch {
	case math.IsNaN(x):
		return append(b, "null"...)
	case math.IsInf(x, -1):
		return append(b, "-Infinity"...)
	case math.IsInf(x, 1):
		return append(b, "Infinity"...)
	}
	n := len(b)
	if b = strconv.AppendFloat(b, x, 'g', -1, 64); !bytes.ContainsAny(b[n:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}

// decodeHead reads what encodeHead or DuckDB wrote. Errors: text that is not such JSON, a layout
// that is not known yet, a field that is missing or of another type, and those of
// kernels.Fit.ValidateHead.
func decodeHead(text string) (*kernels.Fit, error) {
	d := json.NewDecoder(strings.NewReader(quoteInfinite(text)))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil, fmt.Errorf("%.60q is not the JSON of a fit: %w", text, err)
	}
	if v := object["format"]; v != nil {
		n, ok := v.(json.Number)
		format, err := strconv.ParseInt(n.String(), 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("format = %v; allowed: a whole number or null", v)
		}
		if err := fitlayout.CheckFormat(format); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrVersion, err)
		}
	}
	f := fitlayout.Default()
	if err := setObject(object, fitlayout.Fields, "", &f); err != nil {
		return nil, err
	}
	f.Prior = f.Prior.Literal()
	if err := f.ValidateHead(); err != nil {
		return nil, err
	}
	return &f, nil
}

func setObject[T any](object map[string]any, fields []fitlayout.Field[T], under string, to *T) error {
	for k := range fields {
		f := &fields[k]
		v, there := object[f.Name]
		name := under + f.Name
		bad := func(allowed string) error {
			return fmt.Errorf("field %s = %.40v; allowed: %s", name, v, allowed)
		}
		switch {
		case f.InColumns() || !there && f.Optional:
			continue
		case !there:
			return fmt.Errorf("there is no field %s", name)
		case v == nil && !f.Nullable:
			return bad("a value")
		case f.At == nil:
			inner, ok := v.(map[string]any)
			if !ok {
				return bad("an object")
			}
			if err := setObject(inner, f.Fields, name+".", to); err != nil {
				return err
			}
			continue
		}
		switch p := f.At(to).(type) {
		case *string:
			s, ok := v.(string)
			if *p = s; !ok {
				return bad("text")
			}
		case *kernels.ColumnKind:
			s, ok := v.(string)
			if p.Set(s); !ok {
				return bad("text")
			}
		case *gauss.Form:
			s, _ := v.(string)
			form, err := gauss.ParseForm(s)
			if *p = form; err != nil {
				return fmt.Errorf("field %s = %w", name, err)
			}
		case *float64:
			x, ok := number(v)
			if *p = x; !ok {
				return bad("a number")
			}
		case *int:
			x, ok := whole(v)
			if *p = int(x); !ok {
				return bad("a whole number")
			}
		case *int64:
			x, ok := whole(v)
			if *p = x; !ok {
				return bad("a whole number")
			}
		case *bool:
			x, ok := v.(bool)
			if *p = x; !ok {
				return bad("true or false")
			}
		case *[]kernels.FitColumn:
			if err := setList(v, fitlayout.ColumnFields, name, p); err != nil {
				return err
			}
		case *[]kernels.Correlation:
			if err := setList(v, fitlayout.CorrelationFields, name, p); err != nil {
				return err
			}
		case *[]kernels.Learnt:
			if err := setList(v, fitlayout.LearntFields, name, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func setList[T any](v any, fields []fitlayout.Field[T], name string, to *[]T) error {
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("field %s = %.40v; allowed: a list", name, v)
	}
	*to = make([]T, len(list))
	for k, e := range list {
		entry, ok := e.(map[string]any)
		if !ok {
			return fmt.Errorf("field %s = %.40v; allowed: a list of objects", name, v)
		}
		if err := setObject(entry, fields, name+".", &(*to)[k]); err != nil {
			return err
		}
	}
	return nil
}

// number is a JSON value as a number; null is NaN.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case nil:
		return math.NaN(), true
	case json.Number:
		x, err := v.Float64()
		return x, err == nil
	case string:
		if x, ok := infinite[v]; ok {
			return x, true
		}
	}
	return 0, false
}

// whole is a JSON value as an integer; null is 0.
func whole(v any) (int64, bool) {
	if v == nil {
		return 0, true
	}
	n, _ := v.(json.Number)
	x, err := strconv.ParseInt(n.String(), 10, 64)
	return x, err == nil
}

var infinite = map[string]float64{"-Infinity": math.Inf(-1), "Infinity": math.Inf(1)}

// quoteInfinite puts quotes around infinite numbers, which DuckDB writes bare.
func quoteInfinite(text string) string {
	if !strings.Contains(text, "Infinity") {
		return text
	}
	var b strings.Builder
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inside && c == '\\' && i+1 < len(text):
			b.WriteByte(c)
			i++
		case c == '"':
			inside = !inside
		case !inside:
			word := ""
			for w := range infinite {
				if strings.HasPrefix(text[i:], w) {
					word = w
				}
			}
			if word != "" {
				b.WriteString(`"` + word + `"`)
				i += len(word) - 1
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
