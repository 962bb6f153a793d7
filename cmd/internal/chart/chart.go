// Package chart draws the plots of a report, as SVG for its page and as PNG: points,
// lines, bands and intervals over two axes.
package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Chart is a plot as data: report draws it as SVG into the page, --plots also as a
// file and as PNG.
type Chart struct {
	ID, Title, XLabel, YLabel string
	Series                    []Series
	Names                     []string // of the rows of a chart of intervals, top first
	X, Y                      *[2]float64
}

// Series is one line, set of points, or set of intervals.
type Series struct {
	Label  string
	Kind   string // line, points, interval, reference, band
	X, Y   []float64
	Lo, Hi []float64 // interval: in x; band: in y
	Tip    []string
}

const (
	chartWidth  = 640
	chartHeight = 360
)

// bounds are the smallest ranges that hold all series, widened a little.
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
		r[0], r[1] = r[0]-pad, r[1]+pad
	}
	fix(&x, c.X)
	fix(&y, c.Y)
	if len(c.Names) > 0 {
		y = [2]float64{-0.5, float64(len(c.Names)) - 0.5}
	}
	return x, y
}

// ticks are about n round numbers in a range.
func ticks(lo, hi float64, n int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	for _, f := range []float64{1, 2, 2.5, 5, 10} {
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

// Short prints a number in a few digits.
func Short(v float64) string {
	if a := math.Abs(v); a >= 1e6 || a > 0 && a < 1e-3 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}

// canvas draws a chart: X and Y are places of the picture for those of the chart.
type canvas struct {
	strings.Builder
	x, y                            [2]float64 // ranges of the chart
	left, top, right, bottom, width float64    // margins, in pixels
	height                          float64
	down                            bool // y grows downwards: the first name on top
}

func (c *canvas) print(format string, a ...any) { fmt.Fprintf(c, format, a...) }

func (c *canvas) X(v float64) float64 {
	return c.left + (v-c.x[0])/(c.x[1]-c.x[0])*(c.width-c.left-c.right)
}

func (c *canvas) Y(v float64) float64 {
	if c.down {
		v = c.y[0] + c.y[1] - v
	}
	return c.height - c.bottom - (v-c.y[0])/(c.y[1]-c.y[0])*(c.height-c.top-c.bottom)
}

// SVG draws the chart. Colours are classes, which the page's style gives, light and
// dark; alone adds a style of its own, and title and legend, which the page has beside it.
func (c *Chart) SVG(alone bool) string {
	d := &canvas{left: 56, top: 12, right: 16, bottom: 44, width: chartWidth, height: chartHeight, down: len(c.Names) > 0}
	d.x, d.y = c.bounds()
	if alone {
		d.top += headHeight
		d.height += headHeight
	}
	if n := len(c.Names); n > 0 {
		long := 0
		for _, s := range c.Names {
			long = max(long, len([]rune(s)))
		}
		d.left = min(260, 16+6.6*float64(long))
		d.height = d.top + d.bottom + 20*float64(max(n, 3))
	}
	d.print(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" role="img" aria-label="%s" class="chart">`, chartWidth, d.height, html.EscapeString(c.Title))
	if alone {
		d.print("<style>%s</style><rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>", svgStyle)
		c.head(d)
	}
	c.axes(d)
	for k := range c.Series {
		d.series(&c.Series[k], c.class(k))
	}
	d.print("</svg>")
	return d.String()
}

// headHeight is what title and legend take.
const headHeight = 36

// head writes the title, and below it the names of the series.
func (c *Chart) head(d *canvas) {
	d.print(`<text class="label" x="%d" y="18" text-anchor="middle">%s</text>`, chartWidth/2, html.EscapeString(c.Title))
	x := d.left
	for _, k := range c.Legend() {
		d.print(`<rect class="%s key" x="%.1f" y="29" width="10" height="10"/><text class="tick" x="%.1f" y="38">%s</text>`, k.Class, x, x+15, html.EscapeString(k.Label))
		x += 33 + 6.6*float64(len([]rune(k.Label)))
	}
}

// axes draws the grid, what is written at it, and the labels.
func (c *Chart) axes(d *canvas) {
	left, right, top, bottom := d.left, d.width-d.right, d.top, d.height-d.bottom
	for _, t := range ticks(d.x[0], d.x[1], 7) {
		d.print(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, d.X(t), d.X(t), top, bottom, d.X(t), bottom+16, Short(t))
	}
	if len(c.Names) == 0 {
		for _, t := range ticks(d.y[0], d.y[1], 6) {
			d.print(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, left, right, d.Y(t), d.Y(t), left-6, d.Y(t)+4, Short(t))
		}
	}
	for i, s := range c.Names {
		if r := []rune(s); len(r) > 38 {
			s = string(r[:37]) + "…"
		}
		d.print(`<text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, left-8, d.Y(float64(i))+4, html.EscapeString(s))
	}
	d.print(`<text class="label" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, left+(right-left)/2, d.height-8, html.EscapeString(c.XLabel))
	if c.YLabel != "" {
		d.print(`<text class="label" transform="translate(14 %.1f) rotate(-90)" text-anchor="middle">%s</text>`, top+(bottom-top)/2, html.EscapeString(c.YLabel))
	}
}

// series draws one series in the colour of a class.
func (d *canvas) series(s *Series, class string) {
	tip := func(i int) string {
		if i < len(s.Tip) {
			return "<title>" + html.EscapeString(s.Tip[i]) + "</title>"
		}
		return ""
	}
	line := func(x1, x2, y1, y2 float64) {
		d.print(`<line class="%s line" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, class, x1, x2, y1, y2)
	}
	dot := func(i int) {
		d.print(`<circle class="%s dot" cx="%.1f" cy="%.1f" r="4">%s</circle>`, class, d.X(s.X[i]), d.Y(s.Y[i]), tip(i))
	}
	switch s.Kind {
	case "line", "reference":
		d.print(`<polyline class="%s line" points="`, class)
		for i := range s.X {
			d.print("%.1f,%.1f ", d.X(s.X[i]), d.Y(s.Y[i]))
		}
		d.print(`"/>`)
	case "band":
		d.print(`<polygon class="%s band" points="`, class)
		for i := range s.X {
			d.print("%.1f,%.1f ", d.X(s.X[i]), d.Y(s.Hi[i]))
		}
		for i := len(s.X) - 1; i >= 0; i-- {
			d.print("%.1f,%.1f ", d.X(s.X[i]), d.Y(s.Lo[i]))
		}
		d.print(`"/>`)
	case "points":
		for i := range s.X {
			if i < len(s.Lo) {
				line(d.X(s.X[i]), d.X(s.X[i]), d.Y(s.Lo[i]), d.Y(s.Hi[i]))
			}
			dot(i)
		}
	case "interval":
		for i := range s.X {
			line(d.X(s.Lo[i]), d.X(s.Hi[i]), d.Y(s.Y[i]), d.Y(s.Y[i]))
			dot(i)
		}
	}
}

// class is the colour of series k.
func (c *Chart) class(k int) string {
	if c.Series[k].Kind == "reference" {
		return "ref"
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
	b.WriteString(`text{font:12px system-ui,sans-serif;fill:#444}.grid{stroke:#e3e6ea}.line{fill:none;stroke-width:2}.ref{stroke:#888;stroke-dasharray:5 4}.band{opacity:.18;stroke:none}.ref.key{fill:#888}`)
	for i, c := range Palette {
		fmt.Fprintf(&b, `.s%d{stroke:%s}.s%d.dot,.s%d.band,.s%d.key{fill:%s}`, i, c, i, i, i, c)
	}
	return b.String()
}()
