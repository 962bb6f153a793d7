// Package sqltest holds the SQL tests of bglm's functions: text files of statements with the rows
// or errors that they must give, and the parser and comparison of the format, which README.md
// describes. The tests of this package run the files in a Go program; clients/run.mjs runs the same
// files through the loadable extension in DuckDB's Node client.
package sqltest

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Kind is the expected outcome of a block.
type Kind int

// The kinds of blocks.
const (
	OK    Kind = iota // the statement succeeds
	Error             // the statement fails with a message that Pattern matches
	Query             // the statement returns Rows
)

// DefaultRTol is the default relative tolerance of numbers: a few thousand rounding errors, far
// below the error of a wrong formula.
const DefaultRTol = 1e-9

// Block is one statement and its expected outcome.
type Block struct {
	Line       int // of the block's first line, from 1
	Kind       Kind
	SQL        string
	Pattern    *regexp.Regexp // Error
	Rows       []string       // Query: cells separated by tabs
	RTol, ATol float64        // Query
	Sort       bool           // Query: compare as a set, rows sorted by text
}

// File is a parsed test file.
type File struct {
	Path   string
	Only   string // "embedded", "clients" or "" for both
	Blocks []Block
}

// Parse reads a test file. Errors name the file and the line.
func Parse(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path}
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); {
		at := i + 1
		comment, ok := strings.CutPrefix(lines[i], "#")
		switch {
		case strings.TrimSpace(lines[i]) == "":
			i++
		case ok:
			err = f.directive(strings.Fields(comment), at)
			i++
		default:
			i, err = f.block(lines, i)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, at, err)
		}
	}
	return f, nil
}

// directive interprets the words of a comment, most of which are not directives.
func (f *File) directive(w []string, line int) error {
	switch {
	case len(w) == 2 && w[0] == "threads":
		if _, err := strconv.Atoi(w[1]); err != nil {
			return fmt.Errorf("threads: found %q, allowed is a whole number", w[1])
		}
		f.Blocks = append(f.Blocks, Block{Line: line, Kind: OK, SQL: "SET threads = " + w[1]})
	case len(w) == 2 && w[0] == "only":
		if w[1] != "embedded" && w[1] != "clients" {
			return fmt.Errorf("only: found %q, allowed is embedded or clients", w[1])
		}
		f.Only = w[1]
	case len(w) == 2 && (w[0] == "from" || w[0] == "to"):
		if !regexp.MustCompile(`^1\.\d+$`).MatchString(w[1]) {
			return fmt.Errorf("%s: found %q, allowed is a release of DuckDB such as 1.4", w[0], w[1])
		}
	}
	return nil
}

// block reads the block that begins at lines[i], and returns where it ends.
func (f *File) block(lines []string, i int) (end int, err error) {
	b := Block{Line: i + 1, RTol: DefaultRTol}
	if err := b.begin(lines[i]); err != nil {
		return 0, err
	}
	var sql []string
	for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "" && lines[i] != "----"; i++ {
		sql = append(sql, lines[i])
	}
	if b.SQL = strings.Join(sql, "\n"); b.SQL == "" {
		return 0, errors.New("the block has no SQL")
	}
	if hasRows := i < len(lines) && lines[i] == "----"; hasRows != (b.Kind == Query) {
		return 0, errors.New("a query, and nothing else, needs a line ---- and the rows it gives")
	}
	if b.Kind == Query {
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
			b.Rows = append(b.Rows, lines[i])
		}
	}
	f.Blocks = append(f.Blocks, b)
	return i, nil
}

// begin reads the first line of a block.
func (b *Block) begin(line string) (err error) {
	switch words := strings.Fields(line); {
	case line == "statement ok":
	case strings.HasPrefix(line, "statement error "):
		b.Kind = Error
		b.Pattern, err = regexp.Compile(strings.TrimPrefix(line, "statement error "))
		return err
	case words[0] == "query":
		b.Kind = Query
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			x, err := strconv.ParseFloat(value, 64)
			switch {
			case w == "sort":
				b.Sort = true
			case key == "rtol" && err == nil:
				b.RTol = x
			case key == "atol" && err == nil:
				b.ATol = x
			default:
				return fmt.Errorf("found %q; allowed after query: rtol=X, atol=X, sort", w)
			}
		}
	default:
		return fmt.Errorf("found %q; a block begins with statement ok, statement error REGEX or query", line)
	}
	return nil
}

// Cell prints a value in the form in which results are compared: NULL, true and false, numbers,
// text with tabs and newlines escaped, (empty) for empty text. Errors: a value of another type,
// which the query must cast to VARCHAR.
func Cell(v any) (string, error) {
	switch x := v.(type) {
	case nil:
		return "NULL", nil
	case bool:
		return strconv.FormatBool(x), nil
	case int8, int16, int32, int64, int, uint8, uint16, uint32, uint64:
		return fmt.Sprint(x), nil
	case *big.Int:
		return x.String(), nil
	case float32:
		return number(float64(x)), nil
	case float64:
		return number(x), nil
	case string:
		if x == "" {
			return "(empty)", nil
		}
		return strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(x), nil
	}
	return "", fmt.Errorf("a value of Go type %T: cast it to VARCHAR in the query", v)
}

func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// Same reports whether a cell is as wanted: equal text, or equal except for numbers that are each
// within atol + rtol*|want|. Digits inside a word (x1, #12) are text.
func Same(got, want string, rtol, atol float64) bool {
	if got == want {
		return true
	}
	g, w := tokens(got), tokens(want)
	if len(g) != len(w) {
		return false
	}
	for i := range w {
		if g[i].text == w[i].text {
			continue
		}
		if !g[i].number || !w[i].number {
			return false
		}
		a, _ := strconv.ParseFloat(g[i].text, 64)
		b, _ := strconv.ParseFloat(w[i].text, 64)
		if !(math.Abs(a-b) <= atol+rtol*math.Abs(b)) {
			return false
		}
	}
	return true
}

type token struct {
	text   string
	number bool
}

var numberAt = regexp.MustCompile(`^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?`)

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '#' || c >= 0x80
}

// tokens splits a cell into numbers, words and single other bytes.
func tokens(s string) []token {
	var out []token
	for i := 0; i < len(s); {
		signed := i == 0 || strings.IndexByte(" [({,:=\t", s[i-1]) >= 0
		if c := s[i]; c >= '0' && c <= '9' || signed && (c == '-' || c == '+' || c == '.') {
			if m := numberAt.FindString(s[i:]); m != "" && (i+len(m) == len(s) || !wordByte(s[i+len(m)])) {
				out = append(out, token{m, true})
				i += len(m)
				continue
			}
		}
		j := i + 1
		if wordByte(s[i]) {
			for j < len(s) && wordByte(s[j]) {
				j++
			}
		}
		out = append(out, token{s[i:j], false})
		i = j
	}
	return out
}
