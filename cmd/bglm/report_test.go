package main

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bglm/bglm/cmd/chart"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// node is an element of a page.
type node struct {
	name  string
	attrs map[string]string
	kids  []*node
	text  string
}

// all finds elements by name and class ("" = any), at any depth.
func (n *node) all(name, class string) (out []*node) {
	for _, k := range n.kids {
		if k.name == name && (class == "" || strings.Contains(" "+k.attrs["class"]+" ", " "+class+" ")) {
			out = append(out, k)
		}
		out = append(out, k.all(name, class)...)
	}
	return out
}

// inside counts elements of the wide drawings of charts; the narrow ones have them again.
func (n *node) inside(name, class string) (count int) {
	for _, svg := range n.all("svg", "wide") {
		count += len(svg.all(name, class))
	}
	return count
}

func (n *node) id(id string) *node {
	for _, k := range n.kids {
		if k.attrs["id"] == id {
			return k
		}
		if f := k.id(id); f != nil {
			return f
		}
	}
	return nil
}

func (n *node) content() string {
	s := n.text
	for _, k := range n.kids {
		s += " " + k.content()
	}
	return s
}

// parsePage reads HTML whose void elements are meta only.
func parsePage(t *testing.T, b []byte) *node {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(b))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta"}, xml.HTMLEntity
	root := &node{}
	stack := []*node{root}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		top := stack[len(stack)-1]
		switch tok := tok.(type) {
		case xml.StartElement:
			n := &node{name: tok.Name.Local, attrs: map[string]string{}}
			for _, a := range tok.Attr {
				n.attrs[a.Name.Local] = a.Value
			}
			top.kids = append(top.kids, n)
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			top.text += string(tok)
		}
	}
}

