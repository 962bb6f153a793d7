package shell

import (
	"bufio"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Modes lists the result formats.
var Modes = []string{"box", "csv", "json", "markdown", "line"}

// DefaultMaxRows is how many rows box mode prints at most.
const DefaultMaxRows = 40

// Format says how results are printed.
type Format struct {
	// Mode is one of Modes; "" means box.
	Mode string
	// MaxRows truncates a result after that many rows; 0 prints all. A negative value is the
	// default: DefaultMaxRows in box mode, all rows in the others.
	MaxRows int
	// Width is the number of terminal columns a box may have; 0 sets no limit.
	Width int
	// CSVSafe prefixes text in csv mode with an apostrophe where a spreadsheet would
	// run it as a formula.
	CSVSafe bool
	// Terminal says that the output is a terminal: control characters are then escaped in csv mode
	// too.
	Terminal bool
}

func (f Format) maxRows() int {
	switch {
	case f.MaxRows >= 0:
		return f.MaxRows
	case f.Mode == "" || f.Mode == "box":
		return DefaultMaxRows
	default:
		return 0
	}
}

// CheckMode returns an error that lists the modes if mode is not one of them.
func CheckMode(mode string) error {
	for _, m := range Modes {
		if m == mode {
			return nil
		}
	}
	return fmt.Errorf("mode is %q, allowed are %s", mode, strings.Join(Modes, ", "))
}

// resultWriter prints one result: begin, each row, end.
type resultWriter interface {
	begin(cols []column) error
	row(values []driver.Value) error
	end() error
}

// newWriter returns the writer of one result. In modes whose results would run into each other a
// blank line comes first, unless this is the first result.
func newWriter(out io.Writer, f Format, first bool) resultWriter {
	if f.Mode == "csv" || f.Mode == "json" {
		out = ForTerminal(out, f.Terminal)
	}
	b := bufio.NewWriterSize(out, 1<<16)
	lead := ""
	if !first {
		lead = "\n"
	}
	switch f.Mode {
	case "csv":
		return &csvWriter{out: b, limit: f.maxRows(), safe: f.CSVSafe}
	case "json":
		return &jsonWriter{out: b, limit: f.maxRows()}
	case "line":
		return &lineWriter{out: b, lead: lead, limit: f.maxRows()}
	case "markdown":
		return &markdownWriter{out: b, lead: lead, limit: f.maxRows()}
	default:
		return &tableWriter{out: b, format: f}
	}
}

// csvWriter writes one line per row, as in RFC 4180. NULL is an empty field, empty text a pair of
// quotes.
type csvWriter struct {
	out   *bufio.Writer
	cols  []column
	limit int
	n     int
	buf   []byte
	safe  bool
}

func (w *csvWriter) begin(cols []column) error {
	w.cols = cols
	for i, c := range cols {
		w.sep(i)
		w.out.WriteString(csvField(w.tame(c.name)))
	}
	return w.out.WriteByte('\n')
}

func (w *csvWriter) row(values []driver.Value) error {
	if w.n++; w.limit > 0 && w.n > w.limit {
		return nil
	}
	for i, v := range values {
		w.sep(i)
		if v == nil {
			continue
		}
		w.buf = w.cols[i].appendText(w.buf[:0], v)
		text := string(w.buf)
		if !w.cols[i].numeric() {
			text = w.tame(text)
		}
		w.out.WriteString(csvField(text))
	}
	return w.out.WriteByte('\n')
}

// Formula has the first characters that make a spreadsheet run a cell.
const Formula = "=+-@\t\r\n"

// Tame prefixes text that a spreadsheet would run with an apostrophe.
func Tame(s string) string {
	if s != "" && strings.IndexByte(Formula, s[0]) >= 0 {
		return "'" + s
	}
	return s
}

func (w *csvWriter) tame(s string) string {
	if w.safe {
		return Tame(s)
	}
	return s
}

func (w *csvWriter) sep(i int) {
	if i > 0 {
		w.out.WriteByte(',')
	}
}

func (w *csvWriter) end() error { return w.out.Flush() }

func csvField(s string) string {
	if s != "" && !strings.ContainsAny(s, ",\"\r\n") {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// jsonWriter writes an array with one object for each row.
type jsonWriter struct {
	out   *bufio.Writer
	cols  []column
	names [][]byte // `"name":`
	limit int
	n     int
	buf   []byte
}

func (w *jsonWriter) begin(cols []column) error {
	w.cols = cols
	// Equal names would overwrite each other in most readers.
	used := map[string]bool{}
	for _, c := range cols {
		name := c.name
		for k := 1; used[name]; k++ {
			name = fmt.Sprintf("%s_%d", c.name, k)
		}
		used[name] = true
		w.names = append(w.names, append(appendJSONString(nil, name), ':'))
	}
	return w.out.WriteByte('[')
}

func (w *jsonWriter) row(values []driver.Value) error {
	if w.n++; w.limit > 0 && w.n > w.limit {
		return nil
	}
	if w.n > 1 {
		w.out.WriteString(",\n")
	}
	b := append(w.buf[:0], '{')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, w.names[i]...)
		b = w.cols[i].appendJSON(b, v)
	}
	b = append(b, '}')
	w.buf = b
	_, err := w.out.Write(b)
	return err
}

func (w *jsonWriter) end() error {
	w.out.WriteString("]\n")
	return w.out.Flush()
}

// appendRawJSON copies a JSON text, or quotes it if it is invalid.
func appendRawJSON(dst []byte, s string) []byte {
	if json.Valid([]byte(s)) {
		return append(dst, s...)
	}
	return appendJSONString(dst, s)
}

// lineWriter writes `name = value`, one value per line, a blank line after rows.
type lineWriter struct {
	out   *bufio.Writer
	lead  string
	cols  []column
	width int
	limit int
	n     int
	buf   []byte
}

func (w *lineWriter) begin(cols []column) error {
	w.cols = cols
	w.out.WriteString(w.lead)
	for _, c := range cols {
		w.width = max(w.width, text.StringWidth(visible(c.name)))
	}
	return nil
}

func (w *lineWriter) row(values []driver.Value) error {
	if w.n++; w.limit > 0 && w.n > w.limit {
		return nil
	}
	if w.n > 1 {
		w.out.WriteByte('\n')
	}
	for i, v := range values {
		name := visible(w.cols[i].name)
		w.out.WriteString(strings.Repeat(" ", w.width-text.StringWidth(name)))
		w.buf = w.cols[i].appendText(w.buf[:0], v)
		fmt.Fprintf(w.out, "%s = %s\n", name, visible(string(w.buf)))
	}
	return nil
}

func (w *lineWriter) end() error { return w.out.Flush() }

// markdownWriter writes a pipe table for GitHub.
type markdownWriter struct {
	out   *bufio.Writer
	lead  string
	cols  []column
	limit int
	n     int
	buf   []byte
}

func (w *markdownWriter) begin(cols []column) error {
	w.cols = cols
	w.out.WriteString(w.lead + "|")
	for _, c := range cols {
		fmt.Fprintf(w.out, " %s |", markdownCell(c.name))
	}
	w.out.WriteString("\n|")
	for _, c := range cols {
		if c.numeric() {
			w.out.WriteString("---:|")
		} else {
			w.out.WriteString(":---|")
		}
	}
	return w.out.WriteByte('\n')
}

func (w *markdownWriter) row(values []driver.Value) error {
	if w.n++; w.limit > 0 && w.n > w.limit {
		return nil
	}
	w.out.WriteString("|")
	for i, v := range values {
		w.buf = w.cols[i].appendText(w.buf[:0], v)
		fmt.Fprintf(w.out, " %s |", markdownCell(string(w.buf)))
	}
	return w.out.WriteByte('\n')
}

func (w *markdownWriter) end() error { return w.out.Flush() }

var markdownEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "\r\n", "<br>", "\n", "<br>", "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;")

