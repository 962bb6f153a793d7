// Package page makes a report's one HTML page, which needs no network.
package page

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/csv"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bglm/bglm/cmd/chart"
	"github.com/bglm/bglm/cmd/internal/shell"
)

//go:embed page.html
var text string

var pageTemplate = template.Must(template.New("page").Parse(text))

// Fact is a value under a name.
type Fact struct {
	Key, Value string
	Wide       bool // it has a line of its own
}

// Cell is one of a table, a text or a number.
type Cell struct {
	Text   string
	Number bool
}

// Text is a cell of text.
func Text(s string) Cell { return Cell{s, false} }

// Number is a cell of a number, as it is printed.
func Number(s string) Cell { return Cell{s, true} }

// Long says whether a text is broken into lines.
func (c Cell) Long() bool { return !c.Number && utf8.RuneCountInString(c.Text) > 26 }

// Table has rows as long as its head.
type Table struct {
	Head []Cell
	Rows [][]Cell
}

// Filled is the table without the columns in which nothing stands.
func (t *Table) Filled() *Table {
	some := func(k int) bool {
		return slices.ContainsFunc(t.Rows, func(row []Cell) bool { return row[k].Text != "" })
	}
	keep := func(row []Cell) (out []Cell) {
		for k, c := range row {
			if some(k) {
				out = append(out, c)
			}
		}
		return out
	}
	out := &Table{Head: keep(t.Head)}
	for _, row := range t.Rows {
		out.Rows = append(out.Rows, keep(row))
	}
	return out
}

// CSV is the table as a link's target, to be stored.
func (t *Table) CSV() template.URL {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	line := func(cells []Cell) {
		out := make([]string, len(cells))
		for i, c := range cells {
			if out[i] = c.Text; c.Number {
				out[i] = strings.ReplaceAll(out[i], ",", "")
			} else {
				out[i] = shell.Tame(out[i])
			}
		}
		_ = w.Write(out) // into memory
	}
	line(t.Head)
	for _, r := range t.Rows {
		line(r)
	}
	w.Flush()
	return template.URL("data:text/csv;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(b.Bytes()))
}

// Figure is a chart in a section.
type Figure struct {
	ID, Title string
	SVG       template.HTML
	Legend    []chart.Key
}

// Point is a question and its answer.
type Point struct{ Question, Answer string }

// Section is a part of a page, of which all but ID and Title may be missing.
type Section struct {
	ID, Title, Text string
	Doc             string // a page of the documentation
	Points          []Point
	Facts           []Fact
	Figures         []Figure
	Table           *Table
}

// DocURL is where the section's documentation stands.
func (s Section) DocURL() string { return "https://github.com/bglm/bglm/blob/main/docs/" + s.Doc }

var flagName = regexp.MustCompile(`--[a-z]+(-[a-z]+)*`)

// Markup is the text, whose flags stay in one line.
func (s Section) Markup() template.HTML {
	return template.HTML(flagName.ReplaceAllString(template.HTMLEscapeString(s.Text), `<span class="o">$0</span>`))
}

// Page is a report: its sections, and a card of what the model is.
type Page struct {
	Title, Lead string
	Warnings    []string
	Card        []Fact
	Sections    []Section
	Light, Dark []template.CSS // colours of the charts' series
	Charts      []*chart.Chart
}

// darkPalette are the colours of chart.Palette on a dark ground.
var darkPalette = []template.CSS{"#6cb0f5", "#f39a5c", "#6fcf97", "#c792ea", "#e3c15a", "#ff7b6e", "#5fd0d8", "#a9b3c1"}

// New is a page without sections.
func New(title string) *Page {
	p := &Page{Title: title, Dark: darkPalette}
	for _, c := range chart.Palette {
		p.Light = append(p.Light, template.CSS(c))
	}
	return p
}

// Add ends the page with a section and its charts.
func (p *Page) Add(s Section, charts ...*chart.Chart) {
	for _, c := range charts {
		p.Charts = append(p.Charts, c)
		s.Figures = append(s.Figures, Figure{c.ID, c.Title, template.HTML(c.Pair()), c.Legend()})
	}
	p.Sections = append(p.Sections, s)
}

// wideFact is how long a value of the card is that has a line of its own.
const wideFact = 28

// About adds a fact to the card, none without a value.
func (p *Page) About(key, value string) {
	if value != "" {
		p.Card = append(p.Card, Fact{Key: key, Value: value, Wide: len(value) > wideFact})
	}
}

// HTML is the page.
func (p *Page) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, p)
	return bytes.Map(chart.Printable, b.Bytes()), err
}
