package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// stdinName is the standard input's name in SQL.
const stdinName = "'/dev/stdin'"

// readStdin lets a statement read the standard input as a file. DuckDB opens a file several times
// while it prepares a statement, and a pipe can be read only once: the input is stored in a
// temporary file, which replaces it in the statement. Parquet needs that anyway, since it is read
// from its end.
func (s *Shell) readStdin(text string) (string, error) {
	if strings.Contains(text, "'/dev/fd/") {
		return "", errors.New("'/dev/fd/...' can be read only once, and DuckDB reads a file's beginning twice: pipe the data in and read " + stdinName + ", or write them to a file")
	}
	if !strings.Contains(text, stdinName) {
		return text, nil
	}
	if s.stdin == nil {
		return "", errors.New(stdinName + " is a terminal or holds the statements themselves: give the statements by -c or in a file")
	}
	if s.spool == "" {
		f, err := os.CreateTemp("", "bglm-stdin-*")
		if err != nil {
			return "", err
		}
		s.spool = f.Name()
		_, err = io.Copy(f, s.stdin)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("standard input: %w", err)
		}
	}
	return strings.ReplaceAll(text, stdinName, "'"+strings.ReplaceAll(s.spool, "'", "''")+"'"), nil
}
