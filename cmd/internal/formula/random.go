package formula

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/quote"
)

// barred is the length of the parentheses that begin here if they contain a bar, as in (1 | g),
// else 0.
func (p *parser) barred() int {
	n, err := balanced(p.text[p.at:])
	if err != nil {
		return 0
	}
	if at, err := topLevel(p.text[p.at+1:p.at+n-1], '|'); err != nil || at < 0 {
		return 0
	}
	return n
}

// random reads (1 | g), (0 + x | g), (x | g) or (x || g): terms whose variance is learnt, and with
// a single bar between several also their correlations. Levels of numbers are factors.
func (p *parser) random(minus bool) ([]Term, error) {
	text := p.text[p.at : p.at+p.barred()]
	fail := func(why string) ([]Term, error) { return nil, fmt.Errorf("%s %s", text, why) }
	if minus {
		return fail("cannot be taken away")
	}
	p.at += len(text)
	inner := text[1 : len(text)-1]
	bar, _ := topLevel(inner, '|')
	left, right := inner[:bar], inner[bar+1:]
	apart := strings.HasPrefix(right, "|")
	right = strings.TrimPrefix(right, "|")
	slopes, intercept, err := subterms(left)
	if err != nil {
		return fail("before its bar: " + err.Error())
	}
	groups, err := nested(right)
	if err != nil {
		return fail("behind its bar: " + err.Error())
	}
	p.f.Random = true
	p.f.Bars = append(p.f.Bars, text)
	var out []Term
	for _, g := range groups {
		var set []string
		add := func(t Term) {
			out, set = append(out, t), append(set, t.Name())
			if !slices.Contains(p.f.Learnt, t.Name()) {
				p.f.Learnt = append(p.f.Learnt, t.Name())
			}
		}
		if intercept {
			add(g)
		}
		for _, s := range slopes {
			add(s.cross(g))
		}
		if len(set) == 1 && !intercept && !apart {
			p.f.single = append(p.f.single, single{text, set[0], len(slopes[0])})
		}
		if len(set) < 2 || apart {
			continue
		}
		for _, other := range p.f.Correlated {
			for _, name := range set {
				if slices.Contains(other, name) {
					return fail("correlates " + name + ", which another term correlates too")
				}
			}
		}
		p.f.Correlated = append(p.f.Correlated, set)
		if !slices.Contains(p.f.Paired, text) {
			p.f.Paired = append(p.f.Paired, text)
		}
	}
	return out, nil
}

// CorrelatedSQL is Correlated as an option in SQL, "" for none.
func (f *Formula) CorrelatedSQL() string {
	if len(f.Correlated) == 0 {
		return ""
	}
	var sets []string
	for _, set := range f.Correlated {
		var names []string
		for _, name := range set {
			names = append(names, quote.Text(name))
		}
		sets = append(sets, "["+strings.Join(names, ", ")+"]")
	}
	return "[" + strings.Join(sets, ", ") + "]"
}

// subterms are the terms of a separate sum, and whether it has an intercept.
func subterms(text string) ([]Term, bool, error) {
	q := &parser{text: text, f: &Formula{Intercept: true}}
	terms, err := q.sum()
	if err == nil && q.peek() != 0 {
		err = q.unexpected()
	}
	if err == nil && (q.f.Dot || len(q.f.Offset) > 0 || q.f.Random) {
		err = errors.New("allowed: 1, 0 and names")
	}
	return terms, q.f.Intercept, err
}

// nested reads g, a:b, or a/b, which is a + a:b; all parts are factors.
func nested(text string) (out []Term, err error) {
	var within Term
	for {
		at, err := topLevel(text, '/')
		if err != nil {
			return nil, err
		}
		part := text
		if at >= 0 {
			part, text = text[:at], text[at+1:]
		}
		terms, _, err := subterms(part)
		if err != nil {
			return nil, err
		}
		if len(terms) != 1 {
			return nil, fmt.Errorf("found %q; allowed: a column, a:b or a/b", strings.TrimSpace(part))
		}
		t := slices.Clone(terms[0])
		for k := range t {
			t[k].Factor = true
		}
		within = within.cross(t)
		out = append(out, within)
		if at < 0 {
			return out, nil
		}
	}
}
