package formula

import (
	"fmt"
	"slices"
	"strings"
)

// Resolve gives different names to terms that share one: in year + (1 | year) the number and its
// levels are two columns, called year and factor(year), if the values are numbers; if they are
// levels they are one column. kind returns the kind of a part.
func (f *Formula) Resolve(kind func(Part) (Kind, error)) error {
	for _, t := range f.Terms {
		k := slices.IndexFunc(f.single, func(s single) bool { return s.name == t.Name() && s.parts < len(t) })
		if k < 0 {
			continue
		}
		for _, p := range t[:f.single[k].parts] {
			is, err := kind(p)
			if err != nil {
				return termError(t, err)
			}
			if p.Factor || is == Level {
				return fmt.Errorf("formula: %s: %s has levels, each of which R gives a variance of its own here, and correlations; allowed: two bars, which take them for independent with one variance", f.single[k].text, p.Name)
			}
		}
	}
	both := map[string]bool{} // parts, by lower-case name, that occur as a number and as its levels
	for i, t := range f.Terms {
		for j, p := range t {
			if !p.Factor {
				continue
			}
			twin := func(q Part) bool { return !q.Factor && strings.EqualFold(q.Name, p.Name) }
			shared := slices.ContainsFunc(t, twin) // (year | year)
			for k, o := range f.Terms {
				shared = shared || k != i && alike(o, t) && slices.ContainsFunc(o, twin)
			}
			if !shared {
				continue
			}
			k, err := kind(p)
			if err != nil {
				return termError(t, err)
			}
			if k == Number {
				both[strings.ToLower(p.Name)] = true
			} else { // levels in both cases
				t[j].Factor = false
			}
		}
	}
	called := map[string]string{} // terms of levels by their earlier names
	var out []Term
	for _, t := range f.Terms {
		u := Term{}
		for _, p := range t {
			if p.Factor && both[strings.ToLower(p.Name)] {
				p.Name = "factor(" + p.Name + ")"
			}
			u = u.cross(Term{p})
		}
		if u.Name() != t.Name() {
			called[t.Name()] = u.Name()
		}
		if !slices.ContainsFunc(out, u.same) {
			out = append(out, u)
		}
	}
	f.Terms = out
	renamed := func(set []string) []string {
		set = slices.Clone(set)
		for j, name := range set {
			if to, ok := called[name]; ok {
				set[j] = to
			}
		}
		return set
	}
	for k, set := range f.Correlated {
		f.Correlated[k] = renamed(set)
	}
	f.Learnt = renamed(f.Learnt)
	return nil
}

// alike reports whether two terms have the same name, in any order of their parts.
func alike(a, b Term) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p Part) bool {
		return !slices.ContainsFunc(b, func(q Part) bool { return strings.EqualFold(q.Name, p.Name) })
	})
}
