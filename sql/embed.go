// Package sqlfiles holds bglm's SQL scripts.
package sqlfiles

import (
	_ "embed"
	"regexp"
	"strings"
)

// Macros is bglm.sql: CREATE OR REPLACE MACRO statements for the table macros
// bglm_fit_by, bglm_weights, bglm_score, bglm_compare and others (List), each with a
// COMMENT, and their documentation as comments of the script. Run it as one script in a
// database that has bglm's functions; it writes nothing but the macros into the current
// schema.
//
//go:embed bglm.sql
var Macros string

// Macro is one of the script.
type Macro struct {
	Name      string
	Signature string
	Table     bool   // a table macro; else it gives a value
	Doc       string // what the script's head says, without examples
	create    string // its statement
	comment   string
}

var (
	creates  = regexp.MustCompile(`(?ms)^CREATE OR REPLACE MACRO (\w+)\(.*?\) AS( TABLE)?\n.*?;\n`)
	comments = regexp.MustCompile(`(?m)^COMMENT ON MACRO (?:TABLE )?(\w+) IS .*;\n`)
	heads    = regexp.MustCompile(`(?m)^-- ((bglm_\w+)\(.*(?:\n--   \w+ :=.*)?)\n((?:--   .*\n|--\n)*)`)
)

// List is the macros in the order in which they are made.
func List() []Macro {
	text := map[string]string{}
	for _, m := range comments.FindAllStringSubmatch(Macros, -1) {
		text[m[1]] = m[0]
	}
	var out []Macro
	for _, m := range creates.FindAllStringSubmatch(Macros, -1) {
		out = append(out, Macro{Name: m[1], Table: m[2] != "", create: m[0], comment: text[m[1]]})
	}
	for _, m := range heads.FindAllStringSubmatch(Macros, -1) {
		var words []string
		for line := range strings.Lines(m[3]) {
			if line = strings.TrimPrefix(line, "--"); !strings.HasPrefix(line, "     ") { // no example
				words = append(words, strings.Fields(line)...)
			}
		}
		for k := range out {
			if out[k].Name == m[2] {
				out[k].Signature, out[k].Doc = strings.ReplaceAll(m[1], "\n--  ", ""), strings.Join(words, " ")
			}
		}
	}
	return out
}

// SQL is the statements that make a macro, those it is made of first. "" where there is none
// of that name.
func SQL(name string) string {
	all := List()
	need := map[string]bool{strings.ToLower(name): true}
	out := ""
	for k := len(all) - 1; k >= 0; k-- { // each is made of earlier ones
		m := &all[k]
		if !need[m.Name] {
			continue
		}
		for j := range k {
			if strings.Contains(m.create, all[j].Name+"(") {
				need[all[j].Name] = true
			}
		}
		out = m.create + m.comment + out
	}
	return out
}
