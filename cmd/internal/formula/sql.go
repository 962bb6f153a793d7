package formula

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/quote"
)

// Bind resolves the columns that parts name, and a dot: to the columns dot if there are any, else
// to all but those that the formula uses otherwise and those mentioned in used, SQL.
// Errors: a missing column.
func (f *Formula) Bind(columns []string, used string, dot ...string) error {
	if f.Dot {
		if err := f.others(columns, used, dot); err != nil {
			return err
		}
		var terms []Term
		for _, name := range f.Others {
			c, _ := columnOf(columns, name)
			terms = append(terms, Term{{Name: name, SQL: quote.Name(c), Column: true}})
		}
		whole, err := parse(f.text, terms)
		if err != nil {
			return err
		}
		whole.Others = f.Others
		*f = *whole
	}
	for _, t := range f.Terms {
		for k := range t {
			if p := &t[k]; p.Column {
				if c, ok := columnOf(columns, p.Name); ok {
					p.SQL = quote.Name(c)
				} else if !strings.Contains(p.Name, ".") {
					return fmt.Errorf("formula: no column %s; found: %.300s", p.Name, strings.Join(columns, ", "))
				}
			}
		}
	}
	return f.once()
}

// once removes terms that repeat the columns of another in different case.
// Errors: other terms whose names differ only in case, as names of features must not.
func (f *Formula) once() error {
	var out []Term
	for _, t := range f.Terms {
		// same reports whether the parts of t are those of o, compared by what.
		same := func(o Term, what func(p, q Part) bool) bool {
			return len(o) == len(t) && !slices.ContainsFunc(t, func(p Part) bool {
				return !slices.ContainsFunc(o, func(q Part) bool { return p.Factor == q.Factor && what(p, q) })
			})
		}
		if slices.ContainsFunc(out, func(o Term) bool {
			return same(o, func(p, q Part) bool { return p.SQL == q.SQL && strings.EqualFold(p.Name, q.Name) })
		}) {
			continue
		}
		if k := slices.IndexFunc(out, func(o Term) bool { return same(o, func(p, q Part) bool { return strings.EqualFold(p.Name, q.Name) }) }); k >= 0 {
			return fmt.Errorf("formula: %s and %s differ in case alone, which names of features do not", out[k].Name(), t.Name())
		}
		out = append(out, t)
	}
	f.Terms = out
	return nil
}

// columnOf finds a column by name, in any case.
func columnOf(columns []string, name string) (string, bool) {
	for _, c := range columns {
		if strings.EqualFold(c, name) {
			return c, true
		}
	}
	return "", false
}

// others sets the columns that the dot stands for.
func (f *Formula) others(columns []string, used string, dot []string) error {
	f.Others = []string{} // known, and empty
	for _, name := range dot {
		if _, ok := columnOf(columns, name); !ok {
			return fmt.Errorf("formula: no column %s, which . stood for when the model was fitted; found: %.300s", name, strings.Join(columns, ", "))
		}
		f.Others = append(f.Others, name)
	}
	if len(dot) > 0 {
		return nil
	}
	for _, t := range f.without {
		for _, p := range t {
			if _, ok := columnOf(columns, p.Name); p.Column && !ok {
				return fmt.Errorf("formula: no column %s to take away from .; found: %.300s", p.Name, strings.Join(columns, ", "))
			}
		}
	}
	used = strings.ToLower(f.Y + " " + f.Trials + " " + strings.Join(f.Offset, " ") + " " + used)
	for _, c := range columns {
		t := Term{{Name: c, SQL: quote.Name(c), Column: true}}
		taken := slices.ContainsFunc(f.without, func(w Term) bool { return len(w) == 1 && strings.EqualFold(w[0].Name, c) })
		if !taken && !mentions(used, strings.ToLower(c)) && !slices.ContainsFunc(f.Terms, func(o Term) bool { return alike(o, t) }) {
			f.Others = append(f.Others, c)
		}
	}
	return nil
}

