// Package formula parses models in the notation of R and writes the SQL of their features.
package formula

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/cmd/internal/quote"
)

// Formula is a model in the notation of R: response ~ terms.
//
//	delay > 15 ~ origin + destination + hour(date) + origin:destination - 1
//
// The response and the arguments of functions are SQL. + adds terms, - removes them, a:b is an
// interaction, a*b is a + b + a:b, (a + b)^2 all terms up to that order, 1 and 0 (or - 1) the
// intercept and none, . all other columns, also in .^2 or .:g, offset(e) a known part of the linear
// predictor, I(e) an SQL expression, factor(e) one whose values are levels even if they are
// numbers, and cbind(s, f) ~ ... counts of successes and failures.
//
// (1 | g) is the column of levels g with a learnt prior variance, (1 | a/b) those of a and of b
// within a, (0 + x | g) a slope of x for each level of g, (x | g) both, correlated, and (x || g)
// both, independent. The levels of a number that is also a term are a separate column: factor(year)
// in year + (1 | year).
type Formula struct {
	Y, Trials string // SQL
	Terms     []Term
	Offset    []string
	Intercept bool
	Dot       bool // there was a . among the terms
	Random    bool // there was a term in bars: prior variances are to be learnt
	// Bars are those terms as written, Paired those with correlated weights.
	Bars, Paired []string
	// Correlated are the names of terms whose weights for one level are correlated, Learnt those of
	// all terms in bars, whose prior variances are learnt.
	Correlated [][]string
	Learnt     []string
	Others     []string // the columns that . stands for, after Bind
	without    []Term
	single     []single
	text       string // as written
}

// single is a slope alone before a single bar: the term in bars as written, the name of the
// interaction with its group, and how many parts of that belong to the slope.
type single struct {
	text, name string
	parts      int
}

// Term is a part, or the interaction of several parts.
type Term []Part

// Part is a factor of a term: a column, or an SQL expression.
type Part struct {
	Name string // as written
	SQL  string
	// Column is set if the part is a plain name.
	Column bool
	Factor bool // its values are levels even if they are numbers
}

// Name is the term as written, in the order of its parts.
func (t Term) Name() string {
	var names []string
	for _, p := range t {
		names = append(names, p.Name)
	}
	return strings.Join(names, ":")
}

func (t Term) same(o Term) bool {
	return len(t) == len(o) && !slices.ContainsFunc(t, func(p Part) bool { return !o.has(p) })
}

func (t Term) has(p Part) bool {
	return slices.ContainsFunc(t, func(q Part) bool { return q.Name == p.Name && q.Factor == p.Factor })
}

// cross is the interaction of two terms; repeated parts count once.
func (t Term) cross(o Term) Term {
	out := slices.Clone(t)
	for _, p := range o {
		if !out.has(p) {
			out = append(out, p)
		}
	}
	return out
}

// Parse parses a formula; its errors quote it. A dot has no meaning until Bind.
func Parse(text string) (*Formula, error) { return parse(text, nil) }

// parse is Parse with the terms that a dot stands for.
func parse(written string, dot []Term) (f *Formula, err error) {
	fail := func(err error) (*Formula, error) { return nil, fmt.Errorf("formula %q: %w", written, err) }
	text, err := quoted(written)
	if err != nil {
		return fail(err)
	}
	at, err := topLevel(text, '~')
	if err != nil {
		return fail(err)
	}
	if at < 0 {
		return fail(fmt.Errorf("no ~ between the response and the terms"))
	}
	f = &Formula{Y: strings.TrimSpace(text[:at]), Intercept: true, text: written}
	if f.Y == "" {
		return fail(fmt.Errorf("nothing stands before the ~"))
	}
	if inner, ok := call(f.Y, "I"); ok {
		f.Y = "(" + inner + ")"
	}
	if err := instead(f.Y); err != nil {
		return fail(err)
	}
	if inner, ok := call(f.Y, "cbind"); ok {
		args, err := SplitArgs(inner)
		if err != nil || len(args) != 2 {
			return fail(fmt.Errorf("cbind takes the successes and the failures"))
		}
		f.Y, f.Trials = args[0], "("+args[0]+") + ("+args[1]+")"
	}
	p := &parser{text: text[at+1:], f: f, dot: dot}
	terms, err := p.sum()
	if err == nil && p.peek() != 0 {
		err = p.unexpected()
	}
	if err != nil {
		return fail(err)
	}
	f.Terms = terms
	if len(f.Terms) == 0 && !f.Dot && !f.Intercept {
		return fail(fmt.Errorf("no terms"))
	}
	return f, nil
}

type parser struct {
	text string
	at   int
	f    *Formula
	dot  []Term // what . stands for
	part string // what atom has just read, if it is not a term: an offset, 1 or 0
}

func (p *parser) peek() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) unexpected() error {
	rest := p.text[p.at:]
	if rest == "" {
		return fmt.Errorf("it ends where a term is expected")
	}
	why := ""
	switch {
	case rest[0] == '/':
		why = "; slopes or levels of b within a, in R a/b, are a + a:b"
	case strings.HasPrefix(rest, "%in%"):
		why = "; b within a, in R b %in% a, is a:b"
	}
	return fmt.Errorf("unexpected %.20q; an SQL expression with operators goes into I( ), as in I(distance / 1000)%s", rest, why)
}

