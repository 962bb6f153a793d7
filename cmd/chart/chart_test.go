package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// every holds a series of each kind.
func every() *Chart {
	x, y := []float64{0, 1, 2}, []float64{1, 3, 2}
	lo, hi := []float64{0.5, 2, 1}, []float64{2, 4, 3}
	return &Chart{ID: "all", Title: "a < b & c", XLabel: "x", YLabel: "y", Series: []Series{
		{Kind: "line", Label: "line", X: x, Y: y},
		{Kind: "points", Label: "points", X: x, Y: y, Lo: lo, Hi: hi, Tip: []string{"<1>"}},
		{Kind: "band", X: x, Lo: lo, Hi: hi},
		{Kind: "reference", Label: "reference", X: x, Y: x},
	}}
}

func intervals() *Chart {
	return &Chart{ID: "weights", Names: []string{"first", strings.Repeat("ü", 60)}, Series: []Series{
		{Kind: "interval", X: []float64{1, -1}, Y: []float64{0, 1}, Lo: []float64{0, -2}, Hi: []float64{2, 0}, Tip: []string{"one", "two"}},
	}}
}

// count reads an SVG as XML and counts its elements by name and first class.
func count(t *testing.T, svg string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if e, ok := tok.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					out[e.Name.Local+" "+a.Value]++
				}
			}
		}
	}
}

func TestSVG(t *testing.T) {
	n := count(t, every().SVG(true))
	for what, want := range map[string]int{"polyline s0 line": 1, "circle s1 dot": 3, "line s1 line": 3, "polygon s2 band": 1, "polyline ref line": 1} {
		if n[what] != want {
			t.Errorf("%d of %q, want %d", n[what], what, want)
		}
	}
	n = count(t, intervals().SVG(false))
	if n["line s0 line"] != 2 || n["circle s0 dot"] != 2 {
		t.Errorf("intervals: %v", n)
	}
	if first, second := intervals().places(t, "one"), intervals().places(t, "two"); !(first < second) {
		t.Errorf("the first name is at %s, the second at %s; want it above", first, second)
	}
}

// places is the height of the dot with a tip.
func (c *Chart) places(t *testing.T, tip string) string {
	svg := c.SVG(false)
	before, _, ok := strings.Cut(svg, "<title>"+tip)
	if !ok {
		t.Fatalf("no tip %q", tip)
	}
	_, y, _ := strings.Cut(before[strings.LastIndex(before, "<circle"):], `cy="`)
	y, _, _ = strings.Cut(y, `"`)
	return y
}

// decoded is the PNG of c.
func decoded(t *testing.T, c *Chart) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := c.PNG(&b); err != nil {
		t.Fatal(err)
	}
	m, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Names with control characters, which XML does not have, leave a file that can be read.
func TestControlCharacters(t *testing.T) {
	c := intervals()
	c.Title, c.Names[0], c.Series[0].Tip[0] = "a\x00", "g=\x00\x1b[31m\uffff\xff", "\x01"
	if n := count(t, c.SVG(true)); n["circle s0 dot"] != 2 {
		t.Errorf("%v", n)
	}
}

func TestPNG(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), 1, 1e30}
	far := &Chart{ID: "far", X: &[2]float64{0, 1}, Y: &[2]float64{0, 1}, Series: []Series{
		{Kind: "line", X: odd, Y: odd}, {Kind: "points", X: odd, Y: odd}, {Kind: "reference", X: odd, Y: odd}, {Kind: "band", X: odd, Lo: odd, Hi: odd}}}
	for _, c := range []*Chart{every(), intervals(), far} {
		m := decoded(t, c)
		if w := m.Bounds().Dx(); w != 1280 {
			t.Errorf("%s: %d pixels wide", c.ID, w)
		}
	}
}

// A picture has the colours of the SVG where that has its shapes.
func TestPNGPlaces(t *testing.T) {
	c := intervals()
	m := decoded(t, c)
	dots := 0
	for _, shape := range strings.Split(c.SVG(true), "<circle ")[1:] {
		var x, y float64
		if _, err := fmt.Sscanf(shape, `class="s0 dot" cx="%f" cy="%f"`, &x, &y); err != nil {
			t.Fatal(err)
		}
		for _, dx := range []float64{0, 8} { // the dot, and the line on its right
			if got, want := color.NRGBAModel.Convert(m.At(int(pictureScale*(x+dx)), int(pictureScale*y))), parseColour(Palette[0]); got != color.Color(want) {
				t.Errorf("%v pixels beside the dot at (%v, %v): %v, want %v", dx, x, y, got, want)
			}
		}
		if got := color.NRGBAModel.Convert(m.At(int(pictureScale*x), int(pictureScale*y)+20)); got == color.Color(parseColour(Palette[0])) {
			t.Error("below the dot there is its colour, too")
		}
		dots++
	}
	if dots != 2 {
		t.Errorf("%d dots, want 2", dots)
	}
}

