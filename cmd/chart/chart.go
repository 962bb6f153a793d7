// Package chart draws the plots of a report, as SVG for its page and as PNG: points,
// lines, bands and intervals over two axes.
package chart

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Chart is a plot as data: report draws it as SVG into the page, --plots also as a
// file and as PNG.
type Chart struct {
	ID, Title, XLabel, YLabel string
	Series                    []Series
	Names                     []string // of the rows of a chart of intervals, top first
	Row                       float64  // least height of a row of names in pixels
	X, Y                      *[2]float64
	Ratio                     bool // x holds ratios, above 0, on a logarithmic scale
	Same                      bool // all series have one colour
	Whole                     bool // x counts, as years do: whole ticks, below 10,000 without a comma
	Dates                     bool // x are days since 1970
}

// Series is one line, set of points, or set of intervals.
type Series struct {
	Label  string
	Kind   string // line, points, interval, reference, band
	X, Y   []float64
	Lo, Hi []float64 // interval: in x; band, points and around a line: in y
	Tip    []string
}

const (
	chartWidth  = 540
	chartHeight = 330
	narrowWidth = 320 // of a chart for phones, whose type is read at about its own size
	dotRadius   = 4
)

// bounds are the smallest ranges that hold all series, widened a little; of ratios their
// logarithms.
func (c *Chart) bounds() (x, y [2]float64) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	grow := func(r *[2]float64, vs []float64) {
		for _, v := range vs {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				r[0], r[1] = min(r[0], v), max(r[1], v)
			}
		}
	}
	for _, s := range c.Series {
		grow(&x, s.X)
		grow(&y, s.Y)
		if s.Kind == "interval" {
			grow(&x, s.Lo)
			grow(&x, s.Hi)
		} else {
			grow(&y, s.Lo)
			grow(&y, s.Hi)
		}
	}
	if c.Ratio {
		x[0], x[1] = math.Log(x[0]), math.Log(x[1])
	}
	fix := func(r, given *[2]float64) {
		if given != nil {
			*r = *given
			return
		}
		if !(r[0] <= r[1]) {
			*r = [2]float64{0, 1}
		}
		pad := 0.04 * (r[1] - r[0])
		if pad == 0 {
			pad = max(0.5, 0.1*math.Abs(r[0]))
		}
		positive := r[0] >= 0
		r[0], r[1] = r[0]-pad, r[1]+pad
		if positive && !(r == &x && c.Ratio) { // as counts and shares are
			r[0] = max(r[0], 0)
		}
	}
	fix(&x, c.X)
	fix(&y, c.Y)
	if len(c.Names) > 0 {
		y = [2]float64{-0.5, float64(len(c.Names)) - 0.5}
	}
	return x, y
}

// ticks are about n round numbers in a range.
func ticks(lo, hi float64, n int) []float64 { return ticksBy(lo, hi, n, 1, 2, 2.5, 5, 10) }

// ticksBy are ticks whose steps are one of the factors times a power of ten.
func ticksBy(lo, hi float64, n int, factors ...float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	for _, f := range factors {
		if (hi-lo)/(f*step) <= float64(n) {
			step *= f
			break
		}
	}
	var out []float64
	for v := math.Ceil(lo/step-1e-9) * step; v <= hi+1e-9*step && len(out) < 50; v += step {
		if math.Abs(v) < 1e-12*step {
			v = 0
		}
		out = append(out, v)
	}
	return out
}

// whole says whether all places of the horizontal axis are whole numbers, as hours are.
func (c *Chart) whole() bool {
	for _, s := range c.Series {
		if slices.ContainsFunc(s.X, func(x float64) bool { return x != math.Trunc(x) }) || s.Kind == "interval" {
			return false
		}
	}
	return true
}

