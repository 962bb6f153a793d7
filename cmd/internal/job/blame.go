package job

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/quote"
)

// Blame adds the file that an error is about, if DuckDB's message lacks it.
func (src *Source) Blame(err error) error {
	if err == nil || cli.IsUsage(err) || src.s.Ctx.Err() != nil {
		return err
	}
	text := err.Error()
	if strings.Contains(text, "Could not write file") {
		return err // about the output, which it names
	}
	if err := src.converted(err); err.Error() != text {
		return err
	}
	text, _, _ = strings.Cut(text, "\n\nLINE ") // the quoted statement is not the user's
	text = src.sniffed(src.ofPart(text))
	name := ""
	for i, read := range src.Read {
		if strings.Contains(text, read) {
			name = src.FileName(read)
			if name != read {
				text = strings.ReplaceAll(text, read, name)
			}
			break
		}
		if src.Files[i] != "-" && strings.Contains(text, src.Files[i]) {
			name = src.Files[i]
			break
		}
	}
	switch {
	case name != "":
	case len(src.Files) == 1:
		name = src.FileName(src.Read[0])
	case !duck.AboutSQL(text):
		name = src.unreadable()
	}
	switch {
	case name == "":
		name = strings.Join(src.Files[:min(3, len(src.Files))], ", ")
		if more := len(src.Files) - 3; more > 0 {
			name += fmt.Sprintf(" and %d more", more)
		}
		fallthrough
	case !strings.Contains(text, name):
		text = name + ": " + text
	}
	// The fault may be the fit's.
	if src.Fits != "" && (strings.Contains(text, "bglm_predict") || strings.Contains(text, "prior")) && !strings.Contains(text, src.Fits) {
		text = src.Fits + " with " + text
	}
	if text == err.Error() {
		return err
	}
	return duck.Reword(err, text)
}

// part is SQL of a job over the rows, with the flag by which the user gave it.
type part struct{ flag, sql string }

// ofPart adds to text, an error in a value such as a logarithm of zero, the part of the job that it
// is in, and the row if that can be found; other texts are unchanged.
func (src *Source) ofPart(text string) string {
	if !strings.HasPrefix(text, "Out of Range Error") && !strings.HasPrefix(text, "Conversion Error") {
		return text
	}
	fails := func(parts []part) bool {
		var all []string
		for _, p := range parts {
			all = append(all, "count(hash(("+p.sql+")))")
		}
		return src.s.Exec("SELECT "+strings.Join(all, ", ")+" FROM "+src.Rows()) != nil && src.s.Ctx.Err() == nil
	}
	if src.where != "" && fails([]part{{sql: "1"}}) {
		return "--where " + src.where + ": " + text
	}
	parts := src.parts
	if len(parts) == 0 || !fails(parts) {
		return text
	}
	for len(parts) > 1 {
		half := len(parts) / 2
		if fails(parts[:half]) {
			parts = parts[:half]
		} else {
			parts = parts[half:]
		}
	}
	p := parts[0]
	var file string
	var row int64
	err := src.s.Row("SELECT bglm_file, bglm_row FROM "+src.Numbered()+" WHERE TRY("+p.sql+") IS NULL ORDER BY ALL LIMIT 1", &file, &row)
	at := fmt.Sprintf(" WHERE bglm_file = %s AND bglm_row = %d", quote.Text(file), row)
	if err != nil || src.s.Exec("SELECT hash(("+p.sql+")) FROM "+src.Numbered()+at) == nil { // its value is NULL without an error
		return p.flag + ": " + text
	}
	return fmt.Sprintf("%s, row %d: %s: %s", src.FileName(file), row, p.flag, text)
}

// sniffed replaces DuckDB's message about a CSV file whose form it cannot detect, which suggests
// parameters that no user can set, by the first line with another number of fields.
func (src *Source) sniffed(text string) string {
	head, _, ok := strings.Cut(text, "\nThe search space used was")
	if src.Kind != "csv" || !ok {
		return text
	}
	for i, read := range src.Read {
		if !strings.Contains(head, read) {
			continue
		}
		if line, fields, first := files.Uneven(read); line > 0 {
			return fmt.Sprintf("%s, line %d: its number of fields is %d, that of the first line %d", src.name(i), line, fields, first)
		}
		return src.name(i) + ": no CSV whose lines have equally many fields, between commas, semicolons, tabs or bars"
	}
	return head
}

// unreadable reads the files one by one, with all columns, and names the first that fails.
func (src *Source) unreadable() string {
	f, ok := readers[src.Kind]
	if !ok {
		return ""
	}
	for _, read := range src.Read {
		if src.s.Exec("SELECT max(hash(t)) FROM "+f+"("+FileList([]string{read})+src.one()+") t") != nil && src.s.Ctx.Err() == nil {
			return src.FileName(read)
		}
	}
	return ""
}

// wrongOption matches a function's error about an option: its key and what is wrong with it.
var wrongOption = regexp.MustCompile(`(?s)^Invalid Input Error: bglm_\w+: option (\w+)([: ].*)$`)

// locate finds the first row that a fit rejected, for its message.
func (j *Job) locate(src *Source, err error) error {
	msg := err.Error()
	if wrong := wrongOption.FindStringSubmatch(msg); wrong != nil && OptionFlags[wrong[1]] == "" && !strings.Contains(msg, "the prior fit") {
		if err := j.termError(wrong[1], wrong[2]); err != nil {
			return err
		}
		return cli.Usage(duck.Reword(err, "--option "+wrong[1]+wrong[2]))
	}
	if !strings.Contains(msg, "on_error: 'skip'") {
		return src.Blame(err)
	}
	one := *j
	one.Options = slices.DeleteFunc(slices.Clone(j.Options), func(o Setting) bool {
		return !slices.Contains([]string{"family", "link", "shape", "dispersion", "intercept", "hash_bits"}, o.Key) && !slices.Contains(RowKeys, o.Key) || o.SQL == "'auto'"
	})
	one.Order, one.GroupBy = "", nil
	fn := "bglm_adf"
	var file string
	var row int64
	q := fmt.Sprintf("SELECT bglm_file, bglm_row FROM (SELECT bglm_file, bglm_row, %s(bglm_y, bglm_x, %s) AS fit FROM (%s) GROUP BY ALL) WHERE fit IS NULL ORDER BY 1, 2 LIMIT 1",
		fn, one.OptionsText(Setting{Key: "on_error", SQL: "'null'"}), one.Inner(src.Numbered(), "bglm_file", "bglm_row"))
	if src.s.Row(q, &file, &row) != nil {
		return src.Blame(err)
	}
	return fmt.Errorf("%s, row %d: %w", src.FileName(file), row, err)
}
