package job

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/quote"
)

// WholeTypes is an error in a CSV file whose first rows do not determine the types of its columns:
// it has the types that all rows have, with which the job can be run again.
type WholeTypes struct {
	Types map[string]string
	err   error
}

func (e *WholeTypes) Error() string { return e.err.Error() }
func (e *WholeTypes) Unwrap() error { return e.err }

// Note says what is read again, and why.
func (e *WholeTypes) Note() string {
	var is []string
	for _, name := range slices.Sorted(maps.Keys(e.Types)) {
		is = append(is, quote.Name(name)+" as "+e.Types[name])
	}
	return e.Error() + "; all is read again, with " + strings.Join(is, ", ")
}

// notConverted matches DuckDB's error about a value with another type than the first rows.
var notConverted = regexp.MustCompile(`(?s)CSV Error on Line: (\d+)\n.*?Error when converting column "(.*?)"\. (Could not convert .*?)\n.*\n\s*file = (.*?)\n`)

// notEnded matches DuckDB's error about an unterminated quotation after the sniffed rows.
var notEnded = regexp.MustCompile(`(?s)CSV Error on Line: (\d+)\n.*?Value with unterminated quote found\..*\n\s*file = (.*?)\n`)

// converted explains an error about such a value, by a *WholeTypes if all rows have types.
func (src *Source) converted(err error) error {
	if src.Kind != "csv" {
		return err
	}
	if m := notEnded.FindStringSubmatch(err.Error()); m != nil {
		return duck.Reword(err, fmt.Sprintf("%s: damaged, or no CSV: a quotation that begins in line %s has no end", src.FileName(m[2]), m[1]))
	}
	m := notConverted.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	told := duck.Reword(err, fmt.Sprintf("%s, line %s: column %s: %s", src.FileName(m[4]), m[1], m[2], strings.Replace(m[3], "Could", "could", 1)))
	list := FileList(src.Read) + src.union()
	first, e := src.s.Describe("FROM read_csv(" + list + ")")
	all, e2 := src.s.Describe("FROM read_csv(" + list + ", sample_size = -1)")
	if e != nil || e2 != nil {
		return told
	}
	types := map[string]string{}
	for _, c := range all {
		if !slices.Contains(first, c) && src.s.Env.CSVTypes[c.Name] != c.Type {
			types[c.Name] = c.Type
		}
	}
	if len(types) == 0 {
		return told
	}
	if i := slices.Index(src.Files, "-"); i >= 0 { // it has been read, but there is the copy
		f, err := os.Open(src.Read[i])
		if err != nil {
			return told
		}
		src.s.Env.Stdin = f
	}
	return &WholeTypes{types, told}
}

// typed sets the types of columns to those that all rows have.
func (src *Source) typed(list string) error {
	cols, err := src.s.Describe("FROM read_csv(" + list + src.union() + ")")
	var types []string
	for _, c := range cols {
		if t, ok := src.s.Env.CSVTypes[c.Name]; ok {
			types = append(types, quote.Text(c.Name)+": "+quote.Text(t))
		}
	}
	if len(types) > 0 {
		src.how = ", types = {" + strings.Join(types, ", ") + "}"
	}
	return src.Blame(err)
}

var numberedColumn = regexp.MustCompile(`^column\d+$`)

// headerOnly reports a file that is one line of words: DuckDB reads the header as a row.
func (src *Source) headerOnly() error {
	number := func(field string) bool {
		_, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		return err == nil
	}
	for i, path := range src.Read {
		if header, _ := files.CSVHeader(path); header != nil && !slices.ContainsFunc(header, number) && files.OneLine(path) {
			return fmt.Errorf("%s: a header (%s) and no rows", src.name(i), files.Clip(strings.Join(header, ", "), 200))
		}
	}
	return nil
}

