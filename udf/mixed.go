package udf

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
)

// mixedSQL is the text of m, with the remedy in SQL.
func mixedSQL(m *kernels.Mixed) string {
	if m.Days > 0 {
		return m.String() + ": " + HowToRead(m)
	}
	return m.String() + "; " + HowToRead(m)
}

// HowToRead says in SQL how to make numbers of a column that is text or a date.
func HowToRead(m *kernels.Mixed) string {
	name := inSQL(m.Column)
	switch {
	case m.Times:
		return fmt.Sprintf("epoch(%s::TIMESTAMP) makes a number of it, hour(%s::TIMESTAMP)::VARCHAR or dayname(%s::TIMESTAMP) few levels", name, name, name)
	case m.Days > 0:
		day := name + "::DATE"
		if m.Format != "" {
			day = fmt.Sprintf("strptime(%s, '%s')", name, m.Format)
		}
		return fmt.Sprintf("date_diff('day', DATE '2000-01-01', %s) makes a number of it, dayname(%s) or month(%s)::VARCHAR few levels", day, day, day)
	case m.Comma && m.Point:
		return undressed(name, ".,", m.Sign) + " makes numbers of them, comma and point being before decimals"
	case m.Comma:
		return undressed(name, ",", m.Sign) + " makes numbers of them"
	case m.Either:
		return fmt.Sprintf("%s makes numbers of them where the comma parts thousands, %s where decimals follow it", undressed(name, ".", m.Sign), undressed(name, ",", m.Sign))
	case m.Written != "":
		return undressed(name, ".", m.Sign) + " makes numbers of them"
	case len(m.Texts) == 0:
		return fmt.Sprintf("TRY_CAST(%s AS DOUBLE) makes numbers of them", name)
	}
	return castOrNull(m) + ", makes numbers of them"
}

// undressed is an SQL expression for the number in a column's text; digits after one of marks are
// decimals. With sign set, the sign may be something other than a minus in front.
func undressed(name, marks string, sign bool) string {
	kept := "-0-9"
	if sign {
		kept = "0-9"
	}
	digits := fmt.Sprintf("regexp_replace(%s, '[^%s%s]', '', 'g')", name, kept, marks)
	if strings.Contains(marks, ",") {
		digits = "replace(" + digits + ", ',', '.')"
	}
	if sign {
		digits = fmt.Sprintf("concat(CASE WHEN regexp_matches(%s, '[-−(]') THEN '-' END, %s)", name, digits)
	}
	return "TRY_CAST(" + digits + " AS DOUBLE)"
}

// castOrNull is an SQL expression that reads numbers and makes NULLs of some texts among them.
func castOrNull(m *kernels.Mixed) string {
	texts := make([]string, len(m.Texts))
	for i, t := range m.Texts {
		texts[i] = fmt.Sprintf("'%.40s'", strings.ReplaceAll(t, "'", "''"))
	}
	null := texts[0]
	if len(texts) > 1 {
		null = "[" + strings.Join(texts, ", ") + "]"
	}
	return fmt.Sprintf("TRY_CAST(%s AS DOUBLE), or nullstr = %s where a CSV file is read", inSQL(m.Column), null)
}

// hinted is r with a status that gives the remedy in SQL.
func hinted(r *engine.Result, err error) (*engine.Result, error) {
	if err == nil && r.Mixed != nil {
		r.Status = strings.Replace(r.Status, r.Mixed.String(), mixedSQL(r.Mixed), 1)
	}
	return r, err
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)

// inSQL is the name of a column as written in SQL.
func inSQL(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
