package udf

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
)

// mixedSQL is what m says, and the SQL that makes numbers of its column.
func mixedSQL(m *kernels.Mixed) string {
	name := inSQL(m.Column)
	switch {
	case m.Days > 0:
		return fmt.Sprintf("%s: date_diff('day', DATE '2000-01-01', %s) makes a number of it, dayname(%s) or month(%s)::VARCHAR few levels", m, name, name, name)
	case m.Comma:
		return fmt.Sprintf("%s; TRY_CAST(replace(regexp_replace(%s, '[^-0-9,]', '', 'g'), ',', '.') AS DOUBLE) makes numbers of them", m, name)
	case m.Written != "":
		return fmt.Sprintf("%s; TRY_CAST(regexp_replace(%s, '[^-0-9.]', '', 'g') AS DOUBLE) makes numbers of them", m, name)
	}
	return fmt.Sprintf("%s; TRY_CAST(%s AS DOUBLE), or nullstr = '%.40s' where a CSV file is read, makes numbers of them", m, name, strings.ReplaceAll(m.Texts[0], "'", "''"))
}

// hinted is r with a status that says in SQL what to do.
func hinted(r *engine.Result, err error) (*engine.Result, error) {
	if err == nil && r.Mixed != nil {
		r.Status = strings.Replace(r.Status, r.Mixed.String(), mixedSQL(r.Mixed), 1)
	}
	return r, err
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)

// inSQL is the name of a column as SQL has it.
func inSQL(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
