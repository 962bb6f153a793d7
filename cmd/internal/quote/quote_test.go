package quote

import "testing"

func TestQuote(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Name(`a"b`), `"a""b"`},
		{Text(`it's`), `'it''s'`},
		{Text("it's\x00a\x00"), `('it''s' || chr(0) || 'a' || chr(0) || '')`},
		{Names([]string{"a", "b c"}), `"a", "b c"`},
		{Names(nil), ""},
		{NamesOf("q", []string{"a", "b"}), `q."a" AS "a", q."b" AS "b"`},
		{Shell("origin_2"), "origin_2"},
		{Shell("Größe"), "Größe"},
		{Shell("<b>s"), "'<b>s'"},
		{Shell("it's"), `'it'\''s'`},
		{Shell("a b"), "'a b'"},
		{Shell("$(x)"), "'$(x)'"},
		{Shell(""), "''"},
		{List([]string{"a", "'"}), `['a', '''']`},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}