// ratioTicks are round ratios between those of the logarithms lo and hi, up to most.
func ratioTicks(lo, hi float64, most int) []float64 {
	if hi-lo < math.Ln2 {
		return ticks(math.Exp(lo), math.Exp(hi), min(most, 6))
	}
	for _, steps := range [][]float64{{1, 1.5, 2, 3, 5, 7}, {1, 2, 5}, {1}} {
		var out []float64
		for e := math.Floor(lo / math.Ln10); e <= hi/math.Ln10; e++ {
			for _, f := range steps {
				if t := f * math.Pow(10, e); math.Log(t) >= lo && math.Log(t) <= hi {
					out = append(out, t)
				}
			}
		}
		if len(out) <= most {
			return out
		}
	}
	var out []float64
	for _, e := range ticksBy(lo/math.Ln10, hi/math.Ln10, min(most, 6), 1, 2, 5, 10) { // steps of one or more, for there are more powers than ticks
		out = append(out, math.Pow(10, math.Round(e)))
	}
	return out
}

// Short prints a number in a few digits.
func Short(v float64) string {
	if a := math.Abs(v); a >= 1e6 || a > 0 && a < 1e-3 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return Thousands(strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64))
}

// labels are the ticks as text; in full where that makes some of them alike, as of numbers
// whose spread is small beside them.
func labels(ticks []float64, text func(float64) string) []string {
	out := make([]string, len(ticks))
	seen := map[string]bool{}
	for i, t := range ticks {
		out[i] = text(t)
		seen[out[i]] = true
	}
	if len(seen) < len(ticks) && len(ticks) > 1 {
		step := ticks[1] - ticks[0]
		digits := min(max(2-int(math.Floor(math.Log10(step))), 0), 20)
		for i, t := range ticks {
			out[i] = strconv.FormatFloat(t, 'f', digits, 64)
			if digits > 0 {
				out[i] = strings.TrimSuffix(strings.TrimRight(out[i], "0"), ".")
			}
			out[i] = Thousands(out[i])
		}
	}
	return out
}

// Digits prints a number to n significant digits, its thousands apart.
func Digits(v float64, n int) string {
	a := math.Abs(v)
	if a >= 1e9 || a > 0 && a < 1e-4 || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'g', n, 64)
	}
	if a > 0 {
		n -= 1 + int(math.Floor(math.Log10(a)))
		if n < 0 { // the digits of a whole number are all shown
			n = 0
		}
	}
	s := strconv.FormatFloat(v, 'f', n, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		s = "0"
	}
	return Thousands(s)
}

// Thousands parts the digits before the point of a number by commas.
func Thousands(s string) string {
	whole, rest, point := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "." + rest
	}
	return sign + whole
}

// shape is a piece of a picture: of kind line, polyline, polygon, circle or text, in pixels
// from the top left. Both files and pages are drawn from the same shapes.
type shape struct {
	kind, class string
	x, y        []float64
	text        string
	anchor      string // of text: start, middle or end at its place
	turned      bool   // text that reads upwards
	tip         string
}

// canvas gathers shapes: X and Y are places of the picture for those of the chart.
type canvas struct {
	shapes                          []shape
	x, y                            [2]float64 // ranges of the chart
	left, top, right, bottom, width float64    // margins, in pixels
	height                          float64
	rows                            []float64 // of names: where each begins, from the top, and the last ends
	ratio                           bool      // x has a logarithmic scale
}

func (c *canvas) X(v float64) float64 {
	if c.ratio {
		v = math.Log(v)
	}
	return c.left + (v-c.x[0])/(c.x[1]-c.x[0])*(c.width-c.left-c.right)
}

func (c *canvas) Y(v float64) float64 {
	if n := len(c.rows) - 1; n > 0 {
		k := min(max(int(math.Floor(v+0.5)), 0), n-1)
		return c.rows[k] + (v+0.5-float64(k))*(c.rows[k+1]-c.rows[k])
	}
	return c.height - c.bottom - (v-c.y[0])/(c.y[1]-c.y[0])*(c.height-c.top-c.bottom)
}

func (c *canvas) line(class string, x1, x2, y1, y2 float64) {
	c.shapes = append(c.shapes, shape{kind: "line", class: class, x: []float64{x1, x2}, y: []float64{y1, y2}})
}

func (c *canvas) write(class, anchor string, x, y float64, text string) {
	c.shapes = append(c.shapes, shape{kind: "text", class: class, anchor: anchor, x: []float64{x}, y: []float64{y}, text: text})
}

