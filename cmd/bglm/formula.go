package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// formula is a model in the notation of R: response ~ terms.
//
//	delay > 15 ~ origin + destination + hour(date) + origin:destination - 1
//
// The response and what stands inside the parentheses of a function are SQL.
// + adds terms, - takes them away, a:b is an interaction, a*b is a + b + a:b,
// (a + b)^2 all terms up to that order, 1 and 0 (or - 1) the intercept and none, . all
// other columns, offset(e) a known part of the linear predictor, I(e) an SQL
// expression, factor(e) one whose values are levels even if they are numbers, and
// cbind(s, f) ~ ... counts of successes and failures.
type formula struct {
	y, trials string // SQL
	terms     []fterm
	offset    []string
	intercept bool
	dot       bool // . was among the terms
	without   []fterm
}

// fterm is a part, or the interaction of several.
type fterm []part

type part struct {
	name string // as written
	sql  string
	// column is set when the part is a name alone.
	column bool
	factor bool
}

func (t fterm) name() string {
	var names []string
	for _, p := range t {
		names = append(names, p.name)
	}
	return strings.Join(names, ":")
}

func (t fterm) same(o fterm) bool {
	return len(t) == len(o) && !slices.ContainsFunc(t, func(p part) bool { return !o.has(p) })
}

func (t fterm) has(p part) bool {
	return slices.ContainsFunc(t, func(q part) bool { return q.name == p.name })
}

// cross is the interaction of two terms; a part counts once.
func (t fterm) cross(o fterm) fterm {
	out := slices.Clone(t)
	for _, p := range o {
		if !out.has(p) {
			out = append(out, p)
		}
	}
	return out
}

func parseFormula(text string) (f *formula, err error) {
	fail := func(err error) (*formula, error) { return nil, fmt.Errorf("formula %q: %w", text, err) }
	at, err := topLevel(text, '~')
	if err != nil {
		return fail(err)
	}
	if at < 0 {
		return fail(fmt.Errorf("no ~ between the response and the terms"))
	}
	f = &formula{y: strings.TrimSpace(text[:at]), intercept: true}
	if f.y == "" {
		return fail(fmt.Errorf("nothing stands before the ~"))
	}
	if inner, ok := call(f.y, "cbind"); ok {
		args, err := splitArgs(inner)
		if err != nil || len(args) != 2 {
			return fail(fmt.Errorf("cbind takes the successes and the failures"))
		}
		f.y, f.trials = args[0], "("+args[0]+") + ("+args[1]+")"
	}
	p := &formulaParser{text: text[at+1:], f: f}
	terms, err := p.sum()
	if err == nil && p.peek() != 0 {
		err = p.unexpected()
	}
	if err != nil {
		return fail(err)
	}
	f.terms = terms
	if len(f.terms) == 0 && !f.dot && !f.intercept {
		return fail(fmt.Errorf("no terms"))
	}
	return f, nil
}

type formulaParser struct {
	text string
	at   int
	f    *formula
}

func (p *formulaParser) peek() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *formulaParser) unexpected() error {
	rest := p.text[p.at:]
	if rest == "" {
		return fmt.Errorf("it ends where a term is expected")
	}
	return fmt.Errorf("unexpected %.20q; an SQL expression with operators goes into I( ), as in I(distance / 1000)", rest)
}

// sum reads terms joined by + and -.
func (p *formulaParser) sum() ([]fterm, error) {
	var out []fterm
	for first := true; ; first = false {
		minus := false
		switch p.peek() {
		case '+', '-':
			minus = p.text[p.at] == '-'
			p.at++
		default:
			if !first {
				return out, nil
			}
		}
		ts, err := p.product(minus)
		if err != nil {
			return nil, err
		}
		for _, t := range ts {
			k := slices.IndexFunc(out, t.same)
			switch {
			case minus:
				if k >= 0 {
					out = slices.Delete(out, k, k+1)
				}
				p.f.without = append(p.f.without, t) // a dot may bring it back
			case !minus && k < 0:
				out = append(out, t)
			}
			if len(out) > maxTerms {
				return nil, fmt.Errorf("more than %d terms", maxTerms)
			}
		}
	}
}

