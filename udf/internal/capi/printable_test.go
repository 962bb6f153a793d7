package capi

import "testing"

func TestPrintable(t *testing.T) {
	for _, c := range [][2]string{
		{"feature \"größe\" = 3 — 価格, 👩‍🌾, ½", "feature \"größe\" = 3 — 価格, 👩‍🌾, ½"},
		{"", ""},
		{"a\x1b[31mb\a\b", `a\x1b[31mb\a\b`},
		{"one\ntwo\r\tthree\x00\x7f", `one\ntwo\r\tthree\x00\x7f`},
		{"c1 \u009b2J", `c1 \u009b2J`},
		{"turned \u202egnp\u2066", `turned \u202egnp\u2066`},
		{"line\u2028sep\u2029", `line\u2028sep\u2029`},
		{"bad \xff\xfe \xc3", `bad \xff\xfe \xc3`},
		{"replaced \uFFFD", "replaced \uFFFD"},
	} {
		if got := Printable(c[0]); got != c[1] {
			t.Errorf("%q becomes %q, want %q", c[0], got, c[1])
		}
	}
}
