package files

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// DuckDB accepts some damaged files: it reads a CSV with a short line as one column, and a
// compressed file truncated at a block boundary up to there. The code below checks a file's ends,
// and all of a compressed one, before DuckDB reads it.

// Check reports damage in a data file or belief file of a kind; errors name it.
func Check(path, kind string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := NoFolder(path); err != nil {
		return err
	}
	if !st.Mode().IsRegular() { // before it is opened, which would wait for the other end of a pipe
		return fmt.Errorf("%s: a pipe or a device, which is read only once, and files are looked at before they are read: write a file, or pipe data into --data -", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if st.Size() == 0 {
		return fmt.Errorf("%s: the file is empty", path)
	}
	switch kind {
	case "parquet":
		err = checkParquetEnds(f, st.Size())
	case "duckdb":
		err = checkDatabaseHead(f)
	case "csv", "json":
		err = checkText(f, path, kind, st.Size())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// NoFolder returns an error if a path is a folder.
func NoFolder(path string) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return fmt.Errorf("%s: a folder; name its files, as in '%s'", path, filepath.Join(path, "*.parquet"))
	}
	return nil
}

// Twice returns a path that is the same file as one before it, "" for none.
func Twice(paths []string) string {
	var seen []os.FileInfo
	for _, path := range paths {
		st, err := os.Stat(path)
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		for _, s := range seen {
			if os.SameFile(s, st) {
				return path
			}
		}
		seen = append(seen, st)
	}
	return ""
}

func checkParquetEnds(f io.ReaderAt, size int64) error {
	mark := func(b []byte) bool { return string(b) == "PAR1" || string(b) == "PARE" }
	var b [8]byte
	if _, err := f.ReadAt(b[:4], 0); err != nil || !mark(b[:4]) {
		return errors.New("not a Parquet file")
	}
	if size < 12 {
		return fmt.Errorf("cut off: %d bytes are no Parquet file", size)
	}
	if _, err := f.ReadAt(b[:], size-8); err != nil {
		return err
	}
	if !mark(b[4:]) {
		return errors.New("cut off or half-written: a Parquet file ends with the bytes PAR1, this one does not")
	}
	return nil
}

func checkDatabaseHead(f io.ReaderAt) error {
	var b [12]byte
	if n, _ := f.ReadAt(b[:], 0); n < len(b) || string(b[8:]) != "DUCK" {
		return errors.New("not a DuckDB database")
	}
	return nil
}

// opened opens a file for reading, uncompressed as by unpacked; end closes it.
func opened(path string) (in io.Reader, end func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	in, _, err = unpacked(f, path)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return in, f.Close, nil
}

// unpacked decompresses a file according to its extension.
func unpacked(f io.Reader, path string) (io.Reader, bool, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".gz":
		r, err := gzip.NewReader(f)
		return r, true, err
	case ".zst":
		r, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, true, err
		}
		return r.IOReadCloser(), true, nil
	}
	return f, false, nil
}

func checkText(f *os.File, path, kind string, size int64) error {
	in, packed, err := unpacked(f, path)
	if err != nil {
		return fmt.Errorf("not a compressed file, or damaged: %w", err)
	}
	if !packed {
		var first [2]byte
		if n, _ := f.ReadAt(first[:], 0); n == 2 && (first == [2]byte{0xff, 0xfe} || first == [2]byte{0xfe, 0xff}) {
			return errors.New("text in UTF-16; allowed: UTF-8, as iconv -f UTF-16 -t UTF-8 makes of it")
		}
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if kind == "json" || last[0] == '\n' || last[0] == '\r' {
			return nil
		}
	}
	if kind == "json" {
		_, err = io.Copy(io.Discard, in)
	} else {
		err = checkCSVEnd(in)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("cut off or half-written: its compressed data stop before their end")
	case packed && err != nil && !errors.As(err, new(halfWritten)):
		return fmt.Errorf("damaged: %w", err)
	}
	return err
}

type halfWritten struct{ text string }

func (e halfWritten) Error() string { return "cut off or half-written: " + e.text }

// delimiterOf guesses the delimiter of a header's fields; 0 for none.
func delimiterOf(line []byte) byte {
	best, most := byte(0), 0
	for _, d := range []byte(",;\t|") {
		if n := bytes.Count(line, []byte{d}); n > most {
			best, most = d, n
		}
	}
	return best
}

