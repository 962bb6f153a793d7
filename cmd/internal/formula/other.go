package formula

import (
	"fmt"
	"strings"
)

// others are functions of R and patsy that SQL lacks, and what to write instead, with _ for their
// first argument.
var others = []struct{ names, write string }{
	{"poly", "its powers, as in _ + I(_^2) + I(_^3)"},
	{"bs ns cr rcs s te ti lo spline", "bends where they are to be, as in _ + I(greatest(_ - 10, 0)), or steps, as in factor(floor(_ / 10))"},
	{"scale center standardize", "_: numbers are centred and scaled inside (option standardize)"},
	{"cut", "its steps, as in factor(floor(_ / 10))"},
	{"ordered relevel", "factor(_): each level has a weight of its own, none is the reference"},
	{"as.numeric", "I(_::DOUBLE)"},
}

// instead is an error that says what to write if sql is a call of one of others, or a factor of
// more than a column.
func instead(sql string) error {
	name, _, ok := strings.Cut(sql, "(")
	inner, is := call(sql, name)
	if !ok || !is {
		return nil
	}
	args, err := SplitArgs(inner)
	if err != nil || len(args) == 0 {
		return nil
	}
	if (name == "C" || name == "factor" || name == "as.factor") && len(args) > 1 {
		return fmt.Errorf("%s takes the column alone, as in %s(%s): each level has a weight of its own, none is the reference", name, name, args[0])
	}
	if strings.ToUpper(name) == "LOG" && len(args) == 1 { // in R the natural logarithm
		return fmt.Errorf("log in SQL is the logarithm to base 10; write ln(%s), or log10(%[1]s)", args[0])
	}
	for _, o := range others {
		for _, n := range strings.Fields(o.names) {
			if n == name {
				return fmt.Errorf("there is no %s; write %s", name, strings.ReplaceAll(o.write, "_", args[0]))
			}
		}
	}
	return nil
}

// DecimalLog is the argument of log( ) if that is all of sql: in R it is the natural logarithm, in
// SQL it is not, which for the logarithm of an exposure would give a wrong offset and no error.
func DecimalLog(sql string) (inner string, ok bool) {
	sql = strings.TrimSpace(sql)
	name, _, _ := strings.Cut(sql, "(")
	if inner, ok = call(sql, name); !ok || strings.ToUpper(name) != "LOG" {
		return "", false
	}
	args, err := SplitArgs(inner)
	return inner, err == nil && len(args) == 1
}

// CheckLogs returns an error if log( ) occurs in an expression of f: R's is the natural logarithm,
// with the base after the number, SQL's is the decimal one, with the base before it.
func (f *Formula) CheckLogs() error {
	all := append([]string{f.Y, f.Trials}, f.Offset...)
	for _, t := range f.Terms {
		for _, p := range t {
			all = append(all, p.SQL)
		}
	}
	for _, t := range f.without {
		for _, p := range t {
			all = append(all, p.SQL)
		}
	}
	for _, sql := range all {
		switch args := logOf(sql); len(args) {
		case 1:
			return fmt.Errorf("formula %q: log in SQL is the logarithm to base 10; write ln(%s), or log10(%[2]s)", f.text, args[0])
		case 2:
			return fmt.Errorf("formula %q: log(%s, %s) in SQL is the logarithm of %[3]s to base %[2]s; write I(ln(%[2]s) / ln(%[3]s)), or I(ln(%[3]s) / ln(%[2]s))", f.text, args[0], args[1])
		}
	}
	return nil
}

// logOf are the arguments of the first call of log in sql, outside literals and quoted names.
func logOf(sql string) []string {
	const name = "log"
	for i := 0; i < len(sql); i++ {
		if c := sql[i]; c == '\'' || c == '"' {
			end := strings.IndexByte(sql[i+1:], c)
			if end < 0 {
				return nil
			}
			i += end + 1
			continue
		}
		if i > 0 && isWord(sql[i-1]) || len(sql) < i+len(name) || !strings.EqualFold(sql[i:i+len(name)], name) {
			continue
		}
		rest := strings.TrimLeft(sql[i+len(name):], " \t\r\n")
		if !strings.HasPrefix(rest, "(") {
			continue
		}
		n, err := balanced(rest)
		if err != nil {
			return nil
		}
		if args, err := SplitArgs(rest[1 : n-1]); err == nil {
			return args
		}
	}
	return nil
}