func TestReport(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	dir := filepath.Dir(data)
	path := func(n string) string { return filepath.Join(dir, n) }
	ok(t, "fit", data, "-f", "y ~ ad + x", "-o", "link=probit", "-o", "time=day", "-o", "process_noise=0.01", "--out", path("b.parquet"), "-q")
	r := ok(t, "report", "-b", path("b.parquet"), data, "--out", path("r.html"), "--plots", path("plots"), "--json")
	if !strings.Contains(r.stdout, `"n": 6000`) {
		t.Errorf("%s", r.stdout)
	}
	text, err := os.ReadFile(path("r.html"))
	if err != nil {
		t.Fatal(err)
	}
	// Offline: nothing is loaded, and no link leads out but the name space of SVG and those to
	// the documentation.
	for _, m := range regexp.MustCompile(`(?i)https?://[^"' <>]+|<script|<link|src=|@import|url\(`).FindAllString(string(text), -1) {
		if m != "http://www.w3.org/2000/svg" && !strings.HasPrefix(m, "https://github.com/bglm/bglm/blob/main/docs/") {
			t.Errorf("the page needs %s", m)
		}
	}
	if !strings.Contains(string(text), "prefers-color-scheme:dark") {
		t.Error("no dark colours")
	}
	p := parsePage(t, text)
	if h := p.all("h1", ""); len(h) != 1 || h[0].content() != "y ~ ad + x" {
		t.Errorf("headline %v", h)
	}
	for id, want := range map[string][]string{
		"verdict":    {"the mean response alone", "Log loss 0.", "What drives it?", "ad (", "On average it predicts"},
		"thresholds": {"precision", "recall", "0.50"},
		"health":     {"levels", "number", "6,000"},
		"card":       {"y ~ ad + x", "bernoulli, probit", "6,000", "SHA-256", "made on", "process_noise=0.01", "log evidence", "converged", "of their mean alone"},
		"fitness":    {"log loss", "AUC", "Brier score"},
		"worst":      {"surprise", "rows.parquet"},
	} {
		n := p.id(id)
		if n == nil {
			t.Errorf("no section %s", id)
			continue
		}
		for _, w := range want {
			if !strings.Contains(n.content(), w) {
				t.Errorf("section %s does not hold %q", id, w)
			}
		}
	}
	for id, c := range map[string]struct {
		name, class string
		least       int
	}{"calibration": {"circle", "s0", 20}, "roc": {"polyline", "s0", 1}, "lift": {"polyline", "s0", 1}, "weights": {"circle", "dot", 21}, "trajectories": {"polygon", "band", 6}, "evidence": {"polyline", "s0", 1}} {
		f := p.id(id)
		if f == nil {
			t.Errorf("no figure %s", id)
			continue
		}
		if got := f.inside(c.name, c.class); got < c.least {
			t.Errorf("figure %s has %d %s of class %s, want %d", id, got, c.name, c.class, c.least)
		}
		if strings.Contains(f.content(), "NaN") {
			t.Errorf("figure %s shows NaN", id)
		}
		for _, ext := range []string{".svg", ".png"} {
			b, err := os.ReadFile(filepath.Join(path("plots"), id+ext))
			if err != nil {
				t.Error(err)
				continue
			}
			if ext == ".svg" {
				parsePage(t, b)
			} else if img, err := png.Decode(bytes.NewReader(b)); err != nil || img.Bounds().Dx() < 1200 {
				t.Errorf("%s%s: %v", id, ext, err)
			}
		}
	}
	if rows := p.id("worst").all("tr", ""); len(rows) != 21 {
		t.Errorf("%d rows in the table of the worst", len(rows))
	}
	if left, _ := os.ReadDir(path("plots")); len(left) != 22 {
		t.Errorf("plots: %v", left)
	}
	// The same input gives the same page.
	ok(t, "report", "-b", path("b.parquet"), data, "--out", path("again.html"), "-q")
	if again, _ := os.ReadFile(path("again.html")); !bytes.Equal(text, again) {
		t.Error("the page differs from run to run")
	}
	// Beliefs alone; groups; other families; names that look like markup.
	ok(t, "report", "-b", path("b.parquet"), "--out", path("alone.html"), "-q")
	ok(t, "fit", data, "-f", "hour ~ ad", "-o", "family=poisson", "--group", "g", "--out", path("g.parquet"), "-q")
	ok(t, "report", "-b", path("g.parquet"), data, "--out", path("g.html"), "-q")
	b, _ := os.ReadFile(path("g.html"))
	if n := parsePage(t, b).id("fitness"); n == nil || !strings.Contains(n.content(), "RMSE") {
		t.Error("no RMSE for counts")
	}
	// Deviations of factorised beliefs are not the posterior's.
	ok(t, "fit", data, "-f", "y ~ ad + x", "-m", "adf", "-o", "covariance=diagonal", "-o", "process_noise=0.01", "--out", path("d.parquet"), "-q")
	ok(t, "report", "-b", path("d.parquet"), data, "--out", path("d.html"), "-q")
	b, _ = os.ReadFile(path("d.html"))
	d := parsePage(t, b)
	if n := d.id("coefficients"); n == nil || strings.Contains(n.content(), "upper") || !strings.Contains(n.content(), "The posterior is factorised") {
		t.Error("intervals of factorised beliefs")
	}
	if n := d.id("trajectories"); n == nil || len(n.all("polygon", "band")) > 0 || len(n.all("polyline", "")) < 6 {
		t.Error("bands of factorised beliefs")
	}
	query(t, "COPY (SELECT '<script>alert(1)</script>' AS feature, 1.0::DOUBLE AS mean, 0.1::DOUBLE AS variance) TO '"+path("x.parquet")+"'")
	ok(t, "report", "-b", path("x.parquet"), "-o", "family=bernoulli", "--out", path("x.html"), "-q")
	if b, _ := os.ReadFile(path("x.html")); bytes.Contains(b, []byte("<script")) {
		t.Error("a feature's name became markup")
	}
}