// sum reads terms joined by + and -.
func (p *parser) sum() ([]Term, error) {
	var out []Term
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
				p.f.without = append(p.f.without, t) // a dot may add it again
			case !minus && k < 0:
				out = append(out, t)
			}
			if len(out) > maxTerms {
				return nil, fmt.Errorf("more than %d terms; allowed without a limit: columns as they are, without a formula: --y y --x 'struct_pack(*COLUMNS(* EXCLUDE (y)))'", maxTerms)
			}
		}
	}
}

// product reads a*b, which is a + b + a:b.
func (p *parser) product(minus bool) ([]Term, error) {
	out, err := p.interaction(minus)
	for err == nil && p.peek() == '*' {
		left := p.part
		p.at++
		var right []Term
		if right, err = p.interaction(minus); err == nil {
			err = uncrossed(left, p.part)
			out = append(append(slices.Clone(out), right...), crossAll(out, right)...)
		}
	}
	return out, err
}

func crossAll(a, b []Term) []Term {
	var out []Term
	for _, s := range a {
		for _, t := range b {
			if c := s.cross(t); len(out) <= maxTerms && !slices.ContainsFunc(out, c.same) {
				out = append(out, c)
			}
		}
	}
	return out
}

const maxTerms = 5000 // more terms are an error

func (p *parser) interaction(minus bool) ([]Term, error) {
	out, err := p.power(minus)
	for err == nil && p.peek() == ':' {
		left := p.part
		p.at++
		var right []Term
		if right, err = p.power(minus); err == nil {
			err = uncrossed(left, p.part)
			out = crossAll(out, right)
		}
	}
	return out, err
}

// uncrossed rejects interactions of parts that are not terms.
func uncrossed(parts ...string) error {
	for _, part := range parts {
		if part != "" {
			return fmt.Errorf("%s has no interactions; allowed: terms", part)
		}
	}
	return nil
}

func (p *parser) power(minus bool) ([]Term, error) {
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
	if n > 1 && len(out) == 1 && len(out[0]) == 1 {
		x := out[0].Name()
		return nil, fmt.Errorf("%s^%d is %s itself, as in R, where ^ crosses terms; write I(%s^%d) for the power", x, n, x, x, n)
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

// atom reads a name, a function call, a number that stands for the intercept, or terms in
// parentheses.
func (p *parser) atom(minus bool) ([]Term, error) {
	c := p.peek()
	p.part = ""
	switch {
	case c == '(' && p.barred() > 0:
		return p.random(minus)
	case c == '(':
		p.at++
		out, err := p.sum()
		if err == nil && p.peek() != ')' {
			err = p.unexpected()
		}
		p.at++
		if len(out) > 0 {
			p.part = "" // (a + b - 1) consists of terms
		}
		return out, err
	case c == '0' || c == '1':
		if p.at+1 < len(p.text) && isWord(p.text[p.at+1]) {
			break
		}
		p.at++
		p.f.Intercept = (c == '1') != minus
		p.part = string(c)
		return nil, nil
	case c == '.':
		p.at++
		if minus {
			return nil, fmt.Errorf("- . takes everything away")
		}
		p.f.Dot = true
		return slices.Clone(p.dot), nil
	case c == '"' || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80:
		return p.expression(minus)
	}
	return nil, p.unexpected()
}

// expression reads a name and what follows it: a call, a cast, an index.
func (p *parser) expression(minus bool) ([]Term, error) {
	lo := p.at
	var q Part
	if p.text[p.at] == '"' {
		n, err := name(p.text[p.at:])
		if err != nil {
			return nil, err
		}
		q.Name = strings.ReplaceAll(p.text[p.at+1:p.at+n-1], `""`, `"`)
		p.at += n
		q.SQL, q.Column = quote.Name(q.Name), true
	} else {
		for p.at < len(p.text) && isWord(p.text[p.at]) {
			p.at++
		}
		q.Name = p.text[lo:p.at]
		q.SQL, q.Column = q.Name, true
	}
	for more := true; more; {
		rest := p.text[p.at:]
		switch {
		case strings.HasPrefix(rest, "("), strings.HasPrefix(rest, "["):
			n, err := balanced(rest)
			if err != nil {
				return nil, err
			}
			q.SQL += rest[:n]
			p.at += n
		case strings.HasPrefix(rest, "::"):
			n := 2
			for n < len(rest) && isWord(rest[n]) {
				n++
			}
			if n == 2 {
				return nil, fmt.Errorf("'::' needs a type after it")
			}
			q.SQL += rest[:n]
			p.at += n
		default:
			more = false
			continue
		}
		q.Column, q.Name = false, strings.Join(strings.Fields(p.text[lo:p.at]), " ")
	}
	if err := instead(q.SQL); err != nil {
		return nil, err
	}
	for _, name := range []string{"factor", "C", "as.factor"} {
		if inner, ok := call(q.SQL, name); ok {
			q.SQL, q.Factor = inner, true
		}
	}
	if inner, ok := call(q.SQL, "I"); ok {
		q.SQL = "(" + inner + ")"
	}
	if inner, ok := call(q.SQL, "offset"); ok {
		if minus {
			return nil, fmt.Errorf("an offset cannot be taken away")
		}
		if e, ok := DecimalLog(inner); ok {
			return nil, fmt.Errorf("log in SQL is the logarithm to base 10; write offset(ln(%s))", e)
		}
		p.f.Offset = append(p.f.Offset, inner)
		p.part = q.SQL
		return nil, nil
	}
	return []Term{{q}}, nil
}