func TestLegend(t *testing.T) {
	got := every().Legend()
	if len(got) != 3 || got[0] != (Key{"s0", "line"}) || got[2] != (Key{"ref", "reference"}) {
		t.Errorf("%v", got)
	}
}

// Years and other counts have whole ticks, and commas from 10,000 on.
func TestWhole(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{{1947, 1961, "1950 1955 1960"}, {0, 1, "0 1"}, {0, 12, "0 2 4 6 8 10 12"}, {10000, 40000, "10,000 15,000 20,000 25,000 30,000 35,000 40,000"}} {
		ch := &Chart{Whole: true, Series: []Series{{Kind: "line", X: []float64{c.lo, (c.lo+c.hi)/2 + 0.1, c.hi}, Y: []float64{0, 1, 2}}}}
		got := ""
		for _, s := range ch.draw(false).shapes {
			if s.kind == "text" && s.class == "tick" && s.anchor == "middle" {
				got += " " + s.text
			}
		}
		if got != " "+c.want {
			t.Errorf("%v to %v: %q, want %q", c.lo, c.hi, got, c.want)
		}
	}
}

// Ratios stand at their logarithms, and ticks are round ratios; names are whole or folded.
func TestRatios(t *testing.T) {
	c := &Chart{ID: "r", Ratio: true, Names: []string{"half", "twice", strings.Repeat("a long name ", 6)}, Series: []Series{
		{Kind: "interval", X: []float64{0.5, 2, 1}, Y: []float64{0, 1, 2}, Lo: []float64{0.25, 1, 1}, Hi: []float64{1, 4, 1}},
	}}
	d := c.draw(false)
	if a, b := d.X(1)-d.X(0.5), d.X(2)-d.X(1); math.Abs(a-b) > 1e-9 {
		t.Errorf("0.5 is %v from 1, 2 is %v", a, b)
	}
	ticks := map[string]bool{}
	for _, s := range d.shapes {
		if s.kind == "text" {
			ticks[s.text] = true
			if left := s.x[0] - textWidth(s.text); s.anchor == "end" && left < 0 {
				t.Errorf("%q begins at %v", s.text, left)
			}
		}
	}
	for _, want := range []string{"0.5", "1", "2", "a long name a long name a long name"} {
		if !ticks[want] {
			t.Errorf("no text %q in %v", want, ticks)
		}
	}
	for _, r := range [][2]float64{{math.Log(0.9), math.Log(1.1)}, {-7, 7}, {-300, 300}, {-1e-6, 1e-6}} {
		if n := len(ratioTicks(r[0], r[1], 9)); n < 1 || n > 9 {
			t.Errorf("%v: %d ticks", r, n)
		}
	}
	if got := strings.Join(folded(strings.Repeat("x", 300), 100, 3), "|"); strings.Count(got, "|") != 2 || !strings.HasSuffix(got, "…") {
		t.Error(got)
	}
	for s, want := range map[string]string{"1": "1", "-1234567.5": "-1,234,567.5", "999": "999", "1000": "1,000"} {
		if got := Thousands(s); got != want {
			t.Errorf("%s: %s", s, got)
		}
	}
}