const (
	nameRow   = 20.0 // height of a row of names
	nameLine  = 14.0 // of each line of a long one
	mostLines = 5
)

// draw lays the chart out; alone draws its title and legend too.
func (c *Chart) draw(alone bool) *canvas { return c.layout(alone, chartWidth) }

// layout is draw at a width.
func (c *Chart) layout(alone bool, width float64) *canvas {
	d := &canvas{left: 0.11 * width, top: 12, right: 18, bottom: 46, width: width, height: min(chartHeight, 0.85*width), ratio: c.Ratio}
	maxLeft := 0.463 * width
	if alone {
		d.top += 24
	}
	d.x, d.y = c.bounds()
	names := make([][]string, len(c.Names))
	if len(names) > 0 {
		widest := 0.0
		d.rows = []float64{d.top}
		for i, s := range c.Names {
			names[i] = folded(s, maxLeft-20, mostLines)
			for _, l := range names[i] {
				widest = max(widest, textWidth(l))
			}
			row := max(nameRow, c.Row, nameLine*float64(len(names[i]))+6) * max(1, 3/float64(len(names)))
			d.rows = append(d.rows, d.rows[i]+row)
		}
		d.left = 16 + widest
		d.height = d.rows[len(names)] + d.bottom
	} else {
		ys := ticks(d.y[0], d.y[1], 6)
		for _, l := range labels(ys, Short) {
			d.left = max(d.left, 34+textWidth(l))
		}
	}
	// Room for what is written at the ends.
	if xs, l := c.xTicks(d); len(xs) > 0 {
		d.left = max(d.left, d.left+0.5*textWidth(l[0])+4-d.X(xs[0]))
		d.right = max(d.right, d.right+0.5*textWidth(l[len(l)-1])+4+d.X(xs[len(xs)-1])-d.width)
	}
	xLabel := folded(c.XLabel, d.width-16, 2)
	d.bottom += nameLine * float64(len(xLabel)-1)
	d.height += nameLine * float64(len(xLabel)-1)
	legend := c.Legend()
	const legendLine = 22
	keys := make([][2]float64, len(legend)) // places, from the left and the first line
	if alone && len(legend) > 0 {
		x, line := d.left, 0.0
		for i, k := range legend {
			if end := x + 9 + textWidth(k.Label); i > 0 && end > d.width-8 {
				x, line = d.left, line+1
			}
			keys[i] = [2]float64{x, line * legendLine}
			x += 26 + textWidth(k.Label)
		}
		d.bottom += legendLine * (line + 1)
		d.height += legendLine * (line + 1)
	}
	c.axes(d, names, xLabel)
	for k := range c.Series {
		d.series(&c.Series[k], c.class(k))
	}
	if alone {
		d.write("title", "start", 12, 22, c.Title)
		for i, k := range legend {
			x, y := keys[i][0], d.height-legendLine*(keys[len(keys)-1][1]/legendLine+1)+10+keys[i][1]
			d.shapes = append(d.shapes, shape{kind: "circle", class: k.Class + " dot key", x: []float64{x}, y: []float64{y}})
			d.write("tick", "start", x+9, y+4, k.Label)
		}
	}
	return d
}

// folded is a name in up to most lines that are not wider than that, broken where words and
// features are; the whole name is in the table.
func folded(s string, width float64, most int) []string {
	var out []string
	for line := []rune(s); ; {
		if textWidth(string(line)) <= width {
			return append(out, strings.TrimSpace(string(line)))
		}
		at, good := 1, 0
		for at < len(line) && textWidth(string(line[:at+1])) <= width {
			if strings.ContainsRune(" =:·,;_-/", line[at]) {
				good = at + 1
			}
			at++
		}
		if good > at/3 {
			at = good
		}
		if len(out) == most-1 {
			return append(out, string(line[:max(at-1, 1)])+"…")
		}
		out, line = append(out, strings.TrimSpace(string(line[:at]))), line[at:]
	}
}

