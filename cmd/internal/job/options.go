package job

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/formula"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
)

// RowKeys are the options that may be columns.
var RowKeys = option.RowFields()

// OptionSQL is the SQL of an option's value: numbers, true and false, quotations, and brackets
// unchanged, other words as text.
func OptionSQL(key, value string) string {
	v := strings.TrimSpace(value)
	_, notNumber := strconv.ParseFloat(v, 64)
	switch low := strings.ToLower(v); {
	case low == "null" && option.Of(key) != nil && slices.Contains(option.Of(key).Words(), low):
		return quote.Text(v)
	case slices.Contains(RowKeys, key), low == "true", low == "false", low == "null", v == "":
		return v
	case notNumber == nil && low != "inf" && low != "nan" && !strings.ContainsAny(low, "xp_"):
		return v
	case strings.HasPrefix(v, "'"), strings.HasPrefix(v, "["), strings.HasPrefix(v, "{"), strings.HasPrefix(v, "("),
		strings.HasPrefix(low, "map"):
		return v
	}
	return quote.Text(v)
}

var optionForm = regexp.MustCompile(`^[A-Za-z_]+$`)

// OptionFlags are the flags for options with a flag of their own.
var OptionFlags = map[string]string{"method": "--method NAME", "prior": "--prior FILE"}

// ParseOptions splits flags key=value into pairs, with canonical keys.
func ParseOptions(flags []string) ([][2]string, error) {
	var out [][2]string
	for _, f := range flags {
		key, value, ok := strings.Cut(f, "=")
		key = option.Canonical(strings.TrimSpace(key))
		if !ok || !optionForm.MatchString(key) {
			hint := ""
			if !ok && path.Ext(f) != "" {
				hint = "; -o is not --out FILE, which names a file to write"
			}
			return nil, cli.Usage(fmt.Errorf("--option %q: allowed: key=value, such as link=probit%s", f, hint))
		}
		if strings.TrimSpace(value) == "" {
			return nil, cli.Usage(fmt.Errorf("--option %s has no value; allowed: %[1]s=VALUE, or no --option %[1]s", key))
		}
		if own := OptionFlags[key]; own != "" {
			return nil, cli.Usage(fmt.Errorf("--option %s: give %s", key, own))
		}
		if option.Of(key) == nil {
			_, err := FitOptions().Find(key)
			return nil, cli.Usage(err)
		}
		if e, ok := formula.DecimalLog(value); ok && key == "offset" {
			return nil, cli.Usage(fmt.Errorf("--option offset=%s: log in SQL is the logarithm to base 10; write offset=ln(%s), or offset=log10(%[2]s)", value, e))
		}
		if slices.ContainsFunc(out, func(o [2]string) bool { return o[0] == key }) {
			return nil, cli.Usage(fmt.Errorf("--option %s is there twice", key))
		}
		out = append(out, [2]string{key, value})
	}
	return out, nil
}

// ReadOptions is ParseOptions for a session, which checks that the SQL of each value is a constant,
// but for those that may be columns.
func ReadOptions(s *duck.Session, flags []string) ([][2]string, error) {
	opts, err := ParseOptions(flags)
	if err != nil {
		return nil, err
	}
	for _, o := range opts {
		sql := OptionSQL(o[0], o[1])
		if slices.Contains(RowKeys, o[0]) || !strings.ContainsAny(sql, "'{[(") || sql == quote.Text(strings.TrimSpace(o[1])) {
			continue
		}
		if _, err := s.Describe("SELECT (" + sql + ") AS v"); err != nil {
			return nil, valueError(o, err)
		}
	}
	return opts, nil
}

// valueError is the error about a value that is no SQL, without the statement, which the user did
// not write.
func valueError(o [2]string, err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	_, after, told := strings.Cut(text, " Error: ")
	if told {
		text = after
	}
	return cli.Usage(duck.Reword(err, fmt.Sprintf("--option %s: %s is no constant of SQL (%s); text inside brackets has quotation marks, as in {origin: 'auto'}", o[0], strings.TrimSpace(o[1]), text)))
}

// Settings decodes constants among option flags without calling an SQL function: their values are
// those of the SQL that the function would get.
func Settings(s *duck.Session, specs option.Specs, flags [][2]string) (*option.Settings, error) {
	var failed error
	out, err := specs.Decode(func(yield func(string, option.Source) bool) {
		for _, kv := range flags {
			var v option.Source
			if !slices.Contains(RowKeys, kv[0]) {
				var text []byte
				var typeName string
				if failed = s.Row("SELECT typeof(v), to_json(v)::VARCHAR FROM (SELECT "+OptionSQL(kv[0], kv[1])+" AS v)", &typeName, &text); failed == nil && text != nil {
					v = option.JSON(text, typeName)
				}
				if failed != nil {
					failed = fmt.Errorf("--option %s: %w", kv[0], failed)
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
		return nil, cli.Usage(err)
	}
	return out, nil
}

// arrowAccepts reports an option whose value --engine arrow rejects.
func arrowAccepts(flags [][2]string) error {
	for _, kv := range flags {
		p, value := option.Of(kv[0]), strings.ToLower(strings.Trim(strings.TrimSpace(kv[1]), "'"))
		if p == nil || p.NotByArrow[value] == "" {
			continue
		}
		words := slices.DeleteFunc(p.Words(), func(w string) bool { return p.NotByArrow[w] != "" })
		return cli.Usage(fmt.Errorf("--option %s: found '%s'; %s; --engine arrow takes %s", p.Key, value, p.NotByArrow[value], argument.Quoted(words)))
	}
	return nil
}

// MethodNames are the methods of bglm fit: those whose result can be stored.
func MethodNames() []string {
	return append([]string{engine.Auto}, engine.Names(engine.Weights, engine.Classes, engine.Process)...)
}

// FitOptions are the options of bglm fit, without those that have a flag.
func FitOptions() option.Specs {
	return slices.DeleteFunc(option.For(MethodNames()...), func(p *option.Spec) bool { return OptionFlags[p.Key] != "" })
}
