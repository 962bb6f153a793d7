package formula

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bglm/bglm/cmd/internal/quote"
)

func isWord(c byte) bool {
	return c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// call is the argument of name( ) if that is all of sql.
func call(sql, name string) (string, bool) {
	if !strings.HasPrefix(sql, name+"(") {
		return "", false
	}
	n, err := balanced(sql[len(name):])
	if err != nil || len(name)+n != len(sql) {
		return "", false
	}
	return strings.TrimSpace(sql[len(name)+1 : len(sql)-1]), true
}

// name is the length of the double-quoted name at the beginning of s; a doubled quote stands for
// one.
func name(s string) (int, error) {
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i+1 == len(s) || s[i+1] != '"' {
			return i + 1, nil
		}
		i++
	}
	return 0, fmt.Errorf("a name %.20q does not end", s)
}

// quoted is a formula with R's names in backticks converted to double quotes.
func quoted(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\'' && c != '"' && c != '`' {
			b.WriteByte(c)
			continue
		}
		end := strings.IndexByte(s[i+1:], c)
		if end < 0 {
			return "", fmt.Errorf("a quotation %.20q does not end", s[i:])
		}
		if c == '`' {
			b.WriteString(quote.Name(s[i+1 : i+1+end]))
		} else {
			b.WriteString(s[i : i+2+end])
		}
		i += end + 1
	}
	return b.String(), nil
}

// balanced is the length of the bracketed text at the beginning of s.
func balanced(s string) (int, error) {
	var open []byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'', '"':
			end := strings.IndexByte(s[i+1:], c)
			if end < 0 {
				return 0, fmt.Errorf("a quotation %.20q does not end", s[i:])
			}
			i += end + 1
		case '(', '[', '{':
			open = append(open, c)
		case ')', ']', '}':
			want := map[byte]byte{')': '(', ']': '[', '}': '{'}[c]
			if len(open) == 0 || open[len(open)-1] != want {
				return 0, fmt.Errorf("%c without its partner", c)
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return i + 1, nil
			}
		}
	}
	return 0, fmt.Errorf("a bracket does not close")
}

// topLevel finds c outside brackets and quotations, -1 without one.
func topLevel(s string, c byte) (int, error) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case c:
			return i, nil
		case '\'', '"':
			end := strings.IndexByte(s[i+1:], s[i])
			if end < 0 {
				return 0, fmt.Errorf("a quotation %.20q does not end", s[i:])
			}
			i += end + 1
		case '(', '[', '{':
			n, err := balanced(s[i:])
			if err != nil {
				return 0, err
			}
			i += n - 1
		}
	}
	return -1, nil
}

// SplitArgs splits at the commas outside brackets.
func SplitArgs(s string) ([]string, error) {
	var out []string
	for {
		i, err := topLevel(s, ',')
		if err != nil {
			return nil, err
		}
		if i < 0 {
			return append(out, strings.TrimSpace(s)), nil
		}
		out, s = append(out, strings.TrimSpace(s[:i])), s[i+1:]
	}
}

// unquoted is SQL without its text literals.
func unquoted(sql string) string {
	var out strings.Builder
	for {
		at := strings.IndexAny(sql, `'"`)
		if at < 0 {
			return out.String() + sql
		}
		n := strings.IndexByte(sql[at+1:], sql[at]) + at + 2 // a doubled quote begins another
		if n < at+2 {
			return out.String() + sql
		}
		out.WriteString(sql[:at])
		if sql[at] == '"' {
			out.WriteString(sql[at:n])
		} else {
			out.WriteByte(' ')
		}
		sql = sql[n:]
	}
}

// mentions reports whether name occurs in the SQL text as a word, outside literals.
func mentions(sql, name string) bool {
	sql = unquoted(sql)
	for i := 0; ; {
		k := strings.Index(sql[i:], name)
		if k < 0 {
			return false
		}
		i += k
		if (i == 0 || !isWord(sql[i-1])) && (i+len(name) == len(sql) || !isWord(sql[i+len(name)])) {
			return true
		}
		i++
	}
}

// FullStruct expands {a, b: e} to {a: a, b: e}.
func FullStruct(x string) string {
	x = strings.TrimSpace(x)
	if n, err := balanced(x); err != nil || n != len(x) || x[0] != '{' {
		return x
	}
	fields, err := SplitArgs(x[1 : len(x)-1])
	if err != nil {
		return x
	}
	for i, f := range fields {
		if columnName.MatchString(f) {
			fields[i] = f + ": " + f
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

var columnName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*|"[^"]+")$`)

// Bare is an expression without its AS alias.
func Bare(sql string) string {
	found := asName.FindAllStringIndex(sql, -1)
	if len(found) == 0 {
		return sql
	}
	// Inside brackets or a quotation AS is part of the expression, as in cast(a AS INT).
	i := found[len(found)-1][0]
	if _, err := topLevel(sql[:i], 0); err != nil {
		return sql
	}
	return sql[:i]
}

var asName = regexp.MustCompile(`(?i) as `)

// Column is the column name that sql consists of, quoted or not; ok is false for other expressions.
func Column(sql string) (name string, ok bool) {
	name = strings.TrimSpace(sql)
	if n := len(name); n > 1 && name[0] == '"' && name[n-1] == '"' {
		return name[1 : n-1], true
	}
	for i := range len(name) {
		if !isWord(name[i]) {
			return "", false
		}
	}
	return name, true
}