// xTicks are the ticks of the horizontal axis and their text: as many as have room.
func (c *Chart) xTicks(d *canvas) (xs []float64, written []string) {
	for n := 9; n > 0; n-- {
		text := Short
		switch whole := c.whole() && d.x[1]-d.x[0] > 5; {
		case c.Dates && max(-d.x[0], d.x[1]) < farDay:
			xs, text = dateTicks(d.x[0], d.x[1], min(n, 7))
		case c.Ratio:
			xs = ratioTicks(d.x[0], d.x[1], n)
		case c.Whole:
			xs = slices.DeleteFunc(ticksBy(d.x[0], d.x[1], min(n, 7), 1, 2, 5, 10), func(t float64) bool { return math.Abs(t-math.Round(t)) > 1e-9 })
			if max(-d.x[0], d.x[1]) < 10_000 {
				text = func(t float64) string { return strconv.FormatFloat(math.Round(t), 'f', 0, 64) }
			}
		case whole:
			xs = ticksBy(d.x[0], d.x[1], n, 1, 2, 5, 10)
		default:
			xs = ticks(d.x[0], d.x[1], min(n, 7))
		}
		written = labels(xs, text)
		room := true
		for i := 1; i < len(xs); i++ {
			room = room && d.X(xs[i])-d.X(xs[i-1]) >= 0.5*(textWidth(written[i-1])+textWidth(written[i]))+8
		}
		if room {
			break
		}
	}
	return xs, written
}

// axes draws the grid, what is written at it, and the labels.
func (c *Chart) axes(d *canvas, names [][]string, xLabel []string) {
	left, right, top, bottom := d.left, d.width-d.right, d.top, d.height-d.bottom
	xs, written := c.xTicks(d)
	for i, t := range xs {
		d.line("grid", d.X(t), d.X(t), top, bottom)
		d.write("tick", "middle", d.X(t), bottom+16, written[i])
	}
	if len(names) == 0 {
		ys := ticks(d.y[0], d.y[1], 6)
		for i, l := range labels(ys, Short) {
			d.line("grid", left, right, d.Y(ys[i]), d.Y(ys[i]))
			d.write("tick", "end", left-6, d.Y(ys[i])+4, l)
		}
	}
	for i, lines := range names {
		y := d.Y(float64(i)) + 4 - nameLine/2*float64(len(lines)-1)
		for _, l := range lines {
			d.write("tick", "end", left-8, y, l)
			y += nameLine
		}
	}
	for k, l := range xLabel {
		half := 0.5*textWidth(l) + 4
		d.write("label", "middle", min(max(left+(right-left)/2, half), d.width-half), bottom+36+nameLine*float64(k), l)
	}
	if c.YLabel != "" {
		d.shapes = append(d.shapes, shape{kind: "text", class: "label", anchor: "middle", x: []float64{14}, y: []float64{top + (bottom-top)/2}, text: c.YLabel, turned: true})
	}
}

// series draws one series in the colour of a class.
func (d *canvas) series(s *Series, class string) {
	dot := func(i int) {
		tip := ""
		if i < len(s.Tip) {
			tip = s.Tip[i]
		}
		d.shapes = append(d.shapes, shape{kind: "circle", class: class + " dot", x: []float64{d.X(s.X[i])}, y: []float64{d.Y(s.Y[i])}, tip: tip})
	}
	path := func(kind, class string, xs, ys []float64) {
		sh := shape{kind: kind, class: class}
		for i := range xs {
			sh.x, sh.y = append(sh.x, d.X(xs[i])), append(sh.y, d.Y(ys[i]))
		}
		d.shapes = append(d.shapes, sh)
	}
	if s.Kind == "band" || s.Kind == "line" && len(s.Lo) > 0 {
		xs, ys := slices.Clone(s.X), slices.Clone(s.Hi)
		for i := len(s.X) - 1; i >= 0; i-- {
			xs, ys = append(xs, s.X[i]), append(ys, s.Lo[i])
		}
		path("polygon", class+" band", xs, ys)
	}
	switch s.Kind {
	case "line", "reference":
		path("polyline", class+" line", s.X, s.Y)
	case "points":
		for i := range s.X {
			if i < len(s.Lo) {
				d.line(class+" line", d.X(s.X[i]), d.X(s.X[i]), d.Y(s.Lo[i]), d.Y(s.Hi[i]))
			}
			dot(i)
		}
	case "interval":
		for i := range s.X {
			d.line(class+" line", d.X(s.Lo[i]), d.X(s.Hi[i]), d.Y(s.Y[i]), d.Y(s.Y[i]))
			dot(i)
		}
	}
}