// checkCSVEnd finds a last line that is truncated: inside a quotation, or without a line break and
// with fewer fields than the lines before it.
func checkCSVEnd(r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<18)
	head, err := in.Peek(1 << 16)
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return err
	}
	if i := bytes.IndexAny(head, "\r\n"); i >= 0 {
		head = head[:i]
	}
	d := delimiterOf(head)
	// fields of the lines: of the last complete one, and of the current one.
	before, fields, line, began := 0, 1, 1, 1
	const (
		start = iota // of a field
		plain
		quoted
		closing // after a quote inside a quotation: its end, or the first half of a doubled one
	)
	state, empty := start, true
	for {
		c, err := in.ReadByte()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if c == '\n' {
			line++
		}
		if state == quoted {
			if c == '"' {
				state = closing
			}
			continue
		}
		switch {
		case c == '\n' || c == '\r':
			if !empty {
				before = fields
			}
			state, fields, empty, began = start, 1, true, line
			continue
		case c == d && d != 0:
			state = start
			fields++
		case c == '"' && (state == start || state == closing):
			state = quoted
		default:
			state = plain
		}
		empty = false
	}
	switch {
	case state == quoted:
		return halfWritten{fmt.Sprintf("the quotation in line %d has no end", began)}
	case !empty && before > 0 && fields < before:
		return halfWritten{fmt.Sprintf("its last line, %d, has %d of %d fields and no line break", began, fields, before)}
	}
	return nil
}

// CSVHeader returns the header of a CSV file, split into fields and raw; it includes further lines
// if a quotation continues on them.
func CSVHeader(path string) (fields []string, raw string) {
	in, end, err := opened(path)
	if err != nil {
		return nil, ""
	}
	defer end()
	head, _ := bufio.NewReaderSize(in, 1<<16).Peek(1 << 16)
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	all := head
	if i := bytes.IndexAny(head, "\r\n"); i >= 0 {
		head = head[:i]
	}
	d := delimiterOf(head)
	if d == 0 {
		return nil, string(head)
	}
	cut := func(text []byte) (fields []string, end int64) {
		r := csv.NewReader(bytes.NewReader(text))
		r.Comma, r.LazyQuotes = rune(d), true
		if fields, err = r.Read(); err != nil {
			return nil, 0
		}
		return fields, r.InputOffset()
	}
	if bytes.Count(head, []byte{'"'})%2 == 1 {
		if fields, end := cut(all); 0 < end && end < int64(len(all)) {
			return fields, strings.TrimRight(string(all[:end]), "\r\n")
		}
	}
	fields, _ = cut(head)
	return fields, string(head)
}

// Uneven finds the first line of a CSV file whose number of fields differs from that of the first
// line, and returns both numbers; line is 0 if all are equal.
func Uneven(path string) (line, fields, first int) {
	head, raw := CSVHeader(path)
	if head == nil {
		return 0, 0, 0
	}
	in, end, err := opened(path)
	if err != nil {
		return 0, 0, 0
	}
	defer end()
	r := csv.NewReader(in)
	r.Comma, r.LazyQuotes, r.ReuseRecord, r.FieldsPerRecord = rune(delimiterOf([]byte(raw))), true, true, len(head)
	for {
		record, err := r.Read()
		if errors.Is(err, csv.ErrFieldCount) {
			line, _ = r.FieldPos(0)
			return line, len(record), len(head)
		}
		if err != nil {
			return 0, 0, 0
		}
	}
}

// OneLine reports whether a text file has only one line.
func OneLine(path string) bool {
	in, end, err := opened(path)
	if err != nil {
		return false
	}
	defer end()
	r := bufio.NewReader(in)
	_, err = r.ReadString('\n')
	if err == nil {
		_, err = r.Peek(1)
	}
	return errors.Is(err, io.EOF)
}

// Clip shortens a text that is quoted in a message.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Among returns the element of paths that is the file path, under any name or link; "" for none.
func Among(path string, paths []string) string {
	own, err := os.Stat(path)
	if err != nil || !own.Mode().IsRegular() {
		return ""
	}
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && os.SameFile(own, st) {
			return p
		}
	}
	return ""
}