// DerivedColumn is a column of features that is not a column of the rows.
type DerivedColumn struct {
	Name string
	SQL  string   // of an expression, or of an interaction computed from its parts; "" for several features
	Of   []string // the names of an interaction's parts
	In   string   // SQL: the container of several features
	Has  []string // the names of those features
}

// DerivedColumns returns the columns that the terms compute from others, given the features of a
// fit.
func (f *Formula) DerivedColumns(features []string) (out []DerivedColumn) {
	var named, holders []string
	for _, t := range f.Terms {
		names, sql, alone := t.named(features)
		name := strings.Join(names, ":")
		switch {
		case len(t) == 1 && !slices.ContainsFunc(features, func(w string) bool { return OfColumn(w, name) }):
			holders = append(holders, sql[0])
			continue
		case len(t) > 1 && slices.Contains(features, name):
			out = append(out, DerivedColumn{Name: name, SQL: strings.Join(sql, " * "), Of: names})
		case len(t) > 1:
			out = append(out, DerivedColumn{Name: name, SQL: strings.Join(escaped(sql, name, features), " || ':' || "), Of: names})
		case !alone:
			out = append(out, DerivedColumn{Name: name, SQL: sql[0]})
		}
		named = append(named, name)
	}
	if holders == nil {
		return out
	}
	in := DerivedColumn{In: strings.Join(holders, ", ")}
	for _, w := range features {
		other := func(name string) bool { return OfColumn(w, name) }
		if name, _, _ := strings.Cut(w, "="); w != "(Intercept)" && !slices.ContainsFunc(named, other) && !slices.Contains(in.Has, name) {
			in.Has = append(in.Has, name)
		}
	}
	return append(out, in)
}

