package files

import (
	"bufio"
	"io"
	"strings"
)

// quotedWithin is how many bytes of a CSV file are searched for quotations.
const quotedWithin = 1 << 20

// HasQuotations reports whether a field of a CSV file, within quotedWithin bytes, begins with a
// quotation mark.
func HasQuotations(path string) bool {
	in, end, err := opened(path)
	if err != nil {
		return false
	}
	defer end()
	head, _ := io.ReadAll(io.LimitReader(in, quotedWithin))
	text := string(head)
	first, _, _ := strings.Cut(text, "\n")
	d := delimiterOf([]byte(first))
	return strings.Contains(text, "\n\"") || d != 0 && strings.Contains(text, string(d)+"\"")
}

// longQuotation is a number of lines that no quotation has.
const longQuotation = 100

// OpenQuotation returns the line of a CSV file where the first unterminated quotation begins, if
// other quotations are terminated; 0 for none, or if most quotation marks are only text.
func OpenQuotation(path string) (line int) {
	in, end, err := opened(path)
	if err != nil {
		return 0
	}
	defer end()
	r := bufio.NewReaderSize(in, 1<<18)
	var ahead []string
	next := func(k int) (string, bool) {
		for len(ahead) <= k {
			text, err := r.ReadString('\n')
			if text == "" && err != nil {
				return "", false
			}
			ahead = append(ahead, strings.TrimRight(text, "\r\n"))
		}
		return ahead[k], true
	}
	d, good, bad := byte(0), 0, 0
	for at := 1; ; at++ {
		text, ok := next(0)
		if !ok {
			break
		}
		if at == 1 {
			d = delimiterOf([]byte(text))
		}
		whole, taken := text, 1
		closed, open := quotations(whole, d)
		for open && taken < longQuotation {
			more, ok := next(taken)
			if !ok {
				break
			}
			whole += "\n" + more
			taken++
			if strings.IndexByte(more, '"') < 0 {
				continue
			}
			if closed, open = quotations(whole, d); closed < 0 {
				break
			}
		}
		if open || closed < 0 && taken > 1 {
			if bad++; line == 0 {
				line = at
			}
			taken = 1
		} else {
			good += max(closed, 0)
		}
		ahead = ahead[taken:]
		at += taken - 1
	}
	if bad >= good {
		return 0
	}
	return line
}

// quotations counts the quotations of a record that end before a delimiter, or at its end; -1 if
// other text follows one. open says that one is not terminated.
func quotations(record string, d byte) (closed int, open bool) {
	for i := 0; i <= len(record); i++ {
		if i < len(record) && record[i] == '"' {
			for i++; ; i++ {
				if i >= len(record) {
					return closed, true
				}
				if record[i] != '"' {
					continue
				}
				if i+1 < len(record) && record[i+1] == '"' {
					i++
					continue
				}
				break
			}
			if i++; i < len(record) && record[i] != d {
				return -1, false
			}
			closed++
			continue
		}
		for i < len(record) && record[i] != d {
			i++
		}
	}
	return closed, false
}
