package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
	// Offline: nothing is loaded, and no link leads out but the name space of SVG.
	for _, m := range regexp.MustCompile(`(?i)https?://[^"' <>]+|<script|<link|src=|@import|url\(`).FindAllString(string(text), -1) {
		if m != "http://www.w3.org/2000/svg" {
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
		"card":    {"y ~ ad + x", "bernoulli, probit", "6000", "process_noise=0.01", "log evidence", "converged", "of their mean alone"},
		"fitness": {"log loss", "AUC", "Brier score"},
		"worst":   {"surprise", "rows.parquet"},
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
	}{"calibration": {"circle", "s0", 20}, "roc": {"polyline", "s0", 1}, "lift": {"polyline", "s0", 1}, "weights": {"circle", "dot", 22}, "trajectories": {"polygon", "band", 6}, "evidence": {"polyline", "s0", 1}} {
		f := p.id(id)
		if f == nil {
			t.Errorf("no figure %s", id)
			continue
		}
		if got := len(f.all(c.name, c.class)); got < c.least {
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
	if left, _ := os.ReadDir(path("plots")); len(left) != 16 {
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
	ok(t, "report", "-b", path("x.parquet"), "--out", path("x.html"), "-q")
	if b, _ := os.ReadFile(path("x.html")); bytes.Contains(b, []byte("<script")) {
		t.Error("a feature's name became markup")
	}
}
