package udf

import (
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/fitlayout"
	"github.com/bglm/bglm/kernels/option"
)

// What texts of the kernels mark is the name of a function.
func TestTold(t *testing.T) {
	var texts []string
	for _, p := range option.All() {
		texts = append(texts, p.Default, p.Doc)
	}
	for _, m := range engine.Methods() {
		texts = append(texts, m.Summary)
	}
	for _, f := range fitlayout.Fields {
		texts = append(texts, f.Doc)
	}
	n := 0
	for _, text := range texts {
		for _, m := range marked.FindAllStringSubmatch(text, -1) {
			if n++; !slices.ContainsFunc(Functions(), func(f Function) bool { return f.Name == "bglm_"+m[1] }) {
				t.Errorf("%q: no function bglm_%s", text, m[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("%d functions are named", n)
	}
}

// A status says in SQL how a column becomes numbers, its name in quotation marks where it
// needs them.
func TestMixedSQL(t *testing.T) {
	for want, m := range map[string]*kernels.Mixed{
		"column u was learnt as levels: its texts are numbers but for 'NA'; TRY_CAST(u AS DOUBLE), or nullstr = 'NA' where a CSV file is read, makes numbers of them":                                                                                                                                       {Column: "u", Texts: []string{"NA"}},
		"column u was learnt as levels: its texts are numbers but for '-', 'n''a'; TRY_CAST(u AS DOUBLE), or nullstr = ['-', 'n''a'] where a CSV file is read, makes numbers of them":                                                                                                                       {Column: "u", Texts: []string{"-", "n'a"}},
		"column u was learnt as levels: its texts are numbers written as '1,234'; TRY_CAST(regexp_replace(u, '[^-0-9.]', '', 'g') AS DOUBLE) makes numbers of them where the comma parts thousands, TRY_CAST(replace(regexp_replace(u, '[^-0-9,]', '', 'g'), ',', '.') AS DOUBLE) where decimals follow it": {Column: "u", Written: "1,234", Either: true},
		"column u was learnt as levels: its texts are numbers written as '0%'; TRY_CAST(regexp_replace(u, '[^-0-9.]', '', 'g') AS DOUBLE) makes numbers of them":                                                                                                                                            {Column: "u", Written: "0%"},
		`column monthly "net" was learnt as levels: its texts are numbers written as '0,5'; TRY_CAST(replace(regexp_replace("monthly ""net""", '[^-0-9,]', '', 'g'), ',', '.') AS DOUBLE) makes numbers of them`:                                                                                            {Column: `monthly "net"`, Written: "0,5", Comma: true},
		"column u was learnt as levels: its texts are numbers written as '(1,5)'; TRY_CAST(concat(CASE WHEN regexp_matches(u, '[-−(]') THEN '-' END, replace(regexp_replace(u, '[^0-9,]', '', 'g'), ',', '.')) AS DOUBLE) makes numbers of them":                                                            {Column: "u", Written: "(1,5)", Comma: true, Sign: true},
		"column u was learnt as levels: its texts are numbers written as '1,5'; TRY_CAST(replace(regexp_replace(u, '[^-0-9.,]', '', 'g'), ',', '.') AS DOUBLE) makes numbers of them, comma and point being before decimals":                                                                                {Column: "u", Written: "1,5", Comma: true, Point: true},
		"column u was learnt as 100 days, each a level of its own: date_diff('day', DATE '2000-01-01', u::DATE) makes a number of it, dayname(u::DATE) or month(u::DATE)::VARCHAR few levels":                                                                                                               {Column: "u", Days: 100},
		"column u was learnt as 100 days, each a level of its own: date_diff('day', DATE '2000-01-01', strptime(u, '%d.%m.%Y')) makes a number of it, dayname(strptime(u, '%d.%m.%Y')) or month(strptime(u, '%d.%m.%Y'))::VARCHAR few levels":                                                               {Column: "u", Days: 100, Format: "%d.%m.%Y"},
		"column u was learnt as 100 times, each a level of its own: epoch(u::TIMESTAMP) makes a number of it, hour(u::TIMESTAMP)::VARCHAR or dayname(u::TIMESTAMP) few levels":                                                                                                                              {Column: "u", Days: 100, Times: true},
	} {
		if got := mixedSQL(m); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
