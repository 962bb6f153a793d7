package shell

import (
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []string // SQL of the statements that are not empty
		lines    []int
	}{
		{"nothing", "", nil, nil},
		{"blanks", " \n\t", nil, nil},
		{"one without end", "select 1", []string{"select 1"}, []int{1}},
		{"two", "select 1; select 2;", []string{"select 1", "select 2"}, []int{1, 1}},
		{"lines", "\n\nselect 1;\n\n  select\n2;\n", []string{"select 1", "select\n2"}, []int{3, 5}},
		{"only semicolons", ";;\n;", nil, nil},
		{"quotes", "select 'a;b', \"c;d\";x", []string{"select 'a;b', \"c;d\"", "x"}, []int{1, 1}},
		{"doubled quotes", "select 'it''s;', \"a\"\";\";x", []string{"select 'it''s;', \"a\"\";\"", "x"}, []int{1, 1}},
		{"backslash is plain", `select '\';x`, []string{`select '\'`, "x"}, []int{1, 1}},
		{"escape string", `select e'\';a', E'\\';x`, []string{`select e'\';a', E'\\'`, "x"}, []int{1, 1}},
		{"word before a quote", `select date'\';x`, []string{`select date'\'`, "x"}, []int{1, 1}},
		{"line comment", "-- a;b\nselect 1 -- c;d\n;x", []string{"select 1 -- c;d\n", "x"}, []int{2, 3}},
		{"block comment", "/* a;\n b */ select /* ; */ 1;x", []string{"select /* ; */ 1", "x"}, []int{2, 2}},
		{"nested comment", "select 1 /* a /* b */ ; */;x", []string{"select 1 /* a /* b */ ; */", "x"}, []int{1, 1}},
		{"dollar quotes", "select $$a;b$$, $t$;$$;$t$;x", []string{"select $$a;b$$, $t$;$$;$t$", "x"}, []int{1, 1}},
		{"parameter", "select $1;x", []string{"select $1", "x"}, []int{1, 1}},
		{"dollar in a name", "select a$b$;x$b$", []string{"select a$b$", "x$b$"}, []int{1, 1}},
		{"open string", "select 'a;\nb", []string{"select 'a;\nb"}, []int{1}},
		{"open comment", "select 1 /* ;", []string{"select 1 /* ;"}, []int{1}},
		{"comment last", "select 1;\n-- end", []string{"select 1"}, []int{1}},
		{"minus", "select 1-1;select 4/2*1", []string{"select 1-1", "select 4/2*1"}, []int{1, 1}},
		{"windows lines", "select 1;\r\nselect 2;\r\n", []string{"select 1", "select 2"}, []int{1, 2}},
		{"utf-8", "select 'é;' AS größe;x", []string{"select 'é;' AS größe", "x"}, []int{1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			var lines []int
			for _, s := range Split(tc.in) {
				if !s.Empty() {
					got, lines = append(got, s.SQL()), append(lines, s.Line)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("statements %q, want %q", got, tc.want)
			}
			if !slices.Equal(lines, tc.lines) {
				t.Errorf("lines %v, want %v", lines, tc.lines)
			}
		})
	}
}

func TestSplitterPending(t *testing.T) {
	var s Splitter
	for _, tc := range []struct {
		line string
		want bool
	}{
		{"-- only a comment\n", false},
		{"select 1\n", true},
		{";\n", false},
		{"/* a comment\n", true},
		{"*/\n", false},
		{"select 'a\n", true},
		{";\n", true},
		{"';\n", false},
	} {
		s.Feed(tc.line)
		if s.Pending() != tc.want {
			t.Errorf("after %q pending is %v, want %v", tc.line, s.Pending(), tc.want)
		}
	}
}

// The pieces are the input, and it does not matter whether the text comes as a
// whole or in lines.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"select 1; select 'a;b';", "e'\\';';", "$a$;$a$;", "/*/**/;*/;", "--;\n;", "'", "\"", "$$", "$é$;$é$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		whole := Split(in)
		var b strings.Builder
		for i, s := range whole {
			b.WriteString(s.Text)
			if s.SQL() != "" && s.Line == 0 {
				t.Errorf("piece %d %q has no line", i, s.Text)
			}
			if !strings.Contains(s.Text, s.SQL()) {
				t.Errorf("SQL %q is not part of %q", s.SQL(), s.Text)
			}
			if !s.Terminated && i != len(whole)-1 {
				t.Errorf("piece %d %q has no semicolon", i, s.Text)
			}
		}
		if b.String() != in {
			t.Fatalf("the pieces give %q, want %q", b.String(), in)
		}
		var sp Splitter
		var byLine []Statement
		for line := range strings.Lines(in) {
			byLine = append(byLine, sp.Feed(line)...)
		}
		if rest := sp.Rest(); rest.Text != "" {
			byLine = append(byLine, rest)
		}
		if !slices.Equal(whole, byLine) {
			t.Fatalf("in one: %+v\nin lines: %+v", whole, byLine)
		}
	})
}