// renamed says, once, how columns of a CSV file with no name, or with the same one, are called:
// found are those of all files.
func (src *Source) renamed(found []string) {
	if src.Kind != "csv" || src.told {
		return
	}
	src.told = true
	for i, path := range src.Read {
		header, _ := files.CSVHeader(path)
		for k, name := range header {
			name = strings.TrimSpace(name)
			if own := fmt.Sprintf("column%0*d", len(strconv.Itoa(len(header)-1)), k); name == "" {
				if slices.Contains(found, own) && !slices.Contains(header, own) {
					note := fmt.Errorf("%s: column %d has no name; it is %s here", src.name(i), k+1, own)
					fmt.Fprintln(src.s.Env.Stderr, "bglm: "+src.s.Env.Message(note))
				}
				continue
			}
			same := func(other string) bool { return strings.EqualFold(strings.TrimSpace(other), name) }
			own := fmt.Sprintf("%s_%d", name, len(header[:k])-len(slices.DeleteFunc(slices.Clone(header[:k]), same)))
			if !slices.ContainsFunc(header[:k], same) || !slices.Contains(found, own) || slices.Contains(header, own) {
				continue
			}
			note := fmt.Errorf("%s: more than one column is called %s; column %d is %s here", src.name(i), name, k+1, own)
			fmt.Fprintln(src.s.Env.Stderr, "bglm: "+src.s.Env.Message(note))
		}
	}
}

// openQuotation finds a CSV file with an unterminated quotation: DuckDB then reads all of its
// quotation marks as text.
func (src *Source) openQuotation() error {
	for i, path := range src.Read {
		if strings.Contains(path, "://") || !files.HasQuotations(path) {
			continue
		}
		var mark string
		if err := src.s.Row("SELECT Quote FROM sniff_csv("+quote.Text(globless.Replace(path))+")", &mark); err != nil || mark == `"` {
			continue // reading the rows gives the error again
		}
		if line := files.OpenQuotation(path); line > 0 {
			return fmt.Errorf("%s: damaged, or no CSV: a quotation that begins in line %d has no end", src.name(i), line)
		}
	}
	return nil
}

// Misread finds a CSV file in which DuckDB sees other columns than its header has: found are those
// of all files. This happens if some line has more or fewer fields than the others, and with
// several files the rows would be counted as rows without values.
func (src *Source) Misread(found []string) error {
	if src.Kind != "csv" {
		return nil
	}
	if err := src.openQuotation(); err != nil {
		return err
	}
	numbered := func(c string) bool { return numberedColumn.MatchString(c) }
	if slices.ContainsFunc(found, numbered) {
		if err := src.headerOnly(); err != nil {
			return err
		}
	}
	// No file has a header, or all have.
	mixed := slices.ContainsFunc(found, numbered) && slices.ContainsFunc(found, func(c string) bool { return !numbered(c) })
	if !mixed && !slices.ContainsFunc(found, func(c string) bool { return strings.ContainsAny(c, ",;\t|") }) {
		return nil
	}
	count := func(names []string, is func(string) bool) (n int) {
		for _, name := range names {
			if is(name) {
				n++
			}
		}
		return n
	}
	// DuckDB also numbers the columns without a name, such as the index column of pandas.
	named := func(c string) bool { c = strings.TrimSpace(c); return c == "" || numbered(c) }
	for i, path := range src.Read {
		header, raw := files.CSVHeader(path)
		if len(header) < 2 {
			continue
		}
		own := found
		if len(src.Read) > 1 {
			cols, err := src.s.Describe("FROM read_csv(" + FileList([]string{path}) + ")")
			if err != nil {
				return files.Named(src.Files[i], err)
			}
			own = duck.Names(cols)
		}
		if slices.Contains(own, strings.TrimSpace(raw)) || mixed && count(own, numbered) > count(header, named) {
			where := "not every line has as many"
			if line, fields, _ := files.Uneven(path); line > 0 {
				where += fmt.Sprintf(": line %d has %d", line, fields)
			}
			return fmt.Errorf("%s: damaged, or no CSV: its first line has %d fields (%s), but %s", src.name(i), len(header), files.Clip(strings.Join(header, ", "), 200), where)
		}
	}
	return nil
}
