package shell

import (
	"strings"
)

// Statement is one piece of a SQL text, which ends after a semicolon.
type Statement struct {
	// Text is the piece as it was read: blanks and comments before the
	// statement, the statement, and its semicolon.
	Text string
	// Line is the line, counted from 1, of the statement's first word. It is 0 if the piece has
	// only blanks and comments.
	Line int
	// Terminated says whether a semicolon ends the piece.
	Terminated bool
	// start is the offset of the first word in Text.
	start int
	// empty: nothing but blanks, comments and semicolons.
	empty bool
}

// Empty reports whether there is nothing to run.
func (s Statement) Empty() bool { return s.empty }

// SQL returns the statement without leading blanks and comments, and without
// its semicolon. A comment after the last word stays.
func (s Statement) SQL() string {
	if s.empty {
		return ""
	}
	t := s.Text[s.start:]
	if s.Terminated {
		t = t[:len(t)-1]
	}
	return t
}

// lexState is what the splitter is currently inside of.
type lexState int

const (
	inCode lexState = iota
	inLineComment
	inBlockComment
	inString       // '...'
	inEscapeString // E'...', where a backslash hides the next character
	inIdentifier   // "..."
	inDollar       // $tag$...$tag$
)

// Splitter splits SQL text into statements at semicolons outside quotes, dollar quotes and
// comments, by DuckDB's lexical rules. Text is fed in whole lines, so a token of several characters
// never spans two calls. The pieces that it returns, joined, are the input.
//
// The zero Splitter is ready to use.
type Splitter struct {
	buf   strings.Builder
	state lexState
	tag   string // the open dollar quote, with both signs
	depth int    // nesting of block comments
	hide  bool   // the next character of an escape string is literal
	line  int    // lines completed so far

	words     bool // the pending piece holds a word
	start     int  // offset of its first word
	startLine int
	prev      byte // last byte of code, which decides whether $ or E opens a quote
	prev2     byte
}

// Pending reports whether a statement has begun and not yet ended, or a comment is open.
func (s *Splitter) Pending() bool {
	return s.words || s.state == inBlockComment
}

// Feed reads the next lines and returns the statements they complete.
func (s *Splitter) Feed(text string) []Statement {
	var out []Statement
	from := 0 // start of the part of text not yet in buf
	begin := func(i int) {
		if !s.words {
			s.words, s.start, s.startLine = true, s.buf.Len()+i-from, s.line+1
		}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		next := byte(0)
		if i+1 < len(text) {
			next = text[i+1]
		}
		switch s.state {
		case inCode:
			switch {
			case c == '-' && next == '-':
				s.state = inLineComment
				i++
				s.shift(' ')
				continue
			case c == '/' && next == '*':
				s.state, s.depth = inBlockComment, 1
				i++
				s.shift(' ')
				continue
			case c == ';':
				s.buf.WriteString(text[from : i+1])
				from = i + 1
				out = append(out, s.cut(true))
				continue
			case c == '\'':
				begin(i)
				s.state = inString
				if (s.prev == 'e' || s.prev == 'E') && !wordByte(s.prev2) {
					s.state = inEscapeString
				}
			case c == '"':
				begin(i)
				s.state = inIdentifier
			case c == '$' && !wordByte(s.prev):
				begin(i)
				if tag := dollarTag(text[i:]); tag != "" {
					s.state, s.tag = inDollar, tag
					i += len(tag) - 1
				}
			case !blank(c):
				begin(i)
			}
			s.shift(c)
		default:
			i += s.inside(text[i:])
		}
		if c == '\n' {
			s.line++
		}
	}
	s.buf.WriteString(text[from:])
	return out
}

// inside processes the first byte of text inside a comment or a quotation, and returns how many
// more bytes belong to it.
func (s *Splitter) inside(text string) (skip int) {
	c, next := text[0], byte(0)
	if len(text) > 1 {
		next = text[1]
	}
	switch s.state {
	case inLineComment:
		if c == '\n' || c == '\r' {
			s.state = inCode
		}
	case inBlockComment:
		switch {
		case c == '/' && next == '*':
			s.depth++
			skip++
		case c == '*' && next == '/':
			s.depth--
			skip++
			if s.depth == 0 {
				s.state = inCode
			}
		}
	case inString:
		// A doubled quote closes and opens again: the same cuts.
		if c == '\'' {
			s.close(c)
		}
	case inEscapeString:
		switch {
		case s.hide:
			s.hide = false
		case c == '\\':
			s.hide = true
		case c == '\'' && next == '\'':
			skip++
		case c == '\'':
			s.close(c)
		}
	case inIdentifier:
		if c == '"' {
			s.close(c)
		}
	case inDollar:
		if c == '$' && strings.HasPrefix(text, s.tag) {
			skip += len(s.tag) - 1
			s.close('$')
		}
	}
	return skip
}

// Rest returns the remainder without a semicolon and empties the splitter.
func (s *Splitter) Rest() Statement {
	st := s.cut(false)
	s.state, s.depth, s.tag, s.hide = inCode, 0, "", false
	return st
}

func (s *Splitter) close(c byte) {
	s.state = inCode
	s.shift(c)
}

func (s *Splitter) shift(c byte) { s.prev2, s.prev = s.prev, c }

func (s *Splitter) cut(terminated bool) Statement {
	st := Statement{Text: s.buf.String(), Terminated: terminated, empty: !s.words}
	if s.words {
		st.Line, st.start = s.startLine, s.start
	}
	s.buf.Reset()
	s.words, s.start, s.prev, s.prev2 = false, 0, ' ', ' '
	return st
}

// Split splits a whole text.
func Split(text string) []Statement {
	var s Splitter
	out := s.Feed(text)
	if rest := s.Rest(); rest.Text != "" {
		out = append(out, rest)
	}
	return out
}

// dollarTag returns the opening dollar quote at the start of text, "" if there
// is none: $1 is a parameter.
func dollarTag(text string) string {
	for i := 1; i < len(text); i++ {
		c := text[i]
		if c == '$' {
			return text[:i+1]
		}
		if !wordByte(c) || (i == 1 && c >= '0' && c <= '9') {
			return ""
		}
	}
	return ""
}

// wordByte reports whether c may be part of an identifier; a dollar sign is excluded, since
// dollarTag ends at one.
func wordByte(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func blank(c byte) bool {
	return c == ' ' || c >= '\t' && c <= '\r' || c == 0
}