// product reads a*b, which is a + b + a:b.
func (p *formulaParser) product(minus bool) ([]fterm, error) {
	out, err := p.interaction(minus)
	for err == nil && p.peek() == '*' {
		p.at++
		var right []fterm
		if right, err = p.interaction(minus); err == nil {
			out = append(append(slices.Clone(out), right...), crossAll(out, right)...)
		}
	}
	return out, err
}

func crossAll(a, b []fterm) []fterm {
	var out []fterm
	for _, s := range a {
		for _, t := range b {
			if c := s.cross(t); len(out) <= maxTerms && !slices.ContainsFunc(out, c.same) {
				out = append(out, c)
			}
		}
	}
	return out
}

const maxTerms = 1000 // more terms are an error

func (p *formulaParser) interaction(minus bool) ([]fterm, error) {
	out, err := p.power(minus)
	for err == nil && p.peek() == ':' {
		p.at++
		var right []fterm
		if right, err = p.power(minus); err == nil {
			out = crossAll(out, right)
		}
	}
	return out, err
}

func (p *formulaParser) power(minus bool) ([]fterm, error) {
	out, err := p.atom(minus)
	if err != nil || p.peek() != '^' {
		return out, err
	}
	p.at++
	p.peek()
	lo := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.Atoi(p.text[lo:p.at])
	if err != nil || n < 1 || n > 9 {
		return nil, fmt.Errorf("the power is %q; allowed: 1 to 9", p.text[lo:p.at])
	}
	base := out
	for range n - 1 {
		for _, t := range crossAll(out, base) {
			if !slices.ContainsFunc(out, t.same) {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// atom reads a name, a function call, a number that stands for the intercept, or
// terms in parentheses.
func (p *formulaParser) atom(minus bool) ([]fterm, error) {
	c := p.peek()
	switch {
	case c == '(':
		p.at++
		out, err := p.sum()
		if err == nil && p.peek() != ')' {
			err = p.unexpected()
		}
		p.at++
		return out, err
	case c == '0' || c == '1':
		if p.at+1 < len(p.text) && isWord(p.text[p.at+1]) {
			break
		}
		p.at++
		p.f.intercept = (c == '1') != minus
		return nil, nil
	case c == '.':
		p.at++
		if minus {
			return nil, fmt.Errorf("- . takes everything away")
		}
		p.f.dot = true
		return nil, nil
	case c == '"' || c == '`' || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80:
		return p.expression(minus)
	}
	return nil, p.unexpected()
}

func isWord(c byte) bool {
	return c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// expression reads a name with what follows it: a call, a cast, an index.
func (p *formulaParser) expression(minus bool) ([]fterm, error) {
	lo := p.at
	var q part
	if c := p.text[p.at]; c == '"' || c == '`' {
		end := strings.IndexByte(p.text[p.at+1:], c)
		if end < 0 {
			return nil, fmt.Errorf("a name begins with %c and does not end", c)
		}
		q.name = p.text[p.at+1 : p.at+1+end]
		p.at += end + 2
		q.sql, q.column = quoteName(q.name), true
	} else {
		for p.at < len(p.text) && isWord(p.text[p.at]) {
			p.at++
		}
		q.name = p.text[lo:p.at]
		q.sql, q.column = q.name, true
	}
	for more := true; more; {
		rest := p.text[p.at:]
		switch {
		case strings.HasPrefix(rest, "("), strings.HasPrefix(rest, "["):
			n, err := balanced(rest)
			if err != nil {
				return nil, err
			}
			q.sql += rest[:n]
			p.at += n
		case strings.HasPrefix(rest, "::"):
			n := 2
			for n < len(rest) && isWord(rest[n]) {
				n++
			}
			if n == 2 {
				return nil, fmt.Errorf("'::' needs a type after it")
			}
			q.sql += rest[:n]
			p.at += n
		default:
			more = false
			continue
		}
		q.column, q.name = false, strings.Join(strings.Fields(p.text[lo:p.at]), " ")
	}
	for _, name := range []string{"factor", "C", "as.factor"} {
		if inner, ok := call(q.sql, name); ok {
			q.sql, q.factor = inner, true
		}
	}
	if inner, ok := call(q.sql, "I"); ok {
		q.sql = "(" + inner + ")"
	}
	if inner, ok := call(q.sql, "offset"); ok {
		if minus {
			return nil, fmt.Errorf("an offset cannot be taken away")
		}
		p.f.offset = append(p.f.offset, inner)
		return nil, nil
	}
	return []fterm{{q}}, nil
}

// call is what stands inside name( ) when that is all of sql.
func call(sql, name string) (string, bool) {
	if !strings.HasPrefix(sql, name+"(") {
		return "", false
	}
	n, err := balanced(sql[len(name):])
	if err != nil || len(name)+n != len(sql) {
		return "", false
	}
	return strings.TrimSpace(sql[len(name)+1 : len(sql)-1]), true
}

// balanced is the length of the bracketed text at the beginning of s.
func balanced(s string) (int, error) {
	var open []byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'', '"':
			end := strings.IndexByte(s[i+1:], c)
			if end < 0 {
				return 0, fmt.Errorf("a quotation %.20q does not end", s[i:])
			}
			i += end + 1
		case '(', '[', '{':
			open = append(open, c)
		case ')', ']', '}':
			want := map[byte]byte{')': '(', ']': '[', '}': '{'}[c]
			if len(open) == 0 || open[len(open)-1] != want {
				return 0, fmt.Errorf("%c without its partner", c)
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return i + 1, nil
			}
		}
	}
	return 0, fmt.Errorf("a bracket does not close")
}

// topLevel finds c outside brackets and quotations, -1 without one.
func topLevel(s string, c byte) (int, error) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case c:
			return i, nil
		case '\'', '"', '`':
			end := strings.IndexByte(s[i+1:], s[i])
			if end < 0 {
				return 0, fmt.Errorf("a quotation %.20q does not end", s[i:])
			}
			i += end + 1
		case '(', '[', '{':
			n, err := balanced(s[i:])
			if err != nil {
				return 0, err
			}
			i += n - 1
		}
	}
	return -1, nil
}

