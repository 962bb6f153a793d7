package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// rowKeys are the options that may be columns.
var rowKeys = option.RowFields()

// optionSQL is the SQL of an option's value: numbers, true and false, quotations,
// and brackets as they stand, other words as text.
func optionSQL(key, value string) string {
	v := strings.TrimSpace(value)
	_, notNumber := strconv.ParseFloat(v, 64)
	switch low := strings.ToLower(v); {
	case low == "null" && option.Of(key) != nil && slices.Contains(option.Of(key).Words(), low):
		return quoteText(v)
	case slices.Contains(rowKeys, key), low == "true", low == "false", low == "null", v == "":
		return v
	case notNumber == nil && low != "inf" && low != "nan" && !strings.ContainsAny(low, "xp_"):
		return v
	case strings.HasPrefix(v, "'"), strings.HasPrefix(v, "["), strings.HasPrefix(v, "{"), strings.HasPrefix(v, "("),
		strings.HasPrefix(low, "map"):
		return v
	}
	return quoteText(v)
}

var optionForm = regexp.MustCompile(`^[A-Za-z_]+$`)

func parseOptionFlags(flags []string) ([][2]string, error) {
	var out [][2]string
	for _, f := range flags {
		key, value, ok := strings.Cut(f, "=")
		key = option.Canonical(strings.TrimSpace(key))
		if !ok || !optionForm.MatchString(key) {
			return nil, usageError{fmt.Errorf("--option %q: allowed: key=value, such as link=probit", f)}
		}
		if p := option.Of(key); p != nil && p.Flag != "" {
			return nil, usageError{fmt.Errorf("--option %s: give %s", key, p.Flag)}
		}
		if slices.ContainsFunc(out, func(o [2]string) bool { return o[0] == key }) {
			return nil, usageError{fmt.Errorf("--option %s is there twice", key)}
		}
		out = append(out, [2]string{key, value})
	}
	return out, nil
}

// settings decodes constants among option flags without a function of SQL to take them:
// their values are those of the SQL that it would be given.
func (s *session) settings(specs option.Specs, flags [][2]string) (*option.Settings, error) {
	var failed error
	out, err := specs.Decode(func(yield func(string, option.Source) bool) {
		for _, kv := range flags {
			var v option.Source
			if !slices.Contains(rowKeys, kv[0]) {
				var text []byte
				var typeName string
				if failed = s.row("SELECT typeof(v), to_json(v)::VARCHAR FROM (SELECT "+optionSQL(kv[0], kv[1])+" AS v)", &typeName, &text); failed == nil && text != nil {
					v = option.JSON(text, typeName)
				}
				if failed != nil {
					failed = fmt.Errorf("option %s: %w", kv[0], failed)
					return
				}
			}
			if !yield(kv[0], v) {
				return
			}
		}
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return nil, usageError{err}
	}
	return out, nil
}

// arrowTakes reports an option whose value --engine arrow does not take.
func arrowTakes(flags [][2]string) error {
	for _, kv := range flags {
		if p := option.Of(kv[0]); p != nil && p.ArrowRefuses != "" && strings.EqualFold(strings.Trim(strings.TrimSpace(kv[1]), "'"), p.ArrowRefuses) {
			return usageError{fmt.Errorf("option %s: found '%s'; %s", p.Key, p.ArrowRefuses, p.ArrowReason)}
		}
	}
	return nil
}

// methodNames are the methods that bglm fit takes: those with something to store.
func methodNames() []string {
	return engine.Names(engine.Weights, engine.Classes, engine.Process)
}

// fitOptions are the options of bglm fit, those by flags of their own left out.
func fitOptions() option.Specs {
	return slices.DeleteFunc(option.For(methodNames()...), func(p *option.Spec) bool { return p.Flag != "" })
}

// optionHelp lists the options of bglm fit, two lines each.
func optionHelp() string {
	var b strings.Builder
	methods := methodNames()
	for _, p := range fitOptions() {
		var uses []string
		for _, m := range methods {
			if strings.Contains(p.Uses, " "+m+" ") {
				uses = append(uses, m)
			}
		}
		by := strings.Join(uses, ", ")
		switch {
		case len(uses) == len(methods):
			by = "every method"
		case len(uses) > len(methods)-3:
			without := slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return slices.Contains(uses, m) })
			by = "every method but " + strings.Join(without, ", ")
		}
		fmt.Fprintf(&b, "  %-18s %s\n%21s%s; default %s; %s\n", p.Key, p.Doc, "", p.Allowed, p.Default, by)
		if p.ArrowRefuses != "" {
			fmt.Fprintf(&b, "%21snot '%s' with --engine arrow: %s\n", "", p.ArrowRefuses, p.ArrowReason)
		}
	}
	return b.String()
}