// SVG draws the chart. Colours are classes, which the page's style gives, light and
// dark; alone adds a style of its own, the title and the legend.
func (c *Chart) SVG(alone bool) string { return c.svg(c.draw(alone), alone, "chart") }

// Pair draws the chart twice, of class wide and, for phones, narrow: of the two a page shows
// one.
func (c *Chart) Pair() string {
	return c.svg(c.draw(false), false, "chart wide") + c.svg(c.layout(false, narrowWidth), false, "chart narrow")
}

func (c *Chart) svg(d *canvas, alone bool, class string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s" class="%s">`, d.width, d.height, xmlText(c.Title), class)
	if alone {
		fmt.Fprintf(&b, "<style>%s</style><rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>", svgStyle)
	}
	for _, s := range d.shapes {
		switch s.kind {
		case "line":
			fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, s.class, s.x[0], s.x[1], s.y[0], s.y[1])
		case "polyline", "polygon":
			fmt.Fprintf(&b, `<%s class="%s" points="`, s.kind, s.class)
			for i := range s.x {
				fmt.Fprintf(&b, "%.1f,%.1f ", s.x[i], s.y[i])
			}
			b.WriteString(`"/>`)
		case "circle":
			fmt.Fprintf(&b, `<circle class="%s" cx="%.1f" cy="%.1f" r="%d">`, s.class, s.x[0], s.y[0], dotRadius)
			if s.tip != "" {
				b.WriteString("<title>" + xmlText(s.tip) + "</title>")
			}
			b.WriteString("</circle>")
		case "text":
			place := fmt.Sprintf(`x="%.1f" y="%.1f"`, s.x[0], s.y[0])
			if s.turned {
				place = fmt.Sprintf(`transform="translate(%.1f %.1f) rotate(-90)"`, s.x[0], s.y[0])
			}
			fmt.Fprintf(&b, `<text class="%s" %s text-anchor="%s">%s</text>`, s.class, place, s.anchor, xmlText(s.text))
		}
	}
	b.WriteString("</svg>")
	return b.String()
}

// class is the colour of series k.
func (c *Chart) class(k int) string {
	if c.Series[k].Kind == "reference" {
		return "ref"
	}
	if c.Same {
		return "s0"
	}
	return fmt.Sprintf("s%d", k%len(Palette))
}

// Key is an entry of a legend: the class that colours a series, and its name.
type Key struct{ Class, Label string }

// Legend names the series, for the page.
func (c *Chart) Legend() []Key {
	var out []Key
	for k, s := range c.Series {
		if s.Label != "" {
			out = append(out, Key{c.class(k), s.Label})
		}
	}
	return out
}

// Palette is for a light ground; the page has its own for a dark one.
var Palette = []string{"#2563a8", "#c2571a", "#2e7d4f", "#8e44ad", "#b8860b", "#c0392b", "#16808a", "#5d6570"}

var svgStyle = func() string {
	var b strings.Builder
	b.WriteString(`text{font:13px "Liberation Sans",Arial,Helvetica,sans-serif;fill:#333}.title{font-weight:600;font-size:15px}.grid{stroke:#e3e6ea}.line{fill:none;stroke-width:2}.ref{stroke:#888;stroke-dasharray:5 4}.band{opacity:.18;stroke:none}.ref.dot{fill:#888}`)
	for i, c := range Palette {
		fmt.Fprintf(&b, `.s%d{stroke:%s}.s%d.dot,.s%d.band{fill:%s}`, i, c, i, i, c)
	}
	return b.String()
}()

// xmlText is s as text of XML.
func xmlText(s string) string { return html.EscapeString(strings.Map(Printable, s)) }

// Printable is r, or for a control character, which XML and HTML have not, the sign of one that
// cannot be shown: with it a file would not be shown at all.
func Printable(r rune) rune {
	if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
		return utf8.RuneError
	}
	return r
}