// splitArgs cuts at the commas outside brackets.
func splitArgs(s string) ([]string, error) {
	var out []string
	for {
		i, err := topLevel(s, ',')
		if err != nil {
			return nil, err
		}
		if i < 0 {
			return append(out, strings.TrimSpace(s)), nil
		}
		out, s = append(out, strings.TrimSpace(s[:i])), s[i+1:]
	}
}

func quoteName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// bind names the columns that parts stand for, and puts in those of a dot.
func (f *formula) bind(columns []string) error {
	find := func(name string) (string, bool) {
		for _, c := range columns {
			if strings.EqualFold(c, name) {
				return c, true
			}
		}
		return "", false
	}
	for _, t := range f.terms {
		for k := range t {
			if p := &t[k]; p.column {
				if c, ok := find(p.name); ok {
					p.sql = quoteName(c)
				} else if !strings.Contains(p.name, ".") {
					return fmt.Errorf("formula: no column %s; found: %.300s", p.name, strings.Join(columns, ", "))
				}
			}
		}
	}
	if !f.dot {
		return nil
	}
	used := strings.ToLower(f.y + " " + f.trials + " " + strings.Join(f.offset, " "))
	for _, c := range columns {
		t := fterm{{name: c, sql: quoteName(c), column: true}}
		taken := slices.ContainsFunc(f.without, func(w fterm) bool { return len(w) == 1 && strings.EqualFold(w[0].name, c) })
		if !taken && !mentions(used, strings.ToLower(c)) && !slices.ContainsFunc(f.terms, t.same) {
			f.terms = append(f.terms, t)
		}
	}
	return nil
}

