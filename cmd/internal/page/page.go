// Package page builds a report's single HTML page, which needs no network.
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

// Fact is a named value.
type Fact struct {
	Key, Value string
	Wide       bool // on a line of its own
}

// Cell is a cell of a table, a text or a number.
type Cell struct {
	Text   string
	Number bool
}

// Text returns a text cell.
func Text(s string) Cell { return Cell{s, false} }

// Number returns a number cell, in its printed form.
func Number(s string) Cell { return Cell{s, true} }

// Long reports whether a text wraps.
func (c Cell) Long() bool { return !c.Number && utf8.RuneCountInString(c.Text) > 26 }

// Table has rows as long as its head.
type Table struct {
	Head []Cell
	Rows [][]Cell
}

// Filled is the table without empty columns.
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

// CSV is the table as a link's target, for download.
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
		_ = w.Write(out) // writing to memory
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

// Section is a part of a page; all except ID and Title are optional.
type Section struct {
	ID, Title, Text string
	Doc             string // a page of the documentation
	Points          []Point
	Facts           []Fact
	Figures         []Figure
	Table           *Table
}

// DocURL is the address of the section's documentation.
func (s Section) DocURL() string { return "https://github.com/bglm/bglm/blob/main/docs/" + s.Doc }

var flagName = regexp.MustCompile(`--[a-z]+(-[a-z]+)*`)

// Markup is the text, with each flag kept on one line.
func (s Section) Markup() template.HTML {
	return template.HTML(flagName.ReplaceAllString(template.HTMLEscapeString(s.Text), `<span class="o">$0</span>`))
}

// Page is a report: its sections, and a card that describes the model.
type Page struct {
	Title, Lead string
	Warnings    []string
	Card        []Fact
	Sections    []Section
	Light, Dark []template.CSS // colours of the charts' series
	Charts      []*chart.Chart
}

// darkPalette has the colours of chart.Palette for a dark background.
var darkPalette = []template.CSS{"#6cb0f5", "#f39a5c", "#6fcf97", "#c792ea", "#e3c15a", "#ff7b6e", "#5fd0d8", "#a9b3c1"}

// New returns a page without sections.
func New(title string) *Page {
	p := &Page{Title: title, Dark: darkPalette}
	for _, c := range chart.Palette {
		p.Light = append(p.Light, template.CSS(c))
	}
	return p
}

// Add appends a section and its charts to the page.
func (p *Page) Add(s Section, charts ...*chart.Chart) {
	for _, c := range charts {
		p.Charts = append(p.Charts, c)
		s.Figures = append(s.Figures, Figure{c.ID, c.Title, template.HTML(c.Pair()), c.Legend()})
	}
	p.Sections = append(p.Sections, s)
}

// wideFact is the length above which a value of the card gets a line of its own.
const wideFact = 28

// About adds a fact to the card, unless its value is empty.
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