// Ranges stay drawable: nothing, one value, and values that are no numbers.
func TestBounds(t *testing.T) {
	for _, ys := range [][]float64{nil, {3}, {math.NaN(), 3, math.Inf(1)}} {
		c := &Chart{Series: []Series{{Kind: "line", X: ys, Y: ys}}}
		if x, y := c.bounds(); !(x[0] < x[1] && y[0] < y[1]) || math.IsInf(y[1], 0) {
			t.Errorf("%v: %v %v", ys, x, y)
		}
	}
	for _, r := range [][2]float64{{0, 1}, {-1e-7, 1e-7}, {3, 1e9}} {
		if n := len(ticks(r[0], r[1], 6)); n < 2 || n > 8 {
			t.Errorf("%v: %d ticks", r, n)
		}
	}
	hours := &Chart{Series: []Series{{Kind: "line", X: []float64{6, 22}, Y: []float64{0, 1}}}}
	for _, s := range hours.draw(true).shapes {
		if s.kind == "text" && s.y[0] > chartHeight-40 && strings.Contains(s.text, ".") {
			t.Errorf("tick %s between whole numbers", s.text)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.1 + 0.2: "0.3", 1e-5: "1e-05", 2.5e7: "2.5e+07"} {
		if got := Short(v); got != want {
			t.Errorf("Short(%v) = %s, want %s", v, got, want)
		}
	}
}

// A line with Lo and Hi has a band of its own colour, and a long legend has several lines,
// none wider than the picture.
func TestBandsAndLegends(t *testing.T) {
	c := &Chart{}
	for range 6 {
		c.Series = append(c.Series, Series{Kind: "line", Label: "a rather long label", X: []float64{0, 1}, Y: []float64{1, 2}, Lo: []float64{0, 1}, Hi: []float64{2, 3}})
	}
	n := count(t, c.SVG(true))
	if n["polygon s5 band"] != 1 || n["polyline s5 line"] != 1 {
		t.Errorf("no band: %v", n)
	}
	d, lines := c.draw(true), map[float64]bool{}
	for _, s := range d.shapes {
		if s.text == "a rather long label" {
			lines[s.y[0]] = true
			if s.x[0]+textWidth(s.text) > d.width || s.y[0] > d.height {
				t.Errorf("%s at %v, %v is outside %v x %v", s.text, s.x, s.y, d.width, d.height)
			}
		}
	}
	if len(lines) != 2 {
		t.Errorf("%d lines of a legend, want 2", len(lines))
	}
}

// Ticks of numbers far from 0 for their spread are told apart, and a long name among short ones
// stays in its row.
func TestCloseTicksAndLongNames(t *testing.T) {
	c := Chart{Series: []Series{{Kind: "line", X: []float64{999_998_000, 1_000_002_000}, Y: []float64{0.9999990, 0.9999999}}}}
	places := map[string]int{}
	for _, s := range c.draw(false).shapes {
		if s.kind == "text" && s.class == "tick" {
			places[s.text]++
		}
	}
	for text, n := range places {
		if n > 1 {
			t.Errorf("%d ticks are called %q", n, text)
		}
	}
	if places["1,000,000,000"] != 1 {
		t.Error(places)
	}
	for _, n := range []int{3, 6, 40} {
		c = Chart{Series: []Series{{Kind: "interval"}}}
		for i := range n {
			s := &c.Series[0]
			s.X, s.Y, s.Lo, s.Hi = append(s.X, 0), append(s.Y, float64(i)), append(s.Lo, -1), append(s.Hi, 1)
			c.Names = append(c.Names, "a")
		}
		c.Names[2] = strings.Repeat("very long ", 30)
		var ys []float64
		for _, s := range c.draw(false).shapes {
			if s.kind == "text" && s.anchor == "end" {
				ys = append(ys, s.y[0])
			}
		}
		slices.Sort(ys)
		for i := 1; i < len(ys); i++ {
			if ys[i]-ys[i-1] < nameLine-0.01 {
				t.Errorf("names %v apart", ys[i]-ys[i-1])
			}
		}
	}
}

// The narrow chart of a pair has type that is read on a phone of 360 pixels, whose figures are
// 316 wide; in neither is a text outside, or one tick's over another's.
func TestPair(t *testing.T) {
	long := []string{"month=september, the first half of it", "a", strings.Repeat("very long ", 6), "education=university.degree"}
	charts := []*Chart{every(), intervals(),
		{ID: "ratios", Ratio: true, Names: long, XLabel: "odds ratio, of numbers by standard deviation", Series: []Series{{Kind: "interval", X: []float64{0.5, 2, 1, 1}, Y: []float64{0, 1, 2, 3}, Lo: []float64{0.02, 1, 1, 1}, Hi: []float64{1, 40, 1, 1}}}},
		{ID: "dates", Dates: true, Series: []Series{{Kind: "line", X: []float64{11323, 11503}, Y: []float64{1e6, 3e6}}}},
		{ID: "large", Series: []Series{{Kind: "line", X: []float64{1, 900_000}, Y: []float64{0.00012, 0.00013}}}},
	}
	for _, c := range charts {
		pair := c.Pair()
		if strings.Count(pair, "<svg") != 2 || !strings.Contains(pair, `viewBox="0 0 320 `) || !strings.Contains(pair, `class="chart narrow"`) {
			t.Fatalf("%s: %.300s", c.ID, pair)
		}
		for _, width := range []float64{chartWidth, narrowWidth} {
			d := c.layout(false, width)
			end := math.Inf(-1)
			for _, s := range d.shapes {
				if s.kind != "text" || s.turned {
					continue
				}
				w := textWidth(s.text)
				left := s.x[0] - map[string]float64{"start": 0, "middle": w / 2, "end": w}[s.anchor]
				if left < 0 || left+w > d.width || s.y[0] > d.height {
					t.Errorf("%s, %v wide: %q from %v to %v, at %v of %v", c.ID, width, s.text, left, left+w, s.y[0], d.height)
				}
				if s.class == "tick" && s.anchor == "middle" {
					if left < end {
						t.Errorf("%s, %v wide: %q begins at %v, the tick before it ends at %v", c.ID, width, s.text, left, end)
					}
					end = left + w
				}
			}
		}
	}
	if effective := 13.0 * (360 - 44) / narrowWidth; effective < 11 {
		t.Errorf("type of %v pixels", effective)
	}
	for _, c := range charts[2:3] { // a name of up to five lines is whole
		for _, width := range []float64{chartWidth, narrowWidth} {
			text := ""
			for _, s := range c.layout(false, width).shapes {
				if s.kind == "text" && s.anchor == "end" {
					text += s.text + " "
				}
			}
			for _, name := range long {
				for _, word := range strings.Fields(name) {
					if !strings.Contains(text, word) && !strings.Contains(strings.ReplaceAll(text, " ", ""), word) {
						t.Errorf("%v wide: no %q in %q", width, word, text)
					}
				}
			}
			if strings.Contains(text, "…") {
				t.Errorf("%v wide: a name is cut: %q", width, text)
			}
		}
	}
}

// Days are written as dates, by round steps from seconds to centuries.
func TestDates(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{
		{11323, 11503, "2001-01 2001-02 2001-03 2001-04 2001-05 2001-06"},
		{11323, 11330.5, "2001-01-02 2001-01-04 2001-01-06 2001-01-08"},
		{11323, 11324, "01-01 00:00 01-01 06:00 01-01 12:00 01-01 18:00 01-02 00:00"},
		{11323.25, 11323.5, "06:00 07:00 08:00 09:00 10:00 11:00 12:00"},
		{0, 20_000, "1970 1980 1990 2000 2010 2020"},
		{-140_000, 20_000, "1600 1700 1800 1900 2000"},
	} {
		xs, text := dateTicks(c.lo, c.hi, 7)
		if c.hi-c.lo == 1 {
			xs, text = dateTicks(c.lo, c.hi, 5)
		}
		got := strings.Join(labels(xs, text), " ")
		if got != c.want {
			t.Errorf("%v to %v: %q, want %q", c.lo, c.hi, got, c.want)
		}
	}
	for x, want := range map[float64]string{0: "1970-01-01", 11503.75: "2001-06-30 18:00", 1e9: "1e+09"} {
		if got := Date(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	// Numbers that are no dates of this era are numbers.
	far := &Chart{Dates: true, Series: []Series{{Kind: "line", X: []float64{0, 1e12}, Y: []float64{0, 1}}}}
	if _, written := far.xTicks(far.draw(false)); len(written) < 2 || !strings.Contains(written[1], "e+11") {
		t.Error(written)
	}
}

// What is not below 0 has no axis that is.
func TestPositive(t *testing.T) {
	c := &Chart{Series: []Series{{Kind: "points", X: []float64{0.01, 3}, Y: []float64{0, 2}, Lo: []float64{0, 1}, Hi: []float64{0.1, 4}}}}
	if x, y := c.bounds(); x[0] != 0 || y[0] != 0 || y[1] <= 4 {
		t.Error(x, y)
	}
	c.Series[0].Lo[0] = -0.1
	if _, y := c.bounds(); y[0] >= -0.1 {
		t.Error(y)
	}
	c = &Chart{Ratio: true, Series: []Series{{Kind: "line", X: []float64{2, 3}, Y: []float64{0, 2}}}}
	if x, _ := c.bounds(); x[0] >= math.Log(2) {
		t.Error(x)
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{5167: "5,167", 123456: "123,456", 12345.678: "12,346", 0.081894: "0.08189", -40.5: "-40.5", 0: "0", 1e9: "1e+09", 8.2890001e-06: "8.289e-06", 0.99999: "1", -0.00012: "-0.00012", 866.51: "866.5"} {
		if got := Digits(v, 4); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// Ratios of any size have powers of ten at their ticks.
func TestWideRatios(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		most   int
	}{{-22, 45, 9}, {-22, 45, 2}, {-25, 12, 9}, {-700, 700, 5}} {
		got := ratioTicks(c.lo, c.hi, c.most)
		for _, v := range got {
			if e := math.Log10(v); math.Abs(e-math.Round(e)) > 1e-9 || math.Log(v) < c.lo || math.Log(v) > c.hi {
				t.Errorf("from e^%v to e^%v: a tick at %v", c.lo, c.hi, v)
			}
		}
		if len(got) < 1 || len(got) > c.most {
			t.Errorf("from e^%v to e^%v: ticks %v, want up to %d", c.lo, c.hi, got, c.most)
		}
	}
}