// The first answer of a report: what is better than the mean alone is said to be, in figures
// that DuckDB and closed forms confirm; tables come along as CSV; a threshold costs what it says.
func TestReportVerdict(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	ok(t, "sql", "-c", "COPY (SELECT i, ['a','b','c'][1 + i % 3] AS g, (i * 37 % 101) / 10.0 AS u, (hash(i) % 1000) < 1000 / (1 + exp(1 - 0.3 * (i * 37 % 101) / 10.0 - (i % 3) * 0.8)) AS y FROM range(3000) t(i)) TO '"+path("d.csv")+"'")
	ok(t, "fit", path("d.csv"), "-f", "y ~ g + u", "--out", path("f.parquet"), "-q")
	ok(t, "report", "-b", path("f.parquet"), path("d.csv"), "--out", path("r.html"), "--cost-missed", "3", "-q")
	b, err := os.ReadFile(path("r.html"))
	if err != nil {
		t.Fatal(err)
	}
	p := parsePage(t, b)
	verdict := p.id("verdict").content()
	var base float64
	for _, want := range []string{"Better than the mean response alone.", "g (", "highest for c, lowest for a", "u (", "one standard deviation more multiplies the odds by", "predicted by all the others"} {
		if !strings.Contains(verdict, want) {
			t.Errorf("no %q in %s", want, verdict)
		}
	}
	if got := query(t, "SELECT -avg(CASE WHEN y THEN ln(m) ELSE ln(1 - m) END) FROM '"+path("d.csv")+"', (SELECT avg(y::INT) AS m FROM '"+path("d.csv")+"')"); true {
		if _, err := fmt.Sscan(got, &base); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("against %.4f.", base); !strings.Contains(verdict, want) {
			t.Errorf("no %q in %s", want, verdict)
		}
	}
	// u is a curve with a band, g three intervals.
	if e := p.id("effects"); e.inside("polygon", "band") != 1 || e.inside("circle", "dot") != 3 {
		t.Error("effects are not drawn")
	}
	// The table of thresholds: precision and recall of 0.5 as SQL counts them, by the link as CSV.
	link := p.id("thresholds").all("a", "")
	data, cut := strings.CutPrefix(link[len(link)-1].attrs["href"], "data:text/csv;charset=utf-8;base64,")
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil || !cut {
		t.Fatal(err, link[len(link)-1].attrs)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 5 || rows[0][0] != "threshold" {
		t.Fatal(err, rows)
	}
	for _, r := range rows[1:] {
		var above, cost, n, pos, found float64
		if _, err := fmt.Sscan(r[1], &above); err != nil {
			t.Fatal(err)
		}
		got := query(t, "SELECT count(*), count(*) FILTER (y) FROM '"+path("d.csv")+"'")
		if _, err := fmt.Sscanf(strings.ReplaceAll(got, ",", " "), "%f %f", &n, &pos); err != nil {
			t.Fatal(err)
		}
		var precision, recall float64
		if _, err := fmt.Sscanf(r[3]+r[4], "%f %%%f %%", &precision, &recall); err != nil {
			t.Fatal(err)
		}
		found = recall / 100 * pos
		if d := above*precision/100 - found; d > 0.06*pos/10 || d < -0.06*pos/10 {
			t.Errorf("threshold %s: precision %v and recall %v do not agree", r[0], precision, recall)
		}
		if _, err := fmt.Sscan(r[6], &cost); err != nil {
			t.Fatal(err)
		}
		if want := 1000 * ((above - found) + 3*(pos-found)) / n; cost-want > 3 || want-cost > 3 {
			t.Errorf("threshold %s: cost %v, want %v", r[0], cost, want)
		}
	}
}

// A share of more than all, or below 0, says so; the strongest are so whichever way they run.
func TestDrives(t *testing.T) {
	ds := []columnDrive{{column: "a", share: 1.145}, {column: "b", share: 0.1}, {column: "c", share: 0.996}, {column: "d", share: -0.24}}
	for i, want := range []string{"115 % of what the predictions vary by, of which others take some back", "10 % of what the predictions vary by", "100 % of what the predictions vary by", "it takes back 24 % of what the predictions vary by"} {
		if got := ds[i].part(); got != want {
			t.Errorf("%v: %q, want %q", ds[i].share, got, want)
		}
	}
	got := ""
	for _, d := range strongest(ds) {
		got += d.column
	}
	if got != "acdb" || ds[1].column != "b" {
		t.Errorf("the order is %s, of %v", got, ds)
	}
}

// Counts that spread more than Poisson: the report does not call their intervals sound. A column
// that runs against another is drawn too, years have whole ticks without commas, columns of a
// table in which nothing stands are left out, and what was entered as 0.1 is not printed as
// 0.10000000000000001.
func TestReportDoubts(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	ok(t, "sql", "-c", `COPY (SELECT 1950 + i % 40 AS year, (i % 40) / 10.0 + (hash(i) % 1000) / 3000.0 AS u, ((hash(i + 7) % 100 < 20)::INT * (4 + hash(i + 9) % 20) + exp(0.05 * (i % 40) - 0.3 * ((hash(i) % 1000) / 3000.0)))::INT AS y FROM range(2000) t(i)) TO '`+path("d.parquet")+"'")
	ok(t, "fit", path("d.parquet"), "-f", "y ~ year + u", "-o", "family=poisson", "--out", path("f.parquet"), "-q")
	ok(t, "report", "-b", path("f.parquet"), path("d.parquet"), "--out", path("r.html"), "-q")
	b, err := os.ReadFile(path("r.html"))
	if err != nil {
		t.Fatal(err)
	}
	p := parsePage(t, b)
	verdict := p.id("verdict").content()
	for _, want := range []string{"too few, so that predictions are less sure than they say", "times as much as Poisson's law allows", "family=negbinomial"} {
		if !strings.Contains(verdict, want) {
			t.Errorf("no %q in %s", want, verdict)
		}
	}
	// One deviation's factor has its interval.
	if !regexp.MustCompile(`year \([^)]*\): one standard deviation more multiplies the rate by [0-9.]+ \([0-9.]+ to [0-9.]+\)`).MatchString(verdict) {
		t.Error(verdict)
	}
	effects := p.id("effects").content()
	if len(p.id("effects").all("figure", "")) != 2 || !strings.Contains(effects, "1960") || strings.Contains(effects, "1,960") || strings.Contains(effects, "1952.5") {
		t.Errorf("effects: %s", effects)
	}
	health := p.id("health").content()
	if strings.Contains(health, "levels") || strings.Contains(health, "mind") || !strings.Contains(health, "2,000") {
		t.Errorf("data: %s", health)
	}
	if worst := p.id("worst").content(); regexp.MustCompile(`\d\.\d{8}`).MatchString(worst) {
		t.Errorf("worst rows: %s", worst)
	}
	// Small counts are in their intervals, of whole numbers, whatever their spread; those of
	// Poisson's law are not doubted. These are 0, 0 and 3 in turn, of mean 1 and variance 2, and
	// the places of uniform numbers among the shares of Poisson(1).
	for y, doubted := range map[string]bool{
		"3 * (i % 3 = 2)::INT": true,
		"list_sum([(hash(i) % 1000000 / 1e6 > c)::INT FOR c IN [0.367879, 0.735759, 0.919699, 0.981012, 0.996340, 0.999406, 0.999917]])": false,
	} {
		ok(t, "sql", "-c", "COPY (SELECT "+y+" AS y, hash(i + 5) % 100 / 100.0 AS u FROM range(3000) t(i)) TO '"+path("h.parquet")+"'")
		ok(t, "fit", path("h.parquet"), "-f", "y ~ u", "-o", "family=poisson", "--out", path("hf.parquet"), "-q")
		ok(t, "report", "-b", path("hf.parquet"), path("h.parquet"), "--out", path("h.html"), "-q")
		if b, err = os.ReadFile(path("h.html")); err != nil {
			t.Fatal(err)
		}
		verdict := parsePage(t, b).id("verdict").content()
		if strings.Contains(verdict, "The counts vary 2 times as much") != doubted || strings.Contains(verdict, "too few") {
			t.Errorf("%s: %s", y, verdict)
		}
	}
	// Nor are those of many groups of two: half a group knows little of the other.
	ok(t, "sql", "-c", `COPY (SELECT 'g' || g AS g, (SELECT count(*) FROM range(300) k(k) WHERE hash(g * 1000 + i * 500 + k) % 1000000 / 1e6 < exp(1.2 + 1.5 * sin(g * 1.7)) / 300) AS y FROM range(200) a(g), range(2) b(i)) TO '`+path("p.parquet")+"'")
	ok(t, "fit", path("p.parquet"), "-f", "y ~ (1 | g)", "-o", "family=poisson", "--out", path("pf.parquet"), "-q")
	ok(t, "report", "-b", path("pf.parquet"), path("p.parquet"), "--out", path("p.html"), "-q")
	if b, err = os.ReadFile(path("p.html")); err != nil {
		t.Fatal(err)
	}
	if verdict := parsePage(t, b).id("verdict").content(); strings.Contains(verdict, "times as much") {
		t.Error(verdict)
	}
	// Rows of one response have nothing to be better at.
	ok(t, "fit", path("d.parquet"), "-f", "y > 3 ~ u", "--out", path("g.parquet"), "-q")
	ok(t, "report", "-b", path("g.parquet"), path("d.parquet"), "--where", "y > 3", "--out", path("g.html"), "-q")
	if b, err = os.ReadFile(path("g.html")); err != nil {
		t.Fatal(err)
	}
	if verdict := parsePage(t, b).id("verdict").content(); !strings.Contains(verdict, "All these responses are alike") || strings.Contains(verdict, "do not use it") {
		t.Error(verdict)
	}
}

// The table of the data minds columns that are far from scale.
func TestScaleNotes(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "d.csv")
	var b strings.Builder
	b.WriteString("y,turnover,n=items\n")
	for i := range 80 {
		fmt.Fprintf(&b, "%d,%g,%d\n", (i*i%7)%2, 1e9+float64(i*37%50)*1e3, i%5)
	}
	if err := os.WriteFile(data, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"standardize=true", "standardize=false"} {
		fit, page := filepath.Join(dir, "f.parquet"), filepath.Join(dir, "r.html")
		ok(t, "fit", data, "-f", "y ~ .", "-m", "laplace", "-o", option, "-q", "--out", fit)
		ok(t, "report", "-b", fit, data, "--out", page, "-q")
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		p := parsePage(t, text)
		if health := p.id("health").content(); !strings.Contains(health, "far from unit scale") || !strings.Contains(health, "1e+09") {
			t.Errorf("%s: %s", option, health)
		}
		if drivers := p.id("drivers"); drivers == nil || !strings.Contains(drivers.content(), "n=items") {
			t.Errorf("%s: the drivers lack n=items", option)
		}
	}
}

