package job

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
)

var numberedColumn = regexp.MustCompile(`^column\d+$`)

// headerOnly reports a file of one line of words: DuckDB takes the names of columns for a row.
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

// Misread finds the CSV file in which DuckDB sees other columns than its first line
// has: found are those of all files. It does when some line has more or fewer fields
// than the others, and among several files the rows would count as rows without
// values.
func (src *Source) Misread(found []string) error {
	if src.Kind != "csv" {
		return nil
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
		if slices.Contains(own, strings.TrimSpace(raw)) || mixed && slices.ContainsFunc(own, numbered) {
			where := "not every line has as many"
			if line, fields, _ := files.Uneven(path); line > 0 {
				where += fmt.Sprintf(": line %d has %d", line, fields)
			}
			return fmt.Errorf("%s: damaged, or no CSV: its first line has %d fields (%s), but %s", src.name(i), len(header), files.Clip(strings.Join(header, ", "), 200), where)
		}
	}
	return nil
}
