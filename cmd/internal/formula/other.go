package formula

import (
	"fmt"
	"strings"
)

// others are functions of R and patsy that SQL does not have, and what to write of their
// first argument, _, instead.
var others = []struct{ names, write string }{
	{"poly", "its powers, as in _ + I(_^2) + I(_^3)"},
	{"bs ns cr rcs s te ti lo spline", "bends where they are to be, as in _ + I(greatest(_ - 10, 0)), or steps, as in factor(floor(_ / 10))"},
	{"scale center standardize", "_: numbers are centred and scaled inside (option standardize)"},
	{"cut", "its steps, as in factor(floor(_ / 10))"},
	{"ordered relevel", "factor(_): each level has a weight of its own, none is the reference"},
	{"as.numeric", "I(_::DOUBLE)"},
}

// instead is an error that says what to write where sql is a call of one of others, or a
// factor of more than a column.
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
	if strings.ToUpper(name) == "LOG" && len(args) == 1 { // of R the natural one
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

// DecimalLog is what stands in log( ) where that is all of sql: R's log is the natural one, that of SQL
// is not, which as the logarithm of an exposure would be a wrong offset and no error.
func DecimalLog(sql string) (inner string, ok bool) {
	sql = strings.TrimSpace(sql)
	name, _, _ := strings.Cut(sql, "(")
	if inner, ok = call(sql, name); !ok || strings.ToUpper(name) != "LOG" {
		return "", false
	}
	args, err := SplitArgs(inner)
	return inner, err == nil && len(args) == 1
}
