package job

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
)

var numberedColumn = regexp.MustCompile(`^column\d+$`)

// Misread finds the CSV file in which DuckDB sees other columns than its first line
// has: found are those of all files. It does when some line has more or fewer fields
// than the others, and among several files the rows would count as rows without
// values.
func (src *Source) Misread(found []string) error {
	if src.Kind != "csv" {
		return nil
	}
	numbered := func(c string) bool { return numberedColumn.MatchString(c) }
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
			return fmt.Errorf("%s: damaged, or no CSV: its first line has %d fields (%s), but not every line has as many", src.Files[i], len(header), files.Clip(strings.Join(header, ", "), 200))
		}
	}
	return nil
}
