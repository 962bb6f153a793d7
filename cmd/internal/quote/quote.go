// Package quote quotes names and texts for SQL, and words for a shell.
package quote

import (
	"regexp"
	"strings"
)

// Name is an identifier in double quotes, with any content.
func Name(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// Text is a text constant in single quotes; zero bytes, which would end a statement, become chr(0).
func Text(s string) string {
	out := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.ContainsRune(s, 0) {
		out = "(" + strings.ReplaceAll(out, "\x00", "' || chr(0) || '") + ")"
	}
	return out
}

var bare = regexp.MustCompile(`^[\pL\pN_.,:/@%+-]+$`)

// Shell is a word of a command for a POSIX shell, in single quotes unless it has only characters
// that mean themselves.
func Shell(s string) string {
	if bare.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Names are identifiers, separated by commas.
func Names(names []string) string { return join(names, Name) }

// NamesOf are the columns of one table, separated by commas: table."a" AS "a".
func NamesOf(table string, names []string) string {
	return join(names, func(n string) string { return table + "." + Name(n) + " AS " + Name(n) })
}

// List is a list of text constants.
func List(texts []string) string { return "[" + join(texts, Text) + "]" }

func join(words []string, as func(string) string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = as(w)
	}
	return strings.Join(out, ", ")
}