// mentions says whether name stands in the SQL text as a word.
func mentions(sql, name string) bool {
	for i := 0; ; {
		k := strings.Index(sql[i:], name)
		if k < 0 {
			return false
		}
		i += k
		if (i == 0 || !isWord(sql[i-1])) && (i+len(name) == len(sql) || !isWord(sql[i+len(name)])) {
			return true
		}
		i++
	}
}

// partKind is what the type of a part makes of it.
type partKind int

const (
	isNumber    partKind = iota
	isLevel              // text, BOOLEAN, DATE, ENUM
	isLevels             // a list of text
	isContainer          // a map, a struct, a list of numbers or of struct(feature, value)
)

func kindOfType(sqlType string) (partKind, error) {
	t := strings.ToUpper(sqlType)
	switch {
	case strings.HasPrefix(t, "MAP("), strings.HasPrefix(t, "STRUCT("):
		return isContainer, nil
	case strings.HasSuffix(t, "]"):
		if strings.HasPrefix(t, "VARCHAR[") {
			return isLevels, nil
		}
		return isContainer, nil
	case strings.HasPrefix(t, "ENUM("):
		return isLevel, nil
	}
	switch t {
	case "VARCHAR", "BOOLEAN", "DATE":
		return isLevel, nil
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE":
		return isNumber, nil
	}
	if strings.HasPrefix(t, "DECIMAL(") {
		return isNumber, nil
	}
	return 0, fmt.Errorf("its type is %s; allowed: numbers, text, booleans, dates, lists and maps of features; cast it, as in %s", sqlType, "hour(ts) or ts::DATE")
}

// x is the SQL of the features: a STRUCT where the terms allow it, else a list.
// kind gives the kind of a part.
func (f *formula) x(kind func(part) (partKind, error)) (string, error) {
	var fields, lists []string
	for _, t := range f.terms {
		var levels, numbers []string
		for _, p := range t {
			k, err := kind(p)
			if err != nil {
				return "", fmt.Errorf("formula: term %s: %w", t.name(), err)
			}
			if p.factor && k == isNumber {
				k = isLevel
			}
			switch {
			case len(t) == 1 && k == isContainer:
				lists = append(lists, p.sql)
			case len(t) == 1 && k == isLevel && p.factor:
				fields = append(fields, quoteText(t.name())+": ("+p.sql+")::VARCHAR")
			case len(t) == 1:
				fields = append(fields, quoteText(t.name())+": "+p.sql)
			case k == isLevel:
				levels = append(levels, `replace(replace((`+p.sql+`)::VARCHAR, '\', '\\'), ':', '\:')`)
			case k == isNumber:
				numbers = append(numbers, "("+p.sql+")::DOUBLE")
			default:
				return "", fmt.Errorf("formula: term %s: %s holds several features; allowed in an interaction: numbers and levels", t.name(), p.name)
			}
		}
		level, number := strings.Join(levels, " || ':' || "), strings.Join(numbers, " * ")
		switch {
		case len(t) == 1:
		case number == "":
			fields = append(fields, quoteText(t.name())+": "+level)
		case level == "":
			fields = append(fields, quoteText(t.name())+": "+number)
		default:
			lists = append(lists, fmt.Sprintf("[{'feature': %s || %s, 'value': %s}]", quoteText(t.name()+"="), level, number))
		}
	}
	if len(lists) == 0 && len(fields) == 0 {
		return "[]::VARCHAR[]", nil // the intercept alone
	}
	whole := "{" + strings.Join(fields, ", ") + "}"
	switch {
	case len(lists) == 0:
		return whole, nil
	case len(lists) == 1 && len(fields) == 0:
		return lists[0], nil
	}
	for i := range lists {
		lists[i] = "bglm_features(" + lists[i] + ")"
	}
	if len(fields) > 0 {
		lists = append([]string{"bglm_features(" + whole + ")"}, lists...)
	}
	out := lists[0]
	for _, l := range lists[1:] {
		out = "list_concat(" + out + ", " + l + ")"
	}
	return out, nil
}