func markdownCell(s string) string { return visible(markdownEscapes.Replace(s)) }

// tableWriter prints boxes. It keeps only the rows it will print and counts the
// others.
type tableWriter struct {
	out    *bufio.Writer
	format Format
	cols   []column
	rows   [][]string
	n      int
	buf    []byte
	fit    fitValue // the last value of the only column, if that has FITs
}

func (w *tableWriter) begin(cols []column) error {
	w.cols = cols
	return nil
}

// A cell wider than this is cut in a box even if the terminal sets no limit, so that a model of a
// million weights does not fill the screen.
const maxCell = 4096

func (w *tableWriter) row(values []driver.Value) error {
	w.n++
	if limit := w.format.maxRows(); limit > 0 && w.n > limit {
		return nil
	}
	cells := make([]string, len(values))
	for i, v := range values {
		if f, ok := v.(map[string]any); ok && isFit(w.cols[i].info) {
			cells[i] = fitValue(f).line()
			if len(values) == 1 {
				w.fit = f
			}
			continue
		}
		w.buf = w.cols[i].appendText(w.buf[:0], v)
		cells[i] = string(w.buf)
		if len(cells[i]) > 4*maxCell {
			cells[i] = cells[i][:4*maxCell]
		}
	}
	w.rows = append(w.rows, cells)
	return nil
}

func (w *tableWriter) end() error {
	switch {
	case len(w.cols) == 2 && w.cols[0].name == "explain_key":
		// Query plans are drawings, which a box would distort.
		for _, r := range w.rows {
			fmt.Fprintln(w.out, Message(strings.TrimRight(r[1], "\n")))
		}
	case w.n == 1 && w.fit != nil:
		for _, line := range w.fit.card() {
			if w.format.Width > 0 {
				line = cut(line, w.format.Width)
			}
			fmt.Fprintln(w.out, Message(line))
		}
	default:
		w.box()
	}
	return w.out.Flush()
}