// The report of counts says what exposure its effects are at.
func TestReportOfCounts(t *testing.T) {
	dir := t.TempDir()
	data, fit, page := filepath.Join(dir, "d.csv"), filepath.Join(dir, "f.parquet"), filepath.Join(dir, "r.html")
	var b strings.Builder
	b.WriteString("claims,months,g\n")
	for i := range 400 {
		fmt.Fprintf(&b, "%d,%d,%c\n", max(i*i*7%29-12, 0), 1+i%12, 'a'+i%3)
	}
	if err := os.WriteFile(data, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	ok(t, "fit", data, "-f", "claims ~ g + offset(ln(months))", "-o", "family=poisson", "-q", "--out", fit)
	ok(t, "report", "-b", fit, data, "--out", page, "-q")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	p := parsePage(t, text)
	if effects := p.id("effects").content(); !strings.Contains(effects, "The offset is 0: an exposure of 1") {
		t.Error(effects)
	}
}

// Levels may hold what ends a statement or is no text of XML.
func TestReportOfZeroBytes(t *testing.T) {
	dir := t.TempDir()
	data, fit, page := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet"), filepath.Join(dir, "r.html")
	query(t, "COPY (SELECT i % 5 AS x, CASE WHEN i % 3 = 0 THEN 'l' || chr(0) || chr(27) || 'it''s' ELSE 'l' || i % 3 END AS g, (hash(i) % 10) < 3 + i % 3 AS y FROM range(300) t(i)) TO '"+data+"'")
	ok(t, "fit", data, "-f", "y ~ x + g", "-q", "--out", fit)
	ok(t, "report", "-b", fit, data, "--out", page, "-q")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if n := parsePage(t, text).id("weights"); bytes.IndexByte(text, 0) >= 0 || n == nil || !strings.Contains(n.content(), "it's") {
		t.Errorf("zero byte at %d, weights %v", bytes.IndexByte(text, 0), n)
	}
}

// A stream whose time is a date has dates on its axes and on its card, and a number's path is
// that of the effect of a standard deviation, beside those of levels.
func TestReportOfDates(t *testing.T) {
	dir := t.TempDir()
	data, fit, page := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet"), filepath.Join(dir, "r.html")
	query(t, "COPY (SELECT TIMESTAMP '2001-01-01' + INTERVAL (i * 43) MINUTE AS moment, i, 1e6 + 1000 * (i * 37 % 101) AS far, 'l' || i % 3 AS g, (hash(i) % 1000) < 400 + 4 * (i * 37 % 101) AS y FROM range(6000) t(i)) TO '"+data+"'")
	ok(t, "fit", data, "-f", "y ~ far + g", "-m", "adf", "-o", "time=moment", "-o", "process_noise=0.001", "--order", "moment", "-q", "--out", fit)
	ok(t, "report", "-b", fit, data, "--out", page, "-q")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	p := parsePage(t, text)
	for id, want := range map[string][]string{"trajectories": {"2001-02", "2001-06", "weight, of numbers by sd, ± 1 sd"}, "evidence": {"2001-02", "2001-06"}, "card": {"2001-06-29 03:17"}} {
		for _, w := range want {
			if n := p.id(id); n == nil || !strings.Contains(n.content(), w) {
				t.Errorf("%s lacks %q", id, w)
			}
		}
	}
	// The path of far, 0.4 to 0.8 over three and a half deviations, is no line at 0.
	svg := p.id("trajectories").all("svg", "wide")[0]
	for k, key := range p.id("trajectories").all("div", "legend")[0].all("span", "") {
		if strings.TrimSpace(key.content()) != "far" {
			continue
		}
		zero := math.NaN()
		for _, tick := range svg.all("text", "tick") {
			if tick.content() == "0" {
				if _, err := fmt.Sscan(tick.attrs["y"], &zero); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, line := range svg.all("polyline", fmt.Sprintf("s%d", k/2)) {
			for _, at := range strings.Fields(line.attrs["points"]) {
				var x, y float64
				if _, err := fmt.Sscanf(at, "%f,%f", &x, &y); err != nil {
					t.Fatal(err)
				}
				if !(y < zero-4) {
					t.Errorf("the path of far is at %v, 0 at %v", y, zero)
				}
			}
		}
	}
}

// Rows of numbers alone have one typical row, so that a band has as many corners as it has
// points; a column that runs against the others is among the drivers drawn; an identifier and
// a probability next to 1 are told.
func TestReportOfNumbers(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, fit, page := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet"), filepath.Join(dir, "r.html")
	var more []string
	for k := range 16 {
		more = append(more, fmt.Sprintf("(hash(i + %d) %% 1000) / 1000.0 AS x%02d", 1000*k+7, k))
	}
	query(t, "COPY (SELECT i + 1 AS id, (hash(i) % 1000) / 100.0 AS a, (hash(i) % 1000) / 100.0 + (hash(i + 3) % 100) / 50.0 AS against, "+strings.Join(more, ", ")+
		", CASE WHEN i = 5 THEN (hash(i) % 1000) <= 500 ELSE (hash(i) % 1000) / 100.0 - 0.8 * (hash(i + 3) % 100) / 50.0 > 4.2 + (hash(i + 4) % 100) / 400.0 END AS y FROM range(800) t(i)) TO '"+data+"'")
	ok(t, "fit", data, "-f", "y ~ .", "-m", "laplace", "-q", "--out", fit)
	ok(t, "report", "-b", fit, data, "--out", page, "-q")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 400_000 {
		t.Errorf("the page has %d bytes", len(text))
	}
	p := parsePage(t, text)
	for _, band := range p.id("effects").all("polygon", "band") {
		if n := len(strings.Fields(band.attrs["points"])); n != 2*effectPoints {
			t.Errorf("a band of %d corners", n)
		}
	}
	if drivers := p.id("driving").content(); !strings.Contains(drivers, "against") || !strings.Contains(drivers, "the 15 strongest of 19 columns") || strings.Contains(drivers, "-0.000") {
		t.Error(drivers)
	}
	if health := p.id("health").content(); !strings.Contains(health, "counts the rows: an identifier?") || strings.Count(health, "identifier") != 1 {
		t.Error(health)
	}
	for v, want := range map[float64]string{0.5: "0.5", 0.99999999: "1 - 1e-08", 1: "1", 0: "0", 0.99994: "0.9999", 17.25: "17.25"} {
		if got := predicted(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// Of shares of trials the worst row is by the deviation of a share of so many, however the model
// learnt; the interval of a trial's probability is none of shares, of which
// nothing is said.
func TestWorstShares(t *testing.T) {
	dir := t.TempDir()
	data, fit, html := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "f.parquet"), filepath.Join(dir, "r.html")
	query(t, "COPY (SELECT i, CASE WHEN i = 30 THEN 3000 ELSE i * 7 % 5 END AS y, CASE WHEN i = 30 THEN 4000 ELSE 4 END AS n, (i * 37 % 100) / 25.0 - 2 AS u FROM range(60) t(i)) TO '"+data+"'")
	rows := "(FROM '" + data + "' ORDER BY i)"
	for how, c := range map[string]struct{ method, of string }{
		leaveOneOut: {"laplace", "(SELECT i, y, n, bglm_loo_predict(fit, y, {u: u}, {trials: n}) AS d FROM " + rows + ", (SELECT bglm_laplace(y, {u: u}, {trials: n}) AS fit FROM " + rows + "))"},
		progressive: {"adf", "(SELECT i, y, n, l[i + 1] AS d FROM " + rows + ", (SELECT bglm_progressive(y, {u: u}, {trials: n} ORDER BY i) AS l FROM " + rows + "))"},
	} {
		ok(t, "fit", data, "-f", "y ~ u", "-m", c.method, "-o", "trials=n", "--order", "i", "-q", "--out", fit)
		if q := evaluated(t, data, "-b", fit); q.How != how || q.Coverage != nil || q.RMSE == nil {
			t.Errorf("%s: %+v", how, q)
		}
		ok(t, "report", "-b", fit, data, "--out", html, "-q")
		b, err := os.ReadFile(html)
		if err != nil {
			t.Fatal(err)
		}
		p := parsePage(t, b)
		first := p.id("worst").all("tr", "")[1].all("td", "")
		for k, want := range map[int]string{1: "i + 1", 4: "round(off, 3)"} {
			want := query(t, "SELECT "+want+" FROM (SELECT i, abs(y / n - d.mean) / sqrt((d.mean * (1 - d.mean) - v) / n + v) AS off FROM (SELECT *, ((d.upper - d.lower) / 3.92)**2 AS v FROM "+c.of+")) ORDER BY off DESC LIMIT 1")
			if got := first[k].content(); got != want {
				t.Errorf("%s: the worst row has %s, want %s", how, got, want)
			}
		}
		if said := p.id("verdict").content(); strings.Contains(said, "95 % intervals") {
			t.Errorf("%s: %s", how, said)
		}
	}
}

// The page says how many rows it could not judge, of classes too, and its intervals of weights end
// where those of bglm summary do.
func TestReportCountsRows(t *testing.T) {
	dir := t.TempDir()
	data, page := filepath.Join(dir, "d.parquet"), filepath.Join(dir, "r.html")
	query(t, "COPY (SELECT i, hash(i) % 100 / 10.0 AS x, CASE WHEN i % 10 > 0 THEN hash(i + 1) % 2 END AS b, CASE WHEN i % 10 > 0 THEN ['u<v', 'w', 'z'][1 + (hash(i + 2) % 3)::INT] END AS c, 2e7 * x + 1e6 * (hash(i + 3) % 100) AS v FROM range(200) t(i)) TO '"+data+"'")
	for _, args := range [][]string{{"-f", "b ~ x"}, {"-f", "c ~ x", "-m", "softmax"}} {
		fit := filepath.Join(dir, "f.parquet")
		ok(t, append([]string{"fit", data, "-q", "--where", "i >= 100", "--out", fit}, args...)...)
		ok(t, "report", "-b", fit, data, "--where", "i < 100", "--out", page, "-q")
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsePage(t, text).content(); !regexp.MustCompile(`rows\s*90\s*rows without y or prediction\s*10\b`).MatchString(got) {
			t.Errorf("%v: %s", args, got)
		}
	}
	fit := filepath.Join(dir, "g.parquet")
	ok(t, "fit", data, "-q", "-f", "v ~ x", "-o", "family=gaussian", "--out", fit)
	ok(t, "report", "-b", fit, "--out", page, "-q")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	weights := parsePage(t, text).content()
	var terms []struct {
		Term         string
		Lower, Upper float64
	}
	if err := json.Unmarshal([]byte(ok(t, "summary", "-b", fit, "--json").stdout), &terms); err != nil {
		t.Fatal(err)
	}
	for _, w := range terms {
		if w.Term != "x" && w.Term != kernels.Intercept {
			continue
		}
		for _, end := range []float64{w.Lower, w.Upper} {
			if !strings.Contains(weights, chart.Digits(end, 4)) {
				t.Errorf("%s: no %s in %s", w.Term, chart.Digits(end, 4), weights)
			}
		}
	}
}

// The chart of few rows does not promise as many bins as there are of many.
func TestFewBins(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	query(t, "COPY (SELECT i % 3 = 0 AS y, sin(i) AS x FROM range(60) t(i)) TO '"+in("d.csv")+"'")
	ok(t, "fit", "-q", in("d.csv"), "-f", "y ~ x", "--out", in("f.parquet"))
	for rows, want := range map[string]string{"x > 0.99 AND y": "1 bin ", "x > 0.9": "10 bins", "true": "20 bins"} {
		ok(t, "report", "-q", in("d.csv"), "--where", rows, "-b", in("f.parquet"), "--out", in("r.html"), "--plots", in("p"))
		if got, err := os.ReadFile(in("p/calibration.svg")); err != nil || !strings.Contains(string(got), "Calibration: "+want) {
			t.Errorf("%s: no %q in the chart, %v", rows, want, err)
		}
	}
}
