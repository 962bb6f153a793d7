package page

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/bglm/bglm/cmd/chart"
)

// A page has what was added, in its order, text as text, and no table, facts or card that nothing
// was added to.
func TestHTML(t *testing.T) {
	p := New("a < b")
	p.Lead, p.Warnings = "one & two", []string{"mind <this>"}
	p.About("rows", "3")
	p.About("none", "")
	p.About("formula", strings.Repeat("x", 29))
	p.Add(Section{ID: "first", Title: "First", Doc: "guide.md", Text: "read <it> with --cost-false", Points: []Point{{"Good?", "Yes & no."}}})
	p.Add(Section{ID: "second", Title: "Second", Facts: []Fact{{Key: "AUC", Value: "0.5"}}, Table: &Table{Head: []Cell{Text("k"), Number("n")}, Rows: [][]Cell{{Text("=SUM(A1)"), Number("1,234")}}}},
		&chart.Chart{ID: "roc", Title: "ROC", Series: []chart.Series{{Kind: "line", X: []float64{0, 1}, Y: []float64{0, 1}}}})
	b, err := p.HTML()
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	at := -1
	for _, want := range []string{"<title>a &lt; b</title>", "one &amp; two", "mind &lt;this&gt;", `id="first"`, "docs/guide.md", "Yes &amp; no.", `read &lt;it&gt; with <span class="o">--cost-false</span>`,
		`id="second"`, "AUC", `<figure id="roc">`, "<svg", `<td>=SUM(A1)</td><td class="n">1,234</td>`, `download="second.csv"`, "<dt>rows</dt><dd>3</dd>", `<div class="wide"><dt>formula</dt>`} {
		k := strings.Index(page, want)
		if k <= at {
			t.Errorf("%q is at %d, what comes before it at %d", want, k, at)
		}
		at = k
	}
	if strings.Contains(page, "<dt>none</dt>") || strings.Count(page, "<table>") != 1 || strings.Contains(page, `src="`) {
		t.Error("the page has more than was added")
	}
	if len(p.Charts) != 1 || len(p.Light) != len(p.Dark) {
		t.Errorf("%d charts, %d colours, %d on dark ground", len(p.Charts), len(p.Light), len(p.Dark))
	}
}

// The CSV of a table has plain numbers and no formula that a spreadsheet would run; columns without
// a value are left out of Filled.
func TestTable(t *testing.T) {
	table := &Table{Head: []Cell{Text("k"), Number("none"), Number("n")}, Rows: [][]Cell{{Text("=SUM(A1)"), Number(""), Number("1,234")}, {Text("a, b"), Number(""), Number("")}}}
	filled := table.Filled()
	if !slices.Equal(filled.Head, []Cell{Text("k"), Number("n")}) || !slices.Equal(filled.Rows[1], []Cell{Text("a, b"), Number("")}) || len(table.Head) != 3 {
		t.Errorf("%+v", filled)
	}
	_, data, _ := strings.Cut(string(filled.CSV()), "base64,")
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	if want := "k,n\n'=SUM(A1),1234\n\"a, b\",\n"; string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
	if Text(strings.Repeat("é", 26)).Long() || !Text(strings.Repeat("é", 27)).Long() || Number(strings.Repeat("1", 27)).Long() {
		t.Error("texts of more than 26 letters are broken into lines")
	}
}