func (w *tableWriter) box() {
	if len(w.cols) == 0 {
		return
	}
	heads, types := make([]string, len(w.cols)), make([]string, len(w.cols))
	widths := make([]int, len(w.cols))
	for i, c := range w.cols {
		heads[i], types[i] = visible(c.name), visible(strings.ToLower(c.typ))
		if isFit(c.info) {
			types[i] = "fit"
		}
		widths[i] = text.StringWidth(heads[i])
		// A nested type's name can be far longer than its values.
		widths[i] = max(widths[i], min(text.StringWidth(types[i]), 20))
	}
	for _, r := range w.rows {
		for i, cell := range r {
			r[i] = visible(cell)
			widths[i] = max(widths[i], text.StringWidth(r[i]))
		}
	}
	show := fit(widths, w.format.Width)

	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	style.Format.HeaderAlign = text.AlignCenter
	t.SetStyle(style)
	t.AppendHeader(pick(show, heads, widths))
	t.AppendHeader(pick(show, types, widths))
	for _, r := range w.rows {
		t.AppendRow(pick(show, r, widths))
	}
	configs := make([]table.ColumnConfig, len(show))
	for i, j := range show {
		configs[i] = table.ColumnConfig{Number: i + 1, AlignHeader: text.AlignCenter, Align: text.AlignLeft}
		if j >= 0 && w.cols[j].numeric() {
			configs[i].Align = text.AlignRight
		}
	}
	t.SetColumnConfigs(configs)
	for line := range strings.SplitSeq(t.Render(), "\n") {
		fmt.Fprintln(w.out, line)
	}

	shownCols := 0
	for _, j := range show {
		if j >= 0 {
			shownCols++
		}
	}
	switch {
	case w.n > len(w.rows):
		fmt.Fprintf(w.out, "… %s (%d shown)", plural(w.n, "row"), len(w.rows))
	case w.n == 0:
		fmt.Fprint(w.out, "0 rows")
	}
	if shownCols < len(w.cols) {
		if w.n > len(w.rows) || w.n == 0 {
			fmt.Fprint(w.out, ", ")
		}
		fmt.Fprintf(w.out, "%s (%d shown)", plural(len(w.cols), "column"), shownCols)
	}
	if w.n > len(w.rows) || w.n == 0 || shownCols < len(w.cols) {
		fmt.Fprintln(w.out)
	}
}

func plural(n int, unit string) string {
	return plural64(int64(n), unit)
}

// pick cuts the cells of the shown columns to their widths; -1 stands for omitted columns.
func pick(show []int, cells []string, widths []int) table.Row {
	row := make(table.Row, len(show))
	for i, j := range show {
		if j < 0 {
			row[i] = "…"
			continue
		}
		row[i] = cut(cells[j], widths[j])
	}
	return row
}

const (
	// legible is the width below which columns are not cut while others can be
	// left out: a timestamp fits.
	legible = 20
	// narrowest is the least width of a column.
	narrowest = 10
)

// fit reduces widths so that the box has at most total columns, the widest first, and returns which
// columns to show; -1 marks the gap where columns in the middle are omitted.
func fit(widths []int, total int) []int {
	show := make([]int, len(widths))
	for i := range show {
		show[i] = i
		widths[i] = min(widths[i], maxCell)
	}
	if total <= 0 {
		return show
	}
	left, right := len(widths), len(widths)
	for {
		if _, least := room(widths, show); least <= total || left+len(widths)-right <= 2 {
			break
		}
		// Drop from the middle, keeping as many at the left as at the right.
		if left == right {
			left = (len(widths) + 1) / 2
			right = left
		}
		if left > len(widths)-right {
			left--
		} else {
			right++
		}
		show = show[:0]
		for j := range left {
			show = append(show, j)
		}
		show = append(show, -1)
		for j := right; j < len(widths); j++ {
			show = append(show, j)
		}
	}
	narrow(widths, show, total)
	return show
}

// room is the current and the least width of a box over some columns: each column adds two blanks
// and a rule, the box one more rule.
func room(widths, cols []int) (used, least int) {
	used, least = 1, 1
	for _, j := range cols {
		if j < 0 {
			used, least = used+4, least+4
			continue
		}
		used += widths[j] + 3
		least += min(widths[j], legible) + 3
	}
	return used, least
}

// narrow reduces the widest of the columns shown, all equally, until the box fits total or none can
// be reduced.
func narrow(widths, show []int, total int) {
	for {
		used, _ := room(widths, show)
		if used <= total {
			return
		}
		// Reduce the widest columns to the next width, all equally.
		widest, second, count := 0, 0, 0
		for _, j := range show {
			if j < 0 {
				continue
			}
			switch {
			case widths[j] > widest:
				widest, second, count = widths[j], widest, 1
			case widths[j] == widest:
				count++
			case widths[j] > second:
				second = widths[j]
			}
		}
		if widest <= narrowest {
			return
		}
		to := max(second, narrowest, widest-(used-total+count-1)/count)
		if to >= widest {
			to = widest - 1
		}
		for _, j := range show {
			if j >= 0 && widths[j] == widest {
				widths[j] = to
			}
		}
	}
}

// cut shortens s to width terminal columns, with an ellipsis at the end.
func cut(s string, width int) string {
	if text.StringWidth(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		n += text.RuneWidth(r)
		if n >= width {
			return s[:i] + "…"
		}
	}
	return s
}