// escaped is the SQL of the parts of an interaction of levels, with colons and backslashes escaped
// as in its features, for parts in which any occurs.
func escaped(sql []string, name string, features []string) []string {
	out := slices.Clone(sql)
	for _, w := range features {
		level, ok := strings.CutPrefix(w, name+"=")
		if !ok || !strings.Contains(level, `\`) {
			continue
		}
		part := 0
		for i := 0; i < len(level) && part < len(out); i++ {
			switch level[i] {
			case ':':
				part++
			case '\\':
				i++
				out[part] = `replace(replace(` + sql[part] + `, '\', '\\'), ':', '\:')`
			}
		}
	}
	return out
}

// named are the parts of a term under their names in features, where the levels of a number that is
// also a term are factor(name), and their SQL; alone says that the term is a column by itself.
func (t Term) named(features []string) (names, sql []string, alone bool) {
	var factors []string
	for _, p := range t {
		names, factors, sql = append(names, p.Name), append(factors, p.Name), append(sql, p.SQL)
		if p.Factor {
			factors[len(factors)-1] = "factor(" + p.Name + ")"
		}
	}
	alone = len(t) == 1 && t[0].Column
	if own := strings.Join(factors, ":"); own != t.Name() && slices.ContainsFunc(features, func(w string) bool { return OfColumn(w, own) }) {
		return factors, sql, false
	}
	return names, sql, alone
}

// OfColumn reports whether a feature belongs to the named column.
func OfColumn(feature, name string) bool {
	rest, ok := strings.CutPrefix(feature, name)
	return ok && (rest == "" || rest[0] == '=' || rest == " IS NULL")
}

// Kind is the kind of a part, by its type.
type Kind int

// Kinds of parts.
const (
	Number    Kind = iota
	Level          // text, BOOLEAN, DATE, ENUM
	Levels         // a list of text
	Container      // a map, a list of numbers or of struct(feature, value)
	Fields         // a struct
)

// KindOf is the kind for an SQL type.
func KindOf(sqlType string) (Kind, error) {
	t := strings.ToUpper(sqlType)
	switch {
	case strings.HasSuffix(t, "]"):
		if strings.HasPrefix(t, "VARCHAR[") {
			return Levels, nil
		}
		if element, _, _ := strings.Cut(t, "["); element == "BOOLEAN" || element == "DATE" || strings.HasPrefix(element, "TIME") {
			return 0, fmt.Errorf("its type is %s; allowed: lists of text, of numbers and of struct(feature, value); cast it, as in %s", sqlType, "tags::VARCHAR[]")
		}
		return Container, nil
	case strings.HasPrefix(t, "MAP("):
		return Container, nil
	case strings.HasPrefix(t, "STRUCT("):
		return Fields, nil
	case strings.HasPrefix(t, "ENUM("):
		return Level, nil
	}
	switch t {
	case "VARCHAR", "BOOLEAN", "DATE":
		return Level, nil
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE":
		return Number, nil
	}
	if strings.HasPrefix(t, "DECIMAL(") {
		return Number, nil
	}
	cast := "id::VARCHAR"
	switch {
	case t == "INTERVAL":
		cast = "epoch(d)"
	case strings.HasPrefix(t, "TIMESTAMP"):
		cast = "hour(ts)::VARCHAR, ts::DATE or epoch(ts)"
	case strings.HasPrefix(t, "TIME"):
		cast = "hour(t)::VARCHAR or epoch(t)"
	}
	return 0, fmt.Errorf("its type is %s; allowed: numbers, text, booleans, dates, lists and maps of features; cast it, as in %s", sqlType, cast)
}

func termError(t Term, err error) error { return fmt.Errorf("formula: term %s: %w", t.Name(), err) }

// Features is the SQL of the features: a STRUCT, in which an interaction is a STRUCT of its parts,
// a map or a list of features is one field, and a STRUCT contributes its fields; a single one of
// these is used directly. kind returns the kind of a part, fields the names in a STRUCT.
func (f *Formula) Features(kind func(Part) (Kind, error), fields func(Part) ([]string, error)) (string, error) {
	if err := f.Resolve(kind); err != nil {
		return "", err
	}
	var out, needed []string
	for _, t := range f.Terms {
		var parts []string
		for _, p := range t {
			k, err := kind(p)
			if err != nil && p.Column && slices.Contains(f.Others, p.Name) {
				err = fmt.Errorf("%w; . - %s leaves it out", err, quote.Name(p.Name))
			}
			if err != nil {
				return "", termError(t, err)
			}
			if k >= Levels && len(t) > 1 {
				return "", fmt.Errorf("formula: term %s: %s holds several features; allowed in an interaction: numbers and levels", t.Name(), p.Name)
			}
			if k >= Container && len(f.Terms) == 1 {
				return p.SQL, nil
			}
			if k == Fields {
				names, err := fields(p)
				if err != nil {
					return "", termError(t, err)
				}
				if err := f.clash(t, names); err != nil {
					return "", err
				}
				for _, name := range names {
					out = append(out, quote.Text(name)+": struct_extract("+p.SQL+", "+quote.Text(name)+")")
				}
				needed = append(needed, "("+p.SQL+") IS NOT NULL")
				continue
			}
			sql := p.SQL
			switch {
			case p.Factor && k == Number:
				sql = "((" + sql + ") + 0)::VARCHAR" // -0.0, as of round(-0.3), is the level 0.0
			case p.Factor && k == Level:
				sql = "(" + sql + ")::VARCHAR"
			}
			parts = append(parts, quote.Text(p.Name)+": "+sql)
		}
		switch {
		case len(t) > 1:
			out = append(out, quote.Text(t.Name())+": {"+strings.Join(parts, ", ")+"}")
		case len(parts) == 1:
			out = append(out, parts[0])
		}
	}
	if len(out) == 0 {
		return "[]::VARCHAR[]", nil // the intercept alone
	}
	whole := "{" + strings.Join(out, ", ") + "}"
	if len(needed) > 0 { // a row whose STRUCT is NULL has no features
		whole = "CASE WHEN " + strings.Join(needed, " AND ") + " THEN " + whole + " END"
	}
	return whole, nil
}

// clash is the error if a field of a STRUCT t, one of names, has the name of another term.
func (f *Formula) clash(t Term, names []string) error {
	for _, name := range names {
		for _, o := range f.Terms {
			if strings.EqualFold(o.Name(), name) && !o.same(t) {
				return fmt.Errorf("formula: term %s has a field %s, the name of another term; allowed: one of the two", t.Name(), name)
			}
		}
	}
	return nil
}
