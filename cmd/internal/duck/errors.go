package duck

import (
	"regexp"
	"strings"
)

var csvLine = regexp.MustCompile(`CSV Error on Line: (\d+)`)

// reworded is an error with a clearer text.
type reworded struct {
	text string
	err  error
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.err }

// Reword returns an error with a clearer text, which wraps err.
func Reword(err error, text string) error { return &reworded{text, err} }

// AboutSQL reports whether a message blames the text of a query, not the files.
func AboutSQL(msg string) bool {
	return strings.HasPrefix(msg, "Binder Error") || strings.HasPrefix(msg, "Parser Error") || strings.HasPrefix(msg, "Catalog Error")
}

// Plainly removes from DuckDB's message its stack trace, and the SQL of a statement that the user
// did not write.
func Plainly(err error) error {
	msg := err.Error()
	if i := strings.Index(msg, "INTERNAL Error:"); i >= 0 {
		what, _, _ := strings.Cut(strings.TrimSpace(msg[i+len("INTERNAL Error:"):]), "\n")
		return Reword(err, msg[:i]+"damaged, or a fault of DuckDB, which says: "+what)
	}
	if strings.Contains(msg, "This file is not utf-8 encoded") {
		where := ""
		if m := csvLine.FindStringSubmatch(msg); m != nil {
			where = "line " + m[1] + " is "
		}
		return Reword(err, where+"not UTF-8; allowed: UTF-8, as iconv -f LATIN1 -t UTF-8 makes of a file from Western Europe")
	}
	if i := strings.Index(msg, "\n\nLINE 1: "); i > 0 && !AboutSQL(msg) {
		return Reword(err, strings.TrimSpace(msg[:i]))
	}
	return err
}
